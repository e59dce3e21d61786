"""The fleet configuration file: machine-a-tron's mat.toml, and tables of bmcsim's own beside it.

A file with `carbide_api_url` has machine-a-tron's defaults, one without it has bmcsim's. What machine-a-tron knows and
bmcsim does not use is accepted with one warning, so that a file serves both. Every check is made here: a FleetConfig
that exists can be served.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import msgspec

from bmcsim.fleet import converters, dhcp_config, mat_config, nico_config
from bmcsim.fleet.conduct import (
    DEFAULT,
    DISCOVERIES,
    POLICIES,
    RESET_MODES,
    Conduct,
    facts,
    fault_rules,
    lockout,
    one_of,
    preset_name,
)
from bmcsim.fleet.dhcp_config import ApiConfig, DhcpConfig, PoolConfig
from bmcsim.fleet.mat_config import MatConfig
from bmcsim.fleet.nico_config import NicoConfig
from bmcsim.fleet.pool import MacPool, MacRanges, PoolExhausted
from bmcsim.fleet.tables import ConfigError, Findings, Table
from bmcsim.machine.dhcp.messages import Port
from bmcsim.machine.identity import Kind, Place
from bmcsim.tree import profile as profiles
from bmcsim.tree import racks as rack_types
from bmcsim.tree.source import ProfileError

MAX_BYTES = 4 * 1024 * 1024
MAX_HOSTS = 1_000_000
MAX_DPUS = 8
MAX_RACKS = 10_000
MAX_RACK_ID = 64
_MAX_MAC_BITS = 40
_MIN_RANGE_BITS = 5

DEFAULT_RACK_TYPE = "wiwynn_gb200_nvl72"
LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_PORT, _MAT_PORT = 1266, 2000


class Hardware(msgspec.Struct, frozen=True):
    """A hardware type. dpus: how many every machine of it has, None where the file says how many."""

    kind: Kind = Kind.HOST
    dpus: int | None = None


HARDWARE: Mapping[str, Hardware] = {
    "dell_poweredge_r750": Hardware(),
    "generic_ami": Hardware(),
    "generic_supermicro": Hardware(),
    "hpe_proliant_dl380a_gen11": Hardware(),
    "dell_poweredge_r760_bf4": Hardware(dpus=1),
    "lenovo_gb300_nvl": Hardware(dpus=1),
    "nvidia_dgx_gb300": Hardware(dpus=1),
    "nvidia_dgx_h100": Hardware(dpus=1),
    "nvidia_dgx_vr": Hardware(dpus=1),
    "supermicro_gb300_nvl": Hardware(dpus=1),
    "wiwynn_gb200_nvl": Hardware(dpus=2),
    "nvidia_switch_n5700_ld": Hardware(Kind.SWITCH, 0),
    "nvidia_switch_nd5200_ld": Hardware(Kind.SWITCH, 0),
    "delta_power_shelf": Hardware(Kind.POWER_SHELF, 0),
    "liteon_power_shelf": Hardware(Kind.POWER_SHELF, 0),
}
"""The hardware types of machine-a-tron. A path that ends in .yaml is a type too, and says itself of which kind."""

TIMINGS = (
    "power_on_os_ready",
    "power_off_graceful",
    "power_off_force",
    "reboot",
    "bmc_ssh_ready_offset",
    "bmc_reset",
    "firmware_upgrade",
)

PROGRESSIONS = ("timed", "immediate", "manual")
DURABILITIES = ("normal", "full")

_UNUSED = {
    "api_refresh_interval", "enable_ipmi_simulation", "interface", "mock_bmc_ssh_port", "mock_bmc_ssh_server",
    "nmxc_mock", "pxe_server_host", "pxe_server_port", "rms_mock", "scout_stream_reconnect_interval",
    "tenant_network_snapshot_dir", "tui_enabled", "ufm_mock", "use_pxe_api",
}  # fmt: skip
_UNUSED_OF_GROUP = {
    "discovery_retry_interval", "dpu_agent_version", "dpu_reboot_delay", "host_reboot_delay",
    "network_status_run_interval", "network_virtualization_type", "run_interval_idle", "run_interval_working",
    "scout_run_interval", "subnets_per_vpc", "vpc_count",
}  # fmt: skip


class Seat(msgspec.Struct, frozen=True, gc=False):
    """A machine of a rack. section: names it, as machine-a-tron does."""

    section: str
    place: Place


class MachineGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one type: a [machines.NAME] table, or what is of this type in the racks of a [racks.NAME] table.

    seats: of machines in racks, as many as host_count; else empty. rack_type: of these racks, rack_profile: as
    which NICo knows them; else ''.
    variant: of the hardware, '' for none. dpus: of each host.
    host_timings, dpu_timings: overrides of a profile's timings, seconds.
    acceleration_factor: what all timings are multiplied by after that, 0 or more. conduct: of all BMCs of the group.
    Relay addresses are dotted. Firmware versions: component -> version, as a BMC starts; desired ones: as updates make
    them, in this order. dpf_enabled: whether NICo is told that DPF manages the DPUs.
    """

    name: str
    hw_type: str
    kind: Kind
    host_count: int
    dpus: int
    variant: str = ""
    dpus_in_nic_mode: bool = False
    host_timings: dict[str, float] = {}
    dpu_timings: dict[str, float] = {}
    acceleration_factor: float = 1.0
    host_firmware_versions: dict[str, str] = {}
    dpu_firmware_versions: dict[str, str] = {}
    desired_host_firmware: dict[str, str] = {}
    desired_dpu_firmware: dict[str, str] = {}
    conduct: Conduct = Conduct()
    seats: tuple[Seat, ...] = ()
    rack_type: str = ""
    rack_profile: str = ""
    rack_id: str | None = None
    dpf_enabled: bool = True
    bmc_dhcp_relay_address: str | None = None
    underlay_dhcp_relay_address: str | None = None
    host_inband_dhcp_relay_address: str | None = None

    def ports(self, *, of_dpus: bool) -> tuple[Port, ...]:
        """The interfaces that have leases of their own, of each machine or of each of its DPUs.

        A host with managed DPUs has no network but theirs, and a DPU in NIC mode no system that would ask.
        """
        if of_dpus:
            return (Port.BMC,) if self.dpus_in_nic_mode else (Port.BMC, Port.OOB)
        if self.kind is Kind.SWITCH:
            return (Port.BMC, Port.NVOS)
        managed = self.dpus and not self.dpus_in_nic_mode
        return (Port.BMC, Port.NIC) if self.kind is Kind.HOST and not managed else (Port.BMC,)

    @property
    def table(self) -> str:
        """The table of the file that it comes from."""
        return self.name.rpartition(".")[0] if self.seats else f"machines.{self.name}"

    def has(self, id_: str) -> bool:
        """Whether the group has a BMC of this id."""
        match = re.fullmatch(r"(.+?)-(0|[1-9][0-9]*)(?:-dpu-(0|[1-9][0-9]*))?", id_, re.DOTALL)
        if match is None or (match[3] is not None and int(match[3]) >= self.dpus):
            return False
        if self.seats:
            return match[2] == "0" and any(seat.section == match[1] for seat in self.seats)
        return match[1] == self.name and int(match[2]) < self.host_count

    @property
    def bmc_count(self) -> int:
        """How many BMCs the group has."""
        return self.host_count * (1 + self.dpus)

    @property
    def mac_count(self) -> int:
        """How many MACs it draws from the main pool."""
        own = 2 if self.kind is Kind.SWITCH or (self.kind is Kind.HOST and self.dpus == 0) else 1
        return self.host_count * (3 * self.dpus + own)


class FleetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet that can be served.

    source: the file, as messages name it. groups: by name, which is the order of machines. time_scale: how much faster
    than real time hardware is. listen, admin, state_dir: as the file has them, None where it is silent.
    progression: timed, immediate (hardware takes no time) or manual (its time moves by hand). durability: normal, or
    full to survive power cuts. idle_close: seconds until an idle connection closes, connection_requests: how many
    requests one takes; None where the file is silent. domain: of the names of BMCs, '' for none.
    event_destinations: networks to which BMCs may send events. conduct: of all BMCs. bmcs: id -> conduct of one BMC.
    nico: None without carbide_api_url. mat: None where it was not asked for.
    Raises ConfigError when the pools are too small for the machines or overlap.
    """

    source: str
    groups: tuple[MachineGroup, ...]
    dhcp: DhcpConfig = PoolConfig()
    mac_pool: MacPool = MacPool(0x020000000000, 24)
    hw_ranges: MacRanges = MacRanges(0x060000000000, 32, 8)
    host_bmc_password: str | None = None
    dpu_bmc_password: str | None = None
    port: int = _PORT
    listen: str | None = None
    admin: str | None = None
    state_dir: str | None = None
    time_scale: float = 1.0
    progression: str = "timed"
    durability: str = "normal"
    idle_close: float | None = None
    connection_requests: int | None = None
    domain: str = ""
    event_destinations: tuple[IPv4Network | IPv6Network, ...] = LOOPBACK
    conduct: Conduct = Conduct()
    bmcs: dict[str, Conduct] = {}
    nico: NicoConfig | None = None
    mat: MatConfig | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if problems := [f"{self.source}: {problem}" for problem in self._problems()]:
            raise ConfigError("\n".join(problems))

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = msgspec.structs.asdict(self)
        for name in ("host_bmc_password", "dpu_bmc_password"):
            if shown[name] is not None:
                shown[name] = "***"
        return list(shown.items())

    def __repr__(self) -> str:
        return f"FleetConfig({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    @property
    def pool(self) -> PoolConfig | None:
        """Where addresses are planned from, None where they are leased at run time."""
        return self.dhcp if isinstance(self.dhcp, PoolConfig) else None

    @property
    def host_count(self) -> int:
        """How many machines the fleet has: hosts, switches and shelves."""
        return sum(group.host_count for group in self.groups)

    @property
    def bmc_count(self) -> int:
        """How many BMCs the fleet has, those of DPUs included."""
        return sum(group.bmc_count for group in self.groups)

    @property
    def mac_blocks(self) -> dict[str, MacPool]:
        """Both blocks of MACs, by the key of the file."""
        return {"mac_address_pool": self.mac_pool, "hw_mac_address_ranges": self.hw_ranges}

    def with_choices(self, conduct: Conduct = DEFAULT, **chosen: Any) -> "FleetConfig":
        """The same fleet with other choices; None leaves one as it is. conduct: goes before that of the file."""
        given = {name: value for name, value in chosen.items() if value is not None}
        return msgspec.structs.replace(self, conduct=conduct.within(self.conduct), **given)

    def shortages(self) -> tuple[str, ...]:
        """What is said of a pool that serves although it is too small."""
        return tuple([f"{self.source}: {text}; BMCs beyond it have no address" for text in self._shortage()])

    def _shortage(self) -> Iterator[str]:
        if self.pool is None:
            return
        pool = self.pool.allocator()
        try:
            pool.require(self.bmc_count)
        except PoolExhausted as error:
            withheld = pool.prefix.num_addresses - pool.capacity
            yield f"dhcp.prefix: {error}: a /{32 - _bits(self.bmc_count + withheld)} would do"

    def _problems(self) -> Iterator[str]:
        if self.bmc_count == 0:
            yield "machines: the fleet has no BMC; add a table [machines.NAME] with a host_count"
        for key in ("host_bmc_password", "dpu_bmc_password"):
            if getattr(self, key) == "":
                yield f"{key}: must not be empty; leave it out for the factory password"
        if self.host_bmc_password is None and self.dpu_bmc_password is None:
            conducts = {
                "bmcsim": self.conduct,
                **{f"machines.{group.name}": group.conduct for group in self.groups},
                **{f"bmcs.{id_}": conduct for id_, conduct in self.bmcs.items()},
            }
            for key, conduct in conducts.items():
                if conduct.credentials == "pinned":
                    yield f"{key}.credentials: 'pinned' needs a password: give host_bmc_password or dpu_bmc_password"
        if self.pool is not None and self.pool.exhaustion == "refuse":
            yield from self._shortage()
        macs = sum(group.mac_count for group in self.groups)
        if macs > self.mac_pool.size:
            yield (
                f"mac_address_pool.host_bits: {self.mac_pool.host_bits} bits are {self.mac_pool.size} MACs, "
                f"{macs} are needed: {_bits(macs)} would do"
            )
        if self.host_count > self.hw_ranges.count:
            yield (
                f"hw_mac_address_ranges.host_bits: {self.hw_ranges.host_bits} bits are {self.hw_ranges.count} ranges, "
                f"{self.host_count} are needed: {self.hw_ranges.range_host_bits + _bits(self.host_count)} would do"
            )
        if self.mac_pool.meets(self.hw_ranges):
            yield (
                f"hw_mac_address_ranges: {self.hw_ranges} overlaps mac_address_pool ({self.mac_pool}): "
                "the two need bases that differ above their host bits, such as 02:00:00:00:00:00 and 06:00:00:00:00:00"
            )


def load(path: Path, *, pool: bool = False, mat: bool = False) -> FleetConfig:
    """Read a fleet configuration file. pool: addresses come from a pool, whatever it says.

    mat: as machine-a-tron reads it, with what only its program goes by. Raises ConfigError.
    """
    return parse(read_text(path), str(path), pool=pool, mat=mat)


def read_text(path: Path) -> str:
    """The text of a file of at most MAX_BYTES. Raises ConfigError."""
    try:
        if not path.exists():
            raise ConfigError(f"{path}: there is no such file")
        if not path.is_file():
            raise ConfigError(f"{path}: is not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ConfigError(f"{path}: is larger than {MAX_BYTES // 2**20} MiB")
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text: byte {error.start} is wrong") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def parse(text: str, source: str, *, pool: bool = False, mat: bool = False) -> FleetConfig:
    """The fleet that a TOML text describes. source: what messages call it. pool, mat: as for `load`.

    Raises ConfigError.
    """
    return _fleet(read_toml(text, source), source, pool=pool, mat=mat)


def read_toml(text: str, source: str) -> dict[str, Any]:
    """The tables of a TOML text. source: what messages call it. Raises ConfigError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{source}: is not TOML that can be read: too deeply nested") from None
    except ValueError as error:
        raise ConfigError(f"{source}: is not TOML: {error}") from error


