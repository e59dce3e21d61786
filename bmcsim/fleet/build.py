"""From a fleet configuration to its BMCs."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

import msgspec

from bmcsim.core.clock import Clock
from bmcsim.fleet.config import FleetConfig, MachineGroup
from bmcsim.fleet.identities import plan
from bmcsim.fleet.registry import Fleet
from bmcsim.machine import holes
from bmcsim.machine.bmc import Bmc, Network, Shared, timestamp
from bmcsim.machine.credentials import Accounts, Hasher
from bmcsim.machine.identity import Identity, Kind
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import Timings, load
from bmcsim.tree.source import ProfileError

_CHUNK = 250
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

    def __init__(self, config: FleetConfig, clock: Clock, hasher: Hasher | None = None) -> None:
        self._config = config
        self._clock = clock
        self._hasher = hasher or Hasher()
        self._trees: dict[tuple[Any, ...], Tree] = {}
        self._shared: dict[tuple[str, bool], Shared] = {}

    def populate(self, fleet: Fleet) -> Iterator[int]:
        """Add every BMC to a fleet, in machine order; yields the count now and then so that others get a turn.

        Raises ProfileError, ConfigError and DuplicateBmc.
        """
        fleet.expected = self._config.bmc_count
        started = timestamp(self._clock.now().wall)
        for number, planned in enumerate(plan(self._config), 1):
            shared = self._shared_of(planned.group, planned.identity.kind is Kind.DPU)
            fleet.add(Bmc(planned.id, planned.identity, planned.address, shared, started))
            if number % _CHUNK == 0:
                yield number
        fleet.ready = True
        yield len(fleet)

    def _shared_of(self, group: MachineGroup, is_dpu: bool) -> Shared:
        key = (group.name, is_dpu)
        if key not in self._shared:
            self._shared[key] = self._make_shared(group, is_dpu)
        return self._shared[key]

    def _make_shared(self, group: MachineGroup, is_dpu: bool) -> Shared:
        parameters: dict[str, int | str] = {}
        variant = ""
        if is_dpu:
            name = load(group.hw_type).head.dpu
            if not name:
                raise ProfileError(
                    f"{group.name}: the profile {group.hw_type} does not say which DPUs it has (dpu: NAME)"
                )
            variant = "nic_mode" if group.dpus_in_nic_mode else ""
            firmware, names = group.dpu_firmware_versions, _DPU_FIRMWARE
            password = self._config.dpu_bmc_password
            overrides = group.dpu_timings
        else:
            name = group.hw_type
            if "dpus" in load(name).parameters:
                parameters["dpus"] = group.dpus
            firmware, names = group.host_firmware_versions, _HOST_FIRMWARE
            password = self._config.host_bmc_password
            overrides = group.host_timings
        parameters |= {names[part]: version for part, version in firmware.items()}
        tree = self._tree(name, variant, parameters)
        exempt = tree.head.behaviour.factory_password_everywhere
        return Shared(
            tree,
            scaled(tree.head.timings, overrides, group.acceleration_factor),
            Accounts.factory(tree.head.accounts, self._hasher, exempt, password),
            self._hasher,
            network_of(self._config.pool.prefix, self._config.pool.gateway),
        )

    def _tree(self, name: str, variant: str, parameters: dict[str, int | str]) -> Tree:
        key = (name, variant, *sorted(parameters.items()))
        if key not in self._trees:
            self._trees[key] = compile_tree(load(name, parameters, variant), holes.bind)
        return self._trees[key]


def scaled(timings: Timings, overrides: dict[str, float], factor: float) -> Timings:
    """A profile's timings with a group's overrides, then all of them times a factor."""
    values = {**msgspec.structs.asdict(timings), **overrides}
    return Timings(**{name: seconds * factor for name, seconds in values.items()})


def network_of(prefix: IPv4Network, gateway: str | None) -> Network:
    """What EthernetInterface shows of the pool's network; without a gateway its first address stands for one."""
    return Network(str(prefix.netmask), gateway or str(prefix.network_address + 1))


def example_bmc(name: str, parameters: Mapping[str, int | str] | None = None) -> Bmc:
    """One BMC of a profile, with the first identity of the default pools."""
    profile = load(name, parameters)
    tree = compile_tree(profile, holes.bind)
    kind = Kind(tree.head.kind)
    base, dpus = 0x020000000001, int(profile.parameters.get("dpus", 0))
    if kind is Kind.DPU:
        identity = Identity(kind, base, base + 1, base + 2)
    else:
        attached = tuple(Identity(Kind.DPU, base + 3 * n, base + 3 * n + 1, base + 3 * n + 2) for n in range(dpus))
        own = base + 3 * dpus
        identity = Identity(kind, own, own + 1, own + 1, 0x060000000100, attached)
    hasher = Hasher()
    accounts = Accounts.factory(tree.head.accounts, hasher, exempt=False)
    return Bmc("example", identity, "192.0.2.17", Shared(tree, tree.head.timings, accounts, hasher), timestamp(0))
