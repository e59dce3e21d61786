"""Request and response as values."""

from collections.abc import Mapping, Sequence

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.machine.actions import Action


class Head(msgspec.Struct, frozen=True, gc=False):
    """The header fields that Redfish looks at, raw, b'' when absent; equal heads may be one object.

    plain: nothing but Authorization is there that could change the answer to a GET.
    """

    authorization: bytes = b""
    token: bytes = b""
    if_match: bytes = b""
    if_none_match: bytes = b""
    content_type: bytes = b""
    accept: bytes = b""
    odata_version: bytes = b""
    plain: bool = False


def head_of(fields: Mapping[bytes, bytes]) -> Head:
    """A Head from header fields with lower-case names."""
    get = fields.get
    token, if_match, if_none_match = get(b"x-auth-token", b""), get(b"if-match", b""), get(b"if-none-match", b"")
    accept, version = get(b"accept", b""), get(b"odata-version", b"")
    plain = not (token or if_match or if_none_match or version) and accept in _ACCEPTING
    authorization, content_type = get(b"authorization", b""), get(b"content-type", b"")
    return Head(authorization, token, if_match, if_none_match, content_type, accept, version, plain)


_ACCEPTING = frozenset({b"", b"*/*", b"application/json"})


class Request(msgspec.Struct, gc=False):
    """One request to one BMC, after routing.

    path: decoded, as the client sent it. query: raw, without the question mark.
    """

    method: str
    path: str
    moment: Moment
    head: Head
    query: str = ""
    body: bytes = b""


class Response(msgspec.Struct, gc=False):
    """The answer.

    head: header lines, each with CRLF, without those of the connection (Date, Content-Length, Connection).
    body: the content; with HEAD it is what GET would have sent, and the edge leaves it out.
    actions: what the request set in motion, for the driver.
    """

    status: int
    head: bytes
    body: bytes = b""
    actions: Sequence[Action] = ()


JSON_HEAD = b"Content-Type: application/json; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\n"
XML_HEAD = b"Content-Type: application/xml; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\n"
EMPTY_HEAD = b"OData-Version: 4.0\r\nCache-Control: no-cache\r\n"
