"""Watches the server while it is loaded: memory, processor time, how late its event loop is, what it counted."""

import http.client
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from bench.server import BenchError, Server, cpu_seconds

_EVERY = 1.0
_TIMEOUT = 5.0
_MAX_BYTES = 16 << 20
_COUNTED = "bmcsim_http_requests_total"


class Sample(msgspec.Struct, frozen=True):
    """asked, at: when it was begun and there, in seconds since the epoch. rss: MiB. cpu: seconds of processor time so
    far. lag: worst of the event loop since the last sample, in ms. answers: by the server's own count. What the server
    does not tell is None."""

    asked: float
    at: float
    rss: float | None
    cpu: float | None
    lag: float | None
    answers: int | None


def read(text: str) -> Mapping[str, float]:
    """The sums of a Prometheus exposition by family, whatever the labels."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            with suppress(ValueError):
                sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def sample(asked: float, at: float, metrics: Mapping[str, float]) -> Sample:
    """What a scrape that was begun and over then says."""
    rss, cpu = metrics.get("process_resident_memory_bytes"), metrics.get("process_cpu_seconds_total")
    lag, answers = metrics.get("bmcsim_event_loop_lag_max_seconds"), metrics.get(_COUNTED)
    return Sample(
        asked=asked,
        at=at,
        rss=None if rss is None else rss / (1 << 20),
        cpu=cpu,
        lag=None if lag is None else 1000 * lag,
        answers=None if answers is None else int(answers),
    )


class Sampler:
    """Samples `address`:`port`/metrics once a second in a thread of its own. A sample that fails is left out.

    server: a process of this machine, whose memory and processor time are then read from the kernel.
    """

    def __init__(self, address: str, port: int, server: Server | None = None) -> None:
        self._address, self._port, self._server = address, port, server
        self.samples: list[Sample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def wait_for_one(self, seconds: float) -> None:
        """Until there is one more sample, but no longer than so many seconds."""
        deadline, have = time.monotonic() + seconds, len(self.samples)
        while len(self.samples) == have and time.monotonic() < deadline:
            time.sleep(0.05)

    def _run(self) -> None:
        while not self._over.wait(_EVERY):
            with suppress(OSError, http.client.HTTPException, UnicodeDecodeError, BenchError):
                self.samples.append(self._scrape())

    def _scrape(self) -> Sample:
        asked = time.time()
        connection = http.client.HTTPConnection(self._address, self._port, timeout=_TIMEOUT)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read(_MAX_BYTES).decode()
        finally:
            connection.close()
        found = sample(asked, time.time(), read(text))
        if self._server is None:
            return found
        return msgspec.structs.replace(found, rss=self._server.rss() / 1024, cpu=cpu_seconds(self._server.pid))


def during(samples: list[Sample], began: float, ended: float) -> list[Sample]:
    """The samples between two moments."""
    return [one for one in samples if began <= one.at <= ended]


def counted(samples: list[Sample], idle: float, began: float, ended: float) -> int | None:
    """Answers between two moments, where nothing was under way from `idle` to `began`, nor from `ended` on until the
    next sample. None where samples on both sides are missing."""
    before = [one.answers for one in samples if one.asked >= idle and one.at <= began]
    after = [one.answers for one in samples if one.asked >= ended]
    if not before or not after or before[-1] is None or after[0] is None:
        return None
    return after[0] - before[-1]


def busy(samples: list[Sample], began: float, seconds: float) -> float | None:
    """Percent of a core that the server used in so many seconds, if it did nothing right before and after them.

    None where samples on both sides are missing.
    """
    before = [one.cpu for one in samples if one.at <= began]
    after = [one.cpu for one in samples if one.asked >= began + seconds]
    if not before or not after or before[-1] is None or after[0] is None:
        return None
    return 100 * (after[0] - before[-1]) / seconds
