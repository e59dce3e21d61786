"""DMTF's tools find nothing wrong with any profile, and what they leave open is explained."""

import os
from collections.abc import Mapping, Sequence

import pytest

from bmcsim.tree import profile as profiles
from tests.conformance import known, page, runner
from tests.conformance.results import Outcome, table
from tests.conformance.runner import Pair
from tests.conformance.tools import TOOLS

pytestmark = pytest.mark.system

Outcomes = Mapping[Pair, Outcome]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All pairs of profile and tool that a selected test is about, a few at a time."""
    wanted = {
        (item.callspec.params["profile"], item.callspec.params["tool"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    }
    pairs = [pair for pair in runner.all_pairs() if pair in wanted]
    found = runner.run(pairs, tmp_path_factory.mktemp("conformance"), runner.default_csdl(), runner.default_jobs())
    return dict(zip(pairs, found, strict=True))


@pytest.fixture(scope="module")
def complete(outcomes: Outcomes) -> Sequence[Outcome]:
    """The outcomes of a whole run, without what was skipped."""
    if missing := set(runner.all_pairs()) - outcomes.keys():
        pytest.skip(f"only a part of the run was selected: without {len(missing)} pairs of profile and tool")
    ran = [outcome for outcome in outcomes.values() if outcome.counts]
    if not any(outcome.tool == "protocol" for outcome in ran):
        pytest.skip("the protocol validator did not run")
    return ran


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("profile", profiles.names())
def test_a_tool_finds_nothing_wrong(outcomes: Outcomes, profile: str, tool: str) -> None:
    outcome = outcomes[profile, tool]
    if outcome.skipped:
        without_csdl = TOOLS[tool].needs_csdl and not runner.csdl_is_there(runner.default_csdl())
        if os.environ.get("CI") == "true" and not without_csdl:
            pytest.fail(f"must run in CI, but: {outcome.skipped}")
        pytest.skip(outcome.skipped)
    assert not outcome.error, outcome.error
    shown = "\n".join(table([outcome]))
    assert outcome.counts["PASS"] > 0, shown
    assert outcome.counts["FAIL"] == 0, shown
    assert not known.unexplained(outcome), f"WARNs without a reason in tests/conformance/known.py:\n{shown}"


def test_every_assertion_that_is_not_tested_has_a_reason_or_a_test(complete: Sequence[Outcome]) -> None:
    unexplained = known.open_assertions(complete).keys() - known.NOT_TESTED.keys() - known.own_tests().keys()
    assert not unexplained


def test_no_reason_is_out_of_date(complete: Sequence[Outcome]) -> None:
    tools = {outcome.tool for outcome in complete}
    rows = [(outcome.tool, row) for outcome in complete for row in outcome.rows if row.result == "WARN"]
    for warn in known.WARNS:
        if warn.tool in tools and not warn.by_chance:
            assert any(warn.explains(tool, row) for tool, row in rows), f"no WARN for {warn}"
    assert not known.NOT_TESTED.keys() - known.open_assertions(complete).keys(), "these are tested now"


def test_the_page_shows_this_state(complete: Sequence[Outcome]) -> None:
    written = page.PATH.read_text().splitlines()
    by_chance = [warn.subject for warn in known.WARNS if warn.by_chance]
    for line in page.all_assertions(complete):
        if not any(subject in line for subject in by_chance):
            assert line.strip() in written, f"docs/conformance.md is not in step: {page.COMMAND}"
