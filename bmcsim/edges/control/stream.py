"""The live stream of the control plane: server-sent events (WHATWG HTML 9.2) about the whole fleet.

Rule 1: one task looks at the fleet for all listeners, twice a second, and only while there are some.
Rule 2: it looks at a few BMCs at a time and lets others have turns.
Rule 3: what happened is encoded once, and all listeners get the same bytes; with a filter, those with the same filter.
Rule 4: a listener that comes back with Last-Event-ID gets what it missed as long as that is kept, else the whole fleet.
Rule 5: a listener that does not read is cut, before what waits for it becomes large.
"""

import asyncio
import contextlib
import logging
import re
import secrets
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bmcsim.core.clock import rfc3339
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, ControlError, Endpoint
from bmcsim.edges.process import resident_bytes
from bmcsim.fleet.changes import Changed, Watch, quantile
from bmcsim.fleet.selection import Words

log = logging.getLogger(__name__)

Topic = Literal["fleet", "rates", "job", "audit"]
TOPICS: tuple[str, ...] = get_args(Topic)

MOST_STREAMS = 32
INTERVAL = 0.5
HEARTBEAT = 15.0
MOST_WAITING = 4 * 1024 * 1024
LONGEST_WAIT = 30.0
_LINGER = 60
"""Passes without a listener after which what was seen is forgotten."""
_KEPT, _KEPT_BYTES = 2000, 2 * 1024 * 1024
_CHUNK = 250
_TURN = 0.001
_PIECE = 16 * 1024
_LONGEST_AUDIT = 16 * 1024
_ID = re.compile(r"([0-9a-f]{8})-([0-9]{1,15})")


class Listen(msgspec.Struct, forbid_unknown_fields=True):
    """group: names of groups, whose BMCs alone are told. topics: fleet, rates, job, audit, with commas; all without."""

    group: Words = []
    topics: Annotated[str, Meta(max_length=100)] = ""


class Frame(msgspec.Struct, frozen=True):
    """Something that happened. number: counts up. data: its JSON. changed: what it tells of the fleet, if anything."""

    number: int
    event: str
    data: bytes
    changed: Changed | None = None

    @property
    def topic(self) -> str:
        """What one listens to, to get it."""
        return "fleet" if self.event == "delta" else self.event


class Listener:
    """One stream. groups: whose BMCs it is about, empty for all. waiting: frames that are not sent yet."""

    def __init__(self, topics: frozenset[str], groups: frozenset[str], loop_time: Callable[[], float]) -> None:
        self.topics, self.groups, self._time = topics, groups, loop_time
        self.waiting: deque[bytes] = deque()
        self.wants_fleet = "fleet" in topics
        self.size = 0
        self.since = 0.0
        self.over = False
        self.wakes: asyncio.Event = asyncio.Event()
        self.cut: asyncio.Event = asyncio.Event()

    def put(self, frame: bytes) -> None:
        """Something to send. One who does not read is cut."""
        now = self._time()
        if not self.waiting:
            self.since = now
        self.waiting.append(frame)
        self.size += len(frame)
        if self.size > MOST_WAITING or now - self.since > LONGEST_WAIT:
            self.cut.set()
        self.wakes.set()

    def take(self) -> bytes:
        """All that waits."""
        taken = b"".join(self.waiting)
        self.waiting.clear()
        self.size = 0
        return taken

    def refill(self) -> None:
        """The fleet is to be told anew: what waited is part of that."""
        self.take()
        self.wants_fleet = "fleet" in self.topics
        self.wakes.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.over = True
        self.wakes.set()


