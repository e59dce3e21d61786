"""The chart: what it renders is what Kubernetes and bmcsim take, and what they would not take is refused before."""

import base64
import json
import re
import ssl
import sys
import threading
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from bmcsim.cli import main
from bmcsim.cli.controller import controller
from bmcsim.cli.serve import serve
from bmcsim.edges.http.admin import admin_app
from bmcsim.edges.nico.certificates import SERVICE_ID
from bmcsim.fleet import config
from bmcsim.fleet.config import HARDWARE, FleetConfig
from bmcsim.fleet.registry import Fleet
from bmcsim.tree import racks
from tests.deploy import goldens, helm
from tests.deploy.helm import environment, notes, refusal, rendered, template, values_file
from tests.serving import free_port, started

KUBERNETES = ("1.29", "1.35")
FOREIGN = {"cert-manager.io/v1", "monitoring.coreos.com/v1"}
FLEETS = {
    "10racks": 710, "250racks": 17_750, "multipod": 600, "scale": 300, "scale-4500": 13_500,
    "scale-4500-proxy": 13_500, "standalone": 300, "default": 30, "shards": 3000, "dhcp-relay": 20,
    "everything": 3 * 3 + 1 + 2 * 71, "bmc-proxy": 13_500,
}  # fmt: skip
EVERYTHING = goldens.CASES["everything"]
CONTROLLER = {"mat-k8s-controller": {"enabled": True}}
POOLS = {"macAddressPool": {"enabled": True}, "hwMacAddressRanges": {"enabled": True}}
RELAYS = {"bmcDhcpRelayAddress": "10.200.0.1", "underlayDhcpRelayAddress": "10.104.0.1"}
HOSTS = {"hostCount": 1, "dpuPerHostCount": 2, **RELAYS}
FIRST_POOL = {"macAddressPool": {"base": "02:00:00:00:00:00"}}
RACK = {"type": "wiwynn_gb200_nvl72", "bmc_dhcp_relay_address": "10.200.0.1", "underlay_dhcp_relay_address": "10.4.0.1"}


