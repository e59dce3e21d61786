"""`bmcsim serve`: a fleet on one port."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import click
import msgspec

from bmcsim.cli.choice import Choice
from bmcsim.cli.control import ControlOptions, control_options, guards_of
from bmcsim.cli.domain import domain_option
from bmcsim.cli.logs import LogOptions, configure, log_options
from bmcsim.cli.nico import NicoOptions, nico_options, site_of
from bmcsim.cli.process import Part, Plan, serve_part
from bmcsim.cli.shards import supervise
from bmcsim.edges.control.guard import TokenError
from bmcsim.edges.dhcp.relay import RelayError
from bmcsim.edges.http import listen, tls
from bmcsim.edges.http.access import AccessLog
from bmcsim.edges.http.forwarding import ForwardingError, names_in, names_of, open_named, open_unnamed
from bmcsim.edges.nico.certificates import NicoError
from bmcsim.edges.ssdp.port import SsdpError
from bmcsim.fleet import converters
from bmcsim.fleet.conduct import POLICIES, Conduct, fault_rules, preset_name
from bmcsim.fleet.config import DURABILITIES, MAX_RACKS, PROGRESSIONS, FleetConfig
from bmcsim.fleet.converters import MAX_TIME_SCALE
from bmcsim.fleet.registry import DuplicateBmc
from bmcsim.fleet.roster import RosterError
from bmcsim.fleet.shards import MAX_SHARDS, split, state_directory
from bmcsim.fleet.store import StateError
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.resources import Policy
from bmcsim.tree import presets, registry_files
from bmcsim.tree import profile as profiles
from bmcsim.tree.schema_files import SchemaFiles
from bmcsim.tree.source import ProfileError

DEFAULT_LISTEN = "127.0.0.0/8:{port}"
DEFAULT_ADMIN = "127.0.0.1:9090"


@click.command()
@click.argument("fleet", required=False, type=click.Path(path_type=Path), metavar="[FLEET.toml]")
@click.option("--hosts", type=click.IntRange(1, 1_000_000), help="Hosts to serve without a file.  [default: 4500]")
@click.option("--dpus", type=click.IntRange(0, 8), help="DPUs of each host.  [default: 2]")
@click.option("--profile", metavar="NAME", help="Hardware of the hosts.  [default: dell_poweredge_r750]")
@click.option("--racks", type=click.IntRange(1, MAX_RACKS), help="Racks to serve without a file, instead of hosts.")
@click.option("--host-password", metavar="P", help="Host BMCs start as already rotated to P.")
@click.option("--dpu-password", metavar="P", help="DPU BMCs start as already rotated to P.")
@click.option(
    "--listen",
    "listen_on",
    envvar="BMCSIM_SERVE_LISTEN",
    metavar="ADDRESS:PORT",
    help="Where to serve Redfish.  [default: 127.0.0.0/8:1266]",
)
@click.option(
    "--admin",
    "admin_on",
    envvar="BMCSIM_SERVE_ADMIN",
    metavar="ADDRESS:PORT",
    help=f"Health, metrics and the control API; 'off' for none.  [default: {DEFAULT_ADMIN}]",
)
@click.option(
    "--shards",
    type=click.IntRange(1, MAX_SHARDS),
    help="Serve the fleet with so many processes, about one for each core, behind one address. Shard I has the admin"
    " port of --admin plus I - 1.  [default: 1]",
)
@click.option(
    "--shard",
    "part",
    envvar="BMCSIM_SERVE_SHARD",
    metavar="I/N",
    help="Serve only the Ith of N parts of the fleet, at an address of its own. The other parts run elsewhere.",
)
@click.option(
    "--peers",
    envvar="BMCSIM_SERVE_PEERS",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory in which the parts of --shard find each other. A request for a BMC of another part is then handed"
    " to that one.  [default: such a request is refused with 421]",
)
@click.option(
    "--dhcp",
    type=click.Choice(["pool"]),
    help="Take addresses from a pool, whatever the fleet file says.",
)
@domain_option
@control_options
@nico_options
@click.option(
    "--ssdp",
    metavar="INTERFACE",
    help="Answer SSDP searches that come in by this network interface (its name, such as lo, or its IPv4 address), for"
    " BMCs whose ManagerNetworkProtocol says so: all, unless a fleet file says otherwise.  [default: none]",
)
@click.option(
    "--event-destination",
    "event_destinations",
    multiple=True,
    metavar="NETWORK",
    help="Where BMCs may send events to, such as 10.0.0.0/8; may be repeated.  [default: 127.0.0.0/8, ::1/128]",
)
@click.option(
    "--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="Certificate chain, PEM; changes are noticed."
)
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="Its key, PEM.")
@click.option("--no-tls", is_flag=True, help="Serve plain HTTP.")
@click.option(
    "--state-dir",
    envvar="BMCSIM_SERVE_STATE_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory that keeps the BMCs' state and the certificate; without one a restart is a fresh start.",
)
@click.option(
    "--durability",
    type=click.Choice(DURABILITIES),
    help="What changes survive: the death of the process (normal), a power cut too (full).  [default: normal]",
)
@click.option("--quarantine", is_flag=True, help="Set damaged rows of the state directory aside instead of stopping.")
@click.option(
    "--time-scale",
    type=click.FloatRange(0, MAX_TIME_SCALE, min_open=True),
    callback=lambda _context, _option, value: None if value is None else _a_number(value),
    help="How much faster hardware is.  [default: 1]",
)
@click.option(
    "--progression",
    type=click.Choice(PROGRESSIONS),
    help="How hardware's time passes: as scaled, not at all (everything is done at once), by hand.  [default: timed]",
)
@click.option("--preset", metavar="NAME", help=f"Time preset: {', '.join(presets.names())}.")
@click.option(
    "--credentials",
    type=click.Choice(POLICIES),
    help="What becomes of a changed password when a BMC or the process restarts: it persists, or returns to the"
    " factory's or to the one of --host-password and --dpu-password.  [default: persist, with a given password pinned]",
)
@click.option(
    "--registries",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory of message registries, such as Base.1.22.1.json, for the BMCs to serve.",
)
@click.option(
    "--schemas",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory of JSON schemas and CSDL files, such as DMTF's DSP8010, for the BMCs to serve.",
)
@click.option("--fault", "faults", multiple=True, metavar="NAME", help="Fault preset for all BMCs (bmcsim fault list).")
@click.option("--mat", is_flag=True, hidden=True, help="Started by `bmcsim mat`, which uses more of the fleet file.")
@click.option(
    "--access-log",
    type=click.FloatRange(0, 1),
    callback=lambda _context, _option, value: _a_number(value),
    default=0.0,
    show_default=True,
    metavar="RATE",
    help="Log this part of the requests to BMCs, such as 0.01, and 1 for all.",
)
@log_options("BMCSIM_SERVE")
def serve(
    fleet: Path | None,
    hosts: int | None,
    dpus: int | None,
    profile: str | None,
    racks: int | None,
    host_password: str | None,
    dpu_password: str | None,
    listen_on: str | None,
    admin_on: str | None,
    shards: int | None,
    part: str | None,
    peers: Path | None,
    dhcp: str | None,
    domain: str | None,
    control: ControlOptions,
    nico: NicoOptions,
    ssdp: str | None,
    event_destinations: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    no_tls: bool,
    state_dir: Path | None,
    durability: str | None,
    quarantine: bool,
    time_scale: float | None,
    progression: str | None,
    preset: str | None,
    credentials: Policy | None,
    registries: Path | None,
    schemas: Path | None,
    faults: tuple[str, ...],
    mat: bool,
    access_log: float,
    logs: LogOptions,
) -> None:
    """Serve a fleet of BMCs over Redfish.

    Without a file: 4,500 Dell R750 hosts with two BlueField-3 DPUs each, on 127.64.0.0/18 port 1266.
    """
    configure(logs)
    choice = Choice(fleet, hosts, dpus, profile, racks)
    choice.check()
    if no_tls and (tls_cert or tls_key):
        raise click.UsageError("--no-tls and --tls-cert/--tls-key exclude each other")
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if shards is not None and part is not None:
        raise click.UsageError("--shards starts all parts and --shard one of them; leave one of the two out")
    if peers is not None and part is None:
        raise click.UsageError("--peers is for parts that are started one by one; add --shard I/N, or leave it out")
    number, count = _part(part) if part is not None else (1, shards or 1)
    with _said():
        config = choice.load(host_password, dpu_password, pool=dhcp == "pool", mat=mat).with_choices(
            state_dir=str(state_dir) if state_dir else None,
            durability=durability,
            time_scale=time_scale,
            progression=progression,
            domain=domain,
            event_destinations=_destinations(event_destinations),
            conduct=_conduct(preset, credentials, faults),
        )
        if ssdp is not None:
            config = msgspec.structs.replace(config, conduct=config.conduct.within(Conduct(ssdp="enabled")))
        _check_kept(config, durability, quarantine)
        for group in config.groups:
            profiles.find(group.hw_type)
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
        redfish = _listen("--listen", listen_on, config.listen or DEFAULT_LISTEN.format(port=config.port), fleet)
        admin = None
        if (admin_on or config.admin) != "off":
            admin = _listen("--admin", admin_on, config.admin or DEFAULT_ADMIN, fleet)
        kept = Path(config.state_dir) if config.state_dir else None
        parts = _parts(config, count, kept)
        if part is not None:
            parts = [parts[number - 1]]
            kept = parts[0].state
            if peers is not None and count > 1:
                names = names_in(peers, count)
                parts = [parts[0]._replace(names=names, desk=open_named(Path(names[number - 1])))]
        plan = Plan(
            config,
            redfish,
            _tls(tls_cert, tls_key, no_tls, kept),
            quarantine,
            registry_files.read(registries) if registries is not None else {},
            SchemaFiles(schemas) if schemas is not None else None,
            ssdp,
            site_of(config, nico, Path.home()),
            guards_of(control, admin, redfish),
            AccessLog(access_log) if access_log else None,
        )
        if len(parts) == 1:
            serve_part(plan, admin, parts[0])
        else:
            sys.exit(_serve_all(partial(serve_part, plan), redfish, admin, parts))


_USERS_ERRORS = (
    ConfigError,
    ProfileError,
    DuplicateBmc,
    StateError,
    listen.ListenError,
    tls.TlsError,
    SsdpError,
    ForwardingError,
    RelayError,
    NicoError,
    TokenError,
    RosterError,
)


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """What a user can put right is said in a line."""
    try:
        yield
    except _USERS_ERRORS as error:
        raise click.ClickException(str(error)) from error


def _part(text: str) -> tuple[int, int]:
    """'2/4' -> (2, 4). Raises BadParameter."""
    number, _, count = text.partition("/")
    numbers = len(text) <= 5 and number.isdecimal() and count.isdecimal()
    if numbers and 1 <= int(number) <= int(count) <= MAX_SHARDS:
        return int(number), int(count)
    raise click.BadParameter(
        f"{text!r} must be I/N, such as 1/2, N up to {MAX_SHARDS} and I up to N.", param_hint="'--shard'"
    )


def _parts(config: FleetConfig, count: int, kept: Path | None) -> list[Part]:
    shards = split(config, count) if count > 1 else (None,)
    return [Part(shard, None if kept is None else state_directory(kept, shard)) for shard in shards]


def _serve_all(
    serve_one: Callable[[listen.Listen | None, Part], None],
    redfish: listen.Listen,
    admin: listen.Listen | None,
    parts: Sequence[Part],
) -> int:
    """Serve every part in a process of its own; the exit status."""
    if admin is not None and admin.port + len(parts) - 1 > 65535:
        raise click.UsageError(f"{len(parts)} shards have as many admin ports from {admin.port} on, up to 65535")
    shards = [part.shard for part in parts if part.shard is not None]
    socks = listen.open_sockets(redfish, shards[0].firsts, shards[0].last)
    desks = open_unnamed(len(parts))
    names = names_of(desks)

    def close_desks() -> None:
        for desk in desks:
            desk.close()

    def of(number: int) -> Callable[[], None]:
        own = admin if admin is None or admin.port == 0 else msgspec.structs.replace(admin, port=admin.port + number)

        def run() -> None:
            for other in (*socks, *desks):
                if other not in (socks[number], desks[number]):
                    other.close()
            with _said():
                serve_one(own, parts[number]._replace(sock=socks[number], desk=desks[number], names=names))

        return run

    # The one that watches keeps no desk open: nobody is to wait there for a part that has ended.
    return supervise([of(number) for number in range(len(parts))], close_desks)


def _a_number(value: float) -> float:
    """A number as it is; nan is in click's ranges. Raises BadParameter."""
    if math.isnan(value):
        raise click.BadParameter(f"{value} is not a number.")
    return value


