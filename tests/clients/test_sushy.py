"""OpenStack's client: system, power, boot device, chassis, managers."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sushy
from sushy import auth as sushy_auth
from sushy.resources.settings import UPDATE_SUCCESS

from tests.clients.conftest import DPU, HOST
from tests.serving import Process

Connect = Callable[[str], Any]


@pytest.fixture
def connect(fleet: Process) -> Iterator[Connect]:
    """Makes sushy roots that log in by session or Basic as sushy chooses; their sessions end with the test."""
    auths = []

    def root(address: str) -> Any:
        auths.append(sushy_auth.SessionOrBasicAuth("root", "P"))
        return sushy.Sushy(fleet.url(address), auth=auths[-1], verify=False)

    yield root
    for auth in auths:
        auth.close()


@pytest.mark.parametrize(("address", "model"), [(HOST, "PowerEdge R750"), (DPU, "BlueField-3 DPU")])
def test_reads_the_system(connect: Connect, address: str, model: str) -> None:
    (system,) = connect(address).get_system_collection().get_members()
    assert system.model == model
    assert system.serial_number
    assert system.uuid
    assert system.power_state in (sushy.PowerState.ON, sushy.PowerState.POWERING_ON)
    assert system.memory_summary.size_gib > 0
    assert system.processors.get_members()
    assert system.ethernet_interfaces.get_members()


@pytest.mark.parametrize("address", [HOST, DPU])
def test_switches_power(connect: Connect, address: str) -> None:
    (system,) = connect(address).get_system_collection().get_members()
    for target, state in ((sushy.ResetType.FORCE_OFF, sushy.PowerState.OFF), (sushy.ResetType.ON, sushy.PowerState.ON)):
        system.reset_system(target)
        deadline = time.monotonic() + 30
        while system.power_state != state and time.monotonic() < deadline:
            system.invalidate()
            system.refresh()
        assert system.power_state == state


@pytest.mark.parametrize("address", [HOST, DPU])
def test_sets_the_boot_device(connect: Connect, address: str) -> None:
    (system,) = connect(address).get_system_collection().get_members()
    system.set_system_boot_options(
        target=sushy.BootSource.PXE,
        enabled=sushy.BootSourceOverrideEnabled.ONCE,
        mode=sushy.BootSourceOverrideMode.UEFI,
    )
    system.invalidate()
    system.refresh()
    assert system.boot.target == sushy.BootSource.PXE
    assert system.boot.enabled == sushy.BootSourceOverrideEnabled.ONCE
    assert system.boot.mode == sushy.BootSourceOverrideMode.UEFI


@pytest.mark.parametrize("address", [HOST, DPU])
def test_reads_chassis_and_managers(connect: Connect, address: str) -> None:
    root = connect(address)
    chassis = root.get_chassis_collection().get_members()
    assert all(one.chassis_type for one in chassis)
    (manager,) = root.get_manager_collection().get_members()
    assert manager.firmware_version
    assert manager.get_supported_command_shell_types() == set() or manager.manager_type
    assert manager.systems


@pytest.mark.parametrize("address", [HOST, DPU])
def test_updates_firmware(connect: Connect, address: str) -> None:
    service = connect(address).get_update_service()
    task_monitor = service.simple_update("http://192.0.2.1/bmc-9.9.bin", transfer_protocol="HTTP")
    deadline = time.monotonic() + 30
    while task_monitor.check_is_processing and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not task_monitor.check_is_processing
    task = task_monitor.get_task()
    while task.task_state != sushy.TASK_STATE_COMPLETED:
        assert time.monotonic() < deadline
        task.refresh(force=True)
    assert task.percent_complete == 100


def boot(system: Any) -> None:
    """Restart a system and wait until it runs again."""
    system.reset_system(sushy.ResetType.FORCE_RESTART)
    time.sleep(0.2)
    deadline = time.monotonic() + 30
    while system.json["BootProgress"]["LastState"] != "OSRunning" and time.monotonic() < deadline:
        time.sleep(0.2)
        system.invalidate()
        system.refresh()


@pytest.mark.parametrize(
    ("address", "name", "value"), [(HOST, "SriovGlobalEnable", "Disabled"), (DPU, "HostPrivilegeLevel", "Restricted")]
)
def test_sets_the_firmware_up(connect: Connect, address: str, name: str, value: str) -> None:
    """An attribute waits for the boot, and its update is reported as a success; then all of it is reset."""
    (system,) = connect(address).get_system_collection().get_members()
    before = system.bios.attributes[name]
    assert sushy.ApplyTime.ON_RESET in system.bios.supported_apply_times
    system.bios.set_attribute(name, value, apply_time=sushy.ApplyTime.ON_RESET)
    assert system.bios.pending_attributes == {name: value}
    assert system.bios.attributes[name] == before
    boot(system)
    system.bios.refresh(force=True)
    assert system.bios.attributes[name] == value
    assert system.bios.update_status.status == UPDATE_SUCCESS
    system.bios.reset_bios()
    boot(system)
    system.bios.refresh(force=True)
    assert system.bios.attributes[name] == before


def test_sets_secure_boot(connect: Connect) -> None:
    (system,) = connect(HOST).get_system_collection().get_members()
    system.secure_boot.set_enabled(True)
    boot(system)
    system.secure_boot.refresh(force=True)
    assert system.secure_boot.enabled
    assert system.secure_boot.current_boot == sushy.SECURE_BOOT_ENABLED
    system.secure_boot.reset_keys(sushy.SecureBootResetKeysType.DELETE_ALL_KEYS)
    system.secure_boot.refresh(force=True)
    assert system.secure_boot.mode == sushy.SecureBootMode.SETUP


@pytest.mark.parametrize("place", ["system", "manager"])
def test_inserts_virtual_media(connect: Connect, place: str) -> None:
    """Insert, refuse a second image, eject, refuse what cannot be reached."""
    root = connect(HOST)
    owner = (root.get_system_collection() if place == "system" else root.get_manager_collection()).get_members()[0]
    (device, *_) = [one for one in owner.virtual_media.get_members() if sushy.VIRTUAL_MEDIA_CD in one.media_types]
    device.insert_media("http://192.0.2.1/install.iso", write_protected=True)
    device.refresh(force=True)
    assert (device.image, device.inserted) == ("http://192.0.2.1/install.iso", True)
    with pytest.raises(sushy.exceptions.HTTPError):
        device.insert_media("http://192.0.2.1/other.iso")
    device.eject_media()
    device.refresh(force=True)
    assert (device.image, device.inserted) == (None, False)
    with pytest.raises(sushy.exceptions.HTTPError):
        device.insert_media("http://unreachable.invalid/install.iso")
