"""Registries and JsonSchemas, derived from what a profile uses."""

from typing import Any

import pytest

from bmcsim.core.errors import BASE_REGISTRY
from bmcsim.machine import task_view
from bmcsim.machine.jobs import SHOWN
from bmcsim.machine.sensors import SENSOR_EVENTS
from bmcsim.tree import job_messages
from bmcsim.tree.standard import is_standard
from tests.conftest import Client, tree_of
from tests.unit.tree.conftest import Compile

PROFILES = ["bluefield3", "dell_poweredge_r750"]
REGISTRIES, SCHEMAS = "/redfish/v1/Registries", "/redfish/v1/JsonSchemas"
BOTH = f"""\
  {REGISTRIES}: {{collection: MessageRegistryFile, derive: registries}}
  {SCHEMAS}: {{collection: JsonSchemaFile, derive: schemas}}
"""


def types_in(value: Any) -> set[str]:
    """Names, without versions, of all types in JSON."""
    if isinstance(value, dict):
        own = {value["@odata.type"][1:].partition(".")[0]} if "@odata.type" in value else set()
        return own.union(*[types_in(item) for item in value.values()])
    return set().union(*[types_in(item) for item in value]) if isinstance(value, list) else set()


def members(tree: Any, uri: str) -> list[Any]:
    """The templates of the members of a collection."""
    return [tree.nodes[one["@odata.id"]].template for one in tree.nodes[uri].template["Members"]]


@pytest.mark.parametrize("profile", PROFILES)
def test_there_is_a_schema_file_for_each_type_and_no_other(profile: str) -> None:
    tree = tree_of(profile)
    used: set[str] = set()
    for node in (*tree.nodes.values(), *tree.items.values()):
        used |= types_in(node.template)
    files = members(tree, SCHEMAS)
    assert [one["Id"] for one in files] == sorted(used)
    for one in files:
        assert one["Schema"] == f"#{one['Id']}.{one['Id']}"
        assert one["Languages"] == [place["Language"] for place in one["Location"]] == ["en"]
        place = one["Location"][0]
        if is_standard(one["Id"]):
            assert place["PublicationUri"] == f"https://redfish.dmtf.org/schemas/v1/{one['Id']}.json"
        else:
            assert place.keys() == {"Language", "Uri"}
            assert place["Uri"] in tree.files
    (chassis,) = [one for one in files if one["Id"] == "Chassis"]
    assert chassis["Location"][0]["PublicationUri"] == "https://redfish.dmtf.org/schemas/v1/Chassis.json"


@pytest.mark.parametrize("profile", PROFILES)
def test_the_root_links_to_both(profile: str) -> None:
    root = tree_of(profile).nodes["/redfish/v1"].template
    assert root["Registries"] == {"@odata.id": REGISTRIES}
    assert root["JsonSchemas"] == {"@odata.id": SCHEMAS}


@pytest.mark.parametrize("profile", PROFILES)
def test_each_registry_has_a_place_where_it_can_be_read(profile: str) -> None:
    tree = tree_of(profile)
    files = members(tree, REGISTRIES)
    assert len({one["Registry"] for one in files}) == len(files)
    for one in files:
        (place,) = one["Location"]
        assert place["Language"] == "en"
        if one["Id"] in ("Base", "ResourceEvent", "SensorEvent", "TaskEvent", "Update"):
            assert place["PublicationUri"] == f"https://redfish.dmtf.org/registries/{one['Registry']}.0.json"
        else:
            assert tree.nodes[place["Uri"]].template["OwningEntity"]


def test_the_registries_of_dmtf_are_those_that_the_code_uses() -> None:
    registries = [one["Registry"] for one in members(tree_of("bluefield3"), REGISTRIES)]
    used = {SENSOR_EVENTS, *{kind.id.rpartition(".")[0] for kind in tree_of("bluefield3").events}}
    assert registries == [BASE_REGISTRY, *sorted(used | {id_.rpartition(".")[0] for id_ in task_view.MESSAGES})]


def ids_in(value: Any) -> set[str]:
    """All message ids in JSON."""
    if isinstance(value, dict):
        own = {value["MessageId"]} if value.get("MessageId") else set()
        return own.union(*[ids_in(item) for item in value.values()])
    return set().union(*[ids_in(item) for item in value]) if isinstance(value, list) else set()


