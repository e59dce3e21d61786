"""One BMC: its overlay, its sessions, and what a boot does to it."""

import gc
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.core.clock import Moment
from bmcsim.machine.actions import DropSessions, Happened, Happening
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.power import Event, Power
from bmcsim.machine.resources import timestamp
from bmcsim.machine.state import decode
from bmcsim.tree.compile import Node
from tests.conftest import Client, basic, make_client

SYSTEM = "/redfish/v1/Systems/Bluefield"
SETTINGS = SYSTEM + "/Settings"
PROTOCOL = "/redfish/v1/Managers/Bluefield_BMC/NetworkProtocol"


def node(client: Client, uri: str = PROTOCOL) -> Node:
    """A node of a client's tree."""
    return client.bmc.tree.nodes[uri]


def change(client: Client, changes: dict[str, Any], uri: str = PROTOCOL) -> None:
    """Change a resource, below the protocol."""
    client.bmc.change(node(client, uri), changes, client.clock.now())


def boot(client: Client, event: Event = Event.FORCE_RESTART) -> None:
    """Restart the system and wait until it runs again."""
    client.driver.execute(client.bmc, client.bmc.reset_system(event, client.clock.now()))
    client.advance(1000)


@pytest.mark.parametrize(
    ("wall", "text"),
    [
        (0.0, b'"1970-01-01T00:00:00+00:00"'),
        (1_767_225_599.999, b'"2025-12-31T23:59:59+00:00"'),
        (1_767_225_600.0, b'"2026-01-01T00:00:00+00:00"'),
    ],
)
def test_timestamps_have_the_form_that_nico_parses(wall: float, text: bytes) -> None:
    assert timestamp(wall) == text


# overlay


def test_an_untouched_bmc_has_no_overlay_and_shares_the_bodies_of_its_tree(dpu: Client) -> None:
    dpu.get(PROTOCOL)
    assert dpu.bmc.overlay is None
    assert dpu.bmc.body(node(dpu)) is node(dpu).body
    assert dpu.bmc.template(node(dpu)) is node(dpu).template


def test_a_change_shows_and_leaves_its_neighbours_alone(dpu: Client) -> None:
    before = dpu.get(PROTOCOL)
    change(dpu, {"NTP": {"ProtocolEnabled": False}, "HostName": "new"})
    after = dpu.get(PROTOCOL)
    assert after["NTP"] == {**before["NTP"], "ProtocolEnabled": False}
    assert after == {**before, "NTP": after["NTP"], "HostName": "new", "@odata.etag": after["@odata.etag"]}
    assert after["@odata.etag"] != before["@odata.etag"]


def test_changes_add_up(dpu: Client) -> None:
    change(dpu, {"NTP": {"ProtocolEnabled": False}})
    change(dpu, {"NTP": {"NTPServers": ["192.0.2.1"]}})
    change(dpu, {"IPMI": {"ProtocolEnabled": True}})
    shown = dpu.get(PROTOCOL)
    assert (shown["NTP"], shown["IPMI"]["ProtocolEnabled"]) == (
        {"ProtocolEnabled": False, "NTPServers": ["192.0.2.1"]},
        True,
    )


def test_what_equals_the_profile_again_is_forgotten(dpu: Client) -> None:
    before = dpu.get(PROTOCOL)
    change(dpu, {"NTP": {"ProtocolEnabled": False, "NTPServers": ["a"]}})
    change(dpu, {"NTP": {"NTPServers": []}})
    assert dpu.bmc.overlay
    change(dpu, {"NTP": {"ProtocolEnabled": True}})
    assert not dpu.bmc.overlay
    assert dpu.get(PROTOCOL) == before


def test_the_same_content_has_the_same_tag_however_it_came_about(dpu: Client) -> None:
    change(dpu, {"NTP": {"NTPServers": ["a"]}})
    first = dpu.get(PROTOCOL)["@odata.etag"]
    change(dpu, {"NTP": {"NTPServers": ["b"]}})
    change(dpu, {"NTP": {"NTPServers": ["a"]}})
    assert dpu.get(PROTOCOL)["@odata.etag"] == first


