"""bmcsim beside others that serve Redfish, in the same run, on the same core, over TLS on both sides.

The baseline says what the server stack alone would do. sushy-tools' emulator is measured with its fake driver, with the
server that it comes with and under gunicorn; the better one of both counts. DMTF's Mockup Server is measured if it is
installed, and any other with `--peer NAME=COMMAND`. Rates are per second of processor time of all processes of a peer,
so what else runs on the core does not enter.
"""

import base64
import http.client
import os
import shlex
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import connections, paths
from bench.client import any_certificate
from bench.report import Bar, Measure
from bench.server import (
    BASELINE_ADDRESS,
    PASSWORD,
    USER,
    BenchError,
    Fleet,
    Peer,
    Server,
    Settings,
    baseline,
    bmcsim,
    cpu_seconds,
    free_ports,
)
from bench.throughput import REQUESTS, wrk

SUSHY_RATIO = Bar(">=", 50.0)
MANY = 100  # BMCs in the second run of a peer that has several in one process

_ROOT = f"{paths.ROOT}/"
_RESOURCES = 150
_START_SECONDS = 60.0
_WARM_UP = 1.0
_CLIENTS = 8
_SUSHY = ("sushy-tools", "sushy-tools, gunicorn")
_BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_CONTEXT = any_certificate()


@dataclass(frozen=True, slots=True)
class Figures:
    """What one contestant did. requests, connections: per second of processor time. memory: KiB per BMC, or a reason.

    start: seconds until its first answer, or until all of its BMCs answered. failed: requests that were errors.
    """

    name: str
    requests: float
    connections: float
    memory: float
    start: float
    failed: int
    note: str


def run(settings: Settings) -> list[Measure]:
    """Measure all, one after the other, and print one table of them. What cannot be measured is a void line."""
    measures: list[Measure] = []
    figures: list[Figures] = []
    contestants: list[tuple[str, Callable[[], Figures]]] = [
        ("bmcsim", lambda: _bmcsim(settings)),
        ("baseline", lambda: _baseline(settings, 1_000)),
    ]
    peers = [*_installed(settings), *settings.peers]
    contestants += [(peer.name, lambda peer=peer: _peer(settings, peer)) for peer in peers]  # type: ignore[misc]
    for name, measured in contestants:
        try:
            figures.append(measured())
        except (BenchError, OSError, ValueError) as error:
            measures.append(Measure(name, 0, "", void=str(error).partition("\n")[0]))
    if not any(one.name in _SUSHY for one in figures):
        measures.append(
            Measure(
                "sushy-tools", 0, "", void=f"python -m venv {settings.peers_venv} and install sushy-tools, gunicorn"
            )
        )
    table = markdown(figures)
    print(f"\n{table}")
    settings.out.mkdir(parents=True, exist_ok=True)
    (settings.out / "peers.md").write_text(table)
    return [*(measure for one in figures for measure in _measures(one)), *_ratio(figures), *measures]


def markdown(figures: Sequence[Figures]) -> str:
    """The one table."""
    lines = [
        "| | requests/s per core | new connections/s per core | memory per BMC, KiB | start, s | |",
        "|---|---|---|---|---|---|",
    ]
    for one in figures:
        rates = f"{one.requests:,.0f} | {one.connections:,.0f}"
        lines.append(f"| {one.name} | {rates} | {one.memory:,.1f} | {one.start:.2f} | {one.note} |")
    return "\n".join([*lines, ""])


def _measures(one: Figures) -> list[Measure]:
    void = f"{one.failed} requests failed" if one.failed else ""
    return [
        Measure(f"{one.name}: requests per second of CPU", one.requests, "req/s", note=one.note, void=void),
        Measure(f"{one.name}: new connections per second of CPU", one.connections, "conn/s"),
        Measure(f"{one.name}: memory per BMC", one.memory, "KiB"),
        Measure(f"{one.name}: start", one.start, "s"),
    ]


def _ratio(figures: Sequence[Figures]) -> list[Measure]:
    """bmcsim to the better one of sushy-tools' two servers."""
    ours = next((one.requests for one in figures if one.name == "bmcsim"), 0.0)
    best = max((one for one in figures if one.name in _SUSHY), key=lambda one: one.requests, default=None)
    if best is None or not ours:
        return []
    void = f"{best.failed} requests of {best.name} failed" if best.failed else ""
    return [
        Measure("requests, bmcsim / sushy-tools", ours / best.requests, "x", SUSHY_RATIO, note=best.name, void=void)
    ]


