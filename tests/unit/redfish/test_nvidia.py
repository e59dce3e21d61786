"""What NVIDIA adds, NICo's way through it, and what a loss of power does to a host with DPUs."""

from collections.abc import Callable
from typing import Any

import pytest

from bmcsim.machine import holes
from bmcsim.machine.fault_rules import from_json
from bmcsim.machine.faults import Rules
from bmcsim.machine.power import Event, Power
from bmcsim.redfish.exchange import Response
from bmcsim.tree.compile import action_target, compile_tree
from bmcsim.tree.profile import ParameterFacts, load
from tests.conftest import Client, header, make_client, message_ids
from tests.unit.redfish.conftest import MANAGER, SYSTEM

OEM = SYSTEM + "/Oem/Nvidia"
BIOS = SYSTEM + "/Bios"
RSHIM = MANAGER + "/Oem/Nvidia"
RESET = SYSTEM + "/Actions/ComputerSystem.Reset"
R750 = "/redfish/v1/Systems/System.Embedded.1"


def host_with_dpus() -> tuple[Client, list[Client]]:
    """An R750 and the two DPUs in its slots, driven by one clock."""
    host = make_client("dell_poweredge_r750")
    dpus = [make_client("bluefield3", index=1 + n) for n in range(2)]
    for dpu in dpus:
        dpu.clock, dpu.driver = host.clock, host.driver
    host.bmc.dpus = tuple(dpu.bmc for dpu in dpus)
    return host, dpus


def set_mode(client: Client, mode: Any) -> Response:
    """Mode.Set."""
    return client.request("POST", OEM + "/Actions/Mode.Set", {"Mode": mode})


def mode(client: Client) -> tuple[str, str]:
    """The mode as its two places show it."""
    return client.get(OEM)["Mode"], client.get(BIOS)["Attributes"]["NicMode"]


def reset_system(client: Client, event: Event) -> None:
    """Reset a system and let its boot end."""
    client.driver.execute(client.bmc, client.bmc.reset_system(event, client.clock.now()))
    client.advance(1000)


# mode


@pytest.mark.parametrize("spelling", ["NicMode", "nicmode", "NICMODE"])
def test_a_mode_counts_when_the_card_gets_power_again(dpu: Client, spelling: str) -> None:
    response = set_mode(dpu, spelling)
    assert (response.status, response.body) == (204, b"")
    reset_system(dpu, Event.FORCE_RESTART)
    assert mode(dpu) == ("DpuMode", "DpuMode")
    reset_system(dpu, Event.POWER_CYCLE)
    assert mode(dpu) == ("NicMode", "NicMode")


def test_the_last_mode_counts(dpu: Client) -> None:
    set_mode(dpu, "NicMode")
    set_mode(dpu, "DpuMode")
    reset_system(dpu, Event.POWER_CYCLE)
    assert mode(dpu) == ("DpuMode", "DpuMode")


def test_a_mode_waits_while_the_bmc_itself_resets(dpu: Client) -> None:
    set_mode(dpu, "NicMode")
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_bmc(dpu.clock.now()))
    dpu.advance(200)
    assert mode(dpu)[0] == "DpuMode"
    reset_system(dpu, Event.FORCE_OFF)
    reset_system(dpu, Event.ON)
    assert mode(dpu)[0] == "NicMode"


def test_the_attribute_and_the_mode_are_one(dpu: Client) -> None:
    assert dpu.request("PATCH", BIOS + "/Settings", {"Attributes": {"NicMode": "NicMode"}}).status == 204
    reset_system(dpu, Event.FORCE_RESTART)
    assert mode(dpu) == ("NicMode", "NicMode")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({}, "ActionParameterMissing"),
        ({"Mode": "Nic"}, "ActionParameterValueNotInList"),
        ({"Mode": ""}, "ActionParameterValueNotInList"),
        ({"Mode": 1}, "ActionParameterValueTypeError"),
        ({"Mode": None}, "ActionParameterValueTypeError"),
        ({"Mode": "NicMode", "x": 1}, "ActionParameterUnknown"),
    ],
)
def test_a_mode_that_is_none(dpu: Client, body: dict[str, Any], key: str) -> None:
    response = dpu.request("POST", OEM + "/Actions/Mode.Set", body)
    assert (response.status, message_ids(response)) == (400, [key])
    assert dpu.bmc.state.staged == ()


