"""$filter (DSP0266 7.3.4): conditions on the members of a collection.

    condition := all ("or" all)*        all := one ("and" one)*        one := "not" one | "(" condition ")" | comparison
    comparison := operand ("eq" | "ne" | "gt" | "ge" | "lt" | "le") operand
    operand := 'text' ('' is a quote in it) | number | date | true | false | null | Property/Path

What the specification leaves open is decided like this. A property that a member lacks, or that is no single value,
matches nothing, also with `ne`. Texts that are dates with an offset (RFC 3339) are compared as instants. A text that is
a number equals that number; two such texts are ordered as numbers, so that `Id gt 9` and `Id gt '9'` both find the log
entry 10. Otherwise values of different types are not equal and have no order, as null and booleans have none.
"""

import operator
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

MAX_LENGTH = 2048
"""Characters of a condition."""
MAX_DEPTH = 32
"""How deep parentheses and `not` are nested."""

_TOKEN = re.compile(
    r"\s*(?:(?P<mark>[()])|(?P<text>'(?:[^']|'')*'(?![^\s()]))"
    r"|(?P<date>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+\- ]\d\d:\d\d))(?![^\s()])"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![^\s()])"
    r"|(?P<word>[A-Za-z_@#][^\s()',/]*(?:/[A-Za-z_@#][^\s()',/]*)*)(?![^\s()]))",
    re.ASCII,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+\- ]\d\d:\d\d)", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
_RESERVED = frozenset({*_COMPARISONS, *_CONSTANTS, "and", "or", "not"})


class FilterError(Exception):
    """The text is no condition."""


class Value(msgspec.Struct, frozen=True):
    """A constant: text, number, boolean or null."""

    value: str | float | bool | None


class Path(msgspec.Struct, frozen=True):
    """A property: the keys to it from the member's top."""

    keys: tuple[str, ...]


class Comparison(msgspec.Struct, frozen=True):
    """left `name` right; name is one of eq, ne, gt, ge, lt, le."""

    name: str
    left: Value | Path
    right: Value | Path


class Not(msgspec.Struct, frozen=True):
    """The opposite of a condition."""

    part: "Condition"


class All(msgspec.Struct, frozen=True):
    """Every part."""

    parts: "tuple[Condition, ...]"


class Any_(msgspec.Struct, frozen=True):
    """At least one part."""

    parts: "tuple[Condition, ...]"


Condition = Comparison | Not | All | Any_


def parse(text: str) -> Condition:
    """Read a condition. Raises FilterError."""
    if len(text) > MAX_LENGTH:
        raise FilterError
    return _Parser(_tokens(text)).whole()


def _tokens(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each token, and one of kind 'end'."""
    tokens, position, text = [], 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise FilterError
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return [*tokens, ("end", "")]


class _Parser:
    """One level of the grammar per method."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens, self._at = tokens, 0

    def whole(self) -> Condition:
        condition = self._condition(0)
        if self._tokens[self._at][0] != "end":
            raise FilterError
        return condition

    def _takes(self, kind: str, text: str) -> bool:
        if self._tokens[self._at] != (kind, text):
            return False
        self._at += 1
        return True

    def _condition(self, depth: int) -> Condition:
        parts = [self._all(depth)]
        while self._takes("word", "or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Any_(tuple(parts))

    def _all(self, depth: int) -> Condition:
        parts = [self._one(depth)]
        while self._takes("word", "and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _one(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise FilterError
        if self._takes("word", "not"):
            return Not(self._one(depth + 1))
        if self._takes("mark", "("):
            condition = self._condition(depth + 1)
            if not self._takes("mark", ")"):
                raise FilterError
            return condition
        left = self._operand()
        kind, name = self._tokens[self._at]
        if kind != "word" or name not in _COMPARISONS:
            raise FilterError
        self._at += 1
        return Comparison(name, left, self._operand())

    def _operand(self) -> Value | Path:
        kind, text = self._tokens[self._at]
        self._at += 1
        match kind:
            case "text":
                return Value(text[1:-1].replace("''", "'"))
            case "number":
                return Value(_number(text))
            case "date" if _instant(text) is not None:
                return Value(text)
            case "word" if text in _CONSTANTS:
                return Value(_CONSTANTS[text])
            case "word" if text not in _RESERVED:
                return Path(tuple(text.split("/")))
        raise FilterError


def paths(condition: Condition) -> Iterator[str]:
    """The properties that a condition is about, with / between their keys."""
    match condition:
        case Comparison(_, left, right):
            yield from ["/".join(one.keys) for one in (left, right) if isinstance(one, Path)]
        case Not(part):
            yield from paths(part)
        case All(parts) | Any_(parts):
            for one in parts:
                yield from paths(one)


def holds(condition: Condition, member: dict[str, Any]) -> bool:
    """Whether a member's full body fulfils a condition."""
    match condition:
        case Comparison(name, left, right):
            return _compared(name, _value(left, member), _value(right, member))
        case Not(part):
            return not holds(part, member)
        case All(parts):
            return all(holds(part, member) for part in parts)
        case Any_(parts):
            return any(holds(part, member) for part in parts)


_MISSING = object()


def _value(operand: Value | Path, member: dict[str, Any]) -> Any:
    if isinstance(operand, Value):
        return operand.value
    value: Any = member
    for key in operand.keys:
        if not isinstance(value, dict) or key not in value:
            return _MISSING
        value = value[key]
    return _MISSING if isinstance(value, dict | list) else value


def _compared(name: str, left: Any, right: Any) -> bool:
    if left is _MISSING or right is _MISSING:
        return False
    ordered = name not in ("eq", "ne")
    if isinstance(left, str) and isinstance(right, str):
        left, right = _alike(left, right, numbers=ordered)
    elif isinstance(left, str) and _is_number(right):
        left = _number_of(left)
    elif isinstance(right, str) and _is_number(left):
        right = _number_of(right)
    same = type(left) is type(right) or (_is_number(left) and _is_number(right))
    if not same or (ordered and (left is None or isinstance(left, bool))):
        return name == "ne"
    return _COMPARISONS[name](left, right)


def _alike(left: str, right: str, *, numbers: bool) -> tuple[Any, Any]:
    """Two texts as what they are compared as: instants, numbers, or themselves."""
    instants = (_instant(left), _instant(right))
    if None not in instants:
        return instants
    if numbers and _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
        return _number(left), _number(right)
    return left, right


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_of(text: str) -> int | float | str:
    return _number(text) if _NUMBER.fullmatch(text) else text


def _number(text: str) -> int | float:
    # Python refuses integers of thousands of digits; none that long is meant exactly.
    return int(text) if len(text) <= 19 and text.lstrip("-").isdecimal() else float(text)


def _instant(text: str) -> datetime | None:
    """None for what is no date with an offset. A '+' that was not percent-encoded has become a space."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        return None