def fleet_of(text: str, directory: Path) -> FleetConfig:
    path = directory / "mat.toml"
    path.write_text(text)
    return config.load(path, mat=True)


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """All maps in a document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


# all profiles


@pytest.mark.parametrize("name", goldens.CASES)
def test_helm_has_nothing_to_complain_about(name: str) -> None:
    done = helm.run("lint", "--strict", "--quiet", str(helm.CHART), *goldens.CASES[name])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", goldens.CASES)
def test_what_is_rendered_is_what_was_read(name: str) -> None:
    assert template(*goldens.CASES[name]) == goldens.path(name).read_text(), (
        "not the golden file; if that is meant: python -m tests.deploy --update, and read the difference"
    )


@pytest.mark.parametrize("name", goldens.CASES)
def test_kubernetes_takes_it(name: str) -> None:
    objects = rendered(*goldens.CASES[name])
    for one in objects:
        if one["apiVersion"] not in FOREIGN:
            for version in KUBERNETES:
                kubernetes_validate.validate(one, version, strict=True)
    places = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(places)) == len(places)
    assert all(len(name) <= 63 for _, name in places)


@pytest.mark.parametrize("name", goldens.CASES)
def test_bmcsim_takes_every_fleet_file_and_no_two_share_macs(name: str, tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate(rendered(*goldens.CASES[name]).fleets()):
        paths.append(tmp_path / f"{number}.toml")
        paths[-1].write_text(text)
    fleets = [config.load(path, mat=True) for path in paths]
    assert sum(fleet.bmc_count for fleet in fleets) == FLEETS[name]
    done = CliRunner().invoke(main, ["fleet", "check", *map(str, paths)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", goldens.CASES)
def test_no_file_has_keys_that_bmcsim_does_not_use(name: str, tmp_path: Path) -> None:
    for text in rendered(*goldens.CASES[name]).fleets():
        said = fleet_of(text, tmp_path).warnings
        assert not [one for one in said if "not used" in one or "is not a known key" in one], said


@pytest.mark.parametrize("name", goldens.CASES)
def test_no_container_may_anything(name: str) -> None:
    for one in rendered(*goldens.CASES[name]).of("Deployment"):
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        # N42: thousands of Services would be in the environment of every process.
        assert pod["enableServiceLinks"] is False
        for container in [*pod["containers"], *pod.get("initContainers", ())]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


@pytest.mark.parametrize("name", goldens.CASES)
def test_ports_probes_and_selectors_agree(name: str) -> None:
    objects = rendered(*goldens.CASES[name])
    pods = [one["spec"]["template"] for one in objects.of("Deployment")]
    for service in objects.of("Service"):
        selected = [pod for pod in pods if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
        assert selected, service["metadata"]["name"]
        for pod in selected:
            names = {port["name"]: port["protocol"] for port in pod["spec"]["containers"][0]["ports"]}
            for port in service["spec"]["ports"]:
                assert names[port["targetPort"]] == port["protocol"]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert all(
            container[probe]["httpGet"]["port"] in {port["name"] for port in container["ports"]}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe")
            if probe in container
        )


# simulator pods


def test_probes_ask_what_the_admin_listener_has() -> None:
    routes = {route.path for route in admin_app(Fleet(), CollectorRegistry()).routes}  # type: ignore[attr-defined]
    container = rendered().container("-mat-0")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {probe["port"] for probe in probes.values()} == {"metrics"}
    assert {probe["path"] for probe in probes.values()} == {"/healthz", "/readyz"} <= routes
    given = environment(container)
    assert given["BMCSIM_SERVE_ADMIN"] == f"0.0.0.0:{ports['metrics']}"
    assert given["BMCSIM_SERVE_LISTEN"] == f"0.0.0.0:{ports['redfish']}"


def test_n53_no_probe_waits_for_the_registration_and_none_for_hours() -> None:
    """What waits is told apart from what hangs: /healthz and /readyz do not depend on NICo (test_nico_registration)."""
    for name in ("default", "scale-4500", "scale-4500-proxy", "250racks"):
        for one in rendered(*goldens.CASES[name]).of("Deployment"):
            for container in one["spec"]["template"]["spec"]["containers"]:
                for probe in ("startupProbe", "livenessProbe"):
                    assert "tcpSocket" not in container[probe]
                    assert container[probe].get("failureThreshold", 3) * container[probe]["periodSeconds"] <= 120


def test_a_probe_of_the_incumbent_keeps_its_times_and_asks_what_ours_do() -> None:
    probe = rendered(*EVERYTHING).container("-default")["startupProbe"]
    assert probe == {
        "httpGet": {"path": "/healthz", "port": "metrics"},
        "periodSeconds": 30, "failureThreshold": 1200, "successThreshold": 1, "timeoutSeconds": 10,
    }  # fmt: skip


def test_the_variables_are_those_of_bmcsim_serve() -> None:
    options = {str(option.envvar or f"BMCSIM_SERVE_{option.name}").upper() for option in serve.params}
    for name in ("everything", "shards"):
        for one in rendered(*goldens.CASES[name]).of("Deployment"):
            (container,) = one["spec"]["template"]["spec"]["containers"]
            assert {key for key in environment(container) if key.startswith("BMCSIM_")} <= options
            if not container.get("command") and container["name"] == "machine-a-tron":
                assert main.get_command(click.Context(main), container["args"][0]) is not None


def test_passwords_are_in_a_secret_and_nowhere_else() -> None:
    objects = rendered(*EVERYTHING)
    secret = objects.one("Secret", "-bmc-passwords")
    assert set(secret["data"]) == {"host", "dpu"}
    given = environment(objects.container("-default"))
    for kind in ("host", "dpu"):
        where = {"name": secret["metadata"]["name"], "key": kind}
        assert given[f"BMCSIM_SERVE_{kind.upper()}_PASSWORD"] == {"secretKeyRef": where}
    assert "Secret-1" not in yaml.safe_dump([one for one in objects if one["kind"] != "Secret"])


def test_a_secret_of_yours_may_have_them(tmp_path: Path) -> None:
    objects = rendered("--set", "machineATron.existingPasswordSecret=mine")
    assert not objects.of("Secret")
    given = environment(objects.container("-mat-0"))
    assert given["BMCSIM_SERVE_HOST_PASSWORD"] == {"secretKeyRef": {"name": "mine", "key": "host"}}


def test_another_password_or_fleet_starts_the_pod_again() -> None:
    def checksums(*arguments: str) -> dict[str, str]:
        pod = rendered(*arguments).one("Deployment", "-mat-0")["spec"]["template"]
        return dict(pod["metadata"]["annotations"])

    before = checksums()
    assert checksums() == before
    assert checksums("--set", "machineATron.hostBmcPassword=x") != before
    assert checksums("--set-json", "machineDefaults.accelerationFactor=0.5") != before


def test_state_is_on_a_volume_of_the_pods_own() -> None:
    objects = rendered(*EVERYTHING)
    pod = objects.one("Deployment", "-default")["spec"]["template"]["spec"]
    assert {"name": "data", "mountPath": "/tmp/machine-a-tron-data"} in pod["containers"][0]["volumeMounts"]
    claim = next(one for one in pod["volumes"] if one["name"] == "data")["persistentVolumeClaim"]["claimName"]
    assert objects.one("PersistentVolumeClaim")["metadata"]["name"] == claim
    assert tomllib.loads(objects.fleet("default"))["persist_dir"] == "/tmp/machine-a-tron-data"
    assert objects.one("Deployment", "-default")["spec"]["strategy"] == {"type": "Recreate"}


def test_the_certificate_says_who_we_are_and_is_where_bmcsim_looks() -> None:
    objects = rendered()
    certificate = objects.one("Certificate")["spec"]
    assert certificate["uris"] == [f"spiffe://nico.local/nico-system/sa/{SERVICE_ID}"]
    service = objects.one("Service", "-bmc-mock")["metadata"]["name"]
    assert f"{service}.{helm.NAMESPACE}.svc.cluster.local" in certificate["dnsNames"]
    assert "mat-mock.nvidia.com" in certificate["dnsNames"]
    assert len(certificate["commonName"]) <= 64
    pod = objects.one("Deployment")["spec"]["template"]["spec"]
    volume = next(one for one in pod["volumes"] if one["name"] == "tls")
    assert volume["secret"]["secretName"] == certificate["secretName"]
    mount = next(one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "tls")
    # N49: what is mounted by subPath is never updated.
    assert mount == {"name": "tls", "mountPath": "/var/run/secrets/spiffe.io", "readOnly": True}


def test_names_of_the_incumbent_may_stay() -> None:
    objects = rendered(*EVERYTHING)
    assert objects.one("Service", "-bmc-mock")["metadata"]["name"] == "nico-machine-a-tron-default-bmc-mock"
    assert objects.one("Namespace")["metadata"]["labels"]["nico.nvidia.com/managed"] == "true"
    assert objects.container("-default")["args"] == ["/app/mat.toml"]


def test_what_bmcsim_adds_to_the_file_may_be_given(tmp_path: Path) -> None:
    fleet = fleet_of(rendered(*EVERYTHING).fleet("default"), tmp_path)
    assert fleet.conduct.preset == "realistic"
    (hosts,) = [group for group in fleet.groups if group.name == "dell-hosts"]
    assert (hosts.acceleration_factor, hosts.host_timings, hosts.dpu_timings) == (
        0.05,
        {"reboot": 120.0},
        {"bmc_reset": 5.0},
    )
    assert {seat.place.rack for group in fleet.groups for seat in group.seats} == {"rack-001", "002"}


def test_a_whole_file_may_be_given(tmp_path: Path) -> None:
    text = "bmc_mock_port = 1266\n\n[machines.a]\nhost_count = 7\n"
    objects = rendered(*values_file(tmp_path, {"configFiles": {"matConfigs": {"mine": text}}}))
    assert fleet_of(objects.fleet("mine"), tmp_path).host_count == 7


def test_numbers_of_values_files_stay_whole(tmp_path: Path) -> None:
    """Helm reads all numbers as floating ones; 1000000 must not become 1e+06."""
    machines = {"pods": {"a": {"machines": {"x": {**HOSTS, "hostCount": 100_000, "dpuPerHostCount": 0}}}}}
    objects = rendered(*values_file(tmp_path, {**machines, "hwMacAddressRanges": {"enabled": False}}))
    assert fleet_of(objects.fleet("a"), tmp_path).host_count == 100_000


class Cluster(BaseHTTPRequestHandler):
    """As much of an API server as Helm asks when it looks a Secret up."""

    document = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        names = {"nico-site-credentials": "secrets"} if self.document else {}
        answers: dict[str, Any] = {
            "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {
                "kind": "APIResourceList",
                "groupVersion": "v1",
                "resources": [{"name": "secrets", "kind": "Secret", "namespaced": True, "verbs": ["get"]}],
            },
            **{
                f"/api/v1/namespaces/nico-system/{plural}/{name}": {
                    "kind": "Secret",
                    "apiVersion": "v1",
                    "metadata": {"name": name, "namespace": "nico-system"},
                    "data": {"credentials.yaml": base64.b64encode(self.document.encode()).decode()},
                }
                for name, plural in names.items()
            },
        }
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = json.dumps(answers.get(path, missing)).encode()
        self.send_response(200 if path in answers else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def in_cluster(tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    """Arguments for a cluster whose site credentials are this document, '' for none."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Cluster) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kubeconfig = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": ""}}
        kubeconfig.write_text(yaml.safe_dump({"clusters": [cluster], "contexts": [context], "current-context": "c"}))

        def arguments(document: str) -> list[str]:
            Cluster.document = document
            return ["--dry-run=server", "--kubeconfig", str(kubeconfig)]

        yield arguments
        server.shutdown()


