"""How much of what a fleet needs: addresses, pools, Services, memory, and which limit it meets first.

Formulas: H hosts with D DPUs each, S switches, P power shelves.

- addresses of BMCs, which are the Services of the controller: H (1 + D) + S + P
- admin addresses: H (1 + D), one for a host and one for each of its DPUs
- underlay addresses: H D for the DPUs' own systems, S for NVOS
- machines, and so loopback addresses (lo-ip): H (1 + D); fnn-asn: H D
"""

from collections.abc import Iterable
from math import ceil, floor, gcd

import msgspec

from bmcsim.deploy.networks import Network, service_ips, smallest_prefix, usable
from bmcsim.fleet.config import MachineGroup
from bmcsim.machine.identity import Kind

RESERVE_FIRST = 1
SHIPPED_PREFIX = 18
SHIPPED_LO_IP = 16_382
SHIPPED_FNN_ASN = 18_000
"""Networks and pools of nico-core-simulation.yaml, for 4,500 hosts with two DPUs."""

RACKS_PER_POD = 25
"""Of machine-a-tron, in the measurement of 250 racks."""

# docs/benchmarks.json, rounded up: a process with 13,500 BMCs that were all read and had their passwords rotated.
BASE_MIB = 50.0
KIB_PER_BMC = 3.0
KIB_PER_CONNECTION = 28.0

# Ten pods of machine-a-tron with 250 racks had 15 GiB and two cores together (NVIDIA's notes on a large site).
MAT_MIB_PER_BMC = 15 * 1024 / 17_750
MAT_CORES_PER_BMC = 2 / 17_750

_POD_KIB = 8 * 2**20
_LARGE_KIB = KIB_PER_BMC + KIB_PER_CONNECTION
_STATUS_CAP = 10 * 2**20
_POOL_PER_POD = 65_536
_REGISTRATION_S = 2
_SERVICES_PER_S = 100
_DHCP_PER_MIN = (110, 180)
_MACHINES_PER_MIN = (80, 100)


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet is made of and needs. pods: of the simulator.

    admin, underlay: addresses. macs: of the main pool. ranges: blocks of MACs, one for a machine. nvos: Services of
    switches. own_services: of pods and metrics. records: that the simulator registers with NICo.
    status_bytes: of all `GET /machines/status` together.
    """

    hosts: int
    dpus: int
    switches: int
    shelves: int
    racks: int
    pods: int
    bmcs: int
    machines: int
    admin: int
    underlay: int
    macs: int
    ranges: int
    nvos: int
    own_services: int
    records: int
    status_bytes: int

    @property
    def services(self) -> int:
        """All Services of Controller Mode, each of which takes a ClusterIP."""
        return self.bmcs + self.nvos + self.own_services


def demand(groups: Iterable[MachineGroup], pods: int, racks: int = 0) -> Demand:
    """What machines need. pods: that they are spread over, racks: that they are in."""
    groups = tuple(groups)
    of = {kind: sum(group.host_count for group in groups if group.kind is kind) for kind in Kind}
    hosts, switches, shelves = of[Kind.HOST], of[Kind.SWITCH], of[Kind.POWER_SHELF]
    dpus = sum(group.host_count * group.dpus for group in groups)
    managed = sum(group.host_count * group.dpus for group in groups if not group.dpus_in_nic_mode)
    others = switches + shelves
    return Demand(
        hosts=hosts,
        dpus=dpus,
        switches=switches,
        shelves=shelves,
        racks=racks,
        pods=pods,
        bmcs=hosts + dpus + others,
        machines=hosts + dpus,
        admin=hosts + managed,
        underlay=managed + switches,
        macs=sum(group.mac_count for group in groups),
        ranges=hosts + others,
        nvos=switches,
        own_services=pods + 1,
        records=hosts + others + racks,
        status_bytes=900 * hosts + 450 * dpus + 400 * others,
    )


class Prefix(msgspec.Struct, frozen=True):
    """A network of the site file. prefix: the length of the smallest that is large enough; usable: of that.

    shipped: addresses that the one of nico-core-simulation.yaml has.
    """

    name: str
    addresses: int
    prefix: int
    usable: int
    shipped: int


class Pool(msgspec.Struct, frozen=True):
    """A resource pool of the site file. shipped: what nico-core-simulation.yaml has."""

    name: str
    values: int
    shipped: int


class Share(msgspec.Struct, frozen=True):
    """What one pod of a simulator takes. request, limit: memory, MiB. cores: that are used while NICo explores."""

    simulator: str
    bmcs: int
    request_mib: int
    limit_mib: int
    cores: float
    basis: str


class Limit(msgspec.Struct, frozen=True):
    """A limit, how much of it the fleet needs, and how many BMCs of such a fleet fit. of: who has it."""

    name: str
    of: str
    limit: int
    needs: int
    max_bmcs: int


class Times(msgspec.Struct, frozen=True):
    """How long things take at the rates that were measured or that are limits; seconds, minutes from and to.

    startup_s: until the last expected machine of machine-a-tron's largest pod is registered, before which it does not
    listen.
    """

    services_s: int
    startup_s: int
    dhcp_min: tuple[int, int]
    creation_min: tuple[int, int]


class Sizing(msgspec.Struct, frozen=True):
    """Everything. first: the limit that breaks first, machine-a-tron's own left aside."""

    demand: Demand
    services: int
    service_cidr: str
    service_prefix: int
    networks: tuple[Prefix, ...]
    pools: tuple[Pool, ...]
    shares: tuple[Share, ...]
    limits: tuple[Limit, ...]
    first: Limit
    times: Times


