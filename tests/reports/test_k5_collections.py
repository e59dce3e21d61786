"""Public bug reports about collections: the right behaviour."""

from typing import Any
from urllib.parse import quote

import pytest

from bmcsim.machine.state import LogRecord
from bmcsim.tree.profile import QuerySupport, names
from tests.conftest import Client, make_client, message_ids, with_faults
from tests.unit.redfish.conftest import dpu_with

ACCOUNTS = "/redfish/v1/AccountService/Accounts"
SESSIONS = "/redfish/v1/SessionService/Sessions"
STORAGE = "/redfish/v1/Systems/System.Embedded.1/Storage/CPU.1"
LOG = "/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Sel/Entries"

every_profile = pytest.mark.parametrize("profile", names())


def collections(client: Client) -> list[str]:
    """The URIs of all collections."""
    return [uri for uri, node in client.bmc.tree.nodes.items() if node.collection]


def with_log(count: int) -> Client:
    """An R750 whose SEL has entries, one a minute from the start of 2026; every third one is a warning."""
    client = make_client("dell_poweredge_r750")
    start = 1767225600.0
    records = tuple(
        LogRecord(str(n), start + 60 * n, f"Event {n}.", severity="OK" if n % 3 else "Warning")
        for n in range(1, count + 1)
    )
    client.bmc.become(client.clock.now(), logs={LOG: records})
    client.bmc.committed()
    return client


def shown_ids(collection: Any) -> list[int]:
    """The numbers of the entries that a log shows."""
    return [int(entry["Id"]) for entry in collection["Members"]]


@every_profile
def test_e15_a_member_that_was_deleted_leaves_no_name_twice_and_no_wrong_count(profile: str) -> None:
    """POST a, DELETE an older member, POST b: each has its own URI, and the count is right after each step."""
    client = make_client(profile)

    def uris() -> list[str]:
        shown = client.get(ACCOUNTS)
        assert shown["Members@odata.count"] == len(shown["Members"])
        return [member["@odata.id"] for member in shown["Members"]]

    def create(user: str) -> None:
        new = {"UserName": user, "Password": "Secret-123", "RoleId": "ReadOnly"}
        assert client.request("POST", ACCOUNTS, new).status == 201

    first = uris()
    create("a")
    create("b")
    second = uris()
    (a, b) = [uri for uri in second if uri not in first]
    assert client.request("DELETE", a).status in (200, 204)
    assert uris() == [*first, b]
    create("c")
    third = uris()
    assert len(third) == len(set(third)) == len(first) + 2
    assert {client.get(uri)["UserName"] for uri in third if uri not in first} == {"b", "c"}


def test_e17_levels_count_for_links_in_plain_resources_too() -> None:
    """The drives of a storage subsystem are there in full, with what is below them at two levels; and no loop."""
    client = make_client("dell_poweredge_r750")
    drives = client.get(STORAGE)["Drives"]
    assert drives
    shown = client.get(f"{STORAGE}?$expand=.($levels=2)")
    for link, drive in zip(drives, shown["Drives"], strict=True):
        assert drive == client.get(f"{link['@odata.id']}?$expand=.($levels=1)")
    assert client.get(f"{STORAGE}?$expand=.")["Drives"] == [client.get(link["@odata.id"]) for link in drives]
    assert client.request("GET", f"{STORAGE}?$expand=*($levels=6)").status == 200


def test_e18_a_large_collection_has_pages() -> None:
    """120 log entries, the second fifty: the count is that of all of them, and the link leads to the third page."""
    client = with_log(120)
    page = client.get(f"{LOG}?$skip=50&$top=50")
    assert shown_ids(page) == list(range(51, 101))
    assert page["Members@odata.count"] == 120
    assert page["Members@odata.nextLink"] == f"{LOG}?$top=50&$skip=100"
    last = client.get(page["Members@odata.nextLink"])
    assert shown_ids(last) == list(range(101, 121))
    assert last["Members@odata.count"] == 120
    assert "Members@odata.nextLink" not in last


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("Id gt 9", range(10, 121)),
        ("Id gt '9'", range(10, 121)),
        ("Id eq 7", [7]),
        ("Id eq '7'", [7]),
        ("Created ge '2026-01-01T01:58:00Z'", [118, 119, 120]),
        ("Created gt 2026-01-01T02:58:00+01:00", [119, 120]),
        ("Severity eq 'Warning' and Id le 6", [3, 6]),
    ],
)
def test_e18_the_entries_of_a_log_are_filtered_as_clients_ask(condition: str, expected: Any) -> None:
    """NICo asks for ids above a number and for what was created since; both come in full, with the count of them."""
    shown = with_log(120).get(f"{LOG}?$filter={quote(condition)}")
    assert shown_ids(shown) == list(expected)
    assert shown["Members@odata.count"] == len(expected)


