"""PATCH: what is checked, that it is all or nothing, and what it changes."""

from typing import Any

import orjson
import pytest

from bmcsim.core.errors import RedfishError
from bmcsim.redfish.exchange import Response
from bmcsim.redfish.patch import MAX_DEPTH, MAX_ITEMS, MAX_PROBLEMS, json_object, properties_of
from tests.conftest import Client, header, message_ids
from tests.unit.redfish.conftest import OWN, PROTOCOL, SESSION_SERVICE, SYSTEM, dpu_with

SETTINGS = SYSTEM + "/Settings"
R750 = "/redfish/v1/Systems/System.Embedded.1"
ATTRIBUTES = "/redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/iDRAC.Embedded.1"


def at(resource: Any, path: str) -> Any:
    """The value at a dotted path."""
    for step in path.split("."):
        resource = resource[step]
    return resource


def info(response: Response) -> list[dict[str, Any]]:
    """The messages of an error."""
    messages: list[dict[str, Any]] = orjson.loads(response.body)["error"]["@Message.ExtendedInfo"]
    return messages


# what is written


@pytest.mark.parametrize(
    ("uri", "body", "path", "value"),
    [
        (PROTOCOL, {"NTP": {"ProtocolEnabled": False}}, "NTP.ProtocolEnabled", False),
        (PROTOCOL, {"NTP": {"NTPServers": ["a", "b"]}}, "NTP.NTPServers", ["a", "b"]),
        (PROTOCOL, {"NTP": {"NTPServers": ["x" * 255]}}, "NTP.NTPServers", ["x" * 255]),
        (PROTOCOL, {"IPMI": {"ProtocolEnabled": True}, "@odata.id": "/x"}, "IPMI.ProtocolEnabled", True),
        (SESSION_SERVICE, {"SessionTimeout": 30}, "SessionTimeout", 30),
        (SESSION_SERVICE, {"SessionTimeout": 86400}, "SessionTimeout", 86400),
        (SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe"}}, "Boot.BootSourceOverrideTarget", "Pxe"),
        (SETTINGS, {"Boot": {"BootOrder": ["Boot0000", "Boot0040"]}}, "Boot.BootOrder", ["Boot0000", "Boot0040"]),
    ],
)
def test_what_is_written_shows_and_nothing_else_changes(
    dpu: Client, uri: str, body: dict[str, Any], path: str, value: Any
) -> None:
    before = dpu.get(uri)
    response = dpu.request("PATCH", uri, body)
    after = dpu.get(uri)
    assert (response.status, response.body, at(after, path)) == (204, b"", value)
    assert header(response, "ETag") == after["@odata.etag"] != before["@odata.etag"]
    name = path.rpartition(".")[2]
    for resource in (before, after):
        del resource["@odata.etag"], (at(resource, path.rpartition(".")[0]) if "." in path else resource)[name]
    assert before == after


def test_two_properties_are_written_together(dpu: Client) -> None:
    body = {"NTP": {"ProtocolEnabled": False, "NTPServers": ["a"]}, "IPMI": {"ProtocolEnabled": True}}
    assert dpu.request("PATCH", PROTOCOL, body).status == 204
    shown = dpu.get(PROTOCOL)
    assert (shown["NTP"], shown["IPMI"]["ProtocolEnabled"]) == (body["NTP"], True)


@pytest.mark.parametrize("charset", [b"application/json", b"application/json; charset=utf-8", b"Application/JSON"])
def test_media_types_of_json(dpu: Client, charset: bytes) -> None:
    assert dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": []}}, content_type=charset).status == 204


@pytest.mark.parametrize("value", [None, "rack 7", "x" * 63])
def test_a_nullable_property_takes_null(host: Client, value: str | None) -> None:
    assert host.request("PATCH", R750, {"AssetTag": value}).status == 204
    assert host.get(R750)["AssetTag"] == value


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["x"], ["x"]),
        ([], []),
        ([None, {}, {}], ["b", "c"]),
        ([{}, "x"], ["a", "x"]),
        ([{}, {}, {}, "d"], ["a", "b", "c", "d"]),
        ([None, None, None], []),
        (["x", None, {}, "d"], ["x", "c", "d"]),
    ],
)
def test_array_elements_are_kept_removed_replaced_and_added(
    dpu: Client, change: list[Any], expected: list[str]
) -> None:
    assert dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": ["a", "b", "c"]}}).status == 204
    assert dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": change}}).status == 204
    assert dpu.get(PROTOCOL)["NTP"]["NTPServers"] == expected


