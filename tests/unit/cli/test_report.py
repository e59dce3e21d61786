"""`bmcsim report ingestion`: from a database that is a script, and from BMCs."""

import sys
import types
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Served, run
from tests.unit.cli.programs import Programs
from tests.unit.edges.control.asking import call

START = 1_767_225_600
SUMMARY = """\
machine_interfaces: 3 in 120 s (2026-01-01T00:00:00Z to 2026-01-01T00:02:00Z)
  p50 +60 s, p90 +108 s, mean 1.5/min
machines: none
states:
  ready: 7
  ?: 2
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A database with three interfaces."""
    (tmp_path / "bin").mkdir()
    for name in ("NICO_DB", "POSTGRES_NS", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    made = Programs(tmp_path / "bin", monkeypatch)
    made.says("get pods", "pod/pg-1\n")
    made.says("FROM machine_interfaces", f"{START + 60}.000000\n{START}\n{START + 120}.5\n".replace(".5", ".0"))
    made.says("controller_state", "?\t2\nready\t7\n")
    return made


def test_the_database_is_asked_in_its_pod(programs: Programs) -> None:
    done = run("report", "ingestion", "--context", "lab", "--kubeconfig", "k.conf")
    assert (done.exit_code, done.stdout) == (0, SUMMARY)
    pods, interfaces, machines, states = programs.asked()
    cluster = ["kubectl", "--kubeconfig=k.conf", "--context=lab"]
    assert pods[:3] == cluster and pods[3:8] == ["get", "pods", "-n", "postgres", "-l"]
    assert pods[8] == "application=spilo,spilo-role=master"
    for one in (interfaces, machines, states):
        assert one[:9] == [*cluster, "exec", "-n", "postgres", "pod/pg-1", "-c", "postgres"]
        assert one[9:11] == ["--", "psql"] and one[one.index("-d") + 1] == "nico_system_nico"
        assert "ON_ERROR_STOP=1" in one and "default_transaction_read_only = on" in " ".join(one)
    assert "to_timestamp" not in " ".join(interfaces + machines)


def test_the_incumbents_variables_count(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NICO_DB", "other")
    monkeypatch.setenv("POSTGRES_NS", "pg")
    assert run("report", "ingestion", "--postgres-selector", "a=b", "--postgres-container", "c").exit_code == 0
    pods, query, *_ = programs.asked()
    assert pods[3:7] == ["-n", "pg", "-l", "a=b"]
    assert query[2:7] == ["-n", "pg", "pod/pg-1", "-c", "c"] and query[query.index("-d") + 1] == "other"


def test_psql_can_run_here(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("report", "ingestion", "--psql").stdout == SUMMARY
    assert all(one[0] == "psql" and "-U" not in one and "nico_system_nico" in one for one in programs.asked())
    monkeypatch.setenv("PGDATABASE", "mine")
    run("report", "ingestion", "--psql")
    assert "-d" not in programs.asked()[-1]


def test_since_leaves_out_what_was_before(programs: Programs) -> None:
    assert run("report", "ingestion", "--since", "2026-01-01T00:01:00Z").exit_code == 0
    assert f"t.at >= to_timestamp({START + 60}.000000)" in " ".join(programs.asked()[1])
    assert run("report", "ingestion", "--since", "6h").exit_code == 0
    wrong = run("report", "ingestion", "--since", "yesterday")
    assert wrong.exit_code == 2 and "or 90m, 6h or 2d" in wrong.stderr


def test_more_curves_and_other_queries(programs: Programs) -> None:
    programs.says("explored_endpoints", f"{START}\n")
    done = run(
        *("report", "ingestion", "--curve", "endpoints=SELECT seen FROM explored_endpoints;"),
        *("--curve", "machines=SELECT x FROM m", "--states", "SELECT controller_state, 1"),
    )
    assert "endpoints: 1 in 0 s" in done.stdout
    asked = [one[-1] for one in programs.asked()[1:]]
    assert "(\nSELECT seen FROM explored_endpoints\n) AS t(at)" in asked[2]
    assert "SELECT x FROM m" in asked[1] and asked[3] == "SELECT controller_state, 1"
    for wrong in ("a,b=SELECT 1", "a", "a="):
        assert run("report", "ingestion", "--curve", wrong).exit_code == 2


def test_files_are_written(programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run("report", "ingestion", "-o", str(tmp_path / "a/b"))
    assert (done.exit_code, done.stdout) == (0, SUMMARY)
    assert "no ingestion.png: matplotlib is not installed" in done.stderr
    files = {file.name: file.read_text() for file in (tmp_path / "a/b").iterdir()}
    assert files == {
        "summary.txt": SUMMARY,
        "per-minute.csv": "curve,minute,count,total\n"
        "machine_interfaces,2026-01-01T00:00:00Z,1,1\n"
        "machine_interfaces,2026-01-01T00:01:00Z,1,2\n"
        "machine_interfaces,2026-01-01T00:02:00Z,1,3\n",
    }
    assert run("report", "ingestion", "--csv").stdout == files["per-minute.csv"]
    (tmp_path / "file").touch()
    wrong = run("report", "ingestion", "-o", str(tmp_path / "file/below"))
    assert wrong.exit_code == 1 and "cannot write to" in wrong.stderr


def test_a_plot_has_every_curve_that_has_something(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[list[float], list[int], str]] = []

    class Axes:
        def step(self, x: list[float], y: range, *, where: str, label: str) -> None:
            steps.append((x, list(y), label))

        def __getattr__(self, name: str) -> object:
            return lambda *_arguments, **_others: None

    class Figure:
        def __init__(self, **_others: object) -> None:
            """Nothing is drawn."""

        def subplots(self) -> Axes:
            return Axes()

        def savefig(self, file: Path, dpi: int) -> None:
            file.write_bytes(b"PNG")

    module = types.ModuleType("matplotlib.figure")
    module.Figure = Figure  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib", types.ModuleType("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", module)
    assert run("report", "ingestion", "-o", str(tmp_path)).exit_code == 0
    assert steps == [([0.0, 1.0, 2.0], [1, 2, 3], "machine_interfaces")]
    assert (tmp_path / "ingestion.png").read_bytes() == b"PNG"


def test_a_real_plot_is_a_png(programs: Programs, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert run("report", "ingestion", "-o", str(tmp_path)).exit_code == 0
    assert (tmp_path / "ingestion.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("part", "out", "err", "said"),
    [
        ("get pods", "", "", "--postgres-selector names others"),
        ("get pods", "", "Unable to connect to the server", "Unable to connect"),
        ("FROM machines\n", "", 'ERROR:  relation "machines" does not exist', "does not exist"),
        ("FROM machines\n", "abc\n", "", "machines: the query gives what is no time"),
        ("FROM machines\n", "1e300\n", "", "not between 1970 and 9999"),
        ("GROUP BY", "ready\n", "", "--states: the query must give"),
    ],
)
def test_what_goes_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, out: str, err: str, said: str
) -> None:
    made = Programs(tmp_path, monkeypatch)
    made.says(part, out, err=err, code=int(bool(err)))
    made.says("get pods", "pod/pg-1\n")
    done = run("report", "ingestion")
    assert done.exit_code == 1 and said in done.stderr, done.output


def test_bmcs_say_it_where_no_database_does(served: Served, tmp_path: Path) -> None:
    site = served.site
    first, second = [bmc for bmc in site.fleet if bmc.shared.group == "beta"][:2]
    call(site, first).ask("GET", "/redfish/v1/", password=None)
    site.clock.advance(90)
    call(site, first).ask("GET", "/redfish/v1/Systems")
    call(site, second).ask("GET", "/redfish/v1/Systems")
    done = run("report", "ingestion", "--from-emulator", served.url, "-o", str(tmp_path))
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].endswith(f"2 of {len(site.fleet)} BMCs were contacted since its process started "
                             "(2026-01-01T00:00:00.000Z)")  # fmt: skip
    assert lines[1].startswith("contact: 2 in 90 s") and lines[3].startswith("login: 2 in 0 s")
    assert lines[5:7] == ["rotation: none", "reset: none"] and lines[7].startswith("exploration: 1")
    rows = (tmp_path / "bmcs.csv").read_text().splitlines()
    assert rows[0] == "id,kind,contact,login,rotation,reset,exploration"
    assert rows[1] == (f"{first.id},host,2026-01-01T00:00:00.000Z,2026-01-01T00:01:30.000Z,,,2026-01-01T00:00:00.000Z")
    later = run("report", "ingestion", "--from-emulator", served.url, "--since", "2026-01-01T00:01:00Z")
    assert later.stdout.splitlines()[1].startswith("contact: 1 in 0 s")


def test_several_processes_are_one_report(served: Served) -> None:
    bmc = next(iter(served.site.fleet))
    call(served.site, bmc).ask("GET", "/redfish/v1/", password=None)
    twice = ["--from-emulator", served.url] * 2
    assert "contact: 2 in 0 s" in run("report", "ingestion", *twice).stdout


def test_bmcs_are_asked_or_the_database(served: Served) -> None:
    wrong = run("report", "ingestion", "--from-emulator", served.url, "--psql")
    assert wrong.exit_code == 2 and "asks no database" in wrong.stderr
    away = run("report", "ingestion", "--from-emulator", "http://127.0.0.1:1")
    assert away.exit_code == 3 and "cannot reach" in away.stderr
