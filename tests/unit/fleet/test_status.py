"""The status of a fleet as one document: kept encoded, made anew where something changed, equal to a naive encoding."""

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import ManualClock
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet import status as status_module
from bmcsim.fleet.devices import Describer, mat_id
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import DuplicateBmc, Fleet
from bmcsim.fleet.status import Board, Document, machines_board, racks_board
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.dhcp.messages import Lease, Port
from bmcsim.machine.identity import Kind
from bmcsim.redfish.injection import preset_rules
from bmcsim.testing.build import CachingBuilder

EPOCH = "2026-11-30T12:00:00.000000001Z"
FILE = """
[machines.alpha]
hw_type = "dell_poweredge_r750"
host_count = 7
dpu_per_host_count = 2
[machines.beta]
hw_type = "nvidia_switch_nd5200_ld"
host_count = 2
[racks.gamma]
type = "wiwynn_gb200_nvl72"
ids = ["r2", "r1"]
"""


class Site:
    """A fleet, and both boards of it. ids: what NICo calls machines."""

    def __init__(self, text: str = FILE) -> None:
        config = fleet_config.parse(text, "fleet.toml")
        self.clock, self.fleet = ManualClock(), Fleet()
        self.driver = Driver(self.clock)
        for _ in CachingBuilder(config, Hasher(b"k" * 32), self.clock.now().wall).populate(self.fleet):
            pass
        self.ids: dict[str, str] = {}
        self.describer = Describer(1266, machine_ids=self.ids)
        self.machines = machines_board(self.fleet, self.describer, "mat-06:00:00:00:00:00", EPOCH)
        self.racks = racks_board(self.fleet, self.describer, lambda _: "wiwynn_gb200_nvl72")

    def bmc(self, id_: str) -> Bmc:
        found = self.fleet.by_id(id_)
        assert found is not None
        return found

    def power(self, bmc: Bmc, event: power.Event) -> None:
        self.driver.execute(bmc, bmc.follow(event, self.clock.now()))

    def naive(self, generation: int = 1) -> Any:
        """What the document has to say."""
        tops = [bmc for bmc in self.fleet if bmc.identity.kind is not Kind.DPU]
        return {
            "inventory_id": "mat-06:00:00:00:00:00",
            "epoch_id": EPOCH,
            "generation": generation,
            "machines": [self.device(bmc) for bmc in tops],
        }

    def device(self, bmc: Bmc) -> Any:
        return orjson.loads(msgspec.json.encode(self.describer.status(bmc)))

    def naive_racks(self) -> Any:
        racks: dict[str, list[Any]] = {}
        for bmc in self.fleet:
            if bmc.identity.place is not None:
                member = {"position": bmc.identity.place.position, **self.device(bmc)}
                racks.setdefault(bmc.identity.place.rack, []).append(member)
        return {
            "racks": [
                {"rack_id": id_, "rack_type": "wiwynn_gb200_nvl72", "version": 1,
                 "members": sorted(racks[id_], key=lambda one: one["position"])}
                for id_ in sorted(racks)
            ]
        }  # fmt: skip


def refreshed(board: Board, *, packed: bool = False) -> Document:
    for _ in board.refreshing():
        pass
    if packed:
        for _ in board.packing():
            pass
    assert board.document is not None
    return board.document


def whole(document: Document) -> bytes:
    """The identity form; its length is as promised."""
    body = b"".join(document.pieces)
    assert len(body) == document.length
    return body


def unzipped(document: Document) -> bytes:
    """What a client that reads one member gets of the gzip form; nothing is behind it."""
    assert document.packed is not None
    data = b"".join(document.packed)
    assert len(data) == document.packed_length
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    body = reader.decompress(data)
    assert reader.eof and not reader.unused_data
    assert gzip.decompress(data) == body
    return body


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(status_module, "PIECE", 3)
    return Site()


def test_the_documents_say_what_a_naive_encoding_says(site: Site) -> None:
    assert orjson.loads(whole(refreshed(site.machines))) == site.naive()
    racks = orjson.loads(whole(refreshed(site.racks)))
    assert racks == site.naive_racks()
    assert [rack["rack_id"] for rack in racks["racks"]] == ["r1", "r2"]
    assert list(racks["racks"][0]["members"][0])[:2] == ["position", "mat_id"]


def test_a_fleet_without_machines_has_an_empty_list() -> None:
    fleet = Fleet()
    board = machines_board(fleet, Describer(1266), "mat-x", EPOCH)
    assert orjson.loads(whole(refreshed(board)))["machines"] == []
    assert unzipped(refreshed(board, packed=True)) == whole(refreshed(board))
    assert whole(refreshed(racks_board(fleet, Describer(1266), lambda _: ""))) == b'{"racks":[]}'


def test_nothing_is_made_anew_where_nothing_changed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = refreshed(site.machines, packed=True)
    monkeypatch.setattr(site.describer, "status", None)
    assert refreshed(site.machines, packed=True) is first


