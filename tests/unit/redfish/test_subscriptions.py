"""Subscriptions: made, changed, deleted, suspended, refused, and kept."""

from typing import Any

import orjson
import pytest

from bmcsim.machine.events import Subscription, Wanted
from bmcsim.machine.state import Row, decode
from tests.conftest import Client, basic, header, make_client, message_ids, with_facts
from tests.unit.redfish.conftest import ACCOUNTS, as_edge

SERVICE = "/redfish/v1/EventService"
SUBSCRIPTIONS = f"{SERVICE}/Subscriptions"
WISH = {"Destination": "https://192.168.1.50/Destination1", "Protocol": "Redfish"}
SECRET = "s3cr3t-value"


def subscribe(client: Client, **facts: Any) -> str:
    """The URI of a new subscription."""
    response = client.request("POST", SUBSCRIPTIONS, {**WISH, **facts})
    assert response.status == 201, response.body
    return header(response, "Location") or ""


def account(client: Client, user: str, role: str) -> bytes:
    """The Authorization field of a new account."""
    facts = {"UserName": user, "Password": "Secret-1", "RoleId": role}
    assert client.request("POST", ACCOUNTS, facts).status == 201
    return basic(user, "Secret-1")


@pytest.fixture(params=["bluefield3", "dell_poweredge_r750"])
def client(request: pytest.FixtureRequest) -> Client:
    return make_client(request.param)


# made


@pytest.mark.parametrize("path", [SUBSCRIPTIONS, SUBSCRIPTIONS + "/", SUBSCRIPTIONS + "/Members"])
def test_a_destination_and_the_protocol_are_enough(client: Client, path: str) -> None:
    response = client.request("POST", path, WISH)
    assert (response.status, header(response, "Location")) == (201, f"{SUBSCRIPTIONS}/1")
    body = client.get(f"{SUBSCRIPTIONS}/1")
    assert orjson.loads(response.body) == body
    assert {**WISH, "Id": "1", "Context": "", "SubscriptionType": "RedfishEvent"}.items() <= body.items()
    assert body["Status"] == {"State": "Enabled", "Health": "OK"}
    assert body["DeliveryRetryPolicy"] == "SuspendRetries"
    assert [one["@odata.id"] for one in client.get(SUBSCRIPTIONS)["Members"]] == [f"{SUBSCRIPTIONS}/1"]
    actions = body["Actions"]
    assert actions["#EventDestination.SuspendSubscription"]["target"].startswith(f"{SUBSCRIPTIONS}/1/")


def test_everything_that_a_client_gives_is_shown(client: Client) -> None:
    wish = {
        "Context": "abc",
        "DeliveryRetryPolicy": "RetryForever",
        "EventFormatType": "Event",
        "EventTypes": ["Alert"],
        "ExcludeMessageIds": ["Base.1.22.Success"],
        "ExcludeRegistryPrefixes": ["Task"],
        "MessageIds": ["Base.Created"],
        "RegistryPrefixes": ["Base"],
        "ResourceTypes": ["Chassis"],
        "Severities": ["Critical"],
        "SubscriptionType": "RedfishEvent",
        "SubordinateResources": True,
        "VerifyCertificate": True,
        "OriginResources": [{"@odata.id": "/redfish/v1/Chassis"}],
    }
    body = client.get(subscribe(client, **wish))
    assert wish.items() <= body.items()
    assert body["OriginResources@odata.count"] == 1
    assert client.bmc.state.subscriptions[0].wanted == Wanted(
        ("Alert",),
        ("Base",),
        ("Task",),
        ("Base.Created",),
        ("Base.1.22.Success",),
        ("Chassis",),
        ("/redfish/v1/Chassis",),
        True,
        ("Critical",),
    )


def test_null_is_as_if_the_property_were_not_there(client: Client) -> None:
    nothing = dict.fromkeys(("Context", "EventTypes", "HttpHeaders", "OriginResources", "DeliveryRetryPolicy"))
    uri = subscribe(client, **nothing)
    assert client.get(uri)["Context"] == ""
    refused = client.request("POST", SUBSCRIPTIONS, {**WISH, "Destination": None})
    assert (refused.status, message_ids(refused)) == (400, ["PropertyMissing"])


