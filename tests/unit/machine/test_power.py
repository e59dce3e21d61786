"""Power and boot of a computer system."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bmcsim.machine.actions import Action, BootCompleted, CancelTimer, PoweredOn, SetTimer
from bmcsim.machine.power import TIMER, TRANSITIONS, Event, Power, Refused, step
from bmcsim.tree.profile import Timings
from tests.conftest import Client, make_client

TIMINGS = Timings(power_on=2, reboot=10, power_on_os_ready=3, power_off_graceful=4, power_off_force=5)

# One row per state, one column per event. x: refused; .: accepted, and nothing changes.
GOLDEN = """
            On         ForceOn    ForceOff GracefulShutdown GracefulRestart ForceRestart PowerCycle PushPowerButton Nmi (timer)
Off         PoweringOn PoweringOn x        x                x               x            Cycling    PoweringOn      .   .
PoweringOn  x          x          Off      Off              PoweringOn      PoweringOn   Cycling    Off             .   Booting
Booting     x          x          Off      Off              Booting         Booting      Cycling    Off             .   Running
Running     x          x          Off      PoweringOff      Restarting      Booting      Cycling    PoweringOff     .   .
PoweringOff x          x          Off      .                x               Booting      Cycling    x               .   Off
Restarting  x          x          Off      x                .               Booting      Cycling    x               .   Booting
Cycling     x          x          x        x                x               x            x          x               x   PoweringOn
"""  # noqa: E501

ENTERED: dict[Power, list[Action]] = {
    Power.OFF: [CancelTimer(TIMER)],
    Power.POWERING_ON: [SetTimer(TIMER, 2)],
    Power.BOOTING: [PoweredOn(), SetTimer(TIMER, 11)],
    Power.RUNNING: [BootCompleted()],
    Power.POWERING_OFF: [SetTimer(TIMER, 4)],
    Power.RESTARTING: [SetTimer(TIMER, 4)],
    Power.CYCLING: [SetTimer(TIMER, 5)],
}


def golden() -> list[tuple[Power, Event, str]]:
    """(state, event, outcome) of every cell of the table."""
    header, *rows = GOLDEN.strip().splitlines()
    events = [Event(name) for name in header.split()]
    return [
        (Power(row.split()[0]), event, outcome)
        for row in rows
        for event, outcome in zip(events, row.split()[1:], strict=True)
    ]


def test_the_golden_table_is_complete() -> None:
    cells = [(state, event) for state, event, _ in golden()]
    assert sorted(cells) == sorted((state, event) for state in Power for event in Event)


@pytest.mark.parametrize(("state", "event", "outcome"), golden())
def test_every_transition(state: Power, event: Event, outcome: str) -> None:
    if outcome == "x":
        with pytest.raises(Refused) as caught:
            step(state, event, TIMINGS)
        assert caught.value.state is state
    elif outcome == ".":
        assert step(state, event, TIMINGS) == (state, [])
    else:
        assert step(state, event, TIMINGS) == (Power(outcome), ENTERED[Power(outcome)])


def test_no_row_of_the_table_is_missing_from_the_golden_one() -> None:
    shown = {(state, event) for state, event, outcome in golden() if outcome != "x" and event is not Event.TIMER}
    rows = {(state, event) for state, row in TRANSITIONS.items() for event in row if event is not Event.TIMER}
    assert rows == shown


@pytest.mark.parametrize(
    ("state", "shown", "progress"),
    [
        (Power.OFF, "Off", "None"),
        (Power.POWERING_ON, "PoweringOn", "PrimaryProcessorInitializationStarted"),
        (Power.BOOTING, "On", "SystemHardwareInitializationComplete"),
        (Power.RUNNING, "On", "OSRunning"),
        (Power.POWERING_OFF, "PoweringOff", "OSRunning"),
        (Power.RESTARTING, "On", "OSRunning"),
        (Power.CYCLING, "Off", "None"),
    ],
)
def test_what_a_client_sees_of_each_state(state: Power, shown: str, progress: str) -> None:
    assert (state.shown, state.boot_progress) == (shown, progress)


def test_a_boot_never_takes_less_than_no_time() -> None:
    assert step(Power.POWERING_ON, Event.TIMER, Timings(power_on=20, reboot=5, power_on_os_ready=1))[1] == [
        PoweredOn(),
        SetTimer(TIMER, 1),
    ]


# over time


def system(client: Client) -> tuple[str, str]:
    """PowerState and boot progress, as a client reads them."""
    shown = client.get("/redfish/v1/Systems/Bluefield")
    return shown["PowerState"], shown["BootProgress"]["LastState"]


def command(client: Client, event: Event) -> None:
    """A command to the system of a client's BMC, executed by its driver."""
    client.driver.execute(client.bmc, client.bmc.reset_system(event, client.clock.now()))


