"""The [dhcp] table of a fleet file: where the addresses of its BMCs come from."""

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import msgspec

from bmcsim.fleet import converters
from bmcsim.fleet.conduct import one_of
from bmcsim.fleet.pool import AddressPool
from bmcsim.fleet.tables import Table
from bmcsim.machine.slaac import Slaac

DEFAULT_PREFIX = IPv4Network("127.64.0.0/18")
TYPES = ("pool", "udp_relay", "api")
_WIDEST_DEFAULT = 10
_WINDOW, _MAX_WINDOW = 64, 10_000
_MAX_CONCURRENCY = 1_000
_MAX_RATE = 100_000.0


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    """slaac: how BMCs have IPv6 addresses, None where they have none."""

    slaac: Slaac | None = None


class PoolConfig(_Common, frozen=True):
    """Addresses out of a prefix, planned and never leased; see AddressPool. gateway: dotted.

    exhaustion: refuse: a pool that is too small is an error; serve: the BMCs beyond it have no address.
    """

    prefix: IPv4Network = DEFAULT_PREFIX
    reserve_first: int = 1
    gateway: str | None = None
    exclude: tuple[IPv4Network, ...] = ()
    exhaustion: str = "refuse"

    def allocator(self) -> AddressPool:
        """A pool of which nothing is given yet."""
        gateway = None if self.gateway is None else IPv4Address(self.gateway)
        return AddressPool(self.prefix, self.reserve_first, gateway, self.exclude)


class Endpoint(msgspec.Struct, frozen=True):
    """An IPv4 address, dotted, and a UDP port."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


class RelayConfig(_Common, frozen=True):
    """Leases of a DHCP server, asked through a relay of our own.

    server: where it is, unicast. listen: where its replies come in; 0.0.0.0 for every address of this machine.
    advertise: the relay's address as the server is told (giaddr), where it sends replies to, port of `listen`.
    window: how many acquisitions may be under way at once.
    """

    server: Endpoint
    listen: Endpoint
    advertise: str
    window: int = _WINDOW


class ApiConfig(_Common, frozen=True):
    """Leases of NICo's API. concurrency: calls in flight at once. rate: calls per second at most."""

    concurrency: int = 8
    rate: float = 200.0


DhcpConfig = PoolConfig | RelayConfig | ApiConfig


def read(top: Table, of_mat: bool, bmcs: int, pool: bool = False) -> DhcpConfig:
    """What the file says. of_mat: it has machine-a-tron's defaults. bmcs: how many the fleet has.

    pool: a pool counts, whatever the file says; its own one where it has one.
    """
    if "dhcp" not in top:
        if pool:
            return PoolConfig(default_prefix(bmcs))
        return ApiConfig() if of_mat else PoolConfig()
    table = top.table("dhcp")
    if pool and not table.says("type", "pool"):
        return PoolConfig(default_prefix(bmcs))
    advice = f'{{ type = "pool", prefix = "{default_prefix(bmcs)}", reserve_first = 1 }}'
    type_ = table.get("type", one_of(*TYPES), "", f"is missing; one of {', '.join(TYPES)}, such as  dhcp = {advice}")
    config: DhcpConfig = PoolConfig()
    match type_:
        case "pool":
            config = _pool(table)
        case "udp_relay":
            config = _relay(table)
        case "api":
            config = _api(table)
        case _:
            return config
    config = msgspec.structs.replace(config, slaac=_slaac(table))
    table.close(strict=True)
    return config


def default_prefix(addresses: int) -> IPv4Network:
    """127.64.0.0/18, or the longest shorter prefix that has so many addresses to give."""
    longest, network = DEFAULT_PREFIX.prefixlen, DEFAULT_PREFIX.network_address
    prefixes = [IPv4Network((network, length)) for length in range(longest, _WIDEST_DEFAULT - 1, -1)]
    return next((prefix for prefix in prefixes if AddressPool(prefix).capacity >= addresses), prefixes[-1])


