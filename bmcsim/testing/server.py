"""A real listener for a fleet of a test."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from bmcsim.edges.http.context import Context
from bmcsim.edges.http.listen import open_socket, parse_listen
from bmcsim.edges.http.server import redfish_listener
from bmcsim.edges.http.tls import Served, transient_context

if TYPE_CHECKING:
    from bmcsim.testing.bmc import Bmc

T = TypeVar("T")

_LOOPBACK = parse_listen("127.0.0.0/8:0")


class Server:
    """Listens on all of loopback, at a port that was free. Its thread ends with `stop`."""

    def __init__(self, context: Context, *, tls: bool) -> None:
        self._loop = uvloop.new_event_loop()
        self._sock, _ = open_socket(_LOOPBACK)
        self.scheme = "https" if tls else "http"
        self.port: int = self._sock.getsockname()[1]
        self._listener = redfish_listener(context, self._sock, Served(transient_context()) if tls else None)
        self._thread = threading.Thread(target=self._loop.run_forever, name="bmcsim", daemon=True)
        self._thread.start()
        self._wait(self._listener.start())

    def url(self, bmc: "Bmc | None" = None) -> str:
        """https://ADDRESS:PORT of a BMC whose address is on loopback; of any other, and for None, that of the port.

        There a request says itself which BMC it is for: see `headers`.
        """
        address = bmc.address if bmc is not None and bmc.address.startswith("127.") else "127.0.0.1"
        return f"{self.scheme}://{address}:{self.port}"

    def headers(self, bmc: "Bmc") -> dict[str, str]:
        """What a request has to say where it does not dial the address of its BMC."""
        return {"Forwarded": f"host={bmc.address}"}

    def call(self, call: Callable[[], T]) -> T:
        """Call something in the thread that serves, and return what it returns."""
        if threading.current_thread() is self._thread:
            return call()
        future: Future[T] = Future()

        def do() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return future.result()

    def stop(self) -> None:
        """Finish what is being answered, and end the thread."""
        self._wait(self._listener.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._sock.close()

    def _wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
