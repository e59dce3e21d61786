"""docs/benchmarks.md and the table of README.md, made from what the benches found.

The JSON files of runs are not kept in the repository. What the page shows of them is, in docs/benchmarks.json: one run
of each bench, the newest one that was no quick try. What was not run, and what a run could not measure, is said.
"""

import argparse
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from bench import plot, scale, stages
from bench.load import report as load_report
from bench.load.phases import PHASES
from bench.report import Bar, Measure, number

_ROOT = Path(__file__).parents[1]
_FILE = re.compile(r"(?P<bench>[a-z0-9-]+)-\d{8}T\d{6}Z\.json")
_TAG = re.compile(r"<(?=[A-Za-z/!])")
_BEGIN, _END = "<!-- bench:begin -->", "<!-- bench:end -->"
_MOST_PLOT = 200_000
_PLOTS = "benchmarks"
_DIGITS = 5

_TITLES = {
    "density": "What a BMC costs when nobody asks for it",
    "racks": "Whole racks",
    "idle": "A kept connection to every BMC",
    "throughput": "Requests per second, R750",
    "gb200": "Requests per second, GB200",
    "openloop": "Latency at a rate",
    "connections": "New connections",
    "storm": "Discovery storm",
    "expand": "$expand beside single GETs",
    "streams": "Streams of events",
    "lifecycle": "First login, rotation, reset of all, restore",
    "restart": "Cold start and kill -9 under exploration",
    "soak": "Soak with chaos",
    "shards": "Several processes",
    "status": "Status of all machines",
    "dhcp": "Addresses",
}
"""Benches with a table of their own, in the order of the page."""

_INCUMBENT_MIB = 15 * 1024
_INCUMBENT_CORES = 2
_INCUMBENT_RACKS = 250
_INCUMBENT_BMCS = 17_750
_INCUMBENT_RATIO = Bar(">=", 100.0)


class Run(msgspec.Struct, frozen=True):
    """One run of a bench. command: its words after `python -m bench`. machine: its place in the list of machines.

    fleet: hosts, DPUs of each and BMCs in its settings; racks: those of benches of racks. busy: load average when it
    began.
    """

    at: str
    command: list[str]
    machine: int
    revision: str
    busy: float
    fleet: tuple[int, int, int]
    racks: int
    measures: list[Measure]


class Load(msgspec.Struct, frozen=True):
    """What phases of `bench load` found in one mode: cells of the table by phase, and open-loop percentiles."""

    at: str
    commands: list[str]
    machine: int
    revision: str
    endpoints: int
    workers: int
    head: list[str]
    rows: dict[str, list[str]]
    open_loop: list[Measure]


class Results(msgspec.Struct):
    """All that the page is made of. plots: files in docs/benchmarks. load: by mode, `direct` or `proxy`."""

    machines: list[dict[str, Any]] = []
    runs: dict[str, Run] = {}
    load: dict[str, Load] = {}
    plots: list[str] = []


def main(arguments: Sequence[str]) -> int:
    """Write the pages; 2 when it cannot be done."""
    options = _parse(arguments)
    docs: Path = options.docs
    try:
        results = collect(options.out, None if options.fresh else _stored(docs / "benchmarks.json"))
        readme: Path = options.readme
        written = replaced(readme.read_text(), readme_table(results))
        _draw(results, options.out, docs / _PLOTS)
    except (OSError, ValueError) as error:
        print(f"page: {error}", file=sys.stderr)
        return 2
    (docs / "benchmarks.json").write_bytes(encoded(results))
    (docs / "benchmarks.md").write_text(markdown(results))
    readme.write_text(written)
    print(f"{docs / 'benchmarks.md'}: {len(results.runs)} runs")
    for bench in _missing(results):
        print(f"not measured: {bench}", file=sys.stderr)
    return 0


# What was found


