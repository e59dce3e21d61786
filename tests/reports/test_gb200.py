"""The compute tray of a GB200 rack: rows C26 and C27 of the bug reports, how NICo explores it and takes it over, and
what of it is of its rack, of its DPUs and of itself alone."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.fleet import config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.identity import Kind
from tests.clients.test_nico_exploration import EXPAND_ALL, FULL, NO_LINKS, NOTHING, Explorer, bmc_with
from tests.conftest import PASSWORD, Client, basic, make_client, message_ids, with_faults
from tests.unit.redfish.test_walk import walk

GB200 = "wiwynn_gb200_nvl"
SYSTEM, BASEBOARD = "/redfish/v1/Systems/System_0", "/redfish/v1/Systems/HGX_Baseboard_0"
BMC, HGX_BMC = "/redfish/v1/Managers/BMC_0", "/redfish/v1/Managers/HGX_BMC_0"
CHASSIS = "/redfish/v1/Chassis"
RESET = "/Actions/ComputerSystem.Reset"
ZEROS = "0000-00-00T00:00:00+00:00"
SENSORS = {
    "Chassis_0": 74,
    **{f"HGX_CPU_{n}": 7 for n in range(2)},
    **{f"HGX_GPU_{n}": 6 for n in range(4)},
    **{f"IO_Board_{n}": 4 for n in range(2)},
}


@pytest.fixture
def tray() -> Client:
    """A tray that stands free, with two DPUs."""
    return make_client(GB200)


def resources(client: Client) -> dict[str, Any]:
    """URI -> body of everything that a link leads to."""
    return {uri.rstrip("/"): body for uri, (body, _) in walk(client).items()}


def members(client: Client, uri: str) -> list[Any]:
    """The members of a collection."""
    return [client.get(member["@odata.id"]) for member in client.get(uri)["Members"]]


# C26


def test_c26_by_default_dates_are_dates_and_names_and_uuids_are_there(tray: Client) -> None:
    for uri, resource in resources(tray).items():
        assert resource["Name"], uri
        for key, value in resource.items():
            if key in ("LastResetTime", "ReleaseDate", "Created"):
                assert datetime.fromisoformat(value).tzinfo, uri
            if key == "UUID":
                assert re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value), uri
            assert value != "", (uri, key)


@pytest.mark.parametrize(
    ("preset", "changed"),
    [
        ("zero_reset_times", {(uri, "LastResetTime", ZEROS) for uri in (SYSTEM, BASEBOARD, BMC, HGX_BMC)}),
        ("no_update_service_name", {("/redfish/v1/UpdateService", "Name", None)}),
    ],
)
def test_c26_quirk_each_is_one_switch(preset: str, changed: set[tuple[str, str, str | None]]) -> None:
    plain, quirky = resources(make_client(GB200)), resources(with_faults(make_client(GB200), preset))
    differences = {
        (uri, key, quirky[uri].get(key))
        for uri, resource in plain.items()
        for key in {*resource, *quirky[uri]} - {"@odata.etag"}
        if resource.get(key) != quirky[uri].get(key)
    }
    assert differences == changed


# C27


def test_c27_the_power_target_is_the_system_that_has_a_power_state(tray: Client) -> None:
    host, baseboard = members(tray, "/redfish/v1/Systems")
    assert [host["@odata.id"], baseboard["@odata.id"]] == [SYSTEM, BASEBOARD]
    assert {"PowerState", "Boot", "Actions", "Bios"} <= host.keys()
    assert not {"PowerState", "Boot", "Actions", "Bios"} & baseboard.keys()
    assert tray.request("POST", BASEBOARD + RESET, {"ResetType": "ForceOff"}).status == 404
    assert tray.request("POST", SYSTEM + RESET, {"ResetType": "ForceOff"}).status == 204
    tray.advance(10)
    assert tray.get(SYSTEM)["PowerState"] == "Off"


def test_c27_a_chassis_without_network_adapters_has_no_link_to_them(tray: Client) -> None:
    with_adapters = {one["Id"] for one in members(tray, CHASSIS) if "NetworkAdapters" in one}
    cards = {f"Riser_Slot{n}_BlueField_3_Card" for n in (1, 2)}
    assert with_adapters == {"IO_Board_0", "IO_Board_1"} | cards
    assert tray.request("GET", f"{CHASSIS}/CBC_0/NetworkAdapters").status == 404


# What NICo does


# The profile says itself what its root advertises, so a BMC that can less must say that too.
ALL_ONLY = {**EXPAND_ALL, "advertise": {"ExpandQuery": {"ExpandAll": True}}}


@pytest.mark.parametrize("others", [NO_LINKS, ALL_ONLY, FULL])
def test_an_expanded_exploration_learns_the_same_with_fewer_requests(others: dict[str, Any]) -> None:
    plain, expanded = Explorer(bmc_with(GB200, NOTHING)), Explorer(bmc_with(GB200, others))
    assert expanded.inventory == plain.inventory
    assert plain.expanded == 0 < expanded.expanded
    # As the client's sources give it for the chassis of bmc-mock: about 17 requests, and 56; here are 11 chassis more.
    assert 16 <= expanded.requests <= 20
    assert 56 <= plain.requests <= 72


def test_exploration_finds_what_it_needs(tray: Client) -> None:
    inventory = Explorer(tray).inventory
    (assembly,) = [
        one for one in inventory[f"{CHASSIS}/Chassis_0/Assembly"]["Assemblies"] if one["Model"] == "GB200 NVL"
    ]
    assert assembly["SerialNumber"] == tray.bmc.identity.serial == inventory[SYSTEM]["SerialNumber"]
    interfaces = [body for uri, body in inventory.items() if uri.startswith(f"{BMC}/EthernetInterfaces/")]
    assert interfaces[0]["MACAddress"] == "02:00:00:00:00:07"
    assert len({one["MACAddress"] for one in interfaces}) == len(interfaces) == 4
    versions = {
        uri.rpartition("/")[2]: one["Version"] for uri, one in inventory.items() if "/FirmwareInventory/" in uri
    }
    assert len(versions) == 11
    assert (versions["FW_BMC_0"], versions["FW_BMC_1"], versions["UEFI"]) == (
        "25.06-2_NV_WW_02", "    ", "02.04.12-dde0f655",
    )  # fmt: skip
    assert inventory[SYSTEM]["Boot"]["BootOrder"] == ["Boot0020", "Boot0000", "Boot0001"]
    assert inventory[BMC]["FirmwareVersion"] == versions["FW_BMC_0"]


def test_the_root_says_what_the_recorded_one_says(tray: Client) -> None:
    root = tray.get("/redfish/v1")
    assert (root["Vendor"], root["Product"]) == ("WIWYNN", "GB200 NVL")
    features = root["ProtocolFeaturesSupported"]
    assert features["ExpandQuery"] == {
        "ExpandAll": True, "Levels": True, "Links": True, "MaxLevels": 6, "NoLinks": True,
    }  # fmt: skip
    assert not features["ExcerptQuery"]
    sensor = f"{CHASSIS}/HGX_GPU_0/Sensors/Temp_1"
    assert tray.get(sensor + "?excerpt") == tray.get(sensor)


def test_a_tray_is_taken_over(tray: Client) -> None:
    """libredfish's machine_setup and set_boot_order for GBx00: settings of the firmware, then the DPU first."""
    attributes = {"TPM": "Enabled", "EmbeddedUefiShell": "Disabled", "Socket0Pcie6DisableOptionROM": True}
    assert tray.request("PATCH", f"{SYSTEM}/SecureBoot", {"SecureBootEnable": False}).status < 300
    assert tray.request("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": attributes}).status < 300
    options = {one["DisplayName"]: one["BootOptionReference"] for one in members(tray, f"{SYSTEM}/BootOptions")}
    first = options["UEFI HTTPv4 (MAC:020000000002)"]
    order = {"Boot": {"BootOrder": [first]}}
    refused = tray.request("PATCH", SYSTEM, order)
    assert (refused.status, message_ids(refused)) == (400, ["PropertyNotWritable"])
    assert tray.request("PATCH", f"{SYSTEM}/Settings", order).status < 300
    assert tray.get(SYSTEM)["Boot"]["BootOrder"] == [first, "Boot0020", "Boot0001"]
    assert tray.get(f"{SYSTEM}/Bios")["Attributes"]["EmbeddedUefiShell"] == "Enabled"
    tray.request("POST", SYSTEM + RESET, {"ResetType": "ForceRestart"})
    tray.advance(700)
    assert tray.get(f"{SYSTEM}/Bios")["Attributes"]["EmbeddedUefiShell"] == "Disabled"
    assert tray.get(SYSTEM)["BootProgress"]["LastState"] == "OSRunning"


