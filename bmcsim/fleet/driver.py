"""Executes what state machines ask for: the only place where state meets time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from bmcsim.core.clock import Clock
from bmcsim.core.timers import TimerHeap
from bmcsim.machine.actions import Action, DropSessions, Emit, EndStreams, OfDependent, Readdress, RestartDhcp, StopDhcp
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.dhcp.messages import Port
from bmcsim.machine.events import Event

Wake = Callable[[float], None]
"""Ask for `run_due` to be called in so many seconds; the latest wish counts."""

TIMERS_AT_ONCE = 20
"""Timers that fire before others get a turn: less than a millisecond."""

_MOST_SKIPS = 1000


class Leasing(Protocol):
    """Whoever has the leases of a fleet: `fleet.leases.Leases`."""

    def restart(self, bmc: Bmc, port: Port) -> None:
        """An interface asks for an address, as one that never had any."""

    def stop(self, bmc: Bmc, port: Port, *, keep: bool = False, release: bool = False) -> None:
        """An interface asks for nothing. keep: its address stays. release: it gives its lease back."""

    def sync(self, bmc: Bmc) -> None:
        """A BMC has a state from before: its leases are those of now all the same."""


class Driver:
    """One heap for all timers of all BMCs; it follows from the timers in their states.

    wake: who calls `run_due`; tests leave it out and call it themselves. immediate: hardware takes no time at all.
    changed: told of each BMC that a timer changed. emit: told each event that a BMC has for those who listen.
    readdress: gives a BMC the address that it is to have. leases: whose interfaces ask for addresses; None where those
    are planned. fired: how many timers have fired. lag: real seconds by which the first one of the last wake-up was
    late.
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
        self.readdress: Callable[[Bmc], None] | None = None
        self.leases: Leasing | None = None
        self._heap = TimerHeap()
        self._wished: float | None = None
        self.fired = 0
        self.lag = 0.0

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
                case RestartDhcp(port):
                    if self.leases is not None:
                        self.leases.restart(bmc, port)
                case StopDhcp(port, keep):
                    if self.leases is not None:
                        self.leases.stop(bmc, port, keep=keep)
                case Readdress():
                    if self.readdress is not None:
                        self.readdress(bmc)
                case OfDependent(number, theirs):
                    self._take(bmc.dependents[number], theirs)
        for one in bmc.reach():
            self._follow(one)

    def forget(self, bmc: Bmc) -> None:
        """A BMC is not there any more: none of its timers fires."""
        for timer in (bmc.timers or {}).values():
            self._heap.cancel(timer)
        bmc.timers = None

    def sync(self, bmc: Bmc) -> None:
        """Make the heap agree with the timers in the state of a BMC: after its state was restored."""
        self._follow(bmc)
        if self.leases is not None:
            self.leases.sync(bmc)
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

    def run_due(self, most: int | None = None) -> int:
        """Fire every timer that is due; how many fired. A timer that a firing one armed waits for its own deadline.

        most: how many, so that others get a turn: the rest fires in the next wake-up.
        """
        fired = self._fire(most)
        if self._immediate:
            self._hurry()
        self._wished = None
        self._arm()
        return fired

    def _fire(self, most: int | None = None) -> int:
        fired = 0
        moment = self._clock.now()
        if (deadline := self._heap.next_deadline()) is not None and deadline <= moment.hardware:
            self.lag = moment.real_seconds(moment.hardware - deadline)
        while fired != most and (payload := self._heap.pop_due(moment.hardware)) is not None:
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
        self.fired += fired
        return fired

    def skip(self, seconds: float) -> int:
        """Move the hardware's time line forward and fire what becomes due, in order; how many fired.

        ValueError when seconds is negative.
        """
        return sum(self.skipping(seconds))

    def skipping(self, seconds: float, most: int | None = None) -> Iterator[int]:
        """As `skip`, in steps between which others may have a turn; yields how many fired in each.

        most: how many fire in one step.
        """
        if seconds < 0:
            raise ValueError("time does not run backwards")
        end = self._clock.now().hardware + seconds
        while (deadline := self._heap.next_deadline()) is not None and deadline <= end:
            self._clock.skip(max(0.0, deadline - self._clock.now().hardware))
            yield self.run_due(most)
        self._clock.skip(max(0.0, end - self._clock.now().hardware))
        self._rearm()

    def rescale(self, scale: float) -> None:
        """Let the hardware's time run at another speed from now on; 0: it stands. ValueError when it is negative."""
        self._clock.rescale(scale)
        self._rearm()

    def next_deadline(self) -> float | None:
        """When the next timer is due, on the hardware's time line; None without one."""
        return self._heap.next_deadline()

    def _rearm(self) -> None:
        """Ask anew for a wake-up, since the time line has moved."""
        self._wished = None
        self._arm()

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