def default(
    hosts: int = 4500,
    dpus: int | None = None,
    profile: str = "dell_poweredge_r750",
    host_password: str | None = None,
    dpu_password: str | None = None,
    *,
    racks: int = 0,
    rack_type: str = DEFAULT_RACK_TYPE,
) -> FleetConfig:
    """The fleet without a file: one group 'host' on 127.64.0.0/18, or on as much of 127.64.0.0/10 as it needs.

    dpus: of each host; None: two, or what the hardware always has. racks: instead of hosts, racks with the ids rack-1,
    rack-2, ... Raises ConfigError.
    """
    if dpus is None:
        fixed = _hardware(profile).dpus
        dpus = 2 if fixed is None else fixed
    machines: dict[str, Any] = {
        "machines": {"host": {"hw_type": profile, "host_count": hosts, "dpu_per_host_count": dpus}}
    }
    bmcs = hosts * (1 + dpus)
    if racks:
        units = rack_types.load(rack_type).elevation
        bmcs = racks * sum([1 + (_hardware(unit.profile).dpus or 0) for unit in units])
        machines = {"racks": {"rack": {"type": rack_type, "ids": [f"rack-{n}" for n in range(1, racks + 1)]}}}
    data = {
        "host_bmc_password": host_password,
        "dpu_bmc_password": dpu_password,
        "dhcp": {"type": "pool", "prefix": str(dhcp_config.default_prefix(bmcs))},
        **machines,
    }
    return _fleet({key: value for key, value in data.items() if value is not None}, "the default fleet")


