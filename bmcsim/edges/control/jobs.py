"""Operations over many BMCs as jobs: some at a time, so that requests are answered in between.

Rule 1: a BMC counts as done when what was changed in it is stored, its dependents included.
Rule 2: of a wave every BMC is through before the pause that follows it begins.
Rule 3: a cancelled job begins with no further BMC; what it began is finished.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bmcsim.core.clock import Clock, rfc3339
from bmcsim.fleet.journal import Done
from bmcsim.fleet.operations import Failed, Operation, Skipped, What
from bmcsim.fleet.selection import Selection
from bmcsim.machine.bmc import Bmc

log = logging.getLogger(__name__)

Change = Callable[[Bmc, What, Done], None]
"""Applies a change, stores it, tells so, now or later, and executes its actions if it was stored."""

MAX_RUNNING = 16
KEPT = 100
_IN_FLIGHT = 512
_TURN_SECONDS = 0.002
_MAX_REASONS = 50
_OTHERS = "other reasons"

Outcome = Literal["failed", "skipped"]
JobState = Literal["running", "completed", "cancelled"]


class Wave(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many BMCs at a time. interval: seconds of real time between the end of one wave and the next one."""

    size: Annotated[int, Meta(ge=1, le=1_000_000)]
    interval: Annotated[float, Meta(ge=0, le=86400)] = 0.0


class Reason(msgspec.Struct):
    """Why BMCs failed or were skipped. count: how many. example: id of the first one."""

    outcome: Outcome
    reason: str
    count: int
    example: str


class Job(msgspec.Struct, kw_only=True):
    """An operation over many BMCs.

    operation: without its secrets; of fault rules that are long the ids. selection: of each word the first 20 values.
    created, ended: RFC 3339; ended: null while it runs. seconds: how long it has run. total: BMCs of the selection;
    what is neither done, failed nor skipped was not begun yet, or not stored yet. progress: 0 to 1.
    """

    id: str
    state: JobState
    operation: Operation
    selection: Selection
    wave: Wave | None
    created: str
    ended: str | None
    seconds: float
    total: int
    done: int
    failed: int
    skipped: int
    progress: float
    reasons: list[Reason]


class Tally(msgspec.Struct, frozen=True):
    """Since the start. running: jobs. ended: jobs by state. outcomes: BMCs by what became of them, those of running
    jobs included."""

    running: int
    ended: dict[str, int]
    outcomes: dict[str, int]


class TooMany(Exception):
    """So many jobs run that no more is taken."""


class _Running:
    """A job on its way."""

    def __init__(self, id_: str, operation: Operation, selection: Selection, wave: Wave | None, total: int) -> None:
        self.id, self.operation, self.selection, self.wave, self.total = id_, operation, selection.brief, wave, total
        self.state: JobState = "running"
        self.created = self.ended = 0.0
        self.done = self.failed = self.skipped = 0
        self.reasons: dict[tuple[Outcome, str], Reason] = {}
        self.in_flight = 0
        self.wakes: asyncio.Event = asyncio.Event()
        self.over: asyncio.Event = asyncio.Event()
        self.cancelled = False

    def count(self, outcome: Outcome, reason: str, bmc: Bmc) -> None:
        if outcome == "failed":
            self.failed += 1
        else:
            self.skipped += 1
        key = (outcome, reason)
        if key not in self.reasons and len(self.reasons) >= _MAX_REASONS:
            key = (outcome, _OTHERS)
        found = self.reasons.setdefault(key, Reason(outcome, key[1], 0, bmc.id))
        found.count += 1

    def outcomes(self) -> dict[str, int]:
        return {"done": self.done, "failed": self.failed, "skipped": self.skipped}

    def view(self, wall: float) -> Job:
        through = self.done + self.failed + self.skipped
        over = self.state != "running"
        return Job(
            id=self.id,
            state=self.state,
            operation=self.operation,
            selection=self.selection,
            wave=self.wave,
            created=rfc3339(self.created),
            ended=rfc3339(self.ended) if over else None,
            seconds=round((self.ended if over else wall) - self.created, 3),
            total=self.total,
            done=self.done,
            failed=self.failed,
            skipped=self.skipped,
            progress=through / self.total if self.total else 1.0,
            reasons=list(self.reasons.values()),
        )


