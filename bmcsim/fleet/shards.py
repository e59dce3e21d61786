"""A fleet in parts that are served by processes of their own.

A part is a stretch of the plan, so that its addresses follow each other. What depends on each other stays together: a
host with its DPUs, and all machines of a rack.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from itertools import chain, pairwise
from pathlib import Path

import msgspec

from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.identities import plan
from bmcsim.fleet.store import DATABASE, StateError
from bmcsim.fleet.tables import ConfigError

MAX_SHARDS = 64
_STATE = re.compile(r"shard-(\d+)-of-(\d+)")


class Spans:
    """A set of IPv4 addresses, kept as (first, last) pairs of integers in ascending order."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = tuple(spans)

    def __contains__(self, address: object) -> bool:
        """Whether a dotted address is in it; no other text is."""
        try:
            number = int(IPv4Address(address if isinstance(address, str) else ""))
        except ValueError:
            return False
        index = bisect_right(self._spans, (number, 2**32)) - 1
        return index >= 0 and number <= self._spans[index][1]


class Shard(msgspec.Struct, frozen=True):
    """One part of a fleet: the `number`th, from 1, of `count`.

    start, stop: its BMCs, as positions in the plan. firsts: the lowest address of each part, as integers. last: the
    highest of all. others: the addresses of all other parts.
    """

    number: int
    count: int
    start: int
    stop: int
    firsts: tuple[int, ...]
    last: int
    others: Spans

    def number_of(self, address: str) -> int | None:
        """The number of the other part that has an address, None for one that no other part has."""
        return bisect_right(self.firsts, int(IPv4Address(address))) if address in self.others else None

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def split(config: FleetConfig, count: int) -> tuple[Shard, ...]:
    """The parts of a fleet, about equally large. Raises ConfigError where it cannot be cut into so many."""
    addresses: list[int] = []
    machines: list[tuple[int, str | None]] = []
    ends: dict[str, int] = {}
    if config.pool is None:
        raise ConfigError(
            f"{config.source}: dhcp.type: a fleet that leases its addresses is served by one process, since no part "
            "would know which addresses another one gets; leave --shards and --shard out, or add --dhcp pool"
        )
    if config.shortages():
        raise ConfigError(f"{config.source}: dhcp.prefix: has to have an address for every BMC if there are shards")
    for position, planned in enumerate(plan(config)):
        addresses.append(int(IPv4Address(planned.address)))
        if planned.parent is None:
            place = planned.identity.place
            machines.append((position, place.rack if place is not None else None))
            if place is not None:
                ends[place.rack] = position
    cuts = _cuts(machines, ends)
    if len(cuts) + 1 < count:
        raise ConfigError(
            f"{config.source}: has {len(cuts) + 1} machines and racks that can be served apart, "
            f"so it cannot be cut into {count} shards"
        )
    bounds = [0, *_chosen(cuts, len(addresses), count), len(addresses)]
    stretches = [addresses[start:stop] for start, stop in pairwise(bounds)]
    firsts = tuple([those[0] for those in stretches])
    return tuple(
        [
            Shard(
                number + 1,
                count,
                bounds[number],
                bounds[number + 1],
                firsts,
                addresses[-1],
                Spans(chain.from_iterable(_spans(those) for n, those in enumerate(stretches) if n != number)),
            )
            for number in range(count)
        ]
    )


def _cuts(machines: Sequence[tuple[int, str | None]], ends: dict[str, int]) -> list[int]:
    """Positions before which a part may end: of machines where no rack has begun and not ended."""
    cuts, open_until = [], -1
    for position, rack in machines:
        if position > open_until and position:
            cuts.append(position)
        if rack is not None:
            open_until = max(open_until, ends[rack])
    return cuts


def _chosen(cuts: Sequence[int], total: int, count: int) -> list[int]:
    """count - 1 of the cuts, each as near to its share of the whole as the others let it."""
    chosen: list[int] = []
    lowest = 0
    for number in range(1, count):
        highest = len(cuts) - (count - number)
        wanted = total * number // count
        index = bisect_left(cuts, wanted)
        if index and (index == len(cuts) or cuts[index] - wanted > wanted - cuts[index - 1]):
            index -= 1
        index = min(max(index, lowest), highest)
        chosen.append(cuts[index])
        lowest = index + 1
    return chosen


def _spans(addresses: Sequence[int]) -> Iterable[tuple[int, int]]:
    first = last = addresses[0]
    for address in addresses[1:]:
        if address != last + 1:
            yield first, last
            first = address
        last = address
    yield first, last


def state_directory(base: Path, shard: Shard | None) -> Path:
    """Where a part of a fleet keeps its state: DIR/shard-1-of-2, and a whole one DIR itself.

    Raises StateError where the directory was used by another number of processes: their BMCs would start as new.
    """
    parted = sorted({int(match[2]) for path in _inside(base) if (match := _STATE.fullmatch(path.name))})
    before = [f"--shards {count}" for count in parted if shard is None or count != shard.count]
    if shard is not None and (base / DATABASE).exists():
        before.insert(0, "one process")
    if before:
        raise StateError(
            f"{base}: has the state of a fleet that was served by {before[0]}; serve it so again, "
            "or name another directory"
        )
    return base if shard is None else base / f"shard-{shard.number}-of-{shard.count}"


def _inside(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        # Whoever opens it says what is wrong with it.
        return []