def test_the_manager_of_the_modules_restarts_by_itself(tray: Client) -> None:
    tray.advance(100)
    before = tray.get(HGX_BMC)["LastResetTime"]
    body = {"ResetType": "ForceRestart"}
    assert tray.request("POST", f"{HGX_BMC}/Actions/Manager.Reset", body).status == 204
    after = tray.get(HGX_BMC)["LastResetTime"]
    assert after > before == tray.get(BMC)["LastResetTime"]
    assert tray.bmc.state.service is Service.UP
    assert tray.request("POST", f"{BMC}/Actions/Manager.Reset", body).status == 204
    assert tray.bmc.state.service is not Service.UP
    tray.advance(120)
    assert tray.get(HGX_BMC)["LastResetTime"] == tray.get(BMC)["LastResetTime"] > after


def test_standby_power_goes_on_demand(tray: Client) -> None:
    action = f"{CHASSIS}/BMC_0/Actions/Oem/NvidiaChassis.AuxPowerReset"
    assert tray.request("POST", action, {"ResetType": "AuxPowerCycle"}).status == 204
    assert tray.bmc.state.service is not Service.UP


def test_subscribers_are_told_what_the_log_writes_down(tray: Client) -> None:
    assert "OpenBMC" in tray.get("/redfish/v1/EventService")["RegistryPrefixes"]
    tray.request("POST", SYSTEM + RESET, {"ResetType": "ForceOff"})
    entries = tray.get(f"{SYSTEM}/LogServices/EventLog/Entries")["Members"]
    assert [one["MessageId"] for one in entries] == ["OpenBMC.0.4.BIOSBoot", "OpenBMC.0.4.DCPowerOff"]
    assert all("MessageId" not in one for one in tray.get(f"{BMC}/LogServices/EventLog/Entries")["Members"])


