"""`bmcsim preflight`: whether a fleet can be deployed on a site, before it is."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click
import orjson

from bmcsim.deploy import preflight, site, values
from bmcsim.deploy.networks import Network
from bmcsim.deploy.preflight import Cluster, Code, Finding, Report, Severity, Verdict
from bmcsim.edges.kubectl import Kubectl
from bmcsim.fleet.tables import ConfigError

_FILE = click.Path(path_type=Path)

_OF_INCUMBENT = {Code.NOT_A_CIDR, Code.OVERLAP_SERVICES, Code.RELAY_UNRESOLVED, Code.SERVICE_CIDR_UNKNOWN}
_NOT_ASKED = {Code.POD_CIDR_UNKNOWN, Code.NODES_UNKNOWN}


def _split(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([word for one in given for word in re.split(r"[,\s]+", one) if word])


def _cidrs(flag: str, variable: str, help_: str) -> Callable[[Any], Any]:
    """An option for networks that a variable can have too, between blanks or commas."""
    return click.option(flag, multiple=True, envvar=variable, metavar="CIDR", callback=_split, help=help_)


@click.group("preflight")
def preflight_group() -> None:
    """Check a site before a fleet is deployed on it."""


@preflight_group.command("service-cidr")
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="VALUES...")
@click.option("--site-config", type=_FILE, metavar="CORE", help="NICo Core's values or its site configuration.")
@_cidrs("--service-cidr", "SCALE_SERVICE_CIDRS", "ServiceCIDRs, instead of the cluster's.")
@_cidrs("--pod-cidr", "SCALE_POD_CIDRS", "Pod CIDRs, instead of the cluster's.")
@_cidrs("--node-network", "SCALE_NODE_NETWORKS", "Networks of the nodes, instead of the cluster's.")
@_cidrs("--reserved", "SCALE_RESERVED_NETWORKS", "Other networks that nodes or pods must reach.")
@_cidrs("--bmc-prefix", "SCALE_BMC_PREFIXES", "BMC networks that CORE does not declare yet.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Passed to kubectl.")
@click.option("--context", default="", metavar="NAME", help="Passed to kubectl.")
@click.option("--timeout", type=click.FloatRange(1, 300), default=15.0, show_default=True, help="Of a question, s.")
@click.option("--no-cluster", is_flag=True, help="Do not ask a cluster.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def service_cidr(
    files: tuple[Path, ...],
    site_config: Path | None,
    service_cidr: tuple[str, ...],
    pod_cidr: tuple[str, ...],
    node_network: tuple[str, ...],
    reserved: tuple[str, ...],
    bmc_prefix: tuple[str, ...],
    kubeconfig: str,
    context: str,
    timeout: float,
    no_cluster: bool,
    strict: bool,
    output: str,
) -> None:
    """Check the networks of a fleet against the cluster and NICo's site file.

    VALUES are values files of the simulator's chart, merged in order as by `helm -f`. Exit code 0: nothing is wrong;
    1: networks conflict; 3: the ServiceCIDR or a relay's network cannot be found out; 4: a file or a CIDR cannot be
    read; 5: something else is wrong.
    """
    kubectl = None if no_cluster else Kubectl(kubeconfig, context, timeout)
    try:
        deployment = values.read(files)
        given = {"services": service_cidr, "pods": pod_cidr, "nodes": node_network}
        given |= {"reserved": reserved, "bmcs": bmc_prefix}
        cluster = _cluster(kubectl, given, used=True)
        report = preflight.check(deployment, site.read(site_config) if site_config else None, cluster)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(Verdict.INPUT)
    verdict = report.verdict(strict=strict)
    if output == "json":
        click.echo(_json(report, verdict, kubectl.silent if kubectl is not None else "was not asked"))
    else:
        if kubectl is not None and kubectl.silent:
            click.echo(f"the cluster was not asked further: {kubectl.silent}", err=True)
        for finding in report.findings:
            click.echo(f"{finding.severity} {finding.code}: {finding}")
        click.echo(_summary(report, verdict))
    sys.exit(verdict)


_VARIABLES = {
    "services": "SCALE_SERVICE_CIDRS",
    "pods": "SCALE_POD_CIDRS",
    "nodes": "SCALE_NODE_NETWORKS",
    "reserved": "SCALE_RESERVED_NETWORKS",
    "bmcs": "SCALE_BMC_PREFIXES",
}


def _cluster(kubectl: Kubectl | None, given: Mapping[str, Sequence[str]], *, used: bool) -> Cluster:
    """What is given, and what kubectl says where nothing is.

    given: name -> CIDRs. used: whether to ask for ClusterIPs that are taken.
    """
    questions: dict[str, Callable[[], list[str]]] = {}
    if kubectl is not None:
        questions = {"services": kubectl.service_cidrs, "pods": kubectl.pod_cidrs, "nodes": kubectl.node_addresses}
    networks: dict[str, tuple[Network, ...]] = {}
    unclear: list[Finding] = []
    for name, tokens in given.items():
        source = _VARIABLES[name]
        if not tokens and name in questions:
            tokens, source = questions[name](), f"kubectl's answer about {name}"
        networks[name], problems = preflight.networks(tokens, source)
        unclear += problems
    ips = kubectl.cluster_ips() if kubectl is not None and used else None
    return Cluster(
        **networks,
        used=None if ips is None else tuple([ip_address(ip) for ip in ips]),
        unclear=tuple(unclear),
    )


def _summary(report: Report, verdict: Verdict) -> str:
    warnings = len(report.findings) - report.errors
    counts = f"errors: {report.errors}, warnings: {warnings}"
    if verdict is not Verdict.OK:
        return f"not ready: {counts}"
    checked = ", ".join(f"{network} ({carries})" for network, carries in report.networks.items())
    cidrs = ", ".join(map(str, report.service_cidrs))
    return f"ok: {report.bmcs} BMCs, {report.services} Services; {checked} outside of {cidrs}; {counts}"


def _json(report: Report, verdict: Verdict, silent: str) -> str:
    """silent: why the cluster did not say everything."""
    return orjson.dumps(
        {
            "verdict": verdict.name.lower(),
            "exit_code": int(verdict),
            "cluster": silent or "was asked",
            "bmcs": report.bmcs,
            "services": report.services,
            "networks": [{"network": str(network), "carries": of} for network, of in report.networks.items()],
            "service_cidrs": list(map(str, report.service_cidrs)),
            "findings": [
                {name: str(getattr(finding, name)) for name in ("severity", "code", "file", "key", "text")}
                for finding in report.findings
            ],
        },
        option=orjson.OPT_INDENT_2,
    ).decode()


@click.command()
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="VALUES...")
@click.option("--site-config", type=_FILE, metavar="CORE", help="NICo Core's values or its site configuration.")
@_cidrs("--service-cidr", "SCALE_SERVICE_CIDRS", "ServiceCIDRs, instead of the cluster's.")
@_cidrs("--bmc-prefix", "SCALE_BMC_PREFIXES", "BMC networks that CORE does not declare yet.")
def _as_incumbent(
    files: tuple[Path, ...], site_config: Path | None, service_cidr: tuple[str, ...], bmc_prefix: tuple[str, ...]
) -> int:
    """Check the BMC networks of values files of machine-a-tron's chart against the cluster's ServiceCIDR.

    Exit code 0: they are outside of it; 1: they are not, or that cannot be told.
    """
    deployment = values.read(files)
    cluster = _cluster(Kubectl(), {"services": service_cidr, "bmcs": bmc_prefix}, used=False)
    report = preflight.check(deployment, site.read(site_config) if site_config else None, cluster)
    wrong = False
    for finding in report.findings:
        if finding.code in _OF_INCUMBENT and finding.severity is Severity.ERROR:
            click.echo(f"ERROR: {finding}")
            wrong = True
        elif finding.code not in _NOT_ASKED:
            click.echo(f"WARNING: {finding}")
    if not wrong:
        checked = " ".join(map(str, report.networks))
        cidrs = " ".join(map(str, report.service_cidrs))
        click.echo(f"OK: BMC and underlay networks {checked} are outside of the ServiceCIDR {cidrs}")
    return int(wrong)


def check_mat_service_cidr(arguments: Sequence[str]) -> int:
    """machine-a-tron's check-mat-service-cidr.py, with its exit codes: 0, or 1 for whatever is wrong.

    Its lines begin with OK: and ERROR:. What bmcsim finds beyond its checks is a WARNING:, and changes no exit code.
    """
    try:
        return int(_as_incumbent.main(list(arguments), "check-mat-service-cidr.py", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
    except ConfigError as error:
        click.echo(f"cannot check the networks: {error}", err=True)
    except click.Abort:
        pass
    return 1
