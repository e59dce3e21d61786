"""Who answers a search and when: a fleet, a manual clock, and a transport that takes note."""

from collections.abc import Callable
from functools import lru_cache

import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.edges.ssdp.message import parse_search
from bmcsim.edges.ssdp.responder import BATCH, MOST_OF_ONE, MOST_SEARCHES, Address, Responder
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import parse
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.redfish.exchange import Head, Request, Response
from bmcsim.redfish.service import handle
from tests.conftest import basic
from tests.unit.edges.ssdp.test_message import URN, search

GROUP = "239.255.255.250"
SEARCHER = ("127.0.0.1", 50000)
FLEET = """
host_bmc_password = "P"
dpu_bmc_password = "P"
[bmcsim]
ssdp = "enabled"
{more}
[machines.a]
host_count = {hosts}
dpu_per_host_count = 2
"""


@lru_cache
def builder(hosts: int, more: str) -> Builder:
    """Makes the BMCs of a fleet, with trees that are compiled once."""
    return Builder(parse(FLEET.format(hosts=hosts, more=more), "fleet.toml"), Hasher(b"k" * 32), 0.0)


class Edge:
    """A responder for a fleet; `sent` has what it sent: (BMC's address, searcher, TTL, text, when)."""

    def __init__(self, hosts: int = 1, more: str = "", scheme: str = "https") -> None:
        self.clock, self.fleet = ManualClock(), Fleet()
        for _ in builder(hosts, more).populate(self.fleet):
            pass
        self.driver = Driver(self.clock)
        self.bmcs = list(self.fleet)
        self.sent: list[tuple[str, Address, int, str, float]] = []
        self.refuses: OSError | None = None
        self.room = 1_000_000
        self.wished: list[tuple[float, Callable[[], None]]] = []
        self.responder = Responder(self.fleet, self.clock, scheme, 1266, self.send, self.later)

    def send(self, data: bytes, to: Address, source: str, ttl: int) -> bool:
        """Take note of a datagram."""
        if self.refuses is not None:
            raise self.refuses
        if self.room == 0:
            return False
        self.room -= 1
        self.sent.append((source, to, ttl, data.decode(), self.clock.now().mono))
        return True

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """As call_later of a loop."""
        self.wished.append((self.clock.now().mono + seconds, what))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.clock.now().mono + seconds
        while self.wished and self.wished[0][0] <= end:
            due, what = self.wished.pop(0)
            self.clock.advance(max(0.0, due - self.clock.now().mono))
            what()
        self.clock.advance(max(0.0, end - self.clock.now().mono))

    def ask(
        self, data: bytes | None = None, source: Address = SEARCHER, dialled: str = GROUP, seconds: float = 6
    ) -> list[str]:
        """Send a datagram; the addresses that answered it within some seconds."""
        before = len(self.sent)
        self.responder.received(search() if data is None else data, source, dialled)
        self.run(seconds)
        return [one[0] for one in self.sent[before:]]

    def request(self, bmc: Bmc, method: str, path: str, body: bytes = b"") -> Response:
        """A Redfish request to one BMC."""
        head = Head(basic("root", "P"), content_type=b"application/json")
        response = handle(bmc, Request(method, path, self.clock.now(), head, "", body))
        self.driver.execute(bmc, response.actions)
        return response

    def patch(self, bmc: Bmc, body: bytes) -> None:
        """Change a BMC's network services."""
        uri = f"{bmc.tree.head.roles.manager}/NetworkProtocol"
        assert self.request(bmc, "PATCH", uri, body).status in (200, 204)


@pytest.fixture
def edge() -> Edge:
    """A host with two DPUs."""
    return Edge()


def addresses(edge: Edge) -> list[str]:
    """Of all BMCs."""
    return [bmc.address for bmc in edge.bmcs]


def test_every_bmc_answers_for_itself(edge: Edge) -> None:
    assert edge.ask() == addresses(edge)
    for bmc, (_, to, _, text, _) in zip(edge.bmcs, edge.sent, strict=True):
        assert to == SEARCHER
        assert f"AL: https://{bmc.address}:1266/redfish/v1/\r\n" in text
        assert f"USN: uuid:{bmc.identity.uuid('service')}::{URN}:" in text
    assert f"ST: {URN}:18\r\n" in edge.sent[0][3]
    assert f"ST: {URN}:17\r\n" in edge.sent[1][3]


def test_a_bmc_without_ssdp_or_with_ssdp_off_is_silent() -> None:
    edge = Edge(2, '[bmcs."a-0"]\nssdp = "absent"\n[bmcs."a-1-dpu-0"]\nssdp = "disabled"')
    silent = {edge.fleet.by_id("a-0"), edge.fleet.by_id("a-1-dpu-0")}
    assert edge.ask() == [bmc.address for bmc in edge.bmcs if bmc not in silent]


def test_only_services_of_the_wanted_version_or_a_later_one_answer(edge: Edge) -> None:
    host, first, second = addresses(edge)
    assert edge.ask(search(ST=f"{URN}:17")) == [host, first, second]
    assert edge.ask(search(ST=f"{URN}:18")) == [host]
    assert edge.ask(search(ST=f"{URN}:19")) == []


