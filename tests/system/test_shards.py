"""`bmcsim serve --shards`: a fleet that several processes serve behind one address."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import basic
from tests.serving import free_ports

pytestmark = pytest.mark.system

HOSTS, SHARDS = 6, 3
ROOT = "/redfish/v1/Systems/System.Embedded.1"
TRUST_ALL = ssl._create_unverified_context()


class Sharded:
    """The process that watches, and its children."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "serve.log"
        self.port = free_ports(1 + SHARDS)
        self.admin = self.port + 1
        command = [
            sys.executable,
            "-m",
            "bmcsim",
            "serve",
            "--hosts",
            str(HOSTS),
            "--dpus",
            "0",
            "--shards",
            str(SHARDS),
        ]
        command += ["--listen", f"127.0.0.0/8:{self.port}", "--admin", f"127.0.0.1:{self.admin}"]
        command += ["--host-password", "P", "--state-dir", str(folder / "state")]
        with self.output.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    @property
    def children(self) -> list[int]:
        """Processes of the shards, in their order."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def wait(self) -> None:
        """Until every shard is ready."""
        deadline = time.monotonic() + 60
        while self.output.read_text().count("BMCs ready") < SHARDS:
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.05)

    def get(self, address: str, **fields: str) -> tuple[int, bytes]:
        """Status and body of a GET of a host's system."""
        authorization = {"Authorization": basic("root", "P").decode()}
        request = urllib.request.Request(f"https://{address}:{self.port}{ROOT}", headers={**authorization, **fields})
        try:
            with urllib.request.urlopen(request, context=TRUST_ALL, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture
def sharded(tmp_path: Path) -> Iterator[Sharded]:
    """Three shards of two hosts each."""
    made = Sharded(tmp_path)
    try:
        made.wait()
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.process.wait()


def gone(pids: list[int]) -> bool:
    """Whether all processes end within some seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_each_address_reaches_its_bmc_whatever_the_process(sharded: Sharded) -> None:
    addresses = [f"127.64.0.{n}" for n in range(2, 2 + HOSTS)]
    serials = [json.loads(sharded.get(address)[1])["SerialNumber"] for address in addresses * 3]
    assert len(set(serials)) == HOSTS
    assert serials == serials[:HOSTS] * 3
    assert len(sharded.children) == SHARDS
    for number in range(SHARDS):
        ready = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{sharded.admin + number}/readyz").read())
        assert ready == {"ready": True, "bmcs": 2, "expected": 2}
    assert sharded.get(addresses[0], Host=addresses[1])[0] == 200
    status, body = sharded.get(addresses[0], Host=addresses[-1])
    assert (status, b"another process" in body) == (421, True)
    assert sharded.get(addresses[0], Forwarded=f"host={addresses[-1]}")[0] == 421
    children = sharded.children
    sharded.process.send_signal(signal.SIGTERM)
    assert sharded.process.wait(20) == 0
    assert gone(children)


def test_all_stop_with_status_1_when_one_dies(sharded: Sharded) -> None:
    children = sharded.children
    os.kill(children[1], signal.SIGKILL)
    assert sharded.process.wait(40) == 1
    assert gone(children)
    assert "Error: shard 2 of 3 was killed by signal 9; the others are stopped" in sharded.output.read_text()


def test_the_shards_stop_when_the_one_that_watches_is_killed(sharded: Sharded) -> None:
    children = sharded.children
    sharded.process.kill()
    sharded.process.wait()
    assert gone(children)
