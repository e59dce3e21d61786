"""What /metrics says of the process."""

import asyncio

import pytest
from prometheus_client import generate_latest

from bmcsim.core.clock import ManualClock
from bmcsim.edges.http.metrics import FleetCollector, Metrics, registry_of
from bmcsim.edges.process import Pauses, ProcessCollector
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.dhcp.messages import Kind, Reply
from bmcsim.redfish.injection import preset_rules
from bmcsim.testing.build import CachingBuilder
from tests.leasing import HOSTS, DhcpServer, Site


def test_blocks_of_the_heap_follow_what_is_kept() -> None:
    registry = registry_of(ProcessCollector("1", 0.0, Pauses()))

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
    registry = registry_of(FleetCollector(Metrics(), site.fleet, Driver(site.clock), leases=site.leases))
    assert registry.get_sample_value("bmcsim_dhcp_interfaces", {"phase": "BOUND"}) == 2
    assert registry.get_sample_value("bmcsim_dhcp_interfaces", {"phase": "WAITING"}) == 0
    assert sum(site.leases.phases().values()) == 9
    assert registry.get_sample_value("bmcsim_dhcp_acquisitions_total") == 2
    assert registry.get_sample_value("bmcsim_dhcp_declines_total") == 1
    assert registry.get_sample_value("bmcsim_dhcp_replies_ignored_total", {"reason": "unexpected"}) == 1
    for name in ("renewals", "naks", "expirations", "timeouts"):
        assert registry.get_sample_value(f"bmcsim_dhcp_{name}_total") is not None


HOSTS_ALONE = "[machines.a]\nhw_type = 'dell_poweredge_r750'\nhost_count = 4500\ndpu_per_host_count = 2\n"
RACKS = f"""
[dhcp]
type = "pool"
prefix = "127.64.0.0/17"
[racks.g]
type = "wiwynn_gb200_nvl72"
ids = {[f"r{number}" for number in range(250)]}
"""


def fleet_of(text: str) -> Fleet:
    fleet, config = Fleet(), fleet_config.parse(text, "fleet.toml")
    fleet.expected = config.bmc_count
    for _ in CachingBuilder(config, Hasher(b"k" * 32), 0.0).populate(fleet):
        pass
    return fleet


@pytest.mark.parametrize(("text", "count"), [(HOSTS_ALONE, 13_500), (RACKS, 17_750)])
async def test_a_large_fleet_has_no_more_series_than_a_small_one(text: str, count: int) -> None:
    fleet = fleet_of(text)
    collector = FleetCollector(Metrics(), fleet, Driver(ManualClock()))
    await collector.survey()
    lines = [line for line in generate_latest(registry_of(collector)).decode().splitlines() if line[0] != "#"]
    assert len(lines) < 100
    assert sum(float(line.split()[1]) for line in lines if line.startswith("bmcsim_bmcs{")) == count


async def test_a_survey_gives_others_turns_and_is_used_once() -> None:
    fleet = fleet_of(HOSTS_ALONE.replace("4500", "500"))
    registry = registry_of(collector := FleetCollector(Metrics(), fleet, Driver(ManualClock())))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await collector.survey()
    task.cancel()
    assert turns >= 3
    first = next(iter(fleet))
    labels = {"kind": "host", "power": "On", "service": "Up"}
    before = registry.get_sample_value("bmcsim_bmcs", labels)
    assert before is not None
    fleet.remove(first)
    after = registry.get_sample_value("bmcsim_bmcs", labels)
    assert after == before - 1


def test_ready_and_what_is_expected() -> None:
    fleet = fleet_of(HOSTS_ALONE.replace("4500", "2"))
    registry = registry_of(FleetCollector(Metrics(), fleet, Driver(ManualClock())))
    assert registry.get_sample_value("bmcsim_ready") == 1
    fleet.ready = False
    assert registry.get_sample_value("bmcsim_ready") == 0
    assert registry.get_sample_value("bmcsim_bmcs_expected") == 6
    bmc = next(iter(fleet))
    fleet.unbind(bmc)
    assert registry.get_sample_value("bmcsim_bmcs_without_address") == 1
    assert registry.get_sample_value("bmcsim_bmcs_with_faults") == 0
    bmc.become(ManualClock().now(), faults=preset_rules("empty_etag", 0.0))
    assert registry.get_sample_value("bmcsim_bmcs_with_faults") == 1
