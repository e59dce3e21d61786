"""Events as values: who wants which, feeds and their streams, and what a BMC tells whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.events import Hub
from bmcsim.machine import sensors
from bmcsim.machine.actions import EndStreams
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.events import (
    HISTORY,
    Event,
    Feed,
    Forgotten,
    Stream,
    StreamWish,
    Subscription,
    Wanted,
    filled,
    wants,
    without_version,
)
from bmcsim.machine.power import Event as PowerEvent
from tests.conftest import Client, make_client

HOST_SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
HOST_MANAGER = "/redfish/v1/Managers/iDRAC.Embedded.1"
LCLOG = f"{HOST_MANAGER}/LogServices/Lclog/Entries"
EVERYTHING = StreamWish(lambda _event: True, 0, "root")


def an_event(message_id: str = "Base.1.22.Success", **facts: Any) -> Event:
    return Event(**{"type": "Alert", "message_id": message_id, "message": "", "created": 0.0, **facts})


# who wants what

PREFIXES = ("Base", "IDRAC", "ResourceEvent")
KEYS = ("Success", "Removed")
VERSIONED = [f"{prefix}.1.{minor}.{key}" for prefix in PREFIXES for minor in (1, 2) for key in KEYS]
UNVERSIONED = [f"{prefix}.{key}" for prefix in PREFIXES for key in KEYS]
TYPES, SCHEMAS, SEVERITIES = ("Alert", "Other"), ("", "Chassis", "Sensor"), ("OK", "Critical")
ORIGINS = ("", "/redfish/v1", "/redfish/v1/Chassis", "/redfish/v1/Chassis/1", "/redfish/v1/Chassis/10")


def some(values: Any) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2).map(tuple)


WANTED = st.builds(
    Wanted,
    event_types=some(TYPES),
    registry_prefixes=some(PREFIXES),
    exclude_registry_prefixes=some(PREFIXES),
    message_ids=some(VERSIONED + UNVERSIONED),
    exclude_message_ids=some(VERSIONED + UNVERSIONED),
    resource_types=some(SCHEMAS[1:]),
    origins=some(ORIGINS[1:]),
    subordinate=st.booleans(),
    severities=some(SEVERITIES),
)
EVENTS = st.builds(
    an_event,
    message_id=st.sampled_from(VERSIONED),
    type=st.sampled_from(TYPES),
    origin=st.sampled_from(ORIGINS),
    resource_type=st.sampled_from(SCHEMAS),
    severity=st.sampled_from(SEVERITIES),
)


def naively(wanted: Wanted, event: Event) -> bool:
    """DSP0268, EventDestination, read property by property: a list that is not empty must have the event's value."""
    registry, major, minor, key = event.message_id.split(".")
    names = {f"{registry}.{major}.{minor}.{key}", f"{registry}.{key}"}
    if wanted.event_types and event.type not in wanted.event_types:
        return False
    if wanted.registry_prefixes and registry not in wanted.registry_prefixes:
        return False
    if registry in wanted.exclude_registry_prefixes or names & set(wanted.exclude_message_ids):
        return False
    if wanted.message_ids and not names & set(wanted.message_ids):
        return False
    if wanted.resource_types and event.resource_type not in wanted.resource_types:
        return False
    if wanted.severities and event.severity not in wanted.severities:
        return False
    if not wanted.origins:
        return True
    segments = event.origin.split("/")
    for origin in wanted.origins:
        own = origin.split("/")
        if segments == own or (wanted.subordinate and segments[: len(own)] == own):
            return True
    return False


@given(WANTED, EVENTS)
def test_a_subscription_is_for_what_none_of_its_properties_rules_out(wanted: Wanted, event: Event) -> None:
    assert wants(wanted, event) == naively(wanted, event)


def test_a_message_is_named_with_its_version_or_without() -> None:
    assert without_version("Base.1.18.Success") == "Base.Success"
    assert without_version("Base.1.18.0.Success") == "Base.Success"


def test_arguments_fill_a_message_once_each() -> None:
    """An argument that looks like a place is none, and a place without an argument stays."""
    assert filled("%1 is %2, not %3 of %1", ("100%2", "ok")) == "100%2 is ok, not %3 of 100%2"


# feeds


