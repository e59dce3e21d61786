"""Operations over many BMCs, and the jobs that carry them out."""

import msgspec

from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, ControlError, Endpoint
from bmcsim.edges.control.jobs import MAX_RUNNING, Job, TooMany, Wave
from bmcsim.fleet.operations import Move, Operation, OperationError, prepared, redacted
from bmcsim.fleet.selection import Selection


class Order(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An operation, and over which BMCs. all: over all of them, for a selection that says nothing. wave: so many at a
    time."""

    operation: Operation
    selection: Selection = Selection()
    all: bool = False
    wave: Wave | None = None


class JobList(msgspec.Struct):
    """Jobs, the latest first."""

    jobs: list[Job]


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoints."""

    async def operate(call: Call) -> Job:
        order: Order = call.body
        if order.selection.empty is not order.all:
            raise ControlError(400, "say which BMCs: a selection, or all: true for every one of them, and not both")
        try:
            what = prepared(order.operation)
        except OperationError as error:
            raise ControlError(400, str(error)) from error
        bmcs = await control.select(order.selection)
        if isinstance(order.operation, Move) and len(bmcs) > 1:
            raise ControlError(400, f"operation: move is for one BMC, and the selection has {len(bmcs)}")
        if not bmcs:
            raise ControlError(404, "no BMC is as the selection says")
        try:
            job = control.jobs.start(redacted(order.operation), what, order.selection, bmcs, order.wave)
        except TooMany as error:
            raise ControlError(429, f"{MAX_RUNNING} jobs run already; wait for one or cancel it") from error
        call.noted = {"operation": job.operation, "selection": job.selection, "count": job.total, "job": job.id}
        return job

    def job(call: Call) -> Job:
        return _there(control.jobs.get(call.path["id"]), call)

    def cancel(call: Call) -> Job:
        call.noted = {"job": call.path["id"]}
        return _there(control.jobs.cancel(call.path["id"]), call)

    def jobs(_call: Call) -> JobList:
        return JobList(control.jobs.all())

    return [
        Endpoint(
            method="POST",
            path="/api/v1/operations",
            summary="Do something to many BMCs",
            handler=operate,
            body=Order,
            answer=Job,
            status=202,
            refusals=(404, 429),
        ),
        Endpoint(method="GET", path="/api/v1/jobs", summary="The latest jobs", handler=jobs, answer=JobList),
        Endpoint(
            method="GET",
            path="/api/v1/jobs/{id}",
            summary="How far a job is",
            handler=job,
            answer=Job,
            refusals=(404,),
        ),
        Endpoint(
            method="DELETE",
            path="/api/v1/jobs/{id}",
            summary="Cancel a job: it begins with no further BMC",
            handler=cancel,
            answer=Job,
            refusals=(404,),
        ),
    ]


def _there(job: Job | None, call: Call) -> Job:
    if job is None:
        raise ControlError(404, f"there is no job {call.path['id']!r}; GET /api/v1/jobs lists the latest ones")
    return job
