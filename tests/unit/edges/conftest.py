"""A real Redfish listener on loopback, with two BMCs, spoken to byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
import uvloop

from bmcsim.core.clock import ManualClock
from bmcsim.edges.http.context import Context, Limits
from bmcsim.edges.http.listen import open_socket, parse_listen
from bmcsim.edges.http.protocol import Listening
from bmcsim.edges.http.server import Listener, listening, redfish_listener
from bmcsim.edges.http.tls import Served
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Fleet
from tests.conftest import PASSWORD, basic, make_client

AUTHORIZATION = basic("root", PASSWORD).decode()
FIRST, SECOND = "127.64.0.2", "127.64.0.3"
SYSTEM = "/redfish/v1/Systems/Bluefield"


class Server:
    """The listener, its fleet and its port."""

    def __init__(self, context: Context, listener: Listener, clock: ManualClock, port: int, shared: Listening) -> None:
        self.context, self.listener, self.clock, self.port, self.shared = context, listener, clock, port, shared
        self.opened: list[Connection] = []

    async def connect(self, address: str = FIRST) -> "Connection":
        """A connection to one address."""
        self.opened.append(Connection(*await asyncio.open_connection(address, self.port)))
        return self.opened[-1]

    async def exchange(self, data: bytes, address: str = FIRST) -> list["Answer"]:
        """Send bytes on a new connection, and all answers until the server closes or has nothing more to say."""
        connection = await self.connect(address)
        connection.writer.write(data)
        answers = await connection.answers()
        connection.writer.close()
        return answers


class Answer:
    """One response as it came over the wire."""

    def __init__(self, status: int, head: bytes, body: bytes) -> None:
        self.status, self.head, self.body = status, head, body
        lines = head.decode("latin-1").split("\r\n")[1:]
        self.fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}


class Connection:
    """A client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self, method: str = "GET") -> Answer:
        """The next response. Raises asyncio.IncompleteReadError when the server closes instead."""
        async with asyncio.timeout(5):
            head = await self.reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ")[1])
            answer = Answer(status, head, b"")
            length = int(answer.fields.get("content-length", 0))
            if method != "HEAD" and status >= 200:
                answer.body = await self.reader.readexactly(length)
            return answer

    async def answers(self) -> list[Answer]:
        """Every response until the server closes the connection."""
        found = []
        try:
            while True:
                found.append(await self.answer())
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return found

    async def closed(self) -> bool:
        """Whether the server closes without another byte."""
        async with asyncio.timeout(5):
            try:
                return await self.reader.read(1) == b""
            except ConnectionResetError:
                return True


def get(path: str, *fields: str, host: str = FIRST, method: str = "GET", auth: bool = True) -> bytes:
    """A request without body."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields]
    if auth:
        lines.append(f"Authorization: {AUTHORIZATION}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def send(method: str, path: str, body: bytes, *fields: str, chunked: bool = False) -> bytes:
    """A request with a JSON body."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    head = get(path, "Content-Type: application/json", framing, *fields, method=method)
    if chunked:
        half = len(body) // 2
        pieces = [piece for piece in (body[:half], body[half:]) if piece]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return head + body


CLOSE = "Connection: close"


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of the program, and the one that it must not need."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@asynccontextmanager
async def serving(served_tls: Served | None, addresses: Sequence[str] = (FIRST, SECOND)) -> AsyncIterator[Server]:
    """A listener on an ephemeral port of all of 127.0.0.0/8."""
    clock = ManualClock()
    fleet = Fleet()
    for address in addresses:
        bmc = make_client("bluefield3", index=(FIRST, SECOND).index(address)).bmc
        bmc.address = address
        fleet.add(bmc)
    fleet.ready = True
    listen = parse_listen("127.0.0.0/8:0")
    sock, _ = open_socket(listen)
    context = Context(fleet, Driver(clock), clock, Limits(linger_seconds=0.1), listen.network)
    shared = listening(context)
    listener = redfish_listener(context, sock, served_tls, shared)
    port = sock.getsockname()[1]
    await listener.start()
    made = Server(context, listener, clock, port, shared)
    yield made
    for connection in made.opened:
        connection.writer.transport.abort()
    for served in list(listener.server.server_state.connections):
        served.transport.abort()
    # Not `stop`, which takes a tenth of a second; test_server.py has it.
    for accepting in listener.server.servers:
        accepting.close()
    sock.close()
    await asyncio.sleep(0)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server without TLS."""
    async with serving(None) as made:
        yield made
