"""Takes secrets out of what is recorded of requests.

Rule 1: the value of every key that sounds like a secret is gone, however deep, and whatever it is but true or false.
Rule 2: where an object names something that sounds so ({"AttributeName": "Password", "AttributeValue": "x"}), what it
        has as a value is gone too.
Rule 3: so are texts that have a private key in them, long ones that speak of a secret, and the user part of URIs.
Rule 4: what is not JSON is not shown at all.
"""

import re
from typing import Any
from urllib.parse import unquote_plus

import orjson

HIDDEN = "(hidden)"

_SECRET = re.compile(
    r"passw|pwd|passphrase|secret|token|credential|authori[sz]ation|cookie|httpheaders|private|apikey|community"
    r"|(?:^|[^a-z])pin$|key$",
    re.IGNORECASE,
)
_USER_PART = re.compile(r"(?<=://)[^/?#\s]*@")
_PRIVATE_KEY = "PRIVATE KEY"
_SPEAKS = re.compile(r"passw|secret|token|authori[sz]ation", re.IGNORECASE)
_SHORT = 64
_DEEPEST = 64


def is_secret(name: str) -> bool:
    """Whether a key, or a parameter, sounds as if its value were a secret."""
    return _SECRET.search(name) is not None


def redacted(value: Any, depth: int = 0) -> Any:
    """A JSON value without secrets."""
    if depth > _DEEPEST:
        return HIDDEN
    if isinstance(value, dict):
        named = any(isinstance(one, str) and len(one) <= _SHORT and is_secret(one) for one in value.values())
        return {
            key: HIDDEN if _hides(key, one, named=named) else redacted(one, depth + 1) for key, one in value.items()
        }
    if isinstance(value, list):
        return [redacted(one, depth + 1) for one in value]
    return _text(value) if isinstance(value, str) else value


def redacted_body(body: bytes, longest: int) -> bytes:
    """The JSON of a body without secrets; b'' for what is no JSON, or longer than so many bytes."""
    if not body or len(body) > longest:
        return b""
    try:
        return orjson.dumps(redacted(orjson.loads(body)))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return b""


def redacted_query(query: str) -> str:
    """A raw query without secrets."""
    shown = []
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        secret = is_secret(unquote_plus(name)) or unquote_plus(value) != _text(unquote_plus(value))
        shown.append(f"{name}={HIDDEN}" if equals and secret else part)
    return "&".join(shown)


def _hides(key: str, value: Any, *, named: bool) -> bool:
    if value is None or isinstance(value, bool):
        return False
    return is_secret(key) or (named and "value" in key.lower())


def _text(text: str) -> str:
    if _PRIVATE_KEY in text or (len(text) > _SHORT and _SPEAKS.search(text)):
        return HIDDEN
    return _USER_PART.sub("", text)
