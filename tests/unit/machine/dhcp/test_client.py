"""The DHCP client, rule by rule."""

from math import inf
from random import Random
from typing import Any

import pytest
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
    Unbind,
    step,
)
from bmcsim.machine.dhcp.messages import Ask, Kind, Lease, Reply

T0 = 1_800_000_000.0
ADDRESS, OTHER_ADDRESS = "192.0.2.10", "192.0.2.11"
SERVER, OTHER_SERVER = "198.51.100.1", "198.51.100.2"
OFFERED = Lease(ADDRESS, SERVER, seconds=1000.0, prefix=24, gateway="192.0.2.1")
STORED = replace(OFFERED, acquired=T0 - 100, renew=500.0, rebind=875.0)


def near(value: float) -> Any:
    """Equal but for the rounding of seconds since the epoch."""
    return pytest.approx(value, rel=0, abs=1e-4)


class World:
    """One client, its clock and what it asked for last."""

    def __init__(self, seed: int = 1) -> None:
        self.client, self.now, self.random = Client(), T0, Random(seed)
        self.wait: float | None = None
        self.actions: tuple[Action, ...] = ()

    def __call__(self, event: Event) -> tuple[Action, ...]:
        self.client, self.actions = step(self.client, event, self.now, self.random)
        for action in self.actions:
            if isinstance(action, Arm):
                assert action.seconds > 0
                self.wait = action.seconds
            elif isinstance(action, Disarm):
                self.wait = None
        return self.actions

    def due(self) -> tuple[Action, ...]:
        """Waits until the timer fires."""
        assert self.wait is not None
        self.now, self.wait = self.now + self.wait, None
        return self(Due())

    def hear(
        self, kind: Kind, lease: Lease | None = OFFERED, *, taken: bool = False, **fields: Any
    ) -> tuple[Action, ...]:
        if kind is Kind.NAK:
            lease = None
        reply = Reply(kind, self.client.xid, lease, server=fields.pop("server", SERVER))
        return self(Heard(replace(reply, **fields), taken=taken))

    @property
    def phase(self) -> Phase:
        return self.client.phase

    @property
    def asks(self) -> list[Ask]:
        return [action.ask for action in self.actions if isinstance(action, Send)]

    @property
    def ask(self) -> Ask:
        (ask,) = self.asks
        return ask


def world(phase: Phase, lease: Lease = OFFERED, seed: int = 1) -> World:
    """A world that came to a phase in the usual way."""
    it = World(seed)
    if phase is Phase.STOPPED:
        return it
    if phase is Phase.REBOOTING:
        it(Start(STORED))
        return it
    it(Start())
    if phase is Phase.SELECTING:
        return it
    if phase is Phase.INIT:
        it.hear(Kind.ACK, lease, rapid=True, taken=True)
        return it
    it.hear(Kind.OFFER, lease)
    if phase is not Phase.REQUESTING:
        it.hear(Kind.ACK, lease)
    while it.phase is not phase:
        it.due()
    return it


ASKING = [Phase.SELECTING, Phase.REQUESTING, Phase.RENEWING, Phase.REBINDING, Phase.REBOOTING]
USING = [Phase.BOUND, Phase.RENEWING, Phase.REBINDING, Phase.REBOOTING]


@pytest.mark.parametrize("phase", list(Phase))
def test_the_worlds_of_these_tests_are_what_they_say(phase: Phase) -> None:
    it = world(phase)
    assert it.phase is phase
    assert it.client.bound is (phase in USING)
    assert (it.wait is None) is (phase is Phase.STOPPED)
    assert it.client.tries == (phase in ASKING)


