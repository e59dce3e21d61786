"""Tasks as values: what they show follows from the time."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.core.clock import Moment
from bmcsim.machine import task_view, tasks
from bmcsim.machine.tasks import KEPT, Task, TaskState

ORDER = list(TaskState)


def task(id_: str = "1", seconds: float = 100.0, **facts: Any) -> Task:
    """A task that began at hardware time 10."""
    return Task(id_, "Firmware Update", "/x", 1000.0, seconds, **{"started": 10.0, **facts})


def shown(one: Task, now: float, *, waits: bool = False, scale: float = 1.0) -> task_view.Shown:
    """The task as it shows itself."""
    return task_view.shown(one, Moment(0.0, 0.0, now, scale), waits=waits)


@pytest.mark.parametrize(
    ("now", "state", "percent"),
    [
        (10, "New", 0),
        (11.9, "New", 1),
        (12, "Starting", 2),
        (19.9, "Starting", 9),
        (20, "Running", 10),
        (60, "Running", 50),
        (109.9, "Running", 99),
        (500, "Running", 99),
    ],
)
def test_state_and_percent_follow_from_the_time(now: float, state: str, percent: int) -> None:
    assert (tasks.state(task(), now), tasks.percent(task(), now)) == (state, percent)


def test_a_task_that_waits_is_pending_and_has_done_nothing() -> None:
    waiting = task(started=None)
    assert (tasks.state(waiting, 1e6), tasks.percent(waiting, 1e6)) == (TaskState.PENDING, 0)
    assert tasks.remaining(waiting, 1e6) == 100
    begun = tasks.started(task(started=None, held=True), 30)
    assert (begun.started, begun.held, tasks.remaining(begun, 40)) == (30, False, 90)


@pytest.mark.parametrize(
    ("end", "percent", "status"),
    [("Completed", 100, "OK"), ("Exception", 50, "Critical"), ("Cancelled", 50, "Warning")],
)
def test_an_end_stays(end: str, percent: int, status: str) -> None:
    over = tasks.ended(task(), TaskState(end), 60, 2000.0)
    assert (tasks.state(over, 1e6), tasks.percent(over, 1e6), tasks.remaining(over, 60)) == (end, percent, 0)
    view = shown(over, 1e6)
    assert (view.status, view.finished) == (status, 2000.0)


@given(st.floats(0, 100), st.just(0.0) | st.floats(0.001, 1000), st.lists(st.floats(0, 2000), min_size=2))
def test_progress_never_goes_back(fails_at: float, seconds: float, moments: list[float]) -> None:
    one = task(seconds=seconds, fails_at=fails_at)
    seen = [(ORDER.index(tasks.state(one, 10 + now)), tasks.percent(one, 10 + now)) for now in sorted(moments)]
    assert seen == sorted(seen)
    assert all(percent <= fails_at + 1e-3 or seconds == 0 for _, percent in seen)
    over = tasks.ended(one, TaskState.EXCEPTION, 10 + max(moments), 0.0)
    assert tasks.percent(over, 0) >= seen[-1][1]


def test_a_task_that_fails_ends_at_its_percent() -> None:
    one = task(fails_at=30)
    assert (tasks.lasts(one), tasks.remaining(one, 20), tasks.percent(one, 1e6)) == (30, 20, 30)


def test_a_task_without_duration_is_at_its_end() -> None:
    assert (tasks.state(task(seconds=0), 10), tasks.percent(task(seconds=0), 10)) == (TaskState.RUNNING, 99)


@pytest.mark.parametrize(("pattern", "id_"), [("#", "7"), ("JID_####", "JID_0007"), ("##-x", "07-x")])
def test_an_id_follows_a_pattern(pattern: str, id_: str) -> None:
    assert tasks.id_of(pattern, 7) == id_


def test_a_full_list_forgets_what_ended_first() -> None:
    every: tuple[Task, ...] = ()
    for number in range(KEPT):
        every = tasks.with_task(every, task(str(number)))
    assert tasks.is_full(every)
    for id_, wall in (("5", 200.0), ("3", 300.0)):
        over = tasks.ended(tasks.find(every, id_) or task(), TaskState.COMPLETED, 20, wall)
        every = tasks.with_task(every, over)
    assert not tasks.is_full(every)
    every = tasks.with_task(every, task("new"))
    assert len(every) == KEPT
    assert (tasks.find(every, "5"), every[-1].id) == (None, "new")
    assert tasks.find(every, "3") is not None
    assert [one.id for one in tasks.unfinished(every)][:4] == ["0", "1", "2", "4"]


def test_another_time_line_moves_what_has_started() -> None:
    moved = tasks.shifted((task(), task("2", started=None)), 5)
    assert [one.started for one in moved] == [15, None]


@pytest.mark.parametrize(
    ("one", "now", "waits", "ids"),
    [
        (task(), 10, False, []),
        (task(started=None, held=True), 10, False, ["Update.1.0.AwaitToUpdate"]),
        (task(), 12, False, ["Update.1.0.UpdateInProgress"]),
        (task(), 60, False, ["Update.1.0.UpdateInProgress"]),
        (tasks.ended(task(), TaskState.COMPLETED, 110, 0), 120, False, ["Update.1.0.UpdateSuccessful"]),
        (
            tasks.ended(task(), TaskState.COMPLETED, 110, 0),
            120,
            True,
            ["Update.1.0.UpdateSuccessful", "Update.1.0.AwaitToActivate"],
        ),
        (tasks.ended(task(), TaskState.EXCEPTION, 110, 0), 120, False, ["Update.1.0.ApplyFailed"]),
        (tasks.ended(task(), TaskState.EXCEPTION, 110, 0, aborted=True), 120, False, ["TaskEvent.1.0.TaskAborted"]),
        (tasks.ended(task(), TaskState.CANCELLED, 110, 0), 120, False, ["TaskEvent.1.0.TaskCancelled"]),
    ],
)
def test_messages_tell_what_becomes_of_it(one: Task, now: float, waits: bool, ids: list[str]) -> None:
    one = msgspec.structs.replace(one, image="a.bin", changes={"uefi": "2"})
    messages = shown(one, now, waits=waits).messages
    assert [message["MessageId"] for message in messages] == ids
    for message in messages:
        assert "{" not in message["Message"]
        assert all(argument in message["Message"] for argument in message["MessageArgs"])


def test_the_estimate_is_in_real_time() -> None:
    assert shown(task(), 10, scale=60.0).duration == "PT2S"
    assert (shown(task(), 10).began, shown(task(), 10).finished) == (1000.0, None)
