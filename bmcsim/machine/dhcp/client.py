"""The DHCP client of one interface (RFC 2131 4.4).

Rule 1: a question is repeated after 4, 8, 16, 32, then every 64 seconds, each a second more or less by chance (4.1).
Rule 2: a DISCOVER is repeated for ever, a REQUEST is sent four times; then the client begins anew (3.1).
Rule 3: an address from before, whose lease is not over, is in use while the client asks for it (INIT-REBOOT).
Rule 4: where nobody answers that, the address stays in use to the end of its lease, with T1 and T2 as they were (3.2).
Rule 5: from T1 on the server of the lease is asked to prolong it, from T2 on every server (4.4.5).
Rule 6: that is repeated after half of what is left until T2 or the end, but not before 60 seconds are over.
Rule 7: T1 is 1/2 of the lease and T2 7/8, unless the server says otherwise; both are up to 5 % earlier, by chance.
Rule 8: a lease that ends or that a server refuses to prolong is not used any longer, and the client begins anew.
Rule 9: an acknowledged address that somebody else has is declined, and the client begins anew 10 seconds later (3.1).
Rule 10: whoever is refused begins anew at once, or 10 seconds later if something failed since it last had a lease.
Rule 11: a reply counts only with the xid of the latest question and if it is of an awaited kind.
Rule 12: an ACK counts only for the address that was asked for; it and a NAK only from the server that was asked.
Rule 13: a lease counts from when it was asked for (4.4.1); one that is over when it is heard of is none.
Rule 14: a server without a second round answers DISCOVER with a rapid ACK (RFC 4039), or with a rapid NAK.
Rule 15: after a rapid NAK the client begins anew when it would have repeated its DISCOVER: waits grow as in silence.
"""

from collections.abc import Callable
from enum import StrEnum
from math import isinf
from random import Random

import msgspec

from bmcsim.machine.dhcp.messages import Ask, Kind, Lease, Reply

_TRIES = 4
_PAUSE = 10.0
_RENEWAL = 60.0
_FUZZ = 0.05
_SLACK = 0.01  # a timer may fire that much early, since wall and monotonic time are rounded differently


class Phase(StrEnum):
    """The states (RFC 2131, figure 5). STOPPED: the link is down. INIT: waits before it begins anew."""

    STOPPED = "STOPPED"
    INIT = "INIT"
    SELECTING = "SELECTING"
    REQUESTING = "REQUESTING"
    BOUND = "BOUND"
    RENEWING = "RENEWING"
    REBINDING = "REBINDING"
    REBOOTING = "REBOOTING"


USING = frozenset({Phase.BOUND, Phase.RENEWING, Phase.REBINDING, Phase.REBOOTING})
"""Phases in which the address of the lease is in use."""

ONE_SERVER = frozenset({Phase.REQUESTING, Phase.RENEWING})
"""Phases in which only the server of the lease is asked."""


class Client(msgspec.Struct, frozen=True, gc=False):
    """A client.

    xid: of the latest question. lease: the one in use or the one that was offered, None for none. tries: how often the
    question was sent, 0 where none is open. since: when the acquisition or renewal began, sent: when the open question
    was first sent (a DISCOVER: last sent), seconds since the epoch. error: why there is no lease, '' if nothing failed:
    'no answer', 'refused', 'refused: TEXT OF THE SERVER' or 'address in use'.
    """

    phase: Phase = Phase.STOPPED
    xid: int = 0
    lease: Lease | None = None
    tries: int = 0
    since: float = 0.0
    sent: float = 0.0
    error: str = ""

    @property
    def bound(self) -> bool:
        """Whether the address of the lease is in use."""
        return self.phase in USING

    @property
    def held(self) -> Lease:
        """The lease, in a phase that has one. Raises ValueError elsewhere."""
        if self.lease is None:
            raise ValueError(f"no lease while {self.phase}")
        return self.lease


class Start(msgspec.Struct, frozen=True, gc=False):
    """The link is up, after Stop or without.

    previous: the lease that was in use last. None to begin without, also where somebody else has its address by now.
    """

    previous: Lease | None = None


class Heard(msgspec.Struct, frozen=True, gc=False):
    """A reply came. taken: somebody else has the address of an ACK."""

    reply: Reply
    taken: bool = False


class Due(msgspec.Struct, frozen=True, gc=False):
    """The timer fired."""


class Stop(msgspec.Struct, frozen=True, gc=False):
    """The link is down. release: the interface goes for good and gives its address back."""

    release: bool = False


Event = Start | Heard | Due | Stop


class Send(msgspec.Struct, frozen=True, gc=False):
    """Say something to the servers."""

    ask: Ask


class Arm(msgspec.Struct, frozen=True, gc=False):
    """Arm the client's timer, replacing it if it is armed. seconds: of real time."""

    seconds: float


