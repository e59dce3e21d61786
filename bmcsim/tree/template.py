"""JSON with holes: what is the same for every BMC is encoded once, what differs is filled in per request.

In a profile, ``${name}`` or ``${name|filter}`` is a hole. A text that is nothing but a hole becomes the hole's own JSON
value; a hole inside a longer text becomes characters of that text.
"""

import re
import typing  # whole, since a class here is called Literal
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import orjson

from bmcsim.core.clock import Moment

_HOLE = re.compile(r"\$\{([^{}]+)\}")
_TAG = rb'"\u0000tag\u0000"'
_MARK = re.compile(rb'"\\u0000(\d+)\\u0000"|\\u0000(\d+)\\u0000|"\\u0000(\d+)\\u0000text\\u0000"|"\\u0000tag\\u0000"')

ETAG_KEY = "@odata.etag"


class Literal(str):
    """A text that a client wrote: it stands for itself, whatever looks like a hole in it."""

    __slots__ = ()


def literal(value: Any) -> Any:
    """A JSON value in which every text is a Literal."""
    if isinstance(value, str):
        return Literal(value)
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    return [literal(item) for item in value] if isinstance(value, list) else value


def deeper_than(levels: int, value: Any) -> bool:
    """Whether a JSON value has more objects and arrays in each other than what walks through it should recurse."""
    level = [value]
    for _ in range(levels):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [inner for one in inside for inner in one]
    return any(isinstance(one, dict | list) for one in level)


class TemplateError(Exception):
    """A template is wrong; the text says how."""


Follows = typing.Literal["nothing", "load", "heat", "nominal"]
"""What a sensor follows: the load of its system, the heat of it, or nothing; nominal stays about the middle."""


class Limits(msgspec.Struct, frozen=True):
    """The thresholds of a sensor. A value is fine strictly between them."""

    lower_critical: float = -inf
    lower_caution: float = -inf
    upper_caution: float = inf
    upper_critical: float = inf


class Reading(msgspec.Struct, frozen=True):
    """How a simulated sensor moves: between minimum and maximum in steps, at most once a second.

    powered: the sensor measures something that is dead while the system is off, and then has no reading.
    index: number of the sensor within its tree; two sensors of one BMC never move alike.
    uri: of the sensor. follows: what moves it (machine/sensors.py).
    """

    minimum: float
    maximum: float
    step: float = 0.1
    powered: bool = False
    index: int = 0
    uri: str = ""
    follows: Follows = "nothing"
    limits: Limits = Limits()


class Hole(NamedTuple):
    """One hole: its name, an optional filter, and the reading it refers to, if any."""

    name: str
    filter: str = ""
    reading: Reading | None = None


HoleFunction = Callable[[Any, Moment, Any], bytes]
"""(bmc, moment, item of a dynamic collection or None) -> JSON value, encoded."""


class Binding(NamedTuple):
    """What fills a hole.

    volatile: the value can change during the life of the BMC.
    counts: a change of the value is a change of the resource, so the ETag follows it. Clocks do not count.
    optional: where the function gives b'', the whole property is left out.
    hidden: what the ETag follows although it is not shown; of a volatile binding that counts.
    """

    function: HoleFunction
    volatile: bool = False
    counts: bool = True
    optional: bool = False
    hidden: HoleFunction | None = None


Binder = Callable[[Hole], Binding]
"""Gives a hole its function. Raises TemplateError for an unknown name or filter."""


def parse_hole(text: str) -> Hole:
    """'serial' or 'bmc.mac|plain' -> Hole."""
    name, _, filter_ = text.partition("|")
    return Hole(name.strip(), filter_.strip())


def holes_in(text: str) -> list[str]:
    """The insides of all holes of a text."""
    return _HOLE.findall(text)


def _inside(function: HoleFunction) -> HoleFunction:
    """The characters of a JSON string without its quotes; other JSON values as they are."""

    def characters(bmc: Any, moment: Moment, item: Any) -> bytes:
        value = function(bmc, moment, item)
        return value[1:-1] if value[:1] == b'"' else value

    return characters


def _optional(piece: bytes, function: HoleFunction) -> tuple[bytes, HoleFunction]:
    """The encoded template up to a hole without the hole's key, and a function that gives key and value, or nothing."""
    before, comma, key = piece.rpartition(b',"')
    if not comma or not key.endswith(b'":'):
        raise TemplateError("a hole that can be empty must be a whole property, and not the first one")

    start = (comma + key).replace(b"%%", b"%")

    def whole_property(bmc: Any, moment: Moment, item: Any) -> bytes:
        value = function(bmc, moment, item)
        return start + value if value else b""

    return before, whole_property


