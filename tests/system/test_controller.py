"""`bmcsim controller` as a process of its own, against a fake API server: the largest fleet, and what goes wrong.

Its figures are logged (`--log-cli-level=INFO`); docs/controller.md has those of a quiet machine.
"""

import asyncio
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from tests.k8s_api import NAMESPACE, FakeKube, FakePod, device, site

log = logging.getLogger(__name__)

pytestmark = pytest.mark.system

HOSTS = 4500
PODS = 3
MEMORY = 150 * 1024
"""KiB."""


class Process:
    """A controller."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process, self._port = process, port

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self._port}{path}") as answer:
            return answer.status, await answer.text()

    async def metric(self, name: str) -> float:
        """A sample of /metrics by its name and labels; 0 for none."""
        try:
            _, text = await self.get("/metrics")
        except aiohttp.ClientError:
            return 0.0
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    @property
    def peak(self) -> int:
        """The most memory that it ever had, in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", status)
        assert found is not None
        return int(found[1])

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 20)


async def start(kube: FakeKube, directory: Path, port: int, *more: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bmcsim", "controller", f"--kubeconfig={kube.kubeconfig(directory)}"),
        *(f"--namespace={NAMESPACE}", "--status-url=http://127.0.0.1:{port}", "--insecure-skip-verify"),
        *(f"--health-addr=127.0.0.1:{port}", "--source-list-addr=", "--sync-interval=500ms", "--log-level=warn", *more),
        env={name: value for name, value in os.environ.items() if not name.startswith("BMCSIM")},
    )
    return Process(process, port)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 100.0) -> float:
    """How long it took, in seconds."""
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() - began < seconds
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def fill(pods: list[FakePod], hosts: int) -> None:
    for number in range(hosts):
        ip = f"10.200.{number * 3 // 250}.{number * 3 % 250}"
        pods[number % len(pods)].machines.append(device(number * 3, ip, dpus=2))


def calls_of(kube: FakeKube) -> int:
    """All but those about Leases."""
    return sum(count for what, count in kube.asked.items() if not what.endswith("leases"))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def test_13500_services(tmp_path: Path) -> None:
    async with site(*[f"mat-{number}" for number in range(PODS)]) as (kube, pods):
        fill(pods, HOSTS)
        bmcs = HOSTS * 3
        one = await start(kube, tmp_path, free_port(), "--qps=0")
        try:
            seconds = await until(lambda: _is(one.metric("bmcsim_controller_services"), bmcs))
            calls = calls_of(kube)
            assert len(kube.managed()) == bmcs
            assert sorted(address for addresses in kube.published().values() for address in addresses) == sorted(
                each["bmc"]["ip"] for pod in pods for host in pod.machines for each in (host, *host["dpus"])
            )
            log.info(f"{bmcs} Services created: {seconds:.1f} s, {calls} calls, {one.peak / 1024:.0f} MiB")
            assert calls < bmcs * 1.01 + 50

            async def passes(count: int = 1) -> None:
                word = 'bmcsim_controller_passes_total{result="settled"}'
                before = await one.metric(word)
                await until(lambda: _is(one.metric(word), before + count))

            await passes()
            asked, writes = calls_of(kube), len(kube.writes)
            await passes(3)
            assert (calls_of(kube), len(kube.writes)) == (asked, writes)

            pods[0].machines[7]["bmc"]["ip"] = "10.201.0.1"
            await passes(2)
            assert kube.writes[writes:] == [("patch", kube.writes[-1][1])]
            log.info(
                f"pass with one new address: {await one.metric('bmcsim_controller_pass_seconds'):.2f} s at the most"
            )

            lost, pods[2].fails = len(kube.writes), -1
            await until(lambda: _above(one.metric('bmcsim_controller_polls_total{result="failed"}'), 2))
            pods[2].fails = 0
            await passes()
            assert len(kube.writes) == lost
            log.info(f"peak memory: {one.peak / 1024:.0f} MiB")
            assert one.peak < MEMORY
            assert await one.get("/healthz") == (200, "ok\n")
            assert await one.get("/readyz") == (200, "ok\n")
            began = time.monotonic()
            assert await one.end() == 0
            assert time.monotonic() - began < 2.0
            assert "holderIdentity" not in kube.leases["bmcsim-controller"]["spec"]

            # One that comes new reads what there is, and changes nothing.
            wrote = len(kube.writes)
            two = await start(kube, tmp_path, free_port(), "--once")
            assert await asyncio.wait_for(two.process.wait(), 60) == 0
            assert len(kube.writes) == wrote
        finally:
            if one.process.returncode is None:
                await one.end(signal.SIGKILL)


async def test_killed_within_a_pass_and_another_one_goes_on(tmp_path: Path) -> None:
    async with site("mat-0") as (kube, pods):
        fill(pods, 200)
        go = asyncio.Event()

        async def stall(verb: str, _name: str) -> None:
            if verb == "create" and len(kube.writes) > 100:
                await go.wait()

        kube.before = stall
        one = await start(kube, tmp_path, free_port())
        two = None
        try:
            await until(lambda: _true(len(kube.writes) > 100))
            two = await start(kube, tmp_path, free_port())
            await until(lambda: _is(two.metric('bmcsim_controller_passes_total{result="standby"}'), 2))
            assert 100 < len(kube.managed()) < 200
            await one.end(signal.SIGKILL)
            go.set()
            # What it had sent is done at once; then nobody writes until its Lease is too old.
            holder = kube.leases["bmcsim-controller"]["spec"]["holderIdentity"]
            kube.leases["bmcsim-controller"]["spec"]["leaseDurationSeconds"] = 1
            kube.leases["bmcsim-controller"]["metadata"]["resourceVersion"] = "1"
            await until(lambda: _true(len(kube.managed()) == 600), 40)
            assert kube.leases["bmcsim-controller"]["spec"]["holderIdentity"] != holder
            await until(lambda: _is(two.metric('bmcsim_controller_passes_total{result="settled"}'), 1))
            names = [name for verb, name in kube.writes if verb == "create"]
            assert len(names) == len(set(names)) == 600
            assert {verb for verb, _ in kube.writes} == {"create"}
        finally:
            for each in (one, two):
                if each is not None and each.process.returncode is None:
                    await each.end()


async def test_two_at_once_are_one_after_the_other(tmp_path: Path) -> None:
    async with site("mat-0") as (kube, pods):
        fill(pods, 20)
        both = [await start(kube, tmp_path, free_port()) for _ in range(2)]
        try:
            await until(lambda: _true(len(kube.managed()) == 60))
            await until(lambda: _is(_sum(both, "bmcsim_controller_leading"), 1))
            leader = both[0] if await both[0].metric("bmcsim_controller_leading") else both[1]
            other = next(each for each in both if each is not leader)
            once = await start(kube, tmp_path, free_port(), "--dry-run")
            assert await asyncio.wait_for(once.process.wait(), 20) == 0
            assert await leader.end() == 0
            # It gave its Lease back, so nobody waits for it to become old.
            assert await until(lambda: _is(other.metric("bmcsim_controller_leading"), 1)) < 8
            pods[0].machines[0]["bmc"]["ip"] = "10.201.0.1"
            await until(lambda: _true(["10.201.0.1"] in kube.published().values()))
            assert len(kube.writes) == 61
        finally:
            for each in both:
                if each.process.returncode is None:
                    await each.end()


async def _is(value: Awaitable[float], least: float) -> bool:
    return await value >= least


_above = _is


async def _true(value: bool) -> bool:
    return value


async def _sum(processes: list[Process], name: str) -> float:
    return sum([await each.metric(name) for each in processes])