# Sensors


def test_there_are_as_many_sensors_as_machine_a_tron_has(tray: Client) -> None:
    assert Counter(uri.split("/")[4] for uri in tray.bmc.tree.readings) == SENSORS
    assert sum(SENSORS.values()) == 120
    report = tray.get("/redfish/v1/TelemetryService/MetricReports/PlatformEnvironmentMetrics")
    assert len(report["MetricValues"]) == 120


def test_every_reading_is_well_within_its_thresholds(tray: Client) -> None:
    for _ in range(20):
        for uri in tray.bmc.tree.readings:
            sensor = tray.get(uri)
            assert sensor["Status"] == {"State": "Enabled", "Health": "OK"}, (uri, sensor["Reading"])
            assert sensor["PhysicalContext"]
        tray.advance(300)


def test_a_gpu_draws_nothing_while_the_tray_is_off(tray: Client) -> None:
    power, heat = f"{CHASSIS}/HGX_GPU_0/Sensors/Power_1", f"{CHASSIS}/HGX_GPU_0/Sensors/Temp_1"
    readings = []
    for _ in range(60):
        readings.append(tray.get(power)["Reading"])
        tray.advance(60)
    assert min(readings) >= 140 < max(readings) - min(readings)
    warm = tray.get(heat)["Reading"]
    tray.request("POST", SYSTEM + RESET, {"ResetType": "ForceOff"})
    tray.advance(3600)
    assert (tray.get(power)["Reading"], tray.get(power)["Status"]["State"]) == (None, "UnavailableOffline")
    assert 34 <= tray.get(heat)["Reading"] < warm
    metrics = tray.get(f"{BASEBOARD}/Processors/GPU_0/ProcessorMetrics")
    assert metrics["CoreVoltage"]["Reading"] is None


