"""The management interface: what it shows of the addresses of its BMC, and how clients set them."""

from ipaddress import IPv6Network
from typing import Any

import msgspec
import pytest

from bmcsim.machine.actions import Readdress
from bmcsim.machine.dhcp.messages import Lease, Port
from bmcsim.machine.slaac import Slaac
from tests.conftest import Client, make_client, message_ids, profiles_where
from tests.unit.redfish.conftest import MANAGER, PROTOCOL

OWN = MANAGER + "/EthernetInterfaces/eth0"
STATIC = {"Address": "10.9.0.7", "SubnetMask": "255.255.254.0", "Gateway": "10.9.0.1"}
MOVE = {"DHCPv4": {"DHCPEnabled": False}, "IPv4StaticAddresses": [STATIC]}
LEASE = Lease(
    "10.1.2.3",
    prefix=22,
    gateway="10.1.0.1",
    name_servers=("10.1.0.53", "10.1.0.54"),
    host_name="rack-7-bmc",
    domain="example.net",
    mtu=9000,
)


def movable(**network: Any) -> Client:
    """A BlueField-3 whose address follows what it is told, as in a fleet."""
    client = make_client("bluefield3")
    bmc = client.bmc
    bmc.shared = msgspec.structs.replace(bmc.shared, network=msgspec.structs.replace(bmc.shared.network, **network))
    return client


def leased(client: Client, lease: Lease = LEASE) -> Client:
    """The same BMC with a lease."""
    client.bmc.become(client.clock.now(), leases={Port.BMC: lease})
    client.bmc.committed()
    client.bmc.address = lease.address
    return client


def effects(client: Client, body: Any, uri: str = OWN) -> list[Any]:
    """What a PATCH that succeeds sets in motion, beside events."""
    response = client.request("PATCH", uri, body)
    assert response.status == 204, response.body
    return list(response.actions)


@pytest.mark.parametrize("profile", profiles_where(lambda tree: tree.interface))
def test_every_profile_shows_where_its_bmc_is(profile: str) -> None:
    client = make_client(profile)
    shown = client.get(client.bmc.tree.interface)
    assert shown["IPv4Addresses"] == [
        {"Address": "192.0.2.1", "AddressOrigin": "DHCP", "SubnetMask": "255.255.255.0", "Gateway": "0.0.0.0"}
    ]
    assert shown["MACAddress"].replace(":", "") == f"{client.bmc.identity.bmc_mac:012X}"
    assert (shown["IPv6Addresses"], shown["NameServers"], shown["MTUSize"]) == ([], [], 1500)
    assert (
        shown["FQDN"]
        == shown["HostName"]
        == client.get(f"{client.bmc.tree.head.roles.manager}/NetworkProtocol")["HostName"]
    )


def test_every_profile_that_comes_along_says_which_interface_that_is() -> None:
    assert profiles_where(lambda tree: not tree.interface) == []


def test_an_interface_without_an_address_shows_none() -> None:
    client = movable()
    before = client.get(OWN)["@odata.etag"]
    client.bmc.address = ""
    assert client.get(OWN)["IPv4Addresses"] == []
    assert client.get(OWN)["@odata.etag"] != before


def test_a_lease_is_shown_at_once_with_all_that_came_with_it() -> None:
    client = movable()
    before = client.get(OWN)["@odata.etag"]
    shown = leased(client).get(OWN)
    assert shown["@odata.etag"] != before
    assert shown["IPv4Addresses"] == [
        {"Address": "10.1.2.3", "AddressOrigin": "DHCP", "SubnetMask": "255.255.252.0", "Gateway": "10.1.0.1"}
    ]
    assert shown["NameServers"] == ["10.1.0.53", "10.1.0.54"]
    assert (shown["MTUSize"], shown["HostName"], shown["FQDN"]) == (9000, "rack-7-bmc", "rack-7-bmc.example.net")
    protocol = client.get(PROTOCOL)
    assert (protocol["HostName"], protocol["FQDN"]) == ("rack-7-bmc", "rack-7-bmc.example.net")


def test_a_lease_without_details_leaves_the_rest_as_the_profile_has_it() -> None:
    shown = leased(movable(), Lease("10.1.2.3")).get(OWN)
    assert shown["IPv4Addresses"][0]["SubnetMask"] == "255.255.255.0"
    assert (shown["MTUSize"], shown["HostName"], shown["FQDN"]) == (1500, "dpu-bmc", "dpu-bmc")


