"""The OData documents."""

from xml.etree import ElementTree

import orjson
import pytest

from bmcsim.tree.odata import link_header, metadata
from tests.conftest import tree_of
from tests.unit.tree.conftest import Compile

EDMX, EDM = "{http://docs.oasis-open.org/odata/ns/edmx}", "{http://docs.oasis-open.org/odata/ns/edm}"


def included(document: bytes) -> dict[str, str]:
    """Namespace -> URI of the reference that includes it."""
    root = ElementTree.fromstring(document)
    return {
        include.attrib["Namespace"]: reference.attrib["Uri"]
        for reference in root.findall(f"{EDMX}Reference")
        for include in reference.findall(f"{EDMX}Include")
    }


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_metadata_references_every_namespace_that_a_tree_uses(profile: str) -> None:
    tree = tree_of(profile)
    namespaces = included(tree.metadata)
    used = {node.type.rpartition(".")[0] for node in (*tree.nodes.values(), *tree.items.values())}
    assert used <= namespaces.keys()
    assert {namespace.split(".")[0] for namespace in used} <= namespaces.keys()
    assert namespaces["Chassis.v1_25_0"] == "http://redfish.dmtf.org/schemas/v1/Chassis_v1.xml"


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_metadata_has_an_entity_container_of_the_root_s_own_version(profile: str) -> None:
    root = ElementTree.fromstring(tree_of(profile).metadata)
    assert (root.tag, root.attrib["Version"]) == (f"{EDMX}Edmx", "4.0")
    (container,) = root.iter(f"{EDM}EntityContainer")
    namespace = tree_of(profile).nodes["/redfish/v1"].type.rpartition(".")[0]
    assert container.attrib["Extends"] == f"{namespace}.ServiceContainer"
    assert namespace in included(tree_of(profile).metadata)


def test_metadata_names_the_redfish_terms_once() -> None:
    document = metadata(["ServiceRoot.v1_17_0.ServiceRoot", "A.v1_0_0.A", "A.v1_1_0.A", "A.v1_1_0.A"])
    assert document.count(b'Alias="Redfish"') == 1
    assert document.count(b'"A.v1_1_0"') == 1
    assert {"A", "A.v1_0_0", "A.v1_1_0", "RedfishExtensions.v1_0_0"} <= included(document).keys()


def test_a_file_that_the_service_has_itself_is_referenced_there() -> None:
    types = ["ServiceRoot.v1_17_0.ServiceRoot", "DellJobCollection.DellJobCollection", "DellManager.ClearPending"]
    namespaces = included(metadata(types, {"DellJobCollection": "/a.xml", "DellManager": "/b.xml"}))
    assert (namespaces["DellJobCollection"], namespaces["DellManager"]) == ("/a.xml", "/b.xml")
    assert namespaces["ServiceRoot"] == "http://redfish.dmtf.org/schemas/v1/ServiceRoot_v1.xml"


@pytest.mark.parametrize(
    ("type_", "own", "uri"),
    [
        ("Chassis.v1_25_0.Chassis", None, "http://redfish.dmtf.org/schemas/v1/Chassis.v1_25_0.json"),
        ("ChassisCollection.ChassisCollection", None, "http://redfish.dmtf.org/schemas/v1/ChassisCollection.json"),
        ("DellManager.v1_4_0.DellManager", "/a.xml", "/a.xml"),
    ],
)
def test_the_link_header_leads_to_the_schema_of_the_type(type_: str, own: str | None, uri: str) -> None:
    assert link_header(type_, own) == f"Link: <{uri}>; rel=describedby\r\n".encode()


def test_the_service_document_lists_what_the_root_links_to(compiled: Compile) -> None:
    document = orjson.loads(compiled().service_document)
    assert document["@odata.context"] == "/redfish/v1/$metadata"
    assert {one["kind"] for one in document["value"]} == {"Singleton"}
    assert {one["name"]: one["url"] for one in document["value"]} == {
        "Service": "/redfish/v1/",
        "AccountService": "/redfish/v1/AccountService",
        "UpdateService": "/redfish/v1/UpdateService",
        "SessionService": "/redfish/v1/SessionService",
        "Sessions": "/redfish/v1/SessionService/Sessions",
        "Managers": "/redfish/v1/Managers",
        "Systems": "/redfish/v1/Systems",
        "Chassis": "/redfish/v1/Chassis",
    }
