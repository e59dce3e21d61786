"""What Dell adds: jobs, attributes and lockdown, system configurations, and NICo's way through them."""

import time
from typing import Any

import orjson
import pytest

from bmcsim.machine.jobs import LIMIT
from bmcsim.machine.power import Power
from bmcsim.machine.state import decode
from bmcsim.redfish.exchange import Response
from tests.conftest import Client, header, make_client, message_ids

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
MANAGER = "/redfish/v1/Managers/iDRAC.Embedded.1"
CHASSIS = "/redfish/v1/Chassis/System.Embedded.1"
BIOS = SYSTEM + "/Bios"
SETTINGS = BIOS + "/Settings"
ATTRIBUTES = MANAGER + "/Oem/Dell/DellAttributes/iDRAC.Embedded.1"
JOBS = MANAGER + "/Jobs"
OEM_JOBS = MANAGER + "/Oem/Dell/Jobs"
STANDARD_JOBS = "/redfish/v1/JobService/Jobs"
DELETE_QUEUE = MANAGER + "/Oem/Dell/DellJobService/Actions/DellJobService.DeleteJobQueue"
IMPORT = MANAGER + "/Actions/Oem/EID_674_Manager.ImportSystemConfiguration"
EXPORT = MANAGER + "/Actions/Oem/EID_674_Manager.ExportSystemConfiguration"
RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
ON_RESET = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}


def job_of(response: Response) -> str:
    """The id of the job that a response names, as libredfish takes it."""
    location = header(response, "Location")
    assert location is not None, (response.status, response.body)
    assert response.status in (200, 202)
    return location.rpartition("/")[2]


def stage(client: Client, *, now: bool = True, **values: Any) -> Response:
    """PATCH of the BIOS settings. now: with the apply time that makes a job."""
    return client.request("PATCH", SETTINGS, {**(ON_RESET if now else {}), "Attributes": values})


def state(client: Client, job: str) -> str:
    """JobState of a job, read where libredfish reads it."""
    return str(client.get(f"{OEM_JOBS}/{job}")["JobState"])


def restart(client: Client, reset: str = "ForceRestart") -> None:
    """Restart the system and wait until it runs."""
    assert client.request("POST", RESET, {"ResetType": reset}).status == 204
    client.advance(1000)


def bios(client: Client) -> dict[str, Any]:
    """The attributes that the BIOS runs with."""
    shown: dict[str, Any] = client.get(BIOS)["Attributes"]
    return shown


def idrac(client: Client, **values: Any) -> Response:
    """PATCH of the iDRAC's attributes; double underscores stand for dots."""
    attributes = {name.replace("__", "."): value for name, value in values.items()}
    return client.request("PATCH", ATTRIBUTES, {"Attributes": attributes})


# jobs


def test_a_job_goes_from_scheduled_over_running_to_completed(host: Client) -> None:
    response = stage(host, SriovGlobalEnable="Disabled")
    job = job_of(response)
    assert (response.status, response.body) == (200, b"{}")
    assert header(response, "Location") == f"{JOBS}/{job}"
    assert (state(host, job), bios(host)["SriovGlobalEnable"]) == ("Scheduled", "Enabled")
    host.advance(60)
    host.request("POST", RESET, {"ResetType": "ForceRestart"})
    assert state(host, job) == "Running"
    host.advance(1000)
    shown = host.get(f"{JOBS}/{job}")
    assert (shown["JobState"], shown["PercentComplete"], shown["MessageId"]) == ("Completed", 100, "PR19")
    assert (shown["StartTime"], shown["ActualRunningStartTime"]) == ("2026-01-01T00:00:00", "2026-01-01T00:01:00")
    assert shown["CompletionTime"] == shown["ActualRunningStopTime"] == "2026-01-01T00:07:28"
    assert (shown["JobType"], shown["Name"]) == ("BIOSConfiguration", "Configure: BIOS.Setup.1-1")
    assert bios(host)["SriovGlobalEnable"] == "Disabled"


def test_one_queue_shows_at_three_places(host: Client) -> None:
    job = job_of(stage(host, SriovGlobalEnable="Disabled"))
    for uri in (JOBS, OEM_JOBS, STANDARD_JOBS):
        queue = host.get(uri)
        assert queue["Members"] == [{"@odata.id": f"{uri}/{job}"}]
        assert queue["Members@odata.count"] == 1
        assert host.get(f"{uri}/{job}")["Id"] == job
        assert host.get(f"{uri}/{job}")["@odata.id"] == f"{uri}/{job}"
        assert host.get(f"{uri}?$expand=.($levels=1)")["Members"][0]["PercentComplete"] == 0
    assert host.get(f"{STANDARD_JOBS}/{job}")["JobState"] == "Starting"
    assert host.get(MANAGER + "/Oem/Dell/DellJobService")["CurrentNumberOfJobs"] == 1
    restart(host)
    assert host.get(f"{STANDARD_JOBS}/{job}")["JobState"] == "Completed"


