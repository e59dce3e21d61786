"""The profile format: placeholders, repeats, conditions, parts, and what is refused, each with its place."""

from pathlib import Path
from typing import Any

import pytest

from bmcsim.tree.profile import Profile, Timings, find, load, names
from bmcsim.tree.source import ProfileError
from tests.unit.tree.conftest import HEAD, Load, Write

ONE = "resources:\n  /redfish/v1/A:\n    type: A.v1_0_0\n"


def properties(profile: Profile, uri: str = "/redfish/v1/A") -> dict[str, Any]:
    """The Redfish properties of a resource."""
    return profile.resources[uri].properties


def uris(profile: Profile) -> list[str]:
    """The last segments of the URIs of a profile, in order."""
    return [uri.removeprefix("/redfish/v1/") for uri in profile.resources]


# placeholders


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{number}", 7),
        ("{text}", "abc"),
        ("{number+1}", 8),
        ("{number-1}", 6),
        ("{number*2}", 14),
        ("{number*2+1}", 15),
        ("{number+1*2}", 16),
        ("{number:03d}", "007"),
        ("{number*37:04X}", "0103"),
        ("{text:>5}", "  abc"),
        ("n{number}", "n7"),
        ("{number}{number-7}", "70"),
        ("{text}/{number+1}", "abc/8"),
        ("${serial}", "${serial}"),
        ("${hw.mac{number}}", "${hw.mac7}"),
        ("${dpu{number-6}.host.mac|plain}", "${dpu1.host.mac|plain}"),
        ("{Upper}", "{Upper}"),
        ("{}", "{}"),
        ("plain", "plain"),
    ],
)
def test_placeholders(resources: Load, text: str, value: Any) -> None:
    profile = resources(f"parameters: {{number: 7, text: abc}}\n{ONE}    P: '{text}'\n    L: [{{M: '{text}'}}]\n")
    got = properties(profile)
    assert (got["P"], type(got["P"])) == (value, type(value))
    assert got["L"] == [{"M": value}]


def test_placeholders_in_keys_and_uris(resources: Load) -> None:
    text = "resources:\n  /redfish/v1/{text}{number:02d}:\n    type: A.v1_0_0\n    Oem: {'{text}': 1, 'x{number}': 2}\n"
    profile = resources(f"parameters: {{number: 7, text: abc}}\n{text}")
    assert properties(profile, "/redfish/v1/abc07") == {"Oem": {"abc": 1, "x7": 2}}


def test_a_key_that_is_one_placeholder_is_text(resources: Load) -> None:
    profile = resources(f"parameters: {{number: 7}}\n{ONE}    Oem: {{'{{number}}': 1}}\n")
    assert properties(profile) == {"Oem": {"7": 1}}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{nope}", "{nope} is neither a parameter nor a repeat variable here"),
        ("x{nope+1}y", "{nope} is neither a parameter nor a repeat variable here"),
        ("{text+1}", "{text} is not a number"),
        ("{text:04X}", "text"),
        ("{number:nonsense}", "number"),
    ],
)
def test_a_placeholder_that_cannot_be_filled_is_an_error_with_its_place(resources: Load, text: str, what: str) -> None:
    with pytest.raises(ProfileError) as caught:
        resources(f"parameters: {{number: 7, text: abc}}\n{ONE}    P: '{text}'\n")
    assert what in str(caught.value)
    assert "tiny.yaml:8: " in str(caught.value)


# repeats and conditions


