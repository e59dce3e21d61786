"""From a state directory to BMCs, and from their changes to it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import FleetConfig, parse
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.durability import Keeper, Restorer, fingerprint
from bmcsim.fleet.journal import Journal
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.store import StateError, Store
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.power import Event, Power

HOST = "[machines.host]\nhost_count = 1\ndpu_per_host_count = 1\n"


class Process:
    """One life of a process: a fleet, its driver and its journal, all from a state directory."""

    def __init__(self, directory: Path, text: str = HOST, *, quarantine: bool = False) -> None:
        self.config: FleetConfig = parse(text, "fleet.toml")
        self.clock = ManualClock(wall=1_800_000_000.0)
        self.store = Store.open(directory, fingerprint(self.config), quarantine=quarantine)
        try:
            self.restorer = Restorer(self.store, self.clock)
            self.fleet = Fleet()
            for _ in Builder(self.config, Hasher(self.store.key), self.restorer.born, self.restorer).populate(
                self.fleet
            ):
                pass
        except StateError:
            self.store.close()
            raise
        self.driver = Driver(self.clock)
        for bmc in self.fleet:
            self.driver.execute(bmc, ())

    def bmc(self, id_: str = "host-0") -> Bmc:
        """A BMC by its id."""
        found = self.fleet.by_id(id_)
        assert found is not None
        return found

    def live(self, change: Callable[["Process"], None]) -> list[BaseException | None]:
        """Change something, save it, and die. What those who waited were told."""
        told: list[BaseException | None] = []

        async def run() -> None:
            keeper = Keeper(Journal(self.store), self.driver)
            self.driver.changed = keeper.changed
            change(self)
            for bmc in self.fleet:
                if bmc.uncommitted is not None:
                    keeper.commit(bmc, told.append)
            await keeper.journal.close()

        asyncio.run(run())
        self.store.close()
        return told

    def refuses(self, bmc: Bmc, password: str) -> bool:
        """Whether a password is wrong."""
        return bmc.accounts.authenticate("root", bmc.shared.hasher.digest(password)) is None


def nothing(_process: Process) -> None:
    """No change."""


def test_everything_durable_is_there_again(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        bmc, moment = process.bmc(), process.clock.now()
        bmc.set_password("root", "Rotated-1", moment)
        node = bmc.tree.nodes["/redfish/v1/Systems/System.Embedded.1"]
        bmc.change(node, {"AssetTag": "${serial} is text"}, moment)
        bmc.reset_system(Event.FORCE_OFF, moment)

    process = Process(tmp_path)
    before = process.bmc()
    assert process.live(change) == [None]
    after = Process(tmp_path).bmc()
    assert after.state == before.state
    node = after.tree.nodes["/redfish/v1/Systems/System.Embedded.1"]
    moment = process.clock.now()
    assert after.body(node).render(after, moment) == before.body(node).render(before, moment)
    assert b'"AssetTag":"${serial} is text"' in after.body(node).render(after, moment)[1]
    assert after.power is Power.OFF


def test_a_timer_goes_on_with_what_was_left_of_it(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        process.clock.advance(1000)
        process.driver.execute(process.bmc(), process.bmc().reset_bmc(process.clock.now()))

    first = Process(tmp_path)
    first.live(change)
    left = first.bmc().remaining("bmc_reset", first.clock.now())
    again = Process(tmp_path)
    assert again.bmc().remaining("bmc_reset", again.clock.now()) == pytest.approx(left)
    again.clock.advance(left - 1)
    again.driver.run_due()
    assert again.bmc().state.service is Service.RESETTING
    again.clock.advance(1.1)
    again.driver.run_due()
    assert again.bmc().state.service is Service.UP


def test_what_a_timer_changes_is_saved_without_being_asked(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        process.driver.execute(process.bmc(), process.bmc().reset_system(Event.FORCE_RESTART, process.clock.now()))
        process.bmc().committed()
        assert process.driver.skip(3600) == 1

    Process(tmp_path).live(change)
    again = Process(tmp_path)
    assert again.bmc().power is Power.RUNNING
    assert len(again.driver) == 0


def test_a_power_command_to_a_host_saves_its_dpus_with_it(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        process.bmc().reset_system(Event.FORCE_OFF, process.clock.now())

    assert Process(tmp_path).live(change) == [None]
    again = Process(tmp_path)
    assert (again.bmc().power, again.bmc("host-0-dpu-0").power) == (Power.OFF, Power.OFF)


def test_the_fleet_remembers_when_it_was_born(tmp_path: Path) -> None:
    first = Process(tmp_path)
    first.live(nothing)
    again = Process(tmp_path)
    assert again.restorer.born == first.restorer.born == 1_800_000_000.0
    assert again.bmc().state.bmc_started == first.restorer.born


def test_bmcs_that_left_the_fleet_keep_their_rows(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        process.bmc("host-0-dpu-0").set_password("root", "Rotated-1", process.clock.now())

    Process(tmp_path).live(change)
    smaller = Process(tmp_path, "[machines.other]\nhost_count = 1\n")
    assert smaller.restorer.left == ["host-0-dpu-0"]
    smaller.live(nothing)
    again = Process(tmp_path)
    assert not again.refuses(again.bmc("host-0-dpu-0"), "Rotated-1")


def test_a_row_of_other_hardware_is_not_taken(tmp_path: Path) -> None:
    def change(process: Process) -> None:
        process.bmc().set_password("root", "Rotated-1", process.clock.now())

    Process(tmp_path).live(change)
    moved = "[machines.a]\nhost_count = 1\n" + HOST
    with pytest.raises(StateError, match=r"host-0.*MAC"):
        Process(tmp_path, moved)
    aside = Process(tmp_path, moved, quarantine=True)
    assert aside.store.quarantined == ["host-0"]
    assert aside.refuses(aside.bmc(), "Rotated-1")


def test_a_commit_that_fails_undoes_host_and_dpu_and_their_timers(tmp_path: Path) -> None:
    process = Process(tmp_path)

    def change(living: Process) -> None:
        def write(_rows: Any) -> None:
            raise OSError(28, "No space left on device")

        living.store.write = write  # type: ignore[method-assign]
        living.driver.execute(living.bmc(), living.bmc().reset_system(Event.POWER_CYCLE, living.clock.now()))
        assert len(living.driver) == 2

    told = process.live(change)
    assert len(told) == 1
    assert "No space left" in str(told[0])
    assert [bmc.power for bmc in process.fleet] == [Power.RUNNING, Power.RUNNING]
    assert len(process.driver) == 0
