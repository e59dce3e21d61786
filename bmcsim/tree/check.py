"""What a profile must hold to be served: every link resolves, required properties are there, actions have a handler."""

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from bmcsim.tree.compile import Node, Tree
from bmcsim.tree.csdl import Schemas
from bmcsim.tree.derived import place_of
from bmcsim.tree.profile import Profile, WritableFacts, load
from bmcsim.tree.standard import is_standard
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

_DPU = re.compile(r"dpu(\d+)\.")


CERTIFICATE_TYPES = frozenset({"PEM", "PEMchain"})
"""Forms of a certificate that are understood."""


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
    schemas, registries = Schemas(profile.schemas), place_of(profile, "registries")
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
            yield from map(place, _array_problems(node, path, facts))
        for problem in _undescribed(node, schemas):
            yield place(problem)
        registry = node.template.get("AttributeRegistry")
        if registries and registry and f"{registries}/{registry}" not in tree.nodes:
            yield place(f"AttributeRegistry {registry} cannot have these names of attributes; add registry_type")
        if node.handlers.get("PUT") == "replace" and (not node.writable or node.applies_to or "PATCH" in node.handlers):
            yield place("handlers.PUT: replace needs writable, and neither applies_to nor a handler of PATCH")
        for method, name in node.handlers.items():
            if name not in known.writers:
                yield place(f"handlers.{method}: {name} is not one of {', '.join(sorted(known.writers)) or 'none'}")
        if node.applies_to and node.applies_to not in tree.nodes:
            yield place(f"applies_to {node.applies_to} is not there")
        if node.settings is not None and node.settings.of not in tree.nodes:
            yield place(f"settings.of {node.settings.of} is not there")
        yield from map(place, _settings(node, tree))
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
    yield from _certificates(profile, tree)
    for uri, log in tree.logs.items():
        for kind in log.records:
            if kind.on not in known.happenings:
                names = ", ".join(sorted(known.happenings))
                yield f"{profile.path}: {uri}: log: on: {kind.on} never happens; known: {names}"
        if log.events and any(not kind.id for kind in log.records):
            yield f"{profile.path}: {uri}: log: events needs records that all have an id"
    yield from _events(profile, tree, known)
    for what in sorted(set(tree.reactions) - set(known.happenings)):
        names = ", ".join(sorted(known.happenings))
        yield f"{profile.path}: {tree.reactions[what][0][0]}: reactions: on: {what} never happens; known: {names}"
    lock = tree.head.behaviour.lockdown
    if lock is not None and lock.uri not in tree.nodes:
        yield f"{profile.path}: behaviour.lockdown: {lock.uri} is not there"
    for role in ("manager", "system", "chassis"):
        uri = getattr(tree.head.roles, role)
        if uri and uri not in tree.nodes:
            yield f"{profile.path}: roles.{role}: {uri} is not there"
    yield from _dpus(profile)
    yield from _uploads(profile, tree)
    yield from _unreached(profile, tree)
    yield from _ids(profile, tree)
    yield from _boot_order(profile, tree)


def _events(profile: Profile, tree: Tree, known: Known) -> Iterator[str]:
    """What subscribers are told happens, and the service says of which registries it is."""
    for uri, node in tree.nodes.items():
        if not node.type.startswith("EventService."):
            continue
        prefixes = node.template.get("RegistryPrefixes", [])
        told = [(kind.id, kind.on) for kind in tree.events]
        told += [(kind.id, kind.on) for log in tree.logs.values() if log.events for kind in log.records]
        for id_, on in told:
            if on not in known.happenings:
                yield f"{profile.path}: {uri}: events: on: {on} never happens; known: {', '.join(known.happenings)}"
            if id_.partition(".")[0] not in prefixes:
                yield f"{profile.path}: {uri}: RegistryPrefixes lacks the registry of {id_}, which events have"
        for kind in tree.events:
            if kind.origin not in ("system", "manager") and not _resolves(kind.origin, tree):
                yield f"{profile.path}: {uri}: events: origin: {kind.origin} is not system, manager or a resource"


def _certificates(profile: Profile, tree: Tree) -> Iterator[str]:
    """What a service says that it takes is understood, and certificates have names to tell them by."""
    for action in tree.actions.values():
        facts = action.parameters.get("CertificateType")
        if facts is not None and not CERTIFICATE_TYPES.issuperset(facts.values or [""]):
            yield f"{profile.path}: {action.uri}: CertificateType needs some of {', '.join(sorted(CERTIFICATE_TYPES))}"
    for uri in tree.certificates:
        if not CERTIFICATE_TYPES.issuperset(tree.nodes[uri].template.get("@Redfish.SupportedCertificates", ())):
            names = ", ".join(sorted(CERTIFICATE_TYPES))
            yield f"{profile.path}: {uri}: @Redfish.SupportedCertificates may have {names}"
        if uri not in tree.items:
            yield f"{profile.path}: {uri}: items: certificates needs {uri}/*, which says what the members look like"


