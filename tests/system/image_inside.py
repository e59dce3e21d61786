"""Runs inside the image, in its environment and as its user, on a read-only root: tests/system/test_image.py.

Only the standard library and what is in the image. Arguments: the command of the image, and of its health check, as
JSON lists; a directory that can be written to. Prints one line of JSON.
"""

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ACCOUNT = "/redfish/v1/AccountService/Accounts/root"
MAT = "/opt/machine-a-tron/bin/machine-a-tron"
# NICo is not there: the machines start all the same.
MAT_FILE = """
carbide_api_url = "http://127.0.0.1:1079"
use_single_bmc_mock = true
bmc_mock_port = 1266
persist_dir = "{directory}/persist"
[machines.host]
host_count = 2
dpu_per_host_count = 2
bmc_dhcp_relay_address = "10.1.0.1"
underlay_dhcp_relay_address = "10.2.0.1"
"""


def ask(address: str, path: str, password: str = "", method: str = "GET", body: object = None) -> int:
    """The status of one request to the BMC with an address, by way of the port's own one."""
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", 1266, timeout=10, context=context)
    fields = {"Forwarded": f"host={address}", "Content-Type": "application/json"}
    if password:
        fields["Authorization"] = "Basic " + base64.b64encode(f"root:{password}".encode()).decode()
    connection.request(method, path, json.dumps(body) if body is not None else None, fields)
    status = connection.getresponse().status
    connection.close()
    return status


def ready() -> dict[str, int]:
    for _ in range(600):
        try:
            with urllib.request.urlopen("http://127.0.0.1:9090/readyz", timeout=5) as response:
                return dict(json.load(response))
        except OSError:
            time.sleep(0.1)
    raise SystemExit("it is never ready")


def writable(directory: str) -> bool:
    try:
        Path(directory, "probe").write_text("")
    except OSError:
        return False
    return True


def stop(server: "subprocess.Popen[bytes]") -> tuple[int, float]:
    begun = time.monotonic()
    server.terminate()
    return server.wait(30), round(time.monotonic() - begun, 2)


def main() -> None:
    command, health = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    directory = sys.argv[3]
    said: dict[str, object] = {"uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups()}
    said["writable"] = [path for path in ("/", "/tmp", "/opt/bmcsim", os.environ.get("HOME", "/")) if writable(path)]
    state = ["--state-dir", f"{directory}/state"]

    server = subprocess.Popen([*command, *state])
    said["ready"] = ready()
    begun = time.monotonic()
    said["health"] = subprocess.run(health, check=False, stdout=subprocess.DEVNULL).returncode
    said["health_seconds"] = round(time.monotonic() - begun, 2)
    last = "127.64.52.189"  # the 13,500th
    said["statuses"] = [ask(address, "/redfish/v1/") for address in ("127.64.0.2", last)]
    said["changed"] = ask("127.64.0.2", ACCOUNT, "factory_password", "PATCH", {"Password": "Rotated-1"})
    said["peak_kib"] = int(Path(f"/proc/{server.pid}/status").read_text().split("VmHWM:")[1].split()[0])
    said["stopped"] = stop(server)

    server = subprocess.Popen([*command, *state])
    ready()
    said["kept"] = [ask("127.64.0.2", ACCOUNT, password) for password in ("Rotated-1", "factory_password")]
    said["stopped_again"] = stop(server)

    file = Path(directory, "mat.toml")
    file.write_text(MAT_FILE.format(directory=directory))
    for name, mat in (("mat", [MAT, str(file)]), ("mat_by_entry_point", [command[0], MAT, str(file)])):
        server = subprocess.Popen(mat)
        said[name] = [ready()["bmcs"], *stop(server)]
    sys.stdout.write(json.dumps(said) + "\n")


main()
