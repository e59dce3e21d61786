import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bmcsim.edges.k8s.controller import Controller
from bmcsim.edges.k8s.daemon import Daemon, Exit
from bmcsim.edges.k8s.election import Election
from bmcsim.edges.k8s.listeners import Health
from bmcsim.edges.k8s.metrics import ControllerCollector
from tests.k8s_api import FakeKube, Refusal, device
from tests.unit.edges.k8s.conftest import World, world


@asynccontextmanager
async def daemon_of(election: bool = False) -> AsyncIterator[tuple[Daemon, Health, World]]:
    async with world(follow=False) as here:
        chosen = Election(here.api, "me", time.monotonic, time.time) if election else None
        health = Health(600.0, time.monotonic)
        here.pod.machines = [device(1, "10.200.0.1")]
        made = here.controller
        daemon = Daemon(here.api, made._poller, made._sources, made, health, chosen)
        yield daemon, health, here


def hold(kube: FakeKube, seconds: int = 15) -> None:
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": seconds}
    kube.leases["bmcsim-controller"] = {"metadata": {"resourceVersion": "7"}, "spec": spec}


async def test_once_says_how_it_ended() -> None:
    async with daemon_of() as (daemon, health, here):
        assert await daemon.once(5.0) is Exit.SETTLED
        assert (health.ready, len(here.kube.managed())) == (True, 1)
        here.pod.fails = 500
        assert await daemon.once(5.0) is Exit.FAILED


async def test_once_does_nothing_while_somebody_else_leads() -> None:
    async with daemon_of(election=True) as (daemon, _, here):
        hold(here.kube)
        assert await daemon.once(0.2) is Exit.NOT_LEADING
        assert here.kube.managed() == {}
        assert here.kube.leases["bmcsim-controller"]["spec"]["holderIdentity"] == "somebody"


async def test_passes_go_on_until_it_is_stopped_and_the_lease_is_given_back() -> None:
    async with daemon_of(election=True) as (daemon, health, here):
        stop = asyncio.Event()
        running = asyncio.create_task(daemon.run(0.01, stop))
        while daemon.passes["settled"] < 3 and not running.done():
            await asyncio.sleep(0.01)
        assert "holderIdentity" in here.kube.leases["bmcsim-controller"]["spec"]
        stop.set()
        await running
        assert "holderIdentity" not in here.kube.leases["bmcsim-controller"]["spec"]
        assert health.ready
        text = generate_latest(_registry(daemon)).decode()
        assert "bmcsim_controller_services 1.0" in text
        assert 'bmcsim_controller_actions_total{action="created",result="done"} 1.0' in text
        assert 'bmcsim_controller_api_calls_total{status="201",verb="create"}' in text
        assert 'bmcsim_controller_polls_total{result="same"}' in text


def _registry(daemon: Daemon) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ControllerCollector(daemon))
    return registry


async def test_who_waits_is_ready_publishes_sources_and_writes_nothing() -> None:
    async with daemon_of(election=True) as (daemon, health, here):
        hold(here.kube)
        stop = asyncio.Event()
        running = asyncio.create_task(daemon.run(0.02, stop))
        while daemon.passes["standby"] < 3 and not running.done():
            await asyncio.sleep(0.01)
        assert (health.ready, daemon.sources.generation, here.kube.writes) == (True, 1, [])
        stop.set()
        await running


async def test_whoever_lost_the_lease_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon_of(election=True) as (daemon, _, _here):
        assert daemon._election is not None
        daemon._election.taken.set()
        began = time.monotonic()
        await daemon._wait(0.2, asyncio.Event())
        assert time.monotonic() - began > 0.15


async def test_a_pass_that_breaks_is_a_failed_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon_of() as (daemon, health, _here):

        async def broken(self: Controller) -> None:
            raise KeyError("x")

        monkeypatch.setattr(Controller, "one_pass", broken)
        assert await daemon.once(1.0) is Exit.FAILED
        assert not health.ready


async def test_without_what_follows_the_services_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon_of() as (daemon, _, _here):

        async def broken() -> None:
            raise KeyError("x")

        monkeypatch.setattr(daemon.controller, "mirrors", lambda: [broken()])
        with pytest.raises(KeyError):
            await daemon.run(0.01, asyncio.Event())


async def test_an_api_server_that_is_away_makes_it_unready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmcsim.edges.k8s.controller._SYNC_SECONDS", 0.05)
    async with daemon_of() as (daemon, health, here):

        async def down(verb: str, name: str) -> None:
            raise Refusal(503, "ServiceUnavailable", "etcd is away")

        here.kube.before = down
        assert await daemon.once(1.0) is Exit.FAILED
        assert "etcd is away" in health.why
