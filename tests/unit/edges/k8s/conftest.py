"""A controller in the test's own loop, beside a fake API and fake simulators."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from bmcsim.edges.k8s.access import Access, Trust
from bmcsim.edges.k8s.api import Api
from bmcsim.edges.k8s.controller import Controller, Options
from bmcsim.edges.k8s.limits import Bucket
from bmcsim.edges.k8s.poller import Poller
from bmcsim.edges.k8s.sources import SourceList
from tests.k8s_api import NAMESPACE, FakeKube, FakePod, site

LOCAL = Options(url="http://127.0.0.1:{port}")


class World(NamedTuple):
    """All of it. pods: simulators. api: of the controller. led: set to False, the controller does not lead."""

    kube: FakeKube
    pods: list[FakePod]
    api: Api
    controller: Controller
    led: list[bool]

    @property
    def pod(self) -> FakePod:
        return self.pods[0]

    async def quiet(self) -> None:
        """Return when the controller has seen all that happened."""
        for mirror in (self.controller.services, self.controller.instances):
            while not mirror.synced.is_set():
                await asyncio.sleep(0.005)
        services = self.controller.services
        for _ in range(4000):
            there = {name: one["metadata"]["resourceVersion"] for name, one in self.kube.managed().items()}
            if {name: kept.version for name, kept in services.items.items()} == there:
                return
            await asyncio.sleep(0.005)
        raise AssertionError("the watch does not follow")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost watches are begun again almost at once."""
    monkeypatch.setattr("bmcsim.edges.k8s.mirror._LEAST", 0.02)


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of `bmcsim controller`."""
    return {"asyncio": asyncio.new_event_loop}


def api_of(kube: FakeKube, rate: float = 0.0, burst: int = 1) -> Api:
    access = Access(f"http://127.0.0.1:{kube.port}", Trust(), token="s3cret")
    return Api(access, NAMESPACE, Bucket(rate, burst, time.monotonic))


@asynccontextmanager
async def controller_of(
    kube: FakeKube, pods: list[FakePod], options: Options = LOCAL, *, follow: bool = True, **limits: Any
) -> AsyncIterator[World]:
    api, poller, led = api_of(kube, **limits), Poller(Trust(insecure=True)), [True]
    controller = Controller(api, poller, SourceList(5.0), options, time.monotonic, lambda: led[0])
    tasks = [asyncio.ensure_future(one) for one in controller.mirrors()] if follow else []
    try:
        yield World(kube, pods, api, controller, led)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await poller.close()
        await api.close()


@asynccontextmanager
async def world(*names: str, options: Options = LOCAL, **limits: Any) -> AsyncIterator[World]:
    async with site(*(names or ("mat-0",))) as (kube, pods), controller_of(kube, pods, options, **limits) as made:
        yield made
