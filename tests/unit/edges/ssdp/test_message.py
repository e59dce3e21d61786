"""What counts as a search, and what an answer looks like."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bmcsim.edges.ssdp.message import MAX_SEARCH, MAX_WAIT, Search, Service, minor_of, parse_search, reply

URN = "urn:dmtf-org:service:redfish-rest:1"
UUID = "92384634-2938-2342-8820-489239905423"


def search(**fields: str | None) -> bytes:
    """A datagram; None leaves a field out."""
    default = {"HOST": "239.255.255.250:1900", "MAN": '"ssdp:discover"', "MX": "3", "ST": URN}
    lines = [f"{name}: {value}" for name, value in {**default, **fields}.items() if value is not None]
    return "\r\n".join(["M-SEARCH * HTTP/1.1", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("target", "minor"), [(URN, 0), (f"{URN}:0", 0), (f"{URN}:17", 17), ("ssdp:all", 0)], ids=lambda value: str(value)
)
def test_a_search_for_redfish_is_understood(target: str, minor: int) -> None:
    assert parse_search(search(ST=target)) == Search(minor, 3, b"239.255.255.250:1900")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        search(ST="upnp:rootdevice"),
        search(ST=None),
        search(ST=f"{URN}0"),
        search(ST=f"{URN}:"),
        search(ST=f"{URN}:x"),
        search(ST=URN[:-1] + "2"),
        search(MAN="ssdp:discover"),
        search(MAN=None),
        search(st=f"{URN}:1"),
        search(**{"X Y": "1"}),
        search(X="a\0b"),
        search().replace(b"M-SEARCH", b"NOTIFY"),
        search().replace(b"HTTP/1.1", b"HTTP/1.0"),
        search().replace(b"\r\n", b"\n"),
        search(X="x" * MAX_SEARCH),
        reply(Service(UUID, 17, "https://127.64.0.2:1266/redfish/v1/")),
    ],
)
def test_anything_else_is_no_search(data: bytes) -> None:
    assert parse_search(data) is None


def test_names_of_fields_are_of_any_case_and_values_may_have_blanks_around() -> None:
    data = f'M-SEARCH * HTTP/1.1\r\nman:"ssdp:discover" \r\nSt:\t{URN}:2\t\r\nmx:  2\r\n\r\n'.encode()
    assert parse_search(data) == Search(2, 2)
    assert parse_search(data.rstrip()) == Search(2, 2)


@pytest.mark.parametrize(
    ("given", "wait"),
    [
        ("1", 1),
        ("05", 5),
        ("6", MAX_WAIT),
        ("999999999", MAX_WAIT),
        ("0", 0),
        ("-1", 0),
        ("", 0),
        ("1.5", 0),
        (None, 0),
    ],
)
def test_a_searcher_waits_for_at_most_five_seconds(given: str | None, wait: int) -> None:
    found = parse_search(search(MX=given))
    assert found is not None
    assert found.wait == wait


@settings(deadline=None)
@given(st.binary(max_size=MAX_SEARCH + 10))
@example(search())
def test_whatever_comes_is_a_search_or_not(data: bytes) -> None:
    found = parse_search(data)
    assert found is None or (0 <= found.wait <= MAX_WAIT and len(found.host) < len(data) <= MAX_SEARCH)


FIELDS = st.dictionaries(
    st.sampled_from(["HOST", "MAN", "MX", "ST", "X"]),
    st.one_of(st.none(), st.text(max_size=40), st.sampled_from([URN, f"{URN}:4", "ssdp:all", '"ssdp:discover"', "7"])),
)


@settings(deadline=None)
@given(FIELDS)
def test_a_search_with_odd_fields_is_a_search_only_if_it_asks_for_redfish(fields: dict[str, str | None]) -> None:
    found = parse_search(search(**fields))
    if found is not None:
        assert (fields.get("ST", URN) or "").strip() in (URN, f"{URN}:4", "ssdp:all")
        assert (fields.get("MAN", '"ssdp:discover"') or "").strip() == '"ssdp:discover"'


@settings(deadline=None)
@given(st.uuids(), st.integers(0, 99))
def test_an_answer_has_the_fields_of_dsp0266(uuid: object, minor: int) -> None:
    text = reply(Service(str(uuid), minor, "https://192.0.2.1:443/redfish/v1/")).decode()
    target = f"{URN}:{minor}" if minor else URN
    head, *lines = text.removesuffix("\r\n\r\n").split("\r\n")
    assert head == "HTTP/1.1 200 OK"
    fields = dict(re.split(r":[ ]*", line, maxsplit=1) for line in lines)
    assert fields == {
        "CACHE-CONTROL": "max-age=1800",
        "ST": target,
        "USN": f"uuid:{uuid}::{target}",
        "AL": "https://192.0.2.1:443/redfish/v1/",
        "EXT": "",
    }


@pytest.mark.parametrize(
    ("version", "minor"), [("1.18.0", 18), ("1.0.2", 0), ("1", 0), ("", 0), ("1.x.0", 0), ("1.²", 0)]
)
def test_the_minor_version_is_that_of_the_protocol(version: str, minor: int) -> None:
    assert minor_of(version) == minor
