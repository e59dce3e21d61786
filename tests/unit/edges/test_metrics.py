"""What /metrics says of the process."""

from bmcsim.edges.http.metrics import FleetCollector, Metrics, registry_of
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.dhcp.messages import Kind, Reply
from tests.leasing import HOSTS, DhcpServer, Site


def test_blocks_of_the_heap_follow_what_is_kept() -> None:
    registry = registry_of(FleetCollector(Metrics(), Fleet(), lambda: 0))

    def blocks() -> float:
        value = registry.get_sample_value("bmcsim_heap_blocks")
        assert value is not None
        return value

    before = blocks()
    kept = [f"{number}" * 2 for number in range(1000, 6000)]
    assert blocks() - before > 0.9 * len(kept)
    kept.clear()
    assert blocks() - before < 1000


def test_leases_are_counted_by_phase() -> None:
    site = Site(HOSTS, DhcpServer(["10.9.0.1", "10.9.0.2", "10.9.0.2"], window=4))
    site.advance(12)
    site.leases.heard(1, Reply(Kind.NAK, 1))
    registry = registry_of(FleetCollector(Metrics(), site.fleet, lambda: 0, leases=site.leases))
    assert registry.get_sample_value("bmcsim_dhcp_interfaces", {"phase": "BOUND"}) == 2
    assert registry.get_sample_value("bmcsim_dhcp_interfaces", {"phase": "WAITING"}) == 0
    assert sum(site.leases.phases().values()) == 9
    assert registry.get_sample_value("bmcsim_dhcp_acquisitions_total") == 2
    assert registry.get_sample_value("bmcsim_dhcp_declines_total") == 1
    assert registry.get_sample_value("bmcsim_dhcp_replies_ignored_total", {"reason": "unexpected"}) == 1
    for name in ("renewals", "naks", "expirations", "timeouts"):
        assert registry.get_sample_value(f"bmcsim_dhcp_{name}_total") is not None
