"""Tasks and their monitors (DSP0266 12.2).

A monitor answers 202 while its task has not ended, and then as the operation itself would have: 204, or the error. A
task that was cancelled has no monitor any more.
"""

import math
from collections.abc import Sequence
from typing import Any

from bmcsim.core.errors import RedfishError
from bmcsim.machine import tasks, updates
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.tasks import Task, TaskState
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response
from bmcsim.redfish.messages import errors_response
from bmcsim.redfish.outcome import done

TASKS = "/redfish/v1/TaskService/Tasks"
_MONITORS = "/redfish/v1/TaskService/TaskMonitors"


def retry_after(seconds: float) -> bytes:
    """The Retry-After line. seconds: of real time."""
    return b"Retry-After: %d\r\n" % max(1, math.ceil(seconds))


def accepted(bmc: Bmc, id_: str, request: Request, effects: Sequence[Action]) -> Response:
    """202 with a task, and where to ask for it (DSP0266 12.2)."""
    task = tasks.find(bmc.state.tasks, id_)
    if task is None:
        raise RedfishError(500, "InternalError")
    where = _MONITORS if bmc.tree.updates.location == "monitor" else TASKS
    response = _underway(bmc, task, request, f"Location: {where}/{id_}\r\n".encode())
    response.actions = effects
    return response


def _underway(bmc: Bmc, task: Task, request: Request, headers: bytes) -> Response:
    node, moment = bmc.tree.items[TASKS], request.moment
    body = bmc.body(node).render(bmc, moment, bmc.shown_task(task, moment))[1]
    left = moment.real_seconds(tasks.remaining(task, moment.hardware))
    return Response(202, node.head + headers + retry_after(left), body)


def monitored(bmc: Bmc, path: str) -> Task | None:
    """The task whose monitor has a path. Raises RedfishError 404; None for a path that is no monitor's."""
    parent, _, id_ = path.rpartition("/")
    if parent != _MONITORS:
        return None
    task = tasks.find(bmc.state.tasks, id_)
    if task is None or task.end is TaskState.CANCELLED:
        raise RedfishError(404, "ResourceMissingAtURI", path)
    return task


def monitor(bmc: Bmc, task: Task, request: Request) -> Response:
    """The answer of a task's monitor. Raises RedfishError."""
    allow = b"Allow: GET, HEAD, DELETE\r\n"
    match request.method:
        case "OPTIONS":
            return Response(204, EMPTY_HEAD + allow)
        case "DELETE":
            step = updates.forgotten if task.end is not None else updates.cancelled
            now, wall = request.moment.hardware, bmc.wall(request.moment)
            return done(bmc.update(step(bmc.state, task.id, now, wall), request.moment))
        case "GET" | "HEAD":
            if task.end is None:
                return _underway(bmc, task, request, b"")
            if task.end is TaskState.EXCEPTION:
                return errors_response(500, bmc.shown_task(task, request.moment).messages)
            return Response(204, EMPTY_HEAD + allow)
    raise RedfishError(405, "OperationNotAllowed", headers=allow)


def delete(bmc: Bmc, task: Any, request: Request) -> Response:
    """DELETE of a task: what it does is cancelled, and the task is gone."""
    now, wall = request.moment.hardware, bmc.wall(request.moment)
    return done(bmc.update(updates.forgotten(bmc.state, task.id, now, wall), request.moment))
