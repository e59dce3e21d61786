"""Two small HTTP servers. One is for the kubelet and Prometheus: /healthz, /readyz, /metrics. The other, on loopback
alone, tells containers of the same pod which simulators there are: /v1/sources, /v1/healthz."""

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import NamedTuple

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from bmcsim.edges.k8s.sources import SourceList


class ListenError(Exception):
    """An address is wrong or cannot be had."""


class Address(NamedTuple):
    """host: '' for all."""

    host: str
    port: int


def parse(text: str, flag: str, *, loopback: bool = False) -> Address | None:
    """':8091', '127.0.0.1:8090', '[::1]:8090'; None for ''. Raises ListenError."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ListenError(f"{flag} must be ADDRESS:PORT or :PORT, not {text!r}")
    try:
        inside = bool(host) and ip_address(host).is_loopback
    except ValueError:
        raise ListenError(f"{flag} must have an IP address or none before the port, not {host!r}") from None
    if loopback and not inside:
        raise ListenError(f"{flag} must be a loopback IP address such as 127.0.0.1:8090, not {text!r}")
    return Address(host, int(port))


class Health:
    """Whether passes end. stale_after: seconds without one after which something is stuck; 0: never."""

    def __init__(self, stale_after: float, mono: Callable[[], float]) -> None:
        self._stale_after, self._mono = stale_after, mono
        self._last = mono()
        self.ready = False
        self.why = "no pass has ended yet"

    def passed(self, why: str = "") -> None:
        """A pass ended. why: it could not be made, '' if it was."""
        self._last, self.ready, self.why = self._mono(), not why, why

    def problem(self) -> str:
        """Why the process should be ended, '' for no reason."""
        age = self._mono() - self._last
        if self._stale_after <= 0 or age <= self._stale_after:
            return ""
        return f"no pass has ended for {age:.0f} s (limit: {self._stale_after:.0f} s)"


def health_app(health: Health, registry: CollectorRegistry) -> web.Application:
    """For the kubelet and Prometheus."""

    async def healthz(_request: web.Request) -> web.Response:
        problem = health.problem()
        return _text(problem or "ok", 503 if problem else 200)

    async def readyz(_request: web.Request) -> web.Response:
        return _text("ok" if health.ready else health.why, 200 if health.ready else 503)

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return _app({"/healthz": healthz, "/readyz": readyz, "/metrics": metrics})


def sources_app(sources: SourceList) -> web.Application:
    """For containers of the same pod."""

    async def listed(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(sources.document()), content_type="application/json")

    async def healthz(_request: web.Request) -> web.Response:
        return _text("ok", 200)

    return _app({"/v1/sources": listed, "/v1/healthz": healthz})


def _app(routes: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]) -> web.Application:
    app = web.Application(client_max_size=1024)
    for path, handler in routes.items():
        app.router.add_get(path, handler)
    return app


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=text + "\n", status=status)


class Listener:
    """A running server. port: that it has, also where 0 was asked for."""

    def __init__(self, app: web.Application, address: Address) -> None:
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self._address = address
        self.port = 0

    async def start(self) -> None:
        """Raises ListenError."""
        await self._runner.setup()
        host, port = self._address
        try:
            await web.TCPSite(self._runner, host or None, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise ListenError(f"{host}:{port}: cannot listen: {error.strerror}") from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End it."""
        await self._runner.cleanup()
