"""Reset of the BMC itself."""

import pytest

from bmcsim.machine.actions import Action, BmcRestarted, DropSessions, SetTimer
from bmcsim.machine.bmc_reset import TIMER, Event, Service, step
from bmcsim.machine.power import Event as PowerEvent
from bmcsim.machine.power import Power
from bmcsim.tree.profile import Timings
from tests.conftest import Client, make_client

RESET = "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset"


@pytest.mark.parametrize(
    ("state", "event", "next_state", "actions"),
    [
        (Service.UP, Event.RESET, Service.RESETTING, [DropSessions(), SetTimer(TIMER, 7)]),
        (Service.UP, Event.TIMER, Service.UP, []),
        (Service.RESETTING, Event.RESET, Service.RESETTING, []),
        (Service.RESETTING, Event.TIMER, Service.UP, [BmcRestarted()]),
    ],
)
def test_every_transition(state: Service, event: Event, next_state: Service, actions: list[Action]) -> None:
    assert step(state, event, Timings(bmc_reset=7)) == (next_state, actions)


def test_a_bmc_is_away_for_exactly_its_time(dpu: Client) -> None:
    assert dpu.request("POST", RESET).status == 204
    assert not dpu.bmc.available
    dpu.advance(dpu.bmc.shared.timings.bmc_reset - 0.001)
    assert not dpu.bmc.available
    dpu.advance(0.001)
    assert dpu.bmc.available
    assert len(dpu.driver) == 0


def test_the_time_scale_shortens_a_reset() -> None:
    client = make_client("bluefield3", time_scale=60)
    client.request("POST", RESET)
    client.advance(1.5)
    assert client.bmc.available


def test_a_reset_shows_in_the_manager_and_leaves_system_password_and_settings_alone(dpu: Client) -> None:
    manager, system = "/redfish/v1/Managers/Bluefield_BMC", "/redfish/v1/Systems/Bluefield"
    dpu.request("PATCH", system, {"Boot": {"BootSourceOverrideTarget": "Pxe"}})
    before = dpu.get(manager)["LastResetTime"]
    booted = dpu.get(system)
    dpu.request("POST", RESET)
    dpu.advance(100)
    assert dpu.get(manager)["LastResetTime"] > before
    assert dpu.get(system) == booted
    assert dpu.bmc.power is Power.RUNNING


def test_power_and_bmc_have_timers_of_their_own(dpu: Client) -> None:
    dpu.request("POST", RESET)
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_system(PowerEvent.POWER_CYCLE, dpu.clock.now()))
    assert len(dpu.driver) == 2
    dpu.advance(5)
    assert (dpu.bmc.power, dpu.bmc.available) == (Power.POWERING_ON, False)
    dpu.advance(85)
    assert (dpu.bmc.power, dpu.bmc.available) == (Power.BOOTING, True)


def test_sessions_end_when_the_reset_begins(dpu: Client) -> None:
    moment = dpu.clock.now()
    account = dpu.bmc.accounts.get("root")
    assert account is not None
    session = dpu.bmc.open_session(account, moment)
    dpu.request("POST", RESET)
    assert dpu.bmc.live_sessions(moment) == {}
    dpu.advance(100)
    assert dpu.request("GET", "/redfish/v1/Systems", authorization=b"", token=session.token.encode()).status == 401
