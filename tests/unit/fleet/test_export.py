"""A fleet in the formats of other tools: each is read with a parser that others use, and has the BMCs of the plan."""

import csv
import io
import json
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest
import yaml

from bmcsim.fleet import export
from bmcsim.fleet.config import FleetConfig, default, parse
from bmcsim.fleet.export import FORMATS, Options, Row, rows
from bmcsim.fleet.identities import plan
from bmcsim.machine.identity import mac_colons
from bmcsim.tree.profile import Profile, load
from bmcsim.tree.source import ProfileError

TEXT = """
host_bmc_password = "Host: #1"
[machines.a-b]
host_count = 2
dpu_per_host_count = 1
rack_id = "R 1"
[machines.plain]
host_count = 1
dpu_per_host_count = 0
[machines.switch]
hw_type = "nvidia_switch_nd5200_ld"
host_count = 1
[machines.shelf]
hw_type = "liteon_power_shelf"
host_count = 1
"""
PLAIN = Options(8443)
FULL = Options(8443, "http", "lab.example", with_passwords=True)


@pytest.fixture(scope="module")
def config() -> FleetConfig:
    return parse(TEXT, "fleet.toml")


@pytest.fixture(scope="module")
def fleet(config: FleetConfig) -> list[Row]:
    return list(rows(config))


def wanted(config: FleetConfig) -> dict[str, str]:
    return {bmc.id: bmc.address for bmc in plan(config)}


def test_rows_are_the_plan(config: FleetConfig, fleet: list[Row]) -> None:
    assert {row.id: row.address for row in fleet} == wanted(config)
    by_id = {row.id: row for row in fleet}
    dpu = by_id["a-b-1-dpu-0"]
    assert (dpu.parent, dpu.rack, dpu.kind, dpu.hardware) == ("a-b-1", "R 1", "dpu", "bluefield3")
    assert (dpu.user, dpu.password) == ("root", "0penBmc")
    assert by_id["a-b-0"].password == "Host: #1"
    assert by_id["shelf-0"].password == "factory_password", "these take no other from the start"
    assert by_id["plain-0"].rack == ""
    plans = {bmc.id: bmc.identity for bmc in plan(config)}
    assert by_id["a-b-0"].boot_macs == (mac_colons(plans["a-b-0"].dpus[0].host_mac).lower(),)
    assert by_id["plain-0"].boot_macs == (mac_colons(plans["plain-0"].host_mac).lower(),)


def test_dpus_of_a_rack_are_in_it() -> None:
    every = list(rows(default(racks=2)))
    assert {row.rack for row in every} == {"rack-1", "rack-2"}
    assert {row.rack for row in every if row.kind == "dpu"} == {"rack-1", "rack-2"}


def test_hosts(config: FleetConfig, fleet: list[Row]) -> None:
    lines = [line.split() for line in FORMATS["hosts"](fleet, FULL).splitlines()]
    assert {names[0]: address for address, *names in lines} == wanted(config)
    assert all(ip_address(line[0]) and line[2] == f"{line[1]}.lab.example" for line in lines)
    assert {len(line.split()) for line in FORMATS["hosts"](fleet, PLAIN).splitlines()} == {2}


def test_ansible(config: FleetConfig, fleet: list[Row]) -> None:
    inventory = yaml.safe_load(FORMATS["ansible"](fleet, FULL))["all"]
    assert {id_: one["baseuri"] for id_, one in inventory["hosts"].items()} == {
        id_: f"{address}:8443" for id_, address in wanted(config).items()
    }
    assert inventory["hosts"]["a-b-0"]["password"] == "Host: #1"
    assert inventory["hosts"]["a-b-0"]["resource_id"] == "System.Embedded.1"
    groups = {name: set(group["hosts"]) for name, group in inventory["children"].items()}
    assert groups["group_a_b"] == groups["rack_R_1"] == {"a-b-0", "a-b-0-dpu-0", "a-b-1", "a-b-1-dpu-0"}
    assert groups["hardware_liteon_power_shelf"] == groups["kind_power_shelf"] == {"shelf-0"}
    assert all(name.isidentifier() for name in groups)
    plain = yaml.safe_load(FORMATS["ansible"](fleet, PLAIN))["all"]["hosts"]
    assert plain["a-b-0-dpu-0"]["password"] == "{{ bmcsim_dpu_password }}"


def test_a_password_is_no_template_for_ansible(fleet: list[Row]) -> None:
    row = next(iter(rows(default(1, 0, host_password="{{ x }}"))))
    inventory = yaml.safe_load(FORMATS["ansible"]([row], FULL))["all"]
    assert inventory["hosts"][row.id]["password"] == "{% raw %}{{ x }}{% endraw %}"