def size(need: Demand, service_cidr: Network) -> Sizing:
    """What a fleet of at least one BMC needs, in a cluster with a ServiceCIDR. Raises ValueError beyond a /0."""
    networks = [("simulated-oob", need.bmcs), ("simulated-admin", need.admin), ("simulated-underlay", need.underlay)]
    pools = (Pool("lo-ip", need.machines, SHIPPED_LO_IP), Pool("fnn-asn", need.dpus, SHIPPED_FNN_ASN))
    limits = tuple(sorted(_limits(need, networks, pools, service_cidr), key=lambda limit: limit.max_bmcs))
    largest = ceil(need.records / need.pods)
    return Sizing(
        demand=need,
        services=need.services,
        service_cidr=str(service_cidr),
        service_prefix=smallest_prefix(need.services),
        networks=tuple([_prefix(name, count) for name, count in networks if count]),
        pools=pools,
        shares=_shares(ceil(need.bmcs / need.pods)),
        limits=limits,
        first=next(limit for limit in limits if limit.of != "machine-a-tron"),
        times=Times(
            ceil(need.services / _SERVICES_PER_S),
            largest * _REGISTRATION_S,
            _between(need.bmcs, _DHCP_PER_MIN),
            _between(need.machines, _MACHINES_PER_MIN),
        ),
    )


def _prefix(name: str, count: int) -> Prefix:
    length = smallest_prefix(count, RESERVE_FIRST)
    return Prefix(name, count, length, usable(length, RESERVE_FIRST), usable(SHIPPED_PREFIX, RESERVE_FIRST))


def _shares(bmcs: int) -> tuple[Share, ...]:
    own = BASE_MIB + bmcs * KIB_PER_BMC / 1024
    connected = BASE_MIB + bmcs * _LARGE_KIB / 1024
    theirs = bmcs * MAT_MIB_PER_BMC
    return (
        Share(
            "bmcsim",
            bmcs,
            _up(own, 16),
            _up(connected, 64),
            0.1,
            f"{BASE_MIB:.0f} MiB + {KIB_PER_BMC:.0f} KiB a BMC; limit: a TLS connection to each of them too",
        ),
        Share(
            "machine-a-tron",
            bmcs,
            _up(theirs, 64),
            _up(2 * theirs, 64),
            round(bmcs * MAT_CORES_PER_BMC, 2),
            "15 GiB and 2 cores for 17,750 BMCs; limit: twice that",
        ),
    )


def _limits(
    need: Demand, networks: list[tuple[str, int]], pools: tuple[Pool, ...], service_cidr: Network
) -> list[Limit]:
    """Each limit that the fleet needs something of."""
    pods, shipped = need.pods, usable(SHIPPED_PREFIX, RESERVE_FIRST)
    per_pod = ceil(need.bmcs / pods)
    rows = [
        *[
            (f"addresses of [networks.{name}], /{SHIPPED_PREFIX}", "site file", shipped, count)
            for name, count in networks
        ],
        *[(f"values of [pools.{pool.name}]", "site file", pool.shipped, pool.values) for pool in pools],
        (f"ClusterIPs of {service_cidr}", "cluster", service_ips(service_cidr), need.services),
        ("MACs of a pod, macAddressPool.hostBits 16", "values", _POOL_PER_POD, ceil(need.macs / pods)),
        ("ranges of a pod, hwMacAddressRanges 24/8", "values", _POOL_PER_POD, ceil(need.ranges / pods)),
        ("bytes of a pod's /machines/status", "mat-k8s-controller", _STATUS_CAP, ceil(need.status_bytes / pods)),
        (
            "KiB of a pod of 8 GiB, its base aside",
            "bmcsim",
            floor(_POD_KIB - BASE_MIB * 1024),
            ceil(per_pod * _LARGE_KIB),
        ),
        ("KiB of a pod of 8 GiB", "machine-a-tron", _POD_KIB, ceil(per_pod * MAT_MIB_PER_BMC * 1024)),
    ]
    return [Limit(name, of, cap, uses, _largest(need, cap, uses)) for name, of, cap, uses in rows if uses]


def _largest(need: Demand, limit: int, uses: int) -> int:
    """How many BMCs fit, in whole hosts or racks where the fleet is made of equal ones."""
    alike = gcd(need.hosts, need.dpus, need.switches, need.shelves)
    unit = need.bmcs // alike if alike > 1 else 1
    return limit * need.bmcs // uses // unit * unit


def _between(count: int, rates: tuple[int, int]) -> tuple[int, int]:
    slow, fast = rates
    return ceil(count / fast), ceil(count / slow)


def _up(value: float, step: int) -> int:
    return ceil(value / step) * step
