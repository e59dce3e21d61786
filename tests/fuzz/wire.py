"""Bytes against one connection of the Redfish port, over a transport that is not there.

What must hold for every stream of bytes: nothing is raised; what comes back is a sequence of well-formed responses, as
h11 reads them; requests are answered in order, and never with what only the body of another one asked for; how the
bytes were cut into segments changes nothing; and afterwards the connection is closed, or answers a plain GET, or waits
for the rest of a request that the next sweeps end.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, cast

import h11
import orjson

from bmcsim.core.clock import ManualClock
from bmcsim.edges.http.app import RedfishApp
from bmcsim.edges.http.context import Context, Limits
from bmcsim.edges.http.protocol import Listening, RedfishProtocol
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.faults import Rules
from bmcsim.redfish.injection import rules_of
from tests.conftest import make_client
from tests.fuzz.handling import Broken, Figures
from tests.fuzz.streams import ADDRESSES, INNER, Sent, stream

READ_BUFFER = 256 * 1024
MOST_HELD = 4 * 1024 * 1024
"""Bytes that one connection may keep of what a client sent."""

_HOST = b"Host: 127.64.0.2\r\n"
_PROBE = b"GET /redfish HTTP/1.1\r\n" + _HOST + b"\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_PROBED = orjson.dumps({"v1": "/redfish/v1/"})


class Transport:
    """Keeps what is written. What arrives while reading is paused comes later, as from a socket."""

    def __init__(self, protocol: RedfishProtocol, address: str) -> None:
        self._protocol, self._address = protocol, address
        self.data = bytearray()
        self.received = 0
        self.closing = self.lost = False
        self._paused = self._eof = False
        self._held: list[bytes] = []
        protocol.connection_made(cast(asyncio.Transport, self))

    def feed(self, data: bytes) -> None:
        """Bytes of the client arrive."""
        if self.closing or self.lost:
            return
        if self._paused:
            self._held.append(data)
            return
        self.received += len(data)
        for start in range(0, len(data), READ_BUFFER):
            self._protocol.data_received(data[start : start + READ_BUFFER])

    def write(self, data: bytes) -> None:
        if self.closing or self._eof:
            raise Broken("wrote to a transport that closes")
        self.data += data

    def write_eof(self) -> None:
        self._eof = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._lose)

    abort = close

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            self._protocol.connection_lost(None)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        held, self._held = self._held, []
        for data in held:
            asyncio.get_running_loop().call_soon(self.feed, data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": (self._address, 443), "peername": ("127.0.0.1", 40000)}.get(name, default)


class Port:
    """A Redfish port with one BMC of each profile, and a clock that stands."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        fleet = Fleet()
        self.bmcs: dict[str, Bmc] = {}
        for index, (name, address) in enumerate(ADDRESSES.items()):
            bmc = make_client(name, index=index).bmc
            bmc.address = address
            fleet.add(bmc)
            self.bmcs[address] = bmc
        fleet.ready = True
        self.driver = Driver(self.clock)
        self.context = Context(fleet, self.driver, self.clock, Limits(linger_seconds=0.0))
        self._listening = Listening(RedfishApp(self.context), set(), set())

    def rules(self, values: Iterable[Any]) -> Rules:
        """Fault rules of JSON values."""
        return rules_of(values, self.clock.now().wall)

    def connect(self, address: str = "127.64.0.2") -> tuple[RedfishProtocol, Transport]:
        """A new connection to one of the BMCs."""
        protocol = RedfishProtocol(self.context, self._listening)
        return protocol, Transport(protocol, address)

    async def settled(self, transport: Transport) -> None:
        """Wait until nothing moves any more without another byte or more time."""
        tasks, quiet, seen = self._listening.tasks, 0, (-1, 0)
        for _ in range(2000):
            await asyncio.sleep(0)
            now = len(transport.data), transport.received
            quiet, seen = (quiet + 1 if now == seen else 0), now
            if quiet >= (8 if tasks else 4) or transport.lost:
                return
        raise Broken("the connection never comes to rest")


def responses(data: bytes, methods: Sequence[str] = (), *, closed: bool) -> list[tuple[int, dict[bytes, bytes], bytes]]:
    """(status, fields, body) of each response, as h11 reads them. methods: of the requests, GET where it ends.

    Raises Broken for what is none, and for half of one.
    """
    found: list[tuple[int, dict[bytes, bytes], bytes]] = []
    methods, data = [*methods], data.replace(_CONTINUE, b"")
    while data:
        reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=2**26)
        method = methods[len(found)] if len(found) < len(methods) else "GET"
        reader.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        reader.send(h11.EndOfMessage())
        reader.receive_data(data)
        status, fields, body = 0, {}, b""
        try:
            while not isinstance(event := reader.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Response):
                    status, fields = event.status_code, dict(event.headers)
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    raise Broken(f"half a response: {data[:300]!r}")
        except h11.RemoteProtocolError as error:
            raise Broken(f"no response ({error}): {data[:300]!r}") from error
        if status not in (204, 304) and b"content-length" not in fields:
            raise Broken(f"a response without a length: {data[:300]!r}")
        found.append((status, fields, body))
        rest = reader.trailing_data[0]
        if fields.get(b"connection") == b"close" and (rest or not closed):
            raise Broken(f"the connection does not end with {data[:300]!r}")
        data = rest
    return found


