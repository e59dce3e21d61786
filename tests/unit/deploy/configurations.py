"""Configurations of a site, and what a preflight has to say of each."""

from ipaddress import ip_address, ip_network
from typing import NamedTuple

from bmcsim.deploy.preflight import Cluster, Verdict

SITE = """
allow_insecure_discovery = true
[networks.simulated-oob]
type = "underlay"
prefix = "10.200.0.0/18"
gateway = "10.200.0.1"
reserve_first = 1
[networks.mat-bmc-0]
type = "underlay"
prefix = "10.200.64.0/20"
gateway = "10.200.64.1"
reserve_first = 1
[networks.wide]
type = "underlay"
prefix = "10.200.0.0/16"
gateway = "10.200.255.254"
[networks.simulated-admin]
type = "admin"
prefix = "10.102.0.0/18"
gateway = "10.102.0.1"
reserve_first = 1
[networks.simulated-underlay]
type = "underlay"
prefix = "10.104.0.0/18"
gateway = "10.104.0.1"
reserve_first = 1
[networks.six]
type = "underlay"
prefix = "fd00:200::/64"
gateway = "fd00:200::1"
[pools.lo-ip]
type = "ipv4"
ranges = [{ start = "10.103.0.1", end = "10.103.63.254" }]
[pools.fnn-asn]
type = "integer"
ranges = [{ start = "4268060405", end = "4268078404" }]
"""

CORE = "nico-api:\n  siteConfig:\n    nicoApiSiteConfig: |\n" + "".join(
    f"      {line}\n" if line else "\n" for line in SITE.splitlines()
)
"""The same, as Core's chart has it."""

CONTROLLER = "mat-k8s-controller: {enabled: true}\n"
OVERRIDE = SITE + "[site_explorer]\nbmc_proxy = 'mat-mat-0-bmc-mock.nico-mat.svc.cluster.local:1266'\n"


def hosts(
    relay: str = "10.200.0.1",
    *,
    count: int = 100,
    dpus: int = 2,
    key: str = "bmcDhcpRelayAddress",
    underlay: str = "10.104.0.1",
    more: str = CONTROLLER,
) -> str:
    """Values of one pod with hosts."""
    return (
        f"pods:\n  mat-0:\n    machines:\n      rack-machines: null\n      compute: {{hwType: dell_poweredge_r750, "
        f"hostCount: {count}, dpuPerHostCount: {dpus}, {key}: '{relay}', underlayDhcpRelayAddress: '{underlay}'}}\n"
        f"{more}"
    )


def racks(*pods: str, profile: str = "", type_: str = "wiwynn_gb200_nvl72", relay: str = "10.200.0.1") -> str:
    """Values of pods with racks. pods: their ids, such as 'a, b'."""
    asked = f", rack_profile_id: {profile}" if profile else ""
    listed = "".join(
        f"  mat-{n}:\n    machines: {{rack-machines: null}}\n    racks:\n      gb200: {{type: {type_}, ids: [{ids}], "
        f"bmc_dhcp_relay_address: {relay}, underlay_dhcp_relay_address: 10.104.0.1{asked}}}\n"
        for n, ids in enumerate(pods)
    )
    return f"pods:\n{listed}{CONTROLLER}"


def cluster(
    services: str = "10.43.0.0/16",
    *,
    pods: str = "10.244.0.0/16",
    nodes: str = "192.168.7.11 192.168.7.12",
    reserved: str = "",
    bmcs: str = "",
    used: str | None = "10.43.0.1 10.43.0.10",
) -> Cluster:
    """A cluster with these networks."""
    of = {"services": services, "pods": pods, "nodes": nodes, "reserved": reserved, "bmcs": bmcs}
    return Cluster(
        **{name: tuple([ip_network(one) for one in text.split()]) for name, text in of.items()},
        used=None if used is None else tuple([ip_address(one) for one in used.split()]),
    )


class Case(NamedTuple):
    """A configuration. codes: 'code' of each finding, in any order; warnings have a '?' behind them."""

    name: str
    values: str | tuple[str, ...]
    codes: str
    verdict: Verdict
    site: str | None = SITE
    cluster: Cluster = cluster()


_OF_CHART = "pods: {mat-0: {machines: {rack-machines: {hostCount: 10, bmcDhcpRelayAddress: 192.168.192.1}}}}\n"
_LO_IP = 'ranges = [{ start = "10.103.0.1", end = "10.103.63.254" }]'

