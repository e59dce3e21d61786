"""Figures: those of the measurements that were published, and those of hand-made fleets."""

import json
from ipaddress import ip_network
from pathlib import Path

import pytest

from bmcsim.deploy import sizing
from bmcsim.deploy.networks import smallest_prefix, usable
from bmcsim.deploy.sizing import Demand, demand, size
from bmcsim.deploy.values import derived_profile, rack_machines
from bmcsim.fleet.config import MachineGroup, default
from bmcsim.machine.identity import Kind

BENCHMARKS = Path(__file__).resolve().parents[3] / "docs/benchmarks.json"
KUBEADM = ip_network("10.96.0.0/12")


def hosts(count: int, dpus: int, pods: int = 1) -> Demand:
    return demand([MachineGroup(name="a", hw_type="", kind=Kind.HOST, host_count=count, dpus=dpus)], pods)


def racks(count: int, pods: int = 1) -> Demand:
    return demand(rack_machines("wiwynn_gb200_nvl72", count), pods, count)


def test_4500_hosts_with_two_dpus() -> None:
    need = hosts(4500, 2)
    assert (need.bmcs, need.machines, need.admin, need.underlay) == (13_500, 13_500, 13_500, 9_000)
    found = size(need, KUBEADM)
    assert [(one.name, one.addresses, one.prefix, one.usable) for one in found.networks] == [
        ("simulated-oob", 13_500, 18, 16_382),
        ("simulated-admin", 13_500, 18, 16_382),
        ("simulated-underlay", 9_000, 18, 16_382),
    ]
    assert [(one.name, one.values, one.shipped) for one in found.pools] == [
        ("lo-ip", 13_500, 16_382),
        ("fnn-asn", 9_000, 18_000),
    ]
    assert (found.first.name, found.first.max_bmcs) == ("addresses of [networks.simulated-oob], /18", 5_460 * 3)
    # 13,500 Services at 100 a second.
    assert found.times.services_s >= 135


def test_a_rack_has_71_bmcs_and_250_of_them_need_a_17() -> None:
    one = racks(1)
    assert (one.bmcs, one.machines, one.macs, one.nvos, one.admin, one.records) == (71, 54, 152, 9, 54, 36)
    many = racks(250, pods=10)
    found = size(many, KUBEADM)
    assert many.bmcs == 17_750
    assert (found.networks[0].prefix, found.networks[0].usable) == (17, 32_766)
    assert found.first.max_bmcs == 16_382 // 71 * 71 < 17_750
    assert found.shares[0].bmcs == 1_775
    assert found.times.startup_s == 1_800


@pytest.mark.parametrize(("addresses", "prefix"), [(300, 23), (13_500, 18), (16_382, 18), (16_383, 17), (17_750, 17)])
def test_prefixes_with_one_address_reserved(addresses: int, prefix: int) -> None:
    assert smallest_prefix(addresses) == prefix
    assert usable(prefix) >= addresses


def test_what_is_counted_is_what_a_fleet_has() -> None:
    for fleet in (default(40, 3), default(racks=2)):
        need = demand(fleet.groups, 1)
        assert need.bmcs == fleet.bmc_count
        assert need.macs == sum(group.mac_count for group in fleet.groups)


def test_dpus_in_nic_mode_have_no_network_of_their_own() -> None:
    group = MachineGroup(name="a", hw_type="", kind=Kind.HOST, host_count=10, dpus=2, dpus_in_nic_mode=True)
    need = demand([group], 1)
    assert (need.bmcs, need.admin, need.underlay) == (30, 10, 0)


def test_a_service_cidr_of_256_breaks_first() -> None:
    found = size(hosts(100, 2), ip_network("10.96.0.0/24"))
    assert found.first.of == "cluster" and found.first.max_bmcs < 254
    assert found.service_prefix == 23


def test_100000_bmcs_on_paper() -> None:
    found = size(hosts(33_334, 2), KUBEADM)
    assert found.networks[0].prefix == 15
    assert found.service_prefix == 15


def test_memory_is_no_less_than_was_measured() -> None:
    measured = {one["name"]: one["value"] for one in json.loads(BENCHMARKS.read_text())["runs"]["density"]["measures"]}
    rotated = sizing.BASE_MIB + 13_500 * sizing.KIB_PER_BMC / 1024
    assert rotated >= measured["memory after rotation"]
    assert measured["memory per used, idle TLS connection"] <= sizing.KIB_PER_CONNECTION


def test_the_profile_that_nico_derives() -> None:
    assert derived_profile("wiwynn_gb200_nvl72") == "GB200_NVL72R1_C2G4_WIWYNN"
