"""Registries and JsonSchemas: which files explain a tree, derived from the types and message ids that it uses.

What DMTF publishes has its publication URI. A registry of a vendor lists what the profile itself says in it, and is
served beside its member; so is one of DMTF that the operator has as a file.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bmcsim.core.errors import BASE_REGISTRY
from bmcsim.tree import job_messages, odata, registry_files
from bmcsim.tree.profile import Derived, LogKind, ParameterFacts, Profile, Resource, VendorMessage, WritableFacts
from bmcsim.tree.registry_files import RegistryFiles
from bmcsim.tree.schema_files import Local
from bmcsim.tree.standard import is_standard
from bmcsim.tree.template import ETAG_KEY

Template = dict[str, Any]
Templates = dict[str, Template]
Message = LogKind | VendorMessage

OF_ITEMS = {"subscriptions": ("ResourceEvent.1.4", "SensorEvent.1.1"), "tasks": ("TaskEvent.1.0", "Update.1.0")}
"""What a dynamic collection holds -> the DMTF registries that go with it (machine/task_view.py, machine/sensors.py)."""

_ID = re.compile(r"([A-Za-z][A-Za-z0-9]*\.\d+\.\d+)\.(\w+)")
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_PUBLISHED = "https://redfish.dmtf.org/registries"
_LANGUAGE = "en"
_SCHEMA_FILE = "JsonSchemaFile.v1_1_5"
_ATTRIBUTE_REGISTRY = "AttributeRegistry.v1_3_9"


def with_registries(profile: Profile, templates: Templates, files: RegistryFiles) -> Templates:
    """The templates of a tree with its registries, where it has a collection for them. files: to serve with them."""
    uri = place_of(profile, "registries")
    return _with_members(templates, uri, _registries(profile, templates, uri, files)) if uri else templates


def with_schemas(profile: Profile, templates: Templates, local: Local) -> Templates:
    """The templates of a tree with its schema files, where it has a collection for them. local: that it serves."""
    uri = place_of(profile, "schemas")
    return _with_members(templates, uri, _schemas(templates, uri, local)) if uri else templates


def place_of(profile: Profile, wanted: Derived) -> str:
    """URI of the collection that is derived as something, '' without one."""
    return next((uri for uri, resource in profile.resources.items() if resource.derive == wanted), "")


def _with_members(templates: Templates, uri: str, more: Templates) -> Templates:
    members = [{"@odata.id": one} for one in more if one.rpartition("/")[0] == uri]
    return {**templates, uri: {**templates[uri], "Members": members, "Members@odata.count": len(members)}, **more}


def _file(uri: str, type_: str, name: str, **properties: Any) -> Template:
    return {
        "@odata.id": uri,
        "@odata.type": f"#{type_}.{type_.partition('.')[0]}",
        ETAG_KEY: "",
        "Id": uri.rpartition("/")[2],
        "Name": name,
        **properties,
    }


# what actions take


_DATA_TYPES = {
    "string": "String",
    "boolean": "Boolean",
    "integer": "Number",
    "number": "Number",
    "strings": "StringArray",
    "object": "Object",
    "objects": "ObjectArray",
}


def action_infos(resources: Iterable[Resource]) -> Templates:
    """An ActionInfo for each action that has one in its profile (DSP0266 9.8.3). It says what the action checks."""
    found: Templates = {}
    for resource in resources:
        for action, segment in resource.action_info.items():
            if action not in resource.actions or resource.uri.endswith("/*"):
                raise resource.error(f"action_info: {action} is not an action of a resource with this URI")
            uri = f"{resource.uri}/{segment}"
            parameters = [
                _parameter(name, facts) for name, facts in resource.actions[action].items() if "@" not in name
            ]
            name = f"{action.rpartition('.')[2]} Action Info"
            found[uri] = _file(uri, "ActionInfo.v1_4_2", name, Parameters=parameters)
    return found


def _parameter(name: str, facts: ParameterFacts) -> dict[str, Any]:
    shown: dict[str, Any] = {"Name": name, "Required": facts.required, "DataType": _DATA_TYPES[facts.type]}
    if facts.values is not None:
        shown["AllowableValues"] = facts.values
    if facts.min is not None:
        shown["MinimumValue"] = facts.min
    if facts.max is not None:
        shown["MaximumValue"] = facts.max
    if facts.pattern:
        shown["AllowablePattern"] = facts.pattern
    if facts.type in ("strings", "objects"):
        shown["ArraySizeMaximum"] = facts.max_items
    return shown


# schemas


def _schemas(templates: Templates, uri: str, local: Local) -> Templates:
    """A file for each type, in the order of their names; those of the files themselves included."""
    names = {type_.partition(".")[0] for type_ in types(templates)}
    return {f"{uri}/{name}": _schema(f"{uri}/{name}", name, local.of_schema(name)) for name in sorted(names)}


def types(templates: Templates) -> set[str]:
    """All types that templates use, at any depth, and that of the schema files."""
    return {type_[1:] for type_ in _types(templates)} | {f"{_SCHEMA_FILE}.JsonSchemaFile"}


def _types(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "@odata.type":
                yield item
            else:
                yield from _types(item)
    elif isinstance(value, list):
        for item in value:
            yield from _types(item)


def _schema(uri: str, name: str, local: str | None) -> Template:
    location = {"Language": _LANGUAGE}
    if local is None or is_standard(name):
        location["PublicationUri"] = odata.publication(name)
    if local is not None:
        location["Uri"] = local
    return _file(
        uri,
        _SCHEMA_FILE,
        f"{name} Schema File",
        Languages=[_LANGUAGE],
        Schema=f"#{name}.{name}",
        Location=[location],
    )


# registries


def _registries(profile: Profile, templates: Templates, uri: str, files: RegistryFiles) -> Templates:
    vendor = templates["/redfish/v1"].get("Vendor", "OEM")
    found: Templates = {}
    standard = [BASE_REGISTRY, *_of_items(profile.resources.values())]
    for registry in standard:
        place = f"{uri}/{registry.partition('.')[0]}"
        location = {"PublicationUri": f"{_PUBLISHED}/{registry}.0.json"}
        if (file := registry_files.newest(files, registry)) is not None:
            registry = file.rpartition(".")[0]
            location = {"PublicationUri": f"{_PUBLISHED}/{file}.json", "Uri": f"{place}/{file}"}
            found[f"{place}/{file}"] = {"@odata.id": f"{place}/{file}", ETAG_KEY: "", **files[file]}
        found[place] = _registry(place, registry, location)
    for registry, messages in _own_messages(profile).items():
        if registry not in standard:
            place = f"{uri}/{registry.partition('.')[0]}"
            found[place] = _registry(place, registry, {"Uri": f"{place}/{registry}"})
            found[f"{place}/{registry}"] = _message_registry(f"{place}/{registry}", registry, vendor, messages)
    for owner, template in templates.items():
        named, attributes = template.get("AttributeRegistry"), template.get("Attributes")
        place = f"{uri}/{named}"
        if not (isinstance(named, str) and isinstance(attributes, dict)):
            continue
        type_ = profile.resources[owner].registry_type
        # Vendors have a type of their own for names that the schema of registries does not allow.
        if place not in found and (type_ or all(_ATTRIBUTE.fullmatch(name) for name in attributes)):
            found[place] = _registry(place, named, {"Uri": f"{place}/{named}"})
            entries = list(_attributes(attributes, profile.resources, owner))
            facts = (type_ or _ATTRIBUTE_REGISTRY, named, vendor)
            found[f"{place}/{named}"] = _attribute_registry(f"{place}/{named}", *facts, entries)
    return found


def _of_items(resources: Iterable[Resource]) -> list[str]:
    used = {registry for resource in resources for registry in OF_ITEMS.get(resource.items, ())}
    return sorted(used)


def _registry(uri: str, registry: str, location: dict[str, str]) -> Template:
    return _file(
        uri,
        "MessageRegistryFile.v1_1_5",
        f"{registry} Registry File",
        Languages=[_LANGUAGE],
        Registry=registry,
        Location=[{"Language": _LANGUAGE, **location}],
    )


def _own_messages(profile: Profile) -> dict[str, dict[str, Message]]:
    """Registry -> key -> what the profile says under it; where it says two things, the last one."""
    said: list[Any] = [profile.head.behaviour]
    for resource in profile.resources.values():
        said += [resource.settings, resource.log, *(job_messages.EVERY if resource.items == "jobs" else ())]
    found: dict[str, dict[str, Message]] = defaultdict(dict)
    for message in _messages(said):
        if (match := _ID.fullmatch(message.id)) is not None:
            found[match[1]][match[2]] = message
    return found


def _messages(value: Any) -> Iterator[Message]:
    """All messages inside of facts of a profile."""
    if isinstance(value, Message):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _messages(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from _messages(item)


def _message_registry(uri: str, registry: str, vendor: str, messages: dict[str, Message]) -> Template:
    prefix, _, version = registry.partition(".")
    return _file(
        uri,
        "MessageRegistry.v1_6_3",
        f"{prefix} Message Registry",
        Language=_LANGUAGE,
        OwningEntity=vendor,
        RegistryPrefix=prefix,
        RegistryVersion=f"{version}.0",
        Messages={
            key: {
                "Description": message.message,
                "Message": message.message,
                "MessageSeverity": message.severity,
                "NumberOfArgs": 0,
                "Resolution": message.resolution if isinstance(message, VendorMessage) else "None.",
            }
            for key, message in sorted(messages.items())
        },
    )


def _attribute_registry(uri: str, type_: str, registry: str, vendor: str, entries: list[dict[str, Any]]) -> Template:
    name, _, version = registry.partition(".v")
    return _file(
        uri,
        type_,
        name,
        Language=_LANGUAGE,
        OwningEntity=vendor,
        RegistryVersion=version.replace("_", "."),
        RegistryEntries={"Attributes": entries},
    )


def _attributes(attributes: dict[str, Any], resources: dict[str, Resource], owner: str) -> Iterator[dict[str, Any]]:
    """An entry for each attribute of a resource; what may be written to it says it itself, or its settings do."""
    writers = [
        resource
        for uri, resource in resources.items()
        if uri == owner or (resource.settings is not None and resource.settings.of == owner)
    ]
    facts = next((one.writable["Attributes"] for one in writers if "Attributes" in one.writable), None)
    passwords = {name for one in writers if one.settings is not None for name in one.settings.passwords}
    for name, value in attributes.items():
        yield _attribute(name, value, facts, name in passwords)


def _attribute(name: str, value: Any, facts: WritableFacts | None, password: bool) -> dict[str, Any]:
    choices = facts.choices.get(name) if facts is not None else None
    entry: dict[str, Any] = {
        "AttributeName": name,
        "ReadOnly": facts is None or name in facts.read_only,
        "Type": "Password" if password else "Enumeration" if choices else _ATTRIBUTE_TYPES.get(type(value), "String"),
    }
    return {**entry, "Value": [{"ValueName": choice} for choice in choices]} if choices else entry


_ATTRIBUTE_TYPES = {bool: "Boolean", int: "Integer"}
