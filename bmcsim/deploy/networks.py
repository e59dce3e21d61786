"""Prefixes: which one an address is in, which do not go together, how large one has to be."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from bmcsim.fleet.converters import shown

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

SPECIAL: tuple[Network, ...] = (
    IPv4Network("0.0.0.0/32"),
    IPv4Network("127.0.0.0/8"),
    IPv4Network("169.254.0.0/16"),
    IPv4Network("224.0.0.0/24"),
    IPv6Network("::/127"),
    IPv6Network("fe80::/10"),
    IPv6Network("ff02::/16"),
)
"""Where Kubernetes takes no address as an external IP: unspecified, loopback, link-local."""

_PRIVATE = IPv4Network("10.0.0.0/8")
_FIRST = IPv4Address("10.200.0.0")
_COARSE = 20


def address(value: Any) -> Address:
    """The address that a value of a file is. Raises ValueError."""
    try:
        return ip_address(str(value).strip())
    except ValueError:
        raise ValueError(
            f"must be an IP address, the gateway of a network such as '10.200.0.1', not {shown(value)}"
        ) from None


def most_specific(address: Address, networks: Iterable[Network]) -> Network | None:
    """The longest of the prefixes that an address is in."""
    return max((one for one in networks if address in one), key=lambda one: one.prefixlen, default=None)


def conflicts(network: Network, others: Iterable[Network]) -> list[Network]:
    """Those that share an address with a network, each once, in order."""
    return [one for one in dict.fromkeys(others) if network.overlaps(one)]


def usable(prefixlen: int, reserve_first: int = 1, bits: int = 32) -> int:
    """How many addresses NICo gives from a prefix: all but the first `reserve_first` and the last."""
    return max(0, (1 << bits - prefixlen) - reserve_first - 1)


def smallest_prefix(count: int, reserve_first: int = 1, bits: int = 32) -> int:
    """The length of the smallest prefix from which NICo can give so many addresses.

    Raises ValueError when all addresses are too few.
    """
    length = bits - (count + reserve_first).bit_length()
    if length < 0:
        raise ValueError(f"{count} addresses are more than a /0 has")
    return length


def service_ips(network: Network) -> int:
    """How many ClusterIPs a ServiceCIDR gives: all but the first address, and with IPv4 the last."""
    return max(0, network.num_addresses - (2 if network.version == 4 else 1))


def suggestion(prefixlen: int, taken: Sequence[Network]) -> IPv4Network | None:
    """A prefix of 10.0.0.0/8, from 10.200.0.0 on, that overlaps none of those taken."""
    length = max(_PRIVATE.prefixlen, min(prefixlen, _COARSE))
    size, start = 1 << 32 - length, int(_PRIVATE.network_address)
    blocks = _PRIVATE.num_addresses // size
    first = (int(_FIRST) - start) // size
    for number in range(first, first + blocks):
        block = IPv4Network((start + number % blocks * size, length))
        if not conflicts(block, taken):
            return IPv4Network((block.network_address, max(prefixlen, length)))
    return None
