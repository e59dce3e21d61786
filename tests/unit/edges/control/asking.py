"""Redfish requests to the BMCs of a site, over the connections of its Redfish port, without sockets."""

import asyncio
from typing import Any

import orjson

from bmcsim.edges.http.protocol import RedfishProtocol
from bmcsim.edges.http.server import listening
from bmcsim.machine.bmc import Bmc
from tests.conftest import basic
from tests.unit.edges.control.conftest import PASSWORD, Site

CLIENT = "192.0.2.77"


class _Socket:
    """As much of a socket as a reset needs."""

    def setsockopt(self, *_option: Any) -> None:
        """Nothing lingers here anyway."""


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, dialled: str) -> None:
        super().__init__({"sockname": (dialled, 443), "peername": (CLIENT, 5000), "socket": _Socket()})
        self.written, self.closed = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Nothing is read by itself."""

    def resume_reading(self) -> None:
        """Nothing is read by itself."""


class Caller:
    """A connection to a BMC."""

    def __init__(self, site: Site, bmc: Bmc) -> None:
        self.user, self.address = bmc.tree.head.accounts[0].user, bmc.address
        self.wire = Wire(bmc.address)
        self.protocol = RedfishProtocol(site.context, listening(site.context))
        self.protocol.connection_made(self.wire)

    def ask(self, method: str, path: str, body: Any = None, *, password: str | None = PASSWORD, **fields: str) -> int:
        """The status of the answer, 0 for none. password: None for no Authorization."""
        content = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.address}"]
        if password is not None:
            lines.append(f"Authorization: {basic(self.user, password).decode()}")
        if content:
            fields = {"Content_Type": "application/json", "Content_Length": str(len(content)), **fields}
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        self.wire.written = b""
        self.protocol.data_received(("\r\n".join(lines) + "\r\n\r\n").encode() + content)
        return int(self.wire.written.split(b" ")[1]) if self.wire.written else 0


def call(site: Site, bmc: Bmc) -> Caller:
    """A new connection to a BMC."""
    return Caller(site, bmc)
