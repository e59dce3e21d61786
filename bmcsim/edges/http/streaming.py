"""Server-sent events on their connection (DSP0266 12.5). No task and no timer per stream."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from bmcsim.core.clock import Moment
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import Forgotten, StreamWish
from bmcsim.redfish import events

HEARTBEAT_SECONDS = 15.0
_EARLY = 1.0  # half of the time between two sweeps: what is due in between is sent at the nearer one
_LAST_CHUNK = b"0\r\n\r\n"


class Streaming:
    """An open stream.

    Rule 1: while the client does not read, nothing is written; what it misses stays in the feed of the BMC.
    Rule 2: `over` is called once, when the BMC ends the stream or the feed has forgotten what comes next; never after
        `cancel`.
    """

    __slots__ = ("_bmc", "_chunked", "_last", "_over", "_stream", "_transport", "paused")

    def __init__(
        self,
        transport: asyncio.Transport,
        bmc: Bmc,
        wish: StreamWish,
        moment: Moment,
        *,
        chunked: bool,
        stalled_seconds: float,
        over: Callable[[], None],
    ) -> None:
        """chunked: whether the connection goes on afterwards, so that the end has to be told. stalled_seconds: how long
        a client may take nothing of what was sent."""
        host, port = (*(transport.get_extra_info("peername") or ()), "", 0)[:2]
        self._transport: asyncio.Transport | None = transport
        self._bmc, self._chunked, self._over = bmc, chunked, over
        self._last = moment.mono
        self.paused = False
        close_if_stalled(transport, stalled_seconds)
        self._stream = bmc.open_stream(wish, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", moment)
        self._stream.woken, self._stream.ended = self.flush, self.end

    def flush(self) -> None:
        """Send what has come."""
        if self.paused or self._transport is None:
            return
        try:
            new = self._stream.take()
        except Forgotten:
            self._stream.end()
            return
        if new:
            self._write(events.sse(self._bmc, new, self._stream.id))

    def tick(self, now: float) -> None:
        """Called every few seconds while the client reads: keep the connection alive. now: monotonic seconds."""
        if now + _EARLY >= self._last + HEARTBEAT_SECONDS:
            self._last = now
            self._write(events.HEARTBEAT)

    def end(self) -> None:
        """The stream is over."""
        if (transport := self._transport) is None:
            return
        if self._chunked and not transport.is_closing():
            transport.write(_LAST_CHUNK)
        over = self._over
        self.cancel()
        over()

    def cancel(self) -> None:
        """The connection is gone."""
        self._transport = None
        self._over = _nothing
        self._stream.woken = self._stream.ended = _nothing
        self._stream.close()

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)


def close_if_stalled(transport: asyncio.Transport, seconds: float) -> None:
    """Have the system end the connection of a client that takes nothing, dead or alive (RFC 5482): the little that a
    stream sends may fit its buffers, so that nobody else would see it."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def _nothing() -> None:
    """Who is told nothing any more."""