class Disarm(msgspec.Struct, frozen=True, gc=False):
    """Disarm the client's timer, armed or not."""


class Bind(msgspec.Struct, frozen=True, gc=False):
    """The address is in use from now on, or goes on being in use with a new lease."""

    lease: Lease


class Unbind(msgspec.Struct, frozen=True, gc=False):
    """The address is not in use any longer."""


Action = Send | Arm | Disarm | Bind | Unbind
Result = tuple[Client, tuple[Action, ...]]


NO_ANSWER = "no answer"
IN_USE = "address in use"


def step(client: Client, event: Event, now: float, random: Random) -> Result:
    """One transition; what has no row in HEARD or DUE changes nothing. now: seconds since the epoch."""
    match event:
        case Start(previous=previous):
            return _start(client, previous, now, random)
        case Stop(release=release):
            return _stop(client, release)
        case Due():
            due = DUE.get(client.phase)
            return due(client, now, random) if due else (client, ())
        case Heard(reply=reply):
            heard = HEARD.get(client.phase, {}).get(reply.kind)
            return heard(client, event, now, random) if heard and _awaited(client, reply) else (client, ())


def _awaited(client: Client, reply: Reply) -> bool:
    """Whether a reply answers the latest question. Its kind has a row in HEARD."""
    if client.phase is Phase.SELECTING and reply.kind is not Kind.OFFER and not reply.rapid:
        return False
    if client.phase in ONE_SERVER and reply.server != client.held.server:
        return False
    return reply.xid == client.xid


def _start(client: Client, previous: Lease | None, now: float, random: Random) -> Result:
    if previous is None or previous.expires() <= now + _SLACK:
        return _anew(client, "", now, random)
    began = Client(Phase.REBOOTING, random.getrandbits(32), previous, since=now, sent=now)
    asking, actions = _reboot(began, now, random)
    return asking, (*_unbind(client), Bind(previous), *actions)


def _stop(client: Client, release: bool) -> Result:
    actions: tuple[Action, ...] = (*_unbind(client), Disarm())
    if release and client.bound:
        lease = client.held
        actions = (Send(Ask(Kind.RELEASE, client.xid, client=lease.address, server=lease.server)), *actions)
    return Client(), actions


def _anew(client: Client, error: str, now: float, random: Random, tries: int = 1) -> Result:
    """A new acquisition. tries: how often DISCOVER was sent, with this one, since something else happened."""
    ask = Ask(Kind.DISCOVER, random.getrandbits(32))
    began = Client(Phase.SELECTING, ask.xid, tries=tries, since=now, sent=now, error=error)
    return began, (*_unbind(client), Send(ask), Arm(_backoff(tries, random)))


def _discover(client: Client, now: float, random: Random) -> Result:
    """a new acquisition"""
    return _anew(client, client.error, now, random, client.tries + 1)


def _discover_again(client: Client, now: float, random: Random) -> Result:
    """DISCOVER again"""
    asking = msgspec.structs.replace(client, tries=client.tries + 1, sent=now, error=NO_ANSWER)
    ask = Ask(Kind.DISCOVER, client.xid, _seconds(now - client.since))
    return asking, (Send(ask), Arm(_backoff(asking.tries, random)))


def _request(client: Client, now: float, random: Random) -> Result:
    """REQUEST again, or a new acquisition"""
    if client.tries >= _TRIES:
        return _anew(client, NO_ANSWER, now, random)
    lease = client.held
    # A REQUEST has the `secs` of its DISCOVER, so that relays treat both alike (RFC 2131 3.1, 3).
    elapsed = _seconds(lease.acquired - client.since)
    ask = Ask(Kind.REQUEST, client.xid, elapsed, requested=lease.address, server=lease.server)
    asking = msgspec.structs.replace(client, tries=client.tries + 1)
    return asking, (Send(ask), Arm(_backoff(asking.tries, random)))


def _reboot(client: Client, now: float, random: Random) -> Result:
    """REQUEST again, or the lease goes on"""
    left = client.held.expires() - now
    if client.tries >= _TRIES or left <= _SLACK:
        return _hold(client, now, random)
    ask = Ask(Kind.REQUEST, client.xid, _seconds(now - client.since), requested=client.held.address)
    asking = msgspec.structs.replace(client, tries=client.tries + 1)
    return asking, (Send(ask), Arm(min(left, _backoff(asking.tries, random))))


