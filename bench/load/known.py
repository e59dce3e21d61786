"""What a worker knows about a BMC, and whether an answer fits it."""

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from bench.load.endpoints import Endpoint

_IDENTITY = re.compile(rb'"(SerialNumber|UUID|MACAddress|PermanentMACAddress)"\s*:\s*"([^"]+)"')
_CACHED = 10  # URLs per BMC whose ETag NICo's client keeps


class Ask(NamedTuple):
    """One request. row: its line of the statistics. password: None is anonymous. expect: the statuses that are right,
    0 is no answer at all. verify: the body of a 200 must be of the BMC and resource that were asked."""

    row: str
    path: str
    method: str = "GET"
    body: Mapping[str, object] | list[object] | bytes | None = None
    password: str | None = None
    token: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    expect: tuple[int, ...] = (200,)
    verify: bool = True


class Answer(NamedTuple):
    """What came back; status 0 is a connection that was refused, closed or too slow, and `error` says which.

    at: seconds since the epoch when it was there.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}
    error: str = ""
    at: float = 0.0

    def json(self) -> dict[str, Any]:
        """The JSON object of the body; raises Wrong for anything else."""
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise Wrong(f"no JSON but {self.body[:80]!r}") from None
        if not isinstance(value, dict):
            raise Wrong(f"no JSON object but {self.body[:80]!r}")
        return value


class Wrong(Exception):
    """A BMC did not do what it must; the text says what."""


class Shape(NamedTuple):
    """What BMCs of one kind have. Paths; '' where there is none. Equal shapes are one object (`Known.has`)."""

    exploration: tuple[str, ...] = ()
    discovery: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()
    system: str = ""
    system_reset: str = ""
    manager: str = ""
    manager_reset: str = ""
    ntp: str = ""
    bios: str = ""
    bios_settings: str = ""


_SHAPES: dict[Shape, Shape] = {}


@dataclass(slots=True)
class Known:
    """One BMC. number: its place in the list of endpoints, from 0. prints: by path, of the identity that it showed."""

    number: int
    endpoint: Endpoint
    password: str = ""
    rotations: int = 0
    turns: int = 0
    shape: Shape = field(default_factory=Shape)
    prints: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.password = self.endpoint.password

    def has(self, shape: Shape) -> None:
        self.shape = _SHAPES.setdefault(shape, shape)

    def rotated(self, password: str) -> None:
        """The BMC has this password from now on."""
        self.password = password
        self.rotations += 1
        self.etags.clear()

    def remember(self, ask: Ask, answer: Answer) -> None:
        """Keep the ETag, if it is one of the first few."""
        tag = answer.headers.get("ETag", "")
        if tag and (ask.path in self.etags or len(self.etags) < _CACHED):
            self.etags[sys.intern(ask.path)] = tag

    @property
    def who(self) -> bytes | None:
        """A digest of all identities that the BMC showed; None where it showed none."""
        if not self.prints:
            return None
        return hashlib.blake2b(b"".join(sorted(self.prints.values())), digest_size=8).digest()


def fault_of(bmc: Known, ask: Ask, answer: Answer) -> str:
    """What is wrong with an answer, or ''. The first identity that a resource shows is what it must show for ever."""
    if answer.status not in ask.expect:
        if not answer.status:
            return f"no answer: {answer.error}"
        return f"{answer.status} instead of {' or '.join(map(str, ask.expect))}: {answer.body[:120]!r}"
    if answer.status != 200 or ask.method != "GET" or not ask.verify:
        return ""
    path = ask.path.partition("?")[0].rstrip("/")
    if b'"%b"' % path.encode() not in answer.body and b'"%b/"' % path.encode() not in answer.body:
        return f"the answer does not name the resource that was asked for: {answer.body[:120]!r}"
    shown = b"".join([name + value for name, value in _IDENTITY.findall(answer.body)])
    if not shown:
        return ""
    digest = hashlib.blake2b(shown, digest_size=8).digest()
    # Interned, because thousands of BMCs have the same paths.
    if bmc.prints.setdefault(sys.intern(ask.path), digest) != digest:
        return f"the answer belongs to another BMC: {shown[:120]!r}"
    return ""
