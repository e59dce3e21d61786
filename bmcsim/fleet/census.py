"""How many BMCs of a fleet are in which state, counted a few at a time."""

from collections import Counter
from collections.abc import Iterable, Iterator

from bmcsim.fleet.selection import CHUNK
from bmcsim.machine.bmc import Bmc


class Census:
    """states: (kind, PowerState, state of the BMC itself) -> BMCs. faulty: BMCs with fault rules. subscriptions: of all
    BMCs."""

    def __init__(self) -> None:
        self.states: Counter[tuple[str, str, str]] = Counter()
        self.faulty = self.subscriptions = 0

    def add(self, bmcs: Iterable[Bmc]) -> None:
        """Count some BMCs."""
        for bmc in bmcs:
            state = bmc.state
            self.states[bmc.identity.kind.value, bmc.power.shown, state.service.value] += 1
            self.faulty += bool(state.faults.rules)
            self.subscriptions += len(state.subscriptions)

    def steps(self, bmcs: Iterable[Bmc]) -> Iterator[None]:
        """Count BMCs; others may have turns between the steps."""
        every = list(bmcs)
        for start in range(0, len(every), CHUNK):
            self.add(every[start : start + CHUNK])
            yield