# reading


def _fleet(data: dict[str, Any], source: str, *, pool: bool = False, mat: bool = False) -> FleetConfig:
    findings = Findings(source)
    top = Table(findings, "", data)
    of_mat = "carbide_api_url" in top
    machines = top.table("machines")
    groups = tuple([_group(machines, name) for name in sorted(machines)]) + _racks(top.table("racks"))
    _check_racks(findings, groups)
    own = top.table("bmcsim")
    dhcp = dhcp_config.read(top, of_mat, sum(group.bmc_count for group in groups), pool=pool)
    _check_relays(findings, dhcp, groups)
    if isinstance(dhcp, ApiConfig) and not of_mat:
        findings.error("dhcp.type", "'api' needs carbide_api_url, the URL of NICo's API; or write 'pool'")
    fields: dict[str, Any] = {
        "dhcp": dhcp,
        "mac_pool": _mac_pool(findings, top.table("mac_address_pool")),
        "hw_ranges": _hw_ranges(findings, top.table("hw_mac_address_ranges")),
        "host_bmc_password": top.get("host_bmc_password", converters.secret, None),
        "dpu_bmc_password": top.get("dpu_bmc_password", converters.secret, None),
        "port": top.get("bmc_mock_port", converters.whole(1, 65535), _MAT_PORT if of_mat else _PORT),
        "listen": own.get("listen", converters.text, None),
        "admin": own.get("admin", converters.text, None),
        "state_dir": own.get("state_dir", converters.text, None),
        "time_scale": own.get("time_scale", converters.time_scale, 1.0),
        "progression": own.get("progression", one_of(*PROGRESSIONS), "timed"),
        "durability": own.get("durability", one_of(*DURABILITIES), "normal"),
        "idle_close": own.get("idle_close", converters.idle, None),
        "connection_requests": own.get("connection_requests", converters.whole(1, 2**31 - 1), None),
        "domain": own.get("domain", converters.domain, ""),
        "event_destinations": own.get("event_destinations", converters.destinations, LOOPBACK),
        "conduct": _conduct(own),
        "bmcs": _bmcs(top.table("bmcs"), groups),
        "nico": nico_config.read(top, leave=pool),
        "mat": mat_config.read(top) if mat else None,
    }
    own.close(strict=True)
    top.close(unused=_UNUSED | mat_config.KEYS)
    findings.raise_errors()
    config = FleetConfig(source=source, groups=groups, warnings=findings.all_warnings(), **fields)
    return msgspec.structs.replace(config, warnings=(*config.warnings, *config.shortages()))