def _bmcsim(settings: Settings) -> Figures:
    fleet = settings.fleet
    with bmcsim(settings, Fleet(1, 0, fleet.profile)) as started:
        get_tree(started.server, fleet.address(0))
        alone = memory(started.server.pid)
    with bmcsim(settings) as started:
        server = started.server
        trees = uvloop.run(paths.walk(fleet, server))
        requests = settings.work / "requests"
        mix = paths.mix(fleet, trees, REQUESTS)
        requests.write_bytes(b"\0".join(paths.forwarded(fleet, server, mix)))
        rate, failed = _rate(settings, server, requests)
        each = (memory(server.pid) - alone) / max(1, fleet.bmcs - 1)
        opened = _opened(settings, server, [fleet.address(index % fleet.bmcs) for index in range(_CLIENTS)], paths.ROOT)
    note = f"{fleet.bmcs:,} BMCs"
    return Figures("bmcsim", rate, opened, each, started.ready, failed, note)


def _baseline(settings: Settings, size: int) -> Figures:
    began = time.perf_counter()
    with baseline(settings, size) as server:
        start = time.perf_counter() - began
        rate, failed = _rate(settings, server, _requests(settings, server, BASELINE_ADDRESS, [_ROOT]))
        opened = _opened(settings, server, [BASELINE_ADDRESS] * _CLIENTS, _ROOT)
        return Figures("baseline", rate, opened, memory(server.pid), start, failed, f"one body of {size} bytes")


def _peer(settings: Settings, peer: Peer) -> Figures:
    with serving(settings, peer, 1) as (server, start):
        found = get_tree(server, BASELINE_ADDRESS)
        one = memory(server.pid)
        rate, failed = _rate(settings, server, _requests(settings, server, BASELINE_ADDRESS, found))
        opened = _opened(settings, server, [BASELINE_ADDRESS] * _CLIENTS, _ROOT)
    note = f"{len(found)} resources"
    if "{bmcs}" not in peer.command:
        return Figures(peer.name, rate, opened, one, start, failed, f"{note}; one BMC is one process")
    with serving(settings, peer, MANY) as (server, _):
        get_tree(server, BASELINE_ADDRESS)
        each = (memory(server.pid) - one) / (MANY - 1)
    note += f"; {one / 1024:,.0f} MiB with one BMC, and what each of {MANY} adds in the same process"
    return Figures(peer.name, rate, opened, each, start, failed, note)


def _rate(settings: Settings, server: Server, requests: Path) -> tuple[float, int]:
    """The median rate per second of processor time, and how many requests failed."""
    wrk(server, requests, _WARM_UP, cpu=group_cpu)
    samples = [wrk(server, requests, settings.seconds, cpu=group_cpu) for _ in range(settings.rounds)]
    per_core = [100 * sample.rate / sample.busy for sample in samples if sample.busy]
    if not per_core:
        raise BenchError("no answer at all")
    return statistics.median(per_core), sum(sample.refused + sample.broken for sample in samples)


def _opened(settings: Settings, server: Server, addresses: list[str], path: str) -> float:
    return connections.load(server, addresses, "full", settings.seconds, path=path, cpu=group_cpu).per_core


def _requests(settings: Settings, server: Server, address: str, found: Sequence[str]) -> Path:
    """A file of GETs of these resources, for wrk."""
    fields = f"Host: {address}:{server.port}\r\nAccept: */*\r\nAuthorization: {_BASIC}\r\n\r\n"
    path = settings.work / "requests-of-peer"
    path.write_bytes(b"\0".join(f"GET {one} HTTP/1.1\r\n{fields}".encode() for one in found))
    return path


@contextmanager
def serving(settings: Settings, peer: Peer, bmcs: int) -> Iterator[tuple[Server, float]]:
    """Run a peer, and how many seconds it took to its first answer. Raises BenchError when there is none."""
    (port,) = free_ports(1)
    command = filled(peer.command, settings, port, bmcs)
    log = settings.work / "peer.log"
    server = Server(["/bin/sh", "-c", f"exec {command}"], BASELINE_ADDRESS, port, settings.cores.server, log)
    began = time.perf_counter()
    try:
        while _get(server, BASELINE_ADDRESS, _ROOT) is None:
            if time.perf_counter() - began > _START_SECONDS or not server.alive:
                raise BenchError(
                    f"{peer.name} does not answer; its log ends: {log.read_text(errors='replace')[-500:]!r}"
                )
            time.sleep(0.005)
        yield server, time.perf_counter() - began
    finally:
        server.stop()


