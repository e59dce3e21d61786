"""What came of a run: a JSON file, a Markdown table, an HTML page and, where matplotlib is installed, plots."""

import base64
import datetime
import html
import importlib.util
import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path

import msgspec

from bench.load import sampler
from bench.load.measured import Instant, Result
from bench.load.phases import PHASES
from bench.load.sampler import Sample
from bench.report import SATURATED, Measure

_TELLING = 5.0  # percent of a core from which on what a worker used says what it could do with all of it
_POINTS = 400  # of a line that moves all the time: more are a band, and not a line

_HEAD = (
    "phase",
    "s",
    "turns",
    "requests",
    "req/s",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "server %",
    "workers %",
    "locust's ceiling",
    "RSS MiB",
    "lag ms",
    "limited by",
    "verdict",
)


class Run(msgspec.Struct, frozen=True):
    """Everything about a run. open_loop: percentiles at an asked rate, where one was asked."""

    at: str
    command: Sequence[str]
    machine: Mapping[str, object]
    endpoints: int
    workers: int
    proxy: str
    phases: list[Result]
    samples: list[Sample]
    open_loop: list[Measure]

    def faults(self, phase: Result) -> list[str]:
        """What is wrong with a phase; nothing where all is right."""
        return phase.disagreements(self.endpoints, self.counted(phase))

    def counted(self, phase: Result) -> int | None:
        """The answers of a phase as the server counts them, where it was sampled right before and after."""
        idle = max([other.ended for other in self.phases if other.ended <= phase.began], default=0.0)
        return sampler.counted(self.samples, idle, phase.began, phase.ended)

    @property
    def well(self) -> bool:
        return not any(self.faults(phase) for phase in self.phases)


def table(run: Run) -> list[tuple[str, ...]]:
    """The cells of the table, its head first."""
    return [_HEAD, *(_line(run, phase) for phase in run.phases)]


def _line(run: Run, phase: Result) -> tuple[str, ...]:
    seen = sampler.during(run.samples, phase.began, phase.ended)
    server = sampler.busy(run.samples, phase.began, phase.seconds)
    workers = phase.workers_busy
    rss = max([one.rss for one in seen if one.rss is not None], default=0.0)
    lag = max([one.lag for one in seen if one.lag is not None], default=0.0)
    faults = run.faults(phase)
    return (
        phase.name,
        f"{phase.seconds:,.1f}",
        f"{phase.turns:,}",
        f"{phase.requests:,}",
        f"{phase.rate:,.0f}",
        f"{phase.total.p50:,.0f}",
        f"{phase.total.p99:,.0f}",
        f"{phase.total.p999:,.0f}",
        "" if server is None else f"{server:.0f}",
        f"{workers:.0f}",
        f"{100 * phase.rate / workers:,.0f}" if workers >= _TELLING else "",
        f"{rss:,.0f}" if rss else "",
        f"{lag:,.1f}" if lag else "",
        _limit(server, workers, phase),
        "; ".join(faults).replace("|", "/").replace("\n", " ") or _right(run, phase),
    )


def _right(run: Run, phase: Result) -> str:
    return "right" if run.counted(phase) is not None else "right, not counted by the server"


def _limit(server: float | None, workers: float, phase: Result) -> str:
    """What kept the phase from being quicker."""
    if max(server or 0.0, workers) >= SATURATED:
        return "locust" if workers >= (server or 0.0) else "the server"
    if PHASES[phase.name.partition(":")[0]].pace == "each":
        return "neither side"
    return f"neither side, {phase.late:.0f} s late" if phase.late > 1.0 else "its own pace"


def markdown(run: Run) -> str:
    rows = table(run)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(_HEAD))
    notes = [
        f"{run.endpoints:,} BMCs, {run.workers} locust workers, {'proxy ' + run.proxy if run.proxy else 'direct'}; "
        f"{run.machine.get('cpu')}, {run.machine.get('cores')} cores, load {run.machine.get('load_average')} at the "
        "start.",
        "Latencies are those of closed loops: a user waits for its answer before it asks again, so a stall is seen "
        "less than it would be. Percentiles at a rate are open-loop.",
        "Locust's ceiling is the rate at which its busiest worker would have used a whole core. Neither side: what the "
        "users waited for was answers, pauses or other programs.",
    ]
    opened = [f"- {one.name}: {one.value:,.1f} {one.unit}. {one.void or one.note}" for one in run.open_loop]
    return "\n".join([f"# Load, {run.at}", "", *notes, "", *lines, "", *opened]).rstrip() + "\n"


def page(run: Run, plots: Sequence[bytes]) -> str:
    """One HTML file without anything outside of it."""
    head, *rows = table(run)
    cells = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    images = "".join(
        f'<img alt="plot" src="data:image/png;base64,{base64.b64encode(plot).decode()}">' for plot in plots
    )
    opened = "".join(
        f"<li>{html.escape(one.name)}: {one.value:,.1f} {one.unit}. {html.escape(one.void or one.note)}</li>"
        for one in run.open_loop
    )
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>bmcsim load</title>'
        "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{border:1px solid #ccc;"
        "padding:2px 8px;text-align:right}td:first-child,td:last-child{text-align:left}img{max-width:100%}</style>"
        f"<h1>Load of {run.endpoints:,} BMCs, {html.escape(run.at)}</h1><p>{html.escape(' '.join(run.command))}</p>"
        f"<table><tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in head)}</tr>{cells}</table>"
        f"<ul>{opened}</ul>{images}{_details(run)}</html>\n"
    )


