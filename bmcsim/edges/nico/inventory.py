"""What NICo is told to expect: the machines, switches, shelves and racks of a fleet.

DPUs are never declared: NICo finds them by their hosts.
"""

from typing import Any, NamedTuple

import msgspec

from bmcsim.edges.nico import common_pb2 as common
from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.calls import ADD_MACHINE, ADD_RACK, ADD_SHELF, ADD_SWITCH, Method
from bmcsim.fleet.identities import BmcPlan
from bmcsim.machine.identity import Identity, Kind, mac_colons
from bmcsim.tree import profile as profiles
from bmcsim.tree import racks as rack_types
from bmcsim.tree.profile import Account

_NVOS_USER, _NVOS_PASSWORD = "admin", "factory_password"
_TOPOLOGY_PROTOCOL = "NVLINK_V5"
_MANUFACTURERS = {
    "wiwynn": "WIWYNN",
    "lenovo": "Lenovo",
    "nvidia": "NVIDIA",
    "liteon": "LiteOn",
    "delta": "Delta",
}
"""First word of a hardware type -> what a rack group calls who made it."""
_TYPES = {Kind.HOST: "Compute", Kind.SWITCH: "Switch", Kind.POWER_SHELF: "PowerShelf"}


class Record(NamedTuple):
    """One declaration. name: the id of the BMC, or of the rack. profile: of a rack, else ''."""

    name: str
    method: Method[Any, Any]
    message: Any
    profile: str = ""


class Member(msgspec.Struct, frozen=True):
    """A unit of a rack as a rack group declares it."""

    type: str
    manufacturer: str
    id: str


class RackGroup(msgspec.Struct, frozen=True):
    """An expected rack group of one rack, in words: the numbers of its fields on the wire are not known."""

    rack_group_id: str
    topology: str
    protocol: str
    rack_id: str
    members: tuple[Member, ...]


def record_of(planned: BmcPlan, account: Account) -> Record | None:
    """The declaration of what is behind a BMC, None for a DPU. account: of the BMC, with the factory's password."""
    match planned.identity.kind:
        case Kind.HOST:
            return Record(planned.id, ADD_MACHINE, machine_of(planned, account))
        case Kind.SWITCH:
            return Record(planned.id, ADD_SWITCH, switch_of(planned, account))
        case Kind.POWER_SHELF:
            return Record(planned.id, ADD_SHELF, shelf_of(planned, account))
        case Kind.DPU:
            return None


def machine_of(planned: BmcPlan, account: Account) -> forge.ExpectedMachine:
    """A host, with the network cards of its own that ask for addresses in band."""
    identity, group = planned.identity, planned.group
    if not identity.dpus:
        mode, nics = forge.DpuMode.NO_DPU, [identity.host_mac]
    elif group.dpus_in_nic_mode:
        mode, nics = forge.DpuMode.NIC_MODE, [dpu.host_mac for dpu in identity.dpus]
    else:
        mode, nics = None, []
    return forge.ExpectedMachine(
        bmc_mac_address=mac_colons(identity.bmc_mac),
        bmc_username=account.user,
        bmc_password=account.password,
        chassis_serial_number=identity.serial,
        host_nics=[
            forge.ExpectedHostNic(
                mac_address=mac_colons(mac),
                primary=number == 0,
                network_segment_type=forge.NetworkSegmentType.HOST_INBAND,
            )
            for number, mac in enumerate(nics)
        ],
        rack_id=_rack(planned),
        dpf_enabled=group.dpf_enabled,
        is_dpf_enabled=group.dpf_enabled,
        dpu_mode=mode,
    )


def switch_of(planned: BmcPlan, account: Account) -> forge.ExpectedSwitch:
    """A switch; its operating system's user is NVIDIA's."""
    identity = planned.identity
    return forge.ExpectedSwitch(
        bmc_mac_address=mac_colons(identity.bmc_mac),
        bmc_username=account.user,
        bmc_password=account.password,
        switch_serial_number=identity.serial,
        rack_id=_rack(planned),
        nvos_username=_NVOS_USER,
        nvos_password=_NVOS_PASSWORD,
        nvos_mac_addresses=[mac_colons(identity.oob_mac)],
    )


def shelf_of(planned: BmcPlan, account: Account) -> forge.ExpectedPowerShelf:
    """A power shelf; NICo leaves its password as it is."""
    identity = planned.identity
    return forge.ExpectedPowerShelf(
        bmc_mac_address=mac_colons(identity.bmc_mac),
        bmc_username=account.user,
        bmc_password=account.password,
        shelf_serial_number=identity.serial,
        rack_id=_rack(planned),
        bmc_retain_credentials=True,
    )


def rack_record(rack: str, profile: str) -> Record:
    """The declaration of a rack. profile: the rack profile that NICo has for its type."""
    message = forge.ExpectedRack(rack_id=common.RackId(id=rack), rack_profile_id=common.RackProfileId(id=profile))
    return Record(rack, ADD_RACK, message, profile)


def rack_group(rack: str, type_name: str) -> RackGroup:
    """What NICo would be told of the group of a rack (docs/nico.md says why it is not)."""
    type_ = rack_types.load(type_name)
    kinds = {name: Kind(profiles.load(name).head.kind) for name in {unit.profile for unit in type_.elevation}}
    members = [
        Member(
            _TYPES[kinds[unit.profile]],
            _MANUFACTURERS.get(unit.profile.partition("_")[0], unit.profile),
            f"{rack}-unit-{unit.position:02d}",
        )
        for unit in type_.elevation
    ]
    return RackGroup(f"group-{rack}", type_.topology, _TOPOLOGY_PROTOCOL, rack, tuple(members))


def system_mac(identity: Identity) -> str:
    """The MAC by which NICo finds a host's machine: of its first DPU as the host sees it, else its own."""
    return mac_colons(identity.dpus[0].host_mac if identity.dpus else identity.host_mac)


def _rack(planned: BmcPlan) -> common.RackId | None:
    place, group = planned.identity.place, planned.group
    id_ = place.rack if place is not None else group.rack_id
    return common.RackId(id=id_) if id_ else None