def test_the_sites_root_password_is_looked_up(in_cluster: Callable[[str], list[str]]) -> None:
    site_root = in_cluster("bmc_site_wide_root: {username: root, password: Site-Root-1}\n")
    secret = rendered(*site_root).one("Secret", "-bmc-passwords")
    assert {kind: base64.b64decode(value) for kind, value in secret["data"].items()} == {
        "host": b"Site-Root-1",
        "dpu": b"Site-Root-1",
    }
    own = rendered(*site_root, "--set", "machineATron.dpuBmcPassword=Own-1").one("Secret", "-bmc-passwords")
    assert [base64.b64decode(own["data"][kind]) for kind in ("host", "dpu")] == [b"Site-Root-1", b"Own-1"]
    assert not rendered(*site_root, "--set", "machineATron.siteCredentialsSecret.name=").of("Secret")
    assert not rendered(*in_cluster("")).of("Secret")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("bmc_site_wide_root: {password: 12345}", "bmc_site_wide_root.password must be a text"),
        ("a: [", "Secret nico-system/nico-site-credentials, key credentials.yaml: is not YAML"),
    ],
)
def test_site_credentials_that_are_wrong_are_refused(
    document: str, said: str, in_cluster: Callable[[str], list[str]]
) -> None:
    said_by_helm = refusal(*in_cluster(document))
    assert said in said_by_helm
    assert "12345" not in said_by_helm


