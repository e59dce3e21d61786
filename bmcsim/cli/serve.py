"""`bmcsim serve`: a fleet on one port."""

import asyncio
import contextlib
import math
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import uvloop

from bmcsim.cli.control import ControlOptions, Guards, control_of, control_options, guards_of, members_of
from bmcsim.cli.domain import domain_option
from bmcsim.cli.logs import LogOptions, configure, log_options
from bmcsim.cli.nico import Nico, NicoOptions, Site, nico_options, site_of
from bmcsim.cli.shards import supervise
from bmcsim.core.clock import SystemClock
from bmcsim.edges.control import api
from bmcsim.edges.control.guard import TokenError
from bmcsim.edges.control.metrics import ControlCollector
from bmcsim.edges.control.status import Compatible
from bmcsim.edges.dhcp.metrics import RelayCollector
from bmcsim.edges.dhcp.relay import Relay, RelayError
from bmcsim.edges.http import listen, tls
from bmcsim.edges.http.access import AccessLog
from bmcsim.edges.http.admin import admin_app
from bmcsim.edges.http.context import Context, Limits
from bmcsim.edges.http.forwarding import ForwardingError, Name, Peers, names_in, names_of, open_named, open_unnamed
from bmcsim.edges.http.lanes import Desk
from bmcsim.edges.http.metrics import FleetCollector, registry_of
from bmcsim.edges.http.server import (
    Departures,
    Housekeeper,
    Service,
    admin_listener,
    fix_mmap_threshold,
    listening,
    raise_file_limit,
    redfish_listener,
    run,
)
from bmcsim.edges.nico.certificates import NicoError
from bmcsim.edges.process import Pauses, ProcessCollector
from bmcsim.edges.push import Pusher
from bmcsim.edges.ssdp.port import Port, SsdpError
from bmcsim.edges.ssdp.responder import Responder
from bmcsim.edges.web import page
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet import converters
from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.build import Builder
from bmcsim.fleet.conduct import POLICIES, Conduct, fault_rules, preset_name
from bmcsim.fleet.config import DURABILITIES, MAX_RACKS, PROGRESSIONS, FleetConfig
from bmcsim.fleet.converters import MAX_TIME_SCALE
from bmcsim.fleet.dhcp_config import RelayConfig
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.durability import Keeper, Restorer, fingerprint
from bmcsim.fleet.events import Hub
from bmcsim.fleet.journal import Journal, NotSaved
from bmcsim.fleet.keys import Keys, Passwords
from bmcsim.fleet.leases import Backend, Leases
from bmcsim.fleet.registry import DuplicateBmc, Fleet
from bmcsim.fleet.roster import NOBODY, RosterError, added
from bmcsim.fleet.roster import members as everybody
from bmcsim.fleet.shards import MAX_SHARDS, Shard, split, state_directory
from bmcsim.fleet.store import StateError, Store
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.resources import Policy
from bmcsim.tree import presets, registry_files
from bmcsim.tree import profile as profiles
from bmcsim.tree.schema_files import SchemaFiles
from bmcsim.tree.source import ProfileError