@pytest.mark.parametrize(
    ("repeat", "expected"),
    [
        ("{n: 1-3}", ["1", "2", "3"]),
        ("{n: 0-0}", ["0"]),
        ("{n: 1-0}", []),
        ("{n: '1-{count}'}", ["1", "2"]),
        ("{n: '{count}-3'}", ["2", "3"]),
        ("{n: [a, b]}", ["a", "b"]),
        ("{n: '{letters}'}", None),
        ("[{n: x}, {n: '{count}'}]", ["x", "2"]),
        ("[]", []),
        ("{n: 1-2, m: [a, b]}", ["1a", "1b", "2a", "2b"]),
        ("[{n: 1, m: b}, {n: 2, m: a}]", ["1b", "2a"]),
    ],
)
def test_repeats(resources: Load, repeat: str, expected: list[str] | None) -> None:
    pattern = "{n}{m}" if "m:" in repeat else "{n}"
    text = (
        "parameters: {count: 2, letters: ab}\n"
        f"resources:\n  /redfish/v1/{pattern}:\n    repeat: {repeat}\n    type: A.v1_0_0\n"
    )
    if expected is None:
        with pytest.raises(ProfileError, match="'ab' must be FIRST-LAST"):
            resources(text)
    else:
        assert uris(resources(text)) == expected


def test_repeat_variables_keep_their_type_and_hide_parameters(resources: Load) -> None:
    profile = resources(
        "parameters: {n: 5}\nresources:\n  /redfish/v1/A{n}:\n    repeat: [{n: 1, list: [a, 1], flag: true}]\n"
        "    type: A.v1_0_0\n    N: '{n}'\n    List: '{list}'\n    Flag: '{flag}'\n"
    )
    assert properties(profile, "/redfish/v1/A1") == {"N": 1, "List": ["a", 1], "Flag": True}


@pytest.mark.parametrize(
    ("repeat", "what"),
    [
        ("5", "must be {variable: FIRST-LAST or list, ...} or a list of mappings"),
        ("{n: 5}", "5 must be FIRST-LAST"),
        ("{n: a-b}", "'a-b' must be FIRST-LAST"),
        ("{n: 0-5000}", "'0-5000' must be FIRST-LAST"),
        ("[1, 2]", "a list of repeats has mappings of variables"),
    ],
)
def test_a_repeat_that_is_none_is_an_error_with_its_place(resources: Load, repeat: str, what: str) -> None:
    with pytest.raises(ProfileError) as caught:
        resources(f"resources:\n  /redfish/v1/A:\n    type: A.v1_0_0\n    repeat: {repeat}\n")
    assert what in str(caught.value)
    assert "tiny.yaml:9: " in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("{count} == 2", True),
        ("{count} != 2", False),
        ("{count} > 1", True),
        ("{count} > 2", False),
        ("{count} >= 2", True),
        ("{count} < 10", True),
        ("{count} <= 1", False),
        ("{count} < {other}", True),
        ("{name} == abc", True),
        ("{name} != none", True),
        ("{name} == {count}", False),
    ],
)
def test_conditions(resources: Load, condition: str, holds: bool) -> None:
    profile = resources(f"parameters: {{count: 2, other: 10, name: abc}}\n{ONE}    when: '{condition}'\n")
    assert uris(profile) == (["A"] if holds else [])


def test_a_condition_sees_the_variables_of_its_repeat(resources: Load) -> None:
    profile = resources(
        "resources:\n  /redfish/v1/A{n}:\n    repeat: {n: 1-4}\n    when: '{n} > 2'\n    type: A.v1_0_0\n"
    )
    assert uris(profile) == ["A3", "A4"]


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ("{count}", "must be A == B"),
        ("{count} = 2", "must be A == B"),
        ("{count} == 2 and 3 == 3", "must be A == B"),
        ("{count} > abc", "compares something that is not a number"),
        ("[1, 2]", "must be A == B"),
        ("{nope} == 1", "neither a parameter"),
    ],
)
def test_a_condition_that_is_none_is_an_error_with_its_place(resources: Load, condition: str, what: str) -> None:
    with pytest.raises(ProfileError) as caught:
        resources(f"parameters: {{count: 2}}\n{ONE}    when: '{condition}'\n")
    assert what in str(caught.value)
    assert "tiny.yaml:" in str(caught.value)


# parts


PART = (
    "parameters: {name: null, extra: plain}\n"
    "resources:\n  /redfish/v1/{name}:\n    type: A.v1_0_0\n    Extra: '{extra}'\n"
)


