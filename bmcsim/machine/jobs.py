"""The job queue of a BMC.

Rule 1: a job waits for a reset of the system, runs during the boot and is over when the boot completes; or it needs no
boot, runs at once and is over when its timer fires.
Rule 2: an id is never given twice, not even after the queue was cleared.
Rule 3: a full queue forgets its oldest job that is over; one without such a job takes no more.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum

import msgspec

from bmcsim.machine.actions import Happening
from bmcsim.tree import job_messages
from bmcsim.tree.profile import VendorMessage

LIMIT = 256
TIMER = "job:"
"""What the name of a job's timer starts with; its id follows."""

_FIRST = 100_000_000_000


class JobState(StrEnum):
    """The states."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"

    @property
    def over(self) -> bool:
        """Whether nothing will become of the job any more."""
        return self in (JobState.COMPLETED, JobState.FAILED)


class Shown(msgspec.Struct, frozen=True):
    """How a state is shown: Job.JobState (DSP0268), percent, what the vendor says."""

    standard: str
    percent: int
    says: VendorMessage


SHOWN = {
    JobState.SCHEDULED: Shown("Starting", 0, job_messages.SCHEDULED),
    JobState.RUNNING: Shown("Running", 50, job_messages.RUNNING),
    JobState.COMPLETED: Shown("Completed", 100, job_messages.COMPLETED),
    JobState.FAILED: Shown("Exception", 100, job_messages.FAILED),
}


class QueueFull(Exception):
    """There are as many jobs as the queue holds, and none is over."""


class Job(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One job.

    created, started, ended: by the BMC's clock, seconds since the epoch. target: URI of the settings that it applies.
    at_reset: whether it waits for a reset of the system.
    """

    id: str
    type: str
    name: str
    created: float
    state: JobState = JobState.SCHEDULED
    started: float | None = None
    ended: float | None = None
    target: str | None = None
    at_reset: bool = True

    @property
    def standard_state(self) -> str:
        """Job.JobState (DSP0268)."""
        return SHOWN[self.state].standard

    @property
    def status(self) -> str:
        """Job.JobStatus (DSP0268)."""
        return "Critical" if self.state is JobState.FAILED else "OK"

    @property
    def percent(self) -> int:
        """How much of it is done."""
        return SHOWN[self.state].percent

    @property
    def message(self) -> str:
        """What there is to say of it."""
        return SHOWN[self.state].says.message

    @property
    def message_id(self) -> str:
        """The key of `message` in the vendor's registry."""
        return SHOWN[self.state].says.id.rpartition(".")[2]


Jobs = tuple[Job, ...]


def id_of(number: int) -> str:
    """JID_ and twelve digits."""
    return f"JID_{_FIRST + number:012d}"


def added(jobs: Jobs, job: Job) -> Jobs:
    """With one more job. Raises QueueFull."""
    if len(jobs) >= LIMIT:
        oldest = next((one for one in jobs if one.state.over), None)
        if oldest is None:
            raise QueueFull
        jobs = without(jobs, {oldest.id})
    return (*jobs, job)


def without(jobs: Jobs, ids: Collection[str]) -> Jobs:
    """Without some jobs."""
    return tuple([job for job in jobs if job.id not in ids])


def after(jobs: Jobs, what: Happening, wall: float) -> Jobs:
    """The jobs after something happened: a reset of the system starts those that waited, and the boot ends them."""
    match what:
        case Happening.SYSTEM_RESET:
            return _each(jobs, JobState.SCHEDULED, state=JobState.RUNNING, started=wall)
        case Happening.BOOT_COMPLETED:
            return _each(jobs, JobState.RUNNING, state=JobState.COMPLETED, ended=wall)
    return jobs


def _each(jobs: Jobs, before: JobState, **changes: object) -> Jobs:
    if not any(job.at_reset and job.state is before for job in jobs):
        return jobs
    return tuple(
        [msgspec.structs.replace(job, **changes) if job.at_reset and job.state is before else job for job in jobs]
    )


def ended(jobs: Jobs, id_: str, wall: float, *, failed: bool = False) -> Jobs:
    """With one job over."""
    state = JobState.FAILED if failed else JobState.COMPLETED
    return tuple(
        [
            msgspec.structs.replace(job, state=state, ended=wall) if job.id == id_ and not job.state.over else job
            for job in jobs
        ]
    )


def over_since(before: Jobs, now: Jobs) -> Sequence[Job]:
    """The jobs that have come to their end between two moments."""
    if before is now:
        return ()
    open_before = {job.id for job in before if not job.state.over}
    return [job for job in now if job.state.over and job.id in open_before]


def scheduled(jobs: Jobs, type_: str) -> Job | None:
    """The job of a type that waits for a reset of the system, None where there is none."""
    return next((job for job in jobs if job.type == type_ and job.state is JobState.SCHEDULED and job.at_reset), None)
