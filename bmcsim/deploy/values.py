"""Values of the simulator's chart, and the machines that they deploy.

The layout is that of machine-a-tron's chart: pods.NAME.machines.GROUP, pods.NAME.racks.GROUP, mat-k8s-controller.
Rule 1: files are merged in order. Maps merge, anything else replaces, null takes away, as `helm -f` does.
Rule 2: what these values cannot tell is refused, never guessed: a group without a relay, for one, which would get
whatever the chart has for it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bmcsim.deploy.networks import Address, address
from bmcsim.fleet import converters
from bmcsim.fleet.config import HARDWARE, MAX_DPUS, MAX_HOSTS, Hardware, MachineGroup, rack_ids, read_toml
from bmcsim.fleet.tables import ConfigError, Findings, Table
from bmcsim.machine.identity import Kind
from bmcsim.tree import racks as rack_types
from bmcsim.tree.source import ProfileError, Source, deep_merge

CONTROLLER = "mat-k8s-controller"
MAX_FILES = 32

_WORDS = {"true": True, "yes": True, "on": True, "y": True, "false": False, "no": False, "off": False, "n": False}
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"|[^.]+')


class Values:
    """Merged values. name: of the files, as messages say it. data: without nulls. given: with them."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._files = [(source, _merge_keys(source.data)) for source in sources]
        self.name = ", ".join(str(source.path) for source in sources)
        self.given: dict[str, Any] = {}
        for _, data in self._files:
            self.given = deep_merge(self.given, data)
        self.data: dict[str, Any] = _without_nulls(self.given)

    def place(self, key: str) -> str:
        """FILE:LINE of a dotted key in the last file that has it, or of the nearest key above it."""
        path = tuple(json.loads(step) if step.startswith('"') else step for step in _STEP.findall(key))
        while path:
            for source, data in reversed(self._files):
                if _has(data, path):
                    return f"{source.path}:{source.line(path)}"
            path = path[:-1]
        return self.name

    def says(self, *path: str) -> bool:
        """Whether the files decide about a key: by a value, or by null for it or for something above it."""
        value: Any = self.given
        for step in path:
            if not isinstance(value, dict):
                return True
            if step not in value:
                return False
            value = value[step]
        return True


