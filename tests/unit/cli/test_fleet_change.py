"""What the command line does to a fleet, and that it asks back."""

import json
from pathlib import Path
from typing import get_args

import click
import pytest

from bmcsim.cli import fleet_change, fleet_credentials, fleet_members, operating
from bmcsim.cli.remote import Remote
from bmcsim.fleet.operations import ResetType
from tests.unit.cli.conftest import Served, answering, run
from tests.unit.edges.control.asking import call

PASSWORD = "New-password-1"


def ok(served: Served, *arguments: str, **others: object) -> str:
    """The output of a command that must succeed."""
    result = served.run("fleet", *arguments, **others)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_power_commands_are_those_of_the_api() -> None:
    assert get_args(ResetType) == fleet_change.RESET_TYPES
    assert set(fleet_change.WORDS.values()) <= set(get_args(ResetType))


def test_power_says_what_came_of_it(served: Served) -> None:
    assert ok(served, "power", "off", "beta-0", "beta-1") == "job 1 completed: 2 done, of 2 BMCs\n"
    assert served.site.bmc("beta-0").power.shown == "Off"
    assert ok(served, "power", "ForceOff", "beta-0", "beta-1", "beta-2") == (
        "job 2 completed: 1 done, 2 skipped, of 3 BMCs\n  skipped: already off (beta-0 and 1 more)\n"
    )


def test_what_fails_for_some_is_exit_code_1(served: Served) -> None:
    result = served.run("fleet", "reading", "--sensor", "/nowhere", "--value", "1", "beta-0", "-o", "json")
    assert result.exit_code == 1
    job = json.loads(result.output)
    assert (job["failed"], job["reasons"][0]["reason"]) == (1, "has no such sensor")


def test_resets(served: Served) -> None:
    ok(served, "reset", "--group", "beta")
    assert ok(served, "ls", "--state", "resetting", "-o", "name").split() == [f"beta-{number}" for number in range(4)]
    ok(served, "factory-reset", "alpha-0")
    assert ok(served, "ls", "alpha-0", "--state", "resetting", "-o", "name") == "alpha-0\n"


def test_a_change_of_nothing_in_particular_is_wrong_usage(served: Served) -> None:
    assert served.run("fleet", "reset").exit_code == 2
    both = served.run("fleet", "reset", "--all", "--group", "beta")
    assert (both.exit_code, "leave it out" in both.output) == (2, True)
    assert served.run("fleet", "reset", "beta-0", "--interval", "3").exit_code == 2
    assert served.said == []
    ok(served, "reset", "--all")
    assert "POST operations" in served.said


def test_a_dry_run_tells_and_changes_nothing(served: Served) -> None:
    result = served.run("fleet", "power", "off", "--group", "beta", "--dry-run")
    assert (result.exit_code, result.stdout.split()) == (0, [f"beta-{number}" for number in range(4)])
    assert result.stderr == "would power off 4 BMCs:\n"
    assert served.said == ["GET bmcs"]
    assert served.run("fleet", "reset", "--state", "unpowered", "--group", "beta", "--dry-run").exit_code == 3


@pytest.mark.parametrize(("answer", "code", "resetting"), [("y\n", 0, 4), ("n\n", 1, 0)])
def test_at_a_terminal_several_bmcs_are_asked_about(
    served: Served, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, resetting: int
) -> None:
    monkeypatch.setattr(operating, "at_terminal", lambda: True)
    result = served.run("fleet", "reset", "--group", "beta", input=answer)
    assert result.exit_code == code
    assert "reset 4 BMCs (beta-0, beta-1, beta-2, ...)? [y/N]" in result.output
    assert len(ok(served, "ls", "--state", "resetting", "-o", "name").split()) == resetting


def test_one_bmc_or_yes_is_not_asked_about(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating, "at_terminal", lambda: True)
    assert "?" not in ok(served, "reset", "beta-0")
    assert "?" not in ok(served, "reset", "--group", "alpha", "--yes")
    assert served.run("fleet", "reset", "--power", "PoweringOff").exit_code == 3