def test_a_part_is_filled_with_its_parameters_and_defaults(resources: Load) -> None:
    profile = resources(
        "parameters: {who: B}\nparts:\n  - part: one\n    with: {name: A}\n"
        "  - part: one\n    with: {name: '{who}', extra: [1]}\n",
        one=PART,
    )
    assert uris(profile) == ["A", "B"]
    assert properties(profile, "/redfish/v1/A") == {"Extra": "plain"}
    assert properties(profile, "/redfish/v1/B") == {"Extra": [1]}


def test_parts_repeat_and_have_conditions(resources: Load) -> None:
    profile = resources(
        "parts:\n  - part: one\n    repeat: {n: 1-3}\n    when: '{n} != 2'\n    with: {name: 'A{n}'}\n", one=PART
    )
    assert uris(profile) == ["A1", "A3"]


def test_parts_of_parts_and_their_scopes(resources: Load) -> None:
    outer = "parameters: {name: null}\nparts:\n  - part: one\n    with: {name: 'in_{name}'}\n"
    profile = resources("parts:\n  - {part: outer, with: {name: x}}\n", outer=outer, one=PART)
    assert uris(profile) == ["in_x"]
    leak = "parameters: {}\nresources:\n  /redfish/v1/{name}: {type: A.v1_0_0}\n"
    with pytest.raises(ProfileError, match=r"\{name\} is neither a parameter"):
        resources("parameters: {name: x}\nparts:\n  - {part: leak}\n", leak=leak)


def test_later_blocks_extend_earlier_ones_and_keep_their_place(resources: Load) -> None:
    profile = resources(
        "parts:\n  - {part: one, with: {name: A}}\n  - {part: one, with: {name: B}}\n"
        "resources:\n  /redfish/v1/A:\n    Extra: other\n    Oem: {X: 1}\n",
        one=PART,
    )
    assert uris(profile) == ["A", "B"]
    assert properties(profile, "/redfish/v1/A") == {"Extra": "other", "Oem": {"X": 1}}


@pytest.mark.parametrize(
    ("parts", "line", "what"),
    [
        ("5", 6, "must be a list of {part: NAME, with: {...}}"),
        ("\n  - 5", 7, "must be {part: NAME, with: {...}}"),
        ("\n  - with: {}", 7, "must be {part: NAME, with: {...}}"),
        ("\n  - part: 5", 7, "must be {part: NAME, with: {...}}"),
        ("\n  - part: missing", 7, "there is no part 'missing' in "),
        ("\n  - part: ../tiny", 7, "there is no part '../tiny' in "),
        ("\n  - part: one", 7, "the part one needs the parameter name"),
        ("\n  - part: one\n    with: {name: null}", 7, "the part one needs the parameter name"),
        ("\n  - part: one\n    with:\n      name: A\n      nope: 1", 10, "the part one has no such parameter"),
        ("\n  - part: one\n    nope: 1", 8, "unknown key; a part has part, with, repeat and when"),
        ("\n  - part: one\n    with: [name, A]", 8, "with"),
        ("\n  - part: one\n    with: 5", 8, "with"),
    ],
)
def test_a_part_that_cannot_be_used_is_an_error_with_its_place(
    resources: Load, parts: str, line: int, what: str
) -> None:
    with pytest.raises(ProfileError) as caught:
        resources(f"parts: {parts}\n", one=PART)
    assert what in str(caught.value)
    assert f"tiny.yaml:{line}: " in str(caught.value)


@pytest.mark.parametrize(
    ("part", "line", "what"),
    [
        ("parameters: {}\nnope: 1\n", 2, "unknown key; a part has parameters, parts and resources"),
        ("\nresources: 5\n", 2, "must be a mapping from URI to resource"),
        ("\nparts: 5\n", 2, "must be a list"),
        ("\nparameters: [a, b]\n", 2, "parameters"),
        ("resources:\n  /redfish/v1/A:\n    type: 5\n", 3, "Expected `str`, got `int`"),
    ],
)
def test_an_error_in_a_part_names_the_file_of_the_part(resources: Load, part: str, line: int, what: str) -> None:
    with pytest.raises(ProfileError) as caught:
        resources("parts:\n  - {part: one}\n", one=part)
    assert what in str(caught.value)
    assert f"one.yaml:{line}: " in str(caught.value)