def _hold(client: Client, now: float, random: Random) -> Result:
    """what T1, T2 and the end of the lease say"""
    lease = client.held
    renew, rebind, end = lease.acquired + lease.renew, lease.acquired + lease.rebind, lease.expires()
    if isinf(end):
        return msgspec.structs.replace(client, phase=Phase.BOUND, tries=0), (Disarm(),)
    if now + _SLACK >= end:
        return _anew(client, NO_ANSWER, now, random)
    if now + _SLACK < renew:
        return msgspec.structs.replace(client, phase=Phase.BOUND, tries=0), (Arm(renew - now),)
    phase, until = (Phase.RENEWING, rebind) if now + _SLACK < rebind else (Phase.REBINDING, end)
    since = client.since if client.phase in (Phase.RENEWING, Phase.REBINDING) else now
    elapsed, everyone = _seconds(now - since), phase is Phase.REBINDING
    ask = Ask(Kind.REQUEST, random.getrandbits(32), elapsed, client=lease.address, rebinding=everyone)
    left = until - now
    # Hours may lie between two of these: with an xid of its own each, a lease counts from the right one.
    asking = Client(phase, ask.xid, lease, tries=1, since=since, sent=now)
    return asking, (Send(ask), Arm(min(left, max(_RENEWAL, left / 2))))


def _offered(client: Client, heard: Heard, now: float, random: Random) -> Result:
    """REQUEST"""
    lease = _given(client, heard.reply, now)
    if lease is None or not lease.server:
        return client, ()
    asking = msgspec.structs.replace(client, phase=Phase.REQUESTING, lease=lease, tries=0, sent=now)
    return _request(asking, now, random)


def _acknowledged(client: Client, heard: Heard, now: float, random: Random) -> Result:
    """the lease, or DECLINE"""
    lease = _given(client, heard.reply, now)
    if lease is None or (client.lease and client.lease.address != lease.address):
        return client, ()
    if heard.taken:
        ask = Ask(Kind.DECLINE, client.xid, requested=lease.address, server=lease.server)
        return Client(Phase.INIT, error=IN_USE), (*_unbind(client), Send(ask), Arm(_PAUSE))
    planned = _planned(lease, random)
    bound, actions = _hold(msgspec.structs.replace(client, phase=Phase.BOUND, lease=planned, error=""), now, random)
    return bound, (Bind(planned), *actions)


def _refused(client: Client, heard: Heard, now: float, random: Random) -> Result:
    """a new acquisition, at once or later"""
    error = f"refused: {heard.reply.text}" if heard.reply.text else "refused"
    if client.phase is Phase.SELECTING:
        return Client(Phase.INIT, tries=client.tries, error=error), (Arm(_backoff(client.tries, random)),)
    if client.error:
        return Client(Phase.INIT, error=error), (Arm(_PAUSE),)
    return _anew(client, error, now, random)


HEARD: dict[Phase, dict[Kind, Callable[[Client, Heard, float, Random], Result]]] = {
    Phase.SELECTING: {Kind.OFFER: _offered, Kind.ACK: _acknowledged, Kind.NAK: _refused},
    **{
        phase: {Kind.ACK: _acknowledged, Kind.NAK: _refused}
        for phase in (Phase.REQUESTING, Phase.REBOOTING, Phase.RENEWING, Phase.REBINDING)
    },
}
"""phase -> awaited kind -> what the client does."""

DUE: dict[Phase, Callable[[Client, float, Random], Result]] = {
    Phase.INIT: _discover,
    Phase.SELECTING: _discover_again,
    Phase.REQUESTING: _request,
    Phase.REBOOTING: _reboot,
    Phase.BOUND: _hold,
    Phase.RENEWING: _hold,
    Phase.REBINDING: _hold,
}
"""phase -> what the client does when its timer fires."""


def _given(client: Client, reply: Reply, now: float) -> Lease | None:
    """The lease of an OFFER or ACK as the client counts it, None where that is none."""
    if reply.lease is None or not reply.lease.address:
        return None
    lease = msgspec.structs.replace(reply.lease, acquired=client.sent, server=reply.server)
    return lease if now + _SLACK < lease.expires() else None


def _planned(lease: Lease, random: Random) -> Lease:
    """The lease with T1 and T2 as they will be; a server's T1 or T2 out of order does not count."""
    if isinf(lease.seconds):
        return lease
    rebind = lease.rebind if 0 < lease.rebind < lease.seconds else 0.875 * lease.seconds
    renew = lease.renew if 0 < lease.renew < rebind else min(0.5 * lease.seconds, rebind)
    early = 1.0 - _FUZZ * random.random()
    return msgspec.structs.replace(lease, renew=renew * early, rebind=rebind * early)


def _backoff(tries: int, random: Random) -> float:
    return (4 << min(tries - 1, 4)) + random.uniform(-1.0, 1.0)


def _unbind(client: Client) -> tuple[Unbind, ...]:
    return (Unbind(),) if client.bound else ()


def _seconds(elapsed: float) -> int:
    """secs; the wall clock may have been set back."""
    return max(0, int(elapsed))
