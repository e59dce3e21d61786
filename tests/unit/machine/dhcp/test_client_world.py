"""DHCP clients among themselves, with a server and a network that do what they like."""

from collections import defaultdict
from math import inf
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from bmcsim.machine.dhcp.client import (
    Action,
    Arm,
    Bind,
    Client,
    Disarm,
    Due,
    Event,
    Heard,
    Phase,
    Send,
    Start,
    Stop,
    step,
)
from bmcsim.machine.dhcp.messages import Ask, Kind, Lease, Reply

T0 = 1_800_000_000.0
CLIENTS = range(3)
ADDRESSES = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
SERVERS = ["198.51.100.1", "198.51.100.2"]
SECONDS = [1.0, 30.0, 300.0, 3600.0, inf]

some_client = st.sampled_from(CLIENTS)
some_address = st.sampled_from(ADDRESSES)
some_server = st.sampled_from(SERVERS)
some_seconds = st.sampled_from(SECONDS)


def other(values: list[str], value: str) -> str:
    return next(one for one in values if one != value)


class Network(RuleBasedStateMachine):
    """Three clients, whoever executes their actions truthfully, and what is in the air."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.random = T0, Random(7)
        self.clients = [Client() for _ in CLIENTS]
        self.up = [False for _ in CLIENTS]
        self.deadlines: list[float | None] = [None for _ in CLIENTS]
        self.used: list[Lease | None] = [None for _ in CLIENTS]
        self.stored: list[Lease | None] = [None for _ in CLIENTS]
        # Of this life of a client: what it asked, and what was offered to it.
        self.asked: list[list[Ask]] = [[] for _ in CLIENTS]
        self.offered: list[set[tuple[int, str, str]]] = [set() for _ in CLIENTS]
        self.asks: list[list[Ask]] = [[] for _ in CLIENTS]
        self.air: list[tuple[int, Reply, Ask, float]] = []

    # The executor

    def do(self, who: int, event: Event, answers: tuple[Ask, float] | None = None) -> None:
        """One event of a client. answers: what a reply that is heard answers, and when it was made."""
        before, asked = self.used[who], list(self.asked[who])
        self.clients[who], actions = step(self.clients[who], event, self.now, self.random)
        for action in actions:
            self.execute(who, action)
            if isinstance(action, Bind):
                self.check_bind(who, event, action.lease, before, asked, answers)
        if self.used[who] is not None:
            self.stored[who] = self.used[who]
        elif before is not None and not (isinstance(event, Stop) and not event.release):
            self.stored[who] = None

    def execute(self, who: int, action: Action) -> None:
        match action:
            case Arm(seconds=seconds):
                assert 0 < seconds < inf
                self.deadlines[who] = self.now + seconds
            case Disarm():
                self.deadlines[who] = None
            case Send(ask=ask):
                self.asked[who].append(ask)
                self.asks[who].append(ask)
            case Bind(lease=lease):
                self.used[who] = lease
            case _:
                assert self.used[who] is not None
                self.used[who] = None

    def check_bind(
        self,
        who: int,
        event: Event,
        lease: Lease,
        before: Lease | None,
        asked: list[Ask],
        answers: tuple[Ask, float] | None,
    ) -> None:
        """Whether the client may use an address, by what was said, heard and stored."""
        assert lease.expires() > self.now
        if isinstance(event, Start):
            assert lease == event.previous
            return
        assert isinstance(event, Heard)
        assert answers is not None
        reply, last = event.reply, asked[-1]
        assert reply.kind is Kind.ACK
        assert not event.taken
        assert reply.lease is not None
        assert (lease.address, lease.server) == (reply.lease.address, reply.server)
        assert reply.xid == last.xid
        if last.kind is Kind.DISCOVER:
            assert reply.rapid
            return
        assert last.kind is Kind.REQUEST
        assert lease.address == (last.requested or last.client)
        if last.server:
            assert reply.server == last.server
            assert (reply.xid, lease.address, reply.server) in self.offered[who]
        else:
            assert before is not None
            assert lease.address == before.address
            assert last.requested or last.rebinding or reply.server == before.server
        ask, made = answers
        if ask.kind is Kind.REQUEST:
            assert lease.expires() <= made + reply.lease.seconds

    def taken(self, who: int, address: str) -> bool:
        return any(
            lease is not None and lease.address == address for other, lease in enumerate(self.used) if other != who
        )

    def hear(self, who: int, reply: Reply, ask: Ask, made: float) -> None:
        if reply.kind is Kind.OFFER and reply.lease is not None:
            self.offered[who].add((reply.xid, reply.lease.address, reply.server))
        taken = reply.kind is Kind.ACK and reply.lease is not None and self.taken(who, reply.lease.address)
        self.do(who, Heard(reply, taken), (ask, made))

    def let_pass(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(100_000):
            deadline, who = min(
                (deadline, who) for who, deadline in enumerate([*self.deadlines, until]) if deadline is not None
            )
            if who not in CLIENTS or deadline > until:
                break
            self.now, self.deadlines[who] = deadline, None
            self.do(who, Due())
        self.now = until

    # Links and processes

    @initialize(remembers=st.booleans())
    def start_all(self, remembers: bool) -> None:
        for who, address in zip(CLIENTS, ADDRESSES, strict=True):
            if remembers:
                self.stored[who] = Lease(address, SERVERS[0], T0 - 100, 1000.0, 500.0, 875.0)
            self.start(who, True)

    def previous(self, who: int) -> Lease | None:
        """What is stored, unless somebody else has its address by now."""
        lease = self.stored[who]
        return lease if lease is not None and not self.taken(who, lease.address) else None

    @rule(who=some_client, remembers=st.booleans())
    def start(self, who: int, remembers: bool) -> None:
        self.up[who] = True
        self.do(who, Start(self.previous(who) if remembers else None))

    @rule(who=some_client, release=st.booleans())
    def stop(self, who: int, release: bool) -> None:
        self.up[who] = False
        self.do(who, Stop(release))

    @rule(who=some_client, away=st.floats(0, 5000))
    def kill(self, who: int, away: float) -> None:
        self.clients[who], self.deadlines[who], self.used[who] = Client(), None, None
        self.asked[who], self.offered[who] = [], set()
        up, self.up[who] = self.up[who], False
        self.let_pass(away)
        if up:
            self.start(who, True)

    @rule(seconds=st.one_of(st.floats(0, 100), st.floats(0, 5000)))
    def wait(self, seconds: float) -> None:
        self.let_pass(seconds)

    @rule()
    def until_the_next_timer(self) -> None:
        self.let_pass(
            max(0, min((deadline for deadline in self.deadlines if deadline is not None), default=0) - self.now)
        )

    # The server and the network

    def answer(self, ask: Ask, address: str, server: str, seconds: float, rapid: bool) -> Reply:
        """What a server would say."""
        lease = Lease(ask.requested or ask.client or address, server, seconds=seconds)
        offers = ask.kind is Kind.DISCOVER and not rapid
        return Reply(Kind.OFFER if offers else Kind.ACK, ask.xid, lease, rapid=rapid, server=ask.server or server)

    @rule(who=some_client, address=some_address, server=some_server, seconds=some_seconds, rapid=st.booleans())
    def serve_well(self, who: int, address: str, server: str, seconds: float, rapid: bool) -> None:
        """The right answer to the latest question, if one is open."""
        if self.asked[who]:
            ask, held = self.asked[who][-1], self.used[who]
            reply = self.answer(ask, address, held.server if held else server, seconds, rapid)
            self.hear(who, reply, ask, self.now)

    @rule(
        who=some_client,
        back=st.sampled_from([0, 0, 0, 1, 2, 5]),
        lease=st.tuples(some_address, some_server, some_seconds),
        rapid=st.booleans(),
        twist=st.sampled_from(["", "OFFER", "ACK", "NAK", "xid", "address", "server", "no server", "no lease", "over"]),
        before=st.sampled_from(["", "offer", "timer"]),
        early=st.booleans(),
    )
    def serve_badly(
        self,
        who: int,
        back: int,
        lease: tuple[str, str, float],
        rapid: bool,
        twist: str,
        before: str,
        early: bool,
    ) -> None:
        """An answer to one of the latest questions with something wrong about it; delivered at once, or later."""
        if before == "timer":
            self.until_the_next_timer()
        elif before == "offer" and self.clients[who].phase is Phase.SELECTING:
            self.serve_well(who, *lease, rapid=False)
        if back >= len(self.asks[who]):
            return
        ask = self.asks[who][-1 - back]
        reply = self.answer(ask, *lease, rapid)
        given = reply.lease
        assert given is not None
        match twist:
            case "OFFER" | "ACK":
                reply = replace(reply, kind=Kind[twist])
            case "NAK":
                reply = replace(reply, kind=Kind.NAK, lease=None, text="no")
            case "xid":
                reply = replace(reply, xid=reply.xid ^ 1)
            case "address":
                reply = replace(reply, lease=replace(given, address=other(ADDRESSES, given.address)))
            case "server":
                reply = replace(reply, server=other(SERVERS, reply.server))
            case "no server":
                reply = replace(reply, server="")
            case "no lease":
                reply = replace(reply, lease=None)
            case "over":
                reply = replace(reply, lease=replace(given, seconds=0.0))
        self.air.append((who, reply, ask, self.now))
        if early:
            self.hear(who, reply, ask, self.now)

    @rule(back=st.sampled_from([0, 0, 1, 2, 5, 20]), astray=st.none() | some_client)
    def deliver(self, back: int, astray: int | None) -> None:
        """Any reply, as late, as often and to whom it may be."""
        if back < len(self.air):
            who, reply, ask, made = self.air[-1 - back]
            self.hear(who if astray is None else astray, reply, ask, made)

    @rule()
    def serve_honestly(self) -> None:
        """With a server that works, everybody has an address after a while."""
        end = self.now + 250
        while self.now < end:
            heard = defaultdict[int, int](int)
            for who in CLIENTS:
                while self.asked[who] and heard[who] < 4:
                    ask = self.asked[who][-1]
                    if self.clients[who].xid != ask.xid or self.clients[who].phase in (Phase.BOUND, Phase.INIT):
                        break
                    heard[who] += 1
                    lease = Lease(f"192.0.2.{100 + who}", SERVERS[0], seconds=3600.0)
                    reply = self.answer(ask, lease.address, SERVERS[0], 3600.0, False)
                    if reply.lease is not None and reply.lease.address != lease.address:
                        reply = Reply(Kind.NAK, ask.xid, server=SERVERS[0])
                    self.hear(who, reply, ask, self.now)
            pending = [deadline for deadline in self.deadlines if deadline is not None]
            self.let_pass(max(0.0, min([*pending, end]) - self.now))
        assert [client.bound for client in self.clients] == self.up

    # What always holds

    @invariant()
    def nobody_uses_what_somebody_else_uses(self) -> None:
        addresses = [lease.address for lease in self.used if lease is not None]
        assert len(addresses) == len(set(addresses))

    @invariant()
    def what_a_client_says_of_itself_is_what_it_told(self) -> None:
        for client, used in zip(self.clients, self.used, strict=True):
            assert (client.lease if client.bound else None) == used
            assert not (client.bound and client.error)

    @invariant()
    def nobody_is_stuck(self) -> None:
        for client, up, used, deadline in zip(self.clients, self.up, self.used, self.deadlines, strict=True):
            assert (client.phase is Phase.STOPPED) is not up
            waits = up and (used is None or client.phase is not Phase.BOUND or used.seconds < inf)
            assert (deadline is not None) is waits
            assert deadline is None or used is None or deadline <= used.expires() + 1e-3

    @invariant()
    def no_lease_is_used_past_its_end(self) -> None:
        assert all(lease is None or self.now < lease.expires() for lease in self.used)


TestNetwork = Network.TestCase
TestNetwork.settings = settings(deadline=None, max_examples=100, stateful_step_count=50)
