"""Versions of firmware and the inventory that follows them."""

import msgspec
import pytest

from bmcsim.machine import firmware
from bmcsim.machine.actions import Happening
from bmcsim.tree.compile import gets_of
from tests.conftest import Client, tree_of

TREE = tree_of("dell_poweredge_r750")
INVENTORY = "/redfish/v1/UpdateService/FirmwareInventory"
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"


def test_two_items_of_one_component_have_one_version() -> None:
    components = TREE.components
    assert firmware.version(components, {}, "lifecycle") == firmware.version(components, {}, "bmc") == "6.00.30.00"
    assert firmware.version(components, {"bmc": "7"}, "lifecycle") == "7"
    assert firmware.item_id(components, {"uefi": "2"}, "uefi_current") == "Current-159-2__BIOS.Setup.1-1"


def test_the_inventory_keeps_its_order() -> None:
    before = firmware.inventory(TREE.components, {})
    after = firmware.inventory(TREE.components, {"uefi": "2"})
    assert list(after.values()) == list(before.values()) == list(TREE.components)
    assert set(after) - set(before) == {"Installed-159-2__BIOS.Setup.1-1", "Current-159-2__BIOS.Setup.1-1"}


def test_bmcs_of_one_version_share_a_tree_and_untouched_ones_the_profile_s() -> None:
    assert firmware.tree_with(TREE, {}) is TREE
    moved = firmware.tree_with(TREE, {"uefi": "2"})
    assert moved is firmware.tree_with(TREE, {"uefi": "2"}) is not TREE
    assert len(moved.nodes) == len(TREE.nodes)
    assert moved.gets == gets_of(moved.nodes)
    assert moved.nodes[SYSTEM] is TREE.nodes[SYSTEM]
    assert moved.nodes[f"{INVENTORY}/Current-159-2__BIOS.Setup.1-1"] is TREE.software["uefi_current"]
    dpu = tree_of("bluefield3")
    assert firmware.tree_with(dpu, {"bmc": "BF-9"}) is dpu


def test_the_component_at_a_uri() -> None:
    uri = f"{INVENTORY}/Current-159-1.13.2__BIOS.Setup.1-1"
    assert firmware.component_at(TREE, {}, uri) == "uefi"
    assert firmware.component_at(TREE, {"uefi": "2"}, uri) == ""
    assert firmware.component_at(TREE, {}, SYSTEM) == ""
    assert firmware.component_at(TREE, {}, "") == ""


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("bmc", Happening.BMC_RESTARTED),
        ("uefi", Happening.SYSTEM_RESET),
        ("cpld", Happening.SYSTEM_POWERED_ON),
        ("drivers", Happening.SYSTEM_RESET),
    ],
)
def test_a_staged_version_waits_for_what_its_component_needs(name: str, what: Happening) -> None:
    staged = {name: "2", "gone": "3"}
    assert [one for one in Happening if firmware.due(TREE.components, staged, one)] == [what]
    assert firmware.due(TREE.components, staged, what) == {name: "2"}


def test_what_counts_at_once_and_what_waits() -> None:
    changes = {"drivers": "2", "uefi": "3"}
    assert firmware.at_end(TREE.components, changes, on_reset=False) == ({"drivers": "2"}, {"uefi": "3"})
    assert firmware.at_end(TREE.components, changes, on_reset=True) == ({}, changes)
    assert firmware.at_end(TREE.components, {"gone": "1"}, on_reset=False) == ({}, {})


def test_a_version_that_is_the_profile_s_again_is_forgotten() -> None:
    changed = firmware.changed(TREE.components, {"uefi": "2", "gone": "x"}, {"uefi": "1.13.2", "bmc": "7"})
    assert changed == {"bmc": "7", "gone": "x"}


def test_everything_that_shows_a_version_follows_it(host: Client) -> None:
    moment = host.clock.now()
    before = {uri: host.get(uri) for uri in host.bmc.tree.nodes}
    host.bmc.become(
        moment, firmware={"bmc": "9.1", "uefi": "9.2", "nic_slot1": "9.3", "nic_embedded1": "9.4", "psu1": "9.5"}
    )
    manager = host.get("/redfish/v1/Managers/iDRAC.Embedded.1")
    assert manager["FirmwareVersion"] == "9.1"
    bios = host.get(SYSTEM + "/Bios")
    assert (host.get(SYSTEM)["BiosVersion"], bios["Attributes"]["SystemBiosVersion"]) == ("9.2", "9.2")
    adapters = "/redfish/v1/Chassis/System.Embedded.1/NetworkAdapters/"
    for adapter, version in (("NIC.Slot.1", "9.3"), ("NIC.Slot.2", "32.39.2048"), ("NIC.Embedded.1", "9.4")):
        assert host.get(adapters + adapter)["Controllers"][0]["FirmwarePackageVersion"] == version
    supplies = "/redfish/v1/Chassis/System.Embedded.1/PowerSubsystem/PowerSupplies/PSU.Slot."
    assert [host.get(f"{supplies}{n}")["FirmwareVersion"] for n in (1, 2)] == ["9.5", "00.2A.2B"]
    for link in (manager["Links"]["ActiveSoftwareImage"], *manager["Links"]["SoftwareImages"]):
        assert host.get(link["@odata.id"])["Version"] == "9.1"
    assert host.get(bios["Links"]["ActiveSoftwareImage"]["@odata.id"])["Version"] == "9.2"
    members = host.get(INVENTORY)["Members"]
    assert len(members) == host.get(INVENTORY)["Members@odata.count"] == len(before[INVENTORY]["Members"])
    for member in members:
        item = host.get(member["@odata.id"])
        assert item["@odata.id"] == member["@odata.id"]
        assert item["Id"] == member["@odata.id"].rpartition("/")[2]
        assert item["Version"] in item["Id"]


def test_an_item_whose_id_has_changed_is_not_at_its_old_uri(host: Client) -> None:
    old = f"{INVENTORY}/Current-159-1.13.2__BIOS.Setup.1-1"
    etag = host.get(old)["@odata.etag"]
    collection = host.get(INVENTORY)["@odata.etag"]
    host.get(old)
    host.bmc.become(host.clock.now(), firmware={"uefi": "2"})
    assert host.request("GET", old).status == 404
    assert host.get(f"{INVENTORY}/Current-159-2__BIOS.Setup.1-1")["@odata.etag"] != etag
    assert host.get(INVENTORY)["@odata.etag"] != collection
    host.bmc.restore(msgspec.structs.replace(host.bmc.state, firmware={}))
    assert host.get(old)["@odata.etag"] == etag


def test_an_expanded_inventory_has_the_items_as_they_are(host: Client) -> None:
    host.bmc.become(host.clock.now(), firmware={"uefi": "2"})
    expanded = host.get(f"{INVENTORY}?$expand=.")["Members"]
    assert [item["Version"] for item in expanded if item["Name"] == "BIOS"] == ["2", "2"]
    assert all(item == host.get(item["@odata.id"]) for item in expanded)
