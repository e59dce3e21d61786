"""Values of a fleet file: each function returns what one means, or raises ValueError that says what would be right."""

import re
import reprlib
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any

from bmcsim.tree.software import VERSION

_MAX_DURATION = 365 * 86400.0
_MAX_ACCELERATION = 1e6
MAX_TIME_SCALE = 1e6


def shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:
        return "a huge number"


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text that is not empty, not {shown(value)}")
    return value


def text_or_empty(value: Any) -> str:
    return value if value == "" else text(value)


def version(value: Any) -> str:
    if not isinstance(value, str) or not VERSION.fullmatch(value):
        raise ValueError(f"must be a version, of letters, digits and . _ + ~ -, not {shown(value)}")
    return value


def secret(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text in quotes")
    return value


_DOMAIN = re.compile(r"(?=.{1,190}$)[a-z0-9][a-z0-9-]{0,62}(\.[a-z0-9][a-z0-9-]{0,62})*", re.IGNORECASE)


def domain(value: Any) -> str:
    """In lower case, as names of hosts are compared."""
    if not isinstance(value, str) or _DOMAIN.fullmatch(value) is None:
        raise ValueError(f"must be a domain, such as bmc.example, not {shown(value)}")
    return value.lower()


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {shown(value)}")
    return value


def whole(low: int, high: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}, not {shown(value)}")
        return value

    return convert


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, not {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("must be a number that a double can hold") from None


def acceleration(value: Any) -> float:
    factor = number(value)
    if factor > _MAX_ACCELERATION:
        raise ValueError(f"must be a number from 0 to {_MAX_ACCELERATION:.0f}, not {shown(value)}")
    return factor if factor > 0 else 0.0


def time_scale(value: Any) -> float:
    scale = number(value)
    if not 0 < scale <= MAX_TIME_SCALE:
        raise ValueError(f"must be a number greater than 0, up to {MAX_TIME_SCALE:.0f}, not {shown(value)}")
    return scale


_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = r"([0-9]+(?:\.[0-9]+)?) *(ns|us|ms|s|m|h|d)"


def duration(value: Any) -> float:
    """Seconds of '100ms', '5s', '2m', '1h 30m'."""
    if not isinstance(value, str) or not re.fullmatch(rf"(?:{_SPAN} *)+", value):
        raise ValueError(f"must be a duration such as '5s', '100ms', '2m' or '1h', not {shown(value)}")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in re.findall(_SPAN, value))
    if seconds > _MAX_DURATION:
        raise ValueError(f"must be a duration of at most 365d, not {shown(value)}")
    return seconds


def idle(value: Any) -> float:
    """Seconds that a connection may be idle."""
    if (seconds := duration(value)) < 1:
        raise ValueError(f"must be a duration of at least 1s, not {shown(value)}")
    return seconds


def ipv4(value: Any) -> str:
    try:
        return str(IPv4Address(text(value)))
    except ValueError:
        raise ValueError(f"must be an IPv4 address such as '10.200.0.1', not {shown(value)}") from None


def network(value: Any) -> IPv4Network:
    try:
        network = IPv4Network(text(value), strict=False)
    except ValueError:
        raise ValueError(f"must be an IPv4 prefix such as '127.64.0.0/18', not {shown(value)}") from None
    if IPv4Address(value.partition("/")[0]) != network.network_address:
        raise ValueError(f"{value} has host bits set; the prefix around it is {network}")
    return network


def prefix(value: Any) -> IPv4Network:
    prefix = network(value)
    if not 8 <= prefix.prefixlen <= 30:
        raise ValueError(f"must be a prefix from /8 to /30, not {prefix}")
    if prefix.network_address.packed[0] == 0 or prefix.network_address.packed[0] >= 224:
        raise ValueError(f"must be a prefix of unicast addresses, which {prefix} is not")
    return prefix


def prefix6(value: Any) -> IPv6Network:
    """A prefix in which interfaces make addresses of their own: they fill the other 64 bits (RFC 4291 2.5.1)."""
    wish = "must be an IPv6 prefix of unicast addresses with 64 bits, such as 'fd00:64::/64'"
    try:
        found = IPv6Network(text(value))
    except ValueError:
        raise ValueError(f"{wish}, not {shown(value)}") from None
    first = found.network_address
    if found.prefixlen != 64 or first.is_multicast or first.is_link_local or first.is_unspecified:
        raise ValueError(f"{wish}, not {shown(value)}")
    return found


def gateway6(value: Any) -> str:
    try:
        address = IPv6Address(text(value))
    except ValueError:
        address = IPv6Address("::")
    if address.is_unspecified or address.is_multicast or address.scope_id is not None:
        raise ValueError(f"must be an IPv6 address such as 'fe80::1' or 'fd00:64::1', not {shown(value)}")
    return str(address)


def networks(value: Any) -> tuple[IPv4Network, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of IPv4 addresses and prefixes, not {shown(value)}")
    return tuple([network(item) for item in value])


def destinations(value: Any) -> tuple[IPv4Network | IPv6Network, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of networks such as ['127.0.0.0/8'], not {shown(value)}")
    return tuple([any_network(one) for one in value])


def any_network(value: Any) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text(value))
    except ValueError as error:
        raise ValueError(f"must be a network such as 10.0.0.0/8 or ::1/128, not {shown(value)}") from error


def mac(value: Any) -> int:
    given = text(value)
    if not re.fullmatch(r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}", given):
        raise ValueError(f"must be a MAC such as '02:00:00:00:00:00', not {shown(value)}")
    mac = int(given.replace(":", "").replace("-", ""), 16)
    if mac >> 40 & 1:
        raise ValueError(f"{given} is a multicast MAC; its first two digits must be an even number, such as 02")
    return mac
