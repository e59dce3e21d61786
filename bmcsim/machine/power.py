"""Power and boot of a computer system.

Rule 1: everything that decides a transition is in TRANSITIONS; the code only looks it up.
Rule 2: a command that has no row in the current state is refused; a timer without a row is ignored.
Rule 3: a cycle shows Off for the power-cycle time and accepts no command until it ends.
Rule 4: before an operating system runs, a graceful command acts at once, since nobody is there to shut down.
Rule 5: a restart keeps PowerState On (the system is reset, not switched off); PowerCycle is the one that shows Off.
"""

from enum import StrEnum

from bmcsim.machine.actions import Action, BootCompleted, CancelTimer, PoweredOn, SetTimer
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
    def boot_progress(self) -> str:
        """ComputerSystem.BootProgress.LastState."""
        return _PROGRESS.get(self, "None")


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
    Power.BOOTING: "SystemHardwareInitializationComplete",
    Power.RUNNING: "OSRunning",
    Power.POWERING_OFF: "OSRunning",
    Power.RESTARTING: "OSRunning",
}


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
        Event.NMI: _STAY,
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
        return state, []
    next_state, what = target
    if what == "stop":
        return next_state, [CancelTimer(TIMER)]
    if what == "booted":
        return next_state, [BootCompleted()]
    if what == "boot":
        return next_state, [
            PoweredOn(),
            SetTimer(TIMER, max(0.0, timings.reboot - timings.power_on) + timings.power_on_os_ready),
        ]
    return next_state, [SetTimer(TIMER, getattr(timings, what))]
