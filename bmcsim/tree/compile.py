"""From a profile to the frozen tree: links, collections, envelopes and encoded bodies."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from bmcsim.tree import derived, odata, openapi, software
from bmcsim.tree.profile import (
    CertificateFacts,
    Component,
    EventKind,
    Head,
    Log,
    ParameterFacts,
    Profile,
    Resource,
    Settings,
    Updates,
    WritableFacts,
)
from bmcsim.tree.reactions import DEFAULTS, Reaction
from bmcsim.tree.registry_files import RegistryFiles
from bmcsim.tree.schema_files import Local, SchemaFiles, Served
from bmcsim.tree.source import ProfileError, deep_merge
from bmcsim.tree.template import ETAG_KEY, Binder, Body, Hole, Limits, Reading, TemplateError, literal, parse_hole

ROOT = "/redfish/v1"
_LOG_ENTRIES = "#LogEntryCollection.LogEntryCollection"
_OMIT = "$omit"
_APPLY_TIMES = "#Settings.v1_3_5.OperationApplyTimeSupport"
_ROW = re.compile(r"<(uri|id|index)>")
_ITEM = re.compile(r"\$\{item\.([a-z_]+)\}")


class Action(msgspec.Struct, frozen=True):
    """One action: its resource, its name (ComputerSystem.Reset) and its parameters.

    lockdown: whether it is refused while the configuration is locked.
    """

    uri: str
    name: str
    parameters: dict[str, ParameterFacts]
    lockdown: bool = False


class Node:
    """One URI of a tree.

    handlers: method -> name of what runs it (redfish/handlers.py), where it is more than a change of properties.
    items: for a dynamic collection, which of the BMC's own things are its members; for their template, the same.
    allow: methods, as in the Allow header (RFC 9110 10.2.1); `handlers` may have one more.
    container: URI of the collection that a template of members belongs to; else its own URI.
    applies_to: URI of the resource that a write to this settings resource changes too, or ''.
    settings: what it holds back, where it does. lockdown: methods that are refused while the configuration is locked.
    ignores: properties of a PATCH that are as if they were not there.
    """

    __slots__ = (
        "allow",
        "applies_to",
        "body",
        "collection",
        "container",
        "handlers",
        "head",
        "ignores",
        "items",
        "lockdown",
        "settings",
        "template",
        "type",
        "uri",
        "writable",
    )

    def __init__(
        self,
        uri: str,
        type_: str,
        template: dict[str, Any],
        body: Body,
        resource: Resource | None,
        schema: str | None = None,
    ) -> None:
        """schema: URI of the file that describes the type, where the service has it itself."""
        self.uri, self.type, self.template, self.body = uri, type_, template, body
        self.items = resource.items if resource else ""
        self.container = uri.removesuffix("/*")
        self.applies_to = resource.applies_to if resource else ""
        self.collection = type_.split(".")[0].endswith("Collection")
        self.writable: dict[str, WritableFacts] = resource.writable if resource else {}
        self.handlers: dict[str, str] = resource.handlers if resource else {}
        self.settings: Settings | None = resource.settings if resource else None
        self.lockdown = frozenset(resource.lockdown) if resource else frozenset()
        self.ignores = tuple(resource.ignores) if resource else ()
        # No schema of a settings resource knows its DELETE, and DMTF's validator compares Allow with the schema.
        advertised = [method for method in self.handlers if method != "DELETE" or self.settings is None]
        methods = ["GET", "HEAD", *advertised]
        if self.items and self.collection:
            methods += ["POST"] if self.items in CREATABLE else []
        elif self.items in DELETABLE:
            methods += ["DELETE"]
        if self.writable:
            methods.append("PATCH")
        self.allow = ", ".join(dict.fromkeys(methods))
        self.head = (
            b"Content-Type: application/json; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\n"
            b"Vary: Accept-Encoding\r\nAllow: " + self.allow.encode() + b"\r\n" + odata.link_header(type_, schema)
        )


MANAGEMENT_INTERFACE = "management_interface"
"""The PATCH handler by which a profile says which EthernetInterface has the BMC's own address."""

