"""`bmcsim fleet`."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bmcsim.cli import main


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
