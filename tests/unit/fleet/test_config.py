"""The fleet configuration file."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.fleet.config import HARDWARE, MAX_BYTES, FleetConfig, default, load, parse
from bmcsim.fleet.pool import MacPool, MacRanges
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.identity import Kind

POOL = 'dhcp = { type = "pool", prefix = "127.64.0.0/18", reserve_first = 1 }\n'
GROUP = "[machines.a]\nhost_count = 1\n"

TODAY = """
carbide_api_url = "https://nico-api.nico-system.svc.cluster.local:1079"
log_file = "/var/log/mat.log"
log_format = "logfmt"
bmc_mock_port = 1266
mock_bmc_ssh_server = true
persist_dir = "/tmp/machine-a-tron-data"
register_expected_machines = true
host_bmc_password = "HostSecret-1"
dpu_bmc_password = "DpuSecret-1"
api_refresh_interval = "2s"

[dhcp]
type = "pool"
prefix = "10.200.0.0/18"
gateway = "10.200.0.1"
exclude = ["10.200.0.8/29", "10.200.63.254"]

[mac_address_pool]
base = "02:00:01:00:00:00"
host_bits = 16

[hw_mac_address_ranges]
base = "06:01:01:00:00:00"
host_bits = 24
range_host_bits = 8

[ufm_mock]
enabled = true

[ufm_mock.fabric]
name = "a"

[machines.trays]
hw_type = "wiwynn_gb200_nvl"
host_count = 4
dpu_per_host_count = 2
bmc_dhcp_relay_address = "10.200.0.1"
underlay_dhcp_relay_address = "10.104.0.1"
scout_run_interval = "60s"
discovery_retry_interval = "60s"
dpf_enabled = true
rack_id = "rack-7"

[machines.dell-hosts]
hw_type = "dell_poweredge_r750"
host_count = 10
dpu_per_host_count = 2
dpus_in_nic_mode = true
acceleration_factor = 0.05
bmc_dhcp_relay_address = "10.200.0.1"
underlay_dhcp_relay_address = "10.104.0.1"
host_inband_dhcp_relay_address = "10.105.0.1"
host_firmware_versions = { bmc = "7.0", uefi = "2.1" }
dpu_firmware_versions = { bmc = "BF-24.1", bsp = "" }

[machines.dell-hosts.timing_overrides.host]
reboot = "2m"
bmc_reset = "1h 30m"
power_off_force = "100ms"

[machines.dell-hosts.timing_overrides.dpu]
firmware_upgrade = "1.5s"
"""

GONE = """
carbide_api_url = "https://localhost:1079"
interface = "NOTUSED"
tui_enabled = false
use_single_bmc_mock = true
mock_bmc_ssh_port = 2222
use_pxe_api = true
dhcp = { type = "pool", prefix = "10.200.0.0/20" }

[machines.default]
host_count = 3
dpu_per_host_count = 1
vpc_count = 0
subnets_per_vpc = 0
dpu_reboot_delay = 1
host_reboot_delay = 1
oob_dhcp_relay_address = "192.168.192.1"
admin_dhcp_relay_address = "192.168.176.1"
network_virtualization_type = "fnn"
run_interval_working = "1s"

[machines.other]
host_count = 1
vpc_count = 0
"""


def errors(text: str) -> list[str]:
    """The lines of the error; each names the file."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "fleet.toml")
    lines = str(caught.value).splitlines()
    assert all(line.startswith("fleet.toml: ") for line in lines), lines
    return [line.removeprefix("fleet.toml: ") for line in lines]


def error(text: str) -> str:
    (line,) = errors(text)
    return line


