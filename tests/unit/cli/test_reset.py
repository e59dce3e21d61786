"""`bmcsim reset site` with kubectl and helm that are scripts."""

import base64
import json
import subprocess
from pathlib import Path

import pytest

from bmcsim.cli import reset
from tests.unit.cli.conftest import run
from tests.unit.cli.programs import Programs

NAMES = ["release", "services", "certificates", "database", "database-check", "dpf", "core-config", "vault"]
TOKEN = "hvs.a-secret-token"
CONFIG = {"metadata": {"resourceVersion": "7"}, "data": {"site.toml": '[site_explorer]\nbmc_proxy = "a:1"\nx = 1\n'}}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A cluster where everything goes well."""
    (tmp_path / "bin").mkdir()
    made = Programs(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(reset, "_PAUSE", 0.0)
    return made


def well(programs: Programs) -> None:
    """The rest goes well."""
    programs.says("config get-contexts", "lab\nother\n")
    programs.says("config current-context", "lab\n")
    programs.says("get pods", "pod/pg-0\n")
    programs.says("SELECT (SELECT count", "0\t1\n")
    programs.says("get configmap", json.dumps(CONFIG))
    programs.says("get secret", base64.b64encode(TOKEN.encode()).decode())
    programs.says("exec -i", "0\n")


def test_without_yes_nothing_is_run(programs: Programs) -> None:
    done = run("reset", "site", "--context", "lab")
    assert done.exit_code == 0 and "nothing was done" in done.stderr
    assert [line[2:].partition(":")[0] for line in done.stdout.splitlines() if line.startswith("# ")] == [
        *NAMES[:6], "not where DPF's own operator runs there", *NAMES[6:],
    ]  # fmt: skip
    assert programs.asked() == []


def test_what_is_printed_is_what_is_done(programs: Programs) -> None:
    well(programs)
    which = ["--context", "lab", "--kubeconfig", "k.conf", "-n", "sim", "--release", "mat", "--also-truncate", "more"]
    done = run("reset", "site", *which, "--yes")
    assert done.exit_code == 0, done.output
    assert [line.split()[1].rstrip(":") for line in done.stdout.splitlines() if line[0] != " "] == NAMES
    by_itself = [line for line in programs.asked() if "config" not in line and "deployments" not in line]
    printed = run("reset", "site", *which).stdout
    assert TOKEN not in printed + done.output
    subprocess.run(["sh", "-e"], input=printed, text=True, timeout=60, check=True, capture_output=True)
    by_hand = [line for line in programs.asked()[-len(by_itself) - 1 :] if line[0] != "jq"]
    assert sorted(by_hand) == sorted(by_itself)


def test_everything_is_done_in_the_cluster_that_was_named(programs: Programs) -> None:
    well(programs)
    assert run("reset", "site", "--context", "lab", "--yes").exit_code == 0
    for line in programs.asked()[1:]:
        assert line[1] == ("--kube-context=lab" if line[0] == "helm" else "--context=lab"), line
    assert programs.given("exec -i -n vault") == TOKEN
    assert not any(TOKEN in " ".join(line) for line in programs.asked())
    replaced = json.loads(programs.given("replace -f -"))
    assert replaced["data"] == {"site.toml": "[site_explorer]\nx = 1\n"} and replaced["metadata"] == CONFIG["metadata"]
    assert any("TRUNCATE" in " ".join(line) and line[5] == "pod/pg-0" for line in programs.asked())


@pytest.mark.parametrize(
    ("part", "step", "why"),
    [
        ("delete -n nico-mat --ignore-not-found leases", "services", "forbidden"),
        ("TRUNCATE", "database", "forbidden"),
        ("get deployments", "dpf", "forbidden"),
        ("get secret", "vault", "forbidden"),
    ],
)
def test_the_first_failure_ends_it(programs: Programs, part: str, step: str, why: str) -> None:
    programs.says(part, err="error: something\nforbidden\n", code=1)
    well(programs)
    done = run("reset", "site", "--context", "lab", "--yes")
    assert done.exit_code == 1
    assert f"step {step} failed: " in done.stderr and why in done.stderr
    assert part in " ".join(programs.asked()[-1])


def test_helm_is_asked_three_times(programs: Programs) -> None:
    programs.says("uninstall", err="client connection lost", code=1, times=2)
    well(programs)
    done = run("reset", "site", "--context", "lab", "--yes")
    assert done.exit_code == 0 and done.stderr.count("once more: client connection lost") == 2
    programs.says("never")
    assert sum(line[0] == "helm" for line in programs.asked()) == 3


def test_helm_is_not_asked_for_ever(programs: Programs) -> None:
    programs.says("uninstall", err="client connection lost", code=1)
    well(programs)
    done = run("reset", "site", "--context", "lab", "--yes")
    assert done.exit_code == 1 and "step release failed: client connection lost" in done.stderr
    assert [line[0] for line in programs.asked()] == ["kubectl", "helm", "helm", "helm"]


def test_what_is_gone_already_is_no_failure(programs: Programs) -> None:
    programs.says("uninstall", err="Error: uninstall: Release not loaded: bmcsim: release: not found", code=1)
    programs.says("delete dpudevices", err='error: the server doesn\'t have a resource type "dpudevices"', code=1)
    programs.says("get configmap", json.dumps({"data": {"site.toml": "x = 1\n"}}))
    well(programs)
    done = run("reset", "site", "--context", "lab", "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("nothing to do") == 3
    assert not any("replace" in line or "restart" in line for line in programs.asked())


def test_objects_of_a_real_operator_stay(programs: Programs) -> None:
    programs.says("get deployments", "deployment.apps/dpf-sim-controller\ndeployment.apps/dpf-operator-manager\n")
    well(programs)
    done = run("reset", "site", "--context", "lab", "--yes")
    assert done.exit_code == 0 and "left out: DPF's own operator runs there" in done.stdout
    assert not any("dpudevices" in " ".join(line) for line in programs.asked())


def test_the_simulator_of_dpf_is_no_operator(programs: Programs) -> None:
    programs.says("get deployments", "deployment.apps/dpf-sim-controller\n")
    well(programs)
    assert run("reset", "site", "--context", "lab", "--yes").exit_code == 0
    assert any("dpudevices" in " ".join(line) for line in programs.asked())


@pytest.mark.parametrize(
    ("asked", "answer", "said"),
    [
        ("SELECT (SELECT count", "3\t1\n", "step database-check failed: it says '3\\t1'"),
        ("exec -i", "2\n", "step vault failed: it says '2', and not '0'"),
        ("get pods", "", "step database failed: there is no pod"),
    ],
    ids=["machines", "passwords", "no pod"],
)
def test_what_is_left_or_missing_fails_its_step(programs: Programs, asked: str, answer: str, said: str) -> None:
    programs.says(asked, answer)
    well(programs)
    done = run("reset", "site", "--context", "lab", "--yes")
    assert done.exit_code == 1 and said in done.stderr


def test_parts_can_be_kept(programs: Programs) -> None:
    keep = ["--keep-db", "--keep-nico-core-config", "--keep-vault-cred", "--keep-dpf-crs", "--delete-namespace"]
    steps = [line for line in run("reset", "site", *keep).stdout.splitlines() if line.startswith("#")]
    assert [step[2:].partition(":")[0] for step in steps] == ["release", "services", "namespace"]
    printed = run("reset", "site", "--also-truncate", "instances").stdout
    assert "instances" in printed


@pytest.mark.parametrize("wrong", [["--also-truncate", "a; DROP TABLE b"], ["--vault-mount", "a b"]])
def test_names_that_are_none_are_refused(programs: Programs, wrong: list[str]) -> None:
    done = run("reset", "site", *wrong)
    assert done.exit_code == 2 and "is no " in done.stderr


def test_a_context_has_to_be_there(programs: Programs) -> None:
    well(programs)
    done = run("reset", "site", "--context", "prod", "--yes")
    assert done.exit_code == 2 and "knows no context 'prod'; there are lab, other" in done.stderr
    assert len(programs.asked()) == 1


def test_without_a_context_its_name_is_asked_back(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    well(programs)
    done = run("reset", "site", "--yes")
    assert done.exit_code == 2 and "--context lab" in done.stderr
    monkeypatch.setattr(reset, "at_terminal", lambda: True)
    done = run("reset", "site", "--yes", input="y\n")
    assert done.exit_code == 1 and "nothing was done: that is not lab" in done.stderr
    assert all("config" in line for line in programs.asked())
    done = run("reset", "site", "--yes", input="lab\n")
    assert done.exit_code == 0, done.output
    assert any("--context=lab" in line for line in programs.asked())


def test_no_kubectl_no_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("reset", "site", "--yes", "--context", "lab")
    assert done.exit_code == 1 and "nothing was done: kubectl cannot be run" in done.stderr
