"""Devices as machine-a-tron's status has them: its fields, words and omissions, for each kind of device."""

import re
from copy import copy
from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.fleet.devices import Describer, guid, inventory_fact, mat_id
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.identity import Kind
from bmcsim.machine.power import Event, Power
from tests.conftest import make_client
from tests.leasing import BY_RELAY, DhcpServer, Site

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
ALL = frozenset({"machine", "dpu", "switch", "power_shelf"})
MACHINES = frozenset({"machine", "dpu"})

# The table of section 3 of the facts about the incumbent: field -> what it is, and for which kinds it can be there.
# 'always': of each device of these kinds.
TABLE: dict[str, tuple[Any, frozenset[str], str]] = {
    "mat_id": (UUID, ALL, "always"),
    "device_kind": (re.compile("machine|dpu|switch|power_shelf"), ALL, "always"),
    "device_id": (re.compile(".+"), ALL, "always"),
    "machine_id": (re.compile(".+"), ALL, "once NICo's id is known"),
    "hardware_type": (re.compile("[a-z0-9_]+"), ALL - {"dpu"}, "always"),
    "mat_state": (re.compile("[A-Za-z/]+"), ALL, "always"),
    "api_state": (re.compile("Unknown"), ALL, "always"),
    "power_state": (re.compile("On|Off|PoweringOn|PoweringOff"), ALL, "always"),
    "machine_ip": (IPV4, MACHINES, "when leased"),
    "nvos_ip": (IPV4, frozenset({"switch"}), "with NVOS up"),
    "infiniband_ports": (list, frozenset({"machine"}), "where the hardware has them"),
    "bmc": (dict, ALL, "always"),
    "dpus": (list, ALL, "always"),
}
ORDER = list(TABLE)
FLEET = (
    BY_RELAY
    + """
[machines.bare]
hw_type = "dell_poweredge_r750"
host_count = 1
dpu_per_host_count = 0
[machines.full]
hw_type = "dell_poweredge_r750"
host_count = 1
dpu_per_host_count = 2
[machines.nic]
hw_type = "dell_poweredge_r750"
host_count = 1
dpu_per_host_count = 1
dpus_in_nic_mode = true
[machines.shelf]
hw_type = "delta_power_shelf"
host_count = 1
[machines.switch]
hw_type = "nvidia_switch_nd5200_ld"
host_count = 1
"""
)


def shown(describer: Describer, bmc: Bmc) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(msgspec.json.encode(describer.status(bmc)))
    return found


def check(device: dict[str, Any]) -> None:
    """Hold a device against the table."""
    kind = device["device_kind"]
    assert list(device) == [name for name in ORDER if name in device], "fields that the table does not have, or order"
    for name, (what, kinds, presence) in TABLE.items():
        if name not in device:
            assert presence != "always" or kind not in kinds, name
            continue
        assert kind in kinds, name
        value = device[name]
        if isinstance(what, re.Pattern):
            assert isinstance(value, str) and what.fullmatch(value), (name, value)
        else:
            assert isinstance(value, what), name
    bmc = device["bmc"]
    assert bmc.keys() <= {"ip", "redfish"}, "no IPMI and no SSH is simulated"
    assert "ip" not in bmc or IPV4.fullmatch(bmc["ip"])
    assert bmc["redfish"] == {"reachable_port": 443, "listen_port": 1266}
    for dpu in device["dpus"]:
        assert kind == "machine"
        assert dpu["device_kind"] == "dpu"
        check(dpu)


@pytest.fixture
def leased() -> Site:
    return Site(FLEET, DhcpServer([f"10.9.0.{number}" for number in range(10, 60)]))


def tops(site: Site) -> list[Bmc]:
    return [bmc for bmc in site.fleet if bmc.identity.kind is not Kind.DPU]


NIC = frozenset({"nic"})


def test_every_field_is_as_the_table_says_before_and_after_the_leases(leased: Site) -> None:
    describer = Describer(1266, NIC)
    before = {bmc.id: shown(describer, bmc) for bmc in tops(leased)}
    assert {one["mat_state"] for one in before.values()} == {"BmcInit"}
    assert all("ip" not in one["bmc"] and "machine_ip" not in one for one in before.values())
    leased.advance(60)
    after = {bmc.id: shown(describer, bmc) for bmc in tops(leased)}
    for device in (*before.values(), *after.values()):
        check(device)
    kinds = {id_: device["device_kind"] for id_, device in after.items()}
    assert kinds == {
        "bare-0": "machine", "full-0": "machine", "nic-0": "machine", "shelf-0": "power_shelf", "switch-0": "switch",
    }  # fmt: skip
    states = {id_: device["mat_state"] for id_, device in after.items()}
    assert states == {
        "bare-0": "MachineUp", "full-0": "MachineUp", "nic-0": "MachineUp", "shelf-0": "BmcOnly/DeviceDown",
        "switch-0": "DeviceUp",
    }  # fmt: skip
    assert [one["mat_state"] for one in after["full-0"]["dpus"]] == ["MachineUp"] * 2
    assert [one["mat_state"] for one in after["nic-0"]["dpus"]] == ["BmcOnly/MachineUp"]
    # Whose systems have leases of their own.
    assert "machine_ip" in after["bare-0"]
    assert "machine_ip" not in after["full-0"]
    assert all("machine_ip" in one for one in after["full-0"]["dpus"])
    assert "nvos_ip" in after["switch-0"]
    assert after["bare-0"]["hardware_type"] == "dell_poweredge_r750"
    assert after["bare-0"]["device_id"] == after["bare-0"]["mat_id"] == mat_id(leased.bmc("bare-0").identity)


