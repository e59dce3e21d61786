"""The fast lane: complete, small requests are answered straight from the parser callbacks.

A GET whose header block (everything after the request line) is byte for byte one that the parser accepted before, and
whose target is exactly a URI of the BMC, skips even the parser: what it would say is known.

What is large, chunked or an upload goes to the ASGI application, by uvicorn's own request cycle (the slow lane). Both
lanes end in the same `Context.answer`, and an answer that is not simply written is an `Outgoing` in both.

Rule 1: responses leave in the order of their requests. While one is owed, because it is in the slow lane, waits for a
commit or a delay, or drips, later requests wait.
Rule 2: identity and credentials are never kept between requests; only the dialled address belongs to the connection.
Rule 3: a connection that is dropped for one BMC first delivers what it owes to others.
Rule 4: a change is acknowledged once it is committed, and what it sets in motion happens then, whether or not the
client is still there.
Rule 5: a refusal before the body takes its turn like an answer, and the connection ends with it.
Rule 6: a request for a BMC of another shard is handed over at the end of its head, and its body as it comes. Its answer
is owed like one of the slow lane.

Of uvicorn this relies on `RequestResponseCycle` (constructor, run_asgi, receive, body, disconnected, keep_alive,
message_event, more_body, on_response, response_complete, response_started, waiting_for_100_continue), on
`FlowControl`, on `STATUS_LINE` and on `ServerState` (connections, tasks). tests/unit/edges/test_uvicorn_contract.py
has a test for each; the minor version is pinned.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

import httptools
import msgspec
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.context import Context, Dropped, Known, Outside
from bmcsim.edges.http.delivery import Outgoing
from bmcsim.edges.http.forwarding import Caller, Peer, Relay, request_head
from bmcsim.edges.http.gate import dialled_address, reset
from bmcsim.edges.http.streaming import Streaming, close_if_stalled
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import StreamWish
from bmcsim.redfish.exchange import Head, Request, Response, head_of
from bmcsim.redfish.messages import error_response
from bmcsim.redfish.service import JSON_LIMIT, BodyPlan, handle, plain_get

_log = logging.getLogger(__name__)

_NO_FIELDS: Mapping[bytes, bytes] = {}
_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ ")
_PLAIN_GET = re.compile(rb"GET /[!-~]*")
_MOST_WAITING = 8
_NO_CONTENT = frozenset({204, 304})
_REDFISH = b"/redfish/"
_G = ord("G")


class Listening(msgspec.Struct):
    """What the connections of one listener share with its uvicorn server."""

    app: Any
    connections: set[Any]
    tasks: set[asyncio.Task[None]]


class Pending:
    """A complete fast-lane request, or the refusal that takes its turn."""

    __slots__ = ("fields", "keep_alive", "refusal", "request")

    def __init__(
        self, request: Request, fields: Mapping[bytes, bytes], keep_alive: bool, refusal: Response | None
    ) -> None:
        self.request, self.fields, self.keep_alive, self.refusal = request, fields, keep_alive, refusal


class Errand:
    """A request for another shard. data: what of it waits for its turn. relay: who carries it, None before that."""

    __slots__ = ("chunked", "data", "peer", "relay")

    def __init__(self, peer: Peer, head: bytes, chunked: bool) -> None:
        self.peer, self.chunked = peer, chunked
        self.data = bytearray(head)
        self.relay: Relay | None = None

    def framed(self, body: bytes) -> bytes:
        """A piece of the body as its head says; b'' is the end of one in chunks."""
        return b"%x\r\n%b\r\n" % (len(body), body) if self.chunked else body


def encode(response: Response, method: str, date: bytes, keep_alive: bool) -> bytes:
    """A response as it goes over the wire (RFC 9112). HEAD has the Content-Length of GET and no content.

    A stream ends with its connection, or in chunks where that goes on.
    """
    body = response.body
    connection = b"\r\n" if keep_alive else b"Connection: close\r\n\r\n"
    if response.stream is not None:
        framing = b"Transfer-Encoding: chunked\r\n" if keep_alive else b""
        return b"".join((STATUS_LINE[response.status], date, response.head, framing, connection))
    if response.status in _NO_CONTENT:
        return b"".join((STATUS_LINE[response.status], date, response.head, connection))
    length = b"Content-Length: %d\r\n" % len(body)
    if method == "HEAD":
        body = b""
    return b"".join((STATUS_LINE[response.status], date, response.head, length, connection, body))


def _date_field(context: Context) -> tuple[bytes, bytes]:
    name, _, value = context.date_line(context.clock.now()).strip().partition(b": ")
    return name.lower(), value


class Cycle(RequestResponseCycle):
    """uvicorn's request cycle for a request whose body `plan` lets in; `deliver` sends its one answer.

    refusal: why the rest of the body is not waited for, None as long as it is. outside: the application that answers
    instead, in uvicorn's own way, where the path is no BMC's.
    """

    plan: BodyPlan
    outside: ASGIApp | None = None
    protocol: "RedfishProtocol"
    refusal: RedfishError | None = None
    _outgoing: Outgoing | None = None

    @property
    def sent(self) -> int:
        """Bytes of the answer that went out; uvicorn's own answers, which are errors, count as 1."""
        return self._outgoing.sent if self._outgoing is not None else 1

    async def deliver(self, bmc: Bmc | None, response: Response) -> None:
        """Send the answer as it wants to be delivered; returns when it is out or the client is gone."""
        if self.disconnected:
            self.protocol.context.settle(bmc, response, lambda _: None)
            return
        outgoing = self._outgoing = Outgoing(self.transport, not self.keep_alive)
        self.protocol.send(outgoing, bmc, response, self.scope["method"], self._delivered)
        while not (self.response_complete or self.disconnected):
            self.message_event.clear()
            await self.message_event.wait()

    def _delivered(self) -> None:
        outgoing = cast(Outgoing, self._outgoing)
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.keep_alive = not outgoing.closes
        self.message_event.set()
        self.on_response()

    def drop(self) -> None:
        """Close without an answer; what was written before still goes out."""
        self.response_started = self.response_complete = True
        self.keep_alive = False
        self.transport.close()

    def hurry(self) -> None:
        """The server stops: end the connection with this answer, and do not hold it back."""
        self.keep_alive = False
        if self._outgoing is not None:
            self._outgoing.hurry()

    def refuse(self, error: RedfishError) -> None:
        """The rest of the body will not come, or is not wanted."""
        self.refusal = error
        self.message_event.set()

    def cancel(self) -> None:
        """The connection is gone."""
        self.disconnected = self.disconnected or not self.response_complete
        if self._outgoing is not None:
            self._outgoing.cancel()
        self.message_event.set()


