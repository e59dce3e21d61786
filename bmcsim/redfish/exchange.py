"""Request and response as values."""

from collections.abc import Sequence

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.machine.actions import Action


class Request(msgspec.Struct, gc=False):
    """One request to one BMC, after routing.

    path: decoded, as the client sent it. query: raw, without the question mark. Header fields are raw, b'' when absent.
    """

    method: str
    path: str
    moment: Moment
    query: str = ""
    authorization: bytes = b""
    token: bytes = b""
    if_match: bytes = b""
    if_none_match: bytes = b""
    content_type: bytes = b""
    accept: bytes = b""
    odata_version: bytes = b""
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
