"""Racks: shelves that go off take what they feed with them, and bring it back."""

import msgspec
import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.driver import Driver
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Phase, Service
from bmcsim.machine.identity import Kind
from bmcsim.machine.power import Power
from bmcsim.machine.rack import Rack
from tests.conftest import Client, make_client

ON, OFF, CYCLE = power.Event.ON, power.Event.FORCE_OFF, power.Event.POWER_CYCLE


class Scene:
    """A rack of two shelves, which are off, and a tray with two DPUs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.driver = Driver(self.clock)
        self.tray, *dpus = [self._bmc(Kind.HOST, 0), self._bmc(Kind.DPU, 1), self._bmc(Kind.DPU, 2)]
        self.tray.dpus = tuple(dpus)
        self.shelves = (self._bmc(Kind.POWER_SHELF, 3), self._bmc(Kind.POWER_SHELF, 4))
        rack = Rack(self.shelves, (self.tray,))
        for one in (self.tray, *self.shelves):
            one.rack = rack

    def _bmc(self, kind: Kind, index: int) -> Bmc:
        client = make_client("dell_poweredge_r750" if kind is Kind.HOST else "bluefield3", index=index)
        bmc = client.bmc
        bmc.id, bmc.identity = f"bmc-{index}", msgspec.structs.replace(bmc.identity, kind=kind)
        state = Power.OFF if kind is Kind.POWER_SHELF else Power.RUNNING
        bmc.become(self.clock.now(), power=state)
        bmc.committed()
        return bmc

    def command(self, bmc: Bmc, event: power.Event) -> None:
        self.driver.execute(bmc, bmc.reset_system(event, self.clock.now()))

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.advance(1)
            self.driver.run_due()

    @property
    def everything(self) -> tuple[Bmc, ...]:
        return (self.tray, *self.tray.dpus)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_shelves_that_were_never_on_leave_the_rack_as_it_is(scene: Scene) -> None:
    assert all(one.state.service is Service.UP for one in scene.everything)
    scene.command(scene.shelves[0], ON)
    scene.run(10)
    assert all(one.state.service is Service.UP for one in scene.everything)
    assert scene.tray.power is Power.RUNNING


def test_one_shelf_is_enough(scene: Scene) -> None:
    for shelf in scene.shelves:
        scene.command(shelf, ON)
    scene.run(10)
    scene.command(scene.shelves[0], OFF)
    assert scene.tray.state.service is Service.UP


def test_the_last_shelf_takes_tray_and_dpus_down(scene: Scene) -> None:
    scene.command(scene.shelves[0], ON)
    scene.run(10)
    scene.command(scene.shelves[0], OFF)
    for one in scene.everything:
        assert one.state.service is Service.UNPOWERED
        assert one.power is Power.OFF
        assert one.phase(scene.clock.now()) is Phase.CLOSED
        assert one.refuses_connections
    scene.run(3600)
    assert all(one.state.service is Service.UNPOWERED for one in scene.everything)


def test_what_was_on_comes_back(scene: Scene) -> None:
    scene.command(scene.shelves[0], ON)
    scene.run(10)
    scene.command(scene.shelves[0], OFF)
    scene.command(scene.shelves[1], ON)
    assert all(one.state.service is Service.RESETTING for one in scene.everything)
    scene.run(1000)
    for one in scene.everything:
        assert one.state.service is Service.UP
        assert one.power is Power.RUNNING


def test_what_was_off_stays_off(scene: Scene) -> None:
    scene.command(scene.shelves[0], ON)
    scene.command(scene.tray, OFF)
    scene.run(10)
    scene.command(scene.shelves[0], OFF)
    scene.command(scene.shelves[0], ON)
    scene.run(1000)
    assert scene.tray.state.service is Service.UP
    assert scene.tray.power is Power.OFF


@pytest.mark.parametrize(
    ("policy", "was", "expected"),
    [
        ("AlwaysOn", OFF, Power.RUNNING),
        ("AlwaysOff", ON, Power.OFF),
        ("LastState", ON, Power.RUNNING),
        ("LastState", OFF, Power.OFF),
    ],
)
def test_the_restore_policy_decides(scene: Scene, policy: str, was: power.Event, expected: Power) -> None:
    node = scene.tray.tree.nodes[scene.tray.tree.head.roles.system]
    scene.tray.change(node, {"PowerRestorePolicy": policy}, scene.clock.now())
    scene.command(scene.shelves[0], ON)
    if was is OFF:
        scene.command(scene.tray, OFF)
    scene.run(10)
    scene.command(scene.shelves[0], OFF)
    scene.command(scene.shelves[0], ON)
    scene.run(1000)
    assert scene.tray.power is expected


def test_a_reset_in_progress_ends_with_the_power(scene: Scene) -> None:
    scene.command(scene.shelves[0], ON)
    scene.driver.execute(scene.tray, scene.tray.reset_bmc(scene.clock.now()))
    scene.command(scene.shelves[0], OFF)
    assert scene.tray.state.service is Service.UNPOWERED
    scene.run(600)
    assert scene.tray.state.service is Service.UNPOWERED


def test_sessions_end_where_the_power_goes(scene: Scene) -> None:
    account = scene.tray.accounts.accounts[0]
    scene.tray.open_session(account, scene.clock.now())
    scene.tray.dpus[0].open_session(scene.tray.dpus[0].accounts.accounts[0], scene.clock.now())
    scene.command(scene.shelves[0], ON)
    scene.command(scene.shelves[0], OFF)
    assert not scene.tray.live_sessions(scene.clock.now())
    assert not scene.tray.dpus[0].live_sessions(scene.clock.now())


def test_a_power_cycle_of_the_last_shelf_is_an_outage(scene: Scene) -> None:
    scene.command(scene.shelves[0], ON)
    scene.run(10)
    scene.command(scene.shelves[0], CYCLE)
    assert scene.tray.state.service is Service.UNPOWERED
    scene.run(1000)
    assert scene.tray.state.service is Service.UP
    assert scene.tray.power is Power.RUNNING


def test_what_a_shelf_does_to_others_is_saved_with_it(scene: Scene) -> None:
    saved: list[str] = []
    scene.driver.changed = lambda bmc: saved.append(bmc.id) if bmc.committed() is not None else None
    scene.command(scene.shelves[0], ON)
    scene.run(10)
    for one in scene.shelves[0].reach():
        one.committed()
    scene.command(scene.shelves[0], CYCLE)
    assert {one.id for one in scene.shelves[0].reach() if one.uncommitted is not None} == {
        "bmc-0", "bmc-1", "bmc-2", "bmc-3",
    }  # fmt: skip
    for one in scene.shelves[0].reach():
        one.committed()
    saved.clear()
    scene.run(6)
    assert {"bmc-0", "bmc-1", "bmc-2", "bmc-3"} <= set(saved)


def test_undo_reaches_what_depends(scene: Scene) -> None:
    scene.command(scene.shelves[0], ON)
    snapshot = scene.shelves[0].snapshot()
    scene.shelves[0].reset_system(OFF, scene.clock.now())
    assert scene.tray.state.service is Service.UNPOWERED
    Bmc.forget(snapshot)
    assert scene.tray.state.service is Service.UP
    assert scene.shelves[0].power is not Power.OFF


def test_requests_meet_a_closed_door(scene: Scene, host: Client) -> None:
    host.bmc.become(host.clock.now(), service=Service.UNPOWERED)
    response = host.request("GET", "/redfish/v1/")
    assert response.delivery is not None
    assert response.delivery.keep == 0
