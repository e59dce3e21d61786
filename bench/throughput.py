"""How many requests one core answers, beside what the bare server stack under it answers on the same core."""

import os
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import uvloop

from bench import paths
from bench.report import SATURATED, Bar, Measure
from bench.server import GB200, BenchError, Server, Settings, baseline, bmcsim, cpu_seconds

RATIO = Bar(">=", 1.8)

REQUESTS = 30_000  # in the list that wrk sends in a circle: enough to reach every BMC of the full fleet
CONNECTIONS = 64
WARM_UP = 2.0

_SCRIPT = Path(__file__).with_name("mix.lua")
_MISSING = "wrk is not installed; on Debian and Ubuntu: apt-get install wrk"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of wrk: requests per second, latencies in milliseconds, and the server's share of its core in percent."""

    rate: float
    p50: float
    p99: float
    refused: int  # responses with a status of 400 or more
    broken: int  # connections and responses that failed or timed out
    busy: float


def run(settings: Settings) -> list[Measure]:
    """Alternate bmcsim and the baseline for `rounds` rounds; the median ratio counts."""
    fleet = settings.fleet
    requests_file = settings.work / "requests"
    with bmcsim(settings) as started:
        trees = uvloop.run(paths.walk(fleet, started.server))
        mix = paths.mix(fleet, trees, REQUESTS)
        size = paths.median_size(fleet, trees, mix)
        requests_file.write_bytes(b"\0".join(paths.forwarded(fleet, started.server, mix)))
        with baseline(settings, size) as yardstick:
            for server in (started.server, yardstick):
                wrk(server, requests_file, WARM_UP)
            pairs = [
                (
                    wrk(started.server, requests_file, settings.seconds),
                    wrk(yardstick, requests_file, settings.seconds),
                )
                for _ in range(settings.rounds)
            ]
    return _judge([ours for ours, _ in pairs], [theirs for _, theirs in pairs], size)


def run_gb200(settings: Settings) -> list[Measure]:
    """The same for as many GB200 trays, each with 120 sensors, four leak detectors and two DPUs."""
    fleet = replace(settings.fleet, profile=GB200, dpus=2)
    return [replace(one, name=f"GB200: {one.name}") for one in run(replace(settings, fleet=fleet))]


def _judge(ours: Sequence[Sample], theirs: Sequence[Sample], size: int) -> list[Measure]:
    ratios = [mine.rate / other.rate for mine, other in zip(ours, theirs, strict=True)]
    # What other processes took from the server's core does not enter this one.
    per_cpu = statistics.median(
        (mine.rate / mine.busy) / (other.rate / other.busy) for mine, other in zip(ours, theirs, strict=True)
    )
    note = f"median ratio; per second of server CPU {per_cpu:.2f} x"
    refused = sum(sample.refused for sample in (*ours, *theirs))
    broken = sum(sample.broken for sample in (*ours, *theirs))
    void = f"{refused} responses were errors, {broken} failed" if refused or broken else ""
    busy = statistics.median(sample.busy for sample in ours)
    limit = "" if busy >= SATURATED else ", so the server was not the limit"
    return [
        _median("throughput", [sample.rate for sample in ours], "req/s", f"server {busy:.0f} % busy{limit}"),
        _median("throughput of the baseline", [sample.rate for sample in theirs], "req/s", f"body of {size} bytes"),
        Measure("throughput / baseline", statistics.median(ratios), "x", RATIO, ratios, note, void),
        _median("latency p50", [sample.p50 for sample in ours], "ms"),
        _median("latency p99", [sample.p99 for sample in ours], "ms"),
        Measure("failed requests", refused + broken, "", samples=[s.refused + s.broken for s in ours]),
    ]


def _median(name: str, samples: Sequence[float], unit: str, note: str = "") -> Measure:
    return Measure(name, statistics.median(samples), unit, samples=samples, note=note)


def wrk(
    server: Server,
    requests_file: Path,
    seconds: float,
    *,
    cpu: Callable[[int], float] = cpu_seconds,
    addresses: Sequence[str] = (),
) -> Sample:
    """Load `server` for `seconds` (whole ones; wrk knows no others).

    cpu: processor time of it that counts. addresses: what is connected to, that of the server by default. Each has a
    thread, and a file of requests of its own (`requests_file` and .0, .1, ...): while threads read them one after the
    other, those before send requests already, which wrk counts.
    """
    command = [
        "wrk",
        f"--threads={max(1, len(addresses))}",
        f"--connections={CONNECTIONS}",
        f"--duration={round(seconds)}s",
        f"--script={_SCRIPT}",
        f"https://{server.address}:{server.port}",
        "--",
        str(requests_file),
    ]
    before = cpu(server.pid)
    try:
        environment = {**os.environ, "ADDRESSES": " ".join(addresses)}
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except FileNotFoundError:
        raise BenchError(_MISSING) from None
    used = cpu(server.pid) - before
    if result.returncode:
        raise BenchError(f"wrk failed: {result.stderr or result.stdout}")
    found = orjson.loads(result.stdout.splitlines()[-1])
    duration = found["microseconds"] / 1e6
    return Sample(
        rate=found["requests"] / duration,
        p50=found["p50"] / 1000,
        p99=found["p99"] / 1000,
        refused=found["refused"],
        broken=found["broken"],
        busy=100 * used / duration,
    )
