"""`python -m bench restart` with 3,000 BMCs: no client sees anything of a start but closed connections."""

import os
from pathlib import Path

import pytest

from bench import restart
from bench.server import Cores, Fleet, Settings, make_certificate

pytestmark = pytest.mark.system


def test_a_configured_bmc_answers_2xx_or_401_or_closes_while_the_process_starts(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    settings = Settings(
        fleet=Fleet(1000, 2),  # fewer are there before the first connection has ended its handshake
        racks=1,
        seconds=2,
        rounds=1,
        settle=0,
        idle=0,
        rotate=False,
        cores=Cores(core, (core,)),
        work=tmp_path,
    )
    make_certificate(settings)
    measures = {measure.name: measure for measure in restart.run(settings)}
    answers = measures["answers that would make NICo reset a BMC"]
    assert answers.verdict == "PASS", (answers.note, answers.void)
