"""`python -m bench load` with real locust processes: a few seconds against ten hosts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.load.report import Run

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


def interpreter() -> str:
    """A Python that has locust: $BENCH_PYTHON, that of `make load`, or this one. Skips the test where there is none."""
    for python in (os.environ.get("BENCH_PYTHON"), str(ROOT / ".venv-load/bin/python"), sys.executable):
        if python and shutil.which(python):
            found = subprocess.run([python, "-c", "import importlib.util as u; exit(not u.find_spec('locust'))"])
            if not found.returncode:
                return python
    pytest.skip("locust is not installed: `make .venv-load/.installed`, or BENCH_PYTHON=.../bin/python")


def load(out: Path, *arguments: str) -> tuple[Run, str]:
    """What `bench load` found out, and what it printed. It must have found everything right."""
    command = [interpreter(), "-m", "bench", "load", *arguments, f"--out={out}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = out.glob("*.json")
    return msgspec.json.decode(written.read_bytes(), type=Run), done.stdout


def test_two_phases_over_two_workers_and_a_shared_address(tmp_path: Path) -> None:
    run, printed = load(
        tmp_path, "login", "health@2", "--hosts=10", "--dpus=0", "--seconds=4", "--workers=2", "--proxy"
    )
    login, look, health = run.phases
    assert (login.turns, look.turns) == (10, 10)
    assert login.statuses["401"] == 10, "each old password is refused once"
    assert [phase.wrong for phase in run.phases] == [0, 0, 0]
    assert health.identified == 10
    assert health.turns >= 15
    assert {row.name for row in health.rows} >= {"GET sensor", "GET health discovery"}
    assert all(run.counted(phase) is not None for phase in run.phases)
    assert "| right |" in printed
    assert len(list(tmp_path.glob("*.html"))) == 1


def test_connections_are_kept_however_many_there_are() -> None:
    """Behind the 1024 descriptors that select(2) takes, too."""
    script = """
import gevent.monkey
gevent.monkey.patch_all()
import os, socket
from bench.load.users import connections
held = [os.dup(0) for _ in range(1100)]
one, other = socket.socketpair()
assert one.fileno() > 1024
pool = connections(1).get_client("https://127.0.0.1:1")._connection_pool
assert pool._is_socket_alive(one)
other.send(b"x")
assert not pool._is_socket_alive(one)
other.close()
assert not pool._is_socket_alive(one)
one.close()
assert not pool._is_socket_alive(one) and not pool._is_socket_alive(None)
"""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 4096))\n"
    done = subprocess.run([interpreter(), "-c", limit + script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_bmc_that_is_not_there_is_found(tmp_path: Path) -> None:
    endpoints = tmp_path / "endpoints"
    endpoints.write_text("127.0.0.1:9\n")
    command = [interpreter(), "-m", "bench", "load", "storm", f"--endpoints={endpoints}", f"--out={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 wrong; 127.0.0.1:9, root, anonymous: no answer" in done.stdout
