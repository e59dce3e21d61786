"""How reports are read: exactly, or not at all."""

from pathlib import Path

import openpyxl
import pytest

from tests.conformance.results import Outcome, Row, restore, save, table
from tests.conformance.tools import TOOLS, ReportError, read, worse

HEADS = {
    "protocol": ["Section", "Assertion", "Requirement", "Method", "Status Code", "URI", "Result", "Message"],
    "service": ["S#", "URI", "HTTP Status", "Resource Type", "Property", "Value", "Result", "Message"],
    "usecase": ["Category", "Test Name", "Description", "Operation", "Result", "Message"],
}
SUMMARY = "Summary - PASS: {}, WARN: {}, FAIL: {}, NOT_TESTED: {}\n"
GRID = "+---+\n| PASS | WARN | FAIL | NOT TESTED |\n|   {}   |  {}   |   {}   |    {}    |\n+---+\n"


def report(folder: Path, tool: str, *lines: dict[str, object]) -> Path:
    """A folder with a report of a tool, as it lays it out."""
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Results")
    sheet.append(HEADS[tool])
    for line in lines:
        sheet.append([line.get(column) for column in HEADS[tool]])
    (folder / "now").mkdir(parents=True)
    book.save(folder / "now" / "report.xlsx")
    return folder


def test_counts_are_those_of_the_rows_and_fails_and_warns_are_kept(tmp_path: Path) -> None:
    lines = [
        {"Assertion": "A_ONE", "URI": "/redfish/v1/", "Result": "PASS", "Message": "good"},
        {"Assertion": "A_ONE", "URI": "/redfish/v1/Systems", "Result": "FAIL", "Message": "bad"},
        {"Assertion": "A_TWO", "URI": None, "Result": "NOT TESTED", "Message": None},
        {"Assertion": "A_THREE", "URI": "/redfish", "Result": "WARN", "Message": "Odd: why"},
    ]
    outcome = read("x", TOOLS["protocol"], report(tmp_path, "protocol", *lines), SUMMARY.format(1, 1, 1, 1))
    assert outcome.counts == {"PASS": 1, "WARN": 1, "FAIL": 1, "NOT_TESTED": 1}
    assert outcome.rows == [
        Row("FAIL", "A_ONE", "/redfish/v1/Systems", "bad"),
        Row("WARN", "A_THREE", "/redfish", "Odd: why"),
    ]
    assert outcome.rows[1].kind == "Odd"
    assert outcome.assertions == {"A_ONE": "FAIL", "A_TWO": "NOT_TESTED", "A_THREE": "WARN"}
    assert outcome.failed


def test_each_layout_is_understood(tmp_path: Path) -> None:
    service = report(tmp_path / "s", "service", {"Property": "Name", "URI": "/redfish/v1/", "Result": "SKIP"})
    outcome = read("x", TOOLS["service"], service, GRID.format(0, 0, 0, 1))
    assert (outcome.counts["NOT_TESTED"], outcome.assertions, outcome.failed) == (1, {}, False)
    usecase = report(tmp_path / "u", "usecase", {"Test Name": "Add", "Operation": "adding", "Result": "WARN"})
    outcome = read("x", TOOLS["usecase"], usecase, GRID.format(0, 1, 0, 0))
    assert outcome.rows == [Row("WARN", "Add", "adding", "")]


@pytest.mark.parametrize("printed", ["", "Traceback (most recent call last):", SUMMARY.format(2, 0, 0, 0)])
def test_rows_that_are_not_what_the_tool_printed_are_no_result(tmp_path: Path, printed: str) -> None:
    folder = report(tmp_path, "protocol", {"Assertion": "A_ONE", "URI": "/", "Result": "PASS"})
    with pytest.raises(ReportError, match="the report's rows give"):
        read("x", TOOLS["protocol"], folder, printed)


def test_an_unknown_result_a_missing_column_and_a_missing_report_are_no_result(tmp_path: Path) -> None:
    strange = report(tmp_path / "a", "usecase", {"Test Name": "Add", "Operation": "adding", "Result": "MAYBE"})
    with pytest.raises(ReportError, match="the result 'MAYBE' for Add of adding"):
        read("x", TOOLS["usecase"], strange, GRID.format(0, 0, 0, 0))
    other = report(tmp_path / "b", "usecase")
    with pytest.raises(ReportError, match="has the columns"):
        read("x", TOOLS["service"], other, GRID.format(0, 0, 0, 0))
    with pytest.raises(ReportError, match="0 reports instead of one"):
        read("x", TOOLS["service"], tmp_path / "c", "")


def test_of_an_assertion_the_worst_counts_and_anything_tested_beats_nothing() -> None:
    assert worse(None, "NOT_TESTED") == "NOT_TESTED"
    assert worse("NOT_TESTED", "PASS") == worse("PASS", "NOT_TESTED") == "PASS"
    assert worse("FAIL", "PASS") == worse("WARN", "FAIL") == "FAIL"


def test_outcomes_survive_the_file_and_the_table_shows_them(tmp_path: Path) -> None:
    counts = {"PASS": 7, "WARN": 0, "FAIL": 1, "NOT_TESTED": 2}
    outcomes = [
        Outcome("big", "service", "1.0", counts, [Row("FAIL", "Name", "/redfish/v1/", "two\nlines")], seconds=3.4),
        Outcome("small", "usecase", skipped="not installed"),
        Outcome("small", "protocol", error="did not end in 300 s"),
    ]
    save(tmp_path / "results.json", outcomes)
    assert restore(tmp_path / "results.json") == outcomes
    text = "\n".join(table(outcomes))
    for part in ("skipped: not installed", "ERROR: did not end", "FAIL big service: Name | /redfish/v1/ | two lines"):
        assert part in text
    assert [outcome.failed for outcome in outcomes] == [True, False, True]


def test_a_tool_that_is_not_there_has_no_version_and_only_one_reads_schemas() -> None:
    assert [name for name, tool in TOOLS.items() if tool.needs_csdl] == ["service"]
    line = TOOLS["service"].command_line(Path("/bin"), url="U", user="me", password="P", report="R", csdl="C")
    assert line[:3] == ["/bin/rf_service_validator", "-r", "U"]
    assert not any("{" in word for word in line)