def test_a_settings_resource_changes_the_resource_that_it_applies_to(dpu: Client) -> None:
    boot = {"BootOrder": ["Boot0000", "Boot0040"], "BootSourceOverrideTarget": "UefiHttp"}
    assert dpu.request("PATCH", SETTINGS, {"Boot": boot}).status == 204
    for uri in (SETTINGS, SYSTEM):
        shown = dpu.get(uri)["Boot"]
        assert {name: shown[name] for name in boot} == boot


def test_a_refused_settings_change_reaches_neither_resource(dpu: Client) -> None:
    before = dpu.get(SYSTEM), dpu.get(SETTINGS)
    body = {"Boot": {"BootOrder": ["Boot0000"], "BootSourceOverrideTarget": "Nope"}}
    assert dpu.request("PATCH", SETTINGS, body).status == 400
    assert (dpu.get(SYSTEM), dpu.get(SETTINGS)) == before


def test_a_table_of_attributes_is_written_through_either_of_its_two_uris(host: Client) -> None:
    other = "/redfish/v1/Managers/iDRAC.Embedded.1/Attributes"
    assert host.request("PATCH", ATTRIBUTES, {"Attributes": {"SSH.1.Enable": "Disabled"}}).status == 204
    assert host.request("PATCH", other, {"Attributes": {"SSH.1.Port": 2222}}).status == 204
    for uri in (ATTRIBUTES, other):
        shown = host.get(uri)["Attributes"]
        assert (shown["SSH.1.Enable"], shown["SSH.1.Port"]) == ("Disabled", 2222)


# what is refused


REFUSED = [
    (PROTOCOL, {"Nope": 1}, "PropertyUnknown", ["Nope"], "#/Nope"),
    (PROTOCOL, {"NTP": {"Nope": 1}}, "PropertyUnknown", ["Nope"], "#/NTP/Nope"),
    (PROTOCOL, {"ntp": {"ProtocolEnabled": True}}, "PropertyUnknown", ["ntp"], "#/ntp"),
    (PROTOCOL, {"HostName": "x"}, "PropertyNotWritable", ["HostName"], "#/HostName"),
    (PROTOCOL, {"HTTP": {"Port": 81}}, "PropertyNotWritable", ["Port"], "#/HTTP/Port"),
    (PROTOCOL, {"Id": "x"}, "PropertyNotWritable", ["Id"], "#/Id"),
    (SYSTEM, {"Bios": {"@odata.id": "/x"}}, "PropertyNotWritable", ["Bios"], "#/Bios"),
    (SYSTEM, {"PowerState": "Off"}, "PropertyNotWritable", ["PowerState"], "#/PowerState"),
    (SYSTEM, {"Boot": {"BootOrder": ["Boot0000"]}}, "PropertyNotWritable", ["BootOrder"], "#/Boot/BootOrder"),
    (
        PROTOCOL,
        {"NTP": {"ProtocolEnabled": "yes"}},
        "PropertyValueTypeError",
        ["yes", "ProtocolEnabled"],
        "#/NTP/ProtocolEnabled",
    ),
    (PROTOCOL, {"NTP": {"ProtocolEnabled": None}}, "PropertyValueTypeError", ["null", "ProtocolEnabled"], None),
    (PROTOCOL, {"NTP": {"ProtocolEnabled": 1}}, "PropertyValueTypeError", ["1", "ProtocolEnabled"], None),
    (PROTOCOL, {"NTP": {"NTPServers": "a"}}, "PropertyValueTypeError", ["a", "NTPServers"], "#/NTP/NTPServers"),
    (PROTOCOL, {"NTP": {"NTPServers": ["a", 1]}}, "PropertyValueTypeError", ['["a",1]', "NTPServers"], None),
    (PROTOCOL, {"NTP": {"NTPServers": [{"a": 1}]}}, "PropertyValueTypeError", ['[{"a":1}]', "NTPServers"], None),
    (SESSION_SERVICE, {"SessionTimeout": "60"}, "PropertyValueTypeError", ["60", "SessionTimeout"], "#/SessionTimeout"),
    (SESSION_SERVICE, {"SessionTimeout": True}, "PropertyValueTypeError", ["true", "SessionTimeout"], None),
    (SESSION_SERVICE, {"SessionTimeout": 60.5}, "PropertyValueTypeError", ["60.5", "SessionTimeout"], None),
    (SESSION_SERVICE, {"SessionTimeout": 29}, "PropertyValueOutOfRange", ["29", "SessionTimeout"], "#/SessionTimeout"),
    (SESSION_SERVICE, {"SessionTimeout": 86401}, "PropertyValueOutOfRange", ["86401", "SessionTimeout"], None),
    (SESSION_SERVICE, {"SessionTimeout": -60}, "PropertyValueOutOfRange", ["-60", "SessionTimeout"], None),
    (
        SYSTEM,
        {"Boot": {"BootSourceOverrideTarget": "Nope"}},
        "PropertyValueNotInList",
        ["Nope", "BootSourceOverrideTarget"],
        "#/Boot/BootSourceOverrideTarget",
    ),
    (
        SYSTEM,
        {"Boot": {"BootSourceOverrideTarget": "pxe"}},
        "PropertyValueNotInList",
        ["pxe", "BootSourceOverrideTarget"],
        None,
    ),
    (
        SETTINGS,
        {"Boot": {"BootOrder": ["Boot0000", "Boot9"]}},
        "PropertyValueNotInList",
        ["Boot9", "BootOrder"],
        "#/Boot/BootOrder",
    ),
    (PROTOCOL, {"NTP": {"NTPServers": ["x" * 256]}}, "StringValueTooLong", ["x" * 64, "255"], "#/NTP/NTPServers"),
    (SYSTEM, {"Boot": "Pxe"}, "PropertyValueTypeError", ["Pxe", "Boot"], "#/Boot"),
]


