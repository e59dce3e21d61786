"""Requests of aiohttp's client, answered without sockets.

aiohttp has no transports to plug in, so this is a connector whose connections lead nowhere: what the client writes is
parsed, answered by direct call, and fed back to it. Of aiohttp this relies on `BaseConnector._create_connection` and
`_factory`, which aiohttp's own connectors for pipes and Unix sockets use.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import httptools

from bmcsim.testing.wire import Answer, TooLate

if TYPE_CHECKING:
    from bmcsim.testing.fleet import Fleet


class Connector(aiohttp.BaseConnector):
    """For `aiohttp.ClientSession(connector=...)`. Each request has a connection of its own."""

    def __init__(self, fleet: "Fleet") -> None:
        super().__init__(force_close=True)
        self._fleet = fleet

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        del req, traces
        limits = [limit for limit in (timeout.sock_read, timeout.total) if limit]
        protocol = self._factory()
        protocol.connection_made(_Transport(self._fleet, protocol, min(limits, default=None)))
        return protocol


class _Transport(asyncio.Transport):
    """A connection: the callbacks of the parser collect a request, whose answer goes back to the client."""

    def __init__(self, fleet: "Fleet", protocol: Any, patience: float | None) -> None:
        super().__init__()
        self._fleet, self._protocol, self._patience = fleet, protocol, patience
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._fields: list[tuple[str, str]] = []
        self._body = bytearray()
        self._closed = self._paused = False
        self._waiting = b""

    # what the client does

    def write(self, data: Any) -> None:
        """Bytes of the request."""
        if not self._closed:
            self._parser.feed_data(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """Bytes of the request, in pieces."""
        for data in list_of_data:
            self.write(data)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End the connection."""
        self._end(None)

    def abort(self) -> None:
        """End the connection."""
        self._end(None)

    def pause_reading(self) -> None:
        """The client has enough for now."""
        self._paused = True

    def resume_reading(self) -> None:
        """The client takes more."""
        self._paused = False
        data, self._waiting = self._waiting, b""
        if data:
            self._loop.call_soon(self._feed, data)

    def is_reading(self) -> bool:
        return not self._paused

    # what the parser finds

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._loop.call_soon(self._answer)

    # what the BMC does

    def _answer(self) -> None:
        method, target = self._parser.get_method().decode("latin-1"), self._target.decode("latin-1")
        try:
            answer = self._fleet.send(method, target, self._fields, bytes(self._body), self._patience)
        except ConnectionRefusedError as refused:
            self._end(aiohttp.ClientConnectionResetError(str(refused)))
        except ConnectionError:
            self._end(None)
        except TooLate as late:
            self._protocol.set_exception(aiohttp.SocketTimeoutError(str(late)))
            self._end(None)
        else:
            self._deliver(answer)

    def _deliver(self, answer: Answer) -> None:
        self._feed(answer.encoded)
        if answer.closes:
            self._loop.call_soon(self._end, None)

    def _feed(self, data: bytes) -> None:
        if self._closed:
            return
        if self._paused:
            self._waiting += data
        else:
            self._protocol.data_received(data)

    def _end(self, error: BaseException | None) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, error)
