"""Listening sockets: one socket sees thousands of addresses."""

import re
import socket
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


def open_socket(listen: Listen, option: str = "--listen") -> tuple[socket.socket, str]:
    """A listening socket, and a warning or ''. Raises ListenError when the port is taken or forbidden.

    For a network of loopback the socket is bound to all addresses and tied to the loopback device; where that is not
    possible, it is bound to one address, and BMCs are told apart by the Host or Forwarded header alone.
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
        sock.bind((host, listen.port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenError(f"cannot listen on {listen}: {error.strerror}; choose another with {option}") from error
    sock.setblocking(False)
    return sock, warning
