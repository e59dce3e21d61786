"""Machines that machine-a-tron kept, taken over into a state directory of bmcsim.

machine-a-tron has a JSON list for each section of its file, DIR/machines/SECTION.json. bmcsim draws MACs and serial
numbers as machine-a-tron does, so they are compared and never copied: a machine that the fleet file does not plan just
so is refused by its name. What else is kept of it, and is state of a BMC, becomes a row.
"""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bmcsim.core.clock import SystemClock
from bmcsim.fleet import converters
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.durability import Restorer, fingerprint
from bmcsim.fleet.identities import BmcPlan, plan
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.store import DATABASE, StateError, Store
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Accounts, Hasher
from bmcsim.machine.firmware import version
from bmcsim.machine.identity import Identity, Kind, mac_colons, mac_hex
from bmcsim.machine.power import Power
from bmcsim.machine.state import State
from bmcsim.tree import software
from bmcsim.tree.software import VERSION

FOLDER = "machines"
MAX_BYTES = 64 * 1024 * 1024
MAX_FILES = 400_000
_SHOWN = 20

T = TypeVar("T", bound=msgspec.Struct)


class SavedAccount(msgspec.Struct, frozen=True):
    """password: as it was, not hashed."""

    id: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"SavedAccount({self.id!r})"


class SavedDpu(msgspec.Struct, frozen=True):
    """A DPU of a machine. MACs are texts. firmware_versions: bmc, cec, uefi, nic, ... -> version, None for no word."""

    bmc_mac_address: str
    host_mac_address: str
    oob_mac_address: str
    serial: str | None = None
    dpu_index: int | None = None
    nic_mode: bool = False
    firmware_versions: dict[str, str | None] | None = None
    accounts: list[SavedAccount] | None = None
    mat_id: Any = None
    hw_type: Any = None
    installed_os: Any = None
    exposes_oob_eth: Any = None


class SavedRange(msgspec.Struct, frozen=True):
    """A machine's own range of MACs for its other hardware: the first one, and how many bits vary."""

    base: str
    host_bits: int


class SavedMachine(msgspec.Struct, frozen=True):
    """A machine as machine-a-tron keeps it. accounts: of its BMC, which newer versions keep."""

    hw_type: str
    bmc_mac_address: str
    serial: str | None = None
    dpus: list[SavedDpu] = []
    non_dpu_mac_address: str | None = None
    nvos_mac_addresses: list[str] = []
    switch_serial_number: str | None = None
    hw_mac_addr_pool: SavedRange | None = None
    accounts: list[SavedAccount] | None = None
    machine_config_section: Any = None
    mat_id: Any = None
    observed_machine_id: Any = None
    installed_os: Any = None
    tpm_ek_certificate: Any = None


class Saved(msgspec.Struct, frozen=True):
    """A machine and where it is kept. number: its place in the list of its section, from 0."""

    file: Path
    section: str
    number: int
    machine: SavedMachine

    def __str__(self) -> str:
        machine = self.machine
        return f"{self.section}[{self.number}] ({machine.hw_type}, BMC MAC {machine.bmc_mac_address})"


class Report(msgspec.Struct, frozen=True):
    """What became of what was kept: counts, and one line for each thing that was not taken over."""

    machines: int
    dpus: int
    passwords: int
    firmware: int
    left: tuple[str, ...]

    def lines(self) -> list[str]:
        """As they are said."""
        return [
            f"taken over: {self.machines:,} machines with {self.dpus:,} DPUs (MACs, serial numbers), "
            f"passwords of {self.passwords:,} accounts, firmware of {self.firmware:,} BMCs",
            *[f"not taken over: {text}" for text in self.left],
        ]


# reading


def has_machines(directory: Path) -> bool:
    """Whether machine-a-tron kept machines in a directory."""
    with suppress(OSError):
        return any(path.suffix == ".json" for path in (directory / FOLDER).iterdir())
    return False


