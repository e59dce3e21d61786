"""Power and boot of a computer system.

Rule 1: everything that decides a transition is in TRANSITIONS; the code only looks it up.
Rule 2: a command that has no row in the current state is refused; a timer without a row is ignored.
Rule 3: a cycle shows Off for the power-cycle time and accepts no command until it ends.
Rule 4: before an operating system runs, a graceful command acts at once, since nobody is there to shut down.
Rule 5: a restart keeps PowerState On (the system is reset, not switched off); PowerCycle is the one that shows Off.
Rule 6: after a loss of mains power the system is what PowerRestorePolicy says: as before, on, or off.
"""

from enum import StrEnum

from bmcsim.machine.actions import Action, CancelTimer, Happened, Happening, SetTimer
from bmcsim.tree.profile import Timings

TIMER = "power"


class Power(StrEnum):
    """The states."""

    OFF = "Off"
    POWERING_ON = "PoweringOn"
    BOOTING = "Booting"
    RUNNING = "Running"
    POWERING_OFF = "PoweringOff"
    RESTARTING = "Restarting"
    CYCLING = "Cycling"

    @property
    def shown(self) -> str:
        """ComputerSystem.PowerState: On, Off, PoweringOn or PoweringOff."""
        return _SHOWN[self]

    @property
    def dead(self) -> bool:
        """Whether nothing of the system has power."""
        return self is Power.OFF or self is Power.CYCLING


_SHOWN = {
    Power.OFF: "Off",
    Power.POWERING_ON: "PoweringOn",
    Power.BOOTING: "On",
    Power.RUNNING: "On",
    Power.POWERING_OFF: "PoweringOff",
    Power.RESTARTING: "On",
    Power.CYCLING: "Off",
}
_PROGRESS = {
    Power.POWERING_ON: "PrimaryProcessorInitializationStarted",
    Power.RUNNING: "OSRunning",
    Power.POWERING_OFF: "OSRunning",
    Power.RESTARTING: "OSRunning",
}
_POST = (
    (0.3, "MemoryInitializationStarted"),
    (0.6, "PCIResourceConfigStarted"),
    (1.0, "SystemHardwareInitializationComplete"),
)


def boot_seconds(timings: Timings) -> tuple[float, float]:
    """How long firmware runs after power is on, and how long the operating system starts after that."""
    return max(0.0, timings.reboot - timings.power_on), timings.power_on_os_ready


def boot_progress(state: Power, remaining: float, timings: Timings) -> str:
    """ComputerSystem.BootProgress.LastState. remaining: seconds until the boot is complete."""
    if state is not Power.BOOTING:
        return _PROGRESS.get(state, "None")
    firmware, system = boot_seconds(timings)
    if remaining <= system or firmware <= 0:
        return "OSBootStarted"
    part = 1.0 - (remaining - system) / firmware
    return next(name for until, name in _POST if part < until or until == 1.0)


class Event(StrEnum):
    """What can happen: a ResetType of ComputerSystem.Reset, or the timer of a transition."""

    ON = "On"
    FORCE_ON = "ForceOn"
    FORCE_OFF = "ForceOff"
    GRACEFUL_SHUTDOWN = "GracefulShutdown"
    GRACEFUL_RESTART = "GracefulRestart"
    FORCE_RESTART = "ForceRestart"
    POWER_CYCLE = "PowerCycle"
    PUSH_POWER_BUTTON = "PushPowerButton"
    NMI = "Nmi"
    TIMER = "(timer)"


STARTING = frozenset({Event.ON, Event.FORCE_ON, Event.PUSH_POWER_BUTTON, Event.POWER_CYCLE})
"""Commands that switch on what is off."""

ASKING = frozenset({Event.GRACEFUL_SHUTDOWN, Event.GRACEFUL_RESTART, Event.PUSH_POWER_BUTTON})
"""Commands that the operating system carries out, where one runs."""


LEADS_TO: dict[Power, dict[Event, Event | None]] = {
    Power.OFF: {
        Event.FORCE_OFF: None,
        Event.GRACEFUL_SHUTDOWN: None,
        Event.GRACEFUL_RESTART: Event.ON,
        Event.FORCE_RESTART: Event.ON,
    },
    **{
        state: {Event.ON: None, Event.FORCE_ON: None}
        for state in (Power.POWERING_ON, Power.BOOTING, Power.RUNNING, Power.RESTARTING)
    },
}
"""state -> a command that has no row there -> the one that goes where it leads (DSP0268, ResetType), None where the
system is there already."""


class Refused(Exception):
    """The command does not fit the power state. Carries the state's PowerState."""

    def __init__(self, state: Power) -> None:
        super().__init__(state.shown)
        self.state = state


_STAY = None
_OFF = (Power.OFF, "stop")
_CYCLE = (Power.CYCLING, "power_off_force")
_ON = (Power.POWERING_ON, "power_on")
_BOOT = (Power.BOOTING, "boot")
_SHUTDOWN = (Power.POWERING_OFF, "power_off_graceful")
_GRACEFUL = (Power.RESTARTING, "power_off_graceful")

