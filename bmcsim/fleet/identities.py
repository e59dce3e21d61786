"""The plan of a fleet: which BMCs a configuration means, and who each of them is."""

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

import msgspec

from bmcsim.fleet.config import FleetConfig, MachineGroup
from bmcsim.machine.identity import Identity, Kind, Place


class BmcPlan(msgspec.Struct, frozen=True, gc=False):
    """One BMC to be.

    id: '<group>-<n>' for a machine, '<group>-<n>-dpu-<k>' for its DPUs, both counted from 0.
    address: IPv4, dotted; '' for none yet, or none. parent: id of the host that a DPU is in, else None.
    """

    id: str
    group: MachineGroup
    identity: Identity
    address: str
    parent: str | None = None


class _Section(NamedTuple):
    """Machines that follow each other: those of a [machines.NAME] table, or the one at a position of a rack."""

    name: str
    group: MachineGroup
    machines: int
    place: Place | None = None


def _sections(config: FleetConfig) -> list[_Section]:
    sections = []
    for group in config.groups:
        if group.seats:
            sections += [_Section(seat.section, group, 1, seat.place) for seat in group.seats]
        else:
            sections.append(_Section(group.name, group, group.host_count))
    return sorted(sections, key=lambda section: section.name)


def plan(config: FleetConfig) -> Iterator[BmcPlan]:
    """Every BMC in machine order: groups and positions of racks by name, in each group one machine after the other, its
    DPUs behind it.

    MACs are drawn in the order of machine-a-tron: BMC, host and out-of-band MAC of each DPU, then the machine's BMC,
    then the operating system's MAC of a switch or the plain NIC's of a host without DPUs; one range of hardware MACs
    for each machine. Never ends early: a configuration exists only if its pools are large enough, or if its BMCs may be
    without an address: where they get them at run time, and beyond a pool that says so.
    """
    source = Source(config.mac_pool.addresses(), config.hw_ranges.bases(), _addresses(config))
    for name, group, machines, place in _sections(config):
        for number in range(machines):
            yield from machine(f"{name}-{number}", group, source, place)


class Source(NamedTuple):
    """What machines draw from: MACs, first MACs of ranges, and addresses."""

    macs: Iterator[int]
    ranges: Iterator[int]
    addresses: Iterator[str]


def machine(id_: str, group: MachineGroup, source: Source, place: Place | None = None) -> Iterator[BmcPlan]:
    """The BMC of a machine, and those of its DPUs."""
    macs, ranges, addresses = source
    dpus = tuple([Identity(Kind.DPU, next(macs), next(macs), next(macs)) for _ in range(group.dpus)])
    bmc_mac = next(macs)
    host_mac = next(macs) if group.kind is Kind.HOST and not dpus else 0
    oob_mac = next(macs) if group.kind is Kind.SWITCH else 0
    identity = Identity(group.kind, bmc_mac, host_mac, oob_mac, next(ranges), dpus, place)
    yield BmcPlan(id_, group, identity, next(addresses))
    for slot, dpu in enumerate(dpus):
        yield BmcPlan(f"{id_}-dpu-{slot}", group, dpu, next(addresses), id_)


def _addresses(config: FleetConfig) -> Iterator[str]:
    """Those that are planned, then '' for ever."""
    if config.pool is not None:
        pool = config.pool.allocator()
        for _ in range(pool.capacity):
            yield pool.allocate()
    yield from repeat("")


def overlap(a: FleetConfig, b: FleetConfig) -> str | None:
    """What two instances on one network would both hand out, naming the pools and their files; None when nothing."""
    found = [
        f"{name} of {a.source} ({block}) and {other_name} of {b.source} ({other}) have MACs in common: "
        "give each instance its own base"
        for name, block in a.mac_blocks.items()
        for other_name, other in b.mac_blocks.items()
        if block.meets(other)
    ]
    address = None if a.pool is None or b.pool is None else a.pool.allocator().common(b.pool.allocator())
    if address is not None and a.pool is not None and b.pool is not None:
        found.append(
            f"dhcp.prefix of {a.source} ({a.pool.prefix}) and dhcp.prefix of {b.source} ({b.pool.prefix}) "
            f"have {address} in common: give each instance its own prefix, or exclude the other's addresses"
        )
    return "; ".join(found) or None