# The rack, the DPUs, and what is the tray's own


def built(what: config.FleetConfig) -> list[Bmc]:
    """The BMCs of a fleet."""
    fleet = Fleet()
    for _ in Builder(what, Hasher(), 0.0).populate(fleet):
        pass
    return list(fleet)


def client_of(bmc: Bmc) -> Client:
    """A client of a BMC of a fleet."""
    client = Client(bmc, ManualClock())
    client.authorization = basic(bmc.tree.head.accounts[0].user, PASSWORD)
    return client


@pytest.fixture(scope="module")
def racks() -> list[Bmc]:
    """All BMCs of two racks."""
    return built(config.default(0, host_password=PASSWORD, dpu_password=PASSWORD, racks=2))


def test_trays_say_where_in_their_rack_they_are(racks: list[Bmc]) -> None:
    seen: dict[str, list[tuple[int, int]]] = {}
    chassis_serials: dict[str, set[str]] = {}
    for bmc in racks:
        if bmc.identity.kind is not Kind.HOST:
            continue
        tray = client_of(bmc)
        cartridges = [tray.get(f"{CHASSIS}/CBC_{n}") for n in range(4)]
        facts = cartridges[0]["Oem"]["Nvidia"]
        assert all(one["Oem"]["Nvidia"] == facts for one in cartridges)
        assert (facts["RevisionId"], facts["TopologyId"]) == (2, 128)
        place = tray.get(f"{CHASSIS}/Chassis_0")["Location"]["Placement"]
        assert place["RackOffset"] == facts["ChassisPhysicalSlotNumber"]
        topology = tray.get(f"{BASEBOARD}/Processors/GPU_3")["Oem"]["Nvidia"]["MNNVLinkTopology"]
        assert topology["TraySlotNumber"] == facts["ChassisPhysicalSlotNumber"]
        assert topology["TraySlotIndex"] == facts["ComputeTrayIndex"]
        seen.setdefault(place["Rack"], []).append((facts["ChassisPhysicalSlotNumber"], facts["ComputeTrayIndex"]))
        serials = {one["SerialNumber"] for one in cartridges} | {topology["ChassisSerialNumber"]}
        chassis_serials.setdefault(place["Rack"], set()).update(serials)
    slots = [*range(11, 19), *range(28, 38)]
    assert seen == {rack: list(zip(slots, range(18), strict=True)) for rack in ("rack-1", "rack-2")}
    ((one,), (other,)) = chassis_serials.values()
    assert one != other


def test_a_tray_that_stands_free_has_no_location(tray: Client) -> None:
    assert "Location" not in tray.get(f"{CHASSIS}/Chassis_0")
    cartridge = tray.get(f"{CHASSIS}/CBC_0")["Oem"]["Nvidia"]
    assert (cartridge["ChassisPhysicalSlotNumber"], cartridge["ComputeTrayIndex"]) == (24, 14)


