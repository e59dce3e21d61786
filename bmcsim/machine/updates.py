"""Updates of firmware: tasks that change versions.

Rule 1: one update runs at a time; the others wait for their turn, or for StartUpdate.
Rule 2: at its end a new version counts at once, or waits for the reset that its component needs.
Rule 3: an update that fails or is cancelled changes nothing.
Rule 4: a reset of the BMC itself ends updates where the profile says so.

Each function takes a state and returns the next one, and what follows.
"""

from collections.abc import Iterable

import msgspec

from bmcsim.machine import firmware, tasks
from bmcsim.machine.actions import Action, CancelTimer, Happened, Happening, SetTimer
from bmcsim.machine.state import State
from bmcsim.machine.tasks import Task, TaskState
from bmcsim.tree.compile import Tree

FIELDS = ("firmware", "staged_firmware", "tasks", "tasks_made")
"""What of a state these functions change."""

_TIMER = "update:"

Step = tuple[State, list[Action]]


def timer_of(task: Task) -> str:
    """The name of the timer for the end of a task."""
    return _TIMER + task.id


def task_of(timer: str) -> str:
    """The id of the task whose timer this is, '' for other timers."""
    return timer.removeprefix(_TIMER) if timer.startswith(_TIMER) else ""


def ordered(state: State, task: Task, now: float) -> Step:
    """A client asks for an update. now, here and below: hardware time."""
    new = msgspec.structs.replace(state, tasks=tasks.with_task(state.tasks, task), tasks_made=state.tasks_made + 1)
    return _next(new, now)


def released(state: State, now: float) -> Step:
    """StartUpdate: whatever is held waits for its turn now."""
    every = tuple([msgspec.structs.replace(task, held=False) if task.held else task for task in state.tasks])
    return _next(msgspec.structs.replace(state, tasks=every), now)


def timer(state: State, tree: Tree, id_: str, now: float, wall: float) -> Step:
    """The time of a task is over. wall, here and below: the BMC's own clock."""
    task = tasks.find(state.tasks, id_)
    if task is None or task.end is not None:
        return state, []
    if task.fails_at is not None:
        return _failed(state, [task], now, wall)
    at_once, waiting = firmware.at_end(tree.components, task.changes, on_reset=task.on_reset)
    left = {name: version for name, version in state.staged_firmware.items() if name not in at_once}
    new = msgspec.structs.replace(
        state,
        tasks=tasks.with_task(state.tasks, tasks.ended(task, TaskState.COMPLETED, now, wall)),
        firmware=firmware.changed(tree.components, state.firmware, at_once),
        staged_firmware={**left, **waiting},
    )
    new, actions = _next(new, now)
    return new, [Happened(Happening.FIRMWARE_UPDATED), *actions]


def cancelled(state: State, id_: str, now: float, wall: float) -> Step:
    """DELETE of a task's monitor; a task that has ended stays as it is."""
    task = tasks.find(state.tasks, id_)
    if task is None or task.end is not None:
        return state, []
    over = tasks.ended(task, TaskState.CANCELLED, now, wall)
    new, actions = _next(msgspec.structs.replace(state, tasks=tasks.with_task(state.tasks, over)), now)
    return new, [CancelTimer(timer_of(task)), *actions]


def forgotten(state: State, id_: str, now: float, wall: float) -> Step:
    """DELETE of a task: it is cancelled if it has not ended, and gone."""
    state, actions = cancelled(state, id_, now, wall)
    return msgspec.structs.replace(state, tasks=tuple([task for task in state.tasks if task.id != id_])), actions


def happened(state: State, tree: Tree, what: Happening, now: float, wall: float) -> Step:
    """Something happened that versions wait for, or that ends updates."""
    if what is Happening.BMC_RESETTING and not tree.updates.tasks_survive_reset:
        return _failed(state, tasks.unfinished(state.tasks), now, wall, aborted=True)
    due = firmware.due(tree.components, state.staged_firmware, what)
    if not due:
        return state, []
    new = msgspec.structs.replace(
        state,
        firmware=firmware.changed(tree.components, state.firmware, due),
        staged_firmware={name: version for name, version in state.staged_firmware.items() if name not in due},
    )
    return new, []


def _failed(state: State, failing: Iterable[Task], now: float, wall: float, *, aborted: bool = False) -> Step:
    every, actions = state.tasks, list[Action]()
    for task in failing:
        every = tasks.with_task(every, tasks.ended(task, TaskState.EXCEPTION, now, wall, aborted=aborted))
        actions += [CancelTimer(timer_of(task)), Happened(Happening.UPDATE_FAILED)]
    if not actions:
        return state, []
    new, more = _next(msgspec.structs.replace(state, tasks=every), now)
    return new, [*actions, *more]


def _next(state: State, now: float) -> Step:
    """The first update that waits for its turn begins, if none runs."""
    open_ = tasks.unfinished(state.tasks)
    first = next((task for task in open_ if not task.held), None)
    if first is None or any(task.started is not None for task in open_):
        return state, []
    begun = tasks.started(first, now)
    new = msgspec.structs.replace(state, tasks=tasks.with_task(state.tasks, begun))
    return new, [SetTimer(timer_of(begun), tasks.lasts(begun))]
