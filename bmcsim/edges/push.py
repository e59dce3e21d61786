"""Posts events to the destinations of subscriptions (DSP0266 12.1).

Rule 1: a subscription sends one payload at a time, in their order. It has a task only while it has something to send.
Rule 2: at most QUEUE payloads of QUEUE_BYTES wait for a subscription; with one more the oldest are dropped. At most
        MOST of MOST_BYTES are on their way in all; what comes then is dropped.
Rule 3: no address outside of the allowed networks is ever dialled; to a client that looks like one that nobody is at.
        Names are looked up only where more than loopback is allowed: the query itself would go elsewhere.
Rule 4: what a BMC has not sent when it resets, or when its subscription goes, is lost.
"""

import asyncio
import errno
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from bmcsim.core.clock import Clock
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.events import Subscription
from bmcsim.tree.compile import EVENT_SERVICE

_log = logging.getLogger(__name__)

Networks = Sequence[IPv4Network | IPv6Network]
Address = IPv4Address | IPv6Address

QUEUE = 64
QUEUE_BYTES = 1024 * 1024
MOST = 100_000
MOST_BYTES = 128 * 1024 * 1024
_AT_ONCE = 64
_RESOLVE_TIMEOUT = 5.0
_LONGEST_BACKOFF = 600.0
_MOST_WARNINGS = 20


class NotAllowed(OSError):
    """The destination is outside of the networks to which events may go."""


class Deliveries:
    """Counters. delivered, failed: attempts. dropped: payloads that were given up."""

    __slots__ = ("delivered", "dropped", "failed")

    def __init__(self) -> None:
        self.delivered = self.failed = self.dropped = 0


class _Waiting(NamedTuple):
    """resets: of the BMC so far, when it made the payload."""

    subscription: str
    payload: bytes
    resets: int


class Target(NamedTuple):
    """Where a payload goes. host: of the URL, in lower case. address: what was allowed, which is dialled. source: of
    the connection, None for any."""

    url: str
    host: str
    address: Address
    source: str | None
    headers: dict[str, str]
    verify: bool


Post = Callable[[Target, bytes], Awaitable[int]]
"""Post a payload; the HTTP status. Raises OSError (asyncio.TimeoutError included) when there is none."""


