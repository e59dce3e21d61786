"""A real Kea in a network namespace that this one has a cable to and nobody else has. Only for a process that is in a
namespace of its own (`unshare -rn`)."""

import csv
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER, RELAY = "10.67.0.1", "10.67.0.2"
PORT = 67
MISSING = "Kea is not installed; on Debian and Ubuntu: apt-get install kea-dhcp4-server"

_PAGE = Path(__file__).parents[1] / "docs" / "dhcp-kea.md"
_NETWORK = 24
FLEET = f"""
[dhcp]
type = "udp_relay"
server_address = "{SERVER}:{PORT}"
listen_address = "{RELAY}:{PORT}"
advertise_address = "{RELAY}"
"""
"""The [dhcp] table of a fleet that asks this Kea."""

RELAYS = """
bmc_dhcp_relay_address = "127.64.0.1"
underlay_dhcp_relay_address = "127.65.0.1"
host_inband_dhcp_relay_address = "127.66.0.1"
"""
"""Keys of a group of machines, for the subnets of the page."""

_IN_USE, _DECLINED = "0", "1"
_OWN, _KEAS = "relay0", "kea0"
_START = _STOP = 20.0


def page_block(kind: str) -> str:
    """The first block of a kind in docs/dhcp-kea.md: `json` is the file of Kea, `toml` that of the fleet."""
    found = re.search(rf"^```{kind}\n(.*?)^```$", _PAGE.read_text(), re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"{_PAGE} has no block of {kind}")
    return found[1]


def page_config() -> dict[str, Any]:
    """Kea's configuration as the page has it: pools for 4,864 hosts, 11,259 DPUs and 16,123 of the underlay."""
    config: dict[str, Any] = json.loads(page_block("json"))
    return config


def program() -> str | None:
    """Where kea-dhcp4 is, None where it is not installed."""
    return shutil.which("kea-dhcp4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Kea:
    """A place for Kea at the other end of a cable. folder: of its files."""

    def __init__(self, folder: Path, holder: int) -> None:
        self.folder = folder
        self._holder = holder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def leases_file(self) -> Path:
        """What Kea knows, as CSV; the last row of an address counts."""
        return self.folder / "leases.csv"

    def leases(self) -> dict[str, str]:
        """MAC, with colons, -> address, of every lease in use."""
        return {row["hwaddr"]: address for address, row in self._rows().items() if row["state"] == _IN_USE}

    def declined(self) -> set[str]:
        """The addresses that somebody declined."""
        return {address for address, row in self._rows().items() if row["state"] == _DECLINED}

    def forget(self, mac: str) -> None:
        """Drop what it knows of a MAC, as after a loss of its last writes. Only while it is stopped."""
        lines = self.leases_file.read_text().splitlines(keepends=True)
        self.leases_file.write_text("".join([line for line in lines if f",{mac}," not in line]))

    def _rows(self) -> dict[str, dict[str, str]]:
        """The last row of each address. The last line may not be whole yet."""
        if not self.leases_file.exists():
            return {}
        text = self.leases_file.read_text()
        rows = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
        return {row["address"]: row for row in rows}

    @property
    def log(self) -> str:
        """Everything that it has printed since its last start."""
        return (self.folder / "kea.log").read_text(errors="replace")

    def requests(self) -> int:
        """Datagrams that its namespace has taken in so far."""
        names, values, *_ = [
            line.split()
            for line in Path(f"/proc/{self._holder}/net/snmp").read_text().splitlines()
            if line.startswith("Udp:")
        ]
        return int(values[names.index("InDatagrams")])

    def start(self, config: Mapping[str, Any], *, fresh: bool = True, cores: Sequence[int] = ()) -> None:
        """Start it and wait until it serves. config: its file; the interface and the lease file are set here.

        fresh: without the leases of the last start. cores: that it may use, empty for all. Raises RuntimeError.
        """
        if fresh:
            for old in self.folder.glob("leases.csv*"):
                old.unlink()
        text = json.loads(json.dumps(config))
        text["Dhcp4"]["interfaces-config"] = {"interfaces": [_KEAS], "dhcp-socket-type": "udp"}
        text["Dhcp4"]["lease-database"] = {
            "type": "memfile", "persist": True, "name": str(self.leases_file), "lfc-interval": 0,
        }  # fmt: skip
        text["Dhcp4"]["loggers"] = [
            {"name": "kea-dhcp4", "severity": "INFO", "output_options": [{"output": "stdout", "flush": True}]},
            # One line for each packet is not what is looked for here, and costs more than the packet.
            {"name": "kea-dhcp4.options", "severity": "WARN"},
            {"name": "kea-dhcp4.leases", "severity": "WARN"},
            {"name": "kea-dhcp4.packets", "severity": "WARN"},
        ]
        (self.folder / "kea.json").write_text(json.dumps(text))
        command = [*_within(self._holder), program() or "kea-dhcp4", "-c", str(self.folder / "kea.json")]
        env = {**os.environ, "KEA_PIDFILE_DIR": str(self.folder), "KEA_LOCKFILE_DIR": "none"}
        with (self.folder / "kea.log").open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=env)
        if cores:
            os.sched_setaffinity(self._process.pid, cores)
        deadline = time.monotonic() + _START
        while "DHCP4_STARTED" not in self.log:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kea does not start:\n{self.log}")
            time.sleep(0.02)
        if "NO_SOCKETS_OPEN" in self.log:
            raise RuntimeError(f"Kea does not listen:\n{self.log}")

    def stop(self) -> None:
        """Stop it, as a pod that is replaced."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP)
            finally:
                self._process.kill()
                self._process = None


@contextmanager
def cabled(folder: Path) -> Iterator[Kea]:
    """Lay the cable: RELAY is the address of this end, SERVER that of Kea's. Everything is gone at the end."""
    _ip("link", "set", "lo", "up")
    holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "sleep", "infinity"])
    try:
        own = _namespace(os.getpid())
        _wait_for(lambda: _namespace(holder.pid) not in ("", own), "no network namespace for Kea")
        _ip("link", "add", _OWN, "type", "veth", "peer", "name", _KEAS, "netns", str(holder.pid))
        _ip("address", "add", f"{RELAY}/{_NETWORK}", "dev", _OWN)
        _ip("link", "set", _OWN, "up")
        there = _within(holder.pid)
        _ip("link", "set", "lo", "up", there=there)
        _ip("address", "add", f"{SERVER}/{_NETWORK}", "dev", _KEAS, there=there)
        _ip("link", "set", _KEAS, "up", there=there)
        # Kea opens no socket on an interface that has no carrier yet, and starts all the same.
        _wait_for(lambda: "LOWER_UP" in _ip("link", "show", _KEAS, "up", there=there), "the cable is not up")
        kea = Kea(folder, holder.pid)
        try:
            yield kea
        finally:
            kea.stop()
    finally:
        holder.kill()
        holder.wait()


def _within(pid: int) -> list[str]:
    """Ends with the process that started it, whatever becomes of that."""
    return ["setpriv", "--pdeathsig", "KILL", "nsenter", "-t", str(pid), "-n"]


def _ip(*arguments: str, there: Sequence[str] = ()) -> str:
    return subprocess.run([*there, "ip", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def _namespace(pid: int) -> str:
    """Of a process; '' when it has no more."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def _wait_for(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _START
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.01)