BAD: list[tuple[dict[str, Any], str]] = [
    ({"Id": "7"}, "PropertyNotWritable"),
    ({"Name": "mine"}, "PropertyNotWritable"),
    ({"Status": {}}, "PropertyNotWritable"),
    ({"Colour": "red"}, "PropertyUnknown"),
    ({"Protocol": "FTP"}, "PropertyValueNotInList"),
    ({"Protocol": 1}, "PropertyValueTypeError"),
    ({"SubscriptionType": "SSE"}, "PropertyValueNotInList"),
    ({"EventFormatType": "MetricReport"}, "PropertyValueNotInList"),
    ({"DeliveryRetryPolicy": "Never"}, "PropertyValueNotInList"),
    ({"EventTypes": ["Alert", "Nope"]}, "PropertyValueNotInList"),
    ({"EventTypes": "Alert"}, "PropertyValueTypeError"),
    ({"EventTypes": [1]}, "PropertyValueTypeError"),
    ({"Severities": ["Bad"]}, "PropertyValueNotInList"),
    ({"Context": "x" * 1025}, "StringValueTooLong"),
    ({"Context": 5}, "PropertyValueTypeError"),
    ({"MessageIds": ["x"] * 65}, "PropertyValueError"),
    ({"MessageIds": ["x" * 1025]}, "StringValueTooLong"),
    ({"VerifyCertificate": "yes"}, "PropertyValueTypeError"),
    ({"SubordinateResources": 1}, "PropertyValueTypeError"),
    ({"OriginResources": "x"}, "PropertyValueTypeError"),
    ({"OriginResources": ["/redfish/v1"]}, "PropertyValueTypeError"),
    ({"OriginResources": [{"@odata.id": 7}]}, "PropertyValueFormatError"),
    ({"OriginResources": [{"@odata.id": "redfish"}]}, "PropertyValueFormatError"),
    ({"OriginResources": [{"@odata.id": "/"}] * 65}, "PropertyValueError"),
    *[
        ({"Destination": text}, "PropertyValueFormatError")
        for text in (
            "",
            "ftp://a/",
            "a/b",
            "http://",
            "http:///x",
            "http://a:0/",
            "http://a:99999/",
            "http://[::1/",
            "http://a b/",
            "http://a/\r\nX: y",
            "http://ä/",
            "redfish-sse://a/",
            "http://u:p@a/",
            "http://u@a/",
            "http://@a/",
            "https://:@a:443/x",
        )
    ],
    ({"Destination": "http://a/" + "x" * 1024}, "StringValueTooLong"),
    ({"Destination": 1}, "PropertyValueTypeError"),
    ({"HttpHeaders": "X: y"}, "PropertyValueTypeError"),
    ({"HttpHeaders": ["X: y"]}, "PropertyValueTypeError"),
    ({"HttpHeaders": [{"X": 1}]}, "PropertyValueTypeError"),
    ({"HttpHeaders": [{"X": "a\r\nY: b"}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{"X": "a\nb"}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{"X": "\u00e9"}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{"X": "a" * 8193}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{"X\r\nY": "b"}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{"": "b"}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{"Content-Length": "1"}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{"HOST": "b"}]}, "PropertyValueFormatError"),
    ({"HttpHeaders": [{f"X-{n}": "b"} for n in range(65)]}, "PropertyValueError"),
]


