"""TLS on the sockets themselves, byte by byte: what the client sees, and what the protocol is told.

The client is OpenSSL on two buffers, so that each test decides when bytes pass between it and its socket.
"""

import asyncio
import contextlib
import errno
import gc
import select
import shutil
import socket
import ssl
import struct
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.edges.http import tls, tls_transport
from bmcsim.edges.http.gate import reset
from bmcsim.edges.http.tls_transport import TlsServer, TlsTransport

CONTEXT = tls.transient_context()
MIB = 1024 * 1024
PATTERN = bytes(range(251)) * (MIB // 251 + 1)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def some(size: int) -> bytes:
    """Bytes that show where a piece is missing, twice there or in another place."""
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


class Recorder:
    """A protocol that writes down what it is told. raises: names of its methods that fail."""

    accepts = True

    def __init__(self) -> None:
        self.told: list[str] = []
        self.data = bytearray()
        self.error: Exception | None = None
        self.over = asyncio.Event()
        self.made = asyncio.Event()
        self.raises: set[str] = set()
        self.on_data: Callable[[bytes], object] = lambda _data: None
        self.on_made: Callable[[], object] = lambda: None
        self.on_resume: Callable[[], object] = lambda: None
        self.transport: TlsTransport = cast(Any, None)
        self.inside = 0

    @contextlib.contextmanager
    def telling(self, what: str) -> Any:
        self.told.append(what)
        self.inside += 1
        try:
            yield
            if what in self.raises:
                raise ArithmeticError(what)
        finally:
            self.inside -= 1

    def say_last(self, data: bytes) -> None:
        self.transport.write(data)
        self.transport.close()

    def accepted(self, transport: asyncio.Transport) -> bool:
        with self.telling("accepted"):
            self.transport = cast(TlsTransport, transport)
            if not self.accepts:
                reset(transport)
            return self.accepts

    def released(self) -> None:
        assert not self.inside
        self.over.set()
        with self.telling("released"):
            pass

    def connection_made(self, transport: asyncio.Transport) -> None:
        with self.telling("made"):
            assert transport is self.transport
            self.made.set()
            self.on_made()

    def data_received(self, data: bytes) -> None:
        with self.telling("data"):
            self.data += data
            self.on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        assert not self.inside
        self.error = exc
        self.over.set()
        with self.telling("lost"):
            pass

    def pause_writing(self) -> None:
        with self.telling("pause"):
            pass

    def resume_writing(self) -> None:
        with self.telling("resume"):
            self.on_resume()


class Client:
    """The other end of a connection."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock, self._loop = sock, asyncio.get_running_loop()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out)

    async def take(self) -> None:
        data = await self._loop.sock_recv(self.sock, 65536)
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()

    def records(self, *pieces: bytes) -> bytes:
        """What sends pieces, each in a record of its own; not sent."""
        for piece in pieces:
            self.tls.write(piece)
        return self._out.read()

    async def raw(self, data: bytes) -> None:
        if data:
            await self._loop.sock_sendall(self.sock, data)

    async def send(self, *pieces: bytes) -> None:
        await self.raw(self.records(*pieces))

    async def _until_done(self, call: Callable[[], Any]) -> Any:
        while True:
            try:
                return call()
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                await self.raw(self._out.read())
                await self.take()

    async def handshake(self) -> None:
        await self._until_done(self.tls.do_handshake)
        await self.raw(self._out.read())

    async def read(self, size: int = 65536) -> bytes:
        """Up to size bytes; b'' at an end in order. Raises ssl.SSLEOFError at any other."""
        return cast(bytes, await self._until_done(lambda: self.tls.read(size)))

    async def exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size and (data := await self.read(size - len(found))):
            found += data
        return bytes(found)

    async def rest(self) -> bytes:
        found = bytearray()
        while data := await self.read():
            found += data
        return bytes(found)

    async def end(self) -> None:
        """Tell the server of the end of TLS, and that no more comes."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        await self.raw(self._out.read())
        self.sock.shutdown(socket.SHUT_WR)

    async def leave(self, clean: bool) -> None:
        """End its side, where that is not clean without the end of TLS."""
        if clean:
            await self.end()
        else:
            self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.sock.close()


class Site:
    """A server, the protocols of its connections, and clients for it."""

    def __init__(self, server: TlsServer, sock: socket.socket) -> None:
        self.server, self.sock = server, sock
        self.protocols: list[Recorder] = []
        self.failures: list[dict[str, Any]] = []
        self.opened: list[socket.socket] = []
        self.make: Callable[[], Recorder] = Recorder

    def protocol(self) -> Recorder:
        self.protocols.append(self.make())
        return self.protocols[-1]

    async def tcp(self, receive: int = 0) -> socket.socket:
        """A connection without TLS. receive: bytes of its buffer."""
        sock = socket.socket()
        self.opened.append(sock)
        if receive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, self.sock.getsockname())
        return sock

    async def connect(self, context: ssl.SSLContext | None = None, receive: int = 0) -> tuple[Client, Recorder]:
        client = Client(await self.tcp(receive), context or client_context())
        await client.handshake()
        return client, await self.last()

    async def last(self) -> Recorder:
        """The protocol of the last connection, once it has TLS."""
        await until(lambda: bool(self.protocols))
        await self.protocols[-1].made.wait()
        return self.protocols[-1]


