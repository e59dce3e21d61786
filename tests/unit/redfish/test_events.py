"""Events on the wire: payloads, admission to the stream, test events, and what writes tell."""

from typing import Any

import orjson
import pytest

from bmcsim.fleet.events import Hub
from bmcsim.machine.actions import Emit
from bmcsim.machine.events import Event, Numbered, StreamWish, Subscription
from bmcsim.redfish.events import payload, sse
from bmcsim.redfish.exchange import Response
from tests.conftest import PASSWORD, Client, header, make_client, message_ids, with_facts, with_faults
from tests.unit.redfish.conftest import ACCOUNTS, ROLES, SESSIONS, as_edge, dpu_with
from tests.unit.redfish.test_subscriptions import SERVICE, SUBSCRIPTIONS, account, subscribe

SUBMIT = f"{SERVICE}/Actions/EventService.SubmitTestEvent"
URIS = {"bluefield3": f"{SERVICE}/SSE", "dell_poweredge_r750": "/redfish/v1/SSE"}
STREAM = URIS["bluefield3"]


@pytest.fixture(params=list(URIS))
def client(request: pytest.FixtureRequest) -> Client:
    return make_client(request.param)


def an_event(**facts: Any) -> Event:
    base = {"type": "Alert", "message_id": "Base.1.22.Success", "message": "m", "created": 0.0}
    return Event(**{**base, **facts})


def told(response: Response) -> list[Event]:
    return [action.event for action in response.actions if isinstance(action, Emit)]


def wish_of(client: Client, path: str = STREAM, **fields: Any) -> StreamWish:
    response = client.request("GET", path, **fields)
    assert response.status == 200, response.body
    assert response.stream is not None
    return response.stream


def listening(client: Client) -> Client:
    client.bmc.become(client.clock.now(), subscriptions=(Subscription("1", "http://127.0.0.1/"),), subscriptions_made=1)
    return client


# payloads


def test_a_payload_is_an_event_of_the_schema(dpu: Client) -> None:
    event = an_event(
        origin="/redfish/v1/Chassis", log_entry="/redfish/v1/x/1", args=("a",), severity="Warning", group=7
    )
    body = orjson.loads(payload(dpu.bmc, Numbered(3, "f-3", event), "ctx"))
    assert body == {
        "@odata.type": "#Event.v1_9_0.Event",
        "Id": "f-3",
        "Name": "Event",
        "Context": "ctx",
        "Events@odata.count": 1,
        "Events": [
            {
                "MemberId": "0",
                "EventId": "f-3",
                "EventGroupId": 7,
                "EventType": "Alert",
                "EventTimestamp": "1970-01-01T00:00:00+00:00",
                "MessageId": "Base.1.22.Success",
                "Message": "m",
                "MessageArgs": ["a"],
                "MessageSeverity": "Warning",
                "Severity": "Warning",
                "Resolution": "None.",
                "OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis"},
                "LogEntry": {"@odata.id": "/redfish/v1/x/1"},
            }
        ],
    }


def test_what_an_event_has_not_is_left_out(dpu: Client) -> None:
    (record,) = orjson.loads(payload(dpu.bmc, Numbered(1, "f-1", an_event()), ""))["Events"]
    assert not {"OriginOfCondition", "LogEntry", "EventGroupId"} & record.keys()


def test_a_stream_has_one_line_of_data_for_each_event(dpu: Client) -> None:
    """Line ends inside of an event are escapes of its JSON, so that they end nothing."""
    text = sse(dpu.bmc, [Numbered(n, f"f-{n}", an_event(message="a\n\r\n\nid: x")) for n in (1, 2)], "c")
    assert text.endswith(b"\n\n")
    blocks = text[:-2].split(b"\n\n")
    assert [block.split(b"\n")[0] for block in blocks] == [b"id: f-1", b"id: f-2"]
    for block in blocks:
        _, data = block.split(b"\n")
        assert orjson.loads(data.removeprefix(b"data: "))["Events"][0]["Message"] == "a\n\r\n\nid: x"