@pytest.mark.parametrize(("facts", "key"), BAD, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_refused_by_name_and_nothing_is_made(dpu: Client, facts: dict[str, Any], key: str) -> None:
    response = dpu.request("POST", SUBSCRIPTIONS, {**WISH, **facts})
    assert response.status == 400
    assert key in message_ids(response)
    (name,) = facts
    said = orjson.loads(response.body)["error"]["@Message.ExtendedInfo"]
    assert said[0]["RelatedProperties"] == [f"#/{name}"]
    assert (dpu.bmc.state.subscriptions, dpu.bmc.state.subscriptions_made) == ((), 0)


def test_all_that_is_wrong_is_said_at_once(dpu: Client) -> None:
    response = dpu.request("POST", SUBSCRIPTIONS, {"Protocol": "FTP", "Colour": 1})
    assert message_ids(response) == ["PropertyMissing", "PropertyValueNotInList", "PropertyUnknown"]


@pytest.mark.parametrize(
    "destination", ["http://a", "HTTPS://A.example:8443/x?y=1#z", "http://[::1]:8080/", "http://a/x@y?z=@"]
)
def test_destinations_that_are_uris_are_taken_as_they_are(dpu: Client, destination: str) -> None:
    assert dpu.get(subscribe(dpu, Destination=destination))["Destination"] == destination


def test_there_is_a_limit_and_numbers_are_not_used_again(dpu: Client) -> None:
    with_facts(dpu, subscription_limit=2)
    assert subscribe(dpu) == f"{SUBSCRIPTIONS}/1"
    subscribe(dpu)
    response = dpu.request("POST", SUBSCRIPTIONS, WISH)
    assert (response.status, message_ids(response)) == (503, ["EventSubscriptionLimitExceeded"])
    dpu.request("DELETE", f"{SUBSCRIPTIONS}/2")
    assert subscribe(dpu) == f"{SUBSCRIPTIONS}/3"


# secrets


def test_http_headers_are_never_shown(dpu: Client) -> None:
    wish = {**WISH, "HttpHeaders": [{"Authorization": SECRET}, {"X-A": SECRET, "X-B": "2"}]}
    created = dpu.request("POST", SUBSCRIPTIONS, wish)
    uri = header(created, "Location") or ""
    changed = dpu.request("PATCH", uri, {"HttpHeaders": [{"X-C": SECRET}], "Context": "x"})
    assert changed.status < 300
    assert dpu.bmc.state.subscriptions[0].headers == (("X-C", SECRET),)
    refused = dpu.request("PATCH", uri, {"HttpHeaders": [{"X-C": SECRET + "\n"}]})
    expanded = dpu.request("GET", SUBSCRIPTIONS + "?$expand=.")
    for response in (created, changed, refused, expanded, dpu.request("GET", uri)):
        assert SECRET.encode() not in response.body
    assert dpu.get(uri)["HttpHeaders"] == []


@pytest.mark.parametrize(
    "destination", ["http://u:{}@a/", "http://u:{}@", "htp://u:{}@a/", "http://u:{}@a/" + "x" * 1024, "{}@ "]
)
def test_user_information_is_in_no_word_of_a_refusal(dpu: Client, destination: str) -> None:
    response = dpu.request("POST", SUBSCRIPTIONS, {**WISH, "Destination": destination.format(SECRET)})
    assert response.status == 400
    assert SECRET.encode() not in response.body


def test_a_header_that_is_not_the_client_s_to_give_is_named(dpu: Client) -> None:
    response = dpu.request("POST", SUBSCRIPTIONS, {**WISH, "HttpHeaders": [{"Host": SECRET}]})
    assert b'"Host"' in response.body


def test_headers_are_in_no_word_of_a_refusal(dpu: Client) -> None:
    name = f"Authorization: Bearer {SECRET}"
    for value in (SECRET, [SECRET], [{"X": [SECRET]}], [{"X": SECRET + "\x00"}], [{name: ""}], [{name: 1}]):
        response = dpu.request("POST", SUBSCRIPTIONS, {**WISH, "HttpHeaders": value})
        assert response.status == 400
        assert SECRET.encode() not in response.body


# changed and deleted


def test_what_may_change_changes_and_the_entity_tag_with_it(client: Client) -> None:
    uri = subscribe(client)
    before = client.get(uri)["@odata.etag"]
    change = {"Context": "new", "DeliveryRetryPolicy": "TerminateAfterRetries", "VerifyCertificate": True}
    assert client.request("PATCH", uri, change, if_match=before.encode()).status < 300
    after = client.get(uri)
    assert change.items() <= after.items()
    assert after["@odata.etag"] != before
    assert client.request("PATCH", uri, change, if_match=before.encode()).status == 412


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"Destination": "http://b/"}, "PropertyNotWritable"),
        ({"EventTypes": ["Alert"]}, "PropertyNotWritable"),
        ({"Id": "9"}, "PropertyNotWritable"),
        ({"Colour": 1}, "PropertyUnknown"),
        ({"Context": None}, "PropertyValueTypeError"),
        ({"DeliveryRetryPolicy": "x"}, "PropertyValueNotInList"),
        ({"HttpHeaders": [{"X": "\r\n"}]}, "PropertyValueFormatError"),
    ],
)
def test_what_may_not_change_stays(client: Client, change: dict[str, Any], key: str) -> None:
    uri = subscribe(client)
    before = client.get(uri)
    response = client.request("PATCH", uri, change)
    assert (response.status, message_ids(response)) == (400, [key])
    assert client.get(uri) == before


