"""JSON with holes."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import Moment
from bmcsim.tree.template import Binding, Body, Hole, TemplateError, holes_in, literal, parse_hole

NOW = Moment(1.0, 2.0)
ETAG = {"@odata.etag": ""}

Values = dict[str, Any]


def bind(hole: Hole) -> Binding:
    """Holes that show what the values of a 'BMC' (a dict) are; the first letter of a name says how it moves."""
    kinds = {"i": (False, True), "s": (True, True), "c": (True, False)}
    if hole.name[:1] not in kinds or hole.filter not in ("", "upper"):
        raise TemplateError(f"there is no hole ${{{hole.name}}}")
    volatile, counts = kinds[hole.name[:1]]

    def value(bmc: Values, _moment: Moment, item: Any) -> bytes:
        found = bmc[hole.name] if item is None else item
        return orjson.dumps(found.upper() if hole.filter else found)

    return Binding(value, volatile, counts)


def render(template: dict[str, Any], values: Values | None = None, item: Any = None) -> tuple[bytes, Any]:
    """(entity tag, decoded body)."""
    etag, body = Body(template, bind).render(values or {}, NOW, item)
    return etag, orjson.loads(body)


def test_a_hole_that_can_be_empty_takes_its_property_with_it() -> None:
    def optional(hole: Hole) -> Binding:
        return Binding(lambda bmc, _moment, _item: bmc[hole.name], volatile=True, optional=True)

    body = Body({"A": 1, "50%": "${end}", "B": {"C": 2, "D": "${end}"}, **ETAG}, optional)
    there = body.render({"end": b'"x"'}, NOW)
    absent = body.render({"end": b""}, NOW)
    assert orjson.loads(there[1]) == {"A": 1, "50%": "x", "B": {"C": 2, "D": "x"}, "@odata.etag": there[0].decode()}
    assert orjson.loads(absent[1]) == {"A": 1, "B": {"C": 2}, "@odata.etag": absent[0].decode()}
    assert there[0] != absent[0]


@pytest.mark.parametrize("template", [{"A": "${end}"}, {"A": 1, "B": ["${end}"]}, {"A": 1, "B": "x${end}"}])
def test_a_hole_that_can_be_empty_is_a_whole_property_and_not_the_first(template: dict[str, Any]) -> None:
    with pytest.raises(TemplateError, match="whole property"):
        Body(template, lambda _: Binding(lambda *_: b"", volatile=True, optional=True))


# Literal texts of a profile never have a NUL or ${; JSON numbers are what orjson can write.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(lambda text: "${" not in text)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(TEXTS.filter(lambda key: key != "@odata.etag"), JSON, max_size=5), st.booleans())
def test_a_template_without_holes_is_its_own_json(template: dict[str, Any], tagged: bool) -> None:
    etag, body = render({**template, **ETAG} if tagged else template)
    assert body == ({**template, "@odata.etag": etag.decode()} if tagged else template)
    assert bool(etag) == tagged


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), JSON)
def test_a_value_in_a_hole_is_json_again(text: str, value: Any) -> None:
    _, body = render({"whole": "${s}", "inside": "<${i}>"}, {"s": value, "i": text})
    assert body == {"whole": value, "inside": f"<{text}>"}


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_a_client_wrote_stands_for_itself(text: str) -> None:
    _, body = render({"a": literal({"list": [text], "text": text}), "b": "${s}"}, {"s": 1})
    assert body == {"a": {"list": [text], "text": text}, "b": 1}


@pytest.mark.parametrize("text", ["${s}", "${nope}", "a ${s} b", "\0000\0", "\0tag\0", "\0000\0text\0", "%b %s %"])
def test_what_a_client_wrote_is_never_a_hole(text: str) -> None:
    etag, body = render({**ETAG, "a": literal(text), "b": "${s}"}, {"s": "value"})
    assert body == {"@odata.etag": etag.decode(), "a": text, "b": "value"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("${s}", "x"),
        ("${s|upper}", "X"),
        ("${ s | upper }", "X"),
        ("${s}${s}", "xx"),
        ("a${s}b${i}c", "axbyc"),
        ("100% of ${s}", "100% of x"),
        ("%b%s%%${s}", "%b%s%%x"),
        ("$s {s} $ {s} ${}", "$s {s} $ {s} ${}"),
        ("MAC(${s},0x1)", "MAC(x,0x1)"),
    ],
)
def test_holes_whole_and_embedded(text: str, shown: str) -> None:
    assert render({"a": text, "b": [{"c": text}]}, {"s": "x", "i": "y"})[1] == {"a": shown, "b": [{"c": shown}]}


@pytest.mark.parametrize("value", [None, True, 12, 1.5, [1], {"a": 1}, "text"])
def test_a_hole_that_is_the_whole_text_takes_the_type_of_its_value(value: Any) -> None:
    assert render({"a": "${s}"}, {"s": value})[1] == {"a": value}


@pytest.mark.parametrize(("value", "shown"), [(None, "<null>"), (12, "<12>"), ('a"\\\n', '<a"\\\n>'), ("é€", "<é€>")])
def test_a_hole_inside_a_text_stays_within_the_text(value: Any, shown: str) -> None:
    assert render({"a": "<${s}>"}, {"s": value})[1] == {"a": shown}


def test_holes_see_the_item_of_a_dynamic_collection() -> None:
    assert render({"a": "${s}"}, item="member")[1] == {"a": "member"}


def test_an_unknown_hole_or_filter_is_an_error_of_the_template() -> None:
    for text in ("${nope}", "x ${s|nope} y"):
        with pytest.raises(TemplateError, match="no hole"):
            Body({"a": [text]}, bind)


@pytest.mark.parametrize("text", ["\0", "a\0000\0"])
def test_a_profile_has_no_nul_characters(text: str) -> None:
    with pytest.raises(TemplateError):
        Body({"a": text}, bind)


@pytest.mark.parametrize(
    ("text", "hole"),
    [
        ("serial", Hole("serial")),
        ("bmc.mac|plain", Hole("bmc.mac", "plain")),
        (" bmc.mac | plain ", Hole("bmc.mac", "plain")),
        ("reading:/redfish/v1/Chassis/1|text", Hole("reading:/redfish/v1/Chassis/1", "text")),
    ],
)
def test_the_inside_of_a_hole(text: str, hole: Hole) -> None:
    assert parse_hole(text) == hole


def test_finding_holes() -> None:
    assert holes_in("/a/${item.id}/b/${serial|x}/{no}") == ["item.id", "serial|x"]


# entity tags


@pytest.mark.parametrize("template", [{"a": 1}, {"a": "${i}"}, {"a": "${s}"}, {"a": "${c}"}, {"a": "<${s}> ${i}"}])
def test_the_tag_is_strong_quoted_and_the_same_in_the_body(template: dict[str, Any]) -> None:
    etag, body = render({**template, **ETAG}, {"i": "x", "s": "y", "c": "z"})
    assert etag[:1] == etag[-1:] == b'"'
    assert etag[1:-1].isalnum()
    assert body["@odata.etag"] == etag.decode()


def test_a_body_without_a_tag_has_none() -> None:
    etag, body = render({"a": "${s}"}, {"s": 1})
    assert etag == b""
    assert body == {"a": 1}


@pytest.mark.parametrize(
    ("template", "follows"),
    [
        ({"a": "${s}"}, True),
        ({"a": "text ${s}"}, True),
        ({"a": ["${i}", "${c}", {"b": "${s}"}]}, True),
        ({"a": "${i}"}, False),
        ({"a": "${c}"}, False),
        ({"a": "${c} and ${i}"}, False),
    ],
)
@pytest.mark.parametrize("changed", ["i", "s", "c"])
def test_the_tag_follows_state_and_neither_identity_nor_clocks(
    template: dict[str, Any], follows: bool, changed: str
) -> None:
    values = {"i": "1", "s": "1", "c": "1"}
    body = Body({**ETAG, **template}, bind)
    before, after = (body.render(one, NOW)[0] for one in (values, {**values, changed: "2"}))
    assert (before != after) == (follows and changed == "s")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": "1"}),
        ({"a": "${i1}"}, {"a": "${i2}"}),
        ({"a": "${s1}"}, {"a": "${s2}"}),
        ({"a": "${i|upper}"}, {"a": "${i}"}),
        ({"a": 1, "b": "${s}"}, {"a": 2, "b": "${s}"}),
        ({"a": literal("1")}, {"a": literal("2")}),
        ({"a": literal("1"), "b": "${s}"}, {"a": literal("2"), "b": "${s}"}),
        ({"a": literal("${i}")}, {"a": "${i}"}),
        ({"a": "${s1}", "b": "${s2}"}, {"a": "${s2}", "b": "${s1}"}),
    ],
)
def test_the_tag_differs_when_the_template_does(one: dict[str, Any], other: dict[str, Any]) -> None:
    values = dict.fromkeys(("i", "i1", "i2", "s", "s1", "s2"), "same")
    assert render({**ETAG, **one}, values)[0] != render({**ETAG, **other}, values)[0]


def test_two_values_that_change_places_change_the_tag() -> None:
    body = Body({**ETAG, "a": "${s1}", "b": "${s2}"}, bind)
    assert body.render({"s1": 1, "s2": 2}, NOW)[0] != body.render({"s1": 2, "s2": 1}, NOW)[0]
