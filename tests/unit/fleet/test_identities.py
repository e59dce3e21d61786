"""The plan of a fleet: order, MACs, addresses, and what two fleets have in common."""

import sys
from itertools import islice

import pytest

from bmcsim.fleet.config import default, parse
from bmcsim.fleet.identities import BmcPlan, overlap, plan
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.identity import Kind, mac_colons


def planned(text: str) -> list[BmcPlan]:
    return list(plan(parse(text, "fleet.toml")))


def test_default_fleet() -> None:
    plans = list(plan(default()))
    assert len(plans) == 13_500
    assert [one.id for one in plans[:4]] == ["host-0", "host-0-dpu-0", "host-0-dpu-1", "host-1"]
    assert [one.parent for one in plans[:4]] == [None, "host-0", "host-0", None]
    assert (plans[0].address, plans[-1].address) == ("127.64.0.2", "127.64.52.189")
    assert plans[0].identity.dpus == (plans[1].identity, plans[2].identity)
    for values in (
        {one.id for one in plans},
        {one.address for one in plans},
        {one.identity.bmc_mac for one in plans},
        {one.identity.serial for one in plans},
    ):
        assert len(values) == 13_500


def test_the_same_after_every_start() -> None:
    assert list(plan(default(hosts=50))) == list(plan(default(hosts=50)))


def test_nothing_is_built_ahead() -> None:
    config = default(hosts=400_000, dpus=2)
    assert [one.id for one in islice(plan(config), 2)] == ["host-0", "host-0-dpu-0"]
    assert sys.getsizeof(plan(config)) < 1000


def test_macs_of_the_instance_example() -> None:
    """Pools of instance 3 and a Wiwynn host, as the standalone mock numbers them."""
    host, first, second = planned("""
        mac_address_pool = { base = "02:00:00:03:00:00", host_bits = 16 }
        hw_mac_address_ranges = { base = "06:00:00:03:00:00", host_bits = 16, range_host_bits = 8 }
        [machines.tray]
        hw_type = "wiwynn_gb200_nvl"
        host_count = 1
    """)
    assert mac_colons(first.identity.bmc_mac) == "02:00:00:03:00:01"
    assert mac_colons(first.identity.host_mac) == "02:00:00:03:00:02"
    assert first.identity.serial == "MT020000030003"
    assert mac_colons(second.identity.bmc_mac) == "02:00:00:03:00:04"
    assert second.identity.serial == "MT020000030006"
    assert mac_colons(host.identity.bmc_mac) == "02:00:00:03:00:07"
    assert host.identity.serial == "020000030007"
    assert host.identity.host_mac == host.identity.oob_mac == first.identity.hw_base == 0
    assert mac_colons(host.identity.hw_base) == "06:00:00:03:01:00"


def test_every_kind_of_machine_in_the_order_of_names() -> None:
    """'B' sorts before 'a', as it does in machine-a-tron's BTreeMap."""
    plans = planned("""
        [machines.shelf]
        hw_type = "delta_power_shelf"
        host_count = 1
        [machines.a]
        host_count = 1
        [machines.nvlink]
        hw_type = "nvidia_switch_nd5200_ld"
        host_count = 1
        [machines.B]
        host_count = 1
        dpu_per_host_count = 1
    """)
    base, ranges = 0x020000000000, 0x060000000000
    numbers = [
        (
            one.id,
            one.identity.kind,
            *(mac and mac - base for mac in (one.identity.bmc_mac, one.identity.host_mac, one.identity.oob_mac)),
            one.identity.hw_base and one.identity.hw_base - ranges,
        )
        for one in plans
    ]
    assert numbers == [
        ("B-0", Kind.HOST, 4, 0, 0, 256),
        ("B-0-dpu-0", Kind.DPU, 1, 2, 3, 0),
        ("a-0", Kind.HOST, 5, 6, 0, 512),
        ("nvlink-0", Kind.SWITCH, 7, 0, 8, 768),
        ("shelf-0", Kind.POWER_SHELF, 9, 0, 0, 1024),
    ]
    assert plans[3].identity.serial == "MT020000000008"
    assert [one.address for one in plans] == [f"127.64.0.{n}" for n in range(2, 7)]
    assert plans[1].group is plans[0].group
    assert plans[0].group.name == "B"


def test_the_last_mac_is_the_one_at_offset_zero() -> None:
    plans = planned("""
        mac_address_pool = { base = "02:00:00:00:00:00", host_bits = 2 }
        hw_mac_address_ranges = { base = "06:00:00:00:00:00", host_bits = 6, range_host_bits = 5 }
        [machines.a]
        host_count = 2
    """)
    assert [one.identity.host_mac for one in plans] == [0x020000000002, 0x020000000000]
    assert [one.identity.hw_base for one in plans] == [0x060000000020, 0x060000000000]


