"""How fast a site takes machines in: curves, percentiles and tables of the times at which something happened to them.

Times are seconds since the epoch.
"""

import csv as csv_files
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

MAX_TIMES = 1_000_000
MINUTE = 60
_END = 253_402_300_800.0  # the year 10000


class CurveError(Exception):
    """What there is makes no curve; the text says why."""


class Minute(msgspec.Struct, frozen=True):
    """A minute in which something happened. start: of the minute. count: how often. total: since the beginning."""

    start: int
    count: int
    total: int


class Curve(msgspec.Struct, frozen=True):
    """When something happened. times: in order."""

    name: str
    times: tuple[float, ...]

    @property
    def span(self) -> float:
        """Seconds from the first to the last time, 0 for none."""
        return self.times[-1] - self.times[0] if self.times else 0.0

    @property
    def per_minute(self) -> float | None:
        """The mean rate over the span, None where that is 0."""
        return len(self.times) * MINUTE / self.span if self.span > 0 else None

    def after(self, share: float) -> float:
        """Seconds from the first time until a share (0 to 1) of all had happened, as PostgreSQL's percentile_cont.

        Raises CurveError without a time.
        """
        if not self.times:
            raise CurveError(f"{self.name}: has no times")
        place = share * (len(self.times) - 1)
        low = int(place)
        high = min(low + 1, len(self.times) - 1)
        return self.times[low] + (self.times[high] - self.times[low]) * (place - low) - self.times[0]

    def minutes(self) -> Iterator[Minute]:
        """The minutes in which something happened, in order."""
        done = 0
        while done < len(self.times):
            start = int(self.times[done] // MINUTE) * MINUTE
            end = done
            while end < len(self.times) and self.times[end] < start + MINUTE:
                end += 1
            yield Minute(start, end - done, end)
            done = end


def curve(name: str, times: Iterable[float], since: float | None = None) -> Curve:
    """A curve of times in any order. since: without those before. Raises CurveError."""
    given = list(times)
    if not all(0 <= time < _END for time in given):
        raise CurveError(f"{name}: has times that are not between 1970 and 9999")
    kept = sorted(time for time in given if since is None or time >= since)
    if len(kept) > MAX_TIMES:
        raise CurveError(f"{name}: has more than {MAX_TIMES} times; take less of them with --since")
    return Curve(name, tuple(kept))


def csv(curves: Sequence[Curve]) -> str:
    """A table with a row for each minute of each curve in which something happened."""
    rows = [
        f"{one.name},{stamp(minute.start)},{minute.count},{minute.total}" for one in curves for minute in one.minutes()
    ]
    return "\n".join(["curve,minute,count,total", *rows]) + "\n"


def table(rows: Sequence[Mapping[str, str | None]]) -> str:
    """Rows with the same names as a table, nothing for null; '' for no rows."""
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv_files.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def summary(curves: Sequence[Curve], counts: Mapping[str, int] | None = None, of: str = "") -> str:
    """Text for a terminal. counts: of machines by state; of: what the curves are of, '' to say nothing."""
    lines = [of] if of else []
    for one in curves:
        if not one.times:
            lines.append(f"{one.name}: none")
            continue
        rate = f"{one.per_minute:.1f}" if one.per_minute is not None else "n/a"
        first, last = stamp(one.times[0]), stamp(one.times[-1])
        lines.append(f"{one.name}: {len(one.times)} in {one.span:.0f} s ({first} to {last})")
        lines.append(f"  p50 +{one.after(0.5):.0f} s, p90 +{one.after(0.9):.0f} s, mean {rate}/min")
    if counts is not None:
        lines.append("states:")
        lines += [f"  {state}: {count}" for state, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]
    return "\n".join(lines) + "\n"


def stamp(time: float) -> str:
    """Seconds since the epoch -> 2026-01-02T03:04:05Z."""
    return datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