def _conduct(table: Table) -> Conduct:
    return Conduct(
        table.get("preset", preset_name, None),
        table.get("credentials", one_of(*POLICIES), None),
        table.get("while_resetting", one_of(*RESET_MODES), None),
        table.get("faults", fault_rules, None),
        table.get("lockout", lockout, None),
        table.get("behaviour", facts, None),
        table.get("ssdp", one_of(*DISCOVERIES), None),
    )


def _bmcs(table: Table, groups: tuple[MachineGroup, ...]) -> dict[str, Conduct]:
    """[bmcs.ID]: an id is that of a machine (NAME-NUMBER) or of one of its DPUs (NAME-NUMBER-dpu-SLOT)."""
    conducts: dict[str, Conduct] = {}
    for id_ in table:
        own = table.table(id_)
        if not any(group.has(id_) for group in groups):
            table.error(id_, "no group has this BMC; ids are NAME-NUMBER and NAME-NUMBER-dpu-SLOT, both from 0")
        conducts[id_] = _conduct(own)
        own.close(strict=True)
    return conducts


def parse_group(name: str, table: dict[str, Any], config: FleetConfig) -> MachineGroup:
    """A group that a fleet gets at run time, from what its [machines.NAME] table would have. Raises ConfigError."""
    findings = Findings("the request")
    group = _group(Table(findings, "machines", {name: table}), name)
    # Nobody would see a warning.
    findings.errors, findings.warnings = findings.errors + findings.warnings, []
    _check_racks(findings, (*config.groups, group))
    _check_relays(findings, config.dhcp, (group,))
    findings.raise_errors()
    if findings.unused:
        raise ConfigError(f"the request: not used by this version: {', '.join(findings.unused)}")
    return group


