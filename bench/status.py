"""What the status of all BMCs costs: the time of a poll, how long the event loop is away meanwhile, and what pollers
and listeners add to the price of a Redfish request."""

import http.client
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import orjson
import uvloop

from bench import paths
from bench.client import any_certificate
from bench.report import Bar, Measure
from bench.server import BenchError, Server, Settings, bmcsim, cpu_seconds, free_ports
from bench.throughput import REQUESTS, WARM_UP, wrk

POLL = Bar("<", 150.0)
STALL = Bar("<", 5.0)
SIZE = Bar("<", 8.0)
RACK_SIZE = Bar("<", 9.5)
PRICE = Bar("<", 1.0501)

CHANGES = 500
PAIRS = 7
_MACHINES, _RACKS = "/machines/status", "/racks/status"
_EVENTS = "/api/v1/events"
_MIB = 2**20
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Polled:
    """Some polls. times: of each, in milliseconds. stall: longest time that the loop was away, in milliseconds."""

    times: list[float]
    stall: float
    changes: float
    size: int


def run(settings: Settings) -> list[Measure]:
    """Poll at rest and while BMCs change, then compare the price of requests with and without a poller."""
    measures = []
    polls = 5 * settings.rounds
    with Watched.of(settings, racks=0) as watched:
        measures += _polled(watched, "", polls, _MACHINES, SIZE)
    if settings.racks:
        with Watched.of(settings, racks=settings.racks) as watched:
            measures += _polled(watched, f"{settings.racks} racks: ", polls, _RACKS, RACK_SIZE)
    return [*measures, *_price(settings)]


class Watched:
    """A running `bench.watched`, and a connection to it."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self._process, self._port = process, port
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT, context=any_certificate())

    @classmethod
    @contextmanager
    def of(cls, settings: Settings, racks: int) -> Iterator["Watched"]:
        """Run one until the block ends."""
        (port,) = free_ports(1)
        fleet = settings.fleet
        command = [
            *("taskset", "--cpu-list", str(settings.cores.server), sys.executable, "-m", "bench.watched"),
            *(f"--hosts={fleet.hosts}", f"--racks={racks}", f"--port={port}"),
            *(f"--cert={settings.certificate}", f"--key={settings.key}"),
            *([f"--dpus={fleet.dpus}"] if not racks else []),
        ]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            watched = cls(process, port)
            if watched.answer() != "ready":
                raise BenchError("bench.watched does not start")
            yield watched
        finally:
            process.terminate()
            try:
                process.wait(_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def answer(self) -> str:
        """Its next line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def say(self, words: str) -> None:
        """Tell it something."""
        assert self._process.stdin is not None
        print(words, file=self._process.stdin, flush=True)

    def poll(self, path: str, *, gzip: bool) -> int:
        """Read a status; its size on the wire."""
        self._connection.request("GET", path, headers={"Accept-Encoding": "gzip"} if gzip else {})
        response = self._connection.getresponse()
        if response.status != 200:
            raise BenchError(f"{path} answers {response.status}")
        return len(response.read())

    def polls(self, path: str, count: int, changes: float, *, gzip: bool) -> Polled:
        """Poll so often, twice a second."""
        self.say(f"change {changes}")
        time.sleep(1.0)
        self.poll(path, gzip=gzip)
        self.say("stall")
        self.answer()
        times, size, began = [], 0, time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, began + 0.5 * number - time.perf_counter()))
            start = time.perf_counter()
            size = self.poll(path, gzip=gzip)
            times.append(1000 * (time.perf_counter() - start))
        elapsed = time.perf_counter() - began
        self.say("stall")
        found = orjson.loads(self.answer())
        return Polled(times, 1000 * found["stall"], found["changed"] / elapsed, size)


