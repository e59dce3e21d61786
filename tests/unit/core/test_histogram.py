"""Histograms."""

import pytest

from bmcsim.core.histogram import Histogram


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (1.0, 0), (1.1, 1), (2.0, 1), (2.1, 2)])
def test_a_value_that_equals_a_bound_is_below_it(value: float, bucket: int) -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(value)
    assert histogram.buckets == [int(place == bucket) for place in range(3)]
    assert histogram.sum == value
