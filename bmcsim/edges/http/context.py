"""What the connections of one listener share."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from ipaddress import IPv4Network, IPv6Network, ip_address

import msgspec
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from bmcsim.core.clock import Clock, Moment
from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.access import FIELD, AccessLog, given_id
from bmcsim.edges.http.forwarding import Peer, Peers
from bmcsim.edges.http.metrics import Metrics
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.history import History, incident, is_incident, refusal
from bmcsim.fleet.journal import NotEncodable
from bmcsim.fleet.recordings import Recordings
from bmcsim.fleet.registry import Absent, Fleet, Misdirected
from bmcsim.machine import sensors
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import service
from bmcsim.redfish.exchange import Head, Request, Response
from bmcsim.redfish.messages import error_response
from bmcsim.redfish.service import BodyPlan

Done = Callable[[BaseException | None], None]
"""Told once that a change is stored (None), or that it was undone because of an error."""

Commit = Callable[[Bmc, Done], object]
"""Store what a BMC changed, `Bmc.uncommitted`, and tell so, now or later on the loop. What it returns is not used."""

Outside = Callable[[str], ASGIApp | None]
"""What answers requests for a path that is no BMC's, None for the path of one. The path is as it was sent."""

_KNOWN_BLOCKS = 16_384
_KNOWN_BYTES = 512
_ROUTING_FIELDS: tuple[bytes, ...] = (b"forwarded", b"host")


class Limits(msgspec.Struct, frozen=True):
    """Bounds of a request. Sizes in bytes, times in seconds; beyond them: 431, 414, 413, 408, close.

    upload: of a firmware image, None for what the BMC says. body_seconds: for a whole body; body_idle_seconds: between
    two pieces of one. idle_seconds: between requests; stalled_seconds: of a client that does not read. requests: how
    many one connection takes, None for any number; the answer to the last one says Connection: close.
    """

    head: int = 32 * 1024
    target: int = 8 * 1024
    fast_body: int = 64 * 1024
    upload: int | None = None
    head_seconds: float = 10.0
    body_seconds: float = 600.0
    body_idle_seconds: float = 60.0
    idle_seconds: float = 75.0
    stalled_seconds: float = 60.0
    requests: int | None = None
    linger_seconds: float = 1.0


class Dropped(Exception):
    """The connection closes without an answer, because the fleet is not complete."""


class Known:
    """A header block that was parsed before: what Redfish looks at, and the BMC that it names while the fleet stays.

    peer: the other shard that has the BMC. authorization: that of the head where nothing else in it counts for a GET,
    None otherwise, and never empty.
    """

    __slots__ = ("authorization", "bmc", "fields", "head", "peer", "version")

    def __init__(self, head: Head, fields: Mapping[bytes, bytes], peer: Peer | None = None, version: int = -1) -> None:
        self.head, self.peer, self.version = head, peer, version
        self.authorization = head.authorization or None if head.plain and not head.gzip else None
        self.fields: Mapping[bytes, bytes] = {name: fields[name] for name in _ROUTING_FIELDS if name in fields}
        self.bmc: Bmc | None = None

    def remembered_by(self, bmc: Bmc) -> bool:
        """Whether a BMC remembers the credentials. From then on both have the same object of them, which tells it
        without a look into any of the two: they would not be in a cache."""
        if self.authorization is None or not service.remembers(bmc, self.authorization):
            return False
        self.authorization = bmc.basic_header
        return True