def test_the_times_of_a_job_are_local(host: Client) -> None:
    host.request("PATCH", MANAGER, {"TimeZoneName": "CST6CDT"})
    job = job_of(stage(host, SriovGlobalEnable="Disabled"))
    assert host.get(f"{JOBS}/{job}")["StartTime"] == "2025-12-31T18:00:00"
    restart(host)
    assert host.get(f"{STANDARD_JOBS}/{job}")["EndTime"] == "2025-12-31T18:06:28-06:00"


@pytest.mark.parametrize("place", [JOBS, OEM_JOBS])
def test_without_an_apply_time_values_wait_for_a_job_to_be_made(host: Client, place: str) -> None:
    response = stage(host, now=False, SriovGlobalEnable="Disabled")
    assert (response.status, header(response, "Location")) == (204, None)
    restart(host)
    assert bios(host)["SriovGlobalEnable"] == "Enabled"
    assert host.get(SETTINGS)["Attributes"] == {"SriovGlobalEnable": "Disabled"}
    job = job_of(host.request("POST", place, {"TargetSettingsURI": SETTINGS}))
    assert host.get(f"{JOBS}/{job}")["TargetSettingsURI"] == SETTINGS
    restart(host)
    assert (bios(host)["SriovGlobalEnable"], state(host, job)) == ("Disabled", "Completed")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({}, "PropertyMissing"),
        ({"TargetSettingsURI": 5}, "PropertyValueError"),
        ({"TargetSettingsURI": "/redfish/v1/Nope"}, "PropertyValueError"),
        ({"TargetSettingsURI": BIOS}, "PropertyValueError"),
        ({"TargetSettingsURI": SETTINGS}, "SYS023"),
        ({"TargetSettingsURI": SYSTEM + "/Settings"}, "SYS023"),
    ],
)
def test_a_job_for_nothing_is_not_made(host: Client, body: dict[str, Any], key: str) -> None:
    response = host.request("POST", JOBS, body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert host.bmc.state.jobs == ()


@pytest.mark.parametrize("place", [JOBS, OEM_JOBS, STANDARD_JOBS])
def test_a_deleted_job_takes_along_what_it_would_have_done(host: Client, place: str) -> None:
    job = job_of(stage(host, SriovGlobalEnable="Disabled"))
    assert host.request("DELETE", f"{place}/{job}").status == 204
    assert host.request("GET", f"{place}/{job}").status == 404
    assert host.get(SETTINGS)["Attributes"] == {}
    restart(host)
    assert bios(host)["SriovGlobalEnable"] == "Enabled"


def test_a_running_job_is_not_deleted_but_by_force(host: Client) -> None:
    job = job_of(stage(host, SriovGlobalEnable="Disabled"))
    host.request("POST", RESET, {"ResetType": "ForceRestart"})
    for refused in (
        host.request("DELETE", f"{JOBS}/{job}"),
        host.request("POST", DELETE_QUEUE, {"JobID": job}),
    ):
        assert (refused.status, message_ids(refused)) == (400, ["JCP015"])
    assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"}).status == 204
    assert state(host, job) == "Running"
    assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL_FORCE"}).status == 204
    assert host.get(JOBS)["Members"] == []


def test_a_queue_is_cleared_as_a_whole_or_one_by_one(host: Client) -> None:
    done = job_of(stage(host, SriovGlobalEnable="Disabled"))
    restart(host)
    waiting = job_of(stage(host, SriovGlobalEnable="Enabled"))
    assert host.request("POST", DELETE_QUEUE, {"JobID": done}).status == 204
    assert [one.id for one in host.bmc.state.jobs] == [waiting]
    assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"}).status == 204
    assert (host.bmc.state.jobs, host.bmc.state.staged) == ((), ())
    for body, key in (({"JobID": "JID_000000000000"}, "JCP022"), ({}, "ActionParameterMissing")):
        refused = host.request("POST", DELETE_QUEUE, body)
        assert (refused.status, message_ids(refused)) == (400, [key])


def test_pending_values_are_cleared_while_no_job_is_made_for_them(host: Client) -> None:
    clear = SETTINGS + "/Actions/Oem/DellManager.ClearPending"
    stage(host, now=False, SriovGlobalEnable="Disabled")
    assert host.request("POST", clear).status == 204
    assert host.get(SETTINGS)["Attributes"] == {}
    assert host.request("POST", clear, {}).status == 204
    stage(host, SriovGlobalEnable="Disabled")
    refused = host.request("POST", clear)
    assert (refused.status, message_ids(refused)) == (400, ["SYS011"])


def test_a_full_queue_takes_no_more_until_jobs_are_over(host: Client) -> None:
    body = {"ShareParameters": {"Target": "ALL"}}
    for _ in range(LIMIT):
        assert host.request("POST", EXPORT, body).status == 202
    refused = host.request("POST", EXPORT, body)
    assert (refused.status, message_ids(refused)) == (400, ["CreateLimitReachedForResource"])
    host.advance(30)
    assert host.request("POST", EXPORT, body).status == 202
    assert len(host.get(JOBS)["Members"]) == LIMIT


def test_the_log_tells_of_a_job_that_is_over(host: Client) -> None:
    job = job_of(stage(host, SriovGlobalEnable="Disabled"))
    restart(host)
    entry = host.get(MANAGER + "/LogServices/Lclog/Entries")["Members"][-1]
    assert entry["MessageId"] == "IDRAC.2.7.JCP037"
    assert entry["Links"]["OriginOfCondition"] == {"@odata.id": f"{JOBS}/{job}"}


# boot order


@pytest.mark.parametrize("uri", [SYSTEM, SYSTEM + "/Settings", SYSTEM + "/"])
def test_a_boot_order_is_set_by_a_job(host: Client, uri: str) -> None:
    before = host.get(SYSTEM)["Boot"]["BootOrder"]
    job = job_of(host.request("PATCH", uri, {"Boot": {"BootOrder": ["Boot0002"]}}))
    wanted = ["Boot0002", "Boot0000", "Boot0001"]
    assert state(host, job) == "Scheduled"
    assert host.get(SYSTEM)["Boot"]["BootOrder"] == before
    assert host.get(SYSTEM + "/Settings")["Boot"]["BootOrder"] == wanted
    restart(host)
    assert state(host, job) == "Completed"
    assert host.get(SYSTEM)["Boot"]["BootOrder"] == wanted
    assert host.get(SYSTEM + "/Settings")["Boot"]["BootOrder"] == wanted
    members = host.get(SYSTEM + "/BootOptions")["Members"]
    assert [member["@odata.id"].rpartition("/")[2] for member in members] == wanted


def test_an_order_that_is_there_already_needs_no_job(host: Client) -> None:
    order = host.get(SYSTEM)["Boot"]["BootOrder"]
    response = host.request("PATCH", SYSTEM, {"Boot": {"BootOrder": order[:1]}})
    assert (response.status, header(response, "Location"), response.body) == (200, None, b"{}")


def test_what_comes_with_a_boot_order_counts_at_once(host: Client) -> None:
    body = {"AssetTag": "x", "Boot": {"BootOrder": ["Boot0002"], "BootSourceOverrideTarget": "Pxe"}}
    job_of(host.request("PATCH", SYSTEM, body))
    shown = host.get(SYSTEM)
    assert (shown["AssetTag"], shown["Boot"]["BootSourceOverrideTarget"]) == ("x", "Pxe")
    again = {"AssetTag": "y", "Boot": {"BootOrder": ["Boot0001"]}}
    assert message_ids(host.request("PATCH", SYSTEM, again)) == ["SYS011"]
    assert host.get(SYSTEM)["AssetTag"] == "x"


def test_the_settings_of_the_system_take_no_override(host: Client) -> None:
    uri = SYSTEM + "/Settings"
    for name, value in (("BootSourceOverrideTarget", "Pxe"), ("BootSourceOverrideEnabled", "Once")):
        refused = host.request("PATCH", uri, {"Boot": {name: value}})
        assert (refused.status, message_ids(refused)) == (400, ["PropertyUnknown"])
    assert host.request("PATCH", uri, {"Boot": {"BootSourceOverrideMode": "Legacy"}}).status == 204
    for one in (SYSTEM, uri):
        assert host.get(one)["Boot"]["BootSourceOverrideMode"] == "Legacy"
    host.request("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideMode": "UEFI"}})
    assert host.get(uri)["Boot"]["BootSourceOverrideMode"] == "UEFI"