# modes


def test_override_mode_has_one_service_and_no_controller() -> None:
    objects = rendered(*goldens.CASES["scale"])
    assert [one["metadata"]["name"] for one in objects.of("Deployment")] == ["bmcsim-mat-0"]
    (service,) = objects.of("Service", "-bmc-mock")
    assert service["spec"]["ports"] == [{"name": "redfish", "port": 1266, "targetPort": "redfish", "protocol": "TCP"}]
    assert not objects.of("Role")


def test_controller_mode_is_what_the_controller_finds() -> None:
    objects = rendered(*goldens.CASES["250racks"])
    services = objects.of("Service", "-bmc-mock")
    assert len(services) == 10
    for service in services:
        labels = service["metadata"]["labels"]
        assert labels["nvidia-infra-controller/mat-service"] == "true"
        # Whoever owns the Services of BMCs is found by this name.
        owner = objects.one("Deployment", service["metadata"]["name"].removesuffix("-bmc-mock"))
        assert (
            owner["spec"]["template"]["metadata"]["labels"]["nvidia-infra-controller/pod-name"]
            == (labels["nvidia-infra-controller/pod-name"])
        )
    texts = objects.fleets()
    assert all("configure_carbide_bmc_proxy_host" not in text for text in texts)
    ids = [id_ for text in texts for id_ in tomllib.loads(text)["racks"]["gb200"]["ids"]]
    assert len(set(ids)) == len(ids) == 250


