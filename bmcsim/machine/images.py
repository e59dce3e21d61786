"""What an image is: which components it changes, and to which versions, as far as the request and the file say so.

Nothing is read from a real image. In this order, the first that names a component counts, and the first that names a
version: the OEM part of the request, a file that is a small JSON object, the name of the file. Then the versions that
the fleet file wants (`desired_firmware`). docs/firmware.md has the rules for users.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from bmcsim.machine import firmware
from bmcsim.machine.firmware import Versions
from bmcsim.tree import software
from bmcsim.tree.software import Components

_EXTENSIONS = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,7}){1,2}$")
_NUMBERS = re.compile(r"(?<![0-9A-Za-z.])v?([0-9]+(?:\.[0-9A-Za-z]+)+(?:-[A-Za-z]*[0-9][0-9A-Za-z]*)*)")
_VERSION = r"(?:[A-Za-z]{1,16}-)?[0-9][0-9A-Za-z._+~-]{0,46}"
_LETTERS_FIRST = re.compile(r"[A-Za-z][A-Za-z_-]*[-_]")


class UnknownImage(Exception):
    """A hint cannot be followed. args: its key, and what it says."""


class Hint(msgspec.Struct, frozen=True):
    """What one source says of an image. bare: the version may lack the letters that the present one begins with."""

    components: tuple[str, ...] = ()
    version: str = ""
    bare: bool = False


def named(component: Any, version: Any, components: Components) -> Hint:
    """The hint of an object with the keys component and version. Raises UnknownImage."""
    for key, value in (("component", component), ("version", version)):
        if not isinstance(value, str):
            raise UnknownImage(key, str(value)[:64])
    if component and (component not in components or software.is_fixed(components, component)):
        raise UnknownImage("component", component[:64])
    if version and not software.VERSION.fullmatch(version):
        raise UnknownImage("version", version[:64])
    return Hint((software.owner(components, component),) if component else (), version)


def of_head(head: bytes, components: Components) -> Hint:
    """The hint of a file that is a small JSON object {"component": ..., "version": ...}. Raises UnknownImage."""
    if head.lstrip()[:1] != b"{":
        return Hint()
    try:
        side_car = orjson.loads(head)
    except orjson.JSONDecodeError:
        return Hint()
    if not {"component", "version"} & side_car.keys():
        return Hint()
    return named(side_car.get("component", ""), side_car.get("version", ""), components)


def of_name(file_name: str, components: Components) -> Hint:
    """The hint of a file's name: COMPONENT-VERSION.EXT, or a word that means a component and something like 1.14.1."""
    stem = _EXTENSIONS.sub("", re.split(r"[/\\]", file_name)[-1])
    own = [
        name
        for name, component in components.items()
        if not component.version_of and not software.is_fixed(components, name)
    ]
    for name in own:
        exact = re.fullmatch(rf"{_spelled_word(name)}[-_]({_VERSION})", stem, re.IGNORECASE)
        if exact is not None:
            return Hint((name,), exact[1], bare=exact[1][0].isdecimal())
    meant = [name for name in own if any(_has_word(stem, word) for word in (name, *components[name].matches))]
    numbers = _NUMBERS.search(stem)
    return Hint(tuple(meant), numbers[1][:64] if numbers else "", bare=True)


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){_spelled_word(word)}(?![a-z0-9])", text.lower()) is not None


def _spelled_word(word: str) -> str:
    """The pattern of a word; where the name of a component has _, a file may have -."""
    return re.escape(word.lower()).replace("_", "[_-]")


def changes(
    components: Components,
    present: Versions,
    desired: Mapping[str, str],
    targets: Sequence[str],
    hints: Iterable[Hint],
) -> dict[str, str]:
    """Component -> version that an update changes it to. targets: components that the request names; they win.

    Without a version a target becomes what is desired of it, or stays. What comes with a target becomes what is
    desired of it. Without any component the first desired version counts that is not there yet.
    """
    said = list(hints)
    meant = tuple(targets) or next((hint.components for hint in said if hint.components), ())
    new = next((hint for hint in said if hint.version), Hint())
    now = {name: firmware.version(components, present, name) for name in components}
    if not meant:
        missing = [name for name, version in desired.items() if name in components and now[name] != version]
        wanted = [name for name in missing if desired[name] == new.version] or missing
        return {name: desired[name] for name in wanted[:1]}
    result = {name: _complete(new, now[name]) or desired.get(name, now[name]) for name in meant}
    brought = (name for name, component in components.items() if component.comes_with in meant)
    return {**{name: desired[name] for name in brought if name in desired}, **result}


def _complete(new: Hint, present: str) -> str:
    """A new version as the component spells its versions: 24.10-17 is BF-24.10-17 where BF-23.10-4 is."""
    letters = _LETTERS_FIRST.match(present)
    return letters[0] + new.version if new.bare and new.version and letters else new.version
