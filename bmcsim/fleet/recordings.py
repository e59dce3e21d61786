"""All requests to some BMCs, recorded while somebody asks for it: bounded, and without secrets."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from bmcsim.fleet.history import incident
from bmcsim.fleet.redaction import redacted_body, redacted_query
from bmcsim.fleet.selection import Selection
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.history import LONGEST_PATH, Incident
from bmcsim.redfish.exchange import Request, Response

MOST_RECORDINGS = 16
MOST_BYTES = 32 * 1024 * 1024
LONGEST_BODY = 16 * 1024
_BASE = 600
"""Bytes of an exchange beside its texts."""


class TooManyRecordings(Exception):
    """So many recordings run that no more is taken."""


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """A request and what became of it.

    number: counts up over all BMCs. query: raw, without secrets. seconds: that it took to handle. request_bytes,
    response_bytes: of the bodies. body: the JSON of a write, without secrets; b'' for none, or one that is not shown.
    """

    number: int
    about: Incident
    query: str
    seconds: float
    request_bytes: int
    response_bytes: int
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return _BASE + len(self.about.path) + len(self.query) + len(self.body)


class Recording(msgspec.Struct, frozen=True):
    """Which BMCs are recorded. limit: how many requests of each are kept. created: seconds since the epoch.
    bmcs: their ids."""

    id: str
    selection: Selection
    limit: int
    created: float
    bmcs: frozenset[str]


class Recordings:
    """The recordings, and what they have of each BMC. most_bytes: of all exchanges.

    switch: told whether anything is recorded, so that nobody has to ask where nothing is.
    """

    def __init__(self, switch: "Callable[[Recordings | None], object]", most_bytes: int = MOST_BYTES) -> None:
        self._switch, self._most_bytes = switch, most_bytes
        self._recordings: dict[str, Recording] = {}
        self._of: dict[str, deque[Exchange]] = {}
        # Whose is the oldest, then the next one; what is gone already is passed over.
        self._order: deque[tuple[str, int]] = deque()
        self._made = self._number = 0
        self.bytes = self.dropped = 0

    def start(self, selection: Selection, bmcs: Iterable[Bmc], limit: int, wall: float) -> Recording:
        """Record from now on. Raises TooManyRecordings."""
        if len(self._recordings) >= MOST_RECORDINGS:
            raise TooManyRecordings
        self._made += 1
        made = Recording(str(self._made), selection.brief, limit, wall, frozenset(bmc.id for bmc in bmcs))
        self._recordings[made.id] = made
        self._switch(self)
        return made

    def stop(self, id_: str) -> Recording:
        """End a recording; what it has of BMCs that no other one records is gone. Raises KeyError."""
        over = self._recordings.pop(id_)
        left = frozenset[str]().union(*[one.bmcs for one in self._recordings.values()])
        for bmc_id in over.bmcs - left:
            self.bytes -= sum([one.size for one in self._of.pop(bmc_id, ())])
        if not self._recordings:
            self._order.clear()
            self._switch(None)
        return over

    def all(self) -> list[Recording]:
        """The recordings, oldest first."""
        return list(self._recordings.values())

    def count(self, recording: Recording) -> int:
        """How many requests are kept of its BMCs."""
        if len(self._of) < len(recording.bmcs):
            return sum([len(ring) for id_, ring in self._of.items() if id_ in recording.bmcs])
        return sum([len(self._of.get(id_, ())) for id_ in recording.bmcs])

    def limit(self, bmc: Bmc) -> int:
        """How many requests of a BMC are kept, 0 where it is not recorded."""
        return max([one.limit for one in self._recordings.values() if bmc.id in one.bmcs], default=0)

    def of(self, bmc: Bmc) -> Sequence[Exchange]:
        """What is recorded of a BMC, oldest first."""
        return self._of.get(bmc.id, ())

    def note(self, bmc: Bmc, request: Request, response: Response, client: str, seconds: float) -> None:
        """Record a request, if its BMC is recorded. To be told before its change is committed."""
        limit = self.limit(bmc)
        if not limit:
            return
        self._number += 1
        upload = request.upload
        made = Exchange(
            self._number,
            incident(bmc, request, response, client),
            redacted_query(request.query)[:LONGEST_PATH],
            seconds,
            upload.size if upload is not None else len(request.body),
            len(response.body),
            redacted_body(request.body, LONGEST_BODY),
        )
        ring = self._of.setdefault(bmc.id, deque())
        ring.append(made)
        self._order.append((bmc.id, made.number))
        self.bytes += made.size
        while len(ring) > limit:
            self._lose(ring)
        while self.bytes > self._most_bytes and self._order:
            self._lose_oldest()
        if len(self._order) > 1000 + 2 * sum(map(len, self._of.values())):
            self._order = deque([one for one in self._order if self._has(*one)])

    def _lose_oldest(self) -> None:
        id_, number = self._order.popleft()
        if self._has(id_, number):
            self._lose(self._of[id_])

    def _has(self, id_: str, number: int) -> bool:
        ring = self._of.get(id_)
        return bool(ring) and ring[0].number <= number  # type: ignore[index]

    def _lose(self, ring: deque[Exchange]) -> None:
        self.bytes -= ring.popleft().size
        self.dropped += 1
