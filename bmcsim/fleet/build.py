"""From a fleet configuration to its BMCs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any

import msgspec

from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.conduct import Conduct, changed, implied
from bmcsim.fleet.config import FleetConfig, MachineGroup
from bmcsim.fleet.dhcp_config import DhcpConfig, PoolConfig
from bmcsim.fleet.identities import BmcPlan, plan
from bmcsim.fleet.keys import Passwords
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.shards import Shard
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine import holes
from bmcsim.machine.addressing import static
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Accounts, Hasher
from bmcsim.machine.dhcp.links import Link
from bmcsim.machine.dhcp.messages import Port
from bmcsim.machine.faults import NO_RULES, Rules
from bmcsim.machine.identity import Identity, Kind
from bmcsim.machine.power import Power
from bmcsim.machine.rack import Rack
from bmcsim.machine.resources import Network, Shared
from bmcsim.machine.state import State
from bmcsim.tree import presets, software
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import Head, Profile, Timings, load
from bmcsim.tree.registry_files import RegistryFiles
from bmcsim.tree.schema_files import SchemaFiles
from bmcsim.tree.source import ProfileError

_CHUNK = 250
_ACCOUNT_SERVICE = "/redfish/v1/AccountService"
_DPU_FIRMWARE = {
    "bmc": "bmc_firmware",
    "cec": "erot_firmware",
    "uefi": "uefi_firmware",
    "nic": "nic_firmware",
    "bsp": "bsp_firmware",
}
_HOST_FIRMWARE = {"bmc": "bmc_firmware", "uefi": "uefi_firmware"}


class Builder:
    """Compiles each profile once and makes the BMCs that share it."""

    def __init__(
        self,
        config: FleetConfig,
        hasher: Hasher,
        born: float,
        restore: Callable[[Bmc], State | None] | None = None,
        files: RegistryFiles | None = None,
        schemas: SchemaFiles | None = None,
        shard: Shard | None = None,
    ) -> None:
        """born: when the fleet was first started, seconds since the epoch. restore: gives the state a BMC had.

        files: message registries that every BMC serves. schemas: and schema files. shard: the part of the fleet that
        is built, None for all of it.
        """
        self._config = config
        self._hasher = hasher
        self._passwords = Passwords(config.host_bmc_password, config.dpu_bmc_password)
        self._born = born
        self._restore = restore
        self._files = files
        self._schemas = schemas
        self._shard = shard
        self._profiles: dict[str, Profile] = {}
        self._trees: dict[tuple[Any, ...], Tree] = {}
        self._shared: dict[tuple[Any, ...], tuple[Shared, State]] = {}
        self._network = Network()

    def populate(self, fleet: Fleet, planned_bmcs: Iterable[BmcPlan] | None = None) -> Iterator[int]:
        """Add every BMC to a fleet, in machine order; yields the count now and then so that others get a turn.

        planned_bmcs: where these are others than the fleet file says. Raises ProfileError, ConfigError and
        DuplicateBmc.
        """
        shard, fleet.expected = self._shard, self._config.bmc_count
        if planned_bmcs is None:
            planned_bmcs = plan(self._config)
        elif isinstance(planned_bmcs, Sized):
            fleet.expected = len(planned_bmcs)
        fleet.slaac, fleet.domain = self._config.dhcp.slaac, self._config.domain
        self._network = _network_of(self._config.dhcp, fleet)
        moved: list[Bmc] = []
        fleet.leased = self._config.pool is None
        if shard is not None:
            fleet.expected, fleet.elsewhere = shard.stop - shard.start, shard.others
            planned_bmcs = islice(planned_bmcs, shard.start, shard.stop)
        for number, planned in enumerate(planned_bmcs, 1):
            bmc = self.make(planned)
            if self._restore is not None and (restored := self._restore(bmc)) is not None:
                bmc.restore(restored)
            fleet.add(bmc)
            if static(bmc) is not None:
                # Once all others have theirs: which addresses are free is known only then.
                fleet.leave_home(bmc)
                moved.append(bmc)
            if number % _CHUNK == 0:
                yield number
        for bmc in fleet:
            join_dpus(bmc, fleet)
        for bmc in moved:
            readdress(fleet, bmc)
        _make_racks(fleet)
        fleet.ready = True
        yield len(fleet)

    def make(self, planned: BmcPlan) -> Bmc:
        """A BMC that nobody has touched. The first one of a group takes long, since its profile is compiled.

        Raises ProfileError and ConfigError.
        """
        shared, initial = self._shared_of(planned)
        return Bmc(planned.id, planned.identity, planned.address, shared, initial)

    def _shared_of(self, planned: BmcPlan) -> tuple[Shared, State]:
        is_dpu = planned.identity.kind is Kind.DPU
        own = self._config.bmcs.get(planned.id)
        key = (planned.group.name, is_dpu, planned.id if own is not None else "")
        if key not in self._shared:
            conduct = planned.group.conduct.within(self._config.conduct)
            conduct = own.within(conduct) if own is not None else conduct
            conduct = conduct.within(implied(conduct.preset))
            shared = self._make_shared(planned.group, is_dpu, conduct)
            self._shared[key] = shared, first_state(shared, self._born, conduct.faults or NO_RULES)
        return self._shared[key]

    def _make_shared(self, group: MachineGroup, is_dpu: bool, conduct: Conduct) -> Shared:
        parameters: dict[str, int | str] = {}
        variant = ""
        if is_dpu:
            host = self._profile(group.hw_type).head
            name = host.dpu
            parameters |= host.dpu_parameters
            if not name:
                raise ProfileError(
                    f"{group.name}: the profile {group.hw_type} does not say which DPUs it has: add "
                    "dpu: NAME to it, or let the group have none (--dpus 0, dpu_per_host_count = 0)"
                )
            variant = "nic_mode" if group.dpus_in_nic_mode else ""
            firmware, names = group.dpu_firmware_versions, _DPU_FIRMWARE
            overrides = group.dpu_timings
            desired = group.desired_dpu_firmware
        else:
            name, variant = group.hw_type, group.variant
            variants = self._profile(name).head.variants
            if variant and variant not in variants:
                key, has = f"machines.{group.name}.variant", ", ".join(variants) or "none"
                raise ConfigError(f"{self._config.source}: {key}: {name} has no variant {variant}; there are {has}")
            if "dpus" in self._profile(name).parameters:
                parameters["dpus"] = group.dpus
            firmware, names = group.host_firmware_versions, _HOST_FIRMWARE
            overrides = group.host_timings
            desired = group.desired_host_firmware
        parameters |= {names[part]: version for part, version in firmware.items()}
        if conduct.ssdp is not None and "ssdp" in self._profile(name).parameters:
            parameters["ssdp"] = conduct.ssdp
        tree = self._tree(name, variant, parameters)
        timings, behaviour = tree.head.timings, tree.head.behaviour
        if conduct.preset is not None:
            timings = presets.load(conduct.preset).applied(timings)
        if conduct.behaviour is not None:
            behaviour = changed(behaviour, conduct.behaviour)
        if conduct.while_resetting is not None:
            behaviour = msgspec.structs.replace(behaviour, while_resetting=conduct.while_resetting)
        password = self._passwords.of(tree, behaviour)
        return Shared(
            tree,
            scaled(timings, overrides, group.acceleration_factor),
            self._passwords.accounts(tree, behaviour, self._hasher),
            self._hasher,
            self._network,
            conduct.credentials or ("persist" if password is None else "pinned"),
            behaviour,
            settings_of(tree, conduct),
            self._desired(tree, desired, f"machines.{group.name}.desired_firmware.{'dpu' if is_dpu else 'host'}"),
            () if self._config.pool is not None else links_of(group, tree.head, of_dpus=is_dpu),
            group.name,
        )

    def _desired(self, tree: Tree, desired: Mapping[str, str], key: str) -> dict[str, str]:
        """Desired versions by the component that has them. Raises ConfigError for what the profile does not have."""
        components = tree.components
        known = [name for name in components if not software.is_fixed(components, name)]
        for name in desired:
            if name not in known:
                has = f"{tree.head.profile} has {', '.join(known)}"
                raise ConfigError(f"{self._config.source}: {key}.{name}: is not a component; {has}")
        return {software.owner(components, name): version for name, version in desired.items()}

    def _profile(self, name: str) -> Profile:
        """A profile with its own parameters."""
        if name not in self._profiles:
            self._profiles[name] = load(name)
        return self._profiles[name]

    def _tree(self, name: str, variant: str, parameters: dict[str, int | str]) -> Tree:
        key = (name, variant, *sorted(parameters.items()))
        if key not in self._trees:
            self._trees[key] = compile_tree(load(name, parameters, variant), holes.bind, self._files, self._schemas)
        return self._trees[key]


def join_dpus(bmc: Bmc, fleet: Fleet) -> None:
    """Let a host know the BMCs of its DPUs."""
    found = [fleet.by_mac(dpu.bmc_mac) for dpu in bmc.identity.dpus]
    bmc.dpus = tuple([dpu for dpu in found if dpu is not None])


def _make_racks(fleet: Fleet) -> None:
    """Join the machines of each rack."""
    racks: dict[str, list[Bmc]] = {}
    for bmc in fleet:
        if bmc.identity.place is not None:
            racks.setdefault(bmc.identity.place.rack, []).append(bmc)
    for members in racks.values():
        shelves = tuple([one for one in members if one.identity.kind is Kind.POWER_SHELF])
        rack = Rack(shelves, tuple([one for one in members if one.identity.kind is not Kind.POWER_SHELF]))
        for one in members:
            one.rack = rack


def first_state(shared: Shared, wall: float, faults: Rules = NO_RULES) -> State:
    """The state of a BMC that nobody has touched. wall: when it started, seconds since the epoch.

    Everything is on but power shelves, which somebody has to switch on.
    """
    return State(
        shared.accounts,
        power=Power.OFF if Kind(shared.tree.head.kind) is Kind.POWER_SHELF else Power.RUNNING,
        bmc_started=wall,
        system_started=wall,
        changes=shared.settings,
        faults=faults.set_at(wall) if faults else NO_RULES,
    )


def settings_of(tree: Tree, conduct: Conduct) -> dict[str, dict[str, Any]]:
    """URI -> properties that BMCs start with because somebody chose so."""
    lockout = conduct.lockout
    if lockout is None or _ACCOUNT_SERVICE not in tree.nodes:
        return {}
    return {
        _ACCOUNT_SERVICE: {
            "AccountLockoutThreshold": lockout.threshold,
            "AccountLockoutDuration": lockout.duration,
            "AccountLockoutCounterResetAfter": lockout.reset_after,
        }
    }


def links_of(group: MachineGroup, head: Head, *, of_dpus: bool) -> tuple[Link, ...]:
    """The interfaces with leases of each machine of a group, or of each of its DPUs."""
    underlay = group.underlay_dhcp_relay_address
    relays = {
        Port.BMC: group.bmc_dhcp_relay_address,
        Port.OOB: underlay,
        Port.NVOS: underlay,
        Port.NIC: group.host_inband_dhcp_relay_address or underlay,
    }
    classes = {Port.BMC: head.vendor_class}
    return tuple(
        [
            Link(port, classes.get(port, head.os_vendor_class), relays[port] or "")
            for port in group.ports(of_dpus=of_dpus)
        ]
    )


def scaled(timings: Timings, overrides: dict[str, float], factor: float) -> Timings:
    """A profile's timings with a group's overrides, then all of them times a factor."""
    values = {**msgspec.structs.asdict(timings), **overrides}
    return Timings(**{name: value if name == "jitter" else value * factor for name, value in values.items()})


def _network_of(dhcp: DhcpConfig, fleet: Fleet) -> Network:
    """What EthernetInterface shows of the fleet's network; the first address of a pool stands for its gateway, where it
    has none, and what leases do not say stays as it is without a network."""
    if not isinstance(dhcp, PoolConfig):
        return Network(slaac=dhcp.slaac, taken=fleet.taken)
    gateway = dhcp.gateway or str(dhcp.prefix.network_address + 1)
    return Network(str(dhcp.prefix.netmask), gateway, dhcp.slaac, fleet.taken)


def example_bmc(name: str, parameters: Mapping[str, int | str] | None = None) -> Bmc:
    """One BMC of a profile, with the first identity of the default pools."""
    profile = load(name, parameters)
    tree = compile_tree(profile, holes.bind)
    kind = Kind(tree.head.kind)
    base, dpus = 0x020000000001, profile.dpus
    if kind is Kind.DPU:
        identity = Identity(kind, base, base + 1, base + 2)
    else:
        attached = tuple(Identity(Kind.DPU, base + 3 * n, base + 3 * n + 1, base + 3 * n + 2) for n in range(dpus))
        own = base + 3 * dpus
        identity = Identity(kind, own, own + 1, own + 1, 0x060000000100, attached)
    hasher = Hasher()
    accounts = Accounts.factory(tree.head.accounts, hasher, exempt=False)
    shared = Shared(tree, tree.head.timings, accounts, hasher, behaviour=tree.head.behaviour)
    return Bmc("example", identity, "192.0.2.17", shared, first_state(shared, 0.0))
