"""What a process takes of its machine, and the Prometheus exposition of that: memory, CPU and garbage collection.

Prometheus' own names are used where there are some. Open files are not counted: that takes longer than the event loop
may stand still where there are many.
"""

import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_GENERATIONS = 3


def resident_bytes() -> int:
    """Memory of this process, 0 where the system does not say."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0


class Pauses:
    """How long collections of garbage took, from `begin` to `end`. seconds: by generation. longest: of one of them."""

    def __init__(self, ticks: Callable[[], float] = time.perf_counter) -> None:
        self._ticks, self._began = ticks, 0.0
        self.seconds = [0.0] * _GENERATIONS
        self.longest = 0.0

    def begin(self) -> None:
        """Measure from now on."""
        gc.callbacks.append(self._told)

    def end(self) -> None:
        """Measure no more."""
        gc.callbacks.remove(self._told)

    def _told(self, phase: str, about: dict[str, Any]) -> None:
        if phase == "start":
            self._began = self._ticks()
        else:
            took = self._ticks() - self._began
            self.seconds[about["generation"]] += took
            self.longest = max(self.longest, took)


class ProcessCollector(Collector):
    """Computes everything at the scrape. started: seconds since the epoch."""

    def __init__(self, version: str, started: float, pauses: Pauses) -> None:
        self._version, self._started, self._pauses = version, started, pauses

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        build = GaugeMetricFamily("bmcsim_build_info", "1; versions are labels.", labels=["version", "python"])
        build.add_metric([self._version, platform.python_version()], 1)
        yield build
        yield GaugeMetricFamily(
            "process_start_time_seconds", "When the process started, since the epoch.", value=self._started
        )
        yield CounterMetricFamily(
            "process_cpu_seconds", "CPU time of the process, user and system.", value=time.process_time()
        )
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Memory of the process that is in RAM.", value=resident_bytes()
        )
        # Counting objects would stop the loop for as long as a collection; blocks are counted by page.
        yield GaugeMetricFamily(
            "bmcsim_heap_blocks",
            "Blocks of memory that objects have in Python's heap.",
            value=sys.getallocatedblocks(),
        )
        collections = CounterMetricFamily(
            "bmcsim_gc_collections", "Collections of garbage by generation.", labels=["generation"]
        )
        seconds = CounterMetricFamily(
            "bmcsim_gc_pause_seconds", "Time that collections of garbage took, by generation.", labels=["generation"]
        )
        for generation, stats in enumerate(gc.get_stats()):
            collections.add_metric([str(generation)], stats["collections"])
            seconds.add_metric([str(generation)], self._pauses.seconds[generation])
        yield collections
        yield seconds
        yield GaugeMetricFamily(
            "bmcsim_gc_pause_max_seconds",
            "The longest collection of garbage since the last scrape.",
            value=self._pauses.longest,
        )
        self._pauses.longest = 0.0
