"""The live stream: the whole fleet once, then what changes, for all listeners alike."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from bmcsim.edges.control import stream
from bmcsim.edges.control.endpoint import ControlError
from bmcsim.edges.control.stream import TOPICS, EventStream, Hub, Listener
from bmcsim.machine.power import Event
from tests.unit.edges.control.asking import call
from tests.unit.edges.control.conftest import Site

ALL = frozenset(TOPICS)
NONE: frozenset[str] = frozenset()


class Told(dict[str, Any]):
    """An event of the stream. id, event: its fields."""

    id: str
    event: str


def parsed(text: bytes) -> list[Told]:
    """The events of a piece of a stream."""
    events = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in fields:
            told = Told(orjson.loads(fields["data"]))
            told.id, told.event = fields["id"], fields["event"]
            events.append(told)
    return events


class Reader:
    """A client of a hub."""

    def __init__(
        self, hub: Hub, topics: frozenset[str] = ALL, groups: frozenset[str] = NONE, last_id: str = ""
    ) -> None:
        self.listener = hub.join(topics, groups, last_id)
        self._pieces = hub.text(self.listener)

    async def events(self) -> list[Told]:
        """What has come since."""
        text, flushed = b"", True
        while self.listener.waiting or self.listener.wants_fleet or not flushed:
            piece = await anext(self._pieces)
            text, flushed = text + piece, not piece
        return parsed(text)


async def never(_seconds: float) -> None:
    """Stands for asyncio.sleep: the hub does only what tests call."""
    await asyncio.Event().wait()


@pytest.fixture
async def hub(site: Site) -> AsyncIterator[Hub]:
    """A hub whose passes tests call."""
    made = Hub(site.control, sleep=never)
    yield made
    made.close()


async def settled() -> None:
    """The task of the hub has begun, and done its first pass."""
    for _ in range(20):
        await asyncio.sleep(0)


def off(site: Site, id_: str) -> None:
    """Switch a system off."""
    bmc = site.bmc(id_)
    bmc.reset_system(Event.FORCE_OFF, site.clock.now())
    bmc.committed()


async def test_first_the_whole_fleet_then_what_changes(site: Site, hub: Hub) -> None:
    reader = Reader(hub)
    await settled()
    (fleet,) = await reader.events()
    assert fleet.event == "fleet"
    columns = fleet["columns"]
    assert columns["id"] == [bmc.id for bmc in site.fleet]
    assert {len(column) for column in columns.values()} == {len(site.fleet)}
    off(site, "beta-2")
    await hub._pass()
    (delta,) = await reader.events()
    place = columns["id"].index("beta-2")
    assert (delta.event, delta["i"], delta["address"]) == ("delta", [place], [columns["address"][place]])
    assert fleet["tables"]["power"][delta["status"][0] >> 3 & 7] == "Off"
    await hub._pass()
    assert await reader.events() == []


async def test_errors_and_addresses_are_changes_too(site: Site, hub: Hub) -> None:
    reader = Reader(hub)
    await settled()
    columns = (await reader.events())[0]["columns"]
    call(site, site.bmc("beta-1")).ask("GET", "/redfish/v1/Nowhere")
    site.fleet.unbind(site.bmc("beta-3"))
    await hub._pass()
    (delta,) = await reader.events()
    places = [columns["id"].index(one) for one in ("beta-1", "beta-3")]
    assert (delta["i"], delta["errors"], delta["address"][1]) == (places, [1, 0], None)


async def test_who_comes_back_gets_what_was_missed(site: Site, hub: Hub) -> None:
    reader = Reader(hub)
    await settled()
    (fleet,) = await reader.events()
    hub.leave(reader.listener)
    off(site, "beta-2")
    await hub._pass()
    back = Reader(hub, last_id=fleet.id)
    (delta,) = await back.events()
    assert delta.event == "delta"
    assert await Reader(hub, last_id=delta.id).events() == []
    for strange in ("", "x", "00000000-1", fleet.id.split("-")[0] + "-999999"):
        assert [one.event for one in await Reader(hub, last_id=strange).events()] == ["fleet"]


async def test_what_is_not_kept_any_more_makes_a_new_fleet(
    site: Site, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_KEPT", 2)
    reader = Reader(hub)
    await settled()
    (fleet,) = await reader.events()
    for number in range(3):
        off(site, f"beta-{number}")
        await hub._pass()
    deltas = await reader.events()
    assert len(deltas) == 3
    assert [one.event for one in await Reader(hub, last_id=fleet.id).events()] == ["fleet"]
    assert [one.id for one in await Reader(hub, last_id=deltas[0].id).events()] == [
        deltas[1].id,
        deltas[2].id,
    ]


async def test_another_fleet_is_told_anew(site: Site, hub: Hub) -> None:
    reader = Reader(hub)
    await settled()
    (fleet,) = await reader.events()
    watch = hub._watch
    assert watch is not None
    watch.bmcs = watch.bmcs[:-1]
    await hub._pass()
    (again,) = await reader.events()
    assert again.event == "fleet" and again["columns"] == fleet["columns"]
    assert [one.event for one in await Reader(hub, last_id=fleet.id).events()] == ["fleet"]


async def test_a_filter_tells_of_some_groups(site: Site, hub: Hub) -> None:
    reader = Reader(hub, groups=frozenset({"beta"}))
    await settled()
    (fleet,) = await reader.events()
    assert fleet["columns"]["id"] == [bmc.id for bmc in site.fleet if bmc.shared.group == "beta"]
    off(site, "alpha-0")
    await hub._pass()
    assert await reader.events() == []
    off(site, "alpha-1")
    off(site, "beta-1")
    await hub._pass()
    (delta,) = await reader.events()
    assert [fleet["columns"]["id"][fleet["columns"]["i"].index(place)] for place in delta["i"]] == ["beta-1"]


async def test_topics(site: Site, hub: Hub) -> None:
    reader = Reader(hub, topics=frozenset({"job", "audit", "rates"}))
    await settled()
    off(site, "beta-1")
    await hub._pass()
    assert await reader.events() == []
    job = await site.operate({"type": "power", "reset": "ForceOff"}, group=["beta"])
    hub._tell_jobs()
    hub._tell_jobs()
    hub._tell_audit()
    told = await reader.events()
    assert [one.event for one in told] == ["job", "audit"]
    assert (told[0]["id"], told[0]["state"], told[0]["progress"]) == (job["id"], "completed", 1.0)
    assert told[1]["path"] == "/api/v1/operations"


async def test_rates_are_those_since_the_last_ones(site: Site) -> None:
    ticks = iter([10.0] * 2 + [12.0] * 100)
    hub = Hub(site.control, sleep=never, ticks=lambda: next(ticks))
    counters = site.context.metrics
    before = stream._Counted.of(site.control, 10.0)
    for _ in range(9):
        counters.observe(200, 0.0002)
    counters.observe(503, 0.4)
    counters.dropped += 2
    rates = stream._rates("now", before, stream._Counted.of(site.control, 12.0), site.control)
    assert (rates.requests, rates.errors, rates.dropped) == (5.0, 0.5, 1.0)
    assert rates.p50 == pytest.approx(0.00018, rel=0.1) and rates.p99 is not None and 0.25 < rates.p99 <= 1.0
    assert rates.rss > 1_000_000
    hub.close()


async def test_who_does_not_read_is_cut(site: Site, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    listener = Listener(ALL, NONE, lambda: now)
    listener.put(b"x")
    now = stream.LONGEST_WAIT - 1
    listener.put(b"x")
    assert not listener.cut.is_set()
    now += 2
    listener.put(b"x")
    assert listener.cut.is_set()
    large = Listener(ALL, NONE, lambda: now)
    large.put(b"x" * (stream.MOST_WAITING + 1))
    assert large.cut.is_set()
    read = Listener(ALL, NONE, lambda: now)
    read.put(b"x")
    assert read.take() == b"x" and read.size == 0
    now += 100
    read.put(b"x")
    assert not read.cut.is_set()


async def test_there_are_so_many_streams(hub: Hub) -> None:
    listeners = [hub.join(ALL, NONE, "") for _ in range(stream.MOST_STREAMS)]
    with pytest.raises(ControlError, match="streams already"):
        hub.join(ALL, NONE, "")
    hub.leave(listeners[0])
    hub.join(ALL, NONE, "")


async def test_nobody_looks_when_nobody_listens(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def soon(_seconds: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(stream, "_LINGER", 3)
    hub = Hub(site.control, sleep=soon)
    assert site.context.history.fresh is None
    listener = hub.join(ALL, NONE, "")
    await settled()
    assert hub._watch is not None
    hub.leave(listener)
    for _ in range(100):
        await asyncio.sleep(0)
    assert (hub._task, hub._watch, site.context.history.fresh) == (None, None, None)


async def test_what_cannot_be_told_begins_anew(site: Site, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_tell_rates", lambda: 1 / 0)
    hub.join(ALL, NONE, "")
    await settled()
    assert hub._watch is None and hub._task is not None and not hub._task.done()


async def test_a_time_without_anything_has_a_heartbeat(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT", 0.001)
    pieces = hub.text(hub.join(frozenset({"audit"}), NONE, ""))
    seen = [await anext(pieces) for _ in range(8)]
    assert [piece for piece in seen if piece][:2] == [b"retry: 2000\n\n", b": \n\n"]


async def streamed(site: Site, hub: Hub, zipped: bool) -> bytes:
    """The first bytes of the answer, once the hub ended it."""
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    answer = EventStream(hub, hub.join(ALL, NONE, ""), gzip=zipped)
    task = asyncio.ensure_future(answer({"type": "http", "method": "GET"}, receive, send))
    for _ in range(60):
        await asyncio.sleep(0)
    hub.close()
    await asyncio.wait_for(task, 5)
    headers = dict(sent[0]["headers"])
    assert headers[b"content-type"].startswith(b"text/event-stream") and b"content-length" not in headers
    assert headers.get(b"content-encoding") == (b"gzip" if zipped else None)
    assert not sent[-1].get("more_body") and not len(hub)
    return b"".join(one["body"] for one in sent[1:])


@pytest.mark.parametrize("zipped", [False, True])
async def test_the_answer_ends_with_the_process(site: Site, hub: Hub, zipped: bool) -> None:
    body = await streamed(site, hub, zipped)
    text = gzip.decompress(body) if zipped else body
    assert [one.event for one in parsed(text)] == ["fleet"]


async def test_each_event_can_be_unpacked_when_it_comes(site: Site, hub: Hub) -> None:
    reader = Reader(hub)
    await settled()
    coder, plain = zlib.compressobj(5, wbits=31), zlib.decompressobj(wbits=31)
    assert parsed(plain.decompress(coder.compress(b"x") + coder.flush(zlib.Z_SYNC_FLUSH))) == []
    assert await reader.events()


async def test_a_client_that_is_gone_is_forgotten(hub: Hub) -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        """Nobody is there."""

    answer = EventStream(hub, hub.join(ALL, NONE, ""), gzip=False)
    await asyncio.wait_for(answer({"type": "http", "method": "GET"}, receive, send), 5)
    assert not len(hub)


async def test_the_endpoint_knows_its_topics_and_guards(site: Site) -> None:
    answer = await site.client.get("/api/v1/events", params={"topics": "fleet,weather"})
    assert (answer.status_code, "weather" in answer.text) == (400, True)
    assert (await site.client.get("/api/v1/events", headers={"Host": "elsewhere.example"})).status_code == 403
    assert (await site.client.head("/api/v1/events")).status_code == 200
    await site.control.stop()
    assert (await site.client.get("/api/v1/events")).status_code == 503
