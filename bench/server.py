"""The processes that are measured: bmcsim and the baseline, each pinned to one core and stopped without fail."""

import http.client
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bmcsim.edges.http import tls

Role = str
"""What kind of BMC one is: `host` or `dpu`, or a kind of hardware of a rack."""

R750, GB200 = "dell_poweredge_r750", "wiwynn_gb200_nvl"
USER = "root"
PASSWORD = "Bench-Passw0rd"
BASELINE_ADDRESS = "127.0.0.1"

_FIRST_ADDRESS = ipaddress.IPv4Address("127.64.0.2")
_START_TIMEOUT = 120.0
_STOP_TIMEOUT = 10.0
_ROOT = Path(__file__).parents[1]


class BenchError(Exception):
    """A measurement cannot be made or would mean nothing; the text says why."""


class Site(Protocol):
    """BMCs that bmcsim serves; they are numbered from 0 to bmcs - 1."""

    @property
    def bmcs(self) -> int: ...

    @property
    def options(self) -> list[str]:
        """Those of bmcsim that make it."""

    def address(self, index: int) -> str:
        """The loopback address of a BMC."""

    def role(self, index: int) -> Role:
        """BMCs of the same role have the same resources."""

    def password(self, index: int) -> str:
        """That of USER."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """`hosts` of a profile with `dpus` BlueField-3 each; BMCs are numbered host, its DPUs, next host, ..."""

    hosts: int
    dpus: int
    profile: str = R750

    @property
    def site(self) -> int:
        """BMCs of one host: its own and those of its DPUs."""
        return 1 + self.dpus

    @property
    def bmcs(self) -> int:
        return self.hosts * self.site

    @property
    def options(self) -> list[str]:
        """Those of bmcsim that make it."""
        return [f"--hosts={self.hosts}", f"--dpus={self.dpus}", f"--profile={self.profile}"]

    def address(self, index: int) -> str:
        """The loopback address of BMC `index` (0 <= index < bmcs)."""
        return str(_FIRST_ADDRESS + index)

    def role(self, index: int) -> Role:
        return "dpu" if index % self.site else "host"

    def password(self, index: int) -> str:  # noqa: ARG002 that of a Site may differ
        return PASSWORD


@dataclass(frozen=True, slots=True)
class Cores:
    """The core of the server and those of the generators; the same one where the machine has only one."""

    server: int
    generators: tuple[int, ...]

    @classmethod
    def of_machine(cls) -> "Cores":
        first, *others = sorted(os.sched_getaffinity(0))
        return cls(first, tuple(others) or (first,))


@dataclass(frozen=True, slots=True)
class Peer:
    """Another Redfish service. command: of a shell.

    {port}, {cert}, {key}, {user} and {password} in it are filled in, and {bmcs} where it has several in one process.
    """

    name: str
    command: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What every measurement is told. `seconds` is one round, `settle` and `idle` are waits of the density run."""

    fleet: Fleet
    racks: int
    seconds: float
    rounds: int
    settle: float
    idle: float
    rotate: bool
    cores: Cores
    work: Path  # scratch directory: certificate, logs, request lists
    minutes: float = 10.0  # of the soak
    seed: int = 1  # of the soak
    peers: Sequence[Peer] = ()  # measured beside bmcsim
    peers_venv: Path = Path("/tmp/bmcsim-peers")  # where known peers are installed
    out: Path = Path("bench-out")  # where results go
    quick: bool = False  # only to see whether it runs
    rate: float = 0.0  # requests per second of `idle`, 0 for what fits the fleet

    @property
    def rest(self) -> float:
        """Seconds after which a server that trims its heap every half minute has done so."""
        return self.settle + self.idle

    @property
    def certificate(self) -> Path:
        return self.work / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.work / "key.pem"


