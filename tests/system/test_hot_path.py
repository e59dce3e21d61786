"""The way of every request stays short. A ratio to other work of the same process, not a number of seconds."""

import pytest

from bench import hotpath
from bmcsim.edges.http.context import Context

pytestmark = pytest.mark.system


def test_a_get_costs_no_more_than_it_did() -> None:
    assert hotpath.ratio() < hotpath.MOST


def test_the_guard_sees_when_the_parser_is_needed_for_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "remember", lambda *_arguments: None)
    assert hotpath.ratio() > hotpath.MOST