def collect(directory: Path, before: Results | None = None) -> Results:
    """The newest whole run of each bench among the JSON files in `directory` and what was collected before.

    A file that cannot be read is named on standard error and left out.
    """
    results = Results()
    loads: list[_LoadRun] = []
    for bench, run in sorted((before.runs if before else {}).items()):
        _keep(results, bench, msgspec.structs.replace(run, machine=_machine(results, _old_machine(before, run))))
    for path in sorted(directory.glob("*.json")):
        named = _FILE.fullmatch(path.name)
        if named is None or named["bench"] == "scale":  # which is judged anew from its parts
            continue
        try:
            if named["bench"] == "load":
                loads.append(_load_run(orjson.loads(path.read_bytes())))
            else:
                _keep_raw(results, named["bench"], orjson.loads(path.read_bytes()))
        except (ValueError, KeyError, TypeError) as error:
            print(f"{path}: left out, as it is no result: {error}", file=sys.stderr)
    for mode, old in (before.load if before else {}).items():
        results.load[mode] = msgspec.structs.replace(old, machine=_machine(results, _old_machine(before, old)))
    for mode in ("direct", "proxy"):
        runs = [one for one in loads if bool(one.run.proxy) == (mode == "proxy")]
        if runs:
            results.load[mode] = _load(results, runs)
    results.plots = list(before.plots) if before else []
    _forget_unused(results)
    return results


def _forget_unused(results: Results) -> None:
    """Only machines stay that something was measured on."""
    runs, loads = results.runs, results.load
    used = sorted({run.machine for run in runs.values()} | {load.machine for load in loads.values()})
    results.runs = {bench: msgspec.structs.replace(run, machine=used.index(run.machine)) for bench, run in runs.items()}
    results.load = {
        mode: msgspec.structs.replace(load, machine=used.index(load.machine)) for mode, load in loads.items()
    }
    results.machines = [results.machines[place] for place in used]


def _keep_raw(results: Results, bench: str, raw: Mapping[str, Any]) -> None:
    settings = raw["settings"]
    if settings.get("quick") or "--quick" in raw["command"]:
        return
    machine = dict(raw["machine"])
    busy, revision = machine.pop("load_average")[0], machine.pop("revision")
    fleet = (settings["hosts"], settings["dpus"], settings["bmcs"])
    measures = [_measure(one) for one in raw["measures"]]
    place = _machine(results, machine)
    racks = settings.get("racks", _INCUMBENT_RACKS)
    _keep(results, bench, Run(raw["at"], raw["command"], place, revision, round(busy, 1), fleet, racks, measures))


def _keep(results: Results, bench: str, run: Run) -> None:
    known = results.runs.get(bench)
    if known is None or known.at <= run.at:
        results.runs[bench] = run


def _measure(raw: Mapping[str, Any]) -> Measure:
    """A value that is no number, such as an infinite latency, is void."""
    value, bar, void = raw["value"], raw["bar"], raw["void"]
    if value is None:
        value, void = 0.0, void or "no answer"
    return Measure(
        name=raw["name"],
        value=_rounded(value),
        unit=raw["unit"],
        bar=Bar(bar["kind"], float(bar["limit"])) if bar else None,
        samples=[_rounded(one) for one in raw["samples"] if one is not None],
        note=raw["note"],
        void=void,
    )


def _rounded(value: float) -> float:
    """Without digits that say nothing."""
    return float(f"{value:.{_DIGITS}g}" if abs(value) < 10**_DIGITS else round(value))


def _machine(results: Results, machine: dict[str, Any]) -> int:
    if machine not in results.machines:
        results.machines.append(machine)
    return results.machines.index(machine)


def _old_machine(before: Results | None, run: Run | Load) -> dict[str, Any]:
    return before.machines[run.machine] if before else {}


class _LoadRun(NamedTuple):
    run: load_report.Run
    table: Sequence[Sequence[str]]
    open_loop: list[Measure]


def _load_run(raw: dict[str, Any]) -> _LoadRun:
    open_loop = [_measure(one) for one in raw.pop("open_loop")]
    run = msgspec.convert({**raw, "open_loop": []}, load_report.Run)
    return _LoadRun(run, load_report.table(run), open_loop)


