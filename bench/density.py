"""How much a BMC costs when nobody asks for it: start-up time, memory, idle connections, idle CPU."""

import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import orjson
import uvloop

from bench import paths
from bench.client import Connection, any_certificate, connected, encode
from bench.report import Bar, Measure
from bench.server import BenchError, Fleet, Server, Settings, Site, bmcsim, cpu_seconds

LISTENING = Bar("<", 1.0)
READY = Bar("<", 3.0)
MEMORY = Bar("<", 120.0)
PER_BMC = Bar("<", 4.0)
PER_CONNECTION = Bar("<", 28.0)
IDLE_CPU = Bar("<", 1.0)

CONNECTIONS = 1_000
FEW = 3_000
"""With fewer BMCs than this the compiled profiles, which all share, are most of the memory per BMC: no verdict."""

NEW_PASSWORD = "Rotated-Passw0rd"

_PARALLEL = 64


def run(settings: Settings) -> list[Measure]:
    """Start the fleet `rounds` times, then measure one that is read, left alone, and perhaps rotated."""
    fleet = settings.fleet
    with bmcsim(settings):
        pass  # The first start after a change compiles and reads from the disk; it is not timed.
    starts: list[tuple[float, float]] = []
    for _ in range(settings.rounds):
        with bmcsim(settings) as started:
            starts.append((started.listening, started.ready))
    listening = [first for first, _ in starts]
    ready = [second for _, second in starts]
    measures = [
        Measure("start to listening", statistics.median(listening), "s", LISTENING, listening, "median"),
        Measure("start to all ready", statistics.median(ready), "s", READY, ready, "median"),
    ]

    with bmcsim(settings) as started:
        server = started.server
        measures.append(Measure("memory when ready", server.rss() / 1024, "MiB"))
        trees = uvloop.run(read_all(fleet, server))
        after_reading = server.rss()
        note = "after every BMC was read once"
        measures.append(Measure("memory after reading", after_reading / 1024, "MiB", MEMORY, note=note))
        time.sleep(settings.settle)
        measures.append(Measure("CPU while idle", idle_cpu(server, settings.idle), "% of a core", IDLE_CPU))
        note = f"{settings.rest:.0f} s after the last request"
        measures.append(Measure("memory at rest", server.rss() / 1024, "MiB", note=note))
        if settings.rotate:
            uvloop.run(_rotate_all(fleet, server, trees))
            note = "after every BMC got a new password"
            measures.append(Measure("memory after rotation", server.rss() / 1024, "MiB", note=note))

    if fleet.bmcs > 1:
        alone = Fleet(1, 0)
        with bmcsim(settings, alone) as started:
            uvloop.run(read_all(alone, started.server))
            one = started.server.rss()
        note = f"({after_reading} KiB - {one} KiB) / {fleet.bmcs - 1}"
        measures.append(_per_bmc((after_reading - one) / (fleet.bmcs - 1), fleet.bmcs, note))

    # A fresh process: what earlier connections left in the heap would be reused and make these look cheap.
    with bmcsim(settings) as started:
        unused, used = uvloop.run(_hold_connections(settings, started.server))
    note = f"{CONNECTIONS:,} connections, {settings.rest:.0f} s after their handshakes"
    measures.append(Measure("memory per idle TLS connection", unused, "KiB", PER_CONNECTION, note=note))
    note = f"the same connections, {settings.rest:.0f} s after one request on each"
    measures.append(Measure("memory per used, idle TLS connection", used, "KiB", note=note))
    return measures


def _per_bmc(kib: float, bmcs: int, note: str) -> Measure:
    if bmcs < FEW:
        return Measure("memory per BMC", kib, "KiB", note=f"{note}; no verdict below {FEW:,} BMCs")
    return Measure("memory per BMC", kib, "KiB", PER_BMC, note=note)


def idle_cpu(server: Server, seconds: float) -> float:
    """Percent of a core that the server uses while nothing is asked of it."""
    before = cpu_seconds(server.pid)
    began = time.perf_counter()
    time.sleep(seconds)
    return 100 * (cpu_seconds(server.pid) - before) / (time.perf_counter() - began)


async def read_all(site: Site, server: Server) -> paths.Trees:
    """Read one system of every BMC over a connection of its own. Raises BenchError unless all answer."""
    trees = await paths.walk(site, server)

    def read(index: int) -> bytes:
        authority = f"{site.address(index)}:{server.port}"
        return encode(authority, trees[site.role(index)].system, password=site.password(index))

    await _ask_all(site, server, read)
    return trees


async def _rotate_all(fleet: Fleet, server: Server, trees: paths.Trees) -> None:
    body = orjson.dumps({"Password": NEW_PASSWORD})

    def rotate(index: int) -> bytes:
        return encode(f"{fleet.address(index)}:{server.port}", trees[fleet.role(index)].account, patch=body)

    await _ask_all(fleet, server, rotate)


async def _ask_all(site: Site, server: Server, request: Callable[[int], bytes]) -> None:
    """Send every BMC its request at its own address, a few at a time. Raises BenchError unless all are 2xx."""
    context = any_certificate()
    indexes = iter(range(site.bmcs))

    async def worker() -> None:
        for index in indexes:
            async with connected(site.address(index), server.port, context) as connection:
                response = await connection.request(request(index))
            if response.status not in (200, 204):
                raise BenchError(f"{site.address(index)} answers {response.status}: {response.body[:300]!r}")

    await asyncio.gather(*(worker() for _ in range(_PARALLEL)))


async def _hold_connections(settings: Settings, server: Server) -> tuple[float, float]:
    """KiB of server memory per open connection: before it was ever used, and after one request."""
    fleet = settings.fleet
    context = any_certificate()
    async with AsyncExitStack() as stack:

        async def connect(index: int) -> Connection:
            address = fleet.address(index % fleet.bmcs)
            return await stack.enter_async_context(connected(address, server.port, context))

        async def memory() -> int:
            # What a connection needed for a moment only goes back to the system when the server trims its heap.
            await asyncio.sleep(settings.rest)
            return server.rss()

        # What the first connection loads is no part of the others' cost.
        await (await connect(0)).request(encode(f"{server.address}:{server.port}", paths.ROOT))
        none = await memory()
        connections = [await connect(index) for index in range(CONNECTIONS)]
        unused = await memory()
        for index, connection in enumerate(connections):
            await connection.request(encode(f"{fleet.address(index % fleet.bmcs)}:{server.port}", paths.ROOT))
        used = await memory()
        if any(connection.transport.is_closing() for connection in connections):
            raise BenchError("the server closed idle connections")
        return (unused - none) / CONNECTIONS, (used - none) / CONNECTIONS
