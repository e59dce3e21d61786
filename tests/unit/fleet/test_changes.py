"""What changes in a fleet, in columns."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import ManualClock
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.changes import CREDENTIALS, POWERS, STATES, Watch, packed, quantile
from bmcsim.fleet.history import History, refusal
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.selection import Racks, credentials_of, state_of
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.power import Event
from bmcsim.redfish.injection import rules_of
from bmcsim.testing.build import CachingBuilder

FILE = """
host_bmc_password = "Rotated-1"
[machines.alpha]
hw_type = "dell_poweredge_r750"
host_count = 3
dpu_per_host_count = 1
[racks.gamma]
type = "wiwynn_gb200_nvl72"
ids = ["r1"]
"""


class World:
    """A fleet that changes, who looks at it, and a copy that is kept up by what is told."""

    def __init__(self) -> None:
        self.clock, self.fleet, self.history = ManualClock(), Fleet(), History()
        config = fleet_config.parse(FILE, "fleet.toml")
        for _ in CachingBuilder(config, Hasher(b"k" * 32), self.clock.now().wall).populate(self.fleet):
            pass
        self.every = list(self.fleet)
        self.watch = self.seen()
        self.history.fresh = set()
        self.copy = self.columns(self.watch)

    def seen(self) -> Watch:
        """A first look at everything."""
        watch = Watch(self.fleet, Racks(self.fleet, {}), self.history.errors)
        while not watch.complete:
            watch.add(7)
        return watch

    @staticmethod
    def columns(watch: Watch) -> dict[str, list[Any]]:
        """The columns that change, and those that do not."""
        changing = {name: list(getattr(watch, name)) for name in ("status", "address", "faults", "errors")}
        return {**watch.fixed, **changing}

    def look(self) -> int:
        """Look at all, and tell the copy; how many changed."""
        places = [place for start in range(0, len(self.watch), 4) for place in self.watch.look(start, start + 4)]
        fresh, self.history.fresh = self.history.fresh or set(), set()
        places += [place for one in fresh if (place := self.watch.look_at(one)) is not None]
        changed = self.watch.changed(sorted(set(places)))
        for at, place in enumerate(changed.i):
            for name in ("status", "address", "faults", "errors"):
                self.copy[name][place] = getattr(changed, name)[at]
        return len(changed.i)

    def change(self, what: str, number: int) -> None:
        """Something happens to a BMC."""
        bmc, moment = self.every[number % len(self.every)], self.clock.now()
        match what:
            case "power":
                bmc.follow(Event.FORCE_OFF if number % 2 else Event.ON, moment)
            case "reset":
                bmc.reset_bmc(moment)
            case "password":
                account = bmc.accounts.accounts[0]
                bmc.set_password(account.id, f"Password-{number}", moment)
            case "faults":
                form = {"id": "f", "selector": {"OdataId": "/x"}, "action": "Close"}
                bmc.become(moment, faults=rules_of([form] if number % 2 else [], 0.0))
            case "address":
                if bmc.address:
                    self.fleet.unbind(bmc)
                else:
                    self.fleet.bind(bmc, f"198.51.100.{number % len(self.every) + 1}")
            case "error":
                self.history.note(bmc, refusal(0.0, ""))
            case "ready":
                self.fleet.ready = not self.fleet.ready
        bmc.committed()


WHAT = st.sampled_from(["power", "reset", "password", "faults", "address", "error", "ready", "look"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(WHAT, st.integers(0, 200)), max_size=30))
def test_a_copy_that_is_told_changes_is_as_the_fleet_is(steps: list[tuple[str, int]]) -> None:
    world = World()
    for what, number in steps:
        if what == "look":
            world.look()
        else:
            world.change(what, number)
    world.look()
    assert world.copy == world.columns(world.seen())
    assert world.look() == 0


def test_a_number_has_state_power_and_credentials() -> None:
    world = World()
    world.change("power", 1)
    world.change("reset", 1)
    bmc = world.every[1]
    number = packed(bmc, world.fleet)
    assert STATES[number & 7] == state_of(bmc, world.fleet) == "resetting"
    assert POWERS[number >> 3 & 7] == bmc.power.shown
    assert CREDENTIALS[number >> 6] == credentials_of(bmc)


def test_what_does_not_change_is_told_once() -> None:
    watch = World().watch
    fixed, tables = watch.fixed, watch.tables
    dpu = next(place for place, kind in enumerate(fixed["kind"]) if tables["kind"][kind] == "dpu")
    assert fixed["id"][fixed["parent"][dpu]] == fixed["id"][dpu].rpartition("-dpu-")[0]
    assert {tables["group"][number] for number in fixed["group"]} == {bmc.shared.group for bmc in watch.bmcs}
    racked = [place for place, rack in enumerate(fixed["rack"]) if rack >= 0]
    assert racked and all(tables["rack"][fixed["rack"][place]] == "r1" for place in racked)
    assert fixed["i"] == list(range(len(watch)))


def test_it_sees_that_the_fleet_has_others() -> None:
    world = World()
    assert world.watch.current
    watch = world.watch
    watch.bmcs = watch.bmcs[:-1]
    assert not watch.current


def test_some_places_of_a_change() -> None:
    changed = World().watch.changed([0, 2, 3])
    only = changed.only(frozenset({2, 9}))
    assert (only.i, only.status, only.address) == ([2], changed.status[1:2], changed.address[1:2])


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0], 0.5, None),
        ([10, 0, 0], 0.5, 0.5),
        ([5, 5, 0], 0.5, 1.0),
        ([0, 10, 0], 0.9, 2.8),
        ([0, 0, 4], 0.5, 3.0),
    ],
)
def test_quantiles_of_a_histogram(counts: list[int], share: float, expected: float | None) -> None:
    assert quantile((1.0, 3.0), counts, share) == (None if expected is None else pytest.approx(expected))