def test_the_usual_way() -> None:
    it = World()
    it(Start())
    assert it.actions == (Send(Ask(Kind.DISCOVER, it.client.xid)), Arm(it.wait or 0))
    xid = it.client.xid
    it.now += 2.5
    it.hear(Kind.OFFER)
    assert it.actions == (Send(Ask(Kind.REQUEST, xid, requested=ADDRESS, server=SERVER)), Arm(it.wait or 0))
    assert not it.client.bound
    it.now += 0.5
    it.hear(Kind.ACK)
    held = it.client.held
    assert it.phase is Phase.BOUND
    assert it.actions == (Bind(held), Arm(it.wait or 0))
    assert (held.address, held.server, held.seconds) == (ADDRESS, SERVER, 1000.0)
    assert (held.prefix, held.gateway) == (24, "192.0.2.1")


# RFC 2131, table 5


@pytest.mark.parametrize(
    ("phase", "fields"),
    [
        (Phase.SELECTING, {"kind": Kind.DISCOVER}),
        (Phase.REQUESTING, {"kind": Kind.REQUEST, "requested": ADDRESS, "server": SERVER}),
        (Phase.REBOOTING, {"kind": Kind.REQUEST, "requested": ADDRESS}),
        (Phase.RENEWING, {"kind": Kind.REQUEST, "client": ADDRESS}),
        (Phase.REBINDING, {"kind": Kind.REQUEST, "client": ADDRESS, "rebinding": True}),
    ],
)
def test_what_a_question_names(phase: Phase, fields: dict[str, Any]) -> None:
    it = world(phase, replace(OFFERED, seconds=8000.0))
    for _ in range(2):
        assert it.ask == Ask(xid=it.client.xid, elapsed=it.ask.elapsed, **fields)
        it.due()
        assert it.phase is phase


@pytest.mark.parametrize("phase", USING)
def test_release_names_the_address_as_its_own_and_the_server(phase: Phase) -> None:
    it = world(phase)
    it.now += 5
    it(Stop(release=True))
    assert it.actions[1:] == (Unbind(), Disarm())
    assert replace(it.ask, xid=0) == Ask(Kind.RELEASE, 0, client=ADDRESS, server=SERVER)
    assert it.client == Client()


@pytest.mark.parametrize("phase", [Phase.REQUESTING, Phase.RENEWING, Phase.REBINDING, Phase.REBOOTING])
def test_decline_names_the_address_as_requested_and_the_server(phase: Phase) -> None:
    it = world(phase)
    it.now += 5
    xid = it.client.xid
    it.hear(Kind.ACK, taken=True)
    assert it.ask == Ask(Kind.DECLINE, xid, requested=ADDRESS, server=SERVER)


def test_secs_counts_from_the_first_discover_of_an_acquisition() -> None:
    it = world(Phase.SELECTING)
    assert it.ask.elapsed == 0
    for _ in range(4):
        it.due()
        assert it.ask.elapsed == int(it.now - T0) > 0
    at = it.ask.elapsed
    it.now += 3
    it.hear(Kind.OFFER)
    # RFC 2131 3.1: as in the DISCOVER, so that relays forward both to the same servers.
    assert it.ask.elapsed == at
    it.due()
    assert it.ask.elapsed == at
    while it.phase is Phase.REQUESTING:
        it.due()
    assert it.ask.elapsed == 0


def test_secs_counts_from_the_first_request_of_a_renewal_or_reboot() -> None:
    it = world(Phase.RENEWING, replace(OFFERED, seconds=8000.0))
    began = it.now
    for phase in (Phase.RENEWING, Phase.RENEWING, Phase.REBINDING, Phase.REBINDING):
        while it.ask.elapsed == 0 or it.phase is not phase:
            it.due()
        assert it.ask.elapsed == int(it.now - began) > 0
    it = world(Phase.REBOOTING)
    it.due()
    assert it.ask.elapsed == int(it.now - T0) > 0


def test_secs_is_not_negative_when_the_clock_was_set_back() -> None:
    it = world(Phase.SELECTING)
    it.now -= 3600
    it(Due())
    assert it.ask.elapsed == 0


# Repetition


BACKOFF = [4, 8, 16, 32, 64, 64, 64]