# attributes and lockdown


def test_a_first_boot_device_is_for_one_boot_unless_it_says_otherwise(host: Client) -> None:
    def first() -> str:
        return str(host.get(ATTRIBUTES)["Attributes"]["ServerBoot.1.FirstBootDevice"])

    assert idrac(host, ServerBoot__1__FirstBootDevice="PXE", ServerBoot__1__BootOnce="Enabled").status == 204
    assert first() == "PXE"
    restart(host)
    assert first() == "Normal"
    assert host.get(MANAGER + "/Attributes")["Attributes"]["ServerBoot.1.FirstBootDevice"] == "Normal"
    assert idrac(host, ServerBoot__1__FirstBootDevice="HDD", ServerBoot__1__BootOnce="Disabled").status == 204
    restart(host)
    assert first() == "HDD"


@pytest.mark.parametrize("uri", [ATTRIBUTES, MANAGER + "/Attributes"])
def test_the_apply_time_of_libredfish_is_taken_in_either_spelling(host: Client, uri: str) -> None:
    attributes = {"Attributes": {"ServerBoot.1.BootOnce": "Enabled", "ServerBoot.1.FirstBootDevice": "PXE"}}
    for key in ("RedfishSettingsApplyTime", "@Redfish.SettingsApplyTime"):
        assert host.request("PATCH", uri, {key: {"ApplyTime": "OnReset"}, **attributes}).status == 204


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ({"Nope.1.Nope": "x"}, "PropertyUnknown"),
        ({"SSH.1.Port": "22"}, "PropertyValueTypeError"),
        ({"Lockdown.1.SystemLockdown": "Maybe"}, "PropertyValueNotInList"),
        ({"ServerBoot.1.FirstBootDevice": "Floppy"}, "PropertyValueNotInList"),
    ],
)
def test_attributes_that_an_idrac_does_not_have(host: Client, attributes: dict[str, Any], key: str) -> None:
    response = host.request("PATCH", ATTRIBUTES, {"Attributes": attributes})
    assert (response.status, message_ids(response)) == (400, [key])


