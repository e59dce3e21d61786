"""Counters of the Redfish port, and the Prometheus exposition of them. No label ever names a BMC."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from bmcsim.edges.families import by_class, histogram, labelled
from bmcsim.edges.push import Deliveries
from bmcsim.fleet.census import Census
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.journal import Journal
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.store import Store

BOUNDS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_FIRST = BOUNDS[0]


class Metrics:
    """Plain integers, cheap to add to."""

    __slots__ = (
        "buckets",
        "classes",
        "connections_closed",
        "connections_opened",
        "connections_refused",
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
        self.connections_refused = 0
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
    """Computes everything at the scrape. None: what is not there. `survey` before it keeps the loop from standing."""

    def __init__(
        self,
        metrics: Metrics,
        fleet: Fleet,
        driver: Driver,
        journal: Journal | None = None,
        deliveries: Deliveries | None = None,
        leases: Leases | None = None,
        store: Store | None = None,
    ) -> None:
        self._metrics, self._fleet, self._driver = metrics, fleet, driver
        self._journal, self._deliveries, self._leases, self._store = journal, deliveries, leases, store
        self._census: Census | None = None

    async def survey(self) -> None:
        """Look at all BMCs, a few at a time; the next scrape has what was seen."""
        census = Census()
        for _ in census.steps(self._fleet):
            await asyncio.sleep(0)
        self._census = census

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        yield from self._of_http()
        yield from self._of_loop()
        census, self._census = self._census, None
        if census is None:
            census = Census()
            census.add(self._fleet)
        yield from self._of_fleet(census)
        if self._deliveries is not None:
            yield _of_deliveries(self._deliveries)
        if self._journal is not None:
            yield from _of_journal(self._journal)
        if self._store is not None:
            yield from _of_store(self._store)
        if self._leases is not None:
            yield from _of_leases(self._leases)

    def _of_http(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield by_class("bmcsim_http_requests", "Answered requests by status class.", metrics.classes)
        yield CounterMetricFamily(
            "bmcsim_http_dropped", "Requests whose connection was closed without an answer.", value=metrics.dropped
        )
        yield CounterMetricFamily(
            "bmcsim_http_forwarded", "Requests handed to the shard that has their BMC.", value=metrics.forwarded
        )
        yield histogram(
            "bmcsim_http_request_duration_seconds",
            "From the complete request to the written answer.",
            BOUNDS,
            metrics.buckets,
            metrics.seconds,
        )
        opened, closed = metrics.connections_opened, metrics.connections_closed
        yield GaugeMetricFamily("bmcsim_http_connections", "Open connections.", value=opened - closed)
        yield CounterMetricFamily("bmcsim_http_connections_opened", "Connections accepted.", value=opened)
        yield CounterMetricFamily(
            "bmcsim_http_connections_refused",
            "Connections reset at once, because their BMC resets, has as many as it takes, or has moved away.",
            value=metrics.connections_refused,
        )
        yield GaugeMetricFamily("bmcsim_event_streams", "Open streams of server-sent events.", value=metrics.streams)
        reloads = {"used": metrics.tls_reloads, "refused": metrics.tls_refusals}
        yield labelled("bmcsim_tls_reloads", "Changed certificate files by result.", "result", reloads)

    def _of_loop(self) -> Iterator[Metric]:
        metrics, driver = self._metrics, self._driver
        yield GaugeMetricFamily("bmcsim_event_loop_lag_seconds", "How late the last loop tick was.", value=metrics.lag)
        yield GaugeMetricFamily(
            "bmcsim_event_loop_lag_max_seconds", "The latest tick since the last scrape.", value=metrics.lag_max
        )
        metrics.lag_max = 0.0
        yield GaugeMetricFamily("bmcsim_timers", "Pending timers.", value=len(driver))
        yield CounterMetricFamily("bmcsim_timers_fired", "Timers that fired.", value=driver.fired)
        yield GaugeMetricFamily(
            "bmcsim_timer_lag_seconds", "How late the first timer of the last wake-up was, real time.", value=driver.lag
        )

    def _of_fleet(self, census: Census) -> Iterator[Metric]:
        bmcs = GaugeMetricFamily("bmcsim_bmcs", "BMCs by kind and state.", labels=["kind", "power", "service"])
        for labels, count in sorted(census.states.items()):
            bmcs.add_metric(labels, count)
        yield bmcs
        yield GaugeMetricFamily("bmcsim_bmcs_expected", "BMCs of the fleet file.", value=self._fleet.expected)
        yield GaugeMetricFamily("bmcsim_ready", "1 when every BMC is there, else 0.", value=float(self._fleet.ready))
        yield GaugeMetricFamily("bmcsim_bmcs_without_address", "BMCs that wait for one.", value=self._fleet.homeless)
        yield GaugeMetricFamily("bmcsim_bmcs_with_faults", "BMCs that have fault rules.", value=census.faulty)
        yield GaugeMetricFamily("bmcsim_event_subscriptions", "Event subscriptions.", value=census.subscriptions)


def _of_deliveries(deliveries: Deliveries) -> Metric:
    return labelled(
        "bmcsim_event_deliveries",
        "Attempts to post an event that arrived or failed, and events that were given up.",
        "result",
        {result: getattr(deliveries, result) for result in ("delivered", "failed", "dropped")},
    )


def _of_journal(journal: Journal) -> Iterator[Metric]:
    yield CounterMetricFamily("bmcsim_journal_groups", "Groups of changes that were committed.", value=journal.groups)
    yield CounterMetricFamily("bmcsim_journal_rows", "Rows in committed groups.", value=journal.committed)
    yield CounterMetricFamily("bmcsim_journal_failures", "Groups that could not be written.", value=journal.failures)
    yield GaugeMetricFamily("bmcsim_journal_unsaved", "BMCs with changes not on disk yet.", value=journal.unsaved)
    writes = journal.writes
    yield histogram(
        "bmcsim_journal_write_duration_seconds",
        "From the event loop to the disk and back, for a group of changes.",
        writes.bounds,
        writes.buckets,
        writes.sum,
    )


def _of_store(store: Store) -> Iterator[Metric]:
    yield GaugeMetricFamily("bmcsim_store_size_bytes", "Size of the state on disk.", value=store.size)
    yield GaugeMetricFamily(
        "bmcsim_store_quarantined_rows", "Damaged rows set aside at the start.", value=len(store.quarantined)
    )


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
    yield labelled("bmcsim_dhcp_replies_ignored", "Replies that changed nothing, by reason.", "reason", counted.ignored)


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """A registry with the metrics of these alone."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return registry
