"""Versions of firmware: what each component has, what is installed and waits for a reset, what the inventory shows.

Versions are kept sparse: component -> version, where it is not the profile's.
"""

from collections.abc import Mapping
from copy import copy
from functools import lru_cache

from bmcsim.machine.actions import Happening
from bmcsim.tree import software
from bmcsim.tree.compile import Tree, gets_of
from bmcsim.tree.profile import Applies
from bmcsim.tree.software import Components

Versions = Mapping[str, str]

AT: dict[Applies, Happening] = {
    "immediate": Happening.SYSTEM_RESET,
    "boot": Happening.SYSTEM_RESET,
    "power_cycle": Happening.SYSTEM_POWERED_ON,
    "bmc_reset": Happening.BMC_RESTARTED,
}
"""What a component that waits for a reset waits for."""


def version(components: Components, versions: Versions, name: str) -> str:
    """The version that the item of a component shows."""
    return versions.get(software.owner(components, name), software.first_version(components, name))


def item_id(components: Components, versions: Versions, name: str) -> str:
    """Id of the inventory item of a component."""
    return software.item_id(components[name], version(components, versions, name))


def inventory(components: Components, versions: Versions) -> dict[str, str]:
    """Id -> component of every item of the inventory, in the order of the profile."""
    return {item_id(components, versions, name): name for name in components}


def tree_with(tree: Tree, versions: Versions) -> Tree:
    """A profile's tree with the items of the inventory where their ids are with some versions.

    BMCs with the same versions share it; all else in it is the profile's.
    """
    return _tree_with(tree, tuple(sorted(versions.items()))) if versions else tree


@lru_cache(256)
def _tree_with(tree: Tree, versions: tuple[tuple[str, str], ...]) -> Tree:
    present = inventory(tree.components, dict(versions))
    if present == inventory(tree.components, {}):
        return tree
    moved = copy(tree)
    items = {node.uri for node in tree.software.values()}
    placed = {f"{tree.inventory}/{id_}": tree.software[name] for id_, name in present.items()}
    moved.nodes = {uri: node for uri, node in tree.nodes.items() if uri not in items} | placed
    moved.gets = {line: node for line, node in tree.gets.items() if node.uri not in items} | gets_of(placed)
    return moved


def component_at(tree: Tree, versions: Versions, uri: str) -> str:
    """The component whose inventory item has a URI, '' for none."""
    collection, _, id_ = uri.rpartition("/")
    if collection != tree.inventory:
        return ""
    name = inventory(tree.components, versions).get(id_)
    return software.owner(tree.components, name) if name is not None else ""


def at_end(components: Components, changes: Versions, *, on_reset: bool) -> tuple[dict[str, str], dict[str, str]]:
    """(what an update changes when it ends, what it leaves for a reset), both component -> version.

    A component that the profile no longer has, since the process was started again with another one, is left out.
    """
    known = {name: new for name, new in changes.items() if name in components}
    waiting = {name: new for name, new in known.items() if on_reset or components[name].applies != "immediate"}
    return {name: new for name, new in known.items() if name not in waiting}, waiting


def due(components: Components, staged: Versions, what: Happening) -> dict[str, str]:
    """What of the staged versions counts from now on."""
    return {name: new for name, new in staged.items() if name in components and AT[components[name].applies] is what}


def changed(components: Components, versions: Versions, changes: Versions) -> dict[str, str]:
    """Versions after changes; what equals the profile again is forgotten."""
    everything = {**versions, **changes}
    return {
        name: version_
        for name, version_ in everything.items()
        if name not in components or version_ != software.first_version(components, name)
    }