# admission


def test_the_service_says_where_the_stream_is(client: Client) -> None:
    uri = client.get(SERVICE)["ServerSentEventUri"]
    assert uri == URIS[client.bmc.tree.head.profile]
    response = client.request("GET", uri, accept=b"text/event-stream")
    assert (response.status, response.body) == (200, b"")
    assert header(response, "Content-Type") == "text/event-stream; charset=utf-8"
    assert header(response, "Allow") == "GET"
    assert client.request("GET", uri + "/").stream is not None


@pytest.mark.parametrize(
    "accept", [b"", b"*/*", b"text/*", b"text/event-stream", b"application/json, text/event-stream"]
)
def test_every_accept_that_means_it_opens_the_stream(dpu: Client, accept: bytes) -> None:
    assert wish_of(dpu, accept=accept)


@pytest.mark.parametrize("accept", [b"application/json", b"text/event-stream;q=0", b"text/html"])
def test_another_accept_is_406_with_an_error(dpu: Client, accept: bytes) -> None:
    response = dpu.request("GET", STREAM, accept=accept)
    assert (response.status, message_ids(response), response.stream) == (406, ["HeaderInvalid"], None)
    assert header(response, "Content-Type") == "application/json; charset=utf-8"


def test_only_get_opens_a_stream(dpu: Client) -> None:
    for method in ("HEAD", "POST", "PATCH", "PUT", "DELETE"):
        response = dpu.request(method, STREAM, {} if method in ("POST", "PATCH", "PUT") else None)
        assert (response.status, header(response, "Allow"), response.stream) == (405, "GET", None)
    options = dpu.request("OPTIONS", STREAM)
    assert (options.status, header(options, "Allow")) == (204, "GET")


def test_gzip_does_not_touch_a_stream(dpu: Client) -> None:
    response = as_edge(dpu, "GET", STREAM, authorization=dpu.authorization, accept_encoding=b"gzip")
    assert response.stream is not None
    assert header(response, "Content-Encoding") is None


def test_a_stream_needs_a_login_and_a_changed_password(dpu: Client) -> None:
    assert dpu.request("GET", STREAM, authorization=b"").status == 401
    factory = dpu_with(password=None)
    response = factory.request("GET", STREAM, authorization=b"Basic cm9vdDowcGVuQm1j")
    assert (response.status, message_ids(response)) == (403, ["PasswordChangeRequired"])


def test_there_is_a_limit_of_streams(dpu: Client) -> None:
    with_facts(dpu, stream_limit=1)
    stream = dpu.bmc.open_stream(wish_of(dpu), "127.0.0.1:5", dpu.clock.now())
    response = dpu.request("GET", STREAM)
    assert (response.status, message_ids(response)) == (503, ["EventSubscriptionLimitExceeded"])
    stream.close()
    assert wish_of(dpu)


def test_a_disabled_service_opens_none(dpu: Client) -> None:
    dpu.request("PATCH", SERVICE, {"ServiceEnabled": False})
    for method, path, body in (("GET", STREAM, None), ("POST", SUBMIT, {"MessageId": "Base.1.22.Success"})):
        response = dpu.request(method, path, body)
        assert (response.status, message_ids(response)) == (503, ["ServiceDisabled"])


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("MessageId eq 'Base.1.22.Success'", True),
        ("RegistryPrefix eq 'Base' and ResourceType eq 'Chassis'", True),
        ("RegistryPrefix eq 'Base' and not (ResourceType eq 'Chassis')", False),
        ("(RegistryPrefix eq 'X') or (OriginResource eq '/redfish/v1/Chassis/1')", True),
        ("OriginResource eq '/redfish/v1/Chassis'", False),
        ("EventFormatType eq 'Event'", True),
        ("EventFormatType eq 'MetricReport'", False),
        ("RegistryPrefix ne 'Base'", False),
    ],
)
def test_filters(dpu: Client, condition: str, matches: bool) -> None:
    event = an_event(origin="/redfish/v1/Chassis/1", resource_type="Chassis")
    encoded = condition.replace(" ", "%20").replace("'", "%27")
    for form in (condition.replace(" ", "+"), encoded):
        assert wish_of(dpu, f"{STREAM}?$filter={form}").accepts(event) is matches


