"""Redfish actions (DSP0266 7.11): parameters are checked here, what happens is decided by a state machine."""

from collections.abc import Callable
from typing import Any

from bmcsim.core.errors import RedfishError
from bmcsim.machine import power
from bmcsim.machine.actions import Action as Effect
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response
from bmcsim.redfish.patch import json_object, text_of
from bmcsim.tree.compile import Action

Handler = Callable[[Bmc, dict[str, Any], Request], list[Effect]]


def run(bmc: Bmc, action: Action, request: Request) -> Response:
    """Run an action. Raises RedfishError for parameters that it does not take and states that do not allow it."""
    given = json_object(request.body) if request.body else {}
    for name in given:
        if "@" not in name and name not in action.parameters:
            raise RedfishError(400, "ActionParameterUnknown", action.name, name, related=name)
    for name, allowed in action.parameters.items():
        if name not in given:
            continue
        value = given[name]
        if not isinstance(value, str):
            raise RedfishError(400, "ActionParameterValueTypeError", text_of(value), name, action.name, related=name)
        if allowed is not None and value not in allowed:
            raise RedfishError(400, "ActionParameterValueNotInList", value[:64], name, action.name, related=name)
    return Response(204, EMPTY_HEAD, b"", HANDLERS[action.name](bmc, given, request))


def _reset_system(bmc: Bmc, given: dict[str, Any], request: Request) -> list[Effect]:
    if "ResetType" not in given:
        raise RedfishError(400, "ActionParameterMissing", "ComputerSystem.Reset", "ResetType", related="ResetType")
    try:
        return bmc.reset_system(power.Event(given["ResetType"]), request.moment)
    except power.Refused as refused:
        raise RedfishError(bmc.tree.head.behaviour.reset_conflict, "ResourceInUse", related="ResetType") from refused


def _reset_manager(bmc: Bmc, _given: dict[str, Any], request: Request) -> list[Effect]:
    """ResetType may be left out (DSP0268, Manager.Reset): every type restarts the BMC."""
    return bmc.reset_bmc(request.moment)


HANDLERS: dict[str, Handler] = {
    "ComputerSystem.Reset": _reset_system,
    "Manager.Reset": _reset_manager,
}
"""Action name -> what runs it. `profile check` refuses a profile with an action that is not here."""