def test_a_file_of_today() -> None:
    config = parse(TODAY, "mat.toml")
    dell, trays = config.groups
    assert (dell.name, dell.hw_type, dell.kind, dell.host_count, dell.dpus) == (
        "dell-hosts",
        "dell_poweredge_r750",
        Kind.HOST,
        10,
        2,
    )
    assert dell.dpus_in_nic_mode
    assert dell.acceleration_factor == 0.05
    assert dell.host_timings == {"reboot": 120.0, "bmc_reset": 5400.0, "power_off_force": pytest.approx(0.1)}
    assert dell.dpu_timings == {"firmware_upgrade": 1.5}
    assert dell.host_firmware_versions == {"bmc": "7.0", "uefi": "2.1"}
    assert dell.dpu_firmware_versions == {"bmc": "BF-24.1", "bsp": ""}
    assert dell.bmc_dhcp_relay_address == "10.200.0.1"
    assert dell.underlay_dhcp_relay_address == "10.104.0.1"
    assert dell.host_inband_dhcp_relay_address == "10.105.0.1"
    assert (trays.dpus, trays.rack_id, trays.host_inband_dhcp_relay_address) == (2, "rack-7", None)
    assert config.pool.prefix == IPv4Network("10.200.0.0/18")
    assert (config.pool.reserve_first, config.pool.gateway) == (1, "10.200.0.1")
    assert config.pool.exclude == (IPv4Network("10.200.0.8/29"), IPv4Network("10.200.63.254/32"))
    assert config.mac_pool == MacPool(0x020001000000, 16)
    assert config.hw_ranges == MacRanges(0x060101000000, 24, 8)
    assert (config.host_bmc_password, config.dpu_bmc_password) == ("HostSecret-1", "DpuSecret-1")
    assert config.port == 1266
    assert (config.host_count, config.bmc_count) == (14, 42)
    assert config.warnings == (
        "mat.toml: accepted, but not used by this version: machines.*.scout_run_interval, "
        "machines.*.discovery_retry_interval, log_file, log_format, "
        "mock_bmc_ssh_server, persist_dir, api_refresh_interval, ufm_mock",
    )


def test_a_file_with_keys_that_are_gone() -> None:
    config = parse(GONE, "mat.toml")
    assert config.port == 2000
    assert config.groups[0].bmc_dhcp_relay_address == "192.168.192.1"
    assert config.groups[0].underlay_dhcp_relay_address == "192.168.176.1"
    (warning,) = config.warnings
    assert warning.count("machines.*.vpc_count") == 1
    for key in ("interface", "tui_enabled", "use_single_bmc_mock", "mock_bmc_ssh_port", "use_pxe_api"):
        assert key in warning


def test_the_least_file() -> None:
    config = parse(GROUP, "fleet.toml")
    (group,) = config.groups
    assert (group.hw_type, group.host_count, group.dpus, group.acceleration_factor) == (
        "dell_poweredge_r750",
        1,
        0,
        1.0,
    )
    assert config.pool.prefix == IPv4Network("127.64.0.0/18")
    assert (config.pool.reserve_first, config.pool.gateway, config.pool.exclude) == (1, None, ())
    assert config.mac_pool == MacPool(0x020000000000, 24)
    assert config.hw_ranges == MacRanges(0x060000000000, 32, 8)
    assert (config.port, config.listen, config.admin, config.state_dir, config.time_scale) == (
        1266,
        None,
        None,
        None,
        1.0,
    )
    assert config.host_bmc_password is config.dpu_bmc_password is None
    assert config.warnings == ()


def test_own_table() -> None:
    config = parse(
        '[bmcsim]\nlisten = "0.0.0.0:443"\nadmin = "off"\nstate_dir = "/var/lib/bmcsim"\ntime_scale = 60\n' + GROUP, "f"
    )
    assert (config.listen, config.admin, config.state_dir, config.time_scale) == (
        "0.0.0.0:443",
        "off",
        "/var/lib/bmcsim",
        60.0,
    )


@pytest.mark.parametrize("hw_type", HARDWARE)
def test_every_hardware_type(hw_type: str) -> None:
    known = HARDWARE[hw_type]
    config = parse(f'{GROUP}hw_type = "{hw_type}"', "f")
    assert (config.groups[0].kind, config.groups[0].dpus) == (known.kind, known.dpus or 0)
    if known.dpus is None:
        assert parse(f'{GROUP}hw_type = "{hw_type}"\ndpu_per_host_count = 4', "f").groups[0].dpus == 4
    else:
        assert f"{hw_type} always has {known.dpus}, not 3" in error(
            f'{GROUP}hw_type = "{hw_type}"\ndpu_per_host_count = 3'
        )