def test_a_change_shows_on_this_bmc_only_and_never_in_the_tree() -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1)
    template = orjson.dumps(node(one).template)
    before = other.get(PROTOCOL)
    change(one, {"NTP": {"NTPServers": ["192.0.2.1"], "ProtocolEnabled": False}, "HTTP": {"Port": 81}})
    assert other.get(PROTOCOL) == before
    assert orjson.dumps(node(one).template) == template
    change(other, {"HTTP": {"Port": 82}})
    assert (one.get(PROTOCOL)["HTTP"]["Port"], other.get(PROTOCOL)["HTTP"]["Port"]) == (81, 82)
    assert make_client("bluefield3", index=2).get(PROTOCOL)["HTTP"]["Port"] == before["HTTP"]["Port"]


def test_bmcs_with_the_same_changes_share_what_shows_them_for_as_long_as_they_have_them() -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1)
    variations = one.bmc.tree.variations
    assert one.bmc.tree is other.bmc.tree
    gc.collect()
    before = len(variations)
    for client in (one, other):
        change(client, {"NTP": {"NTPServers": ["192.0.2.1"]}})
        change(client, {"HTTP": {"Port": 81}})
    assert one.bmc.body(node(one)) is other.bmc.body(node(other))
    assert one.bmc.template(node(one)) is other.bmc.template(node(other))
    assert len(variations) == before + 1
    change(other, {"HTTP": {"Port": 82}})
    assert (one.get(PROTOCOL)["HTTP"]["Port"], other.get(PROTOCOL)["HTTP"]["Port"]) == (81, 82)
    assert one.get(PROTOCOL)["NTP"] == other.get(PROTOCOL)["NTP"]
    assert len(variations) == before + 2
    for client in (one, other):
        change(client, node(client).template)
        assert client.bmc.overlay is None
    assert len(variations) == before


@pytest.mark.parametrize(
    ("mine", "others"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0, None),
        (["a", "b"], ["b", "a"]),
        ("1", 1),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_changes_that_only_look_alike_are_shown_as_each_bmc_made_them(mine: Any, others: Any) -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1)
    change(one, {"Oem": {"Made": mine}})
    change(other, {"Oem": {"Made": others}})
    shown = [client.request("GET", PROTOCOL).body for client in (one, other)]
    assert [orjson.dumps(value) in text for value, text in zip((mine, others), shown, strict=True)] == [True, True]


def test_holes_of_a_changed_resource_are_still_filled(dpu: Client) -> None:
    change(dpu, {"Boot": {"BootSourceOverrideMode": "Legacy"}}, SYSTEM)
    dpu.bmc.become(dpu.clock.now(), power=Power.OFF)
    shown = dpu.get(SYSTEM)
    assert (shown["PowerState"], shown["SerialNumber"]) == ("Off", dpu.bmc.identity.serial)


@pytest.mark.parametrize("text", ["${serial}", "${nope}", "a${bmc.mac}b", "\0000\0", "\0tag\0", "%s", "{x}"])
def test_what_a_client_wrote_is_shown_as_it_was_written(dpu: Client, text: str) -> None:
    change(dpu, {"NTP": {"NTPServers": [text]}})
    assert dpu.get(PROTOCOL)["NTP"]["NTPServers"] == [text]
    change(dpu, {"HostName": text})
    assert dpu.get(PROTOCOL)["NTP"]["NTPServers"] == [text]


def test_settings_are_read_through_the_overlay(dpu: Client) -> None:
    uri = "/redfish/v1/SessionService"
    assert (dpu.bmc.setting(uri, "SessionTimeout"), dpu.bmc.session_timeout) == (1800, 1800.0)
    change(dpu, {"SessionTimeout": 60}, uri)
    assert (dpu.bmc.setting(uri, "SessionTimeout"), dpu.bmc.session_timeout) == (60, 60.0)
    assert dpu.bmc.setting(uri, "Nope") is None
    assert dpu.bmc.setting("/redfish/v1/Nope", "X") is None


def test_the_session_timeout_of_the_bmc_applies_to_its_sessions(dpu: Client) -> None:
    account = dpu.bmc.accounts.get("root")
    assert account is not None
    change(dpu, {"SessionTimeout": 60}, "/redfish/v1/SessionService")
    dpu.bmc.open_session(account, dpu.clock.now())
    dpu.advance(60)
    assert len(dpu.bmc.live_sessions(dpu.clock.now())) == 1
    dpu.advance(1)
    assert len(dpu.bmc.live_sessions(dpu.clock.now())) == 0


