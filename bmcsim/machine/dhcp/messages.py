"""What a DHCP client says and hears, free of any encoding (RFC 2131, tables 3 to 5)."""

from enum import IntEnum, StrEnum

import msgspec


class Port(StrEnum):
    """An interface that has a lease of its own.

    bmc: of the BMC itself. oob: of a DPU's own system. nvos: of a switch's operating system. nic: of a host without
    managed DPUs.
    """

    BMC = "bmc"
    OOB = "oob"
    NVOS = "nvos"
    NIC = "nic"


class Segment(StrEnum):
    """What kind of network an interface asks on; a server refuses the wrong one."""

    BMC = "bmc"
    UNDERLAY = "underlay"
    INBAND = "inband"


class Interface(msgspec.Struct, frozen=True, gc=False):
    """Who asks.

    bmc: id of the BMC. mac: as a number. vendor_class: option 60 (RFC 2132 9.13), '' for none. relay: address of the
    relay of its segment, dotted: what a server chooses the subnet by (RFC 3527); '' where there is none.
    circuit, remote: sub-options 1 and 2 of option 82 (RFC 3046), '' for none.
    """

    bmc: str
    port: Port
    mac: int
    segment: Segment
    vendor_class: str = ""
    relay: str = ""
    circuit: str = ""
    remote: str = ""


class Kind(IntEnum):
    """DHCP message types (RFC 2132 9.6)."""

    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    DECLINE = 4
    ACK = 5
    NAK = 6
    RELEASE = 7


class Lease(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An address and what came with it.

    address, server, gateway, name_servers, ntp_servers: dotted; server is '' where none says who it is.
    acquired: when the client asked for it (RFC 2131 4.4.1), seconds since the epoch. seconds: how long it lasts, inf
    for ever. renew, rebind: T1 and T2, seconds after `acquired`, as the server gives them, 0 where it does not; of a
    lease in use that ends, as the client plans them.
    prefix: length of the subnet mask, 0 for unknown. interface_id: UUID that NICo has for the interface, '' for none.
    """

    address: str
    server: str = ""
    acquired: float = 0.0
    seconds: float = float("inf")
    renew: float = 0.0
    rebind: float = 0.0
    prefix: int = 0
    gateway: str = ""
    name_servers: tuple[str, ...] = ()
    ntp_servers: tuple[str, ...] = ()
    host_name: str = ""
    domain: str = ""
    mtu: int = 0
    interface_id: str = ""

    def expires(self) -> float:
        """When it ends, seconds since the epoch; inf for never."""
        return self.acquired + self.seconds


class Ask(msgspec.Struct, frozen=True, gc=False):
    """What a client says.

    elapsed: seconds since it began to acquire or renew (secs). client: the address that it uses (ciaddr), '' for none.
    requested: option 50, server: option 54, '' for none. rebinding: to every server, not to the one of the lease.
    """

    kind: Kind
    xid: int
    elapsed: int = 0
    client: str = ""
    requested: str = ""
    server: str = ""
    rebinding: bool = False


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What a client hears: OFFER, ACK or NAK.

    lease: of an OFFER or ACK; its `acquired` and `server` are set by the client. rapid: an ACK (RFC 4039) or a NAK that
    answers a DISCOVER at once, from servers that have no second round; without it, neither answers a DISCOVER. server:
    who says it; an OFFER without it is none. text: why, of a NAK.
    """

    kind: Kind
    xid: int
    lease: Lease | None = None
    rapid: bool = False
    server: str = ""
    text: str = ""