class Feeds(RuleBasedStateMachine):
    """A feed against a list of everything that it was ever told."""

    def __init__(self) -> None:
        super().__init__()
        self.generation = 1.0
        self.feed = Feed(self.generation)
        self.told: list[Event] = []
        self.kept_from: int | None = None
        self.streams: list[tuple[Stream, int, str, list[int]]] = []
        self.ids: set[str] = set()

    @rule(type_=st.sampled_from(TYPES), times=st.sampled_from([1, 1, 1, HISTORY, HISTORY + 1]))
    def tell(self, type_: Any, times: int) -> None:
        for _ in range(times):
            woken = [len(calls) for _, _, _, calls in self.streams]
            event = an_event(type=type_)
            numbered = self.feed.add(event)
            self.told.append(event)
            assert numbered.number == len(self.told)
            assert numbered.id not in self.ids
            self.ids.add(numbered.id)
            assert [len(calls) for _, _, _, calls in self.streams] == [count + 1 for count in woken]

    @rule(type_=st.sampled_from(("", *TYPES)))
    def open(self, type_: str) -> None:
        if self.kept_from is None:
            self.kept_from = len(self.told)
        seen = len(self.told)
        stream = self.feed.open(StreamWish(lambda event: not type_ or event.type == type_, seen, "x"), "1.2.3.4:5")
        calls: list[int] = []
        stream.woken = lambda: calls.append(1)
        assert stream.id not in {one.id for one, _, _, _ in self.streams}
        self.streams.append((stream, seen, type_, calls))

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.streams) - 1))
        stream, seen, type_, calls = self.streams[index]
        if len(self.told) - seen > HISTORY:
            with pytest.raises(Forgotten):
                stream.take()
            stream.close()
            del self.streams[index]
            return
        expected = [n for n in range(seen + 1, len(self.told) + 1) if not type_ or self.told[n - 1].type == type_]
        assert [one.number for one in stream.take()] == expected
        self.streams[index] = (stream, len(self.told), type_, calls)

    @precondition(lambda self: self.streams)
    @rule()
    def close(self) -> None:
        self.streams.pop()[0].close()

    @rule(back=st.integers(-2, HISTORY + 3))
    def ask(self, back: int) -> None:
        """A reader comes back that knows everything but the last `back` events."""
        number = len(self.told) - back
        first = max(self.kept_from if self.kept_from is not None else len(self.told), len(self.told) - HISTORY)
        expected = number if first <= number <= len(self.told) else None
        assert self.feed.known(f"{int(self.generation * 1000):x}-{number}") == expected

    @rule()
    def begin_anew(self) -> None:
        old = f"{int(self.generation * 1000):x}-{len(self.told)}"
        self.generation += 1
        self.feed = Feed(self.generation)
        self.told, self.streams, self.kept_from = [], [], None
        assert self.feed.known(old) is None

    @invariant()
    def nothing_is_kept_for_nobody(self) -> None:
        assert set(self.feed.streams) == {one.id for one, _, _, _ in self.streams}
        if self.kept_from is None:
            assert not self.feed.history
        else:
            assert len(self.feed.history) == min(HISTORY, len(self.told) - self.kept_from)


TestFeeds = Feeds.TestCase


@pytest.mark.parametrize(
    "id_", ["", "-", "1", "x-1", "3e8-", "3e8-x", "3e8-\u0661", "3e8--1", "3e8-" + "9" * 19, "3e8-1 "]
)
def test_what_is_no_id_of_a_feed_is_not_known(id_: str) -> None:
    feed = Feed(1.0)
    feed.open(EVERYTHING, "")
    feed.add(an_event())
    assert feed.known(id_) is None
    assert feed.known("3e8-1") == 1


def test_a_notice_comes_first_and_once_and_whatever_is_accepted() -> None:
    feed = Feed(1.0)
    feed.open(EVERYTHING, "")
    feed.add(an_event())
    stream = feed.open(StreamWish(lambda event: event.type == "Alert", 0, "", an_event(type="Other")), "")
    assert [(one.id, one.event.type) for one in stream.take()] == [("3e8-0", "Other"), ("3e8-1", "Alert")]
    assert stream.take() == []
    assert feed.known("3e8-0") == 0


# what BMCs tell


class Ear:
    """Who listens to BMCs: a subscription for everything, or a stream."""

    def __init__(self, client: Client, *listening: Bmc) -> None:
        self.client, self.heard = client, list[tuple[str, Event]]()
        self.hub = Hub(client.clock, lambda bmc, _subscription, _payload: None)
        client.driver.emit = self._emit
        for bmc in listening or (client.bmc,):
            subscribe(bmc, client)

    def _emit(self, bmc: Bmc, event: Event) -> None:
        self.heard.append((bmc.id, event))
        self.hub.emit(bmc, event)

    @property
    def keys(self) -> list[str]:
        return [event.message_id.rpartition(".")[2] for _, event in self.heard]

    def reset(self, event: PowerEvent) -> None:
        self.client.driver.execute(self.client.bmc, self.client.bmc.reset_system(event, self.client.clock.now()))