def _pool(table: Table) -> PoolConfig:
    prefix = table.get("prefix", converters.prefix, DEFAULT_PREFIX)
    pool = PoolConfig(
        prefix,
        table.get("reserve_first", converters.whole(0, prefix.num_addresses), 1),
        table.get("gateway", converters.ipv4, None),
        table.get("exclude", converters.networks, ()),
        table.get("exhaustion", one_of("refuse", "serve"), "refuse"),
    )
    if pool.gateway is not None and IPv4Address(pool.gateway) not in prefix:
        table.error("gateway", f"{pool.gateway} is not in {prefix}; give an address of the prefix")
    for network in pool.exclude:
        if not network.overlaps(prefix):
            table.error("exclude", f"{network} is not in {prefix}; give addresses or prefixes inside of it")
    return pool


def _slaac(table: Table) -> Slaac | None:
    prefix = table.get("prefix6", converters.prefix6, None)
    gateway = table.get("gateway6", converters.gateway6, None)
    if prefix is None:
        if gateway is not None:
            table.error("gateway6", "says nothing without prefix6; add one, such as 'fd00:64::/64'")
        return None
    return Slaac(prefix, gateway)


def _relay(table: Table) -> RelayConfig:
    here = Endpoint("0.0.0.0", 67)
    return RelayConfig(
        table.get("server_address", _server, here, "is missing; write where the DHCP server is, such as '10.0.0.5:67'"),
        table.get("listen_address", _listen, here, "is missing; write where replies come in, such as '0.0.0.0:67'"),
        table.get(
            "advertise_address",
            _advertised,
            "",
            "is missing; write the address of this machine that the server replies to, such as '10.0.0.6'",
        ),
        table.get("window", converters.whole(1, _MAX_WINDOW), _WINDOW),
    )


def _api(table: Table) -> ApiConfig:
    default = ApiConfig()
    return ApiConfig(
        table.get("concurrency", converters.whole(1, _MAX_CONCURRENCY), default.concurrency),
        table.get("rate", _rate, default.rate),
    )


def _rate(value: Any) -> float:
    rate = converters.number(value)
    if not 0 < rate <= _MAX_RATE:
        raise ValueError(
            f"must be a number of calls per second, above 0 and up to {_MAX_RATE:.0f}, not {converters.shown(value)}"
        )
    return rate


def _endpoint(value: Any) -> Endpoint:
    address, _, port = converters.text(value).rpartition(":")
    try:
        if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
            raise ValueError("no port")
        return Endpoint(str(IPv4Address(address)), int(port))
    except ValueError:
        raise ValueError(f"must be ADDRESS:PORT such as '10.0.0.5:67', not {converters.shown(value)}") from None


def _server(value: Any) -> Endpoint:
    server = _endpoint(value)
    if server.port == 0:
        raise ValueError(f"must have a port that is not 0, such as '{server.address}:67'")
    if not _unicast(server.address):
        raise ValueError(f"must be a unicast address, which {server.address} is not")
    return server


def _listen(value: Any) -> Endpoint:
    listen = _endpoint(value)
    if listen.port == 0:
        raise ValueError(
            f"must have a port that is not 0, such as '{listen.address}:67': the server sends replies there"
        )
    if not (_unicast(listen.address) or IPv4Address(listen.address).is_unspecified):
        raise ValueError(f"must be an address of this machine or 0.0.0.0, which {listen.address} is not")
    return listen


def _advertised(value: Any) -> str:
    address = converters.ipv4(value)
    if not _unicast(address):
        raise ValueError(f"must be a unicast address of this machine, which {address} is not")
    return address


def _unicast(address: str) -> bool:
    """Whether one host can have an address: it is neither 0.0.0.0, nor multicast, nor broadcast."""
    first = IPv4Address(address).packed[0]
    return 0 < first < 224
