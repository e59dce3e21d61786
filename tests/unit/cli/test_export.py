"""`bmcsim fleet export`."""

import csv
import io
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bmcsim.cli import main
from bmcsim.fleet.export import FORMATS


def export(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("fleet", "export", *arguments))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written(name: str) -> None:
    done = export("--format", name, "--hosts", "2", "--dpus", "1", "--port", "8443", "--domain", "lab.example")
    assert done.exit_code == 0, done.output
    assert "127.64.0.2" in done.output and "host-1" in done.output


def test_a_file_says_what_is_in_the_fleet_and_at_which_port(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("bmc_mock_port = 8443\n[machines.a]\nhost_count = 1\ndpu_per_host_count = 0\n")
    (row,) = csv.DictReader(io.StringIO(export(str(file), "--format", "csv").output))
    assert (row["id"], row["port"]) == ("a-0", "8443")


def test_racks_passwords_and_schemes() -> None:
    assert "nvidia_switch" in export("--format", "csv", "--racks", "1").output
    done = export("--format", "ironic", "--hosts", "1", "--with-passwords", "--host-password", "Px", "--no-tls")
    assert '"Px"' in done.output and '"http://127.64.0.2:1266"' in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--hosts", "1"), "--format"),
        (("--format", "hosts", "--racks", "1", "--hosts", "1"), "exclude each other"),
        (("--format", "hosts", "nosuch.toml", "--hosts", "1"), "leave them out or the file"),
        (("--format", "hosts", "nosuch.toml"), "there is no such file"),
        (("--format", "hosts", "--domain", "a b"), "must be a domain"),
        (("--format", "hosts", "--profile", "nosuch"), "nosuch"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], said: str) -> None:
    done = export(*arguments)
    assert done.exit_code != 0
    assert said in done.output
    assert "Traceback" not in done.output


def test_leased_addresses_are_not_known_before(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(
        '[dhcp]\ntype = "udp_relay"\nserver_address = "192.0.2.1:67"\n'
        'listen_address = "127.0.0.1:6767"\nadvertise_address = "127.0.0.1"\n'
        "[machines.a]\nhost_count = 1\n"
    )
    done = export("--format", "hosts", str(file))
    assert done.exit_code == 1
    assert "dhcp.type: its addresses are leased at run time" in done.output
    assert "a-0" in export("--format", "hosts", "--dhcp", "pool", str(file)).output
