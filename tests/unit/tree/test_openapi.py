"""The OpenAPI document of a tree."""

import pytest
import yaml

from bmcsim.tree.openapi import document
from tests.conftest import Client, tree_of


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_it_has_every_uri_with_its_methods(profile: str) -> None:
    tree = tree_of(profile)
    shown = yaml.safe_load(tree.openapi)
    assert shown["openapi"] == "3.0.1"
    assert shown["info"]["version"] == tree.nodes["/redfish/v1"].template["RedfishVersion"]
    paths = {path: [name.upper() for name in known if name != "parameters"] for path, known in shown["paths"].items()}
    targets = [target.replace("/*/", "/{id}/") for target in tree.actions]
    assert paths.keys() == {*tree.nodes, *[f"{uri}/{{id}}" for uri in tree.items], *targets}
    assert all(", ".join(paths[uri]) == node.allow for uri, node in tree.nodes.items())
    assert all(paths[target] == ["POST"] for target in targets)


def test_a_member_of_a_dynamic_collection_has_a_parameter() -> None:
    known = yaml.safe_load(document("1.0.0", [("/redfish/v1/A: b/*", "GET, DELETE")]))["paths"]["/redfish/v1/A: b/{id}"]
    assert [one["name"] for one in known.pop("parameters")] == ["id"]
    assert known.keys() == {"get", "delete"}
    assert all(one["responses"]["default"]["description"] for one in known.values())


def test_a_client_gets_it_as_yaml_only(dpu: Client) -> None:
    path = "/redfish/v1/openapi.yaml"
    assert dpu.request("GET", path).body == dpu.bmc.tree.openapi
    for accept, status in ((b"application/yaml", 200), (b"application/*", 200), (b"application/json", 406)):
        assert dpu.request("GET", path, accept=accept).status == status
    assert dpu.request("POST", path, {}).status == 405
