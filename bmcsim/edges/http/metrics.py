"""Counters of the Redfish port, and the Prometheus exposition of them. No label ever names a BMC."""

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from bmcsim.edges.push import Deliveries
from bmcsim.fleet.journal import Journal
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.registry import Fleet

BOUNDS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_FIRST = BOUNDS[0]


class Metrics:
    """Plain integers, cheap to add to."""

    __slots__ = (
        "buckets",
        "classes",
        "connections_closed",
        "connections_opened",
        "dropped",
        "forwarded",
        "lag",
        "lag_max",
        "seconds",
        "streams",
        "tls_refusals",
        "tls_reloads",
    )

    def __init__(self) -> None:
        self.classes = [0] * 6
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.dropped = 0
        self.forwarded = 0
        self.connections_opened = 0
        self.connections_closed = 0
        self.streams = 0
        self.lag = 0.0
        self.lag_max = 0.0
        self.tls_reloads = 0
        self.tls_refusals = 0

    @property
    def bounds(self) -> tuple[float, ...]:
        """Upper ends of the buckets in seconds, without the last one, which has none."""
        return BOUNDS

    def observe(self, status: int, seconds: float) -> None:
        """One answered request. seconds: from the complete request to the written answer."""
        self.classes[status // 100] += 1
        # Most are in the first bucket.
        self.buckets[0 if seconds <= _FIRST else bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class FleetCollector(Collector):
    """Computes everything at the scrape."""

    def __init__(
        self,
        metrics: Metrics,
        fleet: Fleet,
        timers: Callable[[], int],
        journal: Journal | None = None,
        deliveries: Deliveries | None = None,
        leases: Leases | None = None,
    ) -> None:
        self._metrics, self._fleet, self._timers = metrics, fleet, timers
        self._journal, self._deliveries, self._leases = journal, deliveries, leases

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        metrics = self._metrics
        requests = CounterMetricFamily("bmcsim_http_requests", "Answered requests by status class.", labels=["class"])
        for index in range(1, 6):
            requests.add_metric([f"{index}xx"], metrics.classes[index])
        yield requests
        yield CounterMetricFamily(
            "bmcsim_http_dropped", "Requests whose connection was closed without an answer.", value=metrics.dropped
        )
        yield CounterMetricFamily(
            "bmcsim_http_forwarded", "Requests handed to the shard that has their BMC.", value=metrics.forwarded
        )
        total, buckets = 0, []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), metrics.buckets, strict=True):
            total += count
            buckets.append((bound, float(total)))
        yield HistogramMetricFamily(
            "bmcsim_http_request_duration_seconds",
            "From the complete request to the written answer.",
            buckets=buckets,
            sum_value=metrics.seconds,
        )
        opened, closed = metrics.connections_opened, metrics.connections_closed
        yield GaugeMetricFamily("bmcsim_http_connections", "Open connections.", value=opened - closed)
        yield CounterMetricFamily("bmcsim_http_connections_opened", "Connections accepted.", value=opened)
        yield GaugeMetricFamily("bmcsim_event_streams", "Open streams of server-sent events.", value=metrics.streams)
        subscriptions = sum([len(bmc.state.subscriptions) for bmc in self._fleet])
        yield GaugeMetricFamily("bmcsim_event_subscriptions", "Event subscriptions.", value=subscriptions)
        yield GaugeMetricFamily("bmcsim_event_loop_lag_seconds", "How late the last loop tick was.", value=metrics.lag)
        yield GaugeMetricFamily(
            "bmcsim_event_loop_lag_max_seconds", "The latest tick since the last scrape.", value=metrics.lag_max
        )
        metrics.lag_max = 0.0
        reloads = CounterMetricFamily("bmcsim_tls_reloads", "Changed certificate files by result.", labels=["result"])
        reloads.add_metric(["used"], metrics.tls_reloads)
        reloads.add_metric(["refused"], metrics.tls_refusals)
        yield reloads
        states = Counter((bmc.identity.kind.value, bmc.power.shown, bmc.state.service.value) for bmc in self._fleet)
        bmcs = GaugeMetricFamily("bmcsim_bmcs", "BMCs by kind and state.", labels=["kind", "power", "service"])
        for labels, count in sorted(states.items()):
            bmcs.add_metric(labels, count)
        yield bmcs
        yield GaugeMetricFamily("bmcsim_bmcs_expected", "BMCs of the fleet file.", value=self._fleet.expected)
        yield GaugeMetricFamily("bmcsim_timers", "Pending timers.", value=self._timers())
        # Counting objects would stop the loop for as long as a collection; blocks are counted by page.
        blocks = sys.getallocatedblocks()
        yield GaugeMetricFamily(
            "bmcsim_heap_blocks", "Blocks of memory that objects have in Python's heap.", value=blocks
        )
        if self._deliveries is not None:
            yield _of_deliveries(self._deliveries)
        if self._journal is not None:
            yield from _of_journal(self._journal)
        if self._leases is not None:
            yield from _of_leases(self._leases)


def _of_deliveries(deliveries: Deliveries) -> Metric:
    family = CounterMetricFamily(
        "bmcsim_event_deliveries",
        "Attempts to post an event that arrived or failed, and events that were given up.",
        labels=["result"],
    )
    for result in ("delivered", "failed", "dropped"):
        family.add_metric([result], getattr(deliveries, result))
    return family


def _of_journal(journal: Journal) -> Iterator[Metric]:
    yield CounterMetricFamily("bmcsim_journal_groups", "Groups of changes that were committed.", value=journal.groups)
    yield CounterMetricFamily("bmcsim_journal_rows", "Rows in committed groups.", value=journal.committed)
    yield CounterMetricFamily("bmcsim_journal_failures", "Groups that could not be written.", value=journal.failures)
    yield GaugeMetricFamily("bmcsim_journal_unsaved", "BMCs with changes not on disk yet.", value=journal.unsaved)


def _of_leases(leases: Leases) -> Iterator[Metric]:
    interfaces = GaugeMetricFamily("bmcsim_dhcp_interfaces", "Interfaces by phase of DHCP.", labels=["phase"])
    for phase, count in leases.phases().items():
        interfaces.add_metric([phase], count)
    yield interfaces
    counted = leases.counted
    for name, meaning in (
        ("acquisitions", "Addresses that were bound."),
        ("renewals", "Leases that were prolonged."),
        ("naks", "Refusals that clients took."),
        ("declines", "Addresses that were declined because somebody had them."),
        ("expirations", "Leases that ended."),
        ("timeouts", "Questions without an answer in time."),
    ):
        yield CounterMetricFamily(f"bmcsim_dhcp_{name}", meaning, value=getattr(counted, name))
    ignored = CounterMetricFamily(
        "bmcsim_dhcp_replies_ignored", "Replies that changed nothing, by reason.", labels=["reason"]
    )
    for reason, count in counted.ignored.items():
        ignored.add_metric([reason], count)
    yield ignored


def registry_of(collector: FleetCollector) -> CollectorRegistry:
    """A registry with the fleet's metrics alone."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry
