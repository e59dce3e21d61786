"""A client that visits every link from the root."""

from collections import deque
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import orjson
import pytest

from bmcsim.tree.check import links_of
from bmcsim.tree.profile import names
from tests.conftest import Client, header, make_client
from tests.unit.redfish.conftest import login

Visited = dict[str, tuple[dict[str, Any], dict[str, str | None]]]
FIELDS = ("Content-Type", "OData-Version", "Cache-Control", "Allow", "Link", "ETag")
NO_LINK = {
    "/redfish/v1/Systems/*/Storage/*/Drives": "storage has an array of drives, not a link to their collection",
    "/redfish/v1/Registries/*/*": "files are named by Location, not by a link",
    "/redfish/v1/Managers/*/Truststore/Certificates": "no resource of OpenBMC links there",
    "/redfish/v1/Managers/iDRAC.Embedded.1/Attributes": "old clients know the URI",
    "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs": "older clients know the URI",
}
"""URIs that no link leads to, and why."""


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
        queue.extend(action_infos(body))
    return visited


def action_infos(body: Any) -> Iterator[str]:
    """The URIs of what says which parameters actions take."""
    actions = body.get("Actions", {})
    for action in (*actions.values(), *actions.get("Oem", {}).values()):
        if "@Redfish.ActionInfo" in action:
            yield action["@Redfish.ActionInfo"]


@pytest.fixture(scope="module", params=names())
def client(request: pytest.FixtureRequest) -> Client:
    """A BMC of each profile in turn, on which somebody is logged in."""
    client = make_client(request.param)
    login(client, client.bmc.tree.head.accounts[0].user)
    return client


@pytest.fixture(scope="module")
def visited(client: Client) -> Visited:
    """A walk through it."""
    return walk(client)


def test_every_resource_of_the_tree_is_reached(visited: Visited, client: Client) -> None:
    unreached = client.bmc.tree.nodes.keys() - {uri.rstrip("/") for uri in visited}
    assert [uri for uri in unreached if not any(fnmatchcase(uri, glob) for glob in NO_LINK)] == []


def test_what_is_reached_beside_the_tree_came_to_be_there(dpu: Client) -> None:
    login(dpu)
    reached = {uri.rstrip("/") for uri in walk(dpu)}
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
    assert len(collections) > 10
    for body in collections:
        assert body["Members@odata.count"] == len(body["Members"])
        members = [member["@odata.id"] for member in body["Members"]]
        assert len(set(members)) == len(members)
        assert all(member.rpartition("/")[0] == body["@odata.id"] for member in members)


def test_a_chassis_contains_what_says_that_it_is_contained_by_it(visited: Visited) -> None:
    links = {uri: body["Links"] for uri, (body, _) in visited.items() if body["@odata.type"].startswith("#Chassis.")}
    contained = {(one["ContainedBy"]["@odata.id"], uri) for uri, one in links.items() if "ContainedBy" in one}
    assert {(uri, link["@odata.id"]) for uri, one in links.items() for link in one.get("Contains", ())} == contained


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
