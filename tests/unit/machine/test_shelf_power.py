"""Machines without a system that is switched on and off: their chassis is."""

import pytest

from bmcsim.machine import power
from bmcsim.machine.actions import Emit
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.power import Power
from tests.conftest import Client, make_client

CHASSIS = {
    "delta_power_shelf": "/redfish/v1/Chassis/chassis",
    "liteon_power_shelf": "/redfish/v1/Chassis/powershelf",
}


@pytest.fixture(params=CHASSIS)
def shelf(request: pytest.FixtureRequest) -> Client:
    """A shelf as it comes."""
    return make_client(request.param)


def command(client: Client, event: power.Event) -> None:
    """What manages the rack gives a command."""
    client.driver.execute(client.bmc, client.bmc.reset_system(event, client.clock.now()))


def state(client: Client) -> str:
    """What the chassis shows."""
    shown: str = client.get(CHASSIS[client.bmc.tree.head.profile])["PowerState"]
    return shown


def test_a_new_shelf_is_off_and_is_switched_on_and_off(shelf: Client) -> None:
    assert (shelf.bmc.power, state(shelf)) == (Power.OFF, "Off")
    command(shelf, power.Event.ON)
    shelf.advance(10)
    assert (shelf.bmc.power, state(shelf)) == (Power.RUNNING, "On")
    command(shelf, power.Event.FORCE_OFF)
    assert state(shelf) == "Off"


def test_a_cycle_shows_off_for_five_seconds(shelf: Client) -> None:
    command(shelf, power.Event.ON)
    shelf.advance(10)
    command(shelf, power.Event.POWER_CYCLE)
    shelf.advance(4.9)
    assert state(shelf) == "Off"
    shelf.advance(5)
    assert (shelf.bmc.power, state(shelf)) == (Power.RUNNING, "On")


@pytest.mark.parametrize("was_on", [False, True])
def test_after_mains_power_was_lost_it_is_as_it_was_before(shelf: Client, was_on: bool) -> None:
    if was_on:
        command(shelf, power.Event.ON)
        shelf.advance(10)
    shelf.driver.execute(shelf.bmc, shelf.bmc.lose_mains(shelf.clock.now()))
    assert (shelf.bmc.power, shelf.bmc.state.service) == (Power.OFF, Service.UNPOWERED)
    shelf.driver.execute(shelf.bmc, shelf.bmc.regain_mains(shelf.clock.now()))
    shelf.advance(120)
    assert shelf.bmc.state.service is Service.UP
    assert shelf.bmc.power is (Power.RUNNING if was_on else Power.OFF)


@pytest.mark.parametrize("was_on", [False, True])
def test_an_ac_cycle_restarts_the_bmc_too(shelf: Client, was_on: bool) -> None:
    if was_on:
        command(shelf, power.Event.ON)
        shelf.advance(10)
    shelf.driver.execute(shelf.bmc, shelf.bmc.ac_cycle(shelf.clock.now()))
    assert shelf.bmc.state.service is Service.RESETTING
    shelf.advance(120)
    assert shelf.bmc.state.service is Service.UP
    assert shelf.bmc.power is (Power.RUNNING if was_on else Power.OFF)


def test_a_reset_of_the_bmc_leaves_the_power_alone(shelf: Client) -> None:
    command(shelf, power.Event.ON)
    shelf.advance(10)
    manager = shelf.bmc.tree.head.roles.manager
    response = shelf.request("POST", f"{manager}/Actions/Manager.Reset", {"ResetType": "ForceRestart"})
    assert response.status == 204
    assert shelf.bmc.state.service is Service.RESETTING
    shelf.advance(59)
    assert shelf.bmc.state.service is Service.RESETTING
    shelf.advance(2)
    assert (shelf.bmc.state.service, shelf.bmc.power) == (Service.UP, Power.RUNNING)


def test_listeners_are_told_that_the_chassis_is_on(shelf: Client) -> None:
    subscription = {"Destination": "https://192.0.2.9/events", "Protocol": "Redfish", "Context": "a"}
    assert shelf.request("POST", "/redfish/v1/EventService/Subscriptions", subscription).status == 201
    told = []
    done = shelf.bmc.reset_system(power.Event.ON, shelf.clock.now())
    shelf.clock.advance(10)
    done += shelf.bmc.timer_fired(power.TIMER, shelf.clock.now())
    for action in done:
        if isinstance(action, Emit):
            told.append((action.event.message_id.rpartition(".")[2], action.event.origin, action.event.args))
    chassis = CHASSIS[shelf.bmc.tree.head.profile]
    assert ("ResourcePoweredOn", chassis, (chassis,)) in told
    assert {origin for _, origin, _ in told} == {chassis}
