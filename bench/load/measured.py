"""What master and command tell each other in files: the plan of a run, and what was measured in each phase."""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.load.clients import Rules
from bench.load.endpoints import Endpoint


class PlannedStep(msgspec.Struct, frozen=True):
    name: str
    phase: str
    users: int
    period: float


class Plan(msgspec.Struct, frozen=True):
    """seconds: of a steady phase. timeout: seconds after which a phase that should end by itself is ended.
    proxy: HOST:PORT that all requests go to, or ''. workers: how many must connect to bind:port before it begins.
    gap: seconds of rest between phases."""

    steps: list[PlannedStep]
    endpoints: list[Endpoint]
    rules: Rules
    proxy: str
    workers: int
    bind: str
    port: int
    seconds: float
    timeout: float
    gap: float

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path) -> "Plan":
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Instant(msgspec.Struct, frozen=True):
    """One second or so of a phase. at: seconds since the epoch. p50, p99: milliseconds. busy: percent of a core."""

    at: float
    rate: float
    failures: float
    p50: float
    p99: float
    workers_busy: list[float]


class Row(msgspec.Struct, frozen=True):
    """One kind of request. Latencies in milliseconds, as locust keeps them: whole, with two digits above 100."""

    name: str
    requests: int
    failures: int
    p50: float
    p90: float
    p99: float
    p999: float
    longest: float

    @classmethod
    def of(cls, name: str, histogram: "Counter[int]", failures: int) -> "Row":
        return cls(
            name,
            sum(histogram.values()),
            failures,
            *(percentile(histogram, percent) for percent in (50.0, 90.0, 99.0, 99.9, 100.0)),
        )


class Result(msgspec.Struct, frozen=True):
    """One phase. seconds: until the last BMC's turn was over. whole: it was not ended by its timeout.

    statuses: answers by status, '0' is none. requests: what locust counted. wrong, texts: what must not be.
    longest, late: seconds of the longest turn, and of the turn that began the latest after it was due.
    workers_busy: percent of a core that the busiest worker used.
    identified: BMCs that showed who they are; alike: of them, how many showed the same as another one.
    """

    name: str
    began: float
    ended: float
    seconds: float
    whole: bool
    turns: int
    requests: int
    statuses: Mapping[str, int]
    wrong: int
    texts: list[str]
    longest: float
    late: float
    workers_busy: float
    identified: int
    alike: int
    rows: list[Row]
    total: Row
    instants: list[Instant]

    @property
    def answered(self) -> int:
        return sum(count for status, count in self.statuses.items() if status != "0")

    @property
    def rate(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0

    def disagreements(self, bmcs: int, counted: int | None) -> list[str]:
        """What does not add up, or is wrong. bmcs: of the fleet. counted: answers by the server's own count."""
        found = list(self.texts[:1])
        if self.wrong:
            found.insert(0, f"{self.wrong:,} wrong")
        if not self.whole:
            found.append(f"not through: {self.turns:,} of {bmcs:,} BMCs")
        if sum(self.statuses.values()) != self.requests:
            found.append(f"{self.requests:,} requests in locust's statistics, {sum(self.statuses.values()):,} sent")
        if counted is not None and counted != self.answered:
            found.append(f"the server counts {counted:,} answers, the clients {self.answered:,}")
        if self.alike:
            found.append(f"{self.alike:,} BMCs show another one's identity")
        return found


def load_results(path: Path) -> list[Result]:
    return msgspec.json.decode(path.read_bytes(), type=list[Result])


def percentile(histogram: Mapping[int, int], percent: float) -> float:
    """The nearest-rank percentile of a count by value; 0 where nothing was counted."""
    place = math.ceil(sum(histogram.values()) * percent / 100)
    for value in sorted(histogram):
        place -= histogram[value]
        if place <= 0 and histogram[value]:
            return float(value)
    return 0.0
