"""Reset of the BMC itself.

Rule 1: a reset takes the BMC out of service for the profile's time; the power of its system is not touched.
Rule 2: sessions end when the reset begins.
Rule 3: a BMC that is resetting receives nothing, so no command has a row there.
"""

from enum import StrEnum

from bmcsim.machine.actions import Action, BmcRestarted, DropSessions, SetTimer
from bmcsim.tree.profile import Timings

TIMER = "bmc_reset"


class Service(StrEnum):
    """The states."""

    UP = "Up"
    RESETTING = "Resetting"


class Event(StrEnum):
    """What can happen."""

    RESET = "Reset"
    TIMER = "(timer)"


def step(state: Service, event: Event, timings: Timings) -> tuple[Service, list[Action]]:
    """One transition; an event without a row changes nothing."""
    if state is Service.UP and event is Event.RESET:
        return Service.RESETTING, [DropSessions(), SetTimer(TIMER, timings.bmc_reset)]
    if state is Service.RESETTING and event is Event.TIMER:
        return Service.UP, [BmcRestarted()]
    return state, []
