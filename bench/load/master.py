"""The master of locust: `python -m bench.load.master PLAN RESULT` leads the workers through the phases of a plan."""

# First of all, because it makes gevent's the sockets that everything after it imports.
import locust.env  # isort: skip

import logging
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import gevent
import msgspec
from locust.runners import MasterRunner

from bench.load.measured import Instant, Plan, Result, Row, percentile
from bench.load.phases import PHASES
from bench.load.users import CLIENTS

_READY = 60.0
_CHUNK = 5_000  # endpoints in one message
_DRAIN = 120.0  # seconds that the turns under way may take to end when no more begin

# Its warnings about spawning fast and busy processors are for its own command line; the report says what is true.
logging.getLogger().setLevel(logging.ERROR)

Histogram = Counter[int]


class LostWorker(Exception):
    """A worker is gone, or never came."""


class Master:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._environment = locust.env.Environment(user_classes=list(CLIENTS.values()))
        self._runner: MasterRunner = self._environment.create_master_runner(plan.bind, plan.port)
        self._ready = 0
        self._through = 0
        self._finished = 0.0
        self._tallies: list[dict[str, Any]] = []
        self._instants: list[Instant] = []
        self._seen: Histogram = Counter()
        self._failed = 0
        self._looked = 0.0
        self._runner.register_message("ready", self._on_ready)
        self._runner.register_message("through", self._on_through)
        self._runner.register_message("tally", self._on_tally)

    def run(self) -> list[Result]:
        """All phases. Raises LostWorker."""
        self._wait("every worker to connect", lambda: self._ready >= self._plan.workers, _READY)
        self._share_out()
        results = []
        for number, _ in enumerate(self._plan.steps):
            results.append(self._phase(number))
            gevent.sleep(self._plan.gap)
        self._runner.quit()
        return results

    def _share_out(self) -> None:
        numbered = [(number, *endpoint) for number, endpoint in enumerate(self._plan.endpoints)]
        clients = self._workers()
        for index, client in enumerate(clients):
            share = numbered[index :: len(clients)]
            for begin in range(0, len(share), _CHUNK):
                self._ready = 0
                self._runner.send_message("bmcs", {"bmcs": share[begin : begin + _CHUNK]}, client)
                self._wait("a worker to take its BMCs", lambda: self._ready == 1, _READY)

    def _workers(self) -> list[str]:
        return sorted([client.id for client in self._runner.clients.ready])[: self._plan.workers]

    def _phase(self, number: int) -> Result:
        plan, step = self._plan, self._plan.steps[number]
        phase = PHASES[step.phase]
        self._wait("the workers", lambda: len(self._runner.clients.ready) >= plan.workers, _READY)
        self._ready = self._through = 0
        self._tallies.clear()
        told = {
            "phase": phase.name,
            "period": step.period,
            "rules": list(plan.rules),
            "proxy": plan.proxy,
            "users": step.users,
        }
        for client in self._workers():
            self._runner.send_message("phase", told, client)
        self._wait("the workers to prepare", lambda: self._ready == plan.workers, _READY)

        self._environment.user_classes = [CLIENTS[phase.client]]
        began, wall = time.monotonic(), time.time()
        starting = gevent.spawn(self._runner.start, step.users, step.users)
        self._watch(phase.name, began, plan.seconds if phase.pace == "steady" else plan.timeout)
        through = self._through == plan.workers
        seconds = (self._finished if through else time.monotonic()) - began
        starting.join()
        # Every turn is over, or was waited for: what locust would give users to end is not needed.
        self._runner.stop()
        self._wait("the workers to stop", lambda: len(self._runner.clients.ready) >= plan.workers, _READY)
        for client in self._workers():
            self._runner.send_message("report", {}, client)
        self._wait("the workers to report", lambda: len(self._tallies) == plan.workers, _READY)
        self._look()
        self._progress(step.name, seconds, through=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)
        return self._result(number, wall, seconds, through)

    def _watch(self, name: str, began: float, limit: float) -> None:
        """Look each second until the workers are through; after `limit` seconds no further turn begins."""
        self._instants, self._seen, self._failed, self._looked = [], Counter(), 0, began
        draining = False
        while self._through < self._plan.workers and time.monotonic() < began + limit + _DRAIN:
            next_look = time.monotonic() + 1.0
            while self._through < self._plan.workers and time.monotonic() < next_look:
                gevent.sleep(0.02)
            if len(self._runner.clients.missing) or self._runner.worker_count < self._plan.workers:
                raise LostWorker(f"{name}: a worker is gone")
            self._look()
            self._progress(name, time.monotonic() - began)
            if not draining and time.monotonic() > began + limit:
                draining = True
                self._runner.send_message("drain", {})

    def _look(self) -> None:
        """What came since the last look."""
        stats = self._runner.stats.total
        now: Histogram = Counter(stats.response_times)
        moment = time.monotonic()
        self._instants.append(self._instant(now - self._seen, stats.num_failures - self._failed, moment - self._looked))
        self._seen, self._failed, self._looked = now, stats.num_failures, moment

    def _progress(self, name: str, seconds: float, *, through: bool = False) -> None:
        """Rate and p99 are those of the last second, and of the whole phase when it is through."""
        now, sent = self._instants[-1], self._runner.stats.total.num_requests
        rate, p99 = (sent / seconds, percentile(self._seen, 99)) if through else (now.rate, now.p99)
        line = (
            f"{name}: {'through after ' if through else ''}{seconds:.0f} s, {sent:,} requests, {rate:,.0f}/s, "
            f"p99 {p99:.0f} ms, {self._failed:,} failed"
        )
        lively = sys.stderr.isatty()
        print(f"\r{line:<100}" if lively else line, end="" if lively else "\n", file=sys.stderr, flush=True)

    def _instant(self, histogram: Histogram, failures: int, seconds: float) -> Instant:
        return Instant(
            at=time.time(),
            rate=sum(histogram.values()) / seconds,
            failures=failures / seconds,
            p50=percentile(histogram, 50),
            p99=percentile(histogram, 99),
            workers_busy=[float(client.cpu_usage) for client in self._runner.clients.all],
        )

    def _result(self, number: int, wall: float, seconds: float, through: bool) -> Result:
        step = self._plan.steps[number]
        stats = self._runner.stats
        turns = sum(tally["turns"] for tally in self._tallies)
        statuses: Counter[int] = Counter()
        for tally in self._tallies:
            statuses.update(tally["statuses"])
        return Result(
            name=step.name,
            began=wall,
            ended=time.time(),
            seconds=seconds,
            whole=through and (PHASES[step.phase].pace == "steady" or turns == len(self._plan.endpoints)),
            turns=turns,
            requests=stats.total.num_requests,
            statuses={str(status): count for status, count in sorted(statuses.items())},
            wrong=sum(tally["wrong"] for tally in self._tallies),
            texts=[text for tally in self._tallies for text in tally["texts"]],
            longest=max(tally["longest"] for tally in self._tallies),
            late=max(tally["late"] for tally in self._tallies),
            workers_busy=max(tally["busy"] for tally in self._tallies),
            identified=len(who := [one for tally in self._tallies for one in tally["who"] if one is not None]),
            alike=len(who) - len(set(who)),
            rows=[
                Row.of(f"{entry.method} {entry.name}", Counter(entry.response_times), entry.num_failures)
                for _, entry in sorted(stats.entries.items())
            ],
            total=Row.of("all", Counter(stats.total.response_times), stats.total.num_failures),
            instants=self._instants,
        )

    def _wait(self, what: str, done: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise LostWorker(f"waited {seconds:.0f} s for {what}")
            gevent.sleep(0.01)

    def _on_ready(self, environment: object, msg: Any) -> None:
        del environment, msg
        self._ready += 1

    def _on_through(self, environment: object, msg: Any) -> None:
        del environment, msg
        self._through += 1
        self._finished = time.monotonic()

    def _on_tally(self, environment: object, msg: Any) -> None:
        del environment
        self._tallies.append(msg.data)


def main(plan: Path, result: Path) -> int:
    """Exit status 0: all phases were run; 1: not, and standard error says why. The result is written either way."""
    try:
        results = Master(Plan.load(plan)).run()
    except LostWorker as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    result.write_bytes(msgspec.json.encode(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
