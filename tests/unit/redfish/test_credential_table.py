"""What each generation of credentials opens, and that none outlives what was done to it by a single request."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.conftest import PASSWORD, Client, basic, make_client
from tests.unit.redfish.conftest import (
    ACCOUNT_SERVICE,
    ACCOUNTS,
    FACTORY,
    MANAGER,
    OWN,
    ROLES,
    SESSIONS,
    SYSTEM,
    as_edge,
    login,
)

RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
Credentials = tuple[str, str] | None


def fresh(_client: Client) -> Credentials:
    return "root", FACTORY


def ann(client: Client, **facts: Any) -> Credentials:
    """Another account."""
    body = {"UserName": "ann", "Password": "Secret-1", "RoleId": "Administrator", **facts}
    assert client.request("POST", ACCOUNTS, body).status == 201
    return "ann", "Secret-1"


def rotated(client: Client, password: str) -> Credentials:
    """root after a change of its password, seen with one password."""
    assert client.request("PATCH", OWN, {"Password": "Current-1"}).status == 204
    return "root", password


def pinned(client: Client) -> Credentials:
    """root with a pinned password after a change and a reset of the BMC."""
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, policy="pinned")
    rotated(client, "")
    client.driver.execute(client.bmc, client.bmc.reset_bmc(client.clock.now()))
    client.advance(91)
    return "root", PASSWORD


def after(change: dict[str, Any] | None) -> Callable[[Client], Credentials]:
    """ann after a change, or deleted."""

    def prepare(client: Client) -> Credentials:
        credentials = ann(client)
        method = "DELETE" if change is None else "PATCH"
        assert client.request(method, f"{ACCOUNTS}/ann", change).status == 204
        return credentials

    return prepare


def locked(client: Client) -> Credentials:
    client.request("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 1, "AccountLockoutDuration": 60})
    credentials = ann(client)
    assert client.request("GET", SYSTEM, authorization=basic("ann", "wrong")).status == 401
    return credentials


GENERATIONS: dict[str, Callable[[Client], Credentials]] = {
    "factory": fresh,
    "factory, rotated": lambda client: rotated(client, FACTORY),
    "previous": lambda client: rotated(client, PASSWORD),
    "current": lambda client: rotated(client, "Current-1"),
    "pinned": pinned,
    "unknown": lambda _: ("nobody", PASSWORD),
    "wrong": lambda _: ("root", "wrong"),
    "none": lambda _: None,
    "deleted": after(None),
    "disabled": after({"Enabled": False}),
    "locked": locked,
    "expired": after({"PasswordExpiration": "2000-01-01T00:00:00Z"}),
    "to change": after({"PasswordChangeRequired": True}),
    "operator": after({"RoleId": "Operator"}),
    "read-only": after({"RoleId": "ReadOnly"}),
}

TABLE = """
                  root  service  own  other  systems  action  sessions  login  password
