"""Certificates that are well-formed, and whose fields are not what they should be (DER, X.690)."""

from base64 import encodebytes
from functools import lru_cache
from random import Random

from bmcsim.machine import certificates

_SEED = bytes(range(32))
_WHO = b'{"subject":{"CommonName":"a","Organization":"b","City":"c","Country":"DE","Email":"d@e"},"names":["a","::1"]}'
_CONSTRUCTED = 0x20
_TAGS = (0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0A, 0x0C, 0x13, 0x14, 0x16, 0x17, 0x18, 0x1C, 0x1E, 0x80, 0x82, 0x86)
_NUMBERS = (
    b"",
    b"\x00",
    b"\x02",
    b"\x7f",
    b"\x85",
    b"\xff",
    b"\x00\x85",
    b"\x80" + bytes(20),
    b"\x01" + b"\xff" * 4000,
)
_TIMES = (
    b"000101000000Z",
    b"491231235959Z",
    b"500101000000Z",
    b"00010101000000Z",
    b"00000101000000Z",
    b"99991231235959Z",
    b"20260229000000Z",
    b"260101000000+1400",
)
_CONTENTS = (
    *_NUMBERS,
    *_TIMES,
    b"\xd8\x00",
    b"\x00\x00\xd8\x00",
    b"\x00\x11\xff\xff",
    b"${serial}",
    b"a\x00b",
    "\u202e\u00e4\U0001f600".encode(),
    b"\x55\x04\x06",
    b"\x55\x1d\x0f",
    b"\x55\x1d\x11",
    b"\x2a\x86\x48\xce\x3d\x03\x01\x07",
    b"\x88\x37" + b"\xff" * 30 + b"\x7f",
)


_OF_TAG = {0x02: _NUMBERS, 0x17: _TIMES, 0x18: _TIMES}


class _Field:
    """One element. inside: its elements if it is constructed, else `content` counts."""

    def __init__(self, tag: int, content: bytes) -> None:
        self.tag, self.content = tag, content
        self.inside = _fields(content) if tag & _CONSTRUCTED else []

    def all(self) -> "list[_Field]":
        """This element and those in it, at any depth."""
        return [self, *[one for field in self.inside for one in field.all()]]

    def encoded(self) -> bytes:
        """As DER."""
        content = b"".join(one.encoded() for one in self.inside) if self.inside else self.content
        size = len(content)
        length = size.to_bytes((size.bit_length() + 7) // 8 or 1)
        return bytes([self.tag]) + (length if size < 128 else bytes([0x80 | len(length)]) + length) + content


def _fields(data: bytes) -> list[_Field]:
    found, at = [], 0
    while at < len(data):
        tag, first = data[at], data[at + 1]
        more = first & 0x7F if first & 0x80 else 0
        size = int.from_bytes(data[at + 2 : at + 2 + more]) if more else first
        start = at + 2 + more
        found.append(_Field(tag, data[start : start + size]))
        at = start + size
    return found


def pem(label: str, der: bytes) -> str:
    """DER as PEM (RFC 7468)."""
    return f"-----BEGIN {label}-----\n{encodebytes(der).decode()}-----END {label}-----\n"


@lru_cache(1)
def _good() -> tuple[bytes, str]:
    """The DER of a certificate, and its key as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = x509.load_pem_x509_certificate(certificates.made(_SEED, _WHO).encode())
    return certificate.public_bytes(Encoding.DER), pem("PRIVATE KEY", certificates.made_key(_SEED))


def odd_pem(random: Random) -> str:
    """A certificate, most of the time with its key, of which some fields are odd."""
    der, key = _good()
    (whole,) = _fields(der)
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        fields = whole.all()
        field = random.choice(fields)
        match random.randrange(5):
            case 0 | 1:
                leaves = [one for one in fields if not one.inside]
                figures = [one for one in leaves if one.tag in _OF_TAG]
                leaf = random.choice(figures if figures and random.random() < 0.4 else leaves)
                leaf.content = random.choice(_OF_TAG.get(leaf.tag, _CONTENTS))
            case 2:
                field.tag = random.choice(_TAGS)
            case 3 if field.inside:
                field.inside.insert(0, random.choice(field.inside))
            case _ if field.inside:
                del field.inside[random.randrange(len(field.inside))]
                field.content = b""
    return pem("CERTIFICATE", whole.encoded()) + (key if random.random() < 0.8 else "")