def test_only_the_machine_that_changed_is_encoded_anew(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first, asked, status = refreshed(site.machines, packed=True), list[str](), site.describer.status

    def noted(bmc: Bmc) -> Any:
        asked.append(bmc.id)
        return status(bmc)

    monkeypatch.setattr(site.describer, "status", noted)
    dpu = site.bmc("alpha-4-dpu-1")
    site.power(dpu, power.Event.FORCE_OFF)
    second = refreshed(site.machines, packed=True)
    # `status` of a machine asks for its DPUs by the same name.
    assert [id_ for id_ in asked if "-dpu-" not in id_] == ["alpha-4"]
    kept = [old == new for old, new in zip(first.pieces, second.pieces, strict=True)]
    assert kept.count(False) == 1
    assert second.packed is not None and first.packed is not None
    assert sum(old is new for old, new in zip(first.packed, second.packed, strict=True)) >= len(kept) - 2
    assert second.etag != first.etag


def test_a_change_that_the_status_does_not_show_leaves_the_entity_tag(site: Site) -> None:
    first = refreshed(site.machines)
    bmc = site.bmc("alpha-0")
    bmc.become(site.clock.now(), faults=preset_rules("slow_login", site.clock.now().wall))
    assert refreshed(site.machines) is first


def test_equal_documents_of_two_boards_have_equal_entity_tags(site: Site) -> None:
    other = machines_board(site.fleet, site.describer, "mat-06:00:00:00:00:00", EPOCH)
    assert refreshed(site.machines).etag == refreshed(other).etag
    younger = machines_board(site.fleet, site.describer, "mat-06:00:00:00:00:00", EPOCH.replace("1Z", "2Z"))
    assert refreshed(younger).etag != refreshed(other).etag


def test_the_generation_counts_inventories_and_nothing_else(site: Site) -> None:
    board = site.machines

    def generation() -> int:
        return int(orjson.loads(whole(refreshed(board)))["generation"])

    assert generation() == 1
    site.power(site.bmc("alpha-0"), power.Event.FORCE_OFF)
    site.ids["alpha-1-dpu-0"] = "dpu-id"
    site.ids["beta-0"] = "switch-id"
    assert generation() == 1
    site.ids["alpha-1"] = "machine-id"
    assert generation() == 2
    assert generation() == 2
    site.ids["alpha-1"] = "another-id"
    site.ids["alpha-2"] = "machine-id"
    assert generation() == 3
    board.forget()
    assert generation() == 3


def test_forgetting_keeps_nothing_but_the_generation(site: Site) -> None:
    before = refreshed(site.machines)
    site.machines.forget()
    assert site.machines.document is None
    assert site.machines.section("") is None
    again = refreshed(site.machines)
    assert (again.etag, whole(again)) == (before.etag, whole(before))


def test_machines_that_come_and_go_are_seen(site: Site) -> None:
    """Also while the fleet is filled, when a host knows nothing of its DPUs yet."""
    fleet = Fleet()
    board = machines_board(fleet, site.describer, "mat-06:00:00:00:00:00", EPOCH)

    def shown() -> tuple[list[str], int]:
        found = orjson.loads(whole(refreshed(board)))
        return [one["mat_id"] for one in found["machines"]], found["generation"]

    hosts = [bmc for bmc in site.fleet if bmc.identity.kind is Kind.HOST]
    ids = [mat_id(bmc.identity) for bmc in hosts]
    assert shown() == ([], 1)
    for bmc in hosts[:4]:
        fleet.add(bmc)
    dpus, hosts[0].dpus = hosts[0].dpus, ()
    assert shown() == (ids[:4], 2)
    hosts[0].dpus = dpus
    assert len(orjson.loads(whole(refreshed(board)))["machines"][0]["dpus"]) == 2
    fleet.ready = True
    assert shown() == (ids[:4], 2)
    fleet.add(hosts[4])
    assert shown() == (ids[:5], 3)
    gone = hosts[1]
    del fleet._by_id[gone.id]
    fleet.version += 1
    assert shown() == ([ids[0], *ids[2:5]], 4)
    # The whole of the last piece.
    del fleet._by_id[hosts[4].id]
    fleet.version += 1
    assert shown() == ([ids[0], *ids[2:4]], 5)


def test_pages_are_all_machines_in_order(site: Site) -> None:
    refreshed(site.machines)
    everything = site.naive()["machines"]
    for limit in (1, 2, 3, len(everything), 100):
        found, after = list[Any](), ""
        while True:
            page, after = site.machines.page(limit, after)
            assert len(page) <= limit
            found += [orjson.loads(one) for one in page]
            if not after:
                break
        assert found == everything, limit
    with pytest.raises(KeyError):
        site.machines.page(1, "00000000-0000-5000-8000-000000000000")
    assert site.machines.page(5, everything[-1]["mat_id"]) == ([], "")


def test_one_rack_is_a_section(site: Site) -> None:
    refreshed(site.racks)
    for rack in site.naive_racks()["racks"]:
        section = site.racks.section(rack["rack_id"])
        assert section is not None
        assert orjson.loads(section) == rack
    assert site.racks.section("r3") is None


@pytest.mark.parametrize("packed", [False, True])
def test_others_have_turns(site: Site, packed: bool) -> None:
    """No step does more than a few machines."""
    steps = sum(1 for _ in site.machines.refreshing())
    assert steps > len(list(site.fleet)) / 12
    if packed:
        assert sum(1 for _ in site.machines.packing()) > 5


# any sequence of changes

Change = Callable[[Site, Bmc, int], None]


def _power(site: Site, bmc: Bmc, number: int) -> None:
    site.power(bmc, list(power.Event)[number % len(power.Event)])


def _reset(site: Site, bmc: Bmc, _number: int) -> None:
    site.driver.execute(bmc, bmc.reset_bmc(site.clock.now()))


def _address(site: Site, bmc: Bmc, number: int) -> None:
    if number % 3 == 0:
        site.fleet.unbind(bmc)
        return
    try:
        site.fleet.bind(bmc, f"10.8.0.{number % 40 + 1}")
    except DuplicateBmc:
        site.fleet.unbind(bmc)


def _lease(site: Site, bmc: Bmc, number: int) -> None:
    leases = {} if number % 3 == 0 else {[Port.NIC, Port.OOB, Port.NVOS][number % 3]: Lease(f"10.7.0.{number % 50}")}
    bmc.become(site.clock.now(), leases=leases)


def _rules(site: Site, bmc: Bmc, number: int) -> None:
    bmc.become(site.clock.now(), faults=preset_rules(["slow_login", "flaky"][number % 2], site.clock.now().wall))


def _time(site: Site, _bmc: Bmc, number: int) -> None:
    site.driver.skip(float(number % 700))


def _machine_id(site: Site, bmc: Bmc, number: int) -> None:
    if number % 3:
        site.ids[bmc.id] = f"fm100{number % 5}"
    else:
        site.ids.pop(bmc.id, None)


def _undo(site: Site, bmc: Bmc, _number: int) -> None:
    if bmc.uncommitted is not None:
        bmc.restore(bmc.uncommitted)
        site.driver.sync(bmc)


CHANGES: list[Change] = [_power, _reset, _address, _lease, _rules, _time, _machine_id, _undo]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(CHANGES), st.integers(0, 200), st.integers(0, 1000)),
            st.sampled_from(["poll", "gzip", "forget"]),
        ),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_after_any_changes_the_documents_equal_a_naive_encoding(steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status_module, "PIECE", 3)
        site, seen = Site(), dict[bytes, bytes]()
        bmcs = list(site.fleet)

        def check(packed: bool) -> None:
            for board, naive in (
                (site.machines, lambda: site.naive(site.machines.generation)),
                (site.racks, site.naive_racks),
            ):
                document = refreshed(board, packed=packed)
                body = whole(document)
                assert orjson.loads(body) == naive()
                assert seen.setdefault(document.etag, body) == body
                assert [tag for tag, other in seen.items() if other == body] == [document.etag]
                if packed:
                    assert unzipped(document) == body

        for step in steps:
            if step == "forget":
                site.machines.forget()
                site.racks.forget()
            elif isinstance(step, str):
                check(step == "gzip")
            else:
                change, which, number = step
                change(site, bmcs[which % len(bmcs)], number)
        check(packed=True)


