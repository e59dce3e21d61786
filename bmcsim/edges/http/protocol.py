"""The fast lane: complete, small requests are answered straight from the parser callbacks.

A GET whose header block (everything after the request line) is byte for byte one that the parser accepted before, and
whose target is exactly a URI of the BMC, skips even the parser: what it would say is known.

What is large or chunked goes to the ASGI application, by uvicorn's own request cycle (the slow lane). Both lanes end in
the same `Context.answer`.

Rule 1: responses leave in the order of their requests; while the slow lane owes one, later requests wait.
Rule 2: identity and credentials are never kept between requests; only the dialled address belongs to the connection.
Rule 3: a connection that is dropped for one BMC first delivers what it owes to others.

Of uvicorn this relies on `RequestResponseCycle` (constructor, run_asgi, send, body, disconnected, keep_alive,
message_event, more_body, response_complete, response_started, waiting_for_100_continue), on `FlowControl`, on
`STATUS_LINE` and on `ServerState` (connections, tasks). tests/unit/edges/test_uvicorn_contract.py has a test for each;
the minor version is pinned.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.context import Context, Dropped, Known
from bmcsim.redfish.exchange import Head, Request, Response, head_of
from bmcsim.redfish.messages import error_response
from bmcsim.redfish.service import handle

_log = logging.getLogger(__name__)

_NO_FIELDS: Mapping[bytes, bytes] = {}
_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ ")
_NO_CONTENT = frozenset({204, 304})


class Listening(msgspec.Struct):
    """What the connections of one listener share with its uvicorn server."""

    app: Any
    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    buffer: memoryview


class Pending:
    """A complete fast-lane request, or the refusal that takes its turn."""

    __slots__ = ("fields", "keep_alive", "refusal", "request")

    def __init__(
        self, request: Request, fields: Mapping[bytes, bytes], keep_alive: bool, refusal: Response | None
    ) -> None:
        self.request, self.fields, self.keep_alive, self.refusal = request, fields, keep_alive, refusal


def encode(response: Response, method: str, date: bytes, keep_alive: bool) -> bytes:
    """A response as it goes over the wire (RFC 9112). HEAD has the Content-Length of GET and no content."""
    body = response.body
    connection = b"\r\n" if keep_alive else b"Connection: close\r\n\r\n"
    if response.status in _NO_CONTENT:
        return b"".join((STATUS_LINE[response.status], date, response.head, connection))
    length = b"Content-Length: %d\r\n" % len(body)
    if method == "HEAD":
        body = b""
    return b"".join((STATUS_LINE[response.status], date, response.head, length, connection, body))


class Cycle(RequestResponseCycle):
    """uvicorn's request cycle, which writes header fields as the application gave them."""

    async def send(self, message: ASGISendEvent) -> None:
        """As uvicorn's; a start message with `bmcsim.response` carries a whole encoded response instead."""
        encoded = message.get("bmcsim.response")
        if encoded is None:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(cast(bytes, encoded))
        self.message_event.set()
        self.on_response()

    def drop(self) -> None:
        """Close without an answer; what was written before still goes out."""
        self.response_started = self.response_complete = True
        self.keep_alive = False
        self.transport.close()


