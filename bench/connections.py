"""How many TLS connections per second one core takes in, uses for one GET and closes.

The client is `openssl s_time`: in this it is about as quick as one can be, and still a client costs as much as
the server. So the figure that counts is connections per second of the server's own processor time, which is the
same as connections per second when the server has its core busy, and the rate seen is reported beside it.
"""

import re
import socket
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import uvloop

from bench import paths
from bench.client import any_certificate
from bench.report import Bar, Measure
from bench.server import BenchError, Server, Settings, baseline, bmcsim, cpu_seconds

Handshake = Literal["full", "resumed"]

BARS: dict[Handshake, Bar] = {"full": Bar(">=", 1_000), "resumed": Bar(">=", 2_000)}
# One s_time has one connection at a time; this many keep a core of the server busy.
CLIENTS = 8

_FLAG: dict[Handshake, str] = {"full": "-new", "resumed": "-reuse"}
# One mark per connection, `r` if it was resumed, and then the totals.
_RESULT = re.compile(r"^([*r]+)\n\n(\d+) connections in .*, bytes read (\d+)$", re.MULTILINE)
_MARK: dict[Handshake, str] = {"full": "*", "resumed": "r"}
_MISSING = "openssl is not installed; on Debian and Ubuntu: apt-get install openssl"


@dataclass(frozen=True, slots=True)
class Sample:
    """Connections per second seen, and per second of the server's processor time."""

    rate: float
    per_core: float


def run(settings: Settings) -> list[Measure]:
    """Alternate bmcsim and the baseline for `rounds` rounds, first with full handshakes, then with resumed ones."""
    fleet = settings.fleet
    measures: list[Measure] = []
    with bmcsim(settings) as started:
        trees = uvloop.run(paths.walk(fleet, started.server))
        addresses = [fleet.address(index % fleet.bmcs) for index in range(CLIENTS)]
        with baseline(settings, trees["host"].sizes[paths.ROOT]) as yardstick:
            for handshake, bar in BARS.items():
                ours: list[Sample] = []
                theirs: list[Sample] = []
                for _ in range(settings.rounds):
                    ours.append(load(started.server, addresses, handshake, settings.seconds))
                    theirs.append(load(yardstick, [yardstick.address] * CLIENTS, handshake, settings.seconds))
                measures.append(_median(f"{handshake} handshakes", ours, bar))
                measures.append(_median(f"{handshake} handshakes, baseline", theirs, None))
    return measures


def _median(name: str, samples: list[Sample], bar: Bar | None) -> Measure:
    per_core = [sample.per_core for sample in samples]
    seen = statistics.median(sample.rate for sample in samples)
    busy = statistics.median(100 * sample.rate / sample.per_core for sample in samples)
    note = f"per second of server CPU; {seen:,.0f} /s seen, server {busy:.0f} % busy"
    return Measure(name, statistics.median(per_core), "conn/s", bar, per_core, note)


def load(
    server: Server,
    addresses: list[str],
    handshake: Handshake,
    seconds: float,
    *,
    path: str = paths.ROOT,
    cpu: Callable[[int], float] = cpu_seconds,
) -> Sample:
    """Run one s_time per address at the same time. Raises BenchError unless every response was whole.

    cpu: processor time of the server that counts.
    """
    sizes = {address: _response_size(address, server.port, path) for address in addresses}
    commands = [_command(f"{address}:{server.port}", path, handshake, seconds) for address in addresses]
    before = cpu(server.pid)
    began = time.perf_counter()
    try:
        clients = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for command in commands
        ]
    except FileNotFoundError:
        raise BenchError(_MISSING) from None
    try:
        outputs = [client.communicate()[0] for client in clients]
    finally:
        for client in clients:
            client.kill()
    elapsed = time.perf_counter() - began
    used = cpu(server.pid) - before
    total = sum(_count(output, handshake, sizes[address]) for address, output in zip(addresses, outputs, strict=True))
    return Sample(total / elapsed, total / used)


def _command(target: str, path: str, handshake: Handshake, seconds: float) -> list[str]:
    return ["openssl", "s_time", "-connect", target, "-www", path, _FLAG[handshake], "-time", f"{seconds:.0f}"]


def _count(output: str, handshake: Handshake, size: int) -> int:
    """The connections that an s_time reports, after checking their handshakes and that each read `size` bytes."""
    found = _RESULT.search(output)
    if found is None:
        raise BenchError(f"openssl s_time failed: {output[-500:]}")
    marks, connections, read = found[1], int(found[2]), int(found[3])
    if marks != _MARK[handshake] * connections:
        raise BenchError(
            f"{marks.count('r')} of {connections} handshakes were resumed, where all should be {handshake}"
        )
    if read != connections * size:
        raise BenchError(f"openssl s_time read {read} bytes over {connections} connections, not {size} bytes each")
    return connections


def _response_size(address: str, port: int, path: str) -> int:
    """Bytes of the whole response to the request that s_time sends."""
    with (
        socket.create_connection((address, port), timeout=10.0) as plain,
        any_certificate().wrap_socket(plain) as connection,
    ):
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        response = b""
        while part := connection.recv(65536):
            response += part
    if not response.startswith((b"HTTP/1.0 200", b"HTTP/1.1 200")):
        raise BenchError(f"the service root at {address}:{port} answers {response[:200]!r}")
    return len(response)
