"""What follows in a resource from something that happened."""

from typing import Any

import pytest

from bmcsim.machine.actions import Happening
from bmcsim.tree.reactions import DEFAULTS, holds
from tests.conftest import tree_of


@pytest.mark.parametrize(
    ("when", "properties", "expected"),
    [
        ({}, {}, True),
        ({}, {"A": 1}, True),
        ({"A": 1}, {"A": 1, "B": 2}, True),
        ({"A": 1}, {"A": 2}, False),
        ({"A": 1}, {}, False),
        ({"A": True}, {"A": 1}, False),
        ({"A": 0}, {"A": False}, False),
        ({"A": None}, {}, True),
        ({"A": {"B": 1}}, {"A": {"B": 1, "C": 2}}, True),
        ({"A": {"B": 1}}, {"A": {"C": 2}}, False),
        ({"A": {"B": 1}}, {"A": "text"}, False),
        ({"A": [1, 2]}, {"A": [1, 2]}, True),
        ({"A": [1]}, {"A": [1, 2]}, False),
    ],
)
def test_a_condition_asks_for_its_own_keys_only(when: Any, properties: Any, expected: bool) -> None:
    assert holds(when, properties) is expected


@pytest.mark.parametrize("profile", ["bluefield3", "dell_poweredge_r750"])
def test_reactions_wait_for_something_that_happens(profile: str) -> None:
    tree = tree_of(profile)
    assert set(tree.reactions) <= {what.value for what in Happening}
    assert {reaction.on for own in DEFAULTS.values() for reaction in own} <= {what.value for what in Happening}


def test_resources_of_a_kind_have_what_their_kind_always_does() -> None:
    boots = [uri for uri, _ in tree_of("bluefield3").reactions["BootCompleted"]]
    assert {"/redfish/v1/Systems/Bluefield", "/redfish/v1/Systems/Bluefield/Settings"} <= set(boots)
