"""Power shelves and NVLink switches: rows N27, C26 and N38 of the bug reports, and how NICo explores them."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.fleet import config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.identity import Place
from tests.clients.test_nico_exploration import EXPAND_ALL, NO_LINKS, NOTHING, Explorer
from tests.conftest import PASSWORD, Client, basic, make_client, with_facts, with_faults
from tests.reports.test_k6_payload import ABSENT, ZEROS, differences, matching, resources

SWITCH, LITEON, DELTA = "nvidia_switch_nd5200_ld", "liteon_power_shelf", "delta_power_shelf"
SYSTEMS, ROOT = "/redfish/v1/Systems", "/redfish/v1"
SHELF = "/redfish/v1/Chassis/powershelf"
SUPPLIES = {
    LITEON: f"{SHELF}/PowerSubsystem/PowerSupplies",
    DELTA: "/redfish/v1/Chassis/chassis/PowerSubsystem/PowerSupplies",
}
VARIANTS = [(SWITCH, ""), (LITEON, ""), (LITEON, "vr"), (DELTA, ""), (DELTA, "spaces")]
NO_MAC = "00:00:00:00:00:00"

every_profile = pytest.mark.parametrize("profile", [SWITCH, LITEON, DELTA])
every_variant = pytest.mark.parametrize(("profile", "variant"), VARIANTS)
every_shelf = pytest.mark.parametrize("profile", [LITEON, DELTA])


def switch_on(client: Client) -> None:
    """A shelf has no action for it: what manages the rack does it."""
    client.driver.execute(client.bmc, client.bmc.reset_system(power.Event.ON, client.clock.now()))
    client.advance(60)


def fleet_of(text: str) -> Fleet:
    """A fleet from a configuration."""
    fleet = Fleet()
    for _ in Builder(config.parse(text, "fleet"), Hasher(), 0.0).populate(fleet):
        pass
    return fleet


def client_of(bmc: Bmc, password: str = PASSWORD) -> Client:
    """A client that is root."""
    client = Client(bmc, ManualClock())
    client.authorization = basic("root", password)
    return client


def found(value: Any, *names: str) -> Iterator[Any]:
    """What properties of any of these names have at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from found(item, *names)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in names:
                yield item
            else:
                yield from found(item, *names)


# N27


def test_n27_a_shelf_of_the_first_generation_does_not_say_who_made_it() -> None:
    root = make_client(LITEON).get(ROOT)
    assert root.keys().isdisjoint({"Vendor", "Product"})
    assert (root["RedfishVersion"], root["Systems"]) == ("1.9.0", {"@odata.id": SYSTEMS})


def test_n27_a_later_one_does_and_its_root_has_no_link_to_systems_that_are_there() -> None:
    client = make_client(LITEON, variant="vr")
    root = client.get(ROOT)
    assert (root["Vendor"], root["RedfishVersion"]) == ("LITE-ON TECHNOLOGY CORP.", "1.17.0")
    assert "Systems" not in root
    assert client.get(SYSTEMS)["Members"] == [{"@odata.id": f"{SYSTEMS}/system"}]


def test_n27_both_generations_have_the_same_inventory() -> None:
    first, later = (resources(make_client(LITEON, variant=variant)) for variant in ("", "vr"))
    assert first.keys() == later.keys()
    assert {uri for uri in first if first[uri].get("Id") != later[uri].get("Id")} == set()
    assert (
        Explorer(make_client(LITEON)).inventory.keys() == Explorer(make_client(LITEON, variant="vr")).inventory.keys()
    )


def test_n27_a_fleet_file_says_which_generation() -> None:
    text = f'host_bmc_password = "x"\n[machines.a]\nhw_type = "{LITEON}"\nhost_count = 1\n'
    (bmc,) = fleet_of(text + 'variant = "vr"\n')
    assert "Vendor" in client_of(bmc, "factory_password").get(ROOT)
    (bmc,) = fleet_of(text)
    assert "Vendor" not in client_of(bmc, "factory_password").get(ROOT)
    with pytest.raises(ConfigError, match=r"machines\.a\.variant: liteon_power_shelf has no variant x; there are vr"):
        fleet_of(text + 'variant = "x"\n')


