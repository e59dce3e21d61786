"""A small HTTP/1.1 client: keep-alive TLS, one request at a time, Content-Length framing, any certificate.

It parses as little as it can, because the generator has to be quicker than what it measures.
"""

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import NamedTuple, cast

from bench.server import PASSWORD, USER

_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: *(\d+)")
_BODILESS = {204, 304}
_FAREWELL_SECONDS = 1.0


class Response(NamedTuple):
    status: int
    body: bytes
    head: bytes = b""  # status line and header fields


def encode(
    authority: str,
    path: str,
    *,
    forwarded: str | None = None,
    password: str = PASSWORD,
    patch: bytes | None = None,
    post: bytes | None = None,
) -> bytes:
    """A GET, or a PATCH or POST of JSON, with the headers that NICo's monitoring sends.

    `forwarded` is the address of the BMC that is meant where the authority does not say it.
    """
    body = patch if post is None else post
    method = "GET" if body is None else "PATCH" if post is None else "POST"
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {authority}",
        "Accept: */*",
        "User-Agent: nv-redfish/v1",
        f"Authorization: {basic(password)}",
    ]
    if forwarded is not None:
        lines.append(f"Forwarded: host={forwarded}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


@cache
def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()


def any_certificate() -> ssl.SSLContext:
    """A client context that accepts what BMCs have: self-signed certificates for another name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def parse(data: bytes) -> Response | None:
    """The one response in `data`, or None while it is incomplete. Raises ValueError for anything else."""
    head = data.find(b"\r\n\r\n") + 4
    if head < 4:
        return None
    status = int(data[9:12])
    length = _LENGTH.search(data, 0, head)
    if length is None and status not in _BODILESS:
        raise ValueError(f"a response without Content-Length: {data[:head]!r}")
    end = head + (int(length[1]) if length else 0)
    if len(data) > end:
        raise ValueError(f"{len(data) - end} bytes more than one response: {data[:head]!r}")
    return Response(status, data[head:], data[:head]) if len(data) == end else None


class Exchange(asyncio.Protocol):
    """The framing of one connection; a subclass sends requests and says what a response and the end mean."""

    transport: asyncio.Transport
    _buffer: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        try:
            response = parse(data)
        except ValueError as error:
            self.transport.abort()
            self.failed(error)
            return
        if response is None:
            self._buffer = data
        else:
            self._buffer = b""
            self.responded(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed(exc or ConnectionResetError("the server closed the connection"))

    def responded(self, response: Response) -> None:
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        raise NotImplementedError


class Connection(Exchange):
    """A connection for coroutines: `await request(...)`."""

    _waiter: asyncio.Future[Response] | None = None

    def __init__(self) -> None:
        self._gone = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        super().connection_lost(exc)

    async def close(self) -> None:
        """End the connection, which a loop that ends before has no time for."""
        self.transport.close()
        try:
            await asyncio.wait_for(self._gone.wait(), _FAREWELL_SECONDS)
        except TimeoutError:
            self.transport.abort()

    async def request(self, data: bytes) -> Response:
        """Send one request and wait for its response. Raises OSError or ValueError when none comes."""
        self._waiter = asyncio.get_running_loop().create_future()
        if self.transport.is_closing():
            raise ConnectionResetError("the server closed the connection")
        self.transport.write(data)
        return await self._waiter

    def responded(self, response: Response) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(response)

    def failed(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


@asynccontextmanager
async def connected(address: str, port: int, context: ssl.SSLContext) -> AsyncIterator[Connection]:
    """One new TLS connection. Raises OSError when it cannot be made."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, address, port, ssl=context)
    try:
        yield connection
    finally:
        await connection.close()
