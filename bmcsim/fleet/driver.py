"""Executes what state machines ask for: the only place where state meets time."""

from collections.abc import Callable, Sequence

from bmcsim.core.clock import Clock
from bmcsim.core.timers import TimerHeap
from bmcsim.machine.actions import Action, CancelTimer, SetTimer
from bmcsim.machine.bmc import Bmc

Wake = Callable[[float], None]
"""Ask for `run_due` to be called in so many seconds; the latest wish counts."""


class Driver:
    """One heap for all timers of all BMCs.

    time_scale: how much faster than real time hardware is (60: a minute of hardware takes a second).
    wake: who calls `run_due`; tests leave it out and call it themselves.
    """

    def __init__(self, clock: Clock, time_scale: float = 1.0, wake: Wake | None = None) -> None:
        if time_scale <= 0:
            raise ValueError("time scale must be greater than 0")
        self._clock, self._scale, self._wake = clock, time_scale, wake
        self._heap = TimerHeap()
        self._wished: float | None = None

    def execute(self, bmc: Bmc, actions: Sequence[Action]) -> None:
        """Execute the actions of one BMC in order."""
        for action in actions:
            match action:
                case SetTimer(timer, seconds):
                    self._cancel(bmc, timer)
                    if bmc.timers is None:
                        bmc.timers = {}
                    deadline = self._clock.now().mono + seconds / self._scale
                    bmc.timers[timer] = self._heap.push(deadline, (bmc, timer))
                case CancelTimer(timer):
                    self._cancel(bmc, timer)
        self._arm()

    def run_due(self) -> int:
        """Fire every timer that is due; how many fired. A timer that a firing one armed waits for its own deadline."""
        self._wished = None
        fired = 0
        moment = self._clock.now()
        while (payload := self._heap.pop_due(moment.mono)) is not None:
            bmc, timer = payload
            bmc.timers.pop(timer, None)
            fired += 1
            self.execute(bmc, bmc.timer_fired(timer, moment))
        self._arm()
        return fired

    def __len__(self) -> int:
        return len(self._heap)

    def _cancel(self, bmc: Bmc, timer: str) -> None:
        if bmc.timers is not None and (pending := bmc.timers.pop(timer, None)) is not None:
            self._heap.cancel(pending)

    def _arm(self) -> None:
        deadline = self._heap.next_deadline()
        if self._wake is None or deadline is None or (self._wished is not None and self._wished <= deadline):
            return
        self._wished = deadline
        self._wake(max(0.0, deadline - self._clock.now().mono))
