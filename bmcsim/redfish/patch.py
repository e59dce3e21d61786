"""PATCH of a resource, checked against the facts of its profile (DSP0266 7.6): all of it, or nothing."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import orjson

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import EMPTY_HEAD, Response
from bmcsim.redfish.messages import message, vendor_message
from bmcsim.tree.compile import Node
from bmcsim.tree.profile import VendorMessage, WritableFacts

MAX_PROBLEMS = 64
MAX_ITEMS = 64
"""Elements of an array that a client writes."""


class PatchRefused(Exception):
    """Nothing was written. messages: one Message object per property that is wrong."""

    def __init__(self, messages: list[dict[str, Any]], status: int = 400) -> None:
        super().__init__([one["MessageId"] for one in messages])
        self.messages = messages
        self.status = status


def vendor_refusal(status: int, own: VendorMessage, related: str = "") -> PatchRefused:
    """A refusal in a vendor's own words."""
    return PatchRefused([vendor_message(own, related)], status)


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
    properties = without_annotations(changes)
    if not properties:
        raise RedfishError(400, "NoOperation")
    return properties


def without_annotations(body: dict[str, Any]) -> dict[str, Any]:
    """The properties of a body."""
    return {name: value for name, value in body.items() if not name.startswith("@")}


def apply(bmc: Bmc, node: Node, properties: dict[str, Any], moment: Moment) -> None:
    """Check every property, then write all. Raises PatchRefused."""
    write(bmc, node, checked(bmc, node, properties), moment)


def checked(bmc: Bmc, node: Node, properties: dict[str, Any]) -> dict[str, Any]:
    """Properties as they will be written. Raises PatchRefused."""
    template = bmc.template(node)
    properties = _with_arrays(properties, template)
    lists = bmc.tree.nodes[node.settings.of].template if node.settings is not None else node.template
    problems = some(_problems(node, lists, template, properties, ""))
    problems = problems or some(_conflicts(node, {**template, **properties}, properties))
    if problems:
        raise PatchRefused(problems)
    return properties


def some(problems: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of the problems: a body of many wrong properties is not answered with many times its size."""
    return list(islice(problems, MAX_PROBLEMS))


def write(bmc: Bmc, node: Node, properties: dict[str, Any], moment: Moment) -> None:
    """Write what was checked, here and where the profile says that it shows too."""
    if (target := bmc.tree.nodes.get(node.applies_to)) is not None:
        bmc.change(target, properties, moment)
    bmc.change(node, properties, moment)


def written(bmc: Bmc, node: Node, moment: Moment, item: Any = None, effects: Sequence[Action] = ()) -> Response:
    """The answer to a write of a resource: 204 with its new entity tag."""
    etag = bmc.body(node).render(bmc, moment, item)[0]
    return Response(204, EMPTY_HEAD + b"ETag: " + etag + b"\r\n", b"", effects)


def problems_of(node: Node, changes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The first of what the facts of a template of members say against a change."""
    return islice(_problems(node, node.template, node.template, changes, ""), MAX_PROBLEMS)


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
            yield from attribute_problems(path, value, template.get(name, {}), facts)
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


def _conflicts(node: Node, after: dict[str, Any], changes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Numbers that would be less than another one that they may not be less than."""
    for name, facts in node.writable.items():
        other = facts.not_below
        if other and (name in changes or other in changes) and after[name] < after[other]:
            sent, kept = (name, other) if name in changes else (other, name)
            yield message("PropertyValueConflict", sent, kept, related=sent)


def attribute_problems(
    path: str, value: dict[str, Any], present: dict[str, Any], facts: WritableFacts
) -> Iterator[dict[str, Any]]:
    """What is wrong with values of a table of attributes. present: the table as it is."""
    for name, item in value.items():
        related = f"{path}/{name}"
        choices = facts.choices.get(name)
        if name not in present:
            yield message("PropertyUnknown", name, related=related)
        elif name in facts.read_only:
            yield message("PropertyNotWritable", name, related=related)
        elif not _alike(item, present[name]):
            shown = "(hidden)" if "Password" in name else text_of(item)
            yield message("PropertyValueTypeError", shown, name, related=related)
        elif isinstance(item, str) and len(item) > facts.max_length:
            yield message("StringValueTooLong", item[:64], str(facts.max_length), related=related)
        elif choices is not None and item not in choices:
            yield message("PropertyValueNotInList", item, name, related=related)


def _alike(value: Any, present: Any) -> bool:
    """Whether a value has the type of another one."""
    if isinstance(present, str):
        return isinstance(value, str)
    return type(value) is type(present)


def _value_problems(path: str, value: Any, facts: WritableFacts, template: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name, related = path.rpartition(".")[2], path.replace(".", "/")
    if value is None and facts.nullable:
        return
    if not has_type(value, facts.type):
        yield message("PropertyValueTypeError", text_of(value), name, related=related)
        return
    if isinstance(value, int | float) and not isinstance(value, bool):
        if (facts.min is not None and value < facts.min) or (facts.max is not None and value > facts.max):
            yield message("PropertyValueOutOfRange", text_of(value), name, related=related)
        return
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        yield message("PropertyValueError", name, related=related)
        return
    allowed = _allowed(facts, template)
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and len(item) > facts.max_length:
            yield message("StringValueTooLong", item[:64], str(facts.max_length), related=related)
        elif isinstance(item, str) and facts.pattern and re.fullmatch(facts.pattern, item) is None:
            yield message("PropertyValueFormatError", item[:64], name, related=related)
        elif allowed is not None and item not in allowed:
            yield message("PropertyValueNotInList", text_of(item), name, related=related)


def _allowed(facts: WritableFacts, template: dict[str, Any]) -> list[Any] | None:
    if not isinstance(facts.values, str):
        return facts.values
    place: Any = template
    for step in facts.values.removeprefix("$").split("."):
        place = place.get(step, {})
    return list(place)


def has_type(value: Any, type_: str) -> bool:
    """Whether a JSON value has a type: string, boolean, integer, number, object or strings (a list of them)."""
    match type_:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case _:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)


def text_of(value: Any) -> str:
    """A JSON value as an argument of a message."""
    try:
        return value[:128] if isinstance(value, str) else orjson.dumps(value).decode()[:128]
    except TypeError:
        return "(nested too deeply)"
