"""What a task shows of itself; its messages have ids of the DMTF registries Update and TaskEvent, in our own words."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.core.messages import message_object
from bmcsim.machine import tasks
from bmcsim.machine.jobs import Job, JobState
from bmcsim.machine.tasks import Task, TaskState

_OK, _WARNING, _CRITICAL = "OK", "Warning", "Critical"
_STATUS = {TaskState.EXCEPTION: _CRITICAL, TaskState.CANCELLED: _WARNING}

_JOB_STATES = {
    TaskState.PENDING: JobState.SCHEDULED,
    TaskState.NEW: JobState.SCHEDULED,
    TaskState.STARTING: JobState.RUNNING,
    TaskState.RUNNING: JobState.RUNNING,
    TaskState.COMPLETED: JobState.COMPLETED,
    TaskState.EXCEPTION: JobState.FAILED,
    TaskState.CANCELLED: JobState.FAILED,
}

MESSAGES: dict[str, tuple[str, str, str]] = {
    "Update.1.0.AwaitToUpdate": (_OK, "Installing '{0}' on '{1}' waits for a command to start.", "Send StartUpdate."),
    "Update.1.0.UpdateInProgress": (_OK, "An update runs.", "None."),
    "Update.1.0.UpdateSuccessful": (_OK, "'{0}' has been updated with '{1}'.", "None."),
    "Update.1.0.AwaitToActivate": (
        _OK,
        "'{0}' is on '{1}' and waits for a reset to become active.",
        "Reset what the firmware runs on.",
    ),
    "Update.1.0.ApplyFailed": (_CRITICAL, "Installing '{0}' on '{1}' failed.", "Send the image again."),
    "TaskEvent.1.0.TaskCancelled": (_WARNING, "Task {0} was cancelled.", "None."),
    "TaskEvent.1.0.TaskAborted": (_CRITICAL, "Task {0} was aborted: the BMC was reset.", "Repeat the request."),
}
"""MessageId -> severity, text, resolution."""


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A task as its resource shows it at one moment. began, finished: seconds since the epoch; finished: None before.

    duration: ISO 8601, in real time. messages: Message objects.
    """

    id: str
    name: str
    target: str
    state: TaskState
    status: str
    percent: int
    began: float
    finished: float | None
    duration: str
    messages: list[dict[str, Any]]


def shown(task: Task, moment: Moment, *, waits: bool) -> Shown:
    """A task at a moment. waits: whether a version of it still waits for a reset."""
    state = tasks.state(task, moment.hardware)
    return Shown(
        task.id,
        task.name,
        task.target,
        state,
        _STATUS.get(state, _OK),
        tasks.percent(task, moment.hardware),
        task.created,
        None if task.end is None else task.ended,
        f"PT{math.ceil(moment.real_seconds(task.seconds))}S",
        [_message(id_, args) for id_, args in _messages(task, state, waits)],
    )


def as_job(task: Task, now: float) -> Job:
    """An update as a job of a queue shows it. now: hardware time."""
    state = _JOB_STATES[tasks.state(task, now)]
    began = None if task.started is None else task.created
    name = f"Firmware Update: {', '.join(task.changes)}" if task.changes else "Firmware Update"
    over = None if task.end is None else task.ended
    return Job(task.id, "FirmwareUpdate", name, task.created, state, began, over, at_reset=False)


def _messages(task: Task, state: TaskState, waits: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    image, device = task.image or "image", ", ".join(task.changes) or "device"
    if task.held:
        yield "Update.1.0.AwaitToUpdate", (image, device)
    if state in (TaskState.STARTING, TaskState.RUNNING):
        yield "Update.1.0.UpdateInProgress", ()
    elif state is TaskState.COMPLETED:
        yield "Update.1.0.UpdateSuccessful", (device, image)
        if waits:
            yield "Update.1.0.AwaitToActivate", (image, device)
    elif state is TaskState.EXCEPTION and task.aborted:
        yield "TaskEvent.1.0.TaskAborted", (task.id,)
    elif state is TaskState.EXCEPTION:
        yield "Update.1.0.ApplyFailed", (image, device)
    elif state is TaskState.CANCELLED:
        yield "TaskEvent.1.0.TaskCancelled", (task.id,)


def _message(id_: str, args: tuple[str, ...]) -> dict[str, Any]:
    severity, text, resolution = MESSAGES[id_]
    return message_object(id_, text.format(*args), args, severity, resolution)