class Jobs:
    """Runs jobs on the loop. sleep, ticks: as asyncio.sleep and time.perf_counter; tests give others."""

    def __init__(
        self,
        change: Change,
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        ticks: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._change, self._clock, self._sleep, self._ticks = change, clock, sleep, ticks
        self._jobs: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0
        self._ended = {"completed": 0, "cancelled": 0}
        self._outcomes: Counter[str] = Counter()

    def start(
        self, operation: Operation, what: What, selection: Selection, bmcs: Sequence[Bmc], wave: Wave | None
    ) -> Job:
        """Begin. operation: as it may be shown. Raises TooMany."""
        if sum(job.state == "running" for job in self._jobs.values()) >= MAX_RUNNING:
            raise TooMany
        self._number += 1
        job = _Running(str(self._number), operation, selection, wave, len(bmcs))
        job.created = self._clock.now().wall
        self._jobs[job.id] = job
        over = [one.id for one in self._jobs.values() if one.state != "running"]
        for id_ in over[: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[id_]
        task = asyncio.get_running_loop().create_task(self._run(job, what, bmcs), name=f"job {job.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job.view(job.created)

    def get(self, id_: str) -> Job | None:
        """A job as it is now."""
        job = self._jobs.get(id_)
        return job.view(self._clock.now().wall) if job is not None else None

    def all(self) -> list[Job]:
        """All that are kept, the latest first."""
        wall = self._clock.now().wall
        return [job.view(wall) for job in reversed(self._jobs.values())]

    def tally(self) -> Tally:
        """What was counted."""
        running = [job for job in self._jobs.values() if job.state == "running"]
        outcomes = Counter(self._outcomes)
        for job in running:
            outcomes.update(job.outcomes())
        return Tally(len(running), dict(self._ended), {name: outcomes[name] for name in ("done", "failed", "skipped")})

    def cancel(self, id_: str) -> Job | None:
        """Let a job begin with no further BMC; one that is over stays as it is. None for one that is not there."""
        job = self._jobs.get(id_)
        if job is None:
            return None
        if job.state == "running":
            job.cancelled = True
            job.wakes.set()
        return job.view(self._clock.now().wall)

    async def wait(self, id_: str) -> None:
        """Return when a job is over."""
        await self._jobs[id_].over.wait()

    async def _run(self, job: _Running, what: What, bmcs: Sequence[Bmc]) -> None:
        size = job.wave.size if job.wave is not None else max(1, len(bmcs))
        try:
            for start in range(0, len(bmcs), size):
                if start and job.wave is not None and job.wave.interval:
                    await self._pause(job, job.wave.interval)
                await self._wave(job, what, bmcs[start : start + size])
        finally:
            through = job.done + job.failed + job.skipped
            job.state = "completed" if through == job.total else "cancelled"
            job.ended = self._clock.now().wall
            self._ended[job.state] += 1
            self._outcomes.update(job.outcomes())
            job.over.set()

    async def _pause(self, job: _Running, seconds: float) -> None:
        """Wait, but not for a job that was cancelled meanwhile."""
        job.wakes.clear()
        if job.cancelled:
            return
        pauses = asyncio.ensure_future(self._sleep(seconds))
        wakes = asyncio.ensure_future(job.wakes.wait())
        await asyncio.wait({pauses, wakes}, return_when=asyncio.FIRST_COMPLETED)
        pauses.cancel()
        wakes.cancel()

    async def _wave(self, job: _Running, what: What, bmcs: Sequence[Bmc]) -> None:
        began = self._ticks()
        for bmc in bmcs:
            if job.cancelled:
                break
            self._begin(job, what, bmc)
            if self._ticks() - began > _TURN_SECONDS:
                await asyncio.sleep(0)
                began = self._ticks()
            while job.in_flight >= _IN_FLIGHT:
                await self._told(job)
                began = self._ticks()
        while job.in_flight:
            await self._told(job)

    async def _told(self, job: _Running) -> None:
        job.wakes.clear()
        await job.wakes.wait()

    def _begin(self, job: _Running, what: What, bmc: Bmc) -> None:
        waits = True

        def through() -> bool:
            nonlocal waits
            waited, waits = waits, False
            job.in_flight -= waited
            job.wakes.set()
            return waited

        def told(error: BaseException | None) -> None:
            if not through():
                return
            if error is None:
                job.done += 1
            else:
                job.count("failed", f"could not be stored: {error}", bmc)

        job.in_flight += 1
        try:
            self._change(bmc, what, told)
        except (Skipped, Failed) as reason:
            if through():
                job.count("skipped" if isinstance(reason, Skipped) else "failed", str(reason), bmc)
        except Exception as error:
            log.exception("%s: an operation failed", bmc.id)
            if through():
                job.count("failed", f"internal error: {type(error).__name__}", bmc)
