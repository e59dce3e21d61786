"""Public bug reports about tasks and firmware, and NICo's own update of a BMC, step by step."""

from typing import Any

import msgspec
import orjson
import pytest

from tests.conftest import Client, header, make_client, profiles_where

SERVICE = "/redfish/v1/UpdateService"
INVENTORY = SERVICE + "/FirmwareInventory"
TASKS = "/redfish/v1/TaskService/Tasks"
SIMPLE = SERVICE + "/Actions/UpdateService.SimpleUpdate"
HOST, DPU = "/redfish/v1/Systems/System.Embedded.1", "/redfish/v1/Systems/Bluefield"
IDRAC, BMC = "/redfish/v1/Managers/iDRAC.Embedded.1", "/redfish/v1/Managers/Bluefield_BMC"
every_profile_that_takes_uploads = pytest.mark.parametrize(
    "profile", profiles_where(lambda tree: {"raw", "multipart"} <= {*tree.updates.uploads.values()})
)
ORDER = ["Pending", "New", "Starting", "Running", "Completed"]


def slow(profile: str, seconds: float = 60.0, **desired: str) -> Client:
    """A BMC whose updates take a while. desired: component -> version, as the fleet file says."""
    client = make_client(profile)
    timings = msgspec.structs.replace(client.bmc.shared.timings, firmware_upgrade=seconds, jitter=0.0)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, timings=timings, desired=desired)
    return client


def versions(client: Client) -> dict[str, str]:
    """Id without its version -> version, of the whole inventory."""
    items = client.get(INVENTORY + "?$expand=.($levels=1)")["Members"]
    return {item["Id"].replace(item["Version"], "*"): item["Version"] for item in items}


def test_n32_a_pushed_version_is_staged_until_the_next_power_cycle() -> None:
    client = slow("dell_poweredge_r750")
    before = versions(client)
    response = client.push(client.get(SERVICE)["MultipartHttpPushUri"], "BIOS_1.14.1.exe", {"Targets": []})
    assert response.status == 202
    task = header(response, "Location") or ""
    client.advance(30)
    assert client.get(task)["TaskState"] == "Running"
    assert versions(client) == before
    client.advance(31)
    assert client.get(task)["TaskState"] == "Completed"
    assert versions(client) == before
    assert client.request("POST", HOST + "/Actions/ComputerSystem.Reset", {"ResetType": "PowerCycle"}).status == 204
    client.advance(600)
    after = versions(client)
    assert {name: version for name, version in after.items() if before[name] != version} == {
        "Installed-159-*__BIOS.Setup.1-1": "1.14.1",
        "Current-159-*__BIOS.Setup.1-1": "1.14.1",
    }
    assert client.get(HOST)["BiosVersion"] == "1.14.1"


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_n33_a_simple_update_runs_for_its_time_and_counts_only_afterwards(scale: float) -> None:
    client = make_client("dell_poweredge_r750", time_scale=scale)
    timings = msgspec.structs.replace(client.bmc.shared.timings, firmware_upgrade=600.0, jitter=0.0)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, timings=timings)
    body = {"ImageURI": "http://192.0.2.1/driverpack_22.1.exe"}
    response = client.request("POST", SIMPLE, body)
    task = header(response, "Location") or ""
    client.advance(599 / scale)
    assert client.get(task)["TaskState"] == "Running"
    assert versions(client)["Installed-18981-*__DriverPack.Embedded.1:LC.Embedded.1"] == "21.03.10"
    client.advance(1.1 / scale)
    assert client.get(task)["TaskState"] == "Completed"
    assert versions(client)["Installed-18981-*__DriverPack.Embedded.1:LC.Embedded.1"] == "22.1"


@every_profile_that_takes_uploads
def test_e26_a_multipart_push_is_accepted_with_a_task_monitor(profile: str) -> None:
    client = slow(profile)
    response = client.push(client.get(SERVICE)["MultipartHttpPushUri"], "image.bin", {"Targets": []})
    assert response.status == 202
    task = orjson.loads(response.body)
    assert (header(response, "Location") or "").endswith("/" + task["Id"])
    assert int(header(response, "Retry-After") or 0) == 60
    monitor = client.request("GET", task["TaskMonitor"])
    assert (monitor.status, orjson.loads(monitor.body)["Id"]) == (202, task["Id"])
    client.advance(61)
    assert client.request("GET", task["TaskMonitor"]).status == 204


