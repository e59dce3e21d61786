"""The three tools: how each is called, and how its report is read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import openpyxl

from tests.conformance.results import COUNTED, Outcome, Row

_TOTALS = re.compile(
    r"^Summary - PASS: (\d+), WARN: (\d+), FAIL: (\d+), NOT_TESTED: (\d+)"
    r"|^\| +(\d+) +\| +(\d+) +\| +(\d+) +\| +(\d+) +\|",
    re.MULTILINE,
)
_RESULTS = {"SKIP": "NOT_TESTED", "NOT TESTED": "NOT_TESTED"}


class ReportError(Exception):
    """A tool's report is missing or cannot be trusted; the text says why."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. package: on PyPI. arguments: placeholders {url}, {user}, {password}, {report}, {csdl}.

    subject, where: the columns of its report that say what was checked and where. timeout: seconds.
    """

    name: str
    package: str
    command: str
    arguments: tuple[str, ...]
    subject: str
    where: str
    timeout: int

    @property
    def version(self) -> str | None:
        """The installed version, None where it is not installed."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None

    @property
    def needs_csdl(self) -> bool:
        """Whether it reads schemas."""
        return "{csdl}" in self.arguments

    def command_line(self, binaries: Path, **values: str) -> list[str]:
        """The call, with its placeholders filled."""
        return [str(binaries / self.command), *(argument.format(**values) for argument in self.arguments)]


_LOGIN = ("-r", "{url}", "-u", "{user}", "-p", "{password}")

TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "usecase",
            "redfish-use-case-checkers",
            "rf_use_case_checkers",
            (*_LOGIN, "--report-dir", "{report}"),
            "Test Name",
            "Operation",
            300,
        ),
        Tool(
            "service",
            "redfish-service-validator",
            "rf_service_validator",
            (*_LOGIN, "--authtype", "Session", "--skipschema", "--schema_directory", "{csdl}", "--logdir", "{report}"),
            "Property",
            "URI",
            420,
        ),
        Tool(
            "protocol",
            "redfish-protocol-validator",
            "rf_protocol_validator",
            (*_LOGIN, "--no-cert-check", "--avoid-http-redirect", "--report-type", "both", "--report-dir", "{report}"),
            "Assertion",
            "URI",
            300,
        ),
    )
}
"""By name, the one that takes longest first."""


def read(profile: str, tool: Tool, folder: Path, printed: str) -> Outcome:
    """The outcome that a tool's report in a folder says. printed: what the tool wrote to its output.

    Raises ReportError when there is no report, or when its rows and the totals that the tool printed differ.
    """
    reports = sorted(folder.rglob("*.xlsx"))
    if len(reports) != 1:
        raise ReportError(f"{len(reports)} reports instead of one")
    rows = list(_rows(reports[0], tool))
    counts = {result: sum(row.result == result for row in rows) for result in COUNTED}
    totals = [tuple(int(group) for group in found.groups() if group is not None) for found in _TOTALS.finditer(printed)]
    if not totals or totals[-1] != tuple(counts.values()):
        raise ReportError(f"the report's rows give {counts}, but the tool printed {totals[-1:] or 'no totals'}")
    assertions: dict[str, str] = {}
    if tool.subject == "Assertion":
        for row in rows:
            assertions[row.subject] = worse(assertions.get(row.subject), row.result)
    kept = [row for row in rows if row.result in ("FAIL", "WARN")]
    return Outcome(profile, tool.name, tool.version or "", counts, kept, assertions)


def worse(one: str | None, other: str) -> str:
    """What counts of two results of one assertion: anything tested before nothing tested, the worst of that."""
    order = ("NOT_TESTED", "PASS", "WARN", "FAIL")
    return other if one is None or order.index(other) > order.index(one) else one


def _rows(report: Path, tool: Tool) -> Iterator[Row]:
    book = openpyxl.load_workbook(report, read_only=True)
    try:
        lines = book["Results"].iter_rows(values_only=True)
        head: Sequence[object] = next(lines, ())
        try:
            columns = [head.index(name) for name in ("Result", tool.subject, tool.where, "Message")]
        except ValueError as error:
            raise ReportError(f"{report.name} has the columns {head}: {error}") from error
        for line in lines:
            result, subject, where, message = ("" if line[n] is None else str(line[n]) for n in columns)
            result = _RESULTS.get(result, result)
            if result not in COUNTED:
                raise ReportError(f"{report.name} has the result {result!r} for {subject} of {where}")
            yield Row(result, subject, where, message)
    finally:
        book.close()
