"""PATCH of a resource, checked against the facts of its profile (DSP0266 7.6): all of it, or nothing."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeGuard

import orjson

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import EMPTY_HEAD, Response
from bmcsim.redfish.messages import message, vendor_message
from bmcsim.tree.compile import Node
from bmcsim.tree.profile import VendorMessage, WritableFacts
from bmcsim.tree.source import deep_merge
from bmcsim.tree.template import deeper_than

MAX_PROBLEMS = 64
MAX_ITEMS = 64
"""Elements of an array that a client writes."""
MAX_DEPTH = 64
"""Objects and arrays in each other in the body of a write."""
APPLY_TIME = "@Redfish.OperationApplyTime"
"""When an operation is to be carried out (DSP0266 7.12)."""
_ARRAYS = ("strings", "objects")


class PatchRefused(Exception):
    """Nothing was written. messages: one Message object per property that is wrong."""

    def __init__(self, messages: list[dict[str, Any]], status: int = 400) -> None:
        super().__init__([one["MessageId"] for one in messages])
        self.messages = messages
        self.status = status


def vendor_refusal(status: int, own: VendorMessage, related: str = "") -> PatchRefused:
    """A refusal in a vendor's own words."""
    return PatchRefused([vendor_message(own, related)], status)


def json_object(body: bytes, action: str = "") -> dict[str, Any]:
    """The JSON object of a request body. action: whose parameters it holds, if it does. Raises RedfishError 400."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RedfishError(400, "MalformedJSON") from error
    if not isinstance(value, dict) or _is_too_deep(body, value):
        raise RedfishError(400, "MalformedJSON")
    if (twice := _repeated(body)) is not None:
        if action:
            raise RedfishError(400, "ActionParameterDuplicate", action, twice)
        raise RedfishError(400, "PropertyDuplicate", twice)
    return value


def _is_too_deep(body: bytes, value: Any) -> bool:
    """Whether a JSON value is nested deeper than MAX_DEPTH: what walks through a body recurses. body: its text."""
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return False
    return deeper_than(MAX_DEPTH, value)


class _RepeatedError(Exception):
    """An object has a name twice."""


def _unique(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for name, _ in pairs:
        if name in seen:
            raise _RepeatedError(name)
        seen.add(name)


def _repeated(body: bytes) -> str | None:
    """A name that some object of a well-formed JSON text has twice: which of the two counts nobody says (RFC 8259 4).

    What is nested deeper than Python reads is not looked at: no property is as deep.
    """
    try:
        json.loads(body, object_pairs_hook=_unique)
    except _RepeatedError as repeated:
        return str(repeated)
    except RecursionError:
        return None
    return None


def properties_of(changes: dict[str, Any]) -> dict[str, Any]:
    """What a body asks to change. Raises RedfishError 400 when that is nothing."""
    if not changes:
        raise RedfishError(400, "EmptyJSON")
    properties = without_annotations(changes)
    if not properties:
        raise RedfishError(400, "NoOperation")
    return properties


def without_annotations(body: dict[str, Any]) -> dict[str, Any]:
    """The properties of a body and of the objects in it; what is said about them is ignored (DSP0266 7.6)."""
    return {
        name: without_annotations(value) if isinstance(value, dict) else value
        for name, value in body.items()
        if "@" not in name
    }


def apply(bmc: Bmc, node: Node, properties: dict[str, Any], moment: Moment) -> None:
    """Check every property, then write all. Raises PatchRefused."""
    write(bmc, node, checked(bmc, node, properties), moment)


def checked(bmc: Bmc, node: Node, properties: dict[str, Any]) -> dict[str, Any]:
    """Properties as they will be written. Raises PatchRefused."""
    template = bmc.template(node)
    lists = bmc.tree.nodes[node.settings.of].template if node.settings is not None else node.template
    problems = some(_problems(node, lists, template, properties, ""))
    problems = problems or some(_conflicts(node, {**template, **properties}, properties))
    if problems:
        raise PatchRefused(problems)
    return with_arrays(node, properties, template)


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


def annotated(
    bmc: Bmc, node: Node, item: Any, moment: Moment, response: Response, refused: list[dict[str, Any]]
) -> Response:
    """The answer to a write of which a part was not done: 200 with the resource, and at each property that was not
    written what is said of it (DSP0266 7.6, 9.8.2). response: to the part that was done."""
    etag, body = bmc.body(node).render(bmc, moment, item)
    resource = orjson.loads(body)
    for one in refused:
        # A name that the client made up may be empty, or have slashes: then there is no such place.
        *above, name = one.get("RelatedProperties", [""])[0].removeprefix("#/").split("/")
        place: Any = resource
        for step in above:
            place = place.get(step) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[f"{name}@Message.ExtendedInfo"] = [one]
    resource["@Message.ExtendedInfo"] = refused
    location = [line + b"\r\n" for line in response.head.split(b"\r\n") if line.startswith(b"Location: ")]
    head = b"".join([node.head, b"ETag: ", etag, b"\r\n", *location])
    return Response(200, head, orjson.dumps(resource), response.actions)


def problems_of(node: Node, changes: dict[str, Any], present: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """The first of what the facts of a template of members say against a change. present: arrays of the member."""
    template = {**node.template, **present} if present else node.template
    return islice(_problems(node, node.template, template, changes, ""), MAX_PROBLEMS)


def never_writable(
    node: Node, template: dict[str, Any], changes: dict[str, Any], prefix: str = ""
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what of a change can be written if its values are right, what is said of the rest): DSP0266 7.6.

    Tables of attributes and arrays are not taken apart.
    """
    rest: dict[str, Any] = {}
    refused: list[dict[str, Any]] = []
    for name, value in changes.items():
        path, inner = f"{prefix}{name}", template.get(name)
        if path not in node.writable and isinstance(value, dict) and _is_object(inner):
            below, said = never_writable(node, inner, value, f"{path}.")
            refused += said
            if below or not said:
                rest[name] = below
        elif _is_known(node, name, path):
            rest[name] = value
        else:
            refused.append(_refusal(name, path, template))
    return rest, refused


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether something in a template is an object, and not a link."""
    return isinstance(value, dict) and "@odata.id" not in value


def _is_known(node: Node, name: str, path: str) -> bool:
    """Whether something at a path, or below it, can be written."""
    return "." not in name and (path in node.writable or any(one.startswith(f"{path}.") for one in node.writable))


def _refusal(name: str, path: str, template: dict[str, Any]) -> dict[str, Any]:
    key = "PropertyNotWritable" if name in template else "PropertyUnknown"
    return message(key, name, related=path.replace(".", "/"))


def with_arrays(node: Node, changes: dict[str, Any], template: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Checked changes in which each array is what it will be."""
    result: dict[str, Any] = {}
    for name, value in changes.items():
        path, present = f"{prefix}{name}", template.get(name)
        facts = node.writable.get(path)
        if isinstance(value, list) and facts is not None:
            value = array_after(value, present if isinstance(present, list) else [], facts)
        elif isinstance(value, dict) and isinstance(present, dict) and facts is None:
            value = with_arrays(node, value, present, f"{path}.")
        result[name] = value
    return result


