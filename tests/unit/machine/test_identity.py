"""Who a BMC is."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.machine.identity import Identity, Kind, mac_colons, mac_hex

MACS = st.integers(0, 2**48 - 1)
PURPOSES = ["system", "service", "manager", "board"]


@pytest.mark.parametrize(
    ("mac", "plain", "colons"),
    [
        (0x02000000000A, "02000000000A", "02:00:00:00:00:0A"),
        (0, "000000000000", "00:00:00:00:00:00"),
        (0xFFFFFFFFFFFF, "FFFFFFFFFFFF", "FF:FF:FF:FF:FF:FF"),
    ],
)
def test_forms_of_a_mac(mac: int, plain: str, colons: str) -> None:
    assert (mac_hex(mac), mac_colons(mac)) == (plain, colons)


@pytest.mark.parametrize(
    ("kind", "serial"),
    [
        (Kind.HOST, "0200000000AA"),
        (Kind.POWER_SHELF, "0200000000AA"),
        (Kind.DPU, "MT0200000000CC"),
        (Kind.SWITCH, "MT0200000000CC"),
    ],
)
def test_the_serial_follows_from_the_mac_that_names_the_machine(kind: Kind, serial: str) -> None:
    assert Identity(kind, 0x0200000000AA, 0x0200000000BB, 0x0200000000CC).serial == serial


@settings(deadline=None)
@given(MACS, st.sampled_from(PURPOSES))
def test_uuids_are_version_5_of_the_rfc_variant(mac: int, purpose: str) -> None:
    text = Identity(Kind.HOST, mac).uuid(purpose)
    parsed = uuid.UUID(text)
    assert (parsed.version, parsed.variant, str(parsed)) == (5, uuid.RFC_4122, text)


@settings(deadline=None)
@given(st.lists(MACS, unique=True, min_size=2, max_size=50), st.sampled_from(list(Kind)))
def test_no_two_bmcs_share_a_serial_or_a_uuid(macs: list[int], kind: Kind) -> None:
    identities = [Identity(kind, mac, oob_mac=mac ^ 1) for mac in macs]
    assert len({one.serial for one in identities}) == len(macs)
    assert len({one.uuid(purpose) for one in identities for purpose in PURPOSES}) == len(macs) * len(PURPOSES)


def test_a_whole_fleet_is_unique() -> None:
    fleet = [Identity(Kind.DPU, 0x020000000000 + 3 * n, 0, 0x020000000002 + 3 * n) for n in range(13_500)]
    assert len({one.serial for one in fleet}) == len(fleet)
    assert len({one.uuid("system") for one in fleet}) == len(fleet)


def test_a_uuid_stays_what_it_was_in_earlier_processes_and_versions() -> None:
    assert Identity(Kind.HOST, 0x020000000001).uuid("system") == "f8830e42-6e58-50a5-b4c3-678e101b1ec8"


@settings(deadline=None)
@given(MACS, st.text(max_size=20))
def test_a_fraction_is_from_0_to_1_and_always_the_same(mac: int, purpose: str) -> None:
    fraction = Identity(Kind.HOST, mac).fraction(purpose)
    assert 0 <= fraction < 1
    assert fraction == Identity(Kind.DPU, mac).fraction(purpose)


def test_the_fractions_of_a_fleet_spread_and_differ_by_purpose() -> None:
    fleet = [Identity(Kind.HOST, 0x020000000000 + n) for n in range(1000)]
    fractions = [one.fraction("reset0") for one in fleet]
    assert len(set(fractions)) == len(fleet)
    assert all(50 < sum(n / 10 <= fraction < (n + 1) / 10 for fraction in fractions) < 150 for n in range(10))
    assert all(one.fraction("reset0") != one.fraction("reset1") for one in fleet)


def test_a_fraction_stays_what_it_was_in_earlier_processes_and_versions() -> None:
    assert Identity(Kind.HOST, 0x020000000001).fraction("reset0") == 0.21769214188680053
