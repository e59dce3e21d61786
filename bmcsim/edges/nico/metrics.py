"""What NICo's side of the fleet does, for Prometheus. No label ever names a machine."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmcsim.edges.nico.channel import Api
from bmcsim.edges.nico.dhcp import NicoDhcp
from bmcsim.edges.nico.registration import Registration, Standing


class NicoCollector(Collector):
    """Computes everything at the scrape. registration, dhcp: None where NICo is not used for it."""

    def __init__(self, api: Api, registration: Registration | None, dhcp: NicoDhcp | None) -> None:
        self._api, self._registration, self._dhcp = api, registration, dhcp

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        calls = CounterMetricFamily("bmcsim_nico_calls", "Calls by gRPC status code.", labels=["method", "code"])
        for (method, code), count in sorted(self._api.calls.items()):
            calls.add_metric([method, code], count)
        yield calls
        yield CounterMetricFamily(
            "bmcsim_nico_pauses", "Pauses that NICo asked for (RESOURCE_EXHAUSTED).", value=self._api.pace.pauses
        )
        reloads = CounterMetricFamily(
            "bmcsim_nico_tls_reloads", "Changed client certificates by result.", labels=["result"]
        )
        reloads.add_metric(["used"], self._api.reloads)
        reloads.add_metric(["refused"], self._api.refusals)
        yield reloads
        if self._registration is not None:
            states = GaugeMetricFamily(
                "bmcsim_registration",
                "Machines, switches, shelves and racks by their standing at NICo.",
                labels=["state"],
            )
            for standing in Standing:
                states.add_metric([standing.value], self._registration.standings[standing])
            yield states
        if self._dhcp is not None:
            yield GaugeMetricFamily("bmcsim_nico_dhcp_waiting", "Interfaces that wait for NICo.", value=len(self._dhcp))
            results = CounterMetricFamily(
                "bmcsim_nico_dhcp",
                "Questions for an address: answered, failed, answered without a lease or when nobody waited any more.",
                labels=["result"],
            )
            for result in ("answered", "failed", "invalid", "unwanted"):
                results.add_metric([result], getattr(self._dhcp.counts, result))
            yield results
