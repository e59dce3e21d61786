"""Counts of values by how large they are."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """bounds: upper ends of the buckets, ascending, without the last one, which has none. sum: of all values."""

    __slots__ = ("bounds", "buckets", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; one that equals a bound is below it."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value
