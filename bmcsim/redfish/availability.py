"""What a client meets while a BMC is in reset or has too much to do: before authentication, before anything else."""

import math

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine import bmc_reset
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Phase
from bmcsim.machine.fault_effects import LateJobs, SlowLogin
from bmcsim.machine.jobs import Job
from bmcsim.machine.load import Load
from bmcsim.redfish.exchange import DROP, Delivery, Request, Response
from bmcsim.redfish.messages import error_response

SLOW_LOGIN = 12.0
"""Seconds of the hardware's time that a login takes just after a reset (spec row C09)."""


def gate(bmc: Bmc, request: Request) -> Response | None:
    """The answer of a BMC that is not in service, None from one that is."""
    match bmc.phase(request.moment):
        case Phase.CLOSED:
            return Response(503, b"", delivery=DROP)
        case Phase.HANGING:
            left = request.moment.real_seconds(bmc.remaining(bmc_reset.TIMER, request.moment))
            return Response(503, b"", delivery=Delivery(delay=left, keep=0))
        case Phase.UNAVAILABLE:
            left = request.moment.real_seconds(bmc.remaining(bmc_reset.TIMER, request.moment))
            return _later(left)
    return None


def overload(load: Load, request: Request) -> Response | None:
    """The refusal of a request that is too much for a BMC, None where it is taken: 503 (RFC 9110 15.6.4)."""
    wait = load.take(request.moment.mono)
    return _later(wait) if wait else None


def occupy(load: Load, request: Request, response: Response) -> None:
    """A BMC is busy with an answer for as long as that takes by itself."""
    delivery = response.delivery
    if delivery is not None:
        dripping = len(response.body) / delivery.rate if delivery.rate else 0.0
        load.busy(request.moment.mono + delivery.delay + dripping)


def _later(seconds: float) -> Response:
    after = str(max(1, math.ceil(seconds)))
    headers = f"Retry-After: {after}\r\n".encode()
    return error_response(RedfishError(503, "ServiceTemporarilyUnavailable", after, headers=headers))


def slowed(bmc: Bmc, request: Request, response: Response) -> Response:
    """An answer that takes long: a login to a BMC that has just come back, or that a fault makes slow."""
    login = response.status == 201 and b"\r\nX-Auth-Token:" in response.head
    delay = 0.0
    stands = request.moment.scale == 0
    if not stands and bmc.phase(request.moment) is Phase.SLOW and (login or request.head.authorization):
        delay = request.moment.real_seconds(SLOW_LOGIN)
    if login and (slow := bmc.state.faults.behaviour(SlowLogin)) is not None:
        delay += slow.delay
    if delay:
        response.delivery = Delivery(delay=delay)
    return response


def is_late(bmc: Bmc, job: Job, moment: Moment) -> bool:
    """Whether a fault hides a job that was just created."""
    late = bmc.state.faults.behaviour(LateJobs)
    return late is not None and 0 <= bmc.wall(moment) - job.created < late.delay
