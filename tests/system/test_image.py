"""The Dockerfile, built without a registry: its command serves, as another user than root and on a read-only root."""

import os
import subprocess
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("BMCSIM_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SCRIPT = SHARED / "tools" / "build-image.sh"
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not SCRIPT.is_file(), reason="the image builder is not beside this checkout"),
    pytest.mark.skipif(os.geteuid() != 0, reason="building an image needs root"),
]

PROBE = """
import os, subprocess, time, urllib.request
assert os.getuid() != 0, "runs as root"
command = ["bmcsim", "serve", "--hosts", "10", "--listen", "127.0.0.1:1266", "--admin", "127.0.0.1:9090"]
server = subprocess.Popen(command)
for _ in range(300):
    try:
        print("ready:", urllib.request.urlopen("http://127.0.0.1:9090/readyz", timeout=1).status)
        break
    except OSError:
        time.sleep(0.1)
server.terminate()
print("exit:", server.wait(20))
"""


def test_the_image_builds_and_serves() -> None:
    command = ["bash", str(SCRIPT), str(ROOT), "--", "python", "-c", PROBE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "ready: 200" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert "exit: 0" in done.stdout


def test_the_image_serves_all_addresses_as_its_command_says() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert 'CMD ["serve", "--listen", "0.0.0.0:1266", "--admin", "0.0.0.0:9090"]' in text
    assert "USER 65532:65532" in text
