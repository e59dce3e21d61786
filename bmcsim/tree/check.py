"""What a profile must hold to be served: every link resolves, required properties are there, actions have a handler."""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

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

RESETS: dict[str, frozenset[str]] = {
    "Chassis.Reset": (RESET_TYPES | {"FullPowerCycle"}) - {"Nmi", "PushPowerButton"},
    "ComputerSystem.Reset": RESET_TYPES,
    "Manager.ResetToDefaults": frozenset({"PreserveNetwork", "PreserveNetworkAndUsers", "ResetAll"}),
}
"""Action -> the values of its ResetType that are understood."""


class Known(NamedTuple):
    """What the upper layers can do. actions: names that the service can run. writers: names of its handlers of other
    writes. happenings: what logs may write down."""

    actions: Collection[str] = ()
    writers: Collection[str] = ()
    happenings: Collection[str] = ()


def problems(profile: Profile, tree: Tree, known: Known) -> list[str]:
    """Everything that is wrong, each with its place."""
    return list(_problems(profile, tree, known))


def _problems(profile: Profile, tree: Tree, known: Known) -> Iterator[str]:
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
            lists = tree.nodes.get(node.settings.of, node) if node.settings is not None else node
            if isinstance(facts.values, str) and not isinstance(_at(lists.template, facts.values[1:]), list):
                yield place(f"writable {path} refers to {facts.values}, which is not a list of the resource")
            if facts.not_below and _at(node.template, facts.not_below) is None:
                yield place(f"writable {path} may not be below {facts.not_below}, which is not there")
        for method, name in node.handlers.items():
            if name not in known.writers:
                yield place(f"handlers.{method}: {name} is not one of {', '.join(sorted(known.writers)) or 'none'}")
        if node.applies_to and node.applies_to not in tree.nodes:
            yield place(f"applies_to {node.applies_to} is not there")
        if node.settings is not None and node.settings.of not in tree.nodes:
            yield place(f"settings.of {node.settings.of} is not there")
        if "stage_settings" in node.handlers.values() and not (node.settings and "Attributes" in node.writable):
            yield place("stage_settings needs settings, and Attributes among what is writable")
        own_names = {*node.allow.split(", "), *node.handlers, *(resource.actions if resource else ())}
        for name in sorted(node.lockdown - own_names):
            yield place(f"lockdown: {name} is neither a method nor an action of the resource")
    for action in tree.actions.values():
        if action.name not in known.actions:
            names = ", ".join(sorted(known.actions))
            yield f"{profile.path}: {action.uri}: the action {action.name} has no handler; known: {names}"
        if action.name in RESETS:
            reset_type, known_types = action.parameters.get("ResetType"), RESETS[action.name]
            if not reset_type or not reset_type.values or not known_types.issuperset(reset_type.values):
                yield f"{profile.path}: {action.uri}: ResetType needs some of {', '.join(sorted(known_types))}"
    yield from _log_services(profile, tree)
    for uri, log in tree.logs.items():
        for kind in log.records:
            if kind.on not in known.happenings:
                names = ", ".join(sorted(known.happenings))
                yield f"{profile.path}: {uri}: log: on: {kind.on} never happens; known: {names}"
    for what in sorted(set(tree.reactions) - set(known.happenings)):
        names = ", ".join(sorted(known.happenings))
        yield f"{profile.path}: {tree.reactions[what][0][0]}: reactions: on: {what} never happens; known: {names}"
    lock = tree.head.behaviour.lockdown
    if lock is not None and lock.uri not in tree.nodes:
        yield f"{profile.path}: behaviour.lockdown: {lock.uri} is not there"
    for role in ("manager", "system"):
        uri = getattr(tree.head.roles, role)
        if uri and uri not in tree.nodes:
            yield f"{profile.path}: roles.{role}: {uri} is not there"
    yield from _uploads(profile, tree)
    yield from _ids(profile, tree)
    yield from _boot_order(profile, tree)


def _log_services(profile: Profile, tree: Tree) -> Iterator[str]:
    """What a log service says of its log (OverWritePolicy, MaxNumberOfRecords) must be so, and it can be cleared."""
    for uri, node in tree.nodes.items():
        if not node.type.startswith("LogService."):
            continue
        log = tree.logs.get((_at(node.template, "Entries") or {}).get("@odata.id", ""))
        if log is None:
            if f"{uri}/Actions/LogService.ClearLog" in tree.actions:
                yield f"{profile.path}: {uri}: LogService.ClearLog needs Entries with items: log"
            continue
        for name, fact in (("MaxNumberOfRecords", log.keep), ("OverWritePolicy", "WrapsWhenFull")):
            if node.template.get(name, fact) != fact:
                yield f"{profile.path}: {uri}: {name} is {node.template[name]}, and the log's is {fact}"


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


def _uploads(profile: Profile, tree: Tree) -> Iterator[str]:
    for uri, node in tree.nodes.items():
        for name in ("HttpPushUri", "MultipartHttpPushUri"):
            place = node.template.get(name)
            if place is not None and place not in tree.updates.uploads:
                yield f"{profile.path}: {uri}: {name} {place} is not one of updates.uploads"


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