@pytest.mark.parametrize(
    "query",
    [
        "$filter=",
        "$filter=EventType",
        "$filter=EventType%20eq",
        "$filter=Colour%20eq%20'x'",
        "$filter=MetricReportDefinition%20eq%20'x'",
        "$filter=SubordinateResources%20eq%20true",
        "$filter=" + "(" * 100 + "EventType%20eq%20'x'" + ")" * 100,
        "$filter=" + "x" * 4000,
    ],
)
def test_a_filter_that_means_nothing_is_refused(dpu: Client, query: str) -> None:
    response = dpu.request("GET", f"{STREAM}?{query}")
    assert (response.status, response.stream) == (400, None)


def test_other_query_options_are_refused(dpu: Client) -> None:
    for option in ("$select=Id", "$top=1", "$expand=."):
        response = dpu.request("GET", f"{STREAM}?{option}")
        assert response.status in (400, 501), option
        assert response.stream is None


def test_a_reader_that_comes_back_goes_on_behind_the_event_that_it_knows(dpu: Client) -> None:
    hub = Hub(dpu.clock)
    dpu.bmc.open_stream(wish_of(dpu), "", dpu.clock.now())
    for name in "abc":
        hub.emit(dpu.bmc, an_event(message=name))
    assert dpu.bmc.feed is not None
    first = dpu.bmc.feed.history[0].id
    stream = dpu.bmc.open_stream(wish_of(dpu, last_event_id=first.encode()), "", dpu.clock.now())
    assert [one.event.message for one in stream.take()] == ["b", "c"]
    assert dpu.bmc.open_stream(wish_of(dpu), "", dpu.clock.now()).take() == []


@pytest.mark.parametrize("id_", [b"nope", b"ffff-1", b"\xff", b"-"])
def test_a_reader_whose_event_is_forgotten_is_told_so_and_gets_what_is_left(dpu: Client, id_: bytes) -> None:
    hub = Hub(dpu.clock)
    dpu.bmc.open_stream(wish_of(dpu, last_event_id=id_), "", dpu.clock.now())
    hub.emit(dpu.bmc, an_event(message="a"))
    stream = dpu.bmc.open_stream(wish_of(dpu, last_event_id=id_), "", dpu.clock.now())
    notice, event = stream.take()
    assert notice.event.message_id.endswith(".EventBufferExceeded")
    assert (notice.event.severity, event.event.message) == ("Warning", "a")
    assert notice.id != event.id


# streams as resources


def test_a_stream_is_a_destination_while_it_is_open(client: Client) -> None:
    stream = client.bmc.open_stream(wish_of(client, URIS[client.bmc.tree.head.profile]), "[::1]:5", client.clock.now())
    (member,) = [one["@odata.id"] for one in client.get(SUBSCRIPTIONS)["Members"]]
    body = client.get(member)
    expected = {"Id": "SSE1", "SubscriptionType": "SSE", "Destination": "redfish-sse://[::1]:5", "Context": "SSE1"}
    assert expected.items() <= body.items()
    assert body["DeliveryRetryPolicy"] is None
    response = client.request("PATCH", member, {"Context": "mine"})
    assert (response.status, message_ids(response)) == (400, ["PropertyNotWritable"])
    suspend = body["Actions"]["#EventDestination.SuspendSubscription"]["target"]
    assert client.request("POST", suspend, {}).status == 204
    assert client.get(member)["Status"]["State"] == "Enabled"
    ended: list[bool] = []
    stream.ended = lambda: ended.append(True)
    assert client.request("DELETE", member).status == 204
    assert ended == [True]
    assert client.request("GET", member).status == 404


