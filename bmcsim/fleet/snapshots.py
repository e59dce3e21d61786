"""The state of a fleet, or of some of its BMCs, as one file.

    8 bytes     MAGIC
    4 bytes     length of the header, which is JSON: Header
    blocks      4 bytes length, that many bytes of zlib: rows, each 2 bytes length of the id, 4 bytes length of the
                payload, id, payload (`machine.state.Row`)
    4 bytes     0: there is no further block
    4 bytes     length of the trailer, which is JSON: Trailer

Numbers are unsigned and big-endian. The file is a secret: the key of the passwords is in the header.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from bmcsim.machine import state as states
from bmcsim.machine.state import Row, State

MAGIC = b"BMCSNAP\n"
FORMAT = 1
MAX_BYTES = 256 * 1024 * 1024
MAX_ROW = 8 * 1024 * 1024
MAX_ROWS = 1_000_000
MAX_STATES = 512 * 1024 * 1024
"""Bytes of all payloads together."""
_MAX_BLOCK = MAX_ROW + 2 * 1024 * 1024
_FULL = 256 * 1024
"""Bytes of rows after which a block ends."""
ROWS_OF_BLOCK = 50
_MAX_TEXT = 64 * 1024
_LEVEL = 1
_LENGTH, _LENGTHS = Struct(">I"), Struct(">HI")
_KEY_BYTES = 32

T = TypeVar("T")


class SnapshotError(Exception):
    """A file is no snapshot that can be used; the text says why."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot is of.

    bmcsim: version that wrote it. fingerprint: of the fleet. fleet: name of its file. taken: RFC 3339. hardware: where
    the time line of hardware stood, seconds. rows: how many there are. whole: whether it has every BMC of the fleet.
    key: of the passwords.
    """

    format: int
    bmcsim: str
    fingerprint: str
    fleet: str
    taken: str
    hardware: Annotated[float, Meta(ge=-1e15, le=1e15)]
    rows: Annotated[int, Meta(ge=0, le=MAX_ROWS)]
    whole: bool
    key: Annotated[bytes, Meta(min_length=_KEY_BYTES, max_length=_KEY_BYTES)]


class Trailer(msgspec.Struct, frozen=True):
    """What shows that a snapshot is complete. digest: of all states. header: SHA-256 of the header's text."""

    rows: int
    digest: str
    header: str


class _Format(msgspec.Struct):
    format: int


# states


def plain(row: Row) -> bytes:
    """A row without what time and the process decide: equal for states that are equal.

    That is when hardware will be done, how long ago it changed, leases, and under which key it is stored.
    """
    state = row.state
    tasks = tuple(
        [msgspec.structs.replace(task, started=None if task.started is None else 0.0) for task in state.tasks]
    )
    timers = dict.fromkeys(sorted(state.timers), 0.0)
    still = msgspec.structs.replace(state, at=0.0, timers=timers, tasks=tasks, leases={})
    return states.encode(msgspec.structs.replace(row, state=still, key=b""))


