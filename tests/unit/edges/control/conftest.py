"""A small fleet with its control plane, asked without a socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client import CollectorRegistry

from bmcsim.core.clock import ManualClock
from bmcsim.edges.control import api
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.guard import Guard
from bmcsim.edges.control.jobs import Jobs
from bmcsim.edges.http.admin import admin_app
from bmcsim.edges.http.context import Commit, Context
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.recordings import Recordings
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.testing.build import CachingBuilder

PASSWORD = "Rotated-1"
TOKEN = "a-token-of-24-characters"
FILE = """
host_bmc_password = "Rotated-1"
[machines.alpha]
hw_type = "dell_poweredge_r750"
host_count = 5
dpu_per_host_count = 2
[machines.beta]
hw_type = "dell_poweredge_r750"
host_count = 4
dpu_per_host_count = 0
rack_id = "row-7"
[racks.gamma]
type = "wiwynn_gb200_nvl72"
ids = ["r1", "r2"]
"""


class Pauses:
    """Stands for asyncio.sleep: takes note of each pause, and makes none."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await asyncio.sleep(0)


class Site:
    """A fleet, its control plane, and requests to it. commit: stores changes, None where nothing is stored."""

    def __init__(self, config: FleetConfig, guard: Guard | None = None, commit: Commit | None = None) -> None:
        self.config, self.clock, self.fleet, self.pauses = config, ManualClock(), Fleet(), Pauses()
        self.driver = Driver(self.clock)
        self.context = Context(self.fleet, self.driver, self.clock)
        self.context.commit = commit
        for _ in CachingBuilder(config, Hasher(b"k" * 32), self.clock.now().wall).populate(self.fleet):
            pass
        self.guard = guard or Guard()
        self.control = Control(
            fleet=self.fleet,
            clock=self.clock,
            driver=self.driver,
            config=config,
            change=self.context.change,
            counters=self.context.metrics,
            guard=self.guard,
            version="1.2.3",
            started=self.clock.now().wall,
            history=self.context.history,
            recordings=Recordings(self._record),
        )
        # Every few BMCs others get a turn.
        ticks = iter(range(10**9))
        self.control.jobs = Jobs(self.context.change, self.clock, sleep=self.pauses, ticks=lambda: next(ticks) * 0.001)
        self.app = admin_app(self.fleet, CollectorRegistry(), api.routes(self.control), refusals=api.REFUSALS)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, client=("192.0.2.9", 4711)), base_url="http://localhost:9090"
        )

    def _record(self, active: Recordings | None) -> None:
        self.context.recorder = active

    def bmc(self, id_: str) -> Bmc:
        """The BMC with an id."""
        bmc = self.fleet.by_id(id_)
        assert bmc is not None
        return bmc

    async def get(self, path: str, /, **query: Any) -> Any:
        """The JSON of a GET that must succeed."""
        answer = await self.client.get(f"/api/v1/{path}", params=query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return orjson.loads(answer.content)

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """The answer to a change."""
        headers = {"Content-Type": "application/json", **{name.replace("_", "-"): one for name, one in headers.items()}}
        content = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        return await self.client.request(method, f"/api/v1/{path}", content=content, headers=headers)

    async def operate(self, operation: dict[str, Any], wave: Any = None, **selection: Any) -> Any:
        """A job when it is over. Without a selection: over all BMCs."""
        order: dict[str, Any] = {"operation": operation}
        order |= {"selection": selection} if selection else {"all": True}
        if wave is not None:
            order["wave"] = wave
        answer = await self.send("POST", "operations", order)
        assert answer.status_code == 202, answer.text
        id_ = answer.json()["id"]
        await asyncio.wait_for(self.control.jobs.wait(id_), 30)
        return await self.get(f"jobs/{id_}")


MakeSite = Callable[..., Site]


@pytest.fixture
async def make_site() -> AsyncIterator[MakeSite]:
    """Makes sites, and closes their clients."""
    sites: list[Site] = []

    def make(text: str = FILE, **others: Any) -> Site:
        sites.append(Site(fleet_config.parse(text, "fleet.toml"), **others))
        return sites[-1]

    yield make
    for site in sites:
        await site.client.aclose()


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """Hosts with and without DPUs, and two racks; nothing is stored."""
    return make_site()
