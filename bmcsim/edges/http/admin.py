"""The admin listener: health, readiness, metrics, and on loopback the time of the hardware.

Only the last one changes anything, so it is there only where nobody but this machine can ask. It takes JSON alone and
no Origin, so that no web page can ask either.
"""

from collections.abc import Awaitable, Callable

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bmcsim.fleet.registry import Fleet

Skip = Callable[[float], int]
"""Moves the hardware's time forward by so many seconds; how many timers fired."""

_LARGEST_SKIP = 366 * 86400.0
_LARGEST_BODY = 1024


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    seconds: float


def admin_app(fleet: Fleet, registry: CollectorRegistry, skip: Skip | None = None) -> Starlette:
    """/healthz: the process lives. /readyz: 200 when every BMC answers, else 503. /metrics: Prometheus.

    With skip: POST /clock/step {"seconds": 90} moves the hardware's time.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        progress = {"ready": fleet.ready, "bmcs": len(fleet), "expected": fleet.expected}
        return JSONResponse(
            progress, 200 if fleet.ready else 503, headers=None if fleet.ready else {"Retry-After": "1"}
        )

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    routes = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    if skip is not None:
        routes.append(Route("/clock/step", _stepper(skip), methods=["POST"]))
    return Starlette(routes=routes)


def _stepper(skip: Skip) -> Callable[[Request], Awaitable[Response]]:
    async def step(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return JSONResponse({"error": "the Content-Type must be application/json"}, 415)
        if "origin" in request.headers:
            return JSONResponse({"error": "not for web pages"}, 403)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _LARGEST_BODY:
                return JSONResponse({"error": "the body is too large"}, 413)
        try:
            seconds = msgspec.json.decode(body, type=_Step).seconds
        except msgspec.DecodeError as error:
            return JSONResponse({"error": f'the body must be like {{"seconds": 90}}: {error}'}, 400)
        if not 0 <= seconds <= _LARGEST_SKIP:
            return JSONResponse({"error": f"seconds must be a number from 0 to {_LARGEST_SKIP:.0f}"}, 400)
        return JSONResponse({"fired": skip(seconds)})

    return step
