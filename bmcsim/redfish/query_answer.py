"""What query parameters make of a resource, in the order of DSP0266 7.3.1: $filter, $skip and $top, then $expand, then
excerpt and $select."""

from typing import Any
from urllib.parse import quote, unquote_plus

import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import query_filter, query_select
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.query import Query
from bmcsim.redfish.query_expand import Expander, MayRead, Reader
from bmcsim.tree.compile import Node

_COUNT = "Members@odata.count"
_UNQUOTED = "%!$&'()*+,;=:@/?-._~"


def answer(bmc: Bmc, request: Request, node: Node, query: Query, body: bytes, may_read: MayRead | None) -> Response:
    """The answer to a read. body: of the resource. may_read: what the caller could read by itself, None for everything.

    It has no ETag: a part of a resource is not the resource. Raises RedfishError.
    """
    if query.of_collection and not node.collection:
        raise RedfishError(400, "QueryNotSupportedOnResource")
    reader = Reader(bmc, request.moment, may_read)
    expander = Expander(reader, query)
    resource: dict[str, Any] = orjson.loads(body)
    if query.only and len(resource["Members"]) == 1 and (member := expander.only(resource["Members"][0])) is not None:
        node, resource = member
    if query.filter is not None:
        members = [one for one in resource["Members"] if _matches(reader, query.filter, one)]
        resource |= {"Members": members, _COUNT: len(members)}
    if query.top is not None or query.skip is not None:
        resource = _page(resource, query, request.query)
    if query.expand:
        resource = expander.expand(resource)
    if query.excerpt:
        resource = query_select.excerpt(resource)
    if query.select is not None:
        resource = query_select.select(query.select, resource)
    return Response(200, node.head, orjson.dumps(resource), faults=expander.faults_acted)


def _matches(reader: Reader, condition: query_filter.Condition, member: dict[str, Any]) -> bool:
    """Whether a member fulfils a condition, as a whole, however much of it the collection shows.

    One that the caller may not read never does, because the answer would tell what is in it.
    """
    if len(member) > 1:
        return query_filter.holds(condition, member)
    found = reader.find(member["@odata.id"])
    if found is None:
        return False
    _, node, item = found
    return query_filter.holds(condition, orjson.loads(reader.body(node, item)))


def _page(resource: dict[str, Any], query: Query, raw: str) -> dict[str, Any]:
    """One page of a collection; the count stays that of all pages (DSP0266 7.2)."""
    members = resource["Members"]
    skip = query.skip or 0
    end = len(members) if query.top is None else skip + query.top
    page = {**resource, "Members": members[skip:end]}
    if end < len(members):
        page["Members@odata.nextLink"] = f"{resource['@odata.id']}?{_following(raw, end)}"
    return page


def _following(raw: str, skip: int) -> str:
    """A raw query with another $skip; everything else as the client wrote it, as far as a URI may have it."""
    others = [part for part in raw.split("&") if part and unquote_plus(part.partition("=")[0]) != "$skip"]
    return quote("&".join([*others, f"$skip={skip}"]), safe=_UNQUOTED, errors="replace")
