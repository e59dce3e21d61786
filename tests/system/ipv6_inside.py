"""The inside of test_addresses.py: `unshare -rn python -m tests.system.ipv6_inside FLEET OUTSIDE`.

In a network namespace of its own, which has all addresses of fd00:64::/64 on loopback, it serves a fleet on IPv6 and
IPv4, and prints as JSON which MAC answers at which address. OUTSIDE: the namespace that it must not run in.
"""

import json
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

from tests.conformance.sealed import namespace
from tests.conftest import basic
from tests.serving import READY_SECONDS, free_port

INTERFACE = "/redfish/v1/Managers/SMC/EthernetInterfaces/eth0"
ADDRESSES = ("[fd00:64::ff:fe00:1]", "[FD00:64:0:0:0:FF:FE00:2]", "[fd00:64::9]", "127.64.0.3")


def main(fleet: str, outside: str) -> None:
    """Serve, ask, print."""
    assert namespace() != outside, "this is not a network namespace of its own"
    for command in ("ip link set lo up", "ip -6 route add local fd00:64::/64 dev lo"):
        subprocess.run(command.split(), check=True)
    port = free_port()
    command = [sys.executable, "-m", "bmcsim", "serve", fleet, "--listen", f"[::]:{port}", "--admin", "off"]
    with subprocess.Popen(command, stdout=sys.stderr) as process:
        try:
            json.dump({address: mac_at(address, port) for address in ADDRESSES}, sys.stdout)
        finally:
            process.terminate()


def mac_at(address: str, port: int) -> str | int:
    """The MAC of the BMC that answers at an address; the status where none does."""
    request = urllib.request.Request(f"https://{address}:{port}{INTERFACE}")
    request.add_header("Authorization", basic("root", "Pinned-1").decode())
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as response:
                return str(json.load(response)["MACAddress"])
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            # Not there yet, or the fleet is not complete.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
