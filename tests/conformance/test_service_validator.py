"""DMTF's service validator, in a network namespace that has nothing but loopback, reports no FAIL for any profile."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("BMCSIM_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SCRIPT = SHARED / "tools" / "conformance.sh"
SERVE = "bmcsim serve --hosts 1 --dpus 2 --host-password P --dpu-password P --time-scale 60 --admin off"


def _namespaces() -> bool:
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.system
@pytest.mark.skipif(not SCRIPT.is_file(), reason="the validators' schemas are not beside this checkout")
@pytest.mark.skipif(not _namespaces(), reason="needs unshare -rn")
@pytest.mark.parametrize("address", ["127.64.0.2", "127.64.0.3"], ids=["dell_poweredge_r750", "bluefield3"])
def test_the_service_validator_reports_no_fail(address: str, tmp_path: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "OUT": str(tmp_path / "out"),
        "TOOLS": "service",
        "TOOL_TIMEOUT": "420",
    }
    command = ["bash", str(SCRIPT), f"https://{address}:1266", "root", "P", SERVE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    counts = re.search(r"PASS: (\d+), WARN: (\d+), FAIL: (\d+)", done.stdout)
    assert counts is not None, done.stdout + done.stderr
    assert int(counts[1]) > 1000, done.stdout
    assert int(counts[3]) == 0, done.stdout
    assert done.returncode == 0, done.stdout