def client_context(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


def descriptors_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def turns(count: int = 5) -> None:
    """So many turns of the loop, each of which looks for events."""
    for _ in range(count):
        await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(context: Any = CONTEXT, send: int = 0) -> AsyncIterator[Site]:
    """send: bytes of the send buffer of each connection, as far as the system lets one choose."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    sock.setblocking(False)
    if send:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send)
    site = Site(cast(Any, None), sock)
    site.server = TlsServer(sock, lambda: context, site.protocol)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: site.failures.append(context))
    # Not asyncio.timeout: in a fixture that would end the fixture's task, and the test would wait for ever.
    patience = loop.call_later(5, lambda: [task.cancel("takes too long") for task in asyncio.all_tasks(loop)])
    try:
        yield site
    finally:
        patience.cancel()
        for one in site.opened:
            one.close()
        site.server.close()
        sock.close()
        for protocol in site.protocols:
            if protocol.transport is not None:
                protocol.transport.abort()
        await turns(2)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made
        assert not made.failures
        await asyncio.sleep(0)
        for protocol in made.protocols:
            assert protocol.told.count("lost") + protocol.told.count("released") <= 1


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "_FAREWELL_SECONDS", 0.05)


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than any test may take."""
    monkeypatch.setattr(tls_transport, "_FAREWELL_SECONDS", 60.0)


class Wrapped:
    """A context whose sockets do first what a test says, one after the other, and then what they do.

    An error: it is raised instead of the call. A kind of error: it is raised after the call. A number: of the bytes
    that the call takes. What ssl keeps behind a socket is not there.
    """

    def __init__(self, **scripts: list[Exception | type[Exception] | int]) -> None:
        self.scripts, self.calls = scripts, dict.fromkeys(scripts, 0)

    def wrap_socket(self, sock: socket.socket, **more: Any) -> Any:
        return _Scripted(CONTEXT.wrap_socket(sock, **more), self)


class _Scripted:
    def __init__(self, sock: ssl.SSLSocket, context: Wrapped) -> None:
        self.real, self.owner = sock, context

    def __getattr__(self, name: str) -> Any:
        if name == "_sslobj":
            raise AttributeError(name)
        found = getattr(self.real, name)
        script = self.owner.scripts.get(name)
        if script is None:
            return found

        def scripted(*arguments: Any) -> Any:
            self.owner.calls[name] += 1
            if script:
                step = script.pop(0)
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, type):
                    with contextlib.suppress(ssl.SSLWantReadError):
                        found(*arguments)
                    raise step
                return found(arguments[0][:step])
            return found(*arguments)

        return scripted


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


# the handshake


@pytest.mark.parametrize("version", VERSIONS)
async def test_both_versions_of_tls_carry_data_both_ways(site: Site, version: ssl.TLSVersion) -> None:
    client, served = await site.connect(client_context(version))
    served.on_data = served.transport.write
    await client.send(b"hello")
    assert await client.read() == b"hello"
    assert client.tls.version() == {VERSIONS[0]: "TLSv1.2", VERSIONS[1]: "TLSv1.3"}[version]
    await client.end()
    assert await client.rest() == b""
    await served.over.wait()
    assert served.told == ["accepted", "made", "data", "lost"]
    assert served.error is None


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("context", [CONTEXT, Wrapped()], ids=["direct", "by the socket"])
async def test_what_ssl_keeps_behind_a_socket_makes_no_difference(context: Any, clean: bool) -> None:
    async with serving(context) as site:
        client, served = await site.connect()
        served.on_data = lambda data: served.transport.write(data + some(MIB))
        await client.send(b"hello")
        assert await client.exactly(5 + MIB) == b"hello" + some(MIB)
        await client.leave(clean)
        assert await client.rest() == b""
        await served.over.wait()
        assert served.error is None
        assert not site.failures


async def test_data_right_behind_the_handshake_are_not_lost(site: Site) -> None:
    """The client's last message of the handshake and its first requests come in one piece."""
    client = Client(await site.tcp(), client_context(ssl.TLSVersion.TLSv1_3))
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    await client.raw(client.records())
    await client.take()
    client.tls.do_handshake()
    await client.raw(client.records(b"one", b"two"))
    served = await site.last()
    await until(lambda: served.data == b"onetwo")


async def test_a_handshake_byte_by_byte(site: Site) -> None:
    client = Client(await site.tcp(), client_context())
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    for byte in client.records():
        await client.raw(bytes([byte]))
        await asyncio.sleep(0)
    await client.handshake()
    await site.last()


async def test_a_handshake_that_never_comes_ends_after_its_time(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(tls_transport, "_HANDSHAKE_SECONDS", 0.02)
    for data in (b"", b"\x16\x03\x01\x02\x00\x01"):
        sock = await site.tcp()
        sock.send(data)
        assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""
        assert site.protocols[-1].told == ["accepted", "released"]


async def test_the_time_of_the_handshake_is_over_with_it(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(tls_transport, "_HANDSHAKE_SECONDS", 0.5)
    client, served = await site.connect()
    await asyncio.sleep(0.6)
    served.transport.write(b"still here")
    assert await client.read() == b"still here"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 100, b"\x16\x03\x01\x00\x05hello"])
async def test_what_is_not_tls_is_let_go_without_ever_being_connected(site: Site, data: bytes) -> None:
    sock = await site.tcp()
    sock.send(data)
    await until(lambda: bool(site.protocols))
    (served,) = site.protocols
    await served.over.wait()
    assert served.told == ["accepted", "released"]


async def test_a_version_that_is_too_old_gets_the_alert_for_it(site: Site) -> None:
    context = client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    client = Client(await site.tcp(), context)
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        await client.handshake()
    await until(lambda: site.protocols[0].told == ["accepted", "released"])


@pytest.mark.parametrize("how", ["end", "reset"])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_leaves_during_its_handshake(site: Site, how: str, begun: bool) -> None:
    sock = await site.tcp()
    if begun:
        client = Client(sock, client_context())
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.do_handshake()
        await client.raw(client.records())
        await client.take()
    await until(lambda: bool(site.protocols))
    if how == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    sock.close()
    await site.protocols[0].over.wait()
    assert site.protocols[0].told == ["accepted", "released"]


async def test_a_client_that_was_gone_before_it_was_accepted(site: Site) -> None:
    """Also one that was reset: then the socket is not connected any more when TLS is to begin."""
    for linger in (False, True):
        sock = socket.create_connection(site.sock.getsockname())
        if linger:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        sock.close()
    await until(lambda: [one.told for one in site.protocols] == [["accepted", "released"]] * 2)