def test_what_a_lease_says_about_names_is_used_as_far_as_the_client_wants() -> None:
    client = leased(movable())
    facts = {"UseDNSServers": False, "UseDomainName": False}
    assert effects(client, {"DHCPv4": facts, "StaticNameServers": ["192.0.2.53"]}) == []
    shown = client.get(OWN)
    assert (shown["NameServers"], shown["FQDN"]) == (["192.0.2.53"], "rack-7-bmc")
    assert effects(client, {"DHCPv4": {"UseDNSServers": True}}) == []
    assert client.get(OWN)["NameServers"] == ["192.0.2.53", "10.1.0.53", "10.1.0.54"]


def test_a_static_address_is_for_the_driver_to_carry_out() -> None:
    client = movable()
    assert effects(client, MOVE) == [Readdress()]
    shown = client.get(OWN)
    assert shown["IPv4StaticAddresses"] == [{**STATIC, "AddressOrigin": "Static"}]
    assert shown["IPv4Addresses"][0]["Address"] == "192.0.2.1"
    client.bmc.address = STATIC["Address"]
    assert client.get(OWN)["IPv4Addresses"] == [{**STATIC, "AddressOrigin": "Static"}]
    assert effects(client, {"DHCPv4": {"DHCPEnabled": True}}) == [Readdress()]
    assert client.get(OWN)["IPv4StaticAddresses"] == [{**STATIC, "AddressOrigin": "Static"}]


def test_a_static_address_hides_the_lease_that_was_there() -> None:
    client = leased(movable())
    effects(client, MOVE)
    client.bmc.address = STATIC["Address"]
    shown = client.get(OWN)
    assert shown["IPv4Addresses"] == [{**STATIC, "AddressOrigin": "Static"}]
    assert (shown["NameServers"], shown["HostName"], shown["MTUSize"]) == ([], "dpu-bmc", 1500)


def test_the_driver_is_told_after_the_answer_and_only_where_an_address_changes() -> None:
    client = movable()
    told: list[str] = []
    client.driver.readdress = lambda bmc: told.append(bmc.id)
    client.request("PATCH", OWN, {"IPv4StaticAddresses": [STATIC]})
    client.request("PATCH", OWN, {"DHCPv4": {"UseNTPServers": False}})
    assert told == []
    client.request("PATCH", OWN, {"DHCPv4": {"DHCPEnabled": False}})
    assert told == ["bmc-0"]
    client.request("PATCH", OWN, {"IPv4StaticAddresses": [{"Gateway": "10.9.0.2"}]})
    assert told == ["bmc-0", "bmc-0"]
    client.request("PATCH", OWN, MOVE | {"IPv4StaticAddresses": [{"Gateway": "10.9.0.2"}]})
    assert told == ["bmc-0", "bmc-0"]


def with_static(**changed: Any) -> dict[str, Any]:
    """A move in which something is wrong; None leaves it out."""
    element = {name: value for name, value in {**STATIC, **changed}.items() if value is not None}
    return {**MOVE, "IPv4StaticAddresses": [element]}