def _settings(node: Node, tree: Tree) -> Iterator[str]:
    """What a resource says of its settings (DSP0266 9.10) is what they do."""
    if node.settings is None or node.settings.of not in tree.nodes:
        return
    # Not every vendor says it at all.
    said = tree.nodes[node.settings.of].template.get("@Redfish.Settings")
    if said is None:
        return
    if said.get("SettingsObject", {}).get("@odata.id") != node.uri:
        yield f"@Redfish.Settings of {node.settings.of} does not lead here"
    elif said.get("SupportedApplyTimes", list(node.settings.apply_times)) != list(node.settings.apply_times):
        yield f"@Redfish.Settings of {node.settings.of}: SupportedApplyTimes are not those of settings.apply_times"


def _array_problems(node: Node, path: str, facts: WritableFacts) -> Iterator[str]:
    """What does not fit together in the facts of an array."""
    is_array = facts.type in ("strings", "objects")
    shown = _at(node.template, path)
    if (facts.length or facts.rigid) and not is_array:
        yield f"writable {path}: length and rigid are facts of strings and objects"
    if facts.rigid and not facts.length:
        yield f"writable {path}: rigid needs a length"
    if facts.length and isinstance(shown, list) and len(shown) != facts.length:
        yield f"writable {path}: has {len(shown)} elements, and its length is {facts.length}; null fills it up"
    if facts.properties and facts.type != "objects":
        yield f"writable {path}: properties are a fact of objects"


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


def _undescribed(node: Node, schemas: Schemas) -> Iterator[str]:
    """What a resource has of a vendor that no schema file describes."""
    schema = node.type.partition(".")[0]
    if not is_standard(schema):
        yield from schemas.problems(node.template, node.type, "")
    yield from _oem_problems(node.template, schemas, "")


def _oem_problems(value: Any, schemas: Schemas, where: str) -> Iterator[str]:
    """Walks to every Oem object and OEM action of a standard resource; what is inside is the schemas' matter."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _oem_problems(item, schemas, f"{where}[{index}]")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        place = f"{where}.{key}" if where else key
        if key != "Oem" or not isinstance(item, dict):
            yield from _oem_problems(item, schemas, place)
            continue
        for name, inner in item.items():
            inside = f"{place}.{name}"
            if name.startswith("#"):
                yield from schemas.action_problems(name[1:], inner, inside)
            elif not isinstance(inner, dict):
                yield f"{inside}: must be an object with an @odata.type"
            elif "@odata.type" in inner:
                yield from schemas.problems(inner, inner["@odata.type"][1:], inside)
            elif inner.keys() != {"@odata.id"}:
                yield f"{inside}: needs an @odata.type"


def links_of(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """(place, target) of every link in a template or body."""
    if isinstance(value, dict):
        for key, item in value.items():
            if (key == "@odata.id" and where) or key == "@Redfish.ActionInfo":
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


def _dpus(profile: Profile) -> Iterator[str]:
    """What a host says of its DPUs they can have, and there are as many as its resources show."""
    head = profile.head
    if head.dpus is not None and not head.dpu:
        yield f"{profile.path}: dpus: of which profile is missing (dpu: NAME)"
    for resource in profile.resources.values():
        slots = {int(match[1]) for hole in holes_in(str(resource.properties)) if (match := _DPU.match(hole))}
        for slot in sorted(slots - {*range(1, profile.dpus + 1)}):
            yield f"{profile.path}: {resource.uri}: shows DPU {slot}, and there are {profile.dpus} (dpus)"
    known = load(head.dpu).parameters if head.dpu else {}
    for name in head.dpu_parameters:
        if name not in known:
            yield f"{profile.path}: dpu_parameters: {head.dpu or 'dpu, which is missing,'} has no parameter {name}"


def _uploads(profile: Profile, tree: Tree) -> Iterator[str]:
    for uri, node in tree.nodes.items():
        for name in ("HttpPushUri", "MultipartHttpPushUri"):
            place = node.template.get(name)
            if place is not None and place not in tree.updates.uploads:
                yield f"{profile.path}: {uri}: {name} {place} is not one of updates.uploads"


def _unreached(profile: Profile, tree: Tree) -> Iterator[str]:
    """A client that follows links from the root must come to every resource that does not say link: false."""
    apart = {uri for uri, resource in profile.resources.items() if resource.link is False}
    reached: set[str] = set()
    waiting = ["/redfish/v1", *apart]
    while waiting:
        uri = waiting.pop()
        if uri in reached or uri not in tree.nodes:
            continue
        reached.add(uri)
        templates = [tree.nodes[uri].template, tree.items[uri].template if uri in tree.items else {}]
        waiting += [link.partition("#")[0].rstrip("/") for one in templates for _, link in links_of(one)]
        waiting += [file for one in templates for file in _files_of(one)]
        if uri == tree.inventory:
            waiting += [node.uri for node in tree.software.values()]
    for uri in tree.nodes:
        if uri not in reached:
            parent = uri.rpartition("/")[0]
            advice = "link to it from another resource" if parent in tree.nodes else f"add {parent}"
            yield f"{profile.path}: {uri}: no link leads there; {advice}, or write link: false"


def _files_of(value: Any) -> Iterator[str]:
    """What a template names by other means than a link: action infos, and files of schemas and registries."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("@Redfish.ActionInfo", "Uri") and isinstance(item, str):
                yield item
            yield from _files_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _files_of(item)


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