class Relay(msgspec.Struct, frozen=True):
    """A relay address and the key that has it."""

    key: str
    address: Address


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one table of a pod. key: dotted. machines: by hardware type; of racks, all of their units.

    racks: ids. rack_type, rack_profile: as the file has them, '' for none.
    """

    key: str
    pod: str
    machines: tuple[MachineGroup, ...]
    bmc: Relay
    underlay: Relay | None = None
    racks: tuple[str, ...] = ()
    rack_type: str = ""
    rack_profile: str = ""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What the values deploy. controller: whether each BMC gets a Service. proxy_host: that NICo is told to use."""

    values: Values
    groups: tuple[Group, ...]
    controller: bool
    gateway: bool
    proxy_host: str

    @property
    def machines(self) -> tuple[MachineGroup, ...]:
        """All machines."""
        return tuple([one for group in self.groups for one in group.machines])

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods that have machines."""
        return tuple(dict.fromkeys(group.pod for group in self.groups))

    @property
    def rack_count(self) -> int:
        """How many racks there are."""
        return sum(len(group.racks) for group in self.groups)


def read(paths: Sequence[Path]) -> Deployment:
    """What values files deploy. Raises ConfigError."""
    if len(paths) > MAX_FILES:
        raise ConfigError(f"{paths[MAX_FILES]}: is one file too many; at most {MAX_FILES} are read")
    try:
        values = Values([Source(path) for path in paths])
    except ProfileError as error:
        raise ConfigError(str(error)) from error
    return deployment(values)


def deployment(values: Values) -> Deployment:
    """What merged values deploy. Raises ConfigError."""
    findings = _Findings(values)
    top = Table(findings, "", values.data)
    controller = top.table(CONTROLLER)
    enabled = controller.get("enabled", _flag, False)
    relay = top.table("dhcpRelay")
    if "baseIP" in relay and not relay.says("baseIP", ""):
        relay.error(
            "baseIP",
            "is DHCP relay mode, in which BMC networks are around a ServiceCIDR on purpose; nothing checks that yet: "
            "set it to null, or look by hand whether the BMC network is clear of every other ServiceCIDR",
        )
    if enabled and not values.says("pods"):
        top.error(
            "pods",
            f"is missing while {CONTROLLER}.enabled is true, so what the chart has by default would be deployed; "
            "give all values files of the installation, the chart's own values.yaml first if need be",
        )
    groups = tuple(_groups(findings, top.table("pods"), top.table("configFiles").table("matConfigs")))
    found = Deployment(
        values=values,
        groups=groups,
        controller=enabled,
        gateway=controller.table("gateway").get("enabled", _flag, False),
        proxy_host=top.table("machineATron").get("configureBmcProxyHost", converters.text_or_empty, ""),
    )
    findings.raise_errors()
    return found


# reading


class _Findings(Findings):
    """Findings that name file and line of a key."""

    def __init__(self, values: Values) -> None:
        super().__init__(values.name)
        self._values = values

    def error(self, key: str, text: str) -> None:
        self.errors.append(f"{self._values.place(key)}: {key}: {text}")


class _Keys(NamedTuple):
    """Names of what a group of machines has: in values, and in a fleet file that values contain."""

    hw_type: str
    host_count: str
    dpus: str
    nic_mode: str
    bmc: tuple[str, str]
    underlay: tuple[str, str]


_VALUES = _Keys(
    "hwType",
    "hostCount",
    "dpuPerHostCount",
    "dpusInNicMode",
    ("bmcDhcpRelayAddress", "oobDhcpRelayAddress"),
    ("underlayDhcpRelayAddress", "adminDhcpRelayAddress"),
)
_FLEET_FILE = _Keys(
    "hw_type",
    "host_count",
    "dpu_per_host_count",
    "dpus_in_nic_mode",
    ("bmc_dhcp_relay_address", "oob_dhcp_relay_address"),
    ("underlay_dhcp_relay_address", "admin_dhcp_relay_address"),
)


def _groups(findings: Findings, pods: Table, files: Table) -> Iterator[Group]:
    """files: pod -> a whole fleet file, which goes before what the pod has."""
    for pod in dict.fromkeys([*pods, *files]):
        table, keys = pods.table(pod), _VALUES
        if pod in files and not files.says(pod, ""):
            table, keys = _fleet_file(findings, files, pod), _FLEET_FILE
        machines, racks = table.table("machines"), table.table("racks")
        for name in machines:
            if (group := _machines(machines, name, pod, keys)) is not None:
                yield group
        for name in racks:
            if (group := _racks(racks, name, pod)) is not None:
                yield group


def _fleet_file(findings: Findings, files: Table, pod: str) -> Table:
    text = files.get(pod, converters.text, "")
    try:
        data = read_toml(text, "the text")
    except ConfigError as error:
        files.error(pod, f"must be a fleet file: {error}")
        data = {}
    table = Table(findings, files.dotted(pod), data)
    dhcp = table.table("dhcp")
    if dhcp.says("type", "udp_relay"):
        dhcp.error(
            "type", "is 'udp_relay', in which the relay is not the one that groups have; nothing checks that yet"
        )
    return table


def _machines(machines: Table, name: str, pod: str, keys: _Keys) -> Group | None:
    table = machines.table(name)
    hw_type = table.get(keys.hw_type, converters.text, "dell_poweredge_r750")
    hardware = HARDWARE.get(hw_type, Hardware())
    dpus = table.get(keys.dpus, converters.whole(0, MAX_DPUS), 0)
    group = MachineGroup(
        name=name,
        hw_type=hw_type,
        kind=hardware.kind,
        host_count=table.get(keys.host_count, converters.whole(0, MAX_HOSTS), 1),
        dpus=dpus if hardware.dpus is None else hardware.dpus,
        dpus_in_nic_mode=table.get(keys.nic_mode, _flag, False),
    )
    bmc, underlay = _bmc_relay(table, keys.bmc), _relay(table, keys.underlay)
    if bmc is None:
        return None
    return Group(key=machines.dotted(name), pod=pod, machines=(group,), bmc=bmc, underlay=underlay)


def _racks(racks: Table, name: str, pod: str) -> Group | None:
    table = racks.table(name)
    type_name = table.get("type", converters.text, "", f"is missing; there are {', '.join(rack_types.names())}")
    ids = table.get("ids", rack_ids, (), "is missing; write the ids of the racks, such as ['rack-1']")
    profile = table.get("rack_profile_id", converters.text, "")
    bmc, underlay = _bmc_relay(table, _FLEET_FILE.bmc), _relay(table, _FLEET_FILE.underlay)
    if bmc is None:
        return None
    return Group(
        key=racks.dotted(name),
        pod=pod,
        machines=rack_machines(type_name, len(ids)) if type_name in rack_types.names() else (),
        bmc=bmc,
        underlay=underlay,
        racks=ids,
        rack_type=type_name,
        rack_profile=profile,
    )


def rack_machines(type_name: str, count: int) -> tuple[MachineGroup, ...]:
    """The machines of so many racks of a type. Raises ProfileError."""
    units = [unit.profile for unit in rack_types.load(type_name).elevation]
    return tuple(
        [
            MachineGroup(
                name=profile,
                hw_type=profile,
                kind=HARDWARE.get(profile, Hardware()).kind,
                host_count=count * units.count(profile),
                dpus=HARDWARE.get(profile, Hardware()).dpus or 0,
            )
            for profile in dict.fromkeys(units)
        ]
    )


def derived_profile(type_name: str) -> str:
    """The rack profile that NICo derives for racks of a type. Raises ProfileError."""
    type_ = rack_types.load(type_name)
    kinds = {HARDWARE.get(unit.profile, Hardware()).kind for unit in type_.elevation}
    return type_.profile_id(shelves=Kind.POWER_SHELF in kinds)


def _flag(value: Any) -> bool:
    """As Helm reads it, for which True, yes and On are true as well. A text in quotes cannot be told from these."""
    if isinstance(value, str) and value not in ("true", "false") and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    return converters.flag(value)


def _bmc_relay(table: Table, names: tuple[str, str]) -> Relay | None:
    if not any(name in table for name in names):
        table.error(
            names[0],
            "is missing, so the chart's own would be used; write the gateway of the BMC network, 10.200.0.1 say",
        )
    return _relay(table, names)


def _relay(table: Table, names: tuple[str, str]) -> Relay | None:
    """The relay under a key's new name, or under its old one."""
    name = next((one for one in names if one in table), None)
    found = table.get(name, address, None) if name is not None else None
    return Relay(table.dotted(name), found) if name is not None and found is not None else None


# YAML


def _merge_keys(value: Any) -> Any:
    """A value with the merge keys (<<) of YAML 1.1 resolved: what is written out goes before what is merged."""
    if isinstance(value, list):
        return [_merge_keys(one) for one in value]
    if not isinstance(value, dict):
        return value
    own = {key: _merge_keys(one) for key, one in value.items()}
    merged = own.pop("<<", None)
    parts = merged if isinstance(merged, list) else [merged]
    for part in parts:
        own = {**part, **own} if isinstance(part, dict) else own
    return own


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(one) for key, one in value.items() if one is not None}


def _has(data: Any, path: tuple[str, ...]) -> bool:
    for step in path:
        if not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return True
