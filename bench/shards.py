"""One process beside `--shards 2`, on two cores that the generators share.

In direct mode clients dial BMCs, so that the kernel brings each request to the shard that has its BMC. In proxy mode
all of them dial one address that is no BMC's and say by Forwarded whom they mean: connections are spread over the
shards, and half of the requests are handed over. wrk, s_time and the open loop run on the same two cores: rates of the
wall are what a machine of two cores gives to both sides, and rates per second of the servers' processor time are what
the servers cost.
"""

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop

from bench import connections, openloop, paths
from bench.client import encode
from bench.report import Measure
from bench.server import BenchError, Cores, Fleet, Server, Settings, bmcsim, cpu_seconds, free_ports
from bench.throughput import REQUESTS, WARM_UP, Sample, wrk

SHARDS = 2
RATE = 36_000
PROXY = "127.0.0.1"  # where all go in proxy mode


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk sends in one mode: the addresses of its threads, and the file of their requests."""

    addresses: Sequence[str]
    requests: Path


def run(settings: Settings) -> list[Measure]:
    """Alternate the two for `rounds` rounds in both modes, then new connections, then the open loop."""
    cores = tuple(sorted({settings.cores.server, *settings.cores.generators}))
    if len(cores) < SHARDS:
        raise BenchError(f"{SHARDS} shards need {SHARDS} cores")
    settings = replace(settings, cores=Cores(cores[0], cores))
    with ExitStack() as stack:
        stack.enter_context(_spread(os.getpid(), cores))
        servers = {
            name: stack.enter_context(_serving(settings, count, cores))
            for name, count in (("one process", 1), (f"--shards {SHARDS}", SHARDS))
        }
        trees = uvloop.run(paths.walk(settings.fleet, next(iter(servers.values()))))
        mix = paths.mix(settings.fleet, trees, REQUESTS)
        measures = []
        for mode, load in (("direct", _direct), ("proxy", _proxied)):
            loads = {name: load(settings, server, mix, f"{mode}-{server.pid}") for name, server in servers.items()}
            measures += _throughput(settings, mode, servers, loads)
        measures += _connections(settings, servers)
        sharded = servers[f"--shards {SHARDS}"]
        measures += _open_loop(settings, sharded, paths.forwarded(settings.fleet, sharded, mix))
    return measures


@contextmanager
def _spread(pid: int, cores: Sequence[int]) -> Iterator[None]:
    """Let this process, and what it starts, run on all cores."""
    before = os.sched_getaffinity(pid)
    os.sched_setaffinity(pid, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(pid, before)


@contextmanager
def _serving(settings: Settings, count: int, cores: Sequence[int]) -> Iterator[Server]:
    """bmcsim by so many processes, all of which are ready and may run on all cores."""
    port, *others = free_ports(4 * SHARDS)
    admin = next((first for first, second in itertools.pairwise(others) if second == first + 1), None)
    if admin is None:
        raise BenchError("no two free ports in a row")
    options = [f"--shards={count}"] if count > 1 else []
    with bmcsim(settings, options=options, ports=(port, admin), log=f"shards-{count}.log") as started:
        for number in range(1, count):
            started.server.wait_ready(started.admin_port + number)
        for pid in _processes(started.server.pid):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)
        yield started.server


def _processes(pid: int) -> list[int]:
    """A process and its children."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def _cpu(pid: int) -> float:
    return sum(cpu_seconds(one) for one in _processes(pid))


def _halves(fleet: Fleet) -> list[int]:
    """A host of each shard: the first one, and the last one."""
    return [0, fleet.bmcs - fleet.site]


def _direct(settings: Settings, server: Server, mix: Sequence[paths.Request], name: str) -> Load:
    """Each thread dials a host of its own and asks it for what hosts are asked."""
    fleet, file = settings.fleet, settings.work / name
    addresses = [fleet.address(index) for index in _halves(fleet)]
    for number, address in enumerate(addresses):
        requests = [encode(f"{address}:{server.port}", one.path) for one in mix if fleet.role(one.index) == "host"]
        _file(file, number).write_bytes(b"\0".join(requests))
    return Load(addresses, file)