def _details(run: Run) -> str:
    parts = []
    for phase in run.phases:
        rows = "".join(
            f"<tr><td>{html.escape(row.name)}</td><td>{row.requests:,}</td><td>{row.failures:,}</td><td>{row.p50:.0f}</td>"
            f"<td>{row.p99:.0f}</td><td>{row.longest:.0f}</td></tr>"
            for row in phase.rows
        )
        wrong = "".join(f"<li>{html.escape(text)}</li>" for text in phase.texts)
        parts.append(
            f"<h2>{html.escape(phase.name)}</h2><p>answers by status: {html.escape(str(dict(phase.statuses)))}</p>"
            "<table><tr><th>request</th><th>count</th><th>failed</th><th>p50 ms</th><th>p99 ms</th><th>max ms</th></tr>"
            f"{rows}</table><ul>{wrong}</ul>"
        )
    return "".join(parts)


def plots(run: Run) -> dict[str, bytes]:
    """PNG files by name: throughput, latency, server. Empty, with a word on standard error, without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plots: matplotlib is not installed (requirements-bench.lock has it)", file=sys.stderr)
        return {}
    from matplotlib.figure import Figure

    zero = min(phase.began for phase in run.phases)
    seen = sampler.during(run.samples, zero, max(phase.ended for phase in run.phases))

    def draw(title: str, lines: Mapping[str, Sequence[tuple[str, Sequence[float], Sequence[float]]]]) -> bytes:
        figure = Figure(figsize=(12, 3.2 * len(lines)), layout="constrained")
        for axes, (unit, drawn) in zip(figure.subplots(len(lines), squeeze=False)[:, 0], lines.items(), strict=True):
            for label, at, values in drawn:
                axes.plot(at, values, label=label, linewidth=1)
            for number, phase in enumerate(run.phases):
                axes.axvline(phase.began - zero, color="grey", linewidth=0.5)
                # The names of short phases would lie over each other.
                axes.annotate(
                    phase.name,
                    (phase.began - zero, 1),
                    xytext=(0, 1 + 8 * (number % 3)),
                    xycoords=("data", "axes fraction"),
                    textcoords="offset points",
                    fontsize=7,
                )
            axes.set_ylabel(unit)
            axes.margins(x=0.01, y=0.15)
            axes.set_ylim(bottom=0)
            axes.legend(loc="upper right", fontsize=8)
        axes.set_xlabel("seconds")
        figure.suptitle(title)
        output = BytesIO()
        figure.savefig(output, format="png")
        return output.getvalue()

    cpu = [
        (late.at - zero, 100 * (late.cpu - early.cpu) / (late.at - early.at))
        for early, late in itertools.pairwise(seen[:: len(seen) // _POINTS + 1])
        if early.cpu is not None and late.cpu is not None
    ]
    drawn = {
        "throughput": draw(
            "Requests per second",
            {
                "req/s": [("answers", *_timeline(run, zero, lambda one: one.rate))],
                "failures/s": [("failures", *_timeline(run, zero, lambda one: one.failures))],
            },
        ),
        "latency": draw(
            "Latency of the closed loops",
            {
                "ms": [
                    ("p50", *_timeline(run, zero, lambda one: one.p50)),
                    ("p99", *_timeline(run, zero, lambda one: one.p99)),
                ]
            },
        ),
    }
    if seen:
        drawn["server"] = draw(
            "The server, and the generators beside it",
            {
                "MiB": [("RSS", *_points(seen, zero, "rss"))],
                "% of a core": [
                    ("server", [at for at, _ in cpu], [share for _, share in cpu]),
                    ("busiest worker", *_timeline(run, zero, lambda one: max(one.workers_busy, default=0.0))),
                ],
                "ms": [("event loop lag, worst of each second", *_points(seen, zero, "lag"))],
            },
        )
    return drawn


def _timeline(run: Run, zero: float, value: Callable[[Instant], float]) -> tuple[list[float], list[float]]:
    """A line of the phases' instants, which is interrupted between them."""
    points = [
        point
        for phase in run.phases
        for point in (*((one.at - zero, value(one)) for one in phase.instants), (math.nan, math.nan))
    ]
    return [at for at, _ in points], [drawn for _, drawn in points]


def _points(seen: Sequence[Sample], zero: float, name: str) -> tuple[list[float], list[float]]:
    points = [(one.at - zero, getattr(one, name)) for one in seen if getattr(one, name) is not None]
    return [at for at, _ in points], [value for _, value in points]


def save(directory: Path, run: Run) -> list[Path]:
    """Write everything into `directory`, which is made where it is missing; returns the new files."""
    directory.mkdir(parents=True, exist_ok=True)
    stem = f"load-{datetime.datetime.fromisoformat(run.at):%Y%m%dT%H%M%SZ}"
    drawn = plots(run)
    contents = {
        f"{stem}.json": msgspec.json.format(msgspec.json.encode(run, enc_hook=str), indent=1),
        f"{stem}.md": markdown(run).encode(),
        f"{stem}.html": page(run, list(drawn.values())).encode(),
        **{f"{stem}-{name}.png": content for name, content in drawn.items()},
    }
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return [directory / name for name in contents]