def array_after(change: list[Any], present: list[Any], facts: WritableFacts) -> list[Any]:
    """What an array is after a PATCH: null removes an element, {} keeps it, an object changes it, a shorter array
    truncates (DSP0266 7.7). One with a length is filled up with null."""
    after: list[Any] = []
    for index, item in enumerate(change):
        old = present[index] if index < len(present) else None
        if item == {}:
            item = old
        elif isinstance(item, dict) and isinstance(old, dict):
            item = deep_merge(old, item)
        after.append(item)
    if not facts.rigid:
        after = [item for item in after if item is not None]
    while len(after) > facts.length and after and after[-1] is None:
        after.pop()
    return after + [None] * (facts.length - len(after))


def _problems(
    node: Node, whole: dict[str, Any], template: dict[str, Any], changes: dict[str, Any], prefix: str
) -> Iterator[dict[str, Any]]:
    for name, value in changes.items():
        path = f"{prefix}{name}"
        facts = node.writable.get(path) if "." not in name else None
        if facts is not None and facts.type in _ARRAYS and isinstance(value, list):
            yield from _array_problems(path, value, template.get(name), facts, whole)
        elif facts is not None and facts.type != "attributes":
            yield from _value_problems(path, value, facts, whole)
        elif facts is not None and isinstance(value, dict):
            yield from attribute_problems(path, value, template.get(name, {}), facts)
        elif isinstance(value, dict) and _is_object(template.get(name)):
            yield from _problems(node, whole, template[name], value, f"{path}.")
        elif _is_known(node, name, path):
            yield message("PropertyValueTypeError", text_of(value), name, related=path.replace(".", "/"))
        else:
            yield _refusal(name, path, template)


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
    yield from _text_problems(path, value, facts, _allowed(facts, template))


