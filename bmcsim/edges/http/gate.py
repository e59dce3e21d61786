"""Lets a connection in or resets it before its TLS handshake: a BMC that is not there refuses at once.

`loop.create_server(ssl=...)` tells a protocol of its connection only after the handshake. An accept loop of our own
with `loop.connect_accepted_socket` would know before, and costs 5 to 6 % of the rate of new connections. So uvloop
accepts as if there were no TLS, and the protocol that it gets is its own TLS with a look at the dialled address.

Of uvloop this relies on `uvloop.loop.SSLProtocol` (constructor and connection_made);
tests/unit/edges/test_uvloop_contract.py has a test for it; the minor version is pinned.
"""

import asyncio
import socket
import ssl
import struct
from typing import Any, Protocol, cast

import uvloop.loop

_TLS: Any = cast(Any, uvloop.loop).SSLProtocol
# A client that does not answer the end of TLS must not keep a connection, or the end of the process, waiting.
_FAREWELL_SECONDS = 1.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Gated(Protocol):
    """The protocol of a connection that may be refused."""

    def accepted(self, transport: asyncio.Transport) -> bool:
        """The connection is there, without TLS as yet; whether it may go on."""

    def released(self) -> None:
        """The connection is gone, whether or not it came to TLS."""


class Gate(_TLS):  # type: ignore[misc]
    """Server-side TLS that begins once its protocol has accepted the connection. Needs uvloop."""

    __slots__ = ("_gated",)

    def __init__(self, loop: asyncio.AbstractEventLoop, gated: Gated, tls: ssl.SSLContext) -> None:
        super().__init__(loop, gated, tls, None, server_side=True, ssl_shutdown_timeout=_FAREWELL_SECONDS)
        self._gated = gated

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin the handshake, or not."""
        if self._gated.accepted(transport):
            super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the connection go also where there was no TLS to end."""
        super().connection_lost(exc)
        self._gated.released()
        del self._gated


def dialled_address(transport: asyncio.Transport) -> str:
    """The address that the client dialled, '?' where it cannot be known any more."""
    name = transport.get_extra_info("sockname")
    return cast(str, name[0]).removeprefix("::ffff:") if name else "?"


def reset(transport: asyncio.Transport) -> None:
    """End a connection with a reset (RST) and not with an orderly close."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