def test_a_profile_of_ones_own_is_a_host_with_any_dpus() -> None:
    (group,) = parse(f'{GROUP}hw_type = "./mine/Box.yaml"\ndpu_per_host_count = 3', "f").groups
    assert (group.hw_type, group.kind, group.dpus) == ("./mine/Box.yaml", Kind.HOST, 3)


@pytest.mark.parametrize(
    ("factor", "expected"), [("-1", 0.0), ("-inf", 0.0), ("nan", 0.0), ("0", 0.0), ("2", 2.0), ("0.25", 0.25)]
)
def test_acceleration_factor(factor: str, expected: float) -> None:
    assert parse(f"{GROUP}acceleration_factor = {factor}", "f").groups[0].acceleration_factor == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("5s", 5),
        ("100ms", 0.1),
        ("2m", 120),
        ("1h", 3600),
        ("1h30m", 5400),
        ("1 h 2 m", 3720),
        ("0.5d", 43200),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    (group,) = parse(f'{GROUP}timing_overrides = {{ host = {{ reboot = "{text}" }} }}', "f").groups
    assert group.host_timings == {"reboot": pytest.approx(seconds)}


@pytest.mark.parametrize(
    "value", ['"5"', '"s"', '"-5s"', '"5 seconds"', '"5s x"', '""', "5", "true", '"1e3s"', '"366d"', f'"{"9" * 400}s"']
)
def test_bad_durations(value: str) -> None:
    line = error(f"{GROUP}timing_overrides = {{ host = {{ reboot = {value} }} }}")
    assert line.startswith("machines.a.timing_overrides.host.reboot: must be a ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[machines.rack1]", "machines.rack1.host_count: is missing; write how many machines the group has"),
        (
            "[machines.rack1]\nhost_count = -1",
            "machines.rack1.host_count: must be a whole number from 0 to 1000000, not -1",
        ),
        (
            "[machines.a]\nhost_count = 1000001",
            "machines.a.host_count: must be a whole number from 0 to 1000000, not 1000001",
        ),
        ("[machines.a]\nhost_count = 1.0", "machines.a.host_count: must be a whole number from 0 to 1000000, not 1.0"),
        (
            "[machines.a]\nhost_count = true",
            "machines.a.host_count: must be a whole number from 0 to 1000000, not True",
        ),
        (f"{GROUP}dpu_per_host_count = 9", "machines.a.dpu_per_host_count: must be a whole number from 0 to 8, not 9"),
        (f'{GROUP}dpus_in_nic_mode = "yes"', "machines.a.dpus_in_nic_mode: must be true or false, not 'yes'"),
        (f'{GROUP}acceleration_factor = "fast"', "machines.a.acceleration_factor: must be a number, not 'fast'"),
        (
            f"{GROUP}acceleration_factor = inf",
            "machines.a.acceleration_factor: must be a number from 0 to 1000000, not inf",
        ),
        (
            f"{GROUP}acceleration_factor = 0x{'f' * 300}",
            "machines.a.acceleration_factor: must be a number that a double can hold",
        ),
        (f"{GROUP}rack_id = 7", "machines.a.rack_id: must be a text that is not empty, not 7"),
        (
            f'{GROUP}bmc_dhcp_relay_address = "10.0.0.256"',
            "machines.a.bmc_dhcp_relay_address: must be an IPv4 address such as '10.200.0.1', not '10.0.0.256'",
        ),
        (
            f'{GROUP}bmc_dhcp_relay_address = "10.0.0.1"\noob_dhcp_relay_address = "10.0.0.1"',
            "machines.a.bmc_dhcp_relay_address: is given twice: oob_dhcp_relay_address is its old name; keep one",
        ),
        (
            f"{GROUP}timing_overrides = {{ host = {{ bmc_rest = '5s' }} }}",
            "machines.a.timing_overrides.host.bmc_rest: is not a known key; did you mean bmc_reset?",
        ),
        (
            f"{GROUP}timing_overrides = {{ hsot = {{}} }}",
            "machines.a.timing_overrides.hsot: is not a known key; did you mean host?",
        ),
        (f"{GROUP}timing_overrides = 5", "machines.a.timing_overrides: must be a table, not 5"),
        (
            f"{GROUP}desired_firmware = {{ hsot = {{}} }}",
            "machines.a.desired_firmware.hsot: is not a known key; did you mean host?",
        ),
        (
            f"{GROUP}desired_firmware = {{ dpu = {{ bmc = 'BF 24/10' }} }}",
            "machines.a.desired_firmware.dpu.bmc: must be a version, of letters, digits and . _ + ~ -, not 'BF 24/10'",
        ),
        (f"{GROUP}desired_firmware = {{ host = {{ bmc = 7 }} }}", "machines.a.desired_firmware.host.bmc: must be a ve"),
        (
            f"{GROUP}host_firmware_versions = {{ bmc = '' }}",
            "machines.a.host_firmware_versions.bmc: must be a text that is not empty, not ''",
        ),
        (
            f"{GROUP}hw_type = 'dell_poweredge_r75'",
            "machines.a.hw_type: 'dell_poweredge_r75' is not known; near: dell_poweredge_r750, dell_",
        ),
        ('[machines."a b"]\nhost_count = 1', 'machines."a b": a group\'s name has up to 100 letters'),
        ("[machines.a-0-dpu]\nhost_count = 1", "machines.a-0-dpu: a group's name must not end like the id of a DPU"),
        ("[machines]\na = 3", "machines.a: must be a table, not 3"),
        ("[[machines]]\nhost_count = 3", "machines: must be a table, not [{'host_count': 3}]"),
        ("", "machines: the fleet has no BMC; add a table [machines.NAME] with a host_count"),
        ("[machines]\n[racks]", "machines: the fleet has no BMC; add a table [machines.NAME] with a host_count"),
        (
            "[machines.a]\nhost_count = 0",
            "machines: the fleet has no BMC; add a table [machines.NAME] with a host_count",
        ),
        (f"bmc_mock_port = 65536\n{GROUP}", "bmc_mock_port: must be a whole number from 1 to 65535, not 65536"),
        (
            f"host_bmc_password = ''\n{GROUP}",
            "host_bmc_password: must not be empty; leave it out for the factory password",
        ),
        (f"dpu_bmc_password = 4711\n{GROUP}", "dpu_bmc_password: must be a text in quotes"),
        (
            f"mac_address_pool.base = '02:00:00:00:00'\n{GROUP}",
            "mac_address_pool.base: must be a MAC such as '02:00:00:00:00:00', not '02:00:00:00:00'",
        ),
        (
            f"mac_address_pool.base = '03-00-00-00-00-00'\n{GROUP}",
            "mac_address_pool.base: 03-00-00-00-00-00 is a multicast MAC; its first two digits must be",
        ),
        (
            f"mac_address_pool.host_bits = 48\n{GROUP}",
            "mac_address_pool.host_bits: must be a whole number from 0 to 40, not 48",
        ),
        (
            f"hw_mac_address_ranges = {{ host_bits = 16, range_host_bits = 17 }}\n{GROUP}",
            "hw_mac_address_ranges.range_host_bits: must be a whole number from 5 to 16, not 17",
        ),
        (f"[bmcsim]\nlisten_on = 'x'\n{GROUP}", "bmcsim.listen_on: is not a known key; did you mean listen?"),
        (
            f"[bmcsim]\nzzz = 'x'\n{GROUP}",
            "bmcsim.zzz: is not a known key; known: admin, behaviour, connection_requests, credentials, domain, "
            "durability, event_destinations, faults, idle_close, listen, lockout, preset, progression, ssdp, "
            "state_dir, time_scale, while_resetting",
        ),
        (
            f"[bmcsim]\ntime_scale = 0\n{GROUP}",
            "bmcsim.time_scale: must be a number greater than 0, up to 1000000, not 0",
        ),
        (
            f"[bmcsim]\ntime_scale = nan\n{GROUP}",
            "bmcsim.time_scale: must be a number greater than 0, up to 1000000, not nan",
        ),
        (f"[bmcsim]\ntime_scale = true\n{GROUP}", "bmcsim.time_scale: must be a number, not True"),
        (
            f"[bmcsim]\nevent_destinations = '10.0.0.0/8'\n{GROUP}",
            "bmcsim.event_destinations: must be a list of networks such as ['127.0.0.0/8'], not '10.0.0.0/8'",
        ),
        (
            f"[bmcsim]\nevent_destinations = ['10.0.0.1/8']\n{GROUP}",
            "bmcsim.event_destinations: must be a network such as 10.0.0.0/8 or ::1/128, not '10.0.0.1/8'",
        ),
        (f"[bmcsim]\nadmin = 9090\n{GROUP}", "bmcsim.admin: must be a text that is not empty, not 9090"),
        (f"dhcp = 'pool'\n{GROUP}", "dhcp: must be a table, not 'pool'"),
        (f"dhcp = {{ type = 'pool', prefx = 'x' }}\n{GROUP}", "dhcp.prefx: is not a known key; did you mean prefix?"),
        (
            f"dhcp = {{ type = 'pool', prefix = '10.0.0.0/33' }}\n{GROUP}",
            "dhcp.prefix: must be an IPv4 prefix such as '127.64.0.0/18', not '10.0.0.0/33'",
        ),
        (
            f"dhcp = {{ type = 'pool', prefix = '10.0.0.1/24' }}\n{GROUP}",
            "dhcp.prefix: 10.0.0.1/24 has host bits set; the prefix around it is 10.0.0.0/24",
        ),
        (
            f"dhcp = {{ type = 'pool', prefix = '10.0.0.0/31' }}\n{GROUP}",
            "dhcp.prefix: must be a prefix from /8 to /30, not 10.0.0.0/31",
        ),
        (
            f"dhcp = {{ type = 'pool', prefix = '224.0.0.0/18' }}\n{GROUP}",
            "dhcp.prefix: must be a prefix of unicast addresses, which 224.0.0.0/18 is not",
        ),
        (f"dhcp = {{ type = 'pool', prefix = '2001:db8::/64' }}\n{GROUP}", "dhcp.prefix: must be an IPv4 prefix"),
        (
            f"dhcp = {{ type = 'pool', gateway = '10.0.0.1' }}\n{GROUP}",
            "dhcp.gateway: 10.0.0.1 is not in 127.64.0.0/18; give an address of the prefix",
        ),
        (
            f"dhcp = {{ type = 'pool', exclude = '127.64.0.9' }}\n{GROUP}",
            "dhcp.exclude: must be a list of IPv4 addresses and prefixes",
        ),
        (f"dhcp = {{ type = 'pool', exclude = [9] }}\n{GROUP}", "dhcp.exclude: must be an IPv4 prefix such as"),
        (
            f"dhcp = {{ type = 'pool', exclude = ['10.0.0.9'] }}\n{GROUP}",
            "dhcp.exclude: 10.0.0.9/32 is not in 127.64.0.0/18",
        ),
        (
            f"dhcp = {{ type = 'pool', reserve_first = -1 }}\n{GROUP}",
            "dhcp.reserve_first: must be a whole number from 0 to 16384, not -1",
        ),
        (
            f"dhcp = {{ type = 'pool', reserve_first = 16382 }}\n{GROUP}",
            "dhcp.prefix: 127.64.0.0/18 has 0 addresses to give, 1 are needed: a /17 would do",
        ),
        (f"dhcp = {{ type = 'static' }}\n{GROUP}", "dhcp.type: must be one of pool, udp_relay, api, not 'static'"),
        (
            f"[bmcsim]\nssdp = '{'a' * 70_000}'\n{GROUP}",
            "bmcsim.ssdp: must be one of absent, disabled, enabled, not 'aaaaaaaaaaaa...a",
        ),
        ("a = [1,\n2", "is not TOML: "),
        ("a = 1\nb = \n", "is not TOML: Invalid value (at line 2, column 5)"),
        (f"a = {'[' * 100_000}", "is not TOML that can be read: too deeply nested"),
        (f"a = {'9' * 5000}", "is not TOML: "),
        (f"machines = 0x{'f' * 5000}", "machines: must be a table, not a huge number"),
    ],
)
def test_errors_name_key_and_remedy(text: str, expected: str) -> None:
    line = error(text)
    assert line.startswith(expected), line


