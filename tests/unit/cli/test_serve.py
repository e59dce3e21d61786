"""`bmcsim serve`: what it says."""

import socket
from pathlib import Path

from click.testing import CliRunner

from bmcsim.cli import main
from bmcsim.cli.serve import _credential
from tests.conftest import make_client


def test_a_port_that_is_taken_names_the_option_that_chooses_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        free = ["serve", "--hosts", "1", "--dpus", "0", "--listen", "127.0.0.0/8:0"]
        admin = CliRunner().invoke(main, [*free, "--admin", f"127.0.0.1:{port}"])
        redfish = CliRunner().invoke(main, ["serve", "--hosts", "1", "--listen", f"127.0.0.1:{port}", "--admin", "off"])
    assert "choose another with --admin" in admin.output
    assert "choose another with --listen" in redfish.output
    assert (admin.exit_code, redfish.exit_code) == (1, 1)


def test_the_banner_tells_the_password_that_works() -> None:
    fresh = make_client("bluefield3", password=None)
    assert _credential(fresh.bmc).endswith("0penBmc (factory password, to be changed first)")
    fresh.bmc.set_password("root", "Rotated-1", fresh.clock.now())
    assert _credential(fresh.bmc).endswith("the password that it was changed to")
    assert _credential(make_client("bluefield3").bmc).endswith("the password that you gave")


def test_a_schema_that_cannot_be_used_stops_the_start_by_name(tmp_path: Path) -> None:
    (tmp_path / "Chassis.json").write_text("{")
    (tmp_path / "Unused.json").write_text("{")
    command = ["serve", "--hosts", "1", "--dpus", "0", "--listen", "127.0.0.0/8:0", "--admin", "off", "--no-tls"]
    started = CliRunner().invoke(main, [*command, "--schemas", str(tmp_path)])
    assert started.exit_code == 1
    assert f"Error: {tmp_path / 'Chassis.json'}: " in started.output


def test_a_destination_of_events_that_is_no_network_is_named() -> None:
    started = CliRunner().invoke(main, ["serve", "--hosts", "1", "--event-destination", "example.com"])
    assert started.exit_code == 2
    assert "'--event-destination': must be a network such as 10.0.0.0/8 or ::1/128" in started.output
