import asyncio
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.edges.nico.pace import Pace


class Time:
    """A clock that sleeping moves, later than asked for."""

    def __init__(self, late: list[float] | None = None) -> None:
        self.now, self._late = 100.0, late or []

    def mono(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds + (self._late.pop() if self._late else 0.0)


def gone(pace: Pace, time: Time, count: int) -> list[float]:
    async def go() -> list[float]:
        times = []
        for _ in range(count):
            await pace.wait()
            times.append(time.now)
        return times

    return asyncio.run(go())


@settings(max_examples=60, deadline=None)
@given(
    rate=st.one_of(st.integers(1, 2000).map(float), st.floats(0.2, 500)),
    late=st.lists(st.floats(0, 3), max_size=40),
)
def test_never_more_than_the_rate_in_any_second(rate: float, late: list[float]) -> None:
    time = Time(list(late))
    times = gone(Pace(rate, time.mono, time.sleep), time, int(3 * rate) + 3)
    most = ceil(rate)
    for first, last in zip(times, times[most:], strict=False):
        assert last - first > 1.0 - 1e-6


def test_it_is_nearly_as_fast_as_it_may() -> None:
    time = Time()
    times = gone(Pace(1000.0, time.mono, time.sleep), time, 5000)
    assert 5.0 <= times[-1] - times[0] < 5.4


def test_without_a_rate_nobody_waits() -> None:
    time = Time()
    assert gone(Pace(None, time.mono, time.sleep), time, 1000)[-1] == 100.0


@pytest.mark.parametrize("rate", [None, 10.0])
def test_a_pause_holds_everybody(rate: float | None) -> None:
    time = Time()
    pace = Pace(rate, time.mono, time.sleep)
    pace.pause(5)
    pace.pause(2)
    assert gone(pace, time, 1) == [105.0]
    assert pace.pauses == 2