@every_profile
def test_e19_c20_an_empty_collection_has_members(profile: str) -> None:
    """Members is an array and the count its length, also where there is nothing, and whatever was asked of it."""
    client = make_client(profile)
    empty = 0
    for uri in collections(client):
        for query in ("", "?$expand=.", "?$expand=*", "?$filter=Id eq 'nobody'", "?$skip=99999", "?$top=1", "?only"):
            shown = client.get(uri + query)
            if query == "?only" and not shown["@odata.type"].split(".")[0].endswith("Collection"):
                continue
            assert isinstance(shown["Members"], list)
            if "$skip" not in query and "$top" not in query:
                assert shown["Members@odata.count"] == len(shown["Members"])
        empty += client.get(uri)["Members"] == []
    assert client.get(SESSIONS)["Members"] == []
    assert empty


@every_profile
@pytest.mark.parametrize(
    ("preset", "members"),
    [("members_null", {"Members": None}), ("members_absent", {}), ("members_object", {"Members": {}})],
)
def test_c20_quirk_the_members_of_an_empty_collection(profile: str, preset: str, members: dict[str, Any]) -> None:
    """Null, absent or an object, as one chooses; the count is what it was, and other collections are whole."""
    client = with_faults(make_client(profile), preset)
    shown = client.get("/redfish/v1/TaskService/Tasks")
    assert {key: value for key, value in shown.items() if key == "Members"} == members
    assert shown["Members@odata.count"] == 0
    assert client.get("/redfish/v1/Chassis")["Members"]


@every_profile
def test_n21_an_embedded_member_is_what_its_own_get_shows(profile: str) -> None:
    """No property is missing in an expanded collection."""
    client = make_client(profile)
    for uri in collections(client):
        if uri.endswith("/Entries"):
            continue
        shown = client.get(f"{uri}?$expand=.($levels=1)")
        assert shown["Members"] == [client.get(member["@odata.id"]) for member in client.get(uri)["Members"]]


def test_n21_a_profile_can_forget_required_properties_as_ami_did() -> None:
    """Embedded members lack them, single reads have them."""
    dropped = {"Id", "Name", "ChassisType"}
    client = dpu_with(query=QuerySupport(expand_drops=frozenset(dropped)))
    for path in ("/redfish/v1/Chassis?$expand=.($levels=1)", "/redfish/v1/Chassis?$expand=*($levels=2)"):
        for member in client.get(path)["Members"]:
            assert not dropped & member.keys()
            own = client.get(member["@odata.id"])
            assert dropped <= own.keys()
            if path.endswith("1)"):
                assert member == {key: value for key, value in own.items() if key not in dropped}


@every_profile
def test_n21_quirk_a_preset_makes_any_machine_forget_them(profile: str) -> None:
    client = with_faults(make_client(profile), "expand_drops_names")
    for member in client.get("/redfish/v1/Chassis?$expand=.($levels=1)")["Members"]:
        own = client.get(member["@odata.id"])
        assert own.keys() - member.keys() == {"Id", "Name", "ChassisType"}
        assert member.items() <= own.items()


@every_profile
@pytest.mark.parametrize(
    ("query", "collection", "status", "message"),
    [
        ("$foo=1", True, 501, "QueryParameterUnsupported"),
        ("$foo=1", False, 501, "QueryParameterUnsupported"),
        ("$skip=1", False, 400, "QueryNotSupportedOnResource"),
        ("$top=abc", True, 400, "QueryParameterValueFormatError"),
        ("$skip=-1", True, 400, "QueryParameterOutOfRange"),
        ("$top=0", True, 400, "QueryParameterOutOfRange"),
        ("foo=1", True, 200, ""),
        ("foo=1", False, 200, ""),
    ],
)
def test_n23_query_parameters_are_refused_or_ignored_as_the_standard_says(
    profile: str, query: str, collection: bool, status: int, message: str
) -> None:
    """An unknown parameter is ignored unless it starts with a dollar sign, and a bad value is never taken."""
    client = make_client(profile)
    path = "/redfish/v1/Chassis" if collection else "/redfish/v1/AccountService"
    for method in ("GET", "HEAD"):
        response = client.request(method, f"{path}?{query}")
        assert response.status == status
        if message:
            assert message_ids(response) == [message]
