"""$select and excerpt (DSP0266 7.3.1, 7.3.3): parts of resources.

    selection := path ("," path)*        path := name ("/" name)* ("/"? "(" selection ")")?

`Status/Health,Links(Chassis,ManagedBy)` is a selection; `*` is every property at its place. What a resource lacks is no
error. Arrays are looked through. Resources embedded in a collection are selected from like the collection itself, so
that `$expand=.&$select=Name` means the name of each member; `Members/Name` says the same at length.
"""

import re
from collections.abc import Mapping
from typing import Any

Selection = Mapping[str, "Selection"]
"""Name -> what of its value; an empty mapping is all of it."""

MAX_LENGTH = 2048
"""Characters of a selection."""
MAX_DEPTH = 16
"""Names and parentheses below each other."""

_TOKEN = re.compile(r"\s*([,/()]|[^\s,/()]+)\s*")
_KEPT = frozenset({"@odata.id", "@odata.type", "@odata.context", "@odata.etag"})
_OF_COLLECTIONS = ("Members", "Members@odata.count", "Members@odata.nextLink")

_EXCERPTS: dict[str, frozenset[str]] = {
    "Control": frozenset(
        {
            "AllowableMax",
            "AllowableMin",
            "AllowableNumericValues",
            "ControlLoop",
            "ControlMode",
            "DefaultSetPoint",
            "Differential",
            "Integral",
            "Proportional",
            "ReadingUnits",
            "SetPoint",
            "SetPointUnits",
            "SettingMax",
            "SettingMin",
        }
    ),
    "Sensor": frozenset(
        {
            "ApparentVA",
            "ApparentkVAh",
            "CrestFactor",
            "DeviceName",
            "LifetimeReading",
            "PhaseAngleDegrees",
            "PhysicalContext",
            "PhysicalSubContext",
            "PowerFactor",
            "ReactiveVAR",
            "ReactivekVARh",
            "Reading",
            "SensorResetTime",
            "SpeedRPM",
            "THDPercent",
        }
    ),
}
"""Schema -> its properties with the annotation Redfish.Excerpt. Every other schema has none, and is shown whole."""


class SelectError(Exception):
    """The text is no selection."""


def parse(text: str) -> Selection:
    """Read a selection. Raises SelectError."""
    tokens, position = [], 0
    while position < len(text) <= MAX_LENGTH and (match := _TOKEN.match(text, position)) is not None:
        tokens.append(match[1])
        position = match.end()
    if not tokens or position < len(text):
        raise SelectError
    root: dict[str, Any] = {}
    rest = _paths(tokens[::-1], root, 0)
    if rest:
        raise SelectError
    return root


def _paths(tokens: list[str], into: dict[str, Any], depth: int) -> list[str]:
    """Put paths into a tree. tokens: what is left, last one first; what is left after them is returned."""
    tokens = _path(tokens, into, depth)
    while tokens and tokens[-1] == ",":
        tokens.pop()
        tokens = _path(tokens, into, depth)
    return tokens


def _path(tokens: list[str], into: dict[str, Any], depth: int) -> list[str]:
    if depth >= MAX_DEPTH or not tokens or tokens[-1] in ",/()":
        raise SelectError
    name = tokens.pop()
    whole = into.get(name) == {}
    below: dict[str, Any] = into.setdefault(name, {})
    if not tokens or tokens[-1] in ",)":
        below.clear()
        return tokens
    separator = tokens.pop()
    if separator == "/" and tokens and tokens[-1] == "(":
        separator = tokens.pop()
    if separator == "/":
        tokens = _path(tokens, below, depth + 1)
    elif separator == "(":
        tokens = _paths(tokens, below, depth + 1)
        if not tokens or tokens.pop() != ")" or (tokens and tokens[-1] not in ",)"):
            raise SelectError
    else:
        raise SelectError
    if whole:
        below.clear()
    return tokens


def select(selection: Selection, resource: dict[str, Any]) -> dict[str, Any]:
    """The selected properties of a resource, with their annotations and the resource's control information."""
    if "Members" in selection or not _embeds(resource):
        return _object(selection, resource)
    members = [_selected(selection, member) for member in resource["Members"]]
    own = {key: resource[key] for key in _OF_COLLECTIONS if key in resource}
    return {**_object(selection, resource), **own, "Members": members}


def _embeds(resource: dict[str, Any]) -> bool:
    """Whether a resource is a collection with more of its members than links."""
    members = resource.get("Members")
    return isinstance(members, list) and any(isinstance(one, dict) and len(one) > 1 for one in members)


def _selected(selection: Selection, value: Any) -> Any:
    if not selection or "*" in selection:
        return value
    if isinstance(value, list):
        return [_selected(selection, item) for item in value if isinstance(item, dict | list)]
    return _object(selection, value)


def _object(selection: Selection, value: dict[str, Any]) -> dict[str, Any]:
    if "*" in selection:
        return value
    shown = {}
    for key, item in value.items():
        name = key if key in selection else key.partition("@")[0]
        if key in _KEPT:
            shown[key] = item
        elif name in selection:
            inside = selection[name]
            if not inside or isinstance(item, dict | list):
                shown[key] = _selected(inside, item)
    return shown


def excerpt(value: Any) -> Any:
    """A JSON value in which each resource whose schema has an excerpt is that."""
    if isinstance(value, list):
        return [excerpt(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = str(value.get("@odata.type", "")).removeprefix("#").partition(".")[0]
    if (names := _EXCERPTS.get(kind)) is not None:
        return {key: item for key, item in value.items() if key in _KEPT or key.partition("@")[0] in names}
    return {key: excerpt(item) for key, item in value.items()}
