"""The control API of a running process, as its client sees it."""

import functools
import http.client
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import click
import orjson

from bmcsim.edges.control.guard import TokenError, read_token

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_URL = "http://127.0.0.1:9090"
URL_VARIABLE = "BMCSIM_URL"
TOKEN_VARIABLE = "BMCSIM_TOKEN_FILE"
JSON = "application/json"
_SECONDS = 60.0
_MAX_ANSWER = 128 * 1024 * 1024
_PIECE = 256 * 1024

option = functools.partial(click.option, allow_from_autoenv=False)
"""An option that no environment variable sets: what is changed is said, and never left over in a shell."""


class RemoteError(click.ClickException):
    """The process cannot be reached, or refused. status: of its answer, 0 for none."""

    exit_code = 3

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Base(NamedTuple):
    """Where a process is asked. prefix: of all paths, without a slash at its end."""

    tls: bool
    host: str
    port: int
    prefix: str


def base_of(url: str) -> Base:
    """Reads --url. Raises UsageError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise click.UsageError(f"--url (or {URL_VARIABLE}) must be like {DEFAULT_URL}, not {url!r}")
    tls = parts.scheme == "https"
    return Base(tls, parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"))


class Remote:
    """Asks a process, over one connection. seconds: how long to wait for it each time."""

    def __init__(self, url: str = DEFAULT_URL, token: str | None = None, seconds: float = _SECONDS) -> None:
        self.url, self._token, self._seconds, self._base = url, token, seconds, base_of(url)
        self._connection: http.client.HTTPConnection | None = None

    def another(self) -> "Remote":
        """The same process, over a connection of its own."""
        return Remote(self.url, self._token, self._seconds)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # requests

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """The JSON at /api/v1/PATH. Raises RemoteError."""
        return self._json(self.open("GET", path, query))

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that a change is answered with, None for nothing. Raises RemoteError."""
        return self._json(self.open(method, path, body=orjson.dumps(body or {})))

    def upload(self, path: str, query: Mapping[str, Any], body: IO[bytes]) -> Any:
        """The answer to a file. Raises RemoteError."""
        return self._json(self.open("POST", path, query, body=body, media="application/octet-stream"))

    def open(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        body: bytes | IO[bytes] | None = None,
        media: str = JSON,
        fields: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """An answer whose body is not read yet. fields: of the header. Raises RemoteError."""
        target = f"{self._base.prefix}/api/v1/{path}"
        if asked := {name: _word(value) for name, value in (query or {}).items() if value not in (None, "", [], ())}:
            target += "?" + urlencode(asked, doseq=True)
        head = {"Accept": JSON, **(fields or {})}
        if self._token is not None:
            head["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            head["Content-Type"] = media
        answer = self._asked(method, target, body, head)
        if answer.status >= 300:
            raise self._refusal(answer)
        return answer

    def _asked(
        self, method: str, target: str, body: bytes | IO[bytes] | None, head: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        kept = self._connection is not None
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._base.tls else http.client.HTTPConnection
            self._connection = kind(self._base.host, self._base.port, timeout=self._seconds)
        try:
            # One that refuses without reading what is sent may have said why.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._connection.request(method, target, body, head)
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # A kept connection may have been closed for its idleness; a change is not sent twice.
            if kept and method == "GET" and not isinstance(error, TimeoutError):
                return self._asked(method, target, body, head)
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> RemoteError:
        if isinstance(error, TimeoutError):
            return RemoteError(f"{self.url} did not answer within {self._seconds:g} s; --timeout lets it have more")
        if isinstance(error, http.client.HTTPException | ConnectionResetError):
            return RemoteError(
                f"{self.url} closed the connection without an answer in HTTP: did it end, or is this the Redfish port?"
                f" --url (or {URL_VARIABLE}) wants the admin listener (--admin)"
            )
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return RemoteError(
            f"cannot reach {self.url}: {why}. Is `bmcsim serve` running, with its admin listener there (--admin)?"
            f" Say another with --url or {URL_VARIABLE}."
        )

    def _refusal(self, answer: http.client.HTTPResponse) -> RemoteError:
        try:
            said = orjson.loads(self._read(answer))
            status, detail = answer.status, str(said["detail"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return RemoteError(
                f"{self.url} answers {answer.status}, and not as an admin listener of bmcsim does", answer.status
            )
        if status == 401:
            detail = (
                f"this needs the right token: --token-file FILE (or {TOKEN_VARIABLE}), with what `bmcsim serve` has in"
                " its --token-file or printed at its start"
            )
        return RemoteError(f"{self.url} refused ({status}): {detail}", status)

    def pieces(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """The body of an answer. Raises RemoteError where it is not whole."""
        try:
            while piece := answer.read(_PIECE):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise RemoteError(f"{self.url} broke off its answer: {error or type(error).__name__}") from error
        finally:
            if not answer.isclosed():
                self.close()
        if answer.length:
            raise RemoteError(f"{self.url} broke off its answer: {answer.length} bytes are missing")

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        body = bytearray()
        for piece in self.pieces(answer):
            body += piece
            if len(body) > _MAX_ANSWER:
                raise RemoteError(f"{self.url} answers with more than {_MAX_ANSWER} bytes")
        return bytes(body)

    def _json(self, answer: http.client.HTTPResponse) -> Any:
        body = self._read(answer)
        try:
            return orjson.loads(body) if body else None
        except orjson.JSONDecodeError as error:
            raise RemoteError(
                f"{self.url} answers with what is no JSON, so it is no admin listener of bmcsim"
            ) from error


def _word(value: Any) -> Any:
    """A value of a query as the API reads it."""
    return ("true" if value else "false") if isinstance(value, bool) else value


def part(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def quick(context: click.Context, seconds: float) -> Remote | None:
    """The process of a command line that is being typed, for completion; None where it makes no sense yet."""
    given = context.params
    file = given.get("token_file") or os.environ.get(TOKEN_VARIABLE)
    with suppress(click.ClickException, TokenError):
        token = read_token(Path(file)) if file else None
        return Remote(given.get("url") or os.environ.get(URL_VARIABLE) or DEFAULT_URL, token, seconds)
    return None


def remote_options(command: Command) -> Command:
    """Adds the options that say which process; the command gets it as `remote`."""

    @option("--url", envvar=URL_VARIABLE, default=DEFAULT_URL, show_default=True, help="Admin listener of the process.")
    @option(
        "--token-file",
        envvar=TOKEN_VARIABLE,
        type=click.Path(path_type=Path, dir_okay=False),
        help="File with the token for changes, where the process wants one.",
    )
    @option(
        "--timeout",
        type=click.FloatRange(0, 86400, min_open=True),
        default=_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for an answer.",
    )
    @functools.wraps(command)
    def with_remote(url: str, token_file: Path | None, timeout: float, **others: Any) -> Any:
        try:
            token = read_token(token_file) if token_file is not None else None
        except TokenError as error:
            raise click.UsageError(str(error)) from error
        remote = Remote(url, token, timeout)
        try:
            return command(**others, remote=remote)
        finally:
            remote.close()

    return with_remote  # type: ignore[return-value]
