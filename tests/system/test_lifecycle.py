"""The fleet's hard day of `python -m bench lifecycle`, with a thousand BMCs."""

from pathlib import Path

import pytest

from bench import lifecycle
from bench.server import Fleet
from tests.system.benching import short

pytestmark = pytest.mark.system


def test_no_bmc_disagrees_about_its_password_after_a_crash(tmp_path: Path) -> None:
    settings = short(tmp_path, Fleet(334, 2))
    measures = {measure.name: measure for measure in lifecycle.run(settings)}
    assert [measure.void for measure in measures.values()] == [""] * len(measures)
    assert measures["BMCs that disagree after a crash"].value == 0
