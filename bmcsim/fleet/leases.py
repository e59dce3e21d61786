"""The DHCP clients of a fleet: one for each interface, one heap for their timers, one queue for their beginnings.

Rule 1: a BMC is found where the lease of its own interface says; other interfaces are asked nothing.
Rule 2: leases are on real time: neither --time-scale nor --progression moves them.
Rule 3: no two interfaces have the same address. Who is given one that somebody has declines it.
Rule 4: at most `Backend.window` clients that began have heard nothing yet; the others wait in the order in which they
came. A client that has waited once in vain makes room: from then on its backoff is what keeps it from being a burden.
Rule 5: a restart of the process is none of the BMC. Leases that are not over are in use at once, and asked for again.
Rule 6: a BMC in reset says nothing and hears nothing. Its address stays until the reset ends, the lease does, or
somebody else is given it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from math import isfinite
from random import Random
from typing import Any, Protocol

import msgspec

from bmcsim.core.clock import Clock, Moment
from bmcsim.core.timers import Timer, TimerHeap
from bmcsim.fleet.registry import Fleet
from bmcsim.machine import addressing
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.dhcp import client as dhcp
from bmcsim.machine.dhcp.client import Client
from bmcsim.machine.dhcp.links import Link, interface, is_up, mac
from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Lease, Port, Reply

_AWAITING = frozenset(
    {
        dhcp.Phase.SELECTING,
        dhcp.Phase.REQUESTING,
        dhcp.Phase.RENEWING,
        dhcp.Phase.REBINDING,
        dhcp.Phase.REBOOTING,
    }
)
_AT_ONCE = 500  # timers of one wake-up, so that the loop serves others in between
_MOST_PARTS = 1024

WAITING = "WAITING"
"""What the phase of an interface is called that has not begun yet because too many others have."""


class Backend(Protocol):
    """Whoever carries what clients say to a server, and gives `Leases.heard` what that answers.

    window: how many clients may begin at once.
    """

    window: int

    def send(self, interface: Interface, ask: Ask) -> None:
        """Say something. Never raises; what cannot be sent is as good as lost."""

    async def close(self) -> None:
        """Hear and send nothing more."""


Later = Callable[[float, Callable[[], object]], asyncio.TimerHandle]
"""Calls a function in so many seconds, as asyncio.loop.call_later."""


class Seen(msgspec.Struct, frozen=True):
    """An interface as status shows it. phase: of its client, or WAITING. error: why it has no lease, '' for nothing."""

    port: Port
    mac: int
    phase: str
    lease: Lease | None
    tries: int
    error: str


class Counted:
    """What happened since the start. acquisitions: addresses that were bound. timeouts: questions without an answer.
    ignored: replies by reason, which is unexpected (nobody waits for it) or unfit (not what was asked for)."""

    __slots__ = ("acquisitions", "declines", "expirations", "ignored", "naks", "renewals", "timeouts")

    def __init__(self) -> None:
        self.acquisitions = self.renewals = self.naks = self.declines = self.expirations = self.timeouts = 0
        self.ignored = {"unexpected": 0, "unfit": 0}


_IDLE = Client()


class _Holder:
    """An interface. away: it has no link, its BMC is in reset, or it has a static address."""

    __slots__ = ("away", "bmc", "client", "link", "timer")

    def __init__(self, bmc: Bmc, link: Link) -> None:
        self.bmc, self.link = bmc, link
        self.client = _IDLE
        self.timer: Timer | None = None
        self.away = False

    @property
    def port(self) -> Port:
        return self.link.port

    def key(self) -> int:
        """Of what its client asked last: xid and MAC as one number."""
        return self.client.xid << 48 | mac(self.port, self.bmc.identity)


class Leases:
    """The clients.

    later: who calls `run_due`. changed: told of each BMC whose state a lease changed. probe: whether somebody
    outside of the fleet has an address.
    """

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        later: Later,
        *,
        changed: Callable[[Bmc], object] = Bmc.committed,
        probe: Callable[[str], bool] | None = None,
        random: Random | None = None,
    ) -> None:
        self._fleet, self._clock, self._later = fleet, clock, later
        self._changed, self._probe = changed, probe
        self._complete: Callable[[], None] | None = None
        self._random = random or Random()
        self._backend: Backend | None = None
        self._of: dict[str, tuple[_Holder, ...]] = {}
        # Address -> interface that has it, of all but the BMCs' own, which the fleet knows.
        self._others: dict[str, _Holder] = {}
        # Key of what was asked -> who waits for an answer; interface that has not begun -> the lease that it had.
        self._pending: dict[int, _Holder] = {}
        self._waiting: dict[_Holder, Lease | None] = {}
        self._beginning: set[_Holder] = set()
        self._pumping = False
        self._heap = TimerHeap()
        self._handle: asyncio.TimerHandle | None = None
        self._wished = 0.0
        self._parts: dict[Any, Any] = {}
        self.bound = 0
        self.counted = Counted()

    # from outside

    def begin(self, backend: Backend) -> None:
        """Let every interface with link ask for an address. Once, when the fleet is complete."""
        self._backend = backend
        moment = self._clock.now()
        self._of = {bmc.id: tuple([_Holder(bmc, link) for link in bmc.shared.links]) for bmc in self._fleet}
        for bmc in self._fleet:
            kept: dict[str, Lease] = {}
            for holder in self._of[bmc.id]:
                holder.away = not self._has_link(holder)
                if holder.away or self._is_static(holder):
                    continue
                lease = bmc.state.leases.get(holder.port)
                if lease is not None and lease.expires() > moment.wall and self._rival(holder, lease.address) is None:
                    kept[holder.port] = lease
                    self._take_address(holder, lease.address)
                self._waiting[holder] = kept.get(holder.port)
            self.bound += len(kept)
            if kept != bmc.state.leases:
                self._keep(bmc, kept, moment)
        self._pump()
        self._arm()

    def add(self, bmc: Bmc) -> None:
        """A BMC has come that never had a lease."""
        if self._backend is None:
            return
        self._of[bmc.id] = holders = tuple([_Holder(bmc, link) for link in bmc.shared.links])
        for holder in holders:
            holder.away = not self._has_link(holder)
            if not (holder.away or self._is_static(holder)):
                self._waiting[holder] = None
        self._pump()
        self._arm()

    def remove(self, bmc: Bmc) -> None:
        """A BMC goes for good: its leases are given back."""
        for holder in self._of.get(bmc.id, ()):
            self.stop(bmc, holder.port, release=True)
        self._of.pop(bmc.id, None)

    def follow(self, bmc: Bmc) -> None:
        """A BMC has a state from before: interfaces have link as that says."""
        for holder in self._of.get(bmc.id, ()):
            if holder.away is not self._has_link(holder) or self._is_static(holder):
                continue
            if holder.away:
                self.restart(bmc, holder.port)
            else:
                self.stop(bmc, holder.port, keep=bmc.state.service is Service.RESETTING)

    def tell_complete(self, complete: Callable[[], None]) -> None:
        """Have it told, once, that every BMC has an address."""
        self._complete = complete
        self._tell_complete()

    def heard(self, mac: int, reply: Reply) -> bool:
        """A reply to a MAC came. False: nobody waits for it, and nothing changed."""
        holder = self._pending.get(reply.xid << 48 | mac)
        if holder is None:
            self.counted.ignored["unexpected"] += 1
            return False
        taken = False
        if reply.kind is Kind.ACK and reply.lease is not None:
            taken = self._is_taken(holder, reply.lease.address)
            reply = msgspec.structs.replace(reply, lease=self._shared(reply.lease))
        before = holder.client
        self._step(holder, dhcp.Heard(reply, taken))
        if holder.client is before:
            self.counted.ignored["unfit"] += 1
            return False
        if reply.kind is Kind.NAK:
            self.counted.naks += 1
        self._go_on(holder)
        return True

    def restart(self, bmc: Bmc, port: Port) -> None:
        """An interface has come up. It asks for an address, as one that never had any."""
        holder = self._find(bmc, port)
        if holder is not None:
            self._fall_silent(holder)
            holder.away = False
            self._step(holder, dhcp.Stop())
            if not self._is_static(holder):
                self._waiting[holder] = None
            self._pump()
            self._arm()

    def stop(self, bmc: Bmc, port: Port, *, keep: bool = False, release: bool = False) -> None:
        """An interface asks for nothing: it is down. keep: its address stays, as for a BMC in reset.

        release: it gives its lease back.
        """
        holder = self._find(bmc, port)
        if holder is not None:
            self._fall_silent(holder)
            holder.away = True
            lease = holder.client.lease
            if not (keep and holder.client.bound) or lease is None:
                self._step(holder, dhcp.Stop(release))
            elif isfinite(end := lease.expires()):
                self._set_timer(holder, end - self._clock.now().wall)
            self._pump()
            self._arm()

    def sync(self, bmc: Bmc) -> None:
        """A BMC has a state from before: its leases are those of now all the same."""
        holders = self._of.get(bmc.id, ())
        now = {holder.port: lease for holder in holders if (lease := self._lease(holder)) is not None}
        if now != bmc.state.leases:
            bmc.restore(msgspec.structs.replace(bmc.state, leases=now))

    def run_due(self) -> None:
        """Fire the timers that are due."""
        now = self._clock.now().mono
        for _ in range(_AT_ONCE):
            holder = self._heap.pop_due(now)
            if holder is None:
                break
            holder.timer = None
            if holder.away:
                self._step(holder, dhcp.Stop())
                continue
            if holder.client.phase in _AWAITING:
                self.counted.timeouts += 1
            self._step(holder, dhcp.Due())
            self._beginning.discard(holder)
        self._pump()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._arm()

    def close(self) -> None:
        """No timer fires any more. Leases stay as they are: whoever starts again goes on with them."""
        self._heap = TimerHeap()
        if self._handle is not None:
            self._handle.cancel()

    # what others see

    def __len__(self) -> int:
        """How many interfaces there are."""
        return sum([len(holders) for holders in self._of.values()])

    def seen(self, bmc: Bmc) -> list[Seen]:
        """The interfaces of a BMC; none where addresses are planned."""
        return [
            Seen(
                holder.port,
                mac(holder.port, bmc.identity),
                WAITING if holder in self._waiting else str(holder.client.phase),
                self._lease(holder),
                holder.client.tries,
                holder.client.error,
            )
            for holder in self._of.get(bmc.id, ())
        ]

    def phases(self) -> dict[str, int]:
        """Phase -> how many interfaces are in it."""
        counts = Counter([holder.client.phase for holders in self._of.values() for holder in holders])
        counts[dhcp.Phase.STOPPED] -= len(self._waiting)
        return {**{str(phase): counts[phase] for phase in dhcp.Phase}, WAITING: len(self._waiting)}

    # one client

    def _step(self, holder: _Holder, event: dhcp.Event) -> None:
        """Let something happen to a client. What it says comes last: the answer may be there before this returns."""
        moment = self._clock.now()
        before, (after, actions) = holder.client, dhcp.step(holder.client, event, moment.wall, self._random)
        if after is not before:
            if before.phase in _AWAITING:
                self._pending.pop(holder.key(), None)
            holder.client = after
            if after.phase in _AWAITING:
                self._pending[holder.key()] = holder
            self._settle(holder, moment)
            self._count(before, event, after)
        asks = []
        for action in actions:
            match action:
                case dhcp.Arm(seconds):
                    self._set_timer(holder, seconds)
                case dhcp.Disarm():
                    self._drop_timer(holder)
                case dhcp.Send(ask):
                    asks.append(ask)
        if asks and self._backend is not None:
            asking = interface(holder.link, holder.bmc.id, holder.bmc.identity)
            for ask in asks:
                if ask.kind is Kind.DECLINE:
                    self.counted.declines += 1
                self._backend.send(asking, ask)

    def _count(self, before: Client, event: dhcp.Event, after: Client) -> None:
        if isinstance(event, dhcp.Heard) and after.phase is dhcp.Phase.BOUND:
            if before.bound:
                self.counted.renewals += 1
            else:
                self.counted.acquisitions += 1
        elif isinstance(event, dhcp.Due) and before.bound and not after.bound:
            self.counted.expirations += 1

    def _settle(self, holder: _Holder, moment: Moment) -> None:
        """Make address and state agree with a client."""
        bmc, port = holder.bmc, holder.port
        now = holder.client.lease if holder.client.bound else None
        kept = bmc.state.leases.get(port)
        if now == kept:
            return
        if kept is not None and (now is None or now.address != kept.address):
            self._leave_address(holder, kept.address)
        if now is not None and (kept is None or now.address != kept.address):
            rival = self._rival(holder, now.address)
            if rival is not None:
                self._step(rival, dhcp.Stop())
            self._take_address(holder, now.address)
        self.bound += (now is not None) - (kept is not None)
        leases = {one: lease for one, lease in bmc.state.leases.items() if one != port}
        self._keep(bmc, leases if now is None else {**leases, port: now}, moment)
        self._tell_complete()

    def _keep(self, bmc: Bmc, leases: dict[str, Lease], moment: Moment) -> None:
        bmc.become(moment, leases=leases)
        self._changed(bmc)

    def _take_address(self, holder: _Holder, address: str) -> None:
        if holder.port is Port.BMC:
            self._fleet.bind(holder.bmc, address)
        else:
            self._others[address] = holder

    def _leave_address(self, holder: _Holder, address: str) -> None:
        if holder.port is not Port.BMC:
            self._others.pop(address, None)
        elif holder.bmc.address == address:
            self._fleet.unbind(holder.bmc)
            feed = holder.bmc.feed
            for stream in tuple(feed.streams.values()) if feed is not None else ():
                stream.end()

    def _rival(self, holder: _Holder, address: str) -> "_Holder | None":
        """The other interface of the fleet that has an address, None for none."""
        bmc = self._fleet.by_address(address)
        rival = self._find(bmc, Port.BMC) if bmc is not None else self._others.get(address)
        return rival if rival is not holder else None

    def _is_taken(self, holder: _Holder, address: str) -> bool:
        """Whether somebody would defend an address. A BMC in reset would not, and loses its lease then."""
        rival = self._rival(holder, address)
        if rival is not None and not (rival.away and rival.client.bound):
            return True
        return self._probe is not None and self._probe(address)

    def _tell_complete(self) -> None:
        if self._complete is not None and self._fleet.ready and self._fleet.homeless == 0:
            told, self._complete = self._complete, None
            told()

    def _find(self, bmc: Bmc, port: Port) -> _Holder | None:
        return next((holder for holder in self._of.get(bmc.id, ()) if holder.port is port), None)

    def _lease(self, holder: _Holder) -> Lease | None:
        """What an interface has."""
        if holder in self._waiting:
            return self._waiting[holder]
        return holder.client.lease if holder.client.bound else None

    @staticmethod
    def _has_link(holder: _Holder) -> bool:
        state = holder.bmc.state
        return is_up(holder.port, state.service, state.power)

    @staticmethod
    def _is_static(holder: _Holder) -> bool:
        """Whether a client gave the BMC an address, and it has that one."""
        if holder.port is not Port.BMC:
            return False
        static = addressing.static(holder.bmc)
        return static is not None and static.address == holder.bmc.address

    # queue and timers

    def _go_on(self, holder: _Holder) -> None:
        """A client was answered: the next one may begin."""
        self._beginning.discard(holder)
        self._pump()
        self._arm()

    def _pump(self) -> None:
        if self._pumping or self._backend is None:
            return
        self._pumping = True
        while self._waiting and len(self._beginning) < self._backend.window:
            holder = next(iter(self._waiting))
            previous = self._waiting.pop(holder)
            self._beginning.add(holder)
            self._step(holder, dhcp.Start(previous))
        self._pumping = False

    def _fall_silent(self, holder: _Holder) -> None:
        """Nothing is awaited, neither an answer nor a time nor a turn."""
        self._pending.pop(holder.key(), None)
        self._drop_timer(holder)
        self._waiting.pop(holder, None)
        self._beginning.discard(holder)

    def _set_timer(self, holder: _Holder, seconds: float) -> None:
        self._drop_timer(holder)
        holder.timer = self._heap.push(self._clock.now().mono + max(0.0, seconds), holder)

    def _drop_timer(self, holder: _Holder) -> None:
        if holder.timer is not None:
            self._heap.cancel(holder.timer)
            holder.timer = None

    def _arm(self) -> None:
        deadline = self._heap.next_deadline()
        if deadline is None:
            return
        now = self._clock.now().mono
        if self._handle is not None:
            if self._wished <= deadline:
                return
            self._handle.cancel()
        self._wished = deadline
        self._handle = self._later(max(0.0, deadline - now), self.run_due)

    def _shared(self, lease: Lease) -> Lease:
        """A lease that has in common with others what is alike."""
        parts = self._parts
        if len(parts) > _MOST_PARTS:
            parts.clear()
        alike = ("server", "seconds", "gateway", "name_servers", "ntp_servers", "domain")
        return msgspec.structs.replace(
            lease, **{name: parts.setdefault(value, value) for name in alike if (value := getattr(lease, name))}
        )