def _load(results: Results, runs: Sequence[_LoadRun]) -> Load:
    """The newest of each phase, of the runs with the most BMCs."""
    most = max(one.run.endpoints for one in runs)
    full = sorted((one for one in runs if one.run.endpoints == most), key=lambda one: one.run.at)
    rows: dict[str, list[str]] = {}
    for one in full:
        for cells in one.table[1:]:
            rows.pop(cells[0], None)
            rows[cells[0]] = list(cells)
    newest = full[-1].run
    machine = dict(newest.machine)
    machine.pop("load_average", None)
    commands = [" ".join([*one.run.command, *(["--proxy"] if one.run.proxy else [])]) for one in full]
    return Load(
        at=newest.at,
        commands=list(dict.fromkeys(commands)),
        revision=str(machine.pop("revision", "")),
        machine=_machine(results, machine),
        endpoints=most,
        workers=newest.workers,
        head=list(full[-1].table[0]),
        rows=rows,
        open_loop=list({measure.name: measure for one in full for measure in one.open_loop}.values()),
    )


def encoded(results: Results) -> bytes:
    """JSON with one line for each measure, in an order that does not depend on anything else."""
    return _spread(msgspec.to_builtins(results), 4).encode() + b"\n"


def _spread(value: Any, depth: int) -> str:
    if depth and isinstance(value, dict) and value:
        inner = ",\n".join(f"{orjson.dumps(key).decode()}: {_spread(value[key], depth - 1)}" for key in sorted(value))
        return f"{{\n{inner}\n}}"
    if depth and isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(orjson.dumps(one, option=orjson.OPT_SORT_KEYS).decode() for one in value) + "\n]"
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def decoded(data: bytes) -> Results:
    """The reverse of `encoded`. Raises ValueError for anything else."""
    return msgspec.json.decode(data, type=Results)


def _stored(path: Path) -> Results | None:
    return decoded(path.read_bytes()) if path.exists() else None


def _draw(results: Results, out: Path, docs: Path) -> None:
    """Plots into docs: that of `scale` anew, those of the newest `load` as they are."""
    docs.mkdir(parents=True, exist_ok=True)
    parts = _scale(results)
    if len(parts) > 1 and not scale.draw(docs / "scale.png", parts):
        print(plot.MISSING, file=sys.stderr)
    for mode, load in results.load.items():
        stem = "load-" + re.sub(r"[:-]", "", load.at[:19]) + "Z-"
        for path in sorted(out.glob(f"{stem}*.png")):
            if path.stat().st_size > _MOST_PLOT:
                print(f"{path}: too large for docs, left out", file=sys.stderr)
                continue
            shutil.copyfile(path, docs / f"load-{mode}-{path.name.removeprefix(stem)}")
    results.plots = sorted(path.name for path in docs.glob("*.png"))


# The page


def markdown(results: Results) -> str:
    """docs/benchmarks.md."""
    parts = [
        "<!-- Written by `python -m bench page` from benchmarks.json: do not edit. -->",
        "# Benchmarks: what was measured",
        "What each bench means, and how to run it: [benchmark.md](benchmark.md). PASS and MISS say whether the bar was "
        "reached; VOID, why a figure proves nothing. Benches follow each other: the load average before one is for the "
        "most part what the one before it left behind.",
        *_machines(results),
        "## Summary",
        _summary(results),
        *(part for bench, title in _TITLES.items() for part in _section(results, bench, title)),
        *_stages(results),
        *_scales(results),
        *_peers(results),
        *_incumbent(results),
        *(part for mode in ("direct", "proxy") for part in _loads(results, mode)),
    ]
    others = sorted(set(results.runs) - set(_TITLES) - {"peers"} - set(_parts()))
    parts += [part for bench in others for part in _section(results, bench, bench)]
    return "\n\n".join(parts) + "\n"


