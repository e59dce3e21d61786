"""Executes what state machines ask for: the only place where state meets time."""

from collections.abc import Callable, Sequence

from bmcsim.core.clock import Clock
from bmcsim.core.timers import TimerHeap
from bmcsim.machine.actions import Action, DropSessions, Emit, EndStreams, OfDependent
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import Event

Wake = Callable[[float], None]
"""Ask for `run_due` to be called in so many seconds; the latest wish counts."""

_MOST_SKIPS = 1000


class Driver:
    """One heap for all timers of all BMCs; it follows from the timers in their states.

    wake: who calls `run_due`; tests leave it out and call it themselves. immediate: hardware takes no time at all.
    changed: told of each BMC that a timer changed. emit: told each event that a BMC has for those who listen.
    """

    def __init__(
        self,
        clock: Clock,
        wake: Wake | None = None,
        *,
        immediate: bool = False,
        changed: Callable[[Bmc], None] | None = None,
        emit: Callable[[Bmc, Event], None] | None = None,
    ) -> None:
        self._clock, self._wake, self._immediate = clock, wake, immediate
        self.changed, self.emit = changed, emit
        self._heap = TimerHeap()
        self._wished: float | None = None

    def execute(self, bmc: Bmc, actions: Sequence[Action]) -> None:
        """Execute the actions of one BMC in order, and take over its timers and those of its dependents."""
        self._take(bmc, actions)
        if self._immediate:
            self._hurry()
        self._arm()

    def _take(self, bmc: Bmc, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case DropSessions():
                    bmc.drop_sessions(action)
                case Emit(event):
                    if self.emit is not None:
                        self.emit(bmc, event)
                case EndStreams():
                    bmc.end_streams(action)
                case OfDependent(number, theirs):
                    self._take(bmc.dependents[number], theirs)
        for one in bmc.reach():
            self._follow(one)

    def sync(self, bmc: Bmc) -> None:
        """Make the heap agree with the timers in the state of a BMC: after its state was restored."""
        self._follow(bmc)
        self._arm()

    def _follow(self, bmc: Bmc) -> None:
        wanted, pending = bmc.state.timers, bmc.timers
        if not wanted and not pending:
            return
        if pending is None:
            pending = bmc.timers = {}
        for name in [name for name, timer in pending.items() if wanted.get(name) != timer.deadline]:
            self._heap.cancel(pending.pop(name))
        for name, deadline in wanted.items():
            if name not in pending:
                pending[name] = self._heap.push(deadline, (bmc, name))

    def run_due(self) -> int:
        """Fire every timer that is due; how many fired. A timer that a firing one armed waits for its own deadline."""
        fired = self._fire()
        if self._immediate:
            self._hurry()
        self._wished = None
        self._arm()
        return fired

    def _fire(self) -> int:
        fired = 0
        moment = self._clock.now()
        while (payload := self._heap.pop_due(moment.hardware)) is not None:
            bmc, timer = payload
            bmc.timers.pop(timer, None)
            fired += 1
            actions = bmc.timer_fired(timer, moment)
            for one in bmc.reach():
                if self.changed is not None:
                    self.changed(one)
                else:
                    one.committed()
            self._take(bmc, actions)
        return fired

    def skip(self, seconds: float) -> int:
        """Move the hardware's time line forward and fire what becomes due, in order; how many fired.

        ValueError when seconds is negative.
        """
        if seconds < 0:
            raise ValueError("time does not run backwards")
        end = self._clock.now().hardware + seconds
        fired = 0
        while (deadline := self._heap.next_deadline()) is not None and deadline <= end:
            self._clock.skip(max(0.0, deadline - self._clock.now().hardware))
            fired += self.run_due()
        self._clock.skip(max(0.0, end - self._clock.now().hardware))
        self._wished = None
        self._arm()
        return fired

    def __len__(self) -> int:
        return len(self._heap)

    def _hurry(self) -> None:
        self._wished = None
        for _ in range(_MOST_SKIPS):
            deadline = self._heap.next_deadline()
            if deadline is None:
                return
            self._clock.skip(max(0.0, deadline - self._clock.now().hardware))
            self._fire()

    def _arm(self) -> None:
        deadline = self._heap.next_deadline()
        if self._wake is None or deadline is None or (self._wished is not None and self._wished <= deadline):
            return
        moment = self._clock.now()
        if moment.scale == 0 and deadline > moment.hardware:
            return
        self._wished = deadline
        self._wake(moment.real_seconds(deadline - moment.hardware))
