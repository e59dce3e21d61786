"""Globs over request paths."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine.fault_globs import MAX_LENGTH, Glob, compiled

_token = st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "[a-c]", "[]a]", "[!]]", "[-.]"])
_segment = st.lists(_token, max_size=5).map("".join).map(lambda text: re.sub(r"\*+", "*", text))
_globs = st.lists(_segment | st.just("**"), min_size=1, max_size=6).map(lambda parts: "/" + "/".join(parts))
_paths = st.lists(st.text("abc.]-", max_size=5), max_size=6).map(lambda parts: "/" + "/".join(parts))


def slowly(glob: str, path: str) -> bool:
    """What a glob means, by trying everything."""
    return _segments(glob.rstrip("/").replace("***", "**").split("/"), path.split("/"))


def _segments(globs: list[str], segments: list[str]) -> bool:
    if not globs:
        return not segments
    if globs[0] == "**":
        return any(_segments(globs[1:], segments[count:]) for count in range(len(segments) + 1))
    return bool(segments) and _characters(globs[0], segments[0]) and _segments(globs[1:], segments[1:])


def _characters(glob: str, text: str) -> bool:
    if not glob:
        return not text
    if glob[0] == "*":
        return any(_characters(glob[1:], text[count:]) for count in range(len(text) + 1))
    if not text:
        return False
    if glob[0] == "[":
        negated = glob.startswith("[!")
        start = 2 if negated else 1
        end = glob.index("]", start + 1)
        inside = "abc" if glob[start:end] == "a-c" else glob[start:end]
        return (text[0] in inside) is not negated and _characters(glob[end + 1 :], text[1:])
    return glob[0] in ("?", text[0]) and _characters(glob[1:], text[1:])


@given(_globs, _paths)
def test_a_glob_matches_what_it_means(glob: str, path: str) -> None:
    path = path.rstrip("/")
    assert Glob(glob).matches(path) is slowly(glob, path)


@given(_globs, st.data())
def test_a_path_made_from_a_glob_matches(glob: str, data: st.DataObject) -> None:
    made = glob.replace("**", data.draw(st.sampled_from(["x", "x/y", "x/y/z"]))).replace("*", "aba").replace("?", "c")
    for set_, one in (("[ab]", "b"), ("[!a]", "."), ("[a-c]", "c"), ("[]a]", "]"), ("[!]]", "a"), ("[-.]", "-")):
        made = made.replace(set_, one)
    assert Glob(glob).matches(made.rstrip("/"))


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("/redfish/v1", "/redfish/v1", True),
        ("/redfish/v1/", "/redfish/v1", True),
        ("/redfish/v1", "/redfish/v1x", False),
        ("/a/*", "/a", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a", True),
        ("/a/**", "/ab", False),
        ("/a/**", "/a/b/c", True),
        ("/a/**/c", "/a/c", True),
        ("/a/**/c", "/a/b/b/c", True),
        ("/a/**/**/c", "/a/c", True),
        ("**", "", True),
        ("**", "/a/b", True),
        ("**/Sensors/*", "/redfish/v1/Chassis/1/Sensors/T1", True),
        ("/", "", True),
        ("/", "/a", False),
        ("/a?c", "/a/c", False),
        ("/a[!b]c", "/a/c", False),
        ("/a[.-0]c", "/a/c", False),
        ("/a[.-0]c", "/a.c", True),
        ("/A", "/a", False),
        ("/a.c", "/abc", False),
        ("/a+(b|c)$", "/a+(b|c)$", True),
        ("/a[[]b", "/a[b", True),
        ("/Fan*[0-9][AB]", "/Fan.Embedded.1A", True),
        ("/x*", "/x\ny", True),
    ],
)
def test_examples(glob: str, path: str, expected: bool) -> None:
    assert Glob(glob).matches(path) is expected


@pytest.mark.parametrize(
    ("glob", "right"),
    [
        ("", "starts with /"),
        ("redfish", "starts with /"),
        ("*", "** for any path"),
        ("***", "** for any path"),
        ("/a**", "a segment of its own"),
        ("/***/b", "a segment of its own"),
        ("/a[b", "needs its ]"),
        ("/a[b/c]", "needs its ]"),
        ("/a[]", "needs its ]"),
        ("/a[z-b]", "write it b-z"),
        ("/" + "a" * MAX_LENGTH, "at most 512"),
    ],
)
def test_a_bad_glob_says_what_would_be_right(glob: str, right: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Glob(glob)
    assert right in str(caught.value)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("/" + "*a" * 250 + "b", "/" + "a" * 8000),
        ("/" + "**/*a*/" * 70 + "b", "/" + "aa/" * 2600 + "c"),
        ("/**/" + "*a*a*a/" * 70 + "b", "/" + "aaaa/" * 1600 + "c"),
        ("/*" + "?" * 250 + "x*" + "?" * 250, "/" + "a" * 8000),
        ("/" + "*/" * 250 + "b", "/" + "a/" * 4000 + "c"),
    ],
)
def test_a_glob_with_many_wildcards_comes_to_an_end(glob: str, path: str) -> None:
    assert not Glob(glob).matches(path)


@given(_globs, _paths)
def test_the_prefix_never_rejects_a_match(glob: str, path: str) -> None:
    path = path.rstrip("/")
    if slowly(glob, path):
        assert path.startswith(Glob(glob).prefix)


def test_globs_are_equal_when_their_texts_are_and_are_compiled_once() -> None:
    assert Glob("/a") == Glob("/a") != Glob("/b")
    assert Glob("/a") != "/a"
    assert len({Glob("/a"), Glob("/a"), Glob("/b")}) == 2
    assert compiled("/a/*") is compiled("/a/*")
    assert repr(Glob("/a")) == "Glob('/a')"
