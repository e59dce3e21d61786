"""BMCs to look at: lists of them, one in full, and a resource as an administrator of the BMC would read it."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta
from starlette.responses import Response

from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, ControlError, Endpoint
from bmcsim.edges.control.views import FIELDS, Detail, Summary, detail, sort_keys, summary
from bmcsim.fleet.selection import PowerState, Sample, Selection, State, Word
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.identity import Kind
from bmcsim.redfish import service
from bmcsim.redfish.exchange import Head, Request
from bmcsim.redfish.injection import field

MAX_LIMIT = 20_000
_CHUNK = 250

Field = Literal[
    "id", "kind", "group", "rack", "position", "hardware", "address", "mac", "serial", "parent", "state", "power",
    "credentials", "faults", "last_contact", "requests", "errors",
]  # fmt: skip


_Few = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=20)]
"""What a URL has room for; operations take longer lists."""


class Selected(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A selection as a query. share, count, seed: its sample."""

    ids: _Few = []
    group: _Few = []
    rack: _Few = []
    hardware: _Few = []
    kind: Annotated[list[Kind], Meta(max_length=20)] = []
    state: Annotated[list[State], Meta(max_length=20)] = []
    power: Annotated[list[PowerState], Meta(max_length=20)] = []
    address: _Few = []
    q: Word = ""
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    count: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    def selection(self) -> Selection:
        """The selection."""
        sample = None
        if self.share is not None or self.count is not None:
            sample = Sample(self.share, self.count, self.seed)
        words = {name: getattr(self, name) for name in Selection.__struct_fields__ if name != "sample"}
        return Selection(**words, sample=sample)


class Listing(Selected, forbid_unknown_fields=True, kw_only=True):
    """Which BMCs, in which order, what of them. sort: `id` is the order of the fleet. fields: names, with commas."""

    sort: Field = "id"
    descending: bool = False
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    fields: Annotated[str, Meta(max_length=300)] = ""


_HINTS = get_type_hints(Summary)
_Item = msgspec.defstruct(
    "Item",
    [(name, _HINTS[name] | msgspec.UnsetType, msgspec.UNSET) for name in FIELDS],
    namespace={"__doc__": "A summary; with `fields` only those."},
)


class Page(msgspec.Struct):
    """Some BMCs of a selection. total: how many it has. next: the offset of the following page, null for none."""

    total: int
    offset: int
    next: int | None
    items: list[_Item]  # type: ignore[valid-type]


class At(msgspec.Struct, forbid_unknown_fields=True):
    """path: of a resource, such as /redfish/v1/Systems, with a query such as $expand where the BMC knows that."""

    path: Annotated[str, Meta(min_length=1, max_length=2048)]


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoints."""

    async def bmcs(call: Call) -> Response:
        return await _list(control, call.query)

    def bmc(call: Call) -> Detail:
        return detail(control, control.find(call.path["id"]))

    def redfish(call: Call) -> Response:
        return _read(control, control.find(call.path["id"]), call.query.path)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/bmcs",
            summary="List BMCs",
            handler=bmcs,
            query=Listing,
            answer=Page,
            refusals=(404,),
        ),
        Endpoint(
            method="GET",
            path="/api/v1/bmcs/{id}",
            summary="One BMC in full; id: its id, address, MAC, serial number or mat_id",
            handler=bmc,
            answer=Detail,
            refusals=(404,),
        ),
        Endpoint(
            method="GET",
            path="/api/v1/bmcs/{id}/redfish",
            summary="A resource of a BMC as its administrator reads it; faults and resets are left aside",
            handler=redfish,
            query=At,
            answer=dict[str, Any],
            refusals=(404,),
            secret=True,
        ),
    ]


async def _list(control: Control, wanted: Listing) -> Response:
    names = [name for name in wanted.fields.split(",") if name]
    if unknown := [name for name in names if name not in FIELDS]:
        raise ControlError(400, f"fields: there is no field {unknown[0]!r}; there are {', '.join(FIELDS)}")
    selection = wanted.selection()
    found = list(control.fleet) if selection.empty else await control.select(selection)
    if wanted.sort != "id":
        found = await _sorted(control, found, wanted.sort, descending=wanted.descending)
    elif wanted.descending:
        found.reverse()
    page = found[wanted.offset : wanted.offset + wanted.limit]
    items = []
    for start in range(0, len(page), _CHUNK):
        if start:
            await asyncio.sleep(0)
        shown: list[Any] = [summary(control, bmc) for bmc in page[start : start + _CHUNK]]
        if names:
            shown = [{name: getattr(one, name) for name in names} for one in shown]
        items.append(msgspec.json.encode(shown)[1:-1])
    end = wanted.offset + len(page)
    head = msgspec.json.encode(Page(len(found), wanted.offset, end if end < len(found) else None, []))
    return Response(head[:-2] + b",".join(items) + b"]}", media_type="application/json")


async def _sorted(control: Control, bmcs: Sequence[Bmc], name: str, *, descending: bool) -> list[Bmc]:
    """In the order of a field; what has it alike stays in the order of the fleet."""
    key = sort_keys(control, name)
    keys: list[Any] = []
    for start in range(0, len(bmcs), _CHUNK * 4):
        keys += [key(bmc) for bmc in bmcs[start : start + _CHUNK * 4]]
        await asyncio.sleep(0)
    order = sorted(range(len(bmcs)), key=keys.__getitem__, reverse=descending)
    return [bmcs[place] for place in order]


def _read(control: Control, bmc: Bmc, path: str) -> Response:
    uri, _, query = path.partition("?")
    answer = service.read(bmc, Request("GET", uri, control.clock.now(), Head(), query))
    if answer.status != 200:
        raise ControlError(404, f"{bmc.id} has no resource {path}")
    media = field(answer.head, b"Content-Type")
    if media is None or not media.startswith(b"application/json"):
        raise ControlError(404, f"{path} is no JSON")
    return Response(answer.body, media_type="application/json")
