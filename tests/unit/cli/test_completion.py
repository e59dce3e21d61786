"""Shell completion: the scripts, and names that come from a running process."""

import subprocess
import time

import pytest
from click.shell_completion import ShellComplete

from bmcsim.cli import main
from tests.unit.cli.conftest import Served, run


def complete(*arguments: str, typed: str = "") -> list[str]:
    """What may stand after these arguments."""
    shell = ShellComplete(main, {}, "bmcsim", "_BMCSIM_COMPLETE")
    return [item.value for item in shell.get_completions(list(arguments), typed)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_BMCSIM_COMPLETE={shell}_complete" in result.output
    assert "bmcsim" in result.output


def test_bash_takes_the_script() -> None:
    script = run("completion", "bash").output
    shown = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p bmcsim"], capture_output=True, text=True, check=True
    )
    assert "complete" in shown.stdout


def test_commands_and_words_are_completed() -> None:
    assert complete("fleet", typed="sn") == ["snapshot"]
    assert complete(typed="fl") == ["fleet"]
    assert complete("fleet", typed="li") == []
    assert complete("fleet", "ls", "--state", typed="u") == ["up", "unpowered"]
    assert complete("fleet", "fault", "add", "--preset", typed="slow_l") == ["slow_login"]


def test_names_come_from_the_running_process(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMCSIM_URL", served.url)
    assert complete("fleet", "reset", typed="beta-") == [f"beta-{number}" for number in range(4)]
    assert complete("fleet", "ls", "--group", typed="a") == ["alpha"]
    assert complete("fleet", "ls", "--rack", typed="r") == ["row-7", "r1", "r2"]
    assert complete("fleet", "ls", "--hardware", typed="blue") == ["bluefield3"]
    monkeypatch.setenv("BMCSIM_URL", "http://127.0.0.1:1")
    assert complete("fleet", "why", "--url", served.url, typed="beta-3") == ["beta-3"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense"])
def test_where_nobody_is_nothing_is_completed_soon(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMCSIM_URL", url)
    began = time.monotonic()
    assert complete("fleet", "reset", typed="beta-") == []
    assert time.monotonic() - began < 5