def _group(machines: Table, name: str) -> MachineGroup:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        machines.error(
            name, "a group's name has up to 100 letters, digits, '_', '.', '-' and starts with a letter or digit"
        )
    elif re.fullmatch(r".*-[0-9]+-dpu", name):
        machines.error(name, "a group's name must not end like the id of a DPU; put something behind '-dpu'")
    table = machines.table(name)
    hw_type = table.get("hw_type", _hw_type, "dell_poweredge_r750")
    hardware = _hardware(hw_type)
    group = MachineGroup(
        name=name,
        hw_type=hw_type,
        kind=hardware.kind,
        host_count=table.get(
            "host_count", converters.whole(0, MAX_HOSTS), 0, "is missing; write how many machines the group has"
        ),
        dpus=_dpus(table, hw_type, hardware),
        variant=table.get("variant", converters.text, ""),
        rack_id=table.get("rack_id", converters.text, None),
        dpf_enabled=table.get("dpf_enabled", converters.flag, True),
        **_settings(table),
    )
    table.close(unused=_UNUSED_OF_GROUP, unused_path="machines.*.")
    return group


def _hardware(hw_type: str) -> Hardware:
    if hw_type in HARDWARE:
        return HARDWARE[hw_type]
    try:
        head = profiles.load(hw_type).head
        return Hardware(Kind(head.kind), head.dpus if head.dpu else 0)
    except ProfileError:
        # Whoever builds the fleet says what is wrong with it.
        return Hardware()


def _settings(table: Table) -> dict[str, Any]:
    """What tables of machines and of racks have in common."""
    timings = table.table("timing_overrides")
    host_timings, dpu_timings = (_timings(timings.table(of)) for of in ("host", "dpu"))
    timings.close(strict=True)
    desired = table.table("desired_firmware")
    desired_host, desired_dpu = (_desired(desired.table(of)) for of in ("host", "dpu"))
    desired.close(strict=True)
    return {
        "dpus_in_nic_mode": table.get("dpus_in_nic_mode", converters.flag, False),
        "host_timings": host_timings,
        "dpu_timings": dpu_timings,
        "acceleration_factor": table.get("acceleration_factor", converters.acceleration, 1.0),
        "host_firmware_versions": _versions(table.table("host_firmware_versions"), ("bmc", "uefi")),
        "dpu_firmware_versions": _versions(table.table("dpu_firmware_versions"), ("bmc", "cec", "uefi", "nic", "bsp")),
        "desired_host_firmware": desired_host,
        "desired_dpu_firmware": desired_dpu,
        "conduct": _conduct(table),
        "bmc_dhcp_relay_address": table.renamed("bmc_dhcp_relay_address", "oob_dhcp_relay_address", converters.ipv4),
        "underlay_dhcp_relay_address": table.renamed(
            "underlay_dhcp_relay_address", "admin_dhcp_relay_address", converters.ipv4
        ),
        "host_inband_dhcp_relay_address": table.get("host_inband_dhcp_relay_address", converters.ipv4, None),
    }


# Only compute trays have these: shelves and switches of a rack are as they are.
_OF_HOSTS = ("dpus_in_nic_mode", "host_firmware_versions", "desired_host_firmware")


def _racks(racks: Table) -> tuple[MachineGroup, ...]:
    return tuple([group for name in sorted(racks) for group in _rack_groups(racks, name)])