LOCKED: list[tuple[str, str, Any]] = [
    ("PATCH", ATTRIBUTES, {"Attributes": {"SSH.1.Enable": "Disabled"}}),
    ("PATCH", MANAGER + "/Attributes", {"Attributes": {"Lockdown.1.SystemLockdown": "Enabled"}}),
    ("PATCH", SETTINGS, {"Attributes": {"SriovGlobalEnable": "Disabled"}}),
    ("PATCH", SETTINGS, {**ON_RESET, "Attributes": {"PowerCycleRequest": "FullPowerCycle"}}),
    ("PATCH", SYSTEM, {"Boot": {"BootOrder": ["Boot0002"]}}),
    ("PATCH", SYSTEM + "/Settings", {"Boot": {"BootOrder": ["Boot0002"]}}),
    ("PATCH", SYSTEM + "/SecureBoot", {"SecureBootEnable": True}),
    ("PATCH", SYSTEM + "/BootOptions/Boot0000", {"BootOptionEnabled": False}),
    ("PATCH", MANAGER, {"DateTime": "2030-01-01T00:00:00Z"}),
    ("PATCH", MANAGER + "/NetworkProtocol", {"IPMI": {"ProtocolEnabled": True}}),
    ("POST", BIOS + "/Actions/Bios.ResetBios", None),
    ("POST", BIOS + "/Actions/Bios.ChangePassword", {}),
    ("POST", SYSTEM + "/SecureBoot/Actions/SecureBoot.ResetKeys", {"ResetKeysType": "DeleteAllKeys"}),
    ("POST", JOBS, {"TargetSettingsURI": SETTINGS}),
    ("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"}),
    ("POST", IMPORT, {"ShareParameters": {"Target": "ALL"}}),
]


@pytest.mark.parametrize(("method", "uri", "body"), LOCKED)
def test_a_locked_idrac_refuses_to_be_configured(host: Client, method: str, uri: str, body: Any) -> None:
    assert idrac(host, Lockdown__1__SystemLockdown="Enabled").status == 204
    response = host.request(method, uri, body)
    assert (response.status, message_ids(response)) == (403, ["SYS406"])
    assert host.bmc.state.staged == ()