def test_a_bmc_that_resets_does_not_answer(edge: Edge) -> None:
    edge.request(
        edge.bmcs[1],
        "POST",
        "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset",
        b'{"ResetType": "GracefulRestart"}',
    )
    assert edge.ask() == [edge.bmcs[0].address, edge.bmcs[2].address]
    edge.clock.advance(200)
    edge.driver.run_due()
    assert edge.ask() == addresses(edge)


def test_answers_have_the_ttl_that_the_bmc_shows(edge: Edge) -> None:
    edge.patch(edge.bmcs[0], b'{"SSDP": {"NotifyTTL": 5}}')
    edge.ask()
    assert [ttl for _, _, ttl, _, _ in edge.sent] == [5, 2, 2]
    edge.bmcs[0].change(
        edge.bmcs[0].tree.nodes["/redfish/v1/Managers/iDRAC.Embedded.1/NetworkProtocol"],
        {"SSDP": {"NotifyTTL": 0}},
        edge.clock.now(),
    )
    edge.ask()
    assert edge.sent[3][2] == 2


def test_without_tls_the_location_is_http() -> None:
    edge = Edge(scheme="http")
    edge.ask()
    assert "AL: http://127.64.0.2:1266/redfish/v1/\r\n" in edge.sent[0][3]


def test_answers_are_spread_over_the_time_that_the_searcher_waits() -> None:
    edge = Edge(100)
    edge.ask(search(MX="3"), seconds=1.35)
    assert 148 <= len(edge.sent) <= 152
    edge.run(1.5)
    assert [one[0] for one in edge.sent] == addresses(edge)
    assert not edge.wished


def test_one_tick_has_a_bounded_number_of_answers_however_short_the_wait_and_many_the_searches() -> None:
    edge = Edge(200)
    for port in range(MOST_OF_ONE):
        edge.responder.received(search(MX="1"), ("127.0.0.1", 1 + port), GROUP)
    while edge.wished:
        before = len(edge.sent)
        due, what = edge.wished.pop(0)
        edge.clock.advance(max(0.0, due - edge.clock.now().mono) + 0.5)
        what()
        assert len(edge.sent) - before <= BATCH
        assert len(edge.wished) <= 1
    assert len(edge.sent) == 600 * MOST_OF_ONE


def test_a_repeated_search_is_answered_once() -> None:
    edge = Edge()
    for _ in range(10):
        edge.ask(seconds=0.1)
    edge.run(6)
    assert len(edge.sent) == 3


def test_a_flood_of_searches_is_bounded() -> None:
    edge = Edge()
    for number in range(1000):
        edge.ask(source=("127.0.0.1", 1 + number), seconds=0)
    for number in range(1000):
        edge.ask(source=(f"127.1.{number % 250}.1", 9), seconds=0)
    edge.run(6)
    assert len({to for _, to, _, _, _ in edge.sent}) == MOST_SEARCHES
    assert len({to for _, to, _, _, _ in edge.sent if to[0] == "127.0.0.1"}) == MOST_OF_ONE
    assert len(edge.sent) == 3 * MOST_SEARCHES
    assert edge.ask() == addresses(edge)


def test_a_search_of_the_group_that_does_not_say_how_long_it_waits_is_ignored(edge: Edge) -> None:
    assert edge.ask(search(MX=None)) == []
    assert edge.ask(search(MX="0")) == []


def test_nothing_goes_to_port_0(edge: Edge) -> None:
    assert edge.ask(source=("127.0.0.1", 0)) == []


def test_a_search_of_one_address_is_answered_at_once_by_the_bmc_there(edge: Edge) -> None:
    one = edge.bmcs[1].address
    assert edge.ask(search(HOST=f"{one}:1900", MX=None), dialled=one, seconds=0) == [one]
    assert edge.ask(search(HOST=None), dialled=one, seconds=0) == [one]
    assert edge.ask(search(HOST=None), dialled="127.0.0.1") == []
    edge.refuses = OSError("no route")
    assert edge.ask(search(HOST=None), dialled=one) == []


def test_a_full_socket_delays_an_answer_and_loses_none(edge: Edge) -> None:
    edge.room = 1
    assert len(edge.ask(search(MX="1"), seconds=2)) == 1
    edge.room = 10
    edge.run(0.1)
    assert [one[0] for one in edge.sent] == addresses(edge)


def test_a_searcher_that_cannot_be_reached_is_given_up(edge: Edge) -> None:
    edge.refuses = OSError("no route")
    assert edge.ask() == []
    assert not edge.wished
    edge.refuses = None
    assert edge.ask() == addresses(edge)


def test_while_the_fleet_is_built_those_answer_that_are_there(edge: Edge) -> None:
    edge.fleet.ready = False
    assert edge.ask() == addresses(edge)
    assert edge.ask(search(HOST=None), dialled="127.64.0.99") == []


def test_noise_is_ignored(edge: Edge) -> None:
    assert edge.ask(b"\xff" * 100) == []
    assert parse_search(b"\xff" * 100) is None
