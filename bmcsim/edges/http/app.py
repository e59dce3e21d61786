"""The slow lane's application: requests whose body is large or chunked, read and bounded here."""

from typing import Any, cast

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from bmcsim.core.errors import RedfishError
from bmcsim.edges.http.context import Context, Dropped
from bmcsim.edges.http.protocol import Cycle, encode
from bmcsim.redfish.exchange import Request, Response, head_of
from bmcsim.redfish.messages import error_response
from bmcsim.redfish.service import JSON_LIMIT


class RedfishApp:
    """ASGI application that ends in the same `Context.answer` as the fast lane."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Read the body up to its limit, then answer; a chunked body is counted while it is read (413)."""
        if scope["type"] != "http":
            return
        state: dict[str, Any] = scope["state"]
        cycle: Cycle = state["cycle"]
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if len(body) > JSON_LIMIT:
                cycle.keep_alive = False
                await self._send(send, cycle, scope["method"], error_response(RedfishError(413, "PayloadTooLarge")))
                return
            if not message.get("more_body", False):
                break
        query = scope["query_string"].decode("latin-1")
        moment, head = self._context.clock.now(), head_of(state["fields"])
        request = Request(scope["method"], scope["path"], moment, head, query, bytes(body))
        try:
            bmc, response = self._context.answer(state["fields"], state["dialled"], request)
        except Dropped:
            self._context.metrics.dropped += 1
            cycle.drop()
            return
        await self._send(send, cycle, scope["method"], response)
        self._context.execute(bmc, response)

    async def _send(self, send: ASGISendCallable, cycle: Cycle, method: str, response: Response) -> None:
        date = self._context.date_line(self._context.clock.now())
        encoded = encode(response, method, date, cycle.keep_alive)
        self._context.metrics.observe(response.status, 0.0)
        await send(cast(Any, {"type": "http.response.start", "status": response.status, "bmcsim.response": encoded}))