def test_a_cycle_shows_off_and_then_on(dpu: Client) -> None:
    timings = dpu.bmc.shared.timings
    seen = [system(dpu)]
    command(dpu, Event.POWER_CYCLE)
    seen.append(system(dpu))
    for seconds in (timings.power_off_force, timings.power_on, timings.reboot):
        dpu.advance(seconds)
        seen.append(system(dpu))
    assert seen == [
        ("On", "OSRunning"),
        ("Off", "None"),
        ("PoweringOn", "PrimaryProcessorInitializationStarted"),
        ("On", "SystemHardwareInitializationComplete"),
        ("On", "OSRunning"),
    ]


@pytest.mark.parametrize("event", [Event.GRACEFUL_RESTART, Event.FORCE_RESTART])
def test_a_restart_stays_on_all_the_time_and_ends_where_it_began(dpu: Client, event: Event) -> None:
    command(dpu, event)
    seen = set()
    for _ in range(400):
        seen.add(system(dpu))
        dpu.advance(1)
    assert seen == {("On", "OSRunning"), ("On", "SystemHardwareInitializationComplete")}
    assert dpu.bmc.power is Power.RUNNING


def test_a_transition_is_visible_until_the_very_end_of_its_time(dpu: Client) -> None:
    dpu.bmc.power = Power.OFF
    command(dpu, Event.ON)
    dpu.advance(dpu.bmc.shared.timings.power_on - 0.001)
    assert system(dpu)[0] == "PoweringOn"
    dpu.advance(0.001)
    assert system(dpu)[0] == "On"


def test_a_command_replaces_the_timer_of_the_transition_that_it_ends(dpu: Client) -> None:
    command(dpu, Event.FORCE_RESTART)
    dpu.advance(100)
    command(dpu, Event.FORCE_OFF)
    assert len(dpu.driver) == 0
    command(dpu, Event.ON)
    dpu.advance(1.9)
    assert dpu.bmc.power is Power.POWERING_ON
    assert len(dpu.driver) == 1


class PowerOverTime(RuleBasedStateMachine):
    """Whatever commands come, and whenever: only documented states, and no transition without an end."""

    @initialize()
    def start(self) -> None:
        self.client = make_client("bluefield3")

    @rule(event=st.sampled_from([event for event in Event if event is not Event.TIMER]))
    def command(self, event: Event) -> None:
        before = self.client.bmc.power
        try:
            command(self.client, event)
        except Refused:
            assert self.client.bmc.power is before
            assert ("x", before, event) in {(outcome, *cell) for *cell, outcome in golden()}

    @rule(seconds=st.sampled_from([0.0, 0.5, 2.0, 5.0, 90.0, 178.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.client.advance(seconds)

    @rule()
    def settle(self) -> None:
        self.client.advance(1000)
        assert self.client.bmc.power in (Power.OFF, Power.RUNNING)

    @invariant()
    def the_state_is_documented_and_its_transition_has_an_end(self) -> None:
        power = self.client.bmc.power
        assert power in TRANSITIONS
        assert power.shown in ("On", "Off", "PoweringOn", "PoweringOff")
        assert len(self.client.driver) == (0 if power in (Power.OFF, Power.RUNNING) else 1)


PowerOverTime.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=25)
TestPowerOverTime = PowerOverTime.TestCase