@pytest.mark.parametrize("reset", ["ForceRestart", "PowerCycle", "GracefulShutdown"])
def test_a_locked_idrac_still_switches_power_and_restarts_itself(host: Client, reset: str) -> None:
    idrac(host, Lockdown__1__SystemLockdown="Enabled")
    assert host.request("POST", RESET, {"ResetType": reset}).status == 204
    assert host.request("POST", MANAGER + "/Actions/Manager.Reset", {"ResetType": "GracefulRestart"}).status == 204


def test_one_write_unlocks_and_changes_more(host: Client) -> None:
    idrac(host, Lockdown__1__SystemLockdown="Enabled")
    body = {"Lockdown.1.SystemLockdown": "Disabled", "Racadm.1.Enable": "Enabled", "SSH.1.Enable": "Disabled"}
    assert host.request("PATCH", ATTRIBUTES, {"Attributes": body}).status == 204
    assert body.items() <= host.get(ATTRIBUTES)["Attributes"].items()
    assert stage(host, SriovGlobalEnable="Disabled").status == 200


def test_a_lock_is_of_one_bmc(host: Client) -> None:
    idrac(host, Lockdown__1__SystemLockdown="Enabled")
    assert idrac(make_client("dell_poweredge_r750", index=1), SSH__1__Enable="Disabled").status == 204


# passwords and system configurations


def import_password(client: Client, old: str, new: str) -> Response:
    """What libredfish sends where Bios.ChangePassword does not work."""
    buffer = (
        '<SystemConfiguration><Component FQDD="BIOS.Setup.1-1">'
        '<!-- <Attribute Name="OldSetupPassword">no</Attribute>-->'
        f'<Attribute Name="OldSetupPassword">{old}</Attribute><Attribute Name="NewSetupPassword">{new}</Attribute>'
        "</Component></SystemConfiguration>"
    )
    body = {"ShutdownType": "Forced", "ShareParameters": {"Target": "BIOS"}, "ImportBuffer": buffer}
    return client.request("POST", IMPORT, body)


def change_password(client: Client, old: str, new: str) -> Response:
    """Bios.ChangePassword of the setup password."""
    body = {"PasswordName": "SetupPassword", "OldPassword": old, "NewPassword": new}
    return client.request("POST", BIOS + "/Actions/Bios.ChangePassword", body)


def test_a_setup_password_needs_a_job(host: Client) -> None:
    assert change_password(host, "", "Setup-1").status == 204
    restart(host)
    assert message_ids(change_password(host, "Setup-1", "x")) == ["BIOS021"]
    job = job_of(host.request("POST", OEM_JOBS, {"TargetSettingsURI": SETTINGS}))
    restart(host)
    assert state(host, job) == "Completed"
    assert change_password(host, "Setup-1", "").status == 204
    assert bios(host)["SetupPassword"] is None
    assert b"Setup-1" not in host.bmc.encode()


def test_an_import_clears_the_setup_password_with_the_next_boot(host: Client) -> None:
    change_password(host, "", "a<b&c")
    host.request("POST", JOBS, {"TargetSettingsURI": SETTINGS})
    restart(host)
    job = job_of(import_password(host, "a&lt;b&amp;c", ""))
    assert state(host, job) == "Scheduled"
    restart(host)
    assert state(host, job) == "Completed"
    assert change_password(host, "", "new").status == 204


def test_an_import_with_a_wrong_password_fails(host: Client) -> None:
    job = job_of(import_password(host, "wrong", ""))
    shown = host.get(f"{JOBS}/{job}")
    assert (shown["JobState"], shown["PercentComplete"]) == ("Failed", 100)
    assert host.get(f"{STANDARD_JOBS}/{job}")["JobState"] == "Exception"


@pytest.mark.parametrize("target", [IMPORT, EXPORT])
def test_other_configurations_take_their_time_and_change_nothing(host: Client, target: str) -> None:
    before = host.bmc.state.changes
    body = {"ShareParameters": {"Target": "ALL"}, **({"ImportBuffer": "<x/>"} if target == IMPORT else {})}
    response = host.request("POST", target, body)
    assert response.status == 202
    job = job_of(response)
    assert state(host, job) == "Running"
    host.advance(21)
    assert (state(host, job), host.bmc.state.changes) == ("Completed", before)
    assert host.request("POST", target, {}).status == 400


# power