def test_desired_versions_keep_their_order() -> None:
    text = "desired_firmware = { host = { uefi = '1.14', bmc = '7.0' }, dpu = { cec = '00.02_n02' } }"
    (group,) = parse(f"{GROUP}{text}", "f").groups
    assert list(group.desired_host_firmware.items()) == [("uefi", "1.14"), ("bmc", "7.0")]
    assert group.desired_dpu_firmware == {"cec": "00.02_n02"}
    (plain,) = parse(GROUP, "f").groups
    assert (plain.desired_host_firmware, plain.desired_dpu_firmware) == ({}, {})


def test_all_errors_are_reported_together() -> None:
    lines = errors("""
        bmc_mock_port = 0
        [bmcsim]
        time_scale = -1
        [machines.a]
        host_count = -1
        [machines.b]
        hw_type = "x"
        [racks.r]
    """)
    assert [line.partition(":")[0] for line in lines] == [
        "machines.a.host_count",
        "machines.b.hw_type",
        "machines.b.host_count",
        "racks.r.type",
        "racks.r.ids",
        "bmc_mock_port",
        "bmcsim.time_scale",
    ]


def test_a_misspelt_key_stands_beside_the_missing_one() -> None:
    assert errors("[machines.a]\nhost_cuont = 5") == [
        "machines.a.host_count: is missing; write how many machines the group has",
        "machines.a.host_cuont: unknown key, ignored; did you mean host_count?",
    ]


