"""What a fleet is made of: machines that come, go and move, and snapshots of all of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from bmcsim.core.clock import rfc3339
from bmcsim.edges.control.bmcs_api import Selected
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, ControlError, Endpoint
from bmcsim.fleet.journal import NotSaved
from bmcsim.fleet.members import MOST_AT_ONCE, Members
from bmcsim.fleet.operations import Failed, Move, Skipped, prepared
from bmcsim.fleet.restoring import Misfit, Restored, Snapshots
from bmcsim.fleet.roster import RosterError, Wish
from bmcsim.fleet.selection import Selection, Word
from bmcsim.fleet.snapshots import SnapshotError

BINARY = "application/octet-stream"
_OWN = ("hw_type", "dpu_per_host_count", "host_count")


class Wanted(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Machines to be added: a new group, or more of one. count: how many. hw_type, dpus: of a new group, as in the
    fleet file. settings: whatever else its [machines.NAME] table would have."""

    group: Word
    count: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)]
    hw_type: Word | None = None
    dpus: Annotated[int, Meta(ge=0, le=8)] | None = None
    settings: dict[str, Any] = {}


class Added(msgspec.Struct):
    """Machines that were added. ids: of their BMCs, those of DPUs included."""

    group: str
    machines: int
    ids: list[str]


class Which(msgspec.Struct, forbid_unknown_fields=True):
    """BMCs that go; DPUs go with their hosts, and racks as a whole."""

    selection: Selection


class Removed(msgspec.Struct):
    """ids: of all BMCs that went, those of DPUs included."""

    ids: list[str]


class To(msgspec.Struct, forbid_unknown_fields=True):
    """Where a BMC moves to. address: IPv4; null: the one that the pool or DHCP gives it."""

    address: Annotated[str, Meta(max_length=15)] | None


class Moved(msgspec.Struct):
    """Where a BMC is. address: null while it has none."""

    id: str
    address: str | None


class Partial(msgspec.Struct, forbid_unknown_fields=True):
    """partial: also where the snapshot has other BMCs than the fleet."""

    partial: bool = False


class DigestView(msgspec.Struct):
    """digest: of the states of all BMCs; equal for fleets whose states are equal. bmcs: how many there are."""

    digest: str
    bmcs: int


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoints."""

    async def add(call: Call) -> Added:
        wanted: Wanted = call.body
        if own := [key for key in _OWN if key in wanted.settings]:
            raise ControlError(400, f"settings.{own[0]}: has a field of its own: hw_type, dpus or count")
        table = dict(wanted.settings)
        if wanted.hw_type is not None:
            table["hw_type"] = wanted.hw_type
        if wanted.dpus is not None:
            table["dpu_per_host_count"] = wanted.dpus
        try:
            made = await _members(control).add(Wish(wanted.group, wanted.count, table))
        except RosterError as error:
            raise ControlError(409, str(error)) from error
        except NotSaved as error:
            raise ControlError(507, f"nothing was added: {error}") from error
        call.noted = {"group": wanted.group, "machines": wanted.count, "bmcs": len(made)}
        return Added(wanted.group, wanted.count, [bmc.id for bmc in made])

    async def remove(call: Call) -> Removed:
        which: Which = call.body
        if which.selection.empty:
            raise ControlError(400, "say which machines: the selection is empty")
        members, chosen = _members(control), await control.select(which.selection)
        if not chosen:
            raise ControlError(404, "no BMC is as the selection says")
        try:
            gone = await members.remove(chosen)
        except RosterError as error:
            raise ControlError(409, str(error)) from error
        except NotSaved as error:
            raise ControlError(507, f"nothing was removed: {error}") from error
        call.noted = {"selection": which.selection.brief, "bmcs": len(gone)}
        return Removed(gone)

    async def move(call: Call) -> Moved:
        to: To = call.body
        bmc = control.find(call.path["id"])
        try:
            await control.apply(bmc, prepared(Move(address=to.address)))
        except (Skipped, Failed) as reason:
            raise ControlError(409, f"{bmc.id}: {reason}") from None
        if to.address is not None and bmc.address != to.address:
            raise ControlError(409, f"{bmc.id}: another BMC has taken {to.address} meanwhile; choose another one")
        call.noted = {"bmc": bmc.id, "address": to.address}
        return Moved(bmc.id, bmc.address or None)

    async def take(call: Call) -> Response:
        chosen = await control.select(call.query.selection())
        if not chosen:
            raise ControlError(404, "no BMC is as the selection says")
        taken = rfc3339(control.clock.now().wall)
        call.noted = {"bmcs": len(chosen)}
        pieces = _in_turns(_snapshots(control).take(chosen, taken))
        named = f'attachment; filename="bmcsim-{taken[:19].replace(":", "")}.snapshot"'
        return StreamingResponse(
            pieces, media_type=BINARY, headers={"Content-Disposition": named, "Cache-Control": "no-store"}
        )

    async def restore(call: Call) -> Restored:
        try:
            done = await _snapshots(control).restore(call.request.stream(), partial=call.query.partial)
        except Misfit as error:
            raise ControlError(409, f"the snapshot {error}") from error
        except SnapshotError as error:
            raise ControlError(400, f"the snapshot {error}") from error
        except NotSaved as error:
            raise ControlError(507, f"nothing was restored: {error}") from error
        call.noted = {"restored": done.restored, "digest": done.digest}
        return done

    async def digest(_call: Call) -> DigestView:
        return DigestView(await _snapshots(control).digest(), len(control.fleet))

    return [
        Endpoint(
            method="POST",
            path="/api/v1/machines",
            summary="Add machines",
            handler=add,
            body=Wanted,
            answer=Added,
            status=201,
            refusals=(409, 507),
        ),
        Endpoint(
            method="DELETE",
            path="/api/v1/machines",
            summary="Remove machines",
            handler=remove,
            body=Which,
            answer=Removed,
            refusals=(404, 409, 507),
        ),
        Endpoint(
            method="POST",
            path="/api/v1/bmcs/{id}/move",
            summary="Move a BMC to another address",
            handler=move,
            body=To,
            answer=Moved,
            refusals=(404, 409, 507),
        ),
        Endpoint(
            method="GET",
            path="/api/v1/snapshot",
            summary="The state of the fleet, or of some BMCs, as a file; it is a secret",
            handler=take,
            query=Selected,
            answer=bytes,
            media=BINARY,
            refusals=(404, 409),
            secret=True,
        ),
        Endpoint(
            method="POST",
            path="/api/v1/restore",
            summary="Restore a snapshot",
            handler=restore,
            query=Partial,
            takes=BINARY,
            answer=Restored,
            refusals=(409, 507),
        ),
        Endpoint(
            method="GET",
            path="/api/v1/fleet/digest",
            summary="What is equal for fleets whose states are equal",
            handler=digest,
            answer=DigestView,
            refusals=(409,),
        ),
    ]


def _members(control: Control) -> Members:
    if control.members is None:
        raise ControlError(409, "machines come and go only where one process serves the fleet, without --shards")
    return control.members


def _snapshots(control: Control) -> Snapshots:
    if control.snapshots is None:
        raise ControlError(409, "this fleet has no snapshots")
    return control.snapshots


async def _in_turns(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)
