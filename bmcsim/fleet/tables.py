"""TOML tables and their values, read so that an error names file, key and what would be right."""

import json
import re
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from typing import Any, TypeVar

from bmcsim.fleet.converters import shown

T = TypeVar("T")
Default = TypeVar("Default")


class ConfigError(Exception):
    """A fleet configuration is wrong. Each line of the text names file and key, and says what would be right."""


class Findings:
    """What is wrong with a file, and what is only worth a word."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.unused: dict[str, None] = {}

    def error(self, key: str, text: str) -> None:
        self.errors.append(f"{self.source}: {key}: {text}")

    def warning(self, key: str, text: str) -> None:
        self.warnings.append(f"{self.source}: {key}: {text}")

    def raise_errors(self) -> None:
        """Raise ConfigError if there are errors. Warnings go along: a misspelt key is often why another is missing."""
        if self.errors:
            raise ConfigError("\n".join(self.errors + self.warnings))

    def all_warnings(self) -> tuple[str, ...]:
        if not self.unused:
            return tuple(self.warnings)
        return (*self.warnings, f"{self.source}: accepted, but not used by this version: {', '.join(self.unused)}")


class Table:
    """A table of the file. Remembers which keys were asked for, so that `close` can name the others."""

    def __init__(self, findings: Findings, path: str, values: Any) -> None:
        self._well_formed = isinstance(values, dict)
        if not self._well_formed:
            findings.error(path, f"must be a table, not {shown(values)}")
        self._findings, self._path = findings, path
        self._values: dict[str, Any] = values if self._well_formed else {}
        self._asked: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def get(self, key: str, convert: Callable[[Any], T], default: Default, missing: str = "") -> T | Default:
        """The converted value of a key; where it is absent or `convert` raises ValueError, the default.

        missing: of a key that must be there, what its absence is called.
        """
        self._asked.add(key)
        if key not in self._values:
            if missing and self._well_formed:
                self.error(key, missing)
            return default
        try:
            return convert(self._values[key])
        except ValueError as error:
            self.error(key, str(error))
            return default

    def says(self, key: str, value: Any) -> bool:
        """Whether a key is there with just this value."""
        return bool(self._values.get(key) == value)

    def table(self, key: str) -> "Table":
        """The table at a key, empty where there is none."""
        self._asked.add(key)
        return Table(self._findings, self.dotted(key), self._values.get(key, {}))

    def renamed(self, key: str, old: str, convert: Callable[[Any], T]) -> T | None:
        """The value of a key that had another name once."""
        if key in self and old in self:
            self.error(key, f"is given twice: {old} is its old name; keep one")
        return self.get(key, convert, self.get(old, convert, None))

    def error(self, key: str, text: str) -> None:
        self._findings.error(self.dotted(key), text)

    def warning(self, key: str, text: str) -> None:
        self._findings.warning(self.dotted(key), text)

    def dotted(self, key: str) -> str:
        """The path of a key, quoted where TOML would quote it."""
        key = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
        return f"{self._path}.{key}" if self._path else key

    def close(self, *, strict: bool = False, unused: Collection[str] = (), unused_path: str = "") -> None:
        """Name what nobody asked for. strict: such a key is an error. unused: keys that are known but not used."""
        for key in self._values:
            if key in self._asked:
                continue
            if key in unused:
                self._findings.unused[unused_path + key] = None
                continue
            near = get_close_matches(key, [*self._asked, *unused], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            if strict:
                known = "" if near else f"; known: {', '.join(sorted(self._asked))}"
                self.error(key, f"is not a known key{hint}{known}")
            else:
                self._findings.warning(self.dotted(key), f"unknown key, ignored{hint}")
