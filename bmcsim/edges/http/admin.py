"""The admin listener: health, readiness and metrics. None of them needs a token, none of them changes anything."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bmcsim.fleet.registry import Fleet


def admin_app(fleet: Fleet, registry: CollectorRegistry) -> Starlette:
    """/healthz: the process lives. /readyz: 200 when every BMC answers, else 503. /metrics: Prometheus."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        progress = {"ready": fleet.ready, "bmcs": len(fleet), "expected": fleet.expected}
        return JSONResponse(
            progress, 200 if fleet.ready else 503, headers=None if fleet.ready else {"Retry-After": "1"}
        )

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])
