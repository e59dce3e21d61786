"""The inside of test_kea.py: `unshare -rn python -m tests.system.kea_inside SCENARIO FOLDER OUTSIDE`.

Runs one scenario in a network namespace of its own, so that no packet leaves the machine, and prints what it saw.
OUTSIDE: the namespace that it must not run in.
"""

import contextlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import kea as keas
from bench.kea import Kea
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.identities import plan
from tests.conformance.sealed import namespace
from tests.conftest import basic
from tests.serving import Process, serving

TIME_LIMIT = 100
PASSWORD = "P"
MANAGER = "/redfish/v1/Managers/iDRAC.Embedded.1"
SAMPLE = 50
HEAD = f"""
host_bmc_password = "{PASSWORD}"
dpu_bmc_password = "{PASSWORD}"
{keas.FLEET}"""


def page_config(**of_dhcp4: Any) -> dict[str, Any]:
    """Kea's configuration as the page has it. of_dhcp4: what is otherwise."""
    config: dict[str, Any] = keas.page_config()
    config["Dhcp4"].update({name.replace("_", "-"): value for name, value in of_dhcp4.items()})
    return config


def with_pools(config: dict[str, Any], subnet: str, *pools: str) -> dict[str, Any]:
    """The first subnet of a configuration changed."""
    config["Dhcp4"]["subnet4"][0] |= {"subnet": subnet, "pools": [{"pool": pool} for pool in pools]}
    return config


def fleet(folder: Path, **groups: tuple[str, int, int]) -> str:
    """A fleet file. groups: hardware, machines, DPUs of each."""
    path = folder / "fleet.toml"
    tables = [
        f'[machines.{name}]\nhw_type = "{hardware}"\nhost_count = {machines}\ndpu_per_host_count = {dpus}{keas.RELAYS}'
        for name, (hardware, machines, dpus) in groups.items()
    ]
    path.write_text(HEAD + "\n".join(tables))
    return str(path)


def wanted(path: str) -> dict[str, str]:
    """MAC, as Kea writes it, of each interface with link -> what it is: 'KIND PORT'."""
    found = {}
    for bmc in plan(fleet_config.load(Path(path))):
        kind, identity = bmc.identity.kind, bmc.identity
        found[text_of(identity.bmc_mac)] = f"{kind} bmc"
        if identity.oob_mac:
            found[text_of(identity.oob_mac)] = f"{kind} oob"
        if kind == "host" and identity.host_mac and not identity.dpus:
            found[text_of(identity.host_mac)] = f"{kind} nic"
    return found


def text_of(mac: int) -> str:
    """A MAC with colons."""
    return mac.to_bytes(6).hex(":")


