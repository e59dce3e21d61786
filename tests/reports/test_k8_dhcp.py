"""Rows of public bug reports about leased addresses. N41 is in tests/unit/fleet/test_identities.py."""

from bmcsim.machine.dhcp.messages import Kind, Port
from bmcsim.machine.power import Event
from tests.leasing import BY_RELAY, HOSTS, DhcpServer, Site

POOL, OTHER_POOL = ([f"10.{net}.0.{n}" for n in range(2, 100)] for net in (9, 8))
FIVE_DAYS = 5 * 86400.0


def test_n36_a_server_that_was_replaced_is_found_by_a_reset_of_the_bmc() -> None:
    """N36: the server came back with no leases and another identifier. Until it rebinds a BMC keeps its address and
    works; after a reset it discovers afresh."""
    site = Site(HOSTS, DhcpServer(POOL, name="10.0.0.1", seconds=FIVE_DAYS))
    site.answer()
    before = site.addresses
    site.server.replace(OTHER_POOL, "10.0.0.77")
    site.advance(3 * 86400.0)
    # They renew with the server that is gone, which nobody else may answer.
    renewals = [ask for _, ask in site.server.asked]
    assert {(ask.kind, ask.client != "") for ask in renewals} == {(Kind.REQUEST, True)}
    assert site.seen("a-0").phase == "RENEWING"
    assert site.addresses == before
    assert all(site.reached(address) == id_ for id_, address in before.items())

    site.server.asked.clear()
    site.reset("a-0")
    site.advance(200)
    asked = [ask for one, ask in site.server.asked if one.bmc == "a-0"]
    assert [ask.kind for ask in asked] == [Kind.DISCOVER, Kind.REQUEST]
    assert (asked[0].requested, asked[0].client, asked[0].server) == ("", "", "")
    assert asked[1].server == "10.0.0.77"
    lease = site.seen("a-0").lease
    assert lease is not None
    assert (lease.server, site.reached(lease.address), site.reached(before["a-0"])) == ("10.0.0.77", "a-0", "(absent)")
    assert {id_: address for id_, address in site.addresses.items() if id_ != "a-0"} == {
        id_: address for id_, address in before.items() if id_ != "a-0"
    }


def test_n36_without_a_reset_the_end_of_the_lease_cures_it() -> None:
    """N36: from T2 on a client asks every server, and at the end of its lease it begins anew."""
    site = Site(HOSTS, DhcpServer(POOL, name="10.0.0.1", seconds=FIVE_DAYS))
    site.answer()
    site.server.replace(OTHER_POOL, "10.0.0.77")
    site.advance(FIVE_DAYS + 60)
    assert {address[:5] for address in site.addresses.values()} == {"10.8."}
    assert any(ask.rebinding for _, ask in site.server.asked)


def test_n38_the_operating_system_of_a_switch_leases_when_the_switch_is_on() -> None:
    """N38: beside its BMC the NVOS of a switch has a lease, on the underlay, and status shows its address."""
    site = Site(
        f"{BY_RELAY}[machines.s]\nhw_type = 'nvidia_switch_nd5200_ld'\nhost_count = 1\n"
        "underlay_dhcp_relay_address = '10.2.0.1'\n",
        DhcpServer(POOL),
    )
    site.answer()
    identity = site.bmc("s-0").identity
    nvos = site.seen("s-0", Port.NVOS)
    assert nvos.lease is not None
    assert (nvos.mac, nvos.phase) == (identity.oob_mac, "BOUND")
    asked = next(one for one, _ in site.server.asked if one.mac == identity.oob_mac)
    assert (asked.segment, asked.relay, asked.vendor_class) == ("underlay", "10.2.0.1", "")
    # Only the BMC answers Redfish.
    assert site.fleet.by_address(nvos.lease.address) is None

    site.power("s-0", Event.FORCE_OFF)
    assert site.seen("s-0", Port.NVOS).lease is None
    assert site.seen("s-0").phase == "BOUND"
    before = len(site.server.asked)
    site.power("s-0", Event.ON)
    site.advance(3600)
    again = site.seen("s-0", Port.NVOS)
    assert again.lease is not None
    assert [one.port for one, _ in site.server.asked[before:] if one.mac == identity.oob_mac][:2] == [Port.NVOS] * 2


def test_n40_whom_an_exhausted_pool_leaves_out_asks_less_and_less_often_and_shows_it() -> None:
    """N40: the server has nothing for the last BMCs. They back off with jitter and say that they have no lease; the
    others do not notice."""
    site = Site(f"{BY_RELAY}[machines.a]\nhost_count = 8\ndpu_per_host_count = 1\n", DhcpServer(POOL[:12], window=4))
    site.answer()
    times: dict[int, list[float]] = {}
    for _ in range(36_000):
        heard = len(site.server.asked)
        site.advance(0.1)
        for one, _ask in site.server.asked[heard:]:
            times.setdefault(one.mac, []).append(site.clock.now().mono)
    assert site.leases.bound == 12
    without = [seen for bmc in site.fleet for seen in site.leases.seen(bmc) if seen.lease is None]
    assert len(without) == 24 - 12
    assert {(seen.phase, seen.error) for seen in without} == {("SELECTING", "no answer")}
    assert site.leases.phases()["SELECTING"] == 12
    assert site.leases.counted.timeouts > 12 * 50

    lonely = {seen.mac for seen in without}
    gaps = [later - sooner for mac in lonely for sooner, later in zip(times[mac][5:], times[mac][6:], strict=False)]
    assert 62.8 < min(gaps) < 64.0 < max(gaps) < 65.2
    for bmc in site.fleet:
        if bmc.address:
            assert site.reached(bmc.address) == bmc.id

    # An address that becomes free is found without anybody's help.
    site.server.free.append("10.9.1.1")
    site.advance(66)
    assert site.leases.bound == 13
