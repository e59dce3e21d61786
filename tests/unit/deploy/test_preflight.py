"""What a preflight says of configurations, and how values and site files are read."""

from ipaddress import IPv4Network, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.deploy import preflight, site, values
from bmcsim.deploy.networks import conflicts, most_specific, service_ips, smallest_prefix, suggestion, usable
from bmcsim.deploy.preflight import Code, Report, Severity, Verdict
from bmcsim.fleet.tables import ConfigError
from tests.unit.deploy.configurations import CASES, CONTROLLER, CORE, SITE, Case, cluster, hosts


def read(folder: Path, *texts: str) -> values.Deployment:
    files = [folder / f"values-{n}.yaml" for n in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return values.read(files)


def site_of(folder: Path, text: str) -> site.Site:
    (folder / "core.yaml").write_text(text)
    return site.read(folder / "core.yaml")


def check(folder: Path, case: Case) -> Report:
    texts = (case.values,) if isinstance(case.values, str) else case.values
    return preflight.check(
        read(folder, *texts), site_of(folder, case.site) if case.site is not None else None, case.cluster
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_configuration_gets_the_right_verdict(case: Case, tmp_path: Path) -> None:
    report = check(tmp_path, case)
    said = [f"{one.code}{'?' if one.severity is Severity.WARNING else ''}" for one in report.findings]
    assert sorted(said) == sorted(case.codes.split()), report.findings
    assert report.verdict() is case.verdict
    assert (report.verdict(strict=True) is Verdict.OK) is not bool(said)


def test_every_code_is_in_the_table() -> None:
    shown = {code.rstrip("?") for case in CASES for code in case.codes.split()}
    assert shown == set(Code) - {Code.NOT_A_CIDR}


def test_findings_name_file_line_key_and_what_would_be_right(tmp_path: Path) -> None:
    case = Case("", hosts("10.201.0.1"), "", Verdict.CONFLICT, CORE, cluster("10.104.0.0/16"))
    unresolved, overlap = check(tmp_path, case).findings
    assert str(unresolved).startswith(
        f"{tmp_path}/values-0.yaml:5: pods.mat-0.machines.compute.bmcDhcpRelayAddress: 10.201.0.1 is in no [networks.*]"
    )
    assert str(overlap).startswith(
        f"{tmp_path}/core.yaml: nico-api.siteConfig.nicoApiSiteConfig: networks.simulated-underlay.prefix: "
    )
    assert overlap.text.endswith("overlaps the ServiceCIDR 10.104.0.0/16; 10.201.0.0/18 is free of all that is known")


def test_a_finding_names_the_file_that_decides(tmp_path: Path) -> None:
    later = "pods: {mat-0: {machines: {compute: {bmcDhcpRelayAddress: 10.9.9.9}}}}\n"
    deployed = read(tmp_path, hosts(), later)
    (finding,) = preflight.check(deployed, site_of(tmp_path, SITE), cluster()).findings
    assert finding.file == f"{tmp_path}/values-1.yaml:1"


def test_what_is_no_cidr_is_a_finding_and_stops_everything(tmp_path: Path) -> None:
    found, (problem,) = preflight.networks(["10.96.0.0/12", "nope", "10.96.0.0/12"], "SCALE_SERVICE_CIDRS")
    assert found == (IPv4Network("10.96.0.0/12"),)
    assert (problem.code, problem.key) == (Code.NOT_A_CIDR, "SCALE_SERVICE_CIDRS")
    unclear = preflight.Cluster(unclear=(problem,))
    report = preflight.check(read(tmp_path, hosts()), site_of(tmp_path, SITE), unclear)
    assert report.verdict() is Verdict.INPUT


def test_a_key_in_the_wrong_table_is_pointed_at(tmp_path: Path) -> None:
    for table in ("dpf", "networks.later"):
        text = f"{SITE.replace('allow_insecure_discovery = true', '')}[{table}]\nallow_insecure_discovery = true\n"
        (finding,) = preflight.check(read(tmp_path, hosts()), site_of(tmp_path, text), cluster()).findings
        assert finding.text.endswith(f"it is in [{table}], where it means nothing")


# values


def test_files_are_merged_as_helm_does(tmp_path: Path) -> None:
    deployed = read(
        tmp_path,
        "a: {x: 1, y: {z: 2}, gone: {b: 1}}\nlist: [1, 2]\nback: null\npods: {p: null}\n",
        "a: {y: {w: 3}, gone: null}\nlist: [3]\nback: {c: 1}\n",
    )
    assert deployed.values.data == {"a": {"x": 1, "y": {"z": 2, "w": 3}}, "list": [3], "back": {"c": 1}, "pods": {}}
    assert deployed.values.says("a", "gone", "b") and not deployed.values.says("a", "other")


def test_anchors_and_merge_keys_count(tmp_path: Path) -> None:
    deployed = read(
        tmp_path,
        "x: &base {hwType: dell_poweredge_r750, hostCount: 7, bmcDhcpRelayAddress: 10.200.0.1}\n"
        "pods: {mat-0: {machines: {a: {<<: *base, hostCount: 9}, b: {<<: [{hostCount: 2}, *base]}}}}\n",
    )
    assert [one.host_count for one in deployed.machines] == [9, 2]


def test_machines_are_counted_by_their_hardware(tmp_path: Path) -> None:
    text = "pods: {a: {machines: {t: {hwType: wiwynn_gb200_nvl, bmcDhcpRelayAddress: 10.200.0.1, hostCount: 18}}}}\n"
    (group,) = read(tmp_path, text).machines
    assert group.bmc_count == 54


@pytest.mark.parametrize(
    ("text", "controller"),
    [("true", True), ("True", True), ("yes", True), ("On", True), ("false", False), ("NO", False)],
)
def test_flags_are_those_of_yaml_1_1(text: str, controller: bool, tmp_path: Path) -> None:
    assert read(tmp_path, f"pods: {{}}\nmat-k8s-controller: {{enabled: {text}}}\n").controller is controller


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pods: []\n", "pods: must be a table"),
        ("pods: {a: {machines: {b: text}}}\n", "pods.a.machines.b: must be a table"),
        (hosts("FILL_IN"), "values-0.yaml:5: pods.mat-0.machines.compute.bmcDhcpRelayAddress: must be an IP address"),
        ("pods: {a: {machines: {b: {hostCount: 1}}}}\n", "pods.a.machines.b.bmcDhcpRelayAddress: is missing"),
        ("pods: {a: {racks: {b: {type: x, ids: [y]}}}}\n", "pods.a.racks.b.bmc_dhcp_relay_address: is missing"),
        ("pods: {a: {racks: {b: {ids: 7, bmc_dhcp_relay_address: 1.2.3.4}}}}\n", "pods.a.racks.b.ids: must be a list"),
        (hosts(more="dhcpRelay: {baseIP: 10.96.127.10}\n"), "dhcpRelay.baseIP: is DHCP relay mode"),
        (CONTROLLER, "pods: is missing while mat-k8s-controller.enabled is true"),
        ("mat-k8s-controller: {enabled: 'true'}\n", "mat-k8s-controller.enabled: must be true or false"),
        ("mat-k8s-controller: {enabled: 1}\n", "mat-k8s-controller.enabled: must be true or false"),
        (hosts(count=10**9), "pods.mat-0.machines.compute.hostCount: must be a whole number"),
        ("configFiles: {matConfigs: {a: '[x'}}\n", "configFiles.matConfigs.a: must be a fleet file"),
        ("configFiles: {matConfigs: {a: \"dhcp.type='udp_relay'\"}}\n", "matConfigs.a.dhcp.type: is 'udp_relay'"),
        ("pods: [\n", "not YAML"),
        ("[1, 2]\n", "must be a mapping"),
        ("pods: {}\npods: {}\n", "the key 'pods' is there twice"),
        ("x: &x [*x]\n", "values-0.yaml"),
        (BOMB, "aliases written out"),
        ("[" * 5000, "values-0.yaml"),
        ("#" + "x" * 2**22, "larger than"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_judged_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"values-0\.yaml") as error:
        read(tmp_path, text)
    assert said in str(error.value)


def test_several_errors_are_said_at_once_and_there_is_a_limit_of_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, hosts("x", underlay="y"))
    assert len(str(error.value).splitlines()) == 2
    with pytest.raises(ConfigError, match="one file too many"):
        values.read([tmp_path / "x"] * 33)


# site files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("global: {}\n", "nico-api.siteConfig.nicoApiSiteConfig: is missing"),
        ("nico-api: {siteConfig: {nicoApiSiteConfig: '[x'}}\n", "nicoApiSiteConfig: is not TOML"),
        ("[networks.a]\nprefix = 'FILL_IN'\n", "networks.a.prefix: must be a prefix"),
        ("[networks.a]\nprefix = '10.0.0.0/8'\ngateway = 'x'\n", "networks.a.gateway: must be an IP address"),
        ("networks = 7\n", "networks: must be a table"),
        ("[pools.lo-ip]\nranges = [{ start = '10.0.0.9', end = '10.0.0.1' }]\n", "ends before it starts"),
        ("[pools.lo-ip]\nranges = [{ start = 'x' }]\n", "pools.lo-ip.ranges: must be a list of ranges"),
        ("[pools.lo-ip]\nranges = 3\n", "pools.lo-ip.ranges: must be a list of ranges"),
        ("allow_insecure_discovery = 'yes'\n", "allow_insecure_discovery: must be true or false"),
        ("a: [\n", "is not TOML"),
    ],
)
def test_a_site_file_that_is_wrong_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        site_of(tmp_path, text)
    assert said in str(error.value) and "core.yaml" in str(error.value)