def test_waves_and_not_waiting(served: Served) -> None:
    ok(served, "reset", "--group", "alpha", "--wave", "5", "--interval", "7")
    assert served.site.pauses.asked == [7.0, 7.0]
    assert ok(served, "power", "off", "beta-0", "--no-wait").startswith("job 2 ")
    assert "completed" in ok(served, "jobs", "2", "--wait")
    listed = ok(served, "jobs").splitlines()
    assert [line.split()[:3] for line in listed[1:]] == [["2", "completed", "power"], ["1", "completed", "bmc_reset"]]
    assert json.loads(ok(served, "jobs", "1", "-o", "json"))["wave"] == {"size": 5, "interval": 7.0}
    assert served.run("fleet", "jobs", "--cancel").exit_code == 2
    assert served.run("fleet", "jobs", "77").exit_code == 3


# faults


def test_faults_come_and_go(served: Served, tmp_path: Path) -> None:
    bmc = served.site.bmc("beta-0")
    ok(served, "fault", "add", "beta-0", "--status", "503", "--uri", "/redfish/v1/Systems/**", "--remaining", "1")
    caller = call(served.site, bmc)
    assert [caller.ask("GET", "/redfish/v1/Systems") for _ in range(2)] == [503, 200]
    file = tmp_path / "rules.json"
    file.write_text('[{"id": "a", "selector": {"OdataId": "/x"}, "action": "Close"}]')
    ok(served, "fault", "add", "beta-0", "--rule", str(file), "--preset", "slow_login", "--delay", "0.5")
    assert {"a", "delay"} <= {rule.id for rule in bmc.state.faults.rules}
    ok(served, "fault", "remove", "beta-0", "--rule-id", "a")
    assert "a" not in {rule.id for rule in bmc.state.faults.rules}
    ok(served, "fault", "clear", "beta-0")
    assert not bmc.state.faults


@pytest.mark.parametrize("content", ["{", "[1]", "7", " " * 1_100_000])
def test_rules_that_are_none_are_wrong_usage(served: Served, tmp_path: Path, content: str) -> None:
    file = tmp_path / "rules.json"
    file.write_text(content)
    result = served.run("fleet", "fault", "add", "beta-0", "--rule", str(file))
    assert (result.exit_code, str(file) in result.output) == (2, True)


def test_a_fault_needs_something_to_do(served: Served) -> None:
    assert served.run("fleet", "fault", "add", "beta-0").exit_code == 2
    assert served.run("fleet", "fault", "add", "beta-0", "--preset", "slow_login", "--uri", "/x").exit_code == 2
    refused = served.run("fleet", "fault", "add", "beta-0", "--preset", "nope")
    assert (refused.exit_code, "nope" in refused.output) == (3, True)


# passwords


def test_a_password_comes_from_a_file_the_environment_or_a_prompt(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = call(served.site, served.site.bmc("beta-0"))
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}-{{id}}\n")
    said = ok(served, "credentials", "set", "beta-0", "--password-file", str(file))
    assert caller.ask("GET", "/redfish/v1/Systems", password=f"{PASSWORD}-beta-0") == 200
    said += ok(served, "credentials", "set", "beta-0", "--password-file", "-", input="From-stdin-1\n")
    assert caller.ask("GET", "/redfish/v1/Systems", password="From-stdin-1") == 200
    monkeypatch.setenv("BMCSIM_NEW_PASSWORD", "From-env-1")
    said += ok(served, "credentials", "set", "beta-0")
    assert caller.ask("GET", "/redfish/v1/Systems", password="From-env-1") == 200
    monkeypatch.delenv("BMCSIM_NEW_PASSWORD")
    monkeypatch.setattr(fleet_credentials, "at_terminal", lambda: True)
    said += ok(served, "credentials", "set", "beta-0", input="Prompted-1\nPrompted-1\n")
    assert caller.ask("GET", "/redfish/v1/Systems", password="Prompted-1") == 200
    ok(served, "credentials", "factory", "beta-0")
    assert ok(served, "ls", "beta-0", "-o", "json").count('"factory"') == 1
    said += ok(served, "jobs", "-o", "json")
    assert not any(one in said for one in (PASSWORD, "From-", "Prompted"))