async def test_a_socket_that_tls_does_not_take_is_let_go() -> None:
    class Refusing:
        def wrap_socket(self, sock: socket.socket, **_more: Any) -> Any:
            sock.close()
            raise ssl.SSLError(errno.ENOTCONN, "closed before its handshake")

    async with serving(Refusing()) as site:
        sock = await site.tcp()
        assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""
        assert site.protocols[0].told == ["accepted", "released"]
        assert not site.failures


@pytest.mark.parametrize("call", ["close", "abort"])
async def test_ending_a_connection_during_its_handshake(site: Site, call: str) -> None:
    sock = await site.tcp()
    await until(lambda: bool(site.protocols))
    (served,) = site.protocols
    assert not served.transport.is_closing()
    getattr(served.transport, call)()
    assert served.transport.is_closing()
    assert served.told == ["accepted"]
    assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""
    assert served.told == ["accepted", "released"]


async def test_a_handshake_that_waits_for_room_and_then_for_the_client_does_not_spin() -> None:
    """What there is to write leaves when there is room, without the client; after that, room is no event."""
    context = Wrapped(do_handshake=[ssl.SSLWantWriteError])
    async with serving(context) as site:
        client = Client(await site.tcp(), client_context())
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.do_handshake()
        await client.raw(client.records())
        await turns(20)
        assert context.calls["do_handshake"] == 2
        await client.handshake()
        await site.last()
        assert not site.failures


async def test_a_refusal_is_a_reset_before_anything_else(site: Site) -> None:
    class Refusing(Recorder):
        accepts = False

    site.make = Refusing
    sock = await site.tcp()
    with pytest.raises(ConnectionResetError):
        await asyncio.get_running_loop().sock_recv(sock, 1)
    assert site.protocols[0].told == ["accepted", "released"]


# writing


async def test_a_slow_reader_pauses_writing_once_and_gets_every_byte(site: Site) -> None:
    client, served = await site.connect()
    whole = some(20 * MIB)
    served.transport.write(whole)
    assert served.told[2:] == ["pause"]
    assert served.transport.get_write_buffer_size() > tls_transport._HIGH
    for start in range(0, 3 * MIB, MIB):
        served.transport.write(whole[start : start + MIB])
    await turns()
    assert served.told[2:] == ["pause"]
    found = await client.exactly(23 * MIB)
    assert found == whole + whole[: 3 * MIB]
    assert served.told[2:] == ["pause", "resume"]
    assert served.transport.get_write_buffer_size() == 0


async def test_writing_pauses_again_after_it_went_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "_HIGH", 1000)
    monkeypatch.setattr(tls_transport, "_LOW", 0)
    async with serving(send=16384) as site:
        client, served = await site.connect(receive=16384)
        for _ in range(3):
            served.transport.write(some(MIB))
            assert await client.exactly(MIB) == some(MIB)
            await turns(1)
        assert served.told[2:] == ["pause", "resume"] * 3


async def test_writing_goes_on_at_the_low_mark_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "_HIGH", 600_000)
    monkeypatch.setattr(tls_transport, "_LOW", 300_000)
    async with serving(send=16384) as site:
        client, served = await site.connect(receive=16384)
        left: list[int] = []
        served.on_resume = lambda: left.append(served.transport.get_write_buffer_size())
        served.transport.write(some(4 * MIB))
        assert await client.exactly(4 * MIB) == some(4 * MIB)
        assert len(left) == 1
        assert left[0] <= 300_000


async def test_what_is_written_where_writing_goes_on_comes_in_order(site: Site) -> None:
    client, served = await site.connect()
    served.on_resume = lambda: served.transport.writelines([b"and ", b"more"])
    served.transport.write(some(8 * MIB))
    assert await client.exactly(8 * MIB + 8) == some(8 * MIB) + b"and more"


async def test_a_connection_closed_where_writing_goes_on(site: Site, short: None) -> None:
    client, served = await site.connect()
    served.on_resume = lambda: served.transport.close()
    served.transport.write(some(8 * MIB))
    assert await client.rest() == some(8 * MIB)


async def test_what_changes_after_it_was_written_is_sent_as_it_was(site: Site) -> None:
    client, served = await site.connect()
    data = bytearray(some(12 * MIB))
    served.transport.write(data)  # some of it waits
    data[:] = bytes(len(data))
    late = bytearray(b"late")
    served.transport.write(late)  # all of it waits
    late[:] = b"LATE"
    view = memoryview(bytearray(b"a view"))
    served.transport.write(view)
    view[:] = b"A VIEW"
    served.transport.write(b"")
    whole = some(12 * MIB) + b"latea view"
    assert await client.exactly(len(whole)) == whole


async def test_nothing_written_is_nothing_to_send() -> None:
    context = Wrapped(write=[])
    async with serving(context) as site:
        client, served = await site.connect()
        for nothing in (b"", bytearray(), memoryview(b"")):
            served.transport.write(nothing)
        await turns()
        assert context.calls["write"] == 0
        served.transport.write(b"x")
        assert await client.read() == b"x"
        assert not served.transport.can_write_eof()


async def test_a_write_that_openssl_takes_half_of_is_finished() -> None:
    async with serving(Wrapped(write=[3, ssl.SSLWantWriteError(), 2])) as site:
        client, served = await site.connect()
        served.transport.write(b"0123456789")
        served.transport.write(b"abc")
        assert await client.exactly(13) == b"0123456789abc"


@pytest.mark.parametrize("want", [ssl.SSLWantReadError, ssl.SSLWantWriteError])
async def test_tls_that_wants_something_before_it_writes(want: type[Exception]) -> None:
    """Where it wants to read first, what waits leaves as soon as something comes."""
    async with serving(Wrapped(write=[want(), want()])) as site:
        client, served = await site.connect()
        served.transport.write(b"answer")
        assert served.transport.get_write_buffer_size() == 6
        if want is ssl.SSLWantReadError:
            await turns()
            assert served.transport.get_write_buffer_size() == 6
            await client.send(b"there you are")
        assert await client.read() == b"answer"