@pytest.mark.parametrize("seed", range(20))
def test_a_discover_is_repeated_for_ever(seed: int) -> None:
    it = world(Phase.SELECTING, seed=seed)
    xid = it.client.xid
    for wait in BACKOFF:
        assert it.wait is not None
        assert wait - 1 <= it.wait <= wait + 1
        it.due()
        assert (it.phase, it.ask.kind, it.ask.xid, it.client.error) == (
            Phase.SELECTING,
            Kind.DISCOVER,
            xid,
            "no answer",
        )
    for _ in range(10_000):
        it.due()
    assert 63 <= (it.wait or 0) <= 65


def test_waits_are_uniform_over_two_seconds() -> None:
    waits = sorted(world(Phase.SELECTING, seed=seed).wait or 0 for seed in range(2000))
    assert 3.0 <= waits[0] < 3.01
    assert 4.99 < waits[-1] <= 5.0
    assert all(abs(waits[int(part * 2000)] - (3 + 2 * part)) < 0.1 for part in (0.25, 0.5, 0.75))


@pytest.mark.parametrize("seed", range(20))
def test_a_request_is_sent_four_times_and_then_all_begins_anew(seed: int) -> None:
    it = world(Phase.REQUESTING, seed=seed)
    xid, began = it.client.xid, it.now
    for wait in (4, 8, 16, 32):
        assert (it.ask.kind, it.ask.xid) == (Kind.REQUEST, xid)
        assert it.wait is not None
        assert wait - 1 <= it.wait <= wait + 1
        it.due()
    assert 56 <= it.now - began <= 64
    assert (it.phase, it.ask.kind, it.client.lease) == (Phase.SELECTING, Kind.DISCOVER, None)
    assert it.ask.xid != xid
    assert 3 <= (it.wait or 0) <= 5
    assert it.client.error == "no answer"
    assert Unbind() not in it.actions


def test_each_acquisition_and_each_renewal_has_an_xid_of_its_own() -> None:
    it = world(Phase.SELECTING)
    xids = [it.client.xid]
    it.hear(Kind.OFFER)
    it.hear(Kind.ACK)
    assert it.client.xid == xids[0]
    for _ in range(3):
        it.due()
        xids.append(it.client.xid)
    it.hear(Kind.NAK)
    xids.append(it.client.xid)
    assert len(set(xids)) == len(xids)


# T1, T2 and the end


@pytest.mark.parametrize(
    ("given", "renew", "rebind"),
    [
        ({}, 500, 875),
        ({"renew": 300.0}, 300, 875),
        ({"rebind": 600.0}, 500, 600),
        ({"renew": 100.0, "rebind": 200.0}, 100, 200),
        ({"rebind": 200.0}, 200, 200),
        ({"renew": 300.0, "rebind": 200.0}, 200, 200),
        ({"renew": 900.0}, 500, 875),
        ({"renew": 875.0}, 500, 875),
        ({"rebind": 1000.0}, 500, 875),
        ({"rebind": 5000.0, "renew": inf}, 500, 875),
        ({"rebind": -1.0, "renew": -1.0}, 500, 875),
    ],
)
def test_when_a_lease_is_renewed(given: dict[str, float], renew: float, rebind: float) -> None:
    shares = []
    for seed in range(200):
        it = world(Phase.BOUND, replace(OFFERED, **given), seed=seed)
        held = it.client.held
        shares.append(held.renew / renew)
        assert held.rebind / rebind == near(held.renew / renew)
        assert it.wait == near(held.renew)
        assert held.acquired == T0
    assert 0.95 <= min(shares) < 0.96
    assert 0.99 < max(shares) <= 1.0


