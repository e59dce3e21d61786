"""A fleet in parts: what is in which, and that nothing is lost or twice."""

from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.core.errors import RedfishError
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import FleetConfig, default, parse
from bmcsim.fleet.identities import plan
from bmcsim.fleet.registry import Absent, Fleet
from bmcsim.fleet.shards import Shard, Spans, split, state_directory
from bmcsim.fleet.store import DATABASE, StateError
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.credentials import Hasher

_MIXED = """
[dhcp]
type = "pool"
prefix = "127.64.0.0/22"
exclude = ["127.64.0.8/29", "127.64.0.100"]
[machines.a]
host_count = 5
dpu_per_host_count = 2
[racks.r]
type = "wiwynn_gb200_nvl72"
ids = ["one", "two"]
[machines.z]
host_count = 7
"""


def built(config: FleetConfig, shard: Shard | None) -> Fleet:
    fleet = Fleet()
    for _ in Builder(config, Hasher(), 0.0, shard=shard).populate(fleet):
        pass
    return fleet


@pytest.mark.parametrize("count", [1, 2, 3, 5, 14])
def test_the_parts_are_the_whole_in_order_and_addresses_ascend(count: int) -> None:
    config = parse(_MIXED, "fleet.toml")
    shards = split(config, count)
    planned = [one.address for one in plan(config)]
    assert [shard.number for shard in shards] == list(range(1, count + 1))
    assert (shards[0].start, shards[-1].stop) == (0, len(planned))
    assert all(one.stop == following.start for one, following in pairwise(shards))
    for shard in shards:
        own = planned[shard.start : shard.stop]
        assert own
        assert shard.firsts[shard.number - 1] == min(int(IPv4Address(one)) for one in own)
        assert shard.last == max(int(IPv4Address(one)) for one in planned)
        assert [one for one in planned if one in shard.others] == [one for one in planned if one not in own]
        assert "127.64.0.9" not in shard.others
        assert "127.64.0.100" not in shard.others
        numbers = {one: other.number for other in shards for one in planned[other.start : other.stop]}
        assert {one: shard.number_of(one) for one in planned} == {**numbers, **dict.fromkeys(own)}
        assert [shard.number_of(one) for one in ("127.64.0.9", "127.0.0.1", "bmc.example")] == [None] * 3


def test_hosts_and_racks_stay_whole() -> None:
    """14 parts: 5 hosts with their DPUs, 2 racks, 7 hosts."""
    config = parse(_MIXED, "fleet.toml")
    where: dict[str, set[int]] = {}
    every = list(plan(config))
    places = {one.id: one.identity.place for one in every}
    for shard in split(config, 14):
        for one in every[shard.start : shard.stop]:
            machine = one.parent or one.id
            place = places[machine]
            where.setdefault(place.rack if place else machine, set()).add(shard.number)
    assert len(where) == 14
    assert all(len(numbers) == 1 for numbers in where.values())
    with pytest.raises(ConfigError, match=r"fleet\.toml: has 14 machines and racks .* into 15 shards"):
        split(config, 15)


@pytest.mark.parametrize("count", [2, 3, 7, 64])
def test_parts_are_about_equally_large(count: int) -> None:
    sizes = [shard.stop - shard.start for shard in split(default(500), count)]
    assert max(sizes) - min(sizes) <= 3


def test_a_part_has_the_same_bmcs_as_the_whole(tmp_path: Path) -> None:
    config = parse(_MIXED, "fleet.toml")
    whole = {bmc.id: (bmc.address, bmc.identity) for bmc in built(config, None)}
    parts = [built(config, shard) for shard in split(config, 3)]
    assert all(fleet.ready and len(fleet) == fleet.expected for fleet in parts)
    assert {bmc.id: (bmc.address, bmc.identity) for fleet in parts for bmc in fleet} == whole
    assert sum(len(fleet) for fleet in parts) == len(whole)
    for fleet in parts:
        for bmc in fleet:
            assert len(bmc.dpus) == len(bmc.identity.dpus)
            if bmc.rack is not None:
                assert len(bmc.rack.shelves) == len([one for one in fleet if one.rack is bmc.rack]) - len(bmc.rack.fed)


def test_a_request_for_a_bmc_of_another_part_is_misdirected_and_an_unknown_one_is_not_found() -> None:
    first, second = [built(default(2, 0), shard) for shard in split(default(2, 0), 2)]
    (own,), (other,) = list(first), list(second)
    assert first.route(b"", own.address.encode(), other.address) is own
    assert first.route(b"", b"bmc.example", own.address) is own
    for forwarded, host in (
        (f"host={other.address}", own.address),
        ("", other.address),
        ("", f"{other.address}:1266"),
        ("", f"[::ffff:{other.address}]:1266"),
    ):
        with pytest.raises(RedfishError, match="another process") as misdirected:
            first.route(forwarded.encode(), host.encode(), own.address)
        assert misdirected.value.status == 421
    for host in ("127.64.9.9", "bmc.example", ""):
        with pytest.raises(RedfishError) as unknown:
            first.route(b"", host.encode(), "127.0.0.1")
        assert unknown.value.status == 404
    first.ready = False
    with pytest.raises(Absent):
        first.route(f"host={other.address}".encode(), b"", own.address)


@given(st.sets(st.integers(0, 60)), st.text(max_size=6))
def test_spans_have_what_they_were_made_of(numbers: set[int], text: str) -> None:
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    spans = Spans(runs)
    assert {number for number in range(62) if str(IPv4Address(number)) in spans} == numbers
    assert text not in spans


def test_each_part_has_a_directory_and_another_number_of_parts_is_refused(tmp_path: Path) -> None:
    two, three = split(default(6), 2), split(default(6), 3)
    assert state_directory(tmp_path / "none", None) == tmp_path / "none"
    for shard in two:
        directory = state_directory(tmp_path, shard)
        assert directory.name == f"shard-{shard.number}-of-2"
        directory.mkdir()
    for wrong in (None, three[0]):
        with pytest.raises(StateError, match="served by --shards 2; serve it so again"):
            state_directory(tmp_path, wrong)
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / DATABASE).touch()
    assert state_directory(alone, None) == alone
    with pytest.raises(StateError, match="served by one process"):
        state_directory(alone, two[0])
