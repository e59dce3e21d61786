"""One request by direct call, answered as the HTTP edge answers it. What transports of client libraries stand on."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from bmcsim.core.clock import Clock
from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.context import Context, Dropped, Known
from bmcsim.edges.http.protocol import encode
from bmcsim.edges.http.streaming import Streaming
from bmcsim.edges.http.uploads import sink_of
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.forwarded import normalise_host
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Request, Response, Upload, head_of
from bmcsim.redfish.messages import error_response
from bmcsim.redfish.service import BodyPlan

_LISTS = frozenset({b"if-match", b"if-none-match", b"accept", b"accept-encoding"})
_SINGLE = frozenset({b"host", b"content-length", b"authorization", b"x-auth-token"})
_END = b"\r\n\r\n"


class Seen(msgspec.Struct, frozen=True):
    """A request that a BMC got.

    bmc: its id, '' for a request that names none. path: with its query. status: 0 where the connection closed without
    an answer. delay: what a fault or slow hardware made the client wait, seconds.
    """

    bmc: str
    method: str
    path: str
    status: int
    delay: float = 0.0


class Closed(Exception):
    """The connection ended before the head of an answer. refused: it was reset at once."""

    def __init__(self, refused: bool) -> None:
        super().__init__("the BMC refused the connection" if refused else "the BMC closed the connection")
        self.refused = refused


class TooLate(Exception):
    """The answer comes later than the client waits."""

    def __init__(self, delay: float, patience: float) -> None:
        super().__init__(f"the BMC answers after {delay:g} s, and the client waits {patience:g} s")


class Answer(msgspec.Struct, frozen=True):
    """What a client gets.

    encoded: all of it, as over the wire; fields and body are parts of that. cut: it ends early, and the connection with
    it. closes: the connection ends with it. delay: seconds until it came.
    """

    status: int
    reason: str
    fields: tuple[tuple[str, str], ...]
    body: bytes
    encoded: bytes
    cut: bool
    closes: bool
    delay: float


class RecordingContext(Context):
    """A Context that notes each request. Nothing is remembered, so that all of them pass here."""

    def __init__(self, fleet: Fleet, driver: Driver, clock: Clock, seen: "deque[Seen]") -> None:
        super().__init__(fleet, driver, clock)
        self._seen = seen

    def remember(self, block: bytes, known: Known) -> None:
        """Not here."""

    def admit(
        self, fields: Mapping[bytes, bytes], dialled: str, request: Request, length: int | None
    ) -> Response | BodyPlan:
        plan = super().admit(fields, dialled, request, length)
        if isinstance(plan, Response):
            try:
                bmc = self.route(fields, dialled)
            except RedfishError:
                bmc = None
            self._note(bmc, request, plan)
        return plan

    def answer(
        self, fields: Mapping[bytes, bytes], dialled: str, request: Request
    ) -> tuple[Bmc | None, Response, bool]:
        bmc, response, waits = super().answer(fields, dialled, request)
        self._note(bmc, request, response)
        return bmc, response, waits

    def _note(self, bmc: Bmc | None, request: Request, response: Response) -> None:
        delivery, path = response.delivery, request.path
        dropped = delivery is not None and delivery.keep == 0 and not delivery.after_head
        self._seen.append(
            Seen(
                bmc.id if bmc is not None else "",
                request.method,
                f"{path}?{request.query}" if request.query else path,
                0 if dropped else response.status,
                delivery.delay if delivery is not None else 0.0,
            )
        )


class Wire:
    """The way of requests to a fleet. timeouts: a client that waits less than an answer is delayed gets none."""

    def __init__(self, context: RecordingContext, *, timeouts: bool) -> None:
        self._context, self._timeouts = context, timeouts
        self._by_id = {bmc.id.lower(): bmc for bmc in context.fleet}

    def address_of(self, host: str) -> str | None:
        """What the host of a URL is for the router: an address of a BMC, or that of the one with this id, '' if it has
        none; None for any other host."""
        name = normalise_host(host)
        if self._context.fleet.by_address(name) is not None:
            return name
        bmc = self._by_id.get(name)
        return bmc.address if bmc is not None else None

    def send(
        self,
        method: str,
        target: str,
        fields: Iterable[tuple[bytes, bytes]],
        body: Iterable[bytes] = (),
        patience: float | None = None,
    ) -> Answer:
        """Send a request. fields: with the framing of the body. patience: seconds that the client waits.

        Raises Closed, and TooLate where timeouts count; the BMC has acted on that request all the same.
        """
        context, lines = self._context, list(fields)
        seen = _joined(lines)
        host = seen.get(b"host", b"").decode("latin-1")
        dialled = self.address_of(host)
        if dialled is not None:
            if not dialled or context.refuses(dialled):
                raise Closed(refused=True)
            if normalise_host(host) != dialled:
                seen[b"host"] = dialled.encode()
        path, _, query = target.partition("?")
        request = Request(method, unquote(path), context.clock.now(), head_of(seen), query)
        try:
            if (twice := _twice(lines)) is not None:
                bmc, response, closes = None, error_response(RedfishError(400, "HeaderInvalid", twice)), True
            else:
                bmc, response, closes = self._answered(seen, dialled or "", request, body)
        except Dropped:
            raise Closed(refused=False) from None
        closes = closes or seen.get(b"connection", b"").lower() == b"close" or response.stream is not None
        finals: list[Response] = []
        context.settle(bmc, response, finals.append)
        return self._delivered(bmc, request, finals[0], closes, patience)

    def _answered(
        self, fields: Mapping[bytes, bytes], dialled: str, request: Request, body: Iterable[bytes]
    ) -> tuple[Bmc | None, Response, bool]:
        """BMC, response, and whether the connection ends with it. Raises Dropped."""
        context = self._context
        if len(request.path) + len(request.query) > context.limits.target:
            return None, error_response(RedfishError(414, "InvalidURI", "(too long)")), True
        if b"content-length" in fields or b"transfer-encoding" in fields:
            length = None if b"transfer-encoding" in fields else int(fields[b"content-length"])
            plan = context.admit(fields, dialled, request, length)
            if isinstance(plan, Response):
                return None, plan, True
            try:
                request.body, request.upload = _read(plan, body, fields.get(b"content-type", b""))
            except RedfishError as error:
                return None, error_response(error), True
        bmc, response, _ = context.answer(fields, dialled, request)
        return bmc, response, False

    def _delivered(
        self, bmc: Bmc | None, request: Request, response: Response, closes: bool, patience: float | None
    ) -> Answer:
        context, delivery = self._context, response.delivery
        encoded = encode(response, request.method, context.date_line(context.clock.now()), not closes)
        if bmc is not None and response.stream is not None and response.stream.admitted():
            encoded += _events(bmc, response, context)
        keep = None if delivery is None else delivery.keep
        head_size = encoded.index(_END) + len(_END)
        if keep is not None:
            encoded = encoded[: keep + (head_size if delivery is not None and delivery.after_head else 0)]
        delay = 0.0 if delivery is None else delivery.delay
        if self._timeouts and patience is not None and delay > patience:
            raise TooLate(delay, patience)
        if len(encoded) < head_size:
            raise Closed(refused=False)
        first, *lines = encoded[: head_size - len(_END)].decode("latin-1").split("\r\n")
        _, status, reason = first.split(" ", 2)
        named = [line.partition(":") for line in lines]
        return Answer(
            int(status),
            reason,
            tuple([(name, value.strip()) for name, _, value in named]),
            encoded[head_size:],
            encoded,
            keep is not None,
            closes or keep is not None,
            delay,
        )


def _joined(fields: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The first field of each name, in lower case; list fields are joined (RFC 9110 5.3)."""
    joined: dict[bytes, bytes] = {}
    for name, value in fields:
        key = name.lower()
        if key not in joined:
            joined[key] = value.strip()
        elif key in _LISTS:
            joined[key] += b", " + value.strip()
    return joined


