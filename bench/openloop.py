"""Latency at an asked rate, seen by clients that do not wait for the server.

A closed loop (wrk) sends less while the server stalls and so hides the stall. Here requests are due at times that
are fixed beforehand, and latency counts from when a request was due: a request that had to wait for a free
connection, or for this generator, shows that wait. 13,500 unsynchronised pollers are a Poisson process, so the
gaps between due times are exponential.
"""

import asyncio
import bisect
import collections
import gc
import itertools
import math
import multiprocessing
import os
import random
import time
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import uvloop

from bench import paths
from bench.client import Exchange, Response, any_certificate
from bench.report import SATURATED, Bar, Measure
from bench.server import BenchError, Server, Settings, baseline, bmcsim, cpu_seconds

# Requests per second: 4,500 GB200 hosts with two DPUs each, and 13,500 GB300 hosts, every sensor once a minute.
RATES = ((12_400, Bar("<", 10.0)), (36_000, Bar("<", 25.0)))
REQUESTS = 30_000
CONNECTIONS = 128
PER_BMC = 0.92  # requests per second that 13,500 BMCs get on average at the lower rate
ACHIEVED = 0.98  # of the asked rate; below it a percentile says nothing

_ON_THE_WAY = 5
"""So many requests without an answer at the end say nothing, however few there were."""

_WARM_UP = 1.0
_GRACE = 5.0
_TICK = 0.001


@dataclass(frozen=True, slots=True)
class Job:
    """What one generator process does: `rate` requests per second for `seconds`, over a connection to each address."""

    core: int
    addresses: Sequence[str]
    port: int
    server_pid: int
    requests: Sequence[bytes]
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """`latencies` in seconds of the requests due after the warm-up; the busy shares are percent of a core."""

    latencies: "array[float]"
    seconds: float
    due: int  # requests that were due after the warm-up
    done: int  # responses after the warm-up and before the end
    refused: int  # error responses
    unanswered: int  # requests without a response, some seconds after the end
    generator_busy: float
    server_busy: float

    @property
    def achieved(self) -> float:
        """Responses per second."""
        return self.done / self.seconds


def run(settings: Settings, rates: Sequence[tuple[float, Bar | None]] = RATES) -> list[Measure]:
    """Ask bmcsim, and for comparison the baseline, at each rate."""
    fleet = settings.fleet
    measures: list[Measure] = []
    with ExitStack() as stack:
        server = stack.enter_context(bmcsim(settings)).server
        trees = uvloop.run(paths.walk(fleet, server))
        mix = paths.mix(fleet, trees, REQUESTS)
        requests = paths.forwarded(fleet, server, mix)
        yardstick = stack.enter_context(baseline(settings, paths.median_size(fleet, trees, mix)))
        for rate, bar in rates:
            measures += judge(f"{rate:,} req/s", bar, load(settings, server, requests, rate))
            measures += judge(f"{rate:,} req/s, baseline", None, load(settings, yardstick, requests, rate))
    return measures


def fitting(bmcs: int) -> float:
    """The lower rate, or what so many BMCs get of it."""
    return min(RATES[0][0], PER_BMC * bmcs)


def load(
    settings: Settings,
    server: Server,
    requests: Sequence[bytes],
    rate: float,
    addresses: Sequence[str] = (),
) -> Outcome:
    """Load `server` from one process per generator core and put their outcomes together.

    addresses: of the connections, CONNECTIONS times that of the server by default.
    """
    cores = settings.cores.generators
    addresses = addresses or [server.address] * CONNECTIONS
    jobs = [
        Job(
            core=core,
            addresses=addresses[number :: len(cores)],
            port=server.port,
            server_pid=server.pid,
            requests=requests,
            rate=rate / len(cores),
            seconds=settings.seconds,
        )
        for number, core in enumerate(cores)
    ]
    with ProcessPoolExecutor(len(jobs), multiprocessing.get_context("fork")) as pool:
        outcomes = list(pool.map(generate, jobs))
    return Outcome(
        latencies=array("d", itertools.chain.from_iterable(outcome.latencies for outcome in outcomes)),
        seconds=settings.seconds,
        due=sum(outcome.due for outcome in outcomes),
        done=sum(outcome.done for outcome in outcomes),
        refused=sum(outcome.refused for outcome in outcomes),
        unanswered=sum(outcome.unanswered for outcome in outcomes),
        generator_busy=max(outcome.generator_busy for outcome in outcomes),
        server_busy=max(outcome.server_busy for outcome in outcomes),
    )


def generate(job: Job) -> Outcome:
    """The life of one generator process."""
    os.sched_setaffinity(0, {job.core})
    # A collection would stall the generator for milliseconds, and the process is too short-lived to need one.
    gc.freeze()
    gc.disable()
    outcome: Outcome = uvloop.run(_generate(job))
    return outcome


class Stream(Exchange):
    """One connection of a generator. `due` is when the request that is under way should have been sent."""

    def __init__(self, generator: "Generator") -> None:
        self._generator = generator
        self.due = 0.0

    def responded(self, response: Response) -> None:
        self._generator.responded(self, response.status)

    def failed(self, error: Exception) -> None:
        self._generator.broken = error


