"""A state directory, with the process killed, started twice, and given to others."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.serving import Process, serving

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]

HOST, DPU = "127.64.0.2", "127.64.0.3"
ACCOUNT = "/redfish/v1/AccountService/Accounts/root"
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
ONE_HOST = ("--hosts", "1", "--dpus", "1", "--time-scale", "60")


class Caller:
    """Requests to the BMCs of a running process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._session = requests.Session()
        self._session.verify, self._session.trust_env = False, False

    def __call__(self, method: str, address: str, path: str, password: str, body: Any = None) -> requests.Response:
        url = self._process.url(address) + path
        return self._session.request(method, url, auth=("root", password), json=body, timeout=10)


@contextmanager
def running(tmp_path: Path, *options: str) -> Iterator[tuple[Process, Caller]]:
    """One host with one DPU, hardware sixty times faster, and its state in tmp_path/state."""
    arguments = (*ONE_HOST, "--state-dir", str(tmp_path / "state"), *options)
    with serving(tmp_path / f"serve-{time.monotonic()}.log", *arguments) as process:
        yield process, Caller(process)


def refused(tmp_path: Path, *arguments: str) -> str:
    """What `bmcsim serve` says when it does not start."""
    command = [sys.executable, "-m", "bmcsim", "serve", *arguments, "--listen", "127.0.0.0/8:0", "--admin", "off"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def test_n05_a_rotated_password_survives_an_unclean_stop(tmp_path: Path) -> None:
    with running(tmp_path) as (process, call):
        assert call("PATCH", HOST, ACCOUNT, "factory_password", {"Password": "Rotated-1"}).status_code == 204
        process.stop(signal.SIGKILL)
    with running(tmp_path) as (_, call):
        assert call("GET", HOST, SYSTEM, "Rotated-1").status_code == 200
        assert call("GET", HOST, SYSTEM, "factory_password").status_code == 401
        assert call("GET", DPU, "/redfish/v1/Systems", "0penBmc").status_code == 403


def test_without_a_state_directory_a_restart_is_a_fresh_start(tmp_path: Path) -> None:
    for _ in range(2):
        with serving(tmp_path / "serve.log", *ONE_HOST) as process:
            changed = Caller(process)("PATCH", HOST, ACCOUNT, "factory_password", {"Password": "Rotated-1"})
            assert changed.status_code == 204


@pytest.mark.parametrize(
    ("options", "works"),
    [
        (("--credentials", "persist"), "Rotated-2"),
        (("--credentials", "factory"), "factory_password"),
        (("--host-password", "Pinned-1"), "Pinned-1"),
    ],
)
def test_a_password_after_a_restart_is_what_the_policy_says(
    tmp_path: Path, options: tuple[str, ...], works: str
) -> None:
    first = "Pinned-1" if "Pinned-1" in options else "factory_password"
    with running(tmp_path, *options) as (process, call):
        assert call("PATCH", HOST, ACCOUNT, first, {"Password": "Rotated-2"}).status_code == 204
        assert call("GET", HOST, ACCOUNT, "Rotated-2").status_code == 200
        process.stop()
    with running(tmp_path, *options) as (_, call):
        answers = {word: call("GET", HOST, ACCOUNT, word).status_code for word in (first, "Rotated-2", works)}
        assert answers == {word: 200 if word == works else 401 for word in answers}


def test_n17_a_machine_that_was_booting_goes_on_booting(tmp_path: Path) -> None:
    reset = SYSTEM + "/Actions/ComputerSystem.Reset"
    with running(tmp_path, "--host-password", "P") as (process, call):
        assert call("POST", HOST, reset, "P", {"ResetType": "ForceRestart"}).status_code == 204
        assert call("GET", HOST, SYSTEM, "P").json()["BootProgress"]["LastState"] != "OSRunning"
        process.stop(signal.SIGKILL)
    with running(tmp_path, "--host-password", "P") as (process, call):
        assert call("GET", HOST, SYSTEM, "P").json()["BootProgress"]["LastState"] != "OSRunning"
        deadline = time.monotonic() + 20
        while call("GET", HOST, SYSTEM, "P").json()["BootProgress"]["LastState"] != "OSRunning":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert call("POST", HOST, reset, "P", {"ResetType": "ForceOff"}).status_code == 204
        process.stop(signal.SIGKILL)
    with running(tmp_path, "--host-password", "P") as (_, call):
        assert call("GET", HOST, SYSTEM, "P").json()["PowerState"] == "Off"


def test_two_processes_cannot_share_a_directory(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with running(tmp_path) as (process, _):
        said = refused(tmp_path, *ONE_HOST, "--state-dir", state)
        assert state in said
        assert str(process.process.pid) in said


def test_another_fleet_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with running(tmp_path) as (_, call):
        call("PATCH", HOST, ACCOUNT, "factory_password", {"Password": "Rotated-1"})
    other = tmp_path / "other.toml"
    other.write_text('[mac_address_pool]\nbase = "02:00:09:00:00:00"\n[machines.host]\nhost_count = 1\n')
    assert "another fleet" in refused(tmp_path, str(other), "--state-dir", state)
    moved = tmp_path / "moved.toml"
    moved.write_text("[machines.a]\nhost_count = 1\n[machines.host]\nhost_count = 1\ndpu_per_host_count = 1\n")
    said = refused(tmp_path, str(moved), "--state-dir", state)
    assert "host-0" in said
    assert "MAC" in said
    with running(tmp_path) as (_, call):
        assert call("GET", HOST, SYSTEM, "Rotated-1").status_code == 200


def test_a_damaged_row_stops_the_start_with_its_name_or_is_set_aside(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running(tmp_path) as (_, call):
        call("PATCH", HOST, ACCOUNT, "factory_password", {"Password": "Rotated-1"})
        call("PATCH", DPU, ACCOUNT, "0penBmc", {"Password": "Rotated-2"})
    with sqlite3.connect(state / "state.sqlite") as database:
        database.execute("UPDATE bmc SET payload = x'00' WHERE id = 'host-0'")
    database.close()
    assert "host-0" in refused(tmp_path, *ONE_HOST, "--state-dir", str(state))
    with running(tmp_path, "--quarantine") as (process, call):
        assert "host-0" in process.output
        assert call("GET", HOST, ACCOUNT, "factory_password").status_code == 200
        assert call("GET", DPU, "/redfish/v1/Systems", "Rotated-2").status_code == 200


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root to mount a small file system")
def test_a_full_disk_refuses_changes_with_507_and_undoes_them(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(state)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this system does not let us mount a tmpfs")
    try:
        with running(tmp_path) as (_, call):
            assert call("PATCH", HOST, ACCOUNT, "factory_password", {"Password": "Rotated-0"}).status_code == 204
            filler = state / "lost+found"
            filler.write_bytes(b"\0" * max(0, shutil.disk_usage(state).free))
            statuses = []
            password = "Rotated-0"
            for number in range(1, 200):
                changed = call("PATCH", HOST, ACCOUNT, password, {"Password": f"Rotated-{number}"})
                statuses.append(changed.status_code)
                if changed.status_code != 204:
                    break
                password = f"Rotated-{number}"
            assert statuses[-1] == 507
            assert "InsufficientStorage" in changed.text
            assert call("GET", HOST, SYSTEM, password).status_code == 200
            filler.unlink()
            assert call("PATCH", HOST, ACCOUNT, password, {"Password": "Rotated-end"}).status_code == 204
        with running(tmp_path) as (_, call):
            assert call("GET", HOST, SYSTEM, "Rotated-end").status_code == 200
    finally:
        subprocess.run(["umount", str(state)], check=True)
