"""Requests for BMCs of another shard of the fleet: they go to that shard as they came, and its answers come back.

Between two shards there is one connection for each direction (a channel, a Unix socket). It carries frames: lane,
kind, length and payload. A lane is the way of one client connection to the BMCs of one shard, and what goes over it is
HTTP/1.1, so everything that a connection can be asked for works there too. This is the side of the shard that has the
client; edges/http/lanes.py is the other.

Rule 1: a lane has one request at a time. The client's next one, for whichever BMC, waits for DONE.
Rule 2: CLOSE ends the client's connection when it comes instead of an answer, once what came before is written. So
does the end of the channel, and a request for a shard that is not there. Nothing is answered in its place: an error of
ours would look like one of the BMC.
Rule 3: who says PAUSE gets no more DATA than what is under way, until RESUME. A channel that is full pauses those who
go on writing to it. Nobody ever stops reading a channel.
"""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import msgspec
from uvicorn.protocols.http.flow_control import FlowControl

log = logging.getLogger(__name__)

OPEN, DATA, DONE, PAUSE, RESUME, STOP, CLOSE = range(7)
"""Kinds of frames. OPEN: a lane, with a `Caller`. DATA: of a request or its answer. DONE: the last of an answer whose
lane goes on. STOP: answer without delay and end the lane. CLOSE: the lane is over."""

MOST_DATA = 64 * 1024
MOST_LANES = 65_536

Name = str | bytes
"""Of a Unix socket: a path, or an abstract name, which begins with a zero byte."""

_HEAD = struct.Struct("!IIB")
_CHANNEL_FULL = 4 * 1024 * 1024
_AGAIN_SECONDS = 0.2
_CREDENTIALS = struct.Struct("3i")
_OF_CONNECTION = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"upgrade"})


class ForwardingError(Exception):
    """Bytes of a channel that are no frames, or a place for its socket that cannot be had; the text says what."""


class Caller(msgspec.Struct, frozen=True):
    """Who has a lane: the address and port that it dialled, its own, and whether it came by TLS."""

    dialled: str
    port: int
    client: tuple[str, int]
    tls: bool


def frame(lane: int, kind: int, payload: bytes = b"") -> bytes:
    """One frame. payload: up to MOST_DATA bytes."""
    return _HEAD.pack(lane, len(payload), kind) + payload


def frames(data: bytes) -> tuple[list[tuple[int, int, bytes]], bytes]:
    """The whole frames at the beginning as (lane, kind, payload), and the rest. Raises ForwardingError."""
    found = []
    start, size = 0, len(data)
    while size - start >= _HEAD.size:
        lane, length, kind = _HEAD.unpack_from(data, start)
        if length > MOST_DATA or kind > CLOSE:
            raise ForwardingError(f"a frame of kind {kind} with {length} bytes")
        begin = start + _HEAD.size
        if size - begin < length:
            break
        start = begin + length
        found.append((lane, kind, data[begin:start]))
    return found, data[start:]


def request_head(method: bytes, target: bytes, fields: Mapping[bytes, bytes], keep_alive: bool) -> bytes:
    """A request head for the other shard. What is about the client's connection alone stays here."""
    lines = [b"%b %b HTTP/1.1" % (method, target)]
    lines += [b"%b: %b" % field for field in fields.items() if field[0] not in _OF_CONNECTION]
    if not keep_alive:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


class Waiting(Protocol):
    """Who goes on writing to a channel, and has to stop while it is full."""

    def emptied(self) -> None:
        """The channel takes more."""


