"""The DHCP clients of a fleet."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bmcsim.fleet.leases import WAITING
from bmcsim.machine.actions import Readdress
from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Lease, Port, Reply, Segment
from bmcsim.machine.events import StreamWish
from bmcsim.machine.power import Event
from bmcsim.machine.state import Row, decode, encode
from tests.leasing import BY_RELAY, HOSTS, DhcpServer, Site

POOL = [f"10.9.0.{n}" for n in range(2, 200)]


def make(text: str = HOSTS, **options: Any) -> Site:
    """A fleet with an honest server that has answered everything."""
    site = Site(text, DhcpServer(POOL, **options))
    site.answer()
    return site


def test_every_interface_asks_on_its_own_segment_with_its_own_words() -> None:
    relays = 'bmc_dhcp_relay_address = "10.1.0.1"\nunderlay_dhcp_relay_address = "10.2.0.1"\n'
    text = (
        f"{BY_RELAY}[machines.a]\nhost_count = 1\ndpu_per_host_count = 1\n{relays}"
        f'[machines.b]\nhost_count = 1\n{relays}host_inband_dhcp_relay_address = "10.3.0.1"\n'
        f"[machines.c]\nhost_count = 1\ndpu_per_host_count = 2\ndpus_in_nic_mode = true\n{relays}"
        f"[machines.d]\nhw_type = 'nvidia_switch_nd5200_ld'\nhost_count = 1\n"
        f"[machines.e]\nhw_type = 'liteon_power_shelf'\nhost_count = 1\n"
    )
    site = make(text)
    asked = {(one.bmc, one.port): one for one, _ in site.server.asked}
    dell, bf, oob, pxe = "iDRAC", "NVIDIA/BF/BMC", "NVIDIA/BF/OOB", "PXEClient:Arch:00007:UNDI:003000"
    identity = {bmc.id: bmc.identity for bmc in site.fleet}
    wanted = [
        Interface("a-0", Port.BMC, identity["a-0"].bmc_mac, Segment.BMC, dell, "10.1.0.1"),
        Interface("a-0-dpu-0", Port.BMC, identity["a-0-dpu-0"].bmc_mac, Segment.BMC, bf, "10.1.0.1"),
        Interface("a-0-dpu-0", Port.OOB, identity["a-0-dpu-0"].oob_mac, Segment.UNDERLAY, oob, "10.2.0.1"),
        Interface("b-0", Port.BMC, identity["b-0"].bmc_mac, Segment.BMC, dell, "10.1.0.1"),
        Interface("b-0", Port.NIC, identity["b-0"].host_mac, Segment.INBAND, pxe, "10.3.0.1"),
        Interface("c-0", Port.BMC, identity["c-0"].bmc_mac, Segment.BMC, dell, "10.1.0.1"),
        Interface("c-0", Port.NIC, identity["c-0-dpu-0"].host_mac, Segment.INBAND, pxe, "10.2.0.1"),
        Interface("c-0-dpu-0", Port.BMC, identity["c-0-dpu-0"].bmc_mac, Segment.BMC, bf, "10.1.0.1"),
        Interface("c-0-dpu-1", Port.BMC, identity["c-0-dpu-1"].bmc_mac, Segment.BMC, bf, "10.1.0.1"),
        Interface("d-0", Port.BMC, identity["d-0"].bmc_mac, Segment.BMC),
        Interface("d-0", Port.NVOS, identity["d-0"].oob_mac, Segment.UNDERLAY),
        Interface("e-0", Port.BMC, identity["e-0"].bmc_mac, Segment.BMC),
    ]
    assert list(asked.values()) == wanted
    assert site.leases.bound == len(wanted) == len(site.leases)


def test_a_bmc_is_absent_until_its_lease_is_there_and_found_from_then_on() -> None:
    site = Site(HOSTS, DhcpServer(POOL))
    assert [site.reached(address) for address in POOL[:2]] == ["(absent)", "(absent)"]
    site.answer()
    assert {site.reached(address): address for address in site.addresses.values()} == site.addresses
    assert (len(site.addresses), site.fleet.homeless) == (6, 0)
    assert site.reached("192.0.2.99") == "(404)"


def test_the_only_bmc_of_a_fleet_is_absent_too_while_it_has_no_address() -> None:
    site = Site(f"{BY_RELAY}[machines.a]\nhost_count = 1\n", DhcpServer(POOL))
    assert site.reached("192.0.2.99") == "(absent)"
    site.answer()
    assert site.fleet.route(b"", b"anything.example", "127.0.0.1").id == "a-0"


def test_only_so_many_begin_at_once_and_the_others_wait_for_their_turn() -> None:
    site = Site(HOSTS, DhcpServer(POOL, window=2))
    assert len(site.server.asked) == 2
    assert site.leases.phases()[WAITING] == 7
    assert site.seen("a-2-dpu-0").phase == WAITING
    one, ask = site.server.inbox[0]
    assert site.leases.heard(one.mac, Reply(Kind.OFFER, ask.xid, Lease(POOL[0]), server="10.0.0.1"))
    assert sum(ask.kind is Kind.DISCOVER for _, ask in site.server.asked) == 3
    site.server.inbox.clear()
    site.server.silent = True
    site.advance(6)
    # Each that waits in vain makes room for the next one.
    assert len({(one.bmc, one.port) for one, _ in site.server.asked}) == 5
    site.server.silent = False
    site.advance(60)
    assert site.leases.bound == 9


def test_a_backend_that_answers_at_once_needs_no_deep_stack() -> None:
    class Quick(DhcpServer):
        def send(self, interface: Interface, ask: Ask) -> None:
            super().send(interface, ask)
            if hasattr(self, "site"):
                self.site.answer()

    server = Quick([f"10.9.{n // 256}.{n % 256}" for n in range(3000)], window=1)
    site = Site(f"{BY_RELAY}[machines.a]\nhost_count = 1500\n", server)
    server.site = site
    site.answer()
    assert site.leases.bound == 3000


def test_a_lease_is_renewed_and_counts_anew() -> None:
    site = make(seconds=600)
    before = site.seen("a-0").lease
    version = site.fleet.version
    site.advance(400)
    after = site.seen("a-0").lease
    assert before is not None and after is not None
    assert (after.address, site.leases.counted.renewals) == (before.address, 9)
    assert after.acquired > before.acquired
    assert site.fleet.version == version
    assert site.bmc("a-0").state.leases[Port.BMC] == after


def test_a_lease_that_ends_is_no_routing_key_any_more() -> None:
    site = make(seconds=600)
    address = site.addresses["a-0"]
    site.server.silent = True
    site.advance(599)
    assert site.reached(address) == "a-0"
    site.advance(2)
    assert (site.reached(address), site.addresses, site.leases.bound) == ("(absent)", {}, 0)
    assert site.leases.counted.expirations == 9
    assert site.bmc("a-0").state.leases == {}
    assert site.seen("a-0").error == "no answer"


def test_an_address_that_another_interface_has_is_declined() -> None:
    site = Site(HOSTS, DhcpServer([POOL[0], POOL[0], POOL[1], POOL[1], *POOL[2:]]))
    site.answer()
    assert site.leases.counted.declines == 2
    assert len(set(site.addresses.values())) == len(site.addresses)
    assert "address in use" in {seen.error for bmc in site.fleet for seen in site.leases.seen(bmc)}
    site.advance(30)
    held = [seen.lease.address for bmc in site.fleet for seen in site.leases.seen(bmc) if seen.lease]
    assert len(held) == len(set(held)) == 9


def test_an_address_that_somebody_outside_has_is_declined() -> None:
    site = Site(HOSTS, DhcpServer(POOL), probe=lambda address: address == POOL[0])
    site.advance(30)
    assert site.leases.counted.declines == 1
    assert (site.fleet.by_address(POOL[0]), site.leases.bound) == (None, 9)


def test_what_nobody_waits_for_is_counted_and_changes_nothing() -> None:
    site = make()
    before = site.states
    one, ask = site.server.asked[-1]
    foreign = Lease("10.9.9.9", seconds=60)
    assert not site.leases.heard(one.mac, Reply(Kind.ACK, ask.xid, foreign, server="10.0.0.1"))
    assert not site.leases.heard(1, Reply(Kind.ACK, ask.xid, foreign, server="10.0.0.1"))
    assert site.leases.counted.ignored == {"unexpected": 2, "unfit": 0}
    site.reset("a-0")
    site.server.silent = True
    site.advance(120)
    asking = [ask for one, ask in site.server.asked if one.bmc == "a-0"][-1]
    mac = site.bmc("a-0").identity.bmc_mac
    assert not site.leases.heard(mac, Reply(Kind.ACK, asking.xid, foreign, server="10.0.0.1"))
    assert site.leases.counted.ignored == {"unexpected": 2, "unfit": 1}
    assert {id_: state for id_, state in site.states.items() if id_ != "a-0"} == {
        id_: state for id_, state in before.items() if id_ != "a-0"
    }


def test_a_bmc_in_reset_keeps_its_address_and_says_nothing() -> None:
    site = make(seconds=60)
    address = site.addresses["a-0"]
    site.advance(10)
    site.reset("a-0")
    asked = len([1 for one, _ in site.server.asked if one.bmc == "a-0"])
    site.advance(40)
    assert site.reached(address) == "a-0"
    assert len([1 for one, _ in site.server.asked if one.bmc == "a-0"]) == asked
    site.advance(15)
    # The reset takes 90 seconds, and the lease is over before.
    assert site.reached(address) == "(absent)"
    site.advance(60)
    assert site.seen("a-0").phase == "BOUND"


def test_a_bmc_in_reset_does_not_defend_its_address() -> None:
    site = make()
    address, mac = site.addresses["a-0"], site.bmc("a-1").identity.bmc_mac
    site.reset("a-1")
    site.advance(60)
    site.reset("a-0")
    site.server.given[mac] = address
    site.advance(45)
    assert (site.reached(address), site.bmc("a-0").address) == ("a-1", "")
    assert Port.BMC not in site.bmc("a-0").state.leases


def test_a_bmc_without_mains_has_no_address_and_asks_when_it_is_back() -> None:
    site = make()
    address = site.addresses["a-0"]
    bmc = site.bmc("a-0")
    site.driver.execute(bmc, bmc.lose_mains(site.clock.now()))
    assert (site.reached(address), site.seen("a-0").phase) == ("(absent)", "STOPPED")
    site.driver.execute(bmc, bmc.regain_mains(site.clock.now()))
    site.advance(120)
    assert site.reached(address) == "a-0"


def test_interfaces_of_the_system_have_leases_while_it_runs() -> None:
    site = make()
    assert site.seen("a-0-dpu-0", Port.OOB).phase == "BOUND"
    site.power("a-0", Event.FORCE_OFF)
    off = site.seen("a-0-dpu-0", Port.OOB)
    assert (off.phase, off.lease, site.seen("a-0-dpu-0").phase) == ("STOPPED", None, "BOUND")
    site.power("a-0", Event.ON)
    site.advance(30)
    assert site.seen("a-0-dpu-0", Port.OOB).phase == "STOPPED"
    site.advance(600)
    assert site.seen("a-0-dpu-0", Port.OOB).phase == "BOUND"


@pytest.mark.parametrize("later", [0.0, 4000.0])
def test_after_a_restart_of_the_process_leases_go_on_while_they_last(later: float) -> None:
    first = make()
    addresses, states = first.addresses, first.states
    first.clock.advance(later)
    server = DhcpServer(POOL[100:], window=1)
    server.given = first.server.given
    server.silent = True
    second = Site(HOSTS, server, clock=first.clock, states=states)
    if later:
        assert (second.addresses, server.asked[0][1].kind) == ({}, Kind.DISCOVER)
        assert second.states["a-0"].leases == {}
        return
    assert (second.addresses, len(server.asked), second.leases.bound) == (addresses, 1, 9)
    asked = server.asked[0][1]
    assert (asked.kind, asked.requested, asked.server, asked.client) == (Kind.REQUEST, addresses["a-0"], "", "")
    server.silent = False
    second.advance(100)
    assert (second.addresses, second.leases.phases()["BOUND"]) == (addresses, 9)
    assert {ask.kind for _, ask in server.asked} == {Kind.REQUEST}


def test_after_a_restart_a_server_may_give_another_address() -> None:
    first = make()
    server = DhcpServer(POOL[100:])
    server.given = dict.fromkeys(first.server.given, "") | {}
    server.given.clear()
    second = Site(HOSTS, server, clock=first.clock, states=first.states)
    for mac in first.server.given:
        server.given[mac] = server.free.pop(0)
    second.advance(5)
    assert set(second.addresses.values()) <= set(POOL[100:])
    for old, id_ in zip(first.addresses.values(), first.addresses, strict=True):
        assert second.reached(old) == "(absent)"
        assert second.reached(second.addresses[id_]) == id_


def test_two_kept_leases_with_one_address_are_one() -> None:
    first = make()
    states = first.states
    states["a-1"] = msgspec.structs.replace(states["a-1"], leases=states["a-0"].leases)
    second = Site(HOSTS, first.server, clock=first.clock, states=states)
    assert "a-1" not in second.addresses
    second.answer()
    assert second.addresses == first.addresses


def test_a_lease_survives_as_a_row() -> None:
    state = make().states["a-0-dpu-0"]
    forever = msgspec.structs.replace(state, leases={Port.BMC: Lease("10.0.0.5", interface_id="7")})
    for one in (state, forever):
        assert decode(encode(Row(1, "x", one))).state.leases == one.leases


def test_a_planned_fleet_takes_no_lease_from_before() -> None:
    states = make().states
    site = Site("[machines.a]\nhost_count = 3\ndpu_per_host_count = 1\n", DhcpServer(POOL), states=states)
    assert site.server.asked == []
    assert all(bmc.state.leases == {} for bmc in site.fleet)
    assert site.addresses["a-0"] == "127.64.0.2"


def test_an_undone_change_does_not_bring_back_an_old_lease() -> None:
    site = make()
    before = site.bmc("a-0").state
    site.reset("a-0")
    site.server.free.insert(0, "10.9.1.1")
    site.server.given.pop(site.bmc("a-0").identity.bmc_mac)
    site.advance(120)
    assert site.bmc("a-0").address == "10.9.1.1"
    site.bmc("a-0").restore(before)
    site.driver.sync(site.bmc("a-0"))
    assert site.bmc("a-0").state.leases[Port.BMC].address == "10.9.1.1"


def test_streams_end_when_their_bmc_loses_its_address() -> None:
    site = make(seconds=600)
    bmc, ended = site.bmc("a-0"), list[str]()
    bmc.open_stream(StreamWish(lambda _: True, 0, "root"), "192.0.2.1:5", site.clock.now()).ended = lambda: (
        ended.append("")
    )
    site.server.silent = True
    site.advance(590)
    assert not ended
    site.advance(20)
    assert (bmc.address, ended) == ("", [""])


def test_a_bmc_in_reset_does_not_hear_what_it_asked_before() -> None:
    site = make(seconds=600)
    site.server.silent = True
    site.advance(301)
    one, ask = next((one, ask) for one, ask in site.server.asked[::-1] if (one.bmc, one.port) == ("a-0", Port.BMC))
    assert (ask.kind, site.seen("a-0").phase) == (Kind.REQUEST, "RENEWING")
    before = site.seen("a-0").lease
    site.reset("a-0")
    answer = Reply(Kind.ACK, ask.xid, Lease(site.addresses["a-0"], seconds=600), server="10.0.0.1")
    assert not site.leases.heard(one.mac, answer)
    assert site.seen("a-0").lease == before


def test_a_lease_for_ever_stays_for_the_whole_reset() -> None:
    first = make(seconds=float("inf"))
    first.server.silent = True
    site = Site(HOSTS, first.server, clock=first.clock, states=first.states)
    assert site.seen("a-0").phase == "REBOOTING"
    site.reset("a-0")
    site.advance(80)
    assert site.reached(first.addresses["a-0"]) == "a-0"


def test_who_resets_before_its_turn_asks_after_the_reset_only() -> None:
    site = Site(HOSTS, DhcpServer(POOL, window=1))
    site.server.silent = True
    assert site.seen("a-2").phase == WAITING
    site.reset("a-2")
    assert site.seen("a-2").phase == "STOPPED"
    site.advance(80)
    asked = {one.bmc for one, _ in site.server.asked}
    assert ("a-2" in asked, "a-2-dpu-0" in asked) == (False, True)
    site.advance(30)
    assert "a-2" in {one.bmc for one, _ in site.server.asked}


def test_who_goes_away_makes_room_for_the_next_one() -> None:
    site = Site(HOSTS, DhcpServer(POOL, window=1))
    assert [one.bmc for one, _ in site.server.asked] == ["a-0"]
    site.reset("a-0")
    assert [one.bmc for one, _ in site.server.asked] == ["a-0", "a-0-dpu-0"]


def move(site: Site, id_: str, address: str | None) -> None:
    """A client gives a BMC a static address, or None back to DHCP."""
    bmc = site.bmc(id_)
    static = {"Address": address, "SubnetMask": "255.255.0.0", "Gateway": "10.9.0.1"}
    changes: dict[str, Any] = {"DHCPv4": {"DHCPEnabled": address is None}}
    if address is not None:
        changes["IPv4StaticAddresses"] = [static]
    bmc.change(bmc.tree.nodes[bmc.tree.interface], changes, site.clock.now())
    bmc.committed()
    site.driver.execute(bmc, [Readdress()])


def test_a_static_address_ends_the_lease_and_outlasts_resets_and_restarts() -> None:
    site = make()
    leased = site.addresses["a-0"]
    move(site, "a-0", "10.9.1.1")
    said = site.server.asked[-1][1]
    assert (said.kind, said.client) == (Kind.RELEASE, leased)
    assert (site.reached("10.9.1.1"), site.reached(leased)) == ("a-0", "(absent)")
    site.server.asked.clear()
    site.reset("a-0")
    site.advance(200)
    second = Site(HOSTS, site.server, clock=site.clock, states=site.states)
    second.advance(10)
    assert second.reached("10.9.1.1") == "a-0"
    assert "a-0" not in {one.bmc for one, _ in site.server.asked if one.port is Port.BMC}
    move(second, "a-0", None)
    second.answer()
    assert second.addresses["a-0"] in POOL
    assert (second.reached(second.addresses["a-0"]), second.reached("10.9.1.1")) == ("a-0", "(absent)")


def test_a_static_address_is_not_given_away_during_a_reset() -> None:
    site = make()
    move(site, "a-0", "10.9.1.1")
    site.reset("a-1")
    site.advance(60)
    site.reset("a-0")
    site.server.given[site.bmc("a-1").identity.bmc_mac] = "10.9.1.1"
    site.advance(45)
    assert (site.reached("10.9.1.1"), site.leases.counted.declines) == ("a-0", 1)


def test_leases_share_what_is_alike() -> None:
    site = Site(HOSTS, DhcpServer(POOL))
    while said := site.server.answers():
        for mac, reply in said:
            if reply.lease is not None:
                own = msgspec.structs.replace(reply.lease, gateway=".".join(["10", "9", "0", "1"]))
                reply = msgspec.structs.replace(reply, lease=own)
            site.leases.heard(mac, reply)
    leases = [seen.lease for bmc in site.fleet for seen in site.leases.seen(bmc) if seen.lease]
    assert len(leases) == 9
    assert len({id(lease.gateway) for lease in leases}) == 1


def test_completeness_is_told_once() -> None:
    told: list[int] = []
    site = Site(HOSTS, DhcpServer(POOL))
    site.leases.tell_complete(lambda: told.append(site.fleet.homeless))
    assert told == []
    site.answer()
    site.reset("a-0")
    site.advance(120)
    assert told == [0]


def test_neither_scale_nor_skipping_of_the_hardwares_time_touches_leases() -> None:
    site = make(seconds=600)
    asked = len(site.server.asked)
    site.driver.skip(86400)
    site.leases.run_due()
    assert len(site.server.asked) == asked


# Several BMCs against a server that does as it pleases.

ADDRESSES = ["10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"]
SMALL = f"{BY_RELAY}[machines.a]\nhost_count = 3\n"


@dataclass
class Adversary:
    """Hears all, and says what the test wants."""

    window: int = 2
    asked: list[tuple[Interface, Ask]] = field(default_factory=list)

    def send(self, interface: Interface, ask: Ask) -> None:
        self.asked.append((interface, ask))

    async def close(self) -> None:
        return

    def answers(self) -> list[tuple[int, Reply]]:
        return []


class AdversarialServer(RuleBasedStateMachine):
    """Never two interfaces on one address; requests reach the owner only; nothing bound that was not acknowledged."""

    @initialize(window=st.integers(1, 6))
    def begin(self, window: int) -> None:
        self.site = Site(SMALL, Adversary(window))
        self.acked: set[tuple[int, str]] = set()

    def _say(self, mac: int, reply: Reply) -> None:
        if reply.kind is Kind.ACK and reply.lease is not None:
            self.acked.add((mac, reply.lease.address))
        self.site.leases.heard(mac, reply)

    @rule(
        which=st.integers(0, 50),
        kind=st.sampled_from([Kind.OFFER, Kind.ACK, Kind.NAK]),
        address=st.sampled_from(ADDRESSES),
        server=st.sampled_from(["10.0.0.1", "10.0.0.9", ""]),
        seconds=st.sampled_from([0.0, 30.0, 600.0, float("inf")]),
        rapid=st.booleans(),
        stranger=st.booleans(),
    )
    def reply(
        self, which: int, kind: Kind, address: str, server: str, seconds: float, rapid: bool, stranger: bool
    ) -> None:
        """To something that was said once, late and twice too; or to a stranger."""
        if not self.site.server.asked:
            return
        one, ask = self.site.server.asked[-1 - which % len(self.site.server.asked)]
        lease = Lease(address, server, seconds=seconds) if kind is not Kind.NAK else None
        self._say(one.mac + stranger, Reply(kind, ask.xid, lease, rapid=rapid, server=server))

    @rule(which=st.integers(0, 5), address=st.sampled_from(ADDRESSES))
    def serve(self, which: int, address: str) -> None:
        """As a server should, but with an address that others may have."""
        for kind in (Kind.OFFER, Kind.ACK):
            if self.site.server.asked:
                one, ask = self.site.server.asked[-1 - which % len(self.site.server.asked)]
                self._say(one.mac, Reply(kind, ask.xid, Lease(address, "s", seconds=600.0), server="s"))

    @rule(seconds=st.sampled_from([0.5, 5.0, 100.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.site.advance(seconds)

    @rule(which=st.integers(0, 2))
    def reset(self, which: int) -> None:
        self.site.reset(f"a-{which}")

    @rule(which=st.integers(0, 2), event=st.sampled_from([Event.FORCE_OFF, Event.ON, Event.FORCE_RESTART]))
    def power(self, which: int, event: Event) -> None:
        self.site.power(f"a-{which}", event)

    @rule()
    def restart(self) -> None:
        """The process dies and is started again."""
        self.site = Site(SMALL, self.site.server, clock=self.site.clock, states=self.site.states)

    @invariant()
    def one_owner(self) -> None:
        if not hasattr(self, "site"):
            return
        site = self.site
        held = [
            (seen.mac, seen.lease.address)
            for bmc in site.fleet
            for seen in site.leases.seen(bmc)
            if seen.lease is not None
        ]
        assert len({address for _, address in held}) == len(held) == site.leases.bound
        assert set(held) <= self.acked
        for address in ADDRESSES:
            owners = [bmc.id for bmc in site.fleet if bmc.address == address]
            assert len(owners) <= 1
            if owners:
                assert site.reached(address) == owners[0]
            else:
                assert site.reached(address) in ("(absent)", "(404)")
        for bmc in site.fleet:
            lease = bmc.state.leases.get(Port.BMC)
            assert bmc.address == (lease.address if lease is not None else "")
            assert {s.port: s.lease for s in site.leases.seen(bmc) if s.lease} == bmc.state.leases
        assert sum(site.leases.phases().values()) == 6

    @invariant()
    def nobody_is_stuck(self) -> None:
        """Whoever has no lease, and link, has a turn or a time to come."""
        if not hasattr(self, "site"):
            return
        leases = self.site.leases
        assert len(leases._pending) <= 6
        assert len(leases._beginning) <= self.site.server.window
        for holders in leases._of.values():
            for holder in holders:
                assert holder.away or holder.timer is not None or holder in leases._waiting or holder.client.bound


AdversarialServer.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestAdversarialServer = AdversarialServer.TestCase
