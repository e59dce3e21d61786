"""The interfaces of a BMC that have leases of their own, and when they have link."""

from collections.abc import Mapping

import msgspec

from bmcsim.machine.actions import Happening, RestartDhcp, StopDhcp
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.dhcp.messages import Interface, Port, Segment
from bmcsim.machine.identity import Identity
from bmcsim.machine.power import Power

_RUNS = frozenset({Power.RUNNING, Power.POWERING_OFF, Power.RESTARTING})

SEGMENTS: Mapping[Port, Segment] = {
    Port.BMC: Segment.BMC,
    Port.OOB: Segment.UNDERLAY,
    Port.NVOS: Segment.UNDERLAY,
    Port.NIC: Segment.INBAND,
}


class Link(msgspec.Struct, frozen=True, gc=False):
    """What an interface is, as far as it is the same for all BMCs of a group. vendor_class, relay: as in Interface."""

    port: Port
    vendor_class: str = ""
    relay: str = ""


def interface(link: Link, bmc: str, identity: Identity) -> Interface:
    """An interface of one BMC. bmc: its id."""
    return Interface(bmc, link.port, mac(link.port, identity), SEGMENTS[link.port], link.vendor_class, link.relay)


def mac(port: Port, identity: Identity) -> int:
    """The MAC of an interface. A host whose DPUs are mere NICs asks with that of the first one."""
    match port:
        case Port.BMC:
            return identity.bmc_mac
        case Port.NIC:
            return identity.host_mac or identity.dpus[0].host_mac
    return identity.oob_mac


def is_up(port: Port, service: Service, power: Power) -> bool:
    """Whether an interface has link, and somebody behind it who asks for an address."""
    return service is Service.UP if port is Port.BMC else power in _RUNS


def felt(port: Port, what: Happening, service: Service) -> RestartDhcp | StopDhcp | None:
    """What something that happened is for an interface, None for nothing. service: as it is by then.

    A BMC in reset is found where it was: what requests meet there is for its `while_resetting` to say.
    """
    if port is Port.BMC:
        match what:
            case Happening.BMC_RESETTING:
                return StopDhcp(port, keep=service is Service.RESETTING)
            case Happening.BMC_RESTARTED:
                return RestartDhcp(port)
        return None
    match what:
        case Happening.BOOT_COMPLETED:
            return RestartDhcp(port)
        case Happening.SYSTEM_POWERED_OFF | Happening.SYSTEM_RESET:
            return StopDhcp(port)
    return None
