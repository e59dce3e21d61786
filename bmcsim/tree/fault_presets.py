"""Fault presets: profiles/faults/NAME.yaml, each a title, the report it comes from, and a list of fault rules as JSON.

What makes a rule right is known above this layer; `Preset.error` gives its errors their place in the file.
"""

from typing import Any

import msgspec

from bmcsim.tree import library
from bmcsim.tree.profile import convert
from bmcsim.tree.source import Path_, ProfileError, Source

_FOLDER = "faults"


class Preset(msgspec.Struct, frozen=True):
    """A named set of fault rules. title: one sentence. report: URL of the public report that it restates, or ''."""

    name: str
    title: str
    report: str
    rules: list[dict[str, Any]]
    source: Source

    def error(self, where: Path_, text: str) -> ProfileError:
        """A ProfileError about a place in the rules. where: index of the rule, then keys and indexes inside it."""
        return self.source.error(("rules", *where), text)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    rules: list[dict[str, Any]]
    report: str = ""


def names() -> list[str]:
    """The names of all presets that come with bmcsim, sorted."""
    return library.names(_FOLDER)


def read(name: str) -> Preset:
    """The preset of a name. Raises ProfileError when there is none and when its file is wrong."""
    source = library.read(_FOLDER, name, "fault preset")
    file: _File = convert(source.data, _File, source, ())
    return Preset(name, file.title, file.report, file.rules, source)


def load(name: str) -> list[dict[str, Any]]:
    """The rules of a preset. Raises ProfileError."""
    return read(name).rules
