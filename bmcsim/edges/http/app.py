"""The slow lane's application: requests whose body is large, chunked or an upload, read and bounded here; and those
that are not for BMCs."""

from typing import Any

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.context import Context, Dropped
from bmcsim.edges.http.protocol import Cycle
from bmcsim.edges.http.uploads import sink_of
from bmcsim.redfish.exchange import Request, Upload, head_of
from bmcsim.redfish.messages import error_response


class _Gone(Exception):
    """The client went away before the end of its request."""


class RedfishApp:
    """ASGI application that ends in the same `Context.answer` as the fast lane, or in what is served beside BMCs."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Read the body as the plan of its cycle says, then answer. A refusal meanwhile ends the connection."""
        if scope["type"] != "http":
            return
        state: dict[str, Any] = scope["state"]
        # The cycle has the scope: taken out, the two are freed at once and not by a full garbage collection.
        cycle: Cycle = state.pop("cycle")
        try:
            body, upload = await _read(cycle, receive, state["fields"].get(b"content-type", b""))
        except _Gone:
            return
        except RedfishError as error:
            cycle.keep_alive = False
            await cycle.deliver(None, error_response(error))
            return
        if cycle.outside is not None:
            # Starlette and uvicorn have types of their own for the same dicts.
            outside: Any = cycle.outside
            await outside(scope, _whole(body), send)
            return
        query = scope["query_string"].decode("latin-1")
        moment, head = self._context.clock.now(), head_of(state["fields"])
        request = Request(scope["method"], scope["path"], moment, head, query, body, upload)
        try:
            bmc, response, _ = self._context.answer(state["fields"], state["dialled"], request)
        except Dropped:
            self._context.metrics.dropped += 1
            cycle.drop()
            return
        self._context.note(bmc, request, response, cycle.transport)
        await cycle.deliver(bmc, response)


def _whole(body: bytes) -> ASGIReceiveCallable:
    """Gives a body that was read before."""

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _read(cycle: Cycle, receive: ASGIReceiveCallable, content_type: bytes) -> tuple[bytes, Upload | None]:
    """The body, or what is left of an upload. Raises _Gone, and RedfishError 400, 408, 413 and 431.

    A body without a length is counted while it is read.
    """
    limit, sink, body, size = cycle.plan.limit, None, bytearray(), 0
    if cycle.plan.upload:
        sink = sink_of(cycle.plan.upload, content_type)
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _Gone
        data, more = message.get("body", b""), message.get("more_body", False)
        size += len(data)
        if size > limit:
            raise RedfishError(413, "PayloadTooLarge")
        if sink is None:
            body += data
        else:
            sink.feed(data)
        if more and cycle.refusal is not None:
            raise cycle.refusal
    return (bytes(body), None) if sink is None else (b"", sink.result())