# C26


@every_variant
def test_c26_by_default_dates_are_dates_and_names_and_uuids_are_there(profile: str, variant: str) -> None:
    for uri, resource in resources(make_client(profile, variant=variant)).items():
        assert resource["Name"], uri
        for key, value in resource.items():
            if key == "UUID":
                assert re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", value), uri
            assert value not in (ZEROS, ""), (uri, key)


@pytest.mark.parametrize(
    ("profile", "preset", "where", "change"),
    [
        (SWITCH, "zero_reset_times", r"/redfish/v1/(?:Managers|Systems)/[^/]+", {"LastResetTime": ZEROS}),
        (SWITCH, "no_chassis_names", r"/redfish/v1/Chassis/[^/]+", {"Name": ABSENT}),
        (LITEON, "no_chassis_names", r"/redfish/v1/Chassis/[^/]+", {"Name": ABSENT}),
        (DELTA, "no_update_service_name", r"/redfish/v1/UpdateService", {"Name": ABSENT}),
        (LITEON, "no_systems_link", r"/redfish/v1", {"Systems": ABSENT}),
        (
            LITEON,
            "liteon_power_state",
            rf"{SUPPLIES[LITEON]}/\d",
            {"@odata.type": "#PowerSupply.v1_5_0.PowerSupply"},
        ),
    ],
)
def test_c26_quirk_each_is_one_switch(profile: str, preset: str, where: str, change: dict[str, str]) -> None:
    client = make_client(profile)
    uris = matching(client, where)
    assert uris
    assert differences(client, preset) == dict.fromkeys(uris, change)


# N38


def test_n38_a_switch_has_two_interfaces_that_lease_one_of_its_bmc_and_one_of_its_operating_system() -> None:
    client = make_client(SWITCH)
    of_bmc = client.get("/redfish/v1/Managers/BMC_0/EthernetInterfaces/eth0")
    of_system = client.get(f"{SYSTEMS}/System_0/EthernetInterfaces/eth0")
    assert of_bmc["MACAddress"] == "02:00:00:00:00:07"
    assert of_system["MACAddress"] == "02:00:00:00:00:08"
    assert client.bmc.identity.serial == "MT020000000008"
    serials = {
        one: client.get(f"/redfish/v1/Chassis/{one}")["SerialNumber"] for one in ("BMC_eeprom", "MGX_NVSwitch_1")
    }
    assert serials == {"BMC_eeprom": "MT020000000008", "MGX_NVSwitch_1": "MT020000000008"}


def test_n38_both_macs_are_those_of_the_fleet() -> None:
    fleet = fleet_of(f'host_bmc_password = "{PASSWORD}"\n[machines.s]\nhw_type = "{SWITCH}"\nhost_count = 2\n')
    macs = [mac for bmc in fleet for mac in found(list(resources(client_of(bmc)).values()), "MACAddress")]
    assert len(macs) == 8
    assert len(set(macs)) == 8
    assert {int(mac.replace(":", ""), 16) for mac in macs} >= {
        number for bmc in fleet for number in (bmc.identity.bmc_mac, bmc.identity.oob_mac)
    }


@every_profile
def test_no_two_machines_have_a_serial_number_a_mac_or_a_uuid_in_common(profile: str) -> None:
    password = "factory_password" if profile == LITEON else PASSWORD
    fleet = fleet_of(f'host_bmc_password = "{PASSWORD}"\n[machines.a]\nhw_type = "{profile}"\nhost_count = 3\n')
    names = ("SerialNumber", "MACAddress", "UUID", "ServiceEntryPointUUID")
    seen: dict[str, str] = {NO_MAC: "nobody's"}
    for bmc in fleet:
        values = set(found(list(resources(client_of(bmc, password)).values()), *names)) - {NO_MAC}
        assert len(values) > 6
        for value in values:
            assert seen.setdefault(value, bmc.id) == bmc.id


