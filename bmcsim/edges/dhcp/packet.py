"""DHCP messages as bytes (RFC 2131 figure 1): what a relay sends to a server, and what it hears from one."""

import re
import struct
from collections.abc import Iterator
from socket import AF_INET, inet_ntoa, inet_pton
from typing import NamedTuple

from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Lease, Reply

MAX_REPLY = 4096
"""Bytes of a reply; a longer one is malformed."""

_LEAST = 300  # bytes of a BOOTP message (RFC 951, RFC 1542 2.1)
_MOST = 255  # bytes of an option
_REQUEST, _REPLY = 1, 2
_ETHERNET, _MAC_LENGTH = 1, 6
_COOKIE = 0x63825363
_HEADER = struct.Struct("!BBBBIHHIIII6s10s64s128sI")
_WITH_FILE, _WITH_SNAME = 1, 2
_FOREVER = 0xFFFFFFFF
_LEAST_MTU = 68

_PAD, _END = 0, 255
_MASK, _ROUTER, _NAME_SERVERS, _HOST_NAME, _DOMAIN, _MTU, _NTP, _VENDOR = 1, 3, 6, 12, 15, 26, 42, 43
_REQUESTED, _SECONDS, _OVERLOAD, _KIND, _SERVER, _TEXT, _RENEW, _REBIND, _CLASS, _RELAY = (
    50, 51, 52, 53, 54, 56, 58, 59, 60, 82,
)  # fmt: skip
_CIRCUIT, _REMOTE, _LINK = 1, 2, 5  # of option 82 (RFC 3046, RFC 3527)
_INTERFACE_ID = 70  # of option 43: NICo's UUID of the interface

