"""Runs `bmcsim serve` as its users do, for tests with real clients."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY_SECONDS = 60


class Process:
    """A running `bmcsim serve`: its port, its admin port and what it printed."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, admin: int, output: Path) -> None:
        self.process, self.port, self.admin, self._output = process, port, admin, output

    @property
    def output(self) -> str:
        """Everything it has printed so far."""
        return self._output.read_text()

    def url(self, address: str) -> str:
        """https://ADDRESS:PORT."""
        return f"https://{address}:{self.port}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(20)


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of some such ports in a row.

    Below those that the system gives to clients: one that a client had, on any address, is in use for a minute more.
    """
    while True:
        first = random.randrange(10_000, 30_000)
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
            for port in range(first, first + count):
                opened.enter_context(socket.socket()).bind(("", port))
            return first


@contextmanager
def serving(output: Path, *arguments: str, admin_on: str = "127.0.0.1") -> Iterator[Process]:
    """Serve until the block ends. Fails with the output when the fleet is not ready in time."""
    port, admin = free_port(), free_port()
    command = [sys.executable, "-m", "bmcsim", "serve", *arguments]
    command += ["--listen", f"127.0.0.0/8:{port}", "--admin", f"{admin_on}:{admin}"]
    with started(output, command, port, admin) as running:
        yield running


@contextmanager
def started(output: Path, command: list[str], port: int, admin: int, **environment: str) -> Iterator[Process]:
    """The same of a command that serves Redfish at one port and is asked at the other. environment: more of it."""
    with output.open("w") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )
    running = Process(process, port, admin, output)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not _ready(admin):
            assert process.poll() is None, f"bmcsim serve ended:\n{running.output}"
            assert time.monotonic() < deadline, f"bmcsim serve is not ready:\n{running.output}"
            time.sleep(0.05)
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _ready(admin: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
