"""TLS connections straight on their sockets.

An event loop's own TLS moves every byte through two memory buffers for each connection, and asks OpenSSL twice for each
request, the second time to be told that there is no more. Here OpenSSL reads and writes the socket itself, and is asked
once each time that the socket has something: 10 KiB less for each connection, and a tenth less for each request.

Rule 1: a connection is let in or reset before its handshake: a BMC that is not there refuses at once.
Rule 2: what was written leaves before the connection ends in order, for as long as the client takes it.
Rule 3: the end of TLS is told to the client, and what it still sends is read for a moment: with unread data closing
        would be a reset, which may overtake the last answer.
Rule 4: `connection_lost` comes once and from the loop, never from inside a call of the protocol.
Rule 5: what is written in one turn of the loop leaves at its end, one connection after the other. A client that waits
        for several answers is then woken once, and its waking is a tenth of what an answer costs.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Protocol, cast

log = logging.getLogger(__name__)

_RECORD = 16 * 1024
"""Bytes: no record has more (RFC 8446 5.1), so that OpenSSL keeps nothing back that no event would tell of."""

_HIGH, _LOW = 64 * 1024, 16 * 1024
_LEFT_OVER = 64 * 1024
_TURN = 128 * 1024  # bytes: encrypting megabytes would hold up everybody else for milliseconds
_HANDSHAKE_SECONDS = 60.0
# A client that does not answer the end of TLS must not keep a connection, or the end of the process, waiting.
_FAREWELL_SECONDS = 1.0
_TOGETHER = 32  # connections whose answers leave together: the first one waits for the last
_AT_ONCE = 16  # connections: accepting hundreds would hold up those that are there
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BREATHER_SECONDS = 1.0


class Gated(Protocol):
    """The protocol of a connection that may be refused. Its other methods are those of asyncio.Protocol."""

    def accepted(self, transport: asyncio.Transport) -> bool:
        """The connection is there, without TLS as yet; whether it may go on. If not, it has ended the transport."""

    def released(self) -> None:
        """The connection is gone, and never came to TLS."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """TLS is there."""

    def data_received(self, data: bytes) -> None:
        """Some data have come."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone. exc: None where either side ended it in order."""

    def pause_writing(self) -> None:
        """The client does not take what is written."""

    def resume_writing(self) -> None:
        """It does again."""


class _State(Enum):
    SHAKING = auto()
    OPEN = auto()
    CLOSING = auto()  # what was written is still leaving
    LEAVING = auto()  # the client was told of the end
    OVER = auto()


# Looking a member up costs more than what is done with it, twice for each request.
_SHAKING, _OPEN, _CLOSING, _LEAVING, _OVER = _State


def _direct(sock: ssl.SSLSocket) -> ssl.SSLSocket:
    """What a TLS socket reads and writes with, itself where it does not show that.

    SSLSocket wraps it in several Python calls for each read and write, which is one part in 25 of a request.
    """
    return getattr(sock, "_sslobj", None) or sock


class _Shared:
    """What the connections of one listener share.

    shaking: those in their handshake. held: those with something to send at the end of this turn of the loop.
    """

    __slots__ = ("_loop", "held", "shaking")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.shaking: set[TlsTransport] = set()
        self.held: list[TlsTransport] = []

    def hold(self, transport: "TlsTransport") -> None:
        """Let a connection send what it holds at the end of the turn, or now where there are enough of them."""
        held = self.held
        held.append(transport)
        if len(held) == 1:
            self._loop.call_soon(self.send)
        elif len(held) == _TOGETHER:
            self.send()

    def send(self) -> None:
        """Let all of them send. What may take long in a turn begins with this."""
        held, self.held = self.held, []
        for transport in held:
            try:
                transport.send_held()
            except Exception as error:
                transport.broken(error)


