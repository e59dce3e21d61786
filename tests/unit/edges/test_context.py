"""What every lane does with a request: who is asked to commit, and when."""

import orjson
import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.edges.http.context import Context, Dropped, Known
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import parse
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.journal import Done, NotEncodable, NotSaved
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.power import Power
from bmcsim.redfish.exchange import Head, Request, Response
from tests.conftest import basic, make_client

ACCOUNT_SERVICE = "/redfish/v1/AccountService"
RESET = "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset"
FLEET = """
host_bmc_password = "P"
[bmcsim]
lockout = { threshold = 1 }
[machines.a]
host_count = 1
dpu_per_host_count = 2
"""


class Edge:
    """A context with a host, and who was asked to be committed."""

    def __init__(self, *, stores: bool) -> None:
        self.clock, fleet = ManualClock(), Fleet()
        for _ in Builder(parse(FLEET, "fleet.toml"), Hasher(b"k" * 32), 0.0).populate(fleet):
            pass
        self.driver = Driver(self.clock)
        self.context = Context(fleet, self.driver, self.clock)
        self.bmcs = list(fleet)
        self.host = self.bmcs[0]
        self.asked: list[Bmc] = []
        if stores:
            self.context.commit = self.commit

    def commit(self, bmc: Bmc, done: Done) -> None:
        """Take note, and commit at once."""
        self.asked.append(bmc)
        for one in (bmc, *bmc.dpus):
            one.committed()
        done(None)

    def request(self, path: str, body: object, password: str) -> Request:
        """A POST to the host."""
        head = Head(basic("root", password), content_type=b"application/json")
        return Request("POST", path, self.clock.now(), head, "", orjson.dumps(body))


def test_without_a_store_a_command_to_a_host_leaves_nothing_uncommitted_in_its_dpus() -> None:
    edge = Edge(stores=False)
    bmc, response, waits = edge.context.answer(
        {}, edge.host.address, edge.request(RESET, {"ResetType": "ForceOff"}, "P")
    )
    assert waits
    edge.context.settle(bmc, response, lambda _: None)
    assert [one.power for one in edge.bmcs] == [Power.OFF] * 3
    assert [one.uncommitted for one in edge.bmcs] == [None] * 3


def test_a_login_that_is_refused_before_its_body_is_read_is_committed_too() -> None:
    for stores in (True, False):
        edge = Edge(stores=stores)
        plan = edge.context.admit({}, edge.host.address, edge.request(RESET, {}, "wrong"), 20)
        assert isinstance(plan, Response)
        assert plan.status == 401
        assert edge.host.locked("root", edge.clock.now())
        assert edge.host.uncommitted is None
        assert edge.asked == ([edge.host] if stores else [])


def test_a_change_that_no_disk_could_take_is_a_fault_of_ours_and_a_full_one_is_not() -> None:
    for error, status in ((NotEncodable("x"), 500), (NotSaved("x"), 507)):
        edge = Edge(stores=False)

        def refuse(bmc: Bmc, done: Done, error: NotSaved = error) -> None:
            bmc.committed()
            done(error)

        edge.context.commit = refuse
        request = edge.request(RESET, {"ResetType": "ForceOff"}, "P")
        bmc, response, _ = edge.context.answer({}, edge.host.address, request)
        answers: list[Response] = []
        edge.context.settle(bmc, response, answers.append)
        assert [answer.status for answer in answers] == [status]


def test_the_only_bmc_is_remembered_with_a_header_block_until_there_is_another_one() -> None:
    clock, fleet = ManualClock(), Fleet()
    first, second = make_client("bluefield3").bmc, make_client("bluefield3", index=1).bmc
    fleet.add(first)
    context = Context(fleet, Driver(clock), clock)
    known = Known(Head(), {b"host": second.address.encode()})
    with pytest.raises(Dropped):
        context.route_known(known, "127.0.0.1")
    fleet.ready = True
    assert context.route_known(known, "127.0.0.1") is first
    assert known.bmc is first
    fleet.add(second)
    assert context.route_known(known, "127.0.0.1") is second
