"""Logs: what is there from the beginning, what is added, and what a full log forgets."""

from typing import Any

import msgspec
import pytest

from bmcsim.machine.actions import Happened, Happening
from bmcsim.machine.logs import concerned, first, following, recorded
from bmcsim.machine.power import Event, Power
from bmcsim.machine.state import LogRecord
from bmcsim.tree.profile import Log, LogKind
from tests.conftest import Client, header

EVENTS = "/redfish/v1/Systems/Bluefield/LogServices/EventLog/Entries"
MANAGER_LOG = "/redfish/v1/Managers/Bluefield_BMC/LogServices/IEL/Entries"
MANAGER_RESET = "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset"
IDRAC = "/redfish/v1/Managers/iDRAC.Embedded.1"
LCLOG, SEL = (f"{IDRAC}/LogServices/{name}/Entries" for name in ("Lclog", "Sel"))
HOST_EVENTS = "/redfish/v1/Systems/System.Embedded.1/LogServices/EventLog/Entries"
FAULTS = f"{IDRAC}/LogServices/FaultList/Entries"

LOG = Log(
    keep=3,
    records=[
        LogKind("SystemReset", "Reset.", "X.1.0.Reset", origin="/system", initially=True),
        LogKind("AccountLocked", "Locked.", severity="Warning"),
        LogKind("AccountLocked", "And noted."),
        LogKind("BmcRestarted", "Restarted.", initially=True),
    ],
)


def command(client: Client, event: Event) -> None:
    """A command to the system of a client's BMC, executed by its driver."""
    client.driver.execute(client.bmc, client.bmc.reset_system(event, client.clock.now()))


def entries(client: Client, uri: str = EVENTS) -> list[tuple[str, str]]:
    """(id, message) of the members of a log, as its collection shows them."""
    return [(one["Id"], one["Message"]) for one in client.get(uri)["Members"]]


# below the protocol


def test_a_log_begins_with_what_its_profile_puts_there() -> None:
    assert first(LOG, 1000.0) == (
        LogRecord("1", 1000.0, "Reset.", "X.1.0.Reset", "OK", "/system"),
        LogRecord("2", 1000.0, "Restarted."),
    )
    assert first(Log(), 1000.0) == ()


def test_a_log_writes_down_what_its_profile_asks_for_in_its_order() -> None:
    happened = Happened(Happening.ACCOUNT_LOCKED, about="/account")
    assert recorded(LOG, (), happened, 5.0) == (
        LogRecord("1", 5.0, "Locked.", severity="Warning", origin="/account"),
        LogRecord("2", 5.0, "And noted.", origin="/account"),
    )
    reset = recorded(LOG, (), Happened(Happening.SYSTEM_RESET), 5.0)
    assert [one.origin for one in reset] == ["/system"]


@pytest.mark.parametrize("before", [(), first(LOG, 1.0)])
def test_what_no_log_writes_down_leaves_it_as_it_is(before: tuple[LogRecord, ...]) -> None:
    assert recorded(LOG, before, Happened(Happening.NMI), 5.0) is before


def test_a_full_log_forgets_its_oldest_entries_and_numbers_go_on() -> None:
    log: Any = ()
    for _ in range(5):
        log = recorded(LOG, log, Happened(Happening.ACCOUNT_LOCKED), 5.0)
    assert [one.id for one in log] == ["8", "9", "10"]
    assert following(log) == 11


@pytest.mark.parametrize("keep", [1, 2, 100])
def test_a_log_never_has_more_entries_than_it_keeps(keep: int) -> None:
    log: Any = ()
    for count in range(1, 250):
        log = recorded(msgspec.structs.replace(LOG, keep=keep), log, Happened(Happening.SYSTEM_RESET), float(count))
        assert [one.created for one in log] == [float(one) for one in range(max(1, count - keep + 1), count + 1)]


def test_an_empty_log_begins_with_1() -> None:
    assert following(()) == 1


# as a client reads them


def test_an_untouched_log_is_nothing_of_the_bmc_s_own(dpu: Client) -> None:
    assert entries(dpu) == [("1", "DPU Warm Reset")]
    assert dpu.get(EVENTS)["Members@odata.count"] == 1
    assert dpu.get(MANAGER_LOG)["Members"] == []
    assert dpu.bmc.state.logs == {}


def test_a_log_grows_with_what_happens(dpu: Client) -> None:
    command(dpu, Event.POWER_CYCLE)
    dpu.advance(1000)
    command(dpu, Event.FORCE_RESTART)
    dpu.advance(1000)
    assert entries(dpu) == [
        ("1", "DPU Warm Reset"),
        ("2", "DPU powered off"),
        ("3", "DPU Warm Reset"),
        ("4", "DPU Warm Reset"),
    ]
    created = [one["Created"][11:19] for one in dpu.get(EVENTS)["Members"]]
    assert created == ["00:00:00", "00:00:00", "00:00:07", "00:16:40"]


def test_each_entry_can_be_read_by_itself_as_its_collection_shows_it(host: Client) -> None:
    command(host, Event.POWER_CYCLE)
    host.advance(1000)
    shown = host.get(LCLOG)
    assert shown["Members@odata.count"] == len(shown["Members"]) == 5
    for member in shown["Members"]:
        assert member["@odata.id"] == f"{LCLOG}/{member['Id']}"
        assert host.get(member["@odata.id"]) == member
    assert host.request("GET", f"{LCLOG}/6").status == 404
    assert host.request("GET", f"{LCLOG}/0").status == 404


