"""Clocks."""

import time

import pytest

from bmcsim.core.clock import ManualClock, Moment, SystemClock


def test_manual_clock_stands_still_until_it_is_told_to_move() -> None:
    clock = ManualClock(mono=5.0, wall=1000.0)
    assert clock.now() == clock.now() == Moment(5.0, 1000.0)


def test_manual_clock_moves_both_time_lines() -> None:
    clock = ManualClock(mono=5.0, wall=1000.0)
    clock.advance(2.5)
    clock.advance(0.0)
    assert clock.now() == Moment(7.5, 1002.5)


def test_manual_clock_does_not_run_backwards() -> None:
    clock = ManualClock()
    before = clock.now()
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-0.001)
    assert clock.now() == before


def test_system_clock_reads_both_clocks_of_the_machine() -> None:
    mono, wall = time.monotonic(), time.time()
    moment = SystemClock().now()
    assert mono <= moment.mono <= time.monotonic()
    assert abs(moment.wall - wall) < 5
