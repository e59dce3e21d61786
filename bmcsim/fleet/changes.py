"""What of a fleet changes, found by looking at it: states are immutable, so the same one has the same facts.

A fleet is told in columns: of each fact a list with a place for each BMC. What repeats is a number, the place of a word
in a table. A later change names places, and has new values for them.
"""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec

from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.selection import Credentials, PowerState, Racks, credentials_of, parent_of, state_of
from bmcsim.fleet.selection import State as ServiceState
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.identity import Kind, mac_colons
from bmcsim.machine.state import State

STATES: tuple[str, ...] = get_args(ServiceState)
POWERS: tuple[str, ...] = get_args(PowerState)
CREDENTIALS: tuple[str, ...] = get_args(Credentials)
KINDS: tuple[str, ...] = tuple([str(kind.value) for kind in Kind])

_STATE_OF, _POWER_OF, _CREDENTIAL_OF = (
    {word: place for place, word in enumerate(words)} for words in (STATES, POWERS, CREDENTIALS)
)


class Changed(msgspec.Struct, frozen=True):
    """New values of some BMCs. i: their places; the others have one value for each of these, as the columns of the same
    name have. address: null for none."""

    i: list[int]
    status: list[int]
    address: list[str | None]
    faults: list[int]
    errors: list[int]

    def only(self, places: frozenset[int]) -> "Changed":
        """What of it is about some places."""
        kept = [at for at, place in enumerate(self.i) if place in places]
        return Changed(*[[column[at] for at in kept] for column in msgspec.structs.astuple(self)])


def packed(bmc: Bmc, fleet: Fleet) -> int:
    """State, power and credentials as one number: state + 8 * power + 64 * credentials, each its place in its table."""
    state, credentials = _STATE_OF[state_of(bmc, fleet)], _CREDENTIAL_OF[credentials_of(bmc)]
    return state | _POWER_OF[bmc.power.shown] << 3 | credentials << 6


class Words:
    """A table that is filled as words come."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    def __call__(self, word: str) -> int:
        return self.words.setdefault(word, len(self.words))


class Watch:
    """What was last seen of each BMC. errors: how many requests to a BMC went wrong.

    fixed: columns that never change. status, address, faults, errors: columns that do. To be filled by `add`, in the
    order of the fleet.
    """

    def __init__(self, fleet: Fleet, racks: Racks, errors: Callable[[Bmc], int]) -> None:
        self._fleet, self._racks, self._errors_of = fleet, racks, errors
        self.bmcs: list[Bmc] = list(fleet)
        self._ready = fleet.ready
        self._seen: list[State | None] = []
        self._places: dict[str, int] = {}
        self._tables = {name: Words() for name in ("group", "rack", "hardware")}
        self.fixed: dict[str, list[Any]] = {name: [] for name in _FIXED}
        self.status: list[int] = []
        self.address: list[str | None] = []
        self.faults: list[int] = []
        self.errors: list[int] = []

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def complete(self) -> bool:
        """Whether every BMC was added."""
        return len(self._seen) == len(self.bmcs)

    @property
    def current(self) -> bool:
        """Whether the fleet still has these BMCs, in this order."""
        return list(self._fleet) == self.bmcs

    @property
    def tables(self) -> dict[str, list[str]]:
        """Name of a column -> its words."""
        fixed = {"kind": KINDS, "state": STATES, "power": POWERS, "credentials": CREDENTIALS}
        words = {name: list(table.words) for name, table in self._tables.items()}
        return {**{name: list(one) for name, one in fixed.items()}, **words}

    def add(self, count: int) -> None:
        """Look at so many BMCs for the first time."""
        for bmc in self.bmcs[len(self._seen) : len(self._seen) + count]:
            self._add(bmc)

    def _add(self, bmc: Bmc) -> None:
        identity, place = bmc.identity, len(self._seen)
        self._places[bmc.id] = place
        rack, parent = self._racks.of(bmc), parent_of(bmc)
        for name, value in zip(
            _FIXED,
            (
                place,
                bmc.id,
                mac_colons(identity.bmc_mac),
                identity.serial,
                KINDS.index(identity.kind.value),
                self._tables["group"](bmc.shared.group),
                -1 if rack is None else self._tables["rack"](rack),
                identity.place.position if identity.place is not None else 0,
                self._tables["hardware"](bmc.tree.head.profile),
                -1 if parent is None else self._places.get(parent, -1),
            ),
            strict=True,
        ):
            self.fixed[name].append(value)
        self._seen.append(bmc.state)
        self.status.append(packed(bmc, self._fleet))
        self.address.append(bmc.address or None)
        self.faults.append(_faults(bmc))
        self.errors.append(self._errors_of(bmc))

    def look(self, start: int, end: int) -> list[int]:
        """The places from start to end, without it, that have changed since they were last looked at."""
        if self._fleet.ready is not self._ready:
            self._ready = self._fleet.ready
            self._seen = [None] * len(self._seen)
        changed = []
        seen, addresses = self._seen, self.address
        for place, bmc in enumerate(self.bmcs[start:end], start):
            if (bmc.state is not seen[place] or (bmc.address or None) != addresses[place]) and self._differs(place):
                changed.append(place)
        return changed

    def look_at(self, bmc_id: str) -> int | None:
        """The place of a BMC if it has changed."""
        place = self._places.get(bmc_id)
        return place if place is not None and self._differs(place) else None

    def changed(self, places: Sequence[int]) -> Changed:
        """What is at some places now."""
        return Changed(
            list(places),
            [self.status[place] for place in places],
            [self.address[place] for place in places],
            [self.faults[place] for place in places],
            [self.errors[place] for place in places],
        )

    def _differs(self, place: int) -> bool:
        bmc = self.bmcs[place]
        self._seen[place] = bmc.state
        now = (packed(bmc, self._fleet), bmc.address or None, _faults(bmc), self._errors_of(bmc))
        if now == (self.status[place], self.address[place], self.faults[place], self.errors[place]):
            return False
        self.status[place], self.address[place], self.faults[place], self.errors[place] = now
        return True


_FIXED = ("i", "id", "mac", "serial", "kind", "group", "rack", "position", "hardware", "parent")


def _faults(bmc: Bmc) -> int:
    return len(bmc.state.faults.rules) if bmc.state.faults else 0


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """A quantile of a histogram, as a straight line within its bucket; None without a count. The last bucket has no
    bound: what is in it counts as the last bound."""
    total = sum(counts)
    if not total:
        return None
    wanted, below, lower = share * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if below + count >= wanted and count:
            return lower + (bound - lower) * (wanted - below) / count
        below, lower = below + count, bound
    return bounds[-1]