# what is written in one turn of the loop


async def crowd(site: Site, count: int) -> list[tuple[Client, Recorder]]:
    """Connections that answer each request with it."""
    those = [await site.connect() for _ in range(count)]
    for _, served in those:
        served.on_data = served.transport.write
    return those


async def test_answers_leave_once_all_requests_that_are_there_are_read() -> None:
    context = Wrapped(write=[])
    async with serving(context) as site:
        those = await crowd(site, 5)
        before: list[int] = []
        for _, served in those:
            served.on_data = lambda data, one=served: (before.append(context.calls["write"]), one.transport.write(data))
        for number, (client, _) in enumerate(those):
            client.sock.send(client.records(b"request %d" % number))
        for number, (client, _) in enumerate(those):
            assert await client.read() == b"request %d" % number
        assert before == [0] * 5
        assert context.calls["write"] == 5
        assert not site.failures


async def test_the_first_of_many_does_not_wait_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "_TOGETHER", 2)
    context = Wrapped(write=[])
    async with serving(context) as site:
        those = await crowd(site, 5)
        before: list[int] = []
        for _, served in those:
            served.on_data = lambda data, one=served: (before.append(context.calls["write"]), one.transport.write(data))
        for client, _ in those:
            client.sock.send(client.records(b"request"))
        for client, _ in those:
            assert await client.read() == b"request"
        assert before == [0, 0, 2, 2, 4]


async def test_small_pieces_of_one_turn_are_one_record_and_large_ones_stay_in_order() -> None:
    context = Wrapped(write=[])
    async with serving(context) as site:
        client, served = await site.connect()
        for piece in (b"a", bytearray(b"bc"), memoryview(b"d")):
            served.transport.write(piece)
        assert served.transport.get_write_buffer_size() == 4
        assert context.calls["write"] == 0
        assert await client.read() == b"abcd"
        assert context.calls["write"] == 1
        assert served.transport.get_write_buffer_size() == 0
        pieces = [some(10_000), some(6_384), b"x", some(40_000), b"y", some(16_384), b"z"]
        for piece in pieces:
            served.transport.write(piece)
        whole = b"".join(pieces)
        assert await client.exactly(len(whole)) == whole


async def test_a_small_piece_that_leaves_by_halves_stays_before_a_large_one() -> None:
    async with serving(Wrapped(write=[3, ssl.SSLWantWriteError()])) as site:
        client, served = await site.connect()
        served.transport.write(b"abcdef")
        served.transport.write(some(20_000))
        assert await client.exactly(20_006) == b"abcdef" + some(20_000)


async def test_what_is_held_is_gone_with_an_abort(site: Site) -> None:
    (first, aborted), (second, _) = await crowd(site, 2)
    aborted.transport.write(b"never")
    aborted.transport.abort()
    assert aborted.transport.get_write_buffer_size() == 0
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        await first.read()
    await second.send(b"still here")
    assert await second.read() == b"still here"


async def test_what_is_held_leaves_before_the_end(site: Site) -> None:
    client, served = await site.connect()
    served.transport.write(b"last words")
    served.transport.close()
    assert await client.rest() == b"last words"


async def test_a_client_that_is_gone_does_not_keep_the_others_from_theirs(site: Site) -> None:
    those = await crowd(site, 3)
    _, gone = those[1]
    others = [those[0], those[2]]
    for _, served in those:
        served.transport.write(b"answer")
    those[1][0].reset()
    for client, _ in others:
        assert await client.read() == b"answer"
    await gone.over.wait()
    assert isinstance(gone.error, OSError)
    assert [served.over.is_set() for _, served in others] == [False, False]


@pytest.mark.parametrize("waited", [False, True])
async def test_a_failure_to_write_does_not_keep_the_others_from_theirs(waited: bool) -> None:
    wait: list[Exception | type[Exception] | int] = [ssl.SSLWantWriteError()] if waited else []
    async with serving(Wrapped(write=[*wait, ArithmeticError()])) as site:
        (_, failing), (client, _) = await crowd(site, 2)
        for served in site.protocols:
            served.transport.write(b"answer")
        assert await client.read() == b"answer"
        await failing.over.wait()
        assert [type(one["exception"]) for one in site.failures] == [ArithmeticError]


async def test_what_was_answered_leaves_although_the_next_request_breaks_the_connection(site: Site) -> None:
    client, served = await site.connect()
    served.on_data = served.transport.write
    served.raises.add("data")
    await client.send(b"request")
    assert await client.read() == b"request"
    await served.over.wait()
    assert len(site.failures) == 1
    site.failures.clear()


async def test_answers_do_not_wait_for_handshakes_or_long_ones() -> None:
    context = Wrapped(write=[])
    async with serving(context) as site:
        client, served = await site.connect()
        await site.tcp()
        await until(lambda: len(site.protocols) == 2)
        shaking = site.protocols[-1].transport
        for number, long in enumerate((shaking._shake, shaking._flush)):
            served.transport.write(b"answer")
            assert context.calls["write"] == number
            long()
            assert context.calls["write"] == number + 1
            assert await client.read() == b"answer"


async def test_a_protocol_that_fails_when_its_writing_pauses_does_not_keep_the_others_from_theirs() -> None:
    async with serving(send=16384) as site:
        client, served = await site.connect()
        _, full = await site.connect(receive=4096)
        full.raises.add("pause")
        full.transport.write(b"small")
        served.transport.write(b"answer")
        full.transport.write(some(8 * MIB))
        assert await client.read() == b"answer"
        await full.over.wait()
        assert [type(one["exception"]) for one in site.failures] == [ArithmeticError]


