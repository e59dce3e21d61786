"""The admin listener's application."""

from typing import Any

import msgspec
import orjson
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from bmcsim.edges.http.admin import admin_app
from bmcsim.fleet.registry import Fleet
from tests.leasing import HOSTS, DhcpServer, Site


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


async def test_alone_it_has_health_readiness_and_metrics() -> None:
    app = admin_app(Fleet(), CollectorRegistry())
    assert await call(app, "GET", "/healthz") == (200, b"ok\n")
    assert (await call(app, "GET", "/readyz"))[0] == 503
    assert (await call(app, "GET", "/metrics"))[0] == 200
    assert (await call(app, "POST", "/api/v1/clock", b"{}", content_type="application/json"))[0] == 404


async def test_readiness_tells_how_many_have_leases() -> None:
    site = Site(HOSTS, DhcpServer(["10.9.0.1", "10.9.0.2"]))
    site.answer()
    app = admin_app(site.fleet, CollectorRegistry(), leases=site.leases)
    status, body = await call(app, "GET", "/readyz")
    assert (status, msgspec.json.decode(body)) == (
        200,
        {
            "ready": True,
            "bmcs": 6,
            "expected": 6,
            "leases": {"interfaces": 9, "bound": 2, "bmcs_without": site.fleet.homeless},
        },
    )


async def test_how_far_the_registration_is_where_there_is_one() -> None:
    status = {"registered": 2, "already_present": 1, "failed_identifiers": ["host-3"]}
    app = admin_app(Fleet(), CollectorRegistry(), inventory=lambda: status)
    code, body = await call(app, "GET", "/expected-inventory/status")
    assert (code, orjson.loads(body)) == (200, status)
    app = admin_app(ready := Fleet(), CollectorRegistry(), inventory=lambda: status)
    ready.ready = True
    code, body = await call(app, "GET", "/readyz")
    assert (code, orjson.loads(body)["registration"]) == (200, status)
    assert (await call(admin_app(Fleet(), CollectorRegistry()), "GET", "/expected-inventory/status"))[0] == 404
