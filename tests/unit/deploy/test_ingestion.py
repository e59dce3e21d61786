"""Curves of times: counts, percentiles and tables, against the same computed naively."""

import csv as csv_files
import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.deploy import ingestion
from bmcsim.deploy.ingestion import Curve, CurveError, curve, stamp, summary

START = 1_767_225_600  # 2026-01-01T00:00:00Z
times = st.lists(st.floats(START, START + 20_000), max_size=60)


def naive_percentile(values: list[float], share: float) -> float:
    """percentile_cont as PostgreSQL's manual has it: the row at 1 + share * (n - 1), between two of them a line."""
    ordered = sorted(values)
    row = 1 + share * (len(ordered) - 1)
    below, above = ordered[int(row) - 1], ordered[min(len(ordered), -int(-row // 1)) - 1]
    return below if int(row) == row else (int(row) + 1 - row) * below + (row - int(row)) * above


@given(times)
def test_minutes_count_everything_once_and_in_order(values: list[float]) -> None:
    minutes = list(curve("c", values).minutes())
    assert {one.start: one.count for one in minutes} == Counter(int(value // 60) * 60 for value in values)
    assert [one.start for one in minutes] == sorted({one.start for one in minutes})
    totals = [one.total for one in minutes]
    assert totals == sorted(set(totals)) and (totals[-1] if totals else 0) == len(values)


@given(times.filter(bool), st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]))
def test_percentiles_are_those_of_a_database(values: list[float], share: float) -> None:
    assert curve("c", values).after(share) == pytest.approx(naive_percentile(values, share) - min(values), abs=1e-5)


@given(times.filter(bool), st.floats(0, 1), st.floats(0, 1))
def test_percentiles_grow(values: list[float], one: float, other: float) -> None:
    made = curve("c", values)
    assert 0 <= made.after(min(one, other)) <= made.after(max(one, other)) <= made.span


@given(times, st.floats(START, START + 20_000))
def test_since_leaves_out_what_was_before(values: list[float], since: float) -> None:
    assert curve("c", values, since).times == tuple(sorted(value for value in values if value >= since))


@given(times, times)
def test_the_table_has_what_the_curves_have(first: list[float], second: list[float]) -> None:
    rows = list(csv_files.DictReader(io.StringIO(ingestion.csv([curve("a", first), curve("b", second)]))))
    assert all(row["minute"].endswith(":00Z") for row in rows)
    for name, values in (("a", first), ("b", second)):
        assert sum(int(row["count"]) for row in rows if row["curve"] == name) == len(values)


def test_a_summary() -> None:
    made = curve("machines", [START + 60 * minute for minute in range(11)])
    assert summary([made, Curve("none", ()), curve("one", [START])], {"ready": 2, "bad": 2, "init": 9}, "of: x") == (
        "of: x\n"
        "machines: 11 in 600 s (2026-01-01T00:00:00Z to 2026-01-01T00:10:00Z)\n"
        "  p50 +300 s, p90 +540 s, mean 1.1/min\n"
        "none: none\n"
        "one: 1 in 0 s (2026-01-01T00:00:00Z to 2026-01-01T00:00:00Z)\n"
        "  p50 +0 s, p90 +0 s, mean n/a/min\n"
        "states:\n"
        "  init: 9\n"
        "  bad: 2\n"
        "  ready: 2\n"
    )


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0, 1e12])
def test_what_is_no_time_is_refused(wrong: float) -> None:
    with pytest.raises(CurveError, match="c: has times that are not between 1970 and 9999"):
        curve("c", [START, wrong])


def test_too_many_times_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "MAX_TIMES", 2)
    assert len(curve("c", [START] * 3, START + 1).times) == 0
    with pytest.raises(CurveError, match="--since"):
        curve("c", [START] * 3)


def test_an_empty_curve_has_no_percentile() -> None:
    with pytest.raises(CurveError, match="has no times"):
        Curve("c", ()).after(0.5)
    assert Curve("c", ()).span == 0


def test_tables_of_rows() -> None:
    assert ingestion.table([{"id": 'a,"b"', "at": None}, {"id": "c", "at": stamp(START)}]) == (
        'id,at\n"a,""b""",\nc,2026-01-01T00:00:00Z\n'
    )
    assert ingestion.table([]) == ""