EVENT_SERVICE = "/redfish/v1/EventService"
"""URI of the EventService, for the state machines that obey its settings."""
ITEMS = frozenset(
    {"accounts", "certificates", "firmware", "jobs", "log", "roles", "sessions", "subscriptions", "tasks"}
)
"""What dynamic collections can hold."""

EMBEDDED = frozenset({"log"})
"""Dynamic collections that show their members in full (Redfish.AutoExpand)."""

CREATABLE = frozenset({"accounts", "roles", "sessions", "subscriptions"})
"""Dynamic collections in which clients create members."""

DELETABLE = frozenset({"accounts", "jobs", "roles", "sessions", "subscriptions", "tasks"})
"""Dynamic collections whose members clients delete."""


class Certificates(NamedTuple):
    """The certificates of a collection, and what the first one says of a BMC, as JSON: subject and names."""

    facts: CertificateFacts
    described: Body


class Variation:
    """A resource with changes. template: not to be modified. body: encoded when somebody first asks for it."""

    __slots__ = ("__weakref__", "body", "template")

    def __init__(self, template: dict[str, Any]) -> None:
        self.template = template
        self.body: Body | None = None


class Tree:
    """What all BMCs of one profile share.

    nodes: URI without trailing slash -> node. items: URI of a dynamic collection -> template of its members.
    gets: 'GET' and the URI, as a request line begins -> node.
    dynamic: URIs of dynamic collections. known: URIs of all resources of the profile. logs: URI of a collection of
    entries -> the log. actions: target URI -> action.
    components: name -> piece of firmware. software: name -> node of its inventory item, whose uri is the first one.
    inventory: URI of the collection of these items, '' without one. update_service: URI of the resource that says how
    updates are taken, '' without one. updates: how.
    settings: URI of a settings resource -> what it holds back. reactions: happening -> where, and what follows there.
    certificates: URI of a collection of certificates -> what is there.
    job_queue: URI of the first collection of jobs, '' without one. events: what subscribers are told.
    interface: URI of the EthernetInterface that has the BMC's own address, '' without one. host_name: HostName of a BMC
    that DHCP does not name, as JSON; None where the profile has no name for it.
    event_stream: target of the server-sent events, '' without one.
    metadata, service_document: the two OData documents, encoded. openapi: the OpenAPI document, encoded.
    files: URI -> schema file.
    """

    __slots__ = (
        "actions",
        "bind",
        "certificates",
        "components",
        "dynamic",
        "event_stream",
        "events",
        "files",
        "gets",
        "head",
        "host_name",
        "interface",
        "inventory",
        "items",
        "job_queue",
        "known",
        "logs",
        "metadata",
        "nodes",
        "openapi",
        "reactions",
        "readings",
        "service_document",
        "settings",
        "software",
        "update_service",
        "updates",
        "variations",
    )

    def __init__(self, head: Head, bind: Binder) -> None:
        self.head = head
        self.bind = bind
        self.nodes: dict[str, Node] = {}
        self.gets: dict[bytes, Node] = {}
        self.items: dict[str, Node] = {}
        self.dynamic: frozenset[str] = frozenset()
        self.known: frozenset[str] = frozenset()
        self.logs: dict[str, Log] = {}
        self.certificates: dict[str, Certificates] = {}
        self.components: dict[str, Component] = {}
        self.software: dict[str, Node] = {}
        self.inventory = ""
        self.update_service = ""
        self.updates = Updates()
        self.job_queue = ""
        self.interface = ""
        self.host_name: Body | None = None
        self.events: list[EventKind] = []
        self.event_stream = ""
        self.settings: dict[str, Settings] = {}
        self.reactions: dict[str, list[tuple[str, Reaction]]] = {}
        self.actions: dict[str, Action] = {}
        self.readings: dict[str, Reading] = {}
        self.files: dict[str, Served] = {}
        self.metadata = b""
        self.openapi = b""
        self.service_document = b""
        # Most machines of a site get the same settings: what takes 5 KiB for each change is there once for each other.
        self.variations: WeakValueDictionary[tuple[str, bytes], Variation] = WeakValueDictionary()

    def variation(self, node: Node, changes: Mapping[str, Any]) -> Variation:
        """A resource of this tree with changes, which all who made the same ones share for as long as they need it.

        changes: merged into it, JSON.
        """
        # A Literal, of a text that was there before, is the text.
        key = (node.uri, msgspec.json.encode(changes, enc_hook=str))
        found = self.variations.get(key)
        if found is None:
            found = self.variations[key] = Variation(deep_merge(node.template, literal(changes)))
        return found

    def body(self, template: dict[str, Any], uri: str) -> Body:
        """Encode a template of this tree. Raises TemplateError for an unknown hole."""

        def resolve(text: str) -> Hole:
            hole = parse_hole(text)
            name, _, target = hole.name.partition(":")
            if name in ("members", "count") and target not in self.dynamic:
                raise TemplateError(f"${{{hole.name}}}: {target or 'nothing'} is not a dynamic collection")
            if name.startswith("firmware.") and name.split(".")[1] not in self.components:
                raise TemplateError(f"${{{hole.name}}}: there is no such component")
            if name == "pending":
                if uri not in self.settings:
                    raise TemplateError(f"${{{hole.name}}}: {uri} has no settings")
                return Hole(f"pending:{self.settings[uri].of}#{target}")
            if name == "value" and not (target.partition("#")[2] and target.partition("#")[0] in self.known):
                raise TemplateError(f"${{{hole.name}}} must be ${{value:URI#PROPERTY}} of a resource that is there")
            if name == "pending.reset":
                return Hole(f"pending.reset:{uri}")
            if name not in ("reading", "reading.state", "reading.status"):
                return hole
            reading = self.readings.get(target or uri)
            if reading is None:
                raise TemplateError(f"{target or uri} has no reading")
            return Hole(name, hole.filter, reading)

        return Body(template, self.bind, resolve)


