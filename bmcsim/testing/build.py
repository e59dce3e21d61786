"""From what a test asks for to a fleet; what is slow about that is done once per process."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.conduct import Conduct, fault_rules, preset_name
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.pool import MacPool, MacRanges
from bmcsim.machine import holes
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import Profile, load

MAX_SEED = 255
_TREES = 64


class CachingBuilder(Builder):
    """Compiles each profile once per process. A profile that is a file of its own may change: it is read each time."""

    def _profile(self, name: str) -> Profile:
        return super()._profile(name) if name.endswith(".yaml") else _loaded(name)

    def _tree(self, name: str, variant: str, parameters: dict[str, int | str]) -> Tree:
        if name.endswith(".yaml"):
            return super()._tree(name, variant, parameters)
        return _compiled(name, variant, tuple(sorted(parameters.items())))


@lru_cache(_TREES)
def _loaded(name: str) -> Profile:
    return load(name)


@lru_cache(_TREES)
def _compiled(name: str, variant: str, parameters: tuple[tuple[str, int | str], ...]) -> Tree:
    return compile_tree(load(name, dict(parameters), variant), holes.bind)


@lru_cache(_TREES)
def _default(
    hosts: int, dpus: int | None, profile: str, password: str | None, racks: int, rack_type: str
) -> FleetConfig:
    return fleet_config.default(hosts, dpus, profile, password, password, racks=racks, rack_type=rack_type)


def configured(
    config: FleetConfig | Path | str | None,
    *,
    hosts: int | None,
    dpus: int | None,
    profile: str | None,
    racks: int | None,
    rack_type: str | None,
    password: str | None,
    preset: str | None,
    faults: Iterable[str | Mapping[str, Any]],
    seed: int | None,
) -> FleetConfig:
    """The configuration of a fleet. config: of its file, the path of one, or the text of one, which has line ends.

    password: of all BMCs, None for the factory's or the file's. Addresses come from a pool, whatever a file says.
    Raises ConfigError, ProfileError and ValueError.
    """
    shape = {"hosts": hosts, "dpus": dpus, "profile": profile, "racks": racks, "rack_type": rack_type}
    if config is None:
        _check_shape(shape)
        made = _default(
            1 if hosts is None else hosts,
            dpus,
            profile or "dell_poweredge_r750",
            password,
            racks or 0,
            rack_type or fleet_config.DEFAULT_RACK_TYPE,
        )
    else:
        if given := [name for name, value in shape.items() if value is not None]:
            raise ValueError(f"{' and '.join(given)}: for a fleet without a file; leave out either these or config")
        made = _read(config).with_choices(host_bmc_password=password, dpu_bmc_password=password)
    rules = fault_rules(list(faults))
    conduct = Conduct(preset_name(preset) if preset is not None else None, faults=rules or None)
    return _seeded(made.with_choices(conduct), seed)


def _check_shape(shape: Mapping[str, Any]) -> None:
    """Racks and hosts exclude each other, as for `bmcsim serve`. Raises ValueError."""
    of_hosts = [name for name in ("hosts", "dpus", "profile") if shape[name] is not None]
    if shape["racks"] is None and shape["rack_type"] is not None:
        raise ValueError("rack_type: needs racks")
    if shape["racks"] is not None and of_hosts:
        raise ValueError(f"{' and '.join(of_hosts)}: racks say themselves what is in them; a config may have both")


def _read(config: FleetConfig | Path | str) -> FleetConfig:
    if isinstance(config, FleetConfig):
        return config
    if isinstance(config, str) and "\n" in config:
        return fleet_config.parse(config, "the fleet of the test", pool=True)
    return fleet_config.load(Path(config), pool=True)


def _seeded(config: FleetConfig, seed: int | None) -> FleetConfig:
    """The same fleet with other MACs, and so with other serial numbers, UUIDs and readings."""
    if seed is None:
        return config
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed: must be 0 to {MAX_SEED}, not {seed}")
    macs = MacPool((0x0200 | seed) << 32, 32)
    ranges = MacRanges((0x0600 | seed) << 32, 32, config.hw_ranges.range_host_bits)
    return msgspec.structs.replace(config, mac_pool=macs, hw_ranges=ranges)
