import pytest

from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import parse
from bmcsim.fleet.desired import Desired, fill, matches
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.credentials import Hasher

BF3 = "NVIDIA BlueField-3 DPU"


@pytest.mark.parametrize(
    ("title", "vendor", "model", "expected"),
    [
        (BF3, "nvidia", "bluefield 3", True),
        (BF3, "NVIDIA", "BlueField-3 SmartNIC Main Card", True),
        (BF3, "nvidia", "bluefield 2", False),
        (BF3, "nvidia", "bluefield", True),
        (BF3, "dell", "bluefield 3", False),
        (BF3, "nvidia", "bluefield 31", False),
        (BF3, "", "bluefield 3", False),
        (BF3, "nvidia", "", False),
        ("Dell PowerEdge R750", "dell", "PowerEdge R750", True),
        ("Dell PowerEdge R750", "dell", "PowerEdge R7", False),
        ("Dell PowerEdge R750", "Dell", "r750", True),
    ],
)
def test_which_hardware_an_entry_is_about(title: str, vendor: str, model: str, expected: bool) -> None:
    assert matches(title, Desired(vendor, model, {})) is expected


def test_it_fills_what_the_file_says_nothing_about() -> None:
    config = parse(
        "[machines.a]\nhost_count = 2\ndpu_per_host_count = 1\n[machines.a.desired_firmware.dpu]\nbmc = 'BF-99'\n", "f"
    )
    fleet = Fleet()
    list(Builder(config, Hasher(), 0.0).populate(fleet))
    wanted = [
        Desired("nvidia", "bluefield 3", {"bmc": "BF-1", "cec": "c-1", "nic": "not a version", "wheel": "1"}),
        Desired("nvidia", "bluefield-3", {"cec": "c-2"}),
    ]
    assert fill(fleet, wanted) == 1
    assert fill(fleet, wanted) == 0
    host, dpu = fleet.by_id("a-0"), fleet.by_id("a-1-dpu-0")
    assert host is not None
    assert dpu is not None
    assert dpu.shared.desired == {"bmc": "BF-99", "cec": "c-1"}
    assert host.shared.desired == {}