# sizes


@pytest.mark.parametrize(
    ("machines", "racks", "mebibytes"),
    [(4500, 0, 8.0), (0, 250, 9.5)],
    ids=["13,500 BMCs", "250 racks"],
)
def test_the_whole_fleet_fits_the_controllers_client(machines: int, racks: int, mebibytes: float) -> None:
    """It reads 10 MiB at most. One machine stands for all of its type, with everything in it that can be there."""
    if racks:
        site = Site('[racks.one]\ntype = "wiwynn_gb200_nvl72"\nids = ["rack-250"]\n')
        count, board = racks, site.racks
    else:
        site = Site("[machines.host]\nhost_count = 1\ndpu_per_host_count = 2\n")
        count, board = machines, site.machines
    for number, bmc in enumerate(site.fleet):
        site.ids[bmc.id] = "fm100ht" + "0" * 52
        bmc.address = f"255.255.255.{number}"
        port = {Kind.HOST: Port.NIC, Kind.SWITCH: Port.NVOS}.get(bmc.identity.kind, Port.OOB)
        bmc.restore(msgspec.structs.replace(bmc.state, leases={port: Lease("255.255.255.255")}))
    frame = len(whole(refreshed(board)))
    assert count * frame < mebibytes * 2**20


def test_a_mat_id_is_where_a_page_looks_for_it(site: Site) -> None:
    refreshed(site.machines)
    (body,), _ = site.machines.page(1, "")
    assert body[status_module._MAT_ID].decode() == mat_id(site.bmc("alpha-0").identity)