def _proxied(settings: Settings, server: Server, mix: Sequence[paths.Request], name: str) -> Load:
    """All threads dial one address and ask the whole fleet, each from another place in the list on."""
    file = settings.work / name
    requests = paths.forwarded(settings.fleet, server, list(mix))
    for number in range(SHARDS):
        first = number * len(requests) // SHARDS
        _file(file, number).write_bytes(b"\0".join(requests[first:] + requests[:first]))
    return Load([PROXY] * SHARDS, file)


def _file(file: Path, number: int) -> Path:
    """Where `wrk` looks for the requests of a thread."""
    return file.with_name(f"{file.name}.{number}")


def _throughput(
    settings: Settings, mode: str, servers: Mapping[str, Server], loads: Mapping[str, Load]
) -> list[Measure]:
    def sample(name: str, seconds: float) -> Sample:
        return wrk(servers[name], loads[name].requests, seconds, cpu=_cpu, addresses=loads[name].addresses)

    for name in servers:
        sample(name, WARM_UP)
    rounds = [{name: sample(name, settings.seconds) for name in servers} for _ in range(settings.rounds)]
    bad = sum(one.refused + one.broken for samples in rounds for one in samples.values())
    void = f"{bad} responses were errors or failed" if bad else ""
    return _compared(
        mode, {name: [samples[name] for samples in rounds] for name in servers}, void, lambda one: one.rate, "req/s"
    ) + _compared(
        f"{mode}, per second of the servers' CPU",
        {name: [samples[name] for samples in rounds] for name in servers},
        void,
        lambda one: 100 * one.rate / one.busy,
        "req/s",
    )


def _compared(
    what: str, samples: Mapping[str, Sequence[Sample]], void: str, value: Callable[[Sample], float], unit: str
) -> list[Measure]:
    """A line for each server, and one for the median ratio of the last to the first."""
    values = {name: [value(one) for one in those] for name, those in samples.items()}
    measures = []
    for name, those in samples.items():
        busy = statistics.median(one.busy for one in those)
        note = (
            f"servers {busy:.0f} % busy, p50 {statistics.median(one.p50 for one in those):.1f} ms, generators included"
        )
        measures.append(
            Measure(f"{what}: {name}", statistics.median(values[name]), unit, None, values[name], note, void)
        )
    first, *_, last = values
    ratios = [b / a for a, b in zip(values[first], values[last], strict=True)]
    name = f"{what}: {last} / {first}"
    return [*measures, Measure(name, statistics.median(ratios), "x", None, ratios, "median ratio", void)]


def _connections(settings: Settings, servers: Mapping[str, Server]) -> list[Measure]:
    """New TLS connections, each for one GET of a host's root, by s_time."""
    hosts = itertools.islice(itertools.cycle(_halves(settings.fleet)), connections.CLIENTS)
    addresses = [settings.fleet.address(index) for index in hosts]
    rounds = [
        {
            name: connections.load(server, addresses, "full", settings.seconds, cpu=_cpu)
            for name, server in servers.items()
        }
        for _ in range(settings.rounds)
    ]
    measures = []
    for name in servers:
        rates, per_core = [one[name].rate for one in rounds], [one[name].per_core for one in rounds]
        note = f"{statistics.median(per_core):,.0f} /s per second of the servers' CPU; clients on the same cores"
        measures.append(Measure(f"new connections: {name}", statistics.median(rates), "conn/s", None, rates, note))
    return measures


def _open_loop(settings: Settings, server: Server, requests: Sequence[bytes]) -> list[Measure]:
    """At a rate that is fixed beforehand, in proxy mode."""
    before, began = _cpu(server.pid), time.perf_counter()
    outcome = openloop.load(settings, server, requests, RATE, [PROXY] * openloop.CONNECTIONS)
    busy = 100 * (_cpu(server.pid) - before) / (time.perf_counter() - began)
    # `load` sees the process that watches; and here it is the whole run, the warm-up included.
    return openloop.judge(f"proxy, {RATE:,} req/s: --shards {SHARDS}", None, replace(outcome, server_busy=busy))