@pytest.mark.parametrize(("power", "reset"), [("On", "GracefulRestart"), ("Off", "On")])
def test_a_full_power_cycle_comes_with_the_next_start(host: Client, power: str, reset: str) -> None:
    """As libredfish does it: clear the queue, ask for the cycle, then start the system in the way its power allows."""
    if power == "Off":
        host.request("POST", RESET, {"ResetType": "ForceOff"})
    host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"})
    job = job_of(stage(host, PowerCycleRequest="FullPowerCycle"))
    assert host.request("POST", RESET, {"ResetType": reset}).status == 204
    host.advance(6)
    assert (host.bmc.power, host.bmc.state.service) == (Power.CYCLING, "Resetting")
    host.advance(1000)
    assert (host.get(SYSTEM)["PowerState"], bios(host)["PowerCycleRequest"]) == ("On", "None")
    assert state(host, job) == "Completed"
    cycles = [entry["Message"] for entry in host.get(MANAGER + "/LogServices/Lclog/Entries")["Members"]]
    assert cycles.count("iDRAC restarted.") == 2
    restart(host)
    assert host.get(SYSTEM)["PowerState"] == "On"


@pytest.mark.parametrize(("reset", "power"), [("ForceOff", "Off"), ("On", "On")])
def test_the_chassis_switches_its_system(host: Client, reset: str, power: str) -> None:
    action = host.get(CHASSIS)["Actions"]["#Chassis.Reset"]
    assert action["ResetType@Redfish.AllowableValues"] == ["On", "ForceOff"]
    if reset == "On":
        host.request("POST", action["target"], {"ResetType": "ForceOff"})
    assert host.request("POST", action["target"], {"ResetType": reset}).status == 204
    host.advance(1000)
    assert host.get(SYSTEM)["PowerState"] == power
    assert host.request("POST", action["target"], {"ResetType": reset}).status == 204
    assert host.get(SYSTEM)["PowerState"] == power


@pytest.mark.parametrize("uri", [SYSTEM, CHASSIS])
def test_the_lamp_is_lit_or_blinks(host: Client, uri: str) -> None:
    for value in ("Blinking", "Lit"):
        assert host.request("PATCH", uri, {"IndicatorLED": value}).status == 204
        assert host.get(uri)["IndicatorLED"] == value
    assert host.request("PATCH", uri, {"IndicatorLED": "Off"}).status == 400


# NICo


NICO_BIOS = {
    "InBandManageabilityInterface": "Disabled",
    "UefiVariableAccess": "Standard",
    "SerialComm": "OnConRedir",
    "SerialPortAddress": "Com1",
    "FailSafeBaud": "115200",
    "ConTermType": "Vt100Vt220",
    "RedirAfterBoot": "Enabled",
    "SriovGlobalEnable": "Enabled",
    "TpmSecurity": "On",
    "Tpm2Hierarchy": "Clear",
    "Tpm2Algorithm": "SHA256",
    "HttpDev1EnDis": "Enabled",
    "PxeDev1EnDis": "Disabled",
    "BootMode": "Uefi",
    "HttpDev1Interface": "NIC.Slot.2-1",
    "SetBootOrderEn": "NIC.Slot.2-1",
    "HttpDev1TlsMode": "None",
    "SetBootOrderDis": "",
}


def nic_slot(client: Client, mac: str) -> dict[str, Any]:
    """The DellNIC of the network function with an address, found as libredfish finds it."""
    adapters = client.get(CHASSIS + "/NetworkAdapters?$expand=.($levels=1)")["Members"]
    for adapter in adapters:
        uri = adapter["NetworkDeviceFunctions"]["@odata.id"]
        for function in client.get(uri + "?$expand=.($levels=1)")["Members"]:
            if function["Ethernet"]["MACAddress"].lower() == mac.lower():
                found: dict[str, Any] = function["Oem"]["Dell"]["DellNIC"]
                return found
    raise AssertionError(mac)


