"""Public bug reports about boot and BIOS (kind K13), and N31: the right behaviour, named after the report's row."""

from typing import Any

import pytest

from tests.conftest import Client, header, make_client, message_ids, profiles_where

R750 = "/redfish/v1/Systems/System.Embedded.1"
IDRAC = "/redfish/v1/Managers/iDRAC.Embedded.1"
BLUEFIELD = "/redfish/v1/Systems/Bluefield"
MEDIA = R750 + "/VirtualMedia/1"
ON_RESET = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}

every_profile_that_boots = pytest.mark.parametrize(
    "profile",
    profiles_where(lambda tree: tree.head.roles.system and "Boot" in tree.nodes[tree.head.roles.system].template),
)


def system_of(client: Client) -> str:
    """The URI of a client's system."""
    return client.bmc.tree.head.roles.system


def reset(client: Client, type_: str = "ForceRestart") -> None:
    """Reset the system and wait until it runs."""
    target = f"{system_of(client)}/Actions/ComputerSystem.Reset"
    assert client.request("POST", target, {"ResetType": type_}).status == 204
    client.advance(1000)


def boot(client: Client) -> dict[str, Any]:
    """The Boot object of the system."""
    shown: dict[str, Any] = client.get(system_of(client))["Boot"]
    return shown


@every_profile_that_boots
def test_e37_once_is_once_until_the_boot_and_disabled_after_it(profile: str) -> None:
    """PATCH Once and Pxe: GET shows Once; after one boot it shows Disabled."""
    client = make_client(profile)
    once = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}
    assert client.request("PATCH", system_of(client), {"Boot": once}).status == 204
    assert once.items() <= boot(client).items()
    client.advance(3600)
    assert once.items() <= boot(client).items()
    reset(client)
    assert boot(client)["BootSourceOverrideEnabled"] == "Disabled"
    reset(client)
    assert boot(client)["BootSourceOverrideEnabled"] == "Disabled"


def test_e39_settings_are_pending_until_the_host_is_reset_and_can_be_taken_back() -> None:
    """PATCH Bios/Settings changes nothing before a reset; DELETE takes back what waits."""
    client = make_client("bluefield3")
    bios, settings = f"{BLUEFIELD}/Bios", f"{BLUEFIELD}/Bios/Settings"
    wanted = {"HostPrivilegeLevel": "Restricted"}
    before = client.get(bios)
    assert before["@Redfish.Settings"]["SettingsObject"]["@odata.id"] == settings
    assert before["@Redfish.Settings"]["SupportedApplyTimes"] == ["OnReset"]
    assert client.request("PATCH", settings, {"Attributes": wanted}).status == 204
    assert client.get(bios) == before
    assert client.request("DELETE", settings).status == 204
    reset(client)
    assert client.get(bios) == before
    assert client.request("PATCH", settings, {"Attributes": wanted}).status == 204
    reset(client)
    assert wanted.items() <= client.get(bios)["Attributes"].items()
    assert client.get(settings)["Attributes"] == {}


@every_profile_that_boots
@pytest.mark.parametrize("slash", ["", "/"])
def test_e40_an_override_is_switched_off_at_the_uri_with_a_slash(profile: str, slash: str) -> None:
    """PATCH of Boot at /Systems/<id>/ is 2xx."""
    client = make_client(profile)
    body = {"Boot": {"BootSourceOverrideEnabled": "Disabled"}}
    assert client.request("PATCH", system_of(client) + slash, body).status == 204


@every_profile_that_boots
def test_c42_all_three_fields_of_an_override_stick(profile: str) -> None:
    """What was answered with 2xx is what GET shows: mode, target and enabled."""
    client = make_client(profile)
    for enabled in ("Once", "Continuous"):
        override = {
            "BootSourceOverrideEnabled": enabled,
            "BootSourceOverrideTarget": "UefiHttp",
            "BootSourceOverrideMode": "UEFI",
        }
        assert client.request("PATCH", system_of(client), {"Boot": override}).status == 204
        assert override.items() <= boot(client).items()
    refused = client.request("PATCH", system_of(client), {"Boot": {**override, "BootSourceOverrideTarget": "Floppyy"}})
    assert refused.status == 400
    assert override.items() <= boot(client).items()


