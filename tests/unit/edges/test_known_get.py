"""A GET whose header block is known is answered as one that is parsed, whatever has become of the BMC meanwhile."""

import gzip
from typing import Any, cast

import orjson
import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.edges.http.context import Context, Known
from bmcsim.edges.http.protocol import Listening, RedfishProtocol
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import default
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.recordings import Recordings
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.credentials import Hasher
from bmcsim.redfish import service
from bmcsim.redfish.exchange import Head, Request, head_of
from tests.conftest import Wire, basic

PASSWORD = "Known-Get-1"
ROOT = "/redfish/v1"
SYSTEMS = f"{ROOT}/Systems"


class Asking:
    """An R750, and a connection to it."""

    def __init__(self) -> None:
        fleet, self.clock, self.wire = Fleet(), ManualClock(), Wire(("127.64.0.2", 1266))
        for _ in Builder(default(1, 0, host_password=PASSWORD), Hasher(), 0.0).populate(fleet):
            pass
        (self.bmc,) = fleet
        self.context = Context(fleet, Driver(self.clock), self.clock)
        self.protocol = RedfishProtocol(self.context, Listening(None, set(), set()))
        self.protocol.connection_made(cast(Any, self.wire))

    def get(self, path: str, coding: bytes = b"identity") -> tuple[int, bytes]:
        """Status and body."""
        self.wire.written = b""
        fields = b"Host: x\r\nAccept-Encoding: %b\r\nAuthorization: %b\r\n" % (coding, basic("root", PASSWORD))
        self.protocol.data_received(b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode(), fields))
        head, _, body = self.wire.written.partition(b"\r\n\r\n")
        return int(head[9:12]), gzip.decompress(body) if b"Content-Encoding: gzip" in head else body

    def read(self, path: str) -> bytes:
        """The body without any connection."""
        return service.read(self.bmc, Request("GET", path, self.clock.now(), Head())).body


def untagged(body: bytes) -> dict[str, Any]:
    """Content without its tag, which has a suffix where it is compressed."""
    return {name: value for name, value in orjson.loads(body).items() if name != "@odata.etag"}


@pytest.mark.parametrize("coding", [b"identity", b"gzip"])
@pytest.mark.parametrize("recorded", [False, True])
def test_an_item_that_an_update_moved_is_where_it_is_now(
    monkeypatch: pytest.MonkeyPatch, coding: bytes, recorded: bool
) -> None:
    asking = Asking()
    if recorded:
        asking.context.recorder = Recordings(lambda _on: None)
    before = set(asking.bmc.tree.nodes)
    assert asking.get(ROOT, coding)[0] == 200
    asking.bmc.become(asking.clock.now(), firmware={"uefi": "2"})
    asking.bmc.committed()
    after = set(asking.bmc.tree.nodes)
    moved = sorted(before - after)
    assert len(moved) == len(after - before) == 2
    # Also by the shortcut, which has seen these header fields: only what is no node needs the parser.
    parsed = list[bytes]()
    feed = RedfishProtocol._feed
    monkeypatch.setattr(RedfishProtocol, "_feed", lambda self, data: (parsed.append(data), feed(self, data))[1])
    for path in sorted(after):
        status, body = asking.get(path, coding)
        assert (status, untagged(body)) == (200, untagged(asking.read(path)))
        assert path not in after - before or orjson.loads(body)["@odata.id"] == path
    assert parsed == []
    assert [asking.get(path, coding)[0] for path in moved] == [404, 404]
    assert len(parsed) == 2


def test_credentials_are_one_object_and_equal_ones_of_other_clients_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking()
    assert asking.get(SYSTEMS)[0] == asking.get(SYSTEMS)[0] == 200
    assert head_of({b"authorization": basic("root", PASSWORD)}).authorization is asking.bmc.basic_header
    (known,) = asking.context.known.values()
    assert known.authorization is asking.bmc.basic_header
    # As of a client whose header block came when no other of the same credentials was kept any more.
    known.authorization = basic("root", PASSWORD)
    assert known.authorization is not asking.bmc.basic_header
    compared = list[bytes]()
    remembers = service.remembers
    monkeypatch.setattr(service, "remembers", lambda bmc, one: (compared.append(one), remembers(bmc, one))[1])
    assert [asking.get(SYSTEMS)[0] for _ in range(3)] == [200] * 3
    assert len(compared) == 1
    assert known.authorization is asking.bmc.basic_header


def test_a_bmc_that_remembers_nobody_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Least of all those that have no credentials, or wrong ones."""
    asking = Asking()
    plain = list[str]()
    shown = service.plain_get
    for place in ("bmcsim.edges.http.protocol.plain_get", "bmcsim.redfish.service.plain_get"):
        monkeypatch.setattr(place, lambda bmc, node, moment: (plain.append(node.uri), shown(bmc, node, moment))[1])
    for fields in (b"", b"Authorization: \r\n", b"Authorization: %b\r\n" % basic("root", "Wrong-1")):
        for _ in range(3):
            asking.protocol.data_received(b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (SYSTEMS.encode(), fields))
            assert asking.wire.written.startswith(b"HTTP/1.1 401 ")
            asking.wire.written = b""
    assert len(asking.context.known) == 3
    assert plain == []
    assert [asking.get(SYSTEMS)[0] for _ in range(3)] == [200] * 3
    assert plain == [SYSTEMS] * 2  # after the login
    asking.bmc.set_password("root", "Other-Pass-1", asking.clock.now())
    asking.bmc.committed()
    assert [asking.get(SYSTEMS)[0] for _ in range(3)] == [401] * 3
    assert plain == [SYSTEMS] * 2


@pytest.mark.parametrize(("dpus", "most"), [(0, 4), (2, 6)])
def test_of_too_many_header_blocks_the_newest_stay_and_each_bmc_may_have_two(
    monkeypatch: pytest.MonkeyPatch, dpus: int, most: int
) -> None:
    monkeypatch.setattr("bmcsim.edges.http.context._KNOWN_BLOCKS", 4)
    fleet, clock = Fleet(), ManualClock()
    for _ in Builder(default(1, dpus), Hasher(), 0.0).populate(fleet):
        pass
    context = Context(fleet, Driver(clock), clock)
    blocks = [b"Host: %d\r\n\r\n" % number for number in range(most + 1)]
    for block in blocks[:most]:
        context.remember(block, Known(Head(), {}))
    assert list(context.known) == blocks[:most]
    context.remember(blocks[most], Known(Head(), {}))
    assert list(context.known) == blocks[most // 2 :]
