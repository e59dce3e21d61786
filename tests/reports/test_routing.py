"""Rows of public bug reports about which BMC a request reaches."""

import pytest

from bmcsim.core.errors import RedfishError
from bmcsim.fleet.registry import Absent, DuplicateBmc, Fleet
from tests.conftest import make_client

FIRST, SECOND, THIRD = "192.0.2.17", "192.0.2.18", "2001:db8::19"


@pytest.fixture
def fleet() -> Fleet:
    """Three BMCs, one of them on IPv6."""
    made = Fleet()
    for index, address in enumerate((FIRST, SECOND, THIRD)):
        bmc = make_client("bluefield3", index=index).bmc
        bmc.address = address
        made.add(bmc)
    made.ready = True
    return made


@pytest.mark.parametrize(
    ("forwarded", "host", "dialled", "expected"),
    [
        ("", FIRST, "10.0.0.1", FIRST),
        ("", f"{FIRST}:1266", "10.0.0.1", FIRST),
        ("", f"[{THIRD}]:1266", "10.0.0.1", THIRD),
        ("", "[2001:DB8:0:0::19]", "10.0.0.1", THIRD),
        ("", "bmc.example", SECOND, SECOND),
        ("", "", SECOND, SECOND),
        (f"host={SECOND}", FIRST, FIRST, SECOND),
        (f"for=192.0.2.1;HOST={SECOND};proto=https", FIRST, FIRST, SECOND),
        (f'for=192.0.2.1, host="[{THIRD}]:443"', FIRST, FIRST, THIRD),
        ("for=192.0.2.1", FIRST, SECOND, FIRST),
    ],
)
def test_n01_forwarded_then_host_then_dialled_address(
    fleet: Fleet, forwarded: str, host: str, dialled: str, expected: str
) -> None:
    """N01: without a proxy nobody adds Forwarded; the Host header names the BMC, then the address that was dialled."""
    assert fleet.route(forwarded.encode(), host.encode(), dialled).address == expected


def test_n01_a_single_bmc_answers_to_any_name_and_several_do_not(fleet: Fleet) -> None:
    """N01: a default exists only where there is one BMC; otherwise the error names what was tried."""
    alone = Fleet()
    alone.add(make_client("bluefield3").bmc)
    alone.ready = True
    assert alone.route(b"", b"anything.example", "10.9.9.9")
    with pytest.raises(RedfishError, match=r"anything\.example.*10\.9\.9\.9") as caught:
        fleet.route(b"", b"anything.example", "10.9.9.9")
    assert caught.value.status == 404


def test_n03_an_unknown_forwarded_host_is_never_another_bmc(fleet: Fleet) -> None:
    """N03: a proxy that forwards its own address gets a 404 that names it, although Host names a BMC."""
    with pytest.raises(RedfishError, match=r"10\.233\.1\.2") as caught:
        fleet.route(b"host=10.233.1.2", FIRST.encode(), SECOND)
    assert caught.value.status == 404


def test_n03_a_malformed_forwarded_field_is_400(fleet: Fleet) -> None:
    """N03: what cannot be understood is refused, not skipped."""
    with pytest.raises(RedfishError) as caught:
        fleet.route(b'host="192.0.2.17', FIRST.encode(), FIRST)
    assert caught.value.status == 400


def test_while_the_fleet_is_built_an_unknown_bmc_is_absent(fleet: Fleet) -> None:
    fleet.ready = False
    with pytest.raises(Absent):
        fleet.route(b"host=192.0.2.99", b"", "")


def test_two_bmcs_never_share_address_or_mac(fleet: Fleet) -> None:
    twin = make_client("bluefield3", index=0).bmc
    twin.id = "another"
    with pytest.raises(DuplicateBmc, match=r"bmc-0.*MAC|MAC.*bmc-0|both have"):
        fleet.add(twin)
    assert len(fleet) == 3


def test_the_registry_finds_by_id_mac_and_serial(fleet: Fleet) -> None:
    bmc = next(iter(fleet))
    assert fleet.by_id(bmc.id) is bmc
    assert fleet.by_address(bmc.address) is bmc
    assert fleet.by_address("192.0.2.99") is None
    assert fleet.by_mac(bmc.identity.bmc_mac) is bmc
    assert fleet.by_serial(bmc.identity.serial) is bmc
