"""What NICo Core's site configuration says that concerns simulated machines.

The file is that configuration itself (TOML), or values of Core's chart, which have it as a text under
nico-api.siteConfig.nicoApiSiteConfig.
"""

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import msgspec

from bmcsim.deploy.networks import Address, Network, address
from bmcsim.fleet import converters
from bmcsim.fleet.config import read_text, read_toml
from bmcsim.fleet.tables import ConfigError, Findings, Table
from bmcsim.tree.source import ProfileError, Source

EMBEDDED = ("nico-api", "siteConfig", "nicoApiSiteConfig")


class SiteNetwork(msgspec.Struct, frozen=True):
    """A [networks.NAME] table. type: admin, underlay, ...; '' where there is none."""

    name: str
    prefix: Network
    gateway: Address | None
    type: str
    reserve_first: int


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What a site file says. source: the file, as messages name it. pools: name -> how many values it has.

    insecure_discovery: whether machines without attestation may register; misplaced_in: the table that has this key
    by mistake, '' for none. bmc_proxy, override_target_host: of [site_explorer].
    """

    source: str
    networks: tuple[SiteNetwork, ...] = ()
    pools: dict[str, int] = {}
    insecure_discovery: bool = False
    misplaced_in: str = ""
    bmc_proxy: str = ""
    override_target_host: bool = False
    rack_profiles: frozenset[str] = frozenset()


def read(path: Path) -> Site:
    """What a site file says. Raises ConfigError."""
    text, source = read_text(path), str(path)
    try:
        data = read_toml(text, source)
    except ConfigError as error:
        data, source = _embedded(path, error), f"{path}: {'.'.join(EMBEDDED)}"
    return _site(data, source)


def _embedded(path: Path, toml_error: ConfigError) -> dict[str, Any]:
    """The configuration in values of Core's chart. toml_error: why the file itself is none."""
    try:
        value: Any = Source(path).data
    except ProfileError as error:
        raise ConfigError(f"{toml_error}\n{error}") from error
    for step in EMBEDDED:
        value = value.get(step) if isinstance(value, dict) else None
    key = f"{path}: {'.'.join(EMBEDDED)}"
    if not isinstance(value, str):
        raise ConfigError(f"{key}: is missing; a site file is TOML, or Core's values with that as a text in them")
    return read_toml(value, key)


def _site(data: dict[str, Any], source: str) -> Site:
    findings = Findings(source)
    top = Table(findings, "", data)
    networks, pools, explorer = top.table("networks"), top.table("pools"), top.table("site_explorer")
    key = "allow_insecure_discovery"
    inner = data.get("networks")
    tables = data | ({f"networks.{name}": one for name, one in inner.items()} if isinstance(inner, dict) else {})
    misplaced = [name for name, table in tables.items() if isinstance(table, dict) and key in table]
    site = Site(
        source=source,
        networks=tuple([one for name in networks if (one := _network(networks, name)) is not None]),
        pools={name: size for name in pools if (size := _pool(pools, name)) is not None},
        insecure_discovery=top.get(key, converters.flag, False),
        misplaced_in=misplaced[0] if misplaced else "",
        bmc_proxy=explorer.get("bmc_proxy", converters.text_or_empty, ""),
        override_target_host="override_target_host" in explorer,
        rack_profiles=frozenset(top.table("rack_profiles")),
    )
    findings.raise_errors()
    return site


def _network(networks: Table, name: str) -> SiteNetwork | None:
    table = networks.table(name)
    prefix = table.get("prefix", _prefix, None)
    if prefix is None:
        return None
    return SiteNetwork(
        name,
        prefix,
        table.get("gateway", address, None),
        table.get("type", converters.text, ""),
        table.get("reserve_first", converters.whole(0, 2**32), 0),
    )


def _prefix(value: Any) -> Network:
    try:
        return ip_network(converters.text(value).strip(), strict=False)
    except ValueError:
        raise ValueError(f"must be a prefix such as '10.200.0.0/18', not {converters.shown(value)}") from None


def _pool(pools: Table, name: str) -> int | None:
    """How many values a resource pool has: those of its prefix, or of its ranges, both ends included."""
    table = pools.table(name)
    if "prefix" in table:
        prefix = table.get("prefix", _prefix, None)
        return None if prefix is None else prefix.num_addresses
    return table.get("ranges", _ranges, None)


def _ranges(value: Any) -> int:
    wish = "must be a list of ranges such as [{ start = '10.103.0.1', end = '10.103.63.254' }]"
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError(f"{wish}, not {converters.shown(value)}")
    size = 0
    for one in value:
        start, end = _point(one.get("start"), wish), _point(one.get("end"), wish)
        if end < start:
            raise ValueError(f"{wish}; {converters.shown(one)} ends before it starts")
        size += end - start + 1
    return size


def _point(value: Any, wish: str) -> int:
    text = str(value).strip()
    if len(text) <= 20 and text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(address(text))
    except ValueError:
        raise ValueError(f"{wish}, with numbers or addresses, not {converters.shown(value)}") from None
