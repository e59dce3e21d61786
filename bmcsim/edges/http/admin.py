"""The admin listener: health, readiness, metrics, and what others add to it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from bmcsim.fleet.leases import Leases
from bmcsim.fleet.registry import Fleet


def admin_app(
    fleet: Fleet,
    registry: CollectorRegistry,
    more: Sequence[BaseRoute] = (),
    *,
    inventory: Callable[[], object] | None = None,
    leases: Leases | None = None,
    refusals: Mapping[Any, Any] | None = None,
    survey: Callable[[], Awaitable[None]] | None = None,
) -> Starlette:
    """/healthz: the process lives. /readyz: 200 when every BMC is there, else 503, and how far they are.
    /metrics: Prometheus.

    more: routes of others. refusals: Starlette's exception handlers. leases: of the BMCs' addresses, None where those
    are planned. survey: what the metrics need to be done before them.
    With inventory: /expected-inventory/status is what it returns: how far the registration with NICo is.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        progress: dict[str, object] = {"ready": fleet.ready, "bmcs": len(fleet), "expected": fleet.expected}
        if leases is not None:
            progress["leases"] = {"interfaces": len(leases), "bound": leases.bound, "bmcs_without": fleet.homeless}
        if inventory is not None:
            progress["registration"] = inventory()
        return JSONResponse(
            progress, 200 if fleet.ready else 503, headers=None if fleet.ready else {"Retry-After": "1"}
        )

    async def metrics(_request: Request) -> Response:
        if survey is not None:
            await survey()
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    routes: list[BaseRoute] = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    if inventory is not None:

        async def expected(_request: Request) -> Response:
            return JSONResponse(inventory())

        routes.append(Route("/expected-inventory/status", expected))
    return Starlette(routes=[*routes, *more], exception_handlers=refusals)
