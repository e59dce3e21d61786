"""PATCH of a resource, checked against the facts of its profile (DSP0266 7.6): all of it, or nothing."""

from collections.abc import Iterator
from typing import Any

import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.messages import message
from bmcsim.tree.compile import Node
from bmcsim.tree.profile import WritableFacts


class PatchRefused(Exception):
    """Nothing was written. messages: one Message object per property that is wrong."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        super().__init__([one["MessageId"] for one in messages])
        self.messages = messages


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request body. Raises RedfishError 400."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RedfishError(400, "MalformedJSON") from error
    if not isinstance(value, dict):
        raise RedfishError(400, "MalformedJSON")
    return value


def properties_of(changes: dict[str, Any]) -> dict[str, Any]:
    """What a body asks to change. Raises RedfishError 400 when that is nothing."""
    if not changes:
        raise RedfishError(400, "EmptyJSON")
    properties = {key: value for key, value in changes.items() if not key.startswith("@")}
    if not properties:
        raise RedfishError(400, "NoOperation")
    return properties


def apply(bmc: Bmc, node: Node, properties: dict[str, Any]) -> None:
    """Check every property, then write all. Raises PatchRefused."""
    template = bmc.template(node)
    properties = _with_arrays(properties, template)
    problems = list(_problems(node, node.template, template, properties, ""))
    if problems:
        raise PatchRefused(problems)
    if (target := bmc.tree.nodes.get(node.applies_to)) is not None:
        bmc.change(target, properties)
    bmc.change(node, properties)


def _with_arrays(changes: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    """Changes in which each array is what it will be: null removes an element, {} keeps it, a shorter one truncates
    (DSP0266 7.7)."""
    result: dict[str, Any] = {}
    for name, value in changes.items():
        present = template.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            value = _with_arrays(value, present)
        elif isinstance(value, list) and isinstance(present, list):
            kept = [present[index] if item == {} and index < len(present) else item for index, item in enumerate(value)]
            value = [item for item in kept if item is not None]
        result[name] = value
    return result


def _problems(
    node: Node, whole: dict[str, Any], template: dict[str, Any], changes: dict[str, Any], prefix: str
) -> Iterator[dict[str, Any]]:
    for name, value in changes.items():
        path = f"{prefix}{name}"
        facts = node.writable.get(path)
        if facts is not None and facts.type != "attributes":
            yield from _value_problems(path, value, facts, whole)
        elif facts is not None and isinstance(value, dict):
            yield from _attribute_problems(path, value, template.get(name, {}))
        elif (
            name in template
            and isinstance(template[name], dict)
            and isinstance(value, dict)
            and "@odata.id" not in template[name]
        ):
            yield from _problems(node, whole, template[name], value, f"{path}.")
        elif facts is not None or any(other.startswith(f"{path}.") for other in node.writable):
            yield message("PropertyValueTypeError", text_of(value), name, related=path.replace(".", "/"))
        else:
            key = "PropertyNotWritable" if name in template else "PropertyUnknown"
            yield message(key, name, related=path.replace(".", "/"))


def _attribute_problems(path: str, value: dict[str, Any], present: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, item in value.items():
        related = f"{path}/{name}"
        if name not in present:
            yield message("PropertyUnknown", name, related=related)
        elif type(item) is not type(present[name]):
            yield message("PropertyValueTypeError", text_of(item), name, related=related)


def _value_problems(path: str, value: Any, facts: WritableFacts, template: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name, related = path.rpartition(".")[2], path.replace(".", "/")
    if value is None and facts.nullable:
        return
    if not _has_type(value, facts.type):
        yield message("PropertyValueTypeError", text_of(value), name, related=related)
        return
    if isinstance(value, int | float) and not isinstance(value, bool):
        if (facts.min is not None and value < facts.min) or (facts.max is not None and value > facts.max):
            yield message("PropertyValueOutOfRange", text_of(value), name, related=related)
        return
    allowed = _allowed(facts, template)
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and len(item) > facts.max_length:
            yield message("StringValueTooLong", item[:64], str(facts.max_length), related=related)
        elif allowed is not None and item not in allowed:
            yield message("PropertyValueNotInList", text_of(item), name, related=related)


def _allowed(facts: WritableFacts, template: dict[str, Any]) -> list[Any] | None:
    if not isinstance(facts.values, str):
        return facts.values
    place: Any = template
    for step in facts.values.removeprefix("$").split("."):
        place = place.get(step, {})
    return list(place)


def _has_type(value: Any, type_: str) -> bool:
    match type_:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)


def text_of(value: Any) -> str:
    """A JSON value as an argument of a message."""
    try:
        return value if isinstance(value, str) else orjson.dumps(value).decode()[:128]
    except TypeError:
        return "(nested too deeply)"
