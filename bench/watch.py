"""Samples of a running bmcsim: what the kernel says of its process, and what its own metrics say."""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.server import BenchError, cpu_seconds

_LINE = re.compile(r"^([a-z_]+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)
_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a process.

    at: seconds since the run began. life: how often the process was started before. rss: KiB. blocks: of Python's heap.
    lag: seconds that the event loop was late at most since the last look. blocked: the same without those in which the
    process waited for a processor, so on a busy machine it is the least that it can be.
    requests: answered since the process started. cpu: seconds that it used.
    """

    at: float
    life: int
    rss: float
    fds: float
    threads: float
    timers: float
    blocks: float
    connections: float
    streams: float
    unsaved: float
    lag: float
    blocked: float
    requests: float
    cpu: float


class Watch:
    """Looks at one process, again and again."""

    def __init__(self, pid: int, admin_port: int, life: int) -> None:
        self._pid, self._admin_port, self._life = pid, admin_port, life
        self._waited = run_delay(pid)

    async def look(self, began: float) -> Sample:
        """Raises OSError when the process is gone."""
        status, text = await ask_admin(self._admin_port, "GET", "/metrics")
        if status != 200:
            raise BenchError(f"/metrics answers {status}")
        metrics = parse_metrics(text.decode())
        waited, self._waited = self._waited, run_delay(self._pid)
        fields = _status(self._pid)
        lag = metrics["bmcsim_event_loop_lag_max_seconds"]
        return Sample(
            at=time.monotonic() - began,
            life=self._life,
            rss=float(fields["VmRSS"].split()[0]),
            fds=sum(1 for _ in Path(f"/proc/{self._pid}/fd").iterdir()),
            threads=float(fields["Threads"]),
            timers=metrics["bmcsim_timers"],
            blocks=metrics["bmcsim_heap_blocks"],
            connections=metrics["bmcsim_http_connections"],
            streams=metrics["bmcsim_event_streams"],
            unsaved=metrics.get("bmcsim_journal_unsaved", 0.0),
            lag=lag,
            blocked=max(0.0, lag - (self._waited - waited)),
            requests=metrics["bmcsim_http_requests_total"],
            cpu=cpu_seconds(self._pid),
        )


def parse_metrics(text: str) -> dict[str, float]:
    """The sum of each metric over its labels."""
    totals: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        totals[name] = totals.get(name, 0.0) + float(value)
    return totals


def run_delay(pid: int) -> float:
    """Seconds in which the main thread was ready and had no processor; 0 where the kernel does not count them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (FileNotFoundError, IndexError):
        return 0.0


async def ask_admin(port: int, method: str, path: str, value: object = None) -> tuple[int, bytes]:
    """Status and body of a request to the admin listener. Raises OSError when there is no answer."""
    body = b"" if value is None else orjson.dumps(value)
    async with asyncio.timeout(_TIMEOUT):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
            if body:
                lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            head, _, rest = (await reader.read(-1)).partition(b"\r\n\r\n")
        finally:
            writer.transport.abort()
    if not head.startswith(b"HTTP/1.1 "):
        raise ConnectionResetError("the admin listener closed the connection")
    return int(head[9:12]), rest


def _status(pid: int) -> Mapping[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
