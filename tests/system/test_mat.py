"""machine-a-tron's files, arguments and environment, with bmcsim behind them."""

import asyncio
import base64
import contextlib
import http.client
import json
import ssl
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from bmcsim.fleet.config import parse
from bmcsim.fleet.identities import plan
from bmcsim.machine.identity import mac_colons
from tests import nico_api
from tests.mat_files import AUGUST, OCTOBER, PODS, RELAYS, rendered
from tests.nico_api import Authority, FakeApi, Segment, running, until
from tests.serving import Process, free_ports, started
from tests.unit.fleet.test_mat_import import kept_of, write

pytestmark = pytest.mark.system

RUN = "from bmcsim.cli.mat import main; main()"
ACCOUNT = "/redfish/v1/AccountService/Accounts/root"
NETWORKS = {"10.96.64.1": "10.96.64.0/18", "192.168.192.1": "192.168.192.0/18", "192.168.176.1": "192.168.160.0/19",
            "10.233.16.1": "10.233.16.0/20", "10.233.32.1": "10.233.32.0/19", "10.233.8.1": "10.233.8.0/21",
            "10.102.0.1": "10.102.0.0/18", "10.200.0.1": "10.200.0.0/18", "10.201.0.1": "10.201.0.0/18"}  # fmt: skip


@pytest.fixture(autouse=True)
def segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """NICo has the networks of the profiles."""
    assert NETWORKS.keys() >= set(RELAYS)
    for relay, prefix in NETWORKS.items():
        monkeypatch.setitem(nico_api.SEGMENTS, relay, Segment("BMC", IPv4Network(prefix)))


@pytest.fixture
async def fake() -> AsyncIterator[FakeApi]:
    async with running() as api:
        yield api


@contextlib.asynccontextmanager
async def started_beside(fake: FakeApi, directory: Path, name: str, when: str, **top: Any) -> AsyncIterator[Process]:
    """A pod, as Kubernetes starts it: one argument, the certificates in their directory, nothing else."""
    Authority().write(directory)
    port = free_ports(2)
    keys = {"carbide_api_url": f"http://127.0.0.1:{fake.port}", "bmc_mock_port": port}
    keys["persist_dir"] = str(directory / "persist")
    file = directory / "mat.toml"
    file.write_text(rendered(PODS[name], when, **keys, **top))
    environment = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "RUST_LOG": "info",
        "FORGE_ROOT_CA_PATH": str(directory / "ca.crt"),
        "CLIENT_CERT_PATH": str(directory / "tls.crt"),
        "CLIENT_KEY_PATH": str(directory / "tls.key"),
        "BMCSIM_SERVE_ADMIN": f"127.0.0.1:{port + 1}",
    }
    command = [sys.executable, "-c", RUN, str(file)]
    output = directory / f"output-{time.monotonic()}"
    with contextlib.ExitStack() as opened:
        process = await asyncio.to_thread(opened.enter_context, started(output, command, port, port + 1, **environment))
        yield process
        await asyncio.to_thread(opened.close)


def ask(
    process: Process, ca: Path, address: str, path: str, password: str = "", method: str = "GET", **body: str
) -> tuple[int, Any]:
    """One request to the BMC with an address, and the certificate checked; 0 for a BMC that is not there yet."""
    context = ssl.create_default_context(cafile=str(ca))
    context.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", process.port, timeout=10, context=context)
    fields = {"Forwarded": f"host={address}", "Content-Type": "application/json"}
    if password:
        fields["Authorization"] = "Basic " + base64.b64encode(f"root:{password}".encode()).decode()
    with contextlib.closing(connection):
        try:
            connection.request(method, path, json.dumps(body) if body else None, fields)
            response = connection.getresponse()
        except ConnectionError:
            return 0, None
        data = response.read()
        return response.status, json.loads(data) if data else None


async def stopped(process: Process) -> float:
    """Seconds until it has ended well."""
    begun = time.monotonic()
    assert await asyncio.to_thread(process.stop) == 0, process.output
    return time.monotonic() - begun


