"""What streams of server-sent events cost: memory of each, and events per second when all BMCs tell one."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import uvloop

from bench.client import any_certificate, connected, encode
from bench.report import Bar, Measure
from bench.server import BenchError, Server, Settings, bmcsim, cpu_seconds

PER_STREAM = Bar("<", 40.0)

STREAMS = 1_000
SERVICE = "/redfish/v1/EventService"
_HOST_STREAM, _DPU_STREAM = "/redfish/v1/SSE", f"{SERVICE}/SSE"
_SUBMIT = f"{SERVICE}/Actions/EventService.SubmitTestEvent"
_EVENT = b'{"MessageId":"ResourceEvent.1.4.TestMessage"}'
_PARALLEL = 64
_TIMEOUT = 60.0


def run(settings: Settings) -> list[Measure]:
    """Open a stream on each of STREAMS BMCs, wait, and let every one of them tell `rounds` events."""
    count = min(STREAMS, settings.fleet.bmcs)
    # A fresh process: what earlier connections left in the heap would make streams look cheap.
    with bmcsim(settings) as started:
        return uvloop.run(_measured(settings, started.server, count))


async def _measured(settings: Settings, server: Server, count: int) -> list[Measure]:
    fleet = settings.fleet
    readers = [Reader() for _ in range(count)]
    addresses = [fleet.address(index) for index in range(count)]
    before = server.rss()
    await _each(
        [
            reader.open(address, server.port, _DPU_STREAM if fleet.role(index) == "dpu" else _HOST_STREAM)
            for index, (reader, address) in enumerate(zip(readers, addresses, strict=True))
        ]
    )
    await asyncio.sleep(settings.rest)
    memory = (server.rss() - before) / count
    rates, busy = [], []
    for number in range(1, settings.rounds + 1):
        used, began = cpu_seconds(server.pid), time.perf_counter()
        await _each([_tell(address, server.port) for address in addresses])
        await asyncio.wait_for(asyncio.gather(*[reader.has(number) for reader in readers]), _TIMEOUT)
        elapsed = time.perf_counter() - began
        rates.append(count / elapsed)
        busy.append(100 * (cpu_seconds(server.pid) - used) / elapsed)
    after = (server.rss() - before) / count
    for reader in readers:
        reader.close()
    note = f"{count:,} streams over TLS on as many BMCs, {settings.rest:.0f} s after they were opened"
    told = f"each BMC was asked for one over a TLS connection of its own; server {max(busy):.0f} % busy"
    return [
        Measure("memory per stream", memory, "KiB", PER_STREAM, note=note),
        Measure("memory per stream after events", after, "KiB", note=f"after {settings.rounds} events on each"),
        Measure("test events told", sorted(rates)[len(rates) // 2], "events/s", None, rates, told),
    ]


class Reader:
    """One stream, of which the events are counted and nothing is kept."""

    def __init__(self) -> None:
        self._events = 0
        self._more = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, address: str, port: int, path: str) -> None:
        """Returns once the stream is there. Raises BenchError when it is refused."""
        reader, self._writer = await asyncio.open_connection(address, port, ssl=any_certificate(), limit=4096)
        self._writer.write(encode(f"{address}:{port}", path))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:13] or b"text/event-stream" not in head:
            raise BenchError(f"{address} opens no stream: {head[:200]!r}")
        self._task = asyncio.create_task(self._read(reader))

    async def has(self, count: int) -> None:
        """Returns once so many events have come."""
        while self._events < count:
            self._more.clear()
            await self._more.wait()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._writer is not None:
            self._writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line.startswith(b"data: "):
                self._events += 1
                self._more.set()


async def _tell(address: str, port: int) -> None:
    async with connected(address, port, any_certificate()) as connection:
        response = await connection.request(encode(f"{address}:{port}", _SUBMIT, post=_EVENT))
    if response.status != 204:
        raise BenchError(f"{address} tells no event: {response.status} {response.body[:200]!r}")


async def _each(work: list[Coroutine[Any, Any, None]]) -> None:
    """Await all of them, a few at a time."""
    slots = asyncio.Semaphore(_PARALLEL)

    async def one(job: Coroutine[Any, Any, None]) -> None:
        async with slots:
            await job

    await asyncio.gather(*[one(job) for job in work])