def until(holds: Callable[[], object], seconds: float = 40) -> float:
    """Wait for something; how long it took. Raises TimeoutError."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise TimeoutError("it does not happen")
        time.sleep(0.05)
    return time.monotonic() - began


def ask(service: Process, address: str, path: str, body: Any = None) -> tuple[int, Any]:
    """A request to the BMC at an address; status and JSON. 0 without an answer."""
    request = urllib.request.Request(service.url(address) + path, json.dumps(body).encode() if body else None)
    request.add_header("Authorization", basic("root", PASSWORD).decode())
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=10) as response:
            return response.status, json.loads(response.read() or "null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None
    except OSError:
        return 0, None


def statuses(service: Process, addresses: Iterable[str]) -> dict[str, int]:
    """What the service roots at some addresses answer: status -> how many."""
    return dict(Counter(str(ask(service, address, "/redfish/v1/")[0]) for address in addresses))


def metrics(service: Process, name: str) -> dict[str, float]:
    """The samples of a metric: labels -> value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{service.admin}/metrics", timeout=10) as response:
        text = response.read().decode()
    return {labels: float(value) for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (.*)$", text, re.MULTILINE)}


def counter(service: Process, name: str) -> float:
    """A counter of the clients."""
    return metrics(service, f"bmcsim_dhcp_{name}_total")[""]


def with_lease(service: Process) -> float:
    """How many interfaces have a lease, renewed just now or not."""
    phases = metrics(service, "bmcsim_dhcp_interfaces")
    return sum(phases[f'phase="{phase}"'] for phase in ("BOUND", "RENEWING", "REBINDING"))


def everywhere(service: Process) -> bool:
    """Whether every BMC has an address."""
    return "have an address after" in service.output


def page(folder: Path) -> Mapping[str, Any]:
    """What docs/dhcp-kea.md says, on loopback."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (folder / "bmcsim.json").write_text(keas.page_block("json"))
    (folder / "fleet.toml").write_text(keas.page_block("toml"))
    command = [keas.program() or "kea-dhcp4", "-c", str(folder / "bmcsim.json"), "-p", "10067", "-P", "10068"]
    env = {**os.environ, "KEA_PIDFILE_DIR": str(folder), "KEA_LOCKFILE_DIR": "none"}
    with (folder / "kea.log").open("w") as log:
        kea = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)
    try:
        with serving(folder / "bmcsim.log", str(folder / "fleet.toml")) as service:
            until(lambda: everywhere(service))
            counts = metrics(service, "bmcsim_bmcs")
            addresses = ("127.64.1.0", "127.64.20.0", "127.65.1.0")
            return {
                "bmcs": sum(counts.values()),
                "answers": [ask(service, address, "/redfish/v1/")[0] for address in addresses],
                "output": service.output,
            }
    finally:
        kea.terminate()
        kea.wait(20)


@contextlib.contextmanager
def lab(folder: Path, config: dict[str, Any], path: str, *arguments: str) -> Iterator[tuple[Kea, Process]]:
    """Kea at the end of a cable, and the fleet of a file."""
    with keas.cabled(folder) as kea:
        kea.start(config)
        with serving(folder / "bmcsim.log", path, *arguments) as service:
            yield kea, service


def many(folder: Path) -> Mapping[str, Any]:
    """300 MACs and more at once by all rules; then Kea is replaced by one that knows nothing (N34, N36)."""
    return _replaced(folder, hosts=90, plain=20, others=5)


def more(folder: Path) -> Mapping[str, Any]:
    """2,000 BMCs."""
    return _replaced(folder, hosts=650, plain=30, others=10)


def _replaced(folder: Path, hosts: int, plain: int, others: int) -> Mapping[str, Any]:
    path = fleet(
        folder,
        compute=("dell_poweredge_r750", hosts, 2),
        storage=("dell_poweredge_r750", plain, 0),
        switch=("nvidia_switch_nd5200_ld", others, 0),
        shelf=("delta_power_shelf", others, 0),
    )
    interfaces = wanted(path)
    with lab(folder, page_config(), path, "--time-scale", "20") as (kea, service):
        until(lambda: everywhere(service))
        until(lambda: len(kea.leases()) >= len(interfaces))
        leases, requests = kea.leases(), kea.requests()
        results: dict[str, Any] = {
            "interfaces": dict(Counter(interfaces.values())),
            "leases": dict(Counter(f"{interfaces.get(mac)} {_pool(address)}" for mac, address in leases.items())),
            "requests": requests / len(interfaces),
        }
        hosts_leases = {mac: address for mac, address in leases.items() if interfaces[mac] == "host bmc"}
        sample = list(hosts_leases.items())[:: max(1, len(hosts_leases) // SAMPLE)]
        results["sample"] = len(sample)
        results["own"] = sum(_macs(service, address) == [mac] for mac, address in sample)

        kea.stop()
        kea.start(_of_another_server())
        results["without its server"] = statuses(service, [address for _, address in sample])
        results["not asked"] = kea.requests() - requests
        mac, before = sample[-1]
        results["reset"] = ask(service, before, f"{MANAGER}/Actions/Manager.Reset", {"ResetType": "GracefulRestart"})[0]
        until(lambda: mac in kea.leases())
        after = kea.leases()[mac]
        until(lambda: _macs(service, after) == [mac])
        results["asked"] = kea.requests() - requests
        results["new leases"] = len(kea.leases())
        results["moved"] = after != before
        results["refuses"] = ask(service, before, "/redfish/v1/")[0]
        return results


def _of_another_server() -> dict[str, Any]:
    """The configuration of a server with another identifier, which gives away other addresses than those in use."""
    config = page_config()
    config["Dhcp4"]["option-data"].append({"name": "dhcp-server-identifier", "data": "10.67.0.99"})
    config["Dhcp4"]["subnet4"][0]["pools"][0]["pool"] = "127.64.10.0 - 127.64.19.255"
    return config


def _macs(service: Process, address: str) -> list[str]:
    """The MAC of the host BMC at an address, if it says that it has that address."""
    _, shown = ask(service, address, f"{MANAGER}/EthernetInterfaces/NIC.1")
    own = [one["Address"] for one in (shown or {}).get("IPv4Addresses", [])]
    return [shown["MACAddress"].lower()] if own == [address] else []


def _pool(address: str) -> str:
    """Which pool of the page an address is of."""
    _, network, part, _ = [int(number) for number in address.split(".")]
    return {64: "host pool" if part < 20 else "dpu pool", 65: "underlay", 66: "in-band"}[network]


def short(folder: Path) -> Mapping[str, Any]:
    """Leases of six seconds are renewed; then their subnet is no more, and then another one is there instead."""
    path = fleet(folder, compute=("dell_poweredge_r750", 20, 2))
    config = page_config(valid_lifetime=6)
    with lab(folder, config, path) as (kea, service):
        until(lambda: everywhere(service))
        first = kea.leases()
        time.sleep(10)
        results: dict[str, Any] = {
            "requests": kea.requests() / len(first),
            "kept": kea.leases() == first,
            "renewals": counter(service, "renewals") / len(first),
            "while renewed": statuses(service, _of(first, "127.64.")),
        }
        kea.stop()
        config = page_config(valid_lifetime=6)
        del config["Dhcp4"]["subnet4"][0]
        kea.start(config)
        until(lambda: counter(service, "naks") >= 60)
        results["where they were"] = statuses(service, _of(first, "127.64."))
        results["leases then"] = with_lease(service)
        kea.stop()
        kea.start(with_pools(page_config(valid_lifetime=6), "127.64.0.0/24", "127.64.0.10 - 127.64.0.250"))
        until(lambda: len(_of(kea.leases(), "127.64.0.")) == 60)
        until(lambda: statuses(service, _of(kea.leases(), "127.64.0.")) == {"200": 60})
        results["at old addresses"] = statuses(service, _of(first, "127.64."))
        return results


def _of(leases: Mapping[str, str], prefix: str) -> list[str]:
    return [address for address in leases.values() if address.startswith(prefix)]


def exhausted(folder: Path) -> Mapping[str, Any]:
    """40 addresses for 50 BMCs (N40); then Kea forgets who has one of them and gives it away again."""
    path = fleet(folder, shelf=("delta_power_shelf", 50, 0))
    config = with_pools(page_config(), "127.64.0.0/18", "127.64.1.1 - 127.64.1.40")
    with lab(folder, config, path) as (kea, service):
        until(lambda: len(kea.leases()) == 40)
        time.sleep(1)
        requests = kea.requests()
        time.sleep(8)
        leases = kea.leases()
        results: dict[str, Any] = {
            "requests": kea.requests() - requests,
            "served": statuses(service, leases.values()),
            "interfaces": {
                phase: count for phase, count in metrics(service, "bmcsim_dhcp_interfaces").items() if count
            },
        }
        kea.stop()
        mac, address = next(iter(leases.items()))
        kea.forget(mac)
        kea.start(config, fresh=False)
        until(lambda: address in kea.declined())
        results["declined"] = kea.declined() == {address}
        results["declines"] = counter(service, "declines")
        results["still served"] = statuses(service, leases.values())
        results["leases"] = len(kea.leases())
        return results


SCENARIOS = {"page": page, "many": many, "more": more, "short": short, "exhausted": exhausted}


def main(scenario: str, folder: Path) -> Mapping[str, Any]:
    """Run one, within the time limit: whoever is killed leaves its server running."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(TIME_LIMIT)
    return SCENARIOS[scenario](folder)


if __name__ == "__main__":
    if namespace() == sys.argv[3]:
        sys.exit("this is not a network namespace of its own")
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