def cases() -> Iterator[tuple[str, str]]:
    for name in PODS:
        for when in (AUGUST, OCTOBER):
            if name != "scale-4500-proxy" or when == OCTOBER:
                yield name, when


@pytest.mark.parametrize(("name", "when"), list(cases()))
async def test_every_profile_starts_and_serves(fake: FakeApi, tmp_path: Path, name: str, when: str) -> None:
    async with started_beside(fake, tmp_path, name, when) as process:
        config = parse((tmp_path / "mat.toml").read_text(), "mat.toml")
        with urllib.request.urlopen(f"http://127.0.0.1:{process.admin}/readyz") as answer:
            assert json.load(answer)["bmcs"] == config.bmc_count
        if name != "relay":
            first = mac_colons(next(plan(config)).identity.bmc_mac)
            await until(lambda: fake.expected and first in fake.addresses, 30)
            address = fake.addresses[first]
            await until(lambda: ask(process, tmp_path / "ca.crt", address, "/redfish/v1")[0] == 200)
        else:
            # The server of the file answers nobody.
            assert ask(process, tmp_path / "ca.crt", "10.9.9.9", "/redfish/v1")[0] == 0
        seconds = await stopped(process)
        assert seconds < 2, seconds
        assert "unknown key" not in process.output.replace("mat_api_server_enabled: unknown key", "")


async def test_nothing_is_lost_when_it_is_stopped(fake: FakeApi, tmp_path: Path) -> None:
    ca, bmc = tmp_path / "ca.crt", "02:00:00:00:00:07"
    async with started_beside(fake, tmp_path, "scale", AUGUST) as process:
        await until(lambda: bmc in fake.addresses, 30)
        address = fake.addresses[bmc]
        await until(lambda: ask(process, ca, address, "/redfish/v1")[0] == 200)
        assert ask(process, ca, address, ACCOUNT, "factory_password", "PATCH", Password="Rotated-1")[0] == 204
        assert await stopped(process) < 2
    assert (tmp_path / "persist" / "bmcsim" / "state.sqlite").is_file()
    async with started_beside(fake, tmp_path, "scale", AUGUST) as process:
        assert ask(process, ca, address, ACCOUNT, "Rotated-1")[0] == 200
        assert ask(process, ca, address, ACCOUNT, "factory_password")[0] == 401
        assert await stopped(process) < 2


async def test_the_machines_of_a_site_are_taken_over_at_the_first_start(fake: FakeApi, tmp_path: Path) -> None:
    kept = kept_of(parse(rendered(PODS["scale"], AUGUST), "mat.toml"))
    kept["scale-hosts"][0]["accounts"] = [{"id": "root", "user": "root", "password": "Kept-1"}]
    persist, ca, bmc = write(tmp_path, kept), tmp_path / "ca.crt", "02:00:00:00:00:07"
    before = {path.name: path.read_bytes() for path in (persist / "machines").iterdir()}
    async with started_beside(fake, tmp_path, "scale", AUGUST) as process:
        assert "taken over: 100 machines with 200 DPUs" in process.output
        await until(lambda: bmc in fake.addresses, 30)
        await until(lambda: ask(process, ca, fake.addresses[bmc], "/redfish/v1")[0] == 200)
        assert ask(process, ca, fake.addresses[bmc], ACCOUNT, "Kept-1")[0] == 200
        assert await stopped(process) < 2
    assert {path.name: path.read_bytes() for path in (persist / "machines").iterdir()} == before
    async with started_beside(fake, tmp_path, "scale", AUGUST) as process:
        assert "taken over" not in process.output
        assert await stopped(process) < 2


async def test_machines_that_would_become_others_are_refused(fake: FakeApi, tmp_path: Path) -> None:
    kept = kept_of(parse(rendered(PODS["scale"], AUGUST), "mat.toml"))
    kept["scale-hosts"][0]["serial"] = "OTHER"
    write(tmp_path, kept)
    with pytest.raises(AssertionError, match=r"serial is OTHER(?s:.)*move .*machines away to start these machines"):
        async with started_beside(fake, tmp_path, "scale", AUGUST):
            pass
    assert not (tmp_path / "persist" / "bmcsim").exists()
