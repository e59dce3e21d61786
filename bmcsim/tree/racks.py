"""Rack types: profiles/racks/NAME.yaml, which hardware is at which position of a rack."""

import re
from collections import Counter
from functools import lru_cache
from typing import Annotated

import msgspec

from bmcsim.tree import library
from bmcsim.tree.profile import convert, find
from bmcsim.tree.source import ProfileError, Source

_FOLDER = "racks"
_HIGHEST = 60
_POSITIONS = re.compile(r"([1-9][0-9]?)(?:-([1-9][0-9]?))?", re.ASCII)


class Unit(msgspec.Struct, frozen=True):
    """What is at one position. index: its number among the units of its profile, counted from 0 at the bottom."""

    position: int
    profile: str
    index: int


class _Units(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units of one profile. positions: one, or the first and the last of some, such as 6-9."""

    positions: str | int
    profile: str


class RackType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One type. topology, vendor: of the compute trays, as the profile id of the rack has them."""

    title: str
    topology: str
    vendor: str
    units: Annotated[list[_Units], msgspec.Meta(min_length=1)]
    version: int = 1

    @property
    def elevation(self) -> tuple[Unit, ...]:
        """Every unit, from the bottom up."""
        at = sorted((position, units.profile) for units in self.units for position in _range(units.positions) or ())
        before: Counter[str] = Counter()
        elevation = []
        for position, profile in at:
            elevation.append(Unit(position, profile, before[profile]))
            before[profile] += 1
        return tuple(elevation)

    def profile_id(self, *, shelves: bool) -> str:
        """The id under which NICo knows such racks. shelves: whether the rack has power shelves."""
        suffix = "" if shelves else "_NO_POWERSHELF"
        return f"{self.topology}_{self.vendor}{suffix}".upper()


def names() -> list[str]:
    """The names of all types, sorted."""
    return library.names(_FOLDER)


@lru_cache
def load(name: str) -> RackType:
    """The type of a name. Raises ProfileError when there is none and when its file is wrong."""
    source = library.read(_FOLDER, name, "rack type")
    type_: RackType = convert(source.data, RackType, source, ())
    _check(type_, source)
    return type_


def _range(positions: str | int) -> range | None:
    match = _POSITIONS.fullmatch(str(positions))
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if first <= last <= _HIGHEST else None


def _check(type_: RackType, source: Source) -> None:
    taken: dict[int, str] = {}
    for number, units in enumerate(type_.units):
        where = ("units", number, "positions")
        positions = _range(units.positions)
        if positions is None:
            raise source.error(where, f"must be like 6 or 6-9, from 1 to {_HIGHEST}, not {units.positions!r}")
        for position in positions:
            if position in taken:
                raise source.error(where, f"position {position} has a {taken[position]} already")
            taken[position] = units.profile
        try:
            find(units.profile)
        except ProfileError as error:
            raise source.error(("units", number, "profile"), str(error)) from error
