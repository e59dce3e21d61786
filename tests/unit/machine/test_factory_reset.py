"""What a factory reset takes back, and what becomes of credentials when a BMC or the process starts."""

from typing import Any

import msgspec
import pytest

from bmcsim.machine.actions import DropSessions, Happened, Happening
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.resources import started
from bmcsim.machine.state import Staged
from tests.conftest import PASSWORD, Client, basic, make_client

ACCOUNTS = "/redfish/v1/AccountService/Accounts"
OWN = ACCOUNTS + "/root"
IDRAC = "/redfish/v1/Managers/iDRAC.Embedded.1"
LOG = IDRAC + "/LogServices/Lclog/Entries"
SESSION_SERVICE = "/redfish/v1/SessionService"
PROTOCOL = IDRAC + "/NetworkProtocol"
NTP = {"NTP": {"ProtocolEnabled": False}}
FACTORY = "factory_password"


def r750(policy: str = "persist", password: str | None = PASSWORD) -> Client:
    """An R750 that began with a password, None for the factory's, and has since been used."""
    client = make_client("dell_poweredge_r750", password=password)
    bmc, now = client.bmc, client.clock.now()
    bmc.shared = msgspec.structs.replace(bmc.shared, policy=policy)
    bmc.set_password("root", "Used-1", now)
    client.authorization = basic("root", "Used-1")
    for method, path, body in (
        ("POST", ACCOUNTS, {"UserName": "ann", "Password": "Secret-1", "RoleId": "ReadOnly"}),
        ("POST", "/redfish/v1/AccountService/Roles", {"RoleId": "Own", "AssignedPrivileges": ["Login"]}),
        ("PATCH", SESSION_SERVICE, {"SessionTimeout": 60}),
        ("PATCH", PROTOCOL, NTP),
        ("POST", "/redfish/v1/SessionService/Sessions", {"UserName": "root", "Password": "Used-1"}),
    ):
        assert client.request(method, path, body).status < 300, path
    waiting = Staged("x", Happening.SYSTEM_RESET, SESSION_SERVICE, {"SessionTimeout": 90})
    bmc.become(now, staged=(waiting,))
    return client


def opens(client: Client, *passwords: str) -> list[int]:
    """The statuses that root's passwords are answered with."""
    return [client.request("GET", SESSION_SERVICE, authorization=basic("root", one)).status for one in passwords]


def reset(client: Client, kind: str) -> None:
    """A factory reset and the reset of the BMC after it."""
    response = client.request("POST", f"{IDRAC}/Actions/Manager.ResetToDefaults", {"ResetType": kind})
    assert response.status == 204, response.body
    client.advance(91)


KINDS: list[tuple[str, bool, bool]] = [
    ("ResetAll", False, False),
    ("PreserveNetworkAndUsers", True, True),
    ("PreserveNetwork", False, True),
]


@pytest.mark.parametrize(("kind", "users", "network"), KINDS)
def test_what_is_left_after_a_factory_reset(kind: Any, users: bool, network: bool) -> None:
    client = r750()
    client.driver.execute(client.bmc, client.bmc.factory_reset(kind, client.clock.now()))
    client.advance(91)
    bmc = client.bmc
    assert opens(client, "Used-1", FACTORY) == ([200, 401] if users else [401, 403])
    assert bmc.accounts.ids() == (["root", "1"] if users else ["root"])
    assert list(bmc.roles)[3:] == (["Own"] if users else [])
    assert bmc.setting(SESSION_SERVICE, "SessionTimeout") == 1800
    assert bmc.setting(PROTOCOL, "NTP")["ProtocolEnabled"] is not network
    assert bmc.state.staged == ()
    assert bmc.live_sessions(client.clock.now()) == {}
    assert [record.message_id.rpartition(".")[2] for record in bmc.log(LOG)] == ["RAC0801", "RAC0182"]
    assert bmc.state.service is Service.UP


def test_a_factory_reset_is_told_and_a_reset_of_the_bmc_follows() -> None:
    client = r750()
    actions = client.bmc.factory_reset("ResetAll", client.clock.now())
    kinds = [one.what if isinstance(one, Happened) else one for one in actions]
    assert kinds == [Happening.FACTORY_RESET, Happening.BMC_RESETTING, DropSessions()]
    assert client.bmc.state.service is Service.RESETTING