_UUID = re.compile(rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_NAME = re.compile(rb"[!-~]+")
_UNPRINTABLE = re.compile(rb"[^ -~]")


class Malformed(Exception):
    """A datagram is no reply of a DHCP server; the text says why, and repeats nothing of what was sent."""


class Received(NamedTuple):
    """A reply, the MAC that it is for as a number, and the relay that it is for (giaddr), dotted."""

    reply: Reply
    mac: int
    relay: str


def encode(interface: Interface, ask: Ask, advertise: str) -> bytes:
    """What a client says, as its relay passes it on. advertise: address of the relay, which the server answers to.

    Renewals too go by the relay, with ciaddr and giaddr both set. Raises ValueError or OSError for what no packet can
    say: a text of more than 255 bytes, or an address that is none.
    """
    head = _HEADER.pack(
        _REQUEST,
        _ETHERNET,
        _MAC_LENGTH,
        1,
        ask.xid,
        max(0, min(ask.elapsed, 0xFFFF)),
        0,
        _number(ask.client),
        0,
        0,
        _number(advertise),
        interface.mac.to_bytes(_MAC_LENGTH),
        b"",
        b"",
        b"",
        _COOKIE,
    )
    agent = _text(_CIRCUIT, interface.circuit) + _text(_REMOTE, interface.remote) + _address(_LINK, interface.relay)
    options = (
        _option(_KIND, bytes((ask.kind,)))
        + _address(_REQUESTED, ask.requested)
        + _address(_SERVER, ask.server)
        + _text(_CLASS, interface.vendor_class)
        # The last one (RFC 3046 2.1). Three sub-options can be more than one option holds (RFC 3396).
        + b"".join(_option(_RELAY, agent[at : at + _MOST]) for at in range(0, len(agent), _MOST))
    )
    return (head + options + bytes((_END,))).ljust(_LEAST, b"\0")


def _option(code: int, value: bytes) -> bytes:
    if len(value) > _MOST:
        raise ValueError(f"DHCP option {code} has {len(value)} bytes, and {_MOST} is the most")
    return bytes((code, len(value))) + value


def _text(code: int, text: str) -> bytes:
    return _option(code, text.encode()) if text else b""


def _address(code: int, dotted: str) -> bytes:
    return _option(code, inet_pton(AF_INET, dotted)) if dotted else b""


def _number(dotted: str) -> int:
    return int.from_bytes(inet_pton(AF_INET, dotted)) if dotted else 0


def decode(data: bytes) -> Received:
    """A datagram -> the reply in it: OFFER, ACK or NAK. Raises Malformed.

    A lease without a lease time is one for ever. Options of the file and sname fields count (option 52), and parts of
    long options are put together (RFC 3396).
    """
    if len(data) > MAX_REPLY:
        raise Malformed("too long")
    if len(data) < _HEADER.size:
        raise Malformed("too short")
    (op, htype, hlen, _hops, xid, _secs, _flags, _ciaddr, yours, _siaddr, relay, mac, _rest, sname, file, cookie) = (
        _HEADER.unpack_from(data)
    )
    if (op, htype, hlen, cookie) != (_REPLY, _ETHERNET, _MAC_LENGTH, _COOKIE):
        raise Malformed("no DHCP reply to an Ethernet address")
    options: dict[int, bytes] = {}
    _collect(data[_HEADER.size :], options)
    # The order is that of RFC 3396 chapter 5.
    overload = _integer(options, _OVERLOAD, 1)
    if overload & _WITH_FILE:
        _collect(file, options)
    if overload & _WITH_SNAME:
        _collect(sname, options)
    server = _server(options)
    match _integer(options, _KIND, 1):
        case Kind.OFFER | Kind.ACK as kind:
            reply = Reply(Kind(kind), xid, _lease(yours, server, options), server=server)
        case Kind.NAK:
            text = _UNPRINTABLE.sub(b"?", options.get(_TEXT, b"").rstrip(b"\0"))
            reply = Reply(Kind.NAK, xid, server=server, text=text[:_MOST].decode("ascii"))
        case _:
            raise Malformed("not an OFFER, ACK or NAK")
    return Received(reply, int.from_bytes(mac), _dotted(relay))


def _lease(address: int, server: str, options: dict[int, bytes]) -> Lease:
    if not server:
        raise Malformed("no server identifier")
    if not _of_a_host(address):
        raise Malformed("no address")
    seconds = _integer(options, _SECONDS, 4) if _SECONDS in options else _FOREVER
    if seconds == 0:
        raise Malformed("a lease of no time")
    mtu = _integer(options, _MTU, 2)
    if _MTU in options and mtu < _LEAST_MTU:
        raise Malformed(_wrong(_MTU))
    routers = _addresses(options, _ROUTER)
    return Lease(
        address=_dotted(address),
        server=server,
        seconds=float("inf") if seconds == _FOREVER else float(seconds),
        renew=_period(options, _RENEW),
        rebind=_period(options, _REBIND),
        prefix=_prefix(options),
        gateway=routers[0] if routers else "",
        name_servers=_addresses(options, _NAME_SERVERS),
        ntp_servers=_addresses(options, _NTP),
        host_name=_name(options, _HOST_NAME),
        domain=_name(options, _DOMAIN),
        mtu=mtu,
        interface_id=_interface_id(options.get(_VENDOR, b"")),
    )


def _items(area: bytes) -> Iterator[tuple[int, bytes]]:
    """The code and value of each option; ends behind the option 'end' or with the area."""
    at = 0
    while at < len(area) and area[at] != _END:
        if area[at] == _PAD:
            at += 1
            continue
        start = at + 2
        end = start + area[at + 1] if start <= len(area) else start
        if end > len(area):
            raise Malformed("an option is cut off")
        yield area[at], area[start:end]
        at = end
    if at < len(area):
        yield _END, b""


def _collect(area: bytes, options: dict[int, bytes]) -> None:
    """Put the options of a field to those that are there. Without 'end' the message may be cut off between two."""
    for code, value in _items(area):
        options[code] = options.get(code, b"") + value
        if code == _END:
            return
    raise Malformed("the options have no end")


def _wrong(code: int) -> str:
    return f"option {code} is wrong"


def _integer(options: dict[int, bytes], code: int, size: int) -> int:
    """The value of an option of a fixed size, 0 where it is not there."""
    value = options.get(code)
    if value is None:
        return 0
    if len(value) != size:
        raise Malformed(_wrong(code))
    return int.from_bytes(value)


def _period(options: dict[int, bytes], code: int) -> float:
    """T1 or T2; 0, as where it is missing, for never: only a lease for ever has that, and it has no use for them."""
    seconds = _integer(options, code, 4)
    return 0.0 if seconds == _FOREVER else float(seconds)


def _addresses(options: dict[int, bytes], code: int) -> tuple[str, ...]:
    value = options.get(code)
    if value is None:
        return ()
    if not value or len(value) % 4:
        raise Malformed(_wrong(code))
    return tuple([inet_ntoa(value[at : at + 4]) for at in range(0, len(value), 4)])


def _server(options: dict[int, bytes]) -> str:
    address = _integer(options, _SERVER, 4)
    if _SERVER in options and not _of_a_host(address):
        raise Malformed(_wrong(_SERVER))
    return _dotted(address) if address else ""


def _prefix(options: dict[int, bytes]) -> int:
    mask = _integer(options, _MASK, 4)
    length = mask.bit_count()
    if mask != (0xFFFFFFFF << (32 - length)) & 0xFFFFFFFF:
        raise Malformed(_wrong(_MASK))
    return length


def _name(options: dict[int, bytes], code: int) -> str:
    """A name; some servers put a NUL behind it (RFC 2132 chapter 2)."""
    value = options.get(code)
    if value is None:
        return ""
    name = value.rstrip(b"\0")
    if len(name) > _MOST or not _NAME.fullmatch(name):
        raise Malformed(_wrong(code))
    return name.decode("ascii")


def _interface_id(vendor: bytes) -> str:
    """The UUID in option 43, '' where it has none."""
    for code, value in _items(vendor):
        if code == _INTERFACE_ID:
            if not _UUID.fullmatch(value):
                raise Malformed(_wrong(_VENDOR))
            return value.decode("ascii").lower()
    return ""


def _of_a_host(address: int) -> bool:
    """Whether an interface can have it: no network 0, no multicast, no broadcast."""
    return 1 <= address >> 24 < 224


def _dotted(address: int) -> str:
    return inet_ntoa(address.to_bytes(4))
