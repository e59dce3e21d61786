"""The clock of a manager as clients set it."""

from typing import Any

import pytest

from tests.conftest import Client, header, make_client, message_ids
from tests.unit.redfish.conftest import MANAGER, PROTOCOL

IDRAC = "/redfish/v1/Managers/iDRAC.Embedded.1"
ATTRIBUTES = IDRAC + "/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
EVENT_LOG = "/redfish/v1/Systems/Bluefield/LogServices/EventLog"


def shown(client: Client, uri: str = MANAGER) -> tuple[str, str]:
    """(DateTime, DateTimeLocalOffset) of a manager or log."""
    body = client.get(uri)
    return body["DateTime"], body["DateTimeLocalOffset"]


@pytest.mark.parametrize(
    "text",
    [
        "2030-06-01T12:00:00+00:00",
        "2030-06-01T12:00:00Z",
        "2030-06-01T14:30:00+02:30",
        "2030-06-01T12:00:00.25Z",
    ],
)
def test_a_clock_that_was_set_goes_on_and_dates_the_log(dpu: Client, text: str) -> None:
    response = dpu.request("PATCH", MANAGER, {"DateTime": text})
    assert (response.status, header(response, "ETag")) == (204, dpu.get(MANAGER)["@odata.etag"])
    assert shown(dpu) == ("2030-06-01T12:00:00+00:00", "+00:00")
    dpu.advance(3600)
    dpu.request("POST", "/redfish/v1/Systems/Bluefield/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})
    assert shown(dpu)[0] == "2030-06-01T13:00:00+00:00"
    assert dpu.get(EVENT_LOG)["DateTime"] == "2030-06-01T13:00:00+00:00"
    assert dpu.get(EVENT_LOG + "/Entries")["Members"][-1]["Created"] == "2030-06-01T13:00:00+00:00"


def test_a_clock_that_was_set_survives_a_reset_of_the_bmc(dpu: Client) -> None:
    dpu.request("PATCH", MANAGER, {"DateTime": "2030-06-01T12:00:00Z"})
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_bmc(dpu.clock.now()))
    dpu.advance(3600)
    assert shown(dpu)[0] == "2030-06-01T13:00:00+00:00"


def test_local_time_is_the_same_instant_with_another_offset(dpu: Client) -> None:
    assert dpu.request("PATCH", MANAGER, {"DateTimeLocalOffset": "-05:30"}).status == 204
    assert shown(dpu) == ("2025-12-31T18:30:00-05:30", "-05:30")
    assert shown(dpu, EVENT_LOG) == shown(dpu)
    both = {"DateTime": "2030-06-01T12:00:00+00:00", "DateTimeLocalOffset": "+01:00"}
    assert dpu.request("PATCH", MANAGER, both).status == 204
    assert shown(dpu) == ("2030-06-01T13:00:00+01:00", "+01:00")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"DateTime": "yesterday"}, "PropertyValueFormatError"),
        ({"DateTime": ""}, "PropertyValueFormatError"),
        ({"DateTime": "2030-06-01T12:00:00"}, "PropertyValueFormatError"),
        ({"DateTime": "2030-06-01"}, "PropertyValueFormatError"),
        ({"DateTime": "2030-13-01T12:00:00Z"}, "PropertyValueFormatError"),
        ({"DateTime": "2030-02-30T12:00:00Z"}, "PropertyValueFormatError"),
        ({"DateTime": "0000-01-01T00:00:00Z"}, "PropertyValueFormatError"),
        ({"DateTime": "2030-06-01T25:00:00Z"}, "PropertyValueFormatError"),
        ({"DateTime": "2030-06-01T12:00:00+99:00"}, "PropertyValueFormatError"),
        ({"DateTime": 5}, "PropertyValueTypeError"),
        ({"DateTime": None}, "PropertyValueTypeError"),
        ({"DateTimeLocalOffset": "UTC"}, "PropertyValueFormatError"),
        ({"DateTimeLocalOffset": "+15:00"}, "PropertyValueFormatError"),
        ({"DateTimeLocalOffset": 0}, "PropertyValueTypeError"),
        ({"DateTime": "2030-06-01T12:00:00Z", "DateTimeLocalOffset": "x"}, "PropertyValueFormatError"),
        ({"TimeZoneName": "UTC"}, "PropertyUnknown"),
        ({"FirmwareVersion": "x"}, "PropertyNotWritable"),
    ],
)
def test_a_time_that_is_none_sets_nothing(dpu: Client, body: dict[str, Any], key: str) -> None:
    before = shown(dpu)
    response = dpu.request("PATCH", MANAGER, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert shown(dpu) == before


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("0001-01-01T00:00:00Z", 400),
        ("1970-01-01T00:00:00Z", 400),
        ("1970-01-02T00:00:00Z", 204),
        ("2106-02-06T00:00:00Z", 204),
        ("2106-02-07T00:00:00Z", 400),
        ("9999-12-31T23:59:59Z", 400),
    ],
)
@pytest.mark.parametrize("offset", ["-14:00", "+14:00"])
def test_a_clock_counts_as_far_as_hardware_does(dpu: Client, text: str, status: int, offset: str) -> None:
    response = dpu.request("PATCH", MANAGER, {"DateTime": text})
    assert response.status == status
    assert status == 204 or message_ids(response) == ["PropertyValueOutOfRange"]
    assert dpu.request("PATCH", MANAGER, {"DateTimeLocalOffset": offset}).status == 204
    dpu.advance(10)
    assert dpu.request("GET", MANAGER).status == 200