def test_prometheus(config: FleetConfig, fleet: list[Row]) -> None:
    targets = json.loads(FORMATS["prometheus-sd"](fleet, PLAIN))
    assert {one["labels"]["bmc"]: one["targets"] for one in targets} == {
        id_: [f"{address}:8443"] for id_, address in wanted(config).items()
    }
    assert targets[0]["labels"] == {
        "bmc": "a-b-0",
        "group": "a-b",
        "hardware": "dell_poweredge_r750",
        "kind": "host",
        "rack": "R 1",
    }
    assert all(isinstance(value, str) and value for one in targets for value in one["labels"].values())


def test_baremetalhost(config: FleetConfig, fleet: list[Row]) -> None:
    made: list[dict[str, Any]] = list(yaml.safe_load_all(FORMATS["baremetalhost"](fleet, FULL)))
    machines = [one for one in made if one["kind"] == "BareMetalHost"]
    secrets = {one["metadata"]["name"]: one["stringData"] for one in made if one["kind"] == "Secret"}
    assert [one["metadata"]["name"] for one in machines] == ["a-b-0", "a-b-1", "plain-0"]
    for one in machines:
        address = wanted(config)[one["metadata"]["name"]]
        assert one["spec"]["bmc"]["address"] == (
            f"redfish-virtualmedia+http://{address}:8443/redfish/v1/Systems/System.Embedded.1"
        )
        assert secrets[one["spec"]["bmc"]["credentialsName"]] == {"username": "root", "password": "Host: #1"}
        assert one["spec"]["bmc"]["disableCertificateVerification"] is True
        assert len(one["spec"]["bootMACAddress"].split(":")) == 6
    plain = FORMATS["baremetalhost"](fleet, PLAIN)
    assert "Host: #1" not in plain
    assert {one["kind"] for one in yaml.safe_load_all(plain)} == {"BareMetalHost"}


def test_ironic(config: FleetConfig, fleet: list[Row]) -> None:
    nodes = json.loads(FORMATS["ironic"](fleet, FULL))["nodes"]
    assert [node["name"] for node in nodes] == ["a-b-0", "a-b-1", "plain-0"]
    for node in nodes:
        assert node["driver"] == "redfish"
        info = node["driver_info"]
        assert info["redfish_address"] == f"http://{wanted(config)[node['name']]}:8443"
        assert info["redfish_system_id"] == "/redfish/v1/Systems/System.Embedded.1"
        assert info["redfish_password"] == "Host: #1"
        assert len(node["ports"]) == 1
    assert "redfish_password" not in FORMATS["ironic"](fleet, PLAIN)


def test_csv(config: FleetConfig, fleet: list[Row]) -> None:
    table = list(csv.DictReader(io.StringIO(FORMATS["csv"](fleet, FULL))))
    assert {row["id"]: row["address"] for row in table} == wanted(config)
    assert table[0]["password"] == "Host: #1"
    assert table[0]["name"] == "a-b-0.lab.example"
    assert {row["port"] for row in table} == {"8443"}
    plain = next(csv.DictReader(io.StringIO(FORMATS["csv"](fleet, PLAIN))))
    assert "password" not in plain and "name" not in plain


@pytest.mark.parametrize("name", FORMATS)
def test_passwords_are_not_there_unless_asked_for(fleet: list[Row], name: str) -> None:
    text = FORMATS[name](fleet, PLAIN)
    assert not any(password in text for password in ("Host: #1", "0penBmc", "factory_password"))


def test_hardware_that_says_nothing_of_its_dpus_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_dpu(name: str) -> Profile:
        profile = load(name)
        return msgspec.structs.replace(profile, head=msgspec.structs.replace(profile.head, dpu=""))

    monkeypatch.setattr(export, "load", without_dpu)
    with pytest.raises(ProfileError, match="host: the profile dell_poweredge_r750 does not say which DPUs it has"):
        list(rows(default(1, 1)))


@pytest.mark.parametrize("name", FORMATS)
def test_a_bmc_without_an_address_is_only_in_the_table(name: str) -> None:
    text = (
        '[dhcp]\ntype = "pool"\nprefix = "192.0.2.0/29"\nexhaustion = "serve"\n'
        "[machines.a]\nhost_count = 9\ndpu_per_host_count = 0\n"
    )
    assert ("a-8" in FORMATS[name](rows(parse(text, "x")), PLAIN)) == (name == "csv")
