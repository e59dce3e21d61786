"""How far clients are with each BMC, as the BMCs saw it."""

import asyncio

import msgspec

from bmcsim.core.clock import rfc3339
from bmcsim.edges.control.bmcs_api import Selected
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, Endpoint
from bmcsim.fleet.selection import CHUNK
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.history import Milestones
from bmcsim.machine.identity import Kind


class Ingested(msgspec.Struct, kw_only=True):
    """A BMC that was contacted, with times since the process started. contact: the first request. login: the first that
    was accepted. rotation, reset: when a password was changed and the BMC was reset, both for the first time since the
    first contact. exploration: the last read without credentials, with which NICo begins each exploration."""

    id: str
    kind: Kind
    contact: str
    login: str | None
    rotation: str | None
    reset: str | None
    exploration: str | None


class Ingestion(msgspec.Struct, kw_only=True):
    """How far clients are. started: when the process did; what was before is not known. bmcs: how many BMCs there are;
    items: those that were contacted."""

    started: str
    time: str
    bmcs: int
    items: list[Ingested]


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoint."""

    async def ingestion(call: Call) -> Ingestion:
        selection = call.query.selection()
        found = list(control.fleet) if selection.empty else await control.select(selection)
        items: list[Ingested] = []
        for start in range(0, len(found), CHUNK):
            items += [_ingested(bmc, bmc.milestones) for bmc in found[start : start + CHUNK] if bmc.milestones]
            await asyncio.sleep(0)
        started, now = rfc3339(control.started), rfc3339(control.clock.now().wall)
        return Ingestion(started=started, time=now, bmcs=len(found), items=items)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/ingestion",
            summary="When BMCs were contacted, logged in to, rotated, reset and explored",
            handler=ingestion,
            query=Selected,
            answer=Ingestion,
            refusals=(404,),
        )
    ]


def _ingested(bmc: Bmc, milestones: Milestones) -> Ingested:
    return Ingested(
        id=bmc.id,
        kind=bmc.identity.kind,
        contact=rfc3339(milestones.contact),
        login=_time(milestones.login),
        rotation=_time(milestones.rotation),
        reset=_time(milestones.reset),
        exploration=_time(milestones.probe),
    )


def _time(wall: float) -> str | None:
    return rfc3339(wall) if wall else None
