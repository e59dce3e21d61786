"""Metrics as text."""

import os

from bench.watch import parse_metrics, run_delay

TEXT = """\
# HELP bmcsim_http_requests_total Answered requests by status class.
# TYPE bmcsim_http_requests_total counter
bmcsim_http_requests_total{class="2xx"} 40.0
bmcsim_http_requests_total{class="4xx"} 2.0
bmcsim_event_loop_lag_max_seconds 1.5e-05
bmcsim_timers 7.0
"""


def test_a_metric_with_labels_is_the_sum_of_them() -> None:
    assert parse_metrics(TEXT) == {
        "bmcsim_http_requests_total": 42.0,
        "bmcsim_event_loop_lag_max_seconds": 1.5e-05,
        "bmcsim_timers": 7.0,
    }


def test_the_wait_for_a_processor_only_grows() -> None:
    first = run_delay(os.getpid())
    assert 0 <= first <= run_delay(os.getpid())