@pytest.mark.parametrize(
    ("top", "message"),
    [
        (
            'dhcp = { type = "pool", prefix = "10.0.0.0/28" }',
            "dhcp.prefix: 10.0.0.0/28 has 13 addresses to give, 30 are needed: a /26 would do",
        ),
        (
            'mac_address_pool = { base = "02:00:00:00:00:00", host_bits = 4 }',
            "mac_address_pool.host_bits: 4 bits are 16 MACs, 70 are needed: 7 would do",
        ),
        (
            'hw_mac_address_ranges = { base = "06:00:00:00:00:00", host_bits = 11, range_host_bits = 8 }',
            "hw_mac_address_ranges.host_bits: 11 bits are 8 ranges, 10 are needed: 12 would do",
        ),
        (
            'mac_address_pool = { base = "06:00:00:05:00:00", host_bits = 16 }',
            "hw_mac_address_ranges: 06:00:00:00:00:00 with 32 host bits overlaps mac_address_pool",
        ),
        (
            'hw_mac_address_ranges = { base = "02:00:00:00:01:00", host_bits = 8, range_host_bits = 5 }',
            "overlaps mac_address_pool (02:00:00:00:00:00 with 24 host bits)",
        ),
    ],
)
def test_pools_are_checked_before_the_first_bmc(top: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"{top}\n[machines.a]\nhost_count = 10\ndpu_per_host_count = 2", "fleet.toml")
    assert f"fleet.toml: {message}" in str(caught.value) or message in str(caught.value)


@pytest.mark.parametrize("suggested", [26, 25])
def test_the_suggested_prefix_is_the_longest_that_fits(suggested: int) -> None:
    text = "\n[machines.a]\nhost_count = 10\ndpu_per_host_count = 2\n"
    parse(f'dhcp = {{ type = "pool", prefix = "10.0.0.0/{suggested}" }}{text}', "fleet.toml")
    with pytest.raises(ConfigError):
        parse(f'dhcp = {{ type = "pool", prefix = "10.0.0.0/27" }}{text}', "fleet.toml")


def pod(number: int, *, macs: bool = True, ranges: bool = True, dhcp: str = "") -> str:
    lines = [dhcp or f'dhcp = {{ type = "pool", prefix = "10.200.{number * 16}.0/20" }}']
    if macs:
        lines.append(f'mac_address_pool = {{ base = "02:00:{number:02x}:00:00:00", host_bits = 16 }}')
    if ranges:
        lines.append(
            f'hw_mac_address_ranges = {{ base = "06:01:{number:02x}:00:00:00", host_bits = 24, range_host_bits = 8 }}'
        )
    return "\n".join([*lines, "[machines.a]", "host_count = 3"])


def test_n41_two_instances_with_default_pools_overlap() -> None:
    a, b = parse("[machines.a]\nhost_count = 1", "pod-0.toml"), parse("[machines.b]\nhost_count = 1", "pod-1.toml")
    text = overlap(a, b)
    assert text is not None
    assert (
        "mac_address_pool of pod-0.toml (02:00:00:00:00:00 with 24 host bits) and mac_address_pool of pod-1.toml"
        in text
    )
    assert "hw_mac_address_ranges of pod-0.toml (06:00:00:00:00:00 with 32 host bits)" in text
    assert "dhcp.prefix of pod-0.toml (127.64.0.0/18) and dhcp.prefix of pod-1.toml (127.64.0.0/18)" in text
    assert "have 127.64.0.2 in common" in text


def test_n41_instances_with_their_own_bases_do_not_overlap() -> None:
    pods = [parse(pod(number), f"pod-{number}.toml") for number in range(3)]
    assert all(overlap(a, b) is None for a in pods for b in pods if a is not b)


@pytest.mark.parametrize(
    ("kept", "named"),
    [
        ({"macs": False}, "mac_address_pool"),
        ({"ranges": False}, "hw_mac_address_ranges"),
        ({"dhcp": 'dhcp = { type = "pool", prefix = "10.200.0.0/16" }'}, "dhcp.prefix"),
    ],
)
def test_n41_one_pool_in_common_is_enough(kept: dict[str, str | bool], named: str) -> None:
    text = overlap(parse(pod(0, **kept), "pod-0.toml"), parse(pod(1, **kept), "pod-1.toml"))  # type: ignore[arg-type]
    assert text is not None
    assert text.startswith(f"{named} of pod-0.toml")
    assert "; " not in text


def test_n41_macs_of_one_may_be_the_hardware_of_the_other() -> None:
    a = parse(pod(0), "pod-0.toml")
    b = parse(
        pod(1, macs=False).replace("[machines", 'mac_address_pool = { base = "06:01:00:00:00:00" }\n[machines'),
        "pod-1.toml",
    )
    text = overlap(a, b)
    assert text is not None
    assert "hw_mac_address_ranges of pod-0.toml" in text
    assert "mac_address_pool of pod-1.toml" in text


def test_one_prefix_shared_by_exclusion() -> None:
    line = 'dhcp = { type = "pool", prefix = "10.200.0.0/18", exclude = ["%s"] }'
    a = parse(pod(0, dhcp=line % "10.200.32.0/19"), "pod-0.toml")
    b = parse(pod(1, dhcp=line % "10.200.0.0/19"), "pod-1.toml")
    assert overlap(a, b) is None
