"""The page of all results: it is what the stored results give, and hides nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import page
from bench.load import report as load_report
from bench.page import Results, Run, collect, command_of, decoded, encoded, markdown, readme_table, replaced
from bench.report import Bar, Measure
from tests.unit.bench.test_load_report import result
from tests.unit.bench.test_load_report import run as load_run

ROOT = Path(__file__).parents[3]
MACHINE: dict[str, Any] = {"cpu": "Fast|One", "cores": 2, "memory": "2097152 kB", "python": "3.11.7", "libraries": {}}
READY = Measure("start to all ready", 0.5, "s", Bar("<", 3.0), [0.4, 0.5])


def saved(
    out: Path,
    name: str,
    measures: Sequence[Measure],
    *words: str,
    at: str = "20300102T030405Z",
    python: str = "3.11.7",
    **settings: object,
) -> None:
    run = {
        "at": f"{at[:4]}-{at[4:6]}-{at[6:8]}T{at[9:11]}:00:00+00:00",
        "command": words or [name],
        "machine": {**MACHINE, "python": python, "load_average": [0.25, 0, 0], "revision": "0123456789abcdef-dirty"},
        "settings": {"hosts": 4500, "dpus": 2, "bmcs": 13500, **settings},
        "measures": measures,
    }
    (out / f"{name}-{at}.json").write_bytes(orjson.dumps(run))


def line(text: str, start: str) -> str:
    (found,) = [one for one in text.splitlines() if one.startswith(start)]
    return found


def scaled(out: Path, name: str, bmcs: int, **values: float) -> None:
    measures = [
        Measure("BMCs", bmcs, ""),
        *(Measure(key.replace("_", " "), value, "") for key, value in values.items()),
    ]
    saved(out, f"scale-{name}", measures)


def test_the_page_is_what_the_stored_results_give() -> None:
    stored = (ROOT / "docs/benchmarks.json").read_bytes()
    results = decoded(stored)
    assert encoded(results) == stored
    assert (ROOT / "docs/benchmarks.md").read_text() == markdown(results)
    readme = (ROOT / "README.md").read_text()
    assert readme == replaced(readme, readme_table(results))
    assert results.plots == sorted(path.name for path in (ROOT / "docs/benchmarks").glob("*.png"))
    assert all((ROOT / "docs/benchmarks" / name).stat().st_size < 200_000 for name in results.plots)


def test_the_newest_run_that_was_meant_counts(tmp_path: Path) -> None:
    saved(tmp_path, "density", [READY], at="20300102T030405Z")
    saved(tmp_path, "density", [Measure("new", 1, "s")], at="20300103T030405Z")
    saved(tmp_path, "density", [Measure("quick", 1, "s")], at="20300104T030405Z", quick=True)
    saved(tmp_path, "density", [Measure("old quick", 1, "s")], "density", "--quick", at="20300105T030405Z")
    assert [one.name for one in collect(tmp_path).runs["density"].measures] == ["new"]


def test_a_machine_on_which_nothing_was_measured_any_more_is_not_shown(tmp_path: Path) -> None:
    saved(tmp_path, "density", [READY], at="20300102T030405Z", python="3.11.2")
    saved(tmp_path, "storm", [READY], at="20300102T030405Z", python="3.12.1")
    saved(tmp_path, "density", [READY], at="20300103T030405Z", python="3.13.0")
    results = collect(tmp_path)
    assert [machine["python"] for machine in results.machines] == ["3.13.0", "3.12.1"]
    assert [results.runs[bench].machine for bench in ("density", "storm")] == [0, 1]
    assert "## Machine 3" not in markdown(results)


def test_what_was_collected_before_stays_until_something_newer_comes(tmp_path: Path) -> None:
    saved(tmp_path, "density", [READY], at="20300102T030405Z")
    before = decoded(encoded(collect(tmp_path)))
    assert collect(tmp_path / "none", before) == before
    saved(tmp_path, "density", [Measure("older", 1, "s")], at="20290102T030405Z")
    (tmp_path / "density-20300102T030405Z.json").unlink()
    assert collect(tmp_path, before) == before
    assert [one.name for one in collect(tmp_path).runs["density"].measures] == ["older"]


def test_missed_bars_voids_and_what_is_missing_are_shown(tmp_path: Path) -> None:
    measures = [
        Measure("start to all ready", 4.0, "s", Bar("<", 3.0)),
        Measure("memory per BMC", 1.0, "KiB", Bar("<", 4.0), note="a|b", void="the server <died>"),
        Measure("CPU while idle", float("inf"), "%", Bar("<", 1.0)),
    ]
    saved(tmp_path, "density", measures)
    results = collect(tmp_path)
    text = markdown(results)
    assert line(text, "| start to all ready") == "| start to all ready | < 3 | 4 s | MISS |  |"
    assert line(text, "| memory per BMC") == "| memory per BMC | < 4 | 1 KiB | VOID | the server &lt;died>; a/b |"
    assert line(text, "| CPU while idle") == "| CPU while idle | < 1 | - | VOID | no answer |"
    assert line(text, "| `density`") == "| `density` |  | 1 | 2 | 2030-01-02 |"
    assert "Not measured: `python -m bench soak`." in text
    assert "| `stages-1x1` |  |  |  | not measured |" in text
    table = readme_table(results)
    assert line(table, "| process start") == (
        "| process start to listening / all ready | not measured / 4.0 s | / < 3 s, MISS |"
    )
    assert "| memory per BMC | VOID | < 4 KiB |" in table


def test_the_stages_stand_side_by_side(tmp_path: Path) -> None:
    saved(tmp_path, "stages-1x1", [Measure("BMCs", 2, ""), READY])
    saved(tmp_path, "stages-100x2", [Measure("BMCs", 300, ""), Measure("read", 0, "", void="it died")])
    text = markdown(collect(tmp_path))
    assert line(text, "|  | 1x1 |") == "|  | 1x1 | 100x2 | 1000x2 | 4500x2 | 4500x2-gb200 | 250racks |"
    assert line(text, "| start to all ready") == (
        "| start to all ready | 0.50 s PASS |  | not measured | not measured | not measured | not measured |"
    )
    assert "- 100x2, read: it died." in text
    assert "`python -m bench stages --stage 100x2`, 2030-01-02, revision 0123456789-dirty" in text


def test_the_peers_have_a_row_each(tmp_path: Path) -> None:
    names = ("mine: start", "mine: memory per BMC", "it: x: start")
    measures = [Measure(name, 1.5, "s", note="n") for name in names]
    saved(tmp_path, "peers", [*measures, Measure("requests, bmcsim / sushy-tools", 34, "x", Bar(">=", 50))])
    text = markdown(collect(tmp_path))
    assert "|  | start | memory per BMC |  |" in text
    assert "| mine | 1.50 s | 1.50 s | n |" in text
    assert "| it: x | 1.50 s |  | n |" in text
    assert "| requests, bmcsim / sushy-tools | >= 50 | 34 x | MISS |  |" in text


def test_the_verdict_on_linearity_is_that_of_all_sizes(tmp_path: Path) -> None:
    saved(tmp_path, "scale", [Measure("stale", 1, "")])
    base = {"one_host:_memory_when_ready": 50.0}
    scaled(tmp_path, "3000", 3_000, memory_when_ready=53.0, throughput=100.0, **base)
    scaled(tmp_path, "13500", 13_500, memory_when_ready=90.5, throughput=50.0, **base)
    text = markdown(collect(tmp_path))
    assert line(text, "| memory per BMC when ready, 13,500 / 3,000").split(" | ")[1:4] == ["< 2", "3.00 x", "MISS"]
    assert line(text, "| throughput, 3,000 / 13,500").split(" | ")[1:4] == ["< 1.50", "2 x", "MISS"]
    assert "stale" not in text


def test_the_load_of_both_modes_is_the_newest_of_each_phase(tmp_path: Path) -> None:
    machine = {**MACHINE, "load_average": (0.1, 0, 0), "revision": "abc"}
    runs = [
        load_run(result("storm:30"), result("look:30")),
        msgspec.structs.replace(load_run(result("storm:30", turns=99)), at="2030-01-03T00:00:00+00:00"),
        msgspec.structs.replace(load_run(result("small")), endpoints=1, at="2030-01-04T00:00:00+00:00"),
        msgspec.structs.replace(load_run(result("health:64@60")), proxy="127.0.0.1:1"),
    ]
    for number, run in enumerate(runs):
        content = msgspec.json.encode(msgspec.structs.replace(run, machine=machine), enc_hook=str)
        (tmp_path / f"load-2030010{number}T030405Z.json").write_bytes(content)
    results = collect(tmp_path)
    assert list(results.load["direct"].rows) == ["look:30", "storm:30"]
    assert results.load["direct"].rows["storm:30"][2] == "99"
    assert list(results.load["proxy"].rows) == ["health:64@60"]
    assert line(markdown(results), "| storm:30").count("|") == len(load_report.table(runs[0])[0]) + 1
    assert markdown(results).index("| storm:30") < markdown(results).index("| look:30")
    assert markdown(decoded(encoded(results))) == markdown(results)


def test_a_file_that_is_no_result_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path, "density", [READY])
    (tmp_path / "racks-20300102T030405Z.json").write_text("{")
    (tmp_path / "storm-20300102T030405Z.json").write_text("[]")
    (tmp_path / "load-20300102T030405Z.json").write_text("{}")
    assert list(collect(tmp_path).runs) == ["density"]
    said = capsys.readouterr().err
    assert all(name in said for name in ("racks-2030", "storm-2030", "load-2030"))


@pytest.mark.parametrize(
    ("bench", "words", "command"),
    [
        ("density", ["all", "--out", "x"], "density"),
        ("density", [], "density"),
        ("density", ["density", "--rotate", "--out=all"], "density --rotate"),
        ("stages-1x1", ["stages", "--seconds", "3"], "stages --stage 1x1 --seconds 3"),
        ("stages-1x1", ["stages", "--stage", "1x1"], "stages --stage 1x1"),
        ("scale-3000", ["scale", "--size=3000", "--rounds", "5"], "scale --size 3000 --rounds 5"),
        ("peers", ["peers", "--peer", "a b=c {port}"], "peers --peer 'a b=c {port}'"),
    ],
)
def test_the_command_repeats_one_bench(bench: str, words: list[str], command: str) -> None:
    assert command_of(bench, words) == f"python -m bench {command}"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_results_survive_their_file(value: float) -> None:
    run = Run("2030", ["x"], 0, "r", 0.5, (1, 2, 3), 4, [Measure("a", value, "s", Bar("<", 1.0), [value], "n", "v")])
    results = Results([MACHINE], {"density": run}, {}, ["a.png"])
    assert decoded(encoded(results)) == results
    assert encoded(decoded(encoded(results))) == encoded(results)


@pytest.mark.parametrize("text", ["", "<!-- bench:begin -->", "<!-- bench:end --> <!-- bench:begin -->"])
def test_a_readme_without_markers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must have <!-- bench:begin --> once"):
        replaced(text, "x")


def test_nothing_is_written_where_something_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("no markers")
    words = [f"--out={tmp_path}", f"--docs={tmp_path}", f"--readme={tmp_path / 'README.md'}"]
    assert page.main(words) == 2
    assert "bench:begin" in capsys.readouterr().err
    assert not (tmp_path / "benchmarks.md").exists()