@pytest.mark.parametrize("way_out", ["reboot", "clear", "delete"])
def test_c44_a_second_config_job_is_refused_until_the_first_is_out_of_the_way(way_out: str) -> None:
    """Dell: values that wait for a job are not changed; the queue shows why; a reboot or an empty queue helps."""
    client = make_client("dell_poweredge_r750")
    settings = f"{R750}/Bios/Settings"
    assert client.request("PATCH", settings, {"Attributes": {"SriovGlobalEnable": "Disabled"}}).status == 204
    made = client.request("POST", f"{IDRAC}/Jobs", {"TargetSettingsURI": settings})
    job = (header(made, "Location") or "").rpartition("/")[2]
    for refused in (
        client.request("POST", f"{IDRAC}/Jobs", {"TargetSettingsURI": settings}),
        client.request("PATCH", settings, {"Attributes": {"SriovGlobalEnable": "Enabled"}}),
        client.request("PATCH", settings, {**ON_RESET, "Attributes": {"SriovGlobalEnable": "Enabled"}}),
    ):
        assert (refused.status, message_ids(refused)) == (400, ["SYS011"])
        assert b"Pending configuration values are already committed" in refused.body
    (member,) = client.get(f"{IDRAC}/Jobs?$expand=.($levels=1)")["Members"]
    assert (member["Id"], member["JobState"], member["JobType"]) == (job, "Scheduled", "BIOSConfiguration")
    if way_out == "reboot":
        reset(client)
    elif way_out == "clear":
        queue = f"{IDRAC}/Oem/Dell/DellJobService/Actions/DellJobService.DeleteJobQueue"
        assert client.request("POST", queue, {"JobID": "JID_CLEARALL"}).status == 204
    else:
        assert client.request("DELETE", f"{IDRAC}/Oem/Dell/Jobs/{job}").status == 204
    again = client.request("PATCH", settings, {**ON_RESET, "Attributes": {"SriovGlobalEnable": "Enabled"}})
    assert (again.status, header(again, "Location") is not None) == (200, True)


def test_c45_what_is_not_advertised_is_not_written() -> None:
    """An iDRAC without HttpBootUri refuses one; a BlueField has it, and takes its boot order at the settings only."""
    dell, dpu = make_client("dell_poweredge_r750"), make_client("bluefield3")
    for uri in (R750, f"{R750}/Settings"):
        assert "HttpBootUri" not in dell.get(uri)["Boot"]
        refused = dell.request("PATCH", uri, {"Boot": {"HttpBootUri": "http://192.0.2.1/x"}})
        assert (refused.status, message_ids(refused)) == (400, ["PropertyUnknown"])
    settings = dpu.get(BLUEFIELD)["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    order = {"Boot": {"BootOrder": ["Boot0000", "Boot0040"]}}
    assert message_ids(dpu.request("PATCH", BLUEFIELD, order)) == ["PropertyNotWritable"]
    assert dpu.request("PATCH", settings, order).status == 204
    assert dpu.request("PATCH", settings, {"Boot": {"HttpBootUri": "http://192.0.2.1/x"}}).status == 204
    assert boot(dpu)["BootOrder"] == ["Boot0000", "Boot0040"]
    assert dpu.request("PATCH", settings, {"Boot": {"AliasBootOrder": []}}).status == 400


@pytest.mark.parametrize("power", ["On", "Off"])
def test_e42_inserting_an_image_touches_neither_power_nor_boot(power: str) -> None:
    """InsertMedia changes the image and nothing of the system, whether that is on or off."""
    client = make_client("dell_poweredge_r750")
    if power == "Off":
        reset(client, "ForceOff")
    before = client.get(R750)
    body = {"Image": "http://192.0.2.1/a.iso"}
    assert client.request("POST", f"{MEDIA}/Actions/VirtualMedia.InsertMedia", body).status == 204
    client.advance(1000)
    assert client.get(R750) == before
    assert client.get(MEDIA)["Inserted"] is True
    assert client.request("POST", f"{MEDIA}/Actions/VirtualMedia.EjectMedia").status == 204
    assert client.get(R750) == before


@pytest.mark.parametrize("occupied", [False, True])
def test_n75_media_that_cannot_be_had_is_an_error_and_leaves_what_was_there(occupied: bool) -> None:
    """A target that is unreachable or occupied reaches the answer, and the device shows its former image."""
    client = make_client("dell_poweredge_r750")
    target = f"{MEDIA}/Actions/VirtualMedia.InsertMedia"
    if occupied:
        client.request("POST", target, {"Image": "http://192.0.2.1/former.iso"})
    before = client.get(MEDIA)
    for image in ("http://unreachable.invalid/a.iso", "nfs://unreachable.invalid/share/a.iso"):
        response = client.request("POST", target, {"Image": image})
        assert response.status in ((409,) if occupied else (400,))
        assert client.get(MEDIA) == before


def test_n31_a_bluefield_changes_its_mode_with_the_power_cycle_of_its_host() -> None:
    """Mode.Set is taken; the mode counts after the power cycle that applies it, and not before."""
    client = make_client("bluefield3")
    oem = f"{BLUEFIELD}/Oem/Nvidia"
    assert client.request("POST", f"{oem}/Actions/Mode.Set", {"Mode": "NicMode"}).status == 204
    assert client.get(oem)["Mode"] == "DpuMode"
    reset(client, "ForceRestart")
    assert client.get(oem)["Mode"] == "DpuMode"
    reset(client, "PowerCycle")
    assert client.get(oem)["Mode"] == "NicMode"
    assert client.request("POST", f"{oem}/Actions/Mode.Set", {"Mode": "Router"}).status == 400
