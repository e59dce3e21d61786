"""YAML with line numbers."""

from pathlib import Path

import pytest

from bmcsim.tree.source import MAX_BYTES, MAX_DEPTH, MAX_VALUES, ProfileError, Source, deep_merge


def source_of(tmp_path: Path, text: str | bytes) -> Source:
    """A Source of a text."""
    path = tmp_path / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Source(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("On", "On"),
        ("Off", "Off"),
        ("yes", "yes"),
        ("no", "no"),
        ("True", "True"),
        ("NULL", "NULL"),
        ("2026-02-12", "2026-02-12"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        (".inf", ".inf"),
        ("1e3", "1e3"),
        ("1.2.3", "1.2.3"),
        ('"12"', "12"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1.5e3", 1500.0),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(tmp_path: Path, text: str, value: object) -> None:
    got = source_of(tmp_path, f"a: {text}\n").data["a"]
    assert (got, type(got)) == (value, type(value))


def test_anchors_and_empty_files(tmp_path: Path) -> None:
    assert source_of(tmp_path, "a: &x [1, 2]\nb: *x\n").data == {"a": [1, 2], "b": [1, 2]}
    assert source_of(tmp_path, "# nothing\n").data == {}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("a",), 2),
        (("a", "b"), 3),
        (("a", "b", 0), 4),
        (("a", "b", 1), 5),
        (("a", "b", 1, "c"), 5),
        (("a", "missing", "deeper"), 2),
        (("missing",), 2),
    ],
)
def test_every_path_has_the_line_of_its_value_or_of_its_nearest_parent(
    tmp_path: Path, path: tuple[str | int, ...], line: int
) -> None:
    source = source_of(tmp_path, "# comment\na:\n  b:\n    - 1\n    - {c: 2}\n")
    assert source.line(path) == line


def test_an_error_names_file_line_and_path(tmp_path: Path) -> None:
    error = source_of(tmp_path, "a:\n  b:\n  - 1\n  - 2\n").error(("a", "b", 1), "must be odd")
    assert str(error) == f"{tmp_path / 'a.yaml'}:4: a.b.1: must be odd"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is there twice"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", 4, "'b' is there twice"),
        ("a: 1\n2: b\n", 2, "2 must be text"),
        ("a: 1\nnull: b\n", 2, "None must be text"),
        ("a: 1\ntrue: b\n", 2, "True must be text"),
    ],
)
def test_keys_that_are_there_twice_or_are_not_text_are_refused(tmp_path: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(ProfileError) as caught:
        source_of(tmp_path, text)
    assert f"a.yaml:{line}: " in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"- 1\n- 2\n", "must be a mapping"),
        (b"just text\n", "must be a mapping"),
        (b"a: [1\n", "not YAML"),
        (b"a: 1\n--- \nb: 2\n", "not YAML"),
        (b"a: !!python/object:os.system x\n", "not YAML"),
        (b"a: *unknown\n", "not YAML"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"a: &x [*x]\n", "a.yaml"),
        (b"a: " + b"[" * 3000 + b"]" * 3000 + b"\n", "a.yaml"),
    ],
)
def test_what_is_not_one_plain_mapping_is_refused_by_name(tmp_path: Path, text: bytes, what: str) -> None:
    with pytest.raises(ProfileError, match=what) as caught:
        source_of(tmp_path, text)
    assert str(tmp_path / "a.yaml") in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"nowhere\.yaml: cannot be read"):
        Source(tmp_path / "nowhere.yaml")


def test_a_file_may_be_as_large_as_the_limit_and_no_larger(tmp_path: Path) -> None:
    head = b"a: 1\n#"
    assert source_of(tmp_path, head + b"x" * (MAX_BYTES - len(head))).data == {"a": 1}
    with pytest.raises(ProfileError, match=f"larger than {MAX_BYTES} bytes"):
        source_of(tmp_path, head + b"x" * (MAX_BYTES - len(head) + 1))


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        ({"a": 1}, {"a": None}, {"a": None}),
    ],
)
def test_mappings_merge_and_everything_else_is_replaced(base: dict, over: dict, merged: dict) -> None:
    before = repr((base, over))
    assert deep_merge(base, over) == merged
    assert repr((base, over)) == before


@pytest.mark.parametrize(("start", "end"), [("{a: ", "}"), ("[", "]")])
def test_what_is_nested_deeper_than_is_needed_is_refused_with_its_line(tmp_path: Path, start: str, end: str) -> None:
    def nested(levels: int) -> str:
        return f"top:\n  a: {start * levels}1{end * levels}"

    assert source_of(tmp_path, nested(MAX_DEPTH - 2)).data
    for levels in (MAX_DEPTH - 1, 600):
        with pytest.raises(ProfileError, match=rf"a\.yaml:2: top\.a\S*: is in more than {MAX_DEPTH} others"):
            source_of(tmp_path, nested(levels))


@pytest.mark.parametrize("number", [str(2**64), str(-(2**63) - 1), "9" * 5000])
@pytest.mark.parametrize("text", ["a:\n  b: {}", "a:\n  ? {}\n  : b"])
def test_a_number_that_no_json_reader_takes_is_refused_with_its_line(tmp_path: Path, number: str, text: str) -> None:
    with pytest.raises(ProfileError, match=r"a\.yaml:2: a\S*: must be a number of at most 64 bits"):
        source_of(tmp_path, text.format(number))
    assert source_of(tmp_path, f"a: {2**64 - 1}").data == {"a": 2**64 - 1}


def test_what_aliases_stand_for_counts_each_time(tmp_path: Path) -> None:
    bomb = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(
        ProfileError, match=f"is one value too many; a file has at most {MAX_VALUES}, aliases written out"
    ):
        source_of(tmp_path, bomb)
    assert source_of(tmp_path, "a: &a {b: 1}\nc: *a\n").data == {"a": {"b": 1}, "c": {"b": 1}}