def compile_tree(
    profile: Profile, bind: Binder, files: RegistryFiles | None = None, schemas: SchemaFiles | None = None
) -> Tree:
    """Compile a profile. Raises ProfileError for a directive, hole or link that cannot work.

    files: message registries that are served with it. schemas: and the schema files of an operator.
    """
    tree = Tree(profile.head, bind)
    resources = profile.resources
    tree.dynamic = frozenset({uri for uri, resource in resources.items() if resource.items and resource.collection})
    templates = {**_Linker(resources).templates(), **derived.action_infos(resources.values())}
    templates = derived.with_registries(profile, templates, files or {})
    types, actions = derived.types(templates), _action_names(resources)
    local = Local([name.rpartition(".")[0] for name in (*types, *actions)], profile.schemas, schemas)
    tree.files = local.files
    templates = derived.with_schemas(profile, templates, local)
    _take_firmware(tree, resources)
    tree.known = frozenset(resources)
    tree.settings = {uri: resource.settings for uri, resource in resources.items() if resource.settings is not None}
    number = 0
    for uri, resource in resources.items():
        if resource.reading is not None:
            facts = resource.reading
            if facts.max < facts.min or facts.step <= 0:
                raise resource.error("reading needs min <= max and step > 0")
            limits = _limits(resource)
            tree.readings[uri] = Reading(
                facts.min, facts.max, facts.step, facts.powered, number, uri, facts.follows, limits
            )
            number += 1
    for uri, template in templates.items():
        owner = resources.get(uri)
        if owner and owner.items and owner.items not in ITEMS:
            raise owner.error(f"items: {owner.items} is not one of {', '.join(sorted(ITEMS))}")
        if owner and owner.collection and owner.items in EMBEDDED and f"{uri}/*" not in resources:
            raise owner.error(f"items: {owner.items} needs {uri}/*, which says what the members look like")
        if owner and uri.endswith("/*") and (uri[:-2] not in tree.dynamic or resources[uri[:-2]].items != owner.items):
            raise owner.error(f"needs the collection {uri[:-2]} with items: {owner.items or 'KIND'}")
        if owner and owner.items == "firmware" and uri.endswith("/*"):
            _add_software(tree, uri, template, owner, local)
            continue
        body = _body(tree, uri, template, owner)
        type_ = template["@odata.type"][1:]
        node = Node(uri, type_, template, body, owner, local.of_type(type_))
        if uri.endswith("/*"):
            tree.items[uri[:-2]] = node
        else:
            tree.nodes[uri] = node
        if node.items == "jobs" and node.collection:
            tree.job_queue = tree.job_queue or uri
        if owner and node.handlers.get("PATCH") == MANAGEMENT_INTERFACE:
            if tree.interface:
                raise owner.error(f"the BMC's own interface is {tree.interface} already; only one has its address")
            tree.interface = uri
            tree.host_name = _body(tree, uri, {"HostName": owner.host_name}, owner) if owner.host_name else None
        elif owner and owner.host_name:
            raise owner.error(f"host_name belongs to the resource with handlers: {{PATCH: {MANAGEMENT_INTERFACE}}}")
        if owner and owner.items == "log" and owner.collection:
            tree.logs[uri] = owner.log or Log()
        elif owner and owner.log is not None:
            raise owner.error("log belongs to a collection with items: log")
        _take_certificates(tree, uri, owner)
        if node.type.startswith("EventService."):
            if uri != EVENT_SERVICE:
                raise ProfileError(f"{uri} has the type EventService, and that is {EVENT_SERVICE}")
            tree.event_stream = str(template.get("ServerSentEventUri", ""))
        if owner:
            tree.events += owner.events
            for name, parameters in owner.actions.items():
                target = action_target(uri, name)
                tree.actions[target] = Action(uri, name, parameters, name in owner.lockdown)
        for reaction in (*DEFAULTS.get(node.type.split(".")[0], ()), *(owner.reactions if owner else ())):
            tree.reactions.setdefault(reaction.on, []).append((uri, reaction))
    described = [action for action in actions if action.partition(".")[0] in local.csdl]
    tree.metadata = odata.metadata([*sorted(types), *described], local.csdl)
    if "Sessions" not in templates[ROOT].get("Links", {}):
        raise resources[ROOT].error("needs Links.Sessions")
    tree.service_document = odata.service_document(templates[ROOT])
    methods = {node.uri: node.allow for node in (*tree.nodes.values(), *tree.items.values())}
    tree.gets = gets_of(tree.nodes)
    methods |= dict.fromkeys(tree.actions, "POST")
    tree.openapi = openapi.document(str(templates[ROOT].get("RedfishVersion", "")), methods.items())
    return tree


