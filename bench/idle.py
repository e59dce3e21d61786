"""A kept connection to every BMC at once: what they cost while nobody asks, and the health mix over them.

Monitoring keeps a connection to each BMC and uses it now and then. All are opened from one process, each is used once
and then left alone; what memory says then is for all of them together.

The client's connections are straight on their sockets, as the server's are: with an event loop's own TLS this process
would need twice the memory of the server, and waits for pages of it would count as latency.
"""

import asyncio
import collections
import gc
import itertools
import resource
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import uvloop

from bench import openloop, paths
from bench.client import Response, any_certificate, encode
from bench.density import idle_cpu
from bench.openloop import Generator, Outcome, Stream
from bench.report import Bar, Measure
from bench.server import BenchError, Server, Settings, Site, bmcsim

MEMORY = Bar("<", 500.0)
FULL_FLEET = 13_500

_RECORD = 16 * 1024
_PARALLEL = 64
_SPARE = 200  # descriptors for anything else
_LOOK = 0.5
_PATIENCE = 600.0


class Wire:
    """The client's side of one TLS connection: as much of a transport as a stream needs."""

    __slots__ = ("_loop", "_sock", "_stream")

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: ssl.SSLSocket, stream: "Kept") -> None:
        self._loop, self._sock, self._stream = loop, sock, stream
        loop.add_reader(sock.fileno(), self._readable)
        stream.connection_made(cast(Any, self))

    def _readable(self) -> None:
        try:
            data = self._sock.read(_RECORD)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._lost(error)
            return
        if data:
            self._stream.data_received(data)
        else:
            self._lost(None)

    def _lost(self, error: Exception | None) -> None:
        self.abort()
        self._stream.connection_lost(error)

    def write(self, data: bytes) -> None:
        """Send a request, which is small and fits."""
        if self._sock.send(data) != len(data):
            self._lost(BlockingIOError("a request did not fit"))

    def is_closing(self) -> bool:
        """Whether it is no longer there."""
        return self._sock.fileno() < 0

    def abort(self) -> None:
        """End it at once."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()


async def _connect(address: str, port: int, context: ssl.SSLContext, stream: "Kept") -> None:
    """Raises OSError."""
    loop = asyncio.get_running_loop()
    plain = socket.socket()
    plain.setblocking(False)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await loop.sock_connect(plain, (address, port))
        sock = context.wrap_socket(plain, do_handshake_on_connect=False)
    except BaseException:
        plain.close()
        raise
    try:
        while True:
            try:
                sock.do_handshake()
                break
            except ssl.SSLWantReadError:
                await _readable(loop, sock)
    except BaseException:
        sock.close()
        raise
    Wire(loop, sock, stream)


async def _readable(loop: asyncio.AbstractEventLoop, sock: ssl.SSLSocket) -> None:
    ready = asyncio.Event()
    loop.add_reader(sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock.fileno())


class Kept(Stream):
    """The connection of one BMC. `waiting` are requests that are due while another one is under way."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self.first: asyncio.Future[int] | None = asyncio.get_running_loop().create_future()
        self.busy = False
        self.waiting: collections.deque[tuple[float, bytes]] = collections.deque()

    def responded(self, response: Response) -> None:
        if self.first is None:
            super().responded(response)
        elif not self.first.done():
            self.first.set_result(response.status)

    def failed(self, error: Exception) -> None:
        if self.first is not None and not self.first.done():
            self.first.set_exception(error)
        super().failed(error)


class Pinned(Generator):
    """Sends each request over the connection of the BMC that it is for."""

    def __init__(self, rate: float, seconds: float, requests: Sequence[tuple[int, bytes]]) -> None:
        super().__init__(rate, seconds, 0)
        self._asked: Iterator[tuple[int, bytes]] = itertools.cycle(requests)
        self.streams: list[Kept] = []

    async def hold(self, site: Site, server: Server, trees: paths.Trees) -> None:
        """Open a connection to every BMC and use it once. Raises BenchError unless the answer is 200."""
        context = any_certificate()
        found: dict[int, Kept] = {}
        indexes = iter(range(site.bmcs))

        async def worker() -> None:
            for index in indexes:
                address = site.address(index)
                stream = found[index] = Kept(self)
                await _connect(address, server.port, context, stream)
                first = stream.first
                path = trees[site.role(index)].system
                stream.transport.write(encode(f"{address}:{server.port}", path, password=site.password(index)))
                if first is not None and (status := await first) != 200:
                    raise BenchError(f"{address} answers {status}")
                stream.first = None

        await asyncio.gather(*(worker() for _ in range(_PARALLEL)))
        self.streams = [found[index] for index in range(site.bmcs)]

    def send_due(self) -> None:
        """Send what is due; a request whose connection is taken waits for it."""
        now = time.perf_counter()
        while (due := self._due[self._next]) <= now:
            index, request = next(self._asked)
            self._next += 1
            self.pending += 1
            stream = self.streams[index]
            if stream.busy:
                stream.waiting.append((due, request))
            else:
                _send(stream, due, request)

    def free(self, stream: Stream, now: float) -> None:  # noqa: ARG002 of the base
        if isinstance(stream, Kept):
            stream.busy = False
            if stream.waiting:
                _send(stream, *stream.waiting.popleft())

    @property
    def closed(self) -> int:
        """Connections that are no longer there."""
        return sum(stream.transport.is_closing() for stream in self.streams)

    async def leave(self) -> None:
        """End all connections, and wait a moment for it."""
        for stream in self.streams:
            stream.transport.abort()
        await asyncio.sleep(_LOOK)