def test_parts_nested_without_end_are_refused(resources: Load) -> None:
    with pytest.raises(ProfileError, match="nested deeper than 8; does one use itself") as caught:
        resources("parts:\n  - {part: loop}\n", loop="parts:\n  - {part: loop}\n")
    assert "loop.yaml" in str(caught.value)


# what is refused


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        ("    nope: 1\n", 9, "nope: unknown key; a resource has type, repeat, when, collection"),
        ("    reading: {min: 1, max: 2, nope: 3}\n", 9, "unknown field `nope`"),
        ("    log: 5\n", 9, "Expected `object | null`, got `int`"),
        ("    log: {nope: 3}\n", 9, "unknown field `nope`"),
        ("    log: {keep: 0}\n", 9, "Expected `int` >= 1"),
        ("    log:\n      records:\n        - on: Nmi\n", 11, "missing required field `message`"),
        (
            "    log:\n      records:\n        - {on: Nmi, message: M,\n           severity: Bad}\n",
            12,
            "Invalid enum value",
        ),
        ("    reading: {min: 1}\n", 9, "missing required field `max`"),
        ("    reading:\n      min: 1\n      max: high\n", 11, "Expected `float`, got `str`"),
        ("    link: 5\n", 9, "got `int`"),
        ("    actions: [Reset]\n", 9, "Expected `object`, got `array`"),
        ("    writable:\n      Password: {type: text}\n", 9, "text"),
        ("    writable:\n      Password: {type: string, nope: 1}\n", 9, "unknown field `nope`"),
        ("    collection: B\n", None, "needs either type (such as Chassis.v1_25_0) or collection"),
    ],
)
def test_wrong_facts_of_a_resource_are_errors_with_their_place(
    resources: Load, lines: str, line: int | None, what: str
) -> None:
    with pytest.raises(ProfileError) as caught:
        resources(ONE + lines)
    assert what in str(caught.value)
    assert "/redfish/v1/A" in str(caught.value)
    assert (f"tiny.yaml:{line}: " if line else "tiny.yaml:") in str(caught.value)


def test_a_resource_without_type_and_collection_is_refused(resources: Load) -> None:
    with pytest.raises(ProfileError, match=r"tiny\.yaml:7: .*needs either type"):
        resources("resources:\n  /redfish/v1/A:\n    Name: A\n")


