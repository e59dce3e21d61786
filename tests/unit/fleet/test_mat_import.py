"""What machine-a-tron kept, taken over."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.cli import main
from bmcsim.core.clock import ManualClock
from bmcsim.fleet import mat_import
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import FleetConfig, parse
from bmcsim.fleet.durability import Restorer, fingerprint
from bmcsim.fleet.identities import plan
from bmcsim.fleet.mat_import import Report, SavedAccount, SavedDpu, SavedMachine
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.store import StateError, Store
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.identity import Identity, Kind, mac_colons, mac_hex
from bmcsim.machine.power import Power

FILE = """
[machines.hosts]
hw_type = "dell_poweredge_r750"
host_count = 2
dpu_per_host_count = 2
[machines.plain]
host_count = 1
dpu_per_host_count = 0
[machines.shelf]
hw_type = "liteon_power_shelf"
host_count = 1
[machines.switch]
hw_type = "nvidia_switch_nd5200_ld"
host_count = 1
"""

Kept = dict[str, list[dict[str, Any]]]


def kept_of(config: FleetConfig) -> Kept:
    """What machine-a-tron would keep of a fleet."""
    sections: Kept = {}
    for one in plan(config):
        if one.parent is not None:
            continue
        identity = one.identity
        section = one.id.rpartition("-")[0]
        switch = identity.kind is Kind.SWITCH
        sections.setdefault(section, []).append(
            {
                "mat_id": f"00000000-0000-4000-8000-{mac_hex(identity.bmc_mac)}",
                "machine_config_section": section,
                "hw_type": one.group.hw_type,
                "bmc_mac_address": mac_colons(identity.bmc_mac),
                "serial": mac_hex(identity.bmc_mac),
                "dpus": [_dpu(slot, dpu) for slot, dpu in enumerate(identity.dpus)],
                "non_dpu_mac_address": mac_colons(identity.host_mac) if identity.host_mac else None,
                "nvos_mac_addresses": [mac_colons(identity.oob_mac)] if switch else [],
                "switch_serial_number": identity.serial if switch else None,
                "observed_machine_id": None,
                "installed_os": "none",
                "tpm_ek_certificate": [48, 130],
                "hw_mac_addr_pool": {"base": mac_colons(identity.hw_base), "host_bits": 8},
            }
        )
    return sections


def _dpu(slot: int, dpu: Identity) -> dict[str, Any]:
    return {
        "mat_id": "00000000-0000-4000-8000-000000000000",
        "hw_type": "dell_poweredge_r750",
        "bmc_mac_address": mac_colons(dpu.bmc_mac),
        "host_mac_address": mac_colons(dpu.host_mac).lower(),
        "oob_mac_address": mac_colons(dpu.oob_mac),
        "serial": dpu.serial,
        "installed_os": "dpu_agent",
        "dpu_index": slot,
        "nic_mode": False,
        "firmware_versions": {"bmc": None, "uefi": None, "cec": None, "nic": None},
        "exposes_oob_eth": True,
    }


def write(directory: Path, kept: Kept) -> Path:
    folder = directory / "persist" / "machines"
    folder.mkdir(parents=True, exist_ok=True)
    for section, machines in kept.items():
        (folder / f"{section}.json").write_text(json.dumps(machines))
    return folder.parent


def take(directory: Path, kept: Kept, text: str = FILE, *, ignore_unknown: bool = False) -> Report:
    config = parse(text, "mat.toml")
    saved, unknown = mat_import.read(write(directory, kept))
    matched = mat_import.match(config, saved, unknown, ignore_unknown=ignore_unknown)
    return mat_import.take_over(config, matched, directory / "state")


def refusal(directory: Path, change: Callable[[Kept], object], text: str = FILE) -> str:
    kept = kept_of(parse(FILE, "mat.toml"))
    change(kept)
    with pytest.raises(StateError) as caught:
        take(directory, kept, text)
    assert not (directory / "state").exists()
    assert [path.name for path in directory.iterdir()] == ["persist"]
    return str(caught.value)


def restored(directory: Path, text: str = FILE) -> tuple[Fleet, Hasher]:
    """The fleet as a start with the new directory has it."""
    config = parse(text, "mat.toml")
    store = Store.open(directory / "state", fingerprint(config))
    try:
        restorer, hasher, fleet = Restorer(store, ManualClock()), Hasher(store.key), Fleet()
        for _ in Builder(config, hasher, restorer.born, restorer).populate(fleet):
            pass
        assert restorer.left == []
    finally:
        store.close()
    return fleet, hasher


def test_a_fleet_is_taken_over(tmp_path: Path) -> None:
    kept = kept_of(parse(FILE, "mat.toml"))
    kept["hosts"][1]["dpus"][0]["firmware_versions"]["bmc"] = "BF-24.10-17"
    kept["hosts"][0]["accounts"] = [{"id": "root", "user": "root", "password": "Rotated-1"}]
    kept["hosts"][0]["dpus"][1]["accounts"] = [{"id": "root", "user": "other", "password": "x"}]
    report = take(tmp_path, kept)
    assert (report.machines, report.dpus, report.passwords, report.firmware) == (5, 4, 1, 1)
    assert [text.partition(" (")[0] for text in report.left] == [
        "TPM endorsement certificates",
        "mat_id, observed_machine_id, installed_os",
        "accounts that the BMCs do not have, or not by this id and user name",
    ]
    fleet, hasher = restored(tmp_path)
    host, dpu, shelf = fleet.by_id("hosts-0"), fleet.by_id("hosts-1-dpu-0"), fleet.by_id("shelf-0")
    assert host is not None and dpu is not None and shelf is not None
    account = host.accounts.get("root")
    assert account is not None
    assert account.digest == hasher.digest("Rotated-1")
    assert account.factory == hasher.digest("factory_password")
    assert dpu.state.firmware == {"bmc": "BF-24.10-17"}
    assert shelf.state.power is Power.RUNNING
    assert "Rotated" not in repr(SavedAccount("root", "root", "Rotated-1"))


def test_dpus_go_by_their_index_and_versions_that_are_none_are_left(tmp_path: Path) -> None:
    kept = kept_of(parse(FILE, "mat.toml"))
    kept["hosts"][0]["dpus"].reverse()
    kept["hosts"][0]["dpus"][0]["firmware_versions"] = {"bmc": "not a version", "nic": "32.40.1", "unheard_of": "1"}
    assert take(tmp_path, kept).firmware == 1
    dpu = restored(tmp_path)[0].by_id("hosts-0-dpu-1")
    assert dpu is not None
    assert dpu.state.firmware == {"nic": "32.40.1"}


def test_a_fleet_without_passwords_says_so(tmp_path: Path) -> None:
    left = take(tmp_path, kept_of(parse(FILE, "mat.toml"))).left
    assert any(text.startswith("passwords, none are kept") for text in left)


def test_machines_are_found_by_mac_under_another_name(tmp_path: Path) -> None:
    kept = kept_of(parse(FILE, "mat.toml"))
    kept["a-former-name"] = kept.pop("hosts")
    assert (
        "the names of 2 machines, which the fleet file has under others with the same MACs" in take(tmp_path, kept).left
    )


def test_machines_that_were_not_kept_are_counted(tmp_path: Path) -> None:
    kept = kept_of(parse(FILE, "mat.toml"))
    del kept["switch"]
    assert "1 machines of the fleet file are not kept, and begin as new" in take(tmp_path, kept).left


def _set(**values: Any) -> Callable[[Kept], object]:
    return lambda kept: kept["hosts"][1].update(values)


def _set_dpu(**values: Any) -> Callable[[Kept], object]:
    return lambda kept: kept["hosts"][1]["dpus"][1].update(values)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_set(bmc_mac_address="02:00:00:0F:FF:FF"), "hosts[1] (dell_poweredge_r750, BMC MAC 02:00:00:0F:FF:FF): no ma"),
        (_set(bmc_mac_address="nonsense"), "BMC MAC nonsense): no machine of the fleet file has this MAC"),
        (_set(bmc_mac_address="02:00:00:00:00:07"), "is kept twice, also as hosts[0]"),
        (_set(hw_type="generic_ami"), "hosts-1 of the fleet file: hw_type is dell_poweredge_r750 there"),
        (_set(serial="ABC"), "serial is ABC, and 02000000000E there"),
        (_set(non_dpu_mac_address="02:00:00:00:00:99"), "non_dpu_mac_address is 02:00:00:00:00:99, and none there"),
        (_set(hw_mac_addr_pool={"base": "06:00:00:00:09:00", "host_bits": 8}), "hw_mac_addr_pool is 06:00:00:00:09:00"),
        (
            _set(hw_mac_addr_pool={"base": "06:00:00:00:02:00", "host_bits": 9}),
            "and 9 bits, and 06:00:00:00:02:00 and 8",
        ),
        (_set(dpus=[]), "has 0 DPUs, and 2 there"),
        (
            _set_dpu(oob_mac_address="02:00:00:00:00:01"),
            "DPU 1: oob_mac_address is 02:00:00:00:00:01, and 02:00:00:00:00",
        ),
        (_set_dpu(serial="MT0"), "DPU 1: serial is MT0, and MT02000000000D there"),
        (_set_dpu(nic_mode=True), "DPU 1: nic_mode is true; write dpus_in_nic_mode = true"),
        (lambda kept: kept["switch"][0].update(switch_serial_number="MT1"), "switch_serial_number is MT1"),
        (lambda kept: kept["switch"][0].update(nvos_mac_addresses=["02:00:00:00:00:01"]), "nvos_mac_addresses is 02:"),
        (_set(power="On", dpus=[]), "has power, which this bmcsim does not know; --ignore-unknown"),
        (_set_dpu(leases=[]), "has dpus.leases, which this bmcsim does not know"),
        (_set(bmc_mac_address=7), "hosts.json: machine 1: Expected `str`, got `int` - at `$.bmc_mac_address`"),
    ],
)
def test_what_differs_is_refused_by_name_and_nothing_is_written(
    tmp_path: Path, change: Callable[[Kept], object], text: str
) -> None:
    assert text in refusal(tmp_path, change)


def test_a_section_with_another_number_of_machines_is_a_hint(tmp_path: Path) -> None:
    more = FILE.replace("host_count = 2", "host_count = 3", 1)
    message = refusal(tmp_path, lambda _kept: None, more)
    assert "[machines.hosts] has host_count = 3 and 2 are kept" in message
    assert "write host_count = 2" in message


def test_a_password_is_in_no_message(tmp_path: Path) -> None:
    message = refusal(tmp_path, _set(accounts=[{"id": "root", "user": 1, "password": "Secret-9"}]))
    assert "accounts[0].user" in message
    assert "Secret-9" not in message


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="machines: cannot be read: No such file"):
        mat_import.read(tmp_path)
    folder = tmp_path / "machines"
    folder.mkdir()
    with pytest.raises(StateError, match=r"no \*\.json file"):
        mat_import.read(tmp_path)
    for text in ("{}", "[1]", "[", "[" * 100_000, "\ufffe"):
        (folder / "a.json").write_text(text)
        with pytest.raises(StateError, match=r"a\.json: is not a JSON list of machines"):
            mat_import.read(tmp_path)


def test_a_state_directory_that_is_there_is_left_alone(tmp_path: Path) -> None:
    kept = kept_of(parse(FILE, "mat.toml"))
    take(tmp_path, kept)
    before = (tmp_path / "state" / "state.sqlite").read_bytes()
    with pytest.raises(StateError, match="has the state of a fleet; name a directory that is not there yet"):
        take(tmp_path, kept)
    assert (tmp_path / "state" / "state.sqlite").read_bytes() == before


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_store: Store, _rows: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write", broken)
    with pytest.raises(StateError, match="state: cannot be made: No space left"):
        take(tmp_path, kept_of(parse(FILE, "mat.toml")))
    assert [path.name for path in tmp_path.iterdir()] == ["persist"]


def test_pinned_passwords_are_said_to_win(tmp_path: Path) -> None:
    kept = kept_of(parse(FILE, "mat.toml"))
    kept["hosts"][0]["accounts"] = [{"id": "root", "user": "root", "password": "Rotated-1"}]
    text = 'host_bmc_password = "Pinned-1"\n' + FILE
    assert any("host_bmc_password or dpu_bmc_password" in one for one in take(tmp_path, kept, text).left)
    host = restored(tmp_path, text)[0].by_id("hosts-0")
    assert host is not None
    assert host.accounts == host.shared.accounts


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "mat.toml"
    file.write_text(FILE)
    kept = kept_of(parse(FILE, "mat.toml"))
    kept["hosts"][0]["novelty"] = 1
    persist = write(tmp_path, kept)
    command = ["state", "import-mat", str(persist), str(file), "--state-dir", str(tmp_path / "state")]
    refused = CliRunner().invoke(main, command)
    assert (refused.exit_code, "has novelty, which" in refused.output) == (1, True)
    done = CliRunner().invoke(main, [*command, "--ignore-unknown"])
    assert done.exit_code == 0, done.output
    assert "taken over: 5 machines with 4 DPUs" in done.output
    assert "not taken over: not known here: novelty" in done.output
    assert f"bmcsim serve {file} --state-dir {tmp_path / 'state'}" in done.output


_NAMES = (*SavedMachine.__struct_fields__, *SavedDpu.__struct_fields__, *SavedAccount.__struct_fields__)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES) | st.text(), inner, max_size=6),
    max_leaves=30,
)


@given(st.lists(_JSON, max_size=3) | _JSON)
def test_any_json_is_read_or_refused(entries: object) -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory, "machines")
        folder.mkdir()
        (folder / "a.json").write_text(json.dumps(entries))
        try:
            saved, unknown = mat_import.read(Path(directory))
            mat_import.match(parse(FILE, "mat.toml"), saved, unknown, ignore_unknown=True)
        except StateError as error:
            assert "a.json" in str(error) or "mat.toml" in str(error)
