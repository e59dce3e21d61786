"""Power and boot of a computer system."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bmcsim.machine.actions import Action, CancelTimer, Happened, Happening, SetTimer
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.power import (
    LEADS_TO,
    TIMER,
    TRANSITIONS,
    Event,
    Power,
    Refused,
    after_ac_loss,
    boot_progress,
    boot_seconds,
    felt_by_dpus,
    step,
)
from bmcsim.tree.profile import Timings
from tests.conftest import Client, make_client

TIMINGS = Timings(power_on=2, reboot=10, power_on_os_ready=3, power_off_graceful=4, power_off_force=5)

# One row per state, one column per event. x: refused; .: accepted, and nothing changes. After a slash: what happened,
# in order (i: switched on, o: switched off, r: reset, b: booted, n: NMI).
GOLDEN = """
            On         ForceOn    ForceOff GracefulShutdown GracefulRestart ForceRestart PowerCycle PushPowerButton Nmi (timer)
Off         PoweringOn PoweringOn x        x                x               x            Cycling    PoweringOn      x   .
PoweringOn  x          x          Off/o    Off/o            PoweringOn      PoweringOn   Cycling/o  Off/o           ./n Booting/ir
Booting     x          x          Off/o    Off/o            Booting/r       Booting/r    Cycling/o  Off/o           ./n Running/b
Running     x          x          Off/o    PoweringOff      Restarting      Booting/r    Cycling/o  PoweringOff     ./n .
PoweringOff x          x          Off/o    .                x               Booting/r    Cycling/o  x               ./n Off/o
Restarting  x          x          Off/o    x                .               Booting/r    Cycling/o  x               ./n Booting/r
Cycling     x          x          x        x                x               x            x          x               x   PoweringOn
"""  # noqa: E501

HAPPENINGS = {
    "i": Happening.SYSTEM_POWERED_ON,
    "o": Happening.SYSTEM_POWERED_OFF,
    "r": Happening.SYSTEM_RESET,
    "b": Happening.BOOT_COMPLETED,
    "n": Happening.NMI,
}

ENTERED: dict[Power, list[Action]] = {
    Power.OFF: [CancelTimer(TIMER)],
    Power.POWERING_ON: [SetTimer(TIMER, 2)],
    Power.BOOTING: [SetTimer(TIMER, 11)],
    Power.RUNNING: [],
    Power.POWERING_OFF: [SetTimer(TIMER, 4)],
    Power.RESTARTING: [SetTimer(TIMER, 4)],
    Power.CYCLING: [SetTimer(TIMER, 5)],
}

BOOT = ["MemoryInitializationStarted", "PCIResourceConfigStarted", "SystemHardwareInitializationComplete"]


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
    target, _, letters = outcome.partition("/")
    happened: list[Action] = [Happened(HAPPENINGS[letter]) for letter in letters]
    if target == "x":
        with pytest.raises(Refused) as caught:
            step(state, event, TIMINGS)
        assert caught.value.state is state
    elif target == ".":
        assert step(state, event, TIMINGS) == (state, happened)
    else:
        assert step(state, event, TIMINGS) == (Power(target), ENTERED[Power(target)] + happened)


def test_no_row_of_the_table_is_missing_from_the_golden_one() -> None:
    shown = {(state, event) for state, event, outcome in golden() if outcome != "x" and event is not Event.TIMER}
    rows = {(state, event) for state, row in TRANSITIONS.items() for event in row if event is not Event.TIMER}
    assert rows == shown


@pytest.mark.parametrize(
    ("state", "shown", "progress"),
    [
        (Power.OFF, "Off", "None"),
        (Power.POWERING_ON, "PoweringOn", "PrimaryProcessorInitializationStarted"),
        (Power.BOOTING, "On", "MemoryInitializationStarted"),
        (Power.RUNNING, "On", "OSRunning"),
        (Power.POWERING_OFF, "PoweringOff", "OSRunning"),
        (Power.RESTARTING, "On", "OSRunning"),
        (Power.CYCLING, "Off", "None"),
    ],
)
def test_what_a_client_sees_of_each_state_when_it_begins(state: Power, shown: str, progress: str) -> None:
    seconds = {action.seconds for action in ENTERED[state] if isinstance(action, SetTimer)} or {0.0}
    assert (state.shown, boot_progress(state, seconds.pop(), TIMINGS)) == (shown, progress)


@pytest.mark.parametrize("state", [state for state in Power if state is not Power.BOOTING])
def test_progress_is_made_by_a_boot_only(state: Power) -> None:
    assert len({boot_progress(state, remaining, TIMINGS) for remaining in (0.0, 1.0, 5.0, 11.0, 100.0)}) == 1


@pytest.mark.parametrize(
    ("part", "progress"),
    [
        (0.0, "MemoryInitializationStarted"),
        (0.29, "MemoryInitializationStarted"),
        (0.31, "PCIResourceConfigStarted"),
        (0.59, "PCIResourceConfigStarted"),
        (0.61, "SystemHardwareInitializationComplete"),
        (0.999, "SystemHardwareInitializationComplete"),
        (1.0, "OSBootStarted"),
    ],
)
def test_the_firmware_s_part_of_a_boot_has_stages(part: float, progress: str) -> None:
    firmware, system = boot_seconds(TIMINGS)
    assert (firmware, system) == (8, 3)
    assert boot_progress(Power.BOOTING, system + firmware * (1 - part), TIMINGS) == progress


@pytest.mark.parametrize("remaining", [3.0, 1.0, 0.0])
def test_the_operating_system_s_part_of_a_boot_is_one_stage(remaining: float) -> None:
    assert boot_progress(Power.BOOTING, remaining, TIMINGS) == "OSBootStarted"


def test_a_boot_without_firmware_is_the_operating_system_s_from_the_beginning() -> None:
    assert boot_progress(Power.BOOTING, 3, Timings(power_on=20, reboot=5, power_on_os_ready=3)) == "OSBootStarted"


@settings(deadline=None)
@given(*[st.floats(0, 1000)] * 3, st.lists(st.floats(0, 1), min_size=2))
def test_a_boot_never_goes_back_to_an_earlier_stage(
    power_on: float, reboot: float, ready: float, parts: list[float]
) -> None:
    timings = Timings(power_on=power_on, reboot=reboot, power_on_os_ready=ready)
    whole = sum(boot_seconds(timings))
    stages = [*BOOT, "OSBootStarted"]
    seen = [stages.index(boot_progress(Power.BOOTING, whole * (1 - part), timings)) for part in sorted(parts)]
    assert seen == sorted(seen)


def test_a_boot_never_takes_less_than_no_time() -> None:
    timings = Timings(power_on=20, reboot=5, power_on_os_ready=1)
    assert boot_seconds(timings) == (0, 1)
    assert SetTimer(TIMER, 1) in step(Power.POWERING_ON, Event.TIMER, timings)[1]


# over time


def system(client: Client) -> tuple[str, str]:
    """PowerState and boot progress, as a client reads them."""
    shown = client.get("/redfish/v1/Systems/Bluefield")
    return shown["PowerState"], shown["BootProgress"]["LastState"]


def client_with(timings: Timings, **options: Any) -> Client:
    """A BlueField-3 that takes other times."""
    client = make_client("bluefield3", **options)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, timings=timings)
    return client


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
        ("On", "MemoryInitializationStarted"),
        ("On", "OSRunning"),
    ]


def test_a_boot_shows_every_stage_once_and_in_order() -> None:
    client = client_with(TIMINGS)
    client.bmc.become(client.clock.now(), power=Power.OFF)
    command(client, Event.ON)
    seen = [system(client)]
    for _ in range(140):
        client.advance(0.1)
        if system(client) != seen[-1]:
            seen.append(system(client))
    assert seen == [
        ("PoweringOn", "PrimaryProcessorInitializationStarted"),
        *(("On", stage) for stage in BOOT),
        ("On", "OSBootStarted"),
        ("On", "OSRunning"),
    ]


def test_the_stages_of_a_boot_follow_the_time_scale() -> None:
    client = client_with(TIMINGS, time_scale=10)
    command(client, Event.FORCE_RESTART)
    client.advance(0.05)
    seen = []
    for _ in range(12):
        seen.append(system(client)[1])
        client.advance(0.1)
    assert seen == [BOOT[0]] * 2 + [BOOT[1]] * 3 + [BOOT[2]] * 3 + ["OSBootStarted"] * 3 + ["OSRunning"]


@pytest.mark.parametrize("event", [Event.GRACEFUL_RESTART, Event.FORCE_RESTART])
def test_a_restart_stays_on_all_the_time_and_ends_where_it_began(dpu: Client, event: Event) -> None:
    command(dpu, event)
    seen = set()
    for _ in range(400):
        seen.add(system(dpu))
        dpu.advance(1)
    assert seen == {("On", "OSRunning"), *(("On", stage) for stage in BOOT)}
    assert dpu.bmc.power is Power.RUNNING


def test_a_transition_is_visible_until_the_very_end_of_its_time(dpu: Client) -> None:
    dpu.bmc.become(dpu.clock.now(), power=Power.OFF)
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


# a host and its DPUs

# What the DPUs feel, for every command that the host does not refuse. -: nothing.
FELT = """
            On ForceOn ForceOff GracefulShutdown GracefulRestart ForceRestart PowerCycle PushPowerButton Nmi (timer)
