"""A client that visits every link from the root."""

from collections import deque
from typing import Any

import orjson
import pytest

from bmcsim.tree.check import links_of
from tests.conftest import Client, header, make_client
from tests.unit.redfish.conftest import login

Visited = dict[str, tuple[dict[str, Any], dict[str, str | None]]]
FIELDS = ("Content-Type", "OData-Version", "Cache-Control", "Allow", "Link", "ETag")


def walk(client: Client) -> Visited:
    """URI -> (body, header fields) of everything that can be reached from the root. Every answer must be 200."""
    queue, visited = deque(["/redfish/v1/"]), Visited()
    while queue:
        uri = queue.popleft()
        if uri in visited:
            continue
        response = client.request("GET", uri)
        assert response.status == 200, (uri, response.body)
        body = orjson.loads(response.body)
        visited[uri] = body, {name: header(response, name) for name in FIELDS}
        queue.extend(link.partition("#")[0] for _, link in links_of(body))
    return visited


@pytest.fixture(scope="module")
def visited() -> Visited:
    """A walk through a BlueField-3 on which somebody is logged in."""
    client = make_client("bluefield3")
    login(client)
    return walk(client)


def test_every_resource_of_the_tree_is_reached(visited: Visited, dpu: Client) -> None:
    """Storage has an array of drives, not a link to the collection that their URIs imply; nothing links to the trust
    store of a BlueField."""
    reached = {uri.rstrip("/") for uri in visited}
    assert dpu.bmc.tree.nodes.keys() - reached == {
        "/redfish/v1/Systems/Bluefield/Storage/Storage_0/Drives",
        "/redfish/v1/Managers/Bluefield_BMC/Truststore/Certificates",
    }
    extra = {
        "/redfish/v1/SessionService/Sessions/1",
        "/redfish/v1/AccountService/Accounts/root",
        *(f"/redfish/v1/AccountService/Roles/{role}" for role in ("Administrator", "Operator", "ReadOnly")),
        "/redfish/v1/Systems/Bluefield/LogServices/EventLog/Entries/1",
        "/redfish/v1/Managers/Bluefield_BMC/NetworkProtocol/HTTPS/Certificates/1",
    }
    assert reached - dpu.bmc.tree.nodes.keys() == extra


def test_every_resource_is_the_one_that_the_link_named(visited: Visited) -> None:
    assert {uri: body["@odata.id"] for uri, (body, _) in visited.items()} == {uri: uri for uri in visited}


def test_every_head_is_complete(visited: Visited) -> None:
    for uri, (body, fields) in visited.items():
        assert fields["Content-Type"] == "application/json; charset=utf-8", uri
        assert fields["OData-Version"] == "4.0", uri
        assert fields["Cache-Control"] == "no-cache", uri
        assert str(fields["Allow"]).startswith("GET, HEAD"), uri
        assert fields["ETag"] == body["@odata.etag"], uri
        type_ = body["@odata.type"].removeprefix("#").rpartition(".")[0]
        assert f"/{type_}.json>; rel=describedby" in str(fields["Link"]), uri


def test_every_resource_has_a_name_and_an_id_unless_it_is_oem(visited: Visited) -> None:
    for uri, (body, _) in visited.items():
        if "/Oem/" in uri:
            continue
        assert body["Name"], uri
        assert "Members" in body or body["Id"], uri


def test_every_collection_counts_its_members(visited: Visited) -> None:
    collections = [body for body, _ in visited.values() if "Members" in body]
    assert len(collections) > 15
    for body in collections:
        assert body["Members@odata.count"] == len(body["Members"])
        members = [member["@odata.id"] for member in body["Members"]]
        assert len(set(members)) == len(members)
        assert all(member.rpartition("/")[0] == body["@odata.id"] for member in members)


def test_no_hole_and_no_directive_is_left(visited: Visited) -> None:
    text = orjson.dumps([body for body, _ in visited.values()]).decode()
    assert not any(left in text for left in ("${", "$link", "$for", "$omit", "<uri>", "<id>", "\\u0000"))


def test_two_walks_see_the_same_entity_tags_unless_something_moved(dpu: Client) -> None:
    one = {uri: fields["ETag"] for uri, (_, fields) in walk(dpu).items()}
    dpu.clock.advance(0.5)
    assert {uri: fields["ETag"] for uri, (_, fields) in walk(dpu).items()} == one
    dpu.clock.advance(60)
    moved = {uri for uri, (_, fields) in walk(dpu).items() if fields["ETag"] != one[uri]}
    assert moved
    assert all("/Sensors/" in uri or "/MetricReports/" in uri for uri in moved)
