"""$filter: the grammar, what comparisons mean, and both against a slow reference."""

import re
from datetime import datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.redfish.query_filter import MAX_DEPTH, FilterError, holds, parse

MEMBER = {
    "Id": "10",
    "Name": "It's",
    "Count": 2,
    "Size": 2.5,
    "On": True,
    "None": None,
    "List": [1],
    "Status": {"Health": "OK", "Oem": {"Level": 3}},
    "Created": "2026-01-01T00:00:00+00:00",
    "@odata.id": "/a",
}


@pytest.mark.parametrize(
    "text",
    [
        "Id eq '10'",
        "Id eq 10",
        "10 eq Id",
        "Id gt 9",
        "Id gt '9'",
        "Id lt '9a'",
        "Id ne '010'",
        "Id eq 10.0",
        "Id ge 10 and Id le 10",
        "Name eq 'It''s'",
        "Name gt 'A'",
        "Name ne 3",
        "Count eq 2.0",
        "Count lt Size",
        "Size gt -1e3",
        "On eq true",
        "On ne false",
        "On ne 1",
        "None eq null",
        "Id ne null",
        "Status/Health eq 'OK'",
        "Status/Oem/Level ge 3",
        "@odata.id eq '/a'",
        "Created ge '2026-01-01T00:00:00Z'",
        "Created eq 2026-01-01T01:00:00+01:00",
        "Created eq 2026-01-01T01:00:00 01:00",
        "Created lt '2025-12-31T20:00:00-05:00'",
        "Created gt '2025-12-31T23:59:59.999Z'",
        "Created gt '2026'",
        "Created ne '2026-01-01T00:00:01Z'",
        "not Id eq 1",
        "not not (Id eq 10)",
        "not (Nope eq 1)",
        "Nope eq 1 or Id eq 10",
        "Id eq 10 or Id eq 1 and Id eq 2",
        "(Id eq 10 or Id eq 1) and (Count eq 2)",
        "  ( Id   eq 10 )  ",
        "(Id eq 10)and(Count eq 2)",
    ],
)
def test_what_holds(text: str) -> None:
    assert holds(parse(text), MEMBER)


@pytest.mark.parametrize(
    "text",
    [
        "Id gt '9a'",
        "Id eq '010'",
        "Id eq 11",
        "Id lt '9'",
        "Nope eq 1",
        "Nope ne 1",
        "Nope eq null",
        "Id/Nope ne 1",
        "Status ne null",
        "List ne 1",
        "On gt false",
        "On eq 1",
        "None ne null",
        "None le null",
        "Name gt 3",
        "Created gt '2026-01-01T00:00:00Z'",
        "(Id eq 10 or Id eq 1) and Count eq 3",
        "not (Id eq 10 or Nope eq 1)",
    ],
)
def test_what_does_not_hold(text: str) -> None:
    assert not holds(parse(text), MEMBER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Id",
        "true",
        "Id eq",
        "eq 1",
        "Id = 1",
        "Id EQ 1",
        "Id eq 1 2",
        "Id eq 1 and",
        "and Id eq 1",
        "Id eq 1 or or Id eq 2",
        "(Id eq 1",
        "Id eq 1)",
        "()",
        "not",
        "Id not eq 1",
        "Id eq 'a",
        "Id eq a'",
        "Id eq 'a'b",
        "Id eq 'a''",
        'Id eq "a"',
        "Id eq 1x",
        "Id eq 0x1",
        "Id eq .5",
        "Id eq +1",
        "/Id eq 1",
        "Id/ eq 1",
        "Id//A eq 1",
        "Id eq 1 eq 1",
        "contains(Id,'a')",
        "Id in ('a')",
        "Created gt 2026-13-01T00:00:00Z",
        "Created gt 2026-01-01T00:00:00+99:00",
        "Created gt 2026-01-01",
        "and eq 1",
        "Id eq '" + "a" * 2048 + "'",
        "(" * (MAX_DEPTH + 1) + "Id eq 1" + ")" * (MAX_DEPTH + 1),
        "not " * (MAX_DEPTH + 1) + "Id eq 1",
        "(" * 2000,
        "not " * 500,
        "Count eq \u0662",
        "Created ge \u0662026-01-01T00:00:00Z",
    ],
)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(FilterError):
        parse(text)


