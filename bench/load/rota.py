"""Whose turn it is: every BMC once, or every BMC again and again at a steady pace."""

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from bench.load.known import Known


class Rota(Protocol):
    """The turns of one phase in one worker. Times are seconds of a clock that the caller reads."""

    late: float
    """The most that a turn began after it was due."""

    def take(self, now: float) -> Known | float | None:
        """The next BMC, or the seconds until one is due, or None when there will be none."""

    def give_back(self, bmc: Known) -> None:
        """The turn of this BMC is over."""

    def close(self) -> None:
        """No turn begins any more."""

    @property
    def over(self) -> bool:
        """No turn is under way, and none will be."""


class Once:
    """Every BMC has one turn."""

    late = 0.0

    def __init__(self, bmcs: Iterable[Known]) -> None:
        self._waiting = deque(bmcs)
        self._busy = 0

    def take(self, now: float) -> Known | float | None:
        del now
        if not self._waiting:
            return None
        self._busy += 1
        return self._waiting.popleft()

    def give_back(self, bmc: Known) -> None:
        del bmc
        self._busy -= 1

    def close(self) -> None:
        self._waiting.clear()

    @property
    def over(self) -> bool:
        return not self._waiting and not self._busy


class Steady:
    """Every BMC has a turn each `period` seconds, the first ones spread evenly over the first period.

    A turn that began late does not move the next one, and a BMC whose turn is under way waits for its end.
    """

    def __init__(self, bmcs: Sequence[Known], period: float, begin: float) -> None:
        self._period = period
        self._due = [(begin + period * place / len(bmcs), place, bmc) for place, bmc in enumerate(bmcs)]
        self._busy: dict[int, tuple[float, int]] = {}
        self._closed = False
        self.late = 0.0

    def take(self, now: float) -> Known | float | None:
        if self._closed:
            return None
        if not self._due:
            return self._period
        due, place, bmc = self._due[0]
        if due > now:
            return due - now
        heapq.heappop(self._due)
        self._busy[id(bmc)] = (due, place)
        self.late = max(self.late, now - due)
        return bmc

    def give_back(self, bmc: Known) -> None:
        due, place = self._busy.pop(id(bmc))
        heapq.heappush(self._due, (due + self._period, place, bmc))

    def close(self) -> None:
        self._closed = True

    @property
    def over(self) -> bool:
        return self._closed and not self._busy