def _rack_groups(racks: Table, name: str) -> list[MachineGroup]:
    """A group for each hardware type of the racks of one table."""
    table = racks.table(name)
    type_name = table.get("type", _rack_type, "", f"is missing; there are {', '.join(rack_types.names())}")
    ids = sorted(table.get("ids", rack_ids, (), "is missing; write the ids of the racks, such as ['rack-1']"))
    profile_id, common = table.get("rack_profile_id", converters.text, None), _settings(table)
    table.close(unused=_UNUSED_OF_GROUP | {"dpf_enabled"}, unused_path="racks.*.")
    if not type_name:
        return []
    type_ = rack_types.load(type_name)
    hardware = {unit.profile: _hardware(unit.profile) for unit in type_.elevation}
    derived = type_.profile_id(shelves=any(one.kind is Kind.POWER_SHELF for one in hardware.values()))
    if profile_id not in (None, derived):
        table.warning("rack_profile_id", f"is {profile_id}, and NICo derives {derived}; leave it out")
    groups = []
    for hw_type, of in hardware.items():
        units = [unit for unit in type_.elevation if unit.profile == hw_type]
        seats = [
            Seat(f"rack-{id_.encode().hex()}--unit-{unit.position:02d}", Place(id_, unit.position, unit.index))
            for id_ in ids
            for unit in units
        ]
        own = {key: value for key, value in common.items() if of.kind is Kind.HOST or key not in _OF_HOSTS}
        groups.append(
            MachineGroup(
                name=f"racks.{name}.{hw_type}",
                hw_type=hw_type,
                kind=of.kind,
                host_count=len(seats),
                dpus=of.dpus or 0,
                seats=tuple(seats),
                rack_type=type_name,
                rack_profile=derived,
                **own,
            )
        )
    return groups


def _check_racks(findings: Findings, groups: Iterable[MachineGroup]) -> None:
    """Every rack is simulated once, and no free machine says that it is in one."""
    owners: dict[str, str] = {}
    for table, rack in dict.fromkeys(
        (group.name.rpartition(".")[0], seat.place.rack) for group in groups for seat in group.seats
    ):
        if owners.setdefault(rack, table) != table:
            findings.error(f"{table}.ids", f"{rack} is a rack of {owners[rack]} already")
    for group in groups:
        if group.rack_id in owners:
            findings.error(
                f"machines.{group.name}.rack_id",
                f"{group.rack_id} is a simulated rack ({owners[group.rack_id]}), which has no room for more machines",
            )


def _check_relays(findings: Findings, dhcp: DhcpConfig, groups: Iterable[MachineGroup]) -> None:
    """NICo has to be told through which relay an interface asks, a DHCP server may go by the address of ours."""
    if isinstance(dhcp, PoolConfig):
        return
    errors, warnings = dict[str, str](), dict[str, str]()
    for group in groups:
        ports = {*group.ports(of_dpus=False), *(group.ports(of_dpus=True) if group.dpus else ())}
        needed = {"bmc_dhcp_relay_address": group.bmc_dhcp_relay_address}
        if ports & {Port.OOB, Port.NVOS}:
            needed["underlay_dhcp_relay_address"] = group.underlay_dhcp_relay_address
        inband = f"{group.table}.host_inband_dhcp_relay_address"
        if Port.NIC in ports and group.host_inband_dhcp_relay_address is None:
            needed["underlay_dhcp_relay_address"] = group.underlay_dhcp_relay_address
            if group.underlay_dhcp_relay_address is not None:
                warnings[inband] = "is missing, so hosts without managed DPUs ask through underlay_dhcp_relay_address"
        if isinstance(dhcp, ApiConfig):
            missing = [key for key, value in needed.items() if value is None]
            errors |= {
                f"{group.table}.{key}": "is missing; NICo finds the network of an interface by it, so write the "
                "gateway of that network, such as '10.200.0.1'; --dhcp pool serves without NICo's addresses"
                for key in missing
            }
    for key, text in errors.items():
        findings.error(key, text)
    for key, text in warnings.items():
        findings.warning(key, text)


