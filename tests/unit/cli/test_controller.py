"""`bmcsim controller`: flags and variables as mat-k8s-controller has them, and one pass by a process."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bmcsim.cli import controller as module
from bmcsim.cli import main


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Calls the command and returns the flags, or what it says."""
    seen = list[Any]()

    async def run(flags: Any, access: Any, trust: Any) -> int:
        seen.append(flags)
        return 0

    monkeypatch.setattr(module, "_run", run)
    (tmp_path / "config").write_text(
        "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    for name in ("NAMESPACE", "SYNC_INTERVAL", "HEALTH_ADDR", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, **variables: str) -> Any:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        file = f"--kubeconfig={tmp_path / 'config'}"
        result = CliRunner().invoke(main, ["controller", file, *arguments])
        return seen.pop() if result.exit_code == 0 else result.output

    return call


def test_defaults(given: Any) -> None:
    flags = given()
    assert (flags.namespace, flags.discovery_selector) == ("nico-system", "nvidia-infra-controller/mat-service=true")
    assert (flags.sync_interval, flags.source_list_debounce, flags.health_stale_after) == (30.0, 5.0, 600.0)
    assert (flags.source_list_addr, flags.health_addr) == ("127.0.0.1:8090", ":8091")
    assert flags.target_selector == {"app.kubernetes.io/name": "nico-machine-a-tron"}
    assert (flags.insecure_skip_verify, flags.enable_state_annotations) == (False, False)
    assert (flags.qps, flags.burst, flags.addressing, flags.leader_election) == (100.0, 200, "external-ips", "auto")


def test_flags_as_go_takes_them(given: Any) -> None:
    flags = given("--insecure-skip-verify", "--enable-state-annotations=true", "--sync-interval", "1m30s")
    assert (flags.insecure_skip_verify, flags.enable_state_annotations, flags.sync_interval) == (True, True, 90.0)
    flags = given("--insecure-skip-verify=false", "--health-stale-after=0", "--target-selector=a=b,c=d")
    assert (flags.insecure_skip_verify, flags.health_stale_after) == (False, 0.0)
    assert flags.target_selector == {"a": "b", "c": "d"}
    assert given("--target-selector=").target_selector == {}


def test_variables(given: Any) -> None:
    flags = given(NAMESPACE="x", SYNC_INTERVAL="10s", INSECURE_SKIP_VERIFY="1", HEALTH_ADDR="", SOURCE_LIST_ADDR="")
    assert (flags.namespace, flags.sync_interval, flags.insecure_skip_verify) == ("x", 10.0, True)
    assert (flags.health_addr, flags.source_list_addr) == ("", "")
    assert given("--namespace=y", "--health-addr=:1").namespace == "y"


def test_variables_that_cannot_be_read_do_not_count(given: Any) -> None:
    flags = given(SYNC_INTERVAL="often", INSECURE_SKIP_VERIFY="maybe", HEALTH_STALE_AFTER="", LOG_LEVEL="loud")
    assert (flags.sync_interval, flags.insecure_skip_verify, flags.health_stale_after) == (30.0, False, 600.0)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--sync-interval=0", "--sync-interval must be longer than 0"),
        ("--sync-interval=-1s", "must be a duration such as"),
        ("--insecure-skip-verify=maybe", "must be true or false"),
        ("--target-selector=x", "must be key=value pairs"),
        ("--status-url=ftp://x", "--status-url must be http:// or https://"),
        ("--status-url=https://{who}", "--status-url must be http:// or https://"),
        ("--status-ca=/none/ca.crt", "/none/ca.crt: cannot be read"),
        ("--source-list-address=127.0.0.1:1", "No such option"),
    ],
)
def test_what_is_wrong_is_named(given: Any, argument: str, said: str) -> None:
    assert said in given(argument)


def test_the_source_list_is_for_loopback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    arguments = ["controller", f"--kubeconfig={tmp_path / 'config'}", "--source-list-addr=0.0.0.0:8090"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "--source-list-addr must be a loopback IP address such as 127.0.0.1:8090" in result.output