def gets_of(nodes: Mapping[str, Node]) -> dict[bytes, Node]:
    """What `Tree.gets` is for some nodes."""
    return {b"GET %b" % uri.encode(): node for uri, node in nodes.items() if uri.isascii()}


_LIMITS = {
    "lower_critical": ("LowerCritical", "LowerFatal"),
    "lower_caution": ("LowerCaution",),
    "upper_caution": ("UpperCaution",),
    "upper_critical": ("UpperCritical", "UpperFatal"),
}


def _limits(resource: Resource) -> Limits:
    """What the Thresholds of a sensor say; of two that mean the same the inner one counts."""
    limits: dict[str, float] = {}
    for limit, names in _LIMITS.items():
        values = [_threshold(resource, name) for name in names if name in resource.properties.get("Thresholds", {})]
        if values:
            limits[limit] = max(values) if limit.startswith("lower") else min(values)
    return Limits(**limits)


def _threshold(resource: Resource, name: str) -> float:
    entry = resource.properties["Thresholds"][name]
    value = entry.get("Reading") if isinstance(entry, dict) else None
    if not isinstance(value, int | float):
        raise resource.error(f"Thresholds.{name}.Reading must be a number")
    return value


def _take_firmware(tree: Tree, resources: dict[str, Resource]) -> None:
    for uri, resource in resources.items():
        if resource.updates is not None:
            tree.update_service, tree.updates = uri, resource.updates
        if resource.collection and resource.items == "firmware":
            if f"{uri}/*" not in resources:
                raise resource.error(f"items: firmware needs {uri}/*, which says what the members look like")
            tree.inventory, tree.components = uri, resource.components
            for problem in software.problems(resource.components):
                raise resource.error(problem)
        elif resource.components:
            raise resource.error("components belong to a collection with items: firmware")


