"""The control API: all of its endpoints, and their routes."""

from collections.abc import Mapping
from typing import Any

from starlette.routing import BaseRoute

from bmcsim.edges.control import (
    bmcs_api,
    endpoint,
    fleet_api,
    history_api,
    ingestion_api,
    lifecycle_api,
    operations_api,
    stream,
)
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, Endpoint

TABLE = (fleet_api, bmcs_api, operations_api, lifecycle_api, history_api, ingestion_api, stream)
"""The modules with endpoints; each has `endpoints(control)`."""


REFUSALS: Mapping[Any, Any] = {404: endpoint.unrouted, 405: endpoint.unrouted}
"""Starlette's exception handlers: requests that no route takes are refused as all others are."""


def endpoints(control: Control) -> list[Endpoint]:
    """All endpoints."""
    return [one for module in TABLE for one in module.endpoints(control)]


def routes(control: Control) -> list[BaseRoute]:
    """Starlette's routes of all endpoints, guarded as `control.guard` says; what changes something is audited."""

    def changed(one: Endpoint, call: Call) -> None:
        control.audit.record(call.peer, one.method, call.request.url.path, one.summary, call.noted)

    def answered(status: int) -> None:
        control.answered[status // 100] += 1

    return endpoint.routes(endpoints(control), control.guard, control.version, changed, answered)