@pytest.mark.parametrize("password", [None, PASSWORD])
def test_bmcs_that_are_as_the_factory_made_them_share_their_accounts(password: str | None) -> None:
    client = r750(password=password)
    client.bmc.factory_reset("ResetAll", client.clock.now())
    assert (client.bmc.accounts is client.bmc.shared.accounts) == (password is None)


def test_the_host_s_own_settings_and_power_are_not_the_manager_s_to_reset() -> None:
    client = r750()
    bmc, now = client.bmc, client.clock.now()
    bios = next(node for node in bmc.tree.nodes.values() if node.type.startswith("Bios."))
    bmc.change(bios, {"Attributes": {"SetBootOrderEn": "Elsewhere"}}, now)
    bmc.factory_reset("ResetAll", now)
    assert bmc.setting(bios.uri, "Attributes")["SetBootOrderEn"] == "Elsewhere"
    assert bmc.power.shown == "On"


POLICIES = [
    # policy, password that it began with, root's passwords after a reset of the BMC and after a start of the process
    ("persist", PASSWORD, "Used-1", "Used-1"),
    ("persist", None, "Used-1", "Used-1"),
    ("factory", PASSWORD, FACTORY, PASSWORD),
    ("factory", None, FACTORY, FACTORY),
    ("pinned", PASSWORD, PASSWORD, PASSWORD),
    ("pinned", None, FACTORY, FACTORY),
]


@pytest.mark.parametrize(("policy", "began", "after_reset", "_after_start"), POLICIES)
def test_passwords_after_a_reset_of_the_bmc(
    policy: str, began: str | None, after_reset: str, _after_start: str
) -> None:
    client = r750(policy, began)
    client.driver.execute(client.bmc, client.bmc.reset_bmc(client.clock.now()))
    client.advance(91)
    everything = ("Used-1", PASSWORD, FACTORY)
    assert [one for one, found in zip(everything, opens(client, *everything), strict=True) if found != 401] == [
        after_reset
    ]
    assert client.bmc.accounts.ids() == ["root", "1"]
    assert client.bmc.setting(SESSION_SERVICE, "SessionTimeout") == 60


@pytest.mark.parametrize(("policy", "began", "_after_reset", "after_start"), POLICIES)
def test_passwords_after_a_start_of_the_process(
    policy: str, began: str | None, _after_reset: str, after_start: str
) -> None:
    client = r750(policy, began)
    before = client.bmc.state
    after = started(before, client.bmc.shared)
    digest = client.bmc.shared.hasher.digest(after_start)
    assert after.accounts.authenticate("root", digest) is not None
    assert msgspec.structs.replace(after, accounts=before.accounts) == before


@pytest.mark.parametrize("kind", ["ResetAll", "PreserveNetworkAndUsers"])
def test_a_pinned_password_is_back_at_the_end_of_a_factory_reset(kind: str) -> None:
    client = r750("pinned")
    reset(client, kind)
    assert opens(client, PASSWORD, "Used-1", FACTORY) == [200, 401, 401]


def test_a_factory_reset_can_be_undone() -> None:
    client = r750()
    client.bmc.committed()
    before = client.bmc.state
    client.bmc.factory_reset("ResetAll", client.clock.now())
    client.bmc.restore(before)
    assert client.request("GET", SESSION_SERVICE).status == 200
    assert client.bmc.setting(SESSION_SERVICE, "SessionTimeout") == 60


@pytest.mark.parametrize(
    ("profile", "offered"),
    [("dell_poweredge_r750", ["ResetAll", "PreserveNetworkAndUsers"]), ("bluefield3", ["ResetAll"])],
)
def test_a_client_is_told_the_kinds_that_the_hardware_has(profile: str, offered: list[str]) -> None:
    client = make_client(profile)
    action = client.get(client.bmc.tree.head.roles.manager)["Actions"]["#Manager.ResetToDefaults"]
    assert action["ResetType@Redfish.AllowableValues"] == offered
    for body in (None, {}, {"ResetType": "PreserveNetwork"}, {"ResetType": 5}):
        assert client.request("POST", action["target"], body).status == 400
    assert client.bmc.plain
    assert client.request("POST", action["target"], {"ResetType": offered[-1]}).status == 204
    assert client.bmc.state.service is Service.RESETTING
