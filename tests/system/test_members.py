"""Machines that come and go, and snapshots, with the process killed in between."""

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.serving import Process, serving

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]

FILE = """
dhcp = { type = "pool", prefix = "127.64.0.0/16" }
[machines.host]
hw_type = "dell_poweredge_r750"
host_count = 20
dpu_per_host_count = 1
"""
AT_ONCE = 5


class Admin:
    """The control API of a running process."""

    def __init__(self, process: Process) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        self._base = f"http://127.0.0.1:{process.admin}/api/v1"

    def __call__(self, method: str, path: str, **more: object) -> requests.Response:
        return self._session.request(method, f"{self._base}/{path}", timeout=30, **more)  # type: ignore[arg-type]

    def ids(self) -> list[str]:
        """Of all BMCs."""
        page = self("GET", "bmcs", params={"fields": "id", "limit": 20000}).json()
        return [one["id"] for one in page["items"]]

    def digest(self) -> str:
        """Of all states."""
        return str(self("GET", "fleet/digest").json()["digest"])


@contextmanager
def running(tmp_path: Path, state: str) -> Iterator[tuple[Process, Admin]]:
    """The fleet with a state directory."""
    file = tmp_path / "fleet.toml"
    file.write_text(FILE)
    output = tmp_path / f"serve-{time.monotonic()}.log"
    with serving(output, str(file), "--state-dir", str(tmp_path / state)) as process:
        yield process, Admin(process)


def read(process: Process, address: str, password: str) -> int:
    """The status of a request to a BMC."""
    session = requests.Session()
    session.trust_env = False
    url = f"{process.url(address)}/redfish/v1/Systems"
    return session.get(url, auth=("root", password), verify=False, timeout=10).status_code


def add_until_it_ends(admin: Admin, acknowledged: list[str]) -> None:
    """Add machines, and take some away again, for as long as somebody answers."""
    count = 0
    try:
        while True:
            made = admin("POST", "machines", json={"group": "host", "count": AT_ONCE})
            acknowledged += made.json()["ids"]
            count += 1
            if count % 3 == 0:
                gone = admin("DELETE", "machines", json={"selection": {"ids": [made.json()["ids"][0]]}})
                for id_ in gone.json()["ids"]:
                    acknowledged.remove(id_)
    except requests.RequestException:
        return


def test_additions_are_whole_when_the_process_dies_among_them(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    chosen = random.Random(8)
    for _ in range(4):
        with running(tmp_path, "state") as (process, admin):
            added = {id_ for id_ in admin.ids() if int(id_.split("-")[1]) >= 20}
            # At most one request was begun and not answered, and of that one everything is there or nothing.
            more, fewer = added - set(acknowledged), set(acknowledged) - added
            assert (len(more), len(fewer)) in ((0, 0), (2 * AT_ONCE, 0), (0, 2))
            acknowledged = sorted(added)
            adding = threading.Thread(target=add_until_it_ends, args=(admin, acknowledged))
            adding.start()
            time.sleep(0.2 + chosen.random() * 0.6)
            process.stop(signal.SIGKILL)
            adding.join()
    with running(tmp_path, "state") as (_, admin):
        page = admin("GET", "bmcs", params={"fields": "id,mac,address", "limit": 20000}).json()["items"]
        assert len({one["mac"] for one in page}) == len({one["address"] for one in page}) == len(page) > 40


def test_a_snapshot_is_in_force_in_another_process_and_after_its_death(tmp_path: Path) -> None:
    with running(tmp_path, "first") as (process, admin):
        admin("POST", "machines", json={"group": "host", "count": 5}).raise_for_status()
        order = {"operation": {"type": "set_password", "password": "Rotated-{id}-1"}, "all": True}
        job = admin("POST", "operations", json=order).json()
        while admin("GET", f"jobs/{job['id']}").json()["state"] == "running":
            time.sleep(0.05)
        digest, snapshot = admin.digest(), admin("GET", "snapshot").content
        ids = admin.ids()
        process.stop(signal.SIGKILL)
    with running(tmp_path, "second") as (process, admin):
        octets = {"Content-Type": "application/octet-stream"}
        refused = admin("POST", "restore", data=snapshot, headers=octets)
        assert (refused.status_code, "host-20" in refused.json()["detail"]) == (409, True)
        admin("POST", "machines", json={"group": "host", "count": 5}).raise_for_status()
        done = admin("POST", "restore", data=snapshot, headers=octets)
        assert done.json()["digest"] == digest == admin.digest()
        assert read(process, "127.64.0.2", "Rotated-host-0-1") == 200
        process.stop(signal.SIGKILL)
    with running(tmp_path, "second") as (process, admin):
        assert admin.ids() == ids
        assert admin.digest() == digest
        assert read(process, "127.64.0.2", "Rotated-host-0-1") == 200
        assert read(process, "127.64.0.2", "factory_password") == 401
        session = requests.Session()
        session.trust_env = False
        url = f"https://127.64.0.2:{process.port}/redfish/v1/"
        named = session.get(url, headers={"Host": "host-3-dpu-0"}, verify=False, timeout=10).json()
        assert named["UUID"] != session.get(url, verify=False, timeout=10).json()["UUID"]
