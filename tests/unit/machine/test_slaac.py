"""IPv6 addresses out of MACs, and MACs out of IPv6 addresses."""

from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine.slaac import Slaac, interface_id, mac_of

PLAN = Slaac(IPv6Network("fd00:64::/64"), "fd00:64::1")
MACS = st.integers(0, 2**48 - 1)


def test_the_interface_id_is_that_of_rfc_4291_and_of_recorded_hardware() -> None:
    assert f"{interface_id(0x34567890ABCD):016x}" == "365678fffe90abcd"
    # A GB200's eth0, and a BlueField-3's.
    assert PLAN.addresses(0x3C6D660EDBDC)[1] == "fe80::3e6d:66ff:fe0e:dbdc"
    assert PLAN.addresses(0x5C257308F377)[1] == "fe80::5e25:73ff:fe08:f377"


@given(MACS)
def test_a_mac_comes_back_from_both_of_its_addresses(mac: int) -> None:
    assert mac_of(interface_id(mac)) == mac
    own, local = PLAN.addresses(mac)
    assert PLAN.mac(own) == PLAN.mac(local) == PLAN.mac(f"{local}%eth0") == mac
    assert PLAN.mac(IPv6Address(own).exploded.upper()) == mac


@given(st.integers(0, 2**64 - 1))
def test_an_interface_id_is_that_of_one_mac_or_of_none(identifier: int) -> None:
    mac = mac_of(identifier)
    assert mac is None or interface_id(mac) == identifier


@pytest.mark.parametrize(
    "address",
    ["fd00:65::200:ff:fe00:1", "fd00:64::1", "fe80:0:0:1:0:ff:fe00:1", "127.64.0.2", "host", "", "fd00:64::g", "%eth0"],
)
def test_no_mac_has_an_address_of_another_network_or_form(address: str) -> None:
    assert PLAN.mac(address) is None
