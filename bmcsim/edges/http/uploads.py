"""Uploads as they stream by: counted, digested and forgotten."""

import hashlib
import logging
from typing import Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, MultipartState, parse_options_header

from bmcsim.core.errors import RedfishError
from bmcsim.redfish.exchange import Upload

HEAD_BYTES = 4 * 1024
FIELD_BYTES = 64 * 1024
FILE_NAME_LENGTH = 255

_FILE = "UpdateFile"
_FIELDS = ("UpdateParameters", "OemParameters")

# It warns of each malformed body, with bytes of the client in the text; the client is told by a 400.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


class Sink(Protocol):
    """Where the body of an upload goes."""

    def feed(self, data: bytes) -> None:
        """The next bytes. Raises RedfishError, after which the sink is spent."""

    def result(self) -> Upload:
        """What is left of it at its end. Raises RedfishError for a body that ended too early."""


def sink_of(upload: str, content_type: bytes) -> Sink:
    """The sink of a BodyPlan's kind of upload, 'raw' or 'multipart'. Raises RedfishError 400 without a boundary."""
    return Multipart(content_type) if upload == "multipart" else Raw()


class _File:
    """Size in bytes, SHA-256 and first bytes of a file that is not kept."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self._digest = hashlib.sha256()

    def feed(self, data: bytes | memoryview) -> None:
        if self.size < HEAD_BYTES:
            self.head += bytes(data[: HEAD_BYTES - self.size])
        self.size += len(data)
        self._digest.update(data)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class Raw:
    """The body is the file."""

    def __init__(self) -> None:
        self._file = _File()

    def feed(self, data: bytes) -> None:
        """The next bytes of the file."""
        self._file.feed(data)

    def result(self) -> Upload:
        """The file; an empty body has none."""
        file = self._file
        return Upload(file.size, file.digest, head=file.head, has_file=file.size > 0)


class Multipart:
    """multipart/form-data (RFC 7578) with the parts of DSP0266 12.6.2.

    UpdateParameters and OemParameters are kept, up to FIELD_BYTES each (413); UpdateFile is digested. Each may come
    once and nothing else may come, so there are never more than three parts. Everything else is 400.
    """

    def __init__(self, content_type: bytes) -> None:
        _, parameters = parse_options_header(content_type)
        boundary = parameters.get(b"boundary", b"")
        if not boundary:
            raise _malformed()
        self._file = _File()
        self._file_name = ""
        self._parts: dict[str, bytearray] = {}
        self._part = ""
        self._headers: dict[bytes, bytes] = {}
        self._name = self._value = b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._headers.clear,
                    "on_header_begin": self._header_begins,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._part_begins,
                    "on_part_data": self._part_data,
                },
            )
        except FormParserError as error:
            raise _malformed() from error

    def feed(self, data: bytes) -> None:
        """The next bytes of the body."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _malformed() from error

    def result(self) -> Upload:
        """The parts. Which of them must be there is for others to say."""
        if self._parser.state != MultipartState.END:
            raise _malformed()
        parameters, oem = (bytes(self._parts.get(name, b"")) for name in _FIELDS)
        file = self._file
        return Upload(file.size, file.digest, self._file_name, parameters, oem, file.head, _FILE in self._parts)

    def _header_begins(self) -> None:
        self._name = self._value = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        self._headers.setdefault(self._name.lower(), self._value)

    def _part_begins(self) -> None:
        kind, parameters = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = parameters.get(b"name", b"").decode("latin-1")
        if kind != b"form-data" or name not in (_FILE, *_FIELDS) or name in self._parts:
            raise _malformed()
        if name == _FILE:
            self._file_name = parameters.get(b"filename", b"").decode("utf-8", "replace")
            if len(self._file_name) > FILE_NAME_LENGTH or not self._file_name.isprintable():
                raise _malformed()
        self._part = name
        self._parts[name] = bytearray()

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        piece = memoryview(data)[start:end]
        if self._part == _FILE:
            self._file.feed(piece)
            return
        kept = self._parts[self._part]
        if len(kept) + len(piece) > FIELD_BYTES:
            raise RedfishError(413, "PayloadTooLarge")
        kept += piece


def _malformed() -> RedfishError:
    return RedfishError(400, "UnrecognizedRequestBody")
