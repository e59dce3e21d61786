"""The one UDP socket by which all interfaces of a fleet talk to a DHCP server, as a relay does (RFC 2131 4.1).

Rule 1: nothing is sent to any address but the server's, and nothing is heard from any other.
Rule 2: what cannot be sent at once is lost, as any datagram may be; clients repeat what is not answered.
Rule 3: the log has one line a minute at most of what goes wrong. Counters have all of it.
"""

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable

from bmcsim.edges.dhcp.packet import MAX_REPLY, Malformed, decode, encode
from bmcsim.machine.dhcp.messages import Ask, Interface, Reply

log = logging.getLogger(__name__)

Address = tuple[str, int]

Heard = Callable[[int, Reply], bool]
"""Told of a reply to a MAC; whether somebody waits for it."""

WINDOW = 64
"""How many clients may begin at once; up to twice as many requests are under way then.

Where Linux has its defaults the socket of a server holds 170 to 270 of them, and the queue for a host whose Ethernet
address is looked for somewhat less. What is more would be lost.
"""

_AT_ONCE = 64  # datagrams of one wake-up, so that the loop serves others in between
_BUFFER = 4 * 1024 * 1024
_SILENCE = 10.0
_LOG_EVERY = 60.0
_SO_RCVBUFFORCE = 33  # asm-generic/socket.h; this Python has no name for it


IGNORED = ("foreign", "malformed", "relay", "unexpected")
"""Why a datagram is ignored: it is not from the server, no reply, for another giaddr, or nobody waits for it."""


class RelayError(Exception):
    """The relay cannot have its socket; the text says why and what would be right."""


class Relayed:
    """Counters. sent: datagrams to the server. lost: those that could not be sent. heard: replies that somebody waited
    for. ignored: other datagrams by one of IGNORED."""

    __slots__ = ("heard", "ignored", "lost", "sent")

    def __init__(self) -> None:
        self.sent = self.lost = self.heard = 0
        self.ignored: Counter[str] = Counter()


class Relay:
    """The back end that asks a DHCP server.

    window: how many clients may begin at once.
    """

    def __init__(self, server: Address, listen: Address, advertise: str, window: int = WINDOW) -> None:
        """server: where requests go. listen: of the socket. advertise: giaddr, the address to which the server answers
        (at port 67, unless it is told another). Raises RelayError.
        """
        self.window = window
        self._server, self._advertise = server, advertise
        self._socket = open_socket(listen)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard: Heard = lambda _mac, _reply: False
        self._unanswered: float | None = None
        self._logged = float("-inf")
        self.counted = Relayed()

    @property
    def address(self) -> Address:
        """Of the socket."""
        host, port = self._socket.getsockname()
        return host, port

    def start(self, heard: Heard) -> None:
        """Hand replies on from now on. Call on the running loop."""
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._readable)

    async def close(self) -> None:
        """Hear and send nothing more."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop = None
        self._socket.close()

    def send(self, interface: Interface, ask: Ask) -> None:
        """Send what a client says; lost if it cannot be sent now."""
        if self._loop is None:
            self.counted.lost += 1
            return
        now = self._loop.time()
        try:
            self._socket.sendto(encode(interface, ask, self._advertise), self._server)
        except BlockingIOError:
            self.counted.lost += 1
            return
        except (OSError, ValueError) as error:
            self.counted.lost += 1
            self._warn("cannot ask %s:%d: %s", *self._server, error)
            return
        self.counted.sent += 1
        if self._unanswered is None:
            self._unanswered = now
        elif now - self._unanswered > _SILENCE:
            silence = now - self._unanswered
            self._warn(
                "%s:%d has answered nothing for %.0f s; it answers to %s", *self._server, silence, self._advertise
            )

    def _readable(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                # One byte more than is allowed: what fills it is too long.
                data, source = self._socket.recvfrom(MAX_REPLY + 1)
            except BlockingIOError:
                return
            except OSError as error:
                self._warn("cannot hear %s:%d: %s", *self._server, error)
                return
            self._take(data, source)

    def _take(self, data: bytes, source: Address) -> None:
        if source != self._server:
            self._ignore("foreign", f"it comes from {source[0]}:{source[1]}")
            return
        try:
            received = decode(data)
        except Malformed as error:
            self._ignore("malformed", str(error))
            return
        if received.relay != self._advertise:
            self._ignore("relay", f"it is for the relay {received.relay}")
            return
        self._unanswered = None
        try:
            waited = self._heard(received.mac, received.reply)
        except Exception:
            # One client's trouble must not keep the replies behind it from the others.
            self._warn("a reply could not be taken in", exc_info=True)
            return
        if waited:
            self.counted.heard += 1
        else:
            self.counted.ignored["unexpected"] += 1

    def _ignore(self, reason: str, why: str) -> None:
        self.counted.ignored[reason] += 1
        self._warn("a datagram is ignored, it should be a reply of %s:%d: %s", *self._server, why)

    def _warn(self, text: str, *values: object, exc_info: bool = False) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged >= _LOG_EVERY:
            self._logged = now
            log.warning("DHCP: " + text, *values, exc_info=exc_info)


def open_socket(listen: Address) -> socket.socket:
    """A UDP socket with room for the replies to a whole window. Raises RelayError."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        try:
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        except OSError:
            # Only root may have more than net.core.rmem_max.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        sock.bind(listen)
    except OSError as error:
        sock.close()
        raise RelayError(f"dhcp.listen_address {listen[0]}:{listen[1]}: {_trouble(error, listen)}") from error
    return sock


def _trouble(error: OSError, listen: Address) -> str:
    match error.errno:
        case errno.EADDRNOTAVAIL:
            return f"{listen[0]} is no address of this machine (`ip address` shows those that are)"
        case errno.EADDRINUSE:
            return f"UDP port {listen[1]} is taken (`ss -ulpn` shows by whom); another relay or server may run here"
        case errno.EACCES:
            return (
                f"UDP port {listen[1]} needs root, CAP_NET_BIND_SERVICE or "
                f"`sysctl net.ipv4.ip_unprivileged_port_start={listen[1]}`"
            )
        case _:
            return str(error.strerror or error)
