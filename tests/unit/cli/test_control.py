"""The options of the control API, and what it says when they are wrong."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from bmcsim.cli.control import ControlOptions, guards_of
from bmcsim.edges.control.guard import Refused
from bmcsim.edges.http.listen import parse_listen

REDFISH = parse_listen("127.0.0.0/8:1266")
TOKEN = "a-token-of-24-characters"
JSON = {"host": "localhost", "content-type": "application/json"}


def test_on_loopback_nobody_needs_a_token_unless_there_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = guards_of(ControlOptions(), parse_listen("127.0.0.1:9090"), REDFISH).admin
    guard.check(JSON, changes=True)
    (tmp_path / "token").write_text(TOKEN)
    guard = guards_of(ControlOptions(tmp_path / "token"), parse_listen("[::1]:9090"), REDFISH).admin
    with pytest.raises(Refused, match="Bearer"):
        guard.check(JSON, changes=True)
    guard.check({**JSON, "authorization": f"Bearer {TOKEN}"}, changes=True)
    assert capsys.readouterr() == ("", "")


def test_elsewhere_a_token_is_made_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    guard = guards_of(ControlOptions(admin_hosts=("sim.example",)), parse_listen("0.0.0.0:9090"), REDFISH).admin
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    headers = {"host": "sim.example:9090", "content-type": "application/json"}
    guard.check({**headers, "authorization": f"Bearer {said[0].rpartition(' ')[2]}"}, changes=True)
    with pytest.raises(Refused, match="Bearer"):
        guard.check(headers, changes=True)


def test_a_token_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    for file in ("token", "nowhere"):
        result = CliRunner().invoke(main, ["serve", "--hosts", "1", "--token-file", str(tmp_path / file)])
        assert (result.exit_code, f"{tmp_path / file}: " in result.output) == (1, True), result.output


@pytest.mark.parametrize("options", [["--token-file", "x"], ["--admin-host", "x"]])
def test_options_about_a_listener_that_there_is_not_are_refused(options: list[str]) -> None:
    result = CliRunner().invoke(main, ["serve", "--hosts", "1", "--admin", "off", *options])
    assert (result.exit_code, "there is none" in result.output) == (2, True)