def test_a_deleted_subscription_is_gone(client: Client) -> None:
    uri = subscribe(client)
    assert client.request("DELETE", uri).status == 204
    assert client.request("GET", uri).status == 404
    assert client.request("DELETE", uri).status == 404
    assert client.get(SUBSCRIPTIONS)["Members"] == []


# suspended


def test_actions_on_the_member_suspend_and_resume_it(client: Client) -> None:
    uri, other = subscribe(client), subscribe(client)
    for name, state in (("Suspend", "Disabled"), ("Suspend", "Disabled"), ("Resume", "Enabled"), ("Resume", "Enabled")):
        target = client.get(uri)["Actions"][f"#EventDestination.{name}Subscription"]["target"]
        for method, status in (("OPTIONS", 204), ("GET", 405)):
            response = client.request(method, target)
            assert (response.status, header(response, "Allow")) == (status, "POST")
        assert client.request("POST", target, {}).status == 204
        assert client.get(uri)["Status"]["State"] == state
        assert client.get(other)["Status"]["State"] == "Enabled"
    refused = client.request("POST", target, {"Now": 1})
    assert (refused.status, message_ids(refused)) == (400, ["ActionParameterUnknown"])


def test_actions_of_what_is_not_there_are_404(client: Client) -> None:
    subscribe(client)
    for path in ("2/Actions/EventDestination.SuspendSubscription", "1/Actions/EventDestination.Nope", "1/Actions/"):
        assert client.request("POST", f"{SUBSCRIPTIONS}/{path}", {}).status in (404, 405), path


# who may


def test_subscribing_needs_a_privilege_and_changing_the_own_one_only_configure_self(client: Client) -> None:
    reader, operator = account(client, "reader", "ReadOnly"), account(client, "operator", "Operator")
    response = client.request("POST", SUBSCRIPTIONS, WISH, authorization=reader)
    assert (response.status, message_ids(response)) == (403, ["InsufficientPrivilege"])
    ours = subscribe(client)
    theirs = header(client.request("POST", SUBSCRIPTIONS, WISH, authorization=operator), "Location") or ""
    suspend = "/Actions/EventDestination.SuspendSubscription"
    for caller, uri, allowed in (
        (reader, ours, False),
        (reader, theirs, False),
        (operator, ours, False),
        (operator, theirs, True),
        (client.authorization, theirs, True),
    ):
        assert client.request("GET", uri, authorization=caller).status == 200
        expected = (True, True) if allowed else (False, False)
        changed = client.request("PATCH", uri, {"Context": "x"}, authorization=caller)
        suspended = client.request("POST", uri + suspend, {}, authorization=caller)
        assert (changed.status < 300, suspended.status < 300) == expected
        if not allowed:
            assert (changed.status, suspended.status) == (403, 403)
            assert client.request("DELETE", uri, authorization=caller).status == 403
    assert client.request("DELETE", theirs, authorization=operator).status == 204


def test_a_new_account_in_the_place_of_another_does_not_own_what_that_made(client: Client) -> None:
    operator = account(client, "operator", "Operator")
    uri = header(client.request("POST", SUBSCRIPTIONS, WISH, authorization=operator), "Location") or ""
    subscribe(client)
    owner = client.bmc.state.subscriptions[0].owner
    assert client.request("DELETE", f"{ACCOUNTS}/{owner}").status == 204
    again = account(client, "operator", "Operator")
    assert client.bmc.accounts.get(owner) is not None
    assert client.request("DELETE", uri, authorization=again).status == 403
    assert [bool(one.owner) for one in client.bmc.state.subscriptions] == [False, True]