# NICo


@every_variant
def test_nico_explores_it_however_it_expands(profile: str, variant: str) -> None:
    plain = Explorer(with_facts(make_client(profile, variant=variant), **NOTHING))
    for others in (NO_LINKS, EXPAND_ALL):
        expanded = Explorer(with_facts(make_client(profile, variant=variant), **others))
        assert expanded.inventory == plain.inventory
        assert expanded.requests < plain.requests
    assert plain.requests <= (46 if profile == SWITCH else 26)


@every_shelf
@pytest.mark.parametrize("presets", [(), ("liteon_power_state",)])
def test_nico_reads_from_the_power_supplies_whether_a_shelf_is_on(profile: str, presets: tuple[str, ...]) -> None:
    client = with_faults(make_client(profile), *presets)
    assert Explorer(client).supplied == [False] * 6
    switch_on(client)
    assert Explorer(client).supplied == [True] * 6
    client.driver.execute(client.bmc, client.bmc.reset_system(power.Event.FORCE_OFF, client.clock.now()))
    assert Explorer(client).supplied == [False] * 6


def test_nico_knows_shelves_by_what_their_chassis_say_and_a_switch_by_its_root() -> None:
    root = make_client(SWITCH).get(ROOT)
    assert (root["Vendor"], root["Product"], root["RedfishVersion"]) == ("NVIDIA", "P3809", "1.17.0")
    for profile, uri, manufacturer in (
        (LITEON, SHELF, "LITE-ON TECHNOLOGY CORP."),
        (DELTA, "/redfish/v1/Chassis/chassis", "DELTA"),
    ):
        assert make_client(profile).get(uri)["Manufacturer"] == manufacturer


@every_profile
def test_nico_finds_the_account_by_its_name(profile: str) -> None:
    client = make_client(profile, password=None)
    client.authorization = basic("root", "factory_password")
    body = {"Password": "another-1"}
    assert client.request("PATCH", "/redfish/v1/AccountService/Accounts/root", body).status in (200, 204)
    client.authorization = basic("root", "another-1")
    assert client.get("/redfish/v1/Managers")["Members@odata.count"] == 1


@every_profile
def test_only_a_switch_wants_its_factory_password_changed(profile: str) -> None:
    client = make_client(profile, password=None)
    client.authorization = basic("root", "factory_password")
    assert client.request("GET", "/redfish/v1/Chassis").status == (403 if profile == SWITCH else 200)


@every_profile
def test_only_a_lite_on_shelf_ignores_the_password_of_the_fleet(profile: str) -> None:
    (bmc,) = fleet_of(f'host_bmc_password = "{PASSWORD}"\n[machines.a]\nhw_type = "{profile}"\nhost_count = 1\n')
    right, wrong = (PASSWORD, "factory_password") if profile != LITEON else ("factory_password", PASSWORD)
    assert client_of(bmc, right).request("GET", "/redfish/v1/Chassis").status == 200
    assert client_of(bmc, wrong).request("GET", "/redfish/v1/Chassis").status == 401


# what they are


@every_variant
def test_every_link_leads_somewhere(profile: str, variant: str) -> None:
    client = make_client(profile, variant=variant)
    for uri, resource in resources(client).items():
        assert resource["@odata.id"].rstrip("/") == uri
        for link in found(resource, "@odata.id"):
            if "#" not in link:
                client.get(link)


@every_profile
def test_power_is_nothing_for_redfish(profile: str) -> None:
    client = make_client(profile)
    for uri in resources(client):
        if uri.rpartition("/")[0] in (SYSTEMS, "/redfish/v1/Chassis"):
            assert "Actions" not in client.get(uri)
    for target in (f"{SYSTEMS}/System_0", f"{SYSTEMS}/system"):
        response = client.request("POST", f"{target}/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"})
        assert response.status == 404


def test_a_delta_shelf_has_no_systems() -> None:
    client = make_client(DELTA)
    assert "Systems" not in client.get(ROOT)
    assert client.request("GET", SYSTEMS).status == 404
    assert client.get("/redfish/v1/Managers/SMC")["Links"]["ManagerForServers"] == []


