"""PUT of a resource, where a profile has it (DSP0266 7.8)."""

from collections.abc import Iterator
from typing import Any

import orjson

from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.outcome import NodeHandler
from bmcsim.redfish.patch import PatchRefused, checked, json_object, never_writable, properties_of, some, written
from bmcsim.tree.compile import Node


def replace(bmc: Bmc, node: Node, request: Request) -> Response:
    """What can be written is as the body says, and as it left the factory where the body does not say it.

    A client sends back what it read: a property that cannot be written may be there if it is as it is. Raises
    PatchRefused.
    """
    properties = properties_of(json_object(request.body))
    rest, refused = never_writable(node, node.template, properties)
    shown = orjson.loads(bmc.body(node).render(bmc, request.moment)[1])
    changed = set(_differing(shown, properties))
    problems = [one for one in refused if one["RelatedProperties"][0] in changed]
    if problems:
        raise PatchRefused(some(problems))
    rest = checked(bmc, node, rest)
    bmc.revert(node, request.moment)
    bmc.change(node, rest, request.moment)
    return written(bmc, node, request.moment)


def _differing(shown: dict[str, Any], body: dict[str, Any], prefix: str = "#") -> Iterator[str]:
    """Pointers to what a body has otherwise than a resource, and to the objects that it is in."""
    for name, value in body.items():
        present, pointer = shown.get(name), f"{prefix}/{name}"
        if value == present:
            continue
        if isinstance(value, dict) and isinstance(present, dict):
            inner = list(_differing(present, value, pointer))
            yield from inner
            if not inner:
                continue
        yield pointer


NODES: dict[str, NodeHandler] = {"replace": replace}
