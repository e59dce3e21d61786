"""Tasks: operations that take time, as values (DSP0266 12.2).

Rule 1: what a task shows follows from the time; a timer exists only for its end.
Rule 2: TaskState goes Pending -> New -> Starting -> Running -> Completed, Exception or Cancelled; it skips, but never
        goes back, and PercentComplete never falls.
Rule 3: a full list forgets the task that ended first. One that has not ended is never forgotten.
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

KEPT = 32
"""Tasks that a BMC keeps."""


class TaskState(StrEnum):
    """Task.TaskState, in the order in which a task may show them."""

    PENDING = "Pending"
    NEW = "New"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETED = "Completed"
    EXCEPTION = "Exception"
    CANCELLED = "Cancelled"


_PHASES = ((0.02, TaskState.NEW), (0.1, TaskState.STARTING))
"""(until which part of its time, what it shows)"""


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation.

    target: URI of the request that began it. image: what it installs, as messages name it. changes: component of
    firmware -> version. on_reset: nothing of it may count before a reset.
    created: seconds since the epoch. seconds: of the hardware's time that it takes. started: on that line, None while
    it waits. held: it waits for a command, not for its turn. fails_at: percent at which it fails, None for never.
    end: how it ended, None before; ended: when, in seconds since the epoch; reached: its percent then.
    aborted: it ended because the BMC was reset.
    """

    id: str
    name: str
    target: str
    created: float
    seconds: float
    image: str = ""
    changes: dict[str, str] = {}
    on_reset: bool = False
    held: bool = False
    started: float | None = None
    fails_at: float | None = None
    end: TaskState | None = None
    ended: float = 0.0
    reached: int = 0
    aborted: bool = False


def id_of(pattern: str, number: int) -> str:
    """'JID_####', 7 -> 'JID_0007'; the signs # of a pattern are one run."""
    digits = pattern.count("#")
    return pattern.replace("#" * digits, f"{number:0{digits}d}")


def lasts(task: Task) -> float:
    """Seconds of the hardware's time from its start to its end."""
    return task.seconds if task.fails_at is None else task.seconds * task.fails_at / 100


def remaining(task: Task, now: float) -> float:
    """Seconds of the hardware's time that it still takes, its wait not counted. now: hardware time."""
    if task.end is not None:
        return 0.0
    return lasts(task) if task.started is None else max(0.0, task.started + lasts(task) - now)


def state(task: Task, now: float) -> TaskState:
    """TaskState. now: hardware time."""
    if task.end is not None:
        return task.end
    if task.started is None:
        return TaskState.PENDING
    part = _part(task, now)
    return next((phase for until, phase in _PHASES if part < until), TaskState.RUNNING)


def percent(task: Task, now: float) -> int:
    """PercentComplete; 100 only of a task that is complete. now: hardware time."""
    if task.end is not None:
        return task.reached
    if task.started is None:
        return 0
    return min(99, math.floor(100 * _part(task, now) + 1e-6))


def _part(task: Task, now: float) -> float:
    """How much of the task is done, 0 to 1."""
    done = min(now - task.started, lasts(task)) if task.started is not None else 0.0
    return max(0.0, done / task.seconds) if task.seconds > 0 else 1.0


def started(task: Task, now: float) -> Task:
    """A task that waited, at work."""
    return msgspec.structs.replace(task, started=now, held=False)


def ended(task: Task, end: TaskState, now: float, wall: float, *, aborted: bool = False) -> Task:
    """A task at its end."""
    reached = 100 if end is TaskState.COMPLETED else percent(task, now)
    return msgspec.structs.replace(task, end=end, ended=wall, reached=reached, aborted=aborted)


# lists of tasks, oldest first


def with_task(tasks: Sequence[Task], task: Task) -> tuple[Task, ...]:
    """With a task in the place of the one of its id, or at the end; a full list forgets one."""
    if any(other.id == task.id for other in tasks):
        return tuple([task if other.id == task.id else other for other in tasks])
    over = [other for other in tasks if other.end is not None] if len(tasks) >= KEPT else []
    oldest = min(over, key=lambda other: other.ended, default=None)
    return (*(other for other in tasks if other is not oldest), task)


def is_full(tasks: Sequence[Task]) -> bool:
    """Whether there is no room for another task."""
    return len(tasks) >= KEPT and all(task.end is None for task in tasks)


def find(tasks: Iterable[Task], id_: str) -> Task | None:
    """The task of an id."""
    return next((task for task in tasks if task.id == id_), None)


def unfinished(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that have not ended, in the order in which they were asked for."""
    return [task for task in tasks if task.end is None]


def shifted(tasks: Iterable[Task], seconds: float) -> tuple[Task, ...]:
    """Tasks on another time line of the hardware."""
    return tuple([task if task.started is None else started(task, task.started + seconds) for task in tasks])
