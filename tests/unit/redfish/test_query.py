"""Query parameters."""

from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.core.errors import RedfishError
from bmcsim.redfish import query_filter, query_select
from bmcsim.redfish.query import MAX_COUNT, Query, parse
from bmcsim.tree.profile import Behaviour, QuerySupport
from tests.conftest import PASSWORD, Client, header, make_client, message_ids, tree_of
from tests.unit.redfish.conftest import ACCOUNTS, MANAGER, PROTOCOL, SESSIONS, SYSTEM, dpu_with, login

ALL = QuerySupport()
NONE = QuerySupport(frozenset(), 0, select=False, filter=False, top_skip=False, only=False, excerpt=False)


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
        ("only", Query(only=True)),
        ("only=", Query(only=True)),
        ("only&foo=1", Query(only=True)),
        ("excerpt", Query(excerpt=True)),
        ("Only", Query()),
        ("$top=1&$skip=0", Query(top=1, skip=0)),
        ("%24top=%31", Query(top=1)),
        ("$top=1&$top=2", Query(top=2)),
        (f"$skip={MAX_COUNT}", Query(skip=MAX_COUNT)),
        ("$select=Name", Query(select={"Name": {}})),
        ("$filter=Id%20eq%20'a%26b'", Query(filter=query_filter.parse("Id eq 'a&b'"))),
        ("$filter=Id+eq+1", Query(filter=query_filter.parse("Id eq 1"))),
    ],
)
def test_what_is_understood_or_ignored(text: str, query: Query) -> None:
    assert parse(text, ALL) == query


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
        ("$select=", 400, "QueryParameterValueFormatError", ["", "$select"]),
        ("$select=A/", 400, "QueryParameterValueFormatError", ["A/", "$select"]),
        ("$filter=", 400, "QueryParameterValueFormatError", ["", "$filter"]),
        ("$filter=Id", 400, "QueryParameterValueFormatError", ["Id", "$filter"]),
        ("$top=abc", 400, "QueryParameterValueFormatError", ["abc", "$top"]),
        ("$top=", 400, "QueryParameterValueFormatError", ["", "$top"]),
        ("$top=1.0", 400, "QueryParameterValueFormatError", ["1.0", "$top"]),
        ("$top=%2B1", 400, "QueryParameterValueFormatError", ["+1", "$top"]),
        ("$top=%D9%A3", 400, "QueryParameterValueFormatError", ["٣", "$top"]),
        ("$top=0", 400, "QueryParameterOutOfRange", ["0", "$top", f"1-{MAX_COUNT}"]),
        ("$top=0&$top=1", 400, "QueryParameterOutOfRange", ["0", "$top", f"1-{MAX_COUNT}"]),
        ("$skip=-1", 400, "QueryParameterOutOfRange", ["-1", "$skip", f"0-{MAX_COUNT}"]),
        ("$skip=2147483648", 400, "QueryParameterOutOfRange", ["2147483648", "$skip", f"0-{MAX_COUNT}"]),
        ("$skip=" + "9" * 5000, 400, "QueryParameterOutOfRange", ["9" * 5000, "$skip", f"0-{MAX_COUNT}"]),
        ("only=foo", 400, "QueryParameterValueFormatError", ["foo", "only"]),
        ("excerpt=foo", 400, "QueryParameterValueFormatError", ["foo", "excerpt"]),
        ("only&$expand=.", 400, "QueryCombinationInvalid", []),
        ("$select=Name&only", 400, "QueryCombinationInvalid", []),
        ("excerpt&only", 400, "QueryCombinationInvalid", []),
        ("$nope", 501, "QueryParameterUnsupported", ["$nope"]),
        ("$", 501, "QueryParameterUnsupported", ["$"]),
        ("%24nope=1", 501, "QueryParameterUnsupported", ["$nope"]),
        ("$Expand=.", 501, "QueryParameterUnsupported", ["$Expand"]),
        ("$expand=.&$count=true", 501, "QueryParameterUnsupported", ["$count"]),
        ("only&$nope", 501, "QueryParameterUnsupported", ["$nope"]),
    ],
)
def test_what_is_refused(text: str, status: int, message: str, arguments: list[str]) -> None:
    with pytest.raises(RedfishError) as caught:
        parse(text, ALL)
    assert (caught.value.status, caught.value.message, list(caught.value.arguments)) == (status, message, arguments)


@pytest.mark.parametrize("text", ["$expand=.", "$select=Name", "$filter=Id eq 1", "$top=1", "$skip=1"])
def test_what_the_firmware_does_not_know_is_ignored_where_it_is_so(text: str) -> None:
    support = msgspec.structs.replace(NONE, ignore_unknown=True)
    assert parse(text, support) == Query()