def test_an_entry_names_what_it_is_about(host: Client) -> None:
    command(host, Event.FORCE_RESTART)
    assert {one["MessageId"]: one["Links"]["OriginOfCondition"]["@odata.id"] for one in host.get(LCLOG)["Members"]} == {
        "IDRAC.2.7.RAC0182": IDRAC,
        "IDRAC.2.7.SYS1003": "/redfish/v1/Systems/System.Embedded.1",
    }
    assert [one["Links"] for one in host.get(SEL)["Members"]] == [{}]


def test_logs_write_down_what_is_theirs_only(host: Client) -> None:
    before = {uri: host.get(uri) for uri in (SEL, FAULTS)}
    command(host, Event.FORCE_RESTART)
    host.advance(1000)
    assert len(entries(host, LCLOG)) == 3
    assert {uri: host.get(uri) for uri in (SEL, FAULTS)} == before
    assert host.bmc.state.logs.keys() == {LCLOG, HOST_EVENTS}


def test_a_restart_of_the_bmc_is_written_down_and_leaves_the_past_alone(dpu: Client, host: Client) -> None:
    before = {uri: host.get(uri)["Members"] for uri in (LCLOG, SEL)}
    for client, manager in ((dpu, MANAGER_RESET), (host, f"{IDRAC}/Actions/Manager.Reset")):
        client.advance(60)
        assert client.request("POST", manager).status == 204
        client.advance(120)
    assert entries(dpu, MANAGER_LOG) == [("1", "BMC restarted")]
    assert entries(dpu) == [("1", "DPU Warm Reset")]
    after = host.get(LCLOG)["Members"]
    assert after[:-1] == before[LCLOG]
    assert (after[-1]["Id"], after[-1]["Message"], after[-1]["Created"]) == (
        "3",
        "iDRAC restarted.",
        "2026-01-01T00:02:30+00:00",
    )
    assert host.get(SEL)["Members"] == before[SEL]


def test_the_tag_of_a_log_follows_its_entries(dpu: Client) -> None:
    tags = [dpu.request("GET", EVENTS)]
    dpu.advance(60)
    tags.append(dpu.request("GET", EVENTS))
    command(dpu, Event.FORCE_RESTART)
    tags.append(dpu.request("GET", EVENTS))
    shown = [header(one, "ETag") for one in tags]
    assert shown[0] == shown[1] != shown[2]


def test_a_log_that_was_cleared_is_empty_and_stays_so_until_something_happens(dpu: Client) -> None:
    command(dpu, Event.FORCE_RESTART)
    dpu.bmc.clear_log(EVENTS, dpu.clock.now())
    assert (entries(dpu), dpu.get(EVENTS)["Members@odata.count"]) == ([], 0)
    assert dpu.request("GET", f"{EVENTS}/1").status == 404
    dpu.bmc.restore(dpu.bmc.state)
    assert entries(dpu) == []
    command(dpu, Event.FORCE_OFF)
    assert entries(dpu) == [("3", "DPU powered off")]


def test_numbers_go_on_however_often_a_log_is_cleared(dpu: Client) -> None:
    for _ in range(3):
        dpu.bmc.clear_log(EVENTS, dpu.clock.now())
    command(dpu, Event.FORCE_OFF)
    assert entries(dpu) == [("2", "DPU powered off")]
    dpu.bmc.clear_log(EVENTS, dpu.clock.now())
    assert dpu.bmc.state.logs_cleared == {EVENTS: 2}


def test_that_a_log_was_cleared_stands_in_that_log_alone(host: Client) -> None:
    logs = {"/1/Entries": LOG, "/2/Entries": LOG}
    assert concerned(logs, Happened(Happening.LOG_CLEARED, "/2")) == {"/2/Entries": LOG}
    assert concerned(logs, Happened(Happening.NMI, "/2")) is logs
    host.bmc.clear_log(FAULTS, host.clock.now())
    assert (entries(host, FAULTS), entries(host, SEL)) == ([], [("1", "Log cleared.")])
    host.bmc.clear_log(SEL, host.clock.now())
    assert entries(host, SEL) == [("2", "Log cleared.")]
    (entry,) = host.get(SEL)["Members"]
    assert entry["Links"] == {"OriginOfCondition": {"@odata.id": SEL.removesuffix("/Entries")}}


def test_a_log_keeps_no_more_than_its_service_says(dpu: Client) -> None:
    service = dpu.get(EVENTS.removesuffix("/Entries"))
    for _ in range(service["MaxNumberOfRecords"] + 20):
        command(dpu, Event.FORCE_RESTART)
    shown = entries(dpu)
    assert len(shown) == service["MaxNumberOfRecords"]
    assert (shown[0][0], shown[-1][0]) == ("22", "121")


def test_entries_are_dated_by_the_bmc_s_own_clock(dpu: Client) -> None:
    dpu.bmc.become(dpu.clock.now(), clock_ahead=3600.0)
    command(dpu, Event.FORCE_OFF)
    assert dpu.get(EVENTS)["Members"][-1]["Created"] == "2026-01-01T01:00:00+00:00"


def test_a_log_is_one_bmc_s_own(factory: Any) -> None:
    one, other = factory("bluefield3"), factory("bluefield3", index=1)
    command(one, Event.FORCE_OFF)
    assert (len(entries(one)), len(entries(other))) == (2, 1)


def test_a_host_s_command_is_in_the_logs_of_its_dpus(factory: Any) -> None:
    host, dpu = factory("dell_poweredge_r750"), factory("bluefield3", index=1)
    host.bmc.dpus = (dpu.bmc,)
    command(host, Event.FORCE_OFF)
    assert dpu.bmc.power is Power.OFF
    assert entries(dpu)[-1] == ("2", "DPU powered off")
    assert host.get(LCLOG)["Members"][-1]["MessageId"] == "IDRAC.2.7.SYS1001"
