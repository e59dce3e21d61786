"""Public bug reports about identities that do not fit together: a small fleet is read whole, the full one by its plan.

`python -m tests.reports.join` reads the full one too.
"""

import msgspec
import pytest

from bmcsim.fleet.config import default
from bmcsim.fleet.identities import plan
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.identity import Identity, Kind, Place
from tests.reports.join import RACK_FACTS, SHOWN_OF_A_DPU, Number, Report, fleet_file, lives, numbers, read
from tests.unit.fleet.test_durability import Process

SERIAL = "SerialNumber"
EXPECTED = {
    "bluefield3": 2 * 3 + 2 * 8 + (2 + 2 * 18) * 2,
    "dell_poweredge_r750": 3 + 2 + 2,
    "delta_power_shelf": 2,
    "liteon_power_shelf": 2 + 2 * 8,
    "nvidia_switch_nd5200_ld": 2 + 2 * 9,
    "wiwynn_gb200_nvl": 2 + 2 * 18,
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Process]:
    """A fleet with two racks: what was read of it, and its process after a restart, in which nothing is otherwise."""
    report, errors, process = lives(tmp_path_factory.mktemp("state"), fleet_file(3, 2))
    assert errors == []
    return report, process


@pytest.fixture
def report(fleet: tuple[Report, Process]) -> Report:
    """What was read."""
    return fleet[0]


@pytest.fixture
def process(fleet: tuple[Report, Process]) -> Process:
    """What can be read again."""
    return fleet[1]


def test_n67_every_number_is_of_one_machine_and_all_that_show_it_agree(report: Report) -> None:
    assert report.problems == []
    assert report.machines == EXPECTED
    assert report.racks == {"rack-1", "rack-2"}
    assert report.facts > 2 * 18 * 20
    assert min(report.numbers[kind] for kind in ("serial", "mac", "uuid")) > 500


def test_n67_a_host_shows_its_dpus_wherever_clients_look_for_them(report: Report) -> None:
    assert report.places["wiwynn_gb200_nvl"] >= SHOWN_OF_A_DPU
    assert report.places["dell_poweredge_r750"] >= SHOWN_OF_A_DPU | {("EthernetInterfaces", "mac")}


@pytest.mark.parametrize(("machines", "expected"), [({"hosts": 4500}, 13_500), ({"hosts": 0, "racks": 250}, 17_750)])
def test_n67_no_number_of_the_full_fleets_is_there_twice(machines: dict[str, int], expected: int) -> None:
    identities = [one.identity for one in plan(default(**machines))]
    assert len(identities) == expected
    assert len({one.serial for one in identities}) == expected
    macs = [mac for one in identities for mac in (one.bmc_mac, one.host_mac, one.oob_mac, one.hw_base) if mac]
    assert len(set(macs)) == len(macs) >= 3 * expected - 2 * sum(one.kind is not Kind.DPU for one in identities)
    attached = [dpu for one in identities for dpu in one.dpus]
    assert {dpu.bmc_mac: dpu for dpu in attached} == {one.bmc_mac: one for one in identities if one.kind is Kind.DPU}
    racks = {one.place.rack: (one.place.serial, one.place.domain) for one in identities if one.place is not None}
    assert len(set(racks.values())) == len(racks) == machines.get("racks", 0)


def test_numbers_are_found_wherever_they_are() -> None:
    body = {
        SERIAL: " MT1  ",
        "Oem": {"TraySerialNumber": "2", "Id": "0200000000AB", "Empty": {SERIAL: ""}},
        "List": [
            "PciRoot/MAC(0200000000ac,0x1)",
            "02:00:00:00:00:Ad",
            {"UUID": "0C2F0D4E-6F0B-5B7E-9A51-0C1DE1F2A9B3"},
        ],
        "@odata.etag": '"0200000000AE"',
        "Other": "VenHw(0c2f0d4e-6f0b-5b7e-9a51-0c1de1f2a9b3) 0x0000000102000000 02:00:00:00:00:00:01",
    }
    assert list(numbers(body)) == [
        Number("serial", "MT1"),
        Number("serial", "2"),
        Number("mac", "0200000000AB"),
        Number("mac", "0200000000AC"),
        Number("mac", "0200000000AD"),
        Number("uuid", "0c2f0d4e-6f0b-5b7e-9a51-0c1de1f2a9b3"),
    ]


# What a wrong fleet would look like: each change to who a BMC is must be found.


def problems(process: Process, bmc: Bmc, identity: Identity, dpus: tuple[Bmc, ...] | None = None) -> str:
    """What is found when a BMC is somebody else."""
    before = bmc.identity, bmc.dpus
    bmc.identity, bmc.dpus = identity, bmc.dpus if dpus is None else dpus
    try:
        return "\n".join(read(process.fleet, process.clock.now()).problems)
    finally:
        bmc.identity, bmc.dpus = before


def test_a_number_of_two_machines_is_found(process: Process) -> None:
    bmc, other = process.bmc("bare-0"), process.bmc("bare-1")
    same = msgspec.structs.replace(bmc.identity, bmc_mac=other.identity.bmc_mac)
    found = problems(process, bmc, same)
    assert f"serial {other.identity.serial} is of bare-0 and of bare-1" in found
    assert f"mac {other.identity.bmc_mac:012X} is of bare-0 and of bare-1" in found
    assert f"uuid {other.identity.uuid('system')} is of bare-0 and of bare-1" in found


def test_a_dpu_that_is_another_than_its_host_says_is_found(process: Process) -> None:
    dpu = process.bmc("host-1-dpu-1")
    other = msgspec.structs.replace(dpu.identity, host_mac=dpu.identity.host_mac + 0x800000)
    found = problems(process, dpu, other)
    assert "host-1: shows DPU 1 in [('NetworkAdapters', 'serial')" in found


def test_dpus_in_another_order_are_found(process: Process) -> None:
    host = process.bmc("host-1")
    first, second = host.identity.dpus
    found = problems(process, host, msgspec.structs.replace(host.identity, dpus=(second, first)))
    assert "host-1: PCIeDevices shows the DPUs in the order [1, 0]" in found


def test_two_machines_at_one_place_are_found(process: Process) -> None:
    tray = process.bmc("rack-7261636b2d31--unit-12-0")
    found = problems(process, tray, msgspec.structs.replace(tray.identity, place=Place("rack-1", 13, 2)))
    assert f"position 13 of rack-1 has {tray.id} and rack-7261636b2d31--unit-13-0" in found


@pytest.mark.parametrize("fact", ["RackOffset", "TraySlotIndex"])
def test_a_machine_that_is_not_where_it_says_is_found(
    process: Process, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    monkeypatch.setitem(RACK_FACTS, fact, lambda place: "elsewhere")
    tray = process.bmc("rack-7261636b2d31--unit-12-0")
    assert f"{tray.id}: at {tray.identity.place}, says" in problems(process, tray, tray.identity)