def test_a_time_server_leaves_no_room_for_another_time(dpu: Client) -> None:
    dpu.request("PATCH", MANAGER, {"DateTime": "2030-06-01T12:00:00Z"})
    assert dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": ["192.0.2.1"]}}).status == 204
    assert shown(dpu)[0] == "2026-01-01T00:00:00+00:00"
    refused = dpu.request("PATCH", MANAGER, {"DateTime": "2030-06-01T12:00:00Z"})
    assert (refused.status, message_ids(refused)) == (400, ["PropertyValueConflict"])
    assert dpu.request("PATCH", MANAGER, {"DateTimeLocalOffset": "+01:00"}).status == 204


def test_a_clock_stays_right_when_its_time_server_is_gone(dpu: Client) -> None:
    dpu.request("PATCH", MANAGER, {"DateTime": "2030-06-01T12:00:00Z"})
    dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": ["192.0.2.1"]}})
    dpu.request("PATCH", PROTOCOL, {"NTP": {"ProtocolEnabled": False}})
    assert shown(dpu)[0] == "2026-01-01T00:00:00+00:00"


def test_the_zone_of_an_idrac_is_an_attribute_too(host: Client) -> None:
    assert host.request("PATCH", IDRAC, {"TimeZoneName": "CST6CDT"}).status == 204
    assert shown(host, IDRAC) == ("2025-12-31T18:00:00-06:00", "-06:00")
    for uri in (ATTRIBUTES, IDRAC + "/Attributes"):
        assert host.get(uri)["Attributes"]["Time.1.Timezone"] == "CST6CDT"
    assert host.request("PATCH", ATTRIBUTES, {"Attributes": {"Time.1.Timezone": "UTC"}}).status == 204
    assert host.get(IDRAC)["TimeZoneName"] == "UTC"
    assert shown(host, IDRAC)[1] == "+00:00"
    host.request("PATCH", IDRAC, {"TimeZoneName": "Europe/Berlin"})
    assert (host.get(IDRAC)["TimeZoneName"], shown(host, IDRAC)[1]) == ("Europe/Berlin", "+00:00")
    assert host.request("PATCH", IDRAC, {"TimeZoneName": "a b"}).status == 400


def test_the_time_servers_of_an_idrac_are_attributes_too(host: Client) -> None:
    protocol = IDRAC + "/NetworkProtocol"
    given = {"NTPConfigGroup.1.NTPEnable": "Enabled", "NTPConfigGroup.1.NTP1": "192.0.2.1"}
    assert host.request("PATCH", IDRAC + "/Attributes", {"Attributes": given}).status == 204
    assert host.get(protocol)["NTP"] == {"ProtocolEnabled": True, "NTPServers": ["192.0.2.1"]}
    assert host.bmc.follows_time_server
    ntp = {"NTPServers": ["192.0.2.2", "192.0.2.3"], "ProtocolEnabled": False}
    assert host.request("PATCH", protocol, {"NTP": ntp}).status == 204
    table = host.get(ATTRIBUTES)["Attributes"]
    assert [table[f"NTPConfigGroup.1.NTP{n}"] for n in (1, 2, 3)] == ["192.0.2.2", "192.0.2.3", ""]
    assert table["NTPConfigGroup.1.NTPEnable"] == "Disabled"


def test_a_clock_is_set_for_one_bmc_only() -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1)
    one.request("PATCH", MANAGER, {"DateTime": "2030-06-01T12:00:00Z", "DateTimeLocalOffset": "+01:00"})
    assert shown(other) == ("2026-01-01T00:00:00+00:00", "+00:00")