Off         On ForceOn -        -                -               -            PowerCycle On               -   -
PoweringOn  -  -       ForceOff GracefulShutdown GracefulRestart -            PowerCycle GracefulShutdown -   -
Booting     -  -       ForceOff GracefulShutdown GracefulRestart -            PowerCycle GracefulShutdown -   -
Running     -  -       ForceOff GracefulShutdown -               -            PowerCycle GracefulShutdown -   -
PoweringOff -  -       ForceOff -                -               -            PowerCycle -                -   -
Restarting  -  -       ForceOff -                -               -            PowerCycle -                -   -
Cycling     -  -       -        -                -               -            -          -                -   -
"""


def felt() -> list[tuple[Power, Event, Event | None]]:
    """(state of the host, command to it, what its DPUs feel) of every cell of the table."""
    header, *rows = FELT.strip().splitlines()
    events = [Event(name) for name in header.split()]
    return [
        (Power(row.split()[0]), event, None if cell == "-" else Event(cell))
        for row in rows
        for event, cell in zip(events, row.split()[1:], strict=True)
    ]


def host_with_dpus(power: Power = Power.RUNNING) -> tuple[Client, list[Client]]:
    """A host in a power state, and its two running DPUs, which share its driver and its clock."""
    host = make_client("dell_poweredge_r750")
    dpus = [make_client("bluefield3", index=index) for index in (1, 2)]
    for dpu in dpus:
        dpu.clock, dpu.driver = host.clock, host.driver
    host.bmc.dpus = tuple(dpu.bmc for dpu in dpus)
    host.bmc.become(host.clock.now(), power=power)
    return host, dpus


@pytest.mark.parametrize(("host", "event", "expected"), felt())
def test_what_dpus_feel_of_every_command_to_their_host(host: Power, event: Event, expected: Event | None) -> None:
    assert felt_by_dpus(event, host) is expected


@pytest.mark.parametrize(("state", "event", "expected"), felt())
@pytest.mark.parametrize("own", [Power.RUNNING, Power.OFF, Power.BOOTING])
def test_a_command_to_a_host_reaches_its_dpus(state: Power, event: Event, expected: Event | None, own: Power) -> None:
    host, dpus = host_with_dpus(state)
    for dpu in dpus:
        dpu.bmc.become(dpu.clock.now(), power=own)
        dpu.bmc.committed()
    try:
        command(host, event)
        after = own if expected is None else step(own, expected, dpus[0].bmc.shared.timings)[0]
    except Refused:
        after = own
    assert [dpu.bmc.power for dpu in dpus] == [after, after]
    assert all((dpu.bmc.uncommitted is None) == (dpu.bmc.state.power is own) for dpu in dpus if own is not after)


def test_a_power_cycle_takes_a_host_and_its_dpus_through_a_boot_of_their_own_times() -> None:
    host, dpus = host_with_dpus()
    command(host, Event.POWER_CYCLE)
    assert [client.bmc.power for client in (host, *dpus)] == [Power.CYCLING] * 3
    assert len(host.driver) == 3
    host.advance(5)
    assert [client.bmc.power for client in (host, *dpus)] == [Power.POWERING_ON] * 3
    host.advance(180)
    assert [client.bmc.power for client in (host, *dpus)] == [Power.BOOTING, Power.RUNNING, Power.RUNNING]
    host.advance(210)
    assert host.bmc.power is Power.RUNNING
    assert len(host.driver) == 0


def test_a_refused_command_does_not_reach_the_dpus() -> None:
    host, dpus = host_with_dpus(Power.OFF)
    with pytest.raises(Refused):
        command(host, Event.FORCE_OFF)
    assert [dpu.bmc.power for dpu in dpus] == [Power.RUNNING, Power.RUNNING]


def test_a_command_to_a_dpu_stays_with_it() -> None:
    host, dpus = host_with_dpus()
    command(dpus[0], Event.FORCE_OFF)
    assert [client.bmc.power for client in (host, *dpus)] == [Power.RUNNING, Power.OFF, Power.RUNNING]


def test_a_dpu_that_refuses_what_its_host_does_is_left_as_it_is() -> None:
    host, dpus = host_with_dpus()
    command(dpus[0], Event.FORCE_OFF)
    command(host, Event.FORCE_OFF)
    assert [client.bmc.power for client in (host, *dpus)] == [Power.OFF] * 3
    command(dpus[0], Event.ON)
    command(host, Event.ON)
    assert [client.bmc.power for client in (host, *dpus)] == [Power.POWERING_ON] * 3
    assert len(host.driver) == 3


# mains power

# What mains power that goes and comes back does to a system, by its PowerRestorePolicy. -: nothing.
RESTORED = """
            (none)     LastState  AlwaysOn   AlwaysOff
