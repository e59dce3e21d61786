"""Discovery with real multicast, in a network namespace that has nothing but loopback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import sealed

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
HOST, DPU = "127.64.0.2", "127.64.0.3"


@pytest.mark.skipif(bool(sealed.why_not()), reason=sealed.why_not())
def test_a_client_finds_the_bmcs_that_want_to_be_found(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "tests.system.ssdp_inside", str(tmp_path), sealed.namespace()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["all"].keys() == {HOST, DPU}
    answer = results["all"][HOST]
    assert f"USN: uuid:{results['uuid']}::urn:dmtf-org:service:redfish-rest:1:18\r\n" in answer
    assert f"AL: https://{HOST}:{results['port']}/redfish/v1/\r\n" in answer
    assert results["one"] == {HOST: answer}
    assert results["switched off"].keys() == {DPU}
    assert results["after a restart"].keys() == {DPU}
    assert results["without the option"] == {}
    # Of a BMC whose address is not one of this machine.
    assert results["as the file says"].keys() == {"127.0.0.1"}
    assert f"AL: https://10.99.0.3:{results['last port']}/redfish/v1/\r\n" in results["as the file says"]["127.0.0.1"]
