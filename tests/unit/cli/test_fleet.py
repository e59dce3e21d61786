"""`bmcsim fleet`."""

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bmcsim.cli import main
from bmcsim.tree import library
from tests.leasing import BY_RELAY


def run(*arguments: str) -> Result:
    """A command, in this process."""
    return CliRunner().invoke(main, arguments)


def test_the_list_tells_which_bmc_is_where(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("[machines.b]\nhost_count = 1\n[machines.a]\nhost_count = 2\ndpu_per_host_count = 1\n")
    rows = [line.split("\t") for line in run("fleet", "list", str(file)).output.splitlines()]
    assert [row[:3] for row in rows] == [
        ["a-0", "host", "127.64.0.2"],
        ["a-0-dpu-0", "dpu", "127.64.0.3"],
        ["a-1", "host", "127.64.0.4"],
        ["a-1-dpu-0", "dpu", "127.64.0.5"],
        ["b-0", "host", "127.64.0.6"],
    ]
    assert len({row[3] for row in rows}) == len({row[4] for row in rows}) == 5


def test_the_list_has_no_address_where_it_is_leased_or_where_the_pool_has_none_left(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    machines = "[machines.a]\nhost_count = 7\n"
    file.write_text(BY_RELAY + machines)
    assert {line.split("\t")[2] for line in run("fleet", "list", str(file)).output.splitlines()} == {"-"}
    file.write_text("dhcp = { type = 'pool', prefix = '10.0.0.0/29', exhaustion = 'serve' }\n" + machines)
    shown = [line.split("\t")[2] for line in run("fleet", "list", str(file)).output.splitlines()]
    assert shown == [*[f"10.0.0.{n}" for n in range(2, 7)], "-", "-"]


def test_the_list_of_no_file_is_the_default_fleet() -> None:
    assert run("fleet", "list").output.count("\n") == 13_500


@pytest.mark.parametrize("command", ["check", "list"])
def test_a_file_that_is_wrong_is_an_error_with_its_key(tmp_path: Path, command: str) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("[machines.a]\nhost_count = -1\n")
    result = run("fleet", command, str(file))
    assert result.exit_code == 1
    assert "machines.a.host_count" in result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('hw_type = "nope.yaml"', "nope.yaml"),
        ('hw_type = "hpe_proliant_dl380a_gen11"', "hpe_proliant_dl380a_gen11"),
        ("desired_firmware = { host = { bmcc = '1' } }", "desired_firmware.host.bmcc"),
    ],
)
def test_what_serve_would_refuse_check_refuses_too(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(f"[machines.a]\nhost_count = 1\n{text}\n")
    result = run("fleet", "check", str(file))
    assert result.exit_code == 1
    assert said in result.output


RACKS = "[racks.lab]\ntype = 'wiwynn_gb200_nvl72'\nids = ['r2', 'r1']\n"


def test_racks_are_checked_and_listed(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(RACKS + "rack_profile_id = 'X'\n")
    checked = run("fleet", "check", str(file))
    assert (checked.exit_code, f"{file}: 142 BMCs" in checked.output) == (0, True)
    assert "rack_profile_id: is X, and NICo derives GB200_NVL72R1_C2G4_WIWYNN" in checked.output
    rows = [line.split("\t") for line in run("fleet", "list", str(file)).output.splitlines()]
    assert len(rows) == len({row[4] for row in rows}) == 142
    assert Counter(row[1] for row in rows) == {"host": 36, "dpu": 72, "switch": 18, "power_shelf": 16}
    assert rows[0][:3] == ["rack-7231--unit-06-0", "power_shelf", "127.64.0.2"]
    assert [row[0] for row in rows[4:6]] == ["rack-7231--unit-11-0", "rack-7231--unit-11-0-dpu-0"]
    assert rows[71][:3] == ["rack-7232--unit-06-0", "power_shelf", "127.64.0.73"]


@pytest.mark.parametrize("command", ["check", "list"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            RACKS.replace("nvl72", "nvl73"),
            "racks.lab.type: must be one of wiwynn_gb200_nvl72, not 'wiwynn_gb200_nvl73'",
        ),
        (RACKS.replace("nvl72", "nvl73").replace("wiwynn_gb200", "broken"), "broken_nvl73.yaml:5: units.0.profile: "),
        (RACKS + "[machines.a]\nhost_count = 1\nrack_id = 'r2'\n", "machines.a.rack_id: r2 is a simulated rack"),
    ],
)
def test_racks_that_are_wrong_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, text: str, said: str
) -> None:
    (tmp_path / "racks").mkdir()
    (tmp_path / "racks" / "broken_nvl73.yaml").write_text(
        "title: T\ntopology: t\nvendor: v\nunits:\n  - {positions: 1, profile: nope}\n"
    )
    if "broken" in text:
        monkeypatch.setattr(library, "directories", lambda: [tmp_path])
    file = tmp_path / "fleet.toml"
    file.write_text(text)
    result = run("fleet", command, str(file))
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert isinstance(result.exception, SystemExit)
