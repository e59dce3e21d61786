"""Time as a value: nothing below the edges reads a clock by itself."""

import time
from typing import Protocol

import msgspec


class Moment(msgspec.Struct, frozen=True, gc=False):
    """One instant on both time lines.

    mono: seconds on a monotonic line, for durations and deadlines.
    wall: seconds since the Unix epoch, for what a client reads as a date.
    """

    mono: float
    wall: float


class Clock(Protocol):
    """Source of moments."""

    def now(self) -> Moment: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> Moment:
        return Moment(time.monotonic(), time.time())


class ManualClock:
    """A clock that moves only when told to; tests and manual progression use it."""

    def __init__(self, mono: float = 0.0, wall: float = 1_767_225_600.0) -> None:
        self._mono = mono
        self._wall = wall

    def now(self) -> Moment:
        return Moment(self._mono, self._wall)

    def advance(self, seconds: float) -> None:
        """Move both time lines forward. ValueError when seconds is negative."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._mono += seconds
        self._wall += seconds
