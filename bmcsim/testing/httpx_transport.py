"""Requests of the library `httpx`, answered without sockets."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

import httpx

from bmcsim.testing.wire import Answer, TooLate

if TYPE_CHECKING:
    from bmcsim.testing.fleet import Fleet


class Transport(httpx.BaseTransport):
    """For `httpx.Client(transport=...)`."""

    def __init__(self, fleet: "Fleet") -> None:
        self._fleet = fleet

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Raises what httpx raises: ConnectError, RemoteProtocolError, ReadTimeout."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        return _response(_sent(self._fleet, request, request.stream))


class AsyncTransport(httpx.AsyncBaseTransport):
    """For `httpx.AsyncClient(transport=...)`."""

    def __init__(self, fleet: "Fleet") -> None:
        self._fleet = fleet

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As that of Transport."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        body = b"".join([piece async for piece in request.stream])
        return _response(_sent(self._fleet, request, [body]))


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The content of an answer; where that was cut, the end of the connection comes behind it."""

    def __init__(self, answer: Answer, missing: bool) -> None:
        self._body, self._missing = answer.body, missing

    def __iter__(self) -> Iterator[bytes]:
        yield self._body
        if self._missing:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def _sent(fleet: "Fleet", request: httpx.Request, body: Iterable[bytes]) -> Answer:
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
    target = request.url.raw_path.decode("ascii")
    patience = request.extensions.get("timeout", {}).get("read")
    try:
        return fleet.send(request.method, target, fields, body, patience)
    except ConnectionRefusedError as refused:
        raise httpx.ConnectError(str(refused), request=request) from refused
    except ConnectionError as closed:
        raise httpx.RemoteProtocolError(str(closed), request=request) from closed
    except TooLate as late:
        raise httpx.ReadTimeout(str(late), request=request) from late


def _response(answer: Answer) -> httpx.Response:
    headers = httpx.Headers(list(answer.fields))
    missing = answer.cut and len(answer.body) < int(headers.get("Content-Length", 0))
    extensions = {"http_version": b"HTTP/1.1", "reason_phrase": answer.reason.encode()}
    return httpx.Response(answer.status, headers=headers, stream=_Body(answer, missing), extensions=extensions)
