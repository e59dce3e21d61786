"""A heap of deadlines. One of it serves all BMCs; it reads no clock and never waits."""

from heapq import heapify, heappop, heappush
from typing import Any

_COMPACT_ABOVE = 64


class Timer:
    """A pending deadline. Cancelled ones stay in the heap until they surface or are swept."""

    __slots__ = ("deadline", "payload", "sequence")

    def __init__(self, deadline: float, sequence: int, payload: Any) -> None:
        self.deadline, self.sequence, self.payload = deadline, sequence, payload

    def __lt__(self, other: "Timer") -> bool:
        return (self.deadline, self.sequence) < (other.deadline, other.sequence)


class TimerHeap:
    """Deadlines in monotonic seconds with payloads of any kind; equal deadlines come out in the order they went in."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._sequence = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def push(self, deadline: float, payload: Any) -> Timer:
        """Add a deadline. payload: anything but None."""
        self._sequence += 1
        timer = Timer(deadline, self._sequence, payload)
        heappush(self._heap, timer)
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget a deadline; one that is due or cancelled already stays as it is."""
        if timer.payload is None:
            return
        timer.payload = None
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [kept for kept in self._heap if kept.payload is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_deadline(self) -> float | None:
        """The earliest deadline, None when there is none."""
        while self._heap and self._heap[0].payload is None:
            heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0].deadline if self._heap else None

    def pop_due(self, now: float) -> Any:
        """The payload of the earliest deadline that is not after `now`, None when there is none."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        timer = heappop(self._heap)
        payload, timer.payload = timer.payload, None
        return payload
