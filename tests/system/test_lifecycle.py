"""The fleet's hard day of `python -m bench lifecycle`, with a thousand BMCs."""

import os
from pathlib import Path

import pytest

from bench import lifecycle
from bench.server import Cores, Fleet, Settings, make_certificate

pytestmark = pytest.mark.system


def test_no_bmc_disagrees_about_its_password_after_a_crash(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    settings = Settings(
        fleet=Fleet(334, 2),
        racks=1,
        seconds=1,
        rounds=1,
        settle=0,
        idle=0,
        rotate=False,
        cores=Cores(core, (core,)),
        work=tmp_path,
    )
    make_certificate(settings)
    measures = {measure.name: measure for measure in lifecycle.run(settings)}
    assert [measure.void for measure in measures.values()] == [""] * len(measures)
    assert measures["BMCs that disagree after a crash"].value == 0
