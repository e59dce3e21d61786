"""`bench load` before any process is started: what it refuses, and what it plans."""

import importlib.util
from pathlib import Path

import pytest

from bench.load import command
from bench.load.endpoints import Endpoint
from bench.load.measured import Plan
from bench.server import BenchError, Cores

CORES = Cores(0, (0,))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command.main(arguments, CORES) == 2
    return capsys.readouterr().err


def planned(*arguments: str) -> Plan:
    return command._plan(command._parse(arguments), [], [Endpoint("10.0.0.1", 443, "root", "x")], 1, "")


def test_without_locust_it_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "`make load` sets it up" in refused(capsys, "storm")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("storm", "--endpoints=none"), "none is neither a file nor a network"),
        (("strom", "--endpoints=FILE"), "'strom' is no phase"),
        (("storm", "--endpoints=FILE", "--rate=100"), "leave --endpoints out"),
        (("storm", "--endpoints=FILE", "--proxy"), "--proxy needs HOST:PORT"),
        (("storm", "--endpoints=FILE", "--proxy=a:b"), "the port of 'a:b'"),
        (("storm", "--endpoints=FILE", "--workers=0"), "no worker"),
        (("storm", "login", "--hosts=1"), "login must come first"),
    ],
)
def test_what_cannot_be_run_is_refused(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    (tmp_path / "fleet").write_text("10.0.0.1\n")
    told = refused(capsys, *[argument.replace("FILE", str(tmp_path / "fleet")) for argument in arguments])
    assert said in told


@pytest.mark.parametrize("template", ["Same", "{index}", "{name}-{round}", "{round.real}{", "{0}"])
def test_a_template_that_makes_no_new_password_is_refused(template: str) -> None:
    with pytest.raises(BenchError, match="--new-password"):
        planned("rotate", f"--new-password={template}")


def test_polls_are_as_fast_as_the_hardware() -> None:
    assert planned("reset").rules.tick == 0.5
    assert planned("reset", "--time-scale=1").rules.tick == 30.0
    assert planned("reset", "--endpoints=x").rules.tick == 30.0
    assert planned("reset", "--tick=2").rules.tick == 2.0


def test_locust_listens_on_loopback_unless_told() -> None:
    assert planned("reset").bind == "127.0.0.1"
    assert planned("reset", "--master=10.0.0.1").bind == "10.0.0.1"
    assert planned("reset", "--master=10.0.0.1:99").port == 99