@pytest.mark.parametrize(("uri", "body", "key", "arguments", "related"), REFUSED)
def test_what_is_refused_and_how(
    dpu: Client, uri: str, body: dict[str, Any], key: str, arguments: list[str], related: str | None
) -> None:
    before = dpu.get(uri)
    response = dpu.request("PATCH", uri, body)
    assert (response.status, message_ids(response)) == (400, [key])
    (one,) = info(response)
    assert one["MessageArgs"] == arguments
    assert related is None or one["RelatedProperties"] == [related]
    assert dpu.get(uri) == before


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"Attributes": {"Nope.1": "x"}}, "PropertyUnknown"),
        ({"Attributes": {"SSH.1.Port": "22"}}, "PropertyValueTypeError"),
        ({"Attributes": {"SSH.1.Enable": True}}, "PropertyValueTypeError"),
        ({"Attributes": {"SSH.1.Enable": None}}, "PropertyValueTypeError"),
        ({"Attributes": {"SSH.1.Enable": "Disabled", "Nope.1": "x"}}, "PropertyUnknown"),
        ({"Attributes": 5}, "PropertyValueTypeError"),
        ({"Attributes": ["SSH.1.Enable"]}, "PropertyValueTypeError"),
        ({"AttributeRegistry": "x"}, "PropertyNotWritable"),
    ],
)
def test_attributes_keep_their_names_and_types(host: Client, body: dict[str, Any], key: str) -> None:
    before = host.get(ATTRIBUTES)
    response = host.request("PATCH", ATTRIBUTES, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert host.get(ATTRIBUTES) == before


def test_every_wrong_property_is_named_and_none_is_written(dpu: Client) -> None:
    before = dpu.get(PROTOCOL)
    body = {"NTP": {"ProtocolEnabled": False, "NTPServers": [1], "Nope": 1}, "HostName": "x", "Other": {}}
    response = dpu.request("PATCH", PROTOCOL, body)
    assert response.status == 400
    assert message_ids(response) == [
        "PropertyUnknown",
        "PropertyNotWritable",
        "PropertyUnknown",
        "PropertyValueTypeError",
    ]
    assert orjson.loads(response.body)["error"]["code"].endswith(".GeneralError")
    assert dpu.get(PROTOCOL) == before
    assert dpu.bmc.overlay is None


@pytest.mark.parametrize("uri", [PROTOCOL, OWN])
@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b"{}", "EmptyJSON"),
        (b'{"@odata.id": "/x"}', "NoOperation"),
        (b'{"@odata.id": "/x", "@Message.ExtendedInfo": []}', "NoOperation"),
        (b"", "MalformedJSON"),
        (b"[]", "MalformedJSON"),
        (b'[{"NTP": {}}]', "MalformedJSON"),
        (b"null", "MalformedJSON"),
        (b"5", "MalformedJSON"),
        (b'"text"', "MalformedJSON"),
        (b"not json", "MalformedJSON"),
        (b'{"NTP": ', "MalformedJSON"),
        (b'{"NTP": {}} x', "MalformedJSON"),
        (b"{'NTP': {}}", "MalformedJSON"),
        (b'{"a": NaN}', "MalformedJSON"),
        (b'{"a": "\xff"}', "MalformedJSON"),
        (b'{"a": "\\ud800"}', "MalformedJSON"),
        (b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", "MalformedJSON"),
    ],
)
def test_bodies_that_ask_for_nothing_or_are_no_object(dpu: Client, uri: str, body: bytes, key: str) -> None:
    response = dpu.request("PATCH", uri, body)
    assert (response.status, message_ids(response)) == (400, [key])


