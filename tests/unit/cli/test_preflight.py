"""`bmcsim preflight service-cidr` with a cluster that is a script, and check-mat-service-cidr.py as a program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bmcsim.cli import main
from bmcsim.edges.kubectl import Kubectl
from tests.unit.deploy.configurations import CORE, SITE, hosts

SCRIPT = Path(__file__).resolve().parents[3] / "deploy/tools/check-mat-service-cidr.py"

KUBECTL = """#!/bin/sh
printf '%s\\n' "$*" >> "$LOG"
case "$*" in
  "get servicecidrs "*) out="$SERVICECIDRS" ;;
  *kubeadm-config*) out="$KUBEADM" ;;
  "get pods -n kube-system"*) out="$SYSTEM_PODS" ;;
  "create service"*--dry-run=server*) echo "$REFUSAL" >&2; exit 1 ;;
  "get nodes "*podCIDRs*) out="$POD_CIDRS" ;;
  "get nodes "*InternalIP*) out="$NODES" ;;
  "get services "*managed-by!=mat-k8s-controller*) out="$CLUSTER_IPS" ;;
  *) out="" ;;
esac
[ -n "$out" ] || exit 1
printf '%s' "$out"
"""


class Cluster:
    """A kubectl in the PATH that answers as variables say, and writes down what it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._log = folder / "kubectl.log"
        self.program = folder / "kubectl"
        self.write(KUBECTL)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("LOG", str(self._log))
        for name in [name for name in os.environ if name.startswith("SCALE_")]:
            monkeypatch.delenv(name)

    def write(self, script: str) -> None:
        self.program.write_text(script)
        self.program.chmod(0o755)

    def says(self, **answers: str) -> None:
        for name, answer in answers.items():
            self._monkeypatch.setenv(name, answer)

    def asked(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    (tmp_path / "bin").mkdir()
    return Cluster(tmp_path / "bin", monkeypatch)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "values.yaml").write_text(hosts())
    (tmp_path / "core.yaml").write_text(CORE)
    return [str(tmp_path / "values.yaml"), "--site-config", str(tmp_path / "core.yaml")]


def preflight(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["preflight", "service-cidr", *arguments])


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


GOOD = {"POD_CIDRS": "10.244.0.0/24 10.244.1.0/24", "NODES": "192.168.7.11", "CLUSTER_IPS": "10.43.0.1 None 10.43.0.10"}


def test_a_cluster_is_asked_for_everything(cluster: Cluster, files: list[str]) -> None:
    cluster.says(SERVICECIDRS="10.43.0.0/16 fd00:43::/108", **GOOD)
    done = preflight(*files, "--kubeconfig", "k.conf", "--context", "lab", "--timeout", "9")
    assert done.exit_code == 0, done.output
    assert done.stdout == (
        "ok: 300 BMCs, 302 Services; 10.104.0.0/18 (underlay), 10.200.0.0/18 (BMC) outside of 10.43.0.0/16, "
        "fd00:43::/108; errors: 0, warnings: 0\n"
    )
    assert all(one.endswith(" --request-timeout=9s --kubeconfig=k.conf --context=lab") for one in cluster.asked())
    assert not any("create" in one for one in cluster.asked())


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({"SERVICECIDRS": "10.43.0.0/16 fd00::/108"}, ["10.43.0.0/16", "fd00::/108"]),
        ({"KUBEADM": "networking:\n  serviceSubnet: 10.43.0.0/16,fd00::/108\n"}, ["10.43.0.0/16", "fd00::/108"]),
        (
            {"KUBEADM": "x: 1\n", "SYSTEM_PODS": '["kube-apiserver","--service-cluster-ip-range=10.43.0.0/16"]'},
            ["10.43.0.0/16"],
        ),
        ({"REFUSAL": "no. The range of valid IPs is 10.43.0.0/16"}, ["10.43.0.0/16"]),
        ({}, []),
    ],
)
def test_a_service_cidr_is_found_in_several_places(cluster: Cluster, answers: dict[str, str], found: list[str]) -> None:
    cluster.says(**answers)
    assert Kubectl().service_cidrs() == found


def test_pod_cidrs_come_from_wherever_they_are(cluster: Cluster) -> None:
    cluster.says(
        POD_CIDRS="10.1.0.0/24", KUBEADM="  podSubnet: '10.2.0.0/16'\n", SYSTEM_PODS='"--cluster-cidr=10.1.0.0/24"'
    )
    assert Kubectl().pod_cidrs() == ["10.1.0.0/24", "10.2.0.0/16"]


