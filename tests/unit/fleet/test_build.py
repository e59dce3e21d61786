"""From a fleet file to its BMCs."""

from typing import Any

import msgspec
import pytest

from bmcsim.fleet.build import Builder, example_bmc, scaled
from bmcsim.fleet.config import ConfigError, parse
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.power import Event, Power
from bmcsim.machine.state import State
from bmcsim.tree import profile as profiles
from bmcsim.tree.profile import Profile, Timings
from tests.conftest import make_client

BORN = 1_767_225_600.0


def built(text: str) -> Fleet:
    """The fleet of a file."""
    fleet = Fleet()
    for _ in Builder(parse(text, "fleet.toml"), Hasher(b"k" * 32), BORN).populate(fleet):
        pass
    return fleet


def bmc(fleet: Fleet, id_: str) -> Bmc:
    """A BMC that is there."""
    found = fleet.by_id(id_)
    assert found is not None
    return found


def test_a_host_knows_its_dpus_in_the_order_of_their_slots_and_nobody_else_has_any() -> None:
    alone = "[machines.b]\nhost_count = 1\ndpu_per_host_count = 0\n"
    fleet = built("[machines.a]\nhost_count = 2\ndpu_per_host_count = 2\n" + alone)
    assert {one.id: [dpu.id for dpu in one.dpus] for one in fleet if one.dpus} == {
        "a-0": ["a-0-dpu-0", "a-0-dpu-1"],
        "a-1": ["a-1-dpu-0", "a-1-dpu-1"],
    }
    for one in fleet:
        assert [dpu.identity for dpu in one.dpus] == list(one.identity.dpus)


def test_a_power_command_to_a_host_reaches_its_own_dpus_only() -> None:
    fleet = built("[machines.a]\nhost_count = 2\ndpu_per_host_count = 2\n")
    bmc(fleet, "a-1").reset_system(Event.FORCE_OFF, make_client("bluefield3").clock.now())
    assert {one.id for one in fleet if one.power is Power.OFF} == {"a-1", "a-1-dpu-0", "a-1-dpu-1"}


def test_every_bmc_started_when_the_fleet_was_born() -> None:
    for one in built("[machines.a]\nhost_count = 1\ndpu_per_host_count = 1\n"):
        assert one.state == State(one.shared.accounts, bmc_started=BORN, system_started=BORN)


def test_desired_versions_belong_to_the_component_that_has_them() -> None:
    text = "[machines.a]\nhost_count = 1\ndpu_per_host_count = 1\n[machines.a.desired_firmware]\n"
    fleet = built(text + "host = { lifecycle = '7.0', uefi = '1.14' }\ndpu = { bmc = 'BF-24.1' }\n")
    assert list(bmc(fleet, "a-0").shared.desired.items()) == [("bmc", "7.0"), ("uefi", "1.14")]
    assert bmc(fleet, "a-0-dpu-0").shared.desired == {"bmc": "BF-24.1"}
    for wrong in ("host = { nope = '1' }", "dpu = { sys_image = '1' }"):
        where = wrong.partition(" ")[0]
        with pytest.raises(ConfigError, match=rf"fleet.toml: machines.a.desired_firmware.{where}.*is not a component"):
            built(text + wrong)


def test_a_dpu_may_start_with_a_bsp_whose_version_is_empty() -> None:
    text = "[machines.a]\nhost_count = 1\ndpu_per_host_count = 1\ndpu_firmware_versions = "
    for versions, there in (("{ bsp = '' }", True), ("{ bsp = '4.5' }", True), ("{ bmc = 'BF-1' }", False)):
        assert ("bsp" in bmc(built(text + versions), "a-0-dpu-0").tree.components) is there


def test_a_state_that_was_kept_is_there_before_anybody_can_ask() -> None:
    kept: list[str] = []

    def restore(one: Bmc) -> State | None:
        kept.append(one.id)
        return State(one.shared.accounts, power=Power.OFF) if one.id.endswith("-0") else None

    fleet = Fleet()
    config = parse("[machines.a]\nhost_count = 2\ndpu_per_host_count = 0\n", "fleet.toml")
    for _ in Builder(config, Hasher(), BORN, restore).populate(fleet):
        pass
    assert kept == ["a-0", "a-1"]
    assert [(one.power, one.uncommitted) for one in fleet] == [(Power.OFF, None), (Power.RUNNING, None)]


def test_times_are_overridden_and_then_accelerated_and_jitter_is_no_time() -> None:
    timings = Timings(power_on=2, reboot=100, bmc_reset=90, jitter=0.2)
    assert scaled(timings, {}, 1.0) == timings
    changed = scaled(timings, {"reboot": 40, "jitter": 0.5}, 0.1)
    assert (changed.power_on, changed.reboot, changed.bmc_reset) == (pytest.approx(0.2), 4, 9)
    assert changed.jitter == 0.5


@pytest.mark.parametrize("name", ["bluefield3", "dell_poweredge_r750"])
def test_an_example_has_the_behaviour_of_its_profile(name: str) -> None:
    example = example_bmc(name)
    assert example.shared.behaviour == example.tree.head.behaviour
    assert (example.power, example.dpus) == (Power.RUNNING, ())


@pytest.mark.parametrize(
    ("ignores", "opens", "policy"), [(False, "Given-1", "pinned"), (True, "factory_password", "persist")]
)
def test_hardware_that_ignores_a_given_password_starts_on_its_factory_s(
    ignores: bool, opens: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*arguments: Any) -> Profile:
        profile = profiles.load(*arguments)
        behaviour = msgspec.structs.replace(profile.head.behaviour, ignores_pinned_password=ignores)
        return msgspec.structs.replace(profile, head=msgspec.structs.replace(profile.head, behaviour=behaviour))

    monkeypatch.setattr("bmcsim.fleet.build.load", load)
    fleet = built('host_bmc_password = "Given-1"\n[machines.a]\nhost_count = 1\ndpu_per_host_count = 0\n')
    shared = bmc(fleet, "a-0").shared
    assert shared.accounts.authenticate("root", shared.hasher.digest(opens)) is not None
    assert shared.policy == policy