class Body:
    """An encoded JSON object with holes, and its entity tag.

    The tag is strong (RFC 9110 8.8.3): a hash of everything that counts. A body whose counting parts never change has
    its tag baked in; else the tag is recomputed with each rendering.
    """

    __slots__ = (
        "_all_count",
        "_counting",
        "_etag",
        "_format",
        "_functions",
        "_hidden",
        "_pair",
        "_seed",
        "_tag_at",
        "_whole",
    )

    def __init__(self, template: dict[str, Any], bind: Binder, resolve: Callable[[str], Hole] = parse_hole) -> None:
        expressions: list[str] = []
        texts: list[bytes] = []

        def mark(match: re.Match[str]) -> str:
            expressions.append(match[1])
            return f"\0{len(expressions) - 1}\0"

        def marked(value: Any) -> Any:
            if isinstance(value, Literal):
                texts.append(orjson.dumps(str(value)))
                return f"\0{len(texts) - 1}\0text\0"
            if isinstance(value, str):
                if "\0" in value:
                    raise TemplateError("a text has a NUL character")
                return _HOLE.sub(mark, value) if "${" in value else value
            if isinstance(value, dict):
                if any("\0" in key for key in value):
                    raise TemplateError("a name has a NUL character")
                return {key: marked(item) for key, item in value.items()}
            if isinstance(value, list):
                return [marked(item) for item in value]
            return value

        tagged = ETAG_KEY in template
        source = marked(template)
        if tagged:
            source[ETAG_KEY] = "\0tag\0"
        encoded = orjson.dumps(source)
        bindings = [bind(resolve(expression)) for expression in expressions]
        counting = [number for number, binding in enumerate(bindings) if binding.volatile and binding.counts]
        self._seed = crc32(b",".join(texts), crc32(encoded))
        prefix = b"%08x" % crc32(orjson.dumps(expressions), self._seed)
        # Where something counts, what gives the tag of a hash.
        self._etag = b"" if not tagged else b'"%b%%08x"' % prefix if counting else b'"%b%08x"' % (prefix, self._seed)
        self._counting = tuple(counting) if tagged else ()
        self._all_count = len(counting) == len(bindings)
        self._hidden = tuple([binding.hidden for binding in bindings if binding.hidden is not None])
        self._tag_at = -1
        functions: list[HoleFunction] = []
        pieces: list[bytes] = []
        position = 0
        for match in _MARK.finditer(encoded):
            pieces.append(encoded[position : match.start()].replace(b"%", b"%%"))
            position = match.end()
            if match[3]:
                pieces.append(texts[int(match[3])].replace(b"%", b"%%"))
                continue
            if match[0] == _TAG:
                self._tag_at = len(functions)
                pieces.append(_quoted(b'"%b"' if counting else self._etag))
                continue
            binding = bindings[int(match[1] or match[2])]
            function = binding.function if match[1] else _inside(binding.function)
            if binding.optional:
                pieces[-1], function = _optional(pieces[-1], function)
            functions.append(function)
            pieces.append(b"%b")
        pieces.append(encoded[position:].replace(b"%", b"%%"))
        self._functions = tuple(functions)
        self._format = b"".join(pieces)
        self._whole = self._format % () if not functions else None
        plain = self._all_count and not self._hidden and self._tag_at == 0
        self._pair = (functions[0], functions[1]) if plain and len(functions) == 2 else None

    def render(self, bmc: Any, moment: Moment, item: Any = None) -> tuple[bytes, bytes]:
        """(entity tag with quotes, body); the tag is empty where the template has none."""
        if self._pair is not None:
            # Two holes that count, behind the tag: every sensor, and so nearly every request.
            first, second = self._pair
            one, other = first(bmc, moment, item), second(bmc, moment, item)
            etag = self._etag % crc32(b",".join((one, other)), self._seed)
            return etag, self._format % (etag[1:-1], one, other)
        if self._whole is not None:
            return self._etag, self._whole
        values: list[bytes] = []
        # A comprehension would be a call of its own, and costs as much as a hole: this is the way of every request.
        for function in self._functions:
            values.append(function(bmc, moment, item))
        if not self._counting:
            return self._etag, self._format % tuple(values)
        counted = values if self._all_count else [values[number] for number in self._counting]
        if self._hidden:
            counted = [*counted, *[function(bmc, moment, item) for function in self._hidden]]
        etag = self._etag % crc32(b",".join(counted), self._seed)
        values.insert(self._tag_at, etag[1:-1])
        return etag, self._format % tuple(values)


def _quoted(etag: bytes) -> bytes:
    """An entity tag as a JSON string."""
    return b'"\\"%s\\""' % etag[1:-1]