def test_only_its_owner_and_managers_may_end_a_stream(dpu: Client) -> None:
    reader, other = account(dpu, "reader", "ReadOnly"), account(dpu, "other", "ReadOnly")
    dpu.bmc.open_stream(wish_of(dpu, authorization=reader), "", dpu.clock.now())
    assert dpu.request("DELETE", f"{SUBSCRIPTIONS}/SSE1", authorization=other).status == 403
    assert dpu.request("DELETE", f"{SUBSCRIPTIONS}/SSE1", authorization=reader).status == 204


def test_a_delete_that_a_fault_loses_ends_no_stream(dpu: Client) -> None:
    dpu.bmc.open_stream(wish_of(dpu), "", dpu.clock.now())
    rule = {"id": "x", "selector": {"Path": {"method": "DELETE", "glob": "/redfish/v1/**"}}, "action": "LostWrite"}
    assert dpu.request("POST", "/Injection/rules", rule).status == 200
    assert dpu.request("DELETE", f"{SUBSCRIPTIONS}/SSE1").status < 300
    assert dpu.bmc.feed is not None
    assert dpu.bmc.feed.streams


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("DELETE", None),
        ("PATCH", {"Enabled": False}),
        ("PATCH", {"UserName": "bea"}),
        ("PATCH", {"RoleId": "Blind"}),
    ],
)
def test_a_stream_ends_with_what_its_reader_may_read(dpu: Client, method: str, body: Any) -> None:
    assert dpu.request("POST", ROLES, {"RoleId": "Blind", "AssignedPrivileges": ["ConfigureSelf"]}).status == 201
    hub = Hub(dpu.clock)
    dpu.driver.emit = hub.emit
    reader = account(dpu, "reader", "ReadOnly")
    theirs = dpu.bmc.open_stream(wish_of(dpu, authorization=reader), "", dpu.clock.now())
    own = dpu.bmc.open_stream(wish_of(dpu), "", dpu.clock.now())
    ended: list[str] = []
    theirs.ended, own.ended = lambda: ended.append("theirs"), lambda: ended.append("own")
    theirs.woken = lambda: ended.append("told")
    assert dpu.request(method, f"{ACCOUNTS}/reader", body).status == 204
    assert ended == ["theirs"]
    assert dpu.bmc.feed is not None
    assert list(dpu.bmc.feed.streams) == ["SSE2"]
    assert own.take()
    account(dpu, "reader2", "ReadOnly")
    assert ended == ["theirs"]


def test_a_stream_ends_when_its_readers_role_loses_the_right(dpu: Client) -> None:
    assert dpu.request("POST", ROLES, {"RoleId": "Mine", "AssignedPrivileges": ["Login"]}).status == 201
    reader = account(dpu, "reader", "Mine")
    dpu.bmc.open_stream(wish_of(dpu, authorization=reader), "", dpu.clock.now())
    assert dpu.bmc.feed is not None
    assert dpu.request("PATCH", f"{ACCOUNTS}/reader", {"Password": "Secret-2"}).status == 204
    assert dpu.bmc.feed.streams
    assert dpu.request("PATCH", f"{ROLES}/Mine", {"AssignedPrivileges": ["ConfigureSelf"]}).status == 204
    assert not dpu.bmc.feed.streams


def test_a_stream_of_an_account_that_was_never_stored_ends(dpu: Client) -> None:
    before = dpu.bmc.state
    reader = account(dpu, "reader", "ReadOnly")
    dpu.bmc.open_stream(wish_of(dpu, authorization=reader), "", dpu.clock.now())
    dpu.bmc.open_stream(wish_of(dpu), "", dpu.clock.now())
    dpu.bmc.restore(before)
    dpu.bmc.end_orphans()
    assert dpu.bmc.feed is not None
    assert list(dpu.bmc.feed.streams) == ["SSE2"]