def test_the_registry_of_a_vendor_has_what_its_logs_jobs_and_errors_say(host: Client) -> None:
    registry = host.get(f"{REGISTRIES}/IDRAC/IDRAC.2.7")
    assert (registry["RegistryPrefix"], registry["RegistryVersion"]) == ("IDRAC", "2.7.0")
    said = {f"IDRAC.2.7.{key}": entry["Message"] for key, entry in registry["Messages"].items()}
    assert said["IDRAC.2.7.SEL0004"] == "Log cleared."
    assert said["IDRAC.2.7.SYS406"].endswith("mode is enabled.")
    assert said["IDRAC.2.7.BIOS021"]
    for message in (*job_messages.EVERY, *[shown.says for shown in SHOWN.values()]):
        assert said[message.id] == message.message
    for uri in host.bmc.tree.logs:
        assert ids_in(host.get(uri)) <= said.keys()
    for kinds in host.bmc.tree.logs.values():
        assert {kind.id for kind in kinds.records if kind.id} <= said.keys()


def test_an_attribute_registry_says_of_each_attribute_what_can_be_written(host: Client) -> None:
    shown = host.get("/redfish/v1/Systems/System.Embedded.1/Bios")
    name = shown["AttributeRegistry"]
    file = host.get(f"{REGISTRIES}/{name}")
    assert file["Registry"] == name
    registry = host.get(file["Location"][0]["Uri"])
    assert f"{name.partition('.')[0]}.v{registry['RegistryVersion'].replace('.', '_')}" == name
    entries = {one["AttributeName"]: one for one in registry["RegistryEntries"]["Attributes"]}
    assert list(entries) == list(shown["Attributes"])
    kinds = {"Boolean": bool, "Integer": int, "String": str, "Enumeration": str, "Password": str | None}
    for attribute, value in shown["Attributes"].items():
        entry = entries[attribute]
        assert isinstance(value, kinds[entry["Type"]])
        if entry["Type"] == "Enumeration":
            assert value in [one["ValueName"] for one in entry["Value"]]
    types = {attribute: (one["Type"], one["ReadOnly"]) for attribute, one in entries.items()}
    assert types["BootMode"] == ("Enumeration", False)
    assert types["SystemServiceTag"] == ("String", True)
    assert types["SetupPassword"] == ("Password", True)


def test_a_profile_without_them_has_none_and_one_with_them_what_it_uses(compiled: Compile) -> None:
    assert not [uri for uri in compiled().nodes if uri.startswith((REGISTRIES, SCHEMAS))]
    tree = compiled(BOTH)
    assert [one["Id"] for one in members(tree, REGISTRIES)] == ["Base"]
    assert {"BootOption", "JsonSchemaFile", "MessageRegistryFileCollection"} <= {
        one["Id"] for one in members(tree, SCHEMAS)
    }


def test_names_that_the_standard_s_registry_cannot_have_are_in_one_of_the_vendor_s_type(host: Client) -> None:
    shown = host.get("/redfish/v1/Managers/iDRAC.Embedded.1/Attributes")
    file = host.get(f"{REGISTRIES}/{shown['AttributeRegistry']}")
    registry = host.get(file["Location"][0]["Uri"])
    assert registry["@odata.type"] == "#DellAttributeRegistry.v1_0_0.DellAttributeRegistry"
    entries = {one["AttributeName"]: one for one in registry["RegistryEntries"]["Attributes"]}
    assert list(entries) == list(shown["Attributes"])
    assert entries["NIC.1.MTU"] == {"AttributeName": "NIC.1.MTU", "ReadOnly": False, "Type": "Integer"}
    assert entries["Racadm.1.Enable"]["Type"] == "Enumeration"


TABLE = """\
  /redfish/v1/Managers/1/Table:
    type: Bios.v1_2_0
    AttributeRegistry: Table.v1_0_0
    Attributes: {Some.Name: 1}
"""


def test_names_that_the_standard_s_registry_cannot_have_get_none_without_a_type(compiled: Compile) -> None:
    assert f"{REGISTRIES}/Table.v1_0_0" not in compiled(BOTH + TABLE).nodes
    assert f"{REGISTRIES}/Table.v1_0_0" in compiled(BOTH + TABLE + "    registry_type: Acme.v1_0_0\n").nodes
    assert f"{REGISTRIES}/Table.v1_0_0" in compiled(BOTH + TABLE.replace("Some.Name", "SomeName")).nodes


def test_an_unknown_thing_to_derive_is_refused(compiled: Compile) -> None:
    with pytest.raises(Exception, match="derive"):
        compiled(BOTH.replace("derive: schemas", "derive: everything"))
