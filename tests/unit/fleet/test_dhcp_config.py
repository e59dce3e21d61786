"""The [dhcp] table, and what follows from it."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from bmcsim.fleet.config import FleetConfig, load, parse
from bmcsim.fleet.dhcp_config import ApiConfig, Endpoint, PoolConfig, RelayConfig
from bmcsim.fleet.identities import overlap, plan
from bmcsim.fleet.shards import split
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.dhcp.messages import Port

URL = "carbide_api_url = 'https://api:1079'\n"
RELAYS = "bmc_dhcp_relay_address = '10.1.0.1'\nunderlay_dhcp_relay_address = '10.2.0.1'\n"
GROUP = f"[machines.a]\nhost_count = 2\ndpu_per_host_count = 1\n{RELAYS}"


def relay(**changed: str | None) -> str:
    """The line of a relay; a value of None leaves a key out."""
    keys = {"server_address": "'10.0.0.1:67'", "listen_address": "'0.0.0.0:67'", "advertise_address": "'10.0.0.2'"}
    given = {key: value for key, value in {**keys, **changed}.items() if value is not None}
    return f"dhcp = {{ type = 'udp_relay', {', '.join(f'{key} = {value}' for key, value in given.items())} }}\n"


def config(text: str, **options: bool) -> FleetConfig:
    return parse(text, "f.toml", **options)


def errors(text: str) -> list[str]:
    """What is wrong with a file."""
    with pytest.raises(ConfigError) as caught:
        config(text)
    return str(caught.value).splitlines()


def test_each_type_has_its_own_keys_and_defaults() -> None:
    assert config(GROUP).dhcp == PoolConfig()
    assert config(URL + GROUP).dhcp == ApiConfig()
    assert config(URL + "dhcp = { type = 'api', concurrency = 4, rate = 50 }\n" + GROUP).dhcp == ApiConfig(4, 50.0)
    server, listen = Endpoint("10.0.0.1", 67), Endpoint("0.0.0.0", 67)
    assert config(relay() + GROUP).dhcp == RelayConfig(server, listen, "10.0.0.2")
    assert config(relay(window="7") + GROUP).dhcp == RelayConfig(server, listen, "10.0.0.2", 7)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("dhcp = 5\n", "dhcp: must be a table, not 5"),
        ("dhcp = {}\n", "dhcp.type: is missing; one of pool, udp_relay, api, such as  dhcp = { type = "),
        ("dhcp = { type = 'api', rat = 1 }\n" + URL, "dhcp.rat: is not a known key; did you mean rate?"),
        ("dhcp = { type = 'api', rate = 0 }\n" + URL, "dhcp.rate: must be a number of calls per second, above 0"),
        ("dhcp = { type = 'api', rate = nan }\n" + URL, "dhcp.rate: must be a number of calls per second, above 0"),
        ("dhcp = { type = 'api', concurrency = 0 }\n" + URL, "dhcp.concurrency: must be a whole number from 1 to"),
        ("dhcp = { type = 'api' }\n", "dhcp.type: 'api' needs carbide_api_url"),
        ("dhcp = { type = 'api', prefix = '10.0.0.0/8' }\n" + URL, "dhcp.prefix: is not a known key"),
        (relay(server_address=None), "dhcp.server_address: is missing; write where the DHCP server is, such as"),
        (relay(listen_address=None), "dhcp.listen_address: is missing"),
        (relay(advertise_address=None), "dhcp.advertise_address: is missing"),
        (relay(server_address="'10.0.0.1'"), "dhcp.server_address: must be ADDRESS:PORT such as '10.0.0.5:67'"),
        (relay(server_address="'kea:67'"), "dhcp.server_address: must be ADDRESS:PORT"),
        (relay(server_address="'10.0.0.1:x'"), "dhcp.server_address: must be ADDRESS:PORT"),
        (relay(server_address="'10.0.0.1:65536'"), "dhcp.server_address: must be ADDRESS:PORT"),
        (relay(server_address="'10.0.0.1:0000001234567'"), "dhcp.server_address: must be ADDRESS:PORT"),
        (relay(server_address="'10.0.0.1:0'"), "dhcp.server_address: must have a port that is not 0"),
        (relay(server_address="'0.0.0.0:67'"), "dhcp.server_address: must be a unicast address, which 0.0.0.0 is not"),
        (relay(server_address="'224.0.0.1:67'"), "dhcp.server_address: must be a unicast address"),
        (relay(server_address="'255.255.255.255:67'"), "dhcp.server_address: must be a unicast address"),
        (relay(listen_address="'0.0.0.0:0'"), "dhcp.listen_address: must have a port that is not 0"),
        (relay(listen_address="'239.1.1.1:67'"), "dhcp.listen_address: must be an address of this machine or 0.0.0.0"),
        (relay(listen_address="'255.255.255.255:67'"), "dhcp.listen_address: must be an address of this machine"),
        (relay(advertise_address="'0.0.0.0'"), "dhcp.advertise_address: must be a unicast address of this machine"),
        (relay(advertise_address="'10.0.0.2:67'"), "dhcp.advertise_address: must be an IPv4 address"),
        (relay(window="0"), "dhcp.window: must be a whole number from 1 to 10000"),
        (relay(prefix="'10.0.0.0/8'"), "dhcp.prefix: is not a known key"),
        ("dhcp = { type = 'pool', exhaustion = 'maybe' }\n", "dhcp.exhaustion: must be one of refuse, serve"),
    ],
)
def test_what_is_wrong_is_said_with_key_and_remedy(line: str, said: str) -> None:
    found = errors(line + GROUP)
    assert any(one.startswith(f"f.toml: {said}") for one in found), found
    assert len(found) == 1


def test_nico_has_to_be_told_the_relay_of_every_kind_of_interface() -> None:
    key = "dhcp_relay_address: is missing; NICo finds the network of an interface by it"
    bare = "[machines.a]\nhost_count = 1\ndpu_per_host_count = 1\n"
    assert [one.partition(";")[0] for one in errors(URL + bare)] == [
        f"f.toml: machines.a.{kind}_{key}".partition(";")[0] for kind in ("bmc", "underlay")
    ]
    in_nic_mode = f"{bare}dpus_in_nic_mode = true\nhost_inband_dhcp_relay_address = '10.3.0.1'\n"
    assert len(errors(URL + in_nic_mode)) == 1
    racks = "[racks.lab]\ntype = 'wiwynn_gb200_nvl72'\nids = ['r1']\n"
    assert [one.partition(":")[2].partition(":")[0] for one in errors(URL + racks)] == [
        " racks.lab.bmc_dhcp_relay_address",
        " racks.lab.underlay_dhcp_relay_address",
    ]
    assert config(relay() + bare).warnings == ()


def test_hosts_of_their_own_ask_through_the_underlay_where_nothing_else_is_said() -> None:
    alone = f"[machines.a]\nhost_count = 1\ndpu_per_host_count = 0\n{RELAYS}"
    (warning,) = config(relay() + alone).warnings
    assert warning.startswith("f.toml: machines.a.host_inband_dhcp_relay_address: is missing, so hosts without")
    assert config(relay() + alone + "host_inband_dhcp_relay_address = '10.3.0.1'\n").warnings == ()


def test_leased_addresses_are_not_planned_and_ids_do_not_depend_on_them() -> None:
    planned, leased = list(plan(config(GROUP))), list(plan(config(relay() + GROUP)))
    assert [one.address for one in leased] == [""] * 4
    assert [(one.id, one.identity) for one in leased] == [(one.id, one.identity) for one in planned]


def test_a_pool_that_is_too_small_serves_if_it_is_told_to() -> None:
    small = "dhcp = { type = 'pool', prefix = '10.0.0.0/29', exhaustion = 'serve' }\n"
    machines = GROUP.replace("host_count = 2", "host_count = 4")
    found = config(small + machines)
    assert [one.address for one in plan(found)] == [*[f"10.0.0.{n}" for n in range(2, 7)], "", "", ""]
    assert found.warnings == (
        "f.toml: dhcp.prefix: 10.0.0.0/29 has 5 addresses to give, 8 are needed: a /28 would do; "
        "BMCs beyond it have no address",
    )
    with pytest.raises(ConfigError, match=r"dhcp\.prefix: has to have an address for every BMC if there are shards"):
        split(found, 2)
    assert errors(small.replace("'serve'", "'refuse'") + machines)[0].endswith("a /28 would do")
    assert config(small + GROUP).warnings == ()


def test_a_pool_can_be_had_whatever_the_file_says(tmp_path: Path) -> None:
    many = GROUP.replace("host_count = 2", "host_count = 10000")
    for line in (relay(), URL, URL + "dhcp = { type = 'api' }\n", ""):
        assert config(line + many, pool=True).dhcp == PoolConfig(IPv4Network("127.64.0.0/17"))
    own = "dhcp = { type = 'pool', prefix = '10.0.0.0/16' }\n"
    assert config(own + many, pool=True) == config(own + many)
    file = tmp_path / "f.toml"
    file.write_text(relay() + GROUP)
    assert (load(file).pool, load(file, pool=True).pool) == (None, PoolConfig())


def test_a_fleet_that_leases_is_not_cut_into_shards() -> None:
    with pytest.raises(ConfigError, match=r"dhcp.type: a fleet that leases .* leave --shards and --shard out"):
        split(config(relay() + GROUP), 2)


def test_two_fleets_that_lease_share_no_planned_address() -> None:
    one, other = (parse(relay() + GROUP, name) for name in ("1.toml", "2.toml"))
    text = overlap(one, other)
    assert text is not None
    assert "MACs in common" in text
    assert "dhcp.prefix" not in text


@pytest.mark.parametrize(
    ("facts", "of_machines", "of_dpus"),
    [
        ("dpu_per_host_count = 1", [Port.BMC], [Port.BMC, Port.OOB]),
        ("dpu_per_host_count = 1\ndpus_in_nic_mode = true", [Port.BMC, Port.NIC], [Port.BMC]),
        ("dpu_per_host_count = 0", [Port.BMC, Port.NIC], None),
        ("hw_type = 'nvidia_switch_nd5200_ld'", [Port.BMC, Port.NVOS], None),
        ("hw_type = 'delta_power_shelf'", [Port.BMC], None),
    ],
)
def test_which_interfaces_have_leases_of_their_own(facts: str, of_machines: list[Port], of_dpus: list[Port]) -> None:
    (group,) = config(f"[machines.a]\nhost_count = 1\n{facts}\n").groups
    assert list(group.ports(of_dpus=False)) == of_machines
    assert of_dpus is None or list(group.ports(of_dpus=True)) == of_dpus