def _rack_type(value: Any) -> str:
    name = converters.text(value)
    if name not in rack_types.names():
        raise ValueError(f"must be one of {', '.join(rack_types.names())}, not {converters.shown(name)}")
    return name


def rack_ids(value: Any) -> tuple[str, ...]:
    """The ids of racks of one table. Raises ValueError."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"must be a list of ids such as ['rack-1'], not {converters.shown(value)}")
    ids = tuple([converters.text(one) for one in value])
    if len(ids) > MAX_RACKS:
        raise ValueError(f"has {len(ids)} ids; at most {MAX_RACKS} are possible")
    if twice := [id_ for id_, times in Counter(ids).items() if times > 1]:
        raise ValueError(f"names {twice[0]} more than once")
    if long := [id_ for id_ in ids if len(id_) > MAX_RACK_ID]:
        raise ValueError(f"{converters.shown(long[0])} is longer than {MAX_RACK_ID} characters")
    return ids


def _dpus(table: Table, hw_type: str, hardware: Hardware) -> int:
    dpus = table.get("dpu_per_host_count", converters.whole(0, MAX_DPUS), hardware.dpus or 0)
    if hardware.dpus is not None and dpus != hardware.dpus:
        table.error(
            "dpu_per_host_count",
            f"{hw_type} always has {hardware.dpus}, not {dpus}; leave it out or write {hardware.dpus}",
        )
    return dpus


def _timings(table: Table) -> dict[str, float]:
    values = {name: seconds for name in TIMINGS if (seconds := table.get(name, converters.duration, None)) is not None}
    table.close(strict=True)
    return values


def _versions(table: Table, components: tuple[str, ...]) -> dict[str, str]:
    """component -> version. An empty BSP version is one, and differs from none (upstream of machine-a-tron)."""
    kinds = {name: converters.text_or_empty if name == "bsp" else converters.text for name in components}
    versions = {
        name: version for name, convert in kinds.items() if (version := table.get(name, convert, None)) is not None
    }
    table.close()
    return versions


def _desired(table: Table) -> dict[str, str]:
    """component -> version, in the order of the file; which components there are is for the profile to say."""
    return {name: version for name in table if (version := table.get(name, converters.version, None)) is not None}


def _mac_pool(findings: Findings, table: Table) -> MacPool:
    bits = table.get("host_bits", converters.whole(0, _MAX_MAC_BITS), 24)
    base = _mac_base(findings, table, 0x020000000000, bits)
    table.close()
    return MacPool(base, bits)


def _hw_ranges(findings: Findings, table: Table) -> MacRanges:
    bits = table.get("host_bits", converters.whole(_MIN_RANGE_BITS, _MAX_MAC_BITS), 32)
    range_bits = table.get("range_host_bits", converters.whole(_MIN_RANGE_BITS, bits), min(8, bits))
    base = _mac_base(findings, table, 0x060000000000, bits)
    table.close()
    return MacRanges(base, bits, range_bits)


def _mac_base(findings: Findings, table: Table, default: int, bits: int) -> int:
    given = table.get("base", converters.mac, default)
    base = given >> bits << bits
    if base != given:
        counts_as = MacPool(base, bits)
        findings.warning(table.dotted("base"), f"has bits set among the host bits, and counts as {counts_as}")
    return base


def _bits(count: int) -> int:
    """How many bits it takes to tell so many things apart."""
    return (count - 1).bit_length()


def _hw_type(value: Any) -> str:
    name = converters.text(value)
    if name in HARDWARE or name.endswith(".yaml"):
        return name
    near = get_close_matches(name, HARDWARE, 3, 0.4) or sorted(HARDWARE)
    raise ValueError(
        f"{converters.shown(name)} is not known; near: {', '.join(near)}; or the path of a profile, *.yaml"
    )
