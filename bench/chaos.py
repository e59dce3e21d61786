"""What happens to a server that should not matter to it: crashes, a full disk, time that jumps, and bad clients."""

import asyncio
import random
import resource
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.client import any_certificate

Kind = Literal["crash", "full disk", "clock"]

CALM_FROM = 0.4
"""The part of a run after which the process is not killed any more, so that its memory can be judged."""

FULL_SECONDS = 1.5
_LEEWAY = 64 * 1024  # bytes that the log may still grow while the disk is full

_CONTEXT = any_certificate()
_GARBAGE = (
    b"\x00" * 64,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /redfish/v1/SessionService/Sessions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /redfish/v1/SessionService/Sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /redfish/v1/%ff%fe HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /redfish/v1 HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(5_000)) + b"\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b'POST /redfish/v1/SessionService/Sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n{"a"',
)


@dataclass(frozen=True, slots=True)
class Blow:
    """Something that happens `at` seconds after the start. amount: seconds, of a full disk and of a jump in time."""

    at: float
    kind: Kind
    amount: float = 0.0


def plan(seed: int, seconds: float) -> list[Blow]:
    """What happens in a run of so many seconds, in order; the same for the same seed."""
    dice = random.Random(f"chaos-{seed}")
    crashes = max(2, round(seconds / 60))
    span = CALM_FROM * seconds / crashes
    blows = [Blow(span * (number + dice.uniform(0.4, 0.9)), "crash") for number in range(crashes)]
    each = max(5.0, seconds / 20)
    at = dice.uniform(0.2, 0.6) * each
    while at < 0.95 * seconds:
        kind: Kind = dice.choice(("full disk", "clock"))
        blows.append(Blow(at, kind, FULL_SECONDS if kind == "full disk" else dice.uniform(1, 600)))
        at += dice.uniform(0.6, 1.4) * each
    # Each kind at least once, however short the run.
    blows.append(Blow(0.7 * seconds, "full disk", FULL_SECONDS))
    blows.append(Blow(0.8 * seconds, "clock", 90.0))
    return sorted(blows, key=lambda blow: blow.at)


def fill_disk(pid: int, log: Path) -> None:
    """From now on a process can write little: what reaches beyond the limit fails, for root too."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (log.stat().st_size + _LEEWAY, resource.RLIM_INFINITY))


def empty_disk(pid: int) -> None:
    """It can write again."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Pests:
    """Clients that behave badly, each for some seconds, again and again until `stop`.

    wrong: answers that no client may get.
    """

    def __init__(self, address: Callable[[int], str], bmcs: int, port: int, seed: int, patience: float) -> None:
        self._address, self._bmcs, self._port, self._patience = address, bmcs, port, patience
        self._dice = random.Random(f"pests-{seed}")
        self._tasks: list[asyncio.Task[None]] = []
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}

    def start(self) -> None:
        kinds = (self._churn, self._churn, self._say_nothing, self._say_half, self._read_slowly, self._talk_nonsense)
        self._tasks = [asyncio.create_task(self._repeat(kind)) for kind in kinds for _ in range(2)]

    async def stop(self) -> None:
        """Returns when all their connections are closed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, kind: Callable[[str], Awaitable[None]]) -> None:
        name = kind.__name__.strip("_").replace("_", " ")
        while True:
            try:
                await kind(self._address(self._dice.randrange(self._bmcs)))
                self.counts[name] = self.counts.get(name, 0) + 1
            except (OSError, EOFError, ValueError):
                pass  # The server may end any of these at any time; it may also be away.
            await asyncio.sleep(self._dice.uniform(0.0, 0.2))

    async def _churn(self, address: str) -> None:
        """Connect, perhaps with TLS, and go, perhaps with a reset."""
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, (address, self._port))
            if self._dice.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        _, writer = await asyncio.open_connection(address, self._port, ssl=_CONTEXT)
        if self._dice.random() < 0.5:
            writer.write(b"GET /redfish/v1 HTTP/1.1\r\nHost: x\r\n\r\n")
        writer.transport.abort()

    async def _say_nothing(self, address: str) -> None:
        """Half-open as far as the server sees: connected, and silent before or after the handshake."""
        tls = _CONTEXT if self._dice.random() < 0.5 else None
        _, writer = await asyncio.open_connection(address, self._port, ssl=tls)
        await self._wait_and_leave(writer)

    async def _say_half(self, address: str) -> None:
        """Half a handshake, or half a request."""
        tls = _CONTEXT if self._dice.random() < 0.7 else None
        _, writer = await asyncio.open_connection(address, self._port, ssl=tls)
        halves = (b"GET /redf", b"GET /redfish/v1 HTTP/1.1\r\nHost: x\r\nAuth", _GARBAGE[3][:60] + b"99\r\n\r\n{")
        writer.write(self._dice.choice(halves) if tls else _GARBAGE[8])
        await self._wait_and_leave(writer)

    async def _read_slowly(self, address: str) -> None:
        """Ask a lot and read nothing of it."""
        _, writer = await asyncio.open_connection(address, self._port, ssl=_CONTEXT, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(self._dice.randrange(20, 200)):
            writer.write(b"GET /redfish/v1/$metadata HTTP/1.1\r\nHost: x\r\n\r\n")
        await self._wait_and_leave(writer)

    async def _talk_nonsense(self, address: str) -> None:
        """What comes back is a refusal or nothing."""
        reader, writer = await asyncio.open_connection(address, self._port, ssl=_CONTEXT)
        try:
            words = self._dice.choice(_GARBAGE)
            writer.write(words)
            async with asyncio.timeout(self._patience):
                head = await reader.readline()
            if head and not head.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 505")):
                self.wrong.append(f"{address}: nonsense {words[:60]!r} is answered with {head!r}")
        finally:
            writer.transport.abort()

    async def _wait_and_leave(self, writer: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(self._dice.uniform(0.2, 1.0) * self._patience)
        finally:
            writer.transport.abort()
