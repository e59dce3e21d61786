"""The inside of test_ssdp.py: `unshare -rn python -m tests.system.ssdp_inside FOLDER OUTSIDE`.

In a network namespace of its own, so that no multicast leaves the machine, it serves a host with a DPU, searches for
Redfish services as clients do, and prints what it found as JSON. OUTSIDE: the namespace that it must not run in.
"""

import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from socket import AF_INET, IP_MULTICAST_IF, IPPROTO_IP, SOCK_DGRAM, inet_aton, socket
from typing import Any

from tests.conformance.sealed import namespace
from tests.conftest import basic
from tests.serving import Process, serving
from tests.unit.edges.ssdp.test_message import search

GROUP = "239.255.255.250"
HOST = "127.64.0.2"
PROTOCOL = "/redfish/v1/Managers/iDRAC.Embedded.1/NetworkProtocol"
WAIT = 1
FLEET = """
[dhcp]
type = "pool"
prefix = "10.99.0.0/24"
[bmcsim]
ssdp = "disabled"
[machines.a]
host_count = 1
dpu_per_host_count = 1
[bmcs.a-0-dpu-0]
ssdp = "enabled"
"""


def found(address: str = GROUP) -> dict[str, str]:
    """Who answers a search, by source address, and what."""
    answers = {}
    with socket(AF_INET, SOCK_DGRAM) as client:
        client.setsockopt(IPPROTO_IP, IP_MULTICAST_IF, inet_aton("127.0.0.1"))
        client.settimeout(WAIT + 0.5)
        client.sendto(search(HOST=f"{address}:1900", MX=str(WAIT)), (address, 1900))
        try:
            while True:
                text, source = client.recvfrom(2048)
                answers[source[0]] = text.decode()
        except TimeoutError:
            return answers


def redfish(service: Process, method: str, path: str, body: Any = None) -> Any:
    """A request to the host."""
    request = urllib.request.Request(service.url(HOST) + path, json.dumps(body).encode() if body else None)
    request.method = method
    request.add_header("Authorization", basic("root", "P").decode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as response:
        return json.loads(response.read() or "null")


def main(folder: Path) -> dict[str, Any]:
    """Serve, search, switch it off, restart, search again."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    arguments = ["--hosts", "1", "--dpus", "1", "--host-password", "P", "--dpu-password", "P"]
    arguments += ["--state-dir", str(folder / "state")]
    results: dict[str, Any] = {}
    with serving(folder / "first.log", *arguments, "--ssdp", "lo") as service:
        results["uuid"] = redfish(service, "GET", "/redfish/v1/")["UUID"]
        results["port"] = service.port
        results["all"] = found()
        results["one"] = found(HOST)
        redfish(service, "PATCH", PROTOCOL, {"SSDP": {"ProtocolEnabled": False}})
        results["switched off"] = found()
        service.stop()
    with serving(folder / "second.log", *arguments, "--ssdp", "127.0.0.1") as service:
        results["after a restart"] = found()
        service.stop()
    with serving(folder / "third.log", *arguments):
        results["without the option"] = found()
    (folder / "fleet.toml").write_text(FLEET)
    with serving(folder / "fourth.log", str(folder / "fleet.toml"), "--ssdp", "lo") as service:
        results["last port"] = service.port
        results["as the file says"] = found()
    return results


if __name__ == "__main__":
    if namespace() == sys.argv[2]:
        sys.exit("this is not a network namespace of its own")
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