factory           200   200      200  200    403      403     403       201    204
factory, rotated  200   401      401  401    401      401     401       401    401
previous          200   401      401  401    401      401     401       401    401
current           200   200      200  200    200      204     200       201    204
pinned            200   200      200  200    200      204     200       201    204
unknown           200   401      401  401    401      401     401       401    401
wrong             200   401      401  401    401      401     401       401    401
none              200   401      401  401    401      401     401       401    401
deleted           200   401      401  401    401      401     401       401    401
disabled          200   401      401  401    401      401     401       401    401
locked            200   401      401  401    401      401     401       401    401
expired           200   403      200  403    403      403     403       201    204
to change         200   403      200  403    403      403     403       201    204
operator          200   200      200  403    200      204     200       201    204
read-only         200   200      200  403    200      403     200       201    204
"""


def cells() -> list[tuple[str, str, int]]:
    """(generation, path, status)."""
    head, *rows = [line.rstrip() for line in TABLE.strip("\n").split("\n")]
    found = []
    for row in rows:
        statuses = row[18:].split()
        found += [(row[:18].strip(), path, int(status)) for path, status in zip(head.split(), statuses, strict=True)]
    return found


def request_of(path: str, user: str, password: str) -> tuple[str, str, Any]:
    """Method, URI and body of a column."""
    own, other = (f"{ACCOUNTS}/ann", OWN) if user == "ann" else (OWN, f"{ACCOUNTS}/other")
    return {
        "root": ("GET", "/redfish/v1/", None),
        "service": ("GET", ACCOUNT_SERVICE, None),
        "own": ("GET", own, None),
        "other": ("GET", other, None),
        "systems": ("GET", "/redfish/v1/Systems", None),
        "action": ("POST", RESET, {"ResetType": "ForceRestart"}),
        "sessions": ("GET", SESSIONS, None),
        "login": ("POST", SESSIONS, {"UserName": user, "Password": password}),
        "password": ("PATCH", own, {"Password": "Another-1"}),
    }[path]


@pytest.mark.parametrize(("generation", "path", "status"), cells())
def test_what_a_generation_of_credentials_opens(generation: str, path: str, status: int) -> None:
    client = make_client("bluefield3", password=None if generation == "factory" else PASSWORD)
    client.bmc.become(client.clock.now(), accounts=client.bmc.accounts.adding(other_account(client)))
    credentials = GENERATIONS[generation](client)
    user, password = credentials or ("nobody", "")
    method, uri, body = request_of(path, user, password)
    header = basic(user, password) if credentials is not None and path != "login" else b""
    if method == "GET":
        assert [as_edge(client, method, uri, authorization=header).status for _ in range(3)] == [status] * 3
    assert client.request(method, uri, body, authorization=header).status == status


def other_account(client: Client) -> Any:
    """An account that is nobody's in the table."""
    root = client.bmc.accounts.accounts[0]
    return msgspec.structs.replace(root, id="other", user="other", role="ReadOnly", digest=b"", factory=b"x")


# two clients, over and over


class Connection:
    """What a client sends: a Basic field and a token, as they were when it got them."""

    def __init__(self) -> None:
        self.password: str | None = None
        self.token: bytes | None = None
        self.life = 0


