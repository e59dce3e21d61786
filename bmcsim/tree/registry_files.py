"""Message registries that an operator has as files, for BMCs to serve beside the members that name them.

Only what is a registry is taken, and it is read once: no client's target ever reaches the file system.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from bmcsim.tree.source import ProfileError, files_of
from bmcsim.tree.template import deeper_than, literal

RegistryFiles = Mapping[str, dict[str, Any]]
"""Registry with its whole version (Base.1.22.1) -> content of its file."""

LIMIT = 4 * 1024 * 1024
"""Bytes of one file."""

_DEPTH = 32
"""Objects and arrays in each other; a registry has six."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*\.\d+\.\d+\.\d+")


def read(folder: Path) -> RegistryFiles:
    """The registries of a folder: files NAME.MAJOR.MINOR.PATCH.json with a MessageRegistry in them; others are left
    alone, and so is what a link leads to elsewhere. Raises ProfileError for a folder or a registry that cannot be
    used."""
    return {path.stem: _content(path, path.stem) for path in sorted(files_of(folder, _is_registry))}


def _is_registry(name: str) -> bool:
    return name.endswith(".json") and _NAME.fullmatch(name.removesuffix(".json")) is not None


def _content(path: Path, name: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
        content = orjson.loads(data) if len(data) <= LIMIT else None
    except (OSError, orjson.JSONDecodeError) as error:
        raise ProfileError(f"{path}: {error}") from error
    if content is None:
        raise ProfileError(f"{path}: is larger than {LIMIT >> 20} MiB")
    named = f"{content.get('RegistryPrefix')}.{content.get('RegistryVersion')}" if isinstance(content, dict) else ""
    if named != name or not str(content.get("@odata.type")).startswith("#MessageRegistry."):
        raise ProfileError(f"{path}: is not the message registry {name}")
    if deeper_than(_DEPTH, content):
        raise ProfileError(f"{path}: has more than {_DEPTH} objects and arrays in each other")
    checked: dict[str, Any] = literal(content)
    return {**checked, "@odata.type": str(content["@odata.type"])}


def newest(files: RegistryFiles, registry: str) -> str | None:
    """The newest file that has all messages of a registry such as Base.1.22: the same major version, and the same minor
    version or a later one (DSP0266 9.5.11: minor versions only add)."""
    prefix, major, minor = registry.split(".")
    found = [(int(parts[2]), int(parts[3])) for name in files if (parts := name.split("."))[:2] == [prefix, major]]
    newer = [version for version in found if version[0] >= int(minor)]
    return "{}.{}.{}.{}".format(prefix, major, *max(newer)) if newer else None