class RedfishProtocol(asyncio.BufferedProtocol):
    """One connection to the Redfish port.

    Thousands of idle connections are the normal case: it has slots, and makes what few connections need on demand.
    """

    __slots__ = (
        "_body",
        "_busy",
        "_chunk",
        "_closing",
        "_cycle",
        "_dialled",
        "_fields",
        "_flow",
        "_head_size",
        "_headers",
        "_in_head",
        "_in_message",
        "_parser",
        "_queue",
        "_received",
        "_slow",
        "_url",
        "_write_paused",
        "context",
        "last_active",
        "listener",
        "transport",
    )

    def __init__(self, context: Context, listener: "Listening") -> None:
        self.context, self.listener = context, listener
        self.last_active = context.clock.now().mono
        self.transport: asyncio.Transport = cast(Any, None)
        self._parser: Any = None
        self._cycle: Cycle | None = None
        self._flow: FlowControl | None = None
        self._queue: deque[Pending | Cycle] | None = None
        self._dialled = ""
        self._busy = self._closing = self._write_paused = False
        self._in_head = self._in_message = self._slow = False
        self._head_size = self._chunk = 0
        self._headers: Sequence[tuple[bytes, bytes]] = ()
        self._fields: Mapping[bytes, bytes] = _NO_FIELDS
        self._body: tuple[bytes, ...] = ()
        self._received = self._url = b""

    # connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse what was dialled at an address that is not served."""
        self.transport = transport
        self.listener.connections.add(cast(Any, self))
        self.context.metrics.connections_opened += 1
        if self.context.served is not None and ip_address(self.dialled) not in self.context.served:
            transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Forget the connection; a slow-lane request sees a disconnect."""
        self.context.metrics.connections_closed += 1
        self.listener.connections.discard(cast(Any, self))
        if self._cycle is not None:
            self._cycle.disconnected = self._cycle.disconnected or not self._cycle.response_complete
            self._cycle.message_event.set()
        for waiting in self._queue or ():
            if isinstance(waiting, Cycle):
                waiting.disconnected = True
        self._queue = self._parser = None
        if self._flow is not None:
            self._flow.resume_writing()
        # uvloop keeps bound methods of a buffered protocol: without this, each closed connection waits for a full
        # garbage collection.
        self.transport = cast(Any, None)

    @property
    def dialled(self) -> str:
        """The address that the client dialled; looked up once, and only when something asks."""
        if not self._dialled:
            name = self.transport.get_extra_info("sockname")
            self._dialled = name[0].removeprefix("::ffff:") if name else "?"
        return self._dialled

    @property
    def flow(self) -> FlowControl:
        """uvicorn's flow control, which both lanes pause and resume."""
        if self._flow is None:
            self._flow = FlowControl(self.transport)
        return self._flow

    def sweep(self, now: float) -> None:
        """Called every few seconds: close what is idle or too slow with its request."""
        if self._busy or self._closing:
            return
        idle = now - self.last_active
        if self._in_head and idle > self.context.limits.head_seconds:
            self._refuse_and_close(error_response(RedfishError(408, "GeneralError")))
        elif idle > self.context.limits.idle_seconds:
            self.transport.close()

    def shutdown(self) -> None:
        """Finish the request that is being answered, then close."""
        if self._busy and self._cycle is not None:
            self._cycle.keep_alive = False
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client does not read: take no more requests from it."""
        self._write_paused = True
        self.flow.pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._write_paused = False
        self.flow.resume_writing()
        self._drain()

    # parsing

    def get_buffer(self, sizehint: int) -> memoryview:
        """The listener's one read buffer: it is filled and emptied before anything else runs.

        Without it uvloop allocates 256 KiB for each read of a TLS connection.
        """
        del sizehint
        return self.listener.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        self.data_received(bytes(self.listener.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Feed the parser; everything else happens in its callbacks."""
        if self._closing or (not self._in_message and data.startswith(b"GET ") and self._known_get(data)):
            return
        if not self._in_head:
            self.last_active = self.context.clock.now().mono
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
        self._received = data if not self._in_message else b""
        self._chunk = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The request was answered as if it had not asked; the parser is spent and a new one takes the rest.
            self._parser = httptools.HttpRequestParser(self)
            rest = data[upgrade.args[0] :]
            if rest and not self._closing:
                self.data_received(rest)
            return
        except httptools.HttpParserInvalidMethodError:
            known = _METHOD.match(data) is not None
            error = RedfishError(501, "OperationNotAllowed") if known else RedfishError(400, "UnrecognizedRequestBody")
            self._refuse_and_close(error_response(error))
            return
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError:
            self._refuse_and_close(error_response(RedfishError(400, "UnrecognizedRequestBody")))
            return
        if self._in_head:
            begun_here = self._head_size == 0
            self._head_size = (
                self._parsed_head() + len(data) - data.rfind(b"\n") if begun_here else self._head_size + len(data)
            )
            self._check_head(self._head_size)

    def _known_get(self, data: bytes) -> bool:
        """Answer a GET without parsing it. False when anything about it is not known to be plain.

        Neither the target nor the header block is looked into: the one must be a URI of the tree, the other equal to a
        block that was parsed as a whole request head without a body.
        """
        end = data.find(b" HTTP/1.1\r\n", 4)
        known = self.context.known.get(data[end + 11 :])
        if known is None or self._waiting:
            return False
        context = self.context
        try:
            bmc = context.route_known(known, self._dialled or self.dialled)
        except (Dropped, RedfishError):
            return False
        path = data[4:end].decode("latin-1")
        if path not in bmc.tree.nodes:
            return False
        moment = context.clock.now()
        self.last_active = moment.mono
        response = handle(bmc, Request("GET", path, moment, known.head))
        self.transport.write(encode(response, "GET", context.date_line(moment), keep_alive=True))
        context.metrics.observe(response.status, time.monotonic() - moment.mono)
        return True

    def on_message_begin(self) -> None:
        """A request starts."""
        self._in_message = True
        self._url = b""
        self._headers = []
        self._in_head = True
        self._head_size = 0
        self._slow = False
        self._body = ()

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field; names are lower-cased, so that both lanes see the same."""
        cast(list[tuple[bytes, bytes]], self._headers).append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is complete: choose the lane, and let a body in or not."""
        self._in_head = False
        if self._closing:
            return
        fields = dict(self._headers)
        if len(fields) != len(self._headers):
            fields = self._with_duplicates()
        self._fields = fields
        if len(self._url) > self.context.limits.target or self._head_size + self._chunk > self.context.limits.head:
            self._check_head(self._parsed_head())
            if self._closing:
                return
        if b"content-length" not in fields and b"transfer-encoding" not in fields:
            return
        length = None
        if b"transfer-encoding" not in fields:
            length = int(fields[b"content-length"])
        self._slow = length is None or length > self.context.limits.fast_body
        try:
            refusal = self.context.admit(fields, self.dialled, self._request(b"", head_of(fields)), length)
        except Dropped:
            if self._waiting:
                self._enqueue(Pending(self._request(b"", head_of(fields)), fields, False, None))
                self._closing = True
            else:
                self._drop()
            return
        if refusal is not None:
            self._refuse_and_close(refusal)
        elif self._slow:
            self._start_slow()
        elif fields.get(b"expect", b"").lower() == b"100-continue" and not self._waiting:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._closing:
            return
        if not self._slow:
            self._body += (body,)
        elif self._cycle is not None and not self._cycle.response_complete:
            self._cycle.body += body
            if len(self._cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            self._cycle.message_event.set()

    def on_message_complete(self) -> None:
        """The request is complete: answer it, or let it wait for its turn."""
        self._in_message = False
        if self._closing:
            return
        if self._slow:
            if self._cycle is not None and not self._cycle.response_complete:
                self._cycle.more_body = False
                self._cycle.message_event.set()
            return
        body = b""
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body = ()
        parser = self._parser
        keep_alive = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        head = head_of(self._fields)
        pending = Pending(self._request(body, head), self._fields, keep_alive, None)
        if head.plain and keep_alive and not body and pending.request.method == "GET":
            self._remember(head)
        if self._waiting:
            self._enqueue(pending)
        else:
            self._answer(pending)

    def _request(self, body: bytes, head: Head) -> Request:
        target = self._url.decode("latin-1")
        if not target.startswith("/"):
            target = self._origin_form(target)
        path, _, query = target.partition("?")
        if "%" in path:
            path = unquote(path)
        return Request(self._parser.get_method().decode("latin-1"), path, self.context.clock.now(), head, query, body)

    def _origin_form(self, target: str) -> str:
        """The path of an absolute-form target, whose authority wins over Host (RFC 9112 3.2.2)."""
        scheme, separator, rest = target.partition("://")
        if not separator or scheme.lower() not in ("http", "https"):
            return target
        authority, slash, path = rest.partition("/")
        self._fields = {**self._fields, b"host": authority.encode("latin-1")}
        return slash + path or "/"

    def _with_duplicates(self) -> dict[bytes, bytes]:
        """First field of each name; list fields are joined (RFC 9110 5.3)."""
        fields: dict[bytes, bytes] = {}
        for name, value in self._headers:
            if name not in fields:
                fields[name] = value
            elif name in (b"if-match", b"if-none-match", b"accept"):
                fields[name] += b", " + value
            elif name in (b"host", b"content-length", b"authorization", b"x-auth-token"):
                self._refuse_and_close(error_response(RedfishError(400, "HeaderInvalid", name.decode("latin-1"))))
                break
        return fields

    def _parsed_head(self) -> int:
        return len(self._url) + sum([len(name) + len(value) + 4 for name, value in self._headers])

    def _remember(self, head: Head) -> None:
        """Keep the header block that was just parsed, if it stands alone in what was received."""
        data = self._received
        end = data.find(b" HTTP/1.1\r\n", 4)
        if data.startswith(b"GET ") and end > 0 and data.endswith(b"\r\n\r\n") and data.count(b"\r\n\r\n") == 1:
            self.context.remember(data[end + 11 :], Known(head, self._fields))

    def _check_head(self, size: int) -> None:
        if len(self._url) > self.context.limits.target:
            self._refuse_and_close(error_response(RedfishError(414, "InvalidURI", "(too long)")))
        elif size > self.context.limits.head:
            self._refuse_and_close(error_response(RedfishError(431, "HeaderInvalid", "(all)")))

    # answering

    @property
    def _waiting(self) -> bool:
        """Whether a new request has to wait for others of this connection."""
        return self._busy or self._write_paused or bool(self._queue)

    def _answer(self, pending: Pending) -> None:
        started = time.monotonic()
        context, request = self.context, pending.request
        if pending.refusal is not None:
            self._finish(pending.refusal, request)
            return
        try:
            bmc, response = context.answer(pending.fields, self._dialled or self.dialled, request)
        except Dropped:
            self._drop()
            return
        self.transport.write(encode(response, request.method, context.date_line(request.moment), pending.keep_alive))
        if response.actions:
            context.execute(bmc, response)
        context.metrics.observe(response.status, time.monotonic() - started)
        if not pending.keep_alive:
            self._closing = True
            self.transport.close()

    def _finish(self, response: Response, request: Request | None) -> None:
        method = request.method if request is not None else "GET"
        moment = self.context.clock.now()
        self.transport.write(encode(response, method, self.context.date_line(moment), keep_alive=False))
        self.context.metrics.observe(response.status, 0.0)
        self._linger()

    def _linger(self) -> None:
        """Close a little later: closing while the client still sends would reset the connection and lose the answer."""
        self._closing = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        asyncio.get_running_loop().call_later(self.context.limits.linger_seconds, self.transport.close)

    def _refuse_and_close(self, response: Response) -> None:
        """Answer without reading on. If others are owed an answer first, the refusal waits behind them."""
        if self._closing:
            return
        if self._waiting:
            self._enqueue(Pending(Request("GET", "", self.context.clock.now(), Head()), {}, False, response))
            self._closing = True
        else:
            self._finish(response, None)

    def _drop(self) -> None:
        self.context.metrics.dropped += 1
        self._closing = True
        self.transport.close()

    def _enqueue(self, waiting: Pending | Cycle) -> None:
        if self._queue is None:
            self._queue = deque()
        self._queue.append(waiting)
        self.flow.pause_reading()

    def _drain(self) -> None:
        while self._queue and not self._busy and not self._write_paused and not self.transport.is_closing():
            waiting = self._queue.popleft()
            if isinstance(waiting, Cycle):
                self._busy = True
                self._start(waiting)
            else:
                self._answer(waiting)
        if not self._queue and not self._write_paused and self._flow is not None:
            self._flow.resume_reading()

    # slow lane

    def _start_slow(self) -> None:
        request = self._request(b"", head_of(self._fields))
        version = self._parser.get_http_version()
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "server": self.transport.get_extra_info("sockname"),
            "client": self.transport.get_extra_info("peername"),
            "scheme": "https" if self.transport.get_extra_info("sslcontext") else "http",
            "method": request.method,
            "path": request.path,
            "raw_path": self._url.partition(b"?")[0],
            "query_string": request.query.encode("latin-1"),
            "root_path": "",
            "headers": list(self._fields.items()),
            "state": {"dialled": self.dialled, "fields": self._fields},
        }
        self._cycle = Cycle(
            scope=cast(Any, scope),
            transport=self.transport,
            flow=self.flow,
            logger=_log,
            access_logger=_log,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=self._fields.get(b"expect", b"").lower() == b"100-continue",
            keep_alive=self._parser.should_keep_alive() and version == "1.1",
            on_response=self.on_response_complete,
        )
        scope["state"]["cycle"] = self._cycle
        if self._waiting:
            self._enqueue(self._cycle)
        else:
            self._busy = True
            self._start(self._cycle)

    def _start(self, cycle: "Cycle") -> None:
        tasks = self.listener.tasks
        task = asyncio.get_running_loop().create_task(cycle.run_asgi(self.listener.app))
        task.add_done_callback(tasks.discard)
        tasks.add(task)

    def on_response_complete(self) -> None:
        """The slow lane is done; what waited goes on."""
        self._busy = False
        if self.transport is None:
            return
        self.last_active = self.context.clock.now().mono
        if self._cycle is not None and not self._cycle.keep_alive and self._cycle.response_complete:
            self._linger()
        elif not self.transport.is_closing():
            self._drain()
