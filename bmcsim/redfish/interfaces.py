"""The addresses of a BMC as clients set them (DSP0268, EthernetInterface: DHCPv4 and IPv4StaticAddresses)."""

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Any

from bmcsim.machine import addressing
from bmcsim.machine.actions import Readdress
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.messages import message
from bmcsim.redfish.outcome import NodeHandler
from bmcsim.redfish.patch import PatchRefused, checked, json_object, properties_of, write, written
from bmcsim.tree.compile import MANAGEMENT_INTERFACE, Node
from bmcsim.tree.source import deep_merge

_STATIC, _SERVERS = "IPv4StaticAddresses", "StaticNameServers"
_ALL_ONES = 0xFFFFFFFF
_LONGEST_WITH_BROADCAST = 30


def patch_interface(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of the BMC's own interface. The BMC moves to another address once the answer is on its way.

    Raises PatchRefused; then nothing has changed.
    """
    properties = checked(bmc, node, properties_of(json_object(request.body)))
    if _STATIC in properties:
        properties[_STATIC] = [_shown(one) for one in properties[_STATIC]]
    after = deep_merge(bmc.template(node), properties)
    problems = list(_wrong_servers(properties))
    # What waits unused may have become another BMC's meanwhile: that matters when it is to be used.
    switched_off = "DHCPEnabled" in properties.get("DHCPv4", {}) and not addressing.leases(after)
    if _STATIC in properties or switched_off:
        problems += list(_problems(bmc, after)) or list(_missing(after))
    if problems:
        raise PatchRefused(problems)
    before = addressing.static(bmc)
    write(bmc, node, properties, request.moment)
    effects = [Readdress()] if addressing.static(bmc) != before else []
    return written(bmc, node, request.moment, effects=effects)


def _shown(element: dict[str, Any] | None) -> dict[str, Any] | None:
    return element and {"Gateway": "0.0.0.0", **element, "AddressOrigin": "Static"}


def _missing(after: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Without DHCP and without an address nobody could reach the BMC any more."""
    if not addressing.leases(after) and addressing.static_of(after) is None:
        yield message("PropertyValueConflict", "DHCPEnabled", _STATIC, related="DHCPv4/DHCPEnabled")


def _wrong_servers(properties: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for index, server in enumerate(properties.get(_SERVERS, ())):
        try:
            if server is not None:
                ip_address(server)
        except ValueError:
            yield message("PropertyValueFormatError", server[:64], _SERVERS, related=f"{_SERVERS}/{index}")


def _problems(bmc: Bmc, after: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is wrong with the static addresses as they will be."""
    for index, element in enumerate(after.get(_STATIC, ())):
        if not element:
            continue
        place = f"{_STATIC}/{index}/"
        numbers = {name: _number(element.get(name, "")) for name in ("Address", "SubnetMask", "Gateway")}
        wrong = [name for name, is_right in _FORMS.items() if not is_right(numbers[name])]
        for name in wrong:
            yield message("PropertyValueFormatError", str(element.get(name, ""))[:64], name, related=place + name)
        if wrong:
            continue
        address, mask, gateway = (numbers[name] or 0 for name in ("Address", "SubnetMask", "Gateway"))
        network = IPv4Network((address & mask, mask.bit_count()))
        if network.prefixlen <= _LONGEST_WITH_BROADCAST and address & ~mask & _ALL_ONES in (0, ~mask & _ALL_ONES):
            yield message("PropertyValueConflict", "Address", "SubnetMask", related=place + "Address")
        elif address == gateway:
            yield message("PropertyValueConflict", "Address", "Gateway", related=place + "Address")
        elif bmc.shared.network.taken(str(IPv4Address(address)), bmc.identity.bmc_mac):
            yield message(
                "PropertyValueResourceConflict",
                "Address",
                str(element["Address"]),
                bmc.tree.interface,
                related=place + "Address",
            )


def _number(text: str) -> int | None:
    try:
        return int(IPv4Address(text))
    except ValueError:
        return None


def _is_unicast(address: int | None) -> bool:
    """Whether a host can have an address (RFC 1122 3.2.1.3): neither in 0.0.0.0/8 nor from 224.0.0.0 on."""
    return address is not None and 0 < address >> 24 < 224


def _is_mask(mask: int | None) -> bool:
    """Whether a subnet mask is ones and then zeros (RFC 950), with at least one of the ones."""
    return mask is not None and mask > 0 and (inverse := ~mask & _ALL_ONES) & (inverse + 1) == 0


def _is_gateway(gateway: int | None) -> bool:
    return gateway == 0 or _is_unicast(gateway)


_FORMS: dict[str, Callable[[int | None], bool]] = {
    "Address": _is_unicast,
    "SubnetMask": _is_mask,
    "Gateway": _is_gateway,
}

NODES: dict[str, NodeHandler] = {MANAGEMENT_INTERFACE: patch_interface}
