"""Whether a figure of a long run is flat, whatever noise is on it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_MOST = 300


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a figure may grow over the time that it is judged: the larger of a number and a share of its median."""

    number: float
    share: float = 0.0

    def of(self, median: float) -> float:
        return max(self.number, self.share * median)


@dataclass(frozen=True, slots=True)
class Trend:
    """median: of the values. growth: what the slope makes of the whole time, in their unit; allowed: at most that."""

    median: float
    growth: float
    allowed: float

    @property
    def flat(self) -> bool:
        return self.growth <= self.allowed


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes of all pairs (Theil and Sen), which a few wild values do not move; 0 without a pair."""
    step = max(1, len(times) // _MOST)
    points = list(zip(times[::step], values[::step], strict=True))
    slopes = [
        (later - value) / (then - at)
        for position, (at, value) in enumerate(points)
        for then, later in points[position + 1 :]
        if then > at
    ]
    return statistics.median(slopes) if slopes else 0.0


def judge(times: Sequence[float], values: Sequence[float], allowance: Allowance) -> Trend:
    """The trend of a figure. Raises ValueError where there is nothing to judge."""
    if len(times) < 2:
        raise ValueError(f"{len(times)} samples are no trend")
    median = statistics.median(values)
    return Trend(median, slope(times, values) * (times[-1] - times[0]), allowance.of(median))
