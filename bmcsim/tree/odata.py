"""The OData documents and the describedby link, derived from the types that a tree uses (DSP0266 8.2, 8.4)."""

from collections.abc import Iterable, Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

import orjson

_SCHEMAS = "http://redfish.dmtf.org/schemas/v1/"


def publication(schema: str) -> str:
    """Where the JSON Schema that stands for all versions of a type is published."""
    return f"{_SCHEMAS}{schema}.json".replace("http:", "https:")


def link_header(type_: str, uri: str | None = None) -> bytes:
    """'Chassis.v1_25_0.Chassis' -> the Link header line whose JSON Schema has the version of the type.

    uri: of the file that the service has itself.
    """
    name = type_.rpartition(".")[0]
    return f"Link: <{uri or f'{_SCHEMAS}{name}.json'}>; rel=describedby\r\n".encode()


def metadata(types: Iterable[str], local: Mapping[str, str] | None = None) -> bytes:
    """The $metadata document: a reference per schema and version, and the entity container.

    types: and actions. local: schema -> URI of the file that the service has itself.
    """
    own = local or {}
    versions: dict[str, set[str]] = {"ServiceRoot": set(), "RedfishExtensions": {"RedfishExtensions.v1_0_0"}}
    for type_ in types:
        namespace = type_.rpartition(".")[0]
        versions.setdefault(namespace.split(".")[0], set()).add(namespace)
    rows = ['<?xml version="1.0" encoding="UTF-8"?>']
    rows.append('<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">')
    for schema, namespaces in versions.items():
        rows.append(f"<edmx:Reference Uri={quoteattr(own.get(schema, f'{_SCHEMAS}{schema}_v1.xml'))}>")
        for namespace in sorted({schema, *namespaces}):
            alias = ' Alias="Redfish"' if namespace == "RedfishExtensions.v1_0_0" else ""
            rows.append(f"<edmx:Include Namespace={quoteattr(namespace)}{alias}/>")
        rows.append("</edmx:Reference>")
    root = max(versions["ServiceRoot"], key=len)
    rows.append('<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">')
    rows.append(f'<EntityContainer Name="Service" Extends={quoteattr(root + ".ServiceContainer")}/>')
    rows.append("</Schema></edmx:DataServices></edmx:Edmx>")
    return "\n".join(rows).encode()


def service_document(root: dict[str, Any]) -> bytes:
    """The OData service document: one entry per link of the service root."""
    value: list[dict[str, str]] = [{"name": "Service", "kind": "Singleton", "url": "/redfish/v1/"}]
    for name, item in root.items():
        if isinstance(item, dict) and set(item) == {"@odata.id"}:
            value.append({"name": name, "kind": "Singleton", "url": item["@odata.id"]})
    value.append({"name": "Sessions", "kind": "Singleton", "url": root["Links"]["Sessions"]["@odata.id"]})
    return orjson.dumps({"@odata.context": "/redfish/v1/$metadata", "value": value})
