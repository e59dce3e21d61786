"""`bmcsim sizing`."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bmcsim.cli import main
from tests.unit.deploy.configurations import racks


def sizing(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sizing", *arguments])


def test_the_table_has_what_was_published() -> None:
    done = sizing("--hosts", "4500", "--dpus", "2")
    assert done.exit_code == 0, done.output
    words = [line.split() for line in done.output.splitlines()]
    assert done.output.startswith("13,500 BMCs in 1 pod: 4,500 hosts, 9,000 DPUs, 13,500 machines\n")
    assert ["simulated-oob", "13,500", "/18", "16,382", "16,382"] in words
    assert ["lo-ip", "13,500", "16,382"] in words and ["fnn-asn", "9,000", "18,000"] in words
    assert "First: addresses of [networks.simulated-oob], /18, above 16,380 BMCs\n" in done.output


def test_racks_are_spread_over_pods() -> None:
    done = sizing("--racks", "250", "-o", "json")
    found = json.loads(done.output)
    assert (found["demand"]["bmcs"], found["demand"]["pods"], found["networks"][0]["prefix"]) == (17_750, 10, 17)
    assert {share["bmcs"] for share in found["shares"]} == {1_775}


def test_values_say_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "v.yaml").write_text(racks("a, b", "c"))
    found = yaml.safe_load(sizing(str(tmp_path / "v.yaml"), "-o", "yaml").output)
    assert (found["demand"]["racks"], found["demand"]["bmcs"], found["demand"]["pods"]) == (3, 213, 2)
    assert found["first"] == found["limits"][0]


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        ([], "give VALUES", 2),
        (["--hosts", "1", "--racks", "1"], "give VALUES", 2),
        (["v.yaml", "--dpus", "1"], "give VALUES", 2),
        (["--hosts", "1", "--service-cidr", "x"], "must be a CIDR", 2),
        (["--hosts", "0"], "not in the range", 2),
        (["missing.yaml"], "missing.yaml", 1),
        (["empty.yaml"], "has no machines", 1),
        (["future.yaml"], "rack type 'x' is not known", 1),
    ],
)
def test_wrong_arguments(
    arguments: list[str], said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.yaml").write_text("pods: {}\n")
    Path("future.yaml").write_text(racks("a", type_="x"))
    done = sizing(*arguments)
    assert done.exit_code == code and said in done.output