def _twice(fields: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The first field that may be there once and is there again."""
    seen: set[bytes] = set()
    for name, _ in fields:
        key = name.lower()
        if key in _SINGLE and key in seen:
            return key.decode("latin-1")
        seen.add(key)
    return None


def _read(plan: BodyPlan, body: Iterable[bytes], content_type: bytes) -> tuple[bytes, Upload | None]:
    """The body, or what is left of an upload. Raises RedfishError 400 and 413."""
    sink = sink_of(plan.upload, content_type) if plan.upload else None
    kept, size = bytearray(), 0
    for data in body:
        size += len(data)
        if size > plan.limit:
            raise RedfishError(413, "PayloadTooLarge")
        if sink is None:
            kept += data
        else:
            sink.feed(data)
    return (bytes(kept), None) if sink is None else (b"", sink.result())


def _events(bmc: Bmc, response: Response, context: Context) -> bytes:
    """The events of a stream that are there already: here it ends behind them."""
    assert response.stream is not None
    sent = _Collecting()
    streaming = Streaming(
        sent, bmc, response.stream, context.clock.now(), chunked=False, stalled_seconds=0.0, over=_nothing
    )
    streaming.flush()
    streaming.cancel()
    return bytes(sent.data)


class _Collecting(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()

    def write(self, data: Any) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return False


def _nothing() -> None:
    """A stream that ends with its events tells nobody."""
