"""The Dockerfile, built without a registry: it serves as another user than root and on a read-only root."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("BMCSIM_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SCRIPT = SHARED / "tools" / "build-image.sh"
ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).with_name("image_inside.py")
IMAGE = "localhost/bmcsim:local"

pytestmark = pytest.mark.system

# Other mount and network namespaces, the image's root read-only, one small directory that the user may write to.
RUN = """
set -eu
root=$1; user=$2; shift 2
ip link set lo up
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs -o "uid=${user%:*},gid=${user#*:},mode=700" tmpfs "$root/mnt"
exec chroot --userspec="$user" --groups="${user#*:}" "$root" "$@"
"""


def builder(*command: str) -> str:
    """What buildah says, with the settings of the script."""
    settings = {**os.environ, "STORAGE_DRIVER": os.environ.get("STORAGE_DRIVER", "vfs"), "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(["buildah", *command], capture_output=True, text=True, timeout=120, check=False, env=settings)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """The image is built; what it says about itself."""
    if not SCRIPT.is_file():
        pytest.skip("the image builder is not beside this checkout")
    if os.geteuid() != 0:
        pytest.skip("building an image needs root")
    done = subprocess.run(["bash", str(SCRIPT), str(ROOT)], capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return dict(json.loads(builder("inspect", "--type", "image", IMAGE))["Docker"]["config"])


@contextmanager
def mounted() -> Iterator[str]:
    """The root of a container of the image."""
    container = builder("from", "--pull-never", IMAGE)
    try:
        yield builder("mount", container)
    finally:
        builder("rm", container)


def test_what_the_image_says_about_itself(config: dict[str, Any]) -> None:
    assert config["User"] == "65532:65532"
    assert config["StopSignal"] == "SIGTERM"
    assert config["ExposedPorts"].keys() == {"1266/tcp", "9090/tcp"}
    assert config["Entrypoint"] == ["bmcsim"]
    assert config["Cmd"] == ["serve", "--listen", "0.0.0.0:1266", "--admin", "0.0.0.0:9090"]
    assert config["Healthcheck"]["Test"] == ["CMD", "bmcsim", "health"]
    assert config["Labels"]["org.opencontainers.image.title"] == "bmcsim"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_it_serves_13500_bmcs_on_a_read_only_root(config: dict[str, Any]) -> None:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip for a namespace of its own")
    command, health = config["Entrypoint"] + config["Cmd"], config["Healthcheck"]["Test"][1:]
    with mounted() as root:
        run = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", RUN, "run", root]
        inside = ["env", "-i", "HOME=/", *config["Env"], "python", "-c", INSIDE.read_text()]
        inside += [json.dumps(command), json.dumps(health), "/mnt"]
        done = subprocess.run([*run, config["User"], *inside], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["uid"], said["gid"], said["groups"]) == (65532, 65532, [65532])
    assert said["writable"] == []
    assert said["ready"] == {"ready": True, "bmcs": 13_500, "expected": 13_500}
    assert (said["health"], said["statuses"], said["changed"]) == (0, [200, 200], 204)
    assert said["kept"] == [200, 401]
    for run_ in ("stopped", "stopped_again"):
        status, seconds = said[run_]
        assert (status, seconds < 2) == (0, True), said
    for name in ("mat", "mat_by_entry_point"):
        bmcs, status, seconds = said[name]
        assert (bmcs, status, seconds < 2) == (6, 0, True), said
