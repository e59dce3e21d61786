"""gzip for those who ask."""

import gzip

import orjson
import pytest

from bmcsim.redfish.coding import SMALLEST, coded
from bmcsim.redfish.conditions import matches
from bmcsim.redfish.exchange import JSON_HEAD, Head, Request, Response, head_of
from tests.conftest import Client, header
from tests.unit.redfish.conftest import SYSTEM, as_edge

LARGE, SMALL = SYSTEM, "/redfish/v1/Systems"
METADATA = "/redfish/v1/$metadata"


@pytest.mark.parametrize(
    ("field", "asks"),
    [
        (b"gzip", True),
        (b"gzip, deflate", True),
        (b"br;q=1.0, GZIP;q=0.5, *;q=0", True),
        (b"x-gzip", True),
        (b"gzip; q=1", True),
        (b"gzip;q=0.001", True),
        (b"gzip;q=0", False),
        (b"gzip ; q=0.000", False),
        (b"deflate, br", False),
        (b"*", False),
        (b"identity", False),
        (b"gzipped", False),
        (b"", False),
    ],
)
def test_who_asks_for_gzip(field: bytes, asks: bool) -> None:
    head = head_of({b"accept-encoding": field})
    assert (head.gzip, head.plain) == (asks, True)


@pytest.mark.parametrize("fields", [{}, {"accept": b"application/json;q=0.9"}, {"odata_version": b"4.0"}])
def test_a_large_body_is_compressed_and_nothing_else_changes(dpu: Client, fields: dict[str, bytes]) -> None:
    fields = {"authorization": dpu.authorization, **fields}
    for _ in range(2):  # the second time in the short way of `handle`
        identity = as_edge(dpu, "GET", LARGE, **fields)
        answer = as_edge(dpu, "GET", LARGE, accept_encoding=b"gzip", **fields)
        assert len(identity.body) > SMALLEST > len(answer.body)
        assert (header(answer, "Content-Encoding"), header(answer, "Vary")) == ("gzip", "Accept-Encoding")
        assert (header(identity, "Content-Encoding"), header(identity, "Vary")) == (None, "Accept-Encoding")
        tag, suffixed = header(identity, "ETag") or "", header(answer, "ETag")
        assert suffixed == tag[:-1] + '-gzip"'
        shown, plain = orjson.loads(gzip.decompress(answer.body)), orjson.loads(identity.body)
        assert (shown.pop("@odata.etag"), plain.pop("@odata.etag")) == (suffixed, tag)
        assert shown == plain
        head = as_edge(dpu, "HEAD", LARGE, accept_encoding=b"gzip", **fields)
        assert (head.head, len(head.body)) == (answer.head, len(answer.body))
        assert as_edge(dpu, "GET", LARGE, accept_encoding=b"gzip", **fields).body == answer.body


def test_what_is_small_or_no_read_stays_as_it_is(dpu: Client) -> None:
    fields = {"authorization": dpu.authorization, "accept_encoding": b"gzip"}
    small = as_edge(dpu, "GET", SMALL, **fields)
    assert (small.status, header(small, "Content-Encoding")) == (200, None)
    assert "-gzip" not in (header(small, "ETag") or "")
    request = Request("POST", "/", dpu.clock.now(), Head(gzip=True))
    for status, method in ((200, "POST"), (201, "GET"), (400, "GET")):
        response = Response(status, JSON_HEAD, b"x" * SMALLEST)
        request.method = method
        assert coded(request, response) is response


def test_documents_and_parts_of_resources_are_compressed_too(host: Client) -> None:
    fields = {"authorization": host.authorization, "accept_encoding": b"gzip, deflate"}
    for path in (
        METADATA,
        "/redfish/v1/Systems?$expand=.",
        "/redfish/v1/Systems/System.Embedded.1?$select=Id,Boot,Links",
    ):
        plain = as_edge(host, "GET", path, authorization=host.authorization)
        answer = as_edge(host, "GET", path, **fields)
        assert gzip.decompress(answer.body) == plain.body if len(plain.body) >= SMALLEST else answer.body == plain.body
        assert (header(answer, "ETag"), header(answer, "Vary")) == (None, "Accept-Encoding")
    assert header(as_edge(host, "GET", METADATA, accept_encoding=b"gzip"), "Content-Encoding") == "gzip"


def test_either_tag_stands_for_the_resource(dpu: Client) -> None:
    fields = {"authorization": dpu.authorization, "accept_encoding": b"gzip"}
    tag = (header(as_edge(dpu, "GET", LARGE, authorization=dpu.authorization), "ETag") or "").encode()
    suffixed = (header(as_edge(dpu, "GET", LARGE, **fields), "ETag") or "").encode()
    for condition in (tag, suffixed, b'"x", ' + suffixed, b"W/" + suffixed):
        unchanged = as_edge(dpu, "GET", LARGE, if_none_match=condition, **fields)
        assert (unchanged.status, unchanged.body) == (304, b"")
        assert (header(unchanged, "ETag") or "").encode() == (suffixed if suffixed in condition else tag)
    for condition in (tag, suffixed):
        assert as_edge(dpu, "GET", LARGE, if_match=condition, **fields).status == 200
    assert as_edge(dpu, "GET", LARGE, if_match=b"W/" + suffixed, **fields).status == 412
    assert as_edge(dpu, "GET", LARGE, if_match=b'"-gzip"', **fields).status == 412
    body = b'{"Boot":{"BootSourceOverrideEnabled":"Once"}}'
    change = {"authorization": dpu.authorization, "content_type": b"application/json", "if_match": suffixed}
    assert as_edge(dpu, "PATCH", LARGE, body, **change).status < 300
    assert as_edge(dpu, "PATCH", LARGE, body.replace(b"Once", b"Disabled"), **change).status == 412


@pytest.mark.parametrize("etag", [b'W/"1"', b'""', b"1"])
def test_a_tag_that_a_fault_made_is_left_alone(dpu: Client, etag: bytes) -> None:
    request = Request("GET", "/", dpu.clock.now(), Head(gzip=True))
    body = orjson.dumps({"@odata.etag": etag.decode(), "x": "y" * SMALLEST})
    answer = coded(request, Response(200, JSON_HEAD + b"ETag: " + etag + b"\r\n", body))
    assert header(answer, "ETag") == etag.decode()
    assert gzip.decompress(answer.body) == body


def test_a_suffix_is_no_tag_by_itself() -> None:
    assert matches(b'"1-gzip"', b'"1"', strong=True)
    assert not matches(b'"1-gzip-gzip"', b'"1"', strong=True)
    assert not matches(b'"gzip"', b'"1"', strong=False)
