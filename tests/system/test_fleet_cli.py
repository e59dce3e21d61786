"""`bmcsim fleet` against real processes: what one is told shows in its BMCs, and another takes over its state."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.serving import Process, serving

pytestmark = pytest.mark.system

TOKEN = "a-token-of-24-characters"
FACTORY = "calvin"


class Terminal:
    """Commands about a process. environment: more of it."""

    def __init__(self, process: Process, **environment: str) -> None:
        url = f"http://127.0.0.1:{process.admin}"
        self._environment = {**os.environ, "BMCSIM_URL": url, **environment}

    def run(self, *arguments: str, code: int = 0) -> str:
        """What a command prints; it must end with a code."""
        command = [sys.executable, "-m", "bmcsim", "fleet", *arguments]
        done = subprocess.run(
            command, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout


def test_a_fleet_is_seen_changed_saved_and_restored(tmp_path: Path) -> None:
    options = ("--hosts", "3", "--dpus", "1", "--no-tls")
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "password").write_text("Rotated-{id}-1\n")
    file = tmp_path / "fleet.snapshot"
    with serving(tmp_path / "one.log", *options, "--token-file", str(tmp_path / "token")) as process:
        nobody = Terminal(process)
        assert nobody.run("ls", "--kind", "dpu", "-o", "name").split() == [
            f"host-{number}-dpu-0" for number in range(3)
        ]
        nobody.run("power", "off", "host-0", code=3)
        nobody.run("snapshot", "save", str(file), code=3)
        assert not file.exists()
        admin = Terminal(process, BMCSIM_TOKEN_FILE=str(tmp_path / "token"))
        admin.run("credentials", "set", "--kind", "host", "--password-file", str(tmp_path / "password"))
        assert "1 done, of 1 BMC" in admin.run("power", "off", "host-0")
        admin.run("fault", "add", "host-1", "--status", "503", "--uri", "/redfish/v1/Chassis")
        url = f"http://{json.loads(admin.run('ls', 'host-1', '-o', 'json'))[0]['address']}:{process.port}/redfish/v1/"
        auth = ("root", "Rotated-host-1-1")
        assert requests.get(url + "Chassis", auth=auth, timeout=10).status_code == 503
        assert requests.get(url + "Systems", auth=("root", "wrong-1"), timeout=10).status_code == 401
        why = admin.run("why", "host-1")
        assert "NICO-SITEEXPLORER-140" in why and "unknown password" in why and "by fault status" in why
        admin.run("reset", "--group", "host", "--kind", "dpu", "--wave", "2")
        assert admin.run("ls", "--state", "resetting", "-o", "name").count("dpu") == 3
        admin.run("clock", "--step", "3600")
        assert admin.run("ls", "--state", "resetting", "-o", "name") == ""
        assert admin.run("move", "host-2", "127.64.9.9") == "host-2 is at 127.64.9.9\n"
        made = admin.run("add", "more", "2", "--hardware", "dell_poweredge_r750", "--dpus", "0", "-o", "name")
        assert made.split() == ["more-0", "more-1"]
        assert admin.run("remove", "--group", "more") == "removed 2 BMCs\n"
        assert "host-1 " in _top(process)
        admin.run("snapshot", "save", str(file))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        admin.run("snapshot", "save", str(file), code=2)
        digest = admin.run("snapshot", "digest")
        listed = admin.run("ls", "-o", "json", "--sort", "id")
    with serving(tmp_path / "two.log", *options) as process:
        other = Terminal(process)
        assert other.run("snapshot", "digest") != digest
        assert "6 BMCs restored" in other.run("snapshot", "restore", str(file))
        assert other.run("snapshot", "digest") == digest
        kept = ("id", "address", "power", "credentials", "faults")
        before, after = (
            [{name: one[name] for name in kept} for one in json.loads(text)]
            for text in (listed, other.run("ls", "-o", "json"))
        )
        assert after == before
        other.run("fault", "clear", "host-1")
        url = f"http://{after[2]['address']}:{process.port}/redfish/v1/Chassis"
        assert requests.get(url, auth=("root", "Rotated-host-1-1"), timeout=10).status_code == 200
        (tmp_path / "broken").write_bytes(file.read_bytes()[:-40])
        other.run("snapshot", "restore", str(tmp_path / "broken"), code=3)


def _top(process: Process) -> str:
    command = [sys.executable, "-m", "bmcsim", "top", "--url", f"http://127.0.0.1:{process.admin}"]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60
    ).stdout
