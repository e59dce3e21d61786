"""OpenStack's client: system, power, boot device, chassis, managers."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sushy
from sushy import auth as sushy_auth

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
