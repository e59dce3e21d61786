"""What a BMC that is not there does with a connection: it refuses at once, before any TLS."""

import asyncio
import socket
import struct
from typing import cast

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def dialled_address(transport: asyncio.Transport) -> str:
    """The address that the client dialled, '?' where it cannot be known any more."""
    name = transport.get_extra_info("sockname")
    return cast(str, name[0]).removeprefix("::ffff:") if name else "?"


def reset(transport: asyncio.Transport) -> None:
    """End a connection with a reset (RST) and not with an orderly close."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