def test_an_unknown_key_is_named_where_it_stands_and_not_where_the_resource_is_extended(resources: Load) -> None:
    part = "resources:\n  /redfish/v1/A:\n    type: A.v1_0_0\n    nope: 1\n"
    with pytest.raises(ProfileError) as caught:
        resources("parts:\n  - {part: one}\nresources:\n  /redfish/v1/A:\n    Name: A\n", one=part)
    assert "one.yaml:4: " in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("kind: host", "kind: toaster", 3, "toaster"),
        ("title: Tiny", "title: 5", 2, "Expected `str`, got `int`"),
        ("title: Tiny\n", "", 1, "missing required field `title`"),
        ("title: Tiny", "title: Tiny\nnope: 1", 3, "unknown field `nope`"),
        ("title: Tiny", "title: Tiny\ntimings:\n  power_on: 1\n  nope: 1", 5, "unknown field `nope`"),
        ("title: Tiny", "title: Tiny\ntimings:\n  power_on: soon", 4, "Expected `float`, got `str`"),
        ("user: root", "user: 5", 4, "Expected `str`, got `int`"),
        ("title: Tiny", "title: Tiny\nbehaviour:\n  reset_conflict: 500", 4, "500"),
        ("title: Tiny", "title: Tiny\nparameters:\n  a: [1]", 3, "got `array`"),
    ],
)
def test_wrong_facts_of_a_profile_are_errors_with_their_place(
    write: Write, old: str, new: str, line: int, what: str
) -> None:
    with pytest.raises(ProfileError) as caught:
        load(write(HEAD.replace(old, new)))
    assert what in str(caught.value)
    assert f"tiny.yaml:{line}: " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("resources: [A]\n", 6, "must be a mapping from URI to resource"),
        ("resources:\n  /redfish/v1/A: 5\n", 7, "must be a mapping"),
        ("resources:\n  Systems: {type: A.v1_0_0}\n", 7, "is its URI and starts with /redfish/v1"),
        ("resources:\n  /redfish/v2/A: {type: A.v1_0_0}\n", 7, "is its URI and starts with /redfish/v1"),
        ("resources:\n  /redfish/v1x: {type: A.v1_0_0}\n", 7, "URI"),
        ("resources:\n  /redfish/v1/A/: {type: A.v1_0_0}\n", 7, "URI"),
        ("resources:\n  /redfish/v1/A//B: {type: A.v1_0_0}\n", 7, "URI"),
        ("resources:\n  '/redfish/v1/A B': {type: A.v1_0_0}\n", 7, "URI"),
        ("resources:\n  /redfish/v1/A?b: {type: A.v1_0_0}\n", 7, "URI"),
        ("resources:\n  /redfish/v1/A#b: {type: A.v1_0_0}\n", 7, "URI"),
    ],
)
def test_what_no_client_could_ask_for_is_refused_as_a_resource(
    resources: Load, text: str, line: int, what: str
) -> None:
    with pytest.raises(ProfileError) as caught:
        resources(text)
    assert what in str(caught.value)
    assert f"tiny.yaml:{line}: " in str(caught.value)


# parameters and variants


VARIED = "parameters: {a: own, b: 1}\nvariants:\n  big: {b: 2}\n" + ONE + "    A: '{a}'\n    B: '{b}'\n"


@pytest.mark.parametrize(
    ("parameters", "variant", "expected"),
    [
        ({}, "", {"A": "own", "B": 1}),
        ({}, "big", {"A": "own", "B": 2}),
        ({"a": "given"}, "big", {"A": "given", "B": 2}),
        ({"b": 3}, "big", {"A": "own", "B": 3}),
    ],
)
def test_given_parameters_win_over_the_variant_and_that_over_the_profile(
    write: Write, parameters: dict[str, int | str], variant: str, expected: dict[str, Any]
) -> None:
    profile = load(write(HEAD + VARIED), parameters, variant)
    assert properties(profile) == expected
    assert profile.parameters == {"a": expected["A"], "b": expected["B"]}


def test_unknown_variants_and_parameters_are_named(write: Write) -> None:
    path = write(HEAD + VARIED)
    with pytest.raises(ProfileError, match=r"tiny\.yaml:7: variants: has no variant huge"):
        load(path, variant="huge")
    with pytest.raises(ProfileError, match=r"tiny\.yaml:6: parameters: has no parameter c, d"):
        load(path, {"d": 1, "c": 2, "a": "x"})


def test_a_variant_may_only_set_parameters_that_the_profile_has(write: Write) -> None:
    with pytest.raises(ProfileError, match="has no parameter c"):
        load(write(HEAD + VARIED.replace("b: 2", "c: 2")), variant="big")


# finding profiles


def test_profiles_are_found_by_name(tmp_path: Path) -> None:
    assert "bluefield3" in names()
    assert find("bluefield3").name == "bluefield3.yaml"
    assert find(str(tmp_path / "x.yaml")) == tmp_path / "x.yaml"


@pytest.mark.parametrize("name", ["nope", "", "../profiles/bluefield3", "parts/service", "/etc/passwd"])
def test_an_unknown_profile_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ProfileError, match=r"there are: .*bluefield3"):
        find(name)


def test_the_defaults_of_a_profile(resources: Load) -> None:
    profile = resources(ONE)
    assert profile.head.timings == Timings()
    assert profile.head.accounts[0].role == "Administrator"
    assert profile.head.behaviour.factory_password_reads == "account_service"
    assert profile.resources["/redfish/v1/A"].link is True