class Server:
    """A server process in a process group of its own, with its log in a file."""

    def __init__(self, command: Sequence[str], address: str, port: int, core: int, log: Path) -> None:
        self.address = address
        self.port = port
        self.log = log
        ours = os.sched_getaffinity(0)
        # A child inherits the affinity, so it never runs elsewhere, not even for its first millisecond.
        os.sched_setaffinity(0, {core})
        try:
            with log.open("wb") as output:
                self._began = time.perf_counter()
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=_ROOT,
                    env=_environment(),
                    start_new_session=True,
                )
        finally:
            os.sched_setaffinity(0, ours)
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def rss(self) -> int:
        """Resident memory in KiB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise self._died()

    def wait_listening(self) -> float:
        """Seconds from the start of the process to its first accepted connection."""
        while True:
            try:
                with socket.create_connection((self.address, self.port), timeout=1.0):
                    return self._elapsed()
            except (ConnectionRefusedError, TimeoutError):
                self._check_starting()
                time.sleep(0.001)

    def wait_ready(self, admin_port: int) -> float:
        """Seconds from the start of the process until /readyz is 200."""
        while True:
            try:
                if _status("127.0.0.1", admin_port, "/readyz") == 200:
                    return self._elapsed()
            except (OSError, http.client.HTTPException):
                pass  # The admin listener is not there yet, which is part of what is timed.
            self._check_starting()
            time.sleep(0.005)

    def kill(self) -> None:
        """End it as a crash would."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End the whole process group: politely, then not."""
        try:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT)
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _elapsed(self) -> float:
        return time.perf_counter() - self._began

    def _check_starting(self) -> None:
        if self._process.poll() is not None:
            raise self._died()
        if self._elapsed() > _START_TIMEOUT:
            raise BenchError(f"the server did not start within {_START_TIMEOUT:.0f} s; its log ends:\n{self._tail()}")

    def _died(self) -> BenchError:
        return BenchError(f"the server ended with status {self._process.poll()}; its log ends:\n{self._tail()}")

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


@dataclass(frozen=True, slots=True)
class Started:
    """A ready bmcsim, and the seconds it took to listen and to have every BMC ready."""

    server: Server
    listening: float
    ready: float
    admin_port: int


@contextmanager
def bmcsim(
    settings: Settings,
    fleet: Site | None = None,
    options: Sequence[str] = (),
    *,
    rotated: bool = True,
    ports: Sequence[int] | None = None,
    log: str = "bmcsim.log",
) -> Iterator[Started]:
    """Run bmcsim with `fleet` (the one of the settings by default).

    options: further ones of its command line. rotated: its passwords are PASSWORD already, not the factory's.
    ports: of Redfish and of the admin listener, free ones by default. log: name of its log in the scratch directory.
    """
    program = Path(sys.executable).with_name("bmcsim")
    if not program.exists():
        raise BenchError(f"{program.name} is not installed beside {Path(sys.executable).name}: run `make` first")
    fleet = fleet or settings.fleet
    port, admin_port = ports or free_ports(2)
    command = [
        str(program),
        "serve",
        *fleet.options,
        *([f"--host-password={PASSWORD}", f"--dpu-password={PASSWORD}"] if rotated else []),
        f"--listen=127.0.0.0/8:{port}",
        f"--admin=127.0.0.1:{admin_port}",
        f"--tls-cert={settings.certificate}",
        f"--tls-key={settings.key}",
        *options,
    ]
    server = Server(command, fleet.address(0), port, settings.cores.server, settings.work / log)
    try:
        listening = server.wait_listening()
        yield Started(server, listening, server.wait_ready(admin_port), admin_port)
    finally:
        server.stop()


@contextmanager
def baseline(settings: Settings, size: int) -> Iterator[Server]:
    """Run the baseline, which answers every request with the same body of `size` bytes."""
    (port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "bench.baseline",
        f"--address={BASELINE_ADDRESS}",
        f"--port={port}",
        f"--size={size}",
        f"--cert={settings.certificate}",
        f"--key={settings.key}",
    ]
    server = Server(command, BASELINE_ADDRESS, port, settings.cores.server, settings.work / "baseline.log")
    try:
        server.wait_listening()
        yield server
    finally:
        server.stop()


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, user and system, in seconds."""
    # The program's name, field 2, may hold blanks; the fields after its bracket do not.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make_certificate(settings: Settings) -> None:
    """Write the self-signed ECDSA P-256 certificate that bmcsim and the baseline share."""
    certificate, key = tls.make_certificate()
    settings.certificate.write_bytes(certificate)
    settings.key.write_bytes(key)


def _environment() -> dict[str, str]:
    """Ours, but with bytecode caches, which an installed program has: without them every start compiles."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _status(address: str, port: int, path: str) -> int:
    connection = http.client.HTTPConnection(address, port, timeout=5.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses, below the ephemeral range so that no outgoing connection takes them meanwhile."""
    ports: list[int] = []
    # Two runs at a time begin at different ports, since what one has chosen is free until its server is there.
    first = 16 * os.getpid()
    with ExitStack() as held:
        for port in (20_000 + (first + offset) % 10_000 for offset in range(10_000)):
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("", port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise BenchError("no free TCP port between 20000 and 30000")