def _polled(watched: Watched, name: str, count: int, path: str, size: Bar) -> list[Measure]:
    start = time.perf_counter()
    whole = watched.poll(path, gzip=False)
    first = 1000 * (time.perf_counter() - start)
    measures = [
        Measure(f"{name}first poll", first, "ms", None if name else POLL, note="nothing is encoded yet"),
        Measure(f"{name}status", whole / _MIB, "MiB", size),
    ]
    for changes in (0, CHANGES):
        when = f"{changes} changes/s" if changes else "at rest"
        for gzip in (False, True):
            polled = watched.polls(path, count, changes, gzip=gzip)
            note = f"{count} polls; {polled.size / _MIB:.2f} MiB on the wire"
            void = "changes were slower" if polled.changes < 0.9 * changes else ""
            form = ", gzip" if gzip else ""
            times = polled.times
            measures += [
                Measure(f"{name}poll {when}{form}", statistics.median(times), "ms", None, times, note, void),
                Measure(f"{name}slowest poll {when}{form}", max(times), "ms", POLL, note=note, void=void),
                Measure(f"{name}longest stall {when}{form}", polled.stall, "ms", STALL, note=note, void=void),
            ]
    watched.say("change 0")
    return measures


# the price of a request


class _Guests:
    """A poller, once a second, and a client of the event stream where there is one; each a thread.

    listened: whether the stream was there until the end.
    """

    def __init__(self, server: Server, admin_port: int) -> None:
        self._server, self._admin_port = server, admin_port
        self._stop = threading.Event()
        self.polls = 0
        self.listened = False
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._poll, self._listen)]

    def __enter__(self) -> "_Guests":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_TIMEOUT)

    def _poll(self) -> None:
        """As NICo's controller does, whose client asks for gzip and knows no entity tags."""
        server = self._server
        connection = http.client.HTTPSConnection(
            server.address, server.port, timeout=_TIMEOUT, context=any_certificate()
        )
        while not self._stop.is_set():
            began = time.perf_counter()
            connection.request("GET", _MACHINES, headers={"Accept-Encoding": "gzip"})
            connection.getresponse().read()
            self.polls += 1
            self._stop.wait(max(0.0, began + 1.0 - time.perf_counter()))
        connection.close()

    def _listen(self) -> None:
        with socket.create_connection(("127.0.0.1", self._admin_port), timeout=0.5) as sock:
            sock.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n" % _EVENTS.encode())
            while not self._stop.is_set():
                with suppress(TimeoutError):
                    data = sock.recv(65536)
                    self.listened = self.listened or data.startswith(b"HTTP/1.1 200 ")
                    if not data or not self.listened:
                        break
            else:
                return
        self.listened = False


def _price(settings: Settings) -> list[Measure]:
    """Pairs of runs, without guests and with them, each time in the other order."""
    fleet = settings.fleet
    requests_file = settings.work / "requests"
    ratios, polls, listened = [], 0, True
    with bmcsim(settings) as started:
        server = started.server
        trees = uvloop.run(paths.walk(fleet, server))
        mix = paths.mix(fleet, trees, REQUESTS)
        requests_file.write_bytes(b"\0".join(paths.forwarded(fleet, server, mix)))

        def cost() -> float:
            before = cpu_seconds(server.pid)
            sample = wrk(server, requests_file, settings.seconds)
            if sample.refused or sample.broken:
                raise BenchError(f"{sample.refused} responses were errors, {sample.broken} failed")
            return (cpu_seconds(server.pid) - before) / (sample.rate * settings.seconds)

        wrk(server, requests_file, WARM_UP)
        for pair in range(PAIRS):
            found = dict[bool, float]()
            for guests in (bool(pair % 2), not pair % 2):
                if not guests:
                    found[guests] = cost()
                    continue
                with _Guests(server, started.admin_port) as there:
                    found[guests] = cost()
                polls, listened = polls + there.polls, listened and there.listened
            ratios.append(found[True] / found[False])
    stream = "one event stream" if listened else f"no event stream: {_EVENTS} is not there, or ended"
    note = f"median ratio of server CPU-seconds per request; {stream}, {polls} polls"
    return [
        Measure("price of a request with a poller and a listener", statistics.median(ratios), "x", PRICE, ratios, note)
    ]
