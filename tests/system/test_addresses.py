"""A BMC that a client moves to a static address, and BMCs at the IPv6 addresses of their MACs."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.conformance import sealed
from tests.serving import Process, serving

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]

ROOT = Path(__file__).resolve().parents[2]
SHELF, OTHER, STATIC = "127.64.0.2", "127.64.0.3", "127.99.3.7"
INTERFACE = "/redfish/v1/Managers/SMC/EthernetInterfaces/eth0"
FLEET = """\
dhcp = {type = "pool", prefix = "127.64.0.0/24", prefix6 = "fd00:64::/64"}
host_bmc_password = "Pinned-1"
[machines.shelf]
hw_type = "delta_power_shelf"
host_count = 2
"""
MOVE = {
    "DHCPv4": {"DHCPEnabled": False},
    "IPv4StaticAddresses": [{"Address": STATIC, "SubnetMask": "255.255.0.0", "Gateway": "127.99.0.1"}],
}


def asked(session: requests.Session, process: Process, method: str, address: str, body: object) -> requests.Response:
    """A request about the management interface of the BMC at an address."""
    session.verify, session.trust_env = False, False
    url = process.url(address) + INTERFACE
    return session.request(method, url, auth=("root", "Pinned-1"), json=body, timeout=10)


def absent(process: Process, address: str) -> bool:
    """Whether a connection to an address is reset, or ends without a word. Without TLS: a client's TLS that is reset
    before it begins leaves its socket open (CPython 3.11)."""
    try:
        with socket.create_connection((address, process.port), timeout=5) as plain:
            return plain.recv(1) == b""
    except ConnectionResetError:
        return True


def call(process: Process, method: str, address: str, body: object = None, **fields: str) -> requests.Response:
    """The same on a connection of its own. fields: header fields."""
    with requests.Session() as session:
        session.headers.update(fields)
        return asked(session, process, method, address, body)


def test_a_moved_bmc_answers_at_its_static_address_and_not_at_the_old_one(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    arguments = (str(fleet), "--state-dir", str(tmp_path / "state"))
    with serving(tmp_path / "first.log", *arguments) as process, requests.Session() as alive:
        mac = asked(alive, process, "GET", SHELF, None).json()["MACAddress"]
        moved = asked(alive, process, "PATCH", SHELF, MOVE)
        assert moved.status_code == 204, moved.text
        assert absent(process, SHELF)
        shown = call(process, "GET", STATIC).json()
        assert (shown["MACAddress"], shown["IPv4Addresses"][0]["Address"]) == (mac, STATIC)
        assert call(process, "PATCH", OTHER, MOVE).status_code == 400
        process.stop(signal.SIGKILL)
    with serving(tmp_path / "second.log", *arguments) as process:
        shown = call(process, "GET", STATIC).json()
        assert shown["MACAddress"] == mac
        assert shown["IPv4Addresses"] == [
            {"Address": STATIC, "AddressOrigin": "Static", "SubnetMask": "255.255.0.0", "Gateway": "127.99.0.1"}
        ]
        assert absent(process, SHELF)
        slaac = shown["IPv6Addresses"][0]["Address"]
        assert call(process, "GET", OTHER, Forwarded=f'host="[{slaac}]"').json()["MACAddress"] == mac
        assert call(process, "PATCH", STATIC, {"DHCPv4": {"DHCPEnabled": True}}).status_code == 204
        assert call(process, "GET", SHELF).json()["IPv4Addresses"][0]["AddressOrigin"] == "DHCP"


@pytest.mark.skipif(bool(sealed.why_not()), reason=sealed.why_not())
def test_each_bmc_answers_at_the_ipv6_address_of_its_mac(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    module = [sys.executable, "-m", "tests.system.ipv6_inside", str(fleet), sealed.namespace()]
    done = subprocess.run(
        ["unshare", "-rn", *module], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "[fd00:64::ff:fe00:1]": "02:00:00:00:00:01",
        "[FD00:64:0:0:0:FF:FE00:2]": "02:00:00:00:00:02",
        "[fd00:64::9]": 404,
        "127.64.0.3": "02:00:00:00:00:02",
    }
