"""`bmcsim health`."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from bmcsim.cli import main
from tests.serving import free_port


class Admin(BaseHTTPRequestHandler):
    """Lives, and is not ready."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Admin)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_asks_the_listener_of_the_environment(port: int) -> None:
    result = CliRunner().invoke(main, ["health"], env={"BMCSIM_SERVE_ADMIN": f"0.0.0.0:{port}"})
    assert (result.exit_code, result.output) == (0, "ok\n")
    result = CliRunner().invoke(main, ["health", "--ready", "--admin", f"127.0.0.1:{port}"])
    assert (result.exit_code, result.output) == (1, f"Error: http://127.0.0.1:{port}/readyz: 503\n")


def test_nobody_there() -> None:
    port = free_port()
    result = CliRunner().invoke(main, ["health", "--admin", f"127.0.0.1:{port}"])
    assert result.exit_code == 1
    assert "refused" in result.output


@pytest.mark.parametrize(("admin", "status"), [("off", 1), ("9090", 2), ("a:0", 2), ("a:99999", 2), ("[::1]:x", 2)])
def test_addresses_that_are_none(admin: str, status: int) -> None:
    assert CliRunner().invoke(main, ["health", "--admin", admin]).exit_code == status


def test_it_does_not_load_the_server() -> None:
    code = "import sys; from bmcsim.cli import main\ntry: main(['health', '--admin', 'off'])\nexcept SystemExit: pass\n"
    code += "print([name for name in ('asyncio', 'uvloop', 'msgspec', 'bmcsim.cli.serve') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