def test_the_controller_has_its_arguments_and_no_more_rights_than_it_needs() -> None:
    objects = rendered(*goldens.CASES["multipod"])
    container = objects.container("-mat-k8s-controller")
    name, *arguments = container["args"]
    assert name == controller.name
    known = {flag for option in controller.params for flag in option.opts}
    assert {argument.partition("=")[0] for argument in arguments} <= known
    rules = objects.one("Role")["rules"]
    assert {(*rule["apiGroups"], *rule["resources"]): set(rule["verbs"]) for rule in rules} == {
        ("", "services"): {"get", "list", "watch", "create", "patch", "delete"},
        ("apps", "deployments", "statefulsets"): {"get"},
        ("coordination.k8s.io", "leases"): {"get", "create", "update"},
    }
    assert objects.one("RoleBinding")["roleRef"]["name"] == objects.one("Role")["metadata"]["name"]
    assert "--status-ca=/var/run/secrets/simulators/ca.crt" in arguments
    assert "--insecure-skip-verify=false" in arguments


def test_certificates_that_nobody_signed_are_not_verified() -> None:
    arguments = rendered(*goldens.CASES["shards"]).container("-mat-k8s-controller")["args"]
    assert "--insecure-skip-verify=true" in arguments
    assert not [one for one in arguments if one.startswith("--status-ca")]


def test_shards_are_parts_of_one_file(tmp_path: Path) -> None:
    objects = rendered(*goldens.CASES["shards"])
    parts = [one for one in objects.of("Deployment") if "-big-s" in one["metadata"]["name"]]
    given = [environment(one["spec"]["template"]["spec"]["containers"][0])["BMCSIM_SERVE_SHARD"] for one in parts]
    assert given == ["1/3", "2/3", "3/3"]
    assert fleet_of(objects.one("ConfigMap")["data"]["mat.toml"], tmp_path).bmc_count == 3000
    assert (
        len({one["spec"]["template"]["metadata"]["labels"]["nvidia-infra-controller/pod-name"] for one in parts}) == 3
    )


def test_a_relay_has_an_address_of_its_own_and_needs_no_privilege(tmp_path: Path) -> None:
    objects = rendered(*goldens.CASES["dhcp-relay"])
    for number, pod in enumerate(("mat-0", "mat-1")):
        fleet = tomllib.loads(objects.fleet(pod))
        service = objects.one("Service", f"-{pod}-dhcp-relay")["spec"]
        assert fleet["dhcp"]["advertise_address"] == service["clusterIP"] == f"10.96.127.{10 + number}"
        assert fleet["machines"]["compute"]["bmc_dhcp_relay_address"] == service["clusterIP"]
        ports = {one["name"]: one["containerPort"] for one in objects.container(f"-{pod}")["ports"]}
        assert fleet["dhcp"]["listen_address"] == f"0.0.0.0:{ports['dhcp-relay']}"
        assert ports["dhcp-relay"] > 1023 and service["ports"][0]["port"] == 67


