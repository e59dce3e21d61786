"""JSON Schema of vendors' types, made from their CSDL as DMTF makes its own (DSP0266 8.4)."""

from typing import Any

import orjson

from bmcsim.tree.csdl import Property, Schemas

_DMTF = "http://redfish.dmtf.org/schemas/v1"
_ANNOTATION = r"^([a-zA-Z_][a-zA-Z0-9_]*)?@(odata|Redfish|Message)\.[a-zA-Z_][a-zA-Z0-9_]*$"
_ACTION = r"^#[A-Za-z0-9_.]+$"
_LINK = {"$ref": f"{_DMTF}/odata-v4.json#/definitions/idRef"}
_PRIMITIVES: dict[str, Any] = {
    "Edm.Boolean": {"type": ["boolean", "null"]},
    "Edm.DateTimeOffset": {"type": ["string", "null"], "format": "date-time"},
    "Edm.Decimal": {"type": ["number", "null"]},
    "Edm.Int64": {"type": ["integer", "null"]},
    "Edm.PrimitiveType": {"type": ["boolean", "integer", "number", "string", "null"]},
    "Edm.String": {"type": ["string", "null"]},
}


def document(schemas: Schemas, namespace: str, place: str) -> bytes | None:
    """The schema of a namespace such as DellJob.v1_5_0, None where it has no type of its own.

    place: URI of the folder that it and its like are served in.
    """
    types = schemas.concrete(namespace)
    if not types:
        return None
    name = namespace.partition(".")[0]
    schema: dict[str, Any] = {
        "$id": f"{place}/{namespace}.json",
        "$schema": f"{_DMTF}/redfish-schema-v1.json",
        "definitions": {short: _object(schemas, f"{namespace}.{short}", place) for short in types},
        "title": f"#{namespace}.{name}",
    }
    if name in types:
        schema["$ref"] = f"#/definitions/{name}"
    return orjson.dumps(schema)


def _object(schemas: Schemas, type_: str, place: str) -> dict[str, Any]:
    properties, patterns = schemas.properties(type_)
    names = [pattern.pattern for pattern in patterns] + ([_ACTION] if type_.endswith(".Actions") else [])
    return {
        "type": "object",
        "additionalProperties": False,
        "patternProperties": {_ANNOTATION: {}, **{name: {} for name in names}},
        "properties": {name: _property(schemas, one, place) for name, one in properties.items()},
    }


def _property(schemas: Schemas, facts: Property, place: str) -> dict[str, Any]:
    one = _LINK if facts.link else _PRIMITIVES.get(facts.type) or _reference(schemas, facts.type, place)
    return {"type": "array", "items": one} if facts.collection else one


def _reference(schemas: Schemas, type_: str, place: str) -> dict[str, Any]:
    namespace, _, short = type_.rpartition(".")
    if short in schemas.concrete(namespace):
        return {"$ref": f"{place}/{namespace}.json#/definitions/{short}"}
    # What extends an abstract type says itself what it is, in @odata.type.
    if schemas.document(namespace) is not None or not namespace:
        return {"type": "object"}
    return {"$ref": f"{_DMTF}/{namespace}.json#/definitions/{short}"}
