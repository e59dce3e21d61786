"""Where addresses come from: IPv4 addresses out of a prefix, MACs out of aligned blocks.

Allocation is sequential and depends on nothing else, so the same fleet has the same addresses after every start.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from itertools import chain, islice

import msgspec

from bmcsim.machine.identity import mac_colons


class PoolExhausted(Exception):
    """More addresses were asked for than the pool can give; the text names prefix, capacity and count."""

    def __init__(self, prefix: IPv4Network, capacity: int, asked: int) -> None:
        super().__init__(f"{prefix} has {capacity} addresses to give, {asked} are needed")


class AddressPool:
    """IPv4 addresses in ascending order.

    Never given: the network address, the `reserve_first` addresses after it, the broadcast address, the gateway,
    and what `exclude` covers. spans: what is given, as (first, last) pairs of integers. capacity: how many that are.
    """

    def __init__(
        self,
        prefix: IPv4Network,
        reserve_first: int = 1,
        gateway: IPv4Address | None = None,
        exclude: Iterable[IPv4Network] = (),
    ) -> None:
        blocked = [*exclude] if gateway is None else [*exclude, IPv4Network(gateway)]
        first = int(prefix.network_address) + 1 + reserve_first
        last = int(prefix.broadcast_address) - 1
        self.prefix = prefix
        self.spans = tuple(_spans(first, last, blocked))
        self.capacity = sum(last - first + 1 for first, last in self.spans)
        self._given = 0
        self._free = chain.from_iterable(range(first, last + 1) for first, last in self.spans)

    def require(self, count: int) -> None:
        """Raise PoolExhausted unless `count` addresses can be given in all."""
        if count > self.capacity:
            raise PoolExhausted(self.prefix, self.capacity, count)

    def allocate(self) -> str:
        """The next address, '127.64.0.2'. Raises PoolExhausted."""
        address = next(self._free, None)
        if address is None:
            raise PoolExhausted(self.prefix, self.capacity, self._given + 1)
        self._given += 1
        return dotted(address)

    def skip(self, count: int) -> None:
        """Count so many addresses as given."""
        self._given += count
        next(islice(self._free, count, count), None)

    def common(self, other: "AddressPool") -> str | None:
        """The first address that both pools can give, None when there is none."""
        mine = theirs = 0
        while mine < len(self.spans) and theirs < len(other.spans):
            (first, last), (other_first, other_last) = self.spans[mine], other.spans[theirs]
            if max(first, other_first) <= min(last, other_last):
                return dotted(max(first, other_first))
            if last < other_last:
                mine += 1
            else:
                theirs += 1
        return None


def dotted(address: int) -> str:
    """0x7F400002 -> '127.64.0.2'; several times faster than IPv4Address does it."""
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def _spans(first: int, last: int, blocked: Iterable[IPv4Network]) -> Iterator[tuple[int, int]]:
    for network in collapse_addresses(blocked):
        before = min(last, int(network.network_address) - 1)
        if first <= before:
            yield first, before
        first = max(first, int(network.broadcast_address) + 1)
    if first <= last:
        yield first, last


class MacPool(msgspec.Struct, frozen=True):
    """The MACs from `base` on in which the lowest `host_bits` bits vary; in base itself they are 0."""

    base: int
    host_bits: int

    @property
    def size(self) -> int:
        """How many MACs these are."""
        return 1 << self.host_bits

    def addresses(self, given: int = 0) -> Iterator[int]:
        """All of them, from offset 1; offset 0 comes last, as in machine-a-tron. given: so many were given already."""
        return chain(range(self.base + 1 + given, self.base + self.size), (self.base,))

    def meets(self, other: "MacPool") -> bool:
        """Whether the two have a MAC in common."""
        return (self.base ^ other.base) >> max(self.host_bits, other.host_bits) == 0

    def __str__(self) -> str:
        return f"{mac_colons(self.base)} with {self.host_bits} host bits"


class MacRanges(MacPool, frozen=True):
    """A block of MACs that is dealt out in ranges of 2 ** `range_host_bits`, one to each machine."""

    range_host_bits: int

    @property
    def count(self) -> int:
        """How many ranges these are."""
        return 1 << (self.host_bits - self.range_host_bits)

    def bases(self, given: int = 0) -> Iterator[int]:
        """The first MAC of each range, from the second range on; the first range comes last. given: as for
        `addresses`."""
        step = 1 << self.range_host_bits
        return chain(range(self.base + step * (1 + given), self.base + self.size, step), (self.base,))