def read(directory: Path) -> tuple[list[Saved], list[str]]:
    """The machines of a directory, and the names of what in them is not known. Raises StateError."""
    folder = directory / FOLDER
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise StateError(
            f"{folder}: cannot be read: {error.strerror}; name the persist_dir of machine-a-tron, which has a folder "
            f"{FOLDER} with a file for each section"
        ) from error
    if not files:
        raise StateError(f"{folder}: has no *.json file, so there is nothing to take over")
    if len(files) > MAX_FILES:
        raise StateError(f"{folder}: has {len(files):,} files; at most {MAX_FILES:,} are read")
    unknown: dict[str, None] = {}
    return [saved for path in files for saved in _read_section(path, unknown)], list(unknown)


def _read_section(path: Path, unknown: dict[str, None]) -> Iterator[Saved]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise StateError(f"{path}: is larger than {MAX_BYTES // 2**20} MiB")
    try:
        entries = msgspec.json.decode(data, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise StateError(f"{path}: is not a JSON list of machines as machine-a-tron writes it: {error}") from error
    for number, entry in enumerate(entries):
        try:
            machine = _known(entry, SavedMachine, unknown, "")
        except msgspec.ValidationError as error:
            raise StateError(f"{path}: machine {number}: {error}") from error
        yield Saved(path, path.stem, number, machine)


def _known(entry: dict[str, Any], type_: type[T], unknown: dict[str, None], where: str) -> T:
    """An entry as a structure; what it has besides is noted."""
    known = {field.name for field in msgspec.structs.fields(type_)}
    unknown.update(dict.fromkeys(f"{where}{name}" for name in entry if name not in known))
    dpus = entry.get("dpus")
    if type_ is SavedMachine and isinstance(dpus, list):
        for dpu in dpus:
            if isinstance(dpu, dict):
                _known(dpu, SavedDpu, unknown, "dpus.")
    return msgspec.convert(entry, type_)


# comparing


class Matched(msgspec.Struct, frozen=True):
    """Whose state is whose. machines, dpus: id of a BMC -> what was kept of it. left: as in Report."""

    machines: dict[str, Saved]
    dpus: dict[str, SavedDpu]
    left: tuple[str, ...]


def match(config: FleetConfig, saved: Sequence[Saved], unknown: Sequence[str], *, ignore_unknown: bool) -> Matched:
    """Find the BMCs of kept machines, by MAC. Raises StateError, which names every machine that differs."""
    if unknown and not ignore_unknown:
        raise StateError(
            f"{saved[0].file.parent if saved else FOLDER}: has {', '.join(unknown)}, which this bmcsim does not know; "
            "--ignore-unknown leaves that behind and takes over the rest"
        )
    planned = [one for one in plan(config) if one.parent is None]
    by_mac = {one.identity.bmc_mac: one for one in planned}
    problems: list[str] = []
    machines: dict[str, Saved] = {}
    dpus: dict[str, SavedDpu] = {}
    moved = 0
    for one in saved:
        found = by_mac.get(_mac(one.machine.bmc_mac_address))
        if found is None:
            problems.append(f"{one}: no machine of the fleet file has this MAC")
            continue
        if found.id in machines:
            problems.append(f"{one}: is kept twice, also as {machines[found.id]}")
            continue
        differences = list(_differences(config, one.machine, found))
        problems += [f"{one}, {found.id} of the fleet file: {text}" for text in differences]
        machines[found.id] = one
        moved += found.id != f"{one.section}-{one.number}"
        dpus |= {f"{found.id}-dpu-{slot}": dpu for slot, dpu in enumerate(_in_order(one.machine))}
    if problems:
        raise StateError(_refusal(config, saved, planned, problems))
    return Matched(machines, dpus, tuple(_left(saved, unknown, moved, len(planned) - len(machines))))


def _mac(text: str) -> int:
    """-1 for what is none."""
    try:
        return converters.mac(text)
    except ValueError:
        return -1


def _in_order(machine: SavedMachine) -> list[SavedDpu]:
    return sorted(machine.dpus, key=lambda dpu: 0 if dpu.dpu_index is None else dpu.dpu_index)


def _differences(config: FleetConfig, machine: SavedMachine, planned: BmcPlan) -> Iterator[str]:
    identity, group = planned.identity, planned.group
    if machine.hw_type != group.hw_type:
        yield f"hw_type is {group.hw_type} there"
    if machine.serial is not None and machine.serial.upper() not in {identity.serial, mac_hex(identity.bmc_mac)}:
        yield f"serial is {machine.serial}, and {identity.serial} there"
    number = machine.switch_serial_number
    if identity.kind is Kind.SWITCH and number is not None and number.upper() != identity.serial:
        yield f"switch_serial_number is {number}, and {identity.serial} there"
    own = {"non_dpu_mac_address": (machine.non_dpu_mac_address, identity.host_mac)}
    if machine.nvos_mac_addresses:
        own["nvos_mac_addresses"] = (machine.nvos_mac_addresses[0], identity.oob_mac)
    yield from _macs_that_differ(own)
    if (pool := machine.hw_mac_addr_pool) is not None and (
        _mac(pool.base) != identity.hw_base or pool.host_bits != config.hw_ranges.range_host_bits
    ):
        there = f"{mac_colons(identity.hw_base)} and {config.hw_ranges.range_host_bits}"
        yield f"hw_mac_addr_pool is {pool.base} and {pool.host_bits} bits, and {there} there"
    if len(machine.dpus) != len(identity.dpus):
        yield f"has {len(machine.dpus)} DPUs, and {len(identity.dpus)} there"
        return
    for slot, (dpu, its) in enumerate(zip(_in_order(machine), identity.dpus, strict=True)):
        for text in _dpu_differences(dpu, its, group.dpus_in_nic_mode):
            yield f"DPU {slot}: {text}"


def _dpu_differences(dpu: SavedDpu, identity: Identity, nic_mode: bool) -> Iterator[str]:
    yield from _macs_that_differ(
        {
            "bmc_mac_address": (dpu.bmc_mac_address, identity.bmc_mac),
            "host_mac_address": (dpu.host_mac_address, identity.host_mac),
            "oob_mac_address": (dpu.oob_mac_address, identity.oob_mac),
        }
    )
    if dpu.serial is not None and dpu.serial.upper() != identity.serial:
        yield f"serial is {dpu.serial}, and {identity.serial} there"
    if dpu.nic_mode != nic_mode:
        yield f"nic_mode is {str(dpu.nic_mode).lower()}; write dpus_in_nic_mode = {str(dpu.nic_mode).lower()}"


def _macs_that_differ(macs: Mapping[str, tuple[str | None, int]]) -> Iterator[str]:
    for name, (kept, planned) in macs.items():
        if kept is not None and _mac(kept) != planned:
            yield f"{name} is {kept}, and {mac_colons(planned) if planned else 'none'} there"


def _refusal(config: FleetConfig, saved: Sequence[Saved], planned: Sequence[BmcPlan], problems: Sequence[str]) -> str:
    """All that is wrong, up to a screenful, and why it may be so."""
    shown = list(problems[:_SHOWN])
    if len(problems) > _SHOWN:
        shown.append(f"and {len(problems) - _SHOWN:,} more")
    kept = Counter(one.section for one in saved)
    meant = Counter(one.id.rpartition("-")[0] for one in planned)
    counts = [
        f"[machines.{name}] has host_count = {meant[name]} and {count} are kept, which is what machine-a-tron serves; "
        f"write host_count = {count}"
        for name, count in kept.items()
        if meant[name] not in (0, count)
    ]
    gone = [f"no section {name} is in the fleet file" for name in kept if not meant[name]]
    hints = counts + gone or ["use the fleet file that machine-a-tron ran with, with its MAC pools"]
    return "\n".join([f"{config.source}: does not plan the machines that are kept:", *shown, *hints[:_SHOWN]])


def _left(saved: Sequence[Saved], unknown: Sequence[str], moved: int, new: int) -> Iterator[str]:
    if any(one.machine.tpm_ek_certificate is not None for one in saved):
        yield "TPM endorsement certificates (nothing of a host's operating system runs here)"
    yield "mat_id, observed_machine_id, installed_os (no agent runs here; NICo knows machines by MAC and serial number)"
    if all(one.machine.accounts is None and all(dpu.accounts is None for dpu in one.machine.dpus) for one in saved):
        yield "passwords, none are kept: BMCs begin with those of the fleet file, or the factory's"
    if unknown:
        yield f"not known here: {', '.join(unknown)}"
    if moved:
        yield f"the names of {moved:,} machines, which the fleet file has under others with the same MACs"
    if new:
        yield f"{new:,} machines of the fleet file are not kept, and begin as new"


# writing


def take_over(config: FleetConfig, matched: Matched, target: Path) -> Report:
    """Make a state directory with what was kept: all of it or none. Raises StateError where there is one already."""
    if target.is_dir() and any(target.iterdir()):
        what = "has the state of a fleet" if (target / DATABASE).exists() else "is not empty"
        raise StateError(f"{target}: {what}; name a directory that is not there yet")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    except OSError as error:
        raise StateError(f"{target}: cannot be made: {error.filename}: {error.strerror}") from error
    try:
        report = _write(config, matched, draft)
        draft.rename(target)
        _sync(target.parent)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(error, OSError):
            raise StateError(f"{target}: cannot be made: {error.strerror}") from error
        raise
    return report


def _write(config: FleetConfig, matched: Matched, directory: Path) -> Report:
    store = Store.open(directory, fingerprint(config), full_sync=True)
    passwords = firmware = 0
    left = dict.fromkeys(matched.left)

    def restored(bmc: Bmc) -> State | None:
        nonlocal passwords, firmware
        saved, dpu = matched.machines.get(bmc.id), matched.dpus.get(bmc.id)
        kept = dpu if dpu is not None else saved.machine if saved is not None else None
        if kept is None:
            return None
        state = bmc.state
        # A shelf that is kept comes back switched on, as everything else does.
        changes: dict[str, Any] = {"power": Power.RUNNING}
        if kept.accounts:
            changes["accounts"], count = _with_passwords(state.accounts, kept.accounts, hasher)
            passwords += count
            if count < len(kept.accounts):
                left["accounts that the BMCs do not have, or not by this id and user name"] = None
        if dpu is not None and (versions := _versions(bmc, dpu.firmware_versions or {})):
            changes["firmware"] = versions
            firmware += 1
        return msgspec.structs.replace(state, **changes)

    try:
        born = Restorer(store, SystemClock(1.0)).born
        hasher = Hasher(store.key)
        fleet = Fleet()
        for _ in Builder(config, hasher, born, restored).populate(fleet):
            pass
        store.write({bmc.id: bmc.encode() for bmc in fleet if bmc.id in matched.machines or bmc.id in matched.dpus})
    finally:
        store.close()
    if passwords and (config.host_bmc_password, config.dpu_bmc_password) != (None, None):
        left[
            "passwords of BMCs that host_bmc_password or dpu_bmc_password is for, to which they return at every start "
            '(credentials = "persist" keeps them)'
        ] = None
    return Report(len(matched.machines), len(matched.dpus), passwords, firmware, tuple(left))


def _with_passwords(accounts: Accounts, kept: Sequence[SavedAccount], hasher: Hasher) -> tuple[Accounts, int]:
    """Accounts with the passwords that were kept for them, and for how many; the factory's stays known as such."""
    count = 0
    for one in kept:
        account = accounts.get(one.id)
        if account is not None and account.user == one.user:
            accounts = accounts.replacing(msgspec.structs.replace(account, digest=hasher.digest(one.password)))
            count += 1
    return accounts, count


def _versions(bmc: Bmc, kept: Mapping[str, str | None]) -> dict[str, str]:
    """Component -> version, where it is not the one that the fleet file leads to."""
    components = bmc.tree.components
    return {
        software.owner(components, name): text
        for name, text in kept.items()
        if text
        and VERSION.fullmatch(text)
        and name in components
        and not software.is_fixed(components, name)
        and version(components, {}, name) != text
    }


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
