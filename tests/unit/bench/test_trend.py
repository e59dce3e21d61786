"""Whether a figure grows is told from noise."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.trend import Allowance, judge, slope


@given(st.floats(-100, 100), st.floats(-1000, 1000))
def test_the_slope_of_a_line_is_that_line(steep: float, start: float) -> None:
    times = [float(second) for second in range(40)]
    assert slope(times, [start + steep * time for time in times]) == pytest.approx(steep, abs=1e-6)


def test_a_few_wild_values_do_not_matter() -> None:
    times = [float(second) for second in range(100)]
    values = [5000.0 if second % 17 == 0 else 100.0 for second in range(100)]
    assert judge(times, values, Allowance(1)).flat


def test_a_leak_is_found_under_noise() -> None:
    dice = random.Random(1)
    times = [float(second) for second in range(300)]
    noise = [dice.uniform(0, 4000) for _ in times]
    assert judge(times, noise, Allowance(1000)).flat
    leaking = judge(times, [one + 10 * time for one, time in zip(noise, times, strict=True)], Allowance(1000))
    assert not leaking.flat
    assert leaking.growth == pytest.approx(2990, rel=0.2)


def test_the_larger_of_both_allowances_counts() -> None:
    assert Allowance(10, 0.5).of(100) == 50
    assert Allowance(10, 0.5).of(1) == 10


def test_long_runs_are_judged_from_their_first_to_their_last_sample() -> None:
    times = [float(second) for second in range(3601)]
    assert judge(times, times, Allowance(1)).growth == pytest.approx(3600)


def test_one_sample_is_no_trend() -> None:
    assert slope([1.0], [1.0]) == 0.0
    with pytest.raises(ValueError, match="1 samples"):
        judge([1.0], [1.0], Allowance(1))