def test_mat_ids_are_the_same_in_every_process_and_differ_between_devices(leased: Site) -> None:
    again = Site(FLEET, DhcpServer([]))
    ids = [mat_id(bmc.identity) for bmc in leased.fleet]
    assert ids == [mat_id(bmc.identity) for bmc in again.fleet]
    assert len(set(ids)) == len(ids)


def test_a_switch_that_goes_off_has_no_nvos_address(leased: Site) -> None:
    leased.advance(60)
    leased.power("switch-0", Event.FORCE_OFF)
    off = shown(Describer(1266), leased.bmc("switch-0"))
    assert (off["mat_state"], off["power_state"]) == ("DeviceDown", "Off")
    assert "nvos_ip" not in off
    leased.power("switch-0", Event.ON)
    assert shown(Describer(1266), leased.bmc("switch-0"))["mat_state"] == "NvosInit"


def test_a_machine_without_its_own_lease_waits_for_it(leased: Site) -> None:
    leased.advance(60)
    bmc = leased.bmc("bare-0")
    bmc.restore(msgspec.structs.replace(bmc.state, leases={}))
    assert shown(Describer(1266), bmc)["mat_state"] == "Init"


STATES = {
    Power.OFF: ("MachineDown", "BmcOnly/MachineDown", "DeviceDown", "BmcOnly/DeviceDown", "Off"),
    Power.CYCLING: ("MachineDown", "BmcOnly/MachineDown", "DeviceDown", "BmcOnly/DeviceDown", "Off"),
    Power.POWERING_ON: ("PoweringOn", "BmcOnly/MachineUp", "NvosInit", "BmcOnly/DeviceUp", "PoweringOn"),
    Power.BOOTING: ("PoweringOn", "BmcOnly/MachineUp", "NvosInit", "BmcOnly/DeviceUp", "On"),
    Power.RUNNING: ("MachineUp", "BmcOnly/MachineUp", "DeviceUp", "BmcOnly/DeviceUp", "On"),
    Power.RESTARTING: ("MachineUp", "BmcOnly/MachineUp", "DeviceUp", "BmcOnly/DeviceUp", "On"),
    Power.POWERING_OFF: ("PoweringOff", "BmcOnly/MachineUp", "DeviceUp", "BmcOnly/DeviceUp", "PoweringOff"),
}


@pytest.mark.parametrize("power", list(Power))
def test_states_in_machine_a_trons_words(power: Power) -> None:
    """docs/status.md has the same table."""
    host, dpu = make_client("dell_poweredge_r750").bmc, make_client("bluefield3").bmc
    switch, shelf = make_client("nvidia_switch_nd5200_ld").bmc, make_client("delta_power_shelf").bmc
    plain, nic = Describer(1266), Describer(1266, frozenset({""}))
    for bmc in (host, dpu, switch, shelf):
        bmc.restore(msgspec.structs.replace(bmc.state, power=power))
    machine, in_nic_mode, of_switch, of_shelf, state = STATES[power]
    assert [plain.mat_state(bmc) for bmc in (host, dpu, switch, shelf)] == [machine, machine, of_switch, of_shelf]
    assert (nic.mat_state(host), nic.mat_state(dpu)) == (machine, in_nic_mode)
    assert shown(plain, host)["power_state"] == state


@pytest.mark.parametrize(("service", "state"), [(Service.RESETTING, "MachineUp"), (Service.UNPOWERED, "BmcInit")])
def test_a_reset_of_the_bmc_is_none_of_the_machine(service: Service, state: str) -> None:
    bmc = make_client("dell_poweredge_r750").bmc
    bmc.restore(msgspec.structs.replace(bmc.state, service=service))
    assert Describer(1266).mat_state(bmc) == state


def test_an_id_of_nicos_is_shown_once_it_is_known() -> None:
    bmc, ids = make_client("dell_poweredge_r750").bmc, dict[str, str]()
    describer = Describer(1266, machine_ids=ids)
    assert "machine_id" not in shown(describer, bmc)
    ids["bmc-0"] = "fm100ht0"
    device = shown(describer, bmc)
    check(device)
    assert (device["machine_id"], device["device_id"]) == ("fm100ht0", "fm100ht0")


def test_infiniband_ports_are_those_of_the_profile() -> None:
    bmc = make_client("dell_poweredge_r750").bmc
    bmc.tree = copy(bmc.tree)
    bmc.tree.head = msgspec.structs.replace(bmc.tree.head, infiniband=[9, 8])
    device = shown(Describer(1266), bmc)
    check(device)
    assert device["infiniband_ports"] == [
        {"guid": guid(bmc.identity.hw_base + 8), "state": "active"},
        {"guid": guid(bmc.identity.hw_base + 9), "state": "active"},
    ]
    fact = inventory_fact(Describer(1266).status(bmc))
    assert fact is not None and fact[3] == f"{guid(bmc.identity.hw_base + 8)}=active"


def test_the_guid_of_a_port_is_made_of_its_mac() -> None:
    assert guid(0x946DAE2AC102) == "946dae03002ac102"


def test_only_machines_are_inventory() -> None:
    assert inventory_fact(Describer(1266).status(make_client("nvidia_switch_nd5200_ld").bmc)) is None
    assert inventory_fact(Describer(1266).status(make_client("bluefield3").bmc)) is None
