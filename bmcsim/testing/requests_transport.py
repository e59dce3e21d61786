"""Requests of the library `requests`, answered without sockets."""

import contextlib
import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import ReadTimeout
from urllib3 import HTTPHeaderDict, HTTPResponse

from bmcsim.testing.wire import TooLate

if TYPE_CHECKING:
    from bmcsim.testing.fleet import Fleet


class Adapter(HTTPAdapter):
    """Mount it for https:// and http://. Certificates and proxies do not matter."""

    def __init__(self, fleet: "Fleet") -> None:
        super().__init__()
        self._fleet = fleet

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Raises what requests raises: ConnectionError, ReadTimeout, and later ChunkedEncodingError for half a body."""
        del verify, cert, proxies
        url = request.url or ""
        fields = {"Host": urlsplit(url).netloc.rpartition("@")[2], **_texts(request.headers)}
        try:
            answer = self._fleet.send(
                request.method or "GET", request.path_url, fields.items(), _pieces(request.body), _patience(timeout)
            )
        except ConnectionError as closed:
            raise RequestsConnectionError(closed, request=request) from closed
        except TooLate as late:
            raise ReadTimeout(late, request=request) from late
        raw = HTTPResponse(
            io.BytesIO(answer.body),
            HTTPHeaderDict(answer.fields),
            answer.status,
            version=11,
            reason=answer.reason,
            preload_content=False,
            enforce_content_length=True,
            request_method=request.method,
            request_url=url,
        )
        response: requests.Response = self.build_response(request, raw)
        if not stream:
            response.content  # noqa: B018 - reads it
        return response


def session(fleet: "Fleet") -> requests.Session:
    """A session of which every request goes to a fleet."""
    made = requests.Session()
    made.trust_env = False
    for scheme in ("https://", "http://"):
        made.mount(scheme, Adapter(fleet))
    return made


@contextlib.contextmanager
def patched(fleet: "Fleet") -> Iterator[None]:
    """Every session sends to a fleet what is for its BMCs."""
    adapter, original = Adapter(fleet), HTTPAdapter.send

    def send(self: HTTPAdapter, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        if fleet.has_host(urlsplit(request.url or "").hostname or ""):
            return adapter.send(request, **options)
        return original(self, request, **options)

    HTTPAdapter.send = send  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        HTTPAdapter.send = original  # type: ignore[method-assign]


def _texts(headers: Any) -> dict[str, str]:
    """Header fields as text; requests takes bytes too."""
    return {_text(name): _text(value) for name, value in headers.items()}


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _pieces(body: Any) -> bytes | Iterable[bytes]:
    """A body as it is, or the pieces of a file or an iterator."""
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    if hasattr(body, "read"):
        return iter(lambda: _bytes(body.read(64 * 1024)), b"")
    return (_bytes(piece) for piece in body)


def _bytes(piece: str | bytes) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece


def _patience(timeout: Any) -> float | None:
    """Seconds until a read times out."""
    if isinstance(timeout, tuple):
        timeout = timeout[1]
    read = getattr(timeout, "read_timeout", timeout)
    return float(read) if isinstance(read, int | float) else None