def _text_problems(path: str, value: Any, facts: WritableFacts, allowed: list[Any] | None) -> Iterator[dict[str, Any]]:
    name, related = path.rpartition(".")[2], path.replace(".", "/")
    if isinstance(value, str) and len(value) > facts.max_length:
        yield message("StringValueTooLong", value[:64], str(facts.max_length), related=related)
    elif isinstance(value, str) and facts.pattern and re.fullmatch(facts.pattern, value) is None:
        yield message("PropertyValueFormatError", value[:64], name, related=related)
    elif allowed is not None and value not in allowed:
        yield message("PropertyValueNotInList", text_of(value), name, related=related)


def _array_problems(
    path: str, change: list[Any], present: Any, facts: WritableFacts, whole: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """What is wrong with an array as a client sent it: null and {} may stand for elements (DSP0266 7.7)."""
    name, related = path.rpartition(".")[2], path.replace(".", "/")
    present, limit = present if isinstance(present, list) else [], facts.length or facts.max_items
    if len(change) > MAX_ITEMS or len(array_after(change, present, facts)) > limit:
        yield message("ArraySizeTooLong", name, str(limit), related=related)
        return
    allowed = _allowed(facts, whole)
    for index, item in enumerate(change):
        old = present[index] if index < len(present) else None
        if item is None or (item == {} and index < len(present)):
            continue
        if facts.type == "objects" and isinstance(item, dict) and item:
            yield from _element_problems(f"{path}.{index}", item, old, facts, whole)
        elif facts.type == "strings" and isinstance(item, str):
            yield from _text_problems(path, item, facts, allowed)
        else:
            yield message("PropertyValueTypeError", text_of(change), name, related=related)
            return


def _element_problems(
    path: str, change: dict[str, Any], old: Any, facts: WritableFacts, whole: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """What is wrong with an object in an array. old: what stands there, None for a new one."""
    for name, value in change.items():
        own = facts.properties.get(name)
        if own is not None:
            yield from _value_problems(f"{path}.{name}", value, own, whole)
        else:
            yield _refusal(name, f"{path}.{name}", old if isinstance(old, dict) else {})
    for name, own in facts.properties.items():
        if own.required and old is None and name not in change:
            yield message("PropertyMissing", name, related=f"{path}.{name}".replace(".", "/"))


def _allowed(facts: WritableFacts, template: dict[str, Any]) -> list[Any] | None:
    if not isinstance(facts.values, str):
        return facts.values
    place: Any = template
    for step in facts.values.removeprefix("$").split("."):
        place = place.get(step, {})
    return list(place)


def has_type(value: Any, type_: str) -> bool:
    """Whether a JSON value has a type: string, boolean, integer, number, object, objects or strings (lists of them)."""
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
        case "objects":
            return isinstance(value, list) and all(isinstance(item, dict) for item in value)
        case _:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)


def text_of(value: Any) -> str:
    """A JSON value as an argument of a message."""
    try:
        return value[:128] if isinstance(value, str) else orjson.dumps(value).decode()[:128]
    except TypeError:
        return "(nested too deeply)"
