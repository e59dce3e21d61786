"""How commands show what they got: tables, JSON, YAML, and once more every few seconds."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
import orjson

from bmcsim.cli.remote import RemoteError, option

# The fields of a summary in the control API (edges/control/views.py, which is slow to import); a test compares them.
FIELDS = (
    "id",
    "kind",
    "group",
    "rack",
    "position",
    "hardware",
    "address",
    "mac",
    "serial",
    "parent",
    "state",
    "power",
    "credentials",
    "faults",
    "last_contact",
    "requests",
    "errors",
)
TABLE = ("id", "kind", "state", "power", "address", "faults", "errors")
WIDE = (*TABLE, "requests", "last_contact", "credentials", "group", "rack", "position", "hardware", "mac", "serial")
_RIGHT = frozenset(
    {"faults", "errors", "requests", "position", "last_contact"} | {"total", "done", "skipped", "failed", "progress"}
)
_SHORT = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))

watch_option = option(
    "--watch",
    is_flag=False,
    flag_value=2.0,
    type=click.FloatRange(0.1, 86400),
    metavar="[SECONDS]",
    help="Show it again every so many seconds (2).",
)


def output_option(*kinds: str, default: str) -> Callable[[Any], Any]:
    """Adds -o."""
    return option(
        "-o", "--output", type=click.Choice(kinds), default=default, show_default=True, help="How to show it."
    )


def plain(text: str) -> str:
    """Text that does nothing to a terminal: it can repeat what a client of a BMC sent."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def age(then: str, now: float) -> str:
    """How long ago a time in RFC 3339 was: 5s, 3m, 2h, 4d."""
    seconds = max(0.0, now - datetime.fromisoformat(then).timestamp())
    for unit, letter in _SHORT:
        if seconds >= unit:
            return f"{int(seconds / unit)}{letter}"
    return f"{int(seconds)}s"


def cell(name: str, value: Any, now: float) -> str:
    """A field of a summary in a table."""
    if value is None or value == "":
        return "-"
    return age(value, now) if name == "last_contact" else plain(str(value))


def table(rows: Iterable[Mapping[str, Any]], names: Sequence[str], now: float) -> Iterator[str]:
    """Lines with a column for each name, under a head."""
    lines = [[name.replace("_", " ").upper() for name in names]]
    lines += [[cell(name, row.get(name), now) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    formats = [f"{{:{'>' if name in _RIGHT else '<'}{width}}}" for name, width in zip(names, widths, strict=True)]
    pattern = "  ".join(formats)
    for line in lines:
        yield pattern.format(*line).rstrip()


def as_json(value: Any) -> list[str]:
    """A value as JSON, indented."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().splitlines()


def as_yaml(value: Any) -> list[str]:
    """A value as YAML."""
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, default_flow_style=False, allow_unicode=True)
    return text.splitlines()


def structured(value: Any, output: str) -> list[str]:
    """A value as JSON or YAML."""
    return as_json(value) if output == "json" else as_yaml(value)


def printed(lines: Iterable[str]) -> None:
    """Print lines, of which there may be none."""
    click.echo("".join([f"{line}\n" for line in lines]), nl=False)


def watched(seconds: float | None, draw: Callable[[], list[str]]) -> None:
    """Shows lines once, or again and again until ^C. On a terminal they take the place of those before."""
    printed(draw())
    if seconds is None:
        return
    screen = sys.stdout.isatty()
    try:
        while True:
            time.sleep(seconds)
            try:
                lines = draw()
            except RemoteError as error:
                # It may be back in a moment.
                lines = [error.format_message()]
            if screen:
                size = shutil.get_terminal_size()
                cut = [line[: size.columns] for line in lines[: size.lines - 1]]
                click.echo("\x1b[H\x1b[J" + "\n".join(cut))
            else:
                printed(["", *lines])
    except KeyboardInterrupt:
        pass


def colourful() -> bool:
    """Whether what is printed may have colours (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
