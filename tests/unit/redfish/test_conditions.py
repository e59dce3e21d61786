"""Conditional requests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.redfish.conditions import matches
from tests.conftest import Client, header, message_ids
from tests.unit.redfish.conftest import PROTOCOL, SESSIONS, login

# The characters that an opaque tag may have (RFC 9110 8.8.3).
OPAQUE = st.text(st.sampled_from([chr(c) for c in (0x21, *range(0x23, 0x7F), *range(0x80, 0x100))]), max_size=8)
TAGS = st.tuples(st.booleans(), OPAQUE)
GAPS = st.sampled_from([", ", ",", " , ", ",\t", "  ,   "])


def encode(tag: tuple[bool, str]) -> bytes:
    """(weak, opaque) -> entity tag."""
    weak, opaque = tag
    return (b"W/" if weak else b"") + b'"%s"' % opaque.encode("latin-1")


@settings(deadline=None)
@given(st.lists(TAGS, min_size=1, max_size=6), OPAQUE, st.data(), st.booleans())
def test_a_list_names_exactly_its_tags(
    tags: list[tuple[bool, str]], opaque: str, data: st.DataObject, included: bool
) -> None:
    if included:
        tags.insert(data.draw(st.integers(0, len(tags))), (data.draw(st.booleans()), opaque))
    field = encode(tags[0])
    for tag in tags[1:]:
        field += data.draw(GAPS).encode() + encode(tag)
    etag = encode((False, opaque))
    assert matches(field, etag, strong=True) == ((False, opaque) in tags)
    assert matches(field, etag, strong=False) == (opaque in [one for _, one in tags])


@settings(deadline=None)
@given(st.binary(max_size=40), st.booleans())
def test_no_field_raises_or_names_a_tag_that_it_does_not_have(field: bytes, strong: bool) -> None:
    assert matches(field, b'"tag"', strong=strong) == (field.strip() == b"*" or b'"tag"' in field)


@settings(deadline=None)
@given(OPAQUE.filter(bool), OPAQUE.filter(bool), st.booleans())
def test_a_tag_without_quotes_is_taken_where_that_is_wanted(sent: str, opaque: str, unquoted: bool) -> None:
    field, etag = sent.encode("latin-1"), encode((False, opaque))
    assert matches(field, etag, strong=True, unquoted=unquoted) == (sent == "*" or (unquoted and sent == opaque))
    assert matches(encode((False, sent)), etag, strong=True, unquoted=unquoted) == (sent == opaque)
    assert not matches(field + b", " + field, etag, strong=True, unquoted=unquoted)


@pytest.mark.parametrize(
    "field",
    [
        b"",
        b"tag",
        b'"tag',
        b'tag"',
        b'"tag" "tag"',
        b'"tag";',
        b"'tag'",
        b'w/"tag"',
        b'W/ "tag"',
        b'"tag", x',
        b'*, "tag"',
    ],
)
@pytest.mark.parametrize("strong", [True, False])
def test_a_malformed_field_names_no_tag(field: bytes, strong: bool) -> None:
    assert not matches(field, b'"tag"', strong=strong)


def test_a_long_field_is_read_in_time() -> None:
    """Also one that is made to make a careless expression try everything."""
    assert not matches(b'"a",' * 5000 + b"x", b'"tag"', strong=True)
    assert not matches(b" " * 5000 + b",", b'"tag"', strong=True)
    assert matches(b'"a", ' * 5000 + b'"tag"', b'"tag"', strong=True)


# on requests

CHANGES = {"NTP": {"ProtocolEnabled": False}}


def etag_of(client: Client, path: str = PROTOCOL) -> bytes:
    """The present entity tag of a resource."""
    found = header(client.request("GET", path), "ETag")
    assert found is not None
    return found.encode()


@pytest.mark.parametrize(
    ("field", "status"),
    [
        (b"%b", 204),
        (b"*", 204),
        (b'"other", %b', 204),
        (b'%b,"other"', 204),
        (b" %b ", 204),
        (b"W/%b", 412),
        (b'"other"', 412),
        (b'"other", W/%b', 412),
        (b'"%b', 412),
        (b"nonsense", 412),
        (b"%bx", 412),
    ],
)
def test_if_match_guards_a_write(dpu: Client, field: bytes, status: int) -> None:
    before = dpu.get(PROTOCOL)
    response = dpu.request("PATCH", PROTOCOL, CHANGES, if_match=field.replace(b"%b", etag_of(dpu)))
    assert response.status == status
    if status == 412:
        assert message_ids(response) == ["PreconditionFailed"]
    assert (dpu.get(PROTOCOL) == before) == (status == 412)


def test_an_unquoted_tag_is_malformed(dpu: Client) -> None:
    assert dpu.request("PATCH", PROTOCOL, CHANGES, if_match=etag_of(dpu).strip(b'"')).status == 412


def test_the_tag_of_before_a_write_is_of_no_use_after_it(dpu: Client) -> None:
    before = etag_of(dpu)
    response = dpu.request("PATCH", PROTOCOL, CHANGES, if_match=before)
    assert header(response, "ETag") == etag_of(dpu).decode() != before.decode()
    assert dpu.request("PATCH", PROTOCOL, {"NTP": {"ProtocolEnabled": True}}, if_match=before).status == 412
    assert dpu.get(PROTOCOL)["NTP"]["ProtocolEnabled"] is False


def test_if_match_guards_a_read_and_a_delete(dpu: Client) -> None:
    _, uri = login(dpu)
    assert dpu.request("GET", PROTOCOL, if_match=b'"other"').status == 412
    assert dpu.request("GET", PROTOCOL, if_match=etag_of(dpu)).status == 200
    assert dpu.request("DELETE", uri, if_match=b'"other"').status == 412
    assert dpu.get(SESSIONS)["Members@odata.count"] == 1
    assert dpu.request("DELETE", uri, if_match=etag_of(dpu, uri)).status == 204


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("field", "status"),
    [
        (b"%b", 304),
        (b"W/%b", 304),
        (b"*", 304),
        (b'"other", %b', 304),
        (b'"other"', 200),
        (b"nonsense", 200),
        (b'"%b', 200),
    ],
)
def test_if_none_match_saves_a_transfer(dpu: Client, method: str, field: bytes, status: int) -> None:
    etag = etag_of(dpu)
    response = dpu.request(method, PROTOCOL, if_none_match=field.replace(b"%b", etag))
    assert response.status == status
    assert header(response, "ETag") == etag.decode()
    assert (response.body == b"") == (status == 304)


def test_a_changed_resource_is_transferred_again(dpu: Client) -> None:
    before = etag_of(dpu)
    dpu.request("PATCH", PROTOCOL, CHANGES)
    assert dpu.request("GET", PROTOCOL, if_none_match=before).status == 200
    assert dpu.request("GET", PROTOCOL, if_none_match=etag_of(dpu)).status == 304


def test_if_match_is_evaluated_before_if_none_match(dpu: Client) -> None:
    """RFC 9110 13.2.2."""
    assert dpu.request("GET", PROTOCOL, if_match=b'"other"', if_none_match=etag_of(dpu)).status == 412


def test_if_none_match_refuses_a_write_when_it_matches(dpu: Client) -> None:
    """RFC 9110 13.1.2: the method must not be performed."""
    response = dpu.request("PATCH", PROTOCOL, CHANGES, if_none_match=etag_of(dpu))
    assert response.status == 412
    assert dpu.get(PROTOCOL)["NTP"]["ProtocolEnabled"] is True
