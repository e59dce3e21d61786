"""N51: one address carries the whole fleet; what names a BMC is the Forwarded field of each request."""

from typing import Any, cast

import orjson
import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.edges.http.context import Context
from bmcsim.edges.http.protocol import Listening, RedfishProtocol
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import default
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from tests.conftest import Wire, basic

PASSWORD = "Shared-Proxy-1"
PROXY = ("10.0.0.5", 1266)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """The default fleet: 13,500 BMCs."""
    made = Fleet()
    config = default(host_password=PASSWORD, dpu_password=PASSWORD)
    for _ in Builder(config, Hasher(), 0.0).populate(made):
        pass
    return made


def asked(protocol: RedfishProtocol, wire: Wire, bmc: Bmc) -> str:
    """The serial number that a GET of the system gives, by way of the proxy's address."""
    wire.written = b""
    fields = b"Host: bmc-proxy.example:1266\r\nForwarded: host=%b\r\nAuthorization: %b\r\n" % (
        bmc.address.encode(),
        basic(bmc.tree.head.accounts[0].user, PASSWORD),
    )
    uri = cast(str, bmc.tree.head.roles.system)
    protocol.data_received(b"GET %b HTTP/1.1\r\n%b\r\n" % (uri.encode(), fields))
    head, _, body = wire.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    return cast(str, orjson.loads(body)["SerialNumber"])


def test_n51_13500_bmcs_over_one_connection(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is that of the BMC that was asked: by the parser, then by the header blocks that it has seen."""
    clock, wire = ManualClock(), Wire(PROXY)
    context = Context(fleet, Driver(clock), clock)
    protocol = RedfishProtocol(context, Listening(None, set(), set()))
    protocol.connection_made(cast(Any, wire))
    every = list(fleet)
    assert len(every) == 13_500
    first = [asked(protocol, wire, bmc) for bmc in every]
    assert len(context.known) == 13_500

    def no_parser(_self: RedfishProtocol, _data: bytes) -> bytes:
        raise AssertionError("the parser was needed")

    monkeypatch.setattr(RedfishProtocol, "_feed", no_parser)
    second = [asked(protocol, wire, bmc) for bmc in reversed(every)]
    assert first == [bmc.identity.serial for bmc in every]
    assert second[::-1] == first
    assert len(set(first)) == 13_500
    assert context.metrics.connections_opened == 1