class Hub:
    """Tells all listeners what happens. ticks, sleep: as time.perf_counter and asyncio.sleep; tests give others."""

    def __init__(
        self,
        control: Control,
        *,
        ticks: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._control, self._ticks, self._sleep = control, ticks, sleep
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._watch: Watch | None = None
        self._kept: deque[Frame] = deque()
        self._kept_bytes = self._number = self._floor = 0
        self._epoch = secrets.token_hex(4)
        self._jobs: dict[str, bytes] = {}
        self._audited = self._control.audit.count if self._control.audit is not None else 0
        self._counted: _Counted | None = None
        self._control.history.fresh = None

    def __len__(self) -> int:
        return len(self._listeners)

    # listeners

    def join(self, topics: frozenset[str], groups: frozenset[str], last_id: str) -> Listener:
        """A new listener. last_id: of the last event that it had, '' for none. Raises ControlError."""
        if self._closed or len(self._listeners) >= MOST_STREAMS:
            raise ControlError(503, f"there are {MOST_STREAMS} streams already; end one")
        listener = Listener(topics, groups, time.monotonic)
        if (missed := self._since(last_id)) is not None:
            listener.wants_fleet = False
            for frame in missed:
                self._give(listener, frame, {})
        self._listeners.add(listener)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return listener

    def leave(self, listener: Listener) -> None:
        """A listener is gone."""
        self._listeners.discard(listener)

    def close(self) -> None:
        """The process ends: so do all streams."""
        self._closed = True
        for listener in self._listeners:
            listener.end()
        if self._task is not None:
            self._task.cancel()

    def _since(self, last_id: str) -> list[Frame] | None:
        """What came after an event, None where that is not known any more."""
        match = _ID.fullmatch(last_id)
        if match is None or match[1] != self._epoch or self._watch is None:
            return None
        number = int(match[2])
        if not self._floor <= number <= self._number:
            return None
        return [frame for frame in self._kept if frame.number > number]

    # what happens

    async def _run(self) -> None:
        idle = passes = 0
        while idle < _LINGER:
            try:
                await self._pass()
                if passes % 2 == 0:
                    self._tell_rates()
                self._tell_jobs()
                self._tell_audit()
            except Exception:
                log.exception("the live stream could not be filled")
                # What was seen may not have been told.
                self._watch = None
            await self._sleep(INTERVAL)
            passes += 1
            idle = 0 if self._listeners else idle + 1
        self._task = None
        self._forget()

    async def _pass(self) -> None:
        """Look at the whole fleet once."""
        watch, history = self._watch, self._control.history
        if watch is None or not watch.current:
            await self._build()
            return
        began, places = self._ticks(), []
        for start in range(0, len(watch), _CHUNK):
            places += watch.look(start, start + _CHUNK)
            if self._ticks() - began > _TURN:
                await asyncio.sleep(0)
                began = self._ticks()
        fresh, history.fresh = history.fresh or (), set()
        places += [place for one in fresh if (place := watch.look_at(one)) is not None]
        if places:
            changed = watch.changed(sorted(set(places)))
            self._tell("delta", _Delta(self._now(), *msgspec.structs.astuple(changed)), changed)

    async def _build(self) -> None:
        control = self._control
        control.history.fresh = set()
        watch = Watch(control.fleet, control.racks, control.history.errors)
        began = self._ticks()
        while not watch.complete:
            watch.add(_CHUNK // 5)
            if self._ticks() - began > _TURN:
                await asyncio.sleep(0)
                began = self._ticks()
        self._watch = watch
        # Places mean others now: what was told before is of no use any more.
        self._number += 1
        self._floor = self._number
        self._kept.clear()
        self._kept_bytes = 0
        for listener in self._listeners:
            listener.refill()

    def _tell_rates(self) -> None:
        before, self._counted = self._counted, _Counted.of(self._control, self._ticks())
        if before is not None:
            self._tell("rates", _rates(self._now(), before, self._counted, self._control))

    def _tell_jobs(self) -> None:
        told: dict[str, bytes] = {}
        for job in self._control.jobs.all():
            event = _JobEvent(job.id, job.state, job.total, job.done, job.failed, job.skipped, round(job.progress, 4))
            told[job.id] = msgspec.json.encode(event)
            if self._jobs.get(job.id) != told[job.id]:
                self._tell("job", event)
        self._jobs = told

    def _tell_audit(self) -> None:
        audit = self._control.audit
        missed, self._audited = audit.count - self._audited, audit.count
        for change in reversed(audit.latest(missed)):
            large = len(msgspec.json.encode(change)) > _LONGEST_AUDIT
            self._tell("audit", msgspec.structs.replace(change, about={}) if large else change)

    def _tell(self, event: str, data: Any, changed: Changed | None = None) -> None:
        self._number += 1
        frame = Frame(self._number, event, msgspec.json.encode(data), changed)
        # Rates are of no use later.
        if event != "rates":
            self._kept.append(frame)
            self._kept_bytes += len(frame.data)
            while len(self._kept) > _KEPT or self._kept_bytes > _KEPT_BYTES:
                gone = self._kept.popleft()
                self._floor = gone.number
                self._kept_bytes -= len(gone.data)
        encoded: dict[frozenset[str], bytes | None] = {}
        for listener in self._listeners:
            self._give(listener, frame, encoded)

    def _give(self, listener: Listener, frame: Frame, encoded: dict[frozenset[str], bytes | None]) -> None:
        # Who is to get the whole fleet gets what changes from then on.
        if frame.topic not in listener.topics or (listener.wants_fleet and frame.event == "delta"):
            return
        groups = listener.groups if frame.changed is not None else frozenset()
        if groups not in encoded:
            encoded[groups] = self._encoded(frame, groups)
        if (text := encoded[groups]) is not None:
            listener.put(text)

    def _encoded(self, frame: Frame, groups: frozenset[str]) -> bytes | None:
        """A frame as bytes of the stream; None where it has nothing about these groups."""
        data = frame.data
        if frame.changed is not None and groups:
            changed = frame.changed.only(self._places(groups))
            if not changed.i:
                return None
            data = msgspec.json.encode(_Delta(self._now(), *msgspec.structs.astuple(changed)))
        return b"id: %s-%d\nevent: %s\ndata: %b\n\n" % (
            self._epoch.encode(),
            frame.number,
            frame.event.encode(),
            data,
        )

    def _places(self, groups: frozenset[str]) -> frozenset[int]:
        watch = self._watch
        assert watch is not None
        wanted = {place for place, name in enumerate(watch.tables["group"]) if name in groups}
        return frozenset([place for place, group in enumerate(watch.fixed["group"]) if group in wanted])

    def _now(self) -> str:
        return rfc3339(self._control.clock.now().wall)

    # what is sent

    async def text(self, listener: Listener) -> AsyncIterator[bytes]:
        """The bytes of a stream, in pieces of bounded size; b'' where what came so far should go out."""
        yield b"retry: 2000\n\n"
        yield b""
        while not listener.over:
            if listener.wants_fleet and self._watch is not None:
                for piece in self._fleet(self._watch, listener):
                    yield piece
                    await asyncio.sleep(0)
                yield b""
            if not listener.waiting and not (listener.wants_fleet and self._watch is not None):
                listener.wakes.clear()
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await listener.wakes.wait()
                except TimeoutError:
                    yield b": \n\n"
                    yield b""
                    continue
            taken = listener.take()
            for start in range(0, len(taken), _PIECE):
                yield taken[start : start + _PIECE]
            yield b""

    def _fleet(self, watch: Watch, listener: Listener) -> Iterable[bytes]:
        """The event `fleet`: what is seen now, whatever changes while it is sent."""
        listener.wants_fleet = False
        number = self._number
        columns: dict[str, list[Any]] = {
            **watch.fixed,
            **{name: list(getattr(watch, name)) for name in ("status", "address", "faults", "errors")},
        }
        places = sorted(self._places(listener.groups)) if listener.groups else None
        head = {"time": self._now(), "tables": watch.tables}
        yield b"id: %s-%d\nevent: fleet\ndata: " % (self._epoch.encode(), number)
        yield msgspec.json.encode(head)[:-1] + b',"columns":{'
        for count, (name, column) in enumerate(columns.items()):
            values = column if places is None else [column[place] for place in places]
            yield b'%b"%b":[' % (b"," if count else b"", name.encode())
            every, first = iter(values), True
            while piece := list(islice(every, 1000)):
                yield (b"" if first else b",") + msgspec.json.encode(piece)[1:-1]
                first = False
            yield b"]"
        yield b"}}\n\n"


class EventStream(Response):
    """The answer that a stream is."""

    def __init__(self, hub: Hub, listener: Listener, *, gzip: bool) -> None:
        super().__init__(None, media_type="text/event-stream")
        self._hub, self._listener, self._gzip = hub, listener, gzip
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["vary"] = "Accept-Encoding"
        if gzip:
            self.headers["content-encoding"] = "gzip"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client is gone, does not read, or the process ends."""
        if scope["method"] == "HEAD":
            self._hub.leave(self._listener)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        tasks = {asyncio.ensure_future(one) for one in (self._send(send), _gone(receive), self._listener.cut.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(self._listener)
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener.cut.is_set():
            log.warning("a client of the live stream does not read, and was cut")

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        coder = zlib.compressobj(5, wbits=31) if self._gzip else None
        collected = bytearray()
        async for piece in self._hub.text(self._listener):
            flushed = not piece
            if coder is None:
                collected += piece
            else:
                collected += coder.flush(zlib.Z_SYNC_FLUSH) if flushed else coder.compress(piece)
            if collected and (flushed or len(collected) >= _PIECE):
                await send({"type": "http.response.body", "body": bytes(collected), "more_body": True})
                collected.clear()
        last = coder.flush() if coder is not None else b""
        await send({"type": "http.response.body", "body": last})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# events


class _Delta(msgspec.Struct, frozen=True):
    """As Changed."""

    time: str
    i: list[int]
    status: list[int]
    address: list[str | None]
    faults: list[int]
    errors: list[int]


class _JobEvent(msgspec.Struct, frozen=True):
    """How far a job is."""

    id: str
    state: str
    total: int
    done: int
    failed: int
    skipped: int
    progress: float


class _Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last second: requests, errors (4xx and 5xx) and drops per second; p50, p99: seconds, null without a
    request; lag: of the event loop, seconds; rss: bytes of memory; connections, streams: open ones."""

    time: str
    requests: float
    errors: float
    dropped: float
    p50: float | None
    p99: float | None
    lag: float
    rss: int
    connections: int
    streams: int


class _Counted(msgspec.Struct, frozen=True):
    """What was counted at some time."""

    at: float
    classes: Sequence[int]
    dropped: int
    buckets: Sequence[int]

    @classmethod
    def of(cls, control: Control, at: float) -> "_Counted":
        counters = control.counters
        return cls(at, tuple(counters.classes), counters.dropped, tuple(counters.buckets))


def _rates(now: str, before: _Counted, after: _Counted, control: Control) -> _Rates:
    counters, seconds = control.counters, max(after.at - before.at, 1e-3)
    classes = [new - old for new, old in zip(after.classes, before.classes, strict=True)]
    buckets = [new - old for new, old in zip(after.buckets, before.buckets, strict=True)]
    return _Rates(
        time=now,
        requests=round(sum(classes) / seconds, 1),
        errors=round(sum(classes[4:]) / seconds, 1),
        dropped=round((after.dropped - before.dropped) / seconds, 1),
        p50=quantile(counters.bounds, buckets, 0.5),
        p99=quantile(counters.bounds, buckets, 0.99),
        lag=round(counters.lag, 6),
        rss=resident_bytes(),
        connections=counters.connections_opened - counters.connections_closed,
        streams=counters.streams,
    )


# the endpoint


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoint."""
    hub = Hub(control)
    control.closing.append(hub.close)
    control.listeners = hub

    def events(call: Call) -> Response:
        wanted: Listen = call.query
        topics = frozenset(one for one in wanted.topics.split(",") if one) or frozenset(TOPICS)
        if unknown := sorted(topics.difference(TOPICS)):
            raise ControlError(400, f"topics: there is no topic {unknown[0]!r}; there are {', '.join(TOPICS)}")
        headers = call.request.headers
        gzip = "gzip" in headers.get("accept-encoding", "")
        listener = hub.join(topics, frozenset(wanted.group), headers.get("last-event-id", ""))
        return EventStream(hub, listener, gzip=gzip)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/events",
            summary="What happens in the fleet, as server-sent events",
            handler=events,
            query=Listen,
            answer=str,
            media="text/event-stream",
            refusals=(503,),
        )
    ]
