"""Reset of the BMC itself."""

from typing import Any, get_args

import msgspec
import pytest

from bmcsim.machine.actions import Action, DropSessions, Happened, Happening, SetTimer
from bmcsim.machine.bmc_reset import PHASES, TIMER, Event, Phase, Service, phase, step
from bmcsim.machine.power import Event as PowerEvent
from bmcsim.machine.power import Power
from bmcsim.tree.profile import ResetMode, Timings
from tests.conftest import PASSWORD, Client, basic, make_client

RESET = "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset"
SYSTEM = "/redfish/v1/Systems/Bluefield"

GOLDEN: dict[ResetMode, list[tuple[float, Phase]]] = {
    "close": [(0.0, Phase.CLOSED), (0.5, Phase.CLOSED), (0.999, Phase.CLOSED)],
    "503": [(0.0, Phase.UNAVAILABLE), (0.5, Phase.UNAVAILABLE), (0.999, Phase.UNAVAILABLE)],
    "hang": [(0.0, Phase.HANGING), (0.5, Phase.HANGING), (0.999, Phase.HANGING)],
    "staged": [
        (0.0, Phase.CLOSED),
        (0.599, Phase.CLOSED),
        (0.601, Phase.UNAVAILABLE),
        (0.899, Phase.UNAVAILABLE),
        (0.901, Phase.SLOW),
        (0.999, Phase.SLOW),
    ],
}


def client_with(*, index: int = 0, time_scale: float = 1.0, policy: str = "persist", **changes: Any) -> Client:
    """A BlueField-3 with other timings (bmc_reset, jitter), another mode or another credential policy."""
    client = make_client("bluefield3", index=index, time_scale=time_scale)
    shared = client.bmc.shared
    behaviour = msgspec.structs.replace(
        shared.behaviour, while_resetting=changes.pop("while_resetting", shared.behaviour.while_resetting)
    )
    timings = msgspec.structs.replace(shared.timings, **changes)
    client.bmc.shared = msgspec.structs.replace(shared, behaviour=behaviour, timings=timings, policy=policy)
    return client


def reset(client: Client) -> None:
    """Begin a reset."""
    assert client.request("POST", RESET).status == 204


def seen(client: Client) -> Phase:
    """What a request meets now."""
    return client.bmc.phase(client.clock.now())


@pytest.mark.parametrize(
    ("state", "event", "next_state", "actions"),
    [
        (
            Service.UP,
            Event.RESET,
            Service.RESETTING,
            [Happened(Happening.BMC_RESETTING), DropSessions(), SetTimer(TIMER, 7)],
        ),
        (Service.UP, Event.TIMER, Service.UP, []),
        (Service.RESETTING, Event.RESET, Service.RESETTING, []),
        (Service.RESETTING, Event.TIMER, Service.UP, [Happened(Happening.BMC_RESTARTED)]),
    ],
)
def test_every_transition(state: Service, event: Event, next_state: Service, actions: list[Action]) -> None:
    assert step(state, event, Timings(bmc_reset=7)) == (next_state, actions)


def test_a_bmc_is_away_for_exactly_its_time(dpu: Client) -> None:
    reset(dpu)
    assert dpu.bmc.state.service is Service.RESETTING
    dpu.advance(dpu.bmc.shared.timings.bmc_reset - 0.001)
    assert dpu.bmc.state.service is Service.RESETTING
    dpu.advance(0.001)
    assert dpu.bmc.state.service is Service.UP
    assert len(dpu.driver) == 0


def test_the_time_scale_shortens_a_reset() -> None:
    client = make_client("bluefield3", time_scale=60)
    reset(client)
    client.advance(1.499)
    assert client.bmc.state.service is Service.RESETTING
    client.advance(0.001)
    assert client.bmc.state.service is Service.UP


def test_a_reset_shows_in_the_manager_and_leaves_system_password_and_settings_alone(dpu: Client) -> None:
    manager = "/redfish/v1/Managers/Bluefield_BMC"
    dpu.request("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe"}})
    before = dpu.get(manager)["LastResetTime"]
    booted = dpu.get(SYSTEM)
    dpu.request("POST", RESET)
    dpu.advance(100)
    assert dpu.get(manager)["LastResetTime"] > before
    assert dpu.get(SYSTEM) == booted
    assert dpu.bmc.power is Power.RUNNING


def test_power_and_bmc_have_timers_of_their_own(dpu: Client) -> None:
    dpu.request("POST", RESET)
    dpu.driver.execute(dpu.bmc, dpu.bmc.reset_system(PowerEvent.POWER_CYCLE, dpu.clock.now()))
    assert len(dpu.driver) == 2
    dpu.advance(5)
    assert (dpu.bmc.power, dpu.bmc.state.service) == (Power.POWERING_ON, Service.RESETTING)
    dpu.advance(85)
    assert (dpu.bmc.power, dpu.bmc.state.service) == (Power.BOOTING, Service.UP)


def test_sessions_end_when_the_reset_begins(dpu: Client) -> None:
    moment = dpu.clock.now()
    account = dpu.bmc.accounts.get("root")
    assert account is not None
    session = dpu.bmc.open_session(account, moment)
    dpu.request("POST", RESET)
    assert dpu.bmc.live_sessions(moment) == {}
    dpu.advance(100)
    assert dpu.request("GET", "/redfish/v1/Systems", authorization=b"", token=session.token.encode()).status == 401


