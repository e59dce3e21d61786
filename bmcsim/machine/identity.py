"""Who a BMC is: the numbers from which its MACs, serials and UUIDs follow.

Only integers are stored, so that 13,500 identities stay small; every text form is derived on demand.
"""

import hashlib
from enum import StrEnum
from zlib import crc32

import msgspec

_NAMESPACE = bytes.fromhex("7c0f2d4e6f0b5b7e9a510c1de1f2a9b3")


class Kind(StrEnum):
    """What stands behind a BMC."""

    HOST = "host"
    DPU = "dpu"
    SWITCH = "switch"
    POWER_SHELF = "power_shelf"


def mac_hex(mac: int) -> str:
    """Twelve upper-case hexadecimal digits: 0x02000000000A -> '02000000000A'."""
    return f"{mac:012X}"


def mac_colons(mac: int) -> str:
    """Upper-case colon form: 0x02000000000A -> '02:00:00:00:00:0A'."""
    digits = f"{mac:012X}"
    return ":".join([digits[i : i + 2] for i in range(0, 12, 2)])


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a machine is. rack: its id. position: from the bottom, counted from 1. index: its number among the units of
    its hardware in the rack, counted from 0 at the bottom."""

    rack: str
    position: int
    index: int

    @property
    def serial(self) -> str:
        """The serial number of the rack's chassis: thirteen digits."""
        return f"182{int.from_bytes(self._digest('chassis')[:8]) % 10**10:010d}"

    @property
    def domain(self) -> str:
        """The UUID of the rack's NVLink domain (RFC 9562 5.5)."""
        return _uuid(self._digest("domain").hex())

    def _digest(self, purpose: str) -> bytes:
        return hashlib.sha1(_NAMESPACE + f"{purpose}@{self.rack}".encode(), usedforsecurity=False).digest()


def _uuid(digest: str) -> str:
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


class Identity(msgspec.Struct, frozen=True, gc=False):
    """The numbers of one BMC.

    kind: what the BMC manages.
    bmc_mac: MAC of the management interface, which the address is leased to.
    host_mac: DPU: its network function as the host sees it. Host without DPUs: its plain NIC. Else 0.
    oob_mac: DPU: out-of-band interface of its own system. Switch: interface of its operating system. Else 0.
    hw_base: first address of the range that belongs to this machine's other hardware (offset 0 is never used). DPU: 0.
    dpus: host: the identities of its DPUs in slot order. Else empty.
    place: where the machine is, None where it stands free.
    """

    kind: Kind
    bmc_mac: int
    host_mac: int = 0
    oob_mac: int = 0
    hw_base: int = 0
    dpus: tuple["Identity", ...] = ()
    place: Place | None = None

    @property
    def serial(self) -> str:
        """Host and shelf: the BMC MAC's digits. DPU and switch: 'MT' and the digits of the out-of-band MAC."""
        if self.kind in (Kind.DPU, Kind.SWITCH):
            return "MT" + mac_hex(self.oob_mac)
        return mac_hex(self.bmc_mac)

    @property
    def seed(self) -> int:
        """A number that differs between any two BMCs; simulated readings depend on it."""
        return self.bmc_mac

    def fraction(self, purpose: str) -> float:
        """A number from 0 to 1, exclusive, that only this BMC has for this purpose; the same in every process."""
        return crc32(purpose.encode(), self.seed & 0xFFFFFFFF) / 2**32

    def uuid(self, purpose: str) -> str:
        """A version 5 UUID (RFC 9562 5.5) for one purpose ('system', 'service', ...), stable across restarts."""
        name = f"{purpose}:{self.bmc_mac:012X}".encode()
        return _uuid(hashlib.sha1(_NAMESPACE + name, usedforsecurity=False).hexdigest())
