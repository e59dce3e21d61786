"""A small fleet whose control plane is asked over a socket, as the command line does."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner, Result

from bmcsim.cli import main
from bmcsim.edges.control.guard import Guard
from bmcsim.fleet import config as fleet_config
from tests.unit.edges.control.conftest import FILE, Site


class Served:
    """A site at a URL. said: what was asked for, method and path."""

    def __init__(self, site: Site, url: str, said: list[str]) -> None:
        self.site, self.url, self.said = site, url, said

    def run(self, *arguments: str, **others: Any) -> Result:
        """A command, in this process."""
        return run(*arguments, env={"BMCSIM_URL": self.url}, **others)


def run(*arguments: str, **others: Any) -> Result:
    """A command, in this process; it must end in a way that is foreseen."""
    result = CliRunner().invoke(main, arguments, **others)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def answering(answer: bytes) -> tuple[str, Callable[[], None]]:
    """A server that answers one request with some bytes: its URL, and what waits for its end."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening, listening.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}", thread.join


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves sites, until the test is over."""
    ends: list[Callable[[], None]] = []

    def begin(text: str = FILE, guard: Guard | None = None) -> Served:
        site = Site(fleet_config.parse(text, "fleet.toml"), guard=guard)
        said: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            said.append(f"{scope['method']} {scope['path'].removeprefix('/api/v1/')}")
            await site.app(scope, receive, send)

        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()

        def end() -> None:
            server.should_exit = server.force_exit = True
            thread.join(10)
            listening.close()

        ends.append(end)
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.001)
        return Served(site, f"http://127.0.0.1:{listening.getsockname()[1]}", said)

    yield begin
    for end in ends:
        end()


@pytest.fixture
def served(serve: Serve) -> Served:
    """Hosts with and without DPUs, and two racks, open to everybody."""
    return serve()
