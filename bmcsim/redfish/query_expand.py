"""$expand (DSP0266 7.3.2): resources in the place of links to them."""

from collections.abc import Callable
from typing import Any

import orjson

from bmcsim.core.clock import Moment
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.injection import ExpandedMembers
from bmcsim.redfish.query import Query
from bmcsim.tree.compile import Node

MAX_EMBEDDED = 4096
"""Resources that one answer embeds; links beyond stay links. It bounds the time of one request."""

MayRead = Callable[[str, Node, Any], bool]
"""(URI, resource, member of a dynamic collection or None) -> whether somebody may read it."""


class Reader:
    """Finds the resources that links name, as far as somebody may read them."""

    def __init__(self, bmc: Bmc, moment: Moment, may_read: MayRead | None) -> None:
        """may_read: what the caller could read by itself; None for everything."""
        self.bmc, self.moment, self._may_read = bmc, moment, may_read

    def find(self, link: str) -> tuple[str, Node, Any] | None:
        """(URI, resource, member of a dynamic collection or None), None where the caller would not get it."""
        uri = link.rstrip("/")
        node = self.bmc.tree.nodes.get(uri)
        item = None
        if node is None:
            parent, _, id_ = uri.rpartition("/")
            node = self.bmc.tree.items.get(parent)
            item = self.bmc.members(node, self.moment).get(id_) if node is not None else None
            if node is None or item is None:
                return None
        if self._may_read is not None and not self._may_read(uri, node, item):
            return None
        return uri, node, item

    def body(self, node: Node, item: Any) -> bytes:
        """What a GET shows."""
        return self.bmc.body(node).render(self.bmc, self.moment, item)[1]


class Expander:
    """Puts resources in the place of links to them, as their own GET would show them."""

    def __init__(self, reader: Reader, query: Query) -> None:
        self._reader, self._query = reader, query
        self._left = MAX_EMBEDDED
        bmc = reader.bmc
        self._faults = ExpandedMembers(bmc.state.faults, reader.moment, bmc.identity.seed)
        self._drops = bmc.shared.behaviour.query.expand_drops
        self._as_bytes = not (bmc.state.faults or self._drops or query.select or query.excerpt)

    @property
    def faults_acted(self) -> tuple[str, ...]:
        """Ids of the fault rules that did something to what was embedded."""
        return tuple(dict.fromkeys(self._faults.acted))

    def expand(self, resource: dict[str, Any]) -> dict[str, Any]:
        """A resource with its links expanded."""
        expanded = self._resource(resource, self._query.levels)
        self._count()
        return expanded

    def only(self, link: dict[str, Any]) -> tuple[Node, Any] | None:
        """The resource that a link names and what is shown of it, None where that is no more than the link."""
        found = self._reader.find(link["@odata.id"])
        if found is None:
            return None
        uri, node, item = found
        shown = self._faults.apply(uri, orjson.loads(self._reader.body(node, item)))
        self._count()
        return (node, shown) if len(shown) > 1 else None

    def _count(self) -> None:
        self._reader.bmc.count_faults(self._faults.rules, self._reader.moment)

    def _resource(self, resource: dict[str, Any], levels: int) -> dict[str, Any]:
        own = resource.get("@odata.id", "")
        return {
            key: self._value(value, levels, own, inside_links=key == "Links")
            if isinstance(value, dict | list)
            else value
            for key, value in resource.items()
        }

    def _value(self, value: Any, levels: int, own: str, *, inside_links: bool) -> Any:
        if isinstance(value, list):
            return [self._value(item, levels, own, inside_links=inside_links) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and "@odata.id" in value:
            wanted = self._query.expand == "*" or (self._query.expand == "~") == inside_links
            return self._linked(value, levels) if wanted and self._left and value["@odata.id"] != own else value
        return {
            name: self._value(item, levels, own, inside_links=inside_links or name == "Links")
            for name, item in value.items()
        }

    def _linked(self, link: dict[str, Any], levels: int) -> Any:
        found = self._reader.find(link["@odata.id"])
        if found is None:
            return link
        uri, node, item = found
        self._left -= 1
        body = self._reader.body(node, item)
        if levels == 1 and self._as_bytes:
            # Reading and writing JSON again would cost several times what the rest does.
            return orjson.Fragment(body)
        resource: dict[str, Any] = self._faults.apply(uri, orjson.loads(body))
        if self._drops:
            resource = {key: value for key, value in resource.items() if key not in self._drops}
        return self._resource(resource, levels - 1) if levels > 1 else resource