def test_cards_are_the_dpus_that_are_in_the_tray(racks: list[Bmc]) -> None:
    host = next(bmc for bmc in racks if bmc.identity.kind is Kind.HOST)
    tray = client_of(host)
    assert len(host.dpus) == 2
    for slot, dpu in enumerate(map(client_of, host.dpus), 1):
        card = f"Riser_Slot{slot}_BlueField_3_Card"
        adapter = f"{CHASSIS}/{card}/NetworkAdapters/{card}"
        seen, own = tray.get(adapter), dpu.get("/redfish/v1/Systems/Bluefield")
        assert seen["SerialNumber"] == own["SerialNumber"] + " " * 17
        assert seen["PartNumber"] == own["PartNumber"] == "900-9D3B6-00CN-PA0"
        version = dpu.get("/redfish/v1/UpdateService/FirmwareInventory/DPU_NIC")["Version"]
        assert seen["Controllers"][0]["FirmwarePackageVersion"] == version == "32.47.1026"
        function = tray.get(f"{adapter}/NetworkDeviceFunctions/0")["Ethernet"]
        inside = f"{CHASSIS}/Card1/NetworkAdapters/NvidiaNetworkAdapter/NetworkDeviceFunctions/eth0f0"
        assert function["MACAddress"] == dpu.get(inside)["Ethernet"]["MACAddress"]
        digits = function["MACAddress"].replace(":", "")
        option = tray.get(f"{SYSTEM}/BootOptions/Boot000{slot - 1}")
        assert option["DisplayName"] == f"UEFI HTTPv4 (MAC:{digits})"


def test_dpus_in_nic_mode_are_the_same_cards() -> None:
    text = f"""
        dpu_bmc_password = "{PASSWORD}"
        [machines.tray]
        hw_type = "{GB200}"
        host_count = 1
        dpu_per_host_count = 2
        dpus_in_nic_mode = true
    """
    (_, *dpus) = sorted(built(config.parse(text, "fleet")), key=lambda bmc: bmc.identity.kind is Kind.DPU)
    for dpu in map(client_of, dpus):
        assert dpu.get("/redfish/v1/Systems/Bluefield/Bios")["Attributes"]["NicMode"] == "NicMode"
        assert dpu.get("/redfish/v1/Systems/Bluefield")["PartNumber"] == "900-9D3B6-00CN-PA0"


NAMES = ("MACAddress", "PermanentMACAddress", "SerialNumber", "TraySerialNumber", "UUID", "IBGUID")


def numbers(value: Any) -> Iterator[str]:
    """All that names one thing of its kind in the world."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in NAMES and item:
                yield item.strip()
            else:
                yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)


def test_two_trays_have_no_number_in_common_but_that_of_their_rack(racks: list[Bmc]) -> None:
    one, other = [bmc for bmc in racks if bmc.identity.kind is Kind.HOST][:2]
    assert one.identity.place is not None
    ours, theirs = (set(numbers(list(resources(client_of(bmc)).values()))) for bmc in (one, other))
    assert len(ours) > 50
    assert ours & theirs == {one.identity.place.serial}


def test_every_part_of_a_tray_has_its_own_number(tray: Client) -> None:
    """But the GPUs of one module, which is the part, and what is in the rack."""
    seen = Counter(
        one["SerialNumber"] for one in members(tray, CHASSIS) if "SerialNumber" in one and "CBC" not in one["Id"]
    )
    shared = {serial for serial, times in seen.items() if times > 1}
    modules = [tray.get(f"{CHASSIS}/HGX_ProcessorModule_{n}")["SerialNumber"] for n in range(2)]
    assert shared == set(modules)
    assert [tray.get(f"{CHASSIS}/HGX_GPU_{n}")["SerialNumber"] for n in range(4)] == [
        modules[0], modules[0], modules[1], modules[1],
    ]  # fmt: skip


def test_the_chassis_of_the_baseboard_is_there(tray: Client) -> None:
    """machine-a-tron only links to it."""
    (link,) = tray.get(BASEBOARD)["Links"]["Chassis"]
    chassis = tray.get(link["@odata.id"])
    assert (chassis["Id"], chassis["Links"]["ComputerSystems"]) == ("HGX_Chassis_0", [{"@odata.id": BASEBOARD}])