def test_shared_proxy_mode_tells_nico_where_everything_is() -> None:
    objects = rendered(*goldens.CASES["scale-4500-proxy"])
    service = objects.one("Service", "-bmc-mock")["metadata"]["name"]
    host = tomllib.loads(objects.fleet("default"))["configure_carbide_bmc_proxy_host"]
    assert host == f"{service}.{helm.NAMESPACE}.svc.cluster.local"


# what is refused


TWO = {"pods": {"a": {"machines": {"x": HOSTS}}, "b": {"machines": {"x": HOSTS}}}}


def pod(**of: Any) -> dict[str, Any]:
    """Values with one pod."""
    return {"pods": {"a": of}}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    (TWO, "pods: there are 2 (a, b), and only a controller"),
    ({**CONTROLLER, **TWO}, "pods.b.macAddressPool (02:00:00:00:00:00/24) overlaps pods.a.macAddressPool"),
    (
        {**CONTROLLER, **POOLS, "pods": {**TWO["pods"], "c": {"racks": {"x": {**RACK, "ids": ["r"]}}, **FIRST_POOL}}},
        "pods.c.macAddressPool (02:00:00:00:00:00/16) overlaps pods.a.macAddressPool",
    ),
    (
        {**POOLS, "hwMacAddressRanges": {"enabled": True, "basePrefix": "02:00"}},
        "pods.mat-0.hwMacAddressRanges (02:00:00:00:00:00/24) overlaps pods.mat-0.macAddressPool",
    ),
    (
        {
            **CONTROLLER,
            **POOLS,
            "pods": {
                "a": {"racks": {"x": {**RACK, "ids": ["r-1"]}}},
                "b": {"racks": {"z": {**RACK, "ids": ["r-2", "r-1"]}}},
            },
        },
        "pods.b.racks.z.ids: rack r-1 is in pods.a.racks.x already",
    ),
    (
        pod(racks={"x": {**RACK, "ids": ["r-1"]}, "z": {**RACK, "ids": ["r-1"]}}),
        "rack r-1 is in pods.a.racks.x already",
    ),
    (pod(racks={"x": {**RACK, "ids": ["r-1", "r-1"]}}), "/pods/a/racks/x/ids"),
    (
        pod(machines={"m": {**HOSTS, "rackId": "r-1"}}, racks={"x": {**RACK, "ids": ["r-1"]}}),
        "pods.a.machines.m.rackId: rack r-1 is simulated by pods.a.racks.x",
    ),
    (pod(machines={"x": {"hostCuont": 1}}), "additional properties 'hostCuont' not allowed"),
    (pod(racks={"x": {**RACK, "ids": ["r"], "rackProfile": "x"}}), "additional properties 'rackProfile' not allowed"),
    ({"machineATron": {"nicoApiURL": "x"}}, "additional properties 'nicoApiURL' not allowed"),
    ({"pod": {}}, "additional properties 'pod' not allowed"),
    (pod(machines={"x": {**HOSTS, "hwType": "dell"}}), "/pods/a/machines/x/hwType"),
    ({"pods": {"A_b": {"machines": {"x": HOSTS}}}}, "invalid propertyName 'A_b'"),
    (pod(machines={"x": {"hostCount": 1}}), "pods.a.machines.x.bmcDhcpRelayAddress: is missing"),
    (
        pod(machines={"x": {"hostCount": 1, "bmcDhcpRelayAddress": "10.200.0.1"}}),
        "pods.a.machines.x.underlayDhcpRelayAddress: is missing",
    ),
    (pod(racks={"x": {"type": RACK["type"], "ids": ["r"]}}), "pods.a.racks.x.bmc_dhcp_relay_address: is missing"),
    (
        {**CONTROLLER, "machineATron": {"configureBmcProxyHost": "x"}},
        "configureBmcProxyHost: leads NICo to one address",
    ),
    ({**CONTROLLER, "bmcProxy": {"enabled": True}}, "bmcProxy.enabled: the proxy stands before one Service"),
    ({"bmcProxy": {"enabled": True}, "certificate": {"enabled": False}}, "the proxy needs a certificate"),
    ({**CONTROLLER, **pod(shards=2, machines={"x": HOSTS})}, "pods.a.shards: shards need planned addresses"),
    ({"dhcp": {"type": "api"}, "machineATron": {"nicoApiUrl": ""}}, "dhcp.type: api takes addresses from NICo"),
    (
        {**CONTROLLER, **POOLS, **TWO, "dhcp": {"type": "pool"}},
        "pods.b.dhcp.prefix: the default one is the prefix of pods.a too",
    ),
    (
        {**CONTROLLER, **POOLS, **TWO, "dhcpRelay": {"baseIP": "10.96.0.255", "serverAddress": "10.0.0.1:67"}},
        "dhcpRelay.baseIP: 10.96.0.255 plus",
    ),
    ({"dhcpRelay": {"baseIP": "10.96.0.10"}}, "dhcpRelay.serverAddress: is missing"),
    ({"mat-k8s-controller": {"gateway": {"enabled": True}}}, "/mat-k8s-controller/gateway/enabled"),
    ({"nico-site-health-probe": {"enabled": True}}, "/nico-site-health-probe/enabled"),
    ({"imagePullSecret": {"create": True}}, "imagePullSecret.dockerconfigjson: is missing"),
]


