"""JSON with holes: what is the same for every BMC is encoded once, what differs is filled in per request.

In a profile, ``${name}`` or ``${name|filter}`` is a hole. A text that is nothing but a hole becomes the hole's own JSON
value; a hole inside a longer text becomes characters of that text.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import orjson

from bmcsim.core.clock import Moment

_HOLE = re.compile(r"\$\{([^{}]+)\}")
_MARK = re.compile(rb'"\\u0000(\d+)\\u0000"|\\u0000(\d+)\\u0000')

ETAG_KEY = "@odata.etag"


class TemplateError(Exception):
    """A template is wrong; the text says how."""


class Reading(msgspec.Struct, frozen=True):
    """How a simulated sensor moves: between minimum and maximum in steps, at most once a second.

    powered: the sensor measures something that is dead while the system is off, and then has no reading.
    index: number of the sensor within its tree; two sensors of one BMC never move alike.
    """

    minimum: float
    maximum: float
    step: float = 0.1
    powered: bool = False
    index: int = 0


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
    """

    function: HoleFunction
    volatile: bool = False
    counts: bool = True


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


class Body:
    """An encoded JSON object with holes, and its entity tag.

    The tag is strong (RFC 9110 8.8.3): a hash of everything that counts. A body whose counting parts never change has
    its tag baked in; else the tag is recomputed with each rendering.
    """

    __slots__ = ("_etag", "_fill", "_parts", "_seed", "_tag_at", "_whole")

    def __init__(self, template: dict[str, Any], bind: Binder, resolve: Callable[[str], Hole] = parse_hole) -> None:
        bindings: list[Binding] = []
        texts: list[str] = []

        def mark(expression: str) -> str:
            bindings.append(bind(resolve(expression)))
            texts.append(expression)
            return f"\0{len(bindings) - 1}\0"

        def marked(value: Any) -> Any:
            if isinstance(value, str):
                return _HOLE.sub(lambda match: mark(match[1]), value) if "${" in value else value
            if isinstance(value, dict):
                return {key: marked(item) for key, item in value.items()}
            if isinstance(value, list):
                return [marked(item) for item in value]
            return value

        source = marked(template)
        tagged = ETAG_KEY in template
        if tagged:
            source[ETAG_KEY] = f"\0{len(bindings)}\0"
        parts: list[bytes] = []
        fill: list[tuple[int, HoleFunction, bool]] = []
        encoded = orjson.dumps(source)
        position = 0
        self._tag_at = -1
        for match in _MARK.finditer(encoded):
            parts.append(encoded[position : match.start()])
            position = match.end()
            number = int(match[1] or match[2])
            parts.append(b"")
            if number == len(bindings):
                self._tag_at = len(parts) - 1
                continue
            function, volatile, counts = bindings[number]
            fill.append((len(parts) - 1, function if match[1] else _inside(function), volatile and counts))
        parts.append(encoded[position:])
        seed = crc32(orjson.dumps(texts), crc32(encoded))
        self._seed = crc32(encoded, 0x9E3779B9)
        self._etag = b'"%08x%08x"' % (seed, self._seed) if tagged else b""
        self._fill = tuple(fill)
        if any(counts for _, _, counts in fill):
            self._etag = b'"%08x' % seed
        elif self._tag_at >= 0:
            parts[self._tag_at] = _quoted(self._etag)
        self._parts = parts
        self._whole = b"".join(parts) if not fill else None

    def render(self, bmc: Any, moment: Moment, item: Any = None) -> tuple[bytes, bytes]:
        """(entity tag with quotes, body); the tag is empty where the template has none."""
        if self._whole is not None:
            return self._etag, self._whole
        parts = self._parts.copy()
        check = self._seed
        counting = False
        for index, function, counts in self._fill:
            parts[index] = value = function(bmc, moment, item)
            if counts:
                check = crc32(value, check)
                counting = True
        etag = self._etag
        if counting and etag:
            etag = b'%s%08x"' % (etag, check)
            parts[self._tag_at] = _quoted(etag)
        return etag, b"".join(parts)


def _quoted(etag: bytes) -> bytes:
    """An entity tag as a JSON string."""
    return b'"\\"%s\\""' % etag[1:-1]
