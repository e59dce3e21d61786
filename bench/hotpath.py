"""The cost of one GET in the fast lane, without sockets, as a ratio to a fixed piece of Python in the same process.

Seconds say little on a machine that does other things too. The ratio of two minima, measured in turns, holds within
some percent, and instruction counts hold within some per mille:

    python -m bench.hotpath                 # the ratio
    valgrind --tool=cachegrind --cache-sim=no python -m bench.hotpath 200     # instructions of so many requests;
    valgrind --tool=cachegrind --cache-sim=no python -m bench.hotpath 2200    # the difference is that of 2,000
"""

import base64
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from bmcsim.core.clock import SystemClock
from bmcsim.edges.http.context import Context
from bmcsim.edges.http.protocol import Listening, RedfishProtocol
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import default
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.credentials import Hasher

MOST = 1.25
"""A ratio above this means that something on the way of every request has become slow; it is 0.6 to 0.75."""

_ADDRESS, _PASSWORD = "127.64.0.2", "Hot-Path-1"
_PATH = "/redfish/v1/Chassis/System.Embedded.1/Sensors/Temp_1"
_BATCH, _ROUNDS = 100, 60


class _Transport:
    """Where answers go."""

    def get_extra_info(self, name: str) -> Any:
        return (_ADDRESS, 1266) if name == "sockname" else None

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.last = data


def request() -> Callable[[], None]:
    """What happens for one GET of a sensor of one BMC of several, by a header block that is known."""
    fleet, clock = Fleet(), SystemClock()
    for _ in Builder(default(3, 2, host_password=_PASSWORD), Hasher(), 0.0).populate(fleet):
        pass
    transport = _Transport()
    protocol = RedfishProtocol(Context(fleet, Driver(clock), clock), Listening(None, set(), set()))
    protocol.connection_made(cast(Any, transport))
    credentials = base64.b64encode(f"root:{_PASSWORD}".encode()).decode()
    data = (
        f"GET {_PATH} HTTP/1.1\r\nHost: {_ADDRESS}:1266\r\nAccept: */*\r\nUser-Agent: bench\r\n"
        f"Authorization: Basic {credentials}\r\n\r\n"
    ).encode()

    def one() -> None:
        protocol.data_received(data)

    for _ in range(2):
        one()
    if not transport.last.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"the sensor was not answered: {transport.last[:60]!r}")
    return one


def reference() -> None:
    """A fixed piece of work of the same kind: look-ups, slices, formats and joins. Never to be changed."""
    table = {b"a%d" % number: number for number in range(8)}
    pieces = []
    for number in range(12):
        key = b"a%d" % (number & 7)
        found = table.get(key[:2])
        pieces.append(b"%b: %d\r\n" % (key, found if found is not None else 0))
    b"".join(pieces).partition(b"\r\n")[0].decode("latin-1")


def ratio() -> float:
    """The cost of a request over that of the reference, each the best of many batches that take turns."""
    best: dict[Callable[[], None], float] = {request(): float("inf"), reference: float("inf")}
    for _ in range(_ROUNDS):
        for work in best:
            began = time.perf_counter()
            for _ in range(_BATCH):
                work()
            best[work] = min(best[work], time.perf_counter() - began)
    asked, fixed = best.values()
    return asked / fixed


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ask = request()
        for _ in range(int(sys.argv[1])):
            ask()
    else:
        print(f"{ratio():.2f} (at most {MOST})")
