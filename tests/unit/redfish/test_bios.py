"""Settings of a system's firmware."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bmcsim.machine import holes
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.profile import load
from tests.conftest import Client, header, make_client, message_ids
from tests.unit.redfish.conftest import SYSTEM

BIOS = SYSTEM + "/Bios"
SETTINGS = BIOS + "/Settings"
RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
CHANGE_PASSWORD = BIOS + "/Actions/Bios.ChangePassword"
RESET_BIOS = BIOS + "/Actions/Bios.ResetBios"
ON_RESET = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}


def attributes(client: Client, uri: str = BIOS) -> dict[str, Any]:
    """The attributes that a resource shows."""
    shown: dict[str, Any] = client.get(uri)["Attributes"]
    return shown


def stage(client: Client, **values: Any) -> None:
    """Stage attributes."""
    assert client.request("PATCH", SETTINGS, {"Attributes": values}).status == 204


def boot(client: Client) -> None:
    """Restart the system and wait until it runs."""
    assert client.request("POST", RESET, {"ResetType": "ForceRestart"}).status == 204
    client.advance(1000)


# what waits


def test_attributes_wait_for_the_next_boot_and_show_what_they_will_be(dpu: Client) -> None:
    before = dpu.get(BIOS)
    assert attributes(dpu, SETTINGS) == {}
    stage(dpu, HostPrivilegeLevel="Restricted")
    stage(dpu, InternalCPUModel="Embedded")
    waiting = {"HostPrivilegeLevel": "Restricted", "InternalCPUModel": "Embedded"}
    assert attributes(dpu, SETTINGS) == waiting
    assert dpu.get(BIOS) == before
    boot(dpu)
    assert attributes(dpu) == {**before["Attributes"], **waiting}
    assert attributes(dpu, SETTINGS) == {}


def test_the_entity_tag_of_the_settings_follows_what_waits(dpu: Client) -> None:
    empty = dpu.get(SETTINGS)["@odata.etag"]
    response = dpu.request("PATCH", SETTINGS, {"Attributes": {"HostPrivilegeLevel": "Restricted"}})
    changed = dpu.get(SETTINGS)["@odata.etag"]
    assert header(response, "ETag") == changed != empty
    assert dpu.request("DELETE", SETTINGS).status == 204
    assert dpu.get(SETTINGS)["@odata.etag"] == empty


def test_the_last_value_counts(dpu: Client) -> None:
    stage(dpu, HostPrivilegeLevel="Restricted")
    stage(dpu, HostPrivilegeLevel="Privileged")
    boot(dpu)
    assert attributes(dpu)["HostPrivilegeLevel"] == "Privileged"


def test_the_settings_say_when_they_were_last_applied(dpu: Client) -> None:
    facts = dpu.get(BIOS)["@Redfish.Settings"]
    assert facts["SettingsObject"] == {"@odata.id": SETTINGS}
    assert "Time" not in facts
    stage(dpu, HostPrivilegeLevel="Restricted")
    dpu.advance(60)
    boot(dpu)
    facts = dpu.get(BIOS)["@Redfish.Settings"]
    assert facts["Time"] == "2026-01-01T00:01:00+00:00"
    assert [one["MessageId"] for one in facts["Messages"]] == ["Base.1.22.Success"]
    boot(dpu)
    assert dpu.get(BIOS)["@Redfish.Settings"] == facts


def test_what_waits_survives_a_reset_of_the_bmc_and_a_power_off(dpu: Client) -> None:
    stage(dpu, HostPrivilegeLevel="Restricted")
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_bmc(dpu.clock.now()))
    dpu.request("POST", RESET, {"ResetType": "ForceOff"})
    dpu.advance(200)
    assert attributes(dpu, SETTINGS) == {"HostPrivilegeLevel": "Restricted"}
    dpu.request("POST", RESET, {"ResetType": "ForceOff"})
    dpu.request("POST", RESET, {"ResetType": "On"})
    dpu.advance(1000)
    assert attributes(dpu)["HostPrivilegeLevel"] == "Restricted"


def test_nothing_waits_after_a_delete_and_a_second_one_is_fine(dpu: Client) -> None:
    stage(dpu, HostPrivilegeLevel="Restricted")
    dpu.request("POST", RESET_BIOS)
    for _ in range(2):
        response = dpu.request("DELETE", SETTINGS)
        assert (response.status, response.body) == (204, b"")
    assert (attributes(dpu, SETTINGS), dpu.bmc.state.staged) == ({}, ())
    before = attributes(dpu)
    boot(dpu)
    assert attributes(dpu) == before


# when


@pytest.mark.parametrize("body", [{}, ON_RESET])
def test_firmware_without_jobs_applies_at_the_boot_whether_asked_or_not(dpu: Client, body: dict[str, Any]) -> None:
    response = dpu.request("PATCH", SETTINGS, {**body, "Attributes": {"HostPrivilegeLevel": "Restricted"}})
    assert (response.status, header(response, "Location")) == (204, None)
    boot(dpu)
    assert attributes(dpu)["HostPrivilegeLevel"] == "Restricted"


def test_settings_that_may_be_applied_at_once_are(dpu: Client) -> None:
    client = with_settings(apply_times=["OnReset", "Immediate"])
    now = {"@Redfish.SettingsApplyTime": {"ApplyTime": "Immediate"}}
    body = {**now, "Attributes": {"HostPrivilegeLevel": "Restricted"}}
    assert client.request("PATCH", SETTINGS, body).status == 204
    assert attributes(client)["HostPrivilegeLevel"] == "Restricted"
    assert attributes(client, SETTINGS) == {}
    assert "Time" in client.get(BIOS)["@Redfish.Settings"]


def with_settings(**facts: Any) -> Client:
    """A BlueField-3 whose BIOS settings are held back in another way."""
    profile = load("bluefield3")
    resource = profile.resources[SETTINGS]
    assert resource.settings is not None
    resource.settings = msgspec.structs.replace(resource.settings, **facts)
    client = make_client("bluefield3")
    client.bmc.tree = compile_tree(profile, holes.bind)
    return client


@pytest.mark.parametrize(
    ("apply_time", "key"),
    [
        ({"ApplyTime": "Immediate"}, "PropertyValueNotInList"),
        ({"ApplyTime": "AtMaintenanceWindowStart"}, "PropertyValueNotInList"),
        ({"ApplyTime": "x" * 999}, "PropertyValueNotInList"),
        ({"ApplyTime": 5}, "PropertyValueTypeError"),
        ({}, "PropertyMissing"),
        ("OnReset", "PropertyValueTypeError"),
        (None, "PropertyValueTypeError"),
    ],
)
def test_an_apply_time_that_is_not_offered_is_refused(dpu: Client, apply_time: Any, key: str) -> None:
    body = {"@Redfish.SettingsApplyTime": apply_time, "Attributes": {"HostPrivilegeLevel": "Restricted"}}
    response = dpu.request("PATCH", SETTINGS, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert attributes(dpu, SETTINGS) == {}


# what is refused


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ({"Attributes": {"Nope": 1}}, ["PropertyUnknown"]),
        ({"Attributes": {"ResetEfiVars": "true"}}, ["PropertyValueTypeError"]),
        ({"Attributes": {"ResetEfiVars": 1}}, ["PropertyValueTypeError"]),
        ({"Attributes": {"HostPrivilegeLevel": True}}, ["PropertyValueTypeError"]),
        ({"Attributes": {"HostPrivilegeLevel": None}}, ["PropertyValueTypeError"]),
        ({"Attributes": {"HostPrivilegeLevel": "restricted"}}, ["PropertyValueNotInList"]),
        ({"Attributes": {"UefiPassword": 5}}, ["PropertyValueTypeError"]),
        ({"Attributes": {"HostPrivilegeLevel": "Restricted", "A": 1, "B": 2}}, ["PropertyUnknown", "PropertyUnknown"]),
        ({"Attributes": []}, ["PropertyValueTypeError"]),
        ({"Nope": 1}, ["PropertyUnknown"]),
        ({}, ["EmptyJSON"]),
        (ON_RESET, ["NoOperation"]),
        (b"[]", ["MalformedJSON"]),
    ],
)
def test_all_of_a_patch_is_staged_or_nothing(dpu: Client, body: Any, keys: list[str]) -> None:
    response = dpu.request("PATCH", SETTINGS, body)
    assert (response.status, message_ids(response)) == (400, keys)
    assert dpu.bmc.state.staged == ()


def test_attributes_that_only_tell_are_not_written(host: Client) -> None:
    uri = "/redfish/v1/Systems/System.Embedded.1/Bios/Settings"
    for name in ("SystemServiceTag", "SetupPassword"):
        response = host.request("PATCH", uri, {"Attributes": {name: "x"}})
        assert (response.status, message_ids(response)) == (400, ["PropertyNotWritable"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    body=st.dictionaries(
        st.sampled_from(["NicMode", "ResetEfiVars", "UefiPassword", "CurrentUefiPassword", "HostPrivilegeLevel", "x"]),
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.just("bluefield"),
        min_size=1,
    )
)
def test_whatever_is_sent_it_is_staged_or_refused_and_no_password_shows(dpu: Client, body: dict[str, Any]) -> None:
    response = dpu.request("PATCH", SETTINGS, {"Attributes": body})
    assert response.status in (204, 400)
    shown = attributes(dpu, SETTINGS)
    assert not shown.keys() & {"UefiPassword", "CurrentUefiPassword"}
    assert {**attributes(dpu), "UefiPassword": "", "CurrentUefiPassword": ""} == attributes(dpu)


# passwords


Change = Callable[[Client, str, str], Any]


def by_action(client: Client, old: str, new: str) -> Any:
    """Change the UEFI password by the standard action."""
    body = {"PasswordName": "UefiPassword", "OldPassword": old, "NewPassword": new}
    return client.request("POST", CHANGE_PASSWORD, body)


def by_patch(client: Client, old: str, new: str) -> Any:
    """Change the UEFI password as libredfish does on a BlueField."""
    return client.request("PATCH", SETTINGS, {"Attributes": {"CurrentUefiPassword": old, "UefiPassword": new}})


@pytest.mark.parametrize(
    ("change", "key"), [(by_action, "ActionParameterValueError"), (by_patch, "PropertyValueError")]
)
def test_a_password_counts_from_the_next_boot_on(dpu: Client, change: Change, key: str) -> None:
    wrong = change(dpu, "wrong", "new")
    assert (wrong.status, message_ids(wrong)) == (400, [key])
    assert b"wrong" not in wrong.body
    assert change(dpu, "bluefield", "new").status == 204
    assert change(dpu, "new", "newer").status == 400
    assert change(dpu, "bluefield", "newer").status == 204
    boot(dpu)
    assert change(dpu, "bluefield", "x").status == 400
    assert change(dpu, "newer", "").status == 204
    boot(dpu)
    assert change(dpu, "", "again").status == 204


@pytest.mark.parametrize("change", [by_action, by_patch])
def test_a_password_shows_nowhere(dpu: Client, change: Change) -> None:
    assert change(dpu, "bluefield", "Secret-1").status == 204
    for _ in range(2):
        for uri in (BIOS, SETTINGS):
            assert b"Secret-1" not in dpu.request("GET", uri).body
        assert b"Secret-1" not in dpu.bmc.encode()
        assert attributes(dpu)["UefiPassword"] == ""
        assert attributes(dpu)["CurrentUefiPassword"] == ""
        boot(dpu)


def test_a_password_is_known_to_its_own_bmc_only(dpu: Client) -> None:
    other = make_client("bluefield3", index=1)
    assert by_patch(dpu, "bluefield", "new").status == 204
    boot(dpu)
    assert by_patch(other, "new", "x").status == 400
    assert by_patch(other, "bluefield", "x").status == 204


def test_a_new_password_needs_the_present_one_and_has_a_length(dpu: Client) -> None:
    assert dpu.request("PATCH", SETTINGS, {"Attributes": {"UefiPassword": "new"}}).status == 400
    assert message_ids(by_patch(dpu, "bluefield", "x" * 33)) == ["PropertyValueError"]
    assert message_ids(by_action(dpu, "bluefield", "x" * 33)) == ["ActionParameterValueError"]
    assert by_patch(dpu, "bluefield", "x" * 32).status == 204


def test_the_present_password_alone_asks_for_nothing(dpu: Client) -> None:
    assert dpu.request("PATCH", SETTINGS, {"Attributes": {"CurrentUefiPassword": "x"}}).status == 204
    assert attributes(dpu, SETTINGS) == {}


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({}, "ActionParameterMissing"),
        ({"PasswordName": "UefiPassword", "OldPassword": "bluefield"}, "ActionParameterMissing"),
        ({"PasswordName": "Nope", "OldPassword": "", "NewPassword": ""}, "ActionParameterValueNotInList"),
        ({"PasswordName": 5, "OldPassword": "", "NewPassword": ""}, "ActionParameterValueTypeError"),
        ({"PasswordName": "UefiPassword", "OldPassword": 1, "NewPassword": ""}, "ActionParameterValueTypeError"),
    ],
)
def test_a_change_of_password_that_says_too_little(dpu: Client, body: dict[str, Any], key: str) -> None:
    response = dpu.request("POST", CHANGE_PASSWORD, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert dpu.bmc.state.staged == ()


# reset


@pytest.mark.parametrize("body", [None, {}, b""])
def test_a_reset_counts_from_the_next_boot_on_whatever_waited(dpu: Client, body: Any) -> None:
    factory = attributes(dpu)
    stage(dpu, HostPrivilegeLevel="Restricted")
    boot(dpu)
    stage(dpu, HostPrivilegeLevel="Privileged")
    assert dpu.get(BIOS)["ResetBiosToDefaultsPending"] is False
    assert dpu.request("POST", RESET_BIOS, body).status == 204
    assert dpu.get(BIOS)["ResetBiosToDefaultsPending"] is True
    assert attributes(dpu)["HostPrivilegeLevel"] == "Restricted"
    assert attributes(dpu, SETTINGS) == {}
    boot(dpu)
    assert (attributes(dpu), dpu.get(BIOS)["ResetBiosToDefaultsPending"]) == (factory, False)
    assert "Time" in dpu.get(BIOS)["@Redfish.Settings"]


def test_what_is_staged_after_a_reset_is_applied_after_it(dpu: Client) -> None:
    stage(dpu, HostPrivilegeLevel="Restricted")
    boot(dpu)
    dpu.request("POST", RESET_BIOS)
    stage(dpu, InternalCPUModel="Embedded")
    boot(dpu)
    shown = attributes(dpu)
    assert (shown["HostPrivilegeLevel"], shown["InternalCPUModel"]) == ("Unavailable", "Embedded")


def test_a_reset_leaves_passwords_alone(dpu: Client) -> None:
    by_patch(dpu, "bluefield", "new")
    boot(dpu)
    dpu.request("POST", RESET_BIOS)
    boot(dpu)
    assert by_patch(dpu, "bluefield", "x").status == 400


# secure boot


def test_secure_boot_counts_from_the_next_boot_on(dpu: Client) -> None:
    uri = SYSTEM + "/SecureBoot"

    def shown() -> tuple[bool, str]:
        body = dpu.get(uri)
        return body["SecureBootEnable"], body["SecureBootCurrentBoot"]

    assert dpu.request("PATCH", uri, {"SecureBootEnable": True}).status == 204
    assert shown() == (True, "Disabled")
    boot(dpu)
    assert shown() == (True, "Enabled")
    assert dpu.request("PATCH", uri, {"SecureBootEnable": False}).status == 204
    assert shown() == (False, "Enabled")
    boot(dpu)
    assert shown() == (False, "Disabled")
    assert dpu.request("PATCH", uri, {"SecureBootEnable": "true"}).status == 400
    assert dpu.request("PATCH", uri, {"SecureBootCurrentBoot": "Enabled"}).status == 400


def test_without_a_platform_key_there_is_no_secure_boot(host: Client) -> None:
    uri = "/redfish/v1/Systems/System.Embedded.1/SecureBoot"
    target = host.get(uri)["Actions"]["#SecureBoot.ResetKeys"]["target"]
    host.request("PATCH", uri, {"SecureBootEnable": True})
    for keys, mode, enabled in (
        ("ResetDB", "DeployedMode", True),
        ("DeletePK", "SetupMode", False),
        ("ResetAllKeysToDefault", "DeployedMode", False),
        ("DeleteAllKeys", "SetupMode", False),
        ("ResetPK", "DeployedMode", False),
    ):
        assert host.request("POST", target, {"ResetKeysType": keys}).status == 204
        shown = host.get(uri)
        assert (shown["SecureBootMode"], shown["SecureBootEnable"]) == (mode, enabled)
    for body in ({}, {"ResetKeysType": "DeleteEverything"}):
        assert host.request("POST", target, body).status == 400
