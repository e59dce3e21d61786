from itertools import islice

import pytest

from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico import inventory
from bmcsim.edges.nico.inventory import RackGroup, Record, rack_group, rack_record, system_mac
from bmcsim.fleet.config import FleetConfig, parse
from bmcsim.fleet.identities import BmcPlan, plan
from bmcsim.tree.profile import Account

RACK = '[racks.a]\ntype = "wiwynn_gb200_nvl72"\nids = ["rack-1"]\n'


def record_of(planned: BmcPlan) -> Record | None:
    return inventory.record_of(planned, Account("root", "root", "factory_password"))


def fleet(text: str) -> list[BmcPlan]:
    return list(plan(config(text)))


def config(text: str) -> FleetConfig:
    return parse(text, "f")


def machine(text: str) -> forge.ExpectedMachine:
    record = record_of(fleet(f"[machines.a]\nhost_count = 1\n{text}")[0])
    assert record is not None
    assert isinstance(record.message, forge.ExpectedMachine)
    return record.message


def test_a_host_with_dpus() -> None:
    host, *dpus = fleet("[machines.a]\nhost_count = 1\ndpu_per_host_count = 2")
    assert [record_of(dpu) for dpu in dpus] == [None, None]
    message = machine("dpu_per_host_count = 2")
    assert message == forge.ExpectedMachine(
        bmc_mac_address="02:00:00:00:00:07",
        bmc_username="root",
        bmc_password="factory_password",
        chassis_serial_number="020000000007",
        dpf_enabled=True,
        is_dpf_enabled=True,
    )
    assert not message.HasField("dpu_mode")
    assert system_mac(host.identity) == "02:00:00:00:00:02"


def test_a_host_without_dpus_names_its_card() -> None:
    message = machine("dpu_per_host_count = 0\nrack_id = 'free-7'\ndpf_enabled = false")
    assert (message.dpu_mode, message.rack_id.id) == (forge.DpuMode.NO_DPU, "free-7")
    assert (message.dpf_enabled, message.HasField("is_dpf_enabled"), message.is_dpf_enabled) == (False, True, False)
    (nic,) = message.host_nics
    assert (nic.mac_address, nic.primary) == ("02:00:00:00:00:02", True)
    assert nic.network_segment_type == forge.NetworkSegmentType.HOST_INBAND


def test_a_host_whose_dpus_are_mere_cards_names_them() -> None:
    message = machine("dpu_per_host_count = 2\ndpus_in_nic_mode = true")
    assert message.dpu_mode == forge.DpuMode.NIC_MODE
    assert [(nic.mac_address, nic.primary) for nic in message.host_nics] == [
        ("02:00:00:00:00:02", True),
        ("02:00:00:00:00:05", False),
    ]


def test_a_rack_and_what_is_in_it() -> None:
    found = [record_of(one) for one in fleet(RACK)]
    records = [one for one in found if isinstance(one, Record)]
    by_name = {record.name: record for record in records}
    assert len(records) == 35
    shelf = by_name["rack-7261636b2d31--unit-06-0"].message
    assert isinstance(shelf, forge.ExpectedPowerShelf)
    assert (shelf.rack_id.id, shelf.bmc_retain_credentials) == ("rack-1", True)
    assert shelf.shelf_serial_number == shelf.bmc_mac_address.replace(":", "")
    switch = by_name["rack-7261636b2d31--unit-19-0"].message
    assert isinstance(switch, forge.ExpectedSwitch)
    assert (switch.nvos_username, switch.nvos_password, switch.rack_id.id) == ("admin", "factory_password", "rack-1")
    (nvos,) = switch.nvos_mac_addresses
    assert switch.switch_serial_number == "MT" + nvos.replace(":", "")
    assert nvos != switch.bmc_mac_address
    tray = by_name["rack-7261636b2d31--unit-11-0"].message
    assert isinstance(tray, forge.ExpectedMachine)
    assert tray.rack_id.id == "rack-1"
    (profile,) = {planned.group.rack_profile for planned in fleet(RACK)}
    rack = rack_record("rack-1", profile)
    assert rack.profile == rack.message.rack_profile_id.id == "GB200_NVL72R1_C2G4_WIWYNN"


def test_every_serial_is_declared_once() -> None:
    found = [record_of(one) for one in fleet(f"{RACK}[machines.a]\nhost_count = 20\n")]
    records = [one for one in found if one is not None]
    macs = {record.message.bmc_mac_address for record in records}
    assert len(macs) == len(records) == 55


def test_what_a_rack_group_would_say() -> None:
    group = rack_group("rack-1", "wiwynn_gb200_nvl72")
    assert isinstance(group, RackGroup)
    assert (group.rack_group_id, group.rack_id) == ("group-rack-1", "rack-1")
    assert (group.protocol, group.topology) == ("NVLINK_V5", "gb200_nvl72r1_c2g4")
    seen = {(member.type, member.manufacturer): member.id for member in group.members}
    assert len(group.members) == 35
    assert seen.keys() == {("PowerShelf", "LiteOn"), ("Compute", "WIWYNN"), ("Switch", "NVIDIA")}
    assert [member.id for member in islice(group.members, 1)] == ["rack-1-unit-06"]


@pytest.mark.parametrize("key", ["bmc_password", "nvos_password"])
def test_passwords_are_those_of_the_factory(key: str) -> None:
    text = f'host_bmc_password = "HostSecret-1"\n{RACK}'
    for record in [record_of(one) for one in fleet(text)]:
        if record is not None and key in record.message.DESCRIPTOR.fields_by_name:
            assert getattr(record.message, key) == "factory_password"
