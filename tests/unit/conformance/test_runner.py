"""What is tested, what is skipped and why, and that nothing is left running."""

import dataclasses
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from bmcsim.tree import profile as profiles
from tests.conformance import __main__ as command_line
from tests.conformance import runner, sealed
from tests.conformance.targets import discover
from tests.conformance.tools import TOOLS


def test_there_is_a_target_for_every_profile_and_a_dpu_is_found_beside_its_host() -> None:
    targets = discover()
    assert list(targets) == profiles.names()
    assert targets["dell_poweredge_r750"].address == "127.64.0.2"
    assert targets["bluefield3"].address == "127.64.0.3"
    for target in targets.values():
        assert "--time-scale" in target.arguments


def test_every_profile_meets_every_tool_unless_some_are_named() -> None:
    assert set(runner.all_pairs()) == {(profile, tool) for profile in profiles.names() for tool in TOOLS}
    assert list(runner.all_pairs(["bluefield3"], ["service"])) == [("bluefield3", "service")]


def test_a_tool_is_skipped_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, protocol = TOOLS["service"], TOOLS["protocol"]
    assert runner.why_skipped(protocol, tmp_path, "") == ""
    assert f"no CSDL files in {tmp_path}" in runner.why_skipped(service, tmp_path, "")
    (tmp_path / "Chassis_v1.xml").touch()
    assert runner.why_skipped(service, tmp_path, "") == ""
    assert runner.why_skipped(service, tmp_path, "no namespaces") == "no namespaces"
    monkeypatch.setattr("tests.conformance.tools.metadata.version", _not_installed)
    assert runner.why_skipped(protocol, tmp_path, "") == "redfish-protocol-validator is not installed"


def _not_installed(package: str) -> str:
    raise metadata.PackageNotFoundError(package)


def test_the_schema_folder_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMCSIM_CSDL", str(tmp_path))
    assert runner.default_csdl() == tmp_path


def test_without_programs_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert sealed.why_not() == "the program unshare is not there"


def test_the_sealed_part_refuses_to_run_outside_a_namespace_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed.subprocess, "run", _must_not_run)
    job = sealed.Job("x", "service", "127.64.0.2", "root", "P", (), str(tmp_path), str(tmp_path), sealed.namespace())
    assert sealed.main(job) == 2
    assert not list(tmp_path.iterdir())


def _must_not_run(command: list[str], **_: object) -> None:
    pytest.fail(f"ran {command} in the network of this machine")


@pytest.fixture
def instead_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a shell script in the place of `unshare` and all that it starts."""

    def put(script: str) -> None:
        program = tmp_path / "bin" / "unshare"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        monkeypatch.setattr(sealed, "why_not", lambda: "")

    return put


def test_a_run_that_takes_too_long_ends_with_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead_of_a_run: Callable[[str], None]
) -> None:
    instead_of_a_run(f"sleep 60 & echo $! > {tmp_path}/child; sleep 60")
    monkeypatch.setattr(runner, "_START_SECONDS", 0.5)
    monkeypatch.setitem(runner.TOOLS, "protocol", dataclasses.replace(TOOLS["protocol"], timeout=0))
    (outcome,) = runner.run([("bluefield3", "protocol")], tmp_path / "out", tmp_path, 1)
    assert outcome.error == "did not end in 0 s"
    stat = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_a_run_without_a_report_is_no_result_and_says_where_to_look(
    tmp_path: Path, instead_of_a_run: Callable[[str], None]
) -> None:
    instead_of_a_run("echo it broke >&2; exit 7")
    told = []
    pairs = [("bluefield3", "usecase"), ("bluefield3", "protocol"), ("bluefield3", "service")]
    outcomes = runner.run(pairs, tmp_path / "out", tmp_path, 2, told.append)
    assert [(outcome.profile, outcome.tool) for outcome in outcomes] == pairs
    assert "0 reports" in outcomes[1].error
    assert f"exit status 7; last words: 'it broke'; see {tmp_path}/out/bluefield3/protocol" in outcomes[1].error
    assert outcomes[2].skipped.startswith("no CSDL files")
    assert len(told) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "--jobs is 0, but must be at least 1"),
        (["--out", "{folder}", "--csdl", "{folder}/csdl"], "would overwrite the schemas"),
        (["--profile", "nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main([argument.format(folder=tmp_path) for argument in arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_a_last_run_there_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["--out", str(tmp_path), "--last"]) == 2
    assert "run without --last first" in capsys.readouterr().err
