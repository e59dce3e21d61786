"""Rows of public bug reports about how much one BMC takes."""

from bmcsim.fleet.build import Builder
from bmcsim.fleet.conduct import fault_rules
from bmcsim.fleet.config import parse
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from tests.conftest import Client, header, message_ids, with_facts

_SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
_FILE = """
host_bmc_password = "Rotated-1"
[bmcsim]
behaviour = { request_limit = 4 }
[machines.host]
host_count = 3
[bmcs.host-1]
behaviour = { request_limit = 2, request_rate = 8, connection_limit = 100 }
"""


def limited(client: Client, **facts: float) -> Client:
    """The BMC as a fleet file makes it that limits it."""
    with_facts(client, **facts)
    shared = client.bmc.shared
    client.bmc = Bmc(client.bmc.id, client.bmc.identity, client.bmc.address, shared, client.bmc.state)
    return client


def test_n55_a_fleet_file_limits_all_or_one() -> None:
    fleet = Fleet()
    for _ in Builder(parse(_FILE, "fleet.toml"), Hasher(), 0.0).populate(fleet):
        pass
    facts = {bmc.id: bmc.shared.behaviour for bmc in fleet}
    assert [facts[f"host-{n}"].request_limit for n in range(3)] == [4, 2, 4]
    assert [facts[f"host-{n}"].connection_limit for n in range(3)] == [None, 100, None]
    assert facts["host-1"].request_rate == 8
    assert all(bmc.load is not None for bmc in fleet)


def test_n55_more_in_flight_than_one_bmc_takes_is_503_and_others_do_not_care(host: Client, dpu: Client) -> None:
    """N55: collectors together exceed what one BMC takes; each BMC counts for itself."""
    slow, other = limited(host, request_limit=4), limited(dpu, request_limit=4)
    two_seconds = fault_rules(
        [{"id": "slow", "selector": {"Path": {"glob": "/redfish/v1/**"}}, "action": {"Latency": {"mean": "2s"}}}]
    )
    for client in (slow, other):
        client.bmc.become(client.clock.now(), faults=two_seconds)
        client.bmc.committed()
    answers = [slow.request("GET", _SYSTEM) for _ in range(6)]
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 503, 503]
    assert (message_ids(answers[-1]), header(answers[-1], "Retry-After")) == (["ServiceTemporarilyUnavailable"], "2")
    assert answers[-1].delivery is None
    assert other.request("GET", "/redfish/v1").status == 200
    slow.advance(2)
    assert slow.request("GET", _SYSTEM).status == 200


def test_n55_a_rate_is_kept_whatever_is_asked(host: Client) -> None:
    client = limited(host, request_rate=3)
    asked = [("GET", _SYSTEM), ("GET", "/redfish/v1"), ("HEAD", _SYSTEM), ("PATCH", _SYSTEM), ("GET", "/nowhere")]
    assert [client.request(*one).status == 503 for one in asked] == [False, False, False, True, True]
    client.advance(1)
    assert client.request("GET", _SYSTEM).status == 200


def test_n55_the_interface_for_faults_is_not_of_the_bmc_and_has_no_limit(host: Client) -> None:
    client = limited(host, request_rate=1)
    assert [client.request("GET", "/Injection/rules").status for _ in range(3)] == [200, 200, 200]


def test_n55_without_a_limit_the_short_way_stays(host: Client) -> None:
    """No cost where nothing is limited: the caller is remembered, and nothing is counted."""
    host.get(_SYSTEM)
    assert host.bmc.basic_header
    assert host.bmc.load is None
