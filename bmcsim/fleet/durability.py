"""Keeps the states of a fleet's BMCs in a store: what was there before, and what changes from now on."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from bmcsim.core.clock import Clock
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.journal import Done, Journal
from bmcsim.fleet.keys import Keys
from bmcsim.fleet.roster import NOBODY, Roster
from bmcsim.fleet.roster import decode as decode_roster
from bmcsim.fleet.store import Store
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.identity import mac_colons
from bmcsim.machine.resources import started
from bmcsim.machine.state import State, decode, shifted

_FLEET_ROW = "@fleet"
ROSTER_ROW = "@roster"
_OF_DPU = re.compile(r"-dpu-[0-9]+\Z")


class _FleetRow(msgspec.Struct, array_like=True):
    """What is kept of the fleet as a whole. born: when it was first started, seconds since the epoch."""

    born: float


def fingerprint(config: FleetConfig) -> str:
    """What tells a fleet from another one: the MACs that its machines draw from."""
    return ", ".join(f"{name} {block}" for name, block in config.mac_blocks.items())


class Kept:
    """A BMC as the journal sees it."""

    __slots__ = ("_driver", "bmc")

    def __init__(self, bmc: Bmc, driver: Driver) -> None:
        self.bmc, self._driver = bmc, driver

    @property
    def id(self) -> str:
        """Names its row."""
        return self.bmc.id

    def encode(self) -> bytes:
        """Its row."""
        return self.bmc.encode()

    def restore_committed(self, before: Any) -> None:
        """Undo, timers included."""
        self.bmc.restore(before)
        self._driver.sync(self.bmc)


class Restorer:
    """The states that a store has. born: when the fleet was first started, seconds since the epoch. roster: which
    machines were added and removed."""

    def __init__(self, store: Store, clock: Clock, keys: Keys | None = None) -> None:
        """keys: for BMCs that were restored from the snapshot of another process."""
        self._store, self._clock, self._keys = store, clock, keys
        self._rows = dict(store.rows())
        self.roster = self._roster()
        born = self._rows.pop(_FLEET_ROW, None)
        if born is None:
            self.born = clock.now().wall
            store.write({_FLEET_ROW: msgspec.msgpack.encode(_FleetRow(self.born))})
        else:
            self.born = msgspec.msgpack.decode(born, type=_FleetRow).born

    def _roster(self) -> Roster:
        """Raises StateError. What is left of removed machines is forgotten."""
        data = self._rows.pop(ROSTER_ROW, None)
        if data is None:
            return NOBODY
        try:
            roster = decode_roster(data)
        except msgspec.DecodeError as error:
            self._store.set_aside(ROSTER_ROW, f"cannot be read: {error}")
            return NOBODY
        gone = [id_ for id_ in self._rows if _OF_DPU.sub("", id_) in roster.removed]
        if gone:
            self._store.write(dict.fromkeys(gone))
        for id_ in gone:
            del self._rows[id_]
        return roster

    def __call__(self, bmc: Bmc) -> State | None:
        """The stored state of a BMC, None without one. Raises StateError for a row that is not its own or not readable.

        A restart of the process is no reset of the BMC: what hardware was doing goes on, only sessions are gone.
        """
        data = self._rows.pop(bmc.id, None)
        if data is None:
            return None
        try:
            row = decode(data)
        except msgspec.DecodeError as error:
            self._store.set_aside(bmc.id, f"cannot be read: {error}")
            return None
        mine = (bmc.identity.bmc_mac, bmc.tree.head.profile)
        if (row.mac, row.profile) != mine:
            self._store.set_aside(
                bmc.id,
                f"is that of a {row.profile} with the MAC {mac_colons(row.mac)} and the BMC is now a {mine[1]} with "
                f"{mac_colons(mine[0])}: groups were renamed, moved or resized; use the configuration of before, or "
                "another state directory",
            )
            return None
        if row.key:
            if self._keys is None:
                self._store.set_aside(bmc.id, "has passwords under the key of another process")
                return None
            bmc.shared = self._keys.under(bmc.shared, row.key)
        return started(shifted(row.state, self._clock.now().hardware), bmc.shared)

    @property
    def left(self) -> list[str]:
        """Ids of BMCs that the store knows and the fleet no longer has; their rows stay."""
        return list(self._rows)


class Keeper:
    """Journals what changes."""

    def __init__(self, journal: Journal, driver: Driver) -> None:
        self.journal, self._driver = journal, driver

    def commit(self, bmc: Bmc, done: Done) -> None:
        """Save what a request changed in a BMC and its dependents; done is called once all is on disk, or undone."""
        changed = [one for one in bmc.reach() if one.uncommitted is not None]
        told = _once_all(len(changed), done)
        for one in changed:
            self.journal.changed(Kept(one, self._driver), one.committed(), told)

    def changed(self, bmc: Bmc) -> None:
        """Save what a timer changed in a BMC."""
        if bmc.uncommitted is not None:
            self.journal.changed(Kept(bmc, self._driver), bmc.committed())


def _once_all(count: int, done: Done) -> Callable[[BaseException | None], None]:
    """A waiter for several changes, which tells one waiter when the last of them is through."""
    errors: list[BaseException | None] = []

    def one(error: BaseException | None) -> None:
        errors.append(error)
        if len(errors) == count:
            done(next((error for error in errors if error is not None), None))

    return one