def test_the_ids_of_deltas_power_supplies_have_a_space_where_one_wants_the_hardware_as_it_is() -> None:
    legal, real = make_client(DELTA), make_client(DELTA, variant="spaces")
    members = [one["@odata.id"] for one in legal.get(SUPPLIES[DELTA])["Members"]]
    assert all(re.fullmatch(r"[A-Za-z0-9/_]+", uri) for uri in members)
    members = [one["@odata.id"] for one in real.get(SUPPLIES[DELTA])["Members"]]
    assert members == [f"{SUPPLIES[DELTA]}/PowerSupplyUnit {n}" for n in range(1, 7)]
    assert [real.get(uri)["Id"] for uri in members] == [uri.rpartition("/")[2] for uri in members]


def test_the_system_of_a_lite_on_shelf_says_next_to_nothing() -> None:
    client = make_client(LITEON)
    system, bios = client.get(f"{SYSTEMS}/system"), client.get(f"{SYSTEMS}/system/Bios")
    assert system.keys().isdisjoint({"PowerState", "Manufacturer", "Model", "SerialNumber"})
    assert system["Links"]["Chassis"] == [{"@odata.id": SHELF}]
    assert "Attributes" not in bios
    interfaces = client.get("/redfish/v1/Managers/bmc/EthernetInterfaces")["Members"]
    assert [one["@odata.id"].rpartition("/")[2] for one in interfaces] == ["can0", "eth0"]


@pytest.mark.parametrize(("profile", "sensors"), [(SWITCH, 5), (LITEON, 50), (DELTA, 0)])
def test_sensors_live_while_there_is_power(profile: str, sensors: int) -> None:
    client = make_client(profile)
    if client.bmc.power.dead:
        switch_on(client)
    uris = list(client.bmc.tree.readings)
    assert len(uris) == sensors
    shown = [client.get(uri) for uri in uris]
    assert all(one["Status"] == {"State": "Enabled", "Health": "OK"} for one in shown)
    client.advance(600)
    assert [one["Reading"] for one in shown] != [client.get(uri)["Reading"] for uri in uris] or not uris
    client.driver.execute(client.bmc, client.bmc.reset_system(power.Event.FORCE_OFF, client.clock.now()))
    off = [client.get(uri)["Status"]["State"] for uri in uris if client.get(uri)["ReadingType"] != "Temperature"]
    assert set(off) <= {"UnavailableOffline"}


def test_a_switch_watches_for_leaks() -> None:
    client = make_client(SWITCH)
    uri = "/redfish/v1/Chassis/MGX_BMC_0/ThermalSubsystem/LeakDetection/LeakDetectors"
    detectors = [client.get(one["@odata.id"]) for one in client.get(uri)["Members"]]
    assert [one["Id"] for one in detectors] == [f"LeakDetector_{n}" for n in range(1, 9)]
    assert {(one["DetectorState"], one["Status"]["Health"]) for one in detectors} == {("OK", "OK")}


@pytest.mark.parametrize(("profile", "chassis"), [(SWITCH, "BMC_eeprom"), (LITEON, "powershelf"), (DELTA, "chassis")])
def test_the_main_chassis_of_a_machine_in_a_rack_says_where_it_is(profile: str, chassis: str) -> None:
    client = make_client(profile)
    assert not [
        uri for uri, one in resources(client).items() if "Location" in one and uri.startswith("/redfish/v1/Chassis/")
    ]
    client.bmc.identity = msgspec.structs.replace(client.bmc.identity, place=Place("rack-1", 19, 0))
    chassis_of = {uri: one for uri, one in resources(client).items() if uri.startswith("/redfish/v1/Chassis/")}
    located = {uri: one["Location"] for uri, one in chassis_of.items() if "Location" in one}
    placement = {"Rack": "rack-1", "RackOffset": 19, "RackOffsetUnits": "EIA_310"}
    assert located == {f"/redfish/v1/Chassis/{chassis}": {"Placement": placement}}
