"""Query parameters of a read (DSP0266 7.3.1): what a client asks for, and whether this firmware knows it."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from bmcsim.core.errors import RedfishError
from bmcsim.redfish import query_filter, query_select
from bmcsim.tree.profile import QuerySupport

MAX_COUNT = 2**31 - 1
"""The most that $top and $skip may be."""
_EXPAND = re.compile(r"([.*~])(?:\(\$levels=(\d{1,4})\))?", re.ASCII)
_INTEGER = re.compile(r"-?\d+", re.ASCII)


class Query(msgspec.Struct, frozen=True):
    """expand: '.', '*', '~' or '' for none; levels: how deep. The others are None or False where they are not asked."""

    expand: str = ""
    levels: int = 1
    select: query_select.Selection | None = None
    filter: query_filter.Condition | None = None
    top: int | None = None
    skip: int | None = None
    only: bool = False
    excerpt: bool = False

    @property
    def of_collection(self) -> bool:
        """Whether there is something that only collections know."""
        return self.only or self.filter is not None or self.top is not None or self.skip is not None


NOTHING = Query()


def parse(text: str, support: QuerySupport) -> Query:
    """Parse a raw query; of a parameter that is there twice the last one counts.

    Unknown parameters are ignored, unknown ones that start with $ are 501 unless the firmware ignores them too, bad
    values and combinations are 400. What the firmware does not know is unknown.
    """
    known = _known(support)
    fields: dict[str, Any] = {}
    names = set()
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in known:
            names.add(name)
            fields |= _READERS[name](value, support)
        elif name.startswith("$") and not support.ignore_unknown:
            raise RedfishError(501, "QueryParameterUnsupported", name)
    if "only" in names and len(names) > 1:
        raise RedfishError(400, "QueryCombinationInvalid")
    return Query(**fields) if fields else NOTHING


def _known(support: QuerySupport) -> frozenset[str]:
    known = {
        "$expand": bool(support.expand),
        "$filter": support.filter,
        "$select": support.select,
        "$skip": support.top_skip,
        "$top": support.top_skip,
        "excerpt": support.excerpt,
        "only": support.only,
    }
    return frozenset(name for name, yes in known.items() if yes)


def _expand(value: str, support: QuerySupport) -> dict[str, Any]:
    match = _EXPAND.fullmatch(value.strip())
    if match is None or match[1] not in support.expand or (match[2] and not support.levels):
        raise RedfishError(400, "QueryParameterValueFormatError", value, "$expand")
    levels = int(match[2] or 1)
    if not 1 <= levels <= max(support.levels, 1):
        raise RedfishError(400, "QueryParameterOutOfRange", str(levels), "$levels", f"1-{support.levels}")
    return {"expand": match[1], "levels": levels}


def _select(value: str, _support: QuerySupport) -> dict[str, Any]:
    try:
        return {"select": query_select.parse(value)}
    except query_select.SelectError as error:
        raise RedfishError(400, "QueryParameterValueFormatError", value, "$select") from error


def _filter(value: str, _support: QuerySupport) -> dict[str, Any]:
    try:
        return {"filter": query_filter.parse(value)}
    except query_filter.FilterError as error:
        raise RedfishError(400, "QueryParameterValueFormatError", value, "$filter") from error


def _count(name: str, least: int) -> Callable[[str, QuerySupport], dict[str, Any]]:
    def read(value: str, _support: QuerySupport) -> dict[str, Any]:
        if not _INTEGER.fullmatch(value):
            raise RedfishError(400, "QueryParameterValueFormatError", value, name)
        # Python refuses integers of thousands of digits, and none of so many is in the range.
        if len(value) > 64 or not least <= int(value) <= MAX_COUNT:
            raise RedfishError(400, "QueryParameterOutOfRange", value, name, f"{least}-{MAX_COUNT}")
        return {name[1:]: int(value)}

    return read


def _flag(name: str) -> Callable[[str, QuerySupport], dict[str, Any]]:
    def read(value: str, _support: QuerySupport) -> dict[str, Any]:
        if value:
            raise RedfishError(400, "QueryParameterValueFormatError", value, name)
        return {name: True}

    return read


_READERS: dict[str, Callable[[str, QuerySupport], dict[str, Any]]] = {
    "$expand": _expand,
    "$filter": _filter,
    "$select": _select,
    "$skip": _count("$skip", 0),
    "$top": _count("$top", 1),
    "excerpt": _flag("excerpt"),
    "only": _flag("only"),
}