# boot


@pytest.mark.parametrize("event", [Event.FORCE_RESTART, Event.GRACEFUL_RESTART, Event.POWER_CYCLE])
def test_an_override_for_one_boot_is_over_when_the_system_runs_again(dpu: Client, event: Event) -> None:
    change(dpu, {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}, SYSTEM)
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_system(event, dpu.clock.now()))
    total = dpu.bmc.shared.timings.power_off_force + dpu.bmc.shared.timings.reboot
    while dpu.bmc.power is not Power.RUNNING or dpu.clock.now().mono == 0:
        boot_ = dpu.get(SYSTEM)["Boot"]
        assert (boot_["BootSourceOverrideEnabled"], boot_["BootSourceOverrideTarget"]) == ("Once", "Pxe")
        dpu.advance(1)
        assert dpu.clock.now().mono < total + 10
    after = dpu.get(SYSTEM)["Boot"]
    assert (after["BootSourceOverrideEnabled"], after["BootSourceOverrideTarget"]) == ("Disabled", "None")


def test_an_override_for_every_boot_stays(dpu: Client) -> None:
    change(dpu, {"Boot": {"BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideTarget": "Hdd"}}, SYSTEM)
    boot(dpu)
    boot_ = dpu.get(SYSTEM)["Boot"]
    assert (boot_["BootSourceOverrideEnabled"], boot_["BootSourceOverrideTarget"]) == ("Continuous", "Hdd")


def test_the_settings_resource_forgets_the_override_with_the_system(dpu: Client) -> None:
    changes = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "UefiHttp"}}
    assert dpu.request("PATCH", SETTINGS, changes).status == 204
    assert dpu.get(SYSTEM)["Boot"]["BootSourceOverrideTarget"] == "UefiHttp"
    boot(dpu)
    for uri in (SYSTEM, SETTINGS):
        assert dpu.get(uri)["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
        assert dpu.get(uri)["Boot"]["BootSourceOverrideTarget"] == "None"


def test_a_boot_leaves_the_boot_order_alone(dpu: Client) -> None:
    changes = {"Boot": {"BootOrder": ["Boot0000", "Boot0040"], "BootSourceOverrideEnabled": "Once"}}
    assert dpu.request("PATCH", SETTINGS, changes).status == 204
    boot(dpu)
    assert dpu.get(SYSTEM)["Boot"]["BootOrder"] == ["Boot0000", "Boot0040"]


def test_the_system_remembers_when_it_was_last_reset(dpu: Client) -> None:
    before = dpu.get(SYSTEM)["LastResetTime"]
    dpu.advance(60)
    assert dpu.get(SYSTEM)["LastResetTime"] == before
    boot(dpu)
    assert dpu.get(SYSTEM)["LastResetTime"] == "2026-01-01T00:01:00+00:00"


# credentials


def test_a_password_is_changed_for_this_bmc_only() -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1)
    other.bmc.become(other.clock.now(), accounts=one.bmc.accounts)
    one.bmc.set_password("root", "new", one.clock.now())
    assert one.request("GET", SYSTEM).status == 401
    assert other.request("GET", SYSTEM).status == 200


def test_a_password_of_nobody_changes_nothing(dpu: Client) -> None:
    before = dpu.bmc.state
    dpu.bmc.set_password("nobody", "new", dpu.clock.now())
    assert dpu.bmc.state is before
    assert dpu.bmc.committed() is None


def test_a_remembered_password_is_forgotten_with_its_change_and_not_with_another(dpu: Client) -> None:
    dpu.get(SYSTEM)
    remembered = dpu.bmc.basic_header
    assert remembered
    change(dpu, {"HostName": "new"})
    boot(dpu)
    assert dpu.bmc.basic_header is remembered
    dpu.bmc.set_password("root", "new", dpu.clock.now())
    assert (dpu.bmc.basic_header, dpu.bmc.basic_account) == (b"", None)


