"""What machine-a-tron says of a device in its status: the same fields, words and omissions, read off our BMCs.

docs/status.md has the table of states.
"""

from collections.abc import Container, Mapping
from typing import Literal

import msgspec

from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.dhcp.messages import Lease, Port
from bmcsim.machine.identity import Identity, Kind, mac_hex
from bmcsim.machine.power import Power

REACHABLE_PORT = 443
API_STATE = "Unknown"
"""What machine-a-tron says before NICo has told it anything, and says for ever of switches and shelves."""

DeviceKind = Literal["machine", "dpu", "switch", "power_shelf"]

_KINDS: Mapping[Kind, DeviceKind] = {
    Kind.HOST: "machine",
    Kind.DPU: "dpu",
    Kind.SWITCH: "switch",
    Kind.POWER_SHELF: "power_shelf",
}
_MACHINE_STATES: Mapping[Power, str] = {
    Power.OFF: "MachineDown",
    Power.CYCLING: "MachineDown",
    Power.POWERING_ON: "PoweringOn",
    Power.BOOTING: "PoweringOn",
    Power.RUNNING: "MachineUp",
    Power.RESTARTING: "MachineUp",
    Power.POWERING_OFF: "PoweringOff",
}
_SWITCH_STATES: Mapping[Power, str] = {
    Power.OFF: "DeviceDown",
    Power.CYCLING: "DeviceDown",
    Power.POWERING_ON: "NvosInit",
    Power.BOOTING: "NvosInit",
    Power.RUNNING: "DeviceUp",
    Power.RESTARTING: "DeviceUp",
    Power.POWERING_OFF: "DeviceUp",
}


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """Ports of something: where a Service in the cluster has it, and where this process listens."""

    reachable_port: int
    listen_port: int


class Endpoints(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Where a BMC is. ip: IPv4. No IPMI and no SSH is simulated, so neither is here."""

    ip: str | None = None
    redfish: Endpoint


class InfinibandPort(msgspec.Struct, frozen=True, gc=False):
    """A port of an InfiniBand adapter. guid: 16 hexadecimal digits."""

    guid: str
    state: Literal["active", "down"] = "active"


class DeviceStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A device. What is None is left out."""

    mat_id: str
    device_kind: DeviceKind
    device_id: str
    machine_id: str | None = None
    hardware_type: str | None = None
    mat_state: str
    api_state: str
    power_state: str
    machine_ip: str | None = None
    nvos_ip: str | None = None
    infiniband_ports: list[InfinibandPort] | None = None
    bmc: Endpoints
    dpus: list["DeviceStatus"]


def mat_id(identity: Identity) -> str:
    """The UUID of a device; always the same for the same MAC of its BMC."""
    return identity.uuid("mat")


def guid(mac: int) -> str:
    """The GUID of a port from its MAC: 0xAABBCCDDEEFF -> 'aabbcc0300ddeeff', as NVIDIA's adapters have it."""
    digits = mac_hex(mac).lower()
    return f"{digits[:6]}0300{digits[6:]}"


class Describer:
    """Says what devices are. port: that Redfish is served at. nic_mode: names of groups whose DPUs are mere NICs.
    machine_ids: id of a BMC -> the id that NICo has for its machine, where that is known."""

    def __init__(
        self, port: int, nic_mode: Container[str] = frozenset(), machine_ids: Mapping[str, str] | None = None
    ) -> None:
        self._redfish = Endpoint(REACHABLE_PORT, port)
        self.nic_mode = nic_mode
        self.machine_ids: Mapping[str, str] = machine_ids if machine_ids is not None else {}

    def status(self, bmc: Bmc) -> DeviceStatus:
        """A device with the DPUs in it."""
        kind, id_, known = bmc.identity.kind, mat_id(bmc.identity), self.machine_ids.get(bmc.id)
        leases = bmc.state.leases
        return DeviceStatus(
            mat_id=id_,
            device_kind=_KINDS[kind],
            device_id=known or id_,
            machine_id=known,
            hardware_type=None if kind is Kind.DPU else bmc.tree.head.profile,
            mat_state=self.mat_state(bmc),
            api_state=API_STATE,
            power_state=bmc.power.shown,
            machine_ip=_address(leases, Port.NIC) or _address(leases, Port.OOB),
            nvos_ip=_address(leases, Port.NVOS),
            infiniband_ports=_infiniband(bmc),
            bmc=Endpoints(ip=bmc.address or None, redfish=self._redfish),
            dpus=[self.status(dpu) for dpu in bmc.dpus],
        )

    def mat_state(self, bmc: Bmc) -> str:
        """The state of a device in machine-a-tron's words."""
        power, kind = bmc.power, bmc.identity.kind
        if not bmc.address or bmc.state.service is Service.UNPOWERED:
            return "BmcInit"
        if kind is Kind.POWER_SHELF:
            return "BmcOnly/DeviceDown" if power.dead else "BmcOnly/DeviceUp"
        if kind is Kind.DPU and bmc.shared.group in self.nic_mode:
            return "BmcOnly/MachineDown" if power.dead else "BmcOnly/MachineUp"
        waits = power is Power.RUNNING and any(
            link.port is not Port.BMC and link.port not in bmc.state.leases for link in bmc.shared.links
        )
        if kind is Kind.SWITCH:
            return "NvosInit" if waits else _SWITCH_STATES[power]
        return "Init" if waits else _MACHINE_STATES[power]


def inventory_fact(status: DeviceStatus) -> tuple[str, ...] | None:
    """What of a device counts as a change of the inventory, None for what never does: only machines count."""
    if status.device_kind != "machine":
        return None
    ports = [f"{port.guid}={port.state}" for port in status.infiniband_ports or ()]
    return (status.mat_id, status.machine_id or "", status.hardware_type or "", *ports)


def _address(leases: Mapping[str, Lease], port: Port) -> str | None:
    lease = leases.get(port)
    return lease.address if lease is not None else None


def _infiniband(bmc: Bmc) -> list[InfinibandPort] | None:
    base, macs = bmc.identity.hw_base, bmc.tree.head.infiniband
    return sorted([InfinibandPort(guid(base + mac)) for mac in macs], key=lambda port: port.guid) if macs else None