def test_renewal_is_repeated_after_half_of_what_is_left_but_not_before_a_minute() -> None:
    it = world(Phase.RENEWING, replace(OFFERED, seconds=2000.0))
    held, waits = it.client.held, []
    rebind, end = held.acquired + held.rebind, held.expires()
    while it.phase is Phase.RENEWING:
        assert it.wait == near(min(rebind - it.now, max(60, (rebind - it.now) / 2)))
        waits.append(it.wait)
        it.due()
    assert len(waits) == 5
    assert it.now == near(rebind)
    assert not it.client.error
    waits.clear()
    while it.phase is Phase.REBINDING:
        assert it.wait == near(min(end - it.now, max(60, (end - it.now) / 2)))
        waits.append(it.wait)
        it.due()
    assert len(waits) == 4
    assert it.now == near(end)
    assert it.actions[0] == Unbind()
    assert (it.phase, it.ask.kind, it.client.lease) == (Phase.SELECTING, Kind.DISCOVER, None)
    assert it.client.error == "no answer"


def test_a_short_lease_is_asked_for_once_by_each_way() -> None:
    it = world(Phase.RENEWING, replace(OFFERED, seconds=10.0))
    held = it.client.held
    it.due()
    assert (it.phase, it.now) == (Phase.REBINDING, near(held.acquired + held.rebind))
    it.due()
    assert (it.phase, it.now) == (Phase.SELECTING, near(held.expires()))


@pytest.mark.parametrize("phase", [Phase.RENEWING, Phase.REBINDING])
def test_a_renewed_lease_counts_from_the_latest_request(phase: Phase) -> None:
    it = world(phase, replace(OFFERED, seconds=8000.0))
    it.due()
    asked = it.now
    it.now += 7
    it.hear(Kind.ACK, replace(OFFERED, seconds=4000.0, gateway="192.0.2.2"))
    held = it.client.held
    assert (it.phase, held.acquired, held.expires()) == (Phase.BOUND, asked, asked + 4000)
    assert it.actions == (Bind(held), Arm(it.wait or 0))
    assert it.wait == near(held.renew - 7)
    assert held.gateway == "192.0.2.2"
    it.due()
    assert (it.phase, it.ask.elapsed) == (Phase.RENEWING, 0)


def test_a_lease_counts_from_its_first_request() -> None:
    it = world(Phase.SELECTING)
    it.now += 2
    it.hear(Kind.OFFER)
    asked = it.now
    it.due()
    it.hear(Kind.ACK)
    assert it.client.held.acquired == asked == T0 + 2
    assert it.wait == near(it.client.held.renew - (it.now - asked))


def test_a_lease_acknowledged_after_t1_is_renewed_at_once() -> None:
    it = world(Phase.REQUESTING, replace(OFFERED, seconds=20.0))
    it.due()
    it.now = T0 + 12
    it.hear(Kind.ACK, replace(OFFERED, seconds=20.0))
    assert (it.phase, it.ask.client) == (Phase.RENEWING, ADDRESS)
    assert isinstance(it.actions[0], Bind)


@pytest.mark.parametrize("phase", ASKING)
@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), 4.9])
def test_a_lease_that_is_over_is_none(phase: Phase, seconds: float) -> None:
    it = world(phase)
    it.now += 5
    for kind in (Kind.OFFER, Kind.ACK):
        before = it.client
        assert it.hear(kind, replace(OFFERED, seconds=seconds), rapid=True) == ()
        assert it.client is before


def test_a_lease_for_ever_needs_no_timer() -> None:
    it = world(Phase.BOUND, replace(OFFERED, seconds=inf))
    held = it.client.held
    assert it.actions == (Bind(held), Disarm())
    assert (held.renew, held.rebind, it.client.tries) == (0.0, 0.0, 0)
    it(Due())
    assert (it.phase, it.asks) == (Phase.BOUND, [])


def test_a_timer_that_is_a_moment_early_counts_and_one_that_is_far_too_early_is_armed_again() -> None:
    it = world(Phase.BOUND)
    renew = it.client.held.acquired + it.client.held.renew
    it.now = renew - 100
    assert it(Due()) == (Arm(renew - it.now),)
    assert it.phase is Phase.BOUND
    it.now = renew - 0.001
    it(Due())
    assert it.phase is Phase.RENEWING
    it.now = it.client.held.acquired + it.client.held.rebind - 0.001
    it(Due())
    assert it.phase is Phase.REBINDING
    it.now = it.client.held.expires() - 0.001
    it(Due())
    assert it.phase is Phase.SELECTING