class Pusher:
    """The queues of all subscriptions.

    allowed: networks to which events may go. changed: told of each BMC of which a delivery changed a subscription.
    """

    def __init__(
        self,
        clock: Clock,
        allowed: Networks,
        changed: Callable[[Bmc], None],
        *,
        post: Post | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock, self._allowed, self._changed = clock, allowed, changed
        self._post, self._sleep = post or post_with_aiohttp, sleep
        self._queues: dict[tuple[str, str], deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._on_their_way = self._bytes = 0
        self._looks_up = not all(network.is_loopback for network in allowed)
        self._warned: set[str] = set()
        self._own_address = True
        self.counted = Deliveries()

    def push(self, bmc: Bmc, subscription: Subscription, payload: bytes) -> None:
        """Send a payload some time."""
        key, waiting = (bmc.id, subscription.id), _Waiting(subscription.id, payload, bmc.state.resets)
        queue = self._queues.get(key)
        while queue and (len(queue) >= QUEUE or _size(queue) + len(payload) > QUEUE_BYTES):
            self._left(queue.popleft())
            self.counted.dropped += 1
        if self._on_their_way >= MOST or self._bytes + len(payload) > MOST_BYTES:
            self.counted.dropped += 1
            return
        self._on_their_way += 1
        self._bytes += len(payload)
        if queue is not None:
            queue.append(waiting)
            return
        self._queues[key] = deque((waiting,))
        task = asyncio.get_running_loop().create_task(self._drain(bmc, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _left(self, waiting: _Waiting) -> None:
        """A payload is not on its way any more."""
        self._on_their_way -= 1
        self._bytes -= len(waiting.payload)

    async def close(self) -> None:
        """Give up everything that waits."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _drain(self, bmc: Bmc, key: tuple[str, str]) -> None:
        queue = self._queues[key]
        try:
            while queue:
                waiting = queue.popleft()
                try:
                    arrived = await self._deliver(bmc, waiting)
                finally:
                    self._left(waiting)
                if not arrived:
                    self.counted.dropped += 1
        finally:
            for waiting in queue:
                self._left(waiting)
            del self._queues[key]

    async def _deliver(self, bmc: Bmc, waiting: _Waiting) -> bool:
        """Send one payload, as often as the service says; whether it arrived."""
        failures = 0
        while (subscription := self._live(bmc, waiting)) is not None:
            async with self._slots:
                arrived = await self._attempt(bmc, subscription, waiting.payload)
            if arrived:
                self.counted.delivered += 1
                return True
            self.counted.failed += 1
            failures += 1
            attempts = int(bmc.setting(EVENT_SERVICE, "DeliveryRetryAttempts") or 0)
            pause = float(bmc.setting(EVENT_SERVICE, "DeliveryRetryIntervalSeconds") or 1)
            if failures > attempts:
                match subscription.retry_policy:
                    case "TerminateAfterRetries" | "SuspendRetries":
                        self._give_up(bmc, subscription)
                        return False
                    case "RetryForeverWithBackoff":
                        pause = min(pause * 2.0 ** min(failures - attempts, 16), max(pause, _LONGEST_BACKOFF))
            await self._sleep(pause)
        return False

    @staticmethod
    def _live(bmc: Bmc, waiting: _Waiting) -> Subscription | None:
        """The subscription as it is now, None where the payload is not to be sent any more."""
        subscription = bmc.subscription(waiting.subscription)
        if subscription is None or subscription.suspended:
            return None
        return subscription if (bmc.state.service, bmc.state.resets) == (Service.UP, waiting.resets) else None

    def _give_up(self, bmc: Bmc, subscription: Subscription) -> None:
        if subscription.retry_policy == "TerminateAfterRetries":
            bmc.drop_subscription(subscription.id, self._clock.now())
        else:
            bmc.suspend_subscription(subscription.id, self._clock.now(), suspended=True)
        self._changed(bmc)

    async def _attempt(self, bmc: Bmc, subscription: Subscription, payload: bytes) -> bool:
        try:
            target = await self._target(bmc, subscription)
            try:
                status = await self._post(target, payload)
            except OSError as error:
                if target.source is None or error.errno != errno.EADDRNOTAVAIL:
                    raise
                # The BMCs' addresses are not this machine's: clients reach them through something in between.
                self._own_address = False
                status = await self._post(target._replace(source=None), payload)
        except OSError as error:
            self._warn(subscription, error)
            return False
        return 200 <= status < 300

    async def _target(self, bmc: Bmc, subscription: Subscription) -> Target:
        """Raises NotAllowed, and OSError for a name that cannot be resolved, or is not looked up."""
        parts = urlsplit(subscription.destination)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        flags = 0 if self._looks_up or host == "localhost" else socket.AI_NUMERICHOST
        try:
            async with asyncio.timeout(_RESOLVE_TIMEOUT):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
        except socket.gaierror as error:
            if flags:
                raise NotAllowed("names are only looked up if --event-destination allows more than loopback") from error
            raise
        except UnicodeError as error:
            raise OSError("not the name of a host") from error
        addresses = [ip_address(str(info[4][0]).partition("%")[0]) for info in found]
        for address in addresses:
            if self._allows(address):
                own = ip_address(bmc.address) if bmc.address else None
                alike = own and own.version == address.version and own.is_loopback == address.is_loopback
                return Target(
                    subscription.destination,
                    host,
                    address,
                    bmc.address if alike and self._own_address else None,
                    dict(subscription.headers),
                    subscription.verify_certificate,
                )
        raise NotAllowed(f"{', '.join(map(str, addresses))} is outside of the networks that --event-destination allows")

    def _allows(self, address: Address) -> bool:
        """Whether events may go there; an IPv4 address in the clothes of IPv6 is what it is."""
        meant = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
        return any(meant in network for network in self._allowed)

    def _warn(self, subscription: Subscription, error: OSError) -> None:
        """Say why a destination gets nothing, once for each host. A URI may have secrets in it, a host has none."""
        host = str(urlsplit(subscription.destination).hostname)
        if host not in self._warned and len(self._warned) < _MOST_WARNINGS:
            self._warned.add(host)
            _log.warning("events cannot be sent to %s: %s", host, error)


def _size(queue: deque[_Waiting]) -> int:
    return sum([len(one.payload) for one in queue])


async def post_with_aiohttp(target: Target, payload: bytes) -> int:
    """See `posting.post`. It is loaded in a thread: that takes longer than the loop may stand still."""
    await asyncio.get_running_loop().run_in_executor(None, import_module, "bmcsim.edges.posting")
    from bmcsim.edges.posting import post

    return await post(target, payload)
