"""Globs over request paths.

`*` stands for any characters within one segment, `?` for one of them, `[a-z]` or `[!a-z]` for one of a set. `**` is a
segment of its own and stands for any number of segments, none included. Case counts; a slash at the end does not,
neither that of the glob nor that of the path.
"""

import re
from functools import lru_cache

MAX_LENGTH = 512

_ANY_SEGMENTS = r"(?:[^/]*+/)*"
_WILD = re.compile(r"[*?\[]")


class Glob:
    """A compiled glob. Two are equal when their texts are.

    prefix: what every path that matches begins with; it rejects most paths without the pattern.
    wildcards: how many there are. The pattern is made when a path is first compared: it takes 20 us per wildcard.
    """

    __slots__ = ("_pattern", "_translation", "prefix", "text", "wildcards")

    def __init__(self, text: str) -> None:
        """Raises ValueError, whose text says what would be right."""
        if len(text) > MAX_LENGTH:
            raise ValueError(f"a glob has at most {MAX_LENGTH} characters")
        if not re.match(r"/|\*\*(?:/|$)", text):
            raise ValueError(f"{text!r} matches no path; a glob starts with / or with ** for any path")
        self.text = text
        trimmed = text.rstrip("/")
        wild = _WILD.search(trimmed)
        self.prefix = trimmed if wild is None else trimmed[: wild.start()]
        if wild is not None and trimmed.startswith("**", wild.start()):
            self.prefix = self.prefix.rstrip("/")
        self.wildcards = len(_WILD.findall(trimmed))
        self._translation = _translated(trimmed) if wild is not None else None
        self._pattern: re.Pattern[str] | None = None

    def matches(self, path: str) -> bool:
        """Whether a path, given without slashes at its end, matches."""
        if self._translation is None:
            return path == self.prefix
        if not path.startswith(self.prefix):
            return False
        if self._pattern is None:
            self._pattern = re.compile(self._translation)
        return self._pattern.fullmatch(path + "/") is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Glob) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Glob({self.text!r})"


@lru_cache(maxsize=4096)
def compiled(text: str) -> Glob:
    """The glob of a text; BMCs that have the same rules share it. Raises ValueError."""
    return Glob(text)


def _translated(text: str) -> str:
    """The pattern of a path whose segments, the last one too, each end in a slash.

    What stands between two wildcards has a fixed length, so the leftmost place where it fits is as good as any other.
    Atomic groups hold on to that place: no glob, however many wildcards it has, makes the pattern try combinations.
    """
    runs: list[str] = [""]
    for segment in text.split("/"):
        if segment == "**":
            runs.append("")
        elif "**" in segment:
            raise ValueError(f"{segment!r}: ** must be a segment of its own, as in /redfish/**/Sensors")
        else:
            runs[-1] += _segment(segment) + "/"
    return _joined(runs, _ANY_SEGMENTS)


def _segment(text: str) -> str:
    runs: list[str] = [""]
    at = 0
    while at < len(text):
        if text[at] == "*":
            runs.append("")
        elif text[at] == "?":
            runs[-1] += "[^/]"
        elif text[at] == "[":
            one, at = _set(text, at)
            runs[-1] += one
        else:
            runs[-1] += re.escape(text[at])
        at += 1
    return _joined(runs, "[^/]*")


def _joined(runs: list[str], wildcard: str) -> str:
    """Runs of fixed length with a wildcard between any two."""
    first, *rest = runs
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>{wildcard}?{run})" for run in middle if run) + wildcard + last


def _set(text: str, start: int) -> tuple[str, int]:
    """The pattern of the set that starts at an index, and the index of its end."""
    inside = start + (2 if text.startswith("[!", start) else 1)
    end = text.find("]", inside + 1)
    if end < 0:
        raise ValueError(f"{text!r}: [ needs its ] in the same segment; [[] stands for the character [")
    members = text[inside:end]
    parts = ""
    at = 0
    while at < len(members):
        low = high = members[at]
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            high = members[at + 2]
            at += 2
        if high < low:
            raise ValueError(f"{text!r}: the range {low}-{high} is empty; write it {high}-{low}")
        parts += re.escape(low) + (f"-{re.escape(high)}" if high != low else "")
        at += 1
    return f"(?!/)[{'^' if inside == start + 2 else ''}{parts}]", end