@pytest.mark.parametrize("raw", [True, False])
@every_profile_that_takes_uploads
def test_c33_states_and_percent_never_go_back(profile: str, raw: bool) -> None:
    client = slow(profile, 30.0)
    path, parameters = (SERVICE, None) if raw else (client.get(SERVICE)["MultipartHttpPushUri"], {})
    task = orjson.loads(client.push(path, "image.bin", parameters).body)
    seen = [(ORDER.index(task["TaskState"]), task["PercentComplete"])]
    for _ in range(64):
        client.advance(0.5)
        now = client.get(task["@odata.id"])
        seen.append((ORDER.index(now["TaskState"]), now["PercentComplete"]))
    assert seen == sorted(seen)
    assert {ORDER[state] for state, _ in seen} == {"New", "Starting", "Running", "Completed"}
    assert seen[2][0] < ORDER.index("Completed")
    assert (seen[0][1], seen[-1]) == (0, (ORDER.index("Completed"), 100))


# NICo's preingestion


def client_init(client: Client) -> None:
    """What NICo's Redfish client reads before each step; without an answer the step is tried again later."""
    for path in ("", "/Managers", "/Chassis", "/Systems"):
        client.get("/redfish/v1" + path)
    for member in client.get("/redfish/v1/Systems")["Members"]:
        client.get(member["@odata.id"])


def upgrade_firmware_wait(client: Client, task: str) -> str:
    """UpgradeFirmwareWait: a tick each 30 s until the task has ended; its last state."""
    for _ in range(100):
        client_init(client)
        state = client.get(f"{TASKS}/{task}")["TaskState"]
        if state not in ("New", "Starting", "Running", "Pending"):
            return str(state)
        client.advance(30)
    raise AssertionError("the task never ends")


def reset_bmc(client: Client, manager: str) -> None:
    """ResetForNewFirmware of a BMC: it is away for a while."""
    assert client.request("POST", manager + "/Actions/Manager.Reset", {"ResetType": "GracefulRestart"}).status == 204
    client.advance(120)
    client_init(client)


def reset_host(client: Client, system: str) -> None:
    """ResetForNewFirmware of the UEFI."""
    assert client.request("POST", system + "/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"}).status == 204


def reported(client: Client, item: str) -> str:
    """NewFirmwareReportedWait: the version of the first item whose id has these words, as exploration reads it."""
    for member in client.get(INVENTORY)["Members"]:
        if item in member["@odata.id"]:
            return str(client.get(member["@odata.id"])["Version"])
    raise AssertionError(f"no {item} in the inventory")


def dell_upload(client: Client, file_name: str) -> str:
    """NICo's upload to an iDRAC; the id of the task is the end of Location."""
    client_init(client)
    parameters = {"Targets": [], "@Redfish.OperationApplyTime": "Immediate"}
    response = client.push(
        "/redfish/v1/UpdateService/MultipartUpload", file_name, parameters, head=b"MZ\x90", size=10**8
    )
    assert response.status == 202
    return (header(response, "Location") or "").rpartition("/")[2]


def multipart_upload(client: Client, file_name: str, parameters: Any) -> str:
    """NICo's upload to a BlueField; the id is in the body."""
    client_init(client)
    response = client.push(
        client.get(SERVICE)["MultipartHttpPushUri"], file_name, parameters, head=b"\x7fELF", size=10**8
    )
    assert response.status == 202
    return str(orjson.loads(response.body)["Id"])


def test_nico_updates_a_dell_host_from_below_the_desired_versions() -> None:
    """The names of the files say nothing, as with machine-a-tron: what is desired is reached in its order."""
    client = slow("dell_poweredge_r750", bmc="7.10.30.00", uefi="1.15.0")
    assert reported(client, "iDRAC.Embedded") == "6.00.30.00"
    task = dell_upload(client, "firmware_0.exe")
    assert task.startswith("JID_")
    assert upgrade_firmware_wait(client, task) == "Completed"
    assert reported(client, "iDRAC.Embedded") == "6.00.30.00"
    reset_bmc(client, IDRAC)
    assert reported(client, "Installed-25227") == "7.10.30.00"
    assert client.get(IDRAC)["FirmwareVersion"] == "7.10.30.00"
    assert upgrade_firmware_wait(client, dell_upload(client, "firmware_0.exe")) == "Completed"
    reset_host(client, HOST)
    assert (reported(client, "Current-159"), reported(client, "Installed-159")) == ("1.15.0", "1.15.0")
    assert client.get(HOST)["BiosVersion"] == "1.15.0"


