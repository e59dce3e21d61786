"""BMCs that move: which address they are at, which is kept for them, and who is found where."""

import logging
from ipaddress import IPv6Network
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.errors import RedfishError
from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import ConfigError, parse
from bmcsim.fleet.registry import Absent, DuplicateBmc, Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.dhcp.messages import Port
from bmcsim.machine.slaac import Slaac
from bmcsim.machine.state import State
from tests.conftest import Client, make_client
from tests.unit.redfish.conftest import MANAGER

OWN = MANAGER + "/EthernetInterfaces/eth0"
FREE = "10.9.0.7"
PLAN = Slaac(IPv6Network("fd00:64::/64"))
SHELVES = '[machines.shelf]\nhw_type = "delta_power_shelf"\nhost_count = 3\n'
SHELF = "/redfish/v1/Managers/SMC/EthernetInterfaces/eth0"


def static(address: str) -> dict[str, Any]:
    """What a client writes to move a BMC."""
    element = {"Address": address, "SubnetMask": "255.255.255.0", "Gateway": "0.0.0.0"}
    return {"DHCPv4": {"DHCPEnabled": False}, "IPv4StaticAddresses": [element]}


class Leases:
    """Writes down what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def restart(self, bmc: Bmc, port: Port) -> None:
        self.asked.append(("restart", bmc.id, port))

    def stop(self, bmc: Bmc, port: Port, *, keep: bool = False, release: bool = False) -> None:
        self.asked.append(("stop", bmc.id, port, keep, release))

    def sync(self, bmc: Bmc) -> None:
        raise AssertionError(bmc)


def fleet_of(count: int, leases: Leases | None = None) -> tuple[Fleet, list[Client]]:
    """BMCs 192.0.2.1, 192.0.2.2, ... whose drivers move them."""
    fleet = Fleet()
    clients = [make_client("bluefield3", index=index) for index in range(count)]
    for client in clients:
        bmc = client.bmc
        network = msgspec.structs.replace(bmc.shared.network, taken=fleet.taken)
        bmc.shared = msgspec.structs.replace(bmc.shared, network=network)
        client.driver.readdress = lambda bmc: readdress(fleet, bmc, leases)
        fleet.add(bmc)
    fleet.ready = True
    return fleet, clients


def move(client: Client, address: str) -> int:
    """Move a BMC; the status of the answer."""
    return client.request("PATCH", OWN, static(address)).status


def back(client: Client) -> int:
    """Let a BMC go back to DHCP; the status of the answer."""
    return client.request("PATCH", OWN, {"DHCPv4": {"DHCPEnabled": True}}).status


def test_a_bmc_that_moves_is_at_its_new_address_and_absent_at_the_old_one() -> None:
    fleet, (first, second) = fleet_of(2)
    version, left = fleet.version, list[str]()
    fleet.vacated = left.append
    assert move(first, FREE) == 204
    assert (first.bmc.address, left) == (FREE, ["192.0.2.1"])
    assert fleet.version > version
    assert fleet.route(b"", FREE.encode(), "") is fleet.route(b"", b"", FREE) is first.bmc
    assert fleet.route(f"host={FREE}".encode(), b"", "") is first.bmc
    for names in ((b"host=192.0.2.1", b"", ""), (b"", b"192.0.2.1:1266", ""), (b"", b"", "192.0.2.1")):
        with pytest.raises(Absent):
            fleet.route(*names)
    # An old address in Host is not taken for whoever was dialled.
    with pytest.raises(Absent):
        fleet.route(b"", b"192.0.2.1", "192.0.2.2")
    assert fleet.route(b"", b"", "192.0.2.2") is second.bmc


@pytest.mark.parametrize("leases", [None, Leases()])
def test_a_bmc_that_was_removed_while_it_moved_is_nowhere(leases: Leases | None) -> None:
    fleet, (first, _) = fleet_of(2, leases)
    first.driver.readdress = None
    assert move(first, FREE) == 204
    fleet.remove(first.bmc)
    readdress(fleet, first.bmc, leases)
    assert (fleet.by_address(FREE), first.bmc.address) == (None, "")
    assert leases is None or leases.asked == []


def test_the_only_bmc_of_a_fleet_does_not_answer_where_it_was() -> None:
    fleet, (only,) = fleet_of(1)
    assert [move(only, address) for address in (FREE, "10.9.0.8")] == [204, 204]
    for left in ("192.0.2.1", FREE):
        with pytest.raises(Absent):
            fleet.route(b"", b"", left)
    assert fleet.route(b"", b"localhost", "127.0.0.1") is only.bmc


def test_a_bmc_that_goes_back_has_its_planned_address_however_often_it_moved() -> None:
    fleet, (first, _) = fleet_of(2)
    assert [move(first, address) for address in (FREE, "10.9.0.8")] == [204, 204]
    assert back(first) == 204
    assert fleet.route(b"", b"192.0.2.1", "") is first.bmc
    assert fleet.by_address("10.9.0.8") is None
    assert not fleet.is_vacant("192.0.2.1")


def test_no_bmc_takes_the_address_of_another_one_nor_one_that_is_kept_for_it() -> None:
    fleet, (first, second) = fleet_of(2)
    assert move(first, "192.0.2.2") == 400
    assert move(first, FREE) == 204
    assert [move(second, taken) for taken in (FREE, "192.0.2.1")] == [400, 400]
    assert (first.bmc.address, second.bmc.address) == (FREE, "192.0.2.2")
    # Its own address is free to itself, by whichever way it has it.
    assert move(first, "192.0.2.1") == 204
    assert (fleet.by_address("192.0.2.1"), fleet.is_vacant("192.0.2.1")) == (first.bmc, False)
    assert move(second, FREE) == 204


def test_an_unused_static_address_that_another_bmc_took_is_refused_when_it_is_to_be_used() -> None:
    fleet, (first, second) = fleet_of(2)
    assert [move(first, FREE), back(first), move(second, FREE)] == [204, 204, 204]
    assert back(first) == 204
    off = {"DHCPv4": {"DHCPEnabled": False}}
    assert first.request("PATCH", OWN, off).status == 400
    assert back(second) == 204
    assert first.request("PATCH", OWN, off).status == 204
    assert fleet.by_address(FREE) is first.bmc


def test_of_two_bmcs_that_want_one_address_at_once_the_second_stays(caplog: pytest.LogCaptureFixture) -> None:
    fleet, (first, second) = fleet_of(2)
    second.driver.readdress = None
    assert move(second, FREE) == 204
    assert move(first, FREE) == 204
    with caplog.at_level(logging.WARNING):
        readdress(fleet, second.bmc)
    assert (first.bmc.address, second.bmc.address) == (FREE, "192.0.2.2")
    assert [record.getMessage() for record in caplog.records] == [
        "bmc-1 does not use its static address 10.9.0.7, which is another BMC's"
    ]


def test_a_bmc_that_the_pool_had_no_address_for_can_be_given_one_and_loses_it_again() -> None:
    fleet, (only,) = fleet_of(1)
    fleet.unbind(only.bmc)
    assert [move(only, address) for address in (FREE, "10.9.0.8")] == [204, 204]
    assert fleet.by_address("10.9.0.8") is only.bmc
    assert back(only) == 204
    assert (only.bmc.address, fleet.by_address("10.9.0.8")) == ("", None)


def test_where_other_processes_have_bmcs_no_other_address_can_be_checked() -> None:
    fleet, (first,) = fleet_of(1)
    fleet.elsewhere = {"192.0.2.9"}
    assert [move(first, address) for address in ("192.0.2.9", FREE)] == [400, 400]
    assert move(first, "192.0.2.1") == 204


def test_a_client_of_dhcp_stops_for_a_static_address_and_starts_again_after_it() -> None:
    leases = Leases()
    fleet, (first, _) = fleet_of(2, leases)
    assert move(first, FREE) == 204
    assert fleet.by_address(FREE) is first.bmc
    assert back(first) == 204
    assert (first.bmc.address, fleet.by_address(FREE)) == ("", None)
    assert leases.asked == [("stop", "bmc-0", Port.BMC, False, True), ("restart", "bmc-0", Port.BMC)]


def test_binding_says_who_has_the_address_and_changes_nothing_then() -> None:
    fleet, (first, second) = fleet_of(2)
    version = fleet.version
    with pytest.raises(DuplicateBmc, match=r"bmc-0 and bmc-1 both have the address 192\.0\.2\.2"):
        fleet.bind(first.bmc, "192.0.2.2")
    assert (fleet.version, first.bmc.address) == (version, "192.0.2.1")
    fleet.bind(first.bmc, "192.0.2.1")
    assert fleet.version == version
    fleet.unbind(second.bmc)
    fleet.unbind(second.bmc)
    assert (second.bmc.address, fleet.version) == ("", version + 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", FREE, "192.0.2.1", "192.0.2.2", "192.0.2.3"]))))
@settings(max_examples=30, deadline=None)
def test_whatever_moves_every_bmc_is_found_where_it_is_and_only_there(moves: list[tuple[int, str]]) -> None:
    fleet, clients = fleet_of(3)
    for number, address in moves:
        before = clients[number].bmc.address
        status = move(clients[number], address) if address else back(clients[number])
        assert status == 204 or (address and clients[number].bmc.address == before)
        addresses = [client.bmc.address for client in clients]
        assert len(set(addresses)) == 3
        assert [fleet.by_address(one) for one in addresses] == [client.bmc for client in clients]
        for planned in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
            assert fleet.is_vacant(planned) is (planned not in addresses)
    for client in clients:
        back(client)
    assert [client.bmc.address for client in clients] == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]


# IPv6


@pytest.mark.parametrize(
    "host",
    [
        "[fd00:64::ff:fe00:1]:1266",
        "[FD00:0064:0:0:0000:00FF:FE00:0001]",
        "fd00:64::ff:fe00:1",
        "[fe80::ff:fe00:1%25eth0]:1266",
        "[fe80::ff:fe00:1]",
    ],
)
def test_a_bmc_is_found_by_the_addresses_of_its_mac_in_any_spelling(host: str) -> None:
    fleet, (first, _) = fleet_of(2)
    forwarded = f'for=x;host="{host}"'.encode()
    assert fleet.names(first.bmc, b"", host.encode()) is fleet.names(first.bmc, forwarded, b"") is False
    fleet.slaac = PLAN
    assert fleet.route(b"", host.encode(), "192.0.2.2") is first.bmc
    assert fleet.route(forwarded, b"", "192.0.2.2") is first.bmc


def test_a_bmc_is_found_by_the_ipv6_address_that_was_dialled_wherever_its_ipv4_address_is() -> None:
    fleet, (_, second) = fleet_of(2)
    fleet.slaac = PLAN
    assert move(second, FREE) == 204
    own, local = PLAN.addresses(second.bmc.identity.bmc_mac)
    assert fleet.route(b"", b"", own) is fleet.route(b"", b"bmc.example", f"{local}%lo") is second.bmc


@pytest.mark.parametrize("host", [b"[fd00:64::1]", b"[fd00:64::ff:fe99:1]", b"[fd00:65::ff:fe00:1]", b"[::1]"])
def test_an_ipv6_address_of_no_bmc_is_nobody_s(host: bytes) -> None:
    fleet, _ = fleet_of(2)
    fleet.slaac = PLAN
    with pytest.raises(RedfishError) as error:
        fleet.route(b"", host, "")
    assert error.value.status == 404


# from the fleet file


def states(fleet: Fleet) -> dict[str, State]:
    """What a store would have of its BMCs."""
    return {bmc.id: bmc.state for bmc in fleet}


def built(text: str, kept: dict[str, State] | None = None) -> Fleet:
    """The fleet of a file. kept: states from before."""
    fleet = Fleet()
    restore = None if kept is None else lambda bmc: kept.get(bmc.id)
    for _ in Builder(parse(text, "fleet.toml"), Hasher(b"k" * 32), 0.0, restore).populate(fleet):
        pass
    return fleet


def given_static(fleet: Fleet, id_: str, address: str) -> dict[str, State]:
    """The states of a fleet in which a client moved a BMC."""
    bmc = fleet.by_id(id_)
    assert bmc is not None
    bmc.change(bmc.tree.nodes[SHELF], static(address), make_client("delta_power_shelf").clock.now())
    return states(fleet)


def test_a_static_address_is_there_after_a_restart_and_the_planned_one_is_kept() -> None:
    fleet = built(SHELVES, given_static(built(SHELVES), "shelf-1", FREE))
    moved = fleet.by_id("shelf-1")
    assert moved is not None
    assert fleet.by_address(FREE) is moved
    assert fleet.is_vacant("127.64.0.3")
    moved.restore(msgspec.structs.replace(moved.state, changes={}))
    readdress(fleet, moved)
    assert fleet.by_address("127.64.0.3") is moved


def test_a_static_address_that_the_plan_now_gives_to_another_bmc_is_not_used() -> None:
    kept = given_static(built(SHELVES), "shelf-1", "127.64.0.5")
    larger = SHELVES.replace("host_count = 3", "host_count = 4")
    fleet = built(larger, kept)
    assert {bmc.id: bmc.address for bmc in fleet} == {f"shelf-{n}": f"127.64.0.{n + 2}" for n in range(4)}


def test_the_interface_shows_the_network_of_the_pool() -> None:
    pool = 'dhcp = {type = "pool", prefix = "10.8.0.0/20", gateway = "10.8.0.9", prefix6 = "fd00:64::/64"}\n'
    fleet = built(pool + SHELVES)
    client = make_client("delta_power_shelf")
    found = fleet.by_address("10.8.0.2")
    assert found is not None
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, network=found.shared.network)
    shown = client.get(SHELF)
    assert (shown["IPv4Addresses"][0]["SubnetMask"], shown["IPv4Addresses"][0]["Gateway"]) == (
        "255.255.240.0",
        "10.8.0.9",
    )
    assert [one["AddressOrigin"] for one in shown["IPv6Addresses"]] == ["SLAAC", "LinkLocal"]
    own, _ = PLAN.addresses(found.identity.bmc_mac)
    assert fleet.by_address(own) is found


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('prefix6 = "fd00:64::/48"', "dhcp.prefix6: must be an IPv6 prefix of unicast addresses with 64 bits"),
        ('prefix6 = "fd00:64::1/64"', "dhcp.prefix6"),
        ('prefix6 = "fe80::/64"', "dhcp.prefix6"),
        ('prefix6 = "ff02::/64"', "dhcp.prefix6"),
        ("prefix6 = 6", "dhcp.prefix6"),
        ('prefix6 = "fd00:64::/64", gateway6 = "10.0.0.1"', "dhcp.gateway6: must be an IPv6 address"),
        ('prefix6 = "fd00:64::/64", gateway6 = "::"', "dhcp.gateway6"),
        ('gateway6 = "fe80::1"', "dhcp.gateway6: says nothing without prefix6"),
    ],
)
def test_a_wrong_ipv6_plan_is_refused_by_its_key(keys: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(f'dhcp = {{type = "pool", {keys}}}\n{SHELVES}', "fleet.toml")
