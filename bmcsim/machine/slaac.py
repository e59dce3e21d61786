"""IPv6 addresses that follow from a MAC (SLAAC): nothing is stored, and the MAC follows from the address again."""

from ipaddress import IPv6Address, IPv6Network

import msgspec

LINK_LOCAL = IPv6Network("fe80::/64")
PREFIX_LENGTH = 64
_MIDDLE = 0xFFFE << 24
_UNIVERSAL = 1 << 57
_INTERFACE_BITS = (1 << 64) - 1


def interface_id(mac: int) -> int:
    """The modified EUI-64 of a MAC (RFC 4291, appendix A)."""
    return ((mac >> 24 << 40) | _MIDDLE | (mac & 0xFFFFFF)) ^ _UNIVERSAL


def mac_of(identifier: int) -> int | None:
    """The MAC whose modified EUI-64 this is, None for one that is no MAC's."""
    if identifier >> 24 & 0xFFFF != _MIDDLE >> 24:
        return None
    identifier ^= _UNIVERSAL
    return (identifier >> 40 << 24) | (identifier & 0xFFFFFF)


class Slaac(msgspec.Struct, frozen=True):
    """The network on which BMCs make IPv6 addresses of their own. prefix: a /64. gateway: None for none."""

    prefix: IPv6Network
    gateway: str | None = None

    def addresses(self, mac: int) -> tuple[str, str]:
        """The global and the link-local address of a MAC (RFC 4862 5.3, 5.5.3)."""
        return _text(self.prefix, mac), _text(LINK_LOCAL, mac)

    def mac(self, address: str) -> int | None:
        """The MAC that has an address; a zone (RFC 4007 11) is ignored. None for an address that no MAC has here."""
        try:
            found = IPv6Address(address.partition("%")[0])
        except ValueError:
            return None
        if found not in self.prefix and found not in LINK_LOCAL:
            return None
        return mac_of(int(found) & _INTERFACE_BITS)


def _text(prefix: IPv6Network, mac: int) -> str:
    return str(prefix.network_address + interface_id(mac))