def test_nico_sets_up_a_machine(host: Client) -> None:
    """libredfish 0.33: clear the queue, find the slot, all BIOS values in one PATCH, attributes; poll; then compare."""
    assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"}).status == 204
    mac = host.get(SYSTEM + "/EthernetInterfaces/NIC.Slot.2-1")["MACAddress"]
    slot = nic_slot(host, mac)
    assert slot["Id"] == "NIC.Slot.2-1"
    assert "SetBootOrderEn" in bios(host)
    job = job_of(host.request("PATCH", SETTINGS + "/", {**ON_RESET, "Attributes": NICO_BIOS}))
    extra = {
        "WebServer.1.HostHeaderCheck": "Disabled",
        "IPMILan.1.Enable": "Enabled",
        "OS-BMC.1.AdminState": "Disabled",
    }
    assert host.request("PATCH", ATTRIBUTES, {"Attributes": extra}).status == 204
    remote = {
        "SSH.1.Enable": "Enabled",
        "SerialRedirection.1.Enable": "Enabled",
        "IPMILan.1.Enable": "Enabled",
        "IPMISOL.1.BaudRate": "115200",
        "IPMISOL.1.Enable": "Enabled",
        "IPMISOL.1.MinPrivilege": "Administrator",
    }
    now = {"@Redfish.SettingsApplyTime": {"ApplyTime": "Immediate"}}
    assert host.request("PATCH", MANAGER + "/Attributes", {**now, "Attributes": remote}).status == 204
    assert state(host, job) == "Scheduled"
    restart(host)
    assert state(host, job) == "Completed"
    expected = {**NICO_BIOS, "Tpm2Hierarchy": "Enabled"}
    assert expected.items() <= bios(host).items()
    assert {**extra, **remote}.items() <= host.get(ATTRIBUTES)["Attributes"].items()


def test_nico_boots_from_the_dpu_first(host: Client) -> None:
    """Find the option of the slot by its name, set it first, watch the job over a restart, look again."""
    mac = host.get(SYSTEM + "/EthernetInterfaces/NIC.Slot.2-1")["MACAddress"]
    wanted = f"HTTP Device 1: {nic_slot(host, mac)['DeviceDescription']}"

    def names() -> list[str]:
        """The names of the boot options in boot order."""
        options = host.get(SYSTEM + "/BootOptions?$expand=.($levels=1)")["Members"]
        by_reference = {one["BootOptionReference"]: one["DisplayName"] for one in options}
        return [by_reference[reference] for reference in host.get(SYSTEM)["Boot"]["BootOrder"]]

    assert names().index(wanted) > 0
    option = host.get(SYSTEM)["Boot"]["BootOrder"][names().index(wanted)]
    job = job_of(host.request("PATCH", SYSTEM, {"Boot": {"BootOrder": [option]}}))
    assert state(host, job) == "Scheduled"
    restart(host)
    assert state(host, job) == "Completed"
    assert names()[0] == wanted
    first = host.get(host.get(SYSTEM + "/BootOptions")["Members"][0]["@odata.id"])
    assert first["DisplayName"] == wanted


def test_nico_locks_a_machine_and_unlocks_it(host: Client) -> None:
    """Everything but the lock first, then the lock; to unlock all in one PATCH, and the BIOS after it."""
    boot = {"ServerBoot.1.FirstBootDevice": "PXE", "ServerBoot.1.BootOnce": "Disabled"}
    later = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}
    first = {**later, "Attributes": {"Racadm.1.Enable": "Disabled", **boot}}
    assert host.request("PATCH", ATTRIBUTES, first).status == 204
    lock = {**later, "Attributes": {"Lockdown.1.SystemLockdown": "Enabled"}}
    assert host.request("PATCH", ATTRIBUTES, lock).status == 204
    shown = host.get(ATTRIBUTES)["Attributes"]
    assert (shown["Lockdown.1.SystemLockdown"], shown["Racadm.1.Enable"]) == ("Enabled", "Disabled")
    unlock = {"Lockdown.1.SystemLockdown": "Disabled", "Racadm.1.Enable": "Enabled", **boot}
    now = {"@Redfish.SettingsApplyTime": {"ApplyTime": "Immediate"}}
    assert host.request("PATCH", ATTRIBUTES, {**now, "Attributes": unlock}).status == 204
    body = {"InBandManageabilityInterface": "Enabled", "UefiVariableAccess": "Standard"}
    job_of(host.request("PATCH", SETTINGS + "/", {**ON_RESET, "Attributes": body}))


def test_nico_sets_the_uefi_password(host: Client) -> None:
    """Unlocked, queue cleared, password, job; Scheduled before a restart, Completed after it; the same to clear it."""
    for old, new in (("", "Site-Password-1"), ("Site-Password-1", "")):
        assert host.get(ATTRIBUTES)["Attributes"]["Lockdown.1.SystemLockdown"] == "Disabled"
        assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"}).status == 204
        assert change_password(host, old, new).status == 204
        job = job_of(host.request("POST", OEM_JOBS, {"TargetSettingsURI": SETTINGS}))
        assert state(host, job) == "Scheduled"
        restart(host)
        assert state(host, job) == "Completed"


