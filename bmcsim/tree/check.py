"""What a profile must hold to be served: every link resolves, required properties are there, actions have a handler."""

from collections.abc import Collection, Iterator
from typing import Any

from bmcsim.tree.compile import Node, Tree
from bmcsim.tree.profile import Profile
from bmcsim.tree.template import holes_in

REQUIRED: dict[str, tuple[str, ...]] = {
    "BootOption": ("BootOptionReference",),
    "Chassis": ("ChassisType",),
    "ComponentIntegrity": ("ComponentIntegrityType", "ComponentIntegrityTypeVersion", "TargetComponentURI"),
    "CoolingUnit": ("EquipmentType",),
    "EventDestination": ("Context", "SubscriptionType"),
    "JsonSchemaFile": ("Languages", "Location", "Schema"),
    "LogEntry": ("EntryType",),
    "ManagerAccount": ("AccountTypes",),
    "MessageRegistryFile": ("Languages", "Location", "Registry"),
    "PowerDistribution": ("EquipmentType",),
    "Redundancy": ("MinNumNeeded", "Mode", "RedundancySet", "Status"),
    "Role": ("RoleId",),
    "ServiceRoot": ("Links",),
    "TrustedComponent": ("TrustedComponentType",),
}
"""Properties that the schemas mark Redfish.Required, beside the envelope."""

CLIENTS_NEED: dict[str, tuple[str, ...]] = {
    "ServiceRoot": ("AccountService", "Chassis", "Managers", "SessionService", "UpdateService"),
    "LogEntry": ("Created", "Severity"),
    "Manager": ("DateTime", "EthernetInterfaces"),
    "Sensor": ("Reading", "ReadingType", "ReadingUnits", "Status"),
}
"""Properties without which NICo's clients give up on a BMC."""


RESET_TYPES = frozenset(
    {
        "ForceOff",
        "ForceOn",
        "ForceRestart",
        "GracefulRestart",
        "GracefulShutdown",
        "Nmi",
        "On",
        "PowerCycle",
        "PushPowerButton",
    }
)
"""What the power machine understands."""


def problems(profile: Profile, tree: Tree, handled: Collection[str]) -> list[str]:
    """Everything that is wrong, each with its place. handled: names of the actions that the service can run."""
    return list(_problems(profile, tree, handled))


def _problems(profile: Profile, tree: Tree, handled: Collection[str]) -> Iterator[str]:
    nodes = [*tree.nodes.values(), *tree.items.values()]
    for node in nodes:
        resource = profile.resources.get(node.uri)

        def place(message: str, resource: Any = resource, node: Node = node) -> str:
            return str(resource.error(message)) if resource else f"{profile.path}: {node.uri}: {message}"

        short = node.type.split(".")[0]
        for name in (*REQUIRED.get(short, ()), *CLIENTS_NEED.get(short, ())):
            if name not in node.template:
                yield place(f"a {short} needs the property {name}")
        for where, link in links_of(node.template):
            if not _resolves(link, tree):
                yield place(f"the link {where} leads to {link}, which is not there")
        for path, facts in node.writable.items():
            if _at(node.template, path) is None and not facts.nullable and path not in ("Password",):
                yield place(f"writable {path} is not a property of the resource")
            if isinstance(facts.values, str) and not isinstance(_at(node.template, facts.values[1:]), list):
                yield place(f"writable {path} refers to {facts.values}, which is not a list of the resource")
        if node.applies_to and node.applies_to not in tree.nodes:
            yield place(f"applies_to {node.applies_to} is not there")
    for action in tree.actions.values():
        if action.name not in handled:
            known = ", ".join(sorted(handled))
            yield f"{profile.path}: {action.uri}: the action {action.name} has no handler; known: {known}"
        if action.name == "ComputerSystem.Reset":
            values = action.parameters.get("ResetType")
            if not values or not set(values) <= RESET_TYPES:
                yield f"{profile.path}: {action.uri}: ResetType needs some of {', '.join(sorted(RESET_TYPES))}"
    for role in ("manager", "system"):
        uri = getattr(tree.head.roles, role)
        if uri and uri not in tree.nodes:
            yield f"{profile.path}: roles.{role}: {uri} is not there"
    yield from _ids(profile, tree)
    yield from _boot_order(profile, tree)


def links_of(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """(place, target) of every link in a template or body."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "@odata.id" and where:
                yield where, item
            else:
                yield from links_of(item, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from links_of(item, f"{where}[{index}]")


def _resolves(link: str, tree: Tree) -> bool:
    uri = link.partition("#")[0].rstrip("/")
    if holes_in(uri):
        parent = uri.rpartition("/")[0]
        return parent in tree.nodes
    return uri in tree.nodes or uri.rpartition("/")[0] in tree.items


def _at(template: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(template, dict) or step not in template:
            return None
        template = template[step]
    return template


def _ids(profile: Profile, tree: Tree) -> Iterator[str]:
    seen: dict[tuple[str, str], str] = {}
    for uri, node in tree.nodes.items():
        id_ = node.template.get("Id")
        parent = tree.nodes.get(uri.rpartition("/")[0])
        if id_ is None or parent is None or not parent.collection:
            continue
        other = seen.setdefault((parent.uri, id_), uri)
        if other != uri:
            yield f"{profile.path}: {uri}: has the Id {id_}, as {other} has"


def _boot_order(profile: Profile, tree: Tree) -> Iterator[str]:
    for uri, node in tree.nodes.items():
        order = _at(node.template, "Boot.BootOrder")
        link = _at(node.template, "Boot.BootOptions")
        if order is None or link is None:
            continue
        options = [
            other.template.get("BootOptionReference")
            for other in tree.nodes.values()
            if other.uri.rpartition("/")[0] == link["@odata.id"]
        ]
        for reference in order:
            if reference not in options:
                yield f"{profile.path}: {uri}: BootOrder names {reference}, which no boot option has"
