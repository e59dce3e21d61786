"""The yardstick: bare uvicorn with one fixed body, no routing, no authentication, no log.

Whatever a Python server of this stack does more than this is its own doing, so a ratio to it says the same on a
fast machine and on a slow one.
"""

import argparse

import uvicorn
from starlette.types import Message, Receive, Scope, Send


class FixedBody:
    """An ASGI application that answers every request with the same `size` bytes."""

    def __init__(self, size: int) -> None:
        self._start: Message = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"application/json"), (b"content-length", str(size).encode())],
        }
        self._body: Message = {"type": "http.response.body", "body": b"x" * size}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send(self._start)
        await send(self._body)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.baseline", description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="bytes of the body")
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    options = parser.parse_args()
    uvicorn.run(
        FixedBody(options.size),
        host=options.address,
        port=options.port,
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        ssl_certfile=options.cert,
        ssl_keyfile=options.key,
    )


if __name__ == "__main__":
    main()