def _machines(results: Results) -> list[str]:
    if not results.machines:
        return ["Nothing has been measured."]
    parts = []
    several = len(results.machines) > 1
    for place, machine in enumerate(results.machines, 1):
        memory = str(machine.get("memory", "")).removesuffix(" kB")
        libraries = ", ".join(f"{name} {version}" for name, version in sorted(machine.get("libraries", {}).items()))
        rows = [
            ("Processor", f"{machine.get('cpu')}, {machine.get('cores')} cores"),
            ("Memory", f"{int(memory) / 2**20:.1f} GiB" if memory.isdigit() else memory),
            ("Kernel", str(machine.get("kernel"))),
            ("Python", str(machine.get("python"))),
            ("TLS", str(machine.get("openssl"))),
            ("Libraries", libraries),
            ("wrk", str(machine.get("wrk"))),
        ]
        parts += [f"## Machine {place}" if several else "## Machine", _table(("", ""), rows)]
    return parts


def _summary(results: Results) -> str:
    """Verdicts by bench."""
    rows = []
    for bench in (*_TITLES, *_parts(), "peers"):
        run = results.runs.get(bench)
        verdicts = [one.verdict for one in run.measures] if run else []
        counts = [str(verdicts.count(verdict) or "") for verdict in ("PASS", "MISS", "VOID")]
        rows.append((f"`{bench}`", *counts, run.at[:10] if run else "not measured"))
    verdicts = [one.verdict for one in _judged(results)]
    rows.append(("`scale`", *(str(verdicts.count(verdict) or "") for verdict in ("PASS", "MISS", "VOID")), ""))
    rows += [
        (f"`load`, {mode}", "", "", "", "not measured") for mode in ("direct", "proxy") if mode not in results.load
    ]
    return _table(("", "PASS", "MISS", "VOID", ""), rows)


def _section(results: Results, bench: str, title: str) -> list[str]:
    run = results.runs.get(bench)
    parts = [f"## {title}"]
    if run is None:
        return [*parts, f"Not measured: `python -m bench {bench}`."]
    hosts, dpus, bmcs = run.fleet
    fleet = "" if bench == "racks" else f" {hosts:,} hosts with {dpus} DPUs: {bmcs:,} BMCs."
    parts.append(_origin(results, bench, run) + fleet)
    parts.append(_measures(run.measures))
    if bench == "soak":
        parts.append("[Log](soak/soak.log), [plots](soak/soak.png).")
    return parts


def _origin(results: Results, bench: str, run: Run) -> str:
    place = f", machine {run.machine + 1}" if len(results.machines) > 1 else ""
    busy = f"load average {run.busy:.1f} before"
    return f"`{command_of(bench, run.command)}`, {run.at[:10]}, revision {_short(run.revision)}{place}, {busy}."


def _short(revision: str) -> str:
    commit, dash, dirty = revision.partition("-")
    return f"{commit[:10]}{dash}{dirty}" or "unknown"


def command_of(bench: str, words: Sequence[str]) -> str:
    """What repeats a run of one bench, whatever it was part of; without where its results went."""
    names = {*_TITLES, *_parts(), "peers", "stages", "scale", "all"}
    kept: list[str] = []
    skip = False
    for word in words:
        option, equals, _ = word.partition("=")
        if skip or word in names or option in ("--out", "--stage", "--size"):
            skip = option in ("--out", "--stage", "--size") and not equals and not skip
        else:
            kept.append(word)
    return f"python -m bench {shlex.join([*_parts().get(bench, [bench]), *kept])}"


def _parts() -> dict[str, list[str]]:
    """The words that run each part of a bench that has parts."""
    return {
        **{f"stages-{name}": ["stages", "--stage", name] for name in stages.STAGES},
        **{f"scale-{size}": ["scale", "--size", str(size)] for size in scale.SIZES},
    }


def _measures(measures: Iterable[Measure]) -> str:
    rows = [
        (one.name, _bar(one.bar), _value(one), one.verdict, f"{one.void}; {one.note}".strip("; ")) for one in measures
    ]
    return _table(("", "bar", "measured", "verdict", ""), rows)


def _bar(bar: Bar | None) -> str:
    return f"{bar.kind} {number(bar.limit)}" if bar else ""


def _value(one: Measure) -> str:
    if one.void and not one.value:
        return "-"
    digits = number(one.value) if abs(one.value) >= 0.1 or one.value == 0 else f"{one.value:.2g}"
    return f"{digits} {one.unit}".rstrip()


