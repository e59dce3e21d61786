"""A profile small enough to see whole, and a writer for variations of it."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from bmcsim.machine import holes
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import Profile, load

HEAD = """\
profile: tiny
title: Tiny
kind: host
accounts: [{id: root, user: root, password: secret}]
roles: {manager: /redfish/v1/Managers/1, system: /redfish/v1/Systems/1}
"""

RESOURCES = """\
resources:
  /redfish/v1:
    type: ServiceRoot.v1_17_0
    Links:
      Sessions: {$link: /redfish/v1/SessionService/Sessions}
  /redfish/v1/AccountService:
    type: AccountService.v1_15_0
  /redfish/v1/UpdateService:
    type: UpdateService.v1_14_0
  /redfish/v1/SessionService:
    type: SessionService.v1_1_9
  /redfish/v1/SessionService/Sessions:
    collection: Session
    items: sessions
  /redfish/v1/SessionService/Sessions/*:
    type: Session.v1_7_2
    items: sessions
    UserName: ${item.user}
  /redfish/v1/Managers/1:
    type: Manager.v1_19_0
    DateTime: ${time.now}
    actions:
      Manager.Reset: {ResetType: [GracefulRestart]}
  /redfish/v1/Managers/1/EthernetInterfaces/eth0:
    type: EthernetInterface.v1_12_0
    MACAddress: ${bmc.mac}
  /redfish/v1/Systems/1:
    type: ComputerSystem.v1_22_0
    PowerState: ${power.state}
    Boot:
      BootOrder: [Boot1]
      BootOptions: {$link: /redfish/v1/Systems/1/BootOptions}
    actions:
      ComputerSystem.Reset: {ResetType: [On, ForceOff]}
    writable:
      Boot.BootOrder: {type: strings, values: $Boot.BootOrder}
  /redfish/v1/Systems/1/BootOptions/Boot1:
    type: BootOption.v1_0_4
    BootOptionReference: Boot1
  /redfish/v1/Chassis/1:
    type: Chassis.v1_25_0
    ChassisType: RackMount
  /redfish/v1/Chassis/1/Sensors/Temp1:
    type: Sensor.v1_7_0
    reading: {min: 20, max: 30}
    ReadingType: Temperature
    ReadingUnits: Cel
    Status: {State: "${reading.state}"}
"""

TINY = HEAD + RESOURCES

Write = Callable[..., str]
Load = Callable[..., Profile]
Compile = Callable[..., Tree]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a profile, and parts by name; returns what `load` takes."""

    def write_(text: str, **parts: str) -> str:
        (tmp_path / "parts").mkdir(exist_ok=True)
        for name, part in parts.items():
            (tmp_path / "parts" / f"{name}.yaml").write_text(part, "utf-8")
        path = tmp_path / "tiny.yaml"
        path.write_text(text, "utf-8")
        return str(path)

    return write_


@pytest.fixture
def resources(write: Write) -> Load:
    """Load a profile that has the tiny one's head, and further YAML lines (resources, parts, parameters, ...)."""
    return lambda text, **parts: load(write(HEAD + text, **parts))


@pytest.fixture
def compiled(write: Write) -> Compile:
    """Compile the tiny profile with further resources, given as YAML that is indented by two."""
    return lambda more="", **parts: compile_tree(load(write(TINY + more, **parts)), holes.bind)


def unreadable(path: Path) -> NoReturn:
    """In the place of a method of Path: what the system says of a folder that others may not look into."""
    raise PermissionError(13, "Permission denied", str(path))
