"""Reset of the BMC itself.

Rule 1: a reset takes the BMC out of service for the profile's time; the power of its system is not touched.
Rule 2: sessions end when the reset begins.
Rule 3: a BMC that is resetting receives nothing, so no command has a row there.
Rule 4: without mains power there is no BMC. When it comes back, the BMC starts as after a reset.
Rule 5: what a client sees meanwhile is a `Phase`, which follows from the mode and from how far the reset is.
"""

from enum import StrEnum

from bmcsim.machine.actions import Action, CancelTimer, DropSessions, Happened, Happening, SetTimer
from bmcsim.tree.profile import ResetMode, Timings

TIMER = "bmc_reset"


class Service(StrEnum):
    """The states."""

    UP = "Up"
    RESETTING = "Resetting"
    UNPOWERED = "Unpowered"


class Event(StrEnum):
    """What can happen."""

    RESET = "Reset"
    POWER_LOST = "PowerLost"
    POWER_BACK = "PowerBack"
    TIMER = "(timer)"


class Phase(StrEnum):
    """What a request meets."""

    OPEN = "Open"
    SLOW = "Slow"
    UNAVAILABLE = "Unavailable"
    HANGING = "Hanging"
    CLOSED = "Closed"


PHASES: dict[ResetMode, tuple[tuple[float, Phase], ...]] = {
    "close": ((1.0, Phase.CLOSED),),
    "503": ((1.0, Phase.UNAVAILABLE),),
    "hang": ((1.0, Phase.HANGING),),
    "staged": ((0.6, Phase.CLOSED), (0.9, Phase.UNAVAILABLE), (1.0, Phase.SLOW)),
}
"""mode -> (until which part of the reset, what a request meets)."""


TRANSITIONS: dict[Service, dict[Event, Service]] = {
    Service.UP: {Event.RESET: Service.RESETTING, Event.POWER_LOST: Service.UNPOWERED},
    Service.RESETTING: {Event.TIMER: Service.UP, Event.POWER_LOST: Service.UNPOWERED},
    Service.UNPOWERED: {Event.POWER_BACK: Service.RESETTING},
}
"""state -> event -> next state. No row: nothing changes."""


def step(state: Service, event: Event, timings: Timings) -> tuple[Service, list[Action]]:
    """One transition; an event without a row changes nothing."""
    target = TRANSITIONS[state].get(event)
    if target is None:
        return state, []
    match event:
        case Event.RESET:
            return target, [Happened(Happening.BMC_RESETTING), DropSessions(), SetTimer(TIMER, timings.bmc_reset)]
        case Event.POWER_LOST:
            return target, [Happened(Happening.BMC_RESETTING), DropSessions(), CancelTimer(TIMER)]
        case Event.POWER_BACK:
            return target, [SetTimer(TIMER, timings.bmc_reset)]
        case Event.TIMER:
            return target, [Happened(Happening.BMC_RESTARTED)]


def phase(mode: ResetMode, part: float) -> Phase:
    """What a request meets. part: how much of the reset is over, 0 to 1."""
    return next((phase for until, phase in PHASES[mode] if part < until), PHASES[mode][-1][1])
