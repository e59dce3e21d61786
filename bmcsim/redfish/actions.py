"""Redfish actions (DSP0266 7.11): parameters are checked here, what happens is decided by a state machine."""

import re
from typing import Any

import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.resources import timestamp
from bmcsim.redfish import bios, certificates, events, logs, media, updates
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.oem import dell, nvidia
from bmcsim.redfish.outcome import Given, Handler, done, reset
from bmcsim.redfish.patch import APPLY_TIME, has_type, json_object, text_of
from bmcsim.tree.compile import Action
from bmcsim.tree.profile import ParameterFacts


def run(bmc: Bmc, action: Action, request: Request) -> Response:
    """Run an action. Raises RedfishError for parameters that it does not take and states that do not allow it."""
    given = _given(bmc, action, request)
    if APPLY_TIME in given and APPLY_TIME not in action.parameters:
        raise RedfishError(400, "ActionParameterNotSupported", APPLY_TIME, action.name, related=APPLY_TIME)
    _check_names(action.name, "", given, action.parameters)
    for name, facts in action.parameters.items():
        if name in given:
            given[name] = _spelled(given[name], facts)
            _check(action.name, name, given[name], facts)
    return HANDLERS[action.name](bmc, action, given, request)


def _check_names(action: str, prefix: str, given: Given, known: dict[str, ParameterFacts]) -> None:
    """Raises RedfishError 400 for a name that is not known, and a required one that is missing."""
    for name in given:
        if "@" not in name and name not in known:
            raise RedfishError(400, "ActionParameterUnknown", action, f"{prefix}{name}", related=f"{prefix}{name}")
    for name, facts in known.items():
        if facts.required and name not in given:
            raise RedfishError(400, "ActionParameterMissing", action, f"{prefix}{name}", related=f"{prefix}{name}")


def _check(action: str, path: str, value: Any, facts: ParameterFacts) -> None:
    """Raises RedfishError 400 for a value that a parameter does not take. path: with slashes, inside of objects."""
    hidden = "Password" in path or path == "CertificateString"
    if not has_type(value, facts.type):
        shown = "(hidden)" if hidden else text_of(value)
        raise RedfishError(400, "ActionParameterValueTypeError", shown, path, action, related=path)
    if isinstance(value, list) and len(value) > facts.max_items:
        raise RedfishError(400, "ActionParameterValueError", path, action, related=path)
    if has_type(value, "number") and (
        (facts.min is not None and value < facts.min) or (facts.max is not None and value > facts.max)
    ):
        raise RedfishError(400, "ActionParameterValueOutOfRange", text_of(value), path, action, related=path)
    for index, one in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(one, str) and len(one) > facts.max_length:
            raise RedfishError(400, "ActionParameterValueError", path, action, related=path)
        if isinstance(one, str) and facts.pattern and re.fullmatch(facts.pattern, one) is None:
            shown = "(hidden)" if hidden else one[:64]
            raise RedfishError(400, "ActionParameterValueFormatError", shown, path, action, related=path)
        if facts.values is not None and one not in facts.values:
            raise RedfishError(400, "ActionParameterValueNotInList", text_of(one)[:64], path, action, related=path)
        if isinstance(one, dict) and facts.properties:
            place = f"{path}/{index}/" if isinstance(value, list) else f"{path}/"
            _check_names(action, place, one, facts.properties)
            for name, inner in facts.properties.items():
                if name in one:
                    _check(action, f"{place}{name}", one[name], inner)


def _given(bmc: Bmc, action: Action, request: Request) -> Given:
    """The parameters of a request, whose body may be left out where the vendor does not mind."""
    strictness = bmc.shared.behaviour.action_body
    if strictness == "typed":
        request.head.require_json()
    given = json_object(request.body, action.name) if request.body or strictness == "required" else {}
    if strictness == "forbidden" and request.body and not given:
        raise RedfishError(400, "UnrecognizedRequestBody")
    return given


def _spelled(value: Any, facts: ParameterFacts) -> Any:
    """A value as the list of allowed ones spells it, where case does not matter."""
    if not facts.ignore_case or not isinstance(value, str):
        return value
    return next((one for one in facts.values or () if one.lower() == value.lower()), value)


def _reset_system(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    if "ResetType" not in given:
        raise RedfishError(400, "ActionParameterMissing", "ComputerSystem.Reset", "ResetType", related="ResetType")
    return reset(bmc, power.Event(given["ResetType"]), request.moment)


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
    return reset(bmc, _CHASSIS[wanted], request.moment)


def _reset_manager(bmc: Bmc, action: Action, _given: Given, request: Request) -> Response:
    """ResetType may be left out (DSP0268, Manager.Reset): every type restarts the BMC.

    A manager behind the BMC restarts by itself, and shows only when.
    """
    if action.uri == bmc.tree.head.roles.manager:
        return done(bmc.reset_bmc(request.moment))
    now = orjson.loads(timestamp(bmc.wall(request.moment), bmc.state.clock_offset))
    bmc.change(bmc.tree.nodes[action.uri], {"LastResetTime": now}, request.moment)
    return done()


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
    **certificates.ACTIONS,
    **events.ACTIONS,
    **logs.ACTIONS,
    **media.ACTIONS,
    **dell.ACTIONS,
    **nvidia.ACTIONS,
    **updates.ACTIONS,
}
"""Action name -> what runs it. `profile check` refuses a profile with an action that is not here."""
