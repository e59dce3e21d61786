"""What one BMC takes at a time and in a second."""

from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine.load import Load


def test_without_limits_there_is_nothing_to_count() -> None:
    assert Load.of(None, None) is None


def test_so_many_requests_at_a_time_and_the_next_when_one_is_out() -> None:
    load = Load.of(2, None)
    assert load is not None
    for end in (5.0, 9.0):
        assert load.take(1.0) == 0.0
        load.busy(end)
    assert load.take(2.0) == 3.0
    assert load.take(4.0) == 1.0
    assert load.take(5.0) == 0.0


def test_a_rate_allows_one_second_at_once_and_then_fills_evenly() -> None:
    load = Load.of(None, 4.0)
    assert load is not None
    assert [load.take(10.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.0, 0.25]
    assert load.take(10.25) == 0.0
    assert load.take(10.25) == 0.25
    assert [load.take(99.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.0, 0.25]


def test_less_than_one_request_in_a_second_is_possible() -> None:
    load = Load.of(None, 0.5)
    assert load is not None
    assert [load.take(now) for now in (0.0, 0.0, 1.0, 2.0)] == [0.0, 2.0, 1.0, 0.0]


def test_a_request_that_one_limit_refuses_does_not_use_the_other_up() -> None:
    load = Load.of(1, 1.0)
    assert load is not None
    assert load.take(0.0) == 0.0
    load.busy(10.0)
    assert [load.take(5.0), load.take(5.0)] == [5.0, 5.0]
    assert load.take(10.0) == 0.0


@given(
    st.integers(1, 5),
    st.floats(0.1, 50),
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 3)), max_size=60),
)
def test_never_more_than_the_limits_and_a_wait_is_true(
    at_once: int, rate: float, asked: list[tuple[float, float]]
) -> None:
    """asked: time since the request before, and how long the answer takes."""
    load = Load.of(at_once, rate)
    assert load is not None
    now, taken = 0.0, list[tuple[float, float]]()
    for gap, takes in asked:
        now += gap
        wait = load.take(now)
        if wait:
            now += wait + 1e-6
            assert load.take(now) == 0.0
        load.busy(now + takes)
        taken.append((now, now + takes))
        assert sum(begin <= now < end for begin, end in taken) <= at_once
        for begin, _ in taken:
            within = sum(begin <= other <= now for other, _ in taken)
            assert within <= max(1.0, rate) + (now - begin) * rate + 1e-6
