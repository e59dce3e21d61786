"""Racks in a fleet: what a [racks.NAME] table means, and who its machines are."""

from collections import Counter
from pathlib import Path

import pytest

from bmcsim.fleet.config import FleetConfig, default, parse
from bmcsim.fleet.identities import plan
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.identity import Kind
from bmcsim.tree import profile as profiles

RACKS = """
[racks.lab]
type = "wiwynn_gb200_nvl72"
ids = ["r2", "r1"]
"""


def fleet(text: str) -> FleetConfig:
    return parse(text, "fleet.toml")


def test_a_rack_is_35_machines_and_71_bmcs() -> None:
    config = fleet(RACKS)
    planned = list(plan(config))
    assert len(planned) == config.bmc_count == 2 * 71
    assert Counter(one.identity.kind for one in planned) == {
        Kind.HOST: 36,
        Kind.DPU: 72,
        Kind.SWITCH: 18,
        Kind.POWER_SHELF: 16,
    }
    assert sum(group.mac_count for group in config.groups) == 2 * 152


def test_sections_are_named_and_ordered_as_machine_a_tron_does() -> None:
    planned = list(plan(fleet(RACKS + "[machines.a]\nhost_count = 1\n[machines.z]\nhost_count = 1\n")))
    ids = [one.id for one in planned if one.parent is None]
    assert ids[:2] == ["a-0", "rack-7231--unit-06-0"]
    assert ids[-2:] == ["rack-7232--unit-42-0", "z-0"]
    assert ids == sorted(ids)


def test_machines_know_where_they_are() -> None:
    places = {one.id: one.identity.place for one in plan(fleet(RACKS))}
    place = places["rack-7231--unit-28-0"]
    assert place is not None
    assert (place.rack, place.position, place.index) == ("r1", 28, 8)
    other = places["rack-7232--unit-28-0"]
    assert other is not None
    assert place.serial != other.serial
    assert place.domain != other.domain
    switch = places["rack-7231--unit-19-0"]
    assert switch is not None
    assert (switch.serial, switch.domain) == (place.serial, place.domain)
    assert len(place.serial) == 13
    assert place.serial.isdigit()
    assert places["rack-7231--unit-28-0-dpu-0"] is None


def test_nothing_is_there_twice_in_250_racks() -> None:
    planned = list(plan(default(racks=250)))
    assert len(planned) == 17_750
    for values in (
        [one.id for one in planned],
        [one.address for one in planned],
        [one.identity.bmc_mac for one in planned],
        [one.identity.serial for one in planned],
        [one.identity.uuid("system") for one in planned],
    ):
        assert len(set(values)) == 17_750
    places = [one.identity.place for one in planned]
    assert len({place.serial for place in places if place is not None}) == 250


def test_the_same_after_every_start() -> None:
    assert list(plan(default(racks=2))) == list(plan(default(racks=2)))


def test_settings_reach_the_machines_that_have_them() -> None:
    config = fleet(
        RACKS
        + """
        acceleration_factor = 0.5
        host_firmware_versions = { bmc = "1" }
        timing_overrides = { host = { reboot = "10s" } }
        bmc_dhcp_relay_address = "10.0.0.1"
        """
    )
    by_type = {group.hw_type: group for group in config.groups}
    for group in by_type.values():
        assert (group.acceleration_factor, group.host_timings) == (0.5, {"reboot": 10.0})
        assert group.bmc_dhcp_relay_address == "10.0.0.1"
    assert by_type["wiwynn_gb200_nvl"].host_firmware_versions == {"bmc": "1"}
    assert by_type["liteon_power_shelf"].host_firmware_versions == {}


@pytest.mark.parametrize(
    ("id_", "there"),
    [
        ("rack-7231--unit-11-0", True),
        ("rack-7231--unit-11-0-dpu-1", True),
        ("rack-7231--unit-11-0-dpu-2", False),
        ("rack-7231--unit-11-1", False),
        ("rack-7231--unit-10-0", False),
        ("rack-7231--unit-06-0", True),
        ("rack-7231--unit-06-0-dpu-0", False),
        ("rack-7233--unit-11-0", False),
    ],
)
def test_one_bmc_of_a_rack_can_be_named(id_: str, there: bool) -> None:
    assert any(group.has(id_) for group in fleet(RACKS).groups) is there


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[racks.a]\nids = ['r']", "racks.a.type: is missing; there are wiwynn_gb200_nvl72"),
        ("[racks.a]\ntype = 'x'\nids = ['r']", "racks.a.type: must be one of wiwynn_gb200_nvl72, not 'x'"),
        ("[racks.a]\ntype = 'wiwynn_gb200_nvl72'", "racks.a.ids: is missing; write the ids of the racks"),
        (
            "[racks.a]\ntype = 'wiwynn_gb200_nvl72'\nids = []",
            "racks.a.ids: must be a list of ids such as ['rack-1'], not []",
        ),
        ("[racks.a]\ntype = 'wiwynn_gb200_nvl72'\nids = ['r', 'r']", "racks.a.ids: names r more than once"),
        ("[racks.a]\ntype = 'wiwynn_gb200_nvl72'\nids = ['']", "racks.a.ids: "),
        (
            f"[racks.a]\ntype = 'wiwynn_gb200_nvl72'\nids = ['{'r' * 65}']",
            "is longer than 64 characters",
        ),
        (
            RACKS + "[racks.b]\ntype = 'wiwynn_gb200_nvl72'\nids = ['r1']",
            "racks.lab.ids: r1 is a rack of racks.b already",
        ),
        (
            RACKS + "[machines.a]\nhost_count = 1\nrack_id = 'r1'",
            "machines.a.rack_id: r1 is a simulated rack (racks.lab), which has no room for more machines",
        ),
    ],
)
def test_errors_name_key_and_remedy(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fleet(text)
    assert line in str(caught.value)
    assert str(caught.value).count(line) == 1


def test_the_hardware_of_a_file_says_itself_how_many_dpus_it_has(tmp_path: Path) -> None:
    """So a rack type can have machines that no code knows."""
    own, without = tmp_path / "own.yaml", tmp_path / "without.yaml"
    text = profiles.find("wiwynn_gb200_nvl").read_text()
    own.write_text(text.replace("profile: wiwynn_gb200_nvl", "profile: own"))
    without.write_text(profiles.find("delta_power_shelf").read_text().replace("kind: power_shelf", "kind: host"))
    assert default(2, profile=str(own)).bmc_count == 6
    assert default(2, profile=str(without)).bmc_count == 2
    table = f"[machines.a]\nhw_type = '{own}'\nhost_count = 1\n"
    assert fleet(table).bmc_count == 3
    with pytest.raises(ConfigError, match=r"dpu_per_host_count: .*own\.yaml always has 2, not 1"):
        fleet(f"{table}dpu_per_host_count = 1")


def test_a_free_machine_may_name_a_rack_that_is_not_simulated() -> None:
    config = fleet(RACKS + "[machines.a]\nhost_count = 1\nrack_id = 'elsewhere'")
    assert not config.warnings


def test_another_profile_id_is_a_warning() -> None:
    text = RACKS + "rack_profile_id = 'X'"
    assert fleet(text).warnings == (
        "fleet.toml: racks.lab.rack_profile_id: is X, and NICo derives GB200_NVL72R1_C2G4_WIWYNN; leave it out",
    )
    assert not fleet(RACKS + "rack_profile_id = 'GB200_NVL72R1_C2G4_WIWYNN'").warnings