@pytest.mark.parametrize(
    ("body", "message", "related"),
    [
        (with_static(Address="10.9.0.256"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="10.9.0.07"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="fd00::7"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="224.0.0.9"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="0.0.0.0"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="255.255.255.255"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Address"),
        (with_static(Address=7), "PropertyValueTypeError", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="1" * 16), "StringValueTooLong", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="10.9.0.0"), "PropertyValueConflict", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="10.9.1.255"), "PropertyValueConflict", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="10.9.0.1"), "PropertyValueConflict", "IPv4StaticAddresses/0/Address"),
        (with_static(Address="10.9.0.99"), "PropertyValueResourceConflict", "IPv4StaticAddresses/0/Address"),
        (with_static(Address=None), "PropertyMissing", "IPv4StaticAddresses/0/Address"),
        (with_static(SubnetMask="255.0.255.0"), "PropertyValueFormatError", "IPv4StaticAddresses/0/SubnetMask"),
        (with_static(SubnetMask="0.0.0.0"), "PropertyValueFormatError", "IPv4StaticAddresses/0/SubnetMask"),
        (with_static(SubnetMask="0.0.0.255"), "PropertyValueFormatError", "IPv4StaticAddresses/0/SubnetMask"),
        (with_static(SubnetMask="/23"), "PropertyValueFormatError", "IPv4StaticAddresses/0/SubnetMask"),
        (with_static(SubnetMask=None), "PropertyMissing", "IPv4StaticAddresses/0/SubnetMask"),
        (with_static(Gateway="gateway"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Gateway"),
        (with_static(Gateway="239.1.1.1"), "PropertyValueFormatError", "IPv4StaticAddresses/0/Gateway"),
        (with_static(AddressOrigin="DHCP"), "PropertyValueNotInList", "IPv4StaticAddresses/0/AddressOrigin"),
        ({**MOVE, "IPv4StaticAddresses": [STATIC, STATIC]}, "ArraySizeTooLong", "IPv4StaticAddresses"),
        ({"DHCPv4": {"DHCPEnabled": False}}, "PropertyValueConflict", "DHCPv4/DHCPEnabled"),
        ({"DHCPv4": {"DHCPEnabled": "no"}}, "PropertyValueTypeError", "DHCPv4/DHCPEnabled"),
        ({"StaticNameServers": ["192.0.2.53", "ns"]}, "PropertyValueFormatError", "StaticNameServers/1"),
        ({"IPv4Addresses": [STATIC]}, "PropertyNotWritable", "IPv4Addresses"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(body: Any, message: str, related: str) -> None:
    client = movable(taken=lambda address, mac: address == "10.9.0.99" and mac == 0x020000000001)
    before = client.get(OWN)
    response = client.request("PATCH", OWN, body)
    assert (response.status, message_ids(response)) == (400, [message]), response.body
    assert f'"#/{related}"'.encode() in response.body
    assert (client.get(OWN), response.actions) == (before, ())
    assert client.bmc.uncommitted is None


@pytest.mark.parametrize("mask", ["255.255.255.254", "255.255.255.255"])
def test_a_point_to_point_link_has_no_broadcast_address(mask: str) -> None:
    client = movable()
    assert effects(client, with_static(Address="10.9.0.7", SubnetMask=mask, Gateway="0.0.0.0")) == [Readdress()]


def test_the_address_in_use_cannot_be_taken_away() -> None:
    client = movable()
    effects(client, MOVE)
    for gone in ([], [None]):
        response = client.request("PATCH", OWN, {"IPv4StaticAddresses": gone})
        assert (response.status, message_ids(response)) == (400, ["PropertyValueConflict"])
    assert effects(client, {"DHCPv4": {"DHCPEnabled": True}, "IPv4StaticAddresses": []}) == [Readdress()]
    assert client.get(OWN)["IPv4StaticAddresses"] == []


@pytest.mark.parametrize(
    ("kept", "moves"), [("ResetAll", True), ("PreserveNetwork", False), ("PreserveNetworkAndUsers", False)]
)
def test_a_factory_reset_goes_back_to_dhcp_unless_it_keeps_the_network(kept: Any, moves: bool) -> None:
    client = movable()
    effects(client, MOVE)
    actions = client.bmc.factory_reset(kept, client.clock.now())
    assert (Readdress() in actions) is moves
    assert client.bmc.setting(OWN, "DHCPv4")["DHCPEnabled"] is moves


def test_an_ipv6_plan_is_shown_with_both_addresses_of_the_mac() -> None:
    shown = movable(slaac=Slaac(IPv6Network("fd00:64::/64"), "fd00:64::1")).get(OWN)
    common = {"AddressState": "Preferred", "PrefixLength": 64}
    assert shown["IPv6Addresses"] == [
        {"Address": "fd00:64::ff:fe00:1", "AddressOrigin": "SLAAC", **common},
        {"Address": "fe80::ff:fe00:1", "AddressOrigin": "LinkLocal", **common},
    ]
    assert shown["IPv6DefaultGateway"] == "fd00:64::1"
    assert shown["StatelessAddressAutoConfig"] == {"IPv6AutoConfigEnabled": True}
    assert shown["DHCPv6"] == {"OperatingMode": "Disabled"}


def test_without_an_ipv6_gateway_there_is_no_address_that_means_none() -> None:
    assert movable().get(OWN)["IPv6DefaultGateway"] is None
    assert movable(slaac=Slaac(IPv6Network("fd00:64::/64"))).get(OWN)["IPv6DefaultGateway"] is None


def test_an_idrac_that_is_locked_down_keeps_its_address() -> None:
    client = make_client("dell_poweredge_r750")
    attributes = {"Attributes": {"Lockdown.1.SystemLockdown": "Enabled"}}
    own = client.bmc.tree.head.roles.manager
    assert client.request("PATCH", f"{own}/Oem/Dell/DellAttributes/iDRAC.Embedded.1", attributes).status == 204
    assert client.request("PATCH", client.bmc.tree.interface, MOVE).status == 403
