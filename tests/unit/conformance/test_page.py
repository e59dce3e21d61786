"""docs/conformance.md is in step with the tools, the profiles and our tests; the reasons fit what they explain."""

from pathlib import Path

from bmcsim.tree import profile as profiles
from tests.conformance import known, page
from tests.conformance.results import Outcome, Row
from tests.conformance.tools import TOOLS

ASSERTIONS = known.assertions()


def rows_below(title: str) -> dict[str, list[str]]:
    """The table below a title of the page: first cell to the other cells."""
    _, _, rest = page.PATH.read_text().partition(f"\n## {title}\n")
    lines = rest.partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {first: others for first, *others in cells[1:]}


def test_the_page_names_the_tools_that_are_installed() -> None:
    assert rows_below("Tools") == {tool.name: [tool.package, tool.version] for tool in TOOLS.values()}


def test_the_page_has_every_profile_without_a_fail() -> None:
    for profile in profiles.names():
        counts = rows_below(profile)
        for tool in TOOLS:
            assert counts[tool][2] == "0", (profile, tool)
    assert "none yet" not in page.PATH.read_text()


def test_the_page_has_every_assertion_of_the_protocol_validator_for_every_profile() -> None:
    assert len(ASSERTIONS) == 129
    found = rows_below("All assertions of the protocol validator")
    assert list(found) == ASSERTIONS
    for name, results in found.items():
        assert len(results) == len(profiles.names()), name
        assert set(results) <= {"PASS", "WARN", "NOT_TESTED"}, name


def test_what_is_not_tested_has_a_reason_and_the_tests_that_are_named_after_it() -> None:
    results = rows_below("All assertions of the protocol validator")
    listed = rows_below("Assertions that the protocol validator does not test")
    assert listed.keys() == {name for name in ASSERTIONS if "NOT_TESTED" in results[name]}
    tests = known.own_tests()
    for name, (reason, named) in listed.items():
        assert reason == known.NOT_TESTED[name]
        assert named == ", ".join(f"`{test}`" for test in tests.get(name, [])), f"run {page.COMMAND_LAST}"


def test_what_bmcsim_does_and_the_tool_does_not_look_at_has_a_test_of_our_own() -> None:
    assert not known.OURS_TO_TEST - known.own_tests().keys()


def test_reasons_are_for_assertions_that_exist() -> None:
    assert not known.NOT_TESTED.keys() - set(ASSERTIONS)


def test_a_test_is_found_by_the_longest_id_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    (folder / "unit").mkdir(parents=True)
    (folder / "unit" / "test_root.py").write_text(
        "def test_proto_std_uri_service_root_redirect(): ...\n"
        "class TestMore:\n    async def test_that_proto_std_uri_service_root_is_there(self): ...\n"
        "def helper_serv_sse_successful_response(): ...\n"
    )
    assert known.own_tests(folder) == {
        "PROTO_STD_URI_SERVICE_ROOT_REDIRECT": [
            "tests/unit/test_root.py::test_proto_std_uri_service_root_redirect",
        ],
        "PROTO_STD_URI_SERVICE_ROOT": ["tests/unit/test_root.py::test_that_proto_std_uri_service_root_is_there"],
    }


def test_a_reason_explains_only_its_own_warnings() -> None:
    led = Row("WARN", "IndicatorLED", "/redfish/v1/Chassis/1", "Deprecated Property Warning: it is.")
    other = Row("WARN", "Status", "/redfish/v1/Chassis/1", "Deprecated Property Warning: it is.")
    empty = Row("WARN", "IndicatorLED", "/redfish/v1/Chassis/1", "Empty String Warning: it is.")
    fail = Row("FAIL", "Status", "/redfish/v1/Chassis/1", "Deprecated Property Warning: it is.")
    assert known.reason_for("service", led) is not None
    assert known.reason_for("protocol", led) is None
    assert known.unexplained(Outcome("x", "service", rows=[led, other, empty, fail])) == [other, empty]


def test_an_assertion_is_open_where_a_profile_left_it_untested_or_never_logged_it() -> None:
    tested = dict.fromkeys(ASSERTIONS, "PASS")
    partly = {**tested, "REQ_HEADERS_HOST": "NOT_TESTED"}
    del partly["REQ_HEADERS_ORIGIN"]
    outcomes = [Outcome("a", "protocol", assertions=tested), Outcome("b", "protocol", assertions=partly)]
    outcomes.append(Outcome("c", "service"))
    assert known.open_assertions(outcomes) == {"REQ_HEADERS_ORIGIN": ["b"], "REQ_HEADERS_HOST": ["b"]}


def test_a_page_shows_fails_and_warnings_without_a_reason() -> None:
    counts = {"PASS": 1, "WARN": 1, "FAIL": 1, "NOT_TESTED": 0}
    rows = [Row("FAIL", "Name", "/redfish/v1/", "Bad: x"), Row("WARN", "Id", "/redfish/v1/a|b", "Odd: y")]
    outcomes = [Outcome("a", tool, "1", counts, rows, dict.fromkeys(ASSERTIONS, "PASS")) for tool in TOOLS]
    text = "\n".join(page.page(outcomes))
    assert "| service: `Name` | `/redfish/v1/` |" in text
    assert "| service: `Id` | `/redfish/v1/a\\|b` | 1 | none yet |" in text
