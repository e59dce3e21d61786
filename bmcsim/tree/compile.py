"""From a profile to the frozen tree: links, collections, envelopes and encoded bodies."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from bmcsim.tree import odata
from bmcsim.tree.profile import Head, Profile, Resource, WritableFacts
from bmcsim.tree.source import ProfileError, deep_merge
from bmcsim.tree.template import ETAG_KEY, Binder, Body, Hole, Reading, TemplateError, parse_hole

ROOT = "/redfish/v1"
_LOG_ENTRIES = "#LogEntryCollection.LogEntryCollection"
_OMIT = "$omit"


class Action(msgspec.Struct, frozen=True):
    """One action: its resource, its name (ComputerSystem.Reset) and its parameters with their allowable values."""

    uri: str
    name: str
    parameters: dict[str, list[str] | None]


class Node:
    """One URI of a tree.

    items: for a dynamic collection, which of the BMC's own things are its members; for their template, the same.
    allow: methods, as in the Allow header (RFC 9110 10.2.1).
    applies_to: URI of the resource that a write to this settings resource changes too, or ''.
    """

    __slots__ = ("allow", "applies_to", "body", "collection", "head", "items", "template", "type", "uri", "writable")

    def __init__(self, uri: str, type_: str, template: dict[str, Any], body: Body, resource: Resource | None) -> None:
        self.uri, self.type, self.template, self.body = uri, type_, template, body
        self.items = resource.items if resource else ""
        self.applies_to = resource.applies_to if resource else ""
        self.collection = type_.split(".")[0].endswith("Collection")
        self.writable: dict[str, WritableFacts] = resource.writable if resource else {}
        methods = ["GET", "HEAD"]
        if self.items and self.collection:
            methods += ["POST"] if self.items in CREATABLE else []
        elif self.items in CREATABLE:
            methods += ["DELETE"]
        if self.writable:
            methods.append("PATCH")
        self.allow = ", ".join(methods)
        self.head = (
            b"Content-Type: application/json; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\nAllow: "
            + self.allow.encode()
            + b"\r\n"
            + odata.link_header(type_)
        )


ITEMS = frozenset({"accounts", "sessions"})
"""What dynamic collections can hold."""

CREATABLE = frozenset({"sessions"})
"""Dynamic collections whose members clients create and delete."""


class Tree:
    """What all BMCs of one profile share.

    nodes: URI without trailing slash -> node. items: URI of a dynamic collection -> template of its members.
    item_uris: what a dynamic collection holds ('sessions') -> its URI. actions: target URI -> action.
    metadata, service_document: the two OData documents, encoded.
    """

    __slots__ = ("actions", "bind", "head", "item_uris", "items", "metadata", "nodes", "readings", "service_document")

    def __init__(self, head: Head, bind: Binder) -> None:
        self.head = head
        self.bind = bind
        self.nodes: dict[str, Node] = {}
        self.items: dict[str, Node] = {}
        self.item_uris: dict[str, str] = {}
        self.actions: dict[str, Action] = {}
        self.readings: dict[str, Reading] = {}
        self.metadata = b""
        self.service_document = b""

    def body(self, template: dict[str, Any], uri: str) -> Body:
        """Encode a template of this tree. Raises TemplateError for an unknown hole."""

        def resolve(text: str) -> Hole:
            hole = parse_hole(text)
            name, _, target = hole.name.partition(":")
            if name not in ("reading", "reading.state"):
                return hole
            reading = self.readings.get(target or uri)
            if reading is None:
                raise TemplateError(f"{target or uri} has no reading")
            return Hole(name, hole.filter, reading)

        return Body(template, self.bind, resolve)


def compile_tree(profile: Profile, bind: Binder) -> Tree:
    """Compile a profile. Raises ProfileError for a directive, hole or link that cannot work."""
    tree = Tree(profile.head, bind)
    resources = profile.resources
    templates = _Linker(resources).templates()
    number = 0
    for uri, resource in resources.items():
        if resource.reading is not None:
            facts = resource.reading
            if facts.max < facts.min or facts.step <= 0:
                raise resource.error("reading needs min <= max and step > 0")
            tree.readings[uri] = Reading(facts.min, facts.max, facts.step, facts.powered, number)
            number += 1
    for uri, template in templates.items():
        owner = resources.get(uri)
        if owner and owner.items and owner.items not in ITEMS:
            raise owner.error(f"items: {owner.items} is not one of {', '.join(sorted(ITEMS))}")
        try:
            body = tree.body(template, uri)
        except TemplateError as error:
            raise (owner.error(str(error)) if owner else ProfileError(f"{uri}: {error}")) from error
        node = Node(uri, template["@odata.type"][1:], template, body, owner)
        if uri.endswith("/*"):
            tree.items[uri[:-2]] = node
            tree.item_uris[node.items] = uri[:-2]
        else:
            tree.nodes[uri] = node
        if owner:
            for name, parameters in owner.actions.items():
                target = action_target(uri, name)
                tree.actions[target] = Action(uri, name, parameters)
    tree.metadata = odata.metadata([template["@odata.type"][1:] for template in templates.values()])
    if "Sessions" not in templates[ROOT].get("Links", {}):
        raise resources[ROOT].error("needs Links.Sessions")
    tree.service_document = odata.service_document(templates[ROOT])
    return tree


def action_target(uri: str, name: str) -> str:
    """{uri}/Actions/ComputerSystem.Reset, or {uri}/Actions/Oem/X.Y for the name Oem.X.Y (DSP0266 7.11)."""
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
            if template["@odata.type"] == _LOG_ENTRIES:
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
            template["Actions"] = _actions(path, resource.actions)
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
                "Members": f"${{members.{resource.items}}}",
                "Members@odata.count": f"${{count.{resource.items}}}",
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
            rows.append(self._directives(_substitute(item["item"], scope), resource))
        return rows


def _actions(path: str, declared: dict[str, dict[str, list[str] | None]]) -> dict[str, Any]:
    """The Actions object of a resource (DSP0266 9.5.8): OEM actions stand below Oem."""
    actions: dict[str, Any] = {}
    for name, parameters in declared.items():
        entry: dict[str, Any] = {"target": action_target(path, name)}
        for parameter, values in parameters.items():
            if values is not None:
                entry[f"{parameter}@Redfish.AllowableValues"] = values
        place = actions.setdefault("Oem", {}) if name.startswith("Oem.") else actions
        place[f"#{name.removeprefix('Oem.')}"] = entry
    return actions


def _substitute(value: Any, scope: dict[str, Any]) -> Any:
    if isinstance(value, str):
        whole = re.fullmatch(r"<(uri|id|index)>", value)
        if whole:
            return scope[whole[1]]
        return re.sub(r"<(uri|id|index)>", lambda match: str(scope[match[1]]), value)
    if isinstance(value, dict):
        return {key: _substitute(item, scope) for key, item in value.items()}
    return [_substitute(item, scope) for item in value] if isinstance(value, list) else value


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
