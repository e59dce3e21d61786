"""What other shards hand over: each lane of a channel is a connection of the Redfish port, without a socket.

So whatever a connection can do works on a lane too: uploads, streams, delays, drops. edges/http/forwarding.py has the
other side, and the rules.
"""

import asyncio
import socket
from typing import Any, cast

import msgspec

from bmcsim.edges.http.context import Context
from bmcsim.edges.http.forwarding import CLOSE, DATA, DONE, MOST_LANES, OPEN, PAUSE, RESUME, STOP, Caller, Channel
from bmcsim.edges.http.protocol import Listening, RedfishProtocol


class _Lane(RedfishProtocol):
    """The connection. It hands nothing over: two shards that do not agree on whose a BMC is would do so for ever."""

    __slots__ = ()

    hands_over = False

    @property
    def owes(self) -> bool:
        """Whether a request is under way, or the connection ends."""
        return self._closing or self._in_message or self._waiting

    def sweep(self, now: float) -> None:
        """As any other, but it may be idle for as long as its client's connection is."""
        if self.owes or self.transport.is_closing():
            super().sweep(now)

    def answered(self) -> None:
        """An answer that was not simply written is complete."""
        cast(_LaneTransport, self.transport).answered()


class _LaneTransport(asyncio.Transport):
    """What a lane writes to."""

    __slots__ = ("_channel", "_closing", "_collected", "_lane", "_over", "_pauses", "protocol")

    def __init__(self, channel: "_Inward", lane: int, caller: Caller, protocol: _Lane) -> None:
        super().__init__(
            {
                "sockname": (caller.dialled, caller.port),
                "peername": caller.client,
                "sslcontext": True if caller.tls else None,
            }
        )
        self._channel, self._lane, self.protocol = channel, lane, protocol
        self._closing = self._over = False
        # While data of a request are read, what is written goes out with the end of that.
        self._collected: list[bytes] | None = None
        # For what reasons nothing should be written: the client is too slow, the channel is full.
        self._pauses: set[str] = set()

    def feed(self, data: bytes) -> None:
        """Data of a request have come."""
        if self._closing:
            return
        collected = self._collected = []
        try:
            self.protocol.data_received(data)
        except Exception as error:
            context = {"message": "a request from another shard failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            self.close()
        self._collected = None
        out = collected[0] if len(collected) == 1 else b"".join(collected)
        if self._closing or self.protocol.owes:
            if out:
                self._write(out)
            if self._closing:
                self._channel.send(self._lane, CLOSE)
        else:
            self._channel.send(self._lane, DONE, out)

    def answered(self) -> None:
        """An answer is complete; while a request is read, that is for its end to say."""
        if self._collected is None and not self._closing and not self.protocol.owes:
            self._channel.send(self._lane, DONE)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data of an answer."""
        if self._closing:
            return
        if self._collected is not None:
            self._collected.append(bytes(data))
        else:
            self._write(bytes(data))

    def _write(self, data: bytes) -> None:
        self._channel.send(self._lane, DATA, data)
        if self._channel.full:
            self._channel.waiting.add(self)
            self.pause("channel")

    def emptied(self) -> None:
        """The channel takes more."""
        self.resume("channel")

    def pause(self, reason: str) -> None:
        """Nothing should be written for now."""
        first = not self._pauses
        self._pauses.add(reason)
        if first and not self._over:
            self.protocol.pause_writing()

    def resume(self, reason: str) -> None:
        """One reason less."""
        if reason in self._pauses:
            self._pauses.discard(reason)
            if not self._pauses and not self._over:
                self.protocol.resume_writing()

    def pause_reading(self) -> None:
        """Let no more of a body come."""
        self._channel.send(self._lane, PAUSE)

    def resume_reading(self) -> None:
        """Let it come again."""
        self._channel.send(self._lane, RESUME)

    def close(self) -> None:
        """The lane is over once the other side has what was written."""
        if self._closing:
            return
        self._closing = True
        if self._collected is None:
            self._channel.send(self._lane, CLOSE)
        asyncio.get_running_loop().call_soon(self.lost)

    def abort(self) -> None:
        """As close: what was written is on its way."""
        self.close()

    def is_closing(self) -> bool:
        """Whether it is over."""
        return self._closing

    def can_write_eof(self) -> bool:
        """No: as with TLS."""
        return False

    def lost(self) -> None:
        """Nobody is there any more."""
        self._closing = True
        self._channel.forget(self._lane, self)
        if not self._over:
            self._over = True
            self.protocol.connection_lost(None)


class _Inward(Channel):
    """A channel that another shard opened."""

    def __init__(self, desk: "Desk") -> None:
        super().__init__()
        self._desk = desk
        self._lanes: dict[int, _LaneTransport] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Another shard is there."""
        super().connection_made(transport)
        self._desk.channels.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Another shard is gone, and its clients are."""
        super().connection_lost(exc)
        self._desk.channels.discard(self)
        for lane in list(self._lanes.values()):
            lane.lost()

    def forget(self, number: int, lane: _LaneTransport) -> None:
        """A lane is over."""
        self.waiting.discard(lane)
        if self._lanes.get(number) is lane:
            del self._lanes[number]

    def received(self, lane: int, kind: int, payload: bytes) -> None:
        """A frame has come; of a lane that was closed here, nothing is wanted."""
        if kind == OPEN:
            self._open(lane, msgspec.json.decode(payload, type=Caller))
            return
        transport = self._lanes.get(lane)
        if transport is None:
            return
        if kind == DATA:
            transport.feed(payload)
        elif kind == PAUSE:
            transport.pause("client")
        elif kind == RESUME:
            transport.resume("client")
        elif kind == STOP:
            transport.protocol.shutdown()
        elif kind == CLOSE:
            transport.lost()

    def _open(self, lane: int, caller: Caller) -> None:
        if self._desk.stopping or lane in self._lanes or len(self._lanes) >= MOST_LANES:
            self.send(lane, CLOSE)
            return
        protocol = _Lane(self._desk.context, self._desk.listening)
        protocol.dialled = caller.dialled
        transport = self._lanes[lane] = _LaneTransport(self, lane, caller, protocol)
        protocol.connection_made(transport)


class Desk:
    """Takes in what other shards hand over, by a Unix socket of this one."""

    def __init__(self, context: Context, listening: Listening, sock: socket.socket) -> None:
        self.context, self.listening = context, listening
        self.channels: set[_Inward] = set()
        self.stopping = False
        self._sock = sock
        self._server: Any = None

    async def start(self) -> None:
        """Take in requests from now on."""
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Inward(self), sock=self._sock)

    async def stop(self) -> None:
        """Take in no more lanes. Those that are there end with the listener's connections."""
        self.stopping = True
        self._server.close()

    def close(self) -> None:
        """End all channels."""
        for channel in list(self.channels):
            channel.close()
