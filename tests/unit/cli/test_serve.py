"""`bmcsim serve`: what it says."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from bmcsim.cli.banner import Banner, credential, credentials
from bmcsim.edges.http import forwarding
from bmcsim.edges.http.listen import parse_listen
from bmcsim.fleet.registry import Fleet
from tests.conftest import make_client
from tests.leasing import HOSTS, DhcpServer, Site


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


def test_a_fleet_that_leases_its_addresses_is_not_served_in_shards(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(HOSTS)
    for option in ("--shards=2", "--shard=1/2"):
        result = CliRunner().invoke(main, ["serve", str(file), option, "--admin", "off"])
        assert result.exit_code == 1
        assert "dhcp.type: a fleet that leases its addresses is served by one process" in result.output


def test_an_address_that_the_relay_cannot_have_is_an_error_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(HOSTS.replace("10.0.0.2:67", "192.0.2.1:6767"))
    result = CliRunner().invoke(main, ["serve", str(file), "--admin", "off", "--listen", "127.0.0.1:0"])
    assert (result.exit_code, "dhcp.listen_address 192.0.2.1:6767: " in result.output) == (1, True), result.output


def test_the_banner_says_how_many_have_an_address_and_when_all_have(capsys: pytest.CaptureFixture[str]) -> None:
    site = Site(HOSTS, DhcpServer([f"127.70.0.{n}" for n in range(1, 20)]))
    banner = Banner(site.fleet, parse_listen("127.0.0.0/8:1266"), 1266, True, 0.0, None)
    banner.say()
    said = capsys.readouterr().out
    assert ("6 BMCs ready after" in said, "0 of them with an address, port 1266" in said) == (True, True)
    assert "Try" not in said
    site.leases.tell_complete(banner.say_complete)
    site.answer()
    said = capsys.readouterr().out
    assert "all 6 BMCs have an address after" in said
    assert f"Try: curl -k https://{site.addresses['a-0']}:1266/redfish/v1/" in said


def test_the_banner_tells_the_password_that_works() -> None:
    fresh = make_client("bluefield3", password=None)
    assert credential(fresh.bmc).endswith("0penBmc (factory password, to be changed first)")
    fresh.bmc.set_password("root", "Rotated-1", fresh.clock.now())
    assert credential(fresh.bmc).endswith("the password that it was changed to")
    assert credential(make_client("bluefield3").bmc).endswith("the password that you gave")


def test_the_banner_counts_where_one_kind_has_several_passwords() -> None:
    fleet = Fleet()
    clients = [make_client("bluefield3", password=None, index=index) for index in range(3)]
    for client in clients:
        fleet.add(client.bmc)
    factory = "root / 0penBmc (factory password, to be changed first)"
    title = clients[0].bmc.tree.head.title
    assert credentials(fleet) == [f"{title}: {factory}"]
    clients[1].bmc.set_password("root", "Rotated-1", clients[1].clock.now())
    assert credentials(fleet) == [
        f"{title} (2 of them): {factory}",
        f"{title} (1 of them): root / the password that it was changed to",
    ]


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


@pytest.mark.parametrize("option", ["--listen", "--admin"])
@pytest.mark.parametrize("value", ["foo", "1", "", "127.0.0.1:99999", "127.0.0.1/40:1"])
def test_an_address_that_is_none_is_refused_with_its_option(option: str, value: str) -> None:
    started = CliRunner().invoke(main, ["serve", "--hosts", "1", option, value])
    assert started.exit_code == 2
    assert f"Invalid value for '{option}': listen address" in started.output


@pytest.mark.parametrize("key", ["listen", "admin"])
def test_an_address_of_a_file_that_is_none_is_refused_with_its_key(tmp_path: Path, key: str) -> None:
    file = fleet_file(tmp_path, f'[bmcsim]\n{key} = "foo"')
    started = CliRunner().invoke(main, ["serve", str(file)])
    assert started.exit_code == 1
    assert f"Error: {file}: bmcsim.{key}: listen address 'foo' must be " in started.output


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--quarantine"], "--quarantine is about a state directory"),
        (["--durability", "full"], "--durability is about a state directory"),
        (["--durability", "normal"], "--durability is about a state directory"),
        (["--durability", "full", "--quarantine"], "--durability and --quarantine are about a state directory"),
    ],
)
def test_options_about_a_state_directory_need_one(options: list[str], named: str) -> None:
    started = CliRunner().invoke(main, ["serve", "--hosts", "1", *options])
    assert started.exit_code == 2
    assert named in started.output


def test_a_file_s_durability_without_a_state_directory_is_a_warning(tmp_path: Path) -> None:
    file = fleet_file(tmp_path, '[bmcsim]\ndurability = "full"')
    started = CliRunner().invoke(main, ["serve", str(file), "--listen", "foo"])
    assert "warning: durability = 'full' does nothing without a state directory" in started.output
    kept = CliRunner().invoke(main, ["serve", str(file), "--listen", "foo", "--state-dir", str(tmp_path / "state")])
    assert "does nothing" not in kept.output


def test_hostile_folders_stop_the_start_with_one_line(tmp_path: Path) -> None:
    nested = b'{"@odata.type": "#MessageRegistry.v1_7_0.MessageRegistry", "RegistryPrefix": "Base",'
    nested += b'"RegistryVersion": "1.22.1", "a": ' + b"[" * 900 + b"]" * 900 + b"}"
    registry = tmp_path / "Base.1.22.1.json"
    registry.write_bytes(nested)
    command = ["serve", "--hosts", "1", "--dpus", "0", "--listen", "127.0.0.0/8:0", "--admin", "off", "--no-tls"]
    started = CliRunner().invoke(main, [*command, "--registries", str(tmp_path)])
    assert started.exit_code == 1
    assert started.output == f"Error: {registry}: has more than 32 objects and arrays in each other\n"


def fleet_file(folder: Path, text: str) -> Path:
    """A fleet file of one host."""
    file = folder / "fleet.toml"
    file.write_text(f"{text}\n[machines.a]\nhw_type = 'dell_poweredge_r750'\nhost_count = 1\n")
    return file


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "a/b", "1/65", "-1/2", "1/2/3", "1/" + "9" * 5000])
def test_a_part_of_a_fleet_is_one_of_so_many(text: str) -> None:
    started = CliRunner().invoke(main, ["serve", "--hosts", "4", "--shard", text])
    assert started.exit_code == 2
    assert "'--shard': " in started.output
    assert "must be I/N, such as 1/2" in started.output


def test_all_parts_and_one_of_them_exclude_each_other() -> None:
    started = CliRunner().invoke(main, ["serve", "--hosts", "4", "--shard", "1/2", "--shards", "2"])
    assert started.exit_code == 2
    assert "leave one of the two out" in started.output


def test_peers_are_for_a_part_that_is_started_alone(tmp_path: Path) -> None:
    for shards in ([], ["--shards", "2"]):
        started = CliRunner().invoke(main, ["serve", "--hosts", "4", "--peers", str(tmp_path), *shards])
        assert (started.exit_code, "add --shard I/N" in started.output) == (2, True)


def test_a_place_of_peers_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    command = ["serve", "--hosts", "4", "--no-tls", "--shard", "1/2", "--peers"]
    started = CliRunner().invoke(main, [*command, str(tmp_path / ("x" * 120))])
    assert (started.exit_code, "path too long; --peers must be a directory" in started.output) == (1, True)
    with forwarding.open_named(tmp_path / "shard-1-of-2.sock"):
        taken = CliRunner().invoke(main, [*command, str(tmp_path)])
    assert (taken.exit_code, "shard-1-of-2.sock: another process serves this shard" in taken.output) == (1, True)


def test_shards_need_room_for_their_admin_ports() -> None:
    command = ["serve", "--hosts", "4", "--no-tls", "--shards", "2"]
    last = CliRunner().invoke(main, [*command, "--listen", "127.0.0.0/8:0", "--admin", "127.0.0.1:65535"])
    assert (last.exit_code, "2 shards have as many admin ports from 65535 on" in last.output) == (2, True)