def test_a_timer_that_is_late_skips_what_is_over() -> None:
    for late, phase in ((900, Phase.REBINDING), (1000, Phase.SELECTING), (1e9, Phase.SELECTING)):
        it = world(Phase.BOUND)
        it.now = T0 + late
        it(Due())
        assert it.phase is phase


# Refused, declined


def test_a_refused_request_begins_anew_at_once_and_then_every_ten_seconds() -> None:
    it = world(Phase.REQUESTING)
    it.hear(Kind.NAK, text="not on this net")
    assert (it.phase, it.ask.kind, it.client.error) == (Phase.SELECTING, Kind.DISCOVER, "refused: not on this net")
    for _ in range(3):
        it.hear(Kind.OFFER)
        it.hear(Kind.NAK)
        assert (it.phase, it.actions, it.client.error) == (Phase.INIT, (Arm(10.0),), "refused")
        it.due()
        assert (it.phase, it.ask.kind, it.client.error) == (Phase.SELECTING, Kind.DISCOVER, "refused")
        assert 3 <= (it.wait or 0) <= 5
    it.hear(Kind.OFFER)
    it.hear(Kind.ACK)
    assert it.client.error == ""


@pytest.mark.parametrize("phase", [Phase.RENEWING, Phase.REBINDING, Phase.REBOOTING])
def test_a_lease_that_is_refused_is_lost_at_once(phase: Phase) -> None:
    it = world(phase)
    xid = it.client.xid
    it.hear(Kind.NAK, text="moved")
    assert it.actions == (Unbind(), Send(Ask(Kind.DISCOVER, it.client.xid)), Arm(it.wait or 0))
    assert (it.phase, it.client.lease, it.client.error) == (Phase.SELECTING, None, "refused: moved")
    assert it.client.xid != xid


@pytest.mark.parametrize("phase", [Phase.STOPPED, Phase.INIT, Phase.SELECTING, Phase.BOUND])
def test_elsewhere_a_nak_means_nothing(phase: Phase) -> None:
    it = world(phase)
    before = it.client
    assert it.hear(Kind.NAK) == ()
    assert it.client is before


def test_servers_that_refuse_discovers_at_once_are_asked_less_and_less_often() -> None:
    it = world(Phase.SELECTING)
    xids = set()
    for wait in BACKOFF:
        xids.add(it.client.xid)
        it.now += 0.5
        it.hear(Kind.NAK, rapid=True, server="", text="no free address")
        assert (it.phase, it.client.error) == (Phase.INIT, "refused: no free address")
        assert it.actions == (Arm(it.wait or 0),)
        assert wait - 1 <= (it.wait or 0) <= wait + 1
        it.due()
        assert (it.phase, it.ask.kind) == (Phase.SELECTING, Kind.DISCOVER)
        assert it.client.error == "refused: no free address"
    assert len(xids) == len(BACKOFF)
    it.due()
    assert it.client.error == "no answer"
    assert 63 <= (it.wait or 0) <= 65


@pytest.mark.parametrize("phase", [Phase.REQUESTING, Phase.RENEWING, Phase.REBINDING, Phase.REBOOTING])
def test_an_address_that_somebody_else_has_is_declined(phase: Phase) -> None:
    it = world(phase)
    bound = it.client.bound
    it.hear(Kind.ACK, taken=True)
    assert (it.actions[0] == Unbind()) is bound
    assert (len(it.asks), it.actions[-1]) == (1, Arm(10.0))
    assert (it.phase, it.client.lease, it.client.error) == (Phase.INIT, None, "address in use")
    assert not any(isinstance(action, Bind) for action in it.actions)
    it.due()
    assert (it.phase, it.ask.kind, it.ask.elapsed, it.client.error) == (
        Phase.SELECTING,
        Kind.DISCOVER,
        0,
        "address in use",
    )
    assert 3 <= (it.wait or 0) <= 5


# At once


