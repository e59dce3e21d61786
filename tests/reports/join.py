"""Whether the serial numbers, MACs and UUIDs that a fleet shows fit together, before and after a restart.

    python -m tests.reports.join --hosts 4500 --racks 250

reads every resource that shows such a number on every BMC, by direct call, from two lives of a process with one state
directory. It prints how much was read and what does not fit; exit status 1 when something does not.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
import orjson

from bmcsim.core.clock import Moment
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.identity import Kind
from bmcsim.redfish.exchange import Head, Request
from bmcsim.redfish.service import handle
from tests.conftest import PASSWORD, basic
from tests.unit.fleet.test_durability import Process

PLACEHOLDERS = {"Unspecified Serial Number": "cores of a BlueField", "000000000000": "a CAN bus of a Lite-On shelf"}
"""What real hardware shows where it knows no number, and on what."""

TWINS = {"Chassis", "Processors"}
"""Collections in which several members are, or are in, one part: the GPUs of a module, the boards of a DPU."""

SHOWN_OF_A_DPU = {
    ("NetworkAdapters", "serial"),
    ("PCIeDevices", "serial"),
    ("NetworkDeviceFunctions", "mac"),
    ("BootOptions", "mac"),
}
"""(collection, kind) of what every host must show of each of its DPUs."""

RACK_FACTS = {
    "Rack": lambda place: place.rack,
    "RackOffset": lambda place: place.position,
    "ChassisPhysicalSlotNumber": lambda place: place.position,
    "TraySlotNumber": lambda place: place.position,
    "ComputeTrayIndex": lambda place: place.index,
    "TraySlotIndex": lambda place: place.index,
    "ChassisSerialNumber": lambda place: place.serial,
}
"""Properties that say where a machine is, and what they must be."""

_NOT_ALONE = r"(?<![0-9A-Fa-f:-])(?:{})(?![0-9A-Fa-f:-])"
_MAC = re.compile(_NOT_ALONE.format("(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}|[0-9A-Fa-f]{12}"))
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_ADAPTER = re.compile(r".*/NetworkAdapters/[^/]+")


class Number(NamedTuple):
    """What names one thing in the world. kind: serial, mac (twelve upper-case digits) or uuid (lower case)."""

    kind: str
    value: str


class Shown(NamedTuple):
    """A number, and the resource that shows it."""

    uri: str
    number: Number

    @property
    def place(self) -> tuple[str, str]:
        """(collection of the resource, kind of the number)."""
        return self.uri.rpartition("/")[0].rpartition("/")[2], self.number.kind


@dataclass
class Report:
    """What a reading found. places: profile of a host -> where it shows its DPUs. digests: BMC -> all that it shows."""

    machines: Counter[str] = field(default_factory=Counter)
    racks: set[str] = field(default_factory=set)
    resources: int = 0
    shown: int = 0
    numbers: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    places: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    digests: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def properties(body: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value) of all that is neither an object nor a list, at any depth."""
    if isinstance(body, dict):
        for name, value in body.items():
            if not name.startswith("@odata."):
                yield from properties(value, name)
    elif isinstance(body, list):
        for item in body:
            yield from properties(item, key)
    else:
        yield key, body


def numbers(body: Any) -> Iterator[Number]:
    """Serial numbers by the name of their property, UUIDs that are a whole text, MACs anywhere in a text."""
    for key, value in properties(body):
        if not isinstance(value, str) or not (text := value.strip()):
            continue
        if key.endswith("SerialNumber"):
            yield Number("serial", text)
        elif _UUID.fullmatch(text):
            yield Number("uuid", text.lower())
        else:
            for match in _MAC.finditer(text):
                yield Number("mac", match[0].replace(":", "").upper())


