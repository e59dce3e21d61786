"""Helm for tests: the one that is installed, else built once from its Go module and kept in the user's cache."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

VERSION = "v3.20.2"
ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "bmcsim"
VALUES = ROOT / "deploy" / "values"
RELEASE, NAMESPACE = "bmcsim", "nico-mat"
_BUILD_SECONDS = 900


class NoHelm(Exception):
    """There is none; the text says why."""


def require() -> Path:
    """The program. Skips the test where there is neither Helm nor Go, or Go cannot fetch it."""
    try:
        return program()
    except NoHelm as error:
        pytest.skip(str(error))


@cache
def program() -> Path:
    """The program. Raises NoHelm."""
    if installed := shutil.which("helm"):
        return Path(installed)
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bmcsim" / "helm" / VERSION / "helm"
    if kept.is_file():
        return kept
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if go is None:
        raise NoHelm("there is neither helm nor Go, which could build it")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with (kept.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file():
            _build(go, kept.parent)
    return kept


def _build(go: str, directory: Path) -> None:
    command = [go, "install", f"helm.sh/helm/v3/cmd/helm@{VERSION}"]
    environment = {**os.environ, "GOBIN": str(directory), "GOFLAGS": "-trimpath"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NoHelm(f"Go could not build helm {VERSION} within {_BUILD_SECONDS} s") from error
    if done.returncode:
        raise NoHelm(f"Go cannot build helm {VERSION}: {done.stderr.strip().splitlines()[-1:]}")


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command of Helm."""
    return subprocess.run([str(program()), *arguments], capture_output=True, text=True, timeout=60, check=False)


def notes(directory: Path, *arguments: str) -> str:
    """What an installation with such values prints at its end. Helm shows it only with a cluster, so a copy of the
    chart has it in an object."""
    copy = directory / "chart"
    shutil.copytree(CHART, copy)
    (copy / "templates" / "NOTES.txt").rename(copy / "NOTES.txt")
    (copy / "templates" / "notes.yaml").write_text('kind: Notes\ntext: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}\n')
    done = run("template", RELEASE, str(copy), "-n", NAMESPACE, "--show-only", "templates/notes.yaml", *arguments)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["text"])


def template(*arguments: str) -> str:
    """What `helm template` makes of the chart. Fails with what it said."""
    done = run("template", RELEASE, str(CHART), "-n", NAMESPACE, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*arguments: str) -> "Objects":
    """The objects of the chart with such values."""
    return Objects([one for one in yaml.safe_load_all(template(*arguments)) if one])


def refusal(*arguments: str) -> str:
    """Why Helm refuses such values."""
    done = run("template", RELEASE, str(CHART), *arguments)
    assert done.returncode != 0, "these values were taken"
    return done.stderr


def values_file(directory: Path, values: Any) -> list[str]:
    """The arguments that give these values."""
    path = directory / f"values-{len(list(directory.glob('values-*')))}.yaml"
    path.write_text(values if isinstance(values, str) else yaml.safe_dump(values))
    return ["-f", str(path)]


class Objects(list[dict[str, Any]]):
    """Kubernetes objects."""

    def of(self, kind: str, name: str = "") -> list[dict[str, Any]]:
        """Those of a kind whose name ends like this."""
        return [one for one in self if one["kind"] == kind and one["metadata"]["name"].endswith(name)]

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        """The only one of them."""
        found = self.of(kind, name)
        assert len(found) == 1, [one["metadata"]["name"] for one in found]
        return found[0]

    def container(self, name: str) -> dict[str, Any]:
        """The container of a Deployment."""
        (container,) = self.one("Deployment", name)["spec"]["template"]["spec"]["containers"]
        return dict(container)

    def fleet(self, pod: str) -> str:
        """The fleet file of a pod."""
        return str(self.one("ConfigMap", f"-{pod}-config-files")["data"]["mat.toml"])

    def fleets(self) -> list[str]:
        """All fleet files."""
        return [one["data"]["mat.toml"] for one in self.of("ConfigMap", "-config-files")]


def environment(container: dict[str, Any]) -> dict[str, Any]:
    """name -> value, or where it comes from."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", ())}


def profiles() -> Sequence[Path]:
    """The values files for the chart; the one for NICo Core is none."""
    return sorted(path for path in VALUES.glob("*.yaml") if path.stem != "nico-core-simulation")
