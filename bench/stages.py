"""The sizes in which a site is built up, each measured in the same way from its start to a minute of its life."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvloop

from bench import openloop, paths
from bench import storm as storms
from bench.density import FEW, idle_cpu, read_all
from bench.openloop import fitting, load, percentiles
from bench.racks import Racks
from bench.report import Bar, Measure, attempted
from bench.server import GB200, Fleet, Server, Settings, Site, bmcsim
from bench.storm import FULL_FLEET, GETS, SECONDS, Outcome
from bench.throughput import REQUESTS, wrk

STAGES: Mapping[str, Fleet | None] = {
    "1x1": Fleet(1, 1),
    "100x2": Fleet(100, 2),
    "1000x2": Fleet(1_000, 2),
    "4500x2": Fleet(4_500, 2),
    "4500x2-gb200": Fleet(4_500, 2, GB200),
    "250racks": None,
}
"""Hosts x DPUs by name; None for whole racks."""

Part = Callable[[Server], list[Measure]]

_STARTS = 3
_SETTLE, _IDLE = 5.0, 10.0
_PATIENCE = 600.0
_QUICK_HOSTS = 100
_ADDRESSES = 8


def run(settings: Settings, name: str) -> list[Measure]:
    """Start the stage some times, then read, explore, load and leave alone the last one. A part that fails is void."""
    site = _site(settings, name)
    measures = [Measure("BMCs", site.bmcs, "")]
    measures += attempted("start", lambda: starts(settings, site, min(settings.rounds, _STARTS)))
    return measures + life(
        settings,
        site,
        {
            "memory": ready,
            "read": partial(reading, site),
            "exploration": partial(_exploration, site),
            "throughput": partial(throughput, settings, site),
            "open loop": partial(latency, settings, site, fitting(site.bmcs)),
            "idle": partial(_idle, settings),
        },
    )


def life(settings: Settings, site: Site, parts: Mapping[str, Part]) -> list[Measure]:
    """What each part finds of one server, one after the other. A part that fails is void, and the others count."""
    measures: list[Measure] = []

    def live() -> list[Measure]:
        with bmcsim(settings, site) as started:
            for part, measure in parts.items():
                measures.extend(attempted(part, partial(measure, started.server)))
        return []

    return [*attempted("server", live), *measures]


def ready(server: Server) -> list[Measure]:
    """Memory before anyone asked."""
    return [Measure("memory when ready", server.rss() / 1024, "MiB")]


def starts(settings: Settings, site: Site, rounds: int) -> list[Measure]:
    """Medians of the seconds from the start of the process until it listens, and until all BMCs are ready."""
    with bmcsim(settings, site):
        pass  # The first start after a change compiles and reads from the disk; it is not timed.
    listening, ready = [], []
    for _ in range(rounds):
        with bmcsim(settings, site) as started:
            listening.append(started.listening)
            ready.append(started.ready)
    note = f"median of {rounds}"
    return [
        Measure("start to listening", statistics.median(listening), "s", None, listening, note),
        Measure("start to all ready", statistics.median(ready), "s", None, ready, note),
    ]


def reading(site: Site, server: Server) -> list[Measure]:
    """Memory after every BMC was read once with authentication."""
    uvloop.run(asyncio.wait_for(read_all(site, server), _PATIENCE))
    return [Measure("memory after reading", server.rss() / 1024, "MiB", note="every BMC once, with its password")]


def throughput(settings: Settings, site: Site, server: Server) -> list[Measure]:
    """One round of the health mix over kept connections, as fast as it goes. They are spread over the whole site."""
    trees = uvloop.run(paths.walk(site, server))
    addresses = spread(site, _ADDRESSES)
    requests = settings.work / "requests"
    asked = paths.forwarded(site, server, paths.mix(site, trees, max(REQUESTS, site.bmcs)))
    for number in range(len(addresses)):
        Path(f"{requests}.{number}").write_bytes(b"\0".join(asked[number :: len(addresses)]))
    wrk(server, requests, 1.0, addresses=addresses)
    sample = wrk(server, requests, settings.seconds, addresses=addresses)
    failed = sample.refused + sample.broken
    void = f"{failed} requests failed" if failed else ""
    each = 1e4 * sample.busy / sample.rate
    note = f"to {len(addresses)} addresses; server {sample.busy:.0f} % busy"
    return [
        Measure("throughput", sample.rate, "req/s", note=note, void=void),
        Measure("CPU per request", each, "us", void=void),
    ]


def latency(settings: Settings, site: Site, rate: float, server: Server) -> list[Measure]:
    """Latency at a rate, over connections to as many BMCs, spread over the site."""
    trees = uvloop.run(paths.walk(site, server))
    requests = paths.forwarded(site, server, paths.mix(site, trees, REQUESTS))
    outcome = load(settings, server, requests, rate, spread(site, openloop.CONNECTIONS))
    achieved, p99 = openloop.judge("open loop", None, outcome)
    p50 = Measure("open loop: p50", percentiles(outcome)[50.0], "ms", void=p99.void)
    return [Measure("open loop: asked", rate, "req/s", note=f"{outcome.due:,} requests"), achieved, p50, p99]


def spread(site: Site, count: int) -> list[str]:
    """`count` addresses of BMCs from the first to the last, some more than once where there are fewer."""
    return [site.address(number * site.bmcs // count) for number in range(count)]


def _exploration(site: Site, server: Server) -> list[Measure]:
    trees = uvloop.run(paths.walk(site, server))
    outcome: Outcome = uvloop.run(asyncio.wait_for(storms.storm(site, server, trees), _PATIENCE))
    bar = Bar("<", SECONDS * site.bmcs / FULL_FLEET) if site.bmcs >= FEW else None
    whole = storms.judge("exploration", site.bmcs, bar, outcome)
    return [
        whole,
        Measure("exploration: rate", site.bmcs * GETS / outcome.seconds, "req/s", void=whole.void),
        Measure("exploration: errors", len(outcome.errors), "", Bar("<", 1)),
    ]


def _idle(settings: Settings, server: Server) -> list[Measure]:
    # Half a minute of rest is what `density` gives it; the stages together would take too long.
    time.sleep(min(settings.settle, _SETTLE))
    return [Measure("CPU while idle", idle_cpu(server, min(settings.idle, _IDLE)), "% of a core", Bar("<", 1.0))]


def _site(settings: Settings, name: str) -> Site:
    fleet = STAGES[name]
    if fleet is None:
        return Racks(settings.racks)
    return replace(fleet, hosts=min(fleet.hosts, _QUICK_HOSTS)) if settings.quick else fleet