def check(sent: Sent, data: bytes, *, closed: bool) -> list[tuple[int, dict[bytes, bytes], bytes]]:
    """Whether the answers to a stream are as they must be. Raises Broken."""
    answers = responses(data, sent.methods or (), closed=closed)
    for status, _, body in answers:
        if status == 500:
            raise Broken(f"500: {body[:500]!r}")
        if INNER in body:
            raise Broken(f"the body of a request was answered as a request: {body[:500]!r}")
    if sent.methods is not None and sent.marks is not None:
        if len(answers) != len(sent.methods) and not closed:
            raise Broken(f"{len(answers)} answers to {len(sent.methods)} requests")
        for mark, (status, _, body) in zip(sent.marks, answers, strict=False):
            if mark and status == 404 and mark not in body:
                raise Broken(f"{mark!r} was answered with {body[:300]!r}")
    return answers


async def send(sent: Sent, pieces: Sequence[bytes], figures: Figures | None = None) -> bytes:
    """The answers to a stream on a new port, which ends in a defined state. Raises Broken."""
    port = Port()
    protocol, transport = port.connect()
    for piece in pieces:
        transport.feed(piece)
        if len(pieces) > 1 and (protocol._active is not None or protocol._queue):
            await port.settled(transport)
    await port.settled(transport)
    data = bytes(transport.data)
    answers = check(sent, data, closed=transport.closing)
    if figures is not None:
        figures.statuses.update([status for status, _, _ in answers] or [0])
    if sent.methods is not None and len(answers) < len(sent.methods):
        raise Broken(f"{len(answers)} answers to {len(sent.methods)} requests, and then {answers[-1:]}")
    if not transport.closing:
        await _defined(port, protocol, transport)
    return data


async def _defined(port: Port, protocol: RedfishProtocol, transport: Transport) -> None:
    """An open connection answers another request, or waits for what the sweeps end. Raises Broken."""
    before = len(transport.data)
    transport.feed(_PROBE)
    await port.settled(transport)
    if transport.data[before:].endswith(_PROBED):
        return
    for seconds in (11.0, 80.0, 700.0):
        if not transport.lost:
            protocol.sweep(port.clock.now().mono + seconds)
            await port.settled(transport)
    if not transport.closing:
        raise Broken(f"neither answers nor closes; the last that came: {bytes(transport.data[before:])[-300:]!r}")


def cut(random: Random, data: bytes) -> list[bytes]:
    """The stream in segments."""
    count = random.choice((1, 2, 3, 10))
    ends = sorted({random.randrange(len(data) + 1) for _ in range(count)} | {len(data)})
    if random.random() < 0.1 and len(data) < 3000:
        ends = list(range(1, len(data) + 1))
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start]


async def attempt(seed: int, figures: Figures, random: Random | None = None) -> None:
    """One stream, whole and in segments. Raises Broken."""
    random = random or Random(seed)
    sent = stream(random)
    pieces = cut(random, sent.data)
    figures.cases += 1
    try:
        whole = same(await send(sent, [sent.data], figures))
        parts = same(await send(sent, pieces))
        if whole != parts:
            raise Broken(f"segments make a difference:\n  {whole[-600:]!r}\n  {parts[-600:]!r}")
    except Broken as broken:
        raise Broken(f"{broken}\n  sent {sent.data[:3000]!r}\n  as {[len(one) for one in pieces][:50]}") from broken
    except Exception as error:
        raise Broken(f"raised {error!r}\n  sent {sent.data[:3000]!r}") from error


def same(data: bytes) -> bytes:
    """Answers without what is different each time, without 100 Continue, which is for who waits, and without a last
    refusal's choice of 400 or 501: whether something is a method is seen from what has come of it."""
    data = re.sub(rb"X-Auth-Token: [0-9a-f]+", b"X-Auth-Token: ?", data).replace(_CONTINUE, b"")
    head, _, last = data.rpartition(b"HTTP/1.1 ")
    return head if last[:3] in (b"400", b"501") and b"\r\nConnection: close\r\n" in last else data