@pytest.mark.parametrize("depth", [100, 300, 1000])
@pytest.mark.parametrize(
    ("uri", "body"),
    [
        (PROTOCOL, b'{"NTP":{"NTPServers":%b}}'),
        (PROTOCOL, b'{"NTP":{"NTPServers":[%b]}}'),
        (PROTOCOL, b'{"Nope":%b}'),
        (SESSION_SERVICE, b'{"SessionTimeout":%b}'),
        (OWN, b'{"Password":%b}'),
    ],
)
def test_a_deeply_nested_value_is_an_error_of_the_client(dpu: Client, uri: str, body: bytes, depth: int) -> None:
    assert dpu.request("PATCH", uri, body % (b"[" * depth + b"]" * depth)).status == 400


@pytest.mark.parametrize("media", [b"text/plain", b"", b"application/xml", b"application/jsonx"])
def test_a_body_of_another_media_type_is_not_read(dpu: Client, media: bytes) -> None:
    response = dpu.request("PATCH", PROTOCOL, {"NTP": {"ProtocolEnabled": False}}, content_type=media)
    assert (response.status, message_ids(response)) == (415, ["UnrecognizedRequestBody"])
    assert dpu.get(PROTOCOL)["NTP"]["ProtocolEnabled"] is True


def test_the_two_steps_before_a_write() -> None:
    assert properties_of(json_object(b'{"A": 1, "@x": 2}')) == {"A": 1}
    with pytest.raises(RedfishError):
        json_object(b"[]")


# accounts


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ({"Password": 5}, ["PropertyValueTypeError"]),
        ({"Password": None}, ["PropertyValueTypeError"]),
        ({"Password": "x" * 41}, ["PasswordIncorrectLength"]),
        ({"Nope": 1}, ["PropertyUnknown"]),
        ({"Id": "x"}, ["PropertyNotWritable"]),
        ({"Nope": 1, "Password": 5}, ["PropertyUnknown", "PropertyValueTypeError"]),
    ],
)
def test_a_password_that_is_refused_is_not_set_and_not_repeated(
    dpu: Client, body: dict[str, Any], keys: list[str]
) -> None:
    response = dpu.request("PATCH", OWN, body)
    assert (response.status, sorted(message_ids(response))) == (400, sorted(keys))
    assert b"x" * 41 not in response.body
    assert dpu.request("GET", SYSTEM).status == 200


@pytest.mark.parametrize(("length", "status"), [(7, 400), (8, 204), (12, 204), (13, 400)])
def test_the_length_of_a_password_is_the_firmware_s(length: int, status: int) -> None:
    client = dpu_with(password_min=8, password_max=12)
    assert client.request("PATCH", OWN, {"Password": "p" * length}).status == status


@pytest.mark.parametrize("password", ["", "ä€😀", "with:colon", " ", "${serial}", "\0"])
def test_any_text_may_be_a_password(dpu: Client, password: str) -> None:
    assert dpu.request("PATCH", OWN, {"Password": password}).status == 204
    body = {"UserName": "root", "Password": password}
    assert dpu.request("POST", SESSION_SERVICE + "/Sessions", body).status == 201


