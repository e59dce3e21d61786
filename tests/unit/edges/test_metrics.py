"""What /metrics says of the process."""

from bmcsim.edges.http.metrics import FleetCollector, Metrics, registry_of
from bmcsim.fleet.registry import Fleet


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