# the end, by the server


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 10, 8 * MIB])
async def test_closing_delivers_everything_and_then_an_end_in_order(
    site: Site, version: ssl.TLSVersion, size: int
) -> None:
    client, served = await site.connect(client_context(version))
    served.transport.write(some(size))
    served.transport.close()
    assert served.transport.is_closing()
    served.transport.write(b"too late")
    served.transport.close()
    assert "lost" not in served.told
    assert await client.rest() == some(size)
    assert not served.over.is_set()
    await client.end()
    await served.over.wait()
    assert served.error is None
    assert served.told.count("lost") == 1


async def test_request_data_that_nobody_reads_does_not_reset_the_answer(site: Site) -> None:
    """The client sends a large body, is refused, and reads the refusal after it has sent more."""
    client, served = await site.connect()
    served.on_data = lambda _data: served.say_last(b"refused")
    await client.send(*[some(16384)] * 8)
    await until(served.transport.is_closing)
    for _ in range(4):
        await client.send(some(16384))
        await turns(2)
    assert await client.rest() == b"refused"
    assert len(served.data) == 16384


@pytest.mark.parametrize("sends", [False, True])
async def test_a_client_that_does_not_answer_the_end_is_waited_for_a_moment(
    site: Site, short: None, sends: bool
) -> None:
    client, served = await site.connect()
    served.transport.close()
    began = time.monotonic()
    while not served.over.is_set():
        if sends:
            with contextlib.suppress(OSError):
                client.sock.send(b"x" * 1000)
        await asyncio.sleep(0.002)
    assert time.monotonic() - began > 0.04
    assert served.error is None


async def test_a_client_that_answers_the_end_is_not_waited_for(site: Site, long: None) -> None:
    client, served = await site.connect()
    served.transport.close()
    assert await client.rest() == b""
    client.sock.close()
    await served.over.wait()


async def test_a_long_answer_leaves_others_their_turn(site: Site) -> None:
    client, served = await site.connect()
    served.transport.write(some(MIB))
    left = served.transport.get_write_buffer_size()
    assert left > MIB - 160 * 1024
    await asyncio.sleep(0)
    assert await client.exactly(MIB) == some(MIB)
    assert served.transport.get_write_buffer_size() == 0


async def test_a_backlog_waits_for_a_client_however_long_it_takes(site: Site, short: None) -> None:
    """The moment for the farewell begins when everything has left."""
    client, served = await site.connect()
    served.transport.write(some(8 * MIB))
    served.transport.close()
    await asyncio.sleep(0.15)
    assert not served.over.is_set()
    assert await client.rest() == some(8 * MIB)


async def test_the_end_of_tls_waits_for_room_too() -> None:
    async with serving(Wrapped(unwrap=[ssl.SSLWantWriteError()])) as site:
        client, served = await site.connect()
        served.transport.write(b"answer")
        served.transport.close()
        assert await client.rest() == b"answer"


async def stuck(site: Site, state: str) -> tuple[Client, Recorder]:
    """A connection in some state."""
    client, served = await site.connect()
    if state in ("paused", "closing"):
        served.transport.write(some(8 * MIB))
    if state in ("closing", "leaving"):
        served.transport.close()
    assert not served.over.is_set()
    return client, served


STATES = ["open", "paused", "closing", "leaving"]


@pytest.mark.parametrize("state", STATES)
async def test_aborting_ends_it_at_once_and_tells_from_the_loop(site: Site, state: str) -> None:
    client, served = await stuck(site, state)
    transport = served.transport
    transport.abort()
    told = list(served.told)
    assert "lost" not in told
    transport.abort()
    transport.close()
    transport.write(b"more")
    assert transport.is_closing()
    assert transport.get_write_buffer_size() == 0
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert served.told == [*told, "lost"]
    assert served.error is None
    if state != "leaving":
        with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
            await client.rest()


# the end, by the client


@pytest.mark.parametrize("clean", [True, False])
async def test_an_end_by_the_client_ends_the_connection(site: Site, clean: bool) -> None:
    client, served = await site.connect()
    await client.leave(clean)
    assert await client.rest() == b""
    await served.over.wait()
    assert served.error is None


@pytest.mark.parametrize("clean", [True, False])
async def test_a_client_that_has_said_everything_still_gets_what_waits(site: Site, clean: bool) -> None:
    client, served = await site.connect()
    served.on_data = lambda _data: served.transport.write(some(8 * MIB))
    await client.send(b"request")
    await client.leave(clean)
    assert await client.rest() == some(8 * MIB)
    await served.over.wait()
    assert served.error is None


async def test_the_end_of_tls_alone_is_an_end(site: Site, short: None) -> None:
    """Its socket stays open."""
    client, served = await site.connect()
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.unwrap()
    await client.raw(client._out.read())
    await served.over.wait()


@pytest.mark.parametrize("state", STATES)
async def test_a_reset_by_the_client_ends_it(site: Site, long: None, state: str) -> None:
    client, served = await stuck(site, state)
    client.reset()
    await served.over.wait()
    if state in ("paused", "closing"):  # elsewhere older Pythons take it for an end
        assert isinstance(served.error, OSError)


async def test_a_reset_right_behind_data_ends_it_too(site: Site, long: None) -> None:
    """uvloop tells of it once, together with the first of the data."""
    client, served = await site.connect()
    client.sock.send(client.records(b"one", b"two", b"three"))
    client.reset()
    await served.over.wait()
    assert served.data.startswith(b"one")


async def test_a_write_to_a_client_that_is_gone_ends_it(site: Site) -> None:
    client, served = await site.connect()
    served.transport.pause_reading()
    client.reset()
    served.transport.write(b"x")
    await served.over.wait()
    assert served.told[-1] == "lost"
    assert isinstance(served.error, OSError)


