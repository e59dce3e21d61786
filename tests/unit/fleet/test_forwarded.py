"""The Forwarded field (RFC 7239) and the one spelling of a host."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.fleet.forwarded import MalformedForwarded, forwarded_host, normalise_host

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ("host=10.200.0.17", "10.200.0.17"),
        ("Host=172.20.0.20", "172.20.0.20"),
        ("HOST=bmc-1.example.com", "bmc-1.example.com"),
        ('host="10.0.0.1:443"', "10.0.0.1"),
        ('host="10.0.0.1:"', "10.0.0.1"),
        ('host="[2001:db8::20]"', "2001:db8::20"),
        ('host="[2001:db8::20]:8443"', "2001:db8::20"),
        ('host="2001:db8::20"', "2001:db8::20"),
        ('for=192.0.2.1, host="[2001:db8::20]"', "2001:db8::20"),
        ('for="[2001:db8::1]:4711";proto=https;host=a;by=_x', "a"),
        ("for=192.0.2.1;host=a, host=b", "a"),
        ("host=a;host=b", "a"),
        (" ;; for=x \t;\t host=a ;; , ,, ", "a"),
        (r'for="a,host=b;\";host=c";host="\d\.e"', "d.e"),
        ('FOR="_gazonk"', None),
        ("secret=x;proto=http", None),
        ("", None),
        (" \t ", None),
        (",;,", None),
    ],
)
def test_host(value: str, host: str | None) -> None:
    assert forwarded_host(value) == host


@pytest.mark.parametrize(
    "value",
    [
        "10.0.0.1",
        "host",
        "host=",
        "host=;for=a",
        "=10.0.0.1",
        "host = 10.0.0.1",
        "host=10.0.0.1:443",
        "host=[2001:db8::1]",
        'host="10.0.0.1',
        'host=10.0.0.1"',
        'host="10.0.0.1\\"',
        'host="a"b',
        "host=a b",
        "host=a\n",
        "host=10.0.0.1\n",
        'host="a\nb"',
        'host="a\x7f"',
        "host=a;for=\xe4",
        'host=""',
        'host=":443"',
        'host="[]"',
        'host="[2001:db8::1"',
        'host="[2001:db8::1]x"',
        'host="[2001:db8::1]:x"',
        'host="10.0.0.1:x"',
        "host=a;;x",
        "host=a, b",
    ],
)
def test_malformed(value: str) -> None:
    with pytest.raises(MalformedForwarded):
        forwarded_host(value)


def test_message_says_where() -> None:
    with pytest.raises(MalformedForwarded, match="character 8"):
        forwarded_host("host=a;?=b")


def quoted(text: str, escape: list[bool]) -> str:
    pairs = zip(text, escape + [False] * len(text), strict=False)
    return '"' + "".join("\\" + char if forced or char in '\\"' else char for char, forced in pairs) + '"'


QUOTABLE = "\t" + "".join(map(chr, [*range(0x20, 0x7F), *range(0x80, 0x100)]))

texts = st.text(QUOTABLE, max_size=12)
names = st.text(TOKEN, min_size=1, max_size=6).filter(lambda name: name.lower() != "host")
values = st.text(TOKEN, min_size=1, max_size=8) | st.builds(quoted, texts, st.lists(st.booleans(), max_size=12))
blanks = st.text(" \t", max_size=2)
separators = st.builds(lambda *parts: "".join(parts), blanks, st.sampled_from([",", ";", ";;", ",,", ", ;"]), blanks)
hosts = st.text('abcXYZ019_.!~ \\"-', min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    host=hosts,
    escape=st.lists(st.booleans(), max_size=12),
    before=st.lists(st.tuples(names, values, separators), max_size=3),
    after=st.lists(st.tuples(separators, names, values), max_size=3),
    spelling=st.sampled_from(["host", "Host", "hOsT"]),
    port=st.sampled_from(["", ":", ":1266"]),
)
def test_quoting_round_trips(
    host: str,
    escape: list[bool],
    before: list[tuple[str, str, str]],
    after: list[tuple[str, str, str]],
    spelling: str,
    port: str,
) -> None:
    field = "".join(f"{name}={value}{separator}" for name, value, separator in before)
    field += f"{spelling}={quoted(host + port, escape)}"
    field += "".join(f"{separator}{name}={value}" for separator, name, value in after)
    assert forwarded_host(field) == host


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(max_codepoint=0xFF)) | st.text('host="[]:;, \\1.', max_size=30))
def test_any_text_is_read_or_refused(value: str) -> None:
    try:
        host = forwarded_host(value)
    except MalformedForwarded:
        return
    assert host is None or host


@pytest.mark.parametrize("filler", [" ", "\t ", "a", "a=b;", ";", ",", '"', "\\", 'a="', 'a="\\"', "host=1"])
@pytest.mark.parametrize("end", ["", "\x00", "=", '"'])
def test_time_is_linear_in_length(filler: str, end: str) -> None:
    """A quadratic matcher would need many seconds for this much."""
    with suppress(MalformedForwarded):
        forwarded_host(filler * (50_000 // len(filler)) + end)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("127.64.0.2", "127.64.0.2"),
        ("127.64.0.2:1266", "127.64.0.2"),
        ("127.64.0.2.", "127.64.0.2"),
        ("BMC-1.Example.COM.:443", "bmc-1.example.com"),
        ("[2001:DB8:0:0::20]:443", "2001:db8::20"),
        ("[2001:db8::20]", "2001:db8::20"),
        ("2001:0db8:0000:0000:0000:0000:0000:0020", "2001:db8::20"),
        ("fe80::1%eth0", "fe80::1"),
        ("[FE80::1%25eth0]:1266", "fe80::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[::ffff:a00:1]:443", "10.0.0.1"),
        ("[127.64.0.2]", "127.64.0.2"),
        ("", ""),
        ("[::1", "[::1"),
        ("[::1]X", "[::1]x"),
        ("A:B:C", "a:b:c"),
    ],
)
def test_normalise(text: str, host: str) -> None:
    assert normalise_host(text) == host


@settings(max_examples=60, deadline=None)
@given(st.ip_addresses(v=6), st.sampled_from(["", ":443"]))
def test_ipv6_in_any_spelling(address: IPv6Address, port: str) -> None:
    canonical = str(address.ipv4_mapped or address)
    for spelling in (str(address), address.exploded, address.exploded.upper()):
        assert normalise_host(spelling) == normalise_host(f"[{spelling}]{port}") == canonical


@settings(max_examples=60, deadline=None)
@given(st.ip_addresses(v=4), st.sampled_from(["", ":443"]))
def test_ipv4(address: IPv4Address, port: str) -> None:
    assert normalise_host(f"{address}{port}") == forwarded_host(f"host={address}") == str(address)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_normalise_never_raises(text: str) -> None:
    assert isinstance(normalise_host(text), str)