CASES = [
    Case("100 hosts", hosts(), "", Verdict.OK),
    Case("the site file in Core's values", hosts(), "", Verdict.OK, CORE),
    Case("4,500 hosts", hosts(count=4500), "", Verdict.OK),
    Case(
        "one host too many for the /18",
        hosts(count=5461),
        "network-too-small network-too-small pool-too-small",
        Verdict.SETTINGS,
    ),
    Case("10 racks, one for each pod", racks(*(f"r{n}" for n in range(10))), "", Verdict.OK),
    Case(
        "250 racks do not fit a /18",
        racks(*(", ".join(f"r{pod}-{n}" for n in range(25)) for pod in range(10))),
        "network-too-small",
        Verdict.SETTINGS,
    ),
    Case("most specific prefix", hosts("10.200.64.1"), "", Verdict.OK, cluster=cluster("10.200.128.0/18")),
    Case(
        "the BMC network inside of the ServiceCIDR",
        hosts(),
        "overlap-services",
        Verdict.CONFLICT,
        cluster=cluster("10.200.0.0/16"),
    ),
    Case(
        "the ServiceCIDR inside of the BMC network",
        hosts(),
        "overlap-services",
        Verdict.CONFLICT,
        cluster=cluster("10.200.12.0/24 10.43.0.0/16"),
    ),
    Case(
        "any of several ServiceCIDRs",
        hosts(),
        "overlap-services",
        Verdict.CONFLICT,
        cluster=cluster("10.43.0.0/16 10.200.0.0/24"),
    ),
    Case("neighbours do not overlap", hosts(), "", Verdict.OK, cluster=cluster("10.199.0.0/16", pods="10.201.0.0/16")),
    Case("the pod CIDR", hosts(), "overlap-pods", Verdict.CONFLICT, cluster=cluster(pods="10.200.32.0/19")),
    Case("a node in the BMC network", hosts(), "overlap-nodes", Verdict.CONFLICT, cluster=cluster(nodes="10.200.7.1")),
    Case(
        "a network that must stay",
        hosts(),
        "overlap-reserved",
        Verdict.CONFLICT,
        cluster=cluster(reserved="10.200.1.0/24"),
    ),
    Case("the underlay network", hosts(), "overlap-services", Verdict.CONFLICT, cluster=cluster("10.104.0.0/16")),
    Case(
        "kubeadm's default, and the underlay that nico-core-simulation.yaml has",
        hosts(),
        "overlap-services",
        Verdict.CONFLICT,
        cluster=cluster("10.96.0.0/12"),
    ),
    Case("no ServiceCIDR", hosts(), "service-cidr-unknown", Verdict.UNDETERMINED, cluster=cluster("")),
    Case("a relay of no network", hosts("10.201.0.1"), "relay-unresolved", Verdict.UNDETERMINED),
    Case("an underlay relay of no network", hosts(underlay="10.201.0.1"), "relay-unresolved", Verdict.UNDETERMINED),
    Case("a network named by hand", hosts("10.201.0.1"), "", Verdict.OK, cluster=cluster(bmcs="10.201.0.0/18")),
    Case(
        "one named by hand is checked itself",
        hosts(),
        "overlap-services",
        Verdict.CONFLICT,
        cluster=cluster(bmcs="10.43.64.0/20"),
    ),
    Case(
        "an overlap and an unknown relay",
        hosts("10.99.0.1"),
        "relay-unresolved overlap-services",
        Verdict.CONFLICT,
        cluster=cluster("10.104.0.0/16"),
    ),
    Case("the old name of the relay", hosts(key="oobDhcpRelayAddress"), "", Verdict.OK),
    Case("IPv6", hosts("fd00:200::1"), "", Verdict.OK, cluster=cluster("10.43.0.0/16 fd00:96::/108")),
    Case(
        "IPv6 inside of the ServiceCIDR",
        hosts("fd00:200::1"),
        "overlap-services",
        Verdict.CONFLICT,
        cluster=cluster("10.43.0.0/16 fd00:200::/108"),
    ),
    Case(
        "a link-local BMC network",
        hosts("169.254.8.1"),
        "special-network",
        Verdict.CONFLICT,
        cluster=cluster(bmcs="169.254.8.0/22"),
    ),
    Case("ClusterIPs for 300 BMCs", hosts(), "too-few-cluster-ips", Verdict.SETTINGS, cluster=cluster("10.43.0.0/24")),
    Case("just enough ClusterIPs", hosts(count=84), "", Verdict.OK, cluster=cluster("10.43.0.0/24", used="")),
    Case(
        "ClusterIPs that others have",
        hosts(count=84),
        "too-few-cluster-ips",
        Verdict.SETTINGS,
        cluster=cluster("10.43.0.0/24"),
    ),
    Case(
        "ClusterIPs of other networks",
        hosts(count=84),
        "",
        Verdict.OK,
        cluster=cluster("10.43.0.0/24", used="10.44.0.1"),
    ),
    Case(
        "the family of the first ServiceCIDR",
        hosts(),
        "too-few-cluster-ips",
        Verdict.SETTINGS,
        cluster=cluster("10.43.0.0/24 fd00:96::/108"),
    ),
    Case(
        "neither pod CIDR nor nodes",
        hosts(),
        "pod-cidr-unknown? nodes-unknown?",
        Verdict.OK,
        cluster=cluster(pods="", nodes=""),
    ),
    Case("a relay that is not the gateway", hosts("10.200.0.2"), "relay-not-gateway?", Verdict.OK),
    Case("DPUs on the admin network", hosts(underlay="10.102.0.1"), "network-type", Verdict.SETTINGS),
    Case("hosts without DPUs on it", hosts(underlay="10.102.0.1", dpus=0), "", Verdict.OK),
    Case("bmc_proxy beside the controller", hosts(), "bmc-proxy-set", Verdict.SETTINGS, OVERRIDE),
    Case(
        "a proxy that the simulator sets",
        hosts(more=CONTROLLER + "machineATron: {configureBmcProxyHost: mat.nico-mat}\n"),
        "bmc-proxy-set",
        Verdict.SETTINGS,
    ),
    Case("Override Mode", hosts(more=""), "", Verdict.OK, OVERRIDE),
    Case("Override Mode without bmc_proxy", hosts(more=""), "bmc-proxy-missing?", Verdict.OK),
    Case(
        "the bare name of a Service, and a key that never was",
        hosts(more=""),
        "bmc-proxy-name override-target?",
        Verdict.SETTINGS,
        SITE + "[site_explorer]\nbmc_proxy = 'mat-bmc-mock:1266'\noverride_target_host = 'mat'\n",
    ),
    Case(
        "Override Mode with two pods",
        racks("a", "b").replace("true", "false"),
        "several-pods",
        Verdict.SETTINGS,
        OVERRIDE,
    ),
    Case("no allow_insecure_discovery", hosts(), "insecure-discovery", Verdict.SETTINGS, SITE.replace("allow_", "x_")),
    Case(
        "allow_insecure_discovery in a table",
        hosts(),
        "insecure-discovery",
        Verdict.SETTINGS,
        SITE.replace("allow_insecure_discovery = true", "") + "[networks.later]\nallow_insecure_discovery = true\n",
    ),
    Case(
        "the site of a development template",
        hosts(count=2),
        "pool-too-small",
        Verdict.SETTINGS,
        SITE.replace("10.103.63.254", "10.103.0.3"),
    ),
    Case(
        "a pool with a prefix",
        hosts(count=22),
        "pool-too-small",
        Verdict.SETTINGS,
        SITE.replace(_LO_IP, 'prefix = "10.103.0.0/26"'),
    ),
    Case("the derived rack profile", racks("a", profile="GB200_NVL72R1_C2G4_WIWYNN"), "", Verdict.OK),
    Case("a rack profile that nobody declares", racks("a", profile="NVL72"), "rack-profile", Verdict.SETTINGS),
    Case(
        "another one that is declared",
        racks("a", profile="NVL72"),
        "rack-profile-other?",
        Verdict.OK,
        SITE + "[rack_profiles.NVL72]\nproduct_family = 'gb200'\n",
    ),
    Case("one rack in two pods", racks("a, b", "b, c"), "rack-twice", Verdict.SETTINGS),
    Case("a rack type of the future", racks("a", type_="nobody_knows"), "rack-type?", Verdict.OK),
    Case("no machines", CONTROLLER + "pods: {mat-0: null}\n", "no-machines", Verdict.SETTINGS),
    Case("the chart's own group", hosts().replace("      rack-machines: null\n", ""), "chart-group?", Verdict.OK),
    Case(
        "the chart's own group, checked",
        (_OF_CHART, hosts().replace("      rack-machines: null\n", "")),
        "relay-unresolved",
        Verdict.UNDETERMINED,
    ),
    Case("the chart's own group, taken away", (_OF_CHART, hosts()), "", Verdict.OK),
    Case("no site file", hosts(), "relay-unresolved relay-unresolved", Verdict.UNDETERMINED, None),
    Case("no site file, networks by hand", hosts(), "", Verdict.OK, None, cluster(bmcs="10.200.0.0/18 10.104.0.0/18")),
    Case(
        "a whole fleet file for a pod",
        "pods: {mat-0: {machines: {rack-machines: null, x: {bmcDhcpRelayAddress: 10.9.9.9}}}}\n"
        + CONTROLLER
        + "configFiles:\n  matConfigs:\n    mat-0: |\n      [machines.a]\n      hw_type = 'dell_poweredge_r750'\n"
        "      host_count = 3\n      oob_dhcp_relay_address = '10.43.7.1'\n",
        "overlap-services",
        Verdict.CONFLICT,
        cluster=cluster(bmcs="10.43.7.0/24"),
    ),
]