def test_without_a_password_nothing_is_done(served: Served, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert served.run("fleet", "credentials", "set", "beta-0").exit_code == 2
    assert served.run("fleet", "credentials", "set", "beta-0", "--password-file", str(empty)).exit_code == 2
    assert served.said == []
    assert served.run("fleet", "credentials", "set", "beta-0", "--dry-run").stdout == "beta-0\n"


# times, sensors, the clock


def test_timings(served: Served) -> None:
    before = served.site.bmc("beta-0").shared.timings.bmc_reset
    ok(served, "timing", "beta-0", "--factor", "0.5")
    assert served.site.bmc("beta-0").shared.timings.bmc_reset == before * 0.5
    ok(served, "timing", "beta-0", "--set", "bmc_reset=7")
    assert served.site.bmc("beta-0").shared.timings.bmc_reset == 7
    ok(served, "timing", "beta-0", "--default")
    assert served.site.bmc("beta-0").shared.timings.bmc_reset == before
    for wrong in ([], ["--default", "--factor", "2"], ["--set", "bmc_reset"], ["--set", "bmc_reset=x"]):
        assert served.run("fleet", "timing", "beta-0", *wrong).exit_code == 2


def test_readings(served: Served) -> None:
    sensor = next(iter(served.site.bmc("beta-0").tree.readings))
    ok(served, "reading", "beta-0", "--sensor", sensor, "--value", "12.5")
    assert served.site.bmc("beta-0").state.readings == {sensor: 12.5}
    ok(served, "reading", "beta-0", "--sensor", sensor, "--measured")
    assert served.site.bmc("beta-0").state.readings == {}
    assert served.run("fleet", "reading", "beta-0", "--sensor", sensor).exit_code == 2


def test_the_clock(served: Served) -> None:
    assert "runs 1 times as fast" in ok(served, "clock")
    ok(served, "reset", "beta-0")
    assert ok(served, "clock", "--step", "3600").splitlines()[1] == "1 timers became due"
    assert "runs 60 times" in ok(served, "clock", "--scale", "60")
    assert "stands" in ok(served, "clock", "--pause")
    assert json.loads(ok(served, "clock", "--resume", "-o", "json"))["scale"] == 60
    assert served.run("fleet", "clock", "--pause", "--resume").exit_code == 2
    assert served.run("fleet", "clock", "--pause", "--step", "1").exit_code == 2


# the bar


def test_at_a_terminal_a_bar_shows_how_far_a_job_is(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    process = Remote(served.url)
    job = process.send("POST", "operations", {"operation": {"type": "bmc_reset"}, "selection": {"group": ["beta"]}})
    ended = operating.followed(process, job, "reset")
    process.close()
    assert (ended["state"], ended["done"]) == ("completed", 4)
    shown = capsys.readouterr().err
    assert "reset" in shown and "100%" in shown


def test_a_job_that_is_left_goes_on_and_it_is_said_how_to_end_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bmcsim.cli.operating.time.sleep", leave)
    result = served.run("fleet", "reset", "--group", "beta")
    assert (result.exit_code, "`bmcsim fleet jobs 1 --cancel` ends it" in result.output) == (1, True)
    monkeypatch.undo()
    assert "4 done" in ok(served, "jobs", "1", "--wait")


def test_a_job_that_was_cancelled_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    job = {"id": "3", "state": "cancelled", "total": 9, "done": 2, "failed": 0, "skipped": 0, "reasons": []}
    with pytest.raises(click.exceptions.Exit) as ended:
        operating.tell(job, "text")
    assert (ended.value.exit_code, capsys.readouterr().out) == (1, "job 3 cancelled: 2 done, of 9 BMCs\n")


# machines and snapshots; tests/system/test_fleet_cli.py does more


@pytest.mark.parametrize(
    "arguments",
    [
        ["remove"],
        ["remove", "--all"],
        ["add", "lab", "0"],
        ["add", "lab", "1", "--set", "rack_id"],
        ["move", "beta-0"],
        ["move", "beta-0", "127.64.9.9", "--back"],
        ["snapshot", "save"],
        ["snapshot", "save", "/tmp/x", *[f"b{number}" for number in range(21)]],
        ["snapshot", "restore", "/nowhere/at/all"],
    ],
)
def test_what_makes_no_sense_is_not_asked_for(served: Served, arguments: list[str]) -> None:
    assert served.run("fleet", *arguments).exit_code == 2
    assert served.said == []


def test_settings_of_a_group_are_json_or_text() -> None:
    texts = ["a=1", "b=x=y", 'c={"d": 2}', "e="]
    assert dict(map(fleet_members._setting, texts)) == {"a": 1, "b": "x=y", "c": {"d": 2}, "e": ""}


def test_a_snapshot_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwor"
    url, ended = answering(answer)
    result = run("fleet", "snapshot", "save", str(tmp_path / "file"), "--url", url)
    ended()
    assert (result.exit_code, list(tmp_path.iterdir())) == (3, []), result.output
