"""The driver: timers of states on the time line of hardware."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.driver import Driver
from bmcsim.machine.actions import DropSessions
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.power import Event, Power, Refused
from tests.conftest import make_client

COMMANDS = [event for event in Event if event is not Event.TIMER]


class Bench:
    """A few BMCs with one driver. woken: what the driver wished, in real seconds from then, with the mono of then."""

    def __init__(self, *, scale: float = 1.0, count: int = 1, immediate: bool = False, **options: Any) -> None:
        self.clock = ManualClock(scale=scale)
        self.woken: list[tuple[float, float]] = []
        self.driver = Driver(self.clock, self._wake, immediate=immediate, **options)
        self.bmcs = [make_client("bluefield3", index=index).bmc for index in range(count)]

    def _wake(self, seconds: float) -> None:
        self.woken.append((self.clock.now().mono, seconds))

    def command(self, event: Event, index: int = 0) -> None:
        """A power command."""
        bmc = self.bmcs[index]
        self.driver.execute(bmc, bmc.reset_system(event, self.clock.now()))

    def reset(self, index: int = 0) -> None:
        """A reset of the BMC."""
        bmc = self.bmcs[index]
        self.driver.execute(bmc, bmc.reset_bmc(self.clock.now()))

    def run(self, seconds: float) -> None:
        """Let real time pass, and call the driver whenever it wished to be called, as an event loop does."""
        end = self.clock.now().mono + seconds
        calls = [at + after for at, after in self.woken]
        while calls and min(calls) <= end + 1e-9:
            call = min(calls)
            calls.remove(call)
            self.clock.advance(max(0.0, call - self.clock.now().mono))
            before = len(self.woken)
            self.driver.run_due()
            calls += [at + after for at, after in self.woken[before:]]
        self.woken = [(call, 0.0) for call in calls]
        self.clock.advance(max(0.0, end - self.clock.now().mono))

    @property
    def powers(self) -> list[Power]:
        return [bmc.power for bmc in self.bmcs]


def test_a_timer_is_asked_for_once_and_in_real_seconds() -> None:
    bench = Bench(scale=60)
    bench.command(Event.POWER_CYCLE)
    bench.driver.execute(bench.bmcs[0], [])
    assert [seconds for _, seconds in bench.woken] == [pytest.approx(5 / 60)]


def test_an_earlier_deadline_is_asked_for_and_a_later_one_waits_for_its_turn() -> None:
    bench = Bench(count=3)
    bench.reset(0)
    bench.command(Event.POWER_CYCLE, 1)
    bench.command(Event.FORCE_RESTART, 2)
    assert [seconds for _, seconds in bench.woken] == [90, 5]
    bench.clock.advance(5)
    assert bench.driver.run_due() == 1
    assert bench.woken[2:] == [(5.0, 2.0)]


def test_nothing_is_asked_for_when_nothing_is_armed() -> None:
    bench = Bench()
    bench.driver.execute(bench.bmcs[0], [])
    assert bench.driver.run_due() == 0
    assert (bench.woken, bench.bmcs[0].timers) == ([], None)


def test_a_driver_that_nobody_wakes_is_called_by_hand() -> None:
    clock, bmc = ManualClock(), make_client("bluefield3").bmc
    driver = Driver(clock)
    driver.execute(bmc, bmc.reset_system(Event.POWER_CYCLE, clock.now()))
    assert (len(driver), driver.run_due()) == (1, 0)
    clock.advance(5)
    assert (driver.run_due(), bmc.power) == (1, Power.POWERING_ON)


def test_a_timer_that_a_firing_one_armed_waits_for_its_own_deadline() -> None:
    bench = Bench()
    bench.command(Event.POWER_CYCLE)
    bench.clock.advance(1000)
    assert bench.driver.run_due() == 1
    assert bench.powers == [Power.POWERING_ON]
    assert bench.woken[-1] == (1000.0, 2.0)


def test_sessions_are_dropped_when_the_driver_is_told() -> None:
    bench = Bench()
    bmc, moment = bench.bmcs[0], bench.clock.now()
    account = bmc.accounts.get("root")
    assert account is not None
    bmc.open_session(account, moment)
    actions = bmc.reset_bmc(moment)
    assert DropSessions() in actions
    assert len(bmc.live_sessions(moment)) == 1
    bench.driver.execute(bmc, actions)
    assert len(bmc.live_sessions(moment)) == 0


# what timers change


def test_who_wants_to_know_is_told_of_each_bmc_that_a_timer_changed() -> None:
    told: list[tuple[Bmc, bool]] = []
    bench = Bench(count=2, changed=lambda bmc: told.append((bmc, bmc.committed() is not None)))
    bench.command(Event.POWER_CYCLE, 0)
    bench.reset(1)
    assert told == []
    bench.run(90)
    assert told == [(bench.bmcs[0], True)] * 2 + [(bench.bmcs[1], True)]


def test_what_a_timer_changed_is_not_left_for_the_next_request_to_commit() -> None:
    bench = Bench()
    bench.command(Event.POWER_CYCLE)
    bench.bmcs[0].committed()
    bench.run(5)
    assert bench.bmcs[0].uncommitted is None


# undo and restore


def test_sync_takes_over_what_a_restored_state_says() -> None:
    bench = Bench()
    bmc = bench.bmcs[0]
    bench.command(Event.POWER_CYCLE)
    cycling = bmc.state
    bench.clock.advance(1)
    bench.reset()
    assert len(bench.driver) == 2
    bmc.restore(cycling)
    bench.driver.sync(bmc)
    assert len(bench.driver) == 1
    bench.clock.advance(4)
    assert (bench.driver.run_due(), bmc.power, bmc.state.service) == (1, Power.POWERING_ON, Service.UP)


def test_an_undone_cancellation_arms_the_timer_again_even_when_it_is_overdue() -> None:
    bench = Bench()
    bmc = bench.bmcs[0]
    bench.command(Event.FORCE_RESTART)
    booting = bmc.state
    bench.command(Event.FORCE_OFF)
    bench.run(500)
    assert (len(bench.driver), bench.woken) == (0, [])
    bmc.restore(booting)
    bench.driver.sync(bmc)
    assert bench.woken == [(500.0, 0.0)]
    bench.run(0)
    assert bmc.power is Power.RUNNING


def test_sync_of_a_bmc_without_timers_costs_it_nothing() -> None:
    bench = Bench()
    bench.driver.sync(bench.bmcs[0])
    assert bench.bmcs[0].timers is None


# the time line


@pytest.mark.parametrize(("scale", "seconds"), [(1.0, 185.0), (60.0, 185 / 60), (0.5, 370.0)])
def test_hardware_takes_its_time_divided_by_the_scale(scale: float, seconds: float) -> None:
    bench = Bench(scale=scale)
    bench.command(Event.POWER_CYCLE)
    bench.run(seconds - 0.001)
    assert bench.powers == [Power.BOOTING]
    bench.run(0.002)
    assert bench.powers == [Power.RUNNING]


def test_without_a_scale_hardware_waits_for_a_skip() -> None:
    bench = Bench(scale=0)
    bench.command(Event.POWER_CYCLE)
    bench.reset()
    bench.run(1e6)
    assert (bench.woken, bench.powers) == ([], [Power.CYCLING])
    assert bench.driver.skip(4.999) == 0
    assert bench.driver.skip(0.001) == 1
    assert bench.powers == [Power.POWERING_ON]
    assert bench.driver.skip(180) == 3
    assert (bench.powers, bench.bmcs[0].state.service) == ([Power.RUNNING], Service.UP)
    assert (bench.woken, bench.clock.now().hardware, bench.clock.now().mono) == ([], 185.0, 1e6)


def test_without_a_scale_what_is_due_already_is_still_asked_for() -> None:
    bench = Bench(scale=0)
    bench.command(Event.GRACEFUL_SHUTDOWN)
    assert bench.woken == [(0.0, 0.0)]
    bench.run(0)
    assert bench.powers == [Power.OFF]


def test_a_skip_fires_in_order_and_each_timer_at_its_own_time() -> None:
    order: list[tuple[str, float]] = []
    bench = Bench(count=2, changed=lambda bmc: order.append((bmc.id, bench.clock.now().hardware)))
    bench.command(Event.POWER_CYCLE, 0)
    bench.reset(1)
    assert bench.driver.skip(1000) == 4
    assert order == [("bmc-0", 5), ("bmc-0", 7), ("bmc-1", 90), ("bmc-0", 185)]
    assert bench.clock.now().hardware == 1000


def test_a_skip_that_ends_before_a_deadline_brings_it_closer() -> None:
    bench = Bench()
    bench.reset()
    bench.driver.skip(30)
    assert bench.woken == [(0.0, 90.0), (0.0, 60.0)]
    bench.run(59.9)
    assert bench.bmcs[0].state.service is Service.RESETTING
    bench.run(0.1)
    assert bench.bmcs[0].state.service is Service.UP


def test_a_skip_backwards_is_refused() -> None:
    bench = Bench()
    bench.reset()
    before = bench.clock.now()
    with pytest.raises(ValueError, match="backwards"):
        bench.driver.skip(-1)
    assert bench.clock.now() == before


def test_only_so_many_timers_fire_in_one_turn() -> None:
    bench = Bench(count=5)
    for index in range(5):
        bench.reset(index)
    bench.clock.advance(90)
    before = len(bench.woken)
    assert [bench.driver.run_due(2) for _ in range(4)] == [2, 2, 1, 0]
    # What is left asks for a turn at once.
    assert bench.woken[before:] == [(90.0, 0.0), (90.0, 0.0)]


def test_a_skip_in_steps_lets_others_do_something_in_between() -> None:
    bench = Bench(count=5)
    for index in range(4):
        bench.reset(index)
    steps = bench.driver.skipping(1000, 3)
    assert next(steps) == 3
    bench.reset(4)
    assert list(steps) == [1, 1]
    assert bench.clock.now().hardware == 1000
    assert {bmc.state.service for bmc in bench.bmcs} == {Service.UP}


def test_at_another_speed_a_wish_is_another_one() -> None:
    bench = Bench()
    bench.reset()
    bench.clock.advance(30)
    bench.driver.rescale(10.0)
    bench.driver.rescale(0.0)
    bench.driver.rescale(0.5)
    assert bench.woken == [(0.0, 90.0), (30.0, 6.0), (30.0, 120.0)]
    assert bench.driver.next_deadline() == 90.0
    bench.clock.advance(120)
    assert bench.driver.run_due() == 1
    assert bench.driver.next_deadline() is None


def test_a_driver_that_is_immediate_leaves_no_timer_waiting() -> None:
    bench = Bench(count=2, immediate=True)
    for index in range(2):
        bench.command(Event.POWER_CYCLE, index)
        bench.reset(index)
    assert bench.powers == [Power.RUNNING, Power.RUNNING]
    assert [bmc.state.service for bmc in bench.bmcs] == [Service.UP, Service.UP]
    assert (len(bench.driver), bench.woken, bench.clock.now().mono) == (0, [], 0.0)
    assert bench.clock.now().hardware == 2 * (185 + 90)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_a_driver_that_is_immediate_takes_a_host_and_its_dpus_along(scale: float) -> None:
    bench = Bench(scale=scale, count=3, immediate=True)
    bench.bmcs[0].dpus = tuple(bench.bmcs[1:])
    bench.command(Event.FORCE_OFF)
    assert bench.powers == [Power.OFF] * 3
    bench.command(Event.ON)
    assert bench.powers == [Power.RUNNING] * 3
    assert len(bench.driver) == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("command"), st.sampled_from(COMMANDS), st.integers(0, 2)),
        st.tuples(st.just("reset"), st.none(), st.integers(0, 2)),
        st.tuples(st.just("undo"), st.none(), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.sampled_from([0.0, 0.1, 1.0, 2.0, 5.0, 90.0, 178.0, 0.3333]), st.none()),
    ),
    max_size=20,
)


def history(bench: Bench, steps: list[Any], *, skip: bool) -> list[Any]:
    """What a bench goes through, in time of hardware. skip: time is skipped instead of lived through."""
    bench.bmcs[0].dpus = (bench.bmcs[2],)
    seen = []
    for kind, what, index in steps:
        if kind == "pass":
            if skip:
                bench.driver.skip(what)
            else:
                bench.run(what / bench.clock.scale)
        else:
            bmc = bench.bmcs[index]
            bmc.committed()
            with contextlib.suppress(Refused):
                if kind == "command":
                    bench.command(what, index)
                else:
                    bench.reset(index)
            if kind == "undo" and (before := bmc.committed()) is not None:
                bmc.restore(before)
                bench.driver.sync(bmc)
        wanted = [bmc.state.timers for bmc in bench.bmcs]
        armed = [{name: timer.deadline for name, timer in (bmc.timers or {}).items()} for bmc in bench.bmcs]
        assert armed == wanted
        assert len(bench.driver) == sum(map(len, wanted))
        seen.append([(bmc.power, bmc.state.service, len(bmc.state.timers)) for bmc in bench.bmcs])
    return seen


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_the_heap_agrees_with_the_states_however_time_passes(steps: list[Any]) -> None:
    lived = history(Bench(count=3), steps, skip=False)
    assert history(Bench(count=3), steps, skip=True) == lived
    assert history(Bench(count=3, scale=0), steps, skip=True) == lived
    assert history(Bench(count=3, scale=64), steps, skip=False) == lived


def test_what_fired_is_counted_and_how_late_in_real_time() -> None:
    bench = Bench(scale=10.0)
    bench.reset()
    deadline = bench.driver.next_deadline()
    assert deadline is not None and (bench.driver.fired, bench.driver.lag) == (0, 0.0)
    bench.clock.advance((deadline + 30.0 - bench.clock.now().hardware) / 10.0)
    assert bench.driver.run_due() == 1
    assert bench.driver.fired == 1 and bench.driver.lag == pytest.approx(3.0)
    bench.driver.run_due()
    assert bench.driver.fired == 1 and bench.driver.lag == pytest.approx(3.0)
