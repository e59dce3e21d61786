"""The pytest plugin: fixtures, marker, and that nobody pays for it who does not use it."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from bmcsim.testing import Fleet

HEAVY = ("bmcsim.testing", "bmcsim.fleet", "msgspec", "yaml", "uvicorn", "aiohttp", "requests", "httpx")


def test_a_fleet_without_words(bmcsim_fleet: Fleet) -> None:
    assert [bmc.id for bmc in bmcsim_fleet] == ["host-0", "host-0-dpu-0", "host-0-dpu-1"]
    bmcsim_fleet["host-0"].power("off")


def test_each_test_has_its_own(bmcsim_fleet: Fleet) -> None:
    bmc = bmcsim_fleet["host-0"]
    assert bmc.get(bmc.system).json()["PowerState"] == "On"


@pytest.mark.bmcsim(hosts=3, dpus=0)
class TestMarked:
    """A marker is for all of a class, and a nearer one wins."""

    def test_of_the_class(self, bmcsim_fleet: Fleet) -> None:
        assert len(bmcsim_fleet) == 3

    @pytest.mark.bmcsim(dpus=0, password="Mine-1")
    def test_of_its_own(self, bmcsim_fleet: Fleet) -> None:
        assert len(bmcsim_fleet) == 1
        assert bmcsim_fleet["host-0"].auth == ("root", "Mine-1")


def test_several_fleets(bmcsim_fleet_factory: Callable[..., Fleet]) -> None:
    one, other = bmcsim_fleet_factory(hosts=2, dpus=0), bmcsim_fleet_factory(dpus=0, seed=3)
    assert (len(one), len(other)) == (2, 1)
    assert one["host-0"].serial != other["host-0"].serial


def test_pytest_starts_without_bmcsim() -> None:
    code = f"import bmcsim.pytest_plugin, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fleets_need_no_client_library() -> None:
    code = (
        "import bmcsim.testing, sys; bmcsim.testing.Fleet(dpus=0); "
        "print([name for name in ('aiohttp', 'requests', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
