"""Whether a fleet can be deployed on a site: every finding is a value, and a rule is a function that yields some.

What cannot be found out counts against the fleet, never for it.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, StrEnum
from ipaddress import ip_network

import msgspec

from bmcsim.deploy.networks import (
    SPECIAL,
    Address,
    Network,
    conflicts,
    most_specific,
    service_ips,
    smallest_prefix,
    suggestion,
    usable,
)
from bmcsim.deploy.site import Site, SiteNetwork
from bmcsim.deploy.sizing import RESERVE_FIRST, Demand, demand
from bmcsim.deploy.values import CONTROLLER, Deployment, Group, Relay, derived_profile
from bmcsim.machine.dhcp.messages import Port
from bmcsim.tree import racks as rack_types

SHIPPED_PROFILES = frozenset({"GB200_NVL72R1_C2G4_WIWYNN", "GB300_NVL72R1_C2G4_LENOVO"})
"""Rack profiles that nico-api's chart declares."""

_CHART_GROUP = ("pods", "mat-0", "machines", "rack-machines")
_SITE = "the site file"


class Severity(StrEnum):
    """An error stops the deployment, a warning is worth a look."""

    ERROR = "error"
    WARNING = "warning"


class Code(StrEnum):
    """What a finding is about."""

    OVERLAP_SERVICES = "overlap-services"
    OVERLAP_PODS = "overlap-pods"
    OVERLAP_NODES = "overlap-nodes"
    OVERLAP_RESERVED = "overlap-reserved"
    SPECIAL_NETWORK = "special-network"
    SERVICE_CIDR_UNKNOWN = "service-cidr-unknown"
    RELAY_UNRESOLVED = "relay-unresolved"
    POD_CIDR_UNKNOWN = "pod-cidr-unknown"
    NODES_UNKNOWN = "nodes-unknown"
    NOT_A_CIDR = "not-a-cidr"
    NO_MACHINES = "no-machines"
    CHART_GROUP = "chart-group"
    SEVERAL_PODS = "several-pods"
    TOO_FEW_CLUSTER_IPS = "too-few-cluster-ips"
    NETWORK_TOO_SMALL = "network-too-small"
    POOL_TOO_SMALL = "pool-too-small"
    RELAY_NOT_GATEWAY = "relay-not-gateway"
    NETWORK_TYPE = "network-type"
    BMC_PROXY_SET = "bmc-proxy-set"
    BMC_PROXY_MISSING = "bmc-proxy-missing"
    BMC_PROXY_NAME = "bmc-proxy-name"
    OVERRIDE_TARGET = "override-target"
    INSECURE_DISCOVERY = "insecure-discovery"
    RACK_TWICE = "rack-twice"
    RACK_TYPE = "rack-type"
    RACK_PROFILE = "rack-profile"
    RACK_PROFILE_OTHER = "rack-profile-other"


class Verdict(IntEnum):
    """What comes of it, as an exit code. 2 is a wrong flag."""

    OK = 0
    CONFLICT = 1
    UNDETERMINED = 3
    INPUT = 4
    SETTINGS = 5