def test_nico_uploads_several_files_of_a_dell_host_before_it_resets() -> None:
    client = slow("dell_poweredge_r750")
    for name in (
        "iDRAC-with-Lifecycle-Controller_Firmware_XTFXJ_WN64_7.00.30.00_A00.EXE",
        "BIOS_T3H20_WN64_1.14.1.EXE",
    ):
        assert upgrade_firmware_wait(client, dell_upload(client, name)) == "Completed"
    reset_host(client, HOST)
    reset_bmc(client, IDRAC)
    assert (reported(client, "Installed-25227"), reported(client, "Current-159")) == ("7.00.30.00", "1.14.1")


def test_nico_repeats_an_upload_to_a_dell_host() -> None:
    """A step is repeated where its answer was lost: the version is the same in the end."""
    client = slow("dell_poweredge_r750", uefi="1.15.0")
    first, second = dell_upload(client, "firmware_0.exe"), dell_upload(client, "firmware_0.exe")
    assert first != second
    assert [upgrade_firmware_wait(client, task) for task in (first, second)] == ["Completed", "Completed"]
    reset_host(client, HOST)
    assert reported(client, "Current-159") == "1.15.0"
    assert client.bmc.state.staged_firmware == {}


def test_nico_updates_the_bmc_and_the_root_of_trust_of_a_bluefield() -> None:
    client = slow("bluefield3", bmc="BF-24.10-17", cec="00.02.0182.0000_n02")
    assert upgrade_firmware_wait(client, multipart_upload(client, "bf3-bmc-24.10-17_opn.fwpkg", {})) == "Completed"
    reset_bmc(client, BMC)
    assert reported(client, "BMC_Firmware") == "BF-24.10-17"
    targets = {"Targets": [INVENTORY + "/Bluefield_FW_ERoT"]}
    assert upgrade_firmware_wait(client, multipart_upload(client, "cec_ota_BMGP-04.bin", targets)) == "Completed"
    for reset in ("ForceOff", "On"):
        client.request("POST", DPU + "/Actions/ComputerSystem.Reset", {"ResetType": reset})
        client.advance(90)
    assert reported(client, "Bluefield_FW_ERoT") == "00.02.0182.0000_n02"


def test_nico_falls_back_to_an_octet_stream() -> None:
    client = slow("bluefield3", bmc="BF-24.10-17")
    client_init(client)
    response = client.push(SERVICE)
    assert response.status == 202
    assert upgrade_firmware_wait(client, orjson.loads(response.body)["Id"]) == "Completed"
    reset_bmc(client, BMC)
    assert reported(client, "BMC_Firmware") == "BF-24.10-17"


def test_nico_installs_a_bfb() -> None:
    client = slow("bluefield3", uefi="4.9.0-46-g7e3911bd4d", nic="32.43.1008")
    body = {
        "ImageURI": "http://192.0.2.1/bf-bundle-2.9.0-90_24.10_ubuntu-22.04_prod.bfb",
        "TransferProtocol": "HTTP",
        "Targets": [INVENTORY + "/DPU_OS"],
    }
    response = client.request("POST", SIMPLE, body)
    assert response.status == 202
    assert upgrade_firmware_wait(client, orjson.loads(response.body)["Id"]) == "Completed"
    assert reported(client, "DPU_NIC") == "32.39.2048"
    client.request("POST", DPU + "/Actions/ComputerSystem.Reset", {"ResetType": "PowerCycle"})
    client.advance(300)
    assert (reported(client, "DPU_NIC"), reported(client, "DPU_UEFI")) == ("32.43.1008", "4.9.0-46-g7e3911bd4d")
    assert reported(client, "DPU_OS") == "bf-bundle-2.9.0-90"


def test_nico_finds_the_version_there_although_the_task_is_gone() -> None:
    """UpgradeFirmwareWait takes a 404 with the right version for success."""
    client = slow("dell_poweredge_r750")
    task = dell_upload(client, "driverpack_22.1.exe")
    client.advance(61)
    assert client.request("DELETE", f"{TASKS}/{task}").status == 204
    assert client.request("GET", f"{TASKS}/{task}").status == 404
    assert reported(client, "DriverPack") == "22.1"
