"""What actions and other writes have in common: their form, and the answers that say no more than that it is done."""

from collections.abc import Callable, Sequence
from typing import Any

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine import power
from bmcsim.machine.actions import Action as Effect
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import EMPTY_HEAD, JSON_HEAD, Request, Response
from bmcsim.redfish.patch import PatchRefused, vendor_refusal
from bmcsim.tree.compile import Action, Node

Given = dict[str, Any]
Handler = Callable[[Bmc, Action, Given, Request], Response]
"""(bmc, action, parameters that were given and are of the right type, request) -> answer. Raises RedfishError."""

NodeHandler = Callable[[Bmc, Node, Request], Response]
"""(bmc, resource, request) -> answer. Raises RedfishError or PatchRefused."""


def done(effects: Sequence[Effect] = (), headers: bytes = b"") -> Response:
    """The answer to an action that has nothing to tell: 204. headers: further header lines, each with CRLF."""
    return Response(204, EMPTY_HEAD + headers, b"", effects)


def with_job(uri: str, effects: Sequence[Effect] = (), *, status: int = 200) -> Response:
    """The answer to a write that a job carries out. uri: of the job."""
    return Response(status, JSON_HEAD + f"Location: {uri}\r\n".encode(), b"{}", effects)


def reset(bmc: Bmc, event: power.Event, moment: Moment) -> Response:
    """Give the system a power command. Raises RedfishError or PatchRefused for one that its state does not allow."""
    try:
        return done(bmc.reset_system(event, moment))
    except power.Refused as refused:
        leads_to = power.LEADS_TO.get(refused.state, {})
        if bmc.shared.behaviour.reset_conflict != 204 or event not in leads_to:
            raise conflict(bmc) from refused
        instead = leads_to[event]
        return done(bmc.reset_system(instead, moment) if instead is not None else ())


def conflict(bmc: Bmc) -> RedfishError | PatchRefused:
    """The refusal of a reset that the power state does not allow."""
    behaviour = bmc.shared.behaviour
    status = 409 if behaviour.reset_conflict == 204 else behaviour.reset_conflict
    if behaviour.reset_conflict_message is not None:
        return vendor_refusal(status, behaviour.reset_conflict_message, "ResetType")
    return RedfishError(status, "ResourceInUse", related="ResetType")