def test_nico_tries_again_after_it_was_cut_off(host: Client) -> None:
    """The password was sent and the job was not: the next round begins with the queue, and the old password."""
    assert change_password(host, "", "Site-Password-1").status == 204
    assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"}).status == 204
    assert change_password(host, "", "Site-Password-1").status == 204
    assert job_of(host.request("POST", OEM_JOBS, {"TargetSettingsURI": SETTINGS}))


def test_nico_boots_once_from_the_network(host: Client) -> None:
    body = {
        "RedfishSettingsApplyTime": {"ApplyTime": "OnReset"},
        "Attributes": {"ServerBoot.1.FirstBootDevice": "PXE", "ServerBoot.1.BootOnce": "Enabled"},
    }
    assert host.request("PATCH", ATTRIBUTES, body).status == 204
    restart(host)
    assert host.get(ATTRIBUTES)["Attributes"]["ServerBoot.1.FirstBootDevice"] == "Normal"


def test_the_state_of_a_job_is_durable(host: Client) -> None:
    job = job_of(stage(host, SriovGlobalEnable="Disabled"))
    saved = host.bmc.state
    other = make_client("dell_poweredge_r750")
    other.bmc.restore(saved)
    assert state(other, job) == "Scheduled"
    restart(other)
    assert (state(other, job), bios(other)["SriovGlobalEnable"]) == ("Completed", "Disabled")
    assert orjson.loads(other.request("GET", BIOS).body)["@Redfish.Settings"]["Time"]


@pytest.mark.parametrize(
    ("uri", "body"),
    [
        (MANAGER + "/NetworkProtocol", {"NTP": {"NTPServers": ["a.example", "b.example"]}}),
        (MANAGER, {"TimeZoneName": "Asia/Tokyo"}),
        (ATTRIBUTES, {"Attributes": {"NTPConfigGroup.1.NTP1": "a.example"}}),
        (SYSTEM, {"Boot": {"BootOrder": ["Boot0002"]}}),
        (SYSTEM, {"Boot": {"BootOrder": ["Boot0001", "Boot0000"]}}),
    ],
)
def test_what_is_shown_in_two_places_can_be_stored(host: Client, uri: str, body: dict[str, Any]) -> None:
    for _ in range(2):
        assert host.request("PATCH", uri, body).status in (200, 204)
        assert decode(host.bmc.encode()).state == host.bmc.state
        restart(host)
        host.request("PATCH", SYSTEM, {"Boot": {"BootOrder": ["Boot0003"]}})
        restart(host)


def test_comments_without_end_are_no_trap(host: Client) -> None:
    buffer = "<!--" * 250_000
    begin = time.monotonic()
    assert host.request("POST", IMPORT, {"ImportBuffer": buffer, "ShareParameters": {"Target": "ALL"}}).status == 202
    assert time.monotonic() - begin < 5


def test_the_job_queue_of_a_dell_lets_go_of_updates_too(host: Client) -> None:
    update = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"

    def queued() -> list[str]:
        return [member["@odata.id"].rpartition("/")[2] for member in host.get(JOBS)["Members"]]

    first, second, third = [
        job_of(host.request("POST", update, {"ImageURI": f"http://a.example/BIOS_1.9{n}.exe"})) for n in range(3)
    ]
    host.advance(0.5 * host.bmc.shared.timings.firmware_upgrade)
    assert host.request("POST", DELETE_QUEUE, {"JobID": second}).status == 204
    assert queued() == [first, third]
    assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL"}).status == 204
    assert queued() == [first]
    assert host.request("POST", DELETE_QUEUE, {"JobID": first}).status == 400
    assert host.request("POST", DELETE_QUEUE, {"JobID": "JID_CLEARALL_FORCE"}).status == 204
    assert queued() == []


def test_a_job_is_not_hidden_for_long_by_a_clock_that_is_set_back(host: Client) -> None:
    late = [{"id": "l", "action": {"LateJobs": {"delay": "2s"}}}]
    assert host.request("PUT", "/Injection/rules", late).status == 200
    assert host.request("PATCH", MANAGER + "/NetworkProtocol", {"NTP": {"ProtocolEnabled": False}}).status == 204
    job = job_of(host.request("POST", EXPORT, {"ShareParameters": {"Target": "ALL"}}))
    assert host.request("GET", f"{JOBS}/{job}").status == 404
    host.advance(3)
    assert host.request("PATCH", MANAGER, {"DateTime": "2020-01-01T00:00:00Z"}).status == 204
    assert host.request("GET", f"{JOBS}/{job}").status == 200
