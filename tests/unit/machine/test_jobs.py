"""The job queue of a BMC."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine import jobs
from bmcsim.machine.actions import Happened, Happening
from bmcsim.machine.jobs import LIMIT, Job, Jobs, JobState, QueueFull
from tests.conftest import Client


def job(number: int, state: JobState = JobState.SCHEDULED, *, at_reset: bool = True) -> Job:
    """A job as it is in a state."""
    return Job(jobs.id_of(number), "BIOSConfiguration", "Configure", 0.0, state, at_reset=at_reset)


def states(queue: Jobs) -> list[JobState]:
    """The states of jobs."""
    return [one.state for one in queue]


# the queue by itself


@given(st.integers(1, 10**11))
def test_an_id_is_jid_and_twelve_digits(number: int) -> None:
    assert re.fullmatch(r"JID_\d{12}", jobs.id_of(number))


def test_a_reset_starts_what_waits_for_it_and_the_boot_ends_it() -> None:
    queue = (job(1), job(2, JobState.RUNNING, at_reset=False), job(3, JobState.COMPLETED))
    running = jobs.after(queue, Happening.SYSTEM_RESET, 5.0)
    assert states(running) == [JobState.RUNNING, JobState.RUNNING, JobState.COMPLETED]
    assert (running[0].started, running[0].ended, running[1:]) == (5.0, None, queue[1:])
    done = jobs.after(running, Happening.BOOT_COMPLETED, 9.0)
    assert states(done) == [JobState.COMPLETED, JobState.RUNNING, JobState.COMPLETED]
    assert (done[0].started, done[0].ended) == (5.0, 9.0)
    assert jobs.over_since(running, done) == [done[0]]


@pytest.mark.parametrize("what", sorted(set(Happening) - {Happening.SYSTEM_RESET, Happening.BOOT_COMPLETED}))
def test_nothing_else_moves_a_job(what: Happening) -> None:
    queue = (job(1), job(2, JobState.RUNNING))
    assert jobs.after(queue, what, 5.0) is queue


def test_a_job_made_during_a_boot_waits_for_the_next_one() -> None:
    queue = (job(1),)
    assert jobs.after(queue, Happening.BOOT_COMPLETED, 5.0) is queue


def test_a_second_reset_leaves_a_running_job_alone() -> None:
    running = jobs.after((job(1),), Happening.SYSTEM_RESET, 5.0)
    assert jobs.after(running, Happening.SYSTEM_RESET, 6.0) is running


def test_a_job_ends_once() -> None:
    failed = jobs.ended((job(1, JobState.RUNNING),), jobs.id_of(1), 5.0, failed=True)
    assert states(failed) == [JobState.FAILED]
    assert jobs.ended(failed, jobs.id_of(1), 9.0) == failed
    assert jobs.ended(failed, "JID_0", 9.0) == failed


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_all_that_is_shown_of_it(state: JobState) -> None:
    shown = job(1, state)
    assert shown.percent in (0, 50, 100)
    assert (shown.percent == 100) is shown.state.over
    assert shown.message.endswith(".")
    assert shown.message_id
    assert shown.standard_state in ("Starting", "Running", "Completed", "Exception")
    assert shown.status == ("Critical" if state is JobState.FAILED else "OK")


@given(st.lists(st.sampled_from(JobState), min_size=LIMIT, max_size=LIMIT))
def test_a_full_queue_forgets_its_oldest_job_that_is_over_or_takes_no_more(of: list[JobState]) -> None:
    queue = tuple(job(number, state) for number, state in enumerate(of))
    over = [one for one in queue if one.state.over]
    if not over:
        with pytest.raises(QueueFull):
            jobs.added(queue, job(LIMIT))
        return
    more = jobs.added(queue, job(LIMIT))
    assert len(more) == LIMIT
    assert set(queue) - set(more) == {over[0]}
    assert more[-1].id == jobs.id_of(LIMIT)


def test_what_waits_of_a_type() -> None:
    queue = (job(1, JobState.COMPLETED), job(2, JobState.RUNNING), job(3, at_reset=False), job(4))
    assert jobs.scheduled(queue, "BIOSConfiguration") == queue[3]
    assert jobs.scheduled(queue, "Other") is None
    assert jobs.scheduled(queue[:3], "BIOSConfiguration") is None


# in a BMC


def test_a_job_with_a_time_runs_at_once_and_completes(host: Client) -> None:
    now = host.clock.now()
    made, effects = host.bmc.create_job("Export", "Export", now, seconds=20.0)
    assert (made.state, list(host.bmc.state.timers), effects) == (JobState.RUNNING, [f"job:{made.id}"], [])
    host.driver.execute(host.bmc, effects)
    host.advance(19.9)
    assert host.bmc.state.jobs[0].state is JobState.RUNNING
    host.advance(0.2)
    assert host.bmc.state.jobs[0].state is JobState.COMPLETED
    assert host.bmc.state.timers == {}


def test_who_ends_a_job_hears_of_it_and_its_timer_is_off(host: Client) -> None:
    made, _ = host.bmc.create_job("Update", "Update", host.clock.now(), seconds=20.0)
    told = host.bmc.end_job(made.id, host.clock.now(), failed=True)
    assert told == [Happened(Happening.JOB_COMPLETED, f"{host.bmc.tree.job_queue}/{made.id}")]
    assert (host.bmc.state.timers, states(host.bmc.state.jobs)) == ({}, [JobState.FAILED])
    assert host.bmc.end_job(made.id, host.clock.now()) == []


def test_ids_are_never_given_twice(host: Client) -> None:
    seen = set()
    for _ in range(5):
        made, _ = host.bmc.create_job("Export", "Export", host.clock.now())
        assert made.id not in seen
        seen.add(made.id)
        host.bmc.drop_jobs({made.id}, host.clock.now())
    assert host.bmc.state.jobs == ()


def test_a_dropped_job_takes_its_timer_along(host: Client) -> None:
    made, _ = host.bmc.create_job("Export", "Export", host.clock.now(), seconds=20.0)
    assert host.bmc.drop_jobs([made.id], host.clock.now()) == []
    assert host.bmc.state.timers == {}