class Context:
    """Fleet, driver, clock and counters of a Redfish listener.

    served: connections to addresses outside it are refused although the socket sees them; None serves all.
    commit: stores changes; None where nothing is stored. peers: the other shards, None where none can be reached.
    outside: what is served beside BMCs and wins over them, None for nothing.
    history: what went wrong lately. access: logs requests, None for no log; set before the first request.
    recorder: records requests; None while nobody asks for that. noting: whether all requests have to be noted.
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
        self.commit: Commit | None = None
        self.peers: Peers | None = None
        self.outside: Outside | None = None
        self.history = History()
        self.access: AccessLog | None = None
        self.recorder = None
        self.metrics = Metrics()
        self._date_second = -1
        self._date = self._ok = b""
        self.known: dict[bytes, Known] = {}
        # Address -> open connections, of BMCs that have a limit of them.
        self._open: dict[str, set[object]] = {}

    @property
    def recorder(self) -> Recordings | None:
        """Records requests."""
        return self._recorder

    @recorder.setter
    def recorder(self, recorder: Recordings | None) -> None:
        self._recorder = recorder
        self.noting = recorder is not None or self.access is not None

    def log_access(self, access: AccessLog) -> None:
        """Log requests from now on."""
        self.access, self.noting = access, True

    def date_line(self, moment: Moment) -> bytes:
        """The Date header line, formatted once a second."""
        second = int(moment.wall)
        if second != self._date_second:
            self._date_second = second
            self._date = b"Date: " + formatdate(second, usegmt=True).encode() + b"\r\n"
            self._ok = STATUS_LINE[200] + self._date
        return self._date

    def ok_line(self, moment: Moment) -> bytes:
        """The status line of a 200 with the Date header line."""
        if int(moment.wall) != self._date_second:
            self.date_line(moment)
        return self._ok

    def refuses(self, dialled: str) -> bool:
        """Whether a new connection to an address is reset: nothing is served there, its BMC has moved away, is in such
        a reset, or has as many as it takes."""
        try:
            if self.served is not None and ip_address(dialled) not in self.served:
                return True
        except ValueError:
            # The connection is gone before anyone could ask what was dialled.
            return True
        if self.fleet.elsewhere and dialled in self.fleet.elsewhere:
            # Its process has ended, or is about to: what answers there must be that BMC or nobody.
            return True
        bmc = self.fleet.by_address(dialled)
        if bmc is None:
            return self.fleet.is_vacant(dialled)
        return bmc.refuses_connections or self._full(bmc, dialled)

    def _full(self, bmc: Bmc, dialled: str) -> bool:
        limit = bmc.shared.behaviour.connection_limit
        return limit is not None and len(self._open.get(dialled, ())) >= limit

    def opened(self, dialled: str, connection: object) -> None:
        """A connection to an address was let in."""
        bmc = self.fleet.by_address(dialled)
        if bmc is not None and bmc.shared.behaviour.connection_limit is not None:
            self._open.setdefault(dialled, set()).add(connection)

    def released(self, dialled: str, connection: object) -> None:
        """A connection is gone. For one that was never let in, and for the second time, nothing happens."""
        if (those := self._open.get(dialled)) is not None:
            those.discard(connection)
            if not those:
                del self._open[dialled]

    def route(self, fields: Mapping[bytes, bytes], dialled: str) -> Bmc:
        """The BMC of a request. Raises RedfishError, and Dropped while the fleet is not complete."""
        try:
            return self.fleet.route(fields.get(b"forwarded", b""), fields.get(b"host", b""), dialled)
        except Absent as absent:
            raise Dropped from absent

    def peer(self, fields: Mapping[bytes, bytes], dialled: str) -> Peer | None:
        """The other shard that has the BMC of a request; None for a request that is answered here."""
        try:
            self.route(fields, dialled)
        except Misdirected as elsewhere:
            return self.peers.of(elsewhere.address) if self.peers is not None else None
        except (RedfishError, Dropped):
            pass
        return None

    def remember(self, block: bytes, known: Known) -> None:
        """Keep a parsed header block; the oldest half goes when there are too many."""
        if len(block) > _KNOWN_BYTES or b"\r\nconnection:" in block.lower():
            return
        if self.limits.requests is not None:
            return  # The parser has to see, and count, each request.
        if self.access is not None and FIELD in block.lower():
            return  # The id is one of the request, and goes back with its answer.
        # Two clients of each BMC have a block each for it.
        if len(self.known) >= max(_KNOWN_BLOCKS, 2 * len(self.fleet)):
            for old in list(self.known)[: len(self.known) // 2]:
                del self.known[old]
        self.known[block] = known

    def route_known(self, known: Known, dialled: str) -> Bmc:
        """As `route`; the look-up is done again only after the fleet changed, or where the header names no BMC."""
        if known.bmc is None or known.version != self.fleet.version:
            bmc = self.route(known.fields, dialled)
            if self.fleet.names(bmc, known.fields.get(b"forwarded", b""), known.fields.get(b"host", b"")):
                known.bmc, known.version = bmc, self.fleet.version
            return bmc
        return known.bmc

    def admit(
        self, fields: Mapping[bytes, bytes], dialled: str, request: Request, length: int | None
    ) -> Response | BodyPlan:
        """Decide on a body before it is read: refuse it, or say how to read it. Raises Dropped.

        length: Content-Length, None when the body is chunked.
        """
        try:
            bmc = self.route(fields, dialled)
        except RedfishError as error:
            return error_response(error)
        plan = service.admit(bmc, request, length)
        if isinstance(plan, Response):
            plan = self._identified(fields, request, plan)
            # A refused login may have locked its account; the refusal does not wait for that to be on disk.
            self.settle(bmc, plan, lambda _: None)
            return plan
        if plan.upload and self.limits.upload is not None:
            plan = BodyPlan(self.limits.upload, plan.upload)
        if length is not None and length > plan.limit:
            return error_response(RedfishError(413, "PayloadTooLarge"))
        return plan

    def answer(
        self, fields: Mapping[bytes, bytes], dialled: str, request: Request
    ) -> tuple[Bmc | None, Response, bool]:
        """Route and handle; whether the answer has to go through `settle`. Raises Dropped.

        Where it has not, it is written as it is, and its actions are executed then.
        """
        try:
            bmc = self.route(fields, dialled)
        except RedfishError as error:
            return None, self._identified(fields, request, error_response(error)), False
        bmc.contact = request.moment.wall
        bmc.requests += 1
        response = service.handle(bmc, request)
        if self.access is not None:
            response = self._identified(fields, request, response)
        waits = response.delivery is not None or response.stream is not None
        return bmc, response, waits or bmc.uncommitted is not None

    def _identified(self, fields: Mapping[bytes, bytes], request: Request, response: Response) -> Response:
        """An answer with the id that its request has, where requests are logged."""
        if self.access is None or not (id_ := given_id(fields)):
            return response
        request.id = id_
        return msgspec.structs.replace(response, head=b"%bX-Request-Id: %b\r\n" % (response.head, id_.encode()))

    def settle(self, bmc: Bmc | None, response: Response, then: Callable[[Response], None]) -> None:
        """Commit what a request changed, call `then` with its answer, and execute the actions. Now or later.

        A change that could not be stored was undone: its answer is 507 (500 if no disk could take it), delivered as
        the other would have been, and its actions are forgotten. The actions are executed also when nobody is there
        for the answer any more.
        """
        if bmc is None or bmc.uncommitted is None:
            then(response)
            self.execute(bmc, response)
            return

        def told(error: BaseException | None) -> None:
            if error is None:
                then(response)
                return
            refused = (500, "InternalError") if isinstance(error, NotEncodable) else (507, "InsufficientStorage")
            refusal = error_response(RedfishError(*refused))
            refusal.delivery = response.delivery
            then(refusal)

        self._store(bmc, response.actions, told)

    def change(self, bmc: Bmc, what: Callable[[Bmc, Moment], Sequence[Action]], told: Done) -> None:
        """Change a BMC, store that, tell so, now or later, and execute the actions if it was stored.

        What `what` raises is raised here, and the BMC and its dependents are as they were.
        """
        before = bmc.snapshot()
        try:
            actions = what(bmc, self.clock.now())
        except BaseException:
            Bmc.forget(before)
            raise
        self._store(bmc, actions, told)

    def set_reading(self, bmc: Bmc, sensor: str, by_hand: float | None, told: Done) -> None:
        """Make a sensor read something (None: what it measures), store that, and tell so, now or later.

        Raises KeyError for a URI of no sensor, and ValueError for what is no number.
        """
        self.change(bmc, lambda one, moment: sensors.set_reading(one, sensor, by_hand, moment), told)

    def _store(self, bmc: Bmc, actions: Sequence[Action], told: Done) -> None:
        """Commit what a BMC changed, tell so, and execute the actions if it was stored.

        Without that the timers still have to follow: some of the BMCs that a command reaches may be stored.
        """

        def done(error: BaseException | None) -> None:
            told(error)
            if error is None:
                # Also without actions: the driver takes the timers of a changed BMC from its state.
                self.driver.execute(bmc, actions)
                return
            for one in bmc.reach():
                one.end_orphans()
                self.driver.sync(one)

        if self.commit is None or all(one.uncommitted is None for one in bmc.reach()):
            for one in bmc.reach():
                one.committed()
            done(None)
        else:
            self.commit(bmc, done)

    def note(self, bmc: Bmc | None, request: Request, response: Response, transport: asyncio.BaseTransport) -> None:
        """Remember a request if it did not simply go well, record and log it if that is wanted. Told before `settle`.

        transport: of its client.
        """
        if bmc is not None and is_incident(response):
            self.history.note(bmc, incident(bmc, request, response, _client(transport)))
        if self.recorder is not None and bmc is not None:
            self.recorder.note(bmc, request, response, _client(transport), self._since(request))
        if self.access is not None and self.access.takes():
            self.access.write(bmc, request, response, _client(transport), self._since(request))

    def _since(self, request: Request) -> float:
        return self.clock.now().mono - request.moment.mono

    def note_refused(self, dialled: str, transport: asyncio.BaseTransport) -> None:
        """Remember that a connection to an address was reset."""
        self.metrics.connections_refused += 1
        bmc = self.fleet.by_address(dialled)
        if bmc is not None:
            self.history.note(bmc, refusal(self.clock.now().wall, _client(transport)))

    def note_unread(
        self,
        fields: Mapping[bytes, bytes],
        dialled: str,
        request: Request,
        response: Response,
        transport: asyncio.BaseTransport,
    ) -> None:
        """Remember a request that `admit` refused. Raises Dropped, as that does."""
        try:
            bmc = self.route(fields, dialled)
        except RedfishError:
            self.note(None, request, response, transport)
            return
        bmc.contact = request.moment.wall
        bmc.requests += 1
        self.note(bmc, request, response, transport)

    def execute(self, bmc: Bmc | None, response: Response) -> None:
        """Set in motion what a response asks for."""
        if bmc is not None and response.actions:
            self.driver.execute(bmc, response.actions)


def _client(transport: asyncio.BaseTransport) -> str:
    """The address of a client, '' for unknown."""
    return str((*(transport.get_extra_info("peername") or ()), "")[0])
