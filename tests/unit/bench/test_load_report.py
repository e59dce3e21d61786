"""What is made of the counts of a run."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load import report, sampler
from bench.load.clients import Rules
from bench.load.endpoints import Endpoint
from bench.load.measured import Instant, Plan, PlannedStep, Result, Row, load_results, percentile
from bench.load.report import Run
from bench.load.sampler import Sample
from bench.report import Measure


def result(name: str = "storm:30", began: float = 100.0, **others: object) -> Result:
    fields: dict[str, object] = {
        "name": name,
        "began": began,
        "ended": began + 10.5,
        "seconds": 10.0,
        "whole": True,
        "turns": 20,
        "requests": 1_000,
        "statuses": {"0": 10, "200": 990},
        "wrong": 0,
        "texts": [],
        "longest": 1.0,
        "late": 0.0,
        "workers_busy": 50.0,
        "identified": 20,
        "alike": 0,
        "rows": [],
        "total": Row.of("all", Counter({5: 1_000}), 0),
        "instants": [Instant(began + 1, 100.0, 0.0, 5.0, 9.0, [50.0])],
    }
    return Result(**{**fields, **others})  # type: ignore[arg-type]


def sample(at: float, answers: int | None, cpu: float | None = 1.0) -> Sample:
    return Sample(asked=at - 0.1, at=at, rss=50.0, cpu=cpu, lag=2.0, answers=answers)


def run(*phases: Result, samples: tuple[Sample, ...] = (), measures: tuple[Measure, ...] = ()) -> Run:
    return Run(
        at="2030-01-02T03:04:05+00:00",
        command=["python -m bench load", "<storm>"],
        machine={"cpu": "a|b", "cores": 2, "load_average": 0.1},
        endpoints=20,
        workers=1,
        proxy="",
        phases=list(phases),
        samples=list(samples),
        open_loop=list(measures),
    )


@given(st.lists(st.integers(0, 100), min_size=1), st.floats(1.0, 100.0))
def test_a_percentile_is_the_nearest_rank(values: list[int], percent: float) -> None:
    found = percentile(Counter(values), percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-9
    assert sum(value < found for value in values) < len(values) * percent / 100 + 1e-9


def test_a_percentile_of_nothing_is_0() -> None:
    assert percentile(Counter(), 99) == 0.0


def test_what_agrees_is_right() -> None:
    assert result().disagreements(20, 990) == []
    assert result().disagreements(20, None) == []


@pytest.mark.parametrize(
    ("phase", "counted", "said"),
    [
        (result(wrong=3, texts=["a", "b"]), 990, ["3 wrong", "a"]),
        (result(whole=False, turns=7), 990, ["not through: 7 of 20 BMCs"]),
        (result(requests=999), 990, ["999 requests in locust's statistics, 1,000 sent"]),
        (result(), 991, ["the server counts 991 answers, the clients 990"]),
        (result(alike=2), 990, ["2 BMCs show another one's identity"]),
    ],
)
def test_what_does_not_agree_is_told(phase: Result, counted: int, said: list[str]) -> None:
    assert phase.disagreements(20, counted) == said


def test_metrics_are_summed_over_labels() -> None:
    text = '# HELP x y\na_total{class="2xx"} 3.0\na_total{class="4xx"} 4\nb 1.5e3\nbroken\nc NaNs\n'
    assert sampler.read(text) == {"a_total": 7.0, "b": 1500.0}
    made = sampler.sample(1.0, 2.0, {"bmcsim_http_requests_total": 7.0, "process_resident_memory_bytes": 1 << 20})
    assert made == Sample(asked=1.0, at=2.0, rss=1.0, cpu=None, lag=None, answers=7)


def test_counts_are_those_of_idle_moments_on_both_sides() -> None:
    samples = [
        sample(90, 5),
        sample(99, 10),
        sample(105, 500),
        sample(110, 900),
        sample(111, 1_000),
        sample(113, 1_200),
    ]
    assert sampler.counted(samples, 95.0, 100.0, 110.5) == 990
    assert sampler.counted(samples, 99.5, 100.0, 110.5) is None  # 99 was before the phase before was over
    assert sampler.counted(samples, 95.0, 100.0, 120.0) is None
    assert sampler.counted([sample(99, None), sample(111, 5)], 95.0, 100.0, 110.5) is None


def test_a_busy_server_is_one_that_used_its_core() -> None:
    samples = [sample(99, 0, cpu=1.0), sample(105, 0, cpu=4.0), sample(111, 0, cpu=9.0)]
    assert sampler.busy(samples, 100.0, 10.0) == 80.0
    assert sampler.busy(samples[:2], 100.0, 10.0) is None


def test_the_verdict_compares_with_the_server_where_it_was_seen() -> None:
    seen = (sample(99, 10), sample(111, 1_000), sample(112, 1_000), sample(124, 1_990))
    good = run(result(), result("look:30", began=113.0), samples=seen)
    assert good.well
    assert [line[-1] for line in report.table(good)[1:]] == ["right", "right"]
    assert [line[-1] for line in report.table(run(result()))[1:]] == ["right, not counted by the server"]
    bad = run(result(), samples=(sample(99, 10), sample(111, 1_001)))
    assert not bad.well
    assert "the server counts 991 answers" in report.markdown(bad)


@pytest.mark.parametrize(
    ("name", "busy", "late", "cpu", "limit"),
    [
        ("storm:30", 95.0, 0.0, 2.0, "locust"),
        ("storm:30", 50.0, 0.0, 10.5, "the server"),
        ("storm:30", 50.0, 0.0, 2.0, "neither side"),
        ("health:64@60", 50.0, 0.1, 2.0, "its own pace"),
        ("health:64@60", 50.0, 7.0, 2.0, "neither side, 7 s late"),
        ("health:64@60", 95.0, 7.0, 2.0, "locust"),
    ],
)
def test_what_limits_a_phase(name: str, busy: float, late: float, cpu: float, limit: str) -> None:
    seen = (sample(99, 10, cpu=1.0), sample(111, 1_000, cpu=cpu))
    phase = result(name, workers_busy=busy, late=late)
    assert report.table(run(phase, samples=seen))[1][-2] == limit


def test_the_ceiling_is_what_a_whole_core_would_do() -> None:
    column = report.table(run(result()))[0].index("locust's ceiling")
    assert report.table(run(result(workers_busy=50.0)))[1][column] == "200"
    assert report.table(run(result(workers_busy=1.0)))[1][column] == ""


def test_nothing_that_a_bmc_says_is_markup() -> None:
    evil = result(wrong=1, texts=["<script>|\n"], rows=[Row.of("<b>", Counter({1: 1}), 0)])
    page = report.page(run(evil), [b"png"])
    assert "<script>" not in page
    assert "<b>" not in page
    (line,) = [line for line in report.markdown(run(evil)).splitlines() if line.startswith("| storm")]
    assert line.count("|") == len(report.table(run(evil))[0]) + 1


def test_everything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "plots", lambda _: {"latency": b"png"})
    opened = Measure("2,000 req/s: p99", 4.5, "ms", note="p50 1.0")
    written = report.save(tmp_path / "out", run(result(), measures=(opened,)))
    assert sorted(path.name for path in written) == [
        "load-20300102T030405Z-latency.png",
        "load-20300102T030405Z.html",
        "load-20300102T030405Z.json",
        "load-20300102T030405Z.md",
    ]
    assert "2,000 req/s: p99: 4.5 ms" in (tmp_path / "out" / "load-20300102T030405Z.md").read_text()
    assert msgspec.json.decode((tmp_path / "out" / "load-20300102T030405Z.json").read_bytes())["endpoints"] == 20


def test_plans_and_results_survive_their_files(tmp_path: Path) -> None:
    plan = Plan(
        steps=[PlannedStep("storm:30", "storm", 30, 0.0)],
        endpoints=[Endpoint("10.0.0.1", 443, "root", "x")],
        rules=Rules(ntp="192.0.2.1"),
        proxy="",
        workers=2,
        bind="127.0.0.1",
        port=5557,
        seconds=30.0,
        timeout=60.0,
        gap=1.0,
    )
    plan.save(tmp_path / "plan")
    assert Plan.load(tmp_path / "plan") == plan
    (tmp_path / "results").write_bytes(msgspec.json.encode([result()]))
    assert load_results(tmp_path / "results") == [result()]
