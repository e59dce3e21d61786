"""Which BMCs a selection means."""

from collections.abc import Callable
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import Moment
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.selection import Finder, Racks, Sample, Selection, SelectionError, parent_of, scan, state_of
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.identity import Kind, mac_colons
from bmcsim.machine.power import Power
from bmcsim.testing.build import CachingBuilder

FILE = """
[machines.alpha]
hw_type = "dell_poweredge_r750"
host_count = 12
dpu_per_host_count = 1
[machines.beta]
hw_type = "dell_poweredge_r750"
host_count = 9
dpu_per_host_count = 0
rack_id = "row-7"
[racks.gamma]
type = "wiwynn_gb200_nvl72"
ids = ["r1"]
"""


@cache
def fleet() -> Fleet:
    """BMCs of all kinds, in many states."""
    made = Fleet()
    for _ in CachingBuilder(fleet_config.parse(FILE, "fleet.toml"), Hasher(), 0.0).populate(made):
        pass
    for number, bmc in enumerate(made):
        bmc.become(
            Moment(0.0, 0.0),
            power=list(Power)[number % len(Power)],
            service=list(Service)[number % 5 % 3],
        )
    made.unbind(list(made)[4])
    return made


RACKS = {"beta": "row-7"}


def selected(selection: Selection) -> list[str]:
    """The ids of a selection."""
    return [bmc.id for piece in scan(selection, fleet(), Racks(fleet(), RACKS)) for bmc in piece]


def facts(bmc: Bmc) -> dict[str, Any]:
    """What a selection may ask for, made the slow way."""
    place = bmc.identity.place
    if bmc.identity.kind is Kind.DPU:
        host = next(one for one in fleet() if bmc in one.dpus)
        place = host.identity.place
        assert parent_of(bmc) == host.id
    return {
        "group": bmc.shared.group,
        "rack": place.rack if place else RACKS.get(bmc.shared.group),
        "hardware": bmc.tree.head.profile,
        "kind": bmc.identity.kind,
        "state": state_of(bmc, fleet()),
        "power": bmc.power.shown,
    }


def naive(selection: Selection) -> list[str]:
    """The same, without a thought for time."""
    chosen = []
    for bmc in fleet():
        names = {bmc.id, bmc.address, mac_colons(bmc.identity.bmc_mac), bmc.identity.serial}
        words = [bmc.id.lower(), bmc.address, mac_colons(bmc.identity.bmc_mac).lower(), bmc.identity.serial.lower()]
        words.append(words[2].replace(":", ""))
        if selection.ids and not names & set(selection.ids):
            continue
        if any(getattr(selection, name) and fact not in getattr(selection, name) for name, fact in facts(bmc).items()):
            continue
        if selection.address and not any(
            bmc.address and ip_address(bmc.address) in ip_network(text, strict=False) for text in selection.address
        ):
            continue
        if not any(selection.q.lower() in word for word in words):
            continue
        chosen.append(bmc.id)
    return chosen


@cache
def names() -> list[str]:
    """All ways to name a BMC."""
    return [
        name
        for bmc in fleet()
        for name in (bmc.id, bmc.address, mac_colons(bmc.identity.bmc_mac), bmc.identity.serial)
        if name
    ]


def some(values: Callable[[], list[Any]], most: int = 3) -> st.SearchStrategy[list[Any]]:
    """Lists of some of a few values."""
    return st.deferred(lambda: st.lists(st.sampled_from(values()), max_size=most))


SELECTIONS = st.builds(
    Selection,
    ids=some(names, 40) | st.just([]),
    group=some(lambda: ["alpha", "beta", "racks.gamma.hosts", *sorted({bmc.shared.group for bmc in fleet()})]),
    rack=some(lambda: ["r1", "row-7", "r9"]),
    hardware=some(lambda: ["dell_poweredge_r750", "bluefield3", "none"]),
    kind=some(lambda: list(Kind)),
    state=some(lambda: ["up", "resetting", "unpowered", "no_lease", "starting"], 5),
    power=some(lambda: ["On", "Off", "PoweringOn", "PoweringOff"]),
    address=some(lambda: ["127.64.0.0/28", "127.64.0.9/29", "127.64.0.5", "10.0.0.0/8", "0.0.0.0/0"]),
    q=st.just("")
    | st.sampled_from(["ALPHA", "dpu", "-1", "02:00", "0200000", "MT02", "t0", "m", ":00:0", "127.64.0.1", "0"])
    | st.deferred(lambda: st.builds(lambda name, cut: name[cut:], st.sampled_from(names()), st.integers(0, 8))),
)


@settings(max_examples=400, deadline=None)
@given(SELECTIONS)
def test_a_selection_is_what_each_of_its_words_says(selection: Selection) -> None:
    assert selected(selection) == naive(selection)


def test_an_empty_selection_is_the_whole_fleet() -> None:
    assert selected(Selection()) == [bmc.id for bmc in fleet()]
    assert Selection().empty and not Selection(q="x").empty


@settings(max_examples=100, deadline=None)
@given(share=st.floats(0, 1), seed=st.integers(0, 2**63 - 1))
def test_a_share_is_as_large_as_it_says_in_the_order_of_the_fleet(share: float, seed: int) -> None:
    chosen = selected(Selection(sample=Sample(share, seed=seed)))
    every = selected(Selection())
    assert len(chosen) == round(len(every) * share)
    assert chosen == [id_ for id_ in every if id_ in chosen]


def test_a_sample_depends_on_its_seed_alone() -> None:
    first, again, other = (selected(Selection(sample=Sample(count=10, seed=seed))) for seed in (1, 1, 2))
    assert first == again != other
    assert set(selected(Selection(sample=Sample(count=5, seed=1)))) < set(first)
    # Of what is left of the fleet those that were drawn before are drawn again.
    group = selected(Selection(group=["alpha"], sample=Sample(share=1.0)))
    assert group == selected(Selection(group=["alpha"]))
    assert selected(Selection(sample=Sample(count=10**6))) == selected(Selection())


def test_a_bmc_that_is_not_there_is_named() -> None:
    for name in ("nobody-1", "192.0.2.77", "020000FFFFFF", "MT0"):
        with pytest.raises(SelectionError, match=name) as caught:
            selected(Selection(ids=["alpha-0", name]))
        assert caught.value.missing
        with pytest.raises(SelectionError, match=name):
            Finder(fleet()).find(name)


@pytest.mark.parametrize("text", ["nowhere", "10.0.0.0/33", "2001:db8::/32", "10.0.0.1/x", ""])
def test_what_is_no_network_is_named(text: str) -> None:
    with pytest.raises(SelectionError, match="address: ") as caught:
        selected(Selection(address=[text]))
    assert not caught.value.missing


def test_pieces_are_small() -> None:
    assert max(len(piece) for piece in scan(Selection(), fleet(), Racks(fleet(), {}))) <= 500


def test_a_selection_survives_json() -> None:
    selection = Selection(group=["alpha"], kind=[Kind.DPU], sample=Sample(share=0.5, seed=3))
    assert msgspec.json.decode(msgspec.json.encode(selection), type=Selection) == selection
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.json.decode(b'{"colour": 1}', type=Selection)
