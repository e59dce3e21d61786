"""Which BMCs answer a search, and when: everything about discovery but the socket."""

import logging
from collections.abc import Callable, Sequence
from ipaddress import ip_address

import orjson

from bmcsim.core.clock import Clock, Moment
from bmcsim.core.errors import RedfishError
from bmcsim.edges.ssdp.message import Search, Service, minor_of, parse_search, reply
from bmcsim.fleet.registry import Absent, Fleet
from bmcsim.machine import bmc_reset
from bmcsim.machine.bmc import Bmc

log = logging.getLogger(__name__)

Address = tuple[str, int]

Send = Callable[[bytes, Address, str, int], bool]
"""Send a datagram to an address, from an address as far as that is possible, with a TTL. False: no room, try later.

Raises OSError when the address cannot be reached.
"""

Later = Callable[[float, Callable[[], None]], object]
"""Call something in so many seconds: call_later of a loop."""

TICK = 0.01
BATCH = 100
"""BMCs that have their turn in one tick, for all searches together: some milliseconds of the loop."""

MOST_SEARCHES = 16
MOST_OF_ONE = 4
"""Searches that are being answered: of everybody, and of one address. More are dropped, as any datagram may be."""

_ROOT = "/redfish/v1"
_PART = 0.9
_DEFAULT_TTL = 2


class _Answering:
    """A search that is being answered. next: the BMC that is next."""

    __slots__ = ("began", "bmcs", "next", "search", "to")

    def __init__(self, search: Search, to: Address, bmcs: Sequence[Bmc], began: float) -> None:
        self.search, self.to, self.bmcs, self.began = search, to, bmcs, began
        self.next = 0

    def due(self, now: float) -> int:
        """How many BMCs should have had their turn; all before the searcher stops waiting, the first one at once."""
        part = (now - self.began) / (self.search.wait * _PART)
        return min(len(self.bmcs), 1 + int(len(self.bmcs) * part))


class Responder:
    """Answers for a fleet: with one wake-up for all searches, while there are any."""

    def __init__(self, fleet: Fleet, clock: Clock, scheme: str, port: int, send: Send, later: Later) -> None:
        """scheme, port: of the Redfish listener."""
        self._fleet, self._clock = fleet, clock
        self._scheme, self._port = scheme, port
        self._send, self._later = send, later
        self._answering: dict[tuple[Address, int], _Answering] = {}

    def received(self, data: bytes, source: Address, dialled: str) -> None:
        """A datagram came. dialled: the address that it was sent to, the group or one of this machine.

        A search of the group is for every BMC, one of an address for the BMC there. What is no search is ignored.
        """
        search = parse_search(data)
        if search is None or source[1] == 0:
            return
        if ip_address(dialled).is_multicast:
            self._take(search, source)
            return
        try:
            bmc = self._fleet.route(b"", search.host, dialled)
        except (RedfishError, Absent):
            return
        try:
            self._answer(bmc, search, source, self._clock.now())
        except OSError as error:
            log.debug("no answer to a search from %s: %s", source, error)

    def _take(self, search: Search, source: Address) -> None:
        key = source, search.minor
        of_one = sum(other[0] == source[0] for other, _ in self._answering)
        if not search.wait or key in self._answering or of_one >= MOST_OF_ONE or len(self._answering) >= MOST_SEARCHES:
            return
        idle = not self._answering
        self._answering[key] = _Answering(search, source, list(self._fleet), self._clock.now().mono)
        if idle:
            self._later(0.0, self.tick)

    def tick(self) -> None:
        """Send what is due."""
        moment = self._clock.now()
        share = max(1, BATCH // max(1, len(self._answering)))
        for key, one in list(self._answering.items()):
            try:
                self._go_on(one, share, moment)
            except OSError as error:
                log.debug("search from %s given up: %s", one.to, error)
                one.next = len(one.bmcs)
            if one.next >= len(one.bmcs):
                del self._answering[key]
        if self._answering:
            self._later(TICK, self.tick)

    def _go_on(self, one: _Answering, share: int, moment: Moment) -> None:
        end = min(one.due(moment.mono), one.next + share)
        while one.next < end and self._answer(one.bmcs[one.next], one.search, one.to, moment):
            one.next += 1

    def _answer(self, bmc: Bmc, search: Search, to: Address, moment: Moment) -> bool:
        """Let one BMC answer, or not. Whether it had its turn."""
        facts = bmc.network_service("SSDP")
        if facts.get("ProtocolEnabled") is not True or bmc.state.service is not bmc_reset.Service.UP or not bmc.address:
            return True
        service = self._service(bmc, moment)
        if service is None or service.minor < search.minor:
            return True
        shown = facts.get("NotifyTTL")
        ttl = shown if isinstance(shown, int) and 0 < shown < 256 else _DEFAULT_TTL
        return self._send(reply(service), to, bmc.address, ttl)

    def _service(self, bmc: Bmc, moment: Moment) -> Service | None:
        """What the BMC's own root says; None when it has no UUID, which SSDP cannot do without."""
        root = orjson.loads(bmc.body(bmc.tree.nodes[_ROOT]).render(bmc, moment)[1])
        host = f"[{bmc.address}]" if ":" in bmc.address else bmc.address
        location = f"{self._scheme}://{host}:{self._port}{_ROOT}/"
        if not (uuid := root.get("UUID")):
            return None
        return Service(str(uuid).lower(), minor_of(str(root.get("RedfishVersion", ""))), location)
