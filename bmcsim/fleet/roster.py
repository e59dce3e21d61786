"""Which machines a fleet has beyond its file: those that were added at run time, without those that were removed.

Rule 1: what is added draws its MACs, ranges and addresses after all that were ever given. So nothing that exists
changes, and what was removed is never given again, nor is its id.
Rule 2: a machine comes and goes with its DPUs, a rack as a whole.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from itertools import chain, repeat
from typing import Any

import msgspec

from bmcsim.fleet.config import FleetConfig, MachineGroup, parse_group
from bmcsim.fleet.identities import BmcPlan, Source, machine, plan
from bmcsim.fleet.pool import dotted
from bmcsim.fleet.tables import ConfigError

_HARDWARE = "dell_poweredge_r750"


class RosterError(Exception):
    """Machines cannot be added or removed so, or those of before do not fit the fleet file; the text says why."""


class Addition(msgspec.Struct, frozen=True, array_like=True):
    """Machines that were added together.

    table: as a [machines.NAME] table would be, without host_count; empty for more of a group of the fleet file. first:
    number of the first one. macs, ranges: how many were given before. addresses: of the BMCs in order, as integers, 0
    for none; seen: how far the pool was gone through by then.
    """

    group: str
    table: dict[str, Any]
    first: int
    count: int
    macs: int
    ranges: int
    addresses: tuple[int, ...]
    seen: int


class Roster(msgspec.Struct, frozen=True, array_like=True):
    """What was added, oldest first, and the ids of the machines that were removed."""

    additions: tuple[Addition, ...] = ()
    removed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.additions or self.removed)


NOBODY = Roster()


def encode(roster: Roster) -> bytes:
    """As it is stored."""
    return msgspec.msgpack.encode(roster)


def decode(data: bytes) -> Roster:
    """From bytes. Raises msgspec.DecodeError."""
    return msgspec.msgpack.decode(data, type=Roster)


def group_of(addition: Addition, config: FleetConfig) -> MachineGroup:
    """The group of what was added, with as many machines as were added together. Raises RosterError."""
    of_file = next((group for group in config.groups if group.name == addition.group), None)
    what = f"{config.source}: machines.{addition.group}"
    if addition.table:
        if of_file is not None:
            raise RosterError(f"{what}: a group of this name was added at run time; give this one another name")
        try:
            return parse_group(addition.group, {**addition.table, "host_count": addition.count}, config)
        except ConfigError as error:
            raise RosterError(f"{what}: was added at run time, and no longer fits: {error}") from error
    if of_file is None:
        raise RosterError(f"{what}: is gone, and machines were added to it at run time")
    return msgspec.structs.replace(of_file, host_count=addition.count)


def members(config: FleetConfig, roster: Roster) -> list[BmcPlan]:
    """Every BMC of the fleet, in machine order; what was added comes last. Raises RosterError."""
    if not roster:
        return list(plan(config))
    macs, ranges = sum(group.mac_count for group in config.groups), config.host_count
    for one in roster.additions:
        group_of(one, config)
        of_file = next((group for group in config.groups if group.name == one.group), None)
        grown = of_file is not None and of_file.host_count > one.first
        if grown or macs > one.macs or ranges > one.ranges:
            raise RosterError(
                f"{config.source}: has grown, and {one.count} machines were added to {one.group} at run time behind "
                "what it had; use the file of before, or another state directory"
            )
    planned = chain(plan(config), *[added(one, config) for one in roster.additions])
    removed = roster.removed
    return [one for one in planned if (one.parent or one.id) not in removed]


def added(addition: Addition, config: FleetConfig) -> Iterator[BmcPlan]:
    """The BMCs of what was added. Raises RosterError."""
    group, pool = group_of(addition, config), config.pool
    addresses: Iterator[str] = repeat("")
    if pool is not None:
        for number in addition.addresses:
            if number and IPv4Address(number) not in pool.prefix:
                raise RosterError(
                    f"{config.source}: dhcp.prefix: {pool.prefix} does not have {dotted(number)}, which a machine has "
                    f"that was added to {addition.group} at run time"
                )
        addresses = iter([dotted(number) if number else "" for number in addition.addresses])
        addresses = chain(addresses, repeat(""))
    source = Source(config.mac_pool.addresses(addition.macs), config.hw_ranges.bases(addition.ranges), addresses)
    for number in range(addition.first, addition.first + addition.count):
        yield from machine(f"{addition.group}-{number}", group, source)


def present(config: FleetConfig, roster: Roster) -> FleetConfig:
    """The fleet file as it would be with the machines that there are now."""
    groups = {group.name: group for group in config.groups}
    for one in roster.additions:
        more, known = group_of(one, config), groups.get(one.group)
        groups[one.group] = more if known is None else _sized(known, known.host_count + one.count)
    gone = Counter([id_.rpartition("-")[0] for id_ in roster.removed])
    shown = []
    for group in groups.values():
        if group.seats:
            seats = tuple([seat for seat in group.seats if seat.section not in gone])
            shown.append(msgspec.structs.replace(group, seats=seats, host_count=len(seats)))
        else:
            shown.append(_sized(group, group.host_count - gone[group.name]))
    return msgspec.structs.replace(config, groups=tuple([group for group in shown if group.host_count]))


def _sized(group: MachineGroup, count: int) -> MachineGroup:
    return msgspec.structs.replace(group, host_count=count)


class Wish(msgspec.Struct, frozen=True):
    """Machines to be added. table: as of an Addition, and empty for more of a group that there is already."""

    group: str
    count: int
    table: dict[str, Any] = {}


def extended(
    config: FleetConfig, roster: Roster, wish: Wish, taken: Callable[[str], bool] = lambda _address: False
) -> tuple[Roster, Addition]:
    """With more machines. taken: whether an address of the pool is not to be given. Raises RosterError."""
    earlier = [one for one in roster.additions if one.group == wish.group]
    of_file = next((group for group in config.groups if group.name == wish.group), None)
    table = wish.table
    if of_file is not None or earlier:
        if of_file is not None and of_file.seats:
            raise RosterError(f"group {wish.group} is of racks, which have no room for more machines")
        known = of_file if of_file is not None else group_of(earlier[0], config)
        if (why := _differs(known, table, config)) is not None:
            raise RosterError(f"group {wish.group} is there already, and {why}; leave it out, or name another group")
        table = {} if of_file is not None else earlier[0].table
        first = (of_file.host_count if of_file is not None else 0) + sum(one.count for one in earlier)
    else:
        first = 0
        table = {"hw_type": _HARDWARE, **table}
        if str(table["hw_type"]).endswith(".yaml") and table["hw_type"] not in {one.hw_type for one in config.groups}:
            raise RosterError("hw_type: a profile that is a file has to be one that the fleet file names")
        try:
            parse_group(wish.group, {**table, "host_count": wish.count}, config)
        except ConfigError as error:
            raise RosterError(str(error)) from error
    given_macs = sum(group.mac_count for group in config.groups)
    given_macs += sum(group_of(one, config).mac_count for one in roster.additions)
    given_ranges = config.host_count + sum(one.count for one in roster.additions)
    addition = Addition(wish.group, table, first, wish.count, given_macs, given_ranges, (), 0)
    group = group_of(addition, config)
    if given_macs + group.mac_count > config.mac_pool.size:
        raise RosterError(f"mac_address_pool: {config.mac_pool.size - given_macs} are left, {group.mac_count} needed")
    if given_ranges + wish.count > config.hw_ranges.count:
        raise RosterError(f"hw_mac_address_ranges: {config.hw_ranges.count - given_ranges} are left")
    addresses, seen = _drawn(config, roster, group.bmc_count, taken)
    addition = msgspec.structs.replace(addition, addresses=addresses, seen=seen)
    return Roster((*roster.additions, addition), roster.removed), addition


def _differs(known: MachineGroup, table: dict[str, Any], config: FleetConfig) -> str | None:
    """What a table says that a group is not; None for nothing."""
    if not table:
        return None
    try:
        other = parse_group(known.name, {"hw_type": known.hw_type, **table, "host_count": known.host_count}, config)
    except ConfigError as error:
        raise RosterError(str(error)) from error
    fields = {"dpu_per_host_count": "dpus"}
    for key in table:
        name = fields.get(key, key)
        mine = getattr(known, name, None)
        if name in MachineGroup.__struct_fields__ and mine != getattr(other, name):
            return f"its {key} is {mine!r}"
        if name not in MachineGroup.__struct_fields__:
            return f"{key} cannot be compared with what it has"
    return None


def _drawn(
    config: FleetConfig, roster: Roster, count: int, taken: Callable[[str], bool]
) -> tuple[tuple[int, ...], int]:
    """The next addresses of the pool, as integers, and how far it was gone through. Raises RosterError."""
    if config.pool is None:
        return (), 0
    pool = config.pool.allocator()
    seen = max([min(config.bmc_count, pool.capacity), *[one.seen for one in roster.additions]])
    pool.skip(seen)
    drawn: list[int] = []
    while len(drawn) < count and seen < pool.capacity:
        address, seen = pool.allocate(), seen + 1
        if not taken(address):
            drawn.append(int(IPv4Address(address)))
    if (short := count - len(drawn)) and config.pool.exhaustion == "refuse":
        raise RosterError(
            f"dhcp.prefix: {pool.prefix} has {len(drawn)} addresses left, {count} are needed; start with a larger one"
        )
    return (*drawn, *[0] * short), seen
