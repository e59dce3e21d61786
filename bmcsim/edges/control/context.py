"""What the handlers of the control plane share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence, Sized
from typing import Protocol

import msgspec

from bmcsim.core.clock import Clock
from bmcsim.edges.control.audit import Audit
from bmcsim.edges.control.endpoint import ControlError
from bmcsim.edges.control.guard import Guard
from bmcsim.edges.control.jobs import Change, Jobs
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.history import History
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.members import Members
from bmcsim.fleet.operations import What
from bmcsim.fleet.recordings import Recordings
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.restoring import Snapshots
from bmcsim.fleet.selection import CHUNK, Finder, Racks, Selection, SelectionError, scan
from bmcsim.machine.bmc import Bmc


class Counters(Protocol):
    """What was counted at the Redfish port since the start."""

    @property
    def classes(self) -> Sequence[int]:
        """Answered requests; index 2: those with a status from 200 to 299, and so on."""

    @property
    def dropped(self) -> int:
        """Requests whose connection was closed without an answer."""

    @property
    def connections_opened(self) -> int:
        """Connections accepted."""

    @property
    def connections_closed(self) -> int:
        """And those that are over."""

    @property
    def streams(self) -> int:
        """Open streams of events."""

    @property
    def bounds(self) -> Sequence[float]:
        """Upper ends of the buckets in seconds, without the last one, which has none."""

    @property
    def buckets(self) -> Sequence[int]:
        """Answered requests by how long they took."""

    @property
    def lag(self) -> float:
        """Seconds by which the event loop was late when it was last measured."""


class Contact(msgspec.Struct, frozen=True):
    """What is known of the requests to a BMC. last: when the last one came, seconds since the epoch. errors: that were
    answered with 4xx or 5xx."""

    last: float | None = None
    requests: int = 0
    errors: int = 0


class Control(msgspec.Struct, kw_only=True):
    """A fleet, and how it is changed.

    change: see Change. leases: None where addresses are planned. history: what went wrong at the BMCs. recordings: of
    all requests to some. closing: what ends when the process does; `stop` calls each.
    members: adds and removes machines, snapshots: takes and restores them; None where that is not possible.
    started: when the process started, seconds since the epoch. version: of bmcsim. registration: how far the
    registration with NICo is, as plain JSON; None where there is none. jobs, audit, racks: made from the rest.
    answered: requests to the control API by the first digit of their status. listeners: of the live stream.
    """

    fleet: Fleet
    clock: Clock
    driver: Driver
    config: FleetConfig
    change: Change
    counters: Counters
    guard: Guard
    version: str
    started: float
    leases: Leases | None = None
    history: History = msgspec.field(default_factory=History)
    recordings: Recordings = msgspec.field(default_factory=lambda: Recordings(lambda _active: None))
    registration: Callable[[], object] | None = None
    members: Members | None = None
    snapshots: Snapshots | None = None
    jobs: Jobs = msgspec.field(default=None)  # type: ignore[assignment]
    audit: Audit = msgspec.field(default=None)  # type: ignore[assignment]
    racks: Racks = msgspec.field(default=None)  # type: ignore[assignment]
    closing: list[Callable[[], object]] = msgspec.field(default_factory=list)
    answered: list[int] = msgspec.field(default_factory=lambda: [0] * 6)
    listeners: Sized = ()

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.change, self.clock)
        self.audit = Audit(self.clock)
        self.regroup(self.config)

    def regroup(self, config: FleetConfig) -> None:
        """The fleet has other groups now, or others in them."""
        self.config = config
        self.racks = Racks(self.fleet, {one.name: one.rack_id for one in config.groups if one.rack_id})

    async def start(self) -> None:
        """There is nothing to begin with; with `stop` it is a service like the listeners."""

    async def stop(self) -> None:
        """End what would not end by itself, so that its listener can."""
        for close in self.closing:
            close()

    def contact(self, bmc: Bmc) -> Contact:
        """What is known of the requests to a BMC."""
        return Contact(bmc.contact or None, bmc.requests, self.history.errors(bmc))

    async def apply(self, bmc: Bmc, what: What) -> None:
        """Change a BMC and wait until that is stored. Raises ControlError 507 when it could not be: it was undone."""
        stored: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def told(error: BaseException | None) -> None:
            if not stored.done():
                stored.set_result(error)

        self.change(bmc, what, told)
        error = await stored
        if error is not None:
            raise ControlError(507, f"the change of {bmc.id} could not be stored: {error}")

    def find(self, name: str) -> Bmc:
        """The BMC with an id, an address, a MAC, a serial number or a mat_id. Raises ControlError 404."""
        try:
            return Finder(self.fleet).find(name)
        except SelectionError as error:
            raise ControlError(404, str(error)) from error

    async def pieces(self) -> AsyncIterator[list[Bmc]]:
        """All BMCs in machine order; others have turns between the pieces."""
        every = list(self.fleet)
        for start in range(0, len(every), CHUNK):
            yield every[start : start + CHUNK]
            await asyncio.sleep(0)

    async def select(self, selection: Selection) -> list[Bmc]:
        """The BMCs of a selection in machine order; others have turns meanwhile. Raises ControlError 400 and 404."""
        found: list[Bmc] = []
        try:
            for piece in scan(selection, self.fleet, self.racks):
                found += piece
                await asyncio.sleep(0)
        except SelectionError as error:
            raise ControlError(404 if error.missing else 400, str(error)) from error
        return found
