"""What a fleet file says about how BMCs behave, and for which of them."""

import itertools
from typing import Any

import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.build import Builder
from bmcsim.fleet.conduct import Conduct, Lockout, changed
from bmcsim.fleet.config import FleetConfig, parse
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.state import decode
from bmcsim.tree.profile import DeepSupport

ACCOUNT_SERVICE = "/redfish/v1/AccountService"


def config(text: str) -> FleetConfig:
    """A fleet of two groups with more in front."""
    return parse(
        text + "\n[machines.a]\nhost_count = 2\ndpu_per_host_count = 1\n[machines.b]\nhost_count = 1\n", "fleet.toml"
    )


def built(text: str) -> dict[str, Bmc]:
    """Id -> BMC."""
    fleet = Fleet()
    for _ in Builder(config(text), Hasher(b"k" * 32), 0.0).populate(fleet):
        pass
    return {bmc.id: bmc for bmc in fleet}


def lockout_threshold(bmc: Bmc) -> Any:
    """AccountLockoutThreshold as a client reads it."""
    return bmc.setting(ACCOUNT_SERVICE, "AccountLockoutThreshold")


def test_without_a_word_everything_is_the_profile_s() -> None:
    for bmc in built("").values():
        assert bmc.shared.behaviour == bmc.tree.head.behaviour
        assert bmc.shared.timings == bmc.tree.head.timings
        assert bmc.shared.policy == "persist"
        assert not bmc.state.faults
        assert lockout_threshold(bmc) == 0


def test_bmcs_that_changed_nothing_share_one_state() -> None:
    bmcs = built("")
    assert bmcs["a-0"].state is bmcs["a-1"].state
    assert bmcs["a-0-dpu-0"].state is bmcs["a-1-dpu-0"].state


def test_a_given_password_is_pinned_unless_the_file_says_otherwise() -> None:
    pinned = built('host_bmc_password = "P"')
    assert {id_: bmc.shared.policy for id_, bmc in pinned.items()} == {
        "a-0": "pinned", "a-0-dpu-0": "persist", "a-1": "pinned", "a-1-dpu-0": "persist", "b-0": "pinned"
    }  # fmt: skip
    told = built('host_bmc_password = "P"\n[bmcsim]\ncredentials = "persist"')
    assert {bmc.shared.policy for bmc in told.values()} == {"persist"}


def test_a_bmc_goes_before_its_group_and_a_group_before_the_fleet() -> None:
    bmcs = built(
        """
        [bmcsim]
        credentials = "factory"
        while_resetting = "503"
        lockout = { threshold = 4, duration = 600, reset_after = 60 }
        [bmcs."a-1"]
        while_resetting = "hang"
        credentials = "persist"
        [bmcs."a-0-dpu-0"]
        lockout = { threshold = 9 }
        """
    )
    assert {id_: bmc.shared.behaviour.while_resetting for id_, bmc in bmcs.items()} == {
        "a-0": "503", "a-0-dpu-0": "503", "a-1": "hang", "a-1-dpu-0": "503", "b-0": "503"
    }  # fmt: skip
    assert (bmcs["a-0"].shared.policy, bmcs["a-1"].shared.policy) == ("factory", "persist")
    assert [lockout_threshold(bmcs[id_]) for id_ in ("a-0", "a-0-dpu-0", "b-0")] == [4, 9, 4]


def test_a_preset_sets_times_and_what_goes_with_them_and_overrides_come_on_top() -> None:
    text = '[bmcsim]\npreset = "fast"\n[bmcs."b-0"]\npreset = "realistic"\n'
    bmcs = built(text)
    assert bmcs["a-0"].shared.timings.reboot < 5
    assert bmcs["b-0"].shared.timings.reboot == bmcs["b-0"].tree.head.timings.reboot
    assert bmcs["b-0"].shared.behaviour.while_resetting == "staged"
    group = parse(
        '[bmcsim]\npreset = "fast"\n[machines.a]\nhost_count = 1\nacceleration_factor = 0.5\n'
        '[machines.a.timing_overrides.host]\nreboot = "40s"\n',
        "fleet.toml",
    )
    fleet = Fleet()
    list(Builder(group, Hasher(), 0.0).populate(fleet))
    assert next(iter(fleet)).shared.timings.reboot == 20


def test_faults_of_all_levels_add_up() -> None:
    rule = '{ id = "x", selector = { Path = { glob = "/redfish/v1/Systems" } }, action = { Status = 500 } }'
    bmcs = built(f'[bmcsim]\nfaults = ["flaky"]\n[bmcs."b-0"]\nfaults = [{rule}]\n')
    flaky = [one.id for one in bmcs["a-0"].state.faults.rules]
    assert flaky
    assert [one.id for one in bmcs["b-0"].state.faults.rules] == [*flaky, "x"]