def test_what_is_given_is_not_asked_for(cluster: Cluster, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALE_SERVICE_CIDRS", "10.43.0.0/16, fd00::/108")
    monkeypatch.setenv("SCALE_POD_CIDRS", "10.244.0.0/16")
    done = preflight(*files, "--node-network", "192.168.7.0/24")
    assert done.exit_code == 0, done.output
    assert "outside of 10.43.0.0/16, fd00::/108" in done.stdout
    assert [one.split(" --request")[0] for one in cluster.asked()] == [
        "get services -A -l app.kubernetes.io/managed-by!=mat-k8s-controller -o jsonpath={.items[*].spec.clusterIPs[*]}"
    ]
    before = cluster.asked()
    assert preflight(*files, "--node-network", "192.168.7.0/24", "--no-cluster").exit_code == 0
    assert cluster.asked() == before


def test_taken_cluster_ips_count(cluster: Cluster, tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "values.yaml").write_text(hosts(count=84))
    cluster.says(SERVICECIDRS="10.43.0.0/24", **GOOD)
    done = preflight(*files, "-o", "json")
    assert done.exit_code == 5
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["code"] == "too-few-cluster-ips" and "has 252 free of 254; a /23 would do" in finding["text"]


def test_json_says_what_text_says(cluster: Cluster, files: list[str]) -> None:
    cluster.says(SERVICECIDRS="10.200.0.0/16", **GOOD)
    text, done = preflight(*files), preflight(*files, "-o", "json")
    assert text.exit_code == done.exit_code == 1
    report = json.loads(done.stdout)
    assert (report["verdict"], report["exit_code"], report["cluster"]) == ("conflict", 1, "was asked")
    assert report["networks"][1] == {"network": "10.200.0.0/18", "carries": "BMC"}
    (finding,) = report["findings"]
    assert text.stdout.startswith(
        f"error overlap-services: {finding['file']}: networks.simulated-oob.prefix: {finding['text']}\n"
    )
    assert text.stdout.endswith("\nnot ready: errors: 1, warnings: 0\n")


def test_warnings_fail_when_asked_to(files: list[str], cluster: Cluster) -> None:
    arguments = [*files, "--no-cluster", "--service-cidr", "10.43.0.0/16"]
    assert preflight(*arguments).exit_code == 0
    assert preflight(*arguments, "--strict").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--service-cidr", "10.96.0.0/99"], 4),
        (["--bmc-prefix", "x y"], 4),
        (["--timeout", "0"], 2),
    ],
)
def test_wrong_arguments(cluster: Cluster, files: list[str], arguments: list[str], code: int) -> None:
    assert preflight(*files, "--no-cluster", *arguments).exit_code == code


def test_bad_input_goes_to_standard_error(cluster: Cluster, tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "values.yaml").write_text(hosts("FILL_IN"))
    done = preflight(*files, "--no-cluster")
    assert (done.exit_code, done.stdout) == (4, "")
    assert f"{tmp_path}/values.yaml:5: pods.mat-0.machines.compute.bmcDhcpRelayAddress: must be" in done.stderr
    assert preflight(str(tmp_path / "missing.yaml"), "--no-cluster").exit_code == 4


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exec sleep 30", "did not answer within 0.2 s"),
        ("echo noise >&2; echo 'The connection to the server x:1 was refused' >&2; exit 1", "x:1 was refused"),
        ("echo 'Unable to connect to the server: EOF' >&2; exit 1", "Unable to connect to the server: EOF"),
    ],
)
def test_a_cluster_that_is_away_is_asked_once(cluster: Cluster, body: str, said: str) -> None:
    cluster.write(f"#!/bin/sh\necho x >> $LOG\n{body}\n")
    kubectl = Kubectl(timeout=0.2)
    assert (kubectl.service_cidrs(), kubectl.pod_cidrs(), kubectl.cluster_ips()) == ([], [], None)
    assert said in kubectl.silent
    assert len(cluster.asked()) == 1


def test_without_a_cluster_nothing_is_assumed(
    cluster: Cluster, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = preflight(*files)
    assert done.exit_code == 3, done.output
    assert "error service-cidr-unknown" in done.stdout
    assert "the cluster was not asked further: kubectl cannot be run: No such file or directory" in done.stderr


# check-mat-service-cidr.py


def test_the_script_passes_and_fails_as_the_incumbents(cluster: Cluster, files: list[str]) -> None:
    cluster.says(SERVICECIDRS="10.43.0.0/16")
    done = script(*files)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"OK: .*10\.104\.0\.0/18 10\.200\.0\.0/18 .* 10\.43\.0\.0/16\n", done.stdout)
    cluster.says(SCALE_SERVICE_CIDRS="10.200.0.0/16")
    done = script(*files)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.fullmatch(
        r"ERROR: .*BMC network 10\.200\.0\.0/18 overlaps the ServiceCIDR 10\.200\.0\.0/16.*\n", done.stdout
    )
    assert len(cluster.asked()) == 1


def test_the_script_fails_without_a_service_cidr(cluster: Cluster, files: list[str]) -> None:
    done = script(*files)
    assert done.returncode == 1 and done.stdout.startswith("ERROR: the cluster: ServiceCIDR: cannot be found out")


def test_the_script_takes_prefixes_from_its_variable(cluster: Cluster, files: list[str]) -> None:
    cluster.says(SCALE_SERVICE_CIDRS="10.43.0.0/16", SCALE_BMC_PREFIXES="10.200.0.0/18 10.104.0.0/18")
    assert script(files[0]).returncode == 0
    cluster.says(SCALE_BMC_PREFIXES="10.200.0.0/33")
    assert "ERROR: the command: SCALE_BMC_PREFIXES: '10.200.0.0/33' is not a CIDR" in script(files[0]).stdout


def test_what_only_bmcsim_checks_changes_no_exit_code(cluster: Cluster, tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "core.yaml").write_text(SITE.replace("allow_", "x_"))
    cluster.says(SCALE_SERVICE_CIDRS="10.43.0.0/16")
    done = script(*files)
    assert done.returncode == 0
    assert re.fullmatch(r"WARNING: .*allow_insecure_discovery: .*\nOK: .*\n", done.stdout)


@pytest.mark.parametrize(
    "arguments", [[], ["--nonsense"], ["missing.yaml"], ["--site-config"], ["values.yaml", "--site-config", "missing"]]
)
def test_the_script_exits_with_1_for_whatever_is_wrong(
    cluster: Cluster, files: list[str], tmp_path: Path, arguments: list[str]
) -> None:
    cluster.says(SCALE_SERVICE_CIDRS="10.43.0.0/16")
    done = script(*[files[0] if one == "values.yaml" else one for one in arguments])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr and "Traceback" not in done.stderr


def test_the_script_says_that_it_needs_bmcsim() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and "needs bmcsim" in done.stderr
