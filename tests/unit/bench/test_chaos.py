"""What happens in a soak, and when."""

import pytest

from bench.chaos import CALM_FROM, plan


@pytest.mark.parametrize("seconds", [30.0, 60.0, 600.0, 7200.0])
@pytest.mark.parametrize("seed", range(20))
def test_every_kind_happens_and_no_crash_in_what_is_judged(seed: int, seconds: float) -> None:
    blows = plan(seed, seconds)
    assert {blow.kind for blow in blows} == {"crash", "full disk", "clock"}
    assert [blow.at for blow in blows] == sorted(blow.at for blow in blows)
    assert all(0 < blow.at < seconds for blow in blows)
    crashes = [blow.at for blow in blows if blow.kind == "crash"]
    assert len(crashes) == max(2, round(seconds / 60))
    assert max(crashes) < CALM_FROM * seconds


def test_a_seed_makes_the_same_run_again_and_another_one_another() -> None:
    assert plan(1, 60) == plan(1, 60)
    assert plan(1, 60) != plan(2, 60)
