"""Time presets."""

import pytest

from bmcsim.tree import presets
from bmcsim.tree.profile import Timings
from bmcsim.tree.source import ProfileError

TIMINGS = Timings(power_on=2, reboot=390, power_on_os_ready=10, power_off_graceful=5, bmc_reset=90, firmware_upgrade=60)


def test_the_three_presets_are_there() -> None:
    assert presets.names() == ["chaos", "fast", "realistic"]


def test_fast_hardware_is_done_within_seconds_and_never_slower_than_its_own() -> None:
    fast = presets.load("fast").applied(TIMINGS)
    assert fast.power_on + fast.reboot + fast.power_on_os_ready < 5
    assert fast.bmc_reset <= 5
    assert fast.jitter == 0
    quicker = presets.load("fast").applied(Timings(bmc_reset=0.1))
    assert quicker.bmc_reset == 0.1


def test_realistic_hardware_has_its_own_times_with_jitter() -> None:
    realistic = presets.load("realistic")
    applied = realistic.applied(TIMINGS)
    assert (applied.reboot, applied.bmc_reset) == (390, 90)
    assert applied.jitter > 0
    assert realistic.while_resetting == "staged"


def test_chaos_is_slower_and_brings_faults() -> None:
    chaos = presets.load("chaos")
    assert chaos.applied(TIMINGS).reboot > 390
    assert chaos.faults == ["flaky"]


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ProfileError, match="chaos, fast, realistic"):
        presets.load("../../etc/passwd")
