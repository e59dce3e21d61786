"""Redfish actions (DSP0266 7.11): parameters are checked here, what happens is decided by a state machine."""

from typing import Any

from bmcsim.core.errors import RedfishError
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import bios, logs, media, updates
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.oem import dell, nvidia
from bmcsim.redfish.outcome import Given, Handler, conflict, done
from bmcsim.redfish.patch import MAX_ITEMS, has_type, json_object, text_of
from bmcsim.tree.compile import Action
from bmcsim.tree.profile import ParameterFacts


def run(bmc: Bmc, action: Action, request: Request) -> Response:
    """Run an action. Raises RedfishError for parameters that it does not take and states that do not allow it."""
    given = json_object(request.body) if request.body else {}
    for name in given:
        if "@" not in name and name not in action.parameters:
            raise RedfishError(400, "ActionParameterUnknown", action.name, name, related=name)
    for name, facts in action.parameters.items():
        if name not in given:
            if facts.required:
                raise RedfishError(400, "ActionParameterMissing", action.name, name, related=name)
            continue
        value = given[name] = _spelled(given[name], facts)
        if not has_type(value, facts.type):
            shown = "(hidden)" if "Password" in name else text_of(value)
            raise RedfishError(400, "ActionParameterValueTypeError", shown, name, action.name, related=name)
        if isinstance(value, list) and len(value) > MAX_ITEMS:
            raise RedfishError(400, "ActionParameterValueError", name, action.name, related=name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str) and len(one) > facts.max_length:
                raise RedfishError(400, "ActionParameterValueError", name, action.name, related=name)
            if facts.values is not None and one not in facts.values:
                raise RedfishError(
                    400, "ActionParameterValueNotInList", text_of(one)[:64], name, action.name, related=name
                )
    return HANDLERS[action.name](bmc, action, given, request)


def _spelled(value: Any, facts: ParameterFacts) -> Any:
    """A value as the list of allowed ones spells it, where case does not matter."""
    if not facts.ignore_case or not isinstance(value, str):
        return value
    return next((one for one in facts.values or () if one.lower() == value.lower()), value)


def _reset_system(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    if "ResetType" not in given:
        raise RedfishError(400, "ActionParameterMissing", "ComputerSystem.Reset", "ResetType", related="ResetType")
    try:
        return done(bmc.reset_system(power.Event(given["ResetType"]), request.moment))
    except power.Refused as refused:
        raise conflict(bmc) from refused


_CHASSIS = {
    "On": power.Event.ON,
    "ForceOn": power.Event.FORCE_ON,
    "ForceOff": power.Event.FORCE_OFF,
    "GracefulShutdown": power.Event.GRACEFUL_SHUTDOWN,
    "GracefulRestart": power.Event.GRACEFUL_RESTART,
    "ForceRestart": power.Event.FORCE_RESTART,
    "PowerCycle": power.Event.POWER_CYCLE,
}
"""ResetType of Chassis.Reset -> what its system feels of it. FullPowerCycle also takes standby power."""


def _reset_chassis(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    """ResetType may be left out (DSP0268, Chassis.Reset): it is a power cycle then."""
    wanted = given.get("ResetType", "PowerCycle")
    if wanted == "FullPowerCycle":
        return done(bmc.ac_cycle(request.moment))
    if wanted not in _CHASSIS:
        raise RedfishError(400, "ActionParameterValueNotInList", wanted[:64], "ResetType", "Chassis.Reset")
    if wanted == "PowerCycle":
        bmc.cure(request.moment)
    try:
        return done(bmc.reset_system(_CHASSIS[wanted], request.moment))
    except power.Refused as refused:
        raise conflict(bmc) from refused


def _reset_manager(bmc: Bmc, _action: Action, _given: Given, request: Request) -> Response:
    """ResetType may be left out (DSP0268, Manager.Reset): every type restarts the BMC."""
    return done(bmc.reset_bmc(request.moment))


def _reset_to_defaults(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    if "ResetType" not in given:
        raise RedfishError(400, "ActionParameterMissing", "Manager.ResetToDefaults", "ResetType", related="ResetType")
    return done(bmc.factory_reset(given["ResetType"], request.moment))


def _reset_keys(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    """SecureBoot.ResetKeys (DSP0268): without a platform key the firmware is in setup mode and boots anything."""
    node = bmc.tree.nodes[action.uri]
    if given["ResetKeysType"] in ("DeleteAllKeys", "DeletePK"):
        bmc.change(node, {"SecureBootMode": "SetupMode", "SecureBootEnable": False}, request.moment)
    elif given["ResetKeysType"] in ("ResetAllKeysToDefault", "ResetPK"):
        factory = node.template["SecureBootMode"]
        mode = "UserMode" if factory == "SetupMode" else factory
        bmc.change(node, {"SecureBootMode": mode}, request.moment)
    return done()


HANDLERS: dict[str, Handler] = {
    "Chassis.Reset": _reset_chassis,
    "ComputerSystem.Reset": _reset_system,
    "Manager.Reset": _reset_manager,
    "Manager.ResetToDefaults": _reset_to_defaults,
    "SecureBoot.ResetKeys": _reset_keys,
    **bios.ACTIONS,
    **logs.ACTIONS,
    **media.ACTIONS,
    **dell.ACTIONS,
    **nvidia.ACTIONS,
    **updates.ACTIONS,
}
"""Action name -> what runs it. `profile check` refuses a profile with an action that is not here."""
