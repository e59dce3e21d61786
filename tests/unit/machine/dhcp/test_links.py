"""When the interfaces of a BMC ask for an address."""

import pytest

from bmcsim.machine.actions import Happening, RestartDhcp, StopDhcp
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.dhcp.links import felt, is_up, mac
from bmcsim.machine.dhcp.messages import Port
from bmcsim.machine.identity import Identity, Kind
from bmcsim.machine.power import Power

OF_SYSTEMS = [Port.OOB, Port.NVOS, Port.NIC]


def test_a_bmc_stays_where_it_is_while_it_resets_and_is_nowhere_without_mains() -> None:
    bmc = Port.BMC
    assert felt(bmc, Happening.BMC_RESETTING, Service.RESETTING) == StopDhcp(bmc, keep=True)
    assert felt(bmc, Happening.BMC_RESETTING, Service.UNPOWERED) == StopDhcp(bmc)
    assert felt(bmc, Happening.BMC_RESTARTED, Service.UP) == RestartDhcp(bmc)


@pytest.mark.parametrize("port", OF_SYSTEMS)
def test_interfaces_of_a_system_ask_once_it_has_booted(port: Port) -> None:
    assert felt(port, Happening.BOOT_COMPLETED, Service.UP) == RestartDhcp(port)
    for what in (Happening.SYSTEM_RESET, Happening.SYSTEM_POWERED_OFF):
        assert felt(port, what, Service.UP) == StopDhcp(port)


@pytest.mark.parametrize("port", Port)
def test_nothing_else_touches_an_interface(port: Port) -> None:
    own = {Happening.BMC_RESETTING, Happening.BMC_RESTARTED}
    of_system = {Happening.BOOT_COMPLETED, Happening.SYSTEM_RESET, Happening.SYSTEM_POWERED_OFF}
    for what in set(Happening) - (own if port is Port.BMC else of_system):
        assert felt(port, what, Service.UP) is None


def test_who_has_link() -> None:
    assert [service for service in Service if is_up(Port.BMC, service, Power.OFF)] == [Service.UP]
    for port in OF_SYSTEMS:
        up = {power for power in Power if is_up(port, Service.RESETTING, power)}
        assert up == {Power.RUNNING, Power.POWERING_OFF, Power.RESTARTING}


def test_each_interface_has_its_mac() -> None:
    dpu = Identity(Kind.DPU, 1, 2, 3)
    assert (mac(Port.BMC, dpu), mac(Port.OOB, dpu)) == (1, 3)
    assert mac(Port.NVOS, Identity(Kind.SWITCH, 4, oob_mac=5)) == 5
    assert mac(Port.NIC, Identity(Kind.HOST, 6, host_mac=7)) == 7
    assert mac(Port.NIC, Identity(Kind.HOST, 8, dpus=(dpu,))) == 2
