"""Declares a fleet to NICo, until all of it is declared or refused.

Rule 1: racks first, then what is in them and what stands free.
Rule 2: at most eight records in flight. What failed for now is tried again, all of it together, after one pause: 0.5 s
        doubling to 30 s while nothing succeeds, half of it random.
Rule 3: a round ends early when so many fail in a row that the server must be down; it is not asked for the others.
Rule 4: what is there already counts as declared; a rack only if its profile is the same.
Rule 5: what is refused for good stays refused. It is named, and the others go on.
Rule 6: strict: the first of 30 rounds that leaves something, or anything refused, is the end.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import TypedDict

from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.calls import ADD_RACK, BACKOFF_MOST, GET_RACK, CallFailed, backoff
from bmcsim.edges.nico.certificates import NicoError
from bmcsim.edges.nico.channel import Api
from bmcsim.edges.nico.inventory import Record

log = logging.getLogger(__name__)

AT_ONCE = 8
ROUNDS = 30
_IN_A_ROW = 2 * AT_ONCE
_NAMED = 5


class Standing(StrEnum):
    """What became of a record."""

    PENDING = "pending"
    REGISTERED = "registered"
    PRESENT = "present"
    REFUSED = "refused"


class NotRegistered(NicoError):
    """Strict: something is refused, or not registered after all rounds; the text names all of it."""


class Status(TypedDict):
    """As GET /expected-inventory/status has it; racks are not counted."""

    registered: int
    already_present: int
    failed_identifiers: list[str]


class Registration:
    """The declaration of a fleet.

    standings: of all records, racks included. refused: name -> why. failing: name -> why not so far.
    """

    def __init__(
        self,
        api: Api,
        *,
        random: Callable[[], float],
        say: Callable[[str], None],
        strict: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """say: tells the user something. random: from 0 to 1."""
        self._api, self._random, self._say, self._strict, self._sleep = api, random, say, strict, sleep
        self.standings: Counter[Standing] = Counter()
        self._of_devices: Counter[Standing] = Counter()
        self._device_names: set[str] = set()
        self.refused: dict[str, str] = {}
        self.failing: dict[str, str] = {}
        self._stop = False
        self._in_a_row = 0
        self._troubled = False
        self._one_at_a_time = asyncio.Lock()

    def status(self) -> Status:
        """How far it is."""
        failed = (self.refused.keys() | self.failing.keys()) & self._device_names
        return {
            "registered": self._of_devices[Standing.REGISTERED],
            "already_present": self._of_devices[Standing.PRESENT],
            "failed_identifiers": sorted(failed),
        }

    async def more(self, devices: Iterable[Record]) -> None:
        """Declare what has come since; after the fleet, if that is under way. Raises NotRegistered."""
        async with self._one_at_a_time:
            waiting = deque(devices)
            self.standings[Standing.PENDING] += len(waiting)
            self._device_names |= {record.name for record in waiting}
            await self._all_of(waiting)
            self._say(self._summary())

    async def run(self, racks: Iterable[Record], devices: Iterable[Record]) -> None:
        """Declare all of it; return when nothing is pending. Raises NotRegistered."""
        first, then = deque(racks), deque(devices)
        self.standings[Standing.PENDING] = len(first) + len(then)
        self._device_names = {record.name for record in then}
        async with self._one_at_a_time:
            await self._all_of(first)
            await self._all_of(then)
        self._say(self._summary())
        if self._strict and self.refused:
            raise NotRegistered(_listed("refused by NICo", self.refused))

    async def _all_of(self, waiting: deque[Record]) -> None:
        rounds = fruitless = 0
        while waiting:
            before = len(waiting)
            await self._round(waiting)
            rounds += 1
            if not waiting:
                return
            if self._strict and rounds >= ROUNDS:
                left = {record.name: self.failing.get(record.name, "not tried") for record in waiting}
                raise NotRegistered(_listed(f"not registered after {ROUNDS} rounds", {**self.refused, **left}))
            fruitless = fruitless + 1 if len(waiting) == before else 1
            pause = BACKOFF_MOST if self._stop else backoff(fruitless, self._random)
            self._trouble(len(waiting))
            await self._sleep(pause)

    async def _round(self, waiting: deque[Record]) -> None:
        """Try everything that waits, once; what failed for now waits behind the others then."""
        failed: list[Record] = []
        self._in_a_row, self._stop = 0, False

        async def work() -> None:
            while waiting and self._in_a_row < _IN_A_ROW and not self._stop:
                record = waiting.popleft()
                try:
                    await self._declare(record)
                except CallFailed as error:
                    failed.append(record)
                    self.failing[record.name] = str(error)
                    self._in_a_row += 1
                    self._stop = self._stop or error.stop
                else:
                    self._in_a_row = 0

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(waiting))):
                group.create_task(work())
        waiting.extend(failed)

    async def _declare(self, record: Record) -> None:
        """Raises CallFailed for what may succeed later."""
        standing, why = Standing.REGISTERED, ""
        try:
            await self._api.call(record.method, record.message)
        except CallFailed as error:
            if error.code == "ALREADY_EXISTS":
                standing, why = await self._present(record)
            elif error.transient:
                raise
            else:
                standing, why = Standing.REFUSED, str(error)
        self.standings[Standing.PENDING] -= 1
        self.standings[standing] += 1
        if record.method is not ADD_RACK:
            self._of_devices[standing] += 1
        self.failing.pop(record.name, None)
        if standing is Standing.REFUSED:
            self.refused[record.name] = why
            log.warning("NICo refuses %s: %s", record.name, why)

    async def _present(self, record: Record) -> tuple[Standing, str]:
        """The standing of what is there already, and why. Raises CallFailed for what may succeed later."""
        if record.method is not ADD_RACK:
            return Standing.PRESENT, ""
        try:
            rack = await self._api.call(GET_RACK, forge.ExpectedRackRequest(rack_id=record.name))
        except CallFailed as error:
            if error.transient:
                raise
            return Standing.REFUSED, f"is there, and cannot be read: {error}"
        if rack.rack_profile_id.id == record.profile:
            return Standing.PRESENT, ""
        return Standing.REFUSED, f"is there with the profile {rack.rack_profile_id.id}, not {record.profile}"

    def _trouble(self, left: int) -> None:
        """Say once that it does not go as it should."""
        if not self._troubled:
            self._troubled = True
            self._say(
                f"warning: NICo: {left:,} of the fleet not registered yet ({self._api.last_error}); goes on trying"
            )

    def _summary(self) -> str:
        count = self.standings
        text = f"NICo: {count[Standing.REGISTERED]:,} registered, {count[Standing.PRESENT]:,} present already"
        return f"{text}; {_some('refused', self.refused)}" if self.refused else text


def _some(what: str, reasons: dict[str, str]) -> str:
    """A list of names and reasons that fits the screen."""
    named = ", ".join(f"{name} ({why})" for name, why in sorted(reasons.items())[:_NAMED])
    more = len(reasons) - _NAMED
    return f"{len(reasons):,} {what}: {named}" + (f" and {more:,} more" if more > 0 else "")


def _listed(what: str, reasons: dict[str, str]) -> str:
    """All names, and the reasons of some."""
    return f"{_some(what, reasons)}; all: {', '.join(sorted(reasons))}"
