"""A fleet and a real Kea, in network namespaces that nothing but a cable between the two leads out of."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.kea import MISSING, program
from tests.conformance import sealed

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[[str], Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a scenario of kea_inside.py; what it saw."""
    if why_not := sealed.why_not() or ("" if program() else MISSING):
        if os.environ.get("CI") == "true":
            pytest.fail(f"must run in CI, but: {why_not}")
        pytest.skip(why_not)

    def inside(scenario: str) -> Any:
        module = [sys.executable, "-m", "tests.system.kea_inside", scenario, str(tmp_path), sealed.namespace()]
        done = subprocess.run(
            ["unshare", "-rn", *module], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
        )
        logs = "\n".join(log.read_text() for log in tmp_path.glob("*.log"))
        assert done.returncode == 0, f"{done.stderr}\n{logs}"
        return json.loads(done.stdout)

    return inside


def test_what_the_page_says_runs(run: Run) -> None:
    seen = run("page")
    assert seen["bmcs"] == 300
    # A host, a DPU, and what is no BMC.
    assert seen["answers"] == [200, 200, 404]
    assert "all 300 BMCs have an address after" in seen["output"]


def check_replaced(seen: Any, hosts: int, plain: int, others: int) -> None:
    """What `many` and `more` must have seen."""
    assert seen["leases"] == {
        "host bmc host pool": hosts + plain,
        "dpu bmc dpu pool": 2 * hosts,
        "dpu oob underlay": 2 * hosts,
        "host nic in-band": plain,
        "switch bmc host pool": others,
        "switch oob underlay": others,
        "power_shelf bmc host pool": others,
    }
    assert sum(seen["interfaces"].values()) == sum(seen["leases"].values())
    # One DISCOVER and one REQUEST: nothing was lost, nothing said twice.
    assert seen["requests"] == 2
    assert seen["own"] == seen["sample"] > 50
    assert seen["without its server"] == {"200": seen["sample"]}
    assert seen["not asked"] == 0
    assert seen["reset"] == 204
    # A fresh DISCOVER and a REQUEST, and nobody else asks.
    assert (seen["asked"], seen["new leases"], seen["moved"]) == (2, 1, True)
    assert seen["refuses"] in (0, 404)


def test_n34_n36_leases_by_all_rules_and_a_server_that_is_replaced(run: Run) -> None:
    check_replaced(run("many"), hosts=90, plain=20, others=5)


def test_n34_n36_the_same_with_2000_bmcs(run: Run) -> None:
    check_replaced(run("more"), hosts=650, plain=30, others=10)


def test_short_leases_are_renewed_and_moved_to_another_subnet(run: Run) -> None:
    seen = run("short")
    # Two for the lease and one for each renewal, after T1 of three seconds each.
    assert 3 <= seen["renewals"] <= 5
    assert 2 + 3 <= seen["requests"] <= 2 + 6
    assert seen["kept"]
    assert seen["while renewed"] == {"200": 60}
    # Each BMC took its NAK and is nowhere; the interfaces in the other subnet go on.
    assert not seen["where they were"].keys() - {"0", "404"}
    assert seen["leases then"] == 40
    assert not seen["at old addresses"].keys() - {"0", "404"}


def test_n40_an_exhausted_pool_and_an_address_that_is_given_twice(run: Run) -> None:
    seen = run("exhausted")
    assert seen["served"] == {"200": 40}
    # Of 10 that have none in 8 seconds: each asked again, after 4 and then 8 seconds, or 10 after it was refused.
    assert 5 <= seen["requests"] <= 2 * 10
    without = {phase: count for phase, count in seen["interfaces"].items() if phase != 'phase="BOUND"'}
    assert seen["interfaces"]['phase="BOUND"'] == 40
    assert sum(without.values()) == 10
    assert without.keys() <= {'phase="INIT"', 'phase="SELECTING"'}
    assert seen["declined"]
    assert seen["declines"] == 1
    assert seen["still served"] == {"200": 40}
    assert seen["leases"] == 39
