"""Boot order and boot override as clients write them."""

from typing import Any

import pytest

from tests.conftest import Client, header, message_ids
from tests.unit.redfish.conftest import SYSTEM

SETTINGS = SYSTEM + "/Settings"
R750 = "/redfish/v1/Systems/System.Embedded.1"
ONCE = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "UefiHttp", "BootSourceOverrideMode": "UEFI"}


def boot_of(client: Client, uri: str = SYSTEM) -> dict[str, Any]:
    """The Boot object of a resource."""
    shown: dict[str, Any] = client.get(uri)["Boot"]
    return shown


def restart(client: Client, system: str = SYSTEM) -> None:
    """Restart a system and wait until it runs."""
    target = f"{system}/Actions/ComputerSystem.Reset"
    assert client.request("POST", target, {"ResetType": "ForceRestart"}).status == 204
    client.advance(1000)


# override


@pytest.mark.parametrize("written", [SYSTEM, SETTINGS, SETTINGS + "/"])
def test_an_override_shows_at_the_system_and_at_its_settings(dpu: Client, written: str) -> None:
    assert dpu.request("PATCH", written, {"Boot": ONCE}).status == 204
    for uri in (SYSTEM, SETTINGS):
        assert ONCE.items() <= boot_of(dpu, uri).items()
    restart(dpu)
    for uri in (SYSTEM, SETTINGS):
        assert boot_of(dpu, uri)["BootSourceOverrideEnabled"] == "Disabled"
        assert boot_of(dpu, uri)["BootSourceOverrideTarget"] == "None"


@pytest.mark.parametrize("enabled", ["Continuous", "Disabled"])
def test_only_an_override_for_once_is_over_after_a_boot(dpu: Client, enabled: str) -> None:
    boot = {**ONCE, "BootSourceOverrideEnabled": enabled}
    dpu.request("PATCH", SYSTEM, {"Boot": boot})
    restart(dpu)
    assert boot.items() <= boot_of(dpu).items()


@pytest.mark.parametrize("written", [SYSTEM, SETTINGS])
def test_the_next_boot_is_named_for_one_boot(dpu: Client, written: str) -> None:
    assert dpu.request("PATCH", written, {"Boot": {"BootNext": "Boot0000"}}).status == 204
    assert boot_of(dpu)["BootNext"] == boot_of(dpu, SETTINGS)["BootNext"] == "Boot0000"
    restart(dpu)
    assert boot_of(dpu)["BootNext"] == boot_of(dpu, SETTINGS)["BootNext"] == ""
    assert dpu.request("PATCH", written, {"Boot": {"BootNext": "Boot0001"}}).status == 400


@pytest.mark.parametrize("uri", ["http://192.0.2.1/boot.efi", "https://[2001:db8::1]:8443/x", "", None])
def test_a_uri_to_boot_from_stays(dpu: Client, uri: str | None) -> None:
    assert dpu.request("PATCH", SETTINGS, {"Boot": {**ONCE, "HttpBootUri": uri}}).status == 204
    restart(dpu)
    assert boot_of(dpu)["HttpBootUri"] == uri


@pytest.mark.parametrize("uri", ["tftp://192.0.2.1/x", "boot.efi", "http://", 5])
def test_a_uri_to_boot_from_is_http(dpu: Client, uri: Any) -> None:
    response = dpu.request("PATCH", SETTINGS, {"Boot": {"HttpBootUri": uri}})
    assert response.status == 400
    assert boot_of(dpu)["HttpBootUri"] == ""


# order


def test_a_bluefield_takes_its_order_at_the_settings_and_at_once(dpu: Client) -> None:
    refused = dpu.request("PATCH", SYSTEM, {"Boot": {"BootOrder": ["Boot0000", "Boot0040"]}})
    assert (refused.status, message_ids(refused)) == (400, ["PropertyNotWritable"])
    response = dpu.request("PATCH", SETTINGS, {"Boot": {"BootOrder": ["Boot0000", "Boot0040"], **ONCE}})
    assert (response.status, header(response, "Location")) == (204, None)
    for uri in (SYSTEM, SETTINGS):
        assert boot_of(dpu, uri)["BootOrder"] == ["Boot0000", "Boot0040"]
        assert ONCE.items() <= boot_of(dpu, uri).items()


@pytest.mark.parametrize(
    ("wanted", "order"),
    [
        (["Boot0000"], ["Boot0000", "Boot0040"]),
        (["Boot0040"], ["Boot0040", "Boot0000"]),
        ([], ["Boot0040", "Boot0000"]),
        (["Boot0000", None], ["Boot0000", "Boot0040"]),
        ([{}, {}], ["Boot0040", "Boot0000"]),
    ],
)
def test_an_order_of_some_options_puts_them_first(dpu: Client, wanted: list[Any], order: list[str]) -> None:
    assert dpu.request("PATCH", SETTINGS, {"Boot": {"BootOrder": wanted}}).status == 204
    assert boot_of(dpu)["BootOrder"] == order


@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        (["Boot0000", "Boot0000"], "PropertyValueError"),
        (["Boot0001"], "PropertyValueNotInList"),
        ("Boot0000", "PropertyValueTypeError"),
        ([1], "PropertyValueTypeError"),
        (None, "PropertyValueTypeError"),
    ],
)
@pytest.mark.parametrize("profile", ["dpu", "host"])
def test_an_order_that_is_none(profile: str, wanted: Any, key: str, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(profile)
    uri = SETTINGS if profile == "dpu" else R750
    if wanted == ["Boot0001"]:
        wanted = ["Boot9999"]
    before = boot_of(client, uri)
    response = client.request("PATCH", uri, {"Boot": {"BootOrder": wanted}})
    assert (response.status, message_ids(response)) == (400, [key])
    assert boot_of(client, uri) == before


def test_an_option_is_switched_off_and_on(dpu: Client) -> None:
    uri = SYSTEM + "/BootOptions/Boot0040"
    for enabled in (False, True):
        assert dpu.request("PATCH", uri, {"BootOptionEnabled": enabled}).status == 204
        assert dpu.get(uri)["BootOptionEnabled"] is enabled
    assert dpu.request("PATCH", uri, {"DisplayName": "x"}).status == 400