async def test_what_is_no_record_ends_it(site: Site) -> None:
    client, served = await site.connect()
    await client.raw(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    await served.over.wait()
    assert isinstance(served.error, ssl.SSLError)
    assert served.data == b""


# reading


async def test_many_requests_in_one_record_and_one_over_many(site: Site) -> None:
    client, served = await site.connect()
    served.on_data = lambda data: served.transport.write(b"<%d>" % len(data))
    await client.send(b"GET / HTTP/1.1\r\n\r\n" * 900)
    assert await client.read() == b"<16200>"
    sent = client.records(*[bytes([65 + number]) for number in range(26)])
    for start in range(0, len(sent), 7):
        await client.raw(sent[start : start + 7])
    assert await client.exactly(26 * 3) == b"<1>" * 26
    assert served.data.endswith(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


async def test_a_record_of_the_largest_size_leaves_nothing_behind(site: Site) -> None:
    client, served = await site.connect()
    await client.send(some(16384))
    await until(lambda: len(served.data) == 16384)
    await client.send(some(100_000))
    await until(lambda: len(served.data) == 116_384)
    assert served.data == some(16384) + some(100_000)


async def test_reading_pauses_and_goes_on(site: Site) -> None:
    client, served = await site.connect()
    transport = served.transport
    assert transport.is_reading()
    transport.pause_reading()
    transport.pause_reading()
    assert not transport.is_reading()
    await client.send(b"one")
    await turns()
    assert served.data == b""
    transport.resume_reading()
    transport.resume_reading()
    assert transport.is_reading()
    await until(lambda: served.data == b"one")


async def test_reading_paused_by_what_was_read(site: Site) -> None:
    client, served = await site.connect()
    served.on_data = lambda _data: served.transport.pause_reading()
    await client.send(b"one", b"two")
    await turns()
    assert served.data == b"one"
    served.transport.resume_reading()
    await until(lambda: served.data == b"onetwo")


async def test_reading_paused_during_the_handshake_does_not_hold_that_up(site: Site) -> None:
    sock = await site.tcp()
    await until(lambda: bool(site.protocols))
    (served,) = site.protocols
    transport = served.transport
    assert not transport.is_reading()
    transport.resume_reading()
    transport.pause_reading()
    client = Client(sock, client_context())
    await client.handshake()
    await client.send(b"early")
    await turns()
    assert served.told == ["accepted", "made"]
    transport.resume_reading()
    await until(lambda: served.data == b"early")


async def test_reading_resumed_during_the_handshake(site: Site) -> None:
    sock = await site.tcp()
    await until(lambda: bool(site.protocols))
    (served,) = site.protocols
    served.transport.pause_reading()
    served.transport.resume_reading()
    client = Client(sock, client_context())
    await client.handshake()
    await client.send(b"early")
    await until(lambda: served.data == b"early")


@pytest.mark.parametrize("state", ["closing", "leaving", "over"])
async def test_reading_does_not_go_on_after_the_end(site: Site, state: str) -> None:
    client, served = await stuck(site, "open" if state == "over" else state)
    transport = served.transport
    if state == "over":
        transport.abort()
    transport.pause_reading()
    transport.resume_reading()
    assert not transport.is_reading()
    with contextlib.suppress(OSError):
        await client.send(b"more")
    await turns()
    if state != "over":
        with contextlib.suppress(ssl.SSLWantReadError):
            assert (await client.rest()) == (some(8 * MIB) if state == "closing" else b"")
    assert served.data == b""


async def test_a_paused_connection_that_is_closed_still_says_farewell(site: Site, long: None) -> None:
    client, served = await site.connect()
    served.transport.pause_reading()
    await client.send(b"unread")
    served.transport.write(b"answer")
    served.transport.close()
    assert await client.rest() == b"answer"
    client.sock.close()
    await served.over.wait()


# what the protocol does


async def test_a_connection_closed_where_it_is_made(site: Site) -> None:
    def make() -> Recorder:
        made = Recorder()
        made.on_made = lambda: made.say_last(b"bye")
        return made

    site.make = make
    client, served = await site.connect()
    assert await client.rest() == b"bye"
    await client.end()
    await served.over.wait()
    assert served.told == ["accepted", "made", "lost"]


@pytest.mark.parametrize("method", ["accepted", "made", "data", "pause", "resume", "lost", "released"])
async def test_a_protocol_that_fails_ends_its_connection_and_the_loop_is_told(method: str) -> None:
    async with serving() as site:

        def make() -> Recorder:
            made = Recorder()
            made.raises = {method}
            return made

        site.make = make
        sock = await site.tcp()
        client = Client(sock, client_context())
        if method == "released":
            sock.close()
        elif method == "accepted":
            with pytest.raises((OSError, ssl.SSLError)):
                await client.handshake()
        else:
            await client.handshake()
            served = await site.last()
            if method == "data":
                await client.send(b"x")
            if method in ("pause", "resume"):
                served.transport.write(some(8 * MIB))
            if method == "resume":
                with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
                    await client.rest()
            if method == "lost":
                served.transport.abort()
        await until(lambda: bool(site.protocols) and site.protocols[0].over.is_set())
        await turns(2)
        (served,) = site.protocols
        assert served.told[-1] == ("released" if method in ("accepted", "released") else "lost")
        (failure,) = site.failures
        assert isinstance(failure["exception"], ArithmeticError)
        if method not in ("lost", "released"):
            assert failure["protocol"] is served
            assert failure["transport"] is served.transport
        if method not in ("accepted", "lost", "released"):
            assert served.error is failure["exception"]
        assert served.transport.get_extra_info("socket").fileno() == -1


async def test_what_is_known_of_a_connection_at_each_time(site: Site) -> None:
    names = ("sockname", "peername", "socket", "sslcontext", "ssl_object", "another")
    seen: dict[str, dict[str, Any]] = {}

    class Curious(Recorder):
        def look(self, when: str) -> None:
            seen[when] = {name: self.transport.get_extra_info(name, "none") for name in names}
            if when == "open":
                seen[when]["version"] = seen[when]["ssl_object"].version()

        def accepted(self, transport: asyncio.Transport) -> bool:
            found = super().accepted(transport)
            self.look("accepted")
            return found

        def connection_lost(self, exc: Exception | None) -> None:
            self.look("lost")
            super().connection_lost(exc)

    site.make = Curious
    client, served = await site.connect()
    cast(Curious, served).look("open")
    names_of = {"sockname": site.sock.getsockname(), "peername": client.sock.getsockname(), "another": "none"}
    served.transport.abort()
    await served.over.wait()
    await asyncio.sleep(0)
    cast(Curious, served).look("over")
    for when in ("accepted", "open", "lost"):
        assert {name: seen[when][name] for name in names_of} == names_of
    assert seen["accepted"]["sslcontext"] == seen["accepted"]["ssl_object"] == "none"
    assert isinstance(seen["accepted"]["socket"], socket.socket)
    assert seen["open"]["sslcontext"] is CONTEXT
    assert seen["open"]["socket"] is seen["open"]["ssl_object"]
    assert seen["open"]["version"] == "TLSv1.3"
    assert seen["over"]["sockname"] == seen["over"]["peername"] == "none"


# accepting


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS])
async def test_accepting_pauses_while_there_are_no_descriptors(
    monkeypatch: pytest.MonkeyPatch, site: Site, number: int
) -> None:
    monkeypatch.setattr(tls_transport, "_BREATHER_SECONDS", 0.03)
    failing = [OSError(number, "none left")] * 2
    tried: list[float] = []

    class Poor:
        def __getattr__(self, name: str) -> Any:
            return getattr(site.sock, name)

        def accept(self) -> Any:
            tried.append(time.monotonic())
            if failing:
                raise failing.pop()
            return site.sock.accept()

    site.server._sock = cast(Any, Poor())
    await site.connect()
    assert tried[1] - tried[0] > 0.02
    assert tried[2] - tried[1] > 0.02
    assert len(tried) == 4  # the connection, and that there is no other