class Digest:
    """Of the states of BMCs, in whatever order they come."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, id_: str, row: Row) -> None:
        """One more BMC."""
        one = hashlib.sha256(id_.encode() + b"\0" + plain(row)).digest()
        self._sum = (self._sum + int.from_bytes(one)) % 2**256

    @property
    def text(self) -> str:
        """64 hexadecimal digits."""
        return f"{self._sum:064x}"


def moved(row: Row, header: Header, hardware: float) -> State:
    """The state of a row as of the moment of its snapshot, on a time line of hardware that stands at `hardware`."""
    return states.shifted(msgspec.structs.replace(row.state, at=header.hardware), hardware)


# writing


def written(header: Header, rows: Iterable[tuple[str, Row]]) -> Iterator[bytes]:
    """The pieces of a file, a block at a time. Raises SnapshotError for a state that is too large."""
    text = msgspec.json.encode(header)
    check = hashlib.sha256(text).hexdigest()
    yield MAGIC + _LENGTH.pack(len(text)) + text
    digest, count = Digest(), 0
    block, in_block = bytearray(), 0
    for id_, row in rows:
        digest.add(id_, row)
        payload, name = states.encode(row), id_.encode()
        if len(payload) > MAX_ROW:
            raise SnapshotError(f"the state of {id_} has {len(payload)} bytes, more than {MAX_ROW}")
        block += _LENGTHS.pack(len(name), len(payload)) + name + payload
        count, in_block = count + 1, in_block + 1
        if in_block == ROWS_OF_BLOCK or len(block) >= _FULL:
            yield _packed(block)
            block, in_block = bytearray(), 0
    if block:
        yield _packed(block)
    text = msgspec.json.encode(Trailer(count, digest.text, check))
    yield _LENGTH.pack(0) + _LENGTH.pack(len(text)) + text


def _packed(block: bytearray) -> bytes:
    data = zlib.compress(block, _LEVEL)
    return _LENGTH.pack(len(data)) + data


# reading


class Read(NamedTuple):
    """A row of a file. id: of its BMC. payload: the row as it is in the file."""

    id: str
    payload: bytes
    row: Row


class Reader:
    """Takes a file in pieces of any size and gives its rows.

    header, trailer: None until they were read. No more is kept than a piece and a block, and no block may grow beyond
    what a large state needs.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.trailer: Trailer | None = None
        self._buffer = bytearray()
        self._bytes = self._rows = self._states = 0
        self._last = self._check = ""
        self._begun = self._over = False
        self._ids: set[str] = set()

    def feed(self, data: bytes) -> Iterator[Read]:
        """Take a piece; the rows that are whole by then. To be exhausted before the next one. Raises SnapshotError."""
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            raise SnapshotError(f"is larger than {MAX_BYTES // 2**20} MiB")
        self._buffer += data
        while self.trailer is None and (part := self._part()) is not None:
            if self.header is None:
                self.header = self._read_header(part)
            elif self._over:
                self.trailer = self._read_trailer(part)
            elif not part:
                self._over = True
            else:
                yield from self._block(part)
        if self.trailer is not None and self._buffer:
            raise SnapshotError("goes on behind its end")

    def close(self) -> Trailer:
        """The file has ended. Raises SnapshotError for one that is not whole."""
        if self.trailer is None or self.header is None:
            raise SnapshotError(f"is cut off{self._where}")
        if self._check != self.trailer.header:
            raise SnapshotError("is damaged: its header is not the one that was written")
        if self._rows != self.trailer.rows or self._rows != self.header.rows:
            raise SnapshotError(f"has {self._rows} rows, and should have {self.header.rows}")
        return self.trailer

    @property
    def _where(self) -> str:
        return f" behind the row of {self._last}" if self._last else ""

    def _part(self) -> bytes | None:
        """The next thing with a length before it, None until it is there."""
        if not self._begun:
            if not MAGIC.startswith(self._buffer[: len(MAGIC)]):
                raise SnapshotError("is no snapshot of bmcsim")
            if len(self._buffer) < len(MAGIC):
                return None
            del self._buffer[: len(MAGIC)]
            self._begun = True
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        most = _MAX_TEXT if self.header is None or self._over else _MAX_BLOCK
        if length > most:
            raise SnapshotError(f"is damaged{self._where}: a part of {length} bytes")
        if len(self._buffer) < _LENGTH.size + length:
            return None
        part = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
        del self._buffer[: _LENGTH.size + length]
        return part

    def _read_header(self, text: bytes) -> Header:
        form = self._json(text, _Format).format
        if form > FORMAT:
            raise SnapshotError(f"has format {form}, and this bmcsim knows only {FORMAT}; use the one that wrote it")
        self._check = hashlib.sha256(text).hexdigest()
        return self._json(text, Header)

    def _read_trailer(self, text: bytes) -> Trailer:
        return self._json(text, Trailer)

    def _json(self, text: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SnapshotError(f"is damaged{self._where}: {error}") from None

    def _block(self, data: bytes) -> Iterator[Read]:
        unpacking = zlib.decompressobj()
        try:
            block = unpacking.decompress(data, _MAX_BLOCK)
        except zlib.error:
            raise SnapshotError(f"is damaged{self._where}") from None
        if not unpacking.eof or unpacking.unused_data:
            raise SnapshotError(f"is damaged{self._where}: a block that is cut off, or larger than {_MAX_BLOCK} bytes")
        position = 0
        while position < len(block):
            if len(block) - position < _LENGTHS.size:
                raise SnapshotError(f"is damaged{self._where}")
            name, payload = _LENGTHS.unpack_from(block, position)
            position += _LENGTHS.size
            if len(block) - position < name + payload:
                raise SnapshotError(f"is damaged{self._where}")
            id_ = block[position : position + name].decode("utf-8", "backslashreplace")
            position += name
            yield self._row(id_, block[position : position + payload])
            position += payload

    def _row(self, id_: str, payload: bytes) -> Read:
        self._rows += 1
        self._states += len(payload)
        if self._states > MAX_STATES:
            raise SnapshotError(f"has states of more than {MAX_STATES // 2**20} MiB")
        if id_ in self._ids or self._rows > MAX_ROWS:
            raise SnapshotError(f"is damaged: it has {id_} twice, or too many rows")
        self._ids.add(id_)
        try:
            row = states.decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SnapshotError(f"the state of {id_} is damaged: {error}") from None
        if len(row.key) not in (0, _KEY_BYTES):
            raise SnapshotError(f"the state of {id_} is damaged: its key has {len(row.key)} bytes")
        self._last = id_
        return Read(id_, payload, row)