def test_a_rapid_ack_ends_an_acquisition() -> None:
    it = world(Phase.SELECTING)
    it.due()
    asked = it.now
    it.now += 1
    it.hear(Kind.ACK, replace(OFFERED, seconds=inf, server="other"), rapid=True, server="")
    assert (it.phase, it.client.error) == (Phase.BOUND, "")
    assert it.actions == (Bind(replace(OFFERED, seconds=inf, server="", acquired=asked)), Disarm())


def test_a_rapid_ack_of_a_taken_address_is_declined() -> None:
    it = world(Phase.SELECTING)
    it.hear(Kind.ACK, rapid=True, taken=True)
    assert replace(it.ask, xid=0) == Ask(Kind.DECLINE, 0, requested=ADDRESS, server=SERVER)
    assert it.phase is Phase.INIT


def test_an_ack_that_is_not_rapid_does_not_answer_a_discover() -> None:
    it = world(Phase.SELECTING)
    before = it.client
    assert it.hear(Kind.ACK) == ()
    assert it.client is before


# INIT-REBOOT


def test_an_address_from_before_is_in_use_while_it_is_asked_for() -> None:
    it = World()
    it(Start(STORED))
    ask = Ask(Kind.REQUEST, it.client.xid, requested=ADDRESS)
    assert it.actions == (Bind(STORED), Send(ask), Arm(it.wait or 0))
    assert 3 <= (it.wait or 0) <= 5
    it.now += 1
    it.hear(Kind.ACK, server=OTHER_SERVER)
    assert (it.phase, it.client.held.server, it.client.held.acquired) == (Phase.BOUND, OTHER_SERVER, T0)


@pytest.mark.parametrize(
    ("age", "phase"), [(100, Phase.BOUND), (450, Phase.RENEWING), (600, Phase.RENEWING), (880, Phase.REBINDING)]
)
def test_in_silence_an_address_from_before_stays_with_its_times(age: float, phase: Phase) -> None:
    it = World()
    it(Start(replace(STORED, acquired=T0 - age)))
    held = it.client.held
    for _ in range(3):
        it.due()
        assert (it.phase, it.ask.requested, it.client.held) == (Phase.REBOOTING, ADDRESS, held)
    it.due()
    assert (it.phase, it.client.held, it.client.error) == (phase, held, "")
    assert 56 <= it.now - T0 <= 64
    assert not any(isinstance(action, Bind | Unbind) for action in it.actions)
    if phase is Phase.BOUND:
        assert it.now + (it.wait or 0) == near(held.acquired + held.renew)
    else:
        assert (it.ask.client, it.ask.requested, it.ask.elapsed) == (ADDRESS, "", 0)
    while it.phase is not Phase.SELECTING:
        it.due()
    assert it.now == near(held.expires())
    assert it.actions[0] == Unbind()


@pytest.mark.parametrize("left", [0.5, 3.5, 10.0, 40.0])
def test_an_address_from_before_is_not_used_past_its_end(left: float) -> None:
    it = World()
    it(Start(replace(STORED, acquired=T0 + left - STORED.seconds)))
    while it.phase is Phase.REBOOTING:
        it.due()
    assert (it.phase, it.now) == (Phase.SELECTING, near(T0 + left))
    assert it.actions[0] == Unbind()


def test_in_silence_an_address_for_ever_stays_for_ever() -> None:
    it = World()
    it(Start(replace(STORED, seconds=inf, renew=0.0, rebind=0.0)))
    while it.phase is Phase.REBOOTING:
        it.due()
    assert (it.phase, it.actions) == (Phase.BOUND, (Disarm(),))


@pytest.mark.parametrize("age", [1000.0, 1e6])
def test_a_lease_from_before_that_is_over_is_not_used(age: float) -> None:
    it = World()
    it(Start(replace(STORED, acquired=T0 - age)))
    assert (it.phase, it.ask.kind, it.client.lease) == (Phase.SELECTING, Kind.DISCOVER, None)
    assert not any(isinstance(action, Bind) for action in it.actions)