TRANSITIONS: dict[Power, dict[Event, tuple[Power, str] | None]] = {
    Power.OFF: {
        Event.ON: _ON,
        Event.FORCE_ON: _ON,
        Event.PUSH_POWER_BUTTON: _ON,
        Event.POWER_CYCLE: _CYCLE,
    },
    Power.POWERING_ON: {
        Event.TIMER: _BOOT,
        Event.FORCE_OFF: _OFF,
        Event.GRACEFUL_SHUTDOWN: _OFF,
        Event.PUSH_POWER_BUTTON: _OFF,
        Event.GRACEFUL_RESTART: _ON,
        Event.FORCE_RESTART: _ON,
        Event.POWER_CYCLE: _CYCLE,
        Event.NMI: _STAY,
    },
    Power.BOOTING: {
        Event.TIMER: (Power.RUNNING, "booted"),
        Event.FORCE_OFF: _OFF,
        Event.GRACEFUL_SHUTDOWN: _OFF,
        Event.PUSH_POWER_BUTTON: _OFF,
        Event.GRACEFUL_RESTART: _BOOT,
        Event.FORCE_RESTART: _BOOT,
        Event.POWER_CYCLE: _CYCLE,
        Event.NMI: _STAY,
    },
    Power.RUNNING: {
        Event.FORCE_OFF: _OFF,
        Event.GRACEFUL_SHUTDOWN: _SHUTDOWN,
        Event.PUSH_POWER_BUTTON: _SHUTDOWN,
        Event.GRACEFUL_RESTART: _GRACEFUL,
        Event.FORCE_RESTART: _BOOT,
        Event.POWER_CYCLE: _CYCLE,
        Event.NMI: _STAY,
    },
    Power.POWERING_OFF: {
        Event.TIMER: _OFF,
        Event.FORCE_OFF: _OFF,
        Event.GRACEFUL_SHUTDOWN: _STAY,
        Event.FORCE_RESTART: _BOOT,
        Event.POWER_CYCLE: _CYCLE,
        Event.NMI: _STAY,
    },
    Power.RESTARTING: {
        Event.TIMER: _BOOT,
        Event.FORCE_OFF: _OFF,
        Event.GRACEFUL_RESTART: _STAY,
        Event.FORCE_RESTART: _BOOT,
        Event.POWER_CYCLE: _CYCLE,
        Event.NMI: _STAY,
    },
    Power.CYCLING: {Event.TIMER: _ON},
}
"""state -> event -> (next state, what starts) or None for 'accepted, nothing changes'. No row: refused."""


def step(state: Power, event: Event, timings: Timings) -> tuple[Power, list[Action]]:
    """One transition. Raises Refused for a command that the state does not allow."""
    row = TRANSITIONS[state]
    if event not in row:
        if event is Event.TIMER:
            return state, []
        raise Refused(state)
    target = row[event]
    if target is None:
        return state, [Happened(Happening.NMI)] if event is Event.NMI else []
    next_state, what = target
    if what == "booted":
        return next_state, [Happened(Happening.BOOT_COMPLETED)]
    if what == "stop":
        return next_state, [CancelTimer(TIMER), Happened(Happening.SYSTEM_POWERED_OFF)]
    if what == "boot":
        actions: list[Action] = [SetTimer(TIMER, sum(boot_seconds(timings)))]
        if state is Power.POWERING_ON and event is Event.TIMER:
            actions.append(Happened(Happening.SYSTEM_POWERED_ON))
        return next_state, [*actions, Happened(Happening.SYSTEM_RESET)]
    actions = [SetTimer(TIMER, getattr(timings, what))]
    if next_state is Power.CYCLING and not state.dead:
        actions.append(Happened(Happening.SYSTEM_POWERED_OFF))
    return next_state, actions


def felt_by_dpus(event: Event, host: Power) -> Event | None:
    """What the DPUs in the slots of a host feel of a command to it, None for nothing.

    A ForceRestart resets the processors and leaves the slots alone; so does a restart that the running system does
    itself. What takes power from the slots, or gives it, reaches them.
    """
    if event in (Event.TIMER, Event.FORCE_RESTART) or TRANSITIONS[host].get(event) is None:
        return None
    if event is Event.GRACEFUL_RESTART and host is Power.RUNNING:
        return None
    if event is Event.PUSH_POWER_BUTTON:
        return Event.ON if host is Power.OFF else Event.GRACEFUL_SHUTDOWN
    return event


def after_ac_loss(state: Power, policy: str | None) -> Event | None:
    """What mains power that goes and comes back does to a system, None where it stays as it is.

    policy: ComputerSystem.PowerRestorePolicy (DSP0268), None where the system has none: it is as it was before.
    """
    if state is Power.CYCLING:
        return None
    was_on = state is not Power.OFF
    if comes_on(was_on, policy):
        return Event.POWER_CYCLE
    return Event.FORCE_OFF if was_on else None


def comes_on(was_on: bool, policy: str | None) -> bool:
    """Whether a system is on once mains power is back. policy: as for `after_ac_loss`."""
    return policy == "AlwaysOn" or (policy != "AlwaysOff" and was_on)
