"""The addresses of a BMC's management interface, as its EthernetInterface has them (DSP0268).

IPv4 comes from the fleet's pool, from a lease, or is static: chosen by a client that switched DHCPv4 off. Which
interface this is the profile says: the one whose PATCH is `management_interface`.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from bmcsim.core.clock import Moment
from bmcsim.machine.dhcp.messages import Lease, Port
from bmcsim.machine.slaac import PREFIX_LENGTH

if TYPE_CHECKING:
    from bmcsim.machine.bmc import Bmc
    from bmcsim.machine.resources import Resources

_MTU = 1500
_NO_ADDRESS = "0.0.0.0"


class Static(msgspec.Struct, frozen=True, gc=False):
    """An address that a client gave a BMC; all dotted, gateway '0.0.0.0' for none."""

    address: str
    netmask: str
    gateway: str


def _interface(bmc: "Resources") -> Mapping[str, Any]:
    node = bmc.tree.nodes.get(bmc.tree.interface)
    return bmc.template(node) if node is not None else {}


def _uses(bmc: "Resources", fact: str) -> bool:
    """A fact of DHCPv4, such as UseDNSServers; true where the profile does not have it."""
    return (_interface(bmc).get("DHCPv4") or {}).get(fact) is not False


def static(bmc: "Resources") -> Static | None:
    """The static address that a BMC is to have, None where it is not for a client to say."""
    if bmc.overlay is None or bmc.tree.interface not in bmc.overlay:
        return None
    return static_of(_interface(bmc))


def leases(interface: Mapping[str, Any]) -> bool:
    """Whether an EthernetInterface has its address from DHCP, or from the pool that stands for that."""
    return (interface.get("DHCPv4") or {}).get("DHCPEnabled") is not False


def static_of(interface: Mapping[str, Any]) -> Static | None:
    """The static address that an EthernetInterface uses, None while DHCP gives it one."""
    if leases(interface):
        return None
    for one in interface.get("IPv4StaticAddresses") or ():
        if one:
            # As plain texts: those of a template have a type of their own.
            return Static(str(one["Address"]), str(one["SubnetMask"]), str(one.get("Gateway") or _NO_ADDRESS))
    return None


def lease(bmc: "Resources") -> Lease | None:
    """The lease of the BMC's own interface, None where it has none or DHCP is off."""
    found = bmc.state.leases.get(Port.BMC)
    return found if found is not None and _uses(bmc, "DHCPEnabled") else None


def _own(bmc: "Bmc") -> Static:
    """What the address that the BMC has now came with."""
    network = bmc.shared.network
    if (chosen := static(bmc)) is not None and chosen.address == bmc.address:
        return chosen
    if (held := lease(bmc)) is not None:
        netmask = str(IPv4Network((0, held.prefix)).netmask) if held.prefix else network.netmask
        return Static(bmc.address, netmask, held.gateway or _NO_ADDRESS)
    return Static(bmc.address, network.netmask, network.gateway)


def netmask(bmc: "Bmc") -> str:
    """The subnet mask."""
    return _own(bmc).netmask


def gateway(bmc: "Bmc") -> str:
    """The IPv4 gateway, '0.0.0.0' for none."""
    return _own(bmc).gateway


def ipv4(bmc: "Bmc") -> list[dict[str, str]]:
    """IPv4Addresses: what is in use."""
    if not bmc.address:
        return []
    own = _own(bmc)
    origin = "DHCP" if _uses(bmc, "DHCPEnabled") else "Static"
    shown = {"Address": own.address, "AddressOrigin": origin, "SubnetMask": own.netmask, "Gateway": own.gateway}
    return [shown]


def ipv6(bmc: "Bmc") -> list[dict[str, Any]]:
    """IPv6Addresses: what is in use."""
    if (slaac := bmc.shared.network.slaac) is None:
        return []
    origins = zip(slaac.addresses(bmc.identity.bmc_mac), ("SLAAC", "LinkLocal"), strict=True)
    return [
        {"Address": address, "AddressOrigin": origin, "AddressState": "Preferred", "PrefixLength": PREFIX_LENGTH}
        for address, origin in origins
    ]


def gateway6(bmc: "Bmc") -> str | None:
    """The IPv6 gateway, None for none."""
    slaac = bmc.shared.network.slaac
    return slaac.gateway if slaac is not None else None


def name_servers(bmc: "Bmc") -> list[str]:
    """NameServers: those that a client wrote, then those of the lease."""
    written = [str(one) for one in _interface(bmc).get("StaticNameServers") or () if one]
    held = lease(bmc)
    return [*written, *held.name_servers] if held is not None and _uses(bmc, "UseDNSServers") else written


def mtu(bmc: "Bmc") -> int:
    """MTUSize."""
    held = lease(bmc)
    return held.mtu if held is not None and held.mtu else _MTU


def host_name(bmc: "Bmc", moment: Moment, _item: Any = None) -> bytes:
    """HostName as JSON: the lease's, or what the profile calls the BMC."""
    held = lease(bmc)
    if held is not None and held.host_name:
        return orjson.dumps(held.host_name)
    own = bmc.tree.host_name
    return orjson.dumps(orjson.loads(own.render(bmc, moment)[1])["HostName"]) if own is not None else b'""'


def fqdn(bmc: "Bmc", moment: Moment, _item: Any = None) -> bytes:
    """FQDN as JSON: the host name, with the domain of the lease where there is one."""
    name, held = host_name(bmc, moment), lease(bmc)
    if held is None or not held.domain or not _uses(bmc, "UseDomainName"):
        return name
    return orjson.dumps(f"{orjson.loads(name)}.{held.domain}")
