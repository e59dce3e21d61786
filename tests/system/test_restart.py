"""`python -m bench restart` with 3,000 BMCs: no client sees anything of a start but closed connections."""

from pathlib import Path

import pytest

from bench import restart
from bench.server import Fleet
from tests.system.benching import short

pytestmark = pytest.mark.system


def test_a_configured_bmc_answers_2xx_or_401_or_closes_while_the_process_starts(tmp_path: Path) -> None:
    # Fewer are there before the first connection has ended its handshake.
    settings = short(tmp_path, Fleet(1000, 2), seconds=2)
    measures = {measure.name: measure for measure in restart.run(settings)}
    answers = measures["answers that would make NICo reset a BMC"]
    assert answers.verdict == "PASS", (answers.note, answers.void)