def _take_certificates(tree: Tree, uri: str, resource: Resource | None) -> None:
    if resource is None or not (resource.items == "certificates" and resource.collection):
        if resource is not None and resource.certificates is not None:
            raise resource.error("certificates belong to a collection with items: certificates")
        return
    facts = resource.certificates or CertificateFacts()
    if facts.first and facts.subject is None:
        raise resource.error("certificates: the first one needs a subject")
    described = {"subject": msgspec.to_builtins(facts.subject), "names": facts.names}
    tree.certificates[uri] = Certificates(facts, _body(tree, uri, described, resource))


def _add_software(tree: Tree, uri: str, template: dict[str, Any], resource: Resource, local: Local) -> None:
    """The inventory items: one template, filled in for each component."""
    for name, component in tree.components.items():
        try:
            own: dict[str, Any] = _substitute(template, software.facts(tree.components, name), _ITEM)
        except KeyError as error:
            raise resource.error(f"there is no hole ${{item.{error.args[0]}}}") from error
        place = f"{uri[:-2]}/{software.item_id(component, software.first_version(tree.components, name))}"
        type_ = own["@odata.type"][1:]
        node = Node(place, type_, own, _body(tree, place, own, resource), resource, local.of_type(type_))
        tree.nodes[place] = tree.software[name] = node


def _body(tree: Tree, uri: str, template: dict[str, Any], resource: Resource | None) -> Body:
    try:
        return tree.body(template, uri)
    except TemplateError as error:
        raise (resource.error(str(error)) if resource else ProfileError(f"{uri}: {error}")) from error


def _action_names(resources: dict[str, Resource]) -> list[str]:
    """All actions, each once, by the names that schemas give them."""
    names = {name.removeprefix("Oem.") for resource in resources.values() for name in resource.actions}
    return sorted(names)


_ASIDE = frozenset({"SOC.ForceReset"})
"""Actions whose target the vendor put beside Actions instead of into it."""


def action_target(uri: str, name: str) -> str:
    """{uri}/Actions/ComputerSystem.Reset, or {uri}/Actions/Oem/X.Y for the name Oem.X.Y (DSP0266 7.11)."""
    if name in _ASIDE:
        return f"{uri}/{name}"
    oem = name.startswith("Oem.")
    return f"{uri}/Actions/{'Oem/' if oem else ''}{name.removeprefix('Oem.')}"


def pattern_of(glob: str) -> re.Pattern[str]:
    """A glob over URIs whose * does not cross a slash."""
    return re.compile("[^/]*".join(re.escape(piece) for piece in glob.split("*")))


