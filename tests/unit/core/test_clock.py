"""Clocks."""

import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core import clock as core_clock
from bmcsim.core.clock import Clock, ManualClock, Moment, SystemClock

SECONDS = st.floats(0, 1e6)


def test_manual_clock_stands_still_until_it_is_told_to_move() -> None:
    clock = ManualClock(mono=5.0, wall=1000.0)
    assert clock.now() == clock.now() == Moment(5.0, 1000.0, hardware=0.0, scale=1.0)


def test_manual_clock_moves_all_time_lines() -> None:
    clock = ManualClock(mono=5.0, wall=1000.0)
    clock.advance(2.5)
    clock.advance(0.0)
    assert clock.now() == Moment(7.5, 1002.5, hardware=2.5, scale=1.0)


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


# the time line of hardware


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 60.0])
def test_hardware_runs_as_fast_as_it_is_told_and_the_real_lines_do_not(scale: float) -> None:
    clock = ManualClock(mono=5.0, wall=1000.0, scale=scale)
    clock.advance(10)
    assert clock.now() == Moment(15.0, 1010.0, hardware=10 * scale, scale=scale)


@pytest.mark.parametrize("scale", [0.0, 1.0, 60.0])
def test_a_skip_moves_hardware_only_and_is_not_scaled(scale: float) -> None:
    clock = ManualClock(mono=5.0, wall=1000.0, scale=scale)
    clock.skip(30)
    clock.skip(0.5)
    assert clock.now() == Moment(5.0, 1000.0, hardware=30.5, scale=scale)
    clock.advance(1)
    assert clock.now() == Moment(6.0, 1001.0, hardware=30.5 + scale, scale=scale)


@pytest.mark.parametrize("clock", [ManualClock(), SystemClock(0)])
def test_hardware_is_not_skipped_backwards(clock: Clock) -> None:
    before = clock.now().hardware
    with pytest.raises(ValueError, match="backwards"):
        clock.skip(-0.001)
    assert clock.now().hardware == before


@pytest.mark.parametrize("kind", [ManualClock, SystemClock])
def test_a_scale_is_not_negative(kind: type[ManualClock | SystemClock]) -> None:
    with pytest.raises(ValueError, match="scale"):
        kind(scale=-0.1)


def test_the_hardware_of_a_system_clock_starts_at_nought_and_follows_its_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mono = iter([100.0, 100.0, 100.02])
    monkeypatch.setattr(core_clock, "time", SimpleNamespace(monotonic=lambda: next(mono), time=lambda: 0.0))
    clock = SystemClock(1000)
    first = clock.now()
    assert 0 <= first.hardware < 60_000
    second = clock.now()
    assert second.hardware - first.hardware == pytest.approx((second.mono - first.mono) * 1000)
    assert (first.scale, second.scale) == (1000, 1000)


def test_the_hardware_of_a_system_clock_that_has_no_scale_moves_by_hand_only(monkeypatch: pytest.MonkeyPatch) -> None:
    mono = iter([100.0, 100.01, 100.02])
    monkeypatch.setattr(core_clock, "time", SimpleNamespace(monotonic=lambda: next(mono), time=lambda: 0.0))
    clock = SystemClock(0)
    assert clock.now().hardware == 0
    clock.skip(90)
    assert clock.now().hardware == 90


@settings(deadline=None)
@given(st.sampled_from([0.0, 0.25, 1.0, 60.0]), st.lists(st.tuples(st.sampled_from(["advance", "skip"]), SECONDS)))
def test_no_time_line_ever_runs_backwards(scale: float, moves: list[tuple[str, float]]) -> None:
    clock = ManualClock(scale=scale)
    for move, seconds in moves:
        before = clock.now()
        getattr(clock, move)(seconds)
        after = clock.now()
        assert after.hardware >= before.hardware
        assert (after.mono >= before.mono) and (after.wall >= before.wall)
        if move == "skip":
            assert (after.mono, after.wall) == (before.mono, before.wall)


@pytest.mark.parametrize(
    ("scale", "hardware", "real"), [(1, 90, 90), (60, 90, 1.5), (0.5, 90, 180), (0, 90, 90), (60, 0, 0), (60, -5, 0)]
)
def test_how_long_hardware_takes_in_the_real_world(scale: float, hardware: float, real: float) -> None:
    assert Moment(0.0, 0.0, scale=scale).real_seconds(hardware) == real


# another speed


@given(st.lists(st.tuples(SECONDS, st.sampled_from([0.0, 0.1, 1.0, 60.0, 1e6])), max_size=8), SECONDS)
def test_another_speed_counts_from_now_on_and_is_no_jump(stretches: list[tuple[float, float]], skipped: float) -> None:
    clock = ManualClock(scale=2.0)
    clock.skip(skipped)
    expected, scale = skipped, 2.0
    for seconds, following in stretches:
        clock.advance(seconds)
        expected += seconds * scale
        before = clock.now()
        clock.rescale(following)
        scale = following
        after = clock.now()
        assert (after.hardware, after.mono, after.wall) == (before.hardware, before.mono, before.wall)
        assert after.scale == following
        assert after.hardware == pytest.approx(expected)


def test_the_system_clock_changes_its_speed_without_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.1]
    monkeypatch.setattr(core_clock, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 0.0))
    clock = SystemClock(3.0)
    clock.skip(0.7)
    now[0] += 12.34
    before = clock.now().hardware
    clock.rescale(60.0)
    assert clock.now().hardware == before == pytest.approx(0.7 + 3 * 12.34)
    now[0] += 2
    assert clock.now().hardware == pytest.approx(before + 120)
    clock.rescale(0.0)
    stands = clock.now().hardware
    now[0] += 1000
    assert clock.now().hardware == stands


@pytest.mark.parametrize("clock", [ManualClock(), SystemClock()])
def test_time_does_not_get_a_negative_speed(clock: ManualClock | SystemClock) -> None:
    with pytest.raises(ValueError, match="negative"):
        clock.rescale(-1.0)
    assert clock.now().scale == 1.0