_VERDICTS = {
    Verdict.INPUT: {Code.NOT_A_CIDR},
    Verdict.CONFLICT: {
        Code.OVERLAP_SERVICES,
        Code.OVERLAP_PODS,
        Code.OVERLAP_NODES,
        Code.OVERLAP_RESERVED,
        Code.SPECIAL_NETWORK,
    },
    Verdict.UNDETERMINED: {
        Code.SERVICE_CIDR_UNKNOWN,
        Code.RELAY_UNRESOLVED,
        Code.POD_CIDR_UNKNOWN,
        Code.NODES_UNKNOWN,
    },
}


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong, or may be. file: and line, where known. text: what is, and what would be right."""

    severity: Severity
    code: Code
    file: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.text}"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster, () and None for what is not.

    services, pods: CIDRs. nodes: networks or addresses of nodes. reserved: other networks that nodes or pods must
    reach. bmcs: networks that the site file does not declare yet. used: ClusterIPs that are taken. unclear: findings
    about what could not be read.
    """

    services: tuple[Network, ...] = ()
    pods: tuple[Network, ...] = ()
    nodes: tuple[Network, ...] = ()
    reserved: tuple[Network, ...] = ()
    bmcs: tuple[Network, ...] = ()
    used: tuple[Address, ...] | None = None
    unclear: tuple[Finding, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. networks: that were checked, and what is in them (BMC, underlay). services: that will be made."""

    networks: dict[Network, str]
    service_cidrs: tuple[Network, ...]
    bmcs: int
    services: int
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    def verdict(self, *, strict: bool = False) -> Verdict:
        """What comes of it. strict: warnings count as errors."""
        codes = {finding.code for finding in self.findings if strict or finding.severity is Severity.ERROR}
        worst = next((verdict for verdict, of in _VERDICTS.items() if codes & of), Verdict.SETTINGS)
        return worst if codes else Verdict.OK


def networks(tokens: Iterable[str], source: str) -> tuple[tuple[Network, ...], tuple[Finding, ...]]:
    """The networks of a list, and findings for what is none. source: an option or a variable, as findings name it."""
    found: list[Network] = []
    findings = []
    for token in tokens:
        try:
            found.append(ip_network(token, strict=False))
        except ValueError:
            text = f"{token[:60]!r} is not a CIDR; write one such as 10.96.0.0/12"
            findings.append(Finding(Severity.ERROR, Code.NOT_A_CIDR, "the command", source, text))
    return tuple(dict.fromkeys(found)), tuple(findings)


class _Use(msgspec.Struct, frozen=True):
    """A relay, the network that it is in, and how many addresses machines need there. label: BMC or underlay."""

    group: Group
    relay: Relay
    label: str
    needs: int
    network: Network | None


class _View(msgspec.Struct, frozen=True):
    """What rules look at."""

    deployment: Deployment
    site: Site | None
    cluster: Cluster
    uses: tuple[_Use, ...]
    need: Demand

    def networks(self) -> dict[Network, str]:
        """What is checked: networks of relays, and those named by hand, with what they carry."""
        labels: dict[Network, set[str]] = {network: {"BMC"} for network in self.cluster.bmcs}
        for use in self.uses:
            if use.network is not None:
                labels.setdefault(use.network, set()).add(use.label)
        ordered = sorted(labels, key=lambda one: (one.version, int(one.network_address), one.prefixlen))
        return {network: " and ".join(sorted(labels[network])) for network in ordered}

    def declared(self, network: Network) -> SiteNetwork | None:
        """The table of the site file that has a prefix."""
        return next((one for one in self.site.networks if one.prefix == network), None) if self.site else None

    def at(self, code: Code, key: str, text: str, severity: Severity = Severity.ERROR) -> Finding:
        """A finding about a key of the values."""
        return Finding(severity, code, self.deployment.values.place(key), key, text)

    def in_site(self, code: Code, key: str, text: str, severity: Severity = Severity.ERROR) -> Finding:
        """A finding about a key of the site file."""
        return Finding(severity, code, self.site.source if self.site else _SITE, key, text)

    def about(self, network: Network, code: Code, text: str) -> Finding:
        """A finding about a network: where the site file declares it, else where values lead to it."""
        if (declared := self.declared(network)) is not None:
            return self.in_site(code, f"networks.{declared.name}.prefix", text)
        use = next((use for use in self.uses if use.network == network), None)
        if use is not None:
            return self.at(code, use.relay.key, text)
        return Finding(Severity.ERROR, code, "the command", "--bmc-prefix", text)


Rule = Callable[[_View], Iterator[Finding]]


def check(deployment: Deployment, site: Site | None, cluster: Cluster) -> Report:
    """All findings. site: None where no site file was given."""
    known = [*(site.networks if site else ()), *cluster.bmcs]
    prefixes = [one.prefix if isinstance(one, SiteNetwork) else one for one in known]
    need = demand(deployment.machines, len(deployment.pods), deployment.rack_count)
    view = _View(deployment, site, cluster, tuple(_uses(deployment, prefixes)), need)
    rules: tuple[Rule, ...] = (
        _machines,
        _relays,
        _services_known,
        _overlaps,
        _rest_known,
        _cluster_ips,
        _sizes,
        _pools,
        _gateways,
        _types,
        _proxy,
        _discovery,
        _racks,
    )
    return Report(
        networks=view.networks(),
        service_cidrs=cluster.services,
        bmcs=need.bmcs,
        services=need.services if deployment.controller else need.own_services,
        findings=(*cluster.unclear, *[finding for rule in rules for finding in rule(view)]),
    )


def _uses(deployment: Deployment, prefixes: list[Network]) -> Iterator[_Use]:
    for group in deployment.groups:
        bmcs = sum(one.bmc_count for one in group.machines)
        yield _Use(group, group.bmc, "BMC", bmcs, most_specific(group.bmc.address, prefixes))
        if group.underlay is not None:
            underlay = demand(group.machines, 1).underlay
            yield _Use(group, group.underlay, "underlay", underlay, most_specific(group.underlay.address, prefixes))


# rules


def _machines(view: _View) -> Iterator[Finding]:
    deployment = view.deployment
    if not deployment.groups:
        yield view.at(
            Code.NO_MACHINES, "pods", "has no group of machines or racks, so there is nothing to check; add one"
        )
    elif not deployment.values.says(*_CHART_GROUP):
        yield view.at(
            Code.CHART_GROUP,
            ".".join(_CHART_GROUP),
            "is not said; machine-a-tron's chart has 10 GB200 trays of its own there, which are deployed too unless "
            "a file sets it to null",
            Severity.WARNING,
        )
    if len(deployment.pods) > 1 and not deployment.controller:
        yield view.at(
            Code.SEVERAL_PODS,
            "pods",
            f"{', '.join(deployment.pods)} have machines, and without the controller only one pod is found; set "
            f"{CONTROLLER}.enabled to true, or the other pods to null",
        )


def _relays(view: _View) -> Iterator[Finding]:
    for use in view.uses:
        if use.network is None:
            where = _SITE if view.site is None else view.site.source
            yield view.at(
                Code.RELAY_UNRESOLVED,
                use.relay.key,
                f"{use.relay.address} is in no [networks.*] prefix of {where}, so its network cannot be checked and "
                "NICo has no segment for it; declare the network there, or name it with SCALE_BMC_PREFIXES",
            )


def _services_known(view: _View) -> Iterator[Finding]:
    if not view.cluster.services and not view.cluster.unclear:
        yield Finding(
            Severity.ERROR,
            Code.SERVICE_CIDR_UNKNOWN,
            "the cluster",
            "ServiceCIDR",
            'cannot be found out with kubectl; set SCALE_SERVICE_CIDRS="CIDR ...", the --service-cluster-ip-range of '
            "the API server",
        )


def _overlaps(view: _View) -> Iterator[Finding]:
    cluster = view.cluster
    taken = (
        (Code.OVERLAP_SERVICES, "the ServiceCIDR", cluster.services),
        (Code.OVERLAP_PODS, "the pod CIDR", cluster.pods),
        (Code.OVERLAP_NODES, "the nodes", cluster.nodes),
        (Code.OVERLAP_RESERVED, "a network that must stay reachable,", cluster.reserved),
        (Code.SPECIAL_NETWORK, "what Kubernetes takes for no external IP,", SPECIAL),
    )
    every = [one for _, _, others in taken for one in others] + [*view.networks()]
    every += [one.prefix for one in view.site.networks] if view.site else []
    for network, carries in view.networks().items():
        for code, what, others in taken:
            for other in conflicts(network, others):
                free = suggestion(network.prefixlen, every) if network.version == 4 else None
                right = f"{free} is free of all that is known" if free else "choose one that is clear of it"
                yield view.about(network, code, f"the {carries} network {network} overlaps {what} {other}; {right}")


def _rest_known(view: _View) -> Iterator[Finding]:
    if not view.deployment.controller:
        return
    for code, what, known, variable in (
        (Code.POD_CIDR_UNKNOWN, "pod CIDR", view.cluster.pods, "SCALE_POD_CIDRS"),
        (Code.NODES_UNKNOWN, "node networks", view.cluster.nodes, "SCALE_NODE_NETWORKS"),
    ):
        if not known:
            text = f"could not be found out, so overlaps with it are not checked; set {variable}"
            yield Finding(Severity.WARNING, code, "the cluster", what, text)


def _cluster_ips(view: _View) -> Iterator[Finding]:
    """A Service takes one ClusterIP, of the family that the first ServiceCIDR has."""
    if not view.deployment.controller or not view.cluster.services:
        return
    cidrs = [one for one in view.cluster.services if one.version == view.cluster.services[0].version]
    room = sum(service_ips(one) for one in cidrs)
    used = None if view.cluster.used is None else sum(any(ip in one for one in cidrs) for ip in view.cluster.used)
    need = view.need
    if need.services > room - (used or 0):
        length = smallest_prefix(need.services + (used or 0), bits=cidrs[0].max_prefixlen)
        has = f"has {room}" if used is None else f"has {room - used} free of {room}"
        yield view.at(
            Code.TOO_FEW_CLUSTER_IPS,
            f"{CONTROLLER}.enabled",
            f"{need.services} Services take a ClusterIP each ({need.bmcs} BMCs, {need.nvos} NVOS, {need.own_services} "
            f"of the simulator), and {', '.join(map(str, cidrs))} {has}; a /{length} would do",
        )


def _sizes(view: _View) -> Iterator[Finding]:
    needs: dict[Network, int] = {}
    for use in view.uses:
        if use.network is not None:
            needs[use.network] = needs.get(use.network, 0) + use.needs
    for network, count in needs.items():
        declared = view.declared(network)
        yield from _too_small(view, [network], declared.reserve_first if declared else RESERVE_FIRST, count)
    admin = [one for one in view.site.networks if one.type == "admin"] if view.site else []
    if admin and not {one.prefix for one in admin} & needs.keys():
        yield from _too_small(view, [one.prefix for one in admin], admin[0].reserve_first, view.need.admin)


def _too_small(view: _View, prefixes: list[Network], reserve_first: int, count: int) -> Iterator[Finding]:
    bits = prefixes[0].max_prefixlen
    room = sum(usable(one.prefixlen, reserve_first, bits) for one in prefixes)
    if count > room:
        length = smallest_prefix(count, reserve_first, bits)
        yield view.about(
            prefixes[0],
            Code.NETWORK_TOO_SMALL,
            f"{', '.join(map(str, prefixes))} has {room} addresses to give, and {count} are needed; "
            f"a /{length} has {usable(length, reserve_first, bits)}",
        )


def _pools(view: _View) -> Iterator[Finding]:
    for name, count in (("lo-ip", view.need.machines), ("fnn-asn", view.need.dpus)):
        has = view.site.pools.get(name) if view.site else None
        if has is not None and count > has:
            yield view.in_site(
                Code.POOL_TOO_SMALL,
                f"pools.{name}",
                f"has {has} values, and {count} are needed; widen it before nico-api first starts, or grow it with "
                "`nico-admin-cli resource-pool grow`",
            )


def _gateways(view: _View) -> Iterator[Finding]:
    for use in view.uses:
        declared = view.declared(use.network) if use.network is not None else None
        if declared and declared.gateway and declared.gateway != use.relay.address:
            yield view.at(
                Code.RELAY_NOT_GATEWAY,
                use.relay.key,
                f"is {use.relay.address}, and [networks.{declared.name}] ({declared.prefix}) has the gateway "
                f"{declared.gateway}; write that, or the gateway of the network that is meant",
                Severity.WARNING,
            )


def _types(view: _View) -> Iterator[Finding]:
    """NICo gives the systems of DPUs and switches addresses of underlay segments alone."""
    for use in view.uses:
        declared = view.declared(use.network) if use.network is not None else None
        asks = {port for one in use.group.machines for port in one.ports(of_dpus=bool(one.dpus))}
        if (
            use.label == "underlay"
            and declared
            and asks & {Port.OOB, Port.NVOS}
            and declared.type not in ("", "underlay")
        ):
            yield view.at(
                Code.NETWORK_TYPE,
                use.relay.key,
                f"leads to [networks.{declared.name}], whose type is {declared.type}, and NICo refuses DPUs and NVOS "
                "there; write the gateway of a network of type underlay",
            )


def _proxy(view: _View) -> Iterator[Finding]:
    deployment, site = view.deployment, view.site
    proxy = site.bmc_proxy if site else ""
    key = "site_explorer.bmc_proxy"
    if deployment.controller:
        if proxy:
            yield view.in_site(
                Code.BMC_PROXY_SET, key, f"is {proxy!r}, so NICo would ask no Service of the controller; leave it out"
            )
        if deployment.proxy_host:
            yield view.at(
                Code.BMC_PROXY_SET,
                "machineATron.configureBmcProxyHost",
                f"is {deployment.proxy_host!r}, which makes NICo pass the controller's Services by; leave it out",
            )
    elif site is not None and deployment.groups:
        if not proxy and not deployment.proxy_host:
            yield view.in_site(
                Code.BMC_PROXY_MISSING,
                key,
                "is missing, and without the controller no BMC has an address of its own; write "
                "'CHART-POD-bmc-mock.NAMESPACE.svc.cluster.local:1266'",
                Severity.WARNING,
            )
        host, _, port = proxy.rpartition(":")
        if proxy and (not port.isdecimal() or "." not in host):
            yield view.in_site(
                Code.BMC_PROXY_NAME,
                key,
                f"is {proxy!r}; write HOST:PORT with the whole name of the Service, such as "
                "'CHART-POD-bmc-mock.NAMESPACE.svc.cluster.local:1266', since site-explorer is in another namespace",
            )
    if site is not None and site.override_target_host:
        yield view.in_site(
            Code.OVERRIDE_TARGET,
            "site_explorer.override_target_host",
            "is no key of NICo's and does nothing; bmc_proxy = 'HOST:PORT' is meant",
            Severity.WARNING,
        )


def _discovery(view: _View) -> Iterator[Finding]:
    site = view.site
    if view.deployment.controller and site is not None and not site.insecure_discovery:
        hint = f"; it is in [{site.misplaced_in}], where it means nothing" if site.misplaced_in else ""
        yield view.in_site(
            Code.INSECURE_DISCOVERY,
            "allow_insecure_discovery",
            f"must be true, above the first [table]: simulated machines have no attestation{hint}",
        )


def _racks(view: _View) -> Iterator[Finding]:
    declared = SHIPPED_PROFILES | (view.site.rack_profiles if view.site else frozenset())
    owners: dict[str, str] = {}
    for group in view.deployment.groups:
        for id_ in group.racks:
            if owners.setdefault(id_, group.key) != group.key:
                yield view.at(
                    Code.RACK_TWICE, f"{group.key}.ids", f"{id_} is a rack of {owners[id_]} already; give it another id"
                )
        if not group.racks:
            continue
        known = group.rack_type in rack_types.names()
        if not known:
            yield view.at(
                Code.RACK_TYPE,
                f"{group.key}.type",
                f"{group.rack_type!r} is not known, so its BMCs are not counted; known: "
                f"{', '.join(rack_types.names())}",
                Severity.WARNING,
            )
        derived = derived_profile(group.rack_type) if known else ""
        asked, key = group.rack_profile, f"{group.key}.rack_profile_id"
        if view.site is not None and (wanted := asked or derived) and wanted not in declared:
            yield view.at(
                Code.RACK_PROFILE,
                key if asked else f"{group.key}.type",
                f"{wanted} is not declared under [rack_profiles] of {view.site.source}"
                + (
                    f"; NICo derives {derived}, so write that or leave it out"
                    if asked and derived
                    else "; add it there"
                ),
            )
        elif asked and derived and asked != derived:
            yield view.at(
                Code.RACK_PROFILE_OTHER, key, f"is {asked}, and NICo derives {derived}; leave it out", Severity.WARNING
            )
