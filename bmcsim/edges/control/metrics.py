"""What the control plane does, for Prometheus. No label ever names a BMC."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmcsim.edges.control.context import Control
from bmcsim.edges.families import by_class, labelled


class ControlCollector(Collector):
    """Computes everything at the scrape."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        control = self._control
        yield by_class("bmcsim_control_requests", "Requests to the control API by status class.", control.answered)
        yield CounterMetricFamily(
            "bmcsim_control_changes", "Changes that were made or begun.", value=control.audit.count
        )
        yield GaugeMetricFamily("bmcsim_control_streams", "Open live streams.", value=len(control.listeners))
        tally = control.jobs.tally()
        yield GaugeMetricFamily("bmcsim_control_jobs_running", "Jobs that run.", value=tally.running)
        yield labelled("bmcsim_control_jobs", "Jobs that are over.", "state", tally.ended)
        yield labelled(
            "bmcsim_control_job_bmcs", "BMCs that jobs are through with, by outcome.", "outcome", tally.outcomes
        )
        recordings = control.recordings
        yield GaugeMetricFamily("bmcsim_control_recordings", "Recordings that run.", value=len(recordings.all()))
        yield GaugeMetricFamily("bmcsim_control_recording_bytes", "Size of what is recorded.", value=recordings.bytes)