class TlsTransport(asyncio.Transport):
    """The server's side of one TLS connection."""

    __slots__ = (
        "_backlog",
        "_fd",
        "_held",
        "_loop",
        "_made",
        "_paused",
        "_protocol",
        "_reading",
        "_shared",
        "_silent",
        "_sock",
        "_state",
        "_timer",
        "_tls",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, protocol: Gated, shared: _Shared) -> None:
        """sock: accepted and not blocking."""
        super().__init__()
        self._loop, self._sock, self._fd, self._protocol = loop, cast(ssl.SSLSocket, sock), sock.fileno(), protocol
        self._tls = self._sock
        self._shared = shared
        self._held: bytes | None = None
        self._state = _SHAKING
        self._backlog: deque[memoryview] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._made = self._paused = False
        self._reading = self._silent = True

    def begin(self, tls: Callable[[], ssl.SSLContext]) -> None:
        """Begin the handshake, where the protocol lets the connection in."""
        try:
            goes_on = self._protocol.accepted(self)
        except Exception as error:
            self.broken(error)
            return
        if goes_on:
            self._begin_handshake(tls())

    def _begin_handshake(self, tls: ssl.SSLContext) -> None:
        try:
            # Where it fails ssl does not close the socket.
            self._sock.getpeername()
            self._sock = tls.wrap_socket(self._sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError) as error:
            # The client is gone already.
            self._end(error)
            return
        self._shared.shaking.add(self)
        self._loop.add_reader(self._fd, self._shake)
        self._timer = self._loop.call_later(_HANDSHAKE_SECONDS, self.abort)

    def _shake(self) -> None:
        self._shared.send()
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.remove_writer(self._fd)
            return
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._fd, self._shake)
            return
        except ssl.SSLError as error:
            # With unread data the end would be a reset, which may overtake what TLS has said to this.
            with contextlib.suppress(OSError):
                socket.socket.recv(self._sock, _LEFT_OVER)
            self._end(error)
            return
        except (OSError, ValueError) as error:
            self._end(error)
            return
        self._rest()
        self._state, self._made, self._tls = _OPEN, True, _direct(self._sock)
        if self._reading:
            self._loop.add_reader(self._fd, self._readable)
        self._guarded(self._protocol.connection_made, self)

    # reading

    def _readable(self) -> None:
        try:
            data = self._tls.read(_RECORD)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            data = None
        except ssl.SSLEOFError:
            # The client ended its side without the end of TLS.
            data = b""
        except OSError as error:
            self._end(error)
            return
        if data:
            self._silent = True
            try:
                self._protocol.data_received(data)
            except Exception as error:
                self.broken(error)
            # uvloop tells of a reset once, together with what came before it, and watches the socket no more. Whoever
            # writes is told of it by that.
            if self._silent and self.is_reading() and self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._loop.remove_reader(self._fd)
                self._loop.add_reader(self._fd, self._readable)
        elif data is not None:
            self.close()
        if self._backlog:
            self._flush()

    def is_reading(self) -> bool:
        """Whether data are taken in."""
        return self._reading and self._state is _OPEN

    def pause_reading(self) -> None:
        """Let no more data come."""
        if self.is_reading():
            self._loop.remove_reader(self._fd)
        self._reading = False

    def resume_reading(self) -> None:
        """Let them come again."""
        if not self._reading and self._state is _OPEN:
            self._loop.add_reader(self._fd, self._readable)
        self._reading = True

    # writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data; what the client does not take yet waits for it. Nothing after `close`."""
        if self._state is not _OPEN or not data:
            return
        self._silent = False
        if not self._backlog and len(data) <= _RECORD:
            if self._held is None:
                self._held = bytes(data)
                self._shared.hold(self)
                return
            if len(self._held) + len(data) <= _RECORD:
                self._held += data
                return
        self.send_held()
        if self._state is _OPEN:
            self._wait(memoryview(bytes(data)))

    def send_held(self) -> None:
        """Send what was held for the end of the turn."""
        data, self._held = self._held, None
        if data is None:
            return
        try:
            sent = self._tls.write(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            self._end(error)
            return
        if sent != len(data):
            # A write that OpenSSL could not finish has to be repeated with the same data.
            self._wait(memoryview(data)[sent:])

    def _wait(self, data: memoryview) -> None:
        """Let data wait behind what waits already."""
        if self._backlog:
            self._backlog.append(data)
        else:
            self._backlog = deque([data])
            self._flush()
        if not self._paused and self.get_write_buffer_size() > _HIGH:
            self._paused = True
            self._guarded(self._protocol.pause_writing)

    def _flush(self) -> None:
        """Send what waits, and see to it that the rest is sent when it can be."""
        self._shared.send()
        backlog, turn = self._backlog, 0
        while backlog:
            if turn >= _TURN:
                self._loop.add_writer(self._fd, self._flush)
                break
            try:
                sent = self._tls.write(backlog[0][:_TURN])
            except ssl.SSLWantReadError:
                # TLS itself wants something of the client first: _readable comes back.
                self._loop.remove_writer(self._fd)
                return
            except ssl.SSLWantWriteError:
                self._loop.add_writer(self._fd, self._flush)
                break
            except OSError as error:
                self._end(error)
                return
            turn += sent
            if sent < len(backlog[0]):
                backlog[0] = backlog[0][sent:]
            else:
                backlog.popleft()
        else:
            self._backlog = None
            self._loop.remove_writer(self._fd)
        if self._paused and self.get_write_buffer_size() <= _LOW:
            self._paused = False
            self._guarded(self._protocol.resume_writing)
        if self._state is _CLOSING and not self._backlog:
            self._leave()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the client."""
        waiting = sum([len(piece) for piece in self._backlog]) if self._backlog else 0
        return waiting + len(self._held or b"")

    def can_write_eof(self) -> bool:
        """No: the end of what is written is the end of the connection."""
        return False

    # the end

    def is_closing(self) -> bool:
        """Whether it ends or is over."""
        return self._state is not _OPEN and self._state is not _SHAKING

    def close(self) -> None:
        """End the connection once the client has what was written."""
        if self._state is _SHAKING:
            self.abort()
        elif self._state is _OPEN:
            self.send_held()
            if self._state is not _OPEN:
                return
            self._state = _CLOSING
            self._loop.remove_reader(self._fd)
            if not self._backlog:
                self._leave()

    def _leave(self) -> None:
        self._state = _LEAVING
        try:
            self._sock.unwrap()
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._fd, self._leave)
            return
        except (OSError, ValueError):
            # The client's own end of TLS has not come, and need not.
            pass
        self._loop.remove_writer(self._fd)
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._end(None)
            return
        self._loop.add_reader(self._fd, self._drain)
        self._timer = self._loop.call_later(_FAREWELL_SECONDS, self.abort)

    def _drain(self) -> None:
        try:
            if self._sock.recv(_RECORD):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._end(None)

    def abort(self) -> None:
        """End the connection at once."""
        self._end(None)

    def broken(self, error: Exception) -> None:
        """End the connection because of an error that nobody foresaw. What was written in this turn still leaves."""
        with contextlib.suppress(Exception):
            self.send_held()
        context = {"message": "a protocol failed", "exception": error, "transport": self, "protocol": self._protocol}
        self._loop.call_exception_handler(context)
        self._end(error)

    def _guarded(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            call(*arguments)
        except Exception as error:
            self.broken(error)

    def _rest(self) -> None:
        """No more events, timers included. The handshake is over if it was not."""
        self._shared.shaking.discard(self)
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, error: Exception | None) -> None:
        if self._state is not _OVER:
            self._state = _OVER
            self._rest()
            self._backlog = self._held = None
            self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, cast(Any, None)
        try:
            if self._made:
                protocol.connection_lost(error)
            else:
                protocol.released()
        finally:
            self._sock.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """sockname, peername, socket, sslcontext and ssl_object, as asyncio documents them."""
        if name == "socket" or (name == "ssl_object" and isinstance(self._sock, ssl.SSLSocket)):
            return self._sock
        if name == "sslcontext":
            return getattr(self._sock, "context", default)
        if name in ("sockname", "peername"):
            with contextlib.suppress(OSError):
                return self._sock.getsockname() if name == "sockname" else self._sock.getpeername()
        return default


class TlsServer:
    """Accepts the connections of a listening socket. Like an asyncio.Server it is closed and waited for."""

    def __init__(self, sock: socket.socket, tls: Callable[[], ssl.SSLContext], protocol: Callable[[], Gated]) -> None:
        """tls: the context for the next connection."""
        self._sock, self._tls, self._protocol = sock, tls, protocol
        self._loop = asyncio.get_running_loop()
        self._shared = _Shared(self._loop)
        self._timer: asyncio.TimerHandle | None = None
        # Accepted sockets inherit it.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._listen()

    def _listen(self) -> None:
        self._timer = None
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.warning("no more connections are accepted for now: %s", error.strerror)
                self._loop.remove_reader(self._sock.fileno())
                self._timer = self._loop.call_later(_BREATHER_SECONDS, self._listen)
                return
            sock.setblocking(False)
            TlsTransport(self._loop, sock, self._protocol(), self._shared).begin(self._tls)

    def close(self) -> None:
        """Accept no more, and end what is in its handshake. Others go on."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._sock.fileno())
        for transport in list(self._shared.shaking):
            transport.abort()

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""