async def test_a_server_closed_while_it_pauses_accepts_no_more(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(tls_transport, "_BREATHER_SECONDS", 0.01)

    class Poor:
        def __getattr__(self, name: str) -> Any:
            return getattr(site.sock, name)

        def accept(self) -> Any:
            raise OSError(errno.EMFILE, "none left")

    poor = Poor()
    site.server._sock = cast(Any, poor)
    await site.tcp()
    await turns()
    site.server.close()
    site.server._sock = site.sock
    await asyncio.sleep(0.03)
    assert not site.protocols


async def test_what_else_fails_when_accepting_is_told_and_others_are_accepted() -> None:
    async with serving() as site:
        failing = [OSError(errno.EPERM, "a firewall"), ConnectionAbortedError(), InterruptedError()]

        class Picky:
            def __getattr__(self, name: str) -> Any:
                return getattr(site.sock, name)

            def accept(self) -> Any:
                if failing:
                    raise failing.pop()
                return site.sock.accept()

        site.server._sock = cast(Any, Picky())
        await site.connect()
        (failure,) = site.failures
        assert failure["exception"].errno == errno.EPERM


async def test_many_connections_are_accepted_in_several_turns(site: Site) -> None:
    for _ in range(tls_transport._AT_ONCE * 2 + 1):
        site.opened.append(socket.create_connection(site.sock.getsockname()))
    counts = []
    while len(site.protocols) < tls_transport._AT_ONCE * 2 + 1:
        await asyncio.sleep(0)
        counts.append(len(site.protocols))
    assert max(counts[0], *[after - before for before, after in pairwise(counts)]) == tls_transport._AT_ONCE


async def test_nagle_is_off(site: Site) -> None:
    _client, served = await site.connect()
    assert served.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_closing_the_server_ends_handshakes_and_leaves_connections(site: Site) -> None:
    client, served = await site.connect()
    sock = await site.tcp()
    await until(lambda: len(site.protocols) == 2)
    site.server.close()
    await site.server.wait_closed()
    assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""
    assert site.protocols[1].told == ["accepted", "released"]
    served.on_data = served.transport.write
    await client.send(b"still here")
    assert await client.read() == b"still here"
    await site.tcp()
    await turns()
    assert len(site.protocols) == 2


# nothing is left


async def test_a_connection_leaves_no_descriptor_and_nothing_for_the_garbage_collector(site: Site, short: None) -> None:
    async def one(how: str) -> None:
        sock = await site.tcp()
        client = Client(sock, client_context())
        if how != "shaking":
            await client.handshake()
            served = await site.last()
            await client.send(b"x")
            await until(lambda: bool(served.data))
        else:
            await until(lambda: bool(site.protocols))
            served = site.protocols[-1]
        if how == "backlog":
            served.transport.write(some(4 * MIB))
        if how == "close":
            served.transport.close()
        elif how == "fail":
            served.raises = {"data"}
            await client.send(b"x")
        if how in ("abort", "shaking"):
            served.transport.abort()
        else:
            await turns(2)
            client.reset() if how == "backlog" else sock.close()
        await served.over.wait()
        sock.close()

    await one("close")
    await turns(2)
    site.protocols.clear()
    descriptors = descriptors_open()
    gc.collect()
    gc.disable()
    try:
        for how in ("close", "end", "abort", "shaking", "backlog", "fail"):
            await one(how)
            await turns(2)
            served = site.protocols.pop()
            left = [weakref.ref(served.transport.get_extra_info("socket")), weakref.ref(served)]
            site.failures.clear()
            site.protocols.clear()
            del served
            assert [ref() for ref in left] == [None, None], how
            assert not [one for one in gc.get_objects() if isinstance(one, TlsTransport)]
        assert descriptors_open() == descriptors
    finally:
        gc.enable()


async def test_connections_that_come_and_are_reset_leave_nothing(site: Site) -> None:
    await site.connect()
    await turns(2)
    site.opened.pop().close()
    await site.protocols[0].over.wait()
    descriptors = descriptors_open()
    for number in range(200):
        sock = await site.tcp()
        client = Client(sock, client_context())
        if number % 2:
            await client.handshake()
        client.reset()
        site.opened.clear()
    await until(lambda: all(one.over.is_set() for one in site.protocols) and len(site.protocols) == 201)
    await turns(2)
    assert descriptors_open() == descriptors


# what only another program asks for


class Openssl:
    """openssl s_client, whose input has commands."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def say(self, text: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        await self.process.stdin.drain()


@asynccontextmanager
async def s_client(site: Site, *options: str) -> AsyncIterator[Openssl]:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs openssl")
    address = f"127.0.0.1:{site.sock.getsockname()[1]}"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program, "s_client", "-connect", address, *options, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    try:
        yield Openssl(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.system
async def test_a_client_may_change_its_keys_at_any_time(site: Site) -> None:
    """KeyUpdate of TLS 1.3: k changes the client's, K asks for the server's too."""
    async with s_client(site) as openssl:
        served = await site.last()
        served.on_data = served.transport.write
        expected = b""
        assert openssl.process.stdout is not None
        said = b""
        for command in (b"k\n", b"K\n", b"K\n"):
            # One word at a time: openssl looks for commands where what it reads begins.
            await openssl.say(command)
            said += await openssl.process.stdout.readuntil(b"KEYUPDATE\n")
            expected += b"after %b" % command
            await openssl.say(b"after " + command)
            await until(lambda: served.data == expected)  # noqa: B023
        served.transport.write(b"and the last\n")
        served.transport.close()
        said += await openssl.process.stdout.read()
        assert said.count(b"KEYUPDATE") == 3
        assert b"after k\nafter K\nafter K\nand the last\n" in said.replace(b"KEYUPDATE\n", b"")


@pytest.mark.system
async def test_renegotiation_is_refused(site: Site) -> None:
    async with s_client(site, "-tls1_2") as openssl:
        served = await site.last()
        await openssl.say(b"R\n")
        assert openssl.process.stdout is not None
        said = await openssl.process.stdout.read()
        assert b"no renegotiation" in said
        await served.over.wait()
    assert served.told == ["accepted", "made", "lost"]


# whatever happens in whatever order

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 300_000)),
    st.tuples(st.just("read"), st.integers(1, 200_000)),
    st.tuples(st.just("send"), st.integers(1, 20_000)),
    st.tuples(st.sampled_from(["pause", "resume", "turn"]), st.just(0)),
)


class Story:
    """What a server and its client do, one step after the other."""

    def __init__(self, client: Client, served: Recorder) -> None:
        self.client, self.served, self.transport = client, served, served.transport
        self.written, self.found, self.sent = bytearray(), bytearray(), bytearray()

    def _take_what_is_there(self, most: int) -> None:
        """Of what the client's OpenSSL has already."""
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while most > 0 and (data := self.client.tls.read(most)):
                self.found += data
                most -= len(data)

    async def step(self, what: str, size: int) -> None:
        if what == "write":
            piece = some(len(self.written) + size)[len(self.written) :]
            if not self.transport.is_closing():
                self.written += piece
            self.transport.write(piece)
        elif what == "read":
            if select.select([self.client.sock], [], [], 0)[0]:
                with contextlib.suppress(ConnectionResetError):
                    await self.client.take()
            self._take_what_is_there(size)
        elif what == "send":
            await self._send(some(size))
        elif what == "turn":
            await turns(1)
        else:
            getattr(self.transport, f"{what}_reading")()

    async def _send(self, data: bytes) -> None:
        """All of it: where there is no room for it, the server reads."""
        sending = asyncio.ensure_future(self.client.send(data))
        await turns(1)
        if not sending.done():
            self.transport.resume_reading()
        with contextlib.suppress(ConnectionError):
            await sending
        self.sent += data

    async def end(self, how: str, after: list[tuple[str, int]]) -> None:
        """The end, and what is done after it all the same. In the end the client reads what there is."""
        if how in ("close", "abort"):
            getattr(self.transport, how)()
        elif how == "end":
            self.transport.resume_reading()
            self._take_what_is_there(MIB)
            await self.client.end()
            after = [one for one in after if one[0] not in ("send", "pause")]
        else:
            self.transport.resume_reading()
            self.client.reset()
            return
        try:
            for what, size in after:
                if not (what == "send" and self.transport.get_write_buffer_size()):  # nobody reads before that is gone
                    await self.step(what, size)
            self.found += await self.client.rest()
        except (ConnectionError, ssl.SSLEOFError):
            assert how == "abort"
        self.client.sock.close()


async def _tell(steps: list[tuple[str, int]], end: str, after: list[tuple[str, int]]) -> None:
    async with serving(send=16384) as site:
        story = Story(*await site.connect(receive=16384))
        for what, size in steps:
            await story.step(what, size)
        await story.end(end, after)
        told = story.served.told
        await until(lambda: "lost" in told)
        assert story.written.startswith(story.found)
        if end in ("close", "end"):
            assert story.found == story.written
        assert story.sent.startswith(story.served.data)
        if end == "end":
            assert story.served.data == story.sent
        assert told.count("lost") == 1
        assert "released" not in told
        waits = [one for one in told if one in ("pause", "resume")]
        assert waits == (["pause", "resume"] * len(waits))[: len(waits)]
        assert not site.failures


@pytest.mark.parametrize("loop", LOOPS)
@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=12), st.sampled_from(["close", "abort", "end", "reset"]), st.lists(STEP, max_size=5))
def test_in_any_order_the_client_gets_what_was_written_and_all_of_it_where_the_end_is_in_order(
    loop: str, steps: list[tuple[str, int]], end: str, after: list[tuple[str, int]]
) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(_tell(steps, end, after))
