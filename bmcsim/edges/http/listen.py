"""Listening sockets: one socket sees thousands of addresses."""

import ctypes
import re
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import IPv4Network, IPv6Network, ip_network

import msgspec

BACKLOG = 4096
_LISTEN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[0-9.]+))?(?:/(?P<prefix>\d{1,3}))?:(?P<port>\d{1,5})")


class ListenError(Exception):
    """The listening address is wrong or cannot be had; the text says which and what would be right."""


class Listen(msgspec.Struct, frozen=True):
    """Which addresses are served at which port; a single address is a network of one, 0.0.0.0 and :: are all."""

    network: IPv4Network | IPv6Network
    port: int

    @property
    def everything(self) -> bool:
        """Whether every address of the machine is served."""
        return self.network.network_address.is_unspecified

    @property
    def loopback(self) -> bool:
        """Whether nothing but loopback is served."""
        return self.network.is_loopback

    def __str__(self) -> str:
        address, prefix = self.network.network_address, self.network.prefixlen
        host = str(address) if self.network.version == 4 else f"[{address}]"
        short = self.everything or prefix == self.network.max_prefixlen
        return f"{host}:{self.port}" if short else f"{host}/{prefix}:{self.port}"


def parse_listen(text: str) -> Listen:
    """'127.0.0.0/8:1266', '0.0.0.0:1266', '[::1]:1266' -> Listen. Raises ListenError."""
    match = _LISTEN.fullmatch(text.strip())
    wish = "ADDRESS:PORT or NETWORK/PREFIX:PORT, such as 127.0.0.0/8:1266 or 0.0.0.0:1266"
    if match is None:
        raise ListenError(f"listen address {text!r} must be {wish}")
    host = match["six"] or match["four"] or "0.0.0.0"
    try:
        network = ip_network(f"{host}/{match['prefix']}" if match["prefix"] else host)
    except ValueError as error:
        raise ListenError(f"listen address {text!r} must be {wish}: {error}") from error
    if network.network_address.is_unspecified:
        network = ip_network(f"{host}/0")
    port = int(match["port"])
    if port > 65535:
        raise ListenError(f"listen address {text!r}: the port must be 0 to 65535")
    return Listen(network, port)


def open_socket(listen: Listen, option: str = "--listen", *, shared: bool = False) -> tuple[socket.socket, str]:
    """A listening socket, and a warning or ''. Raises ListenError when the port is taken or forbidden.

    For a network of loopback the socket is bound to all addresses and tied to the loopback device; where that is not
    possible, it is bound to one address, and BMCs are told apart by the Host or Forwarded header alone.
    shared: with other sockets of this user that say so too.
    """
    six = listen.network.version == 6
    # asyncio's own loop sets TCP_NODELAY only where the protocol is named.
    sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    single = listen.network.num_addresses == 1
    host = str(listen.network.network_address) if single else ("::" if six else "0.0.0.0")
    warning = ""
    if listen.loopback and not single:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        except (OSError, AttributeError):
            host = "::1" if six else "127.0.0.1"
            warning = (
                f"this system cannot tie a socket to loopback: only {host} is served, address BMCs by Host or Forwarded"
            )
    try:
        if six and listen.everything:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, listen.port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenError(f"cannot listen on {listen}: {error.strerror}; choose another with {option}") from error
    sock.setblocking(False)
    return sock, warning


def open_sockets(listen: Listen, starts: Sequence[int], last: int) -> list[socket.socket]:
    """A listening socket for each part of a fleet, on one port: the kernel hands a connection to the part that has the
    address that was dialled. Raises ListenError.

    starts: the lowest IPv4 address of each part, ascending, as integers; last: the highest of all. Connections to
    lower and higher addresses, and by IPv6, are spread over all parts. The sockets keep their places for as long as
    none of them is closed by all its holders.
    """
    if sys.platform != "linux":
        raise ListenError("shards need Linux, which can steer connections by the address that was dialled")
    # Sockets that share a port let any other of the same user join them that shares too. This one does not.
    alone, warning = open_socket(listen)
    listen = Listen(listen.network, alone.getsockname()[1])
    alone.close()
    if warning:
        raise ListenError(f"cannot serve shards: {warning}")
    with ExitStack() as opened:
        socks = []
        for _ in starts:
            socks.append(open_socket(listen, shared=True)[0])
            opened.callback(socks[-1].close)
            if len(socks) == 1:
                _attach(socks[0], steering(starts, last))
        opened.pop_all()
    return socks


# linux/filter.h and asm-generic/socket.h; this Python has no names for them.
_SO_ATTACH_REUSEPORT_CBPF = 51
_LOAD_BYTE, _LOAD_WORD, _SHIFT_RIGHT, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x35, 0x06
_IF_MORE = 0x25
_NETWORK_HEADER = 0xFFF00000
_DESTINATION = _NETWORK_HEADER + 16
_SPREAD = 0xFFFFFFFF  # no place: the kernel chooses by a hash of both addresses and ports


def steering(starts: Sequence[int], last: int) -> bytes:
    """A classic BPF program that gives the place of the socket for a packet by its IPv4 destination."""
    program = [(_LOAD_BYTE, 0, 0, _NETWORK_HEADER), (_SHIFT_RIGHT, 0, 0, 4)]
    program += [(_IF_EQUAL, 1, 0, 4), (_RETURN, 0, 0, _SPREAD), (_LOAD_WORD, 0, 0, _DESTINATION)]
    program += [(_IF_MORE, 0, 1, last), (_RETURN, 0, 0, _SPREAD)]
    for place in range(len(starts) - 1, -1, -1):
        program += [(_IF_AT_LEAST, 0, 1, starts[place]), (_RETURN, 0, 0, place)]
    program.append((_RETURN, 0, 0, _SPREAD))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def _attach(sock: socket.socket, program: bytes) -> None:
    """Let a program choose among the sockets that share a port with this one. Needs no privilege."""
    code = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HL", len(program) // 8, ctypes.addressof(code))
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, described)
    except OSError as error:
        raise ListenError(
            f"this system cannot steer connections to shards: {error.strerror}; use one process"
        ) from error
