"""YAML with line numbers, so that an error in a profile names its place."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
"""Mappings and sequences in each other in a YAML file."""
MAX_VALUES = 100_000
"""Values of a YAML file, with what an alias stands for counted each time."""

Path_ = tuple[str | int, ...]

_WHOLE = range(-(2**63), 2**64)
"""Whole numbers that JSON texts can have here."""


class ProfileError(Exception):
    """A profile is wrong. The text names file, line, path and what would be right."""


class _Loader(yaml.CSafeLoader):
    """The core schema of YAML 1.2: On, Off, yes, dates and 1:30 are text, as they are in Redfish."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("null", r"null|~|", ["n", "~", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


class Source:
    """One YAML file: its data and where each value stands.

    Raises ProfileError when the file is missing, too large, not YAML, has a duplicate or non-text key, or uses tags.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ProfileError(f"{path}: larger than {MAX_BYTES} bytes")
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ProfileError(f"{path}: cannot be read: {error}") from error
        self._lines: dict[Path_, int] = {}
        try:
            loader = _Loader(text)
            try:
                root = loader.get_single_node()
                self.data: dict[str, Any] = self._value(loader, root, ()) if root is not None else {}
            finally:
                loader.dispose()
        except (yaml.YAMLError, RecursionError) as error:
            raise ProfileError(f"{path}: not YAML: {error}") from error
        if not isinstance(self.data, dict):
            raise ProfileError(f"{path}: must be a mapping")

    def _value(self, loader: Any, node: yaml.Node, where: Path_) -> Any:
        self._lines[where] = node.start_mark.line + 1
        if len(self._lines) > MAX_VALUES:
            raise self.error(where, f"is one value too many; a file has at most {MAX_VALUES}, aliases written out")
        if len(where) > MAX_DEPTH:
            raise self.error(where, f"is in more than {MAX_DEPTH} others; the file must not be nested as deeply")
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = self._scalar(loader, key_node, where)
                if not isinstance(key, str):
                    raise self.error(
                        where, f"the key {key!r} must be text; put it in quotes", key_node.start_mark.line + 1
                    )
                if key in mapping:
                    raise self.error(where, f"the key {key!r} is there twice", key_node.start_mark.line + 1)
                mapping[key] = self._value(loader, value_node, (*where, key))
                self._lines[(*where, key)] = key_node.start_mark.line + 1
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [self._value(loader, item, (*where, index)) for index, item in enumerate(node.value)]
        return self._scalar(loader, node, where)

    def _scalar(self, loader: Any, node: yaml.Node, where: Path_) -> Any:
        try:
            value = loader.construct_object(node)
        except ValueError:
            # More digits than Python reads.
            value = _WHOLE.stop
        if isinstance(value, int) and value not in _WHOLE:
            raise self.error(where, "must be a number of at most 64 bits", node.start_mark.line + 1)
        return value

    def line(self, where: Path_) -> int:
        """The line of the value at a path, or of its nearest known parent."""
        while where not in self._lines and where:
            where = where[:-1]
        return self._lines.get(where, 1)

    def error(self, where: Path_, message: str, line: int | None = None) -> ProfileError:
        """A ProfileError about the value at a path."""
        path = ".".join(str(step) for step in where) or "(top)"
        return ProfileError(f"{self.path}:{line or self.line(where)}: {path}: {message}")


def files_of(folder: Path, wanted: Callable[[str], bool], inner: str = "") -> list[Path]:
    """The files of a folder of an operator, or of one inside it, that have such names; [] where that is not there.

    A link that leads out of the folder is left alone. Raises ProfileError for a folder that cannot be read.
    """
    place = folder / inner
    try:
        return [
            path
            for path in (place.iterdir() if place.is_dir() else ())
            if wanted(path.name) and path.is_file() and path.resolve().is_relative_to(folder.resolve())
        ]
    except OSError as error:
        raise ProfileError(f"{place}: cannot be read: {error.strerror}") from error


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A new mapping: mappings merge key by key, anything else in over replaces what base has."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = deep_merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
