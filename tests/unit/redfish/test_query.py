"""Query parameters."""

from typing import Any

import orjson
import pytest

from bmcsim.core.errors import RedfishError
from bmcsim.redfish.query import MAX_LEVELS, Query, parse
from tests.conftest import Client, header, make_client, message_ids, tree_of
from tests.unit.redfish.conftest import ACCOUNTS, MANAGER, PROTOCOL, SESSIONS, SYSTEM, login


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        ("$expand=.", Query(".", 1)),
        ("$expand=*", Query("*", 1)),
        ("$expand=~", Query("~", 1)),
        ("$expand=.($levels=1)", Query(".", 1)),
        ("$expand=*($levels=2)", Query("*", 2)),
        ("$expand=~($levels=6)", Query("~", 6)),
        ("%24expand=.", Query(".", 1)),
        ("$expand=.%28%24levels%3D3%29", Query(".", 3)),
        ("$expand=*&$expand=.", Query(".", 1)),
        ("foo=1", Query()),
        ("foo", Query()),
        ("foo=1&$expand=.&bar", Query(".", 1)),
        ("expand=.", Query()),
        ("&&", Query()),
        ("=", Query()),
        ("only", Query()),
        ("excerpt", Query()),
    ],
)
def test_what_is_understood_or_ignored(text: str, query: Query) -> None:
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "status", "message", "arguments"),
    [
        ("$expand=", 400, "QueryParameterValueFormatError", ["", "$expand"]),
        ("$expand", 400, "QueryParameterValueFormatError", ["", "$expand"]),
        ("$expand=links", 400, "QueryParameterValueFormatError", ["links", "$expand"]),
        ("$expand=.($levels=abc)", 400, "QueryParameterValueFormatError", [".($levels=abc)", "$expand"]),
        ("$expand=.($levels=-1)", 400, "QueryParameterValueFormatError", [".($levels=-1)", "$expand"]),
        ("$expand=.($levels=1", 400, "QueryParameterValueFormatError", [".($levels=1", "$expand"]),
        ("$expand=..", 400, "QueryParameterValueFormatError", ["..", "$expand"]),
        ("$expand=.($levels=99999999)", 400, "QueryParameterValueFormatError", [".($levels=99999999)", "$expand"]),
        ("$expand=.($levels=0)", 400, "QueryParameterOutOfRange", ["0", "$levels", "1-6"]),
        ("$expand=.($levels=7)", 400, "QueryParameterOutOfRange", ["7", "$levels", "1-6"]),
        ("$select=Name", 501, "QueryParameterUnsupported", ["$select"]),
        ("$filter=Id eq 1", 501, "QueryParameterUnsupported", ["$filter"]),
        ("$top=1", 501, "QueryParameterUnsupported", ["$top"]),
        ("$skip=1", 501, "QueryParameterUnsupported", ["$skip"]),
        ("$nope", 501, "QueryParameterUnsupported", ["$nope"]),
        ("$", 501, "QueryParameterUnsupported", ["$"]),
        ("%24nope=1", 501, "QueryParameterUnsupported", ["$nope"]),
        ("$Expand=.", 501, "QueryParameterUnsupported", ["$Expand"]),
        ("$expand=.&$top=1", 501, "QueryParameterUnsupported", ["$top"]),
    ],
)
def test_what_is_refused(text: str, status: int, message: str, arguments: list[str]) -> None:
    with pytest.raises(RedfishError) as caught:
        parse(text)
    assert (caught.value.status, caught.value.message, list(caught.value.arguments)) == (status, message, arguments)


@pytest.mark.parametrize(
    ("query", "status"),
    [("$expand=.($levels=0)", 400), ("$select=Name", 501), ("rpvunknown", 200), ("only", 200), ("excerpt=1", 200)],
)
def test_refusals_reach_the_client(dpu: Client, query: str, status: int) -> None:
    for path in ("/redfish/v1/", "/redfish/v1/Systems", SYSTEM):
        assert dpu.request("GET", f"{path}?{query}").status == status


def test_a_query_with_very_many_parameters_is_an_error_of_the_client(dpu: Client) -> None:
    response = dpu.request("GET", "/redfish/v1/Systems?" + "&".join(["a=1"] * 500))
    assert response.status in (200, 400)


@pytest.mark.parametrize(("method", "path"), [("PATCH", PROTOCOL), ("POST", MANAGER + "/Actions/Manager.Reset")])
@pytest.mark.parametrize(
    ("query", "refused"),
    [("$expand=.", True), ("%24expand=.", True), ("$top=1", True), ("foo=1", False), ("only_this=1", False)],
)
def test_a_write_takes_no_query(dpu: Client, method: str, path: str, query: str, refused: bool) -> None:
    body = {"NTP": {"ProtocolEnabled": False}} if method == "PATCH" else None
    before = dpu.bmc.state
    response = dpu.request(method, f"{path}?{query}", body)
    assert response.status == (400 if refused else 204)
    if refused:
        assert message_ids(response) == ["QueryNotSupportedOnOperation"]
    assert (dpu.bmc.state is before) == refused


