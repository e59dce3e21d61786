"""One BMC: its overlay, its sessions, and what a boot does to it."""

from typing import Any

import orjson
import pytest

from bmcsim.machine.bmc import timestamp
from bmcsim.machine.power import Event, Power
from bmcsim.tree.compile import Node
from tests.conftest import Client, make_client

SYSTEM = "/redfish/v1/Systems/Bluefield"
SETTINGS = SYSTEM + "/Settings"
PROTOCOL = "/redfish/v1/Managers/Bluefield_BMC/NetworkProtocol"


def node(client: Client, uri: str = PROTOCOL) -> Node:
    """A node of a client's tree."""
    return client.bmc.tree.nodes[uri]


def change(client: Client, changes: dict[str, Any], uri: str = PROTOCOL) -> None:
    """Change a resource, below the protocol."""
    client.bmc.change(node(client, uri), changes)


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


def test_holes_of_a_changed_resource_are_still_filled(dpu: Client) -> None:
    change(dpu, {"Boot": {"BootSourceOverrideMode": "Legacy"}}, SYSTEM)
    dpu.bmc.power = Power.OFF
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
    other.bmc.accounts = one.bmc.accounts
    one.bmc.set_password("root", "new")
    assert one.request("GET", SYSTEM).status == 401
    assert other.request("GET", SYSTEM).status == 200