def subscribe(bmc: Bmc, client: Client) -> None:
    bmc.become(client.clock.now(), subscriptions=(Subscription("1", "http://127.0.0.1/"),), subscriptions_made=1)


def with_dpus(host: Client) -> tuple[Bmc, Bmc]:
    dpus = (make_client("bluefield3", index=1).bmc, make_client("bluefield3", index=2).bmc)
    host.bmc.dpus = dpus
    return dpus


def test_power_and_boot_are_told_with_the_system_that_they_are_about(host: Client) -> None:
    ear = Ear(host)
    ear.reset(PowerEvent.FORCE_OFF)
    host.advance(600)
    assert "ResourcePoweredOff" in ear.keys
    ear.heard.clear()
    ear.reset(PowerEvent.ON)
    host.advance(600)
    assert "ResourcePoweredOn" in ear.keys
    about = [event for _, event in ear.heard if event.message_id.startswith("ResourceEvent.")]
    assert {(event.origin, event.resource_type) for event in about} == {(HOST_SYSTEM, "ComputerSystem")}
    states = [event.args for event in about if event.message_id.endswith("ResourceStateChanged")]
    assert states[-1] == (HOST_SYSTEM, "Enabled")
    assert about[-1].message == f"{HOST_SYSTEM} is now in the state Enabled."


def test_what_is_written_into_a_log_is_told_with_a_link_to_the_entry(host: Client) -> None:
    ear = Ear(host)
    ear.reset(PowerEvent.FORCE_RESTART)
    linked = [event for _, event in ear.heard if event.log_entry]
    assert linked
    for event in linked:
        entry = host.get(event.log_entry)
        assert event.log_entry.startswith(LCLOG)
        assert (entry["MessageId"], entry["Message"]) == (event.message_id, event.message)
        assert event.created == pytest.approx(host.clock.now().wall)


def test_a_dpu_that_follows_its_host_tells_its_own_subscribers(host: Client) -> None:
    """Also where nobody listens to the host; what happens to the host is not told by the DPU."""
    first, second = with_dpus(host)
    ear = Ear(host, first)
    ear.reset(PowerEvent.FORCE_OFF)
    host.advance(600)
    assert {id_ for id_, _ in ear.heard} == {first.id}
    assert "ResourcePoweredOff" in ear.keys
    assert second.feed is None