def _cell(one: Measure | None) -> str:
    if one is None:
        return ""
    return f"{_value(one)} {one.verdict}".rstrip()


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(_plain(cell) for cell in row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _plain(cell: str) -> str:
    """Text that is neither a cell's end nor markup."""
    return _TAG.sub("&lt;", cell.replace("|", "/").replace("\n", " "))


def _side_by_side(results: Results, benches: Mapping[str, str], units: str = "") -> list[str]:
    """One column for each run, one row for each measure; what is void is said below."""
    known = {
        bench: {one.name: one for one in results.runs[bench].measures} for bench in benches if bench in results.runs
    }
    names = dict.fromkeys(name for found in known.values() for name, one in found.items() if one.unit or not one.void)
    bars = {name: next((found[name].bar for found in known.values() if name in found), None) for name in names}
    rows = [
        (
            name,
            *(_cell(known[bench].get(name)) if bench in known else "not measured" for bench in benches),
        )
        for name in names
    ]
    voids = [
        f"- {title}, {one.name}: {one.void}."
        for bench, title in benches.items()
        for one in known.get(bench, {}).values()
        if one.void
    ]
    origins = [f"- {_origin(results, bench, results.runs[bench])}" for bench in known]
    bounds = [f"{name} {_bar(bar)}" for name, bar in bars.items() if bar]
    return [
        _table((units, *benches.values()), rows),
        *(["Bars: " + _plain("; ".join(bounds)) + "."] if bounds else []),
        *(["Void:\n\n" + "\n".join(_plain(one) for one in voids)] if voids else []),
        "\n".join(origins),
    ]


def _stages(results: Results) -> list[str]:
    benches = {f"stages-{name}": name for name in stages.STAGES}
    parts = ["## Stages of a site", "`python -m bench stages` runs all, one after the other; hosts x DPUs."]
    if not any(bench in results.runs for bench in benches):
        return [*parts, "Not measured."]
    return [*parts, *_side_by_side(results, benches)]


def _scale(results: Results) -> scale.Parts:
    return scale.by_size(run.measures for bench, run in results.runs.items() if bench.startswith("scale-"))


def _judged(results: Results) -> list[Measure]:
    parts = _scale(results)
    return scale.judge(parts) if parts else []


def _scales(results: Results) -> list[str]:
    benches = {f"scale-{size}": f"{size:,}" for size in scale.SIZES}
    parts = [
        "## Cost over the number of BMCs",
        "`python -m bench scale` runs all sizes. The cost of a BMC is what is above that of one host with its DPUs, "
        f"divided by the BMCs above those. Of larger fleets it must be below {scale.FACTOR:g} times that of "
        f"{scale.REFERENCE:,} BMCs, and the throughput of those below {scale.RATE_FACTOR:g} times that of larger ones.",
    ]
    found = _scale(results)
    if not found:
        return [*parts, "Not measured."]
    each = scale.costs(found)
    names = dict.fromkeys(one.name for ones in each.values() for one in ones)
    rows = [
        (name, *(_cell(next((one for one in ones if one.name == name), None)) for ones in each.values()))
        for name in names
    ]
    parts += [*_side_by_side(results, benches), _table(("", *(f"{bmcs:,}" for bmcs in each)), rows)]
    parts.append(_measures(_judged(results)))
    if "scale.png" in results.plots:
        parts.append(f"![Start, memory, throughput and latency over the number of BMCs]({_PLOTS}/scale.png)")
    return parts


def _peers(results: Results) -> list[str]:
    run = results.runs.get("peers")
    parts = [
        "## Peers",
        "On the same core in the same run, over TLS on both sides; rates are per second of processor time.",
    ]
    if run is None:
        return [*parts, "Not measured: `python -m bench peers`."]
    rows: dict[str, dict[str, Measure]] = {}
    rest = []
    for one in run.measures:
        name, colon, what = one.name.rpartition(": ")
        if colon:
            rows.setdefault(name, {})[what] = one
        else:
            rest.append(one)
    heads = list(dict.fromkeys(what for row in rows.values() for what in row))
    cells = [
        (name, *(_cell(row.get(head)) for head in heads), next((one.note for one in row.values() if one.note), ""))
        for name, row in rows.items()
    ]
    return [
        *parts,
        _origin(results, "peers", run),
        _table(("", *heads, ""), cells),
        *([_measures(rest)] if rest else []),
    ]


def _incumbent(results: Results) -> list[str]:
    """Memory of as many BMCs as NVIDIA's document on large sites tells of."""
    run = results.runs.get("racks")
    found = {one.name: one for one in run.measures} if run else {}
    memory = found.get("racks: memory after reading")
    parts = ["## Beside machine-a-tron"]
    if run is None or memory is None or memory.value <= 0:
        return [*parts, "Not measured: `python -m bench racks`."]
    ratio = _INCUMBENT_MIB / memory.value
    measure = Measure(
        "memory, machine-a-tron / bmcsim",
        ratio,
        "x",
        _INCUMBENT_RATIO,
        note=f"{_INCUMBENT_MIB:,} MiB / {memory.value:,.1f} MiB after every BMC was read",
        void=memory.void if run.racks == _INCUMBENT_RACKS else f"{run.racks} racks instead of {_INCUMBENT_RACKS}",
    )
    text = (
        f"NVIDIA's document on large sites gives 10 pods of machine-a-tron for {_INCUMBENT_BMCS:,} BMCs "
        f"{_INCUMBENT_CORES} cores and {_INCUMBENT_MIB // 1024} GiB together, "
        f"{_INCUMBENT_MIB / _INCUMBENT_BMCS:.2f} MiB per BMC. `racks` has the same number in one process."
    )
    return [*parts, text, _measures([measure])]


def _phase(row: tuple[str, list[str]]) -> tuple[int, str]:
    """Where a phase comes in the life of a site."""
    return list(PHASES).index(row[0].partition(":")[0]), row[0]


def _loads(results: Results, mode: str) -> list[str]:
    load = results.load.get(mode)
    how = "each BMC at its own address" if mode == "direct" else "all BMCs at one address, with Forwarded"
    parts = [f"## Load with locust, {mode}"]
    if load is None:
        return [*parts, f"Not measured ({how})."]
    place = f", machine {load.machine + 1}" if len(results.machines) > 1 else ""
    commands = ", ".join(f"`{command}`" for command in load.commands)
    parts += [
        f"{commands}, {load.at[:10]}, revision {_short(load.revision)}{place}. {load.endpoints:,} BMCs, {how}; "
        f"{load.workers} workers. Latencies are those of closed loops.",
        _table(load.head, [cells for _, cells in sorted(load.rows.items(), key=_phase)]),
    ]
    if load.open_loop:
        parts.append(_measures(load.open_loop))
    parts += [
        f"![{name.removesuffix('.png')}]({_PLOTS}/{name})" for name in results.plots if name.startswith(f"load-{mode}-")
    ]
    return parts


def _missing(results: Results) -> list[str]:
    wanted = [*_TITLES, *_parts(), "peers"]
    return [bench for bench in wanted if bench not in results.runs] + [
        f"load, {mode}" for mode in ("direct", "proxy") if mode not in results.load
    ]


# The README


_README: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("process start to listening / all ready", (("density", "start to listening"), ("density", "start to all ready"))),
    (
        "restore of 13,500 changed BMCs after `kill -9`, from listening to ready",
        (("lifecycle", "restore after the crash"),),
    ),
    (
        "memory when ready / after every BMC was read over TLS",
        (("density", "memory when ready"), ("density", "memory after reading")),
    ),
    ("memory after every BMC rotated its password", (("density", "memory after rotation"),)),
    ("memory per BMC", (("density", "memory per BMC"),)),
    (
        "250 racks, 17,750 BMCs: all ready / memory when ready / after every BMC was read",
        (
            ("racks", "racks: start to all ready"),
            ("racks", "racks: memory when ready"),
            ("racks", "racks: memory after reading"),
        ),
    ),
    (
        "an idle TLS connection / with an open event stream",
        (("density", "memory per idle TLS connection"), ("streams", "memory per stream")),
    ),
    (
        "memory with an idle TLS connection to every BMC / 99th percentile at 12,400 requests per second over them",
        (("idle", "memory with all idle"), ("idle", "12,400 req/s over them: p99")),
    ),
    ("CPU while idle", (("density", "CPU while idle"),)),
    (
        "requests per second over kept TLS connections, as a multiple of what bare uvicorn with one fixed answer "
        "reaches / in all",
        (("throughput", "throughput / baseline"), ("throughput", "throughput")),
    ),
    (
        "99th percentile of the latency at 12,400 requests per second / at 36,000",
        (("openloop", "12,400 req/s: p99"), ("openloop", "36,000 req/s: p99")),
    ),
    ("every BMC explored with 45 GETs, 200 BMCs at a time", (("storm", "discovery storm"),)),
)
"""What a row says, and the measures that it shows."""