@pytest.mark.parametrize(("values", "said"), MISTAKES, ids=[said[:60] for _, said in MISTAKES])
def test_a_mistake_is_refused_and_named(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(*values_file(tmp_path, values))


def test_blocks_of_macs_that_only_touch_are_fine(tmp_path: Path) -> None:
    pods = {name: {"machines": {"x": HOSTS}} for name in ("a", "b", "c")}
    objects = rendered(*values_file(tmp_path, {**CONTROLLER, **POOLS, "pods": pods}))
    assert [tomllib.loads(objects.fleet(pod))["mac_address_pool"]["base"] for pod in pods] == [
        f"02:00:0{number}:00:00:00" for number in range(3)
    ]


def test_a_pod_that_is_null_or_empty_is_none(tmp_path: Path) -> None:
    pods = {"a": None, "b": {"machines": {"x": None}}, "c": {"machines": {"x": HOSTS, "y": None}}}
    objects = rendered(*values_file(tmp_path, {"pods": pods}))
    assert [one["metadata"]["name"] for one in objects.of("Deployment")] == ["bmcsim-c"]


def test_the_schema_knows_the_hardware_that_bmcsim_knows() -> None:
    schema = json.loads((helm.CHART / "values.schema.json").read_text())
    types = schema["definitions"]["hwType"]["anyOf"][0]["enum"]
    assert set(types) == set(HARDWARE)
    assert schema["definitions"]["rack"]["properties"]["type"]["enum"] == list(racks.names())
    # Whatever is a map of known keys refuses others.
    for one in walk(schema):
        if "properties" in one and one.get("type") is not None and "enabled" not in one["properties"]:
            assert one.get("additionalProperties") is False, one


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scale", 'bmc_proxy = "bmcsim-mat-0-bmc-mock.nico-mat.svc.cluster.local:1266"'),
        ("multipod", "Controller Mode: 2 pod(s)"),
        ("bmc-proxy", "the Service bmcsim-bmc-proxy"),
        ("everything", "Accepted, but not used: annotations, ufmMock, nico-site-health-probe, machineATron.mockBmc"),
        ("default", "No password was found"),
    ],
)  # fmt: skip
def test_the_notes_tell_what_to_do_next(name: str, said: str, tmp_path: Path) -> None:
    assert said in notes(tmp_path, *goldens.CASES[name])


# NICo Core's values


def site() -> dict[str, Any]:
    core = yaml.safe_load((helm.VALUES / "nico-core-simulation.yaml").read_text())["nico-api"]
    return tomllib.loads(core["siteConfig"]["nicoApiSiteConfig"])