class Channel(asyncio.Protocol):
    """One side of a connection between two shards. Both must belong to one user."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: set[Waiting] = set()
        self.full = False
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The other side is there."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_CHANNEL_FULL)
        user = _user_of(self.transport.get_extra_info("socket"))
        if user not in (None, os.geteuid()):
            log.error("a shard of another user (%d) is refused", user)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side is gone."""
        del exc
        self.transport = None
        self.waiting.clear()

    def pause_writing(self) -> None:
        """The other side is too slow."""
        self.full = True

    def resume_writing(self) -> None:
        """The other side has read."""
        self.full = False
        waiting, self.waiting = self.waiting, set()
        for one in waiting:
            one.emptied()

    def send(self, lane: int, kind: int, payload: bytes = b"") -> None:
        """Send a frame, and more where the payload is long. uvloop writes what a turn of the loop sends at once."""
        if self.transport is None:
            return
        if len(payload) > MOST_DATA:
            last = (len(payload) - 1) // MOST_DATA * MOST_DATA
            for start in range(0, last, MOST_DATA):
                self.transport.write(frame(lane, DATA, payload[start : start + MOST_DATA]))
            payload = payload[last:]
        self.transport.write(_HEAD.pack(lane, len(payload), kind) + payload)

    def data_received(self, data: bytes) -> None:
        """Hand on the frames that are complete."""
        try:
            found, self._rest = frames(self._rest + data if self._rest else data)
            for lane, kind, payload in found:
                self.received(lane, kind, payload)
        except (ForwardingError, msgspec.MsgspecError) as error:
            log.error("a channel between shards is closed: %s", error)
            self.close()

    def received(self, lane: int, kind: int, payload: bytes) -> None:
        """A frame has come."""
        raise NotImplementedError

    def close(self) -> None:
        """End the channel at once."""
        if self.transport is not None:
            self.transport.abort()


def _user_of(sock: socket.socket) -> int | None:
    """The user at the other end of a Unix socket, None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return cast(int, _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))[1])


class Client(Protocol):
    """The connection whose requests are handed over."""

    transport: asyncio.Transport

    @property
    def flow(self) -> FlowControl:
        """Of what the client sends."""

    def relay_done(self, relay: "Relay") -> None:
        """The answer is complete."""

    def relay_closed(self, relay: "Relay") -> None:
        """The lane is over."""

    def relay_ready(self) -> None:
        """The lane takes data again."""


class Relay:
    """A lane as the client's connection sees it.

    held: whether it takes no data for the moment. stopping: whether the connection ends with this answer. answered:
    whether something of the answer to the present request has come.
    """

    __slots__ = ("_blocked", "_channel", "_lane", "_paused", "_refused", "answered", "client", "peer", "stopping")

    def __init__(self, peer: "Peer", channel: "_Outward", lane: int, client: Client) -> None:
        self.peer, self.client = peer, client
        self._channel, self._lane = channel, lane
        self._blocked = self._refused = self._paused = False
        self.stopping = self.answered = False

    @property
    def held(self) -> bool:
        return self._blocked or self._refused

    def begin(self, data: bytes) -> None:
        """A request, or its beginning."""
        self.answered = False
        self._channel.send(self._lane, DATA, data)

    def feed(self, data: bytes) -> None:
        """More of the request."""
        self._channel.send(self._lane, DATA, data)
        if self._channel.full and not self._blocked:
            self._blocked = True
            self._channel.waiting.add(self)
            self.client.flow.pause_reading()

    def emptied(self) -> None:
        """The channel takes more."""
        self._blocked = False
        if not self.held:
            self.client.relay_ready()

    def pause(self) -> None:
        """The client does not read."""
        self._paused = True
        self._channel.send(self._lane, PAUSE)

    def resume(self) -> None:
        """The client reads again."""
        if self._paused:
            self._paused = False
            self._channel.send(self._lane, RESUME)

    def hurry(self) -> None:
        """This process stops: let the answer come without delay, and end with it."""
        self.stopping = True
        self._channel.send(self._lane, STOP)

    def cancel(self) -> None:
        """The client is gone."""
        self._channel.forget(self._lane, self)

    def received(self, kind: int, payload: bytes) -> None:
        """A frame of this lane has come."""
        if payload:
            self.answered = True
            self.client.transport.write(payload)
        if kind == DONE:
            self._refused = self._blocked = False
            self.resume()
            self.client.relay_done(self)
        elif kind == PAUSE:
            self._refused = True
            self.client.flow.pause_reading()
        elif kind == RESUME:
            self._refused = False
            if not self.held:
                self.client.relay_ready()


class _Outward(Channel):
    """The channel that this process opened to another shard."""

    def __init__(self, over: Callable[[], object]) -> None:
        super().__init__()
        self._over = over
        self._relays: dict[int, Relay] = {}
        self._last = 0

    def open(self, peer: "Peer", client: Client, caller: Caller) -> Relay | None:
        """A new lane; None when there are too many."""
        if len(self._relays) >= MOST_LANES:
            return None
        lane = self._last = self._free(self._last)
        relay = self._relays[lane] = Relay(peer, self, lane, client)
        self.send(lane, OPEN, msgspec.json.encode(caller))
        return relay

    def _free(self, lane: int) -> int:
        """The next number after one that no lane has."""
        while (lane := (lane + 1) & 0xFFFFFFFF) in self._relays:
            pass
        return lane

    def forget(self, lane: int, relay: Relay) -> None:
        """Nobody waits for a lane any more."""
        self.waiting.discard(relay)
        if self._relays.pop(lane, None) is not None:
            self.send(lane, CLOSE)

    def received(self, lane: int, kind: int, payload: bytes) -> None:
        """A frame has come; of a lane that was given up here, nothing is wanted."""
        relay = self._relays.get(lane)
        if relay is None:
            return
        if kind == CLOSE:
            del self._relays[lane]
            self.waiting.discard(relay)
            relay.client.relay_closed(relay)
        else:
            relay.received(kind, payload)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other shard is gone, and whoever waits for it waits in vain."""
        super().connection_lost(exc)
        relays, self._relays = self._relays, {}
        for relay in relays.values():
            relay.client.relay_closed(relay)
        self._over()