def test_without_credentials_nothing_is_shown_or_made(client: Client) -> None:
    uri = subscribe(client)
    for method, path, body in (("GET", uri, None), ("POST", SUBSCRIPTIONS, WISH), ("DELETE", uri, None)):
        assert client.request(method, path, body, authorization=b"").status == 401
    assert len(client.bmc.state.subscriptions) == 1


def test_a_body_that_is_not_json_is_refused(client: Client) -> None:
    assert client.request("POST", SUBSCRIPTIONS, b"<x/>", content_type=b"text/xml").status == 415
    assert client.request("POST", SUBSCRIPTIONS, b"[1]").status == 400
    assert as_edge(client, "POST", SUBSCRIPTIONS, b"{").status == 401


# kept


def test_subscriptions_are_durable(client: Client) -> None:
    subscribe(client, HttpHeaders=[{"X": SECRET}], EventTypes=["Alert"], OriginResources=[{"@odata.id": "/redfish/v1"}])
    target = f"{SUBSCRIPTIONS}/1/Actions/EventDestination.SuspendSubscription"
    client.request("POST", target, {})
    row = decode(client.bmc.encode())
    assert isinstance(row, Row)
    (kept,) = row.state.subscriptions
    assert kept == Subscription(
        "1",
        WISH["Destination"],
        owner=kept.owner,
        wanted=Wanted(event_types=("Alert",), origins=("/redfish/v1",)),
        headers=(("X", SECRET),),
        suspended=True,
    )
    assert row.state.subscriptions_made == 1


def test_they_survive_a_reset_and_not_a_factory_reset(client: Client) -> None:
    subscribe(client)
    manager = client.bmc.tree.head.roles.manager
    client.request("POST", f"{manager}/Actions/Manager.Reset", {"ResetType": "GracefulRestart"})
    client.advance(1200)
    assert len(client.get(SUBSCRIPTIONS)["Members"]) == 1
    client.driver.execute(client.bmc, client.bmc.factory_reset("PreserveNetworkAndUsers", client.clock.now()))
    client.advance(1200)
    assert client.get(SUBSCRIPTIONS)["Members"] == []


# size


@pytest.mark.parametrize(
    ("facts", "largest"),
    [
        ({"HttpHeaders": [{f"X-{n}": "v" * 8000} for n in range(3)]}, "HttpHeaders"),
        ({"MessageIds": ["Base.1.22." + "x" * 1000] * 20, "HttpHeaders": [{"X": "v"}]}, "MessageIds"),
        ({"OriginResources": [{"@odata.id": "/" + "x" * 1000}] * 20}, "OriginResources"),
        ({name: ["x" * 1000] * 6 for name in ("MessageIds", "ResourceTypes", "RegistryPrefixes")}, "MessageIds"),
    ],
)
def test_a_subscription_that_is_large_as_a_whole_is_refused(client: Client, facts: Any, largest: str) -> None:
    response = client.request("POST", SUBSCRIPTIONS, {**WISH, **facts})
    assert (response.status, message_ids(response)) == (400, ["PropertyValueError"])
    (info,) = orjson.loads(response.body)["error"]["@Message.ExtendedInfo"]
    assert info["RelatedProperties"] == [f"#/{largest}"]
    assert client.bmc.state.subscriptions == ()


def test_a_change_that_makes_a_subscription_too_large_is_refused(client: Client) -> None:
    uri = subscribe(client, MessageIds=["x" * 1000] * 10, HttpHeaders=[{"X": "old"}])
    before = client.bmc.state
    response = client.request("PATCH", uri, {"HttpHeaders": [{"X": "v" * 8000}]})
    assert (response.status, message_ids(response), client.bmc.state) == (400, ["PropertyValueError"], before)
    assert client.request("PATCH", uri, {"HttpHeaders": [{"X": "v" * 4000}]}).status == 204


def test_the_row_of_a_bmc_full_of_subscriptions_stays_small(client: Client) -> None:
    small = len(client.bmc.encode())
    for _ in range(client.bmc.shared.behaviour.subscription_limit):
        subscribe(client, HttpHeaders=[{"X": "v" * 8000}, {"Y": "v" * 7000}])
    assert len(client.bmc.encode()) - small < 20 * 16 * 1024