def readme_table(results: Results) -> str:
    """The table of README.md, and where and when its figures come from."""
    density = results.runs.get("density")
    bmcs = density.fleet[2] if density else 13_500
    rows = []
    used: list[Run] = []
    for what, wanted in _README:
        found = []
        for bench, name in wanted:
            run = results.runs.get(bench)
            found.append(next((one for one in run.measures if one.name == name), None) if run else None)
            used += [run] if run else []
        rows.append((what, " / ".join(_brief(one) for one in found), _goals(found)))
    table = _table((f"{bmcs:,} BMCs on one core", "measured", "goal"), rows)
    if not used:
        return table
    newest = max(used, key=lambda run: run.at)
    days = sorted({run.at[:10] for run in used})
    when = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
    machine = results.machines[newest.machine]
    version = ".".join(str(machine.get("python")).split(".")[:2])
    where = f"{machine.get('cores')} cores ({machine.get('cpu')}) with Python {version}"
    others = "the other core" if machine.get("cores") == 2 else "the other cores"
    return (
        f"{table}\n\nMeasured {when} on {where}; the clients had {others}.\n"
        "`make bench` measures most of this on your machine. All that was measured: "
        "[docs/benchmarks.md](docs/benchmarks.md)."
    )


def _brief(one: Measure | None) -> str:
    if one is None:
        return "not measured"
    if one.void:
        return "VOID"
    size = abs(one.value)
    digits = f"{one.value:,.0f}" if size >= 10 else f"{one.value:.1f}" if size >= 0.1 else "< 0.1"
    return f"{digits} {one.unit.removesuffix(' of a core')}".rstrip()


