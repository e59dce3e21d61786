"""Boot order as clients write it (DSP0268, ComputerSystem.Boot)."""

from typing import Any

from bmcsim.machine import boot
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.messages import message
from bmcsim.redfish.outcome import NodeHandler
from bmcsim.redfish.patch import PatchRefused, checked, json_object, properties_of, write, written
from bmcsim.tree.compile import Node

_ORDER = "BootOrder"


def read(bmc: Bmc, node: Node, request: Request) -> tuple[dict[str, Any], list[str] | None]:
    """What a PATCH of a system or of its settings asks for: properties, and apart from them the whole new boot order.

    An order that names only some options puts these first. Raises PatchRefused; nothing is written.
    """
    properties = checked(bmc, node, properties_of(json_object(request.body)))
    wanted = properties.get("Boot", {}).get(_ORDER)
    if wanted is None:
        return properties, None
    if boot.repeated(wanted) is not None:
        raise PatchRefused([message("PropertyValueError", _ORDER, related=f"Boot/{_ORDER}")])
    rest = {name: value for name, value in properties["Boot"].items() if name != _ORDER}
    order = boot.completed(wanted, order_of(bmc))
    left = {**properties, "Boot": rest} if rest else {name: one for name, one in properties.items() if name != "Boot"}
    return left, order


def order_of(bmc: Bmc) -> list[str]:
    """The boot order of the system as it is."""
    system = bmc.tree.nodes[bmc.tree.head.roles.system]
    return list(bmc.template(system)["Boot"][_ORDER])


def listed(bmc: Bmc, order: list[str]) -> dict[str, Any]:
    """What the collection of boot options shows where it follows the boot order."""
    system = bmc.tree.head.roles.system
    return {"Members": [{"@odata.id": f"{system}/BootOptions/{option}"} for option in order]}


def _patch(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of a system, or of settings that count at once."""
    properties, order = read(bmc, node, request)
    if order is not None:
        properties = {**properties, "Boot": {**properties.get("Boot", {}), _ORDER: order}}
    write(bmc, node, properties, request.moment)
    return written(bmc, node, request.moment)


NODES: dict[str, NodeHandler] = {"boot_order": _patch}
