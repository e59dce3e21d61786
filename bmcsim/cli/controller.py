"""`bmcsim controller`: one Kubernetes Service for each BMC.

Flags and variables are those of mat-k8s-controller and ours. It is a Go program: a set variable is a flag's default
even where it is empty, one that cannot be read is not, and a switch may be written --flag=true.
"""

import asyncio
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bmcsim.cli.logs import FORMATS, LogOptions, configure
from bmcsim.fleet.converters import duration

if TYPE_CHECKING:
    from bmcsim.edges.k8s.access import Access, Trust

log = logging.getLogger(__name__)

_LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "warning": "warning", "error": "error"}
_LEADER_SECONDS = 20.0


def _duration(text: str) -> float:
    """Raises ValueError."""
    return 0.0 if text == "0" else duration(text)


def _switch(text: str) -> bool:
    """As Go reads them. Raises ValueError."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError(f"must be true or false, not {text!r}")


def _log_format(text: str) -> str:
    """Raises ValueError."""
    found = text.lower() or "text"
    if found not in FORMATS:
        raise ValueError(f"must be {' or '.join(FORMATS)}, not {text!r}")
    return found


def _labels(text: str) -> dict[str, str]:
    """Raises ValueError."""
    labels = {}
    for pair in filter(None, [part.strip() for part in text.split(",")]):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"must be key=value pairs with commas between them, not {text!r}")
        labels[key.strip()] = value.strip()
    return labels


def _go(
    flag: str, variable: str, default: str, text: str, read: Callable[[str], Any] = str, **more: Any
) -> Callable[[Any], Any]:
    """A flag that mat-k8s-controller has too. Its default is the variable if that is set, also to nothing, but not a
    duration or a switch that cannot be read. read: raises ValueError."""

    def fallback() -> str:
        value = os.environ.get(variable, default)
        if read in (_duration, _switch):
            try:
                read(value)
            except ValueError:
                return default
        return value

    def convert(_ctx: click.Context, _param: click.Parameter, value: str) -> Any:
        try:
            return read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    shown = f"{text}  [${variable}; default: {default or 'none'}]"
    return click.option(flag, default=fallback, callback=convert, help=shown, **more)


class _Given(NamedTuple):
    """The flags."""

    namespace: str
    discovery_selector: str
    sync_interval: float
    target_selector: dict[str, str]
    insecure_skip_verify: bool
    log_level: str
    log_format: str
    kubeconfig: str
    source_list_addr: str
    source_list_debounce: float
    health_addr: str
    health_stale_after: float
    enable_state_annotations: bool
    state_annotation_rate: float
    addressing: str
    status_url: str
    status_ca: Path | None
    leader_election: str
    qps: float
    burst: int
    dry_run: bool
    once: bool


_SWITCH = {"is_flag": False, "flag_value": "true", "metavar": "[=true|false]"}


@click.command("controller")
@_go("--namespace", "NAMESPACE", "nico-system", "Namespace of the simulators and of the Services.")
@_go(
    "--discovery-selector",
    "DISCOVERY_SELECTOR",
    "nvidia-infra-controller/mat-service=true",
    "Labels of the simulators' own Services.",
    metavar="SELECTOR",
)
@_go("--sync-interval", "SYNC_INTERVAL", "30s", "Time from pass to pass.", _duration, metavar="DURATION")
@_go(
    "--target-selector",
    "TARGET_SELECTOR",
    "app.kubernetes.io/name=nico-machine-a-tron",
    "Labels of the simulators' pods, to which pod-name is added; '' for what the simulator's own Service selects.",
    _labels,
    metavar="LABELS",
)
@_go("--insecure-skip-verify", "INSECURE_SKIP_VERIFY", "false", "Do not verify simulators.", _switch, **_SWITCH)
@_go("--log-level", "LOG_LEVEL", "info", "debug, info, warn or error.")
@_go("--log-format", "BMCSIM_LOG_FORMAT", "text", "text or json.", _log_format, metavar="FORMAT")
@_go("--kubeconfig", "KUBECONFIG", "", "Kubeconfig file, for use outside a cluster.", metavar="FILE")
@_go(
    "--source-list-addr",
    "SOURCE_LIST_ADDR",
    "127.0.0.1:8090",
    "Loopback address of GET /v1/sources; '' for no such listener.",
    metavar="ADDRESS:PORT",
)
@_go(
    "--source-list-debounce",
    "SOURCE_LIST_DEBOUNCE",
    "5s",
    "Age of a change of the list before a later pass publishes it; 0 for at once.",
    _duration,
    metavar="DURATION",
)
@_go(
    "--health-addr",
    "HEALTH_ADDR",
    ":8091",
    "Address of /healthz, /readyz and /metrics; '' for no such listener.",
    metavar="ADDRESS:PORT",
)
@_go(
    "--health-stale-after",
    "HEALTH_STALE_AFTER",
    "10m",
    "Time without a pass that ended after which /healthz is 503; 0 for never.",
    _duration,
    metavar="DURATION",
)
@_go(
    "--enable-state-annotations",
    "ENABLE_STATE_ANNOTATIONS",
    "false",
    "Keep api-state and power-state of a machine as annotations of its Services.",
    _switch,
    **_SWITCH,
)
@click.option(
    "--state-annotation-rate",
    type=click.FloatRange(0, 1000),
    default=2.0,
    show_default=True,
    help="Services a second whose state annotations are written, at the most; 0 for never.",
)
@click.option(
    "--addressing",
    type=click.Choice(["external-ips", "cluster-ip"]),
    default="external-ips",
    show_default=True,
    help="Where a Service has the address of its BMC.",
)
@click.option(
    "--status-url",
    metavar="URL",
    default="https://{name}.{namespace}.svc.cluster.local:{port}",
    show_default=True,
    help="Where simulators are asked for /machines/status, by their Service.",
)
@click.option(
    "--status-ca",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Authorities of the simulators' certificates, PEM; followed when it changes.  [default: the system's]",
)
@click.option(
    "--leader-election",
    type=click.Choice(["auto", "required", "off"]),
    default="auto",
    show_default=True,
    help="Work only while holding the Lease bmcsim-controller. auto: without one where Leases may not be used.",
)
@click.option(
    "--qps",
    type=click.FloatRange(0, 10_000),
    default=100.0,
    show_default=True,
    help="Calls to the API server a second; 0 for no limit.",
)
@click.option(
    "--burst", type=click.IntRange(1, 100_000), default=200, show_default=True, help="Calls at once after a rest."
)
@click.option("--dry-run", is_flag=True, help="Print what one pass would do, and do nothing.")
@click.option(
    "--once", is_flag=True, help="Make one pass. Exit code 1 if all is not as it should be, 3 if another one leads."
)
@click.pass_context
def controller(ctx: click.Context, /, **flags: Any) -> None:
    """Keep one Kubernetes Service for each BMC of the simulators in a namespace.

    Takes the place of mat-k8s-controller, with its flags and variables.
    """
    from bmcsim.edges.k8s.access import AccessError
    from bmcsim.edges.k8s.listeners import ListenError

    given = _Given(**flags)
    configure(LogOptions(given.log_format, _LEVELS.get(given.log_level.lower(), "info")))
    if given.sync_interval <= 0:
        raise click.UsageError("--sync-interval must be longer than 0")
    try:
        access, trust = _access(given), _trust(given)
        code = asyncio.run(_run(given, access, trust))
    except (AccessError, ListenError) as error:
        raise click.ClickException(str(error)) from error
    ctx.exit(code)


def _access(given: _Given) -> "Access":
    from bmcsim.edges.k8s.access import by_kubeconfig, in_cluster

    return by_kubeconfig(Path(given.kubeconfig)) if given.kubeconfig else in_cluster(os.environ)


def _trust(given: _Given) -> "Trust":
    from bmcsim.edges.k8s.access import Trust

    try:
        url = given.status_url.format(name="name", namespace="namespace", port=443)
    except (KeyError, IndexError, ValueError):
        url = ""
    if not url.startswith(("http://", "https://")) or any(mark in url for mark in "?#@"):
        raise click.UsageError(
            "--status-url must be http:// or https:// without user, query and fragment, with {name}, {namespace} and "
            f"{{port}} where those go, not {given.status_url!r}"
        )
    return Trust(given.status_ca, insecure=given.insecure_skip_verify)


async def _run(given: _Given, access: "Access", trust: "Trust") -> int:
    from prometheus_client import CollectorRegistry
    from prometheus_client.process_collector import ProcessCollector

    from bmcsim.edges.k8s.api import Api
    from bmcsim.edges.k8s.controller import Controller, Options
    from bmcsim.edges.k8s.daemon import Daemon
    from bmcsim.edges.k8s.election import Election
    from bmcsim.edges.k8s.limits import Bucket
    from bmcsim.edges.k8s.listeners import Health, Listener, health_app, parse, sources_app
    from bmcsim.edges.k8s.metrics import ControllerCollector
    from bmcsim.edges.k8s.poller import Poller
    from bmcsim.edges.k8s.sources import SourceList

    health_at = parse(given.health_addr, "--health-addr")
    sources_at = parse(given.source_list_addr, "--source-list-addr", loopback=True)
    once = given.once or given.dry_run
    api = Api(access, given.namespace, Bucket(given.qps, given.burst, time.monotonic))
    poller = Poller(trust)
    election = None
    if given.leader_election != "off" and not given.dry_run:
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        required = given.leader_election == "required"
        election = Election(api, identity, time.monotonic, time.time, required=required)
    sources, health = SourceList(given.source_list_debounce), Health(given.health_stale_after, time.monotonic)
    options = Options(
        url=given.status_url,
        discovery=given.discovery_selector,
        target=given.target_selector,
        addressing="cluster-ip" if given.addressing == "cluster-ip" else "external-ips",
        states=given.enable_state_annotations,
        states_per_second=given.state_annotation_rate,
        dry_run=click.echo if given.dry_run else None,
    )
    keeper = Controller(api, poller, sources, options, time.monotonic, lambda: election is None or election.leading)
    daemon = Daemon(api, poller, sources, keeper, health, election)
    registry = CollectorRegistry()
    registry.register(ControllerCollector(daemon))
    ProcessCollector(registry=registry)
    listeners = []
    try:
        if health_at is not None and not once:
            listeners.append(Listener(health_app(health, registry), health_at))
        if sources_at is not None and not once:
            listeners.append(Listener(sources_app(sources), sources_at))
        for listener in listeners:
            await listener.start()
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if once:
            return await _until(stop, daemon.once(_LEADER_SECONDS))
        await daemon.run(given.sync_interval, stop)
        return 0
    finally:
        for listener in listeners:
            await listener.stop()
        await poller.close()
        await api.close()


async def _until(stop: asyncio.Event, work: Any) -> int:
    """What it ends with, 1 when it is stopped first."""
    one, ending = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait([one, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not one.done():
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        return 1
    return int(one.result())