DEFAULT_LISTEN = "127.0.0.0/8:{port}"
DEFAULT_ADMIN = "127.0.0.1:9090"
_TIMERS_AT_ONCE = 50


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
    of_hosts = hosts is not None or dpus is not None or profile is not None
    if fleet is not None and (of_hosts or racks is not None):
        raise click.UsageError(
            "--hosts, --dpus, --profile and --racks describe a fleet without a file; leave them out or the file"
        )
    if of_hosts and racks is not None:
        raise click.UsageError("--racks and --hosts, --dpus and --profile exclude each other; a file may have both")
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
        if fleet is not None:
            config = fleet_config.load(fleet, pool=dhcp == "pool", mat=mat).with_choices(
                host_bmc_password=host_password, dpu_bmc_password=dpu_password
            )
        else:
            config = fleet_config.default(
                hosts or 4500,
                dpus,
                profile or "dell_poweredge_r750",
                host_password,
                dpu_password,
                racks=racks or 0,
            )
        config = config.with_choices(
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
        common = (
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
            _serve(*common, admin, parts[0])
        else:
            sys.exit(_serve_all(partial(_serve, *common), redfish, admin, parts))


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


class _Part(NamedTuple):
    """What one process serves. shard: None for the whole fleet. state: its directory, None without one. sock: that it
    listens on, None where it has to open one. desk: where other parts hand requests over; names: of those of all
    parts."""

    shard: Shard | None = None
    state: Path | None = None
    sock: socket.socket | None = None
    desk: socket.socket | None = None
    names: Sequence[Name] = ()


def _part(text: str) -> tuple[int, int]:
    """'2/4' -> (2, 4). Raises BadParameter."""
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= MAX_SHARDS:
        return int(number), int(count)
    raise click.BadParameter(
        f"{text!r} must be I/N, such as 1/2, N up to {MAX_SHARDS} and I up to N.", param_hint="'--shard'"
    )


def _parts(config: FleetConfig, count: int, kept: Path | None) -> list[_Part]:
    shards = split(config, count) if count > 1 else (None,)
    return [_Part(shard, None if kept is None else state_directory(kept, shard)) for shard in shards]


def _serve_all(
    serve_one: Callable[[listen.Listen | None, _Part], None],
    redfish: listen.Listen,
    admin: listen.Listen | None,
    parts: Sequence[_Part],
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


def _serve(
    config: FleetConfig,
    redfish: listen.Listen,
    served_tls: tls.Served | None,
    quarantine: bool,
    files: registry_files.RegistryFiles,
    schemas: SchemaFiles | None,
    ssdp: str | None,
    site: Site | None,
    guards: Guards,
    access: AccessLog | None,
    admin: listen.Listen | None,
    part: _Part,
) -> None:
    started = time.monotonic()
    pauses = Pauses()
    clock = SystemClock(0.0 if config.progression == "manual" else config.time_scale)
    bmcs = Fleet()
    shard = part.shard
    bmcs.expected = config.bmc_count if shard is None else shard.stop - shard.start
    if shard is not None:
        bmcs.elsewhere = shard.others
    store = None
    if part.state is not None:
        store = Store.open(
            part.state, fingerprint(config), full_sync=config.durability == "full", quarantine=quarantine
        )

    async def main() -> None:
        loop = asyncio.get_running_loop()

        wakes: asyncio.TimerHandle | None = None

        def wake(seconds: float) -> None:
            nonlocal wakes
            if wakes is not None:
                wakes.cancel()
            wakes = loop.call_later(seconds, driver.run_due, _TIMERS_AT_ONCE)

        driver = Driver(clock, wake, immediate=config.progression == "immediate")
        context = Context(bmcs, driver, clock, _limits(config), None if redfish.everything else redfish.network)
        if access is not None:
            context.log_access(access)
        keeper = None
        if store is not None:
            keeper = Keeper(Journal(store, loop), driver)
            context.commit, driver.changed = keeper.commit, keeper.changed
        changed = keeper.changed if keeper else _committed
        pusher = Pusher(clock, config.event_destinations, changed)
        driver.emit = Hub(clock, pusher.push).emit
        with contextlib.ExitStack() as opened:
            sock, warning = (part.sock, "") if part.sock is not None else listen.open_socket(redfish)
            opened.callback(sock.close)
            discovery = None
            if ssdp is not None:
                discovery = Port(ssdp)
                opened.callback(discovery.stop)
            admin_sock = None if admin is None else listen.open_socket(admin, "--admin")[0]
            leases = Leases(bmcs, clock, loop.call_later, changed=changed)
            server: Backend | None = None
            relay = None
            if isinstance(config.dhcp, RelayConfig):
                server = relay = _relay(config.dhcp)
                relay.start(leases.heard)
            port = sock.getsockname()[1]
            nico = None
            if site is not None:
                nico = Nico(config, site, shard, port, leases.heard)
                server = nico.dhcp if nico.dhcp is not None else server
            opened.pop_all()
        if warning:
            click.echo(f"warning: {warning}", err=True)
        if discovery is not None:
            scheme = "https" if served_tls is not None else "http"
            discovery.start(Responder(bmcs, clock, scheme, port, discovery.send, loop.call_later))
        shared = listening(context)
        bmcs.vacated = Departures(shared, loop.call_soon).left
        driver.readdress = lambda bmc: readdress(bmcs, bmc, driver.leases)
        redfish_server = redfish_listener(context, sock, served_tls, shared)
        listeners: list[Service] = [redfish_server]
        desk = None
        if shard is not None and part.desk is not None:
            desk = Desk(context, shared, part.desk)
            # First, so that no lane is opened while the listener waits for those that are there to end.
            listeners.insert(0, desk)
            context.peers = Peers(shard.number_of, part.names, shard.number)
            context.peers.start()
        clients = leases if server is not None else None
        inventory = nico.status if nico is not None else None
        control = control_of(config, context, guards.admin, clients, inventory)
        hasher = Hasher(store.key if store else None)
        keys = Keys(hasher, Passwords(config.host_bmc_password, config.dpu_bmc_password))
        members = members_of(control, keeper.journal if keeper else None, keys, alone=shard is None)
        listeners.insert(0, control)
        context.outside = Compatible(control, port, guard=guards.redfish, page=page.Page("status")).at
        if admin is not None and admin_sock is not None:
            journal = keeper.journal if keeper else None
            collector = FleetCollector(context.metrics, bmcs, driver, journal, pusher.counted, clients, store)
            process = ProcessCollector(control.version, control.started, pauses)
            registry = registry_of(collector, ControlCollector(control), process)
            if relay is not None:
                registry.register(RelayCollector(relay.counted))
            if nico is not None:
                registry.register(nico.collector)
            app = admin_app(
                bmcs,
                registry,
                [*page.routes(), *api.routes(control)],
                inventory=inventory,
                leases=clients,
                refusals=api.REFUSALS,
                survey=collector.survey,
            )
            listeners.append(admin_listener(app, admin_sock))

        async def build() -> None:
            restorer = Restorer(store, clock, keys) if store is not None else None
            born = clock.now().wall if restorer is None else restorer.born
            roster = NOBODY if restorer is None else restorer.roster
            builder = Builder(config, hasher, born, restorer, files, schemas, shard)
            for _ in builder.populate(bmcs, everybody(config, roster) if roster else None):
                await asyncio.sleep(0)
            if server is not None:
                driver.leases = leases
                leases.begin(server)
            for bmc in bmcs:
                driver.execute(bmc, ())
            announced = _Banner(bmcs, redfish, port, served_tls is not None, started, shard)
            announced.say()
            if server is not None and bmcs.homeless:
                leases.tell_complete(announced.say_complete)
            _report(store, restorer)
            members.begin(builder, roster)
            if nico is not None:
                members.added = nico.register_more
                await nico.begin(bmcs, [one for addition in roster.additions for one in added(addition, config)])

        try:
            await run(listeners, Housekeeper(context, redfish_server, clock, served_tls), build)
        finally:
            if discovery is not None:
                discovery.stop()
            if desk is not None and context.peers is not None:
                desk.close()
                context.peers.close()
            leases.close()
            if server is not None:
                await server.close()
            if nico is not None:
                await nico.stop()
            await pusher.close()
            if keeper is not None:
                await keeper.journal.close()

    fix_mmap_threshold()
    raise_file_limit()
    pauses.begin()
    try:
        uvloop.run(main())
    except NotSaved as error:
        raise click.ClickException(str(error)) from error
    finally:
        pauses.end()
        if store is not None:
            store.close()


def _committed(bmc: Bmc) -> None:
    """A change that is kept nowhere is done."""
    bmc.committed()


def _relay(dhcp: RelayConfig) -> Relay:
    server, listen_on = dhcp.server, dhcp.listen
    return Relay((server.address, server.port), (listen_on.address, listen_on.port), dhcp.advertise, dhcp.window)


def _limits(config: FleetConfig) -> Limits:
    given = {"idle_seconds": config.idle_close, "requests": config.connection_requests}
    return msgspec.structs.replace(Limits(), **{name: value for name, value in given.items() if value is not None})


def _report(store: Store | None, restorer: Restorer | None) -> None:
    """Say what a start with a state directory found; the store itself says what it set aside."""
    if store is None or restorer is None:
        return
    if restorer.left:
        click.echo(
            f"warning: kept for BMCs that the fleet does not have now: the state of {_some(restorer.left)}",
            err=True,
        )


def _some(ids: list[str]) -> str:
    """A list of ids that fits a line."""
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


class _Banner:
    """What is said once every BMC is there, and, where they lease their addresses, once each has one."""

    def __init__(
        self, bmcs: Fleet, served: listen.Listen, port: int, with_tls: bool, started: float, shard: Shard | None
    ) -> None:
        """started: monotonic time."""
        self._bmcs, self._served, self._port, self._with_tls, self._started = bmcs, served, port, with_tls, started
        self._who = f"shard {shard}: " if shard is not None else ""

    def say(self) -> None:
        """Every BMC is there."""
        bmcs = self._bmcs
        some = [bmc.address for bmc in bmcs if bmc.address]
        where = f"{some[0]} to {some[-1]}" if some and not bmcs.leased else f"{len(some)} of them with an address"
        said = [f"{self._who}{len(bmcs)} BMCs ready after {self._seconds:.1f} s, {where}, port {self._port}"]
        said += [f"  {line}" for line in _credentials(bmcs)]
        if some:
            said.append(self._try(some[0]))
        _say(said)

    def say_complete(self) -> None:
        """Every BMC has an address."""
        bmcs = self._bmcs
        _say([f"all {len(bmcs)} BMCs have an address after {self._seconds:.1f} s", self._try(next(iter(bmcs)).address)])

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _try(self, address: str) -> str:
        scheme, insecure = ("https", "-k ") if self._with_tls else ("http", "")
        network = self._served.network
        if self._served.loopback and network.num_addresses > 1 and address.startswith("127."):
            return f"Try: curl {insecure}{scheme}://{address}:{self._port}/redfish/v1/"
        here = str(network.network_address) if network.num_addresses == 1 else "127.0.0.1"
        forwarded = f"-H 'Forwarded: host={address}'"
        return f"Try: curl {insecure}{forwarded} {scheme}://{here}:{self._port}/redfish/v1/"


def _say(lines: list[str]) -> None:
    click.echo("\n".join(lines))
    # At once: other shards say theirs.
    sys.stdout.flush()


def _credentials(bmcs: Fleet) -> list[str]:
    """One line per kind of hardware and of password, with how many there are where a kind has several.

    A password that the user chose is not repeated.
    """
    lines = Counter((bmc.tree.head.title, _credential(bmc)) for bmc in bmcs)
    kinds = Counter(title for title, _ in lines)
    return [
        f"{title}{f' ({count} of them)' if several > 1 else ''}: {what}"
        for title, several in kinds.items()
        for (of, what), count in lines.most_common()
        if of == title
    ]


def _credential(bmc: Bmc) -> str:
    head = bmc.tree.head
    factory = head.accounts[0]
    account = bmc.accounts.get(factory.id)
    if account is not None and account.digest == account.factory:
        change = "" if account.exempt else ", to be changed first"
        return f"{factory.user} / {factory.password} (factory password{change})"
    first = bmc.shared.accounts.get(factory.id)
    given = account is not None and first is not None and account.digest == first.digest
    return f"{factory.user} / the password that {'you gave' if given else 'it was changed to'}"
