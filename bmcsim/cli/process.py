"""One process of `bmcsim serve`: what it is made of, in which order that begins, and how it ends."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import uvloop
from starlette.applications import Starlette

from bmcsim.cli.banner import Banner, report
from bmcsim.cli.control import Guards, control_of, members_of
from bmcsim.cli.nico import Nico, Site
from bmcsim.core.clock import SystemClock
from bmcsim.edges.control import api
from bmcsim.edges.control.metrics import ControlCollector
from bmcsim.edges.control.status import Compatible
from bmcsim.edges.dhcp.metrics import RelayCollector
from bmcsim.edges.dhcp.relay import Relay
from bmcsim.edges.http import listen, tls
from bmcsim.edges.http.access import AccessLog
from bmcsim.edges.http.admin import admin_app
from bmcsim.edges.http.context import Context, Limits
from bmcsim.edges.http.forwarding import Name, Peers
from bmcsim.edges.http.lanes import Desk
from bmcsim.edges.http.metrics import FleetCollector, registry_of
from bmcsim.edges.http.server import (
    Departures,
    Housekeeper,
    Service,
    admin_listener,
    listening,
    raise_file_limit,
    redfish_listener,
    run,
)
from bmcsim.edges.process import Pauses, ProcessCollector
from bmcsim.edges.push import Pusher
from bmcsim.edges.ssdp.port import Port
from bmcsim.edges.ssdp.responder import Responder
from bmcsim.edges.web import page
from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.dhcp_config import RelayConfig
from bmcsim.fleet.driver import TIMERS_AT_ONCE, Driver
from bmcsim.fleet.durability import Keeper, Restorer, fingerprint
from bmcsim.fleet.events import Hub
from bmcsim.fleet.journal import Journal, NotSaved
from bmcsim.fleet.keys import Keys, Passwords
from bmcsim.fleet.leases import Backend, Leases
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.roster import NOBODY, added
from bmcsim.fleet.roster import members as everybody
from bmcsim.fleet.shards import Shard
from bmcsim.fleet.store import Store
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.tree.registry_files import RegistryFiles
from bmcsim.tree.schema_files import SchemaFiles


class Plan(NamedTuple):
    """What all processes of a fleet have in common.

    certificate: None without TLS. files: message registries that every BMC serves, schemas: and schema files. ssdp:
    interface for discovery, None for none. site: the NICo that is told of the fleet. access: log of requests.
    """

    config: FleetConfig
    redfish: listen.Listen
    certificate: tls.Served | None
    quarantine: bool
    files: RegistryFiles
    schemas: SchemaFiles | None
    ssdp: str | None
    site: Site | None
    guards: Guards
    access: AccessLog | None


class Part(NamedTuple):
    """What one process serves. shard: None for the whole fleet. state: its directory, None without one. sock: that it
    listens on, None where it has to open one. desk: where other parts hand requests over; names: of those of all
    parts."""

    shard: Shard | None = None
    state: Path | None = None
    sock: socket.socket | None = None
    desk: socket.socket | None = None
    names: Sequence[Name] = ()


def serve_part(plan: Plan, admin: listen.Listen | None, part: Part) -> None:
    """Serve a fleet, or a part of one, until SIGINT or SIGTERM.

    Raises what the user can put right (see `serve`), and ClickException where a change was lost.
    """
    started, pauses, store = time.monotonic(), Pauses(), None
    if part.state is not None:
        config = plan.config
        store = Store.open(
            part.state, fingerprint(config), full_sync=config.durability == "full", quarantine=plan.quarantine
        )

    async def main() -> None:
        await _Process(plan, admin, part, store, pauses, started).run()

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


class _Process:
    """Everything that lives on the loop of one process."""

    def __init__(
        self,
        plan: Plan,
        admin: listen.Listen | None,
        part: Part,
        store: Store | None,
        pauses: Pauses,
        started: float,
    ) -> None:
        """Opens sockets and files; where one cannot be had, none stays open."""
        config, shard = plan.config, part.shard
        self._plan, self._part, self._store, self._pauses, self._started = plan, part, store, pauses, started
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock(0.0 if config.progression == "manual" else config.time_scale)
        self._fleet = Fleet()
        self._fleet.expected = config.bmc_count if shard is None else shard.stop - shard.start
        if shard is not None:
            self._fleet.elsewhere = shard.others
        self._wakes: asyncio.TimerHandle | None = None
        self._driver = Driver(self._clock, self._wake, immediate=config.progression == "immediate")
        served = None if plan.redfish.everything else plan.redfish.network
        self._context = Context(self._fleet, self._driver, self._clock, limits(config), served)
        if plan.access is not None:
            self._context.log_access(plan.access)
        self._keeper: Keeper | None = None
        if store is not None:
            self._keeper = Keeper(Journal(store, self._loop), self._driver)
            self._context.commit, self._driver.changed = self._keeper.commit, self._keeper.changed
        changed = self._keeper.changed if self._keeper is not None else _committed
        self._pusher = Pusher(self._clock, config.event_destinations, changed)
        self._driver.emit = Hub(self._clock, self._pusher.push).emit
        self._leases = Leases(self._fleet, self._clock, self._loop.call_later, changed=changed)
        self._open(admin)
        self._wire(admin)

    def _wake(self, seconds: float) -> None:
        if self._wakes is not None:
            self._wakes.cancel()
        self._wakes = self._loop.call_later(seconds, self._driver.run_due, TIMERS_AT_ONCE)

    def _open(self, admin: listen.Listen | None) -> None:
        """What the system may refuse. Raises ListenError, SsdpError, RelayError and NicoError."""
        plan, part = self._plan, self._part
        with contextlib.ExitStack() as opened:
            self._sock, warning = (part.sock, "") if part.sock is not None else listen.open_socket(plan.redfish)
            opened.callback(self._sock.close)
            self._port = self._sock.getsockname()[1]
            self._discovery = None
            if plan.ssdp is not None:
                self._discovery = Port(plan.ssdp)
                opened.callback(self._discovery.stop)
            self._admin_sock = None if admin is None else listen.open_socket(admin, "--admin")[0]
            self._server: Backend | None = None
            self._relay = None
            if isinstance(plan.config.dhcp, RelayConfig):
                self._server = self._relay = _relay(plan.config.dhcp)
                self._relay.start(self._leases.heard)
            self._nico = None
            if plan.site is not None:
                self._nico = Nico(plan.config, plan.site, part.shard, self._port, self._leases.heard)
                if self._nico.dhcp is not None:
                    self._server = self._nico.dhcp
            opened.pop_all()
        if warning:
            click.echo(f"warning: {warning}", err=True)
        if self._discovery is not None:
            scheme = "https" if plan.certificate is not None else "http"
            send = self._discovery.send
            responder = Responder(self._fleet, self._clock, scheme, self._port, send, self._loop.call_later)
            self._discovery.start(responder)

    def _wire(self, admin: listen.Listen | None) -> None:
        """Who listens, in the order in which they begin, and what hangs together with what."""
        plan, part, context, fleet, driver = self._plan, self._part, self._context, self._fleet, self._driver
        shared = listening(context)
        fleet.vacated = Departures(shared, self._loop.call_soon).left
        driver.readdress = lambda bmc: readdress(fleet, bmc, driver.leases)
        self._redfish = redfish_listener(context, self._sock, plan.certificate, shared)
        self._listeners: list[Service] = [self._redfish]
        self._desk = None
        if part.shard is not None and part.desk is not None:
            self._desk = Desk(context, shared, part.desk)
            # First, so that no lane is opened while the listener waits for those that are there to end.
            self._listeners.insert(0, self._desk)
            context.peers = Peers(part.shard.number_of, part.names, part.shard.number)
            context.peers.start()
        journal = self._keeper.journal if self._keeper is not None else None
        inventory = self._nico.status if self._nico is not None else None
        self._control = control_of(plan.config, context, plan.guards.admin, self._clients, inventory)
        self._hasher = Hasher(self._store.key if self._store is not None else None)
        passwords = Passwords(plan.config.host_bmc_password, plan.config.dpu_bmc_password)
        self._keys = Keys(self._hasher, passwords)
        self._members = members_of(self._control, journal, self._keys, alone=part.shard is None)
        self._listeners.insert(0, self._control)
        compatible = Compatible(self._control, self._port, guard=plan.guards.redfish, page=page.Page("status"))
        context.outside = compatible.at
        if admin is not None and self._admin_sock is not None:
            self._listeners.append(admin_listener(self._admin_app(journal), self._admin_sock))

    @property
    def _clients(self) -> Leases | None:
        """The DHCP clients, where addresses are leased."""
        return self._leases if self._server is not None else None

    def _admin_app(self, journal: Journal | None) -> Starlette:
        context, control = self._context, self._control
        collector = FleetCollector(
            context.metrics, self._fleet, self._driver, journal, self._pusher.counted, self._clients, self._store
        )
        process = ProcessCollector(control.version, control.started, self._pauses)
        registry = registry_of(collector, ControlCollector(control), process)
        if self._relay is not None:
            registry.register(RelayCollector(self._relay.counted))
        if self._nico is not None:
            registry.register(self._nico.collector)
        return admin_app(
            self._fleet,
            registry,
            [*page.routes(), *api.routes(control)],
            inventory=self._nico.status if self._nico is not None else None,
            leases=self._clients,
            refusals=api.REFUSALS,
            survey=collector.survey,
        )

    async def run(self) -> None:
        """Listen, build the fleet, and serve it until somebody stops the process."""
        plan = self._plan
        housekeeper = Housekeeper(self._context, self._redfish, self._clock, plan.certificate)
        try:
            await run(self._listeners, housekeeper, self._build)
        finally:
            await self._close()

    async def _build(self) -> None:
        plan, shard, fleet, leases, nico = self._plan, self._part.shard, self._fleet, self._leases, self._nico
        config = plan.config
        restorer = Restorer(self._store, self._clock, self._keys) if self._store is not None else None
        born = self._clock.now().wall if restorer is None else restorer.born
        roster = NOBODY if restorer is None else restorer.roster
        builder = Builder(config, self._hasher, born, restorer, plan.files, plan.schemas, shard)
        for _ in builder.populate(fleet, everybody(config, roster) if roster else None):
            await asyncio.sleep(0)
        if self._server is not None:
            self._driver.leases = leases
            leases.begin(self._server)
        for bmc in fleet:
            self._driver.execute(bmc, ())
        banner = Banner(fleet, plan.redfish, self._port, plan.certificate is not None, self._started, shard)
        banner.say()
        if self._server is not None and fleet.homeless:
            leases.tell_complete(banner.say_complete)
        if restorer is not None:
            report(restorer)
        self._members.begin(builder, roster)
        if nico is not None:
            self._members.added = nico.register_more
            await nico.begin(fleet, [one for addition in roster.additions for one in added(addition, config)])

    async def _close(self) -> None:
        if self._discovery is not None:
            self._discovery.stop()
        if self._desk is not None and self._context.peers is not None:
            self._desk.close()
            self._context.peers.close()
        self._leases.close()
        if self._server is not None:
            await self._server.close()
        if self._nico is not None:
            await self._nico.stop()
        await self._pusher.close()
        if self._keeper is not None:
            await self._keeper.journal.close()


def _committed(bmc: Bmc) -> None:
    """A change that is kept nowhere is done."""
    bmc.committed()


def _relay(dhcp: RelayConfig) -> Relay:
    server, listen_on = dhcp.server, dhcp.listen
    return Relay((server.address, server.port), (listen_on.address, listen_on.port), dhcp.advertise, dhcp.window)


def limits(config: FleetConfig) -> Limits:
    """The bounds of requests: those of the file, or the usual ones."""
    given = {"idle_seconds": config.idle_close, "requests": config.connection_requests}
    return msgspec.structs.replace(Limits(), **{name: value for name, value in given.items() if value is not None})