# rshim, resets


@pytest.mark.parametrize("value", ["Enabled", "Disabled"])
def test_the_hosts_rshim_is_switched_at_once(dpu: Client, value: str) -> None:
    target = dpu.get(OEM)["Actions"]["#HostRshim.Set"]["target"]
    assert target == OEM + "/Actions/HostRshim.Set"
    assert dpu.request("POST", target, {"HostRshim": value}).status == 204
    assert dpu.get(OEM)["HostRshim"] == value
    assert dpu.request("POST", target, {"HostRshim": value.lower()}).status == 400


def test_the_bmcs_rshim_is_switched_at_once(dpu: Client) -> None:
    assert dpu.get(MANAGER)["Oem"]["Nvidia"]["@odata.id"] == RSHIM
    for enabled in (True, False):
        assert dpu.request("PATCH", RSHIM, {"BmcRShim": {"BmcRShimEnabled": enabled}}).status == 204
        assert dpu.get(RSHIM)["BmcRShim"] == {"BmcRShimEnabled": enabled}
    assert dpu.request("PATCH", RSHIM, {"BmcRShim": {"BmcRShimEnabled": "true"}}).status == 400


def test_the_processors_of_the_card_start_anew(dpu: Client) -> None:
    target = dpu.get(OEM)["Actions"]["#SOC.ForceReset"]["target"]
    assert target == OEM + "/SOC.ForceReset"
    assert dpu.request("POST", target).status == 204
    assert dpu.bmc.power is Power.BOOTING
    reset_system(dpu, Event.FORCE_OFF)
    assert dpu.request("POST", target, {}).status == 204
    assert dpu.bmc.power is Power.POWERING_ON


@pytest.mark.parametrize(
    "ask",
    [
        lambda dpu: dpu.request("POST", "/redfish/v1/UpdateService/Actions/Oem/NvidiaUpdateService.ClearNVRAM"),
        lambda dpu: dpu.request("PATCH", BIOS + "/Settings", {"Attributes": {"ResetEfiVars": True}}),
    ],
)
def test_the_settings_of_the_firmware_are_cleared_with_the_next_boot(
    dpu: Client, ask: Callable[[Client], Response]
) -> None:
    factory = dpu.get(BIOS)["Attributes"]
    dpu.request("PATCH", BIOS + "/Settings", {"Attributes": {"HostPrivilegeLevel": "Restricted"}})
    reset_system(dpu, Event.FORCE_RESTART)
    assert ask(dpu).status == 204
    assert dpu.get(BIOS)["Attributes"]["HostPrivilegeLevel"] == "Restricted"
    reset_system(dpu, Event.FORCE_RESTART)
    assert dpu.get(BIOS)["Attributes"] == factory


def test_a_card_is_power_cycled_by_its_chassis(dpu: Client) -> None:
    target = "/redfish/v1/Chassis/Card1/Actions/Chassis.Reset"
    assert dpu.request("POST", target, {"ResetType": "PowerCycle"}).status == 204
    assert (dpu.bmc.power, dpu.bmc.state.service) == (Power.CYCLING, "Up")
    for body in ({}, {"ResetType": "ForceOff"}, {"ResetType": "FullPowerCycle"}):
        assert dpu.request("POST", target, body).status == 400


# loss of power


def states(*clients: Client) -> list[tuple[Power, str]]:
    """Power and service of BMCs."""
    return [(client.bmc.power, client.bmc.state.service) for client in clients]