def _check_kept(config: FleetConfig, durability: str | None, quarantine: bool) -> None:
    """Raises UsageError for options about a state directory where there is none; a file's word is a warning."""
    if config.state_dir is not None:
        return
    given = {"--durability": durability is not None, "--quarantine": quarantine}
    if useless := [option for option, is_given in given.items() if is_given]:
        raise click.UsageError(
            f"{' and '.join(useless)} {'is' if len(useless) == 1 else 'are'} about a state directory, and there is "
            "none; add --state-dir, or state_dir to the fleet file"
        )
    if config.durability != "normal":
        click.echo(f"warning: durability = {config.durability!r} does nothing without a state directory", err=True)


def _listen(option: str, given: str | None, otherwise: str, fleet: Path | None) -> listen.Listen:
    """Where to listen. otherwise: what counts where the option is not given.

    Raises BadParameter, or ConfigError for an address of the fleet file.
    """
    try:
        return listen.parse_listen(otherwise if given is None else given)
    except listen.ListenError as error:
        if given is not None:
            raise click.BadParameter(str(error), param_hint=f"'{option}'") from error
        raise ConfigError(f"{fleet}: bmcsim.{option[2:]}: {error}") from error


def _destinations(networks: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...] | None:
    try:
        return converters.destinations(list(networks)) if networks else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--event-destination'") from error


def _conduct(preset: str | None, credentials: Policy | None, faults: tuple[str, ...]) -> Conduct:
    try:
        wanted = preset_name(preset) if preset is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--preset'") from error
    try:
        return Conduct(wanted, credentials, faults=fault_rules(list(dict.fromkeys(faults))) if faults else None)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--fault'") from error


def _tls(cert: Path | None, key: Path | None, off: bool, state_dir: Path | None) -> tls.Served | None:
    if off:
        return None
    if cert is not None and key is not None:
        return tls.Served.of_files(cert, key)
    if state_dir is not None:
        return tls.Served.of_files(*tls.kept_certificate(state_dir))
    return tls.Served(tls.transient_context())
