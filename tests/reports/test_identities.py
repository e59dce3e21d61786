"""Rows of public bug reports about identities of several instances."""

from pathlib import Path

from click.testing import CliRunner

from bmcsim.cli import main

FLEET = "[machines.rack]\nhost_count = 3\ndpu_per_host_count = 2\n"


def test_n41_two_instances_on_default_pools_are_told_apart_before_they_run(tmp_path: Path) -> None:
    """N41: two instances draw the same MACs; checking their files together names what they share."""
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(FLEET)
    second.write_text(FLEET)
    result = CliRunner().invoke(main, ["fleet", "check", str(first), str(second)])
    assert result.exit_code == 1
    assert "02:00:00:00:00:00" in result.output
    own_pool = 'dhcp = { type = "pool", prefix = "127.66.0.0/24" }\n'
    own_macs = 'mac_address_pool = { base = "02:00:01:00:00:00", host_bits = 24 }\n'
    own_ranges = 'hw_mac_address_ranges = { base = "06:01:00:00:00:00", host_bits = 32, range_host_bits = 8 }\n'
    second.write_text(own_pool + own_macs + own_ranges + FLEET)
    result = CliRunner().invoke(main, ["fleet", "check", str(first), str(second)])
    assert result.exit_code == 0, result.output
    assert "9 BMCs" in result.output
