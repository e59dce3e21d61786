"""Who needs a token: of the admin listener and of the Redfish port."""

from pathlib import Path

import click
import pytest

from bmcsim.cli.control import ControlOptions, guards_of
from bmcsim.edges.control.guard import Guard, Refused
from bmcsim.edges.http.listen import parse_listen

LOOPBACK, ANYWHERE = parse_listen("127.0.0.0/8:1266"), parse_listen("0.0.0.0:1266")
ADMIN = parse_listen("127.0.0.1:9090")
TOKEN = "a-token-of-24-characters"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return path


def takes(guard: Guard | None, token: str = "", host: str = "127.0.0.1") -> bool:
    """Whether a change with a token gets through."""
    if guard is None:
        return True
    headers = {"host": host, "content-type": "application/json", "authorization": f"Bearer {token}"}
    try:
        guard.check(headers, changes=True)
    except Refused:
        return False
    return True


def test_on_loopback_nothing_needs_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    guards = guards_of(ControlOptions(), ADMIN, LOOPBACK)
    assert takes(guards.admin)
    assert takes(guards.redfish)
    assert not takes(guards.redfish, host="rebound.example")
    assert capsys.readouterr().err == ""


def test_a_redfish_port_that_others_reach_needs_the_token_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    guards = guards_of(ControlOptions(), ADMIN, ANYWHERE)
    token = capsys.readouterr().err.split()[-1]
    assert guards.redfish is not None and guards.redfish.wants_token
    assert not takes(guards.redfish)
    assert takes(guards.redfish, token, host="pod.nico-mat.svc")
    assert takes(guards.admin), "the admin listener is still on loopback"


def test_one_token_is_for_both(token_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guards = guards_of(ControlOptions(token_file), parse_listen("0.0.0.0:9090"), ANYWHERE)
    for guard in guards:
        assert takes(guard, TOKEN)
        assert not takes(guard, "another")
    assert capsys.readouterr().err == ""
    guards_of(ControlOptions(), parse_listen("0.0.0.0:9090"), ANYWHERE)
    assert capsys.readouterr().err.count("token") == 1


def test_without_an_admin_listener_the_redfish_port_is_guarded_all_the_same(token_file: Path) -> None:
    guards = guards_of(ControlOptions(token_file), None, ANYWHERE)
    assert takes(guards.redfish, TOKEN)
    assert not takes(guards.redfish)


def test_who_asks_for_it_has_machine_a_trons_open_port(capsys: pytest.CaptureFixture[str]) -> None:
    guards = guards_of(ControlOptions(insecure=True), ADMIN, ANYWHERE)
    assert guards.redfish is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("insecure", [False, True])
def test_a_token_that_nothing_needs_is_an_error(token_file: Path, insecure: bool) -> None:
    redfish = ANYWHERE if insecure else LOOPBACK
    with pytest.raises(click.UsageError):
        guards_of(ControlOptions(token_file, insecure=insecure), None, redfish)
    with pytest.raises(click.UsageError):
        guards_of(ControlOptions(None, ("name",)), None, redfish)