# phases


def test_every_mode_that_a_profile_may_have_has_phases() -> None:
    assert set(get_args(ResetMode)) == PHASES.keys() == GOLDEN.keys()


@pytest.mark.parametrize(("mode", "part", "expected"), [(mode, *one) for mode, rows in GOLDEN.items() for one in rows])
def test_every_phase_of_every_mode(mode: ResetMode, part: float, expected: Phase) -> None:
    assert phase(mode, part) is expected


@pytest.mark.parametrize("mode", PHASES)
def test_a_reset_that_is_about_to_end_is_still_one(mode: ResetMode) -> None:
    assert phase(mode, 1.0) is PHASES[mode][-1][1]
    assert phase(mode, 1.5) is PHASES[mode][-1][1]


@pytest.mark.parametrize("time_scale", [1.0, 60.0])
@pytest.mark.parametrize("mode", PHASES)
def test_a_bmc_goes_through_the_phases_of_its_mode_and_is_open_again(mode: ResetMode, time_scale: float) -> None:
    client = client_with(while_resetting=mode, bmc_reset=100.0, time_scale=time_scale)
    assert seen(client) is Phase.OPEN
    reset(client)
    passed = 0.0
    for part, expected in GOLDEN[mode]:
        client.advance((part - passed) * 100 / time_scale)
        passed = part
        assert seen(client) is expected, part
    client.advance(1)
    assert seen(client) is Phase.OPEN


@pytest.mark.parametrize("mode", PHASES)
def test_a_reset_that_takes_no_time_is_over_when_its_timer_fires(mode: ResetMode) -> None:
    client = client_with(while_resetting=mode, bmc_reset=0.0)
    reset(client)
    assert seen(client) is PHASES[mode][-1][1]
    client.driver.run_due()
    assert seen(client) is Phase.OPEN


@pytest.mark.parametrize(("mode", "refuses"), [("close", True), ("503", False), ("hang", False), ("staged", False)])
def test_new_connections_are_refused_by_a_bmc_that_is_gone_altogether(mode: ResetMode, refuses: bool) -> None:
    client = client_with(while_resetting=mode)
    assert not client.bmc.refuses_connections
    reset(client)
    assert client.bmc.refuses_connections == refuses
    client.advance(90)
    assert not client.bmc.refuses_connections


def test_a_bmc_in_reset_has_no_plain_answers_and_no_remembered_credentials(dpu: Client) -> None:
    dpu.get(SYSTEM)
    assert dpu.bmc.basic_header
    assert dpu.bmc.plain
    reset(dpu)
    assert not dpu.bmc.basic_header
    assert not dpu.bmc.plain
    dpu.advance(90)
    assert dpu.bmc.plain
    dpu.get(SYSTEM)
    assert dpu.bmc.basic_header


# jitter


def durations(client: Client, count: int = 3) -> list[float]:
    """How long resets take, one after another."""
    found = []
    for _ in range(count):
        reset(client)
        found.append(client.bmc.remaining(TIMER, client.clock.now()))
        client.advance(found[-1] + 1)
        assert client.bmc.state.service is Service.UP
    return found


def test_resets_spread_by_bmc_and_by_reset_within_their_jitter() -> None:
    found = [durations(client_with(index=index, bmc_reset=100.0, jitter=0.2)) for index in range(5)]
    every = [one for row in found for one in row]
    assert len(set(every)) == len(every)
    assert all(100 <= one < 120 for one in every)
    assert max(every) - min(every) > 5
    assert [durations(client_with(index=index, bmc_reset=100.0, jitter=0.2)) for index in range(5)] == found


def test_without_jitter_every_reset_takes_the_same() -> None:
    assert durations(client_with(bmc_reset=100.0)) == [100.0] * 3


@pytest.mark.parametrize("index", range(4))
def test_the_phases_of_a_reset_that_takes_longer_take_longer_too(index: int) -> None:
    client = client_with(index=index, while_resetting="staged", bmc_reset=100.0, jitter=1.0)
    reset(client)
    whole = client.bmc.remaining(TIMER, client.clock.now())
    passed = 0.0
    for part, expected in GOLDEN["staged"]:
        client.advance((part - passed) * whole)
        passed = part
        assert seen(client) is expected, part


# what a reset does to passwords


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("persist", [200, 401, 401]), ("factory", [401, 401, 403]), ("pinned", [401, 200, 401])],
)
def test_a_changed_password_survives_a_reset_as_the_policy_says(policy: str, expected: list[int]) -> None:
    client = client_with(policy=policy)
    client.bmc.set_password("root", "Changed-1", client.clock.now())
    client.authorization = basic("root", "Changed-1")
    reset(client)
    client.advance(89)
    digest = client.bmc.shared.hasher.digest
    assert client.bmc.accounts.authenticate("root", digest("Changed-1")) is not None
    client.advance(1)
    statuses = [
        client.request("GET", SYSTEM, authorization=basic("root", password)).status
        for password in ("Changed-1", PASSWORD, "0penBmc")
    ]
    assert statuses == expected
