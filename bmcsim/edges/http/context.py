"""What the connections of one listener share."""

from collections.abc import Mapping
from email.utils import formatdate
from ipaddress import IPv4Network, IPv6Network

import msgspec

from bmcsim.core.clock import Clock, Moment
from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.metrics import Metrics
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Absent, Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import service
from bmcsim.redfish.exchange import Head, Request, Response
from bmcsim.redfish.messages import error_response

_KNOWN_BLOCKS = 16_384
_KNOWN_BYTES = 512
_ROUTING_FIELDS: tuple[bytes, ...] = (b"forwarded", b"host")


class Limits(msgspec.Struct, frozen=True):
    """Bounds of a request. Sizes in bytes, times in seconds; beyond them: 431, 414, 408, close."""

    head: int = 32 * 1024
    target: int = 8 * 1024
    fast_body: int = 64 * 1024
    head_seconds: float = 10.0
    idle_seconds: float = 75.0
    linger_seconds: float = 1.0


class Dropped(Exception):
    """The connection closes without an answer."""


class Known:
    """A header block that was parsed before: what Redfish looks at, and the BMC that it names while the fleet stays."""

    __slots__ = ("bmc", "fields", "head", "version")

    def __init__(self, head: Head, fields: Mapping[bytes, bytes]) -> None:
        self.head = head
        self.fields: Mapping[bytes, bytes] = {name: fields[name] for name in _ROUTING_FIELDS if name in fields}
        self.bmc: Bmc | None = None
        self.version = -1


class Context:
    """Fleet, driver, clock and counters of a Redfish listener.

    served: connections to addresses outside it are refused although the socket sees them; None serves all.
    """

    def __init__(
        self,
        fleet: Fleet,
        driver: Driver,
        clock: Clock,
        limits: Limits | None = None,
        served: IPv4Network | IPv6Network | None = None,
    ) -> None:
        self.fleet, self.driver, self.clock = fleet, driver, clock
        self.limits = limits or Limits()
        self.served = served
        self.metrics = Metrics()
        self._date_second = -1
        self._date = b""
        self.known: dict[bytes, Known] = {}

    def date_line(self, moment: Moment) -> bytes:
        """The Date header line, formatted once a second."""
        second = int(moment.wall)
        if second != self._date_second:
            self._date_second = second
            self._date = b"Date: " + formatdate(second, usegmt=True).encode() + b"\r\n"
        return self._date

    def route(self, fields: Mapping[bytes, bytes], dialled: str) -> Bmc:
        """The BMC of a request. Raises RedfishError, and Dropped for a BMC that does not answer now."""
        try:
            bmc = self.fleet.route(fields.get(b"forwarded", b""), fields.get(b"host", b""), dialled)
        except Absent as absent:
            raise Dropped from absent
        if not bmc.available:
            raise Dropped
        return bmc

    def remember(self, block: bytes, known: Known) -> None:
        """Keep a parsed header block; the oldest half goes when there are too many."""
        if len(block) > _KNOWN_BYTES or b"\r\nconnection:" in block.lower():
            return
        if len(self.known) >= _KNOWN_BLOCKS:
            for old in list(self.known)[: _KNOWN_BLOCKS // 2]:
                del self.known[old]
        self.known[block] = known

    def route_known(self, known: Known, dialled: str) -> Bmc:
        """As `route`; the look-up is done again only after the fleet changed, or where the header names no BMC."""
        if known.bmc is None or known.version != self.fleet.version:
            bmc = self.route(known.fields, dialled)
            if self.fleet.names(bmc, known.fields.get(b"forwarded", b""), known.fields.get(b"host", b"")):
                known.bmc, known.version = bmc, self.fleet.version
            return bmc
        if not known.bmc.available:
            raise Dropped
        return known.bmc

    def admit(
        self, fields: Mapping[bytes, bytes], dialled: str, request: Request, length: int | None
    ) -> Response | None:
        """Decide on a body before it is read; None lets it in. Raises Dropped."""
        try:
            decision = service.admit(self.route(fields, dialled), request, length)
        except RedfishError as error:
            return error_response(error)
        return decision if isinstance(decision, Response) else None

    def answer(self, fields: Mapping[bytes, bytes], dialled: str, request: Request) -> tuple[Bmc | None, Response]:
        """Route and handle; the caller executes the response's actions once it is written. Raises Dropped."""
        try:
            bmc = self.route(fields, dialled)
        except RedfishError as error:
            return None, error_response(error)
        return bmc, service.handle(bmc, request)

    def execute(self, bmc: Bmc | None, response: Response) -> None:
        """Set in motion what a response asks for."""
        if bmc is not None and response.actions:
            self.driver.execute(bmc, response.actions)