def _send(stream: Kept, due: float, request: bytes) -> None:
    stream.busy, stream.due = True, due
    stream.transport.write(request)


def run(settings: Settings) -> list[Measure]:
    """Hold a connection to every BMC of the fleet, and then ask over them."""
    fleet = settings.fleet
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors < fleet.bmcs + _SPARE:
        raise BenchError(f"{fleet.bmcs:,} connections need `ulimit -n` of {fleet.bmcs + _SPARE}; it is {descriptors}")
    with bmcsim(settings) as started:
        return uvloop.run(_measured(settings, started.server))


async def _measured(settings: Settings, server: Server) -> list[Measure]:
    fleet = settings.fleet
    trees = await paths.walk(fleet, server)
    rate = settings.rate or openloop.fitting(fleet.bmcs)
    requests = [
        (one.index, encode(f"{fleet.address(one.index)}:{server.port}", one.path))
        for one in paths.mix(fleet, trees, openloop.REQUESTS)
    ]
    generator = Pinned(rate, settings.seconds, requests)
    ready = server.rss()
    try:
        await asyncio.wait_for(generator.hold(fleet, server, trees), _PATIENCE)
        used = server.rss()
        await asyncio.sleep(settings.settle)
        busy = await asyncio.to_thread(idle_cpu, server, settings.idle)
        held = server.rss()
        if generator.closed:
            raise BenchError(f"the server closed {generator.closed} idle connections")
        each = (held - ready) / fleet.bmcs
        note = f"{fleet.bmcs:,} connections, one to each BMC, {settings.rest:.0f} s after one GET on each"
        measures = [
            Measure("memory when ready", ready / 1024, "MiB", note="no connection yet"),
            Measure("memory when all are open", used / 1024, "MiB", note="each used once, a moment ago"),
            _of_all("memory with all idle", held, fleet.bmcs, note),
            Measure("memory per connection", each, "KiB", note="with what a BMC keeps once it was read"),
            Measure("CPU with all idle", busy, "% of a core"),
        ]
        return measures + await _mix(generator, server, fleet.bmcs, rate)
    finally:
        await generator.leave()


async def _mix(generator: Pinned, server: Server, bmcs: int, rate: float) -> list[Measure]:
    """The health mix over the connections; without its figures where it fails, but what came before counts."""
    seen: list[int] = []

    async def watch() -> None:
        while True:
            seen.append(server.rss())
            await asyncio.sleep(_LOOK)

    watching = asyncio.create_task(watch())
    # A collection would stall the generator for milliseconds.
    gc.collect()
    gc.freeze()
    gc.disable()
    name = f"{rate:,.0f} req/s over them"
    try:
        outcome: Outcome = await openloop.measured(generator, server.pid)
    except (BenchError, OSError, ValueError) as error:
        return [Measure(name, 0, "", void=str(error))]
    finally:
        watching.cancel()
        gc.enable()
        gc.unfreeze()
    bar = openloop.RATES[0][1] if rate >= openloop.RATES[0][0] else None
    measures = openloop.judge(name, bar, outcome)
    p50 = Measure(f"{name}: p50", openloop.percentiles(outcome)[50.0], "ms", void=measures[-1].void)
    note = "at most, each request over the connection of its BMC"
    return [measures[0], p50, *measures[1:], _of_all("memory meanwhile", max(seen), bmcs, note)]


def _of_all(name: str, kib: int, bmcs: int, note: str) -> Measure:
    if bmcs < FULL_FLEET:
        return Measure(name, kib / 1024, "MiB", note=f"{note}; no verdict below {FULL_FLEET:,} BMCs")
    return Measure(name, kib / 1024, "MiB", MEMORY, note=note)
