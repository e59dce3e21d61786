"""`bmcsim serve` beside a NICo API."""

import asyncio
import contextlib
import json
import signal
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from bmcsim.edges.nico import forge_pb2 as forge
from tests.nico_api import SPIFFE, Authority, FakeApi, Refusal, until
from tests.serving import Process, serving

pytestmark = pytest.mark.system

FILE = """
carbide_api_url = "{url}"
cleanup_on_quit = {cleanup}
{more}

[dhcp]
type = "api"
rate = {rate}

[machines.host]
host_count = {hosts}
dpu_per_host_count = 2
bmc_dhcp_relay_address = "10.1.0.1"
underlay_dhcp_relay_address = "10.2.0.1"
host_inband_dhcp_relay_address = "10.3.0.1"

[machines.plain]
host_count = 2
dpu_per_host_count = 0
bmc_dhcp_relay_address = "10.1.0.1"
underlay_dhcp_relay_address = "10.2.0.1"
host_inband_dhcp_relay_address = "10.3.0.1"
"""


def fleet_file(
    directory: Path, url: str, hosts: int, *, rate: int = 2000, cleanup: str = "false", more: str = ""
) -> str:
    path = directory / "fleet.toml"
    path.write_text(FILE.format(url=url, hosts=hosts, rate=rate, cleanup=cleanup, more=more))
    return str(path)


@contextlib.asynccontextmanager
async def served(output: Path, *arguments: str) -> AsyncIterator[Process]:
    """A process, while the loop of the fake goes on."""
    with contextlib.ExitStack() as opened:
        yield await asyncio.to_thread(opened.enter_context, serving(output, *arguments))
        await asyncio.to_thread(opened.close)


async def get(process: Process, path: str) -> Any:
    def read() -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{process.admin}{path}", timeout=10) as response:
            return bytes(response.read())

    return await asyncio.to_thread(read)


async def status(process: Process) -> Any:
    return json.loads(await get(process, "/expected-inventory/status"))


async def test_a_fleet_registers_leases_and_cleans_up(tmp_path: Path) -> None:
    authority, fake = Authority(), FakeApi()
    client = authority.write(tmp_path)
    await fake.start(credentials=authority.server())
    more = 'configure_carbide_bmc_proxy_host = "bmcsim.example"'
    fleet = fleet_file(tmp_path, f"https://127.0.0.1:{fake.port}", 10, cleanup="true", more=more)
    certificates = ["--forge-root-ca-path", str(tmp_path / "ca.crt"), "--client-cert-path", str(tmp_path / "tls.crt")]
    certificates += ["--client-key-path", str(tmp_path / "tls.key"), "--log-level", "debug"]
    async with served(tmp_path / "output", fleet, *certificates) as process:
        await until(lambda: "12 registered, 0 present already" in process.output)
        await until(lambda: len(fake.addresses) == 10 * 5 + 2 * 2)
        assert await status(process) == {"registered": 12, "already_present": 0, "failed_identifiers": []}
        assert fake.peers.keys() == {SPIFFE}
        await until(lambda: fake.settings == {forge.ConfigSetting.BMC_PROXY: f"bmcsim.example:{process.port}"})
        metrics = (await get(process, "/metrics")).decode()
        assert 'bmcsim_registration{state="registered"} 12.0' in metrics
        assert 'bmcsim_registration{state="pending"} 0.0' in metrics
        assert 'bmcsim_nico_dhcp_total{result="answered"} 54.0' in metrics
        assert await asyncio.to_thread(process.stop) == 0
        assert fake.settings == {forge.ConfigSetting.BMC_PROXY: ""}
        assert len(fake.deleted) == 12
        assert f"as {SPIFFE}" in process.output
        assert "NICo: answers, version v2026.11-fake" in process.output
        secret = client.key_text.splitlines()[1]
        assert secret not in process.output
        assert "factory_password" not in process.output.replace("(factory password", "").replace(
            "/ factory_password", ""
        )
    await fake.stop()


async def test_the_full_fleet_beside_an_unfriendly_api(tmp_path: Path) -> None:
    """It is down at first, then at its limit now and then, slow, and gives one address to two."""
    hosts, limit, fake = 4500, 2000, FakeApi()
    calls = 0

    async def unfriendly(method: str, request: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 4001 == 4000:
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "64 are pending", "1000")
        if calls % 997 == 0:
            raise Refusal(grpc.StatusCode.INTERNAL, "database")
        if calls % 499 == 0:
            await asyncio.sleep(0.5)

    fake.before = unfriendly
    # Which kind of segment each interface may be on, as Core has it.
    kinds = ("BMC", None, "UNDERLAY")
    for number in range(hosts * 7):
        mac, kind = f"{0x020000000001 + number:012X}", "BMC" if number % 7 == 6 else kinds[number % 7 % 3]
        if kind is not None:
            fake.kinds[":".join(mac[n : n + 2] for n in range(0, 12, 2))] = kind
    await fake.start()
    port = fake.port
    await fake.stop()
    fleet = fleet_file(tmp_path, f"http://127.0.0.1:{port}", hosts, rate=limit)
    async with served(tmp_path / "output", fleet) as process:
        assert (await status(process))["registered"] == 0
        await asyncio.sleep(3)
        first, twin = "02:00:00:00:00:07", "02:00:00:00:02:BD"
        fake.twice[twin] = first
        await fake.start(port)
        await until(lambda: twin in fake.addresses, 60)
        del fake.twice[twin]
        await until(lambda: f"{hosts + 2:,} registered, 0 present already" in process.output, 120)
        await until(lambda: len(fake.addresses) == hosts * 5 + 4, 120)
        await until(lambda: f"all {hosts * 3 + 2} BMCs have an address" in process.output, 120)
        assert await status(process) == {"registered": hosts + 2, "already_present": 0, "failed_identifiers": []}
        assert len(fake.expected) == hosts + 2
        assert fake.busiest_second() <= limit * 1.05  # its own clock: the network in between has none
        metrics = (await get(process, "/metrics")).decode()
        assert 'bmcsim_nico_dhcp_total{result="invalid"} 0.0' in metrics
        assert await asyncio.to_thread(process.stop, signal.SIGTERM) == 0
    await fake.stop()


async def test_strict_registration_ends_the_process(tmp_path: Path) -> None:
    fake, go = FakeApi(), asyncio.Event()

    async def refuse(method: str, request: Any) -> None:
        await go.wait()
        if method == "AddExpectedMachine" and request.bmc_mac_address.endswith("07"):
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "no such rack")

    fake.before = refuse
    await fake.start()
    fleet = fleet_file(tmp_path, f"http://127.0.0.1:{fake.port}", 3)
    async with served(tmp_path / "output", fleet, "--strict-registration") as process:
        go.set()
        assert await asyncio.to_thread(process.process.wait, 20) == 1
        assert "Error: 1 refused by NICo: host-0 (INVALID_ARGUMENT: no such rack); all: host-0" in process.output
    await fake.stop()
