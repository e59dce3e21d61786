"""A process for each shard of a fleet, and the one that started them, which watches over them."""

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

import click

log = logging.getLogger(__name__)

_WATCHED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGCHLD})
_TICK = 1.0
_PATIENCE = 30.0
_PR_SET_PDEATHSIG = 1


def supervise(shards: Sequence[Callable[[], None]], forked: Callable[[], None]) -> int:
    """Run each shard in a process of its own until all have ended; the exit status. forked: called when all run.

    SIGINT and SIGTERM go on to all of them. When one ends unasked, the others are stopped and the status is 1; so it
    is when one that was asked fails. They also stop when this process dies. Call it before any thread is started.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    running: dict[int, int] = {}
    for number, shard in enumerate(shards, 1):
        pid = os.fork()
        if pid == 0:
            _be_child(shard, parent)
        running[pid] = number
    forked()
    return _watch(running, len(shards))


def _watch(running: dict[int, int], count: int) -> int:
    """running: process -> number of its shard."""
    status, deadline = 0, 0.0
    while running:
        caught = signal.sigtimedwait(_WATCHED, _TICK)
        asked = caught is not None and caught.si_signo != signal.SIGCHLD
        for pid, code in _ended(running):
            number = running.pop(pid)
            if code or not (deadline or asked):
                ended = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
                click.echo(f"Error: shard {number} of {count} {ended}; the others are stopped", err=True)
                status, asked = 1, True
        if asked and not deadline:
            deadline = time.monotonic() + _PATIENCE
            _tell(running, signal.SIGTERM)
        elif deadline and time.monotonic() > deadline:
            status = 1
            _tell(running, signal.SIGKILL)
    return status


def _ended(running: dict[int, int]) -> list[tuple[int, int]]:
    found = []
    for pid in running:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            found.append((pid, os.waitstatus_to_exitcode(status)))
    return found


def _tell(running: dict[int, int], number: signal.Signals) -> None:
    for pid in running:
        os.kill(pid, number)


def _be_child(shard: Callable[[], None], parent: int) -> None:
    """Be a shard, and end with it. Does not return."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        if os.getppid() == parent:
            shard()
            status = 0
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except BaseException:
        log.exception("a shard failed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