def lose_power(client: Client) -> None:
    """Mains power goes and comes back."""
    client.driver.execute(client.bmc, client.bmc.ac_cycle(client.clock.now()))


def test_a_loss_of_power_takes_the_system_its_bmc_and_its_dpus_down() -> None:
    host, dpus = host_with_dpus()
    for client in (host, *dpus):
        account = client.bmc.accounts.accounts[0]
        client.bmc.open_session(account, client.clock.now())
    set_mode(dpus[0], "NicMode")
    lose_power(host)
    assert states(host, *dpus) == [(Power.CYCLING, "Resetting")] * 3
    assert [client.bmc.live_sessions(client.clock.now()) for client in (host, *dpus)] == [{}, {}, {}]
    host.advance(1000)
    assert states(host, *dpus) == [(Power.RUNNING, "Up")] * 3
    assert [mode(dpu)[0] for dpu in dpus] == ["NicMode", "DpuMode"]


def test_what_was_off_stays_off_and_its_bmc_restarts() -> None:
    host, dpus = host_with_dpus()
    reset_system(host, Event.FORCE_OFF)
    lose_power(host)
    assert states(host, *dpus) == [(Power.OFF, "Resetting")] * 3
    host.advance(1000)
    assert states(host, *dpus) == [(Power.OFF, "Up")] * 3


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        ("AlwaysOn", Event.FORCE_OFF, Power.RUNNING),
        ("AlwaysOff", Event.FORCE_RESTART, Power.OFF),
        ("LastState", Event.FORCE_RESTART, Power.RUNNING),
        ("LastState", Event.FORCE_OFF, Power.OFF),
    ],
)
def test_the_policy_says_what_a_system_does_when_power_is_back(
    host: Client, policy: str, before: Event, after: Power
) -> None:
    reset_system(host, before)
    host.bmc.change(host.bmc.tree.nodes[R750], {"PowerRestorePolicy": policy}, host.clock.now())
    lose_power(host)
    host.advance(1000)
    assert host.bmc.power is after


def test_a_second_loss_of_power_during_the_first_changes_nothing(host: Client) -> None:
    lose_power(host)
    host.advance(3)
    lose_power(host)
    host.advance(1000)
    assert states(host) == [(Power.RUNNING, "Up")]


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("Oem.NvidiaChassis.AuxPowerReset", {"ResetType": "AuxPowerCycle"}),
        ("Chassis.Reset", {"ResetType": "FullPowerCycle"}),
    ],
)
def test_a_tray_loses_standby_power_on_demand(action: str, body: dict[str, str]) -> None:
    """libredfish sends it to Chassis/BMC_0 of a GB200; here a card has it."""
    profile = load("bluefield3")
    card = "/redfish/v1/Chassis/Card1"
    profile.resources[card].actions[action] = {"ResetType": ParameterFacts(values=list(body.values()))}
    client = make_client("bluefield3")
    client.bmc.tree = compile_tree(profile, holes.bind)
    assert client.request("POST", action_target(card, action), body).status == 204
    assert states(client) == [(Power.CYCLING, "Resetting")]


def test_a_fault_that_keeps_a_system_off_is_cured_by_a_loss_of_power(host: Client) -> None:
    rule = {"id": "off", "action": {"IgnorePowerOn": {"count": 9}}}
    reset_system(host, Event.FORCE_OFF)
    host.bmc.become(host.clock.now(), faults=Rules.of([from_json(rule)]))
    reset_system(host, Event.ON)
    assert host.bmc.power is Power.OFF
    lose_power(host)
    host.advance(200)
    reset_system(host, Event.ON)
    assert host.bmc.power is Power.RUNNING


# NICo


