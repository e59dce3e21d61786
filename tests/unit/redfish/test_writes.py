"""What is asked before a write, what becomes of one of which a part cannot be done, and PUT."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.machine.power import Power
from bmcsim.redfish.exchange import Head, Request, Response
from bmcsim.redfish.service import admit
from tests.conftest import PASSWORD, Client, header, make_client, message_ids
from tests.unit.redfish.conftest import (
    ACCOUNTS,
    OWN,
    PROTOCOL,
    ROLES,
    SESSION_SERVICE,
    SESSIONS,
    SYSTEM,
    dpu_with,
    login,
)

RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
ROLE = {"RoleId": "r", "AssignedPrivileges": ["Login"]}
APPLY_TIME = "@Redfish.OperationApplyTime"
INFO = "@Message.ExtendedInfo"
BIOS = SYSTEM + "/Bios/Settings"


def tag(client: Client, uri: str) -> bytes:
    """The present entity tag of a resource."""
    return (header(client.request("GET", uri), "ETag") or "").encode()


# preconditions

WRITES: list[tuple[str, str, Any, str]] = [
    ("PATCH", PROTOCOL, {"NTP": {"ProtocolEnabled": False}}, PROTOCOL),
    ("PATCH", OWN, {"PasswordChangeRequired": False}, OWN),
    ("PATCH", BIOS, {"Attributes": {"HostPrivilegeLevel": "Restricted"}}, BIOS),
    ("DELETE", BIOS, None, BIOS),
    ("POST", ROLES, ROLE, ROLES),
    ("POST", ROLES + "/Members", ROLE, ROLES),
    ("POST", SESSIONS, {"UserName": "root", "Password": PASSWORD}, SESSIONS),
    ("POST", RESET, {"ResetType": "ForceRestart"}, SYSTEM),
    ("PUT", SESSION_SERVICE, {"SessionTimeout": 60}, SESSION_SERVICE),
]
PUT = {SESSION_SERVICE: {"handlers": {"PUT": "replace"}}}

every_write = pytest.mark.parametrize(("method", "uri", "body", "about"), WRITES)


@pytest.fixture
def client() -> Client:
    """A BlueField-3 that knows PUT."""
    return dpu_with(resources=PUT)


@every_write
@pytest.mark.parametrize(
    ("field", "holds"),
    [(b"%b", True), (b"*", True), (b'"x", %b', True), (b'"x"', False), (b"W/%b", False), (b"x", False)],
)
def test_if_match_guards_every_write(
    client: Client, method: str, uri: str, body: Any, about: str, field: bytes, holds: bool
) -> None:
    """An action is about its resource, a POST to a collection about that."""
    before = client.bmc.state
    response = client.request(method, uri, body, if_match=field.replace(b"%b", tag(client, about)))
    assert (response.status < 300) == holds
    if not holds:
        assert (response.status, message_ids(response)) == (412, ["PreconditionFailed"])
        assert (client.bmc.state, client.bmc.live_sessions(client.clock.now())) == (before, {})


@every_write
@pytest.mark.parametrize(("field", "holds"), [(b"%b", False), (b"W/%b", False), (b"*", False), (b'"x"', True)])
def test_if_none_match_guards_every_write(
    client: Client, method: str, uri: str, body: Any, about: str, field: bytes, holds: bool
) -> None:
    response = client.request(method, uri, body, if_none_match=field.replace(b"%b", tag(client, about)))
    assert (response.status < 300) == holds
    assert holds or (response.status, message_ids(response)) == (412, ["PreconditionFailed"])


@every_write
def test_a_firmware_may_demand_a_precondition(method: str, uri: str, body: Any, about: str) -> None:
    client = dpu_with(resources=PUT, requires_precondition=frozenset({"PATCH", "PUT", "DELETE"}))
    before = client.bmc.state
    response = client.request(method, uri, body)
    if method == "POST":
        assert response.status < 300
        return
    assert (response.status, message_ids(response), client.bmc.state) == (428, ["PreconditionRequired"], before)
    assert client.request(method, uri, body, if_match=tag(client, about)).status < 300


def test_the_precondition_comes_before_what_is_wrong_with_the_body(dpu: Client) -> None:
    assert dpu.request("PATCH", PROTOCOL, b"nonsense", if_match=b'"x"').status == 412
    assert dpu.request("POST", RESET, {"Nope": 1}, if_match=b'"x"').status == 412


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_of_writers_that_read_the_same_only_the_first_writes(steps: list[tuple[bool, bool]]) -> None:
    """Two writers take turns; each reads before some of its writes. Nobody overwrites what it did not see."""
    client = make_client("bluefield3")
    known = [tag(client, SESSION_SERVICE)] * 2
    number = 100
    for second, reads in steps:
        number += 1
        present = tag(client, SESSION_SERVICE)
        if reads:
            known[second] = present
        response = client.request("PATCH", SESSION_SERVICE, {"SessionTimeout": number}, if_match=known[second])
        assert response.status == (204 if known[second] == present else 412)
        assert (client.get(SESSION_SERVICE)["SessionTimeout"] == number) == (response.status == 204)


def test_of_two_pipelined_creators_the_second_has_to_look_again(dpu: Client) -> None:
    seen = tag(dpu, ROLES)
    assert dpu.request("POST", ROLES, ROLE, if_match=seen).status == 201
    assert dpu.request("POST", ROLES, {**ROLE, "RoleId": "s"}, if_match=seen).status == 412
    assert dpu.request("POST", ROLES, {**ROLE, "RoleId": "s"}, if_match=tag(dpu, ROLES)).status == 201


# 404, 405 and the rest


@pytest.mark.parametrize("method", ["PATCH", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("body", [b"", b"{}", b"nonsense"])
@pytest.mark.parametrize("media", [b"application/json", b"text/plain", b""])
@pytest.mark.parametrize("uri", ["/redfish/v1/", "/redfish/v1/Systems", SYSTEM + "/Processors"])
def test_what_cannot_be_written_is_405_whatever_is_sent(
    dpu: Client, method: str, body: bytes, media: bytes, uri: str
) -> None:
    if uri.endswith("Processors") and dpu.request("GET", uri).status == 404:
        uri = "/redfish/v1/Chassis"
    response = dpu.request(method, uri, body, content_type=media)
    assert (response.status, message_ids(response)) == (405, ["OperationNotAllowed"])
    assert header(response, "Allow") == "GET, HEAD"
    missing = dpu.request(method, uri.rstrip("/") + "/Nope", body, content_type=media)
    assert missing.status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PATCH", "/redfish/v1/", None),
        ("POST", "/redfish/v1/Nope", None),
        ("PATCH", ACCOUNTS, None),
        ("PATCH", PROTOCOL, 415),
        ("PATCH", OWN, 415),
        ("POST", ACCOUNTS, 415),
        ("POST", ACCOUNTS + "/Members", 415),
        ("POST", RESET, 415),
    ],
)
def test_a_body_of_another_type_is_415_only_where_there_is_something_to_write(
    dpu: Client, method: str, path: str, status: int | None
) -> None:
    """Else the body is read and `handle` says 404 or 405."""
    head = Head(authorization=dpu.authorization, content_type=b"text/plain")
    decided = admit(dpu.bmc, Request(method, path, dpu.clock.now(), head), 10)
    assert (decided.status if isinstance(decided, Response) else None) == status


@pytest.mark.parametrize("method", ["FAKEMETHODFORTEST", "TRACE", "CONNECT", "get", "PROPFIND"])
def test_a_method_that_nobody_knows_is_501(dpu: Client, method: str) -> None:
    assert dpu.request(method, PROTOCOL).status == 501


# a part that cannot be done


@pytest.mark.parametrize(
    ("uri", "body", "shown", "refused"),
    [
        (PROTOCOL, {"NTP": {"ProtocolEnabled": False, "Nope": 1}}, ("NTP", "ProtocolEnabled", False), ["NTP/Nope"]),
        (
            PROTOCOL,
            {"NTP": {"ProtocolEnabled": False}, "HostName": "x", "HTTP": {"Port": 1}},
            ("NTP", "ProtocolEnabled", False),
            ["HostName", "HTTP/Port"],
        ),
        (SESSION_SERVICE, {"SessionTimeout": 60, "Id": "x"}, ("SessionTimeout", None, 60), ["Id"]),
        (OWN, {"Enabled": True, "Nope": {"a": 1}}, ("Enabled", None, True), ["Nope"]),
        (BIOS, {"Attributes": {"HostPrivilegeLevel": "Restricted"}, "Name": "x"}, None, ["Name"]),
        (SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe", "Nope": 1}, "Bios": {"@odata.id": "/x"}},
         ("Boot", "BootSourceOverrideTarget", "Pxe"), ["Boot/Nope", "Bios"]),
    ],
)  # fmt: skip
def test_what_can_never_be_written_does_not_stop_the_rest(
    dpu: Client, uri: str, body: Any, shown: tuple[str, str | None, Any] | None, refused: list[str]
) -> None:
    """DSP0266 7.6: 200 with the resource, and at each property that was not written why."""
    response = dpu.request("PATCH", uri, body)
    answer, after = orjson.loads(response.body), dpu.get(uri)
    assert response.status == 200
    assert header(response, "ETag") == after["@odata.etag"]
    messages = answer.pop(INFO)
    assert [one["RelatedProperties"] for one in messages] == [[f"#/{path}"] for path in refused]
    for path, one in zip(refused, messages, strict=True):
        *above, name = path.split("/")
        place = answer
        for step in above:
            place = place[step]
        assert place.pop(f"{name}{INFO}") == [one]
    assert answer == after
    if shown is not None:
        name, inner, value = shown
        assert (after[name][inner] if inner else after[name]) == value


@pytest.mark.parametrize("mixed", ["apply", "refuse"])
@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ({"NTP": {"ProtocolEnabled": False, "NTPServers": ["\n"]}}, {"PropertyValueFormatError"}),
        ({"NTP": {"ProtocolEnabled": 5}, "Nope": 1}, {"PropertyValueTypeError", "PropertyUnknown"}),
        ({"Nope": 1, "HostName": "x"}, {"PropertyUnknown", "PropertyNotWritable"}),
    ],
)
def test_e24_a_wrong_value_refuses_all_of_it(mixed: str, body: Any, keys: set[str]) -> None:
    client = dpu_with(mixed_patch=mixed)
    before = client.get(PROTOCOL)
    response = client.request("PATCH", PROTOCOL, body)
    assert (response.status, set(message_ids(response))) == (400, keys)
    assert client.get(PROTOCOL) == before


@pytest.mark.parametrize(
    ("uri", "body", "key"),
    [
        (PROTOCOL, {"NTP": {"ProtocolEnabled": False, "Nope": 1}}, "PropertyUnknown"),
        (OWN, {"Password": "Other-123", "Nope": 1}, "PropertyUnknown"),
        (OWN, {"Enabled": True, "Id": "x"}, "PropertyNotWritable"),
        (BIOS, {"Attributes": {"HostPrivilegeLevel": "Restricted"}, "Name": "x"}, "PropertyNotWritable"),
    ],
)
def test_a_firmware_may_refuse_all_of_it(uri: str, body: Any, key: str) -> None:
    client = dpu_with(mixed_patch="refuse")
    before = client.bmc.state
    response = client.request("PATCH", uri, body)
    assert (response.status, message_ids(response), client.bmc.state) == (400, [key], before)


def test_a_password_beside_an_unknown_property_is_set(dpu: Client) -> None:
    response = dpu.request("PATCH", OWN, {"Password": "Other-123", "BogusProp": "x"})
    answer = orjson.loads(response.body)
    assert (response.status, answer["@odata.id"], answer["Password"]) == (200, OWN, None)
    assert login(dpu, password="Other-123")
    assert b"Other-123" not in response.body


def test_a_lot_that_cannot_be_written_is_answered_in_short(dpu: Client) -> None:
    body = {"NTP": {"ProtocolEnabled": False}} | {f"wrong{number}": 1 for number in range(10_000)}
    response = dpu.request("PATCH", PROTOCOL, body)
    assert response.status == 200
    assert len(orjson.loads(response.body)[INFO]) == 64


def test_a_dot_in_a_name_leads_nowhere(dpu: Client) -> None:
    for body in ({"NTP.ProtocolEnabled": False}, {"NTP": {"ProtocolEnabled": False}, "IPMI.ProtocolEnabled": True}):
        dpu.request("PATCH", PROTOCOL, body)
        assert not {name for name in dpu.get(PROTOCOL) if "." in name and not name.startswith("@")}


def test_what_is_said_about_properties_is_ignored_at_any_depth(dpu: Client) -> None:
    body = {"NTP": {"@odata.type": "#x", "NTPServers": ["a"], "NTPServers@odata.count": 1}, "Id@Message": 1}
    assert dpu.request("PATCH", PROTOCOL, body).status == 204
    assert dpu.get(PROTOCOL)["NTP"] == {"ProtocolEnabled": True, "NTPServers": ["a"]}


@pytest.mark.parametrize(
    ("uri", "body", "key", "arguments"),
    [
        (PROTOCOL, b'{"NTP": {}, "NTP": {}}', "PropertyDuplicate", ["NTP"]),
        (PROTOCOL, b'{"NTP": {"ProtocolEnabled": true, "ProtocolEnabled": false}}', "PropertyDuplicate",
         ["ProtocolEnabled"]),
        (PROTOCOL, b'{"X": [{"a": 1, "\\u0061": 1}]}', "PropertyDuplicate", ["a"]),
        (RESET, b'{"ResetType": "On", "ResetType": "ForceOff"}', "ActionParameterDuplicate",
         ["ComputerSystem.Reset", "ResetType"]),
    ],
)  # fmt: skip
def test_a_name_that_is_there_twice(dpu: Client, uri: str, body: bytes, key: str, arguments: list[str]) -> None:
    response = dpu.request("POST" if uri == RESET else "PATCH", uri, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert orjson.loads(response.body)["error"][INFO][0]["MessageArgs"] == arguments
    assert dpu.bmc.power is Power.RUNNING


def test_a_number_of_many_digits_is_an_error_of_the_client(dpu: Client) -> None:
    for digits, key in ((300, "PropertyValueTypeError"), (9000, "MalformedJSON")):
        body = b'{"SessionTimeout": ' + b"1" * digits + b"}"
        assert message_ids(dpu.request("PATCH", SESSION_SERVICE, body)) == [key]


# apply times


@pytest.mark.parametrize(
    ("method", "uri", "body", "key"),
    [
        ("PATCH", PROTOCOL, {"NTP": {"ProtocolEnabled": False}}, "PropertyUnknown"),
        ("POST", ROLES, ROLE, "PropertyUnknown"),
        ("POST", RESET, {"ResetType": "ForceRestart"}, "ActionParameterNotSupported"),
    ],
)
def test_an_apply_time_that_is_not_declared(dpu: Client, method: str, uri: str, body: Any, key: str) -> None:
    before = dpu.bmc.state
    response = dpu.request(method, uri, {**body, APPLY_TIME: "Immediate"})
    assert (response.status, message_ids(response), dpu.bmc.state) == (400, [key], before)
    assert orjson.loads(response.body)["error"][INFO][0]["RelatedProperties"] == [f"#/{APPLY_TIME}"]


@pytest.mark.parametrize(
    ("value", "key"),
    [("Immediate", None), ("OnReset", "PropertyValueNotInList"), (5, "PropertyValueTypeError")],
)
def test_an_apply_time_that_a_collection_declares(value: Any, key: str | None) -> None:
    support = {"@odata.type": "#Settings.v1_3_5.OperationApplyTimeSupport", "SupportedValues": ["Immediate"]}
    client = dpu_with(resources={ROLES: {f"{APPLY_TIME}Support": support}})
    response = client.request("POST", ROLES, {**ROLE, APPLY_TIME: value})
    assert response.status == (201 if key is None else 400)
    assert key is None or message_ids(response) == [key]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("OnReset", "PropertyValueTypeError"),
        ({}, "PropertyMissing"),
        ({"ApplyTime": 5}, "PropertyValueTypeError"),
        ({"ApplyTime": "AtMaintenanceWindowStart"}, "PropertyValueNotInList"),
        ({"ApplyTime": "OnReset", "MaintenanceWindowStartTime": "x"}, "PropertyUnknown"),
    ],
)
def test_the_apply_time_of_settings(dpu: Client, value: Any, key: str) -> None:
    body = {"@Redfish.SettingsApplyTime": value, "Attributes": {"HostPrivilegeLevel": "Restricted"}}
    response = dpu.request("PATCH", BIOS, body)
    assert (response.status, message_ids(response), dpu.bmc.state.staged) == (400, [key], ())


# PUT


def test_put_sets_what_can_be_written_and_takes_back_the_rest(client: Client) -> None:
    assert "PUT" in (header(client.request("GET", SESSION_SERVICE), "Allow") or "")
    factory = client.get(SESSION_SERVICE)
    assert client.request("PUT", SESSION_SERVICE, {"SessionTimeout": 60}).status == 204
    shown = client.get(SESSION_SERVICE)
    assert shown["SessionTimeout"] == 60
    shown["SessionTimeout"] = 90
    response = client.request("PUT", SESSION_SERVICE, shown)
    assert (response.status, header(response, "ETag")) == (204, client.get(SESSION_SERVICE)["@odata.etag"])
    assert client.get(SESSION_SERVICE)["SessionTimeout"] == 90
    del shown["SessionTimeout"]
    assert client.request("PUT", SESSION_SERVICE, shown).status == 204
    assert client.get(SESSION_SERVICE) == factory


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"SessionTimeout": 60, "Id": "x"}, "PropertyNotWritable"),
        ({"SessionTimeout": 60, "Nope": 1}, "PropertyUnknown"),
        ({"SessionTimeout": 60, "Sessions": {"x": 1}}, "PropertyNotWritable"),
        ({"SessionTimeout": "60"}, "PropertyValueTypeError"),
        ({}, "EmptyJSON"),
        ({"@odata.id": "/x"}, "NoOperation"),
        (b"[]", "MalformedJSON"),
    ],
)
def test_what_put_does_not_take(client: Client, body: Any, key: str) -> None:
    client.request("PATCH", SESSION_SERVICE, {"SessionTimeout": 77})
    response = client.request("PUT", SESSION_SERVICE, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert client.get(SESSION_SERVICE)["SessionTimeout"] == 77


def test_put_is_405_where_no_profile_has_it(dpu: Client) -> None:
    response = dpu.request("PUT", SESSION_SERVICE, {"SessionTimeout": 60})
    assert (response.status, header(response, "Allow")) == (405, "GET, HEAD, PATCH")