@pytest.mark.parametrize(
    ("text", "key", "right"),
    [
        ('[bmcsim]\npreset = "quick"', "bmcsim.preset", "chaos, fast, realistic"),
        ('[bmcsim]\ncredentials = "sticky"', "bmcsim.credentials", "persist, factory, pinned"),
        ('[bmcsim]\nwhile_resetting = "drop"', "bmcsim.while_resetting", "close, 503, hang, staged"),
        ('[bmcsim]\nssdp = "on"', "bmcsim.ssdp", "absent, disabled, enabled"),
        ('[bmcsim]\nprogression = "fast"', "bmcsim.progression", "timed, immediate, manual"),
        ('[bmcsim]\ndurability = "high"', "bmcsim.durability", "normal, full"),
        ("[bmcsim]\nlockout = { threshold = 4, duration = 1 }", "bmcsim.lockout", "reset_after"),
        ("[bmcsim]\nlockout = { tries = 4 }", "bmcsim.lockout", "threshold = 4"),
        ("[bmcsim]\nlockout = { threshold = 99999999999999999999 }", "bmcsim.lockout", "2147483647"),
        ('[bmcsim]\nfaults = ["flakey"]', "bmcsim.faults", "flaky"),
        ('[bmcsim]\nfaults = [{ id = "x" }]', "bmcsim.faults", "action"),
        ('[bmcs."a-9"]\npreset = "fast"', "bmcs.a-9", "NAME-NUMBER"),
        ('[bmcs."a-0-dpu-1"]\npreset = "fast"', "bmcs.a-0-dpu-1", "NAME-NUMBER"),
        ('[bmcs."a-0"]\npersist = true', "bmcs.a-0.persist", "not a known key"),
        ('[bmcsim]\ncredentials = "pinned"', "bmcsim.credentials", "host_bmc_password"),
        ('[bmcs."a-0"]\ncredentials = "pinned"', "bmcs.a-0.credentials", "host_bmc_password"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(text: str, key: str, right: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(text)
    assert f"fleet.toml: {key}" in str(caught.value)
    assert right in str(caught.value)


def test_what_is_left_open_is_the_wider_level_s() -> None:
    wide = Conduct("fast", "factory", "503", None, Lockout(3))
    for names in itertools.chain([()], [("preset",)], [("credentials", "lockout")]):
        own = Conduct(**{name: getattr(Conduct("chaos", "persist", "hang", None, Lockout(1)), name) for name in names})
        merged = own.within(wide)
        for name in ("preset", "credentials", "while_resetting", "lockout"):
            assert getattr(merged, name) == getattr(own if name in names else wide, name)


def test_a_fleet_says_how_deep_a_patch_goes_and_the_root_follows() -> None:
    bmc = built("[bmcsim]\nbehaviour = { deep = { patch = true, levels = 2 }, reset_conflict = 409 }")["b-0"]
    behaviour = bmc.shared.behaviour
    assert (behaviour.deep.levels, behaviour.reset_conflict) == (2, 409)
    assert behaviour.advertise is not None
    assert behaviour.advertise["DeepOperations"] == {"DeepPATCH": True, "DeepPOST": False, "MaxLevels": 2}
    assert changed(behaviour, {"deep": {"levels": 3}}).deep == DeepSupport(patch=True, levels=3)


def test_the_fleet_s_lockout_is_a_bmc_s_default_and_survives_a_reset_to_defaults() -> None:
    bmc = built("[bmcsim]\nlockout = { threshold = 4 }")["b-0"]
    moment = ManualClock().now()
    bmc.change(bmc.tree.nodes[ACCOUNT_SERVICE], {"AccountLockoutThreshold": 7}, moment)
    bmc.factory_reset("ResetAll", moment)
    assert lockout_threshold(bmc) == 4


def test_hardware_has_ssdp_only_where_somebody_gave_it_that() -> None:
    assert {bmc.network_service("SSDP").get("ProtocolEnabled") for bmc in built("").values()} == {None}
    bmcs = built('[bmcsim]\nssdp = "disabled"\n[bmcs."a-0"]\nssdp = "enabled"\n[bmcs."a-1-dpu-0"]\nssdp = "absent"')
    assert {id_: bmc.network_service("SSDP").get("ProtocolEnabled") for id_, bmc in bmcs.items()} == {
        "a-0": True, "a-0-dpu-0": False, "a-1": False, "a-1-dpu-0": None, "b-0": False
    }  # fmt: skip


def test_a_fault_that_two_levels_name_is_there_once_and_the_narrower_one_s() -> None:
    fleet = (
        '[bmcsim]\npreset = "chaos"\nfaults = ["flaky", { id = "x", selector = { OdataId = "/a" }, action = "Close" }]'
    )
    own = '[bmcs."b-0"]\nfaults = [{ id = "x", selector = { OdataId = "/b" }, action = "Close" }]'
    bmc = built(f"{fleet}\n{own}")["b-0"]
    rules = bmc.state.faults.rules
    assert len({rule.id for rule in rules}) == len(rules)
    assert next(rule for rule in rules if rule.id == "x").selector.glob.text == "/b"
    assert decode(bmc.encode()).state == bmc.state


def test_levels_that_have_too_many_faults_together_are_an_error() -> None:
    def faults(prefix: str) -> str:
        form = 'selector = { OdataId = "/a" }, action = "Close"'
        return "[" + ", ".join(f'{{ id = "{prefix}{number}", {form} }}' for number in range(200)) + "]"

    with pytest.raises(ConfigError, match="together"):
        built(f'[bmcsim]\nfaults = {faults("a")}\n[bmcs."b-0"]\nfaults = {faults("b")}')
