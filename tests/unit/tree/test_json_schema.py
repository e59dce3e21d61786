"""JSON schemas that are made from the CSDL of vendors."""

import re
from typing import Any

import orjson
import pytest

from bmcsim.tree import json_schema
from bmcsim.tree.csdl import Schemas
from tests.conftest import make_client
from tests.unit.tree.test_csdl import document

PLACE = "/redfish/v1/schemas"
DMTF = "http://redfish.dmtf.org/schemas/v1"


def made(namespace: str = "Acme.v1_0_0") -> Any:
    """The JSON schema of a namespace of the example."""
    text = json_schema.document(Schemas([document()]), namespace, PLACE)
    return None if text is None else orjson.loads(text)


def test_a_schema_is_called_after_its_namespace_and_describes_its_type() -> None:
    schema = made()
    assert (schema["$id"], schema["title"]) == (f"{PLACE}/Acme.v1_0_0.json", "#Acme.v1_0_0.Acme")
    assert schema["$ref"] == "#/definitions/Acme"
    assert set(schema["definitions"]) == {"Acme", "Actions", "Part", "Table"}


def test_a_property_says_what_it_takes() -> None:
    properties = made()["definitions"]["Acme"]["properties"]
    assert properties == {
        "Id": {"type": ["string", "null"]},
        "Name": {"type": ["string", "null"]},
        "Description": {"type": ["string", "null"]},
        "Oem": {"$ref": f"{DMTF}/Resource.json#/definitions/Oem"},
        "Colour": {"type": ["string", "null"]},
        "Actions": {"$ref": f"{PLACE}/Acme.v1_0_0.json#/definitions/Actions"},
        "Friends": {"type": "array", "items": {"$ref": f"{DMTF}/odata-v4.json#/definitions/idRef"}},
        "Parts": {"type": "array", "items": {"$ref": f"{PLACE}/Acme.v1_0_0.json#/definitions/Part"}},
        "Table": {"$ref": f"{PLACE}/Acme.v1_0_0.json#/definitions/Table"},
        "Status": {"$ref": f"{DMTF}/Resource.json#/definitions/Status"},
    }
    assert made()["definitions"]["Part"]["properties"] == {"Size": {"type": ["integer", "null"]}}


@pytest.mark.parametrize(("name", "allowed"), [("abc", True), ("x@odata.count", True), ("ABC", False), ("#A.B", False)])
def test_a_table_takes_the_names_that_its_patterns_allow(name: str, allowed: bool) -> None:
    patterns = made()["definitions"]["Table"]["patternProperties"]
    assert any(re.search(pattern, name) for pattern in patterns) == allowed


def test_a_namespace_that_has_nothing_of_its_own_has_no_schema() -> None:
    assert made("Acme") is None
    assert made("Other") is None


JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", dict: "object"}


def mismatches(value: Any, schema: Any, files: Any, here: Any, where: str) -> list[str]:
    """Where a value is not as a schema says; what DMTF publishes is not looked into."""
    while (reference := schema.get("$ref")) is not None:
        if reference.startswith("http:"):
            return []
        file, _, pointer = reference.partition("#/definitions/")
        here = orjson.loads(files[file].content) if file else here
        schema = here["definitions"][pointer]
    if schema.get("type") == "array":
        items = [mismatches(one, schema["items"], files, here, where) for one in value]
        return [one for item in items for one in item]
    allowed = schema.get("type", [])
    if JSON_TYPES[type(value)] not in ([allowed] if isinstance(allowed, str) else allowed):
        return [f"{where}: {value!r}"]
    found: list[str] = []
    for key, item in value.items() if isinstance(value, dict) and "properties" in schema else ():
        if key in schema["properties"]:
            found += mismatches(item, schema["properties"][key], files, here, f"{where}.{key}")
        elif not any(re.search(pattern, key) for pattern in schema["patternProperties"]):
            found.append(f"{where}.{key} is not there")
    return found


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_what_a_bmc_serves_of_a_vendor_is_as_its_schema_says(profile: str) -> None:
    client = make_client(profile)
    files = client.bmc.tree.files
    seen = 0
    for node in client.bmc.tree.nodes.values():
        uri = f"{PLACE}/{node.type.rpartition('.')[0]}.json"
        if uri in files:
            seen += 1
            assert not mismatches(
                client.get(node.uri), {"$ref": uri + "#/definitions/" + node.type.split(".")[-1]}, files, None, node.uri
            )
    assert seen >= 2