class Peer:
    """Another shard, by the name of its socket."""

    def __init__(self, name: Name) -> None:
        self._name = name
        self._channel: _Outward | None = None
        self._keeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Have a channel to it from now on, a new one when it ends."""
        self._keeping = asyncio.create_task(self._keep())

    def close(self) -> None:
        """Do without it."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._channel is not None:
            self._channel.close()

    def open(self, client: Client, caller: Caller) -> Relay | None:
        """A lane to it for a client's connection; None while it is not there."""
        return self._channel.open(self, client, caller) if self._channel is not None else None

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            gone = asyncio.Event()
            try:
                sock.setblocking(False)
                # At once, or not: a Unix socket has room for one more or not.
                sock.connect(self._name)
                _, channel = await loop.create_unix_connection(partial(_Outward, gone.set), sock=sock)
            except OSError:
                sock.close()
            else:
                self._channel = channel
                await gone.wait()
                self._channel = None
            await asyncio.sleep(_AGAIN_SECONDS)


class Peers:
    """The other shards of the fleet.

    number_of: the number of the shard that has an address, from 1, None for an address of none. names: of the sockets
    of all shards in order, of this one too. own: the number of this one.
    """

    def __init__(self, number_of: Callable[[str], int | None], names: Sequence[Name], own: int) -> None:
        self._number_of = number_of
        self._peers = {number: Peer(name) for number, name in enumerate(names, 1) if number != own}

    def start(self) -> None:
        """Have channels to all from now on."""
        for peer in self._peers.values():
            peer.start()

    def close(self) -> None:
        """Do without them."""
        for peer in self._peers.values():
            peer.close()

    def of(self, address: str) -> Peer | None:
        """The shard that has a BMC, by its address."""
        number = self._number_of(address)
        return self._peers.get(number) if number is not None else None


def names_in(directory: Path, count: int) -> list[str]:
    """Where each of so many shards that are started apart has its socket."""
    return [str(directory / f"shard-{number}-of-{count}.sock") for number in range(1, count + 1)]


def open_named(path: Path) -> socket.socket:
    """The socket of a shard that was started apart, for its user alone. Raises ForwardingError.

    What a process left that was killed is replaced.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        if _answers(path):
            raise ForwardingError(f"{path}: another process serves this shard; stop it, or name another --peers")
        if path.exists() and not path.is_socket():
            raise ForwardingError(f"{path}: is no socket, and is not replaced; remove it, or name another --peers")
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        path.chmod(0o600)
        return _listening(sock)
    except OSError as error:
        sock.close()
        raise ForwardingError(
            f"{path}: cannot be the socket of this shard: {error.strerror or error}; --peers must be a directory that "
            "this user may write to"
        ) from error
    except ForwardingError:
        sock.close()
        raise


def open_unnamed(count: int) -> list[socket.socket]:
    """A socket for each of so many shards that are started together. Their names are abstract: no file is written."""
    socks = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(count)]
    for sock in socks:
        sock.bind("")
        _listening(sock)
    return socks


def _listening(sock: socket.socket) -> socket.socket:
    sock.listen()
    sock.setblocking(False)
    return sock


def names_of(socks: Iterable[socket.socket]) -> list[Name]:
    """The names of the sockets of shards."""
    return [sock.getsockname() for sock in socks]


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True
