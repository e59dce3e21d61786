"""Deep PATCH (DSP0266 7.13): the parts of a body that are about resources below the one that is patched.

Where a resource links to one below it, the body may have what is to change there. Each part is as a PATCH of its own,
with the same privileges; `@odata.etag` in a part stands for the If-Match of that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeGuard

import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Account
from bmcsim.redfish import privileges
from bmcsim.redfish.conditions import matches
from bmcsim.redfish.exchange import Request
from bmcsim.redfish.patch import PatchRefused, json_object, text_of, vendor_refusal, without_annotations
from bmcsim.redfish.query_expand import Reader
from bmcsim.tree.compile import Node

MAX_PARTS = 256
"""Resources that one request changes."""


class Part(NamedTuple):
    """What is to change in one resource. path: in the body, with slashes. item: the member of a dynamic collection."""

    path: str
    node: Node
    item: Any
    body: dict[str, Any]


def parts(bmc: Bmc, account: Account, node: Node, item: Any, request: Request) -> tuple[dict[str, Any], list[Part]]:
    """(what a body asks of the resource itself, what it asks of those below it), outer ones first.

    Raises RedfishError or PatchRefused for a part that lies deeper than this firmware goes, that the caller may not
    change, or whose entity tag is not the present one, and for a resource that two parts are about.
    """
    splitter = _Splitter(bmc, account, request)
    own = splitter.split(node, item, json_object(request.body), "", bmc.shared.behaviour.deep.levels)
    return own, splitter.found


@contextmanager
def at(path: str) -> Iterator[None]:
    """Errors of a part say where in the whole body they are."""
    try:
        yield
    except RedfishError as error:
        related = f"{path}/{error.related}" if error.related else path
        raise RedfishError(
            error.status, error.message, *error.arguments, related=related, headers=error.headers
        ) from error
    except PatchRefused as refused:
        raise PatchRefused([_moved(one, path) for one in refused.messages], refused.status) from refused


def _moved(message: dict[str, Any], path: str) -> dict[str, Any]:
    related = [f"#/{path}/{one.removeprefix('#/')}" for one in message.get("RelatedProperties", ())]
    return {**message, "RelatedProperties": related or [f"#/{path}"]}


class _Splitter:
    def __init__(self, bmc: Bmc, account: Account, request: Request) -> None:
        self._bmc, self._account, self._request = bmc, account, request
        self._reader = Reader(bmc, request.moment, None)
        self._changed = {request.path.rstrip("/")}
        self.found: list[Part] = []

    def split(self, node: Node, item: Any, body: dict[str, Any], path: str, levels: int) -> dict[str, Any]:
        """What of a body is about the resource itself; the rest is put into `found`."""
        if not any(isinstance(value, dict | list) for value in body.values()):
            return body
        shown = orjson.loads(self._reader.body(node, item))
        return self._object(shown, body, path, levels)

    def _object(self, shown: dict[str, Any], body: dict[str, Any], path: str, levels: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        for name, value in body.items():
            present, place = shown.get(name), f"{path}{name}"
            # What Links names are other resources, not ones below this.
            if name == "Links":
                own[name] = value
            elif isinstance(value, dict) and isinstance(present, dict):
                if "@odata.id" in present:
                    if not self._link(present, value, place, levels):
                        own[name] = value
                elif (inner := self._object(present, value, f"{place}/", levels)) or not value:
                    own[name] = inner
            elif isinstance(value, list) and _are_links(present) and self._links(present, value, place, levels):
                continue
            else:
                own[name] = value
        return own

    def _link(self, link: dict[str, Any], body: dict[str, Any], path: str, levels: int) -> bool:
        """Whether an object in the place of a link is about the resource there."""
        if not without_annotations(body):
            return False
        if body.get("@odata.id", link["@odata.id"]) != link["@odata.id"]:
            raise RedfishError(400, "PropertyNotWritable", "@odata.id", related=f"{path}/@odata.id")
        found = self._reader.find(link["@odata.id"])
        if found is None or not levels:
            # Beyond its levels a link is nothing but a link.
            raise RedfishError(400, "PropertyNotWritable", path.rpartition("/")[2], related=path)
        self._take(found, body, path, levels)
        return True

    def _links(self, links: list[dict[str, Any]], body: list[Any], path: str, levels: int) -> bool:
        """Whether an array in the place of an array of links is about the resources there. Each element names its
        resource, or stands where it stands; {} is about nothing."""
        if not all(isinstance(one, dict) for one in body) or len(body) > len(links):
            return False
        uris = {one["@odata.id"]: one for one in links}
        for index, element in enumerate(body):
            named = element.get("@odata.id", links[index]["@odata.id"])
            link = uris.get(named) if isinstance(named, str) else None
            if link is None:
                wrong = text_of(element["@odata.id"])
                raise RedfishError(400, "InvalidObject", wrong, related=f"{path}/{index}/@odata.id")
            if without_annotations(element) and not self._link(link, element, f"{path}/{index}", levels):
                return False
        return True

    def _take(self, found: tuple[str, Node, Any], body: dict[str, Any], path: str, levels: int) -> None:
        if len(self.found) >= MAX_PARTS:
            raise RedfishError(413, "PayloadTooLarge")
        uri, node, item = found
        place = len(self.found)
        own = self.split(node, item, body, f"{path}/", levels - 1)
        if not without_annotations(own):
            return
        if uri in self._changed:
            # Each part is checked against the resource as it is now, so one of the two would be lost.
            raise RedfishError(400, "PropertyDuplicate", uri, related=path)
        self._changed.add(uri)
        with at(path):
            self._check(node, item, own)
        self.found.insert(place, Part(path, node, item, own))

    def _check(self, node: Node, item: Any, body: dict[str, Any]) -> None:
        """What a PATCH of the part alone would be asked before its body is looked at."""
        bmc = self._bmc
        if "PATCH" not in node.allow.split(", "):
            name = next(iter(without_annotations(body)))
            raise RedfishError(400, "PropertyNotWritable", name, related=name)
        privileges.check(bmc, self._account, "PATCH", node, item, orjson.dumps(body))
        lock = bmc.shared.behaviour.lockdown
        if lock is not None and "PATCH" in node.lockdown and bmc.locked_down:
            raise vendor_refusal(403, lock.message)
        expected = body.get("@odata.etag")
        if expected is None:
            if "PATCH" in bmc.shared.behaviour.requires_precondition:
                raise RedfishError(428, "PreconditionRequired", related="@odata.etag")
            return
        etag = bmc.body(node).render(bmc, self._request.moment, item)[0]
        if not isinstance(expected, str) or not matches(expected.encode(), etag, strong=True):
            raise RedfishError(412, "PreconditionFailed", related="@odata.etag")


def _are_links(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(one, dict) and "@odata.id" in one for one in value)