def sessions_of(client: Client, *accounts: str) -> list[str]:
    """Ids of new sessions, one for each account."""
    root = client.bmc.accounts.get("root")
    assert root is not None
    opened = [msgspec.structs.replace(root, id=id_) for id_ in accounts]
    return [client.bmc.open_session(one, client.clock.now()).id for one in opened]


@pytest.mark.parametrize(
    ("which", "left"),
    [
        (DropSessions(), []),
        (DropSessions("root"), ["2"]),
        (DropSessions("root", keep="3"), ["2", "3"]),
        (DropSessions("other", keep="1"), ["1", "3"]),
        (DropSessions("nobody"), ["1", "2", "3"]),
    ],
)
def test_sessions_are_dropped_by_account_but_for_one(dpu: Client, which: DropSessions, left: list[str]) -> None:
    sessions_of(dpu, "root", "other", "root")
    dpu.driver.execute(dpu.bmc, [which])
    assert list(dpu.bmc.live_sessions(dpu.clock.now())) == left


def test_without_sessions_there_is_nothing_to_drop(dpu: Client) -> None:
    for which in (DropSessions(), DropSessions("root")):
        dpu.driver.execute(dpu.bmc, [which])
    assert dpu.bmc.sessions is None


# durable state


def test_bmcs_that_have_changed_nothing_share_their_state() -> None:
    one = make_client("bluefield3").bmc
    other = Bmc("other", one.identity, "192.0.2.99", one.shared, one.state)
    assert other.state is one.state
    other.become(Moment(0.0, 0.0), power=Power.OFF)
    assert (one.power, other.power) == (Power.RUNNING, Power.OFF)


def test_what_a_bmc_starts_with_shows(dpu: Client) -> None:
    initial = msgspec.structs.replace(dpu.bmc.state, changes={PROTOCOL: {"HostName": "given"}}, power=Power.OFF)
    client = Client(Bmc("x", dpu.bmc.identity, "192.0.2.1", dpu.bmc.shared, initial), dpu.clock)
    assert (client.get(PROTOCOL)["HostName"], client.get(SYSTEM)["PowerState"]) == ("given", "Off")
    assert client.bmc.committed() is None


def test_a_change_knows_when_it_was_and_what_was_before(dpu: Client) -> None:
    before = dpu.bmc.state
    assert dpu.bmc.committed() is None
    dpu.clock.skip(30)
    dpu.bmc.become(dpu.clock.now(), power=Power.OFF)
    dpu.advance(5)
    dpu.bmc.become(dpu.clock.now(), clock_ahead=1.0)
    assert (dpu.bmc.state.at, before.at) == (35, 0)
    assert dpu.bmc.uncommitted is before
    assert dpu.bmc.committed() is before
    assert dpu.bmc.committed() is None
    assert dpu.bmc.power is Power.OFF


def test_reading_changes_nothing(dpu: Client) -> None:
    before = dpu.bmc.state
    for uri in dpu.bmc.tree.nodes:
        dpu.get(uri)
        dpu.request("HEAD", uri)
        dpu.request("OPTIONS", uri)
        dpu.request("PATCH", uri, {"Nope": 1})
    assert dpu.bmc.state is before
    assert dpu.bmc.uncommitted is None


def test_the_row_of_a_bmc_says_whose_it_is(dpu: Client) -> None:
    dpu.bmc.become(dpu.clock.now(), power=Power.OFF)
    row = decode(dpu.bmc.encode())
    assert (row.mac, row.profile, row.state) == (dpu.bmc.identity.bmc_mac, "bluefield3", dpu.bmc.state)


def everything(client: Client) -> dict[str, bytes]:
    """URI -> answer of everything that is there."""
    answers = {uri: client.request("GET", uri) for uri in client.bmc.tree.nodes}
    assert {answer.status for answer in answers.values()} == {200}
    return {uri: answer.head + answer.body for uri, answer in answers.items()}


