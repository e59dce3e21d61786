"""Changes that wait for something to happen."""

import msgspec

from bmcsim.machine.actions import Happened, Happening
from bmcsim.machine.staging import due, held_by, is_reset, pending, staging, without, without_jobs
from bmcsim.machine.state import Staged
from tests.conftest import Client

BIOS = Staged("bios", Happening.SYSTEM_RESET, "/bios", {"A": 1})
MODE = Staged("mode", Happening.SYSTEM_POWERED_ON, "/mode", {"B": 2})
BOOT = Staged("boot", Happening.SYSTEM_RESET, "/boot", {"C": 3})
PROTOCOL = "/redfish/v1/Managers/Bluefield_BMC/NetworkProtocol"


def test_what_is_staged_again_replaces_what_waited_and_goes_to_the_end() -> None:
    waiting = staging(staging(staging((), BIOS), MODE), BOOT)
    assert waiting == (BIOS, MODE, BOOT)
    again = msgspec.structs.replace(BIOS, changes={"A": 2})
    assert staging(waiting, again) == (MODE, BOOT, again)
    assert waiting == (BIOS, MODE, BOOT)


def test_a_change_is_taken_back_by_its_key() -> None:
    assert without((BIOS, MODE), "bios") == (MODE,)
    assert without((BIOS, MODE), "nope") == (BIOS, MODE)


def test_what_is_due_is_what_waited_for_it_oldest_first() -> None:
    waiting = (BIOS, MODE, BOOT)
    assert due(waiting, Happening.SYSTEM_RESET) == [BIOS, BOOT]
    assert due(waiting, Happening.SYSTEM_POWERED_ON) == [MODE]
    assert due(waiting, Happening.NMI) == []


def test_a_staged_change_shows_when_what_it_waits_for_happens_and_only_once(dpu: Client) -> None:
    change = Staged("a", Happening.SYSTEM_RESET, PROTOCOL, {"NTP": {"NTPServers": ["192.0.2.1"]}})
    other = Staged("b", Happening.SYSTEM_POWERED_OFF, PROTOCOL, {"HostName": "off"})
    dpu.bmc.become(dpu.clock.now(), staged=(change, other))
    before = dpu.get(PROTOCOL)
    dpu.bmc.react(Happened(Happening.BOOT_COMPLETED), dpu.clock.now())
    assert dpu.get(PROTOCOL) == before
    dpu.bmc.react(Happened(Happening.SYSTEM_RESET), dpu.clock.now())
    assert dpu.get(PROTOCOL)["NTP"]["NTPServers"] == ["192.0.2.1"]
    assert dpu.get(PROTOCOL)["HostName"] == before["HostName"]
    assert dpu.bmc.state.staged == (other,)


def test_a_staged_change_of_a_resource_that_is_gone_is_dropped(dpu: Client) -> None:
    dpu.bmc.become(dpu.clock.now(), staged=(Staged("a", Happening.NMI, "/redfish/v1/Nope", {"A": 1}),))
    dpu.bmc.react(Happened(Happening.NMI), dpu.clock.now())
    assert dpu.bmc.state.staged == ()
    assert dpu.bmc.state.changes == {}


# what a settings resource holds back


def waiting_for(*facts: tuple[str, str, dict[str, object]]) -> tuple[Staged, ...]:
    """Changes of /bios: (key, settings, changes)."""
    at = Happening.SYSTEM_RESET
    return tuple(Staged(key, at, "/bios", changes, settings, f"JID_{key}") for key, settings, changes in facts)


def test_what_a_settings_resource_holds_back() -> None:
    waiting = waiting_for(("a", "/settings", {}), ("b", "", {}))
    assert held_by(waiting, "/settings") == waiting[0]
    assert held_by(waiting, "/other") is None


def test_the_changes_of_a_job_go_with_it() -> None:
    waiting = waiting_for(("a", "", {}), ("b", "", {}), ("c", "", {}))
    assert without_jobs(waiting, ["JID_a", "JID_c", "JID_x"]) == (waiting[1],)


def test_what_a_property_will_be_is_what_was_staged_last() -> None:
    waiting = waiting_for(("a", "", {"Boot": {"Order": [1]}}), ("b", "", {"Boot": {"Next": 2}}), ("c", "", {"Boot": 3}))
    assert pending(waiting[:2], "/bios", "Boot.Order") == [1]
    assert pending(waiting[:2], "/bios", "Boot.Next") == 2
    assert pending(waiting, "/bios", "Boot") == 3
    assert pending(waiting, "/bios", "Nope.Nope") is None
    assert pending(waiting, "/other", "Boot") is None


def test_a_reset_of_a_resource_is_known_of_that_resource() -> None:
    reset = (Staged("r", Happening.SYSTEM_RESET, "/bios", {}, revert=True),)
    assert is_reset(reset, "/bios")
    assert not is_reset(reset, "/other")
    assert not is_reset((BIOS,), "/bios")


def test_passwords_are_taken_over_and_shown_nowhere(dpu: Client) -> None:
    staged = Staged("p", Happening.SYSTEM_RESET, "", {}, passwords={"UefiPassword": b"digest"})
    dpu.bmc.become(dpu.clock.now(), staged=(staged,), passwords={"Other": b"x"})
    dpu.bmc.react(Happened(Happening.SYSTEM_RESET), dpu.clock.now())
    assert dpu.bmc.state.passwords == {"UefiPassword": b"digest", "Other": b"x"}
    assert dpu.bmc.state.changes == {}