class Generator:
    """Sends requests when they are due, each over a connection that has no other request under way.

    All times are those of time.perf_counter(). Requests due before `measured` are the warm-up.
    """

    def __init__(self, rate: float, seconds: float, seed: int) -> None:
        self._rate, self._seed = rate, seed
        self._requests: Iterator[bytes] = iter(())
        self._idle: collections.deque[Stream] = collections.deque()
        self._due = array("d")
        self._next = 0
        self.seconds = seconds
        self.measured = 0.0
        self.end = 0.0
        self.latencies = array("d")
        self.pending = 0
        self.done_in_time = 0
        self.refused = 0
        self.broken: Exception | None = None

    async def connect(self, addresses: Sequence[str], port: int, requests: Sequence[bytes]) -> None:
        """Open the connections, over which the requests will go in a circle."""
        loop = asyncio.get_running_loop()
        context = any_certificate()
        self._requests = itertools.cycle(requests)
        for address in addresses:
            _, stream = await loop.create_connection(lambda: Stream(self), address, port, ssl=context)
            self._idle.append(stream)

    def begin(self) -> None:
        """Fix when every request is due."""
        self.measured = time.perf_counter() + _WARM_UP
        self.end = self.measured + self.seconds
        dice = random.Random(paths.SEED + self._seed)
        due = self.measured - _WARM_UP
        while due < self.end:
            self._due.append(due)
            due += dice.expovariate(self._rate)
        self._due.append(math.inf)

    def send_due(self) -> None:
        """Send what is due, as far as there are free connections."""
        now = time.perf_counter()
        while self._due[self._next] <= now and self._idle:
            stream = self._idle.popleft()
            stream.due = self._due[self._next]
            stream.transport.write(next(self._requests))
            self._next += 1
            self.pending += 1

    def responded(self, stream: Stream, status: int) -> None:
        now = time.perf_counter()
        self.pending -= 1
        self.refused += status >= 300
        self.done_in_time += self.measured <= now < self.end
        if stream.due >= self.measured:
            self.latencies.append(now - stream.due)
        self.free(stream, now)

    def free(self, stream: Stream, now: float) -> None:
        """What becomes of a connection that has its answer."""
        self._idle.append(stream)
        # Whoever waits for a free connection goes at once instead of at the next tick.
        if self._due[self._next] <= now:
            self.send_due()

    @property
    def due(self) -> int:
        """Requests that were to be sent after the warm-up."""
        return len(self._due) - 1 - bisect.bisect_left(self._due, self.measured)

    @property
    def unanswered(self) -> int:
        """Requests that were due and have no response, sent or not."""
        return self.pending + len(self._due) - 1 - self._next


async def _generate(job: Job) -> Outcome:
    generator = Generator(job.rate, job.seconds, job.core)
    await generator.connect(job.addresses, job.port, job.requests)
    return await measured(generator, job.server_pid)


async def measured(generator: Generator, server_pid: int) -> Outcome:
    """Run a generator whose connections are there. Raises BenchError when one breaks."""
    generator.begin()
    await _drive(generator, generator.measured)
    server_before, own_before = cpu_seconds(server_pid), time.process_time()
    await _drive(generator, generator.end)
    server_used, own_used = cpu_seconds(server_pid) - server_before, time.process_time() - own_before
    last_call = generator.end + _GRACE
    while generator.unanswered and time.perf_counter() < last_call:
        await _drive(generator, time.perf_counter() + _TICK)
    return Outcome(
        latencies=generator.latencies,
        seconds=generator.seconds,
        due=generator.due,
        done=generator.done_in_time,
        refused=generator.refused,
        unanswered=generator.unanswered,
        generator_busy=100 * own_used / generator.seconds,
        server_busy=100 * server_used / generator.seconds,
    )


async def _drive(generator: Generator, until: float) -> None:
    """Send what is due on every tick. Raises BenchError when a connection breaks."""
    while time.perf_counter() < until:
        generator.send_due()
        await asyncio.sleep(_TICK)
        if generator.broken:
            raise BenchError(f"a connection of the open-loop generator broke: {generator.broken!r}")


def judge(name: str, bar: Bar | None, outcome: Outcome) -> list[Measure]:
    """The rate that was achieved, and the 99th percentile; it is void where the rate was not, or answers were errors.

    samples of the latter: percentiles 50, 90, 99, 99.9 and 100 in milliseconds.
    """
    missing = outcome.due - outcome.done
    busy = f"generator {outcome.generator_busy:.0f} % and server {outcome.server_busy:.0f} % busy"
    void = ""
    if outcome.refused:
        void = f"{outcome.refused} responses were errors"
    elif missing > max(_ON_THE_WAY, (1 - ACHIEVED) * outcome.due):
        void = f"{100 * outcome.done / outcome.due:.1f} % of the rate, limited by {_limit(outcome)}"
    quantiles = percentiles(outcome)
    spread = ", ".join(f"p{percent:g} {value:.1f}" for percent, value in quantiles.items())
    return [
        Measure(f"{name}: achieved", outcome.achieved, "req/s", note=busy, samples=[outcome.achieved]),
        Measure(f"{name}: p99", quantiles[99.0], "ms", bar, list(quantiles.values()), spread, void),
    ]


def percentiles(outcome: Outcome) -> dict[float, float]:
    """Latencies in milliseconds by percent: 50, 90, 99, 99.9 and 100."""
    # A request without a response is slower than any other.
    latencies = sorted(1000 * latency for latency in outcome.latencies) + [math.inf] * outcome.unanswered
    return {percent: _percentile(latencies, percent) for percent in (50.0, 90.0, 99.0, 99.9, 100.0)}


def _limit(outcome: Outcome) -> str:
    if max(outcome.generator_busy, outcome.server_busy) < SATURATED:
        return "neither side: something else used the machine"
    return "the generator" if outcome.generator_busy > outcome.server_busy else "the server"


def _percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of sorted values; infinite where there are none."""
    if not ordered:
        return math.inf
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
