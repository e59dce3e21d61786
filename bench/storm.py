"""A discovery storm: a client that explores the whole fleet at once, each BMC over one new connection."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import uvloop

from bench import paths
from bench.client import Exchange, Response, any_certificate, encode
from bench.report import SATURATED, Bar, Measure
from bench.server import Server, Settings, Site, bmcsim, cpu_seconds

GETS = 45
PARALLEL = 200
SECONDS = 90.0  # for the full fleet; a smaller one has its share of it
FULL_FLEET = 13_500


@dataclass(frozen=True, slots=True)
class Outcome:
    """How long the storm took, one text per BMC that failed, and how busy both sides were."""

    seconds: float
    errors: list[str]
    client_busy: float  # percent of a core
    server_busy: float


class Explorer(Exchange):
    """A connection that sends one request after the other; `finished` is what went wrong, or None."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self.finished: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._proceed()

    def responded(self, response: Response) -> None:
        if response.status == 200:
            self._proceed()
        else:
            self.failed(ValueError(f"a GET is answered with {response.status}: {response.body[:300]!r}"))

    def failed(self, error: Exception) -> None:
        self._finish(error)

    def _proceed(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._finish(None)
        else:
            self.transport.write(request)

    def _finish(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_result(error)


def run(settings: Settings) -> list[Measure]:
    """Explore every BMC of the fleet once. Any error makes the time void."""
    fleet = settings.fleet
    with bmcsim(settings) as started:
        trees = uvloop.run(paths.walk(fleet, started.server))
        outcome: Outcome = uvloop.run(storm(fleet, started.server, trees))
    return [judge("discovery storm", fleet.bmcs, Bar("<", SECONDS * fleet.bmcs / FULL_FLEET), outcome)]


def judge(name: str, bmcs: int, bar: Bar | None, outcome: Outcome) -> Measure:
    """The seconds of a storm. Void with any error, and where only the client was too slow for the bar."""
    void = ""
    if outcome.errors:
        void = f"{len(outcome.errors)} BMCs failed, the first: {outcome.errors[0]}"
    elif bar and not bar.holds(outcome.seconds) and outcome.client_busy > max(SATURATED, outcome.server_busy):
        void = f"the client is the bottleneck: {outcome.client_busy:.0f} % busy, server {outcome.server_busy:.0f} %"
    note = (
        f"{bmcs:,} BMCs x {GETS} GETs, {bmcs * GETS / outcome.seconds:,.0f} /s; "
        f"client {outcome.client_busy:.0f} % and server {outcome.server_busy:.0f} % busy"
    )
    return Measure(name, outcome.seconds, "s", bar, [outcome.seconds], note, void)


async def storm(site: Site, server: Server, trees: paths.Trees) -> Outcome:
    """Send every BMC its GETS requests, PARALLEL BMCs at a time."""
    loop = asyncio.get_running_loop()
    context = any_certificate()
    sequences = {role: tree.sequence(GETS) for role, tree in trees.items()}
    indexes = iter(range(site.bmcs))
    errors: list[str] = []

    async def explore(index: int) -> None:
        address, password = site.address(index), site.password(index)
        authority = f"{address}:{server.port}"
        requests = (encode(authority, path, password=password) for path in sequences[site.role(index)])
        _, explorer = await loop.create_connection(lambda: Explorer(requests), address, server.port, ssl=context)
        try:
            if error := await explorer.finished:
                raise error
        finally:
            explorer.transport.close()

    async def worker() -> None:
        for index in indexes:
            try:
                await explore(index)
            except (OSError, ValueError) as error:
                errors.append(f"{site.address(index)}: {error!r}")

    server_before, own_before = cpu_seconds(server.pid), time.process_time()
    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(PARALLEL)))
    seconds = time.perf_counter() - began
    return Outcome(
        seconds=seconds,
        errors=errors,
        client_busy=100 * (time.process_time() - own_before) / seconds,
        server_busy=100 * (cpu_seconds(server.pid) - server_before) / seconds,
    )
