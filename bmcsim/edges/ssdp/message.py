"""What an SSDP search asks, and what one service answers (DSP0266 12.4; UPnP Device Architecture 1.1, chapter 1)."""

import re

import msgspec

MAX_SEARCH = 2048
"""Bytes of a datagram; a longer one is no search."""

MAX_WAIT = 5
"""Seconds that MX may ask for; more counts as this."""

_URN = "urn:dmtf-org:service:redfish-rest:1"
_MAX_AGE = 1800
_START = b"M-SEARCH * HTTP/1.1"
_TARGET = re.compile(re.escape(_URN.encode()) + rb"(?::(\d{1,9}))?")
_WAIT = re.compile(rb"0*([1-9]\d{0,8})")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*+([^\r\n\x00]*)")


class Search(msgspec.Struct, frozen=True):
    """A search for Redfish services.

    minor: services of a protocol version 1.minor or later are meant. wait: seconds over which answers may be spread;
    0 where MX is missing or wrong. host: the Host field, b'' without one.
    """

    minor: int = 0
    wait: int = 0
    host: bytes = b""


class Service(msgspec.Struct, frozen=True):
    """A service as SSDP announces it. minor: of its protocol version 1.minor. location: URL of its root."""

    uuid: str
    minor: int
    location: str


def parse_search(data: bytes) -> Search | None:
    """A datagram -> the search in it, None for anything else, also for a search of something that is no Redfish."""
    if len(data) > MAX_SEARCH:
        return None
    start, *lines = data.split(b"\r\n\r\n", 1)[0].split(b"\r\n")
    if start != _START:
        return None
    fields: dict[bytes, bytes] = {}
    for line in filter(None, lines):
        field = _FIELD.fullmatch(line)
        if field is None or (name := field[1].lower()) in fields:
            return None
        fields[name] = field[2].rstrip(b" \t")
    if fields.get(b"man") != b'"ssdp:discover"':
        return None
    target = fields.get(b"st", b"")
    wanted = _TARGET.fullmatch(target)
    if wanted is None and target != b"ssdp:all":
        return None
    wait = _WAIT.fullmatch(fields.get(b"mx", b""))
    return Search(
        int(wanted[1] or 0) if wanted is not None else 0,
        min(int(wait[1]), MAX_WAIT) if wait is not None else 0,
        fields.get(b"host", b""),
    )


def minor_of(version: str) -> int:
    """RedfishVersion '1.18.0' -> 18; 0 for what is no version."""
    parts = version.split(".")
    return int(parts[1]) if len(parts) > 1 and parts[1].isascii() and parts[1].isdecimal() else 0


def reply(service: Service) -> bytes:
    """What a service answers to a search. A minor version of 0 is left out."""
    target = f"{_URN}:{service.minor}" if service.minor else _URN
    return (
        "HTTP/1.1 200 OK\r\n"
        f"CACHE-CONTROL: max-age={_MAX_AGE}\r\n"
        f"ST: {target}\r\n"
        f"USN: uuid:{service.uuid}::{target}\r\n"
        f"AL: {service.location}\r\n"
        "EXT:\r\n"
        "\r\n"
    ).encode()