class _Linker:
    """Adds envelopes, collections and the links that follow from the URIs, and resolves link directives."""

    def __init__(self, resources: dict[str, Resource]) -> None:
        self._resources = resources
        self._uris: dict[str, str] = {}
        for uri, resource in resources.items():
            parent = uri.rpartition("/")[0]
            if resource.type and parent not in resources and parent.count("/") > 2 and not _is_oem(uri):
                self._uris.setdefault(parent, "")
            self._uris[uri] = ""

    def templates(self) -> dict[str, dict[str, Any]]:
        """URI -> JSON template with envelope, in the order of the profile."""
        templates = {uri: self._template(uri) for uri in self._uris}
        if ROOT not in templates:
            raise ProfileError(f"the profile has no {ROOT}")
        for uri in templates:
            self._link_from_parent(uri, templates)
        for uri, template in templates.items():
            resource = self._resources.get(uri)
            if template["@odata.type"] == _LOG_ENTRIES and not (resource and resource.items):
                template["Members"] = [_embedded(templates[member]) for member in self._members(uri)]
        return templates

    def _members(self, uri: str) -> list[str]:
        return [member for member in self._uris if member.rpartition("/")[0] == uri and not member.endswith("/*")]

    def _template(self, uri: str) -> dict[str, Any]:
        resource = self._resources.get(uri)
        segment = uri.rpartition("/")[2]
        if resource is None or resource.collection:
            return self._collection(uri, resource)
        short = resource.type.split(".")[0]
        path = f"{uri[:-2]}/${{item.id}}" if segment == "*" else uri
        envelope: dict[str, Any] = {
            "@odata.id": path + "/" if uri == ROOT else path,
            "@odata.type": f"#{resource.type}.{short}",
            ETAG_KEY: "",
            "Id": "${item.id}" if segment == "*" else segment,
            "Name": _words(short),
        }
        merged = {key: value for key, value in deep_merge(envelope, resource.properties).items() if value != _OMIT}
        template: dict[str, Any] = self._directives(merged, resource)
        if resource.reading is not None:
            template.setdefault("Reading", "${reading}")
        if resource.actions:
            template["Actions"] = _actions(path, resource.actions, resource.action_info)
        return template

    def _collection(self, uri: str, resource: Resource | None) -> dict[str, Any]:
        members = self._members(uri)
        if resource is not None:
            short = resource.collection
        else:
            kinds = {self._resources[member].type.split(".")[0] for member in members if member in self._resources}
            if uri + "/*" in self._resources:
                kinds.add(self._resources[uri + "/*"].type.split(".")[0])
            if len(kinds) != 1:
                raise ProfileError(
                    f"{uri}: its members have the types {sorted(kinds)}; declare it with collection: TYPE"
                )
            (short,) = kinds
        envelope: dict[str, Any] = {
            "@odata.id": uri,
            "@odata.type": f"#{short}Collection.{short}Collection",
            ETAG_KEY: "",
            "Name": f"{_words(short)} Collection",
        }
        if resource is not None and resource.items:
            links: dict[str, Any] = {
                "Members": f"${{members:{uri}}}",
                "Members@odata.count": f"${{count:{uri}}}",
            }
        else:
            links = {"Members": [_link(member) for member in members], "Members@odata.count": len(members)}
        properties = self._directives(resource.properties, resource) if resource else {}
        return {**envelope, **properties, **links}

    def _link_from_parent(self, uri: str, templates: dict[str, dict[str, Any]]) -> None:
        resource = self._resources.get(uri)
        parent, _, segment = uri.rpartition("/")
        if uri == ROOT or segment == "*" or (resource is not None and resource.link is False):
            return
        link = resource.link if resource is not None else True
        if link is True:
            if _is_oem(uri) or parent not in templates or "Members" in templates[parent]:
                return
            path = [segment]
        else:
            path = str(link).split(".")
            parent = self._ancestor(uri, templates)
        target = templates[parent]
        for step in path[:-1]:
            target = target.setdefault(step, {})
        target.setdefault(path[-1], _link(uri))

    @staticmethod
    def _ancestor(uri: str, templates: dict[str, dict[str, Any]]) -> str:
        while uri:
            uri = uri.rpartition("/")[0]
            if uri in templates:
                return uri
        return ROOT

    def _directives(self, value: Any, resource: Resource) -> Any:
        if isinstance(value, list):
            return [self._directives(item, resource) for item in value]
        if not isinstance(value, dict):
            return value
        if "$link" in value:
            if not isinstance(value["$link"], str):
                raise resource.error("$link must be a URI")
            return _link(value["$link"])
        result: dict[str, Any] = {}
        for key, item in value.items():
            if isinstance(item, dict) and "$links" in item:
                links = [_link(uri) for uri in self._matching(item["$links"], resource)]
                result[key], result[f"{key}@odata.count"] = links, len(links)
            elif isinstance(item, dict) and "$for" in item:
                result[key] = self._each(item, resource)
            else:
                result[key] = self._directives(item, resource)
        return result

    def _matching(self, globs: Any, resource: Resource) -> Iterator[str]:
        for glob in globs if isinstance(globs, list) else [globs]:
            if not isinstance(glob, str):
                raise resource.error(f"{glob!r} must be a URI or a glob over URIs")
            if "*" not in glob:
                yield glob
                continue
            pattern = pattern_of(glob)
            yield from (uri for uri in self._uris if not uri.endswith("/*") and pattern.fullmatch(uri))

    def _each(self, item: dict[str, Any], resource: Resource) -> list[Any]:
        if "item" not in item:
            raise resource.error("$for needs item")
        rows = []
        for index, uri in enumerate(self._matching(item["$for"], resource)):
            scope = {"uri": uri, "id": uri.rpartition("/")[2], "index": index}
            rows.append(self._directives(_substitute(item["item"], scope, _ROW), resource))
        return rows


