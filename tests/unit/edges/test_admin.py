"""The admin listener's application."""

from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from bmcsim.edges.http.admin import admin_app
from bmcsim.fleet.registry import Fleet


class Skips(list[float]):
    """Takes note of how far the hardware's time was moved."""

    def __call__(self, seconds: float) -> int:
        self.append(seconds)
        return 7


async def call(app: Starlette, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Status and body of the answer to a request, without a socket. headers: with _ for -."""
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": fields, "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 9090),
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


async def test_the_time_of_the_hardware_is_moved() -> None:
    skips = Skips()
    app = admin_app(Fleet(), CollectorRegistry(), skips)
    status, body = await call(app, "POST", "/clock/step", b'{"seconds": 90}', content_type="application/json")
    assert (status, orjson.loads(body)) == (200, {"fired": 7})
    assert skips == [90]


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b'{"seconds": 1}', {"content_type": "text/plain"}, 415),
        (b'{"seconds": 1}', {}, 415),
        (b'{"seconds": 1}', {"origin": "http://evil.example", "content_type": "application/json"}, 403),
        (b'{"seconds": -1}', {"content_type": "application/json"}, 400),
        (b'{"seconds": 1e12}', {"content_type": "application/json"}, 400),
        (b'{"seconds": "1"}', {"content_type": "application/json"}, 400),
        (b'{"second": 1}', {"content_type": "application/json"}, 400),
        (b"{", {"content_type": "application/json"}, 400),
        (b" " * 2000, {"content_type": "application/json"}, 413),
    ],
)
async def test_what_is_not_a_step_moves_nothing(body: bytes, headers: dict[str, str], expected: int) -> None:
    skips = Skips()
    status, _ = await call(admin_app(Fleet(), CollectorRegistry(), skips), "POST", "/clock/step", body, **headers)
    assert status == expected
    assert skips == []


async def test_beyond_loopback_there_is_nothing_that_changes_something() -> None:
    app = admin_app(Fleet(), CollectorRegistry())
    status, _ = await call(app, "POST", "/clock/step", b'{"seconds": 90}', content_type="application/json")
    assert status == 404
    assert await call(app, "GET", "/healthz") == (200, b"ok\n")
    assert (await call(app, "GET", "/readyz"))[0] == 503