# Foreign


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("kind", [Kind.OFFER, Kind.ACK, Kind.NAK])
def test_a_reply_to_another_question_changes_nothing(phase: Phase, kind: Kind) -> None:
    it = world(phase)
    before = it.client
    for rapid in (False, True):
        assert it.hear(kind, xid=it.client.xid ^ 1, rapid=rapid) == ()
        assert it.client is before


@pytest.mark.parametrize("phase", [Phase.REQUESTING, Phase.RENEWING, Phase.REBINDING, Phase.REBOOTING])
def test_an_ack_of_another_address_changes_nothing(phase: Phase) -> None:
    it = world(phase)
    before = it.client
    for taken in (False, True):
        assert it.hear(Kind.ACK, replace(OFFERED, address=OTHER_ADDRESS), taken=taken) == ()
        assert it.client is before


@pytest.mark.parametrize("phase", ASKING)
@pytest.mark.parametrize("lease", [None, Lease("", SERVER)])
def test_a_reply_without_an_address_changes_nothing(phase: Phase, lease: Lease | None) -> None:
    it = world(phase)
    before = it.client
    for kind in (Kind.OFFER, Kind.ACK):
        assert it.hear(kind, lease, rapid=True) == ()
        assert it.client is before


@pytest.mark.parametrize("kind", [Kind.ACK, Kind.NAK])
@pytest.mark.parametrize("server", [OTHER_SERVER, ""])
def test_where_one_server_is_asked_only_that_one_answers(kind: Kind, server: str) -> None:
    for phase in (Phase.REQUESTING, Phase.RENEWING):
        it = world(phase)
        before = it.client
        assert it.hear(kind, server=server) == ()
        assert it.client is before
    for phase in (Phase.REBINDING, Phase.REBOOTING):
        it = world(phase)
        it.hear(kind, server=server)
        assert it.phase is (Phase.BOUND if kind is Kind.ACK else Phase.SELECTING)


def test_an_offer_without_a_server_changes_nothing() -> None:
    it = world(Phase.SELECTING)
    before = it.client
    assert it.hear(Kind.OFFER, server="") == ()
    assert it.client is before


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.SELECTING])
def test_a_late_offer_changes_nothing(phase: Phase) -> None:
    it = world(phase)
    before = it.client
    assert it.hear(Kind.OFFER) == ()
    assert it.client is before


@pytest.mark.parametrize("phase", [Phase.STOPPED, Phase.INIT, Phase.BOUND])
def test_an_ack_that_nobody_waits_for_changes_nothing(phase: Phase) -> None:
    it = world(phase)
    before = it.client
    assert it.hear(Kind.ACK, rapid=True) == ()
    assert it.client is before


# The link


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("release", [False, True])
def test_a_link_that_goes_down_ends_all(phase: Phase, release: bool) -> None:
    it = world(phase)
    bound = it.client.bound
    it(Stop(release=release))
    assert it.client == Client()
    assert it.wait is None
    assert it.actions[-1] == Disarm()
    assert (Unbind() in it.actions) is bound
    assert [ask.kind for ask in it.asks] == ([Kind.RELEASE] if bound and release else [])
    assert it(Due()) == ()


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("previous", [None, STORED])
def test_a_start_begins_anew_from_everywhere(phase: Phase, previous: Lease | None) -> None:
    it = world(phase)
    it.now = T0 + 1
    bound = it.client.bound
    it(Start(previous))
    assert it.phase is (Phase.REBOOTING if previous else Phase.SELECTING)
    assert (it.actions[0] == Unbind()) is bound
    assert it.actions.count(Unbind()) == bound
    assert (Bind(STORED) in it.actions) is (previous is not None)
    assert (it.client.since, it.client.tries, it.client.error) == (T0 + 1, 1, "")


def test_no_lease_is_held_where_there_is_none() -> None:
    with pytest.raises(ValueError, match="no lease while SELECTING"):
        _ = world(Phase.SELECTING).client.held