UNDONE: dict[str, Callable[[Client], Any]] = {
    "a setting": lambda client: change(client, {"NTP": {"NTPServers": ["192.0.2.9"]}, "HostName": "other"}),
    "a setting of another resource": lambda client: change(client, {"Boot": {"BootOrder": ["Boot0000"]}}, SYSTEM),
    "a setting that was there": lambda client: change(client, {"HostName": "first", "NTP": {"NTPServers": []}}),
    "a password": lambda client: client.bmc.set_password("root", "Other-1", client.clock.now()),
    "a power command": lambda client: client.bmc.reset_system(Event.FORCE_OFF, client.clock.now()),
    "a reset": lambda client: client.bmc.reset_bmc(client.clock.now()),
    "a log": lambda client: client.bmc.react(Happened(Happening.FACTORY_RESET), client.clock.now()),
    "all of it": lambda client: [undo(client) for name, undo in UNDONE.items() if name != "all of it"],
}


@pytest.mark.parametrize("what", UNDONE)
def test_what_was_not_committed_is_undone_as_if_it_had_never_been(dpu: Client, what: str) -> None:
    change(dpu, {"HostName": "first", "NTP": {"NTPServers": ["192.0.2.1"]}})
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_system(Event.FORCE_RESTART, dpu.clock.now()))
    dpu.advance(20)
    dpu.bmc.committed()
    shown, state = everything(dpu), dpu.bmc.state
    UNDONE[what](dpu)
    dpu.driver.sync(dpu.bmc)
    before = dpu.bmc.committed()
    assert before is state
    assert dpu.bmc.state != state
    dpu.bmc.restore(before)
    dpu.driver.sync(dpu.bmc)
    assert dpu.bmc.state is state
    assert dpu.bmc.uncommitted is None
    assert everything(dpu) == shown
    assert dpu.bmc.remaining("power", dpu.clock.now()) == 158
    dpu.advance(157.9)
    assert dpu.bmc.power is Power.BOOTING
    dpu.advance(0.1)
    assert dpu.bmc.power is Power.RUNNING
    assert len(dpu.driver) == 0


def test_an_undone_password_leaves_the_old_one_good_and_the_new_one_bad(dpu: Client) -> None:
    old, new = dpu.authorization, basic("root", "Other-1")
    dpu.bmc.set_password("root", "Other-1", dpu.clock.now())
    assert [dpu.request("GET", SYSTEM, authorization=one).status for one in (old, new)] == [401, 200]
    before = dpu.bmc.committed()
    assert before is not None
    dpu.bmc.restore(before)
    assert not dpu.bmc.basic_header
    assert [dpu.request("GET", SYSTEM, authorization=one).status for one in (old, new)] == [200, 401]


def test_an_undone_change_leaves_a_later_one_of_another_bmc_alone() -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1)
    for client in (one, other):
        change(client, {"HostName": "new"})
    before = one.bmc.committed()
    assert before is not None
    one.bmc.restore(before)
    assert one.bmc.overlay is None
    assert other.get(PROTOCOL)["HostName"] == "new"


def test_an_encoded_resource_outlives_a_change_of_another(dpu: Client) -> None:
    change(dpu, {"HostName": "new"})
    body = dpu.bmc.body(node(dpu))
    change(dpu, {"Boot": {"BootOrder": ["Boot0000"]}}, SYSTEM)
    assert dpu.bmc.body(node(dpu)) is body
    change(dpu, {"HostName": "newer"})
    assert dpu.bmc.body(node(dpu)) is not body


def test_the_bmc_s_own_clock_may_be_ahead(dpu: Client) -> None:
    dpu.bmc.become(dpu.clock.now(), clock_ahead=86400.0)
    assert dpu.get("/redfish/v1/Managers/Bluefield_BMC")["DateTime"] == "2026-01-02T00:00:00+00:00"


# time


@pytest.mark.parametrize("scale", [0.0, 1.0, 60.0])
def test_what_is_left_of_a_timer_is_time_of_the_hardware(scale: float) -> None:
    client = make_client("bluefield3", time_scale=scale)
    assert client.bmc.remaining("power", client.clock.now()) == 0
    client.bmc.reset_system(Event.FORCE_RESTART, client.clock.now())
    assert client.bmc.remaining("power", client.clock.now()) == 178
    client.clock.advance(1)
    client.clock.skip(10)
    assert client.bmc.remaining("power", client.clock.now()) == 168 - scale
    client.clock.skip(1000)
    assert client.bmc.remaining("power", client.clock.now()) == 0
