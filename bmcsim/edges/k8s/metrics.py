"""What the controller does, for Prometheus. No label ever names a BMC."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmcsim.edges.k8s.daemon import Daemon

Key = TypeVar("Key", tuple[str], tuple[str, str])

_PREFIX = "bmcsim_controller_"


class ControllerCollector(Collector):
    """Computes everything at the scrape."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        daemon, controller = self._daemon, self._daemon.controller
        last = controller.last
        yield _gauge("leading", "Whether this controller works, and does not wait for another.", daemon.leading)
        yield _gauge("services", "Services with our label that exist.", len(controller.services.items))
        if last is not None:
            yield _gauge("services_wanted", "Services that there should be, as of the last pass.", last.wanted)
            yield _gauge("instances", "Simulators, as of the last pass.", last.instances)
            yield _gauge("errors", "What went wrong in the last pass.", last.errors)
            yield _gauge("left", "Services that the last pass left as they should not be.", last.left)
            yield _gauge("states_deferred", "Services whose states are written later.", last.deferred)
        yield _gauge("pass_seconds", "Duration of the last pass.", daemon.seconds)
        yield _gauge("last_pass_timestamp_seconds", "When the last pass ended.", daemon.ended)
        yield _gauge("sources_generation", "Generation of /v1/sources.", daemon.sources.generation)
        yield _counters("passes", "Passes by result.", ("result",), {(key,): n for key, n in daemon.passes.items()})
        yield _counters("actions", "Changes of Services by result.", ("action", "result"), controller.actions)
        yield _counters("api_calls", "Calls to the API server by status.", ("verb", "status"), daemon.api.calls)
        polls = {(key,): count for key, count in daemon.poller.results.items()}
        yield _counters("polls", "Questions to simulators by result.", ("result",), polls)
        yield CounterMetricFamily(
            f"{_PREFIX}throttled_seconds", "Time that calls waited for their turn.", value=daemon.api.bucket.throttled
        )
        lists = {("list",): controller.services.lists, ("watch",): controller.services.watches}
        yield _counters("follows", "Lists and watches of the Services that were begun.", ("kind",), lists)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)


def _counters(name: str, text: str, labels: tuple[str, ...], counts: Mapping[Key, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(_PREFIX + name, text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family