def test_a_site_file_is_toml_or_values_of_core(tmp_path: Path) -> None:
    one, other = site_of(tmp_path, SITE), site_of(tmp_path, CORE)
    assert one.networks == other.networks and one.pools == other.pools == {"lo-ip": 16_382, "fnn-asn": 18_000}


# networks

ADDRESSES_4 = st.integers(0, 2**32 - 1)


@st.composite
def prefixes(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        # Few bits above, so that overlaps are common.
        return f"10.{draw(st.integers(0, 7))}.{draw(st.integers(0, 3)) * 64}.0/{draw(st.integers(8, 30))}"
    return f"fd00:{draw(st.integers(0, 7)):x}::/{draw(st.integers(16, 128))}"


@given(prefixes(), st.lists(prefixes(), max_size=8))
def test_conflicts_are_the_overlaps_of_ipaddress(one: str, many: list[str]) -> None:
    network = ip_network(one, strict=False)
    others = [ip_network(text, strict=False) for text in many]
    expected = [
        other
        for other in dict.fromkeys(others)
        if other.version == network.version and (network[0] in other or other[0] in network)
    ]
    assert conflicts(network, others) == expected


@given(prefixes(), st.lists(prefixes(), max_size=8))
def test_the_most_specific_network_is_the_smallest_that_holds_the_address(one: str, many: list[str]) -> None:
    address = ip_network(one, strict=False)[0]
    networks = [ip_network(text, strict=False) for text in many]
    found = most_specific(address, networks)
    holding = [network for network in networks if address in network]
    if found is None:
        assert not holding
    else:
        assert found in holding and found.num_addresses == min(network.num_addresses for network in holding)


@given(st.integers(0, 2**31), st.integers(0, 300), st.sampled_from([32, 128]))
def test_the_smallest_prefix_fits_and_the_next_smaller_one_does_not(count: int, reserved: int, bits: int) -> None:
    length = smallest_prefix(count, reserved, bits)
    assert usable(length, reserved, bits) >= count
    assert length == bits or usable(length + 1, reserved, bits) < count or count == 0


@given(st.integers(8, 30), st.lists(prefixes(), max_size=8))
def test_a_suggestion_is_free(length: int, taken: list[str]) -> None:
    networks = [ip_network(text, strict=False) for text in taken]
    found = suggestion(length, networks)
    assert found is None or (found.prefixlen == length and not conflicts(found, networks))


def test_nothing_is_suggested_where_all_is_taken() -> None:
    assert suggestion(18, [ip_network("10.0.0.0/8")]) is None


def test_more_addresses_than_there_are() -> None:
    with pytest.raises(ValueError, match="more than a /0 has"):
        smallest_prefix(2**32)


def test_cluster_ips_of_a_service_cidr() -> None:
    assert service_ips(ip_network("10.96.0.0/12")) == 1_048_574
    assert service_ips(ip_network("10.96.0.0/18")) == 16_382
    assert service_ips(ip_network("fd00::/112")) == 65_535
    assert service_ips(ip_network("10.0.0.1/32")) == 0
