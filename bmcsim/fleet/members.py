"""Adds machines to a fleet that is being served, and takes some away.

Rule 1: what is added or removed by one request is so all of it, also after kill -9: the roster is one row.
Rule 2: it is so once that row is on disk. Only then BMCs come and go, a few at a time, so that requests are answered in
between; nothing of that can fail.
Rule 3: one request at a time, and none while a snapshot is restored.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice

import msgspec

from bmcsim.fleet import roster as rosters
from bmcsim.fleet.build import Builder, join_dpus
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.durability import ROSTER_ROW
from bmcsim.fleet.identities import BmcPlan
from bmcsim.fleet.journal import Journal
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.roster import NOBODY, Roster, RosterError, Wish
from bmcsim.fleet.tables import ConfigError
from bmcsim.fleet.turns import SLICE, aside, in_turns, lasting
from bmcsim.machine.actions import EndStreams
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.identity import Kind
from bmcsim.tree.source import ProfileError

MOST_AT_ONCE = 20_000
"""BMCs that one request may add."""
_NAMED = 5


class Members:
    """The machines of a fleet.

    config: of the fleet file; present: the same with the machines that there are. journal: None where nothing is kept.
    leases: None where addresses are planned. told: called with `present` when that changes. added: told of what came;
    gone: of each BMC that went.
    lock: held by whoever changes the fleet as a whole.
    """

    def __init__(
        self,
        config: FleetConfig,
        fleet: Fleet,
        driver: Driver,
        *,
        journal: Journal | None = None,
        leases: Leases | None = None,
    ) -> None:
        self.config = self.present = config
        self._fleet, self._driver, self._journal, self._leases = fleet, driver, journal, leases
        self._builder: Builder | None = None
        self.roster = NOBODY
        self.lock = asyncio.Lock()
        self.told: Callable[[FleetConfig], object] | None = None
        self.added: Callable[[Sequence[BmcPlan]], object] | None = None
        self.gone: Callable[[Bmc], object] | None = None

    def begin(self, builder: Builder, roster: Roster = NOBODY) -> None:
        """The fleet is there. builder: that made it. roster: of before."""
        self._builder, self.roster = builder, roster
        if roster:
            self._tell()

    async def add(self, wish: Wish) -> list[Bmc]:
        """Add machines; their BMCs. Raises RosterError, and NotSaved; then nothing was added."""
        async with self.lock:
            if self._builder is None:
                raise RosterError("the fleet is not complete yet; try again")
            with lasting():
                return await self._add(self._builder, wish)

    async def _add(self, builder: Builder, wish: Wish) -> list[Bmc]:
        fleet = self._fleet
        try:
            # In a thread: a large pool, and profiles that are new, take longer than the loop may stand still.
            roster, addition = await aside(
                lambda: rosters.extended(self.config, self.roster, wish, lambda address: fleet.taken(address, 0))
            )
            every = rosters.added(addition, self.config)
            planned = [next(every)]
            if planned[0].group.bmc_count > MOST_AT_ONCE:
                raise RosterError(f"{planned[0].group.bmc_count} BMCs are too many at once; {MOST_AT_ONCE} may come")
            planned += islice(every, planned[0].group.dpus)
            await aside(lambda: [builder.make(one) for one in planned])
        except (ProfileError, ConfigError) as error:
            raise RosterError(str(error)) from error
        async for some in in_turns(every):
            planned += some
        fleet.promised = frozenset([one.address for one in planned if one.address])
        try:
            made: list[Bmc] = []
            async for some in in_turns(planned):
                for one in some:
                    if fleet.by_id(one.id) is not None or (one.address and fleet.by_address(one.address) is not None):
                        raise RosterError(f"{one.id} or its address {one.address} is there already; try again")
                    made.append(builder.make(one))
            if self._journal is not None:
                await self._journal.write({ROSTER_ROW: rosters.encode(roster)})
            self.roster = roster
            fleet.expected += len(made)
            machines = _machines(made)
            async for several in in_turns(machines, max(1, SLICE // (1 + len(machines[0][1])))):
                for bmc, dpus in several:
                    self._come(bmc, dpus)
        finally:
            fleet.promised = frozenset()
        self._tell()
        if self.added is not None:
            self.added(planned)
        return made

    def _come(self, bmc: Bmc, dpus: Sequence[Bmc]) -> None:
        for one in (bmc, *dpus):
            self._fleet.add(one)
        join_dpus(bmc, self._fleet)
        for one in (bmc, *dpus):
            if self._leases is not None:
                self._leases.add(one)
        self._driver.execute(bmc, ())

    async def remove(self, chosen: Collection[Bmc]) -> list[str]:
        """Take machines away, DPUs with their hosts; the ids of all that went. Raises RosterError, and NotSaved; then
        nothing was removed."""
        async with self.lock:
            if self._builder is None:
                raise RosterError("the fleet is not complete yet; try again")
            machines = self._removable([bmc for bmc in chosen if self._fleet.by_id(bmc.id) is bmc])
            gone = [one for bmc in machines for one in (bmc, *bmc.dpus)]
            if len(gone) == len(self._fleet):
                raise RosterError("these are all machines of the fleet; one has to stay")
            roster = Roster(self.roster.additions, self.roster.removed | {bmc.id for bmc in machines})
            if self._journal is not None:
                rows = dict.fromkeys([bmc.id for bmc in gone])
                await self._journal.write({**rows, ROSTER_ROW: rosters.encode(roster)})
            self.roster = roster
            self._fleet.expected -= len(gone)
            async for some in in_turns(gone):
                for bmc in some:
                    self._go(bmc)
            self._tell()
            return [bmc.id for bmc in gone]

    def _removable(self, chosen: Sequence[Bmc]) -> list[Bmc]:
        """The machines of BMCs. Raises RosterError for a DPU without its host, and for a part of a rack."""
        ids = {bmc.id for bmc in chosen}
        machines = [bmc for bmc in chosen if bmc.identity.kind is not Kind.DPU]
        held = ids - {one.id for bmc in machines for one in (bmc, *bmc.dpus)}
        if held:
            raise RosterError(f"{_some(held)}: DPUs go with their hosts; select the hosts")
        for bmc in machines:
            if bmc.rack is None or bmc.identity.place is None:
                continue
            if left := {one.id for one in (*bmc.rack.shelves, *bmc.rack.fed)} - ids:
                raise RosterError(
                    f"rack {bmc.identity.place.rack}: is removed as a whole, and {_some(left)} would stay; select rack"
                )
        if not machines:
            raise RosterError("no machine is left to remove")
        return machines

    def _go(self, bmc: Bmc) -> None:
        if self._leases is not None:
            self._leases.remove(bmc)
        bmc.sessions = None
        bmc.end_streams(EndStreams())
        # Whoever still has it, such as a job or an event on its way, meets a machine without power.
        dead = msgspec.structs.replace(bmc.state, service=Service.UNPOWERED, timers={}, subscriptions=())
        bmc.restore(dead)
        self._driver.forget(bmc)
        self._fleet.remove(bmc)
        if self._journal is not None:
            self._journal.superseded((bmc.id,))
        if self.gone is not None:
            self.gone(bmc)

    def _tell(self) -> None:
        self.present = rosters.present(self.config, self.roster)
        if self.told is not None:
            self.told(self.present)


def _machines(bmcs: Iterable[Bmc]) -> list[tuple[Bmc, list[Bmc]]]:
    """Each machine with its DPUs, from BMCs in machine order."""
    machines: list[tuple[Bmc, list[Bmc]]] = []
    for bmc in bmcs:
        if bmc.identity.kind is Kind.DPU:
            machines[-1][1].append(bmc)
        else:
            machines.append((bmc, []))
    return machines


def _some(ids: Collection[str]) -> str:
    shown = ", ".join(sorted(ids)[:_NAMED])
    return f"{shown} and {len(ids) - _NAMED} more" if len(ids) > _NAMED else shown