def test_the_root_advertises_what_is_there(dpu: Client) -> None:
    features = dpu.get("/redfish/v1/")["ProtocolFeaturesSupported"]
    assert features["ExpandQuery"] == {
        "ExpandAll": True,
        "Levels": True,
        "Links": True,
        "MaxLevels": MAX_LEVELS,
        "NoLinks": True,
    }
    for feature in ("ExcerptQuery", "FilterQuery", "OnlyMemberQuery", "SelectQuery"):
        assert features[feature] is False


# $expand


def expanded(client: Client, path: str, kind: str, levels: int) -> Any:
    """What $expand means, spelled out with nothing but single GETs."""

    def inside(value: Any, own: str, in_links: bool) -> Any:
        if isinstance(value, list):
            return [inside(item, own, in_links) for item in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"@odata.id"}:
            wanted = {"*": True, ".": not in_links, "~": in_links}[kind]
            uri = value["@odata.id"]
            return expanded(client, uri, kind, levels - 1) if wanted and uri != own else value
        return {key: inside(item, own, in_links or key == "Links") for key, item in value.items()}

    resource = client.get(path)
    if levels == 0:
        return resource
    return {key: inside(value, resource["@odata.id"], key == "Links") for key, value in resource.items()}


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("kind", [".", "*", "~"])
def test_every_resource_expands_to_what_single_reads_show(dpu: Client, kind: str, levels: int) -> None:
    login(dpu)
    for path in dpu.bmc.tree.nodes:
        shown = dpu.get(f"{path}?$expand={kind}($levels={levels})")
        assert shown == expanded(dpu, path, kind, levels), path


@pytest.mark.parametrize("kind", [".", "*", ".($levels=1)"])
def test_members_of_collections_equal_their_own_get(dpu: Client, kind: str) -> None:
    login(dpu)
    login(dpu)
    for path, node in dpu.bmc.tree.nodes.items():
        if node.collection:
            shown = dpu.get(f"{path}?$expand={kind}")
            plain = dpu.get(path)
            assert shown["Members"] == [dpu.get(member["@odata.id"]) for member in plain["Members"]]
            assert {**shown, "Members": plain["Members"]} == plain
    assert len(dpu.get(f"{SESSIONS}?$expand=.")["Members"]) == 2
    assert dpu.get(f"{ACCOUNTS}?$expand=.")["Members"][0]["UserName"] == "root"


def test_the_three_kinds_of_links(dpu: Client) -> None:
    shown = {kind: dpu.get(f"{SYSTEM}?$expand={kind}") for kind in ".*~"}
    assert {kind: "Name" in one["Bios"] for kind, one in shown.items()} == {".": True, "*": True, "~": False}
    assert {kind: "Name" in one["Links"]["Chassis"][0] for kind, one in shown.items()} == {
        ".": False,
        "*": True,
        "~": True,
    }


def test_levels_go_as_deep_as_asked_and_no_deeper(dpu: Client) -> None:
    for levels in (1, 2, 3):
        shown = dpu.get(f"/redfish/v1/?$expand=.($levels={levels})")
        deep = [shown["Systems"], shown["Systems"]["Members"][0]]
        assert ["Name" in one for one in deep] == [True, levels > 1]
        if levels > 1:
            assert ("Name" in deep[1]["Bios"]) == (levels > 2)


def test_expansion_shows_what_this_bmc_changed_and_its_present_state(dpu: Client) -> None:
    dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": ["192.0.2.1"]}})
    dpu.request("POST", SYSTEM + "/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"})
    assert dpu.get(f"{MANAGER}?$expand=.")["NetworkProtocol"]["NTP"]["NTPServers"] == ["192.0.2.1"]
    assert dpu.get("/redfish/v1/Systems?$expand=.")["Members"][0]["PowerState"] == "Off"


def test_the_deepest_expansion_of_the_largest_resource_stays_within_bounds() -> None:
    """A few megabytes: an answer of any size is computed in one go, and holds up 13,500 other BMCs meanwhile."""
    client = make_client("dell_poweredge_r750")
    assert len(tree_of("dell_poweredge_r750").nodes) > 100
    body = client.request("GET", "/redfish/v1/?$expand=*($levels=6)").body
    assert len(body) < 16 * 1024 * 1024


def test_an_expanded_answer_has_the_head_of_the_resource(dpu: Client) -> None:
    plain, shown = dpu.request("GET", SYSTEM), dpu.request("GET", SYSTEM + "?$expand=.")
    for name in ("Content-Type", "OData-Version", "Cache-Control", "Allow", "Link"):
        assert header(shown, name) == header(plain, name)
    assert dpu.request("HEAD", SYSTEM + "?$expand=.").head == shown.head
    assert orjson.loads(shown.body)["@odata.etag"] == header(plain, "ETag")