Off         -          -          PowerCycle -
PoweringOn  PowerCycle PowerCycle PowerCycle ForceOff
Booting     PowerCycle PowerCycle PowerCycle ForceOff
Running     PowerCycle PowerCycle PowerCycle ForceOff
PoweringOff PowerCycle PowerCycle PowerCycle ForceOff
Restarting  PowerCycle PowerCycle PowerCycle ForceOff
Cycling     -          -          -          -
"""


def restored() -> list[tuple[Power, str | None, Event | None]]:
    """(state, policy, event) of every cell of the table."""
    header, *rows = RESTORED.strip().splitlines()
    policies = [None if name == "(none)" else name for name in header.split()]
    return [
        (Power(row.split()[0]), policy, None if cell == "-" else Event(cell))
        for row in rows
        for policy, cell in zip(policies, row.split()[1:], strict=True)
    ]


@pytest.mark.parametrize(("state", "policy", "event"), restored())
def test_a_system_after_a_loss_of_mains_power(state: Power, policy: str | None, event: Event | None) -> None:
    assert after_ac_loss(state, policy) is event
    if event is not None:
        assert event in TRANSITIONS[state]


@pytest.mark.parametrize(
    ("own", "expected"), [(Power.RUNNING, Power.CYCLING), (Power.OFF, Power.OFF), (Power.BOOTING, Power.CYCLING)]
)
def test_a_loss_of_mains_power_takes_host_and_dpus_and_resets_their_bmcs(own: Power, expected: Power) -> None:
    host, dpus = host_with_dpus(own)
    account = dpus[0].bmc.accounts.get("root")
    assert account is not None
    dpus[0].bmc.open_session(account, host.clock.now())
    for dpu in dpus:
        dpu.bmc.become(host.clock.now(), power=own)
    host.driver.execute(host.bmc, host.bmc.ac_cycle(host.clock.now()))
    for client in (host, *dpus):
        assert client.bmc.power is expected
        assert client.bmc.state.service is Service.RESETTING
        assert client.bmc.live_sessions(host.clock.now()) == {}
    host.advance(1000)
    for client in (host, *dpus):
        assert client.bmc.power is (Power.OFF if own is Power.OFF else Power.RUNNING)
        assert client.bmc.state.service is Service.UP


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


def test_what_a_command_leads_to_is_said_only_where_it_has_no_row() -> None:
    for state, commands in LEADS_TO.items():
        assert not commands.keys() & TRANSITIONS[state].keys()
        for command, instead in commands.items():
            assert instead is None or instead in TRANSITIONS[state]
            ends_off = command in (Event.FORCE_OFF, Event.GRACEFUL_SHUTDOWN)
            assert ends_off == (state is Power.OFF and instead is None)
