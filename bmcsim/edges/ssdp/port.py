"""The UDP socket of discovery, tied to one network interface (Linux)."""

import asyncio
import contextlib
import fcntl
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address

from bmcsim.edges.ssdp.message import MAX_SEARCH
from bmcsim.edges.ssdp.responder import Address, Responder

GROUP = "239.255.255.250"
PORT = 1900

_DATAGRAMS_AT_ONCE = 32
_SEND_BUFFER = 1024 * 1024
# linux/in.h and linux/sockios.h; this Python has no names for them.
_IP_PKTINFO = 8
_IP_MULTICAST_ALL = 49
_SIOCGIFADDR = 0x8915
_PKTINFO = struct.Struct("=i4s4s")


class SsdpError(Exception):
    """Discovery cannot have its socket; the text says why and what would be right."""


def interface_of(text: str) -> str:
    """The name of a network interface by its name, or by its first IPv4 address. Raises SsdpError."""
    names = [name for _, name in socket.if_nameindex()]
    if text in names:
        return text
    with contextlib.suppress(ValueError):
        wanted = IPv4Address(text)
        for name in names:
            own = _address_of(name)
            if own == wanted or (own is not None and own.is_loopback and wanted.is_loopback):
                return name
    raise SsdpError(
        f"--ssdp {text}: is neither a network interface nor the address of one; there are {', '.join(names)}"
    )


def _address_of(interface: str) -> IPv4Address | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            found = fcntl.ioctl(sock, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None
    return IPv4Address(found[20:24])


def open_socket(interface: str) -> socket.socket:
    """A socket that hears what comes in by an interface, sent to the group or to one address. Raises SsdpError."""
    if not hasattr(socket, "SO_BINDTODEVICE"):
        raise SsdpError("--ssdp: needs Linux, which can tie a socket to an interface")
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        # Other programs of this machine may look for other things by SSDP.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        sock.bind(("", PORT))
        member = struct.pack("=4s4si", socket.inet_aton(GROUP), bytes(4), socket.if_nametoindex(interface))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    except OSError as error:
        sock.close()
        raise SsdpError(f"--ssdp {interface}: cannot listen on UDP port {PORT} there: {error}") from error
    return sock


class Port:
    """The socket on the running loop."""

    def __init__(self, interface: str) -> None:
        """interface: its name, or its address. Raises SsdpError."""
        self._socket = open_socket(interface_of(interface))

    def start(self, responder: Responder) -> None:
        """Hand datagrams to a responder from now on."""

        def readable() -> None:
            for data, source, dialled in self._waiting():
                responder.received(data, source, dialled)

        asyncio.get_running_loop().add_reader(self._socket, readable)

    def stop(self) -> None:
        """Hear nothing more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _waiting(self) -> Iterator[tuple[bytes, Address, str]]:
        """The datagrams that are there: content, source, and the address that it was sent to."""
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                # One byte more than is allowed: what fills it is too long.
                data, extra, _flags, source = self._socket.recvmsg(MAX_SEARCH + 1, socket.CMSG_SPACE(_PKTINFO.size))
            except OSError:
                return
            for level, kind, value in extra:
                if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO):
                    yield data, source, socket.inet_ntoa(_PKTINFO.unpack(value)[2])

    def send(self, data: bytes, to: Address, source: str, ttl: int) -> bool:
        """Send a datagram; see `responder.Send`. An address that is not of this machine is not sent from."""
        hops = (socket.IPPROTO_IP, socket.IP_TTL, struct.pack("=i", ttl))
        with contextlib.suppress(OSError):
            own = (socket.IPPROTO_IP, _IP_PKTINFO, _PKTINFO.pack(0, socket.inet_aton(source), bytes(4)))
            self._socket.sendmsg([data], [hops, own], 0, to)
            return True
        try:
            self._socket.sendmsg([data], [hops], 0, to)
        except BlockingIOError:
            return False
        return True
