"""Runs the listeners of one process on one uvloop."""

import asyncio
import ctypes
import gc
import logging
import resource
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from bmcsim.core.clock import Clock
from bmcsim.edges.http.app import RedfishApp
from bmcsim.edges.http.context import Context
from bmcsim.edges.http.listen import BACKLOG
from bmcsim.edges.http.protocol import Listening, RedfishProtocol
from bmcsim.edges.http.tls import Served
from bmcsim.edges.http.tls_transport import TlsServer

log = logging.getLogger(__name__)

_SWEEP_EVERY = 2
_SWEPT_AT_ONCE = 200  # connections: at 13,500 a whole sweep would hold up everybody for tens of milliseconds
_TRIM_EVERY = 30
# Changes to thousands of BMCs at once allocate enough to start many full collections, which find nothing and block the
# loop for tens of milliseconds each. What is garbage in cycles is young, and the other generations find it: in steps
# of up to 25,000 objects, which take ten milliseconds.
_GC_THRESHOLDS = (5_000, 5, 1_600)
_GRACE_SECONDS = 10


class Listener:
    """One uvicorn server on one socket; with TLS it has connections of our own."""

    def __init__(self, app: Any, sock: socket.socket, http: Any, tls: Served | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=http,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            backlog=BACKLOG,
        )
        self.server = uvicorn.Server(config)
        self._socket, self._http, self._tls = sock, http, tls

    async def start(self) -> None:
        """Accept connections from now on."""
        self.server.config.load()
        self.server.lifespan = self.server.config.lifespan_class(self.server.config)
        if self._tls is None:
            await self.server.startup([self._socket])
            return
        http, state, tls = self._http, self.server.server_state, self._tls
        accepting = TlsServer(self._socket, lambda: tls.context, lambda: http(server_state=state))
        self.server.servers = [cast(Any, accepting)]

    async def stop(self) -> None:
        """Finish what is being answered, then close."""
        await self.server.shutdown([self._socket])


class Service(Protocol):
    """Something that serves between its start and its stop."""

    async def start(self) -> None:
        """Take in requests from now on."""

    async def stop(self) -> None:
        """Take in no more, and return when what was taken in is done with."""


def listening(context: Context) -> Listening:
    """What the connections of a Redfish port share."""
    return Listening(RedfishApp(context), set(), set())


def redfish_listener(
    context: Context, sock: socket.socket, tls: Served | None, shared: Listening | None = None
) -> Listener:
    """The Redfish port: fast lane, and its slow lane behind it. shared: with connections that come another way."""
    shared = shared or listening(context)

    def protocol(*, server_state: ServerState, **_others: Any) -> RedfishProtocol:
        server_state.connections, server_state.tasks = shared.connections, shared.tasks
        return RedfishProtocol(context, shared)

    return Listener(shared.app, sock, protocol, tls)


class Departures:
    """Ends connections to addresses that BMCs have no more, before the next request comes: another BMC may get the
    address, and would be taken for the first one."""

    def __init__(self, shared: Listening, soon: Callable[[Callable[[], None]], object]) -> None:
        """soon: the loop's call_soon."""
        self._shared, self._soon = shared, soon
        self._left: set[str] = set()

    def left(self, address: str) -> None:
        """A BMC is not there any more."""
        if not self._left:
            self._soon(self._end)
        self._left.add(address)

    def _end(self) -> None:
        left, self._left = self._left, set()
        for connection in [one for one in self._shared.connections if one.dialled in left]:
            connection.shutdown()


def admin_listener(app: ASGIApp, sock: socket.socket) -> Listener:
    """A plain HTTP port for an ASGI application."""
    return Listener(app, sock, "httptools")


class Housekeeper:
    """One tick a second: loop lag, changed certificates, idle connections, returning freed memory to the system."""

    def __init__(self, context: Context, listener: Listener, clock: Clock, tls: Served | None = None) -> None:
        self._context, self._listener, self._clock, self._tls = context, listener, clock, tls
        self._trim = _malloc_trim()
        self._count = 0
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin ticking on the running loop."""
        self._due = self._clock.now().mono + 1.0
        self._handle = asyncio.get_running_loop().call_later(1.0, self._tick)

    def stop(self) -> None:
        """Stop ticking."""
        if self._handle is not None:
            self._handle.cancel()

    def _tick(self) -> None:
        now = self._clock.now().mono
        metrics = self._context.metrics
        metrics.lag = max(0.0, now - self._due)
        metrics.lag_max = max(metrics.lag_max, metrics.lag)
        if self._tls is not None:
            self._tls.poll(metrics)
        self._count += 1
        if self._count % _SWEEP_EVERY == 0:
            self._sweep(iter(list(self._listener.server.server_state.connections)), now)
        if self._count % _TRIM_EVERY == 0:
            self._trim()
        self.start()

    def _sweep(self, waiting: Iterator[Any], now: float) -> None:
        """Look after some of the connections that wait for it, and after the others in the next turns of the loop."""
        connections = self._listener.server.server_state.connections
        some = list(islice(waiting, _SWEPT_AT_ONCE))
        for connection in some:
            if connection in connections:
                connection.sweep(now)
        if len(some) == _SWEPT_AT_ONCE:
            asyncio.get_running_loop().call_soon(self._sweep, waiting, now)


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us have: the usual 1,024 would be 1,000 connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _malloc_trim() -> Callable[[], object]:
    """glibc's malloc_trim, since TLS churn fragments its heap; nothing on other C libraries."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return lambda: None
    return lambda: trim(0)


async def run(
    listeners: Sequence[Service], housekeeper: Housekeeper, build: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Listen first, build after, serve until SIGINT or SIGTERM. What `build` raises ends the process."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    for listener in listeners:
        await listener.start()
    housekeeper.start()
    building = asyncio.create_task(build())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({building, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if building.done():
            building.result()
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GC_THRESHOLDS)
            await stopping
        log.info("stopping")
    finally:
        building.cancel()
        stopping.cancel()
        housekeeper.stop()
        for listener in listeners:
            await listener.stop()
