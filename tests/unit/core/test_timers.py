"""The timer heap, against the simplest thing that could be right: a sorted list."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from bmcsim.core.timers import Timer, TimerHeap

TIMES = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e9])


def drain(heap: TimerHeap, now: float = 1e12) -> list[Any]:
    """The payloads of everything that is due."""
    due = []
    while (payload := heap.pop_due(now)) is not None:
        due.append(payload)
    return due


class HeapAgainstSortedList(RuleBasedStateMachine):
    """Whatever is pushed, cancelled and popped, the heap says what a sorted list of (deadline, order) says."""

    timers = Bundle("timers")

    def __init__(self) -> None:
        super().__init__()
        self.heap = TimerHeap()
        self.model: list[tuple[float, int]] = []
        self.pushed = 0

    @rule(target=timers, deadline=TIMES)
    def push(self, deadline: float) -> tuple[Timer, tuple[float, int]]:
        self.pushed += 1
        entry = (deadline, self.pushed)
        self.model.append(entry)
        self.model.sort()
        return self.heap.push(deadline, self.pushed), entry

    @rule(timer=timers)
    def cancel(self, timer: tuple[Timer, tuple[float, int]]) -> None:
        """Also of a timer that fired or was cancelled before."""
        handle, entry = timer
        self.heap.cancel(handle)
        if entry in self.model:
            self.model.remove(entry)

    @rule(now=TIMES)
    def pop(self, now: float) -> None:
        expected = self.model.pop(0)[1] if self.model and self.model[0][0] <= now else None
        assert self.heap.pop_due(now) == expected

    @rule()
    def look(self) -> None:
        assert self.heap.next_deadline() == (self.model[0][0] if self.model else None)

    @invariant()
    def length_is_the_number_of_live_timers(self) -> None:
        assert len(self.heap) == len(self.model)


HeapAgainstSortedList.TestCase.settings = settings(deadline=None, max_examples=100, stateful_step_count=40)
TestHeapAgainstSortedList = HeapAgainstSortedList.TestCase


def test_equal_deadlines_come_out_in_the_order_they_went_in() -> None:
    heap = TimerHeap()
    for payload in range(100):
        heap.push(7.0, payload)
    assert drain(heap) == list(range(100))


@pytest.mark.parametrize(("now", "expected"), [(0.999, None), (1.0, "x"), (1.001, "x")])
def test_a_timer_is_due_at_its_deadline_and_not_before(now: float, expected: str | None) -> None:
    heap = TimerHeap()
    heap.push(1.0, "x")
    assert heap.pop_due(now) == expected


def test_cancelling_a_timer_that_fired_does_not_miscount() -> None:
    heap = TimerHeap()
    fired = heap.push(1.0, "x")
    heap.push(2.0, "y")
    assert heap.pop_due(1.0) == "x"
    heap.cancel(fired)
    assert len(heap) == 1
    assert drain(heap) == ["y"]


def test_cancelled_timers_are_swept_when_they_outnumber_the_live_ones() -> None:
    heap = TimerHeap()
    timers = [heap.push(float(number), number) for number in range(1000)]
    for timer in timers[::-1][:900]:
        heap.cancel(timer)
    assert len(heap) == 100
    assert len(heap._heap) < 300
    assert drain(heap) == list(range(100))


def test_a_few_cancelled_timers_are_left_where_they_are() -> None:
    heap = TimerHeap()
    timers = [heap.push(float(number), number) for number in range(60)]
    for timer in timers[1:]:
        heap.cancel(timer)
    assert len(heap._heap) == 60
    assert drain(heap) == [0]
    assert len(heap) == 0


def test_sweeping_keeps_the_order_of_equal_deadlines() -> None:
    heap = TimerHeap()
    kept: list[tuple[Timer, int]] = []
    dropped: list[tuple[Timer, int]] = []
    for number in range(400):
        timer = heap.push(1.0, number)
        (kept if number % 4 == 0 else dropped).append((timer, number))
    for timer, _ in dropped:
        heap.cancel(timer)
    assert drain(heap) == [number for _, number in kept]