class _Reader:
    """Reads BMCs. What shows no number on the first BMC of a tree shows none on the others and is read only there."""

    def __init__(self, now: Moment, report: Report) -> None:
        self._now, self._report = now, report
        self._carriers: dict[int, list[str]] = {}

    def read(self, bmc: Bmc) -> list[Shown]:
        """All that a BMC shows; its facts about its rack are compared with its identity."""
        bodies = {uri: self._get(bmc, uri) for uri in self._carriers.get(id(bmc.tree)) or bmc.tree.nodes}
        if id(bmc.tree) not in self._carriers:
            self._carriers[id(bmc.tree)] = [uri for uri, body in bodies.items() if _tells(body)]
        shown = [Shown(uri, number) for uri, body in bodies.items() for number in numbers(body)]
        report = self._report
        report.resources += len(bodies)
        report.shown += len(shown)
        facts = [fact for body in bodies.values() for fact in properties(body) if fact[0] in RACK_FACTS]
        report.digests[bmc.id] = hash((tuple(shown), tuple(facts)))
        self._compare(bmc, facts)
        return [one for one in shown if one.number.value not in PLACEHOLDERS]

    def _get(self, bmc: Bmc, uri: str) -> Any:
        head = Head(authorization=basic(bmc.tree.head.accounts[0].user, PASSWORD))
        response = handle(bmc, Request("GET", uri, self._now, head))
        if response.status != 200:
            self._report.problems.append(f"{bmc.id} {uri}: {response.status}")
        return orjson.loads(response.body)

    def _compare(self, bmc: Bmc, facts: list[tuple[str, Any]]) -> None:
        place = bmc.identity.place
        if place is None:
            return
        self._report.facts += len(facts)
        self._report.racks.add(place.rack)
        wrong = {(name, value) for name, value in facts if value != RACK_FACTS[name](place)}
        if wrong or not {"Rack", "RackOffset"} <= {name for name, _ in facts}:
            self._report.problems.append(f"{bmc.id}: at {place}, says {sorted(map(str, wrong)) or 'not where it is'}")


def _tells(body: Any) -> bool:
    return any(True for _ in numbers(body)) or any(name in RACK_FACTS for name, _ in properties(body))


def read(fleet: Fleet, now: Moment) -> Report:
    """Read a whole fleet, and compare what its BMCs show with each other and with who they are."""
    report, owners, seats = Report(), dict[Number, str](), dict[tuple[str, int], str]()
    reader = _Reader(now, report)
    for bmc in fleet:
        report.machines[bmc.tree.head.profile] += 1
        if bmc.identity.kind is Kind.DPU:
            continue  # with its host
        place = bmc.identity.place
        shown, dpus = reader.read(bmc), [reader.read(dpu) for dpu in bmc.dpus]
        report.problems += [f"{bmc.id}: {text}" for text in (*_of_dpus(report, bmc, shown, dpus), *_siblings(shown))]
        of_rack = None if place is None else Number("serial", place.serial)
        if place is not None and (other := seats.setdefault((place.rack, place.position), bmc.id)) != bmc.id:
            report.problems.append(f"position {place.position} of {place.rack} has {other} and {bmc.id}")
        if of_rack is not None and bmc.identity.kind is Kind.HOST and of_rack not in {one.number for one in shown}:
            report.problems.append(f"{bmc.id}: does not show the serial number of its rack")
        for number in {one.number for of in (shown, *dpus) for one in of}:
            owner = f"rack {place.rack}" if place is not None and number == of_rack else bmc.id
            if (other := owners.setdefault(number, owner)) != owner:
                report.problems.append(f"{number.kind} {number.value} is of {other} and of {owner}")
    report.numbers.update(number.kind for number in owners)
    return report


def _of_dpus(report: Report, host: Bmc, shown: list[Shown], dpus: list[list[Shown]]) -> Iterator[str]:
    """What a host says of its DPUs that they do not say of themselves, or in another order, or not at all."""
    slot_of: dict[Number, int] = {}
    for slot, dpu in enumerate(dpus):
        identity = host.identity.dpus[slot]
        own = {one.number for one in dpu}
        for number in own:
            if slot_of.setdefault(number, slot) != slot:
                yield f"DPUs {slot_of[number]} and {slot} both show {number}"
        serials, functions = _at(dpu, "Systems", "serial"), _at(dpu, "NetworkDeviceFunctions", "mac")
        if serials != {Number("serial", identity.serial)} or serials != _at(dpu, "NetworkAdapters", "serial"):
            yield f"DPU {slot}, {identity.serial}, calls itself {sorted(serials)}"
        seen = [one for one in shown if one.number in own]
        places = {one.place for one in seen}
        report.places.setdefault(host.tree.head.profile, places)
        if not places >= SHOWN_OF_A_DPU or places != report.places[host.tree.head.profile]:
            yield f"shows DPU {slot} in {sorted(places)}"
        for one in seen:
            if one.number not in serials | functions:
                yield f"{one.uri} shows {one.number} of DPU {slot}"
        adapters = {match[0] for one in seen if (match := _ADAPTER.match(one.uri))}
        for one in shown:
            if (match := _ADAPTER.match(one.uri)) and match[0] in adapters and one.number not in own:
                yield f"{one.uri} is of DPU {slot} and shows {one.number}"
    for collection, kind in SHOWN_OF_A_DPU:
        slots = [slot_of[one.number] for one in shown if one.place == (collection, kind) and one.number in slot_of]
        if list(dict.fromkeys(slots)) != list(range(len(dpus))):
            yield f"{collection} shows the DPUs in the order {slots}"


