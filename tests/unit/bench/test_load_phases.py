"""The plan of a run and whose turn it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.endpoints import Endpoint
from bench.load.known import Known
from bench.load.phases import PHASES, schedule
from bench.load.rota import Once, Steady
from bench.server import BenchError


def bmcs(count: int) -> list[Known]:
    return [Known(number, Endpoint(f"10.0.0.{number}", 443, "root", "x")) for number in range(count)]


def names(asked: list[str], endpoints: int = 1_000, workers: int = 1) -> list[str]:
    return [step.name for step in schedule(asked, endpoints, workers)]


def test_a_look_comes_before_the_first_phase_that_needs_one() -> None:
    assert names(["login", "storm", "health", "reset"]) == [
        "login:100",
        "storm:200",
        "look:100",
        "health:64@60",
        "reset:1000",
    ]
    assert names(["look", "health"]) == ["look:100", "health:64@60"]
    assert names(["storm"]) == ["storm:200"]


def test_all_is_every_phase_once() -> None:
    assert [step.phase.name for step in schedule(["all"], 1_000, 1)] == list(PHASES)


def test_users_and_periods_are_asked_for() -> None:
    assert names(["storm:30", "storm:1000", "look", "health:8@2.5"]) == [
        "storm:30",
        "storm:1000",
        "look:100",
        "health:8@2.5",
    ]


def test_every_worker_has_a_user_and_no_user_is_idle() -> None:
    assert names(["storm:1"], workers=4) == ["storm:4"]
    assert names(["storm:1000"], endpoints=10) == ["storm:10"]


def test_steady_exploration_keeps_the_pace_of_the_whole_site() -> None:
    (_, step) = schedule(["explore"], 13_500, 1)
    assert 13_500 / step.period == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("strom", "is no phase.*login, storm"),
        ("storm:", "is no phase"),
        ("storm:0", "at least one user"),
        ("storm@5", "a period is for explore, health, observe"),
        ("health@0.0", "longer than 0 s"),
        ("health@-1", "is no phase"),
    ],
)
def test_a_bad_phase_is_refused(asked: str, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        schedule([asked], 10, 1)


def test_once_gives_every_bmc_one_turn() -> None:
    rota, fleet = Once(bmcs(3)), []
    while (bmc := rota.take(0.0)) is not None:
        assert isinstance(bmc, Known)
        fleet.append(bmc)
    assert [bmc.number for bmc in fleet] == [0, 1, 2]
    assert not rota.over
    for bmc in fleet:
        rota.give_back(bmc)
    assert rota.over


def test_a_closed_rota_begins_nothing_and_is_over_with_the_last_turn() -> None:
    for rota in (Once(bmcs(3)), Steady(bmcs(3), 60.0, 0.0)):
        bmc = rota.take(0.0)
        assert isinstance(bmc, Known)
        rota.close()
        assert rota.take(1e9) is None
        assert not rota.over
        rota.give_back(bmc)
        assert rota.over


def test_a_steady_rota_spreads_the_first_turns_and_comes_back() -> None:
    rota = Steady(bmcs(4), 60.0, 100.0)
    turns = []
    for now in range(100, 221):
        while isinstance(bmc := rota.take(float(now)), Known):
            turns.append((now, bmc.number))
            rota.give_back(bmc)
    assert turns == [(100 + 15 * place, place % 4) for place in range(9)]
    assert rota.take(220.5) == 14.5
    assert rota.late == 0.0


def test_a_turn_that_began_late_is_told_and_does_not_move_the_next() -> None:
    rota = Steady(bmcs(1), 10.0, 0.0)
    bmc = rota.take(4.0)
    assert isinstance(bmc, Known)
    assert rota.late == 4.0
    assert rota.take(11.0) == 10.0  # its turn is under way
    rota.give_back(bmc)
    assert rota.take(9.0) == 1.0


@given(st.integers(1, 20), st.lists(st.floats(0.0, 30.0), min_size=1, max_size=60))
def test_no_bmc_has_two_turns_at_a_time(count: int, waits: list[float]) -> None:
    rota, busy, now = Steady(bmcs(count), 10.0, 0.0), list[Known](), 0.0
    for wait in waits:
        now += wait
        taken = rota.take(now)
        if isinstance(taken, Known):
            assert taken not in busy
            busy.append(taken)
        elif busy:
            rota.give_back(busy.pop())
    assert len(busy) <= count