def test_as_deep_and_as_long_as_it_may_be() -> None:
    assert holds(parse("(" * MAX_DEPTH + "Id eq 10" + ")" * MAX_DEPTH), MEMBER)
    assert holds(parse(" or ".join(["Id eq 1"] * 150 + ["Id eq 10"])), MEMBER)
    assert not holds(parse("Count eq " + "9" * 2000), MEMBER)
    assert holds(parse("Count lt 1" + "0" * 400), MEMBER)


# against a reference that works on the tree from which the text was made

TEXTS = ["", "a", "it's", "9", "10", "10.0", "-3", "010", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "and"]
SCALARS = (
    st.none() | st.booleans() | st.integers(-20, 20) | st.sampled_from([0.5, -2.25, 10.0]) | st.sampled_from(TEXTS)
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "A": SCALARS | st.lists(SCALARS, max_size=1),
        "B": SCALARS,
        "C": st.fixed_dictionaries({}, optional={"A": SCALARS}),
    },
)
PATHS = st.sampled_from(["A", "B", "C", "C/A", "A/B", "D"]).map(lambda path: ("path", path))
OPERANDS = PATHS | SCALARS.map(lambda value: ("value", value))
COMPARISONS = st.tuples(st.sampled_from(["eq", "ne", "gt", "ge", "lt", "le"]), OPERANDS, OPERANDS)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda part: (
        st.tuples(st.just("not"), part)
        | st.tuples(st.sampled_from(["and", "or"]), st.lists(part, min_size=2, max_size=3))
    ),
    max_leaves=6,
)


def text_of(condition: Any) -> str:
    """A condition as a client would write it."""
    if condition[0] == "not":
        return f"not ({text_of(condition[1])})"
    if condition[0] in ("and", "or"):
        return f" {condition[0]} ".join(f"({text_of(part)})" for part in condition[1])
    return f"{operand_text(condition[1])} {condition[0]} {operand_text(condition[2])}"


def operand_text(operand: Any) -> str:
    """An operand as a client would write it."""
    kind, value = operand
    if kind == "path":
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "null"
    return str(value).lower()


def reference(condition: Any, member: dict[str, Any]) -> bool:
    """What a condition means, as the module's docstring says it."""
    name = condition[0]
    if name == "not":
        return not reference(condition[1], member)
    if name in ("and", "or"):
        results = [reference(part, member) for part in condition[1]]
        return all(results) if name == "and" else any(results)
    sides = []
    for kind, value in condition[1:]:
        found = value
        if kind == "path":
            found = member
            for key in value.split("/"):
                if not isinstance(found, dict) or key not in found:
                    return False
                found = found[key]
        if isinstance(found, dict | list):
            return False
        sides.append(found)
    kinds = [possible(side, name, sides) for side in sides]
    for kind in ("date", "number", "text", "bool", "null"):
        if kind in kinds[0] and kind in kinds[1]:
            left, right = kinds[0][kind], kinds[1][kind]
            if kind in ("bool", "null") and name not in ("eq", "ne"):
                return False
            less, equal = kind not in ("bool", "null") and left < right, left == right
            return {"eq": equal, "ne": not equal, "lt": less, "le": less or equal}.get(name, not less) and (
                name != "gt" or not equal
            )
    return name == "ne"


def possible(value: Any, name: str, sides: list[Any]) -> dict[str, Any]:
    """Everything that a value can be compared as."""
    if value is None:
        return {"null": None}
    if isinstance(value, bool):
        return {"bool": value}
    if not isinstance(value, str):
        return {"number": Fraction(value)}
    kinds: dict[str, Any] = {"text": value}
    both_texts = all(isinstance(side, str) for side in sides)
    if re.fullmatch(r"-?\d+(\.\d+)?", value) and not (both_texts and name in ("eq", "ne")):
        kinds["number"] = Fraction(value)
    if value.startswith("2026"):
        kinds["date"] = datetime.fromisoformat(value)
    return kinds


@given(CONDITIONS, MEMBERS)
def test_every_condition_means_what_the_reference_says(condition: Any, member: dict[str, Any]) -> None:
    assert holds(parse(text_of(condition)), member) is reference(condition, member), text_of(condition)


PIECES = [
    "Id",
    "eq",
    "ne",
    "and",
    "or",
    "not",
    "(",
    ")",
    "'a'",
    "'",
    "1",
    "-",
    "null",
    "/",
    " ",
    "2026-01-01T00:00:00Z",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    try:
        condition = parse(text)
    except FilterError:
        return
    assert holds(condition, MEMBER) in (True, False)
