"""What the process says of itself."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from bmcsim.edges.http.metrics import registry_of
from bmcsim.edges.process import Pauses, ProcessCollector, resident_bytes


@pytest.fixture
def pauses() -> Iterator[Pauses]:
    """By a clock of which each reading is a second later."""
    ticks = iter(range(10**6))
    made = Pauses(lambda: float(next(ticks)))
    made.begin()
    yield made
    made.end()
    assert made._told not in gc.callbacks


def test_pauses_are_counted_by_generation_and_the_longest_since_the_last_scrape(pauses: Pauses) -> None:
    registry = registry_of(ProcessCollector("1.2.3", 1234.5, pauses))
    gc.collect(1)
    before = pauses.seconds[2]
    gc.collect()
    assert pauses.seconds[2] == before + 1.0
    assert registry.get_sample_value("bmcsim_gc_pause_max_seconds") == 1.0
    assert registry.get_sample_value("bmcsim_gc_pause_seconds_total", {"generation": "1"}) >= 1.0  # type: ignore[operator]


def test_what_has_one_value() -> None:
    registry = registry_of(ProcessCollector("1.2.3", 1234.5, Pauses()))
    assert registry.get_sample_value("process_start_time_seconds") == 1234.5
    memory = registry.get_sample_value("process_resident_memory_bytes")
    assert memory is not None and 10_000_000 < memory < 10_000_000_000
    family = next(iter(ProcessCollector("1.2.3", 0.0, Pauses()).collect()))
    assert [sample.labels["version"] for sample in family.samples] == ["1.2.3"]


def test_memory_is_0_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert resident_bytes() > 0
    monkeypatch.setattr("bmcsim.edges.process._STATM", tmp_path / "none")
    assert resident_bytes() == 0
