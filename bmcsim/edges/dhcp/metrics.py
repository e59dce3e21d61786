"""What the relay does, for Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from bmcsim.edges.dhcp.relay import IGNORED, Relayed


class RelayCollector(Collector):
    """Reads the counters at the scrape."""

    def __init__(self, counted: Relayed) -> None:
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        counted = self._counted
        sent = CounterMetricFamily(
            "bmcsim_dhcp_relay_requests",
            "Datagrams to the DHCP server, and those that could not be sent.",
            labels=["result"],
        )
        sent.add_metric(["sent"], counted.sent)
        sent.add_metric(["lost"], counted.lost)
        yield sent
        heard = CounterMetricFamily(
            "bmcsim_dhcp_relay_replies",
            "Datagrams that came: replies that somebody waited for, and others by why they are ignored.",
            labels=["result"],
        )
        heard.add_metric(["heard"], counted.heard)
        for reason in IGNORED:
            heard.add_metric([reason], counted.ignored[reason])
        yield heard