def test_a_wish_is_admitted_as_long_as_a_new_one_would_be(dpu: Client) -> None:
    with_facts(dpu, stream_limit=1)
    reader = account(dpu, "reader", "ReadOnly")
    wish = wish_of(dpu, authorization=reader)
    assert wish.admitted()
    stream = dpu.bmc.open_stream(wish_of(dpu), "", dpu.clock.now())
    assert not wish.admitted()
    stream.close()
    assert wish.admitted()
    for enabled in (False, True):
        dpu.request("PATCH", SERVICE, {"ServiceEnabled": enabled})
        assert wish.admitted() is enabled
    dpu.request("DELETE", f"{ACCOUNTS}/reader")
    assert not wish.admitted()
    dpu.request("POST", ACCOUNTS, {"UserName": "reader", "Password": "Other-1", "RoleId": "ReadOnly"})
    assert not wish.admitted()


def test_a_wish_does_not_outlive_a_reset_of_the_bmc(dpu: Client) -> None:
    wish = wish_of(dpu)
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_bmc(dpu.clock.now()))
    assert not wish.admitted()
    dpu.advance(3600)
    assert not wish.admitted()
    assert wish_of(dpu).admitted()


# test events


def test_a_test_event_is_as_the_client_wants_it(client: Client) -> None:
    listening(client)
    parameters = {
        "MessageId": "Contoso.1.0.Tested",
        "EventType": "Alert",
        "EventId": "abc",
        "EventTimestamp": "2024-05-06T07:08:09+02:00",
        "EventGroupId": 4,
        "Severity": "Critical",
        "Message": "hello",
        "MessageArgs": ["a", "b"],
        "OriginOfCondition": "/redfish/v1/Chassis",
    }
    (event,) = told(client.request("POST", SUBMIT, parameters))
    record = orjson.loads(payload(client.bmc, Numbered(1, "f-1", event), ""))["Events"][0]
    assert record["OriginOfCondition"] == {"@odata.id": "/redfish/v1/Chassis"}
    assert event.resource_type == "ChassisCollection"
    assert record["EventTimestamp"] == "2024-05-06T05:08:09+00:00"
    same = parameters.keys() - {"OriginOfCondition", "EventTimestamp"}
    assert {name: record[name] for name in same} == {name: parameters[name] for name in same}


def test_a_message_id_is_enough(dpu: Client) -> None:
    (event,) = told(listening(dpu).request("POST", SUBMIT, {"MessageId": "Base.1.22.Success"}))
    assert (event.type, event.severity, event.created) == ("Other", "OK", dpu.clock.now().wall)


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({}, "ActionParameterMissing"),
        ({"MessageId": "x"}, "ActionParameterValueFormatError"),
        ({"MessageId": "Base.Success"}, "ActionParameterValueFormatError"),
        ({"MessageId": "Base.1.22.Success", "EventType": "Nope"}, "ActionParameterValueNotInList"),
        ({"MessageId": "Base.1.22.Success", "Severity": "Nope"}, "ActionParameterValueNotInList"),
        ({"MessageId": "Base.1.22.Success", "MessageSeverity": "Nope"}, "ActionParameterValueNotInList"),
        *[
            ({"MessageId": "Base.1.22.Success", "EventTimestamp": text}, "ActionParameterValueFormatError")
            for text in ("now", "2024-01-01", "2024-01-01T00:00:00", "0001-01-01T00:00:00+14:00")
        ],
        ({"MessageId": "Base.1.22.Success", "EventTimestamp": "9999-12-31T23:59:59-14:00"}, "FormatError"),
        ({"MessageId": "Base.1.22.Success", "MessageArgs": "a"}, "ActionParameterValueTypeError"),
        ({"MessageId": "Base.1.22.Success", "MessageArgs": ["a"] * 21}, ""),
        ({"MessageId": "Base.1.22.Success", "EventGroupId": 2**63}, ""),
        ({"MessageId": "Base.1.22.Success", "Message": "x" * 2000}, ""),
        ({"MessageId": "Base.1.22.Success", "Colour": 1}, "ActionParameterUnknown"),
    ],
)
def test_parameters_that_are_wrong_are_refused(dpu: Client, parameters: dict[str, Any], key: str) -> None:
    response = listening(dpu).request("POST", SUBMIT, parameters)
    assert response.status == 400
    assert message_ids(response)[0].endswith(key)
    assert told(response) == []


