"""What whole racks cost: the seconds until all of their BMCs answer, and memory once each was asked something."""

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from functools import cache

import uvloop

from bench.client import any_certificate, connected, encode
from bench.report import Bar, Measure
from bench.server import PASSWORD, BenchError, Server, Settings, bmcsim
from bmcsim.fleet.config import default
from bmcsim.fleet.identities import BmcPlan, plan
from bmcsim.machine.identity import Kind
from bmcsim.tree.profile import Head, load

READY = Bar("<", 5.0)
MEMORY = Bar("<", 200.0)

_PARALLEL = 64
_PATH = "/redfish/v1/Chassis"


def run(settings: Settings) -> list[Measure]:
    """Start the racks `rounds` times, then read every BMC of the last start once."""
    planned = list(plan(default(racks=settings.racks)))
    with bmcsim(settings, racks=settings.racks):
        pass  # The first start after a change compiles and reads from the disk; it is not timed.
    ready = []
    for number in range(settings.rounds):
        with bmcsim(settings, racks=settings.racks) as started:
            ready.append(started.ready)
            if number == settings.rounds - 1:
                fresh = started.server.rss()
                uvloop.run(_read_all(planned, started.server))
                read = started.server.rss()
    note = f"{settings.racks} racks, {len(planned):,} BMCs"
    return [
        Measure("racks: start to all ready", statistics.median(ready), "s", READY, ready, note),
        Measure("racks: memory when ready", fresh / 1024, "MiB"),
        Measure("racks: memory after reading", read / 1024, "MiB", MEMORY, note="after every BMC was read once"),
    ]


async def _read_all(planned: Sequence[BmcPlan], server: Server) -> None:
    """GET the chassis of every BMC over a connection of its own. Raises BenchError unless all are 200."""
    context, requests = any_certificate(), _requests(planned, server)

    async def worker() -> None:
        for address, request in requests:
            async with connected(address, server.port, context) as connection:
                answer = await connection.request(request)
            if answer.status != 200:
                raise BenchError(f"{address} answers {answer.status}: {answer.body[:300]!r}")

    await asyncio.gather(*(worker() for _ in range(_PARALLEL)))


def _requests(planned: Sequence[BmcPlan], server: Server) -> Iterator[tuple[str, bytes]]:
    for one in planned:
        head = _head(one.group.hw_type, one.identity.kind is Kind.DPU)
        password = head.accounts[0].password if head.behaviour.ignores_pinned_password else PASSWORD
        yield one.address, encode(f"{one.address}:{server.port}", _PATH, password=password)


@cache
def _head(hw_type: str, of_dpu: bool) -> Head:
    head = load(hw_type).head
    return load(head.dpu).head if of_dpu else head
