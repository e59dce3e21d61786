"""Judges measurements against their bars and keeps them: a table on standard output, one JSON file per run."""

import datetime
import importlib.metadata
import os
import platform
import ssl
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from bench.server import BenchError, Settings

Verdict = Literal["PASS", "MISS", "VOID", ""]

SATURATED = 90.0  # percent of its core from which on a process is what limits a rate

_LONGEST = 300

_LIBRARIES = ("bmcsim", "uvloop", "uvicorn", "httptools", "starlette", "orjson", "msgspec", "cryptography")


@dataclass(frozen=True, slots=True)
class Bar:
    """What a value must be: below the limit, or at least the limit."""

    kind: Literal["<", ">="]
    limit: float

    def holds(self, value: float) -> bool:
        return value < self.limit if self.kind == "<" else value >= self.limit


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the table. `samples` are the raw values behind `value`, in the same unit.

    A measure with a reason to be `void` proves nothing, whatever its value.
    """

    name: str
    value: float
    unit: str
    bar: Bar | None = None
    samples: Sequence[float] = field(default=())
    note: str = ""
    void: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.void:
            return "VOID"
        if self.bar is None:
            return ""
        return "PASS" if self.bar.holds(self.value) else "MISS"


def attempted(name: str, measure: Callable[[], list[Measure]]) -> list[Measure]:
    """What `measure` finds; one void line, and a word on standard error, where it cannot be made."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    try:
        return measure()
    except Exception as error:
        if not isinstance(error, BenchError | OSError | ValueError):
            traceback.print_exc()
        print(f"{name}: {error}", file=sys.stderr)
        return [Measure(name, 0, "", void=_reason(error))]


def _reason(error: Exception) -> str:
    """One line: the first of its text, and the last, which is what a log ends with."""
    lines = str(error).split("\n")
    said = [line for line in lines if line.strip()] or [repr(error)]
    return " ".join(dict.fromkeys((said[0], said[-1])))[:_LONGEST]


def print_table(measures: Sequence[Measure]) -> None:
    rows = [
        (
            measure.name,
            f"{measure.bar.kind} {number(measure.bar.limit)}" if measure.bar else "",
            number(measure.value),
            measure.unit,
            measure.verdict,
            measure.void or measure.note,
        )
        for measure in measures
    ]
    header = ("what", "bar", "measured", "unit", "verdict", "note")
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(5)]
    for row in [header, *rows]:
        what, bar, value, unit, verdict, note = row
        print(
            f"{what:<{widths[0]}}  {bar:>{widths[1]}}  {value:>{widths[2]}}  {unit:<{widths[3]}}  "
            f"{verdict:<{widths[4]}}  {note}".rstrip()
        )


def save(
    directory: Path, bench: str, machine: Mapping[str, object], settings: Settings, measures: Sequence[Measure]
) -> Path:
    """Write the run of a bench to a new file in `directory` and return its path."""
    now = datetime.datetime.now(datetime.UTC)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{bench}-{now:%Y%m%dT%H%M%SZ}.json"
    run = {
        "at": now.isoformat(timespec="seconds"),
        "command": sys.argv[1:],
        "machine": machine,
        "settings": {
            "hosts": settings.fleet.hosts,
            "dpus": settings.fleet.dpus,
            "bmcs": settings.fleet.bmcs,
            "racks": settings.racks,
            "seconds": settings.seconds,
            "rounds": settings.rounds,
            "quick": settings.quick,
            "server_core": settings.cores.server,
            "generator_cores": settings.cores.generators,
        },
        "measures": [{**asdict(measure), "verdict": measure.verdict} for measure in measures],
    }
    path.write_bytes(orjson.dumps(run, option=orjson.OPT_INDENT_2))
    return path


def describe_machine() -> dict[str, object]:
    """What the numbers depend on: processor, present load, kernel, versions and the revision of the source."""
    return {
        "cpu": _first_field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _first_field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "wrk": _first_line("wrk", "-v"),
        "revision": _first_line("git", "describe", "--always", "--dirty", "--abbrev=40"),
    }


def number(value: float) -> str:
    """As people read it: two decimals, and none from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.2f}"


def _first_field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _first_line(*command: str) -> str:
    """The first line that a program prints, or nothing where it is missing or fails silently."""
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return output.stdout.partition("\n")[0]