class TwoConnections(RuleBasedStateMachine):
    """Whatever is done to an account, both of its credentials in both clients tell it on the very next request."""

    def __init__(self) -> None:
        super().__init__()
        self.client = make_client("bluefield3")
        self.enter()
        self.connections = [Connection(), Connection()]
        self.passwords = 0
        # What ann is: None while there is no account. life: changes whenever her sessions end.
        self.password: str | None = None
        self.role, self.enabled, self.locked, self.life = "", True, False, 0

    def enter(self) -> None:
        """root logs in, so that its header does not take the place of a remembered one, and makes a role."""
        self.root, _ = login(self.client)
        if "None" not in self.client.bmc.roles:
            self.admin("POST", ROLES, {"RoleId": "None", "AssignedPrivileges": ["ConfigureSelf"]}, 201)

    def admin(self, method: str, path: str, body: Any = None, status: int = 204) -> None:
        """Something that root does."""
        response = self.client.request(method, path, body, authorization=b"", token=self.root)
        assert response.status == status, response.body

    def new_password(self) -> str:
        self.passwords += 1
        return f"Secret-{self.passwords}"

    @initialize()
    def begin(self) -> None:
        self.create("Administrator")

    @rule(role=st.sampled_from(["Administrator", "Operator", "ReadOnly", "None"]))
    @precondition(lambda self: self.password is None)
    def create(self, role: str) -> None:
        self.password, self.role, self.enabled, self.locked = self.new_password(), role, True, False
        body = {"UserName": "ann", "Password": self.password, "RoleId": role}
        self.admin("POST", ACCOUNTS, body, 201)

    @rule(number=st.integers(0, 1))
    @precondition(lambda self: self.password is not None)
    def take_the_password(self, number: int) -> None:
        self.connections[number].password = self.password

    @rule(number=st.integers(0, 1))
    @precondition(lambda self: self.password and self.enabled and not self.locked and self.role != "None")
    def log_in(self, number: int) -> None:
        connection = self.connections[number]
        connection.token, _ = login(self.client, "ann", self.password or "")
        connection.life = self.life

    @rule()
    @precondition(lambda self: self.password is not None)
    def rotate(self) -> None:
        self.password = self.new_password()
        self.admin("PATCH", f"{ACCOUNTS}/ann", {"Password": self.password})

    @rule(role=st.sampled_from(["Administrator", "Operator", "ReadOnly", "None"]))
    @precondition(lambda self: self.password is not None)
    def change_the_role(self, role: str) -> None:
        self.role = role
        self.admin("PATCH", f"{ACCOUNTS}/ann", {"RoleId": role})

    @rule(enabled=st.booleans())
    @precondition(lambda self: self.password is not None)
    def enable(self, enabled: bool) -> None:
        self.enabled = enabled
        self.life += not enabled
        self.admin("PATCH", f"{ACCOUNTS}/ann", {"Enabled": enabled})

    @rule()
    @precondition(lambda self: self.password is not None)
    def disable_for_a_moment(self) -> None:
        self.enable(False)
        self.every_credential_tells_what_was_done()
        self.enable(True)

    @rule(role=st.sampled_from(["Administrator", "Operator"]))
    @precondition(lambda self: self.password is not None)
    def replace(self, role: str) -> None:
        """Another account of the same name, and so of the same id."""
        self.delete()
        self.create(role)

    @rule()
    @precondition(lambda self: self.password and self.enabled and not self.locked)
    def lock(self) -> None:
        self.locked = True
        self.admin("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 1, "AccountLockoutDuration": 60})
        assert self.client.request("GET", SYSTEM, authorization=basic("ann", "wrong")).status == 401

    @rule()
    @precondition(lambda self: self.locked)
    def unlock(self) -> None:
        self.locked = False
        self.admin("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 0})
        self.admin("PATCH", f"{ACCOUNTS}/ann", {"Locked": False})

    @rule()
    @precondition(lambda self: self.password is not None)
    def delete(self) -> None:
        self.admin("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 0})
        self.admin("DELETE", f"{ACCOUNTS}/ann")
        self.password, self.locked = None, False
        self.life += 1

    @rule()
    def reset_the_bmc(self) -> None:
        self.admin("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 0})
        self.admin("POST", MANAGER + "/Actions/Manager.Reset", {})
        self.client.advance(91)
        self.locked = False
        self.life += 1
        self.enter()

    @rule()
    def reset_to_factory(self) -> None:
        self.admin("POST", MANAGER + "/Actions/Manager.ResetToDefaults", {"ResetType": "ResetAll"})
        self.client.advance(91)
        self.password, self.locked = None, False
        self.life += 1
        assert self.client.request("GET", SYSTEM).status == 401
        self.client.bmc.set_password("root", PASSWORD, self.client.clock.now())
        self.enter()

    @rule(number=st.integers(0, 1), times=st.integers(1, 3))
    def ask_the_short_way(self, number: int, times: int) -> None:
        """So that a header is remembered."""
        for _ in range(times):
            self.check(self.connections[number], as_edge)

    def by_password(self, connection: Connection) -> int:
        """The status that a client gets with its Basic field."""
        if self.password is None or connection.password != self.password or not self.enabled or self.locked:
            return 401
        return 403 if self.role == "None" else 200

    def by_token(self, connection: Connection) -> int:
        """The status that a client gets with its token."""
        if self.password is None or connection.token is None or connection.life != self.life or not self.enabled:
            return 401
        return 403 if self.role == "None" else 200

    def check(self, connection: Connection, ask: Callable[..., Any]) -> None:
        """A client's credentials open what they should, one after the other."""
        if connection.password is not None:
            header = basic("ann", connection.password)
            assert ask(self.client, "GET", SYSTEM, authorization=header).status == self.by_password(connection)
        if connection.token is not None:
            assert self.ask_by_token(connection, ask) == self.by_token(connection)

    def ask_by_token(self, connection: Connection, ask: Callable[..., Any]) -> int:
        """The status of a GET with a client's token."""
        if ask is as_edge:
            return int(as_edge(self.client, "GET", SYSTEM, x_auth_token=connection.token or b"").status)
        return int(ask(self.client, "GET", SYSTEM, authorization=b"", token=connection.token).status)

    @invariant()
    def every_credential_tells_what_was_done(self) -> None:
        for connection in self.connections:
            for ask in (as_edge, Client.request):
                self.check(connection, ask)


TwoConnections.TestCase.settings = settings(deadline=None, max_examples=80, stateful_step_count=50)
TestTwoConnections = TwoConnections.TestCase