def test_a_payload_is_no_request_so_that_a_destination_here_makes_no_loop(client: Client) -> None:
    listening(client)
    body = payload(client.bmc, Numbered(1, "f-1", an_event()), "c")
    for path in (SUBMIT, SUBSCRIPTIONS, ACCOUNTS, SESSIONS):
        response = client.request("POST", path, body)
        assert (response.status // 100, told(response)) == (4, []), path


# what writes tell


def test_writes_of_resources_are_told(client: Client) -> None:
    listening(client)

    def one(method: str, path: str, body: Any = None, **fields: Any) -> tuple[str, str, str, str]:
        response = client.request(method, path, body, **fields)
        assert response.status < 300, response.body
        (event,) = [event for event in told(response) if event.message_id.startswith("ResourceEvent.1.4.Resource")][-1:]
        return event.type, event.message_id.rpartition(".")[2], event.origin, event.resource_type

    session = client.request("POST", SESSIONS, {"UserName": "root", "Password": PASSWORD}, authorization=b"")
    where = header(session, "Location") or ""
    assert [(event.type, event.origin) for event in told(session)] == [("ResourceAdded", where)]
    assert one("DELETE", where) == ("ResourceRemoved", "ResourceRemoved", where, "Session")
    made = client.request("POST", ACCOUNTS, {"UserName": "ann", "Password": "Secret-1", "RoleId": "ReadOnly"})
    where = header(made, "Location") or ""
    assert ("ResourceAdded", where) in [(event.type, event.origin) for event in told(made)]
    changed = ("ResourceUpdated", "ResourceChanged", where, "ManagerAccount")
    assert one("PATCH", where, {"Enabled": False}) == changed
    assert one("DELETE", where) == ("ResourceRemoved", "ResourceRemoved", where, "ManagerAccount")
    assert one("PATCH", SERVICE, {"DeliveryRetryAttempts": 1})[2] == SERVICE
    where = subscribe(client)
    assert one("DELETE", where)[2] == where


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", SERVICE, {"Nope": 1}),
        ("PATCH", "/redfish/v1/Nope", {"A": 1}),
        ("DELETE", SERVICE, None),
        ("DELETE", f"{ACCOUNTS}/nobody", None),
        ("POST", SUBSCRIPTIONS, {"Protocol": "FTP"}),
        ("POST", SESSIONS, {"UserName": "root", "Password": "wrong"}),
        ("GET", SERVICE, None),
        ("OPTIONS", SERVICE, None),
        ("DELETE", "/Injection/rules", None),
        ("DELETE", "/Injection/rules/nope", None),
        ("POST", SERVICE + "/Actions/EventService.Nope", {}),
    ],
)
def test_nothing_is_told_of_what_was_not_done(client: Client, method: str, path: str, body: Any) -> None:
    assert told(listening(client).request(method, path, body)) == []


def test_the_only_subscription_that_goes_is_told_nothing(client: Client) -> None:
    assert told(client.request("DELETE", subscribe(client))) == []


def test_a_fault_answers_for_a_stream(dpu: Client) -> None:
    """A rule for the stream is as for any other URI."""
    with_faults(dpu, "weak_etag")
    assert wish_of(dpu)
    rule = {"id": "x", "selector": {"OdataId": STREAM}, "action": {"Status": 500}}
    assert dpu.request("POST", "/Injection/rules", rule).status == 200
    assert dpu.request("GET", STREAM).stream is None
