"""Prometheus metric families of plain counts."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily


def labelled(name: str, text: str, label: str, counts: Mapping[str, float]) -> CounterMetricFamily:
    """A counter with one label. counts: by its value."""
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def by_class(name: str, text: str, counts: Sequence[int]) -> CounterMetricFamily:
    """A counter of answers by status class. counts: by the first digit of the status."""
    return labelled(name, text, "class", {f"{digit}xx": counts[digit] for digit in range(1, 6)})


def histogram(
    name: str, text: str, bounds: Sequence[float], counts: Sequence[int], total: float
) -> HistogramMetricFamily:
    """A histogram. counts: one more than bounds has, for what is above the last one. total: sum of all values."""
    ends = [*map(str, bounds), "+Inf"]
    buckets = list(zip(ends, map(float, accumulate(counts)), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=total)