def _goals(found: Sequence[Measure | None]) -> str:
    goals = []
    for one in found:
        text = f"{_bar(one.bar)} {one.unit.removesuffix(' of a core')}".rstrip() if one and one.bar else ""
        goals.append(f"{text}, MISS" if one and one.verdict == "MISS" else text)
    return " ".join(" / ".join(goals).split()) if any(goals) else ""


def replaced(text: str, table: str) -> str:
    """A README with this between its markers. Raises ValueError when they are not there, or not once."""
    if text.count(_BEGIN) != 1 or text.count(_END) != 1 or text.index(_BEGIN) > text.index(_END):
        raise ValueError(f"README.md must have {_BEGIN} once, and {_END} after it")
    return f"{text.partition(_BEGIN)[0]}{_BEGIN}\n{table}\n{_END}{text.partition(_END)[2]}"


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench page",
        description="Write docs/benchmarks.md, docs/benchmarks.json, the plots beside them and the table of README.md.",
        epilog="A bench without a new result keeps the one in docs/benchmarks.json.",
    )
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="directory of the results (bench-out)")
    parser.add_argument("--docs", type=Path, default=_ROOT / "docs", help="where the page goes (docs)")
    parser.add_argument("--readme", type=Path, default=_ROOT / "README.md", help="has the markers (README.md)")
    parser.add_argument("--fresh", action="store_true", help="forget what docs/benchmarks.json has")
    return parser.parse_args(arguments)
