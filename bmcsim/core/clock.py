"""Time as a value: nothing below the edges reads a clock by itself.

There are three time lines. Hardware has one of its own, which runs `scale` times as fast as the clock on the wall and
can be moved forward by hand: what hardware takes time for (boot, reset, update) is measured on it.
"""

import time
from datetime import UTC, datetime
from typing import Protocol

import msgspec


class Moment(msgspec.Struct, frozen=True, gc=False):
    """One instant on all time lines.

    mono: seconds on a monotonic line, for durations and deadlines of the real world.
    wall: seconds since the Unix epoch, for what a client reads as a date.
    hardware: seconds on the time line of simulated hardware. scale: its speed; 0 when it only moves by hand.
    """

    mono: float
    wall: float
    hardware: float = 0.0
    scale: float = 1.0

    def real_seconds(self, hardware_seconds: float) -> float:
        """How long a stretch of the hardware's time takes in the real world; a time line that stands counts as 1:1."""
        return max(0.0, hardware_seconds) / (self.scale or 1.0)


def rfc3339(wall: float) -> str:
    """Seconds since the epoch -> 2026-01-02T03:04:05.678Z."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Clock(Protocol):
    """Source of moments."""

    def now(self) -> Moment: ...

    def skip(self, seconds: float) -> None:
        """Move the hardware's time line forward."""

    def rescale(self, scale: float) -> None:
        """Let the hardware's time line run at another speed from now on; 0: it stands. It does not jump.

        ValueError when scale is negative.
        """


class _HardwareLine:
    """The time line of hardware, derived from a monotonic one."""

    def __init__(self, scale: float) -> None:
        self.scale = _scale(scale)
        self._skipped = 0.0

    def skip(self, seconds: float) -> None:
        """Move the hardware's time line forward. ValueError when seconds is negative."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._skipped += seconds

    def _hardware(self, elapsed: float) -> float:
        return elapsed * self.scale + self._skipped


def _scale(scale: float) -> float:
    """A speed as it is. ValueError for a negative one."""
    if scale < 0:
        raise ValueError("time scale must not be negative")
    return scale


class SystemClock(_HardwareLine):
    """The machine's own clocks. scale: how much faster hardware is than real time."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self._start = time.monotonic()

    def now(self) -> Moment:
        mono, scale = time.monotonic(), self.scale
        # As `_hardware`, without a call: this is on the way of every request.
        return Moment(mono, time.time(), (mono - self._start) * scale + self._skipped, scale)

    def rescale(self, scale: float) -> None:
        """Let the hardware's time line run at another speed from now on. ValueError when scale is negative."""
        mono, scale = time.monotonic(), _scale(scale)
        # What has passed is kept as it is, instead of as a product that would come out a little different.
        self._start, self._skipped = mono, self._hardware(mono - self._start)
        self.scale = scale


class ManualClock(_HardwareLine):
    """A clock that moves only when told to; tests use it."""

    def __init__(self, mono: float = 0.0, wall: float = 1_767_225_600.0, scale: float = 1.0) -> None:
        super().__init__(scale)
        self._mono = mono
        self._wall = wall
        self._elapsed = 0.0

    def now(self) -> Moment:
        return Moment(self._mono, self._wall, self._hardware(self._elapsed), self.scale)

    def rescale(self, scale: float) -> None:
        """Let the hardware's time line run at another speed from now on. ValueError when scale is negative."""
        scale = _scale(scale)
        self._elapsed, self._skipped = 0.0, self._hardware(self._elapsed)
        self.scale = scale

    def advance(self, seconds: float) -> None:
        """Move all time lines forward. ValueError when seconds is negative."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._mono += seconds
        self._wall += seconds
        self._elapsed += seconds
