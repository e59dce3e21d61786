"""Query parameters (DSP0266 7.3): $expand here; what the root does not advertise is refused."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import orjson

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.injection import ExpandedMembers
from bmcsim.tree.compile import Node

MAX_LEVELS = 6
MAX_EMBEDDED = 4096
"""Resources that one answer embeds; links beyond stay links. It bounds the time of one request."""
_EXPAND = re.compile(r"([.*~])(?:\(\$levels=(\d{1,4})\))?")


class Query(msgspec.Struct, frozen=True):
    """expand: '.', '*', '~' or '' for none; levels: how deep."""

    expand: str = ""
    levels: int = 1


def parse(text: str) -> Query:
    """Parse a raw query. Unknown parameters are ignored, unknown ones that start with $ are 501, bad values are 400."""
    query = Query()
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name == "$expand":
            match = _EXPAND.fullmatch(value.strip())
            if match is None:
                raise RedfishError(400, "QueryParameterValueFormatError", value, "$expand")
            levels = int(match[2] or 1)
            if not 1 <= levels <= MAX_LEVELS:
                raise RedfishError(400, "QueryParameterOutOfRange", str(levels), "$levels", f"1-{MAX_LEVELS}")
            query = Query(match[1], levels)
        elif name.startswith("$"):
            raise RedfishError(501, "QueryParameterUnsupported", name)
    return query


MayRead = Callable[[str, Node, Any], bool]
"""(URI, resource, member of a dynamic collection or None) -> whether somebody may read it."""


class Expander:
    """Puts resources in the place of links to them, as their own GET would show them."""

    def __init__(self, bmc: Bmc, moment: Moment, query: Query, may_read: MayRead | None = None) -> None:
        """may_read: what the caller could read by itself; None for everything."""
        self._bmc, self._moment, self._query, self._may_read = bmc, moment, query, may_read
        self._left = MAX_EMBEDDED
        self._faults = ExpandedMembers(bmc.state.faults, moment, bmc.identity.seed)

    def expand(self, body: bytes) -> bytes:
        """The body of a resource with its links expanded."""
        expanded = orjson.dumps(self._resource(orjson.loads(body), self._query.levels))
        self._bmc.count_faults(self._faults.rules, self._moment)
        return expanded

    def _resource(self, resource: dict[str, Any], levels: int) -> dict[str, Any]:
        own = resource.get("@odata.id", "")
        return {key: self._value(key, value, levels, own, inside_links=False) for key, value in resource.items()}

    def _value(self, key: str, value: Any, levels: int, own: str, *, inside_links: bool) -> Any:
        if isinstance(value, list):
            return [self._value(key, item, levels, own, inside_links=inside_links) for item in value]
        if not isinstance(value, dict):
            return value
        inside_links = inside_links or key == "Links"
        if value.keys() == {"@odata.id"}:
            wanted = self._query.expand == "*" or (self._query.expand == "~") == inside_links
            return self._linked(value, levels) if wanted and self._left and value["@odata.id"] != own else value
        return {name: self._value(name, item, levels, own, inside_links=inside_links) for name, item in value.items()}

    def _linked(self, link: dict[str, Any], levels: int) -> dict[str, Any]:
        uri = link["@odata.id"].rstrip("/")
        node = self._bmc.tree.nodes.get(uri)
        item = None
        if node is None:
            parent, _, id_ = uri.rpartition("/")
            node = self._bmc.tree.items.get(parent)
            item = self._bmc.members(node, self._moment).get(id_) if node is not None else None
            if node is None or item is None:
                return link
        if self._may_read is not None and not self._may_read(uri, node, item):
            return link
        self._left -= 1
        _, body = self._bmc.body(node).render(self._bmc, self._moment, item)
        resource: dict[str, Any] = self._faults.apply(uri, orjson.loads(body))
        return self._resource(resource, levels - 1) if levels > 1 else resource