class RedfishProtocol(asyncio.Protocol):
    """One connection to the Redfish port.

    Thousands of idle connections are the normal case: it has slots, and makes what few connections need on demand.
    """

    __slots__ = (
        "_active",
        "_began",
        "_body",
        "_chunk",
        "_closing",
        "_cycle",
        "_fields",
        "_flow",
        "_head_size",
        "_headers",
        "_in_head",
        "_in_message",
        "_overhead",
        "_parser",
        "_plan",
        "_queue",
        "_received",
        "_relays",
        "_requests",
        "_streaming",
        "_url",
        "_write_paused",
        "context",
        "dialled",
        "last_active",
        "listener",
        "transport",
    )

    hands_over = True
    """Whether requests may go to other shards."""

    def __init__(self, context: Context, listener: "Listening") -> None:
        self.context, self.listener = context, listener
        self.last_active = context.clock.now().mono
        self.transport: asyncio.Transport = cast(Any, None)
        self.dialled = ""
        self._parser: Any = None
        self._cycle: Cycle | None = None
        self._flow: FlowControl | None = None
        self._queue: deque[Pending | Cycle | Errand] | None = None
        # What is being answered; None in the fast lane as long as its answers are simply written.
        self._active: Cycle | Outgoing | Relay | None = None
        self._relays: dict[Peer, Relay] | None = None
        self._streaming: Streaming | None = None
        # How the slow lane is to read the body of the request that is coming in, or that it is for another shard; None
        # in the fast lane.
        self._plan: BodyPlan | Errand | None = None
        self._closing = self._write_paused = False
        self._in_head = self._in_message = False
        self._head_size = self._chunk = 0
        # Bytes since the last one of a body: chunk extensions and trailers, which the parser keeps.
        self._overhead = 0
        self._began = 0.0
        self._requests = 0
        self._headers: Sequence[tuple[bytes, bytes]] = ()
        self._fields: Mapping[bytes, bytes] = _NO_FIELDS
        self._body: tuple[bytes, ...] = ()
        self._received = self._url = b""

    # connection

    def accepted(self, transport: asyncio.Transport) -> bool:
        """A client has connected, TLS may be to come: note the address that it dialled; reset it if that refuses."""
        self.dialled = dialled_address(transport)
        refused = self.context.refuses(self.dialled)
        if refused:
            self.context.note_refused(self.dialled, transport)
            reset(transport)
        else:
            self.context.opened(self.dialled, self)
        return not refused

    def released(self) -> None:
        """The connection is gone: it counts no more."""
        self.context.released(self.dialled, self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Join the connections of the listener. Without TLS this is where a connection is accepted."""
        if not self.dialled:
            self.accepted(transport)
        self.transport = transport
        self.listener.connections.add(cast(Any, self))
        self.context.metrics.connections_opened += 1

    def connection_lost(self, _exc: Exception | None) -> None:
        """Forget the connection; a slow-lane request sees a disconnect."""
        self.context.metrics.connections_closed += 1
        self.released()
        self.listener.connections.discard(cast(Any, self))
        for owed in (self._active, self._cycle, *(self._queue or ())):
            if isinstance(owed, Cycle | Outgoing):
                owed.cancel()
        for relay in (self._relays or {}).values():
            relay.cancel()
        if self._streaming is not None:
            self._stream_over()
        self._active = self._cycle = self._queue = self._parser = self._relays = self._plan = None
        if self._flow is not None:
            self._flow.resume_writing()
        # A cycle with the transport would wait for a full garbage collection.
        self.transport = cast(Any, None)

    @property
    def flow(self) -> FlowControl:
        """uvicorn's flow control, which both lanes pause and resume."""
        if self._flow is None:
            self._flow = FlowControl(self.transport)
        return self._flow

    def sweep(self, now: float) -> None:
        """Called every few seconds: close what is idle, or too slow with its request or with reading its answers."""
        idle, limits = now - self.last_active, self.context.limits
        # One that closes waits until its client has read the rest.
        if self._write_paused or self.transport.is_closing():
            if idle > limits.stalled_seconds:
                self.transport.abort()
            return
        if self._streaming is not None:
            self._streaming.tick(now)
            return
        if isinstance(self._active, Relay):
            # Its own shard sees to the request. That the answer is a stream nobody knows here.
            close_if_stalled(self.transport, limits.stalled_seconds)
            return
        in_body = self._in_message and not self._in_head
        streaming = in_body and self._plan is not None and self._active is self._cycle
        if self._closing or (self._active is not None and not streaming):
            return
        if in_body:
            if idle > limits.body_idle_seconds or now - self._began > limits.body_seconds:
                self._give_up(RedfishError(408, "GeneralError"))
        elif self._in_head and idle > limits.head_seconds:
            self._refuse_and_close(error_response(RedfishError(408, "GeneralError")))
        elif idle > limits.idle_seconds:
            self.transport.close()

    def _give_up(self, error: RedfishError) -> None:
        """Refuse the request that is coming in, also when the slow lane is reading its body."""
        if isinstance(self._plan, Errand) and self._in_message:
            self._abandon(self._plan, error)
        elif self._in_message and self._plan is not None and self._cycle is not None:
            self._closing = True
            self._cycle.refuse(error)
        else:
            self._refuse_and_close(error_response(error))

    def shutdown(self) -> None:
        """Finish the request that is being answered, without its delays, then close."""
        if self._streaming is not None:
            self._streaming.end()
            self.transport.close()
        elif self._active is not None:
            self._active.hurry()
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client does not read: take no more requests from it."""
        self._write_paused = True
        self.last_active = self.context.clock.now().mono
        self.flow.pause_writing()
        self.flow.pause_reading()
        if self._streaming is not None:
            self._streaming.paused = True
        if isinstance(self._active, Relay):
            self._active.pause()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._write_paused = False
        self.flow.resume_writing()
        if self._streaming is not None:
            self._streaming.paused = False
            self._streaming.flush()
        if isinstance(self._active, Relay):
            self._active.resume()
        self._drain()

    # parsing

    def data_received(self, data: bytes) -> None:
        """Answer a GET that is known, or feed the parser; everything else happens in its callbacks."""
        while data and not self._closing:
            if not self._in_message and data[0] == _G and self._known_get(data):
                return
            data = self._feed(data)

    def _feed(self, data: bytes) -> bytes:
        """Feed the parser; what is left for another one after a request that asks for an upgrade."""
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
            return data[upgrade.args[0] :]
        except httptools.HttpParserInvalidMethodError:
            known = _METHOD.match(data) is not None
            error = RedfishError(501, "OperationNotAllowed") if known else RedfishError(400, "UnrecognizedRequestBody")
            self._refuse_and_close(error_response(error))
            return b""
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserError:
            self._give_up(RedfishError(400, "UnrecognizedRequestBody"))
            return b""
        if self._in_head:
            begun_here = self._head_size == 0
            self._head_size = self._begun_head(data) if begun_here else self._head_size + len(data)
            self._check_head(self._head_size)
        elif self._in_message and self._plan is not None and not self._closing:
            self._overhead += len(data)
            if self._overhead > self.context.limits.head:
                self._give_up(RedfishError(431, "HeaderInvalid", "(trailer)"))
        return b""

    def _known_get(self, data: bytes) -> bool:
        """Answer a GET without parsing it. False when anything about it is not known to be plain.

        Neither the target nor the header block is looked into: the one must be a URI of the tree, the other equal to a
        block that was parsed as a whole request head without a body.
        """
        line, _, block = data.partition(b" HTTP/1.1\r\n")
        context = self.context
        known = context.known.get(block)
        if known is None or self._active is not None or self._write_paused or self._queue:
            return False
        bmc = known.bmc
        if bmc is None or known.version != context.fleet.version:
            if known.peer is not None and known.version == context.fleet.version:
                return self._hand_over_known(known.peer, line, data)
            try:
                bmc = context.route_known(known, self.dialled)
            except (Dropped, RedfishError):
                return False
        node = bmc.tree.gets.get(line)
        if node is None:
            return False
        moment = context.clock.now()
        self.last_active = moment.mono
        bmc.contact = moment.wall
        bmc.requests += 1
        plain = (known.authorization is bmc.basic_header or known.remembered_by(bmc)) and not context.noting
        if plain and (found := plain_get(bmc, node, moment)) is not None:
            etag, body = found
            rest = b"\r\nContent-Length: %d\r\n\r\n" % len(body)
            self.transport.write(b"".join((context.ok_line(moment), node.head, b"ETag: ", etag, rest, body)))
            context.metrics.observe(200, time.monotonic() - moment.mono)
            return True
        request = Request("GET", line[4:].decode("latin-1"), moment, known.head)
        response = handle(bmc, request)
        if response.delivery is not None or bmc.uncommitted is not None:
            context.note(bmc, request, response, self.transport)
            self._owe(bmc, response, "GET", keep_alive=True)
            return True
        self.transport.write(encode(response, "GET", context.date_line(moment), keep_alive=True))
        context.metrics.observe(response.status, time.monotonic() - moment.mono)
        if response.status != 200 or response.faults or context.noting:
            context.note(bmc, request, response, self.transport)
        return True

    def on_message_begin(self) -> None:
        """A request starts."""
        self._in_message = True
        self._url = b""
        self._headers = []
        self._in_head = True
        self._head_size = 0
        self._plan = None
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
            if self._closing:
                return
        self._fields = fields
        if len(self._url) > self.context.limits.target or self._head_size + self._chunk > self.context.limits.head:
            self._check_head(self._parsed_head())
            if self._closing:
                return
        if self.context.outside is not None and (app := self._outside(self.context.outside)) is not None:
            self._plan = BodyPlan(JSON_LIMIT)
            self._start_slow(self._plan, app)
            return
        if self.context.peers is not None and self.hands_over and (peer := self._peer()) is not None:
            self._hand_over(peer)
            return
        fields = self._fields
        if b"content-length" not in fields and b"transfer-encoding" not in fields:
            return
        length = None
        if b"transfer-encoding" not in fields:
            length = int(fields[b"content-length"])
        request = self._request(b"", head_of(fields))
        self._began = request.moment.mono
        try:
            plan = self.context.admit(fields, self.dialled, request, length)
        except Dropped:
            if self._waiting:
                self._enqueue(Pending(request, fields, False, None))
                self._closing = True
            else:
                self._drop()
            return
        if isinstance(plan, Response):
            self.context.note_unread(fields, self.dialled, request, plan, self.transport)
            self._refuse_and_close(plan)
        elif plan.upload or length is None or length > self.context.limits.fast_body:
            self._plan = plan
            self._start_slow(plan)
        elif not self._waiting:
            self._continue()

    def _outside(self, outside: Outside) -> ASGIApp | None:
        """What answers the request that is coming in where its path is no BMC's."""
        if self._url.startswith(_REDFISH):
            return None
        path = self._url.partition(b"?")[0].decode("latin-1")
        return outside(path if path.startswith("/") else self._origin_form(path))

    def _continue(self) -> None:
        """Ask for the body of a fast-lane request if the client waits to be asked. Asking twice does no harm."""
        if not self._body and self._fields.get(b"expect", b"").lower() == b"100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._closing:
            return
        self._overhead = -self._chunk
        if self._plan is None:
            self._body += (body,)
        elif isinstance(self._plan, Errand):
            self._feed_errand(self._plan, self._plan.framed(body))
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
        if self._plan is not None:
            if isinstance(self._plan, Errand):
                if self._plan.chunked:
                    self._feed_errand(self._plan, self._plan.framed(b""))
            elif self._cycle is not None and not self._cycle.response_complete:
                self._cycle.more_body = False
                self._cycle.message_event.set()
            return
        body = b""
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body = ()
        keep_alive = self._goes_on()
        head = head_of(self._fields)
        pending = Pending(self._request(body, head), self._fields, keep_alive, None)
        if head.plain and keep_alive and not body and pending.request.method == "GET":
            self._remember(head)
        if self._waiting:
            self._enqueue(pending)
        else:
            self._answer(pending)

    def _goes_on(self) -> bool:
        """Whether the connection is for further requests after this one. Asked once for each that the parser sees."""
        self._requests += 1
        most, parser = self.context.limits.requests, self._parser
        goes_on = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        return goes_on and (most is None or self._requests < most)

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
            elif name in (b"if-match", b"if-none-match", b"accept", b"accept-encoding"):
                fields[name] += b", " + value
            elif name in (b"host", b"content-length", b"authorization", b"x-auth-token"):
                self._refuse_and_close(error_response(RedfishError(400, "HeaderInvalid", name.decode("latin-1"))))
                break
        return fields

    def _parsed_head(self) -> int:
        return len(self._url) + sum([len(name) + len(value) + 4 for name, value in self._headers])

    def _begun_head(self, data: bytes) -> int:
        """Size of a head whose beginning is the end of `data`, what the parser still keeps of it included."""
        if not self._url:
            return 0
        # Without a line of its own, the last line end may be one before the body of another request.
        line = max(data.rfind(b"\n"), data.rfind(self._url) + len(self._url))
        return self._parsed_head() + len(data) - line

    def _remember(self, head: Head, peer: Peer | None = None) -> None:
        """Keep the header block that was just parsed, if it stands alone in what was received."""
        data = self._received
        end = data.find(b" HTTP/1.1\r\n", 4)
        if data.startswith(b"GET ") and end > 0 and data.endswith(b"\r\n\r\n") and data.count(b"\r\n\r\n") == 1:
            version = -1 if peer is None else self.context.fleet.version
            self.context.remember(data[end + 11 :], Known(head, self._fields, peer, version))

    def _check_head(self, size: int) -> None:
        if len(self._url) > self.context.limits.target:
            self._refuse_and_close(error_response(RedfishError(414, "InvalidURI", "(too long)")))
        elif size > self.context.limits.head:
            self._refuse_and_close(error_response(RedfishError(431, "HeaderInvalid", "(all)")))

    # answering

    @property
    def _waiting(self) -> bool:
        """Whether a new request has to wait for others of this connection."""
        return self._active is not None or self._write_paused or bool(self._queue)

    def _answer(self, pending: Pending) -> None:
        started = time.monotonic()
        context, request = self.context, pending.request
        if pending.refusal is not None:
            self._finish(pending.refusal, request)
            return
        try:
            bmc, response, waits = context.answer(pending.fields, self.dialled, request)
        except Dropped:
            self._drop()
            return
        context.note(bmc, request, response, self.transport)
        if waits:
            self._owe(bmc, response, request.method, pending.keep_alive)
            return
        self.transport.write(encode(response, request.method, context.date_line(request.moment), pending.keep_alive))
        if response.actions:
            context.execute(bmc, response)
        context.metrics.observe(response.status, time.monotonic() - started)
        if not pending.keep_alive:
            self._closing = True
            self.transport.close()

    def _owe(self, bmc: Bmc | None, response: Response, method: str, keep_alive: bool) -> None:
        """Answer once it is time; later requests wait."""
        outgoing = self._active = Outgoing(self.transport, not keep_alive)

        def over() -> None:
            self._active = None
            self.last_active = self.context.clock.now().mono
            if outgoing.closes:
                self._closing = True
                self.transport.close()
            elif self._queue or self._in_message:
                # Not at once: this may be running inside of _drain.
                asyncio.get_running_loop().call_soon(self._drain)
            self.answered()

        self.send(outgoing, bmc, response, method, over)

    def answered(self) -> None:
        """An answer that was not simply written is complete."""

    def send(
        self, outgoing: Outgoing, bmc: Bmc | None, response: Response, method: str, over: Callable[[], None]
    ) -> None:
        """Send an answer once its change is committed, as it wants to be delivered. For both lanes."""
        context, started = self.context, time.monotonic()

        def out(final: Response, keep_alive: bool) -> None:
            if outgoing.sent:
                context.metrics.observe(final.status, time.monotonic() - started)
            else:
                context.metrics.dropped += 1
            cut = outgoing.hurried or (final.delivery is not None and final.delivery.keep is not None)
            if bmc is None or final.stream is None or cut:
                over()
            elif final.stream.admitted():
                self._stream(bmc, final.stream, keep_alive, over)
            else:
                # Its head said that there is a stream, and it was long on its way.
                outgoing.closes = True
                over()

        def settled(final: Response) -> None:
            date, keep_alive = context.date_line(context.clock.now()), not outgoing.closes
            encoded = encode(final, method, date, keep_alive)
            outgoing.begin(encoded, final.delivery, lambda: out(final, keep_alive))

        context.settle(bmc, response, settled)

    def _stream(self, bmc: Bmc, wish: StreamWish, keep_alive: bool, over: Callable[[], None]) -> None:
        """Send events from now on; the answer is over when the stream is."""

        def ended() -> None:
            self._stream_over()
            over()

        context = self.context
        context.metrics.streams += 1
        self._streaming = Streaming(
            self.transport,
            bmc,
            wish,
            context.clock.now(),
            chunked=keep_alive,
            stalled_seconds=context.limits.stalled_seconds,
            over=ended,
        )
        self._streaming.paused = self._write_paused
        self._streaming.flush()

    def _stream_over(self) -> None:
        streaming, self._streaming = self._streaming, None
        if streaming is not None:
            streaming.cancel()
            self.context.metrics.streams -= 1

    def _finish(self, response: Response, request: Request | None) -> None:
        """Refuse, and end the connection with that."""
        method = request.method if request is not None else "GET"
        if response.delivery is not None:
            self._closing = True
            outgoing = self._active = Outgoing(self.transport, closes=True)
            self.send(outgoing, None, response, method, lambda: self._end(outgoing.sent, unread=True))
            return
        moment = self.context.clock.now()
        self.transport.write(encode(response, method, self.context.date_line(moment), keep_alive=False))
        self.context.metrics.observe(response.status, 0.0)
        self._end(1, unread=True)

    def _end(self, sent: int, unread: bool) -> None:
        """Close after `sent` bytes of a last answer; `unread`: the client may still be sending its request.

        Then it happens a little later: closing would reset the connection and lose the answer.
        """
        self._closing = True
        self._active = None
        if not (sent and unread):
            self.transport.close()
            return
        if self._flow is not None:
            self._flow.resume_reading()
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

    def _enqueue(self, waiting: Pending | Cycle | Errand) -> None:
        if self._queue is None:
            self._queue = deque()
        self._queue.append(waiting)
        # Not sooner: while nothing is read, nobody sees that the client goes away.
        if len(self._queue) >= _MOST_WAITING:
            self.flow.pause_reading()

    def _drain(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        while self._queue and self._active is None and not self._write_paused and not self.transport.is_closing():
            waiting = self._queue.popleft()
            if isinstance(waiting, Cycle):
                self._start(waiting)
            elif isinstance(waiting, Errand):
                self._run(waiting)
            else:
                self._answer(waiting)
        if self._queue or self._write_paused or self.transport.is_closing():
            return
        if self._flow is not None and not (isinstance(self._active, Relay) and self._active.held):
            self._flow.resume_reading()
        if self._active is None and self._in_message and not self._in_head and not self._closing:
            self._began = self.last_active = self.context.clock.now().mono
            self._continue()

    # slow lane

    def _start_slow(self, plan: BodyPlan, outside: ASGIApp | None = None) -> None:
        self._overhead = -self._chunk
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
        cycle = self._cycle = Cycle(
            scope=cast(Any, scope),
            transport=self.transport,
            flow=self.flow,
            logger=_log,
            access_logger=_log,
            access_log=False,
            default_headers=[] if outside is None else [_date_field(self.context)],
            message_event=asyncio.Event(),
            expect_100_continue=self._fields.get(b"expect", b"").lower() == b"100-continue",
            keep_alive=self._goes_on(),
            on_response=self.on_response_complete,
        )
        cycle.plan, cycle.protocol, cycle.outside = plan, self, outside
        scope["state"]["cycle"] = cycle
        if self._waiting:
            self._enqueue(cycle)
        else:
            self._start(cycle)

    def _start(self, cycle: Cycle) -> None:
        self._active = cycle
        self._began = self.last_active = self.context.clock.now().mono
        tasks = self.listener.tasks
        task = asyncio.get_running_loop().create_task(cycle.run_asgi(self.listener.app))
        task.add_done_callback(tasks.discard)
        tasks.add(task)

    def on_response_complete(self) -> None:
        """The slow lane is done; what waited goes on."""
        cycle, self._active = cast(Cycle, self._active), None
        if self.transport is None:
            return
        self.last_active = self.context.clock.now().mono
        if cycle.keep_alive:
            self._drain()
            self.answered()
        else:
            self._end(cycle.sent, cycle.more_body)

    # other shards

    def _peer(self) -> Peer | None:
        """The other shard that has the BMC of the request that is coming in."""
        if not self._url.startswith(b"/"):
            self._url = self._origin_form(self._url.decode("latin-1")).encode("latin-1")
        return self.context.peer(self._fields, self.dialled)

    def _hand_over(self, peer: Peer) -> None:
        """The request whose head is complete is for another shard."""
        self._overhead = -self._chunk
        fields, method, keep_alive = self._fields, self._parser.get_method(), self._goes_on()
        chunked = b"transfer-encoding" in fields
        errand = self._plan = Errand(peer, request_head(method, self._url, fields, keep_alive), chunked)
        if method == b"GET" and keep_alive and not chunked and b"content-length" not in fields:
            head = head_of(fields)
            if head.plain:
                self._remember(head, peer)
        if self._waiting:
            self._enqueue(errand)
        else:
            self._run(errand)

    def _hand_over_known(self, peer: Peer, line: bytes, data: bytes) -> bool:
        """Hand over a GET whose header block is known. False where that needs more than a look."""
        if not self.hands_over or len(line) > self.context.limits.target or _PLAIN_GET.fullmatch(line) is None:
            return False
        if self.context.outside is not None and not line.startswith(b"GET /redfish/"):
            return False
        relay = self._relay(peer)
        if relay is None:
            return False
        self.last_active = self.context.clock.now().mono
        self.context.metrics.forwarded += 1
        self._active = relay
        relay.begin(data)
        return True

    def _relay(self, peer: Peer) -> Relay | None:
        """The way to another shard, None when that is not there."""
        if self._relays is None:
            self._relays = {}
        relay = self._relays.get(peer)
        if relay is None:
            info = self.transport.get_extra_info
            client, port = (*(info("peername") or ()), "", 0)[:2]
            dialled_port = (info("sockname") or ("", 0))[1]
            relay = peer.open(self, Caller(self.dialled, dialled_port, (client, port), bool(info("sslcontext"))))
            if relay is not None:
                self._relays[peer] = relay
        return relay

    def _run(self, errand: Errand) -> None:
        """It is the turn of a request for another shard. Where that is not there, so is nobody for the client."""
        relay = errand.relay = self._relay(errand.peer)
        if relay is None:
            self._drop()
            return
        self._active = relay
        self.last_active = self.context.clock.now().mono
        self.context.metrics.forwarded += 1
        relay.begin(bytes(errand.data))
        errand.data.clear()

    def _feed_errand(self, errand: Errand, data: bytes) -> None:
        if errand.relay is not None:
            if errand.relay is self._active:
                errand.relay.feed(data)
            return
        errand.data += data
        if len(errand.data) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def _abandon(self, errand: Errand, error: RedfishError) -> None:
        """Refuse a request for another shard, which may have half of it already."""
        if errand.relay is None:
            cast(deque[Pending | Cycle | Errand], self._queue).remove(errand)
        elif errand.relay is self._active:
            self._active = None
            cast(dict[Peer, Relay], self._relays).pop(errand.peer).cancel()
            if errand.relay.answered:
                self._drop()
        self._refuse_and_close(error_response(error))

    def relay_done(self, relay: Relay) -> None:
        """The answer of another shard is complete; what waited goes on."""
        self._active = None
        self.last_active = self.context.clock.now().mono
        if relay.stopping:
            self._closing = True
            self.transport.close()
        elif self._queue or self._in_message or self._flow is not None:
            self._drain()

    def relay_closed(self, relay: Relay) -> None:
        """Another shard ends the connection, or is gone itself. That matters only while it owes an answer."""
        if self._relays is not None:
            self._relays.pop(relay.peer, None)
        if relay is self._active:
            self._active = None
            self._closing = True
            self.transport.close()

    def relay_ready(self) -> None:
        """Another shard takes more of the body."""
        if not self._write_paused and len(self._queue or ()) < _MOST_WAITING:
            self.flow.resume_reading()
