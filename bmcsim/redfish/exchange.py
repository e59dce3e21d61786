"""Request and response as values."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action
from bmcsim.machine.events import StreamWish


class Head(msgspec.Struct, frozen=True, gc=False):
    """The header fields that Redfish looks at, raw, b'' when absent; equal heads may be one object.

    gzip: whether Accept-Encoding asks for it. plain: nothing but Authorization and Accept-Encoding is there that could
    change the answer to a GET.
    """

    authorization: bytes = b""
    token: bytes = b""
    if_match: bytes = b""
    if_none_match: bytes = b""
    content_type: bytes = b""
    accept: bytes = b""
    odata_version: bytes = b""
    last_event_id: bytes = b""
    plain: bool = False
    gzip: bool = False

    @property
    def media_type(self) -> bytes:
        """The Content-Type without its parameters, in lower case (RFC 9110 8.3.1)."""
        return media_type(self.content_type)

    def require_json(self) -> None:
        """Raises RedfishError 415 for a body that is not JSON."""
        if self.media_type != b"application/json":
            raise RedfishError(415, "UnrecognizedRequestBody")


def media_type(content_type: bytes) -> bytes:
    """'application/json' of 'Application/JSON; charset=utf-8'."""
    return content_type.partition(b";")[0].strip().lower()


def head_of(fields: Mapping[bytes, bytes]) -> Head:
    """A Head from header fields with lower-case names."""
    get = fields.get
    token, if_match, if_none_match = get(b"x-auth-token", b""), get(b"if-match", b""), get(b"if-none-match", b"")
    accept, version, last_event = get(b"accept", b""), get(b"odata-version", b""), get(b"last-event-id", b"")
    plain = not (token or if_match or if_none_match or version or last_event) and accept in _ACCEPTING
    authorization, content_type = _the_one(get(b"authorization", b"")), get(b"content-type", b"")
    coding = get(b"accept-encoding", b"")
    gzip = bool(coding) and _asks_for_gzip(coding)
    return Head(authorization, token, if_match, if_none_match, content_type, accept, version, last_event, plain, gzip)


@lru_cache(maxsize=256)
def _the_one(authorization: bytes) -> bytes:
    """The same object for the same credentials: most sites have few, and what all BMCs share is in the cache."""
    return authorization


def _asks_for_gzip(field: bytes) -> bool:
    """Whether an Accept-Encoding field names gzip, and not to refuse it with q=0 (RFC 9110 12.5.3)."""
    for part in field.lower().split(b","):
        name, _, weight = part.replace(b" ", b"").partition(b";")
        if name.strip() in (b"gzip", b"x-gzip"):
            return not re.fullmatch(rb"q=0(?:\.0*)?", weight)
    return False


def accepts(field: bytes, media: bytes) -> bool:
    """Whether an Accept field allows a media type (RFC 9110 12.5.1); the most specific range decides, q=0 refuses."""
    ranges: dict[bytes, bool] = {}
    for part in field.lower().split(b","):
        name, *parameters = part.split(b";")
        refused = any(one.strip().replace(b" ", b"").rstrip(b"0.") == b"q=" for one in parameters)
        ranges.setdefault(name.strip(), not refused)
    for name in (media, media.partition(b"/")[0] + b"/*", b"*/*"):
        if name in ranges:
            return ranges[name]
    return False


_ACCEPTING = frozenset({b"", b"*/*", b"application/json"})


class Upload(msgspec.Struct, frozen=True):
    """What is left of an upload that the edge streamed away.

    size: of the file in bytes. digest: its SHA-256, hexadecimal. head: its first 4 KiB. file_name, parameters
    (`UpdateParameters`) and oem (`OemParameters`): of a multipart body. has_file: whether there was a file at all.
    """

    size: int
    digest: str
    file_name: str = ""
    parameters: bytes = b""
    oem: bytes = b""
    head: bytes = b""
    has_file: bool = False


class Request(msgspec.Struct, gc=False):
    """One request to one BMC, after routing.

    path: decoded, as the client sent it. query: raw, without the question mark. upload: instead of a body that was
    streamed away. id: by which its client knows it, '' where it says none or nobody wants to know.
    """

    method: str
    path: str
    moment: Moment
    head: Head
    query: str = ""
    body: bytes = b""
    upload: Upload | None = None
    id: str = ""


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """How an answer is delivered where it is not simply written.

    delay: real seconds before its first byte. keep: how many bytes of it (head and body together) go out before the
    connection closes, None for all of them and an open connection. after_head: `keep` counts bytes of the body alone.
    rate: bytes per second, 0 for all at once.
    """

    delay: float = 0.0
    keep: int | None = None
    rate: float = 0.0
    after_head: bool = False


DROP = Delivery(keep=0)


class Response(msgspec.Struct, gc=False):
    """The answer.

    head: header lines, each with CRLF, without those of the connection (Date, Content-Length, Connection).
    body: the content; with HEAD it is what GET would have sent, and the edge leaves it out.
    actions: what the request set in motion, for the driver.
    delivery: what a fault or a BMC in reset makes of the answer. stream: instead of a body, events as they come.
    faults: ids of the fault rules that acted on it.
    """

    status: int
    head: bytes
    body: bytes = b""
    actions: Sequence[Action] = ()
    delivery: Delivery | None = None
    stream: StreamWish | None = None
    faults: tuple[str, ...] = ()


JSON_HEAD = b"Content-Type: application/json; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\n"
XML_HEAD = b"Content-Type: application/xml; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\n"
YAML_HEAD = b"Content-Type: application/yaml; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\n"
EMPTY_HEAD = b"OData-Version: 4.0\r\nCache-Control: no-cache\r\n"
VARY = b"Vary: Accept-Encoding\r\n"
