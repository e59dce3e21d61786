"""Who may do what: the roles, against the privilege registry of DMTF."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from bmcsim.machine.roles import PREDEFINED
from bmcsim.redfish.privileges import RIGHTS, Rights, rights_of
from bmcsim.tree.profile import Account, names
from tests.conftest import Client, basic, message_ids, tree_of
from tests.unit.redfish.conftest import (
    ACCOUNT_SERVICE,
    ACCOUNTS,
    MANAGER,
    OWN,
    PROTOCOL,
    ROLES,
    SESSION_SERVICE,
    SESSIONS,
    SYSTEM,
    as_edge,
    dpu_with,
    login,
)

SHARED = Path(os.environ.get("BMCSIM_SHARED", Path(__file__).resolve().parents[4] / "shared"))
REGISTRY = SHARED / "data" / "registries" / "Redfish_1.8.0_PrivilegeRegistry.json"

NOBODY = frozenset[str]()
READER = frozenset({"reader", "operator", "admin"})
COMPONENTS = frozenset({"operator", "admin"})
ADMIN = frozenset({"admin"})

# (method, path, body, who may): everybody else is refused with InsufficientPrivilege.
TABLE: list[tuple[str, str, Any, frozenset[str]]] = [
    ("GET", "/redfish/v1/Systems", None, READER),
    ("HEAD", SYSTEM, None, READER),
    ("GET", MANAGER, None, READER),
    ("GET", ACCOUNT_SERVICE, None, READER),
    ("GET", ACCOUNTS, None, READER),
    ("GET", ROLES + "/Administrator", None, READER),
    ("GET", SESSIONS, None, READER),
    ("GET", OWN, None, ADMIN),
    ("GET", ACCOUNTS + "/reader", None, frozenset({"reader", "admin"})),
    ("GET", ACCOUNTS + "/operator", None, COMPONENTS),
    ("PATCH", ACCOUNTS + "/reader", {"Password": "New-1"}, frozenset({"reader", "admin"})),
    ("PATCH", ACCOUNTS + "/reader", {"Password": "New-1", "@odata.id": "x"}, frozenset({"reader", "admin"})),
    ("PATCH", ACCOUNTS + "/reader", {"Password": "New-1", "RoleId": "Administrator"}, ADMIN),
    ("PATCH", ACCOUNTS + "/reader", {"RoleId": "Administrator"}, ADMIN),
    ("PATCH", ACCOUNTS + "/reader", {"Enabled": False}, ADMIN),
    ("PATCH", ACCOUNTS + "/operator", {"Password": "New-1"}, COMPONENTS),
    ("PATCH", OWN, {"Password": "New-1"}, ADMIN),
    ("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 3}, ADMIN),
    ("POST", ACCOUNTS, {"UserName": "x", "Password": "y", "RoleId": "Administrator"}, ADMIN),
    ("POST", ACCOUNTS + "/Members", {"UserName": "x", "Password": "y", "RoleId": "Administrator"}, ADMIN),
    ("DELETE", ACCOUNTS + "/reader", None, ADMIN),
    ("POST", ROLES, {"RoleId": "x", "AssignedPrivileges": ["Login"]}, ADMIN),
    ("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideEnabled": "Once"}}, COMPONENTS),
    ("POST", SYSTEM + "/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"}, COMPONENTS),
    ("POST", MANAGER + "/Actions/Manager.Reset", {}, ADMIN),
    ("POST", MANAGER + "/Actions/Manager.ResetToDefaults", {"ResetType": "ResetAll"}, ADMIN),
    ("PATCH", PROTOCOL, {"NTP": {"ProtocolEnabled": False}}, ADMIN),
    ("PATCH", SESSION_SERVICE, {"SessionTimeout": 60}, ADMIN),
    ("POST", SESSIONS, {"UserName": "reader", "Password": "reader"}, READER | {"outsider"}),
    ("GET", "/Injection/rules", None, READER | {"outsider"}),
    ("POST", "/Injection/rules", {"id": "x", "selector": {"OdataId": "/x"}, "action": "Close"}, ADMIN),
    # What is not there and what cannot be done is told to everybody who may log in.
    ("GET", "/redfish/v1/Nope", None, NOBODY),
]
USERS = {"admin": "Administrator", "operator": "Operator", "reader": "ReadOnly"}


def client_with_roles() -> Client:
    """A BMC with an account of each role, its password being its user name, and one without any privilege."""
    accounts = [Account("root", "root", "root")]
    client = dpu_with(password=None, accounts=accounts, factory_password_everywhere=True)
    client.authorization = basic("root", "root")
    assert client.request("POST", ROLES, {"RoleId": "None", "AssignedPrivileges": []}).status == 201
    for user, role in {**USERS, "outsider": "None"}.items():
        body = {"UserName": user, "Password": user, "RoleId": role}
        assert client.request("POST", ACCOUNTS, body).status == 201
    return client


@pytest.mark.parametrize("by", ["Basic", "token"])
@pytest.mark.parametrize("user", [*USERS, "outsider"])
@pytest.mark.parametrize(("method", "path", "body", "who"), TABLE)
def test_who_may_do_what(method: str, path: str, body: Any, who: frozenset[str], user: str, by: str) -> None:
    client = client_with_roles()
    if by == "token" and user != "outsider":
        fields = {"authorization": b"", "token": login(client, user, user)[0]}
    else:
        fields = {"authorization": basic(user, user)}
    response = client.request(method, path, body, **fields)
    if path.endswith("/Nope"):
        assert response.status == 404
    elif user in who:
        assert response.status < 300, response.body
    else:
        assert (response.status, message_ids(response)) == (403, ["InsufficientPrivilege"])


@pytest.mark.parametrize("user", ["reader", "operator"])
def test_a_refused_write_changes_nothing(user: str) -> None:
    client = client_with_roles()
    client.bmc.committed()
    before = client.bmc.state
    for method, path, body, who in TABLE:
        if user not in who and method not in ("GET", "HEAD"):
            client.request(method, path, body, authorization=basic(user, user))
    assert client.bmc.state == before


def test_a_session_is_its_owner_s_and_the_manager_s() -> None:
    client = client_with_roles()
    token, own = login(client, "reader", "reader")
    _, other = login(client, "operator", "operator")
    mine = {"authorization": b"", "token": token}
    for method in ("GET", "DELETE"):
        refused = client.request(method, other, **mine)
        assert (refused.status, message_ids(refused)) == (403, ["InsufficientPrivilege"])
    assert client.request("GET", own, **mine).status == 200
    assert client.request("DELETE", own, **mine).status == 204
    assert client.request("DELETE", other, authorization=basic("admin", "admin")).status == 204


def test_who_may_not_log_in_gets_no_session() -> None:
    client = client_with_roles()
    refused = client.request("POST", SESSIONS, {"UserName": "outsider", "Password": "outsider"}, authorization=b"")
    assert (refused.status, message_ids(refused)) == (403, ["InsufficientPrivilege"])
    assert client.get(SESSIONS)["Members@odata.count"] == 0


@pytest.mark.parametrize("user", [*USERS, "outsider"])
def test_the_short_way_shows_nothing_more(user: str) -> None:
    client = client_with_roles()
    for path in [*client.bmc.tree.nodes, OWN, f"{ACCOUNTS}/{user}"]:
        slow = client.request("GET", path, authorization=basic(user, user)).status
        fast = [as_edge(client, "GET", path, authorization=basic(user, user)).status for _ in range(2)]
        assert fast == [slow] * 2, path


def test_only_who_may_read_everything_is_remembered() -> None:
    client = client_with_roles()
    for user in (*USERS, "outsider"):
        as_edge(client, "GET", SYSTEM, authorization=basic(user, user))
        remembered = client.bmc.basic_account
        assert (remembered is not None and remembered.user == user) == (user == "admin")


@pytest.mark.parametrize(("user", "seen"), [("admin", 5), ("operator", 1), ("reader", 1)])
def test_expanding_shows_the_accounts_and_sessions_that_a_direct_read_would(user: str, seen: int) -> None:
    client = client_with_roles()
    for one in USERS:
        login(client, one, one)
    mine = {"authorization": basic(user, user)}
    accounts = client.get(ACCOUNTS + "?$expand=.", **mine)["Members"]
    shown = [one["UserName"] for one in accounts if "UserName" in one]
    assert len(accounts) == 5
    assert len(shown) == seen
    assert user in shown
    sessions = [one for one in client.get(SESSIONS + "?$expand=.", **mine)["Members"] if "UserName" in one]
    assert len(sessions) == (3 if user == "admin" else 1)


# the registry


def registry() -> dict[str, dict[str, Any]]:
    """Type -> mapping."""
    if not REGISTRY.is_file():
        pytest.skip("the registry is not beside this checkout")
    return {one["Entity"]: one for one in orjson.loads(REGISTRY.read_bytes())["Mappings"]}


def alternatives(operations: dict[str, Any], method: str) -> set[str]:
    """Privileges of which one is enough."""
    return {privilege for one in operations[method] for privilege in one["Privilege"]}


def test_the_table_says_what_the_registry_says() -> None:
    """Every type of the registry, except the session collection, whose POST is the login, and the open root."""
    for entity, mapping in registry().items():
        operations = mapping["OperationMap"]
        known = RIGHTS.get(entity) or RIGHTS.get(entity.removesuffix("Collection")) or Rights()
        if entity in ("SessionCollection", "ServiceRoot"):
            continue
        assert set(known.read) == alternatives(operations, "GET"), entity
        assert set(known.write) == alternatives(operations, "DELETE"), entity


def test_the_table_has_no_type_that_the_registry_does_not_have() -> None:
    known = registry()
    assert not [name for name in RIGHTS if name.partition(" in ")[0] not in {*known, ""}]


@pytest.mark.parametrize("profile", names())
def test_every_resource_of_a_manager_needs_its_manager(profile: str) -> None:
    """Whatever a vendor's own type is called: below Managers nothing is an operator's to write."""
    tree = tree_of(profile)
    for node in (*tree.nodes.values(), *tree.items.values()):
        operator = set(PREDEFINED["Operator"].privileges) - {"ConfigureSelf"}
        if node.uri.startswith("/redfish/v1/Managers"):
            assert not operator & set(rights_of(node).write), node.uri
        of_the_manager = "/VirtualMedia" in node.uri or node.type.startswith("ActionInfo.")
        if node.uri.startswith("/redfish/v1/Systems") and not of_the_manager:
            assert operator & set(rights_of(node).write), node.uri
