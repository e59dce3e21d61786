"""The page as one HTML document: its style sheet, its scripts and what it has to know are put into page.html.

Rule 1: nothing is loaded from elsewhere, and nothing runs that was not here at the start: the Content-Security-Policy
    names style and script by their hashes (W3C CSP Level 3).
Rule 2: it holds nothing of the fleet, so it needs no guard. What it shows it asks for.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b, sha256
from html import escape
from importlib.resources import files
from typing import Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from bmcsim.redfish.conditions import GZIP_SUFFIX, matches
from bmcsim.redfish.exchange import head_of
from bmcsim.tree import fault_presets

Mode = Literal["control", "status"]
"""control: beside the control API. status: on the Redfish port, where it reads /machines/status and changes nothing."""

_SCRIPTS = ("model.js", "source.js", "chart.js", "grid.js", "redfish.js", "panel.js", "main.js")
"""Parts of one module, in order."""


class Document(NamedTuple):
    """The page as it is sent. packed: the same with gzip."""

    body: bytes
    packed: bytes
    etag: bytes
    policy: str


@cache
def document(mode: Mode) -> Document:
    """The page. Takes some ten milliseconds the first time."""
    folder = files(__package__) / "page"
    style = (folder / "page.css").read_text()
    script = "\n".join([(folder / name).read_text() for name in _SCRIPTS])
    presets = [(name, fault_presets.read(name).title) for name in fault_presets.names()] if mode == "control" else []
    # No "<" in it, so that no text can end the element that it is in.
    facts = json.dumps({"mode": mode, "presets": presets}).replace("<", "\\u003c")
    text = (folder / "page.html").read_text()
    for place, value in (("mode", escape(mode)), ("style", style), ("facts", facts), ("script", script)):
        text = text.replace(f"{{{{{place}}}}}", value)
    body = text.encode()
    etag = b'"%b"' % blake2b(body, digest_size=16).hexdigest().encode()
    return Document(body, gzip.compress(body, 9, mtime=0), etag, _policy(style, script))


def _policy(style: str, script: str) -> str:
    """What the page may do: ask its own listener, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


class Page:
    """The ASGI application of the path /."""

    def __init__(self, mode: Mode) -> None:
        self._mode: Mode = mode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer GET and HEAD."""
        if scope["method"] not in ("GET", "HEAD"):
            response = Response(status_code=405, headers={"allow": "GET, HEAD"})
        else:
            response = _answer(document(self._mode), dict(Request(scope).headers.raw))
        await response(scope, receive, send)


def routes() -> list[BaseRoute]:
    """Of the admin listener."""
    return [Route("/", Page("control"))]


def _answer(page: Document, fields: Mapping[bytes, bytes]) -> Response:
    head = head_of(fields)
    etag = page.etag[:-1] + GZIP_SUFFIX if head.gzip else page.etag
    headers = {
        "etag": etag.decode(),
        "vary": "accept-encoding",
        "cache-control": "no-cache",
        "content-security-policy": page.policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    if matches(head.if_none_match, page.etag, strong=False):
        return Response(status_code=304, headers=headers)
    if head.gzip:
        headers["content-encoding"] = "gzip"
    return Response(page.packed if head.gzip else page.body, headers=headers, media_type="text/html")
