"""The admin listener: health, readiness, metrics, and on loopback the time and the sensors of the hardware.

The last two change something, so they are there only where nobody but this machine can ask. They take JSON alone and
no Origin, so that no web page can ask either.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bmcsim.edges.http.context import Done
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc

Skip = Callable[[float], int]
"""Moves the hardware's time forward by so many seconds; how many timers fired."""

SetReading = Callable[[Bmc, str, float | None, Done], None]
"""As `Context.set_reading`."""

_LARGEST_SKIP = 366 * 86400.0
_LARGEST_READING = 1e12
_LARGEST_BODY = 1024


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    seconds: float


class _Reading(msgspec.Struct, forbid_unknown_fields=True):
    bmc: str
    uri: str
    reading: float | None


Posted = TypeVar("Posted", _Step, _Reading)


def admin_app(
    fleet: Fleet, registry: CollectorRegistry, skip: Skip | None = None, set_reading: SetReading | None = None
) -> Starlette:
    """/healthz: the process lives. /readyz: 200 when every BMC answers, else 503. /metrics: Prometheus.

    With skip: POST /clock/step {"seconds": 90} moves the hardware's time.
    With set_reading: POST /sensors/set {"bmc": ID, "uri": URI, "reading": 95.5} makes a sensor read that, null what it
    measures; 404 for what is not there, 507 when it could not be stored.
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
        routes.append(Route("/clock/step", _post(_Step, '{"seconds": 90}', _stepper(skip)), methods=["POST"]))
    if set_reading is not None:
        example = '{"bmc": "host-0", "uri": "/redfish/v1/Chassis/.../Sensors/Temp_1", "reading": 95.5}'
        routes.append(Route("/sensors/set", _post(_Reading, example, _setter(fleet, set_reading)), methods=["POST"]))
    return Starlette(routes=routes)


def _post(
    model: type[Posted], example: str, change: Callable[[Posted], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    async def post(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _refusal("the Content-Type must be application/json", 415)
        if "origin" in request.headers:
            return _refusal("not for web pages", 403)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _LARGEST_BODY:
                return _refusal("the body is too large", 413)
        try:
            posted = msgspec.json.decode(body, type=model)
        except msgspec.DecodeError as error:
            return _refusal(f"the body must be like {example}: {error}", 400)
        return await change(posted)

    return post


def _stepper(skip: Skip) -> Callable[[_Step], Awaitable[Response]]:
    async def step(posted: _Step) -> Response:
        if not 0 <= posted.seconds <= _LARGEST_SKIP:
            return _refusal(f"seconds must be a number from 0 to {_LARGEST_SKIP:.0f}", 400)
        return JSONResponse({"fired": skip(posted.seconds)})

    return step


def _setter(fleet: Fleet, set_reading: SetReading) -> Callable[[_Reading], Awaitable[Response]]:
    async def set_one(posted: _Reading) -> Response:
        if posted.reading is not None and abs(posted.reading) > _LARGEST_READING:
            return _refusal(f"reading must be null, or a number up to {_LARGEST_READING:.0f} above or below 0", 400)
        bmc = fleet.by_id(posted.bmc)
        if bmc is None:
            return _refusal(f"there is no BMC {posted.bmc}; `bmcsim fleet list` has their ids", 404)
        stored: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def told(error: BaseException | None) -> None:
            if not stored.done():
                stored.set_result(error)

        try:
            set_reading(bmc, posted.uri, posted.reading, told)
        except KeyError:
            return _refusal(f"{posted.uri} is no sensor of {posted.bmc}", 404)
        error = await stored
        if error is not None:
            return _refusal(f"the reading could not be stored: {error}", 507)
        return JSONResponse({"bmc": posted.bmc, "uri": posted.uri, "reading": posted.reading})

    return set_one


def _refusal(error: str, status: int) -> Response:
    return JSONResponse({"error": error}, status)