def _at(shown: list[Shown], *place: str) -> set[Number]:
    return {one.number for one in shown if one.place == place}


def _siblings(shown: list[Shown]) -> Iterator[str]:
    """Members of one collection that show the same number, unless it is that of what both are soldered on."""
    first, of_board = dict[tuple[str, Number], str](), set(shown)
    for one in shown:
        collection = one.uri.rpartition("/")[0]
        if one.place[0] in TWINS or Shown(collection.rpartition("/")[0], one.number) in of_board:
            continue
        if first.setdefault((collection, one.number), one.uri) != one.uri:
            yield f"{first[collection, one.number]} and {one.uri} both show {one.number}"


def fleet_file(hosts: int, racks: int) -> str:
    """A fleet of R750s with two DPUs and of racks, and a few of each other kind of machine."""
    ids = [f"rack-{number}" for number in range(1, racks + 1)]
    return f"""
        host_bmc_password = "{PASSWORD}"
        dpu_bmc_password = "{PASSWORD}"
        dhcp = {{ type = "pool", prefix = "127.64.0.0/10" }}
        machines.host = {{ host_count = {hosts}, dpu_per_host_count = 2 }}
        machines.bare = {{ host_count = 2 }}
        machines.nic = {{ host_count = 2, dpu_per_host_count = 8, dpus_in_nic_mode = true }}
        machines.tray = {{ hw_type = "wiwynn_gb200_nvl", host_count = 2 }}
        machines.switch = {{ hw_type = "nvidia_switch_nd5200_ld", host_count = 2 }}
        machines.delta = {{ hw_type = "delta_power_shelf", host_count = 2 }}
        machines.vr = {{ hw_type = "liteon_power_shelf", host_count = 2, variant = "vr" }}
        racks.rack = {{ type = "wiwynn_gb200_nvl72", ids = {ids} }}
    """


def _set_passwords(process: Process) -> None:
    """So that each BMC has something to restore; shelves have no other password from the fleet file."""
    for bmc in process.fleet:
        bmc.set_password(bmc.tree.head.accounts[0].user, PASSWORD, process.clock.now())


def lives(directory: Path, text: str) -> tuple[Report, list[str], Process]:
    """Read a fleet in two lives of its process: the report of the first one, what is otherwise in the second, that."""
    before = Process(directory, text)
    errors = [f"not stored: {error}" for error in before.live(_set_passwords) if error is not None]
    report = read(before.fleet, before.clock.now())
    after = Process(directory, text)
    again = read(after.fleet, after.clock.now())
    states = {bmc.id: bmc.state for bmc in before.fleet}
    errors += [f"{bmc.id}: another state after a restart" for bmc in after.fleet if bmc.state != states.get(bmc.id)]
    errors += [f"{id_}: other numbers after a restart" for id_ in _differing(report.digests, again.digests)]
    after.store.close()
    return report, errors, after


def _differing(one: dict[str, int], other: dict[str, int]) -> Iterator[str]:
    return (id_ for id_ in one.keys() | other.keys() if one.get(id_) != other.get(id_))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.reports.join", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--hosts", type=int, default=4500, help="R750s with two BlueField-3 each (4500)")
    parser.add_argument("--racks", type=int, default=250, help="GB200 NVL72 (250)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        report, errors, _ = lives(Path(directory), fleet_file(options.hosts, options.racks))
    for profile, count in sorted(report.machines.items()):
        click.echo(f"{count:7,} {profile}")
    click.echo(f"{sum(report.machines.values()):,} BMCs, {len(report.racks):,} racks; in each of two lives")
    click.echo(f"{report.resources:,} resources show {report.shown:,} numbers and {report.facts:,} facts about racks")
    click.echo(", ".join(f"{count:,} different of kind {kind}" for kind, count in sorted(report.numbers.items())))
    for problem in (problems := report.problems + errors)[:50]:
        click.echo(problem)
    click.echo(f"{len(problems):,} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
