"""AddressPool and the blocks of MACs."""

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.fleet.pool import AddressPool, MacPool, MacRanges, PoolExhausted, dotted

WIDE = IPv4Network("127.64.0.0/18")


def drain(pool: AddressPool) -> list[str]:
    return [pool.allocate() for _ in range(pool.capacity)]


def test_network_reserved_and_broadcast_addresses_are_never_given() -> None:
    pool = AddressPool(WIDE)
    addresses = drain(pool)
    assert pool.capacity == 2**14 - 3
    assert (addresses[0], addresses[-1]) == ("127.64.0.2", "127.64.63.254")
    assert addresses[13_499] == "127.64.52.189"


def test_nothing_reserved() -> None:
    assert drain(AddressPool(IPv4Network("10.0.0.0/29"), reserve_first=0)) == [f"10.0.0.{n}" for n in range(1, 7)]


def test_gateway_and_exclusions_are_skipped() -> None:
    pool = AddressPool(
        IPv4Network("10.0.0.0/28"),
        gateway=IPv4Address("10.0.0.5"),
        exclude=[
            IPv4Network("10.0.0.8/30"),
            IPv4Network("10.0.0.8/31"),
            IPv4Network("10.0.0.2"),
            IPv4Network("10.9.0.0/24"),
        ],
    )
    assert drain(pool) == [f"10.0.0.{n}" for n in (3, 4, 6, 7, 12, 13, 14)]


def test_exhaustion_names_prefix_capacity_and_count() -> None:
    pool = AddressPool(IPv4Network("10.0.0.0/30"))
    pool.require(1)
    with pytest.raises(PoolExhausted, match=r"10\.0\.0\.0/30 has 1 addresses to give, 5 are needed"):
        pool.require(5)
    assert pool.allocate() == "10.0.0.2"
    for _ in range(2):
        with pytest.raises(PoolExhausted, match=r"has 1 addresses to give, 2 are needed"):
            pool.allocate()


@pytest.mark.parametrize("prefix", ["10.0.0.0/31", "10.0.0.7/32"])
def test_prefix_without_room(prefix: str) -> None:
    assert AddressPool(IPv4Network(prefix)).capacity == 0


def test_capacity_needs_no_iteration() -> None:
    assert AddressPool(IPv4Network("0.0.0.0/0"), exclude=[IPv4Network("128.0.0.0/1")]).capacity == 2**31 - 2


networks = st.builds(
    lambda address, length: IPv4Network((address, length), strict=False),
    st.integers(int(IPv4Address("10.0.0.0")), int(IPv4Address("10.0.0.127"))),
    st.integers(26, 32),
)


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(25, 32),
    reserve=st.integers(0, 40),
    gateway=st.none() | st.integers(0, 127),
    exclude=st.lists(networks, max_size=5),
)
def test_gives_exactly_what_is_free(length: int, reserve: int, gateway: int | None, exclude: list[IPv4Network]) -> None:
    prefix = IPv4Network(f"10.0.0.0/{length}")
    router = None if gateway is None else prefix.network_address + gateway
    free = [
        str(address)
        for address in list(prefix)[1 + reserve : -1]
        if address != router and not any(address in network for network in exclude)
    ]
    pool = AddressPool(prefix, reserve, router, exclude)
    assert drain(pool) == free
    with pytest.raises(PoolExhausted):
        pool.allocate()


@settings(max_examples=60, deadline=None)
@given(st.lists(networks, max_size=5), st.lists(networks, max_size=5))
def test_common_is_the_first_shared_address(mine: list[IPv4Network], theirs: list[IPv4Network]) -> None:
    prefix = IPv4Network("10.0.0.0/25")
    pool, other = AddressPool(prefix, exclude=mine), AddressPool(prefix, exclude=theirs)
    given_by_other = set(drain(AddressPool(prefix, exclude=theirs)))
    shared = [address for address in drain(AddressPool(prefix, exclude=mine)) if address in given_by_other]
    assert pool.common(other) == other.common(pool) == (shared[0] if shared else None)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_dotted(address: int) -> None:
    assert dotted(address) == str(IPv4Address(address))


def test_macs_start_at_offset_one_and_wrap() -> None:
    assert list(MacPool(0x020000000000, 2).addresses()) == [0x020000000000 + n for n in (1, 2, 3, 0)]
    assert list(MacPool(0x020000000000, 0).addresses()) == [0x020000000000]


def test_ranges_start_at_index_one_and_wrap() -> None:
    ranges = MacRanges(0x060000000000, 10, 8)
    assert ranges.count == 4
    assert list(ranges.bases()) == [0x060000000000 + n * 256 for n in (1, 2, 3, 0)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 63), st.integers(0, 6), st.integers(0, 63), st.integers(0, 6))
def test_blocks_meet_when_they_share_a_mac(base: int, bits: int, other_base: int, other_bits: int) -> None:
    block = MacPool(base >> bits << bits, bits)
    other = MacPool(other_base >> other_bits << other_bits, other_bits)
    assert block.meets(other) == other.meets(block) == bool(set(block.addresses()) & set(other.addresses()))
