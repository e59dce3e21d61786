"""A minute of `python -m bench soak`: nothing gets lost, nothing is made up and nothing grows, whatever happens."""

import os
from pathlib import Path

import pytest

from bench import soak
from bench.server import Fleet
from tests.system.benching import short

pytestmark = pytest.mark.system

SEED = int(os.environ.get("BMCSIM_SOAK_SEED", "20260"))


def test_a_minute_of_load_and_chaos_leaves_everything_as_it_was_acknowledged(tmp_path: Path) -> None:
    settings = short(tmp_path, Fleet(4, 2), minutes=1.0, seed=SEED, out=tmp_path / "out")
    missed = [measure for measure in soak.run(settings) if measure.verdict not in ("PASS", "")]
    log = (tmp_path / "out" / "soak" / "soak.log").read_text()
    assert missed == [], f"again with BMCSIM_SOAK_SEED={SEED}:\n{log[-5000:]}"
