"""Components of firmware as a profile declares them, and what each item of the inventory shows of its component."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bmcsim.tree.profile import Component
from bmcsim.tree.template import holes_in

Components = Mapping[str, Component]
"""Name -> component, in the order of the inventory."""

VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+~-]{0,63}")
"""What a client or a fleet file may give as a version: it becomes part of URIs."""

_VERSION_HOLE = "${version}"


def owner(components: Components, name: str) -> str:
    """The component whose version an item shows: its own, or the one that it shares."""
    return components[name].version_of or name


def first_version(components: Components, name: str) -> str:
    """The version that a component starts with."""
    return str(components[owner(components, name)].version)


def is_fixed(components: Components, name: str) -> bool:
    """Whether a component shows something of the BMC's identity that no update changes."""
    return bool(holes_in(first_version(components, name)))


def item_id(component: Component, version: str) -> str:
    """Id of the inventory item of a component that has a version."""
    return component.id.replace(_VERSION_HOLE, version)


def facts(components: Components, name: str) -> dict[str, Any]:
    """What ${item.X} stands for in the template of inventory items: values, or holes for what can change."""
    component, version = components[name], first_version(components, name)
    return {
        "id": f"${{firmware.{name}.id}}",
        "title": component.title,
        "version": version if is_fixed(components, name) else f"${{firmware.{name}.version}}",
        "manufacturer": component.manufacturer,
        "software_id": component.software_id,
        "updateable": component.updateable,
        "related": [{"@odata.id": uri} for uri in component.related],
        "related_count": len(component.related),
    }


def problems(components: Components) -> Iterator[str]:
    """What is wrong with components; the text starts with the path of the key."""
    ids: set[str] = set()
    for name, component in components.items():
        if not re.fullmatch(r"[a-z0-9_]+", name):
            yield f"components.{name}: a name has small letters, digits and _"
        for other in (component.version_of, component.comes_with):
            if other and other not in components:
                yield f"components.{name}: there is no component {other}"
        if component.version_of in components and components[component.version_of].version_of:
            yield f"components.{name}.version_of: {component.version_of} shares a version itself"
            continue
        if component.version_of not in components and component.version_of:
            continue
        id_ = item_id(component, first_version(components, name))
        if not re.fullmatch(r"[^/?#%\s${}]+", id_):
            yield f"components.{name}.id: {id_!r} cannot be the last segment of a URI"
        if id_ in ids:
            yield f"components.{name}.id: {id_} is there twice"
        ids.add(id_)
