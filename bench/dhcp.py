"""What addresses cost: from the pool, and leased from a real Kea through the relay.

Kea is at the end of a cable, in a network namespace; so is everything here that talks to it (`unshare -rn`). It has a
core that bmcsim has not, where the machine has two. What arrives there is counted by the kernel, so nobody is asked how
far it is: an interface that gets its lease without loss takes two requests, one that has it takes none.
"""

import json
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench import kea as keas
from bench.density import IDLE_CPU, idle_cpu
from bench.kea import Kea
from bench.report import Bar, Measure, attempted
from bench.server import BenchError, Cores, Fleet, Settings, bmcsim

POOL = Bar("<", 2.0)
LEASES = Bar(">=", 1000.0)

_PER_LEASE = 2
_SILENCE = 6.0  # seconds without a request after which all have their leases: what is lost is sent again after 4 +- 1
_TIME_LIMIT = 150.0


@dataclass(frozen=True, slots=True)
class Leased(Fleet):
    """A fleet whose addresses are leased. file: that says so."""

    file: str = ""

    @property
    def options(self) -> list[str]:
        return [self.file]


class Round(msgspec.Struct, frozen=True):
    """One start of a fleet beside a fresh Kea.

    interfaces: that lease an address. requests: that Kea got, over so many seconds. leases: that it gave.
    rss: KiB when all are bound. idle: % of a core after that.
    """

    interfaces: int
    requests: int
    seconds: float
    leases: int
    rss: int
    idle: float


def run(settings: Settings) -> list[Measure]:
    """Start with the pool, then with leases."""
    return [
        *attempted("addresses from the pool", lambda: _pool(settings)),
        *attempted("leases from Kea", lambda: _kea(settings)),
    ]


def _pool(settings: Settings) -> list[Measure]:
    with bmcsim(settings):
        pass  # The first start after a change compiles and reads from the disk; it is not timed.
    ready = []
    for _ in range(settings.rounds):
        with bmcsim(settings) as started:
            ready.append(started.ready)
    with bmcsim(settings) as started:
        time.sleep(settings.settle)
        idle = idle_cpu(started.server, settings.idle)
    note = f"median; {settings.fleet.bmcs:,} addresses, and all else that a start takes"
    return [
        Measure("addresses from the pool: start to all ready", statistics.median(ready), "s", POOL, ready, note),
        Measure("addresses from the pool: CPU while idle", idle, "% of a core", IDLE_CPU),
    ]


def _kea(settings: Settings) -> list[Measure]:
    if keas.program() is None:
        raise BenchError(keas.MISSING)
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rn", "true"], check=False).returncode != 0:
        raise BenchError("no network namespaces here (unshare -rn)")
    rounds = msgspec.json.decode(_inside(settings), type=list[Round])
    rates = [one.interfaces / one.seconds for one in rounds]
    lost = sum([one.requests - _PER_LEASE * one.interfaces for one in rounds])
    short = sum([one.interfaces - one.leases for one in rounds])
    note = f"median; {rounds[0].interfaces:,} interfaces"
    return [
        Measure("leases from Kea", statistics.median(rates), "/s", LEASES, rates, note),
        Measure("leases from Kea: requests sent again", lost, "", Bar("<", 1), note="all rounds"),
        Measure("leases from Kea: interfaces without", short, "", Bar("<", 1), note="all rounds"),
        Measure("leases from Kea: CPU while idle", rounds[-1].idle, "% of a core", IDLE_CPU),
        Measure("leases from Kea: memory when all are bound", rounds[-1].rss / 1024, "MiB"),
    ]


def _inside(settings: Settings) -> bytes:
    """Run `main` in a namespace of its own; what it prints."""
    fleet, cores = settings.fleet, settings.cores
    job = {
        "fleet": [fleet.hosts, fleet.dpus, fleet.profile],
        "cores": [cores.server, cores.generators],
        "times": [settings.rounds, settings.settle, settings.idle],
        "work": str(settings.work),
    }
    command = ["unshare", "-rn", sys.executable, "-m", "bench.dhcp", json.dumps(job)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
    try:
        printed, _ = process.communicate()
    except BaseException:
        # It has servers to end.
        process.terminate()
        process.wait()
        raise
    if process.returncode != 0:
        raise BenchError("no leases; what is above says why")
    return printed


def main(job: dict[str, Any]) -> list[Round]:
    """The rounds, inside. The last one is also left alone."""
    rounds, settle, idle = job["times"]
    hosts, dpus, profile = job["fleet"]
    work = Path(job["work"])
    server, generators = job["cores"]
    settings = Settings(
        fleet=Fleet(hosts, dpus, profile),
        racks=0,
        seconds=0,
        rounds=rounds,
        settle=settle,
        idle=idle,
        rotate=False,
        cores=Cores(server, tuple(generators)),
        work=work,
    )
    file = work / "leased.toml"
    file.write_text(_fleet_file(settings.fleet))
    fleet = Leased(hosts, dpus, profile, str(file))
    with keas.cabled(work) as kea:
        return [_round(settings, fleet, kea, left_alone=number == rounds - 1) for number in range(rounds)]


def _fleet_file(fleet: Fleet) -> str:
    group = f'hw_type = "{fleet.profile}"\nhost_count = {fleet.hosts}\ndpu_per_host_count = {fleet.dpus}'
    return f"{keas.FLEET}\n[machines.bench]\n{group}\n{keas.RELAYS}"


def _round(settings: Settings, fleet: Leased, kea: Kea, *, left_alone: bool) -> Round:
    kea.start(keas.page_config(), cores=settings.cores.generators)
    try:
        before = kea.requests()
        with bmcsim(settings, fleet) as started:
            requests, seconds = _watch(kea, before)
            rss, idle = started.server.rss(), 0.0
            if left_alone:
                time.sleep(settings.settle)
                idle = idle_cpu(started.server, settings.idle)
        # A host without DPUs has a NIC of its own instead.
        interfaces = fleet.hosts * (1 + 2 * fleet.dpus if fleet.dpus else 2)
        return Round(interfaces, requests, seconds, len(kea.leases()), rss, idle)
    finally:
        kea.stop()


def _watch(kea: Kea, before: int) -> tuple[int, float]:
    """How many requests come until no more do, and over how many seconds. Raises BenchError."""
    first, last, seen = 0.0, time.monotonic(), before
    limit = last + _TIME_LIMIT
    while not first or time.monotonic() - last < _SILENCE:
        time.sleep(0.005)
        now, count = time.monotonic(), kea.requests()
        if count > seen:
            first, last, seen = first or now, now, count
        if now > limit:
            raise BenchError("the requests to Kea do not end" if first else "Kea gets no request")
    return seen - before, last - first


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.stdout.buffer.write(msgspec.json.encode(main(json.loads(sys.argv[1]))))