def test_the_site_has_what_the_simulated_fleet_needs() -> None:
    core = yaml.safe_load((helm.VALUES / "nico-core-simulation.yaml").read_text())["nico-api"]
    secret = yaml.safe_load((helm.CHART / "values.yaml").read_text())["machineATron"]["siteCredentialsSecret"]
    assert core["credentials"]["file"]["existingSecret"] == {"name": secret["name"], "key": secret["key"]}
    tables = site()
    assert tables["site_explorer"]["explorations_per_run"] == 360
    assert tables["max_database_connections"] == 900
    assert tables["machine_state_controller"]["controller"]["max_concurrency"] == 80
    assert tables["allow_insecure_discovery"] is True
    assert "bmc_proxy" not in tables["site_explorer"]
    networks = {name: ip_network(table["prefix"]) for name, table in tables["networks"].items()}
    assert all(network.num_addresses - 3 >= 4500 * 3 - 1 for network in networks.values())
    used = list(networks.values())
    assert not any(one.overlaps(other) for one in used for other in used if one is not other)
    (asn,) = tables["pools"]["fnn-asn"]["ranges"]
    assert int(asn["end"]) - int(asn["start"]) + 1 >= 4500 * 2


def test_relays_of_all_profiles_are_gateways_of_the_site() -> None:
    gateways = {table["gateway"] for table in site()["networks"].values()}
    own = {"10.200.64.1", "10.200.96.1", "10.200.80.1"}
    for path in helm.profiles():
        found = set(re.findall(r"(?i)relay_?address: ([0-9.]+)", path.read_text()))
        assert found <= gateways | (own if path.stem == "scale-4500" else set()), path


@pytest.mark.parametrize("name", ["scale", "multipod", "10racks", "scale-4500-proxy"])
def test_the_preflight_passes(name: str) -> None:
    arguments = ["preflight", "service-cidr", str(helm.VALUES / f"{name}.yaml"), "--no-cluster"]
    arguments += ["--site-config", str(helm.VALUES / "nico-core-simulation.yaml"), "--service-cidr", "10.96.0.0/16"]
    arguments += ["--pod-cidr", "10.244.0.0/16", "--node-network", "192.0.2.0/24"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


def test_compose_serves_as_the_image_does() -> None:
    compose = yaml.safe_load((helm.ROOT / "deploy" / "docker-compose.yaml").read_text())
    service = compose["services"]["bmcsim"]
    arguments = re.sub(r"\$\{BMCSIM_ARGS:-(.*)\}", r"\1", service["command"]).split()
    assert arguments[0] == "serve"
    serve.make_context("serve", arguments[1:])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"] and service["cap_drop"] == ["ALL"]


# what the pod runs


@pytest.mark.system
def test_what_the_pod_runs_serves(tmp_path: Path) -> None:
    """The arguments and variables of the container, with ports of this machine."""
    objects = rendered(*goldens.CASES["shards"])
    container = objects.container("-big-s2")
    fleet, port, admin = tmp_path / "mat.toml", free_port(), free_port()
    fleet.write_text(objects.fleet("big"))
    arguments = [str(fleet) if one == "/app/mat.toml" else one for one in container["args"]]
    given = environment(container)
    given |= {"BMCSIM_SERVE_LISTEN": f"127.0.0.1:{port}", "BMCSIM_SERVE_ADMIN": f"127.0.0.1:{admin}"}
    command = [sys.executable, "-m", "bmcsim", *arguments]
    with started(tmp_path / "output", command, port, admin, **given) as process:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}{container[probe]['httpGet']['path']}") as response:
                assert response.status == 200
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        status = f"https://127.0.0.1:{port}/machines/status"
        with urllib.request.urlopen(status, timeout=20, context=context) as response:
            machines = json.loads(response.read())["machines"]
        assert len(machines) == pytest.approx(1000 / 3, abs=1)
        assert process.stop() == 0
