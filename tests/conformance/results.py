"""What came out, as data: kept in results.json, printed as a table, made into docs/conformance.md."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

COUNTED = ("PASS", "WARN", "FAIL", "NOT_TESTED")


class Row(msgspec.Struct, frozen=True):
    """A line of a report. subject: assertion, property or test; where: URI or operation."""

    result: str
    subject: str
    where: str
    message: str

    @property
    def kind(self) -> str:
        """What the message starts with, up to its colon."""
        return self.message.partition(":")[0]


class Outcome(msgspec.Struct, frozen=True):
    """One tool against one profile. rows: every FAIL and WARN. assertions: id to result, of the protocol validator.

    skipped: why it did not run. error: why there is no result although it ran.
    """

    profile: str
    tool: str
    version: str = ""
    counts: dict[str, int] = {}
    rows: list[Row] = []
    assertions: dict[str, str] = {}
    skipped: str = ""
    error: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether something was found, or could not be found out."""
        return bool(self.error) or self.counts.get("FAIL", 0) > 0


def save(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write outcomes as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=1) + b"\n")


def restore(path: Path) -> list[Outcome]:
    """Read outcomes that `save` wrote. Raises OSError and msgspec.MsgspecError."""
    return msgspec.json.decode(path.read_bytes(), type=list[Outcome])


def table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A table for a terminal, every FAIL and WARN below it."""
    outcomes = list(outcomes)
    width = max((len(outcome.profile) for outcome in outcomes), default=0)
    head = "  ".join(f"{name:>10}" for name in COUNTED)
    yield f"{'profile':{width}}  {'tool':8}  {head}  {'seconds':>7}"
    for outcome in outcomes:
        line = f"{outcome.profile:{width}}  {outcome.tool:8}  "
        if outcome.skipped or outcome.error:
            yield line + (f"skipped: {outcome.skipped}" if outcome.skipped else f"ERROR: {outcome.error}")
        else:
            yield line + "  ".join(f"{outcome.counts[name]:10}" for name in COUNTED) + f"  {outcome.seconds:7.0f}"
    for outcome in outcomes:
        for row in sorted(outcome.rows, key=lambda row: row.result):
            message = " ".join(row.message.split())
            yield f"{row.result} {outcome.profile} {outcome.tool}: {row.subject} | {row.where} | {message}"