def test_unknown_keys_elsewhere_are_warnings() -> None:
    config = parse(
        f'bmc_mock_prt = 1\n"odd\\nkey" = 2\n{GROUP}'
        'run_intervall_idle = "5s"\nhost_firmware_versions = { bcm = "1" }',
        "f",
    )
    assert config.warnings == (
        "f: machines.a.host_firmware_versions.bcm: unknown key, ignored; did you mean bmc?",
        "f: machines.a.run_intervall_idle: unknown key, ignored; did you mean run_interval_idle?",
        "f: bmc_mock_prt: unknown key, ignored; did you mean bmc_mock_port?",
        'f: "odd\\nkey": unknown key, ignored',
    )
    assert config.groups[0].host_firmware_versions == {}


def test_a_base_with_host_bits_counts_as_its_block() -> None:
    config = parse(f"mac_address_pool.base = '02:00:00:05:00:00'\n{GROUP}", "f")
    assert config.mac_pool == MacPool(0x020000000000, 24)
    assert config.warnings == (
        "f: mac_address_pool.base: has bits set among the host bits, and counts as 02:00:00:00:00:00 with 24 host bits",
    )


def test_defaults_without_a_file() -> None:
    config = default()
    assert config.bmc_count == 13_500
    assert config.pool.prefix == IPv4Network("127.64.0.0/18")
    assert (config.groups[0].name, config.groups[0].dpus, config.port, config.warnings) == ("host", 2, 1266, ())
    assert default(hosts=2, profile="nvidia_dgx_h100").groups[0].dpus == 1
    assert default(hosts=2, dpus=0).groups[0].dpus == 0
    with_passwords = default(host_password="a", dpu_password="b")
    assert (with_passwords.host_bmc_password, with_passwords.dpu_bmc_password) == ("a", "b")