@pytest.mark.parametrize("text", ["$expand=.", "$select=Name", "$filter=Id eq 1", "$top=1", "$skip=1"])
def test_what_the_firmware_does_not_know_is_unsupported(text: str) -> None:
    with pytest.raises(RedfishError) as caught:
        parse(text, NONE)
    assert (caught.value.status, caught.value.message) == (501, "QueryParameterUnsupported")
    assert parse("only&excerpt&only=1", NONE) == Query()


@pytest.mark.parametrize(
    ("support", "text", "message"),
    [
        (QuerySupport(frozenset({"."})), "$expand=.", ""),
        (QuerySupport(frozenset({"."})), "$expand=*", "QueryParameterValueFormatError"),
        (QuerySupport(frozenset({"."}), 0), "$expand=.", ""),
        (QuerySupport(frozenset({"."}), 0), "$expand=.($levels=1)", "QueryParameterValueFormatError"),
        (QuerySupport(levels=2), "$expand=.($levels=2)", ""),
        (QuerySupport(levels=2), "$expand=.($levels=3)", "QueryParameterOutOfRange"),
    ],
)
def test_forms_and_levels_of_expand_that_the_firmware_does_not_know(
    support: QuerySupport, text: str, message: str
) -> None:
    if not message:
        assert parse(text, support).expand == "."
        return
    with pytest.raises(RedfishError) as caught:
        parse(text, support)
    assert (caught.value.status, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("query", "status"),
    [("$expand=.($levels=0)", 400), ("$count=true", 501), ("rpvunknown", 200), ("only=1", 400), ("excerpt=1", 400)],
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


@pytest.mark.parametrize("query", ["$expand=.", "$top=abc", "$nope"])
def test_a_login_takes_no_query(dpu: Client, query: str) -> None:
    body = {"UserName": "root", "Password": PASSWORD}
    refused = dpu.request("POST", f"{SESSIONS}?{query}", body, authorization=b"")
    assert (refused.status, message_ids(refused)) == (400, ["QueryNotSupportedOnOperation"])
    assert dpu.request("POST", f"{SESSIONS}?only=1", body, authorization=b"").status == 201


@pytest.mark.parametrize(
    ("facts", "fits"),
    [
        ({"query": {"expand": ["."], "levels": 1, "filter": False, "expand_drops": ["Id"]}}, True),
        ({"query": {}, "advertise": {"FilterQuery": True}}, True),
        ({"query": {"expand": ["!"]}}, False),
        ({"query": {"levels": 7}}, False),
        ({"query": {"top": True}}, False),
    ],
)
def test_support_as_a_profile_declares_it(facts: dict[str, Any], fits: bool) -> None:
    if not fits:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(facts, Behaviour)
        return
    behaviour = msgspec.convert(facts, Behaviour)
    assert behaviour.advertise == facts.get("advertise", behaviour.features())


def test_the_root_advertises_what_is_there(dpu: Client) -> None:
    assert dpu.get("/redfish/v1/")["ProtocolFeaturesSupported"] == {
        "DeepOperations": {"DeepPATCH": False, "DeepPOST": False},
        "ExcerptQuery": True,
        "ExpandQuery": {"ExpandAll": True, "Levels": True, "Links": True, "MaxLevels": 6, "NoLinks": True},
        "FilterQuery": True,
        "FilterQueryComparisonOperations": True,
        "FilterQueryCompoundOperations": True,
        "OnlyMemberQuery": True,
        "SelectQuery": True,
        "TopSkipQuery": True,
    }


def test_a_firmware_that_knows_nothing_says_so() -> None:
    client = dpu_with(query=NONE, advertise=None)
    features = client.get("/redfish/v1/")["ProtocolFeaturesSupported"]
    assert not any(value for name, value in features.items() if name != "DeepOperations")
    assert "ExpandQuery" not in features
    assert client.request("GET", "/redfish/v1/Systems?$expand=.").status == 501
    assert client.get("/redfish/v1/Systems?only") == client.get("/redfish/v1/Systems")


@pytest.mark.parametrize(
    "advertise",
    [
        {},
        {"ExpandQuery": {"NoLinks": True}},
        {"ExpandQuery": {"ExpandAll": True, "Levels": True, "MaxLevels": 1}},
        {"FilterQuery": True},
    ],
)
def test_what_is_advertised_changes_nothing_of_what_works(dpu: Client, advertise: dict[str, Any]) -> None:
    client = dpu_with(advertise=advertise)
    assert client.get("/redfish/v1/")["ProtocolFeaturesSupported"] == advertise
    for query in ("$expand=.", "$expand=*($levels=2)", "$filter=Id ne 'x'", "$top=1", "only"):
        assert client.get(f"/redfish/v1/Chassis?{query}") == dpu.get(f"/redfish/v1/Chassis?{query}")


@pytest.mark.parametrize("query", ["$expand=.", "$select=Name", "$filter=Id ne 'x'", "$top=1", "only", "excerpt"])
def test_a_read_with_options_has_no_entity_tag_and_head_is_like_get(dpu: Client, query: str) -> None:
    shown = dpu.request("GET", f"/redfish/v1/Chassis?{query}")
    assert shown.status == 200
    assert header(shown, "ETag") is None
    assert dpu.request("HEAD", f"/redfish/v1/Chassis?{query}").head == shown.head
    assert dpu.request("GET", f"/redfish/v1/Chassis/?{query}").body == shown.body


@pytest.mark.parametrize("query", ["$filter=Id eq 1", "$top=1", "$skip=0", "only"])
def test_options_of_collections_are_refused_elsewhere(dpu: Client, query: str) -> None:
    for path in ("/redfish/v1/", SYSTEM, ACCOUNTS + "/root"):
        refused = dpu.request("GET", f"{path}?{query}")
        assert (refused.status, message_ids(refused)) == (400, ["QueryNotSupportedOnResource"])


# $filter, $skip and $top


def ids(collection: Any) -> list[str]:
    """The last URI segments of what a collection shows."""
    return [member["@odata.id"].rpartition("/")[2] for member in collection["Members"]]


ROLES = "/redfish/v1/AccountService/Roles"


def test_a_filter_looks_at_the_whole_members_and_shows_as_much_as_without_it(dpu: Client) -> None:
    shown = dpu.get(ROLES + "?$filter=IsPredefined eq true and not (Id eq 'Operator')")
    assert ids(shown) == ["Administrator", "ReadOnly"]
    assert shown["Members@odata.count"] == 2
    assert all(member.keys() == {"@odata.id"} for member in shown["Members"])
    full = dpu.get(ROLES + "?$filter=Id eq 'Operator'&$expand=.")
    assert full["Members"] == [dpu.get(ROLES + "/Operator")]


def test_a_filter_tells_nothing_about_what_the_caller_may_not_read(dpu: Client) -> None:
    new = {"UserName": "reader", "Password": "Reader-123", "RoleId": "ReadOnly"}
    assert dpu.request("POST", ACCOUNTS, new).status == 201
    assert dpu.get(ACCOUNTS + "?$filter=RoleId ne ''")["Members@odata.count"] == 2
    token, _ = login(dpu, "reader", "Reader-123")
    seen = dpu.get(ACCOUNTS + "?$filter=RoleId ne ''", authorization=b"", token=token)
    shown = dpu.get(ACCOUNTS + "?$expand=.", authorization=b"", token=token)
    assert ids(seen) == [one["Id"] for one in shown["Members"] if "UserName" in one]


def test_pages_show_everything_once_and_their_links_repeat_the_other_options(host: Client) -> None:
    sensors = "/redfish/v1/Chassis/System.Embedded.1/Sensors"
    whole = host.get(sensors + "?$filter=ReadingType%20eq%20'Temperature'")
    assert len(whole["Members"]) > 7
    link, seen = sensors + "?$filter=ReadingType%20eq%20'Temperature'&$top=3&$expand=.&foo", []
    while link:
        page = host.get(link)
        seen += ids(page)
        assert page["Members@odata.count"] == len(whole["Members"])
        assert all("Reading" in member for member in page["Members"])
        link = page.get("Members@odata.nextLink", "")
        if link:
            path, _, query = link.partition("?")
            rest = "$filter=ReadingType%20eq%20'Temperature'&$top=3&$expand=.&foo"
            assert (path, query) == (sensors, f"{rest}&$skip={len(seen)}")
    assert seen == ids(whole)


def test_a_link_to_the_next_page_is_a_uri_whatever_the_client_sent(dpu: Client) -> None:
    link = dpu.get(ROLES + '?$top=1&a=\u00e9"<\ud800&%24skip=1')["Members@odata.nextLink"]
    assert link == ROLES + "?$top=1&a=%C3%A9%22%3C?&$skip=2"


def test_what_is_beyond_the_end_is_empty(dpu: Client) -> None:
    shown = dpu.get(ROLES + "?$skip=99")
    assert (shown["Members"], shown["Members@odata.count"]) == ([], len(dpu.get(ROLES)["Members"]))
    assert "Members@odata.nextLink" not in shown
    assert "Members@odata.nextLink" not in dpu.get(ROLES + "?$top=99")


# only


def test_only_shows_the_one_member_or_the_collection(dpu: Client) -> None:
    shown = dpu.request("GET", "/redfish/v1/Systems?only")
    assert orjson.loads(shown.body) == dpu.get(SYSTEM)
    assert header(shown, "Link") == header(dpu.request("GET", SYSTEM), "Link")
    assert dpu.get(ROLES + "?only") == dpu.get(ROLES)
    assert dpu.get(SESSIONS + "?only") == dpu.get(SESSIONS)
    login(dpu)
    assert dpu.get(SESSIONS + "?only")["UserName"] == "root"


# $select and excerpt


def test_a_selection_keeps_the_control_information(dpu: Client) -> None:
    whole = dpu.get(SYSTEM)
    shown = dpu.get(SYSTEM + "?$select=Name,Status/Health,Boot(BootOrder)")
    assert shown == {
        "@odata.id": whole["@odata.id"],
        "@odata.type": whole["@odata.type"],
        "@odata.etag": whole["@odata.etag"],
        "Name": whole["Name"],
        "Status": {"Health": whole["Status"]["Health"]},
        "Boot": {"BootOrder": whole["Boot"]["BootOrder"]},
    }


def test_a_selection_of_an_expanded_collection_is_one_of_its_members(dpu: Client) -> None:
    shown = dpu.get(ROLES + "?$expand=.&$select=RoleId&$top=1")
    assert [one.keys() for one in shown["Members"]] == [{"@odata.id", "@odata.type", "@odata.etag", "RoleId"}]
    assert {"Members@odata.count", "Members@odata.nextLink", "@odata.id"} <= shown.keys()
    assert "Name" not in shown
    assert dpu.get(ROLES + "?$expand=.&$select=Members/RoleId&$top=1")["Members"] == shown["Members"]
    plain = dpu.get(ROLES + "?$select=Name")
    assert plain.keys() == {"@odata.id", "@odata.type", "@odata.etag", "Name"}


def test_the_excerpt_of_a_sensor_is_its_reading(host: Client) -> None:
    sensors = "/redfish/v1/Chassis/System.Embedded.1/Sensors"
    shown = host.get(sensors + "/Temp_1?excerpt")
    assert shown.keys() == {"@odata.id", "@odata.type", "@odata.etag", "Reading", "PhysicalContext"}
    members = host.get(sensors + "?excerpt&$expand=.&$top=2")["Members"]
    assert members == [host.get(one["@odata.id"] + "?excerpt") for one in members]
    assert host.get("/redfish/v1/Systems?excerpt") == host.get("/redfish/v1/Systems")


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("A", {"A": {}}),
        (" A , B ", {"A": {}, "B": {}}),
        ("A/B/C", {"A": {"B": {"C": {}}}}),
        ("A(B,C/D)", {"A": {"B": {}, "C": {"D": {}}}}),
        ("A/(B,C),D", {"A": {"B": {}, "C": {}}, "D": {}}),
        ("A/B,A/C", {"A": {"B": {}, "C": {}}}),
        ("A,A/B", {"A": {}}),
        ("A/B,A", {"A": {}}),
        ("*", {"*": {}}),
        ("Actions/#ComputerSystem.Reset", {"Actions": {"#ComputerSystem.Reset": {}}}),
    ],
)
def test_selections(text: str, selection: Any) -> None:
    assert query_select.parse(text) == selection


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", ",", "A,", ",A", "A/", "/A", "A(", "A()", "A(B", "A)", "A(B)C", "A(B)/C", "A//B", "(A)", "A,,B"],
        *["/".join("A" * 17), "(".join("A" * 17) + ")" * 16, "A" * 2049],
    ],
)
def test_what_is_no_selection(text: str) -> None:
    with pytest.raises(query_select.SelectError):
        query_select.parse(text)


def test_arrays_annotations_and_what_is_not_there() -> None:
    resource = {
        "@odata.id": "/a",
        "A": [{"B": 1, "C": 2}, {"C": 3}, None, 4],
        "A@odata.count": 4,
        "D": {"B": {"@odata.id": "/b"}},
        "E": 5,
        "E@Redfish.Deprecated": "6",
    }
    shown = query_select.select(query_select.parse("A/B,D/B,E/F,G,*/H"), resource)
    assert shown == resource
    shown = query_select.select(query_select.parse("A/B,D/B,E/F,G"), resource)
    assert shown == {"@odata.id": "/a", "A": [{"B": 1}, {}], "D": {"B": {"@odata.id": "/b"}}}
    shown = query_select.select(query_select.parse("E,A"), resource)
    assert shown.keys() == {"@odata.id", "A", "A@odata.count", "E", "E@Redfish.Deprecated"}


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
