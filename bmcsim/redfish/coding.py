"""gzip for clients that ask for it, where it pays (RFC 9110 8.4.1.3, 12.5.3; DSP0266 6.4).

Two representations never share a strong entity tag (RFC 9110 8.8.3.3). So the gzip form has the tag of the resource
with a suffix, in the header and in the body; `conditions.matches` takes either for the resource as it is.
"""

import gzip
import re
from functools import lru_cache

import msgspec

from bmcsim.redfish.conditions import GZIP_SUFFIX
from bmcsim.redfish.exchange import Request, Response

SMALLEST = 1536
"""Bytes of a body from which on it is worth it: what is smaller fills one packet anyway."""

_REMEMBERED, _MOST_REMEMBERED = 64, 64 * 1024
_LEVEL = 1
_ETAG = re.compile(rb'ETag: ("[^"]+)"\r\n')
_CODED = b"Content-Encoding: gzip\r\n"


def coded(request: Request, response: Response) -> Response:
    """The answer to a client that asked for gzip. An answer that stays as it is comes back as it came."""
    if response.status == 304 and (tag := _ETAG.search(response.head)) is not None:
        # The tag that the client has (RFC 9110 15.4.5): that of the form that it once got.
        suffixed = tag[1] + GZIP_SUFFIX
        return _tagged(response, tag, suffixed) if suffixed in request.head.if_none_match else response
    if response.status != 200 or len(response.body) < SMALLEST or request.method not in ("GET", "HEAD"):
        return response
    body = response.body
    if (tag := _ETAG.search(response.head)) is not None:
        body = body.replace(_in_json(tag[1] + b'"'), _in_json(tag[1] + GZIP_SUFFIX), 1)
        response = _tagged(response, tag, tag[1] + GZIP_SUFFIX)
    small = len(body) <= _MOST_REMEMBERED
    return msgspec.structs.replace(
        response, head=response.head + _CODED, body=_remembered(body) if small else _compressed(body)
    )


def _tagged(response: Response, old: re.Match[bytes], new: bytes) -> Response:
    head = response.head[: old.start()] + b"ETag: " + new + b"\r\n" + response.head[old.end() :]
    return msgspec.structs.replace(response, head=head)


def _in_json(etag: bytes) -> bytes:
    """An entity tag as a JSON string."""
    return b'"\\"' + etag[1:-1] + b'\\""'


def _compressed(body: bytes) -> bytes:
    """The same bytes for the same body, whenever: no time stamp."""
    return gzip.compress(body, _LEVEL, mtime=0)


_remembered = lru_cache(_REMEMBERED)(_compressed)
"""Bodies that are the same for all BMCs of a profile are compressed once."""