@pytest.mark.parametrize(
    ("hosts", "length"), [(5460, 18), (5461, 17), (10_921, 17), (10_922, 16), (100_000, 13), (1_000_000, 10)]
)
def test_the_default_pool_widens_no_more_than_needed(hosts: int, length: int) -> None:
    assert default(hosts).pool.prefix == IPv4Network(f"127.64.0.0/{length}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hosts": -1}, "the default fleet: machines.host.host_count: must be"),
        ({"hosts": 0}, "the default fleet: machines: the fleet has no BMC"),
        ({"dpus": 9}, "the default fleet: machines.host.dpu_per_host_count: must be"),
        (
            {"hosts": 1_000_000, "dpus": 8},
            "the default fleet: dhcp.prefix: 127.64.0.0/10 has 4194301 addresses to give, 9000000 are",
        ),
        ({"profile": "nvidia_dgx_vr", "dpus": 2}, "nvidia_dgx_vr always has 1, not 2"),
        ({"profile": "delll_poweredge_r750"}, "near: dell_poweredge_r750"),
        ({"host_password": ""}, "the default fleet: host_bmc_password: must not be empty"),
    ],
)
def test_default_is_checked_like_a_file(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        default(**arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_passwords_replace_and_stay_out_of_repr() -> None:
    config = parse(TODAY, "f").with_choices(host_bmc_password="Other-2", dpu_bmc_password=None)
    assert (config.host_bmc_password, config.dpu_bmc_password) == ("Other-2", "DpuSecret-1")
    for text in (repr(config), str(config), repr(config.__rich_repr__())):
        assert "Other-2" not in text
        assert "Secret" not in text
        assert "***" in text
    assert "host_bmc_password=None" in repr(default(1))
    with pytest.raises(ConfigError, match="dpu_bmc_password: must not be empty"):
        config.with_choices(host_bmc_password=None, dpu_bmc_password="")


def test_errors_do_not_tell_passwords() -> None:
    assert "471100" not in error(f"host_bmc_password = 471100\n{GROUP}")
    assert "Secret" not in "".join(errors(f"host_bmc_password = 'Secret-1'\nbmc_mock_port = 0\n{GROUP}"))


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(GROUP)
    config = load(path)
    assert isinstance(config, FleetConfig)
    assert config.source == str(path)


def test_load_refuses_what_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    with pytest.raises(ConfigError, match=r"fleet\.toml: there is no such file"):
        load(path)
    with pytest.raises(ConfigError, match="is not a file"):
        load(tmp_path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="is not UTF-8 text: byte 5 is wrong"):
        load(path)
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="is larger than 4 MiB"):
        load(path)
    path.write_text("[machines.a\n")
    with pytest.raises(ConfigError, match=r"fleet\.toml: is not TOML: .*line 1"):
        load(path)


def test_load_names_the_system_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(GROUP)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match=r"fleet\.toml: cannot be read: Permission denied"):
        load(path)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