def test_nothing_is_made_or_kept_where_nobody_listens(host: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ear = Ear(host, *with_dpus(host))
    monkeypatch.setattr("bmcsim.machine.telling.Event", None)
    ear.reset(PowerEvent.FORCE_RESTART)
    sensors.set_reading(host.bmc, next(iter(host.bmc.tree.readings)), 1e6, host.clock.now())
    assert host.request("PATCH", HOST_SYSTEM, {"AssetTag": "x"}).status < 300
    test_event = {"MessageId": "Base.1.22.Success"}
    submit = "/redfish/v1/EventService/Actions/EventService.SubmitTestEvent"
    assert host.request("POST", submit, test_event).status == 204
    assert not ear.heard
    assert host.bmc.feed is None


def test_nothing_is_told_while_the_service_is_disabled(host: Client) -> None:
    ear = Ear(host)
    assert host.request("PATCH", "/redfish/v1/EventService", {"ServiceEnabled": False}).status < 300
    ear.reset(PowerEvent.FORCE_RESTART)
    assert not ear.heard


def test_a_reset_of_the_bmc_ends_its_streams_and_begins_a_new_generation(dpu: Client) -> None:
    ear = Ear(dpu)
    bmc, ended = dpu.bmc, list[str]()
    streams = [bmc.open_stream(EVERYTHING, "", dpu.clock.now()) for _ in range(2)]
    for stream in streams:
        stream.ended = lambda: ended.append("x")
    before = bmc.number(an_event(), dpu.clock.now())
    dpu.driver.execute(bmc, bmc.reset_bmc(dpu.clock.now()))
    assert (ended, bmc.feed, bmc.state.service) == (["x", "x"], None, Service.RESETTING)
    dpu.advance(600)
    assert bmc.state.service is Service.UP
    assert ear.keys[-1] == "ResourceStateChanged"
    assert ear.heard[-1][1].args == (dpu.bmc.tree.head.roles.manager, "Enabled")
    again = bmc.number(an_event(), dpu.clock.now())
    assert again.number == 2
    assert again.id.rpartition("-")[0] != before.id.rpartition("-")[0]
    assert bmc.feed is not None
    assert bmc.feed.known(before.id) is None


def test_one_stream_can_end_alone(dpu: Client) -> None:
    first, second = [dpu.bmc.open_stream(EVERYTHING, "", dpu.clock.now()) for _ in range(2)]
    dpu.driver.execute(dpu.bmc, [EndStreams(first.id), EndStreams("SSE99")])
    assert dpu.bmc.feed is not None
    assert list(dpu.bmc.feed.streams) == [second.id]


def test_streams_of_dpus_end_when_mains_power_goes(host: Client) -> None:
    dpus = with_dpus(host)
    for bmc in dpus:
        bmc.open_stream(EVERYTHING, "", host.clock.now())
    host.driver.execute(host.bmc, host.bmc.ac_cycle(host.clock.now()))
    assert [bmc.feed for bmc in dpus] == [None, None]


def test_an_update_is_told(dpu: Client) -> None:
    ear = Ear(dpu)
    dpu.push(dpu.get("/redfish/v1/UpdateService")["HttpPushUri"])
    dpu.advance(3600)
    (event,) = [event for _, event in ear.heard if event.message_id.startswith("Update.")]
    assert (event.message_id, event.resource_type) == ("Update.1.0.UpdateSuccessful", "SoftwareInventoryCollection")


def crossing(client: Client, uri: str, values: list[float | None]) -> list[tuple[str, tuple[str, ...]]]:
    """(message, args) of what each reading told."""
    told = []
    for value in values:
        actions = sensors.set_reading(client.bmc, uri, value, client.clock.now())
        told += [(one.event.message_id, one.event.args) for one in actions]
    return told


def test_a_threshold_is_told_once_per_crossing(host: Client) -> None:
    uri = next(
        uri for uri, node in host.bmc.tree.nodes.items() if node.template.get("Thresholds", {}).get("UpperCritical")
    )
    subscribe(host.bmc, host)
    limits = host.bmc.tree.readings[uri].limits
    name = host.get(uri)["Name"]
    caution, critical = limits.upper_caution, limits.upper_critical
    told = crossing(host, uri, [caution, caution, critical - 0.5, critical, critical + 5, caution, None, None])
    assert [id_.rpartition(".")[2] for id_, _ in told] == [
        "ReadingAboveUpperCautionThreshold",
        "ReadingAboveUpperCriticalThreshold",
        "ReadingAboveUpperCautionThreshold",
        "SensorReadingNormalRange",
    ]
    assert told[0][1] == (name, f"{caution:g}", host.get(uri)["ReadingUnits"], f"{caution:g}")
    assert len(told[3][1]) == 3


def test_a_sensor_that_is_off_crosses_nothing(host: Client) -> None:
    uri = next(uri for uri, reading in host.bmc.tree.readings.items() if reading.powered)
    subscribe(host.bmc, host)
    host.driver.execute(host.bmc, host.bmc.reset_system(PowerEvent.FORCE_OFF, host.clock.now()))
    host.advance(60)
    assert crossing(host, uri, [1e6, None]) == []


def test_a_factory_reset_forgets_subscriptions(host: Client) -> None:
    """Whatever else it keeps; and their numbers are not used again."""
    subscribe(host.bmc, host)
    host.bmc.factory_reset("PreserveNetworkAndUsers", host.clock.now())
    assert (host.bmc.state.subscriptions, host.bmc.state.subscriptions_made) == ((), 1)


def test_the_hub_pushes_to_those_who_want_it_and_are_not_suspended(dpu: Client) -> None:
    pushed: list[tuple[str, bytes]] = []
    hub = Hub(ManualClock(), lambda _bmc, one, payload: pushed.append((one.id, payload)))
    every = (
        Subscription("1", "http://a/", context="one"),
        Subscription("2", "http://a/", suspended=True),
        Subscription("3", "http://a/", wanted=Wanted(severities=("Critical",))),
    )
    dpu.bmc.become(dpu.clock.now(), subscriptions=every)
    hub.emit(dpu.bmc, an_event())
    assert [id_ for id_, _ in pushed] == ["1"]
    assert b'"Context":"one"' in pushed[0][1]
    assert hub.emitted == 1


def test_without_anything_to_push_with_streams_are_told_all_the_same(dpu: Client) -> None:
    stream = dpu.bmc.open_stream(EVERYTHING, "", dpu.clock.now())
    driver = Driver(dpu.clock, emit=Hub(dpu.clock).emit)
    subscribe(dpu.bmc, dpu)
    driver.execute(dpu.bmc, dpu.bmc.event("Alert", "Base.1.22.Success", "", "", dpu.clock.now()))
    assert len(stream.take()) == 1