def test_the_tag_of_an_account_after_a_change_is_the_one_of_its_next_read() -> None:
    client = dpu_with(password=None)
    client.authorization = b"Basic cm9vdDowcGVuQm1j"
    before = client.get(OWN)["@odata.etag"]
    response = client.request("PATCH", OWN, {"Password": "Rotated-1"})
    client.authorization = b"Basic cm9vdDpSb3RhdGVkLTE="
    after = client.get(OWN)["@odata.etag"]
    assert after != before
    assert header(response, "ETag") == after


def test_a_password_never_shows(dpu: Client) -> None:
    dpu.request("PATCH", OWN, {"Password": "S3cret"})
    response = dpu.request("GET", OWN, authorization=b"Basic cm9vdDpTM2NyZXQ=")
    assert orjson.loads(response.body)["Password"] is None
    assert b"S3cret" not in response.body


def test_a_body_of_many_wrong_properties_is_answered_in_short(host: Client) -> None:
    refused = host.request("PATCH", R750, {f"wrong{number}": 1 for number in range(10_000)})
    assert (refused.status, len(info(refused))) == (400, MAX_PROBLEMS)
    for wrong in ({"Boot": "x" * 100_000}, {"x" * 100_000: 1}):
        assert len(host.request("PATCH", R750, wrong).body) < 10_000


def test_texts_and_arrays_have_a_limit_even_where_the_profile_gives_none(host: Client, dpu: Client) -> None:
    ntp = f"{host.bmc.tree.head.roles.manager}/NetworkProtocol"
    too_many = host.request("PATCH", ntp, {"NTP": {"NTPServers": ["a.b"] * (MAX_ITEMS + 1)}})
    assert message_ids(too_many) == ["ArraySizeTooLong"]
    too_long = host.request("PATCH", ATTRIBUTES, {"Attributes": {"Time.1.Timezone": "x" * 2000}})
    assert message_ids(too_long) == ["StringValueTooLong"]
    bios = host.request("PATCH", R750 + "/Bios/Settings", {"Attributes": {"AssetTag": "x" * 2000}})
    assert message_ids(bios) == ["StringValueTooLong"]
    roles = "/redfish/v1/AccountService/Roles"
    role = {"RoleId": "r", "AssignedPrivileges": ["Login"], "OemPrivileges": [str(number) for number in range(1000)]}
    assert message_ids(dpu.request("POST", roles, role)) == ["ArraySizeTooLong"]
    user = {"UserName": "bob", "Password": "Secret-123", "RoleId": "ReadOnly"}
    accounts = "/redfish/v1/AccountService/Accounts"
    assert dpu.request("POST", accounts, {**user, "AccountTypes": ["Redfish"] * 1000}).status == 400
    assert dpu.request("POST", accounts, {**user, "AccountTypes": ["Redfish"] * 3}).status == 201
    assert dpu.bmc.accounts.accounts[-1].types == ("Redfish",)


# what generated requests found


@pytest.mark.parametrize("body", [b'{"Boot":' * 900 + b"{}" + b"}" * 900, b'{"a":' + b"[" * 100 + b"]" * 100 + b"}"])
@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_a_body_of_any_depth_is_answered(dpu: Client, method: str, body: bytes) -> None:
    """What walks through a body recurses, and Python's stack has an end."""
    uri = SYSTEM if method == "PATCH" else f"{SYSTEM}/Actions/ComputerSystem.Reset"
    response = dpu.request(method, uri, body)
    assert (response.status, message_ids(response)) == (400, ["MalformedJSON"])


def test_a_body_may_be_as_deep_as_any_property(dpu: Client) -> None:
    assert json_object(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    with pytest.raises(RedfishError, match="MalformedJSON"):
        json_object(b'{"a":' * MAX_DEPTH + b"{}" + b"}" * MAX_DEPTH)


@pytest.mark.parametrize("name", ["", "/", "a/b", "#/x", "Boot/x", "x" * 2000])
def test_a_property_of_any_name_is_refused_beside_one_that_is_written(dpu: Client, name: str) -> None:
    body = {"Boot": {"BootSourceOverrideTarget": "Pxe"}, name: 1}
    response = dpu.request("PATCH", SYSTEM, body)
    assert response.status in (200, 400)
    written = dpu.get(SYSTEM)["Boot"]["BootSourceOverrideTarget"] == "Pxe"
    assert written == (response.status == 200)
