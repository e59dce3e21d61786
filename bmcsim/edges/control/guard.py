"""Who may change something through the control plane.

Rule 1: a listener on loopback alone needs no token, any other wants one for all that changes something.
Rule 2: what changes something is no plain form: its body is JSON, and a page of another site cannot send it, since a
    foreign Origin is refused.
Rule 3: a name that leads to the listener by a trick of DNS is refused: Host must be an address, localhost, or a name
    that was said at the start.
"""

import hashlib
import ipaddress
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from hmac import compare_digest
from pathlib import Path
from urllib.parse import urlsplit

_MIN_TOKEN, _MAX_TOKEN = 16, 512


class TokenError(Exception):
    """The token cannot be used; the text names the file and says what would be right."""


class Refused(Exception):
    """A request that may not do what it asks for. status: 401, 403 or 415."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def read_token(path: Path) -> str:
    """The token in a file, without white space around it. Raises TokenError."""
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(4096)
    except OSError as error:
        raise TokenError(f"{path}: cannot be read: {error.strerror}") from error
    if mode & stat.S_IWOTH:
        raise TokenError(f"{path}: everybody may write it; chmod 600 it")
    try:
        token = data.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise TokenError(f"{path}: must be ASCII text") from error
    if not _MIN_TOKEN <= len(token) <= _MAX_TOKEN or any(character.isspace() for character in token):
        raise TokenError(f"{path}: a token has {_MIN_TOKEN} to {_MAX_TOKEN} characters and no white space")
    return token


def new_token() -> str:
    """A token that nobody can guess: 192 bits, in characters that need no quotes."""
    return secrets.token_urlsafe(24)


class Guard:
    """What a request needs. token: None where none is needed. names: host names of the listener, as in Host; None for
    any, where a token keeps pages out that got here by a trick of DNS."""

    def __init__(self, token: str | None = None, names: Iterable[str] | None = ()) -> None:
        self._digest = None if token is None else _digest(token)
        self._names = None if names is None else {"localhost", *[name.lower() for name in names]}

    @property
    def wants_token(self) -> bool:
        """Whether what changes something needs a token."""
        return self._digest is not None

    def check(
        self, headers: Mapping[str, str], *, changes: bool, typed: bool = True, media: str = "application/json"
    ) -> None:
        """Raises Refused. headers: with lower-case names. changes: also of what gives a secret. typed: whether a change
        needs its media type; not where its method alone keeps it from being a plain form. media: of no form."""
        host = headers.get("host", "")
        if not self._known(_name_of(host)):
            raise Refused(403, f"Host {host!r} is not known here; use the address, or name it with --admin-host")
        if not changes:
            return
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            raise Refused(403, f"not for pages of {origin}")
        if typed and headers.get("content-type", "").partition(";")[0].strip().lower() != media:
            raise Refused(415, f"the Content-Type must be {media}, also without a body")
        if self._digest is not None:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not compare_digest(_digest(given.strip()), self._digest):
                raise Refused(401, "needs Authorization: Bearer TOKEN, with the token of --token-file")

    def _known(self, name: str) -> bool:
        if self._names is None:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._names
        return True


def _netloc(origin: str) -> str:
    """'http://localhost:9090' -> 'localhost:9090', '' for what is no URL."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name_of(host: str) -> str:
    """'[::1]:9090' -> '::1', 'localhost:9090' -> 'localhost'."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