def filled(command: str, settings: Settings, port: int, bmcs: int) -> str:
    """A peer's command line with what only the run knows."""
    values = {
        "{port}": str(port),
        "{cert}": shlex.quote(str(settings.certificate)),
        "{key}": shlex.quote(str(settings.key)),
        "{user}": USER,
        "{password}": PASSWORD,
        "{bmcs}": str(bmcs),
    }
    for name, value in values.items():
        command = command.replace(name, value)
    return command


def get_tree(server: Server, address: str) -> list[str]:
    """What a service has, found by following links from its root, at most _RESOURCES of them; only what is 200."""
    found: list[str] = []
    waiting, known = [_ROOT], {_ROOT.rstrip("/")}
    while waiting and len(found) < _RESOURCES:
        path = waiting.pop(0)
        body = _get(server, address, path)
        if body is None:
            continue
        found.append(path)
        for link in paths.links(body):
            if link.startswith(_ROOT) and link not in known:
                known.add(link)
                waiting.append(link)
    if not found:
        raise BenchError(f"there is no service root at {address}:{server.port}")
    return found


def _get(server: Server, address: str, path: str) -> bytes | None:
    """The body of a 200, None for anything else and without an answer."""
    connection = http.client.HTTPSConnection(address, server.port, timeout=10.0, context=_CONTEXT)
    try:
        connection.request("GET", path, headers={"Authorization": _BASIC, "Accept": "application/json"})
        response = connection.getresponse()
        body = response.read()
        return body if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def group_cpu(pid: int) -> float:
    """Processor seconds of a process and of all that it started."""
    total = 0.0
    for member in _session(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            total += cpu_seconds(member)
    return total


def memory(pid: int) -> float:
    """KiB of memory of a process and of all that it started; what several share is divided among them (PSS)."""
    total = 0.0
    for member in _session(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{member}/smaps_rollup").read_text().splitlines()
            total += next(float(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def _session(pid: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, ProcessLookupError, PermissionError):
            if os.getsid(int(entry.name)) == pid:
                members.append(int(entry.name))
    return members


def _installed(settings: Settings) -> list[Peer]:
    """The peers that are known and that `peers_venv` has."""
    programs = settings.peers_venv / "bin"
    peers = []
    if (programs / "sushy-emulator").exists():
        config = _sushy_config(settings)
        own = (
            f"{programs}/sushy-emulator -i {BASELINE_ADDRESS} -p {{port}} --ssl-certificate {{cert}} --ssl-key {{key}}"
        )
        peers.append(Peer(_SUSHY[0], f"env BMCS={{bmcs}} {own} --config {shlex.quote(str(config))}"))
        if (programs / "gunicorn").exists():
            options = f"--bind {BASELINE_ADDRESS}:{{port}} --certfile {{cert}} --keyfile {{key}} --keep-alive 75"
            program = f"{programs}/gunicorn --chdir {shlex.quote(str(config.parent))} --workers 1 --threads 4"
            peers.append(Peer(_SUSHY[1], f"env BMCS={{bmcs}} {program} {options} wsgi:app"))
    if (programs / "redfishMockupServer.py").exists():
        server = f"{programs}/python {programs}/redfishMockupServer.py -H {BASELINE_ADDRESS} -p {{port}}"
        peers.append(Peer("Mockup Server", f"{server} --ssl --cert {{cert}} --key {{key}}"))
    return peers


def _sushy_config(settings: Settings) -> Path:
    """A configuration of its fake driver with as many systems as $BMCS says, and a WSGI module that uses it."""
    directory = settings.work / "sushy"
    directory.mkdir(exist_ok=True)
    config = directory / "emulator.conf"
    system = {"power_state": "Off", "external_notifier": False}
    config.write_text(
        "import os, uuid\n"
        f"SUSHY_EMULATOR_STATE_DIR = os.path.join({str(directory)!r}, os.environ['BMCS'])\n"
        "os.makedirs(SUSHY_EMULATOR_STATE_DIR, exist_ok=True)\n"
        "SUSHY_EMULATOR_FAKE_DRIVER = True\n"
        f"SUSHY_EMULATOR_FAKE_SYSTEMS = [{system!r} | {{'uuid': str(uuid.UUID(int=n + 1)), 'name': f'fake-{{n}}',\n"
        "    'nics': [{'mac': f'02:00:00:00:00:{n % 256:02x}', 'ip': '127.0.0.1'}]}\n"
        "    for n in range(int(os.environ['BMCS']))]\n"
    )
    (directory / "wsgi.py").write_text(
        f"from sushy_tools.emulator.main import app\napp.configure(config_file={str(config)!r})\n"
    )
    return config