def test_nico_sets_up_a_bluefield(dpu: Client) -> None:
    """libredfish: secure boot off, privilege, rshim, CPU model, boot once from HTTP; then a restart, and comparing."""
    assert dpu.request("PATCH", SYSTEM + "/SecureBoot", {"SecureBootEnable": False}).status == 204
    for name, value in (("HostPrivilegeLevel", "Restricted"), ("InternalCPUModel", "Embedded")):
        assert dpu.request("PATCH", BIOS + "/Settings", {"Attributes": {name: value}}).status == 204
    assert "bluefield 2" not in dpu.get("/redfish/v1/Chassis/Card1")["Model"].lower()
    assert dpu.request("POST", OEM + "/Actions/HostRshim.Set", {"HostRshim": "Disabled"}).status == 204
    boot = {
        "BootSourceOverrideMode": "UEFI",
        "BootSourceOverrideEnabled": "Once",
        "BootSourceOverrideTarget": "UefiHttp",
    }
    assert dpu.request("PATCH", SYSTEM + "/Settings", {"Boot": boot}).status == 204
    reset_system(dpu, Event.FORCE_RESTART)
    attributes = dpu.get(BIOS)["Attributes"]
    assert (attributes["HostPrivilegeLevel"], attributes["InternalCPUModel"]) == ("Restricted", "Embedded")
    assert dpu.get(SYSTEM + "/SecureBoot")["SecureBootEnable"] is False
    assert dpu.get(SYSTEM)["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    assert dpu.get(OEM)["HostRshim"] == "Disabled"


@pytest.mark.parametrize("name", ["Host Privilege Level", "Internal CPU Model"])
def test_nico_finds_the_name_of_an_attribute_in_the_refusal(dpu: Client, name: str) -> None:
    """libredfish tries the other spelling of an attribute when the refusal names the first one."""
    response = dpu.request("PATCH", BIOS + "/Settings", {"Attributes": {name: "Restricted"}})
    assert response.status == 400
    assert name.encode() in response.body


def test_nico_sets_the_uefi_password_of_a_bluefield(dpu: Client) -> None:
    for old, new in (("bluefield", "Site-Password-1"), ("Site-Password-1", "")):
        body = {"Attributes": {"CurrentUefiPassword": old, "UefiPassword": new}}
        response = dpu.request("PATCH", BIOS + "/Settings", body)
        assert (response.status, header(response, "Location")) == (204, None)
        reset_system(dpu, Event.FORCE_RESTART)


def test_nico_puts_a_dpu_into_nic_mode_by_a_power_cycle_of_its_host() -> None:
    host, dpus = host_with_dpus()
    assert set_mode(dpus[1], "NicMode").status == 204
    for reset in ("ForceOff", "On"):
        assert host.request("POST", f"{R750}/Actions/ComputerSystem.Reset", {"ResetType": reset}).status == 204
        host.advance(1000)
    assert [mode(dpu)[0] for dpu in dpus] == ["DpuMode", "NicMode"]


@pytest.mark.parametrize("by", ["Mode.Set", "settings"])
def test_the_mode_is_no_variable_of_the_firmware_and_survives_their_loss(dpu: Client, by: str) -> None:
    clear = "/redfish/v1/UpdateService/Actions/Oem/NvidiaUpdateService.ClearNVRAM"
    if by == "Mode.Set":
        assert set_mode(dpu, "NicMode").status == 204
    else:
        changed = {"Attributes": {"NicMode": "NicMode", "HostPrivilegeLevel": "Restricted"}}
        assert dpu.request("PATCH", BIOS + "/Settings", changed).status < 300
    assert dpu.request("POST", clear).status < 300
    reset_system(dpu, Event.POWER_CYCLE)
    assert mode(dpu) == ("NicMode", "NicMode")
    assert dpu.get(BIOS)["Attributes"]["HostPrivilegeLevel"] == "Unavailable"
    assert dpu.request("POST", clear).status < 300
    reset_system(dpu, Event.POWER_CYCLE)
    assert mode(dpu) == ("NicMode", "NicMode")