KEYS = [
    "machines", "dhcp", "racks", "bmcsim", "mac_address_pool", "hw_mac_address_ranges", "bmc_mock_port",
    "host_bmc_password", "carbide_api_url", "hw_type", "host_count", "dpu_per_host_count", "timing_overrides", "host",
    "reboot", "type", "prefix", "exclude", "base", "host_bits", "listen",
]  # fmt: skip
keys = st.sampled_from(KEYS) | st.text(max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        keys,
        st.recursive(
            scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=4), max_leaves=8
        ),
        max_size=5,
    )
)
def test_any_data_is_a_fleet_or_a_config_error(data: dict[str, object]) -> None:
    text = "\n".join(f"{_toml(key)} = {_toml(value)}" for key, value in data.items())
    try:
        parse(text, "f")
    except ConfigError as error:
        assert str(error)


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "1979-05-27"
        case str():
            return '"' + "".join(f"\\U{ord(char):08x}" for char in value if not "\ud800" <= char <= "\udfff") + '"'
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
        case _:
            return str(value)


def test_events_go_to_loopback_alone_unless_the_file_says_more() -> None:
    assert [str(one) for one in parse(GROUP, "f.toml").event_destinations] == ["127.0.0.0/8", "::1/128"]
    more = parse(f"[bmcsim]\nevent_destinations = ['10.0.0.0/8', '2001:db8::/32', '192.0.2.7']\n{GROUP}", "f.toml")
    assert [str(one) for one in more.event_destinations] == ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7/32"]
    assert parse(f"[bmcsim]\nevent_destinations = []\n{GROUP}", "f.toml").event_destinations == ()