def _actions(path: str, declared: dict[str, dict[str, ParameterFacts]], infos: dict[str, str]) -> dict[str, Any]:
    """The Actions object of a resource (DSP0266 9.5.8): OEM actions stand below Oem. infos: action -> last segment of
    the URI of its ActionInfo."""
    actions: dict[str, Any] = {}
    for name, parameters in declared.items():
        entry: dict[str, Any] = {"target": action_target(path, name)}
        if name in infos:
            entry["@Redfish.ActionInfo"] = f"{path}/{infos[name]}"
        for parameter, facts in parameters.items():
            if parameter == "@Redfish.OperationApplyTime":
                entry[f"{parameter}Support"] = {"@odata.type": _APPLY_TIMES, "SupportedValues": facts.values}
            elif facts.values is not None:
                entry[f"{parameter}@Redfish.AllowableValues"] = facts.values
        place = actions.setdefault("Oem", {}) if name.startswith("Oem.") else actions
        place[f"#{name.removeprefix('Oem.')}"] = entry
    return actions


def _substitute(value: Any, scope: dict[str, Any], pattern: re.Pattern[str]) -> Any:
    """Fill in names of a scope; a text that is nothing but one name becomes its value. Raises KeyError."""
    if isinstance(value, str):
        whole = pattern.fullmatch(value)
        if whole:
            return scope[whole[1]]
        return pattern.sub(lambda match: str(scope[match[1]]), value)
    if isinstance(value, dict):
        return {key: _substitute(item, scope, pattern) for key, item in value.items()}
    return [_substitute(item, scope, pattern) for item in value] if isinstance(value, list) else value


def _embedded(template: dict[str, Any]) -> dict[str, Any]:
    """A log entry inside its collection, which always has its members in full (DSP0266 9.2, Redfish.AutoExpand)."""
    return {key: value for key, value in template.items() if key != ETAG_KEY}


def _link(uri: str) -> dict[str, str]:
    return {"@odata.id": uri}


def _is_oem(uri: str) -> bool:
    return "/Oem/" in uri


def _words(name: str) -> str:
    """'PowerSubsystem' -> 'Power Subsystem', 'PCIeDevice' -> 'PCIe Device'."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
