"""What went wrong at the BMCs of a fleet lately: a few incidents of each BMC that had any, and a bound for all."""

from collections import deque
from collections.abc import Sequence

from bmcsim.machine.bmc import Bmc
from bmcsim.machine.history import LONGEST_PATH, NOBODY, Incident, outcome_of
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.presented import presented

PER_BMC, MOST = 20, 50_000


class History:
    """Id of a BMC -> its latest incidents. per_bmc: of one; most: of all, then the BMC whose last one is longest ago
    loses its oldest. fresh: ids of the BMCs with errors since somebody emptied it; None while nobody wants to know.
    """

    def __init__(self, per_bmc: int = PER_BMC, most: int = MOST) -> None:
        self._per_bmc, self._most = per_bmc, most
        # In the order of the last incident.
        self._of: dict[str, deque[Incident]] = {}
        self._errors: dict[str, int] = {}
        self._size = 0
        self.fresh: set[str] | None = None

    def __len__(self) -> int:
        return self._size

    def note(self, bmc: Bmc, incident: Incident) -> None:
        """Take note of an incident."""
        ring = self._of.pop(bmc.id, None)
        if ring is None:
            ring = deque(maxlen=self._per_bmc)
        self._size -= len(ring)
        ring.append(incident)
        self._size += len(ring)
        self._of[bmc.id] = ring
        if incident.outcome != "ok":
            self._errors[bmc.id] = self._errors.get(bmc.id, 0) + 1
            if self.fresh is not None:
                self.fresh.add(bmc.id)
        while self._size > self._most:
            id_, oldest = next(iter(self._of.items()))
            oldest.popleft()
            self._size -= 1
            if not oldest:
                del self._of[id_]

    def of(self, bmc: Bmc) -> Sequence[Incident]:
        """The incidents of a BMC, oldest first."""
        return self._of.get(bmc.id, ())

    def errors(self, bmc: Bmc) -> int:
        """How many requests went wrong since the start: 4xx, 5xx, and those without a whole answer."""
        return self._errors.get(bmc.id, 0)

    def forget(self, bmc: Bmc) -> None:
        """A BMC is not there any more."""
        self._size -= len(self._of.pop(bmc.id, ()))
        self._errors.pop(bmc.id, None)


def is_incident(response: Response) -> bool:
    """Whether a request did not simply go well, or a fault or a reset had a part in its answer."""
    status = response.status
    return response.delivery is not None or bool(response.faults) or not (status < 300 or status == 304)


def incident(bmc: Bmc, request: Request, response: Response, client: str) -> Incident:
    """What is remembered of a request. To be asked before its change is committed. client: its address."""
    delivery, keep, after_head, delay = response.delivery, None, False, 0.0
    if delivery is not None:
        keep, after_head, delay = delivery.keep, delivery.after_head, delivery.delay
    outcome = outcome_of(response.status, keep, after_head=after_head)
    # A change may be one of the very password that it came with.
    before = bmc.uncommitted if request.method not in ("GET", "HEAD") else None
    return Incident(
        request.moment.wall,
        request.method[:LONGEST_PATH],
        request.path[:LONGEST_PATH],
        0 if outcome == "dropped" else response.status,
        outcome,
        presented(bmc, request, (before or bmc.state).accounts),
        client,
        response.faults,
        delay,
    )


def refusal(wall: float, client: str) -> Incident:
    """A connection that was reset before any request. wall: seconds since the epoch."""
    return Incident(wall, "", "", 0, "refused", NOBODY, client)
