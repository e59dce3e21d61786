"""What `bmcsim serve` does with NICo's API. gRPC is loaded when a fleet file needs it, and only then."""

import asyncio
import functools
import logging
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from prometheus_client.registry import Collector

from bmcsim.edges.nico.certificates import Files, NicoError, doubt, find, read
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.dhcp_config import ApiConfig
from bmcsim.fleet.identities import BmcPlan, plan
from bmcsim.fleet.nico_config import NicoConfig
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.shards import Shard
from bmcsim.machine.dhcp.messages import Reply
from bmcsim.machine.identity import Kind

if TYPE_CHECKING:
    from bmcsim.edges.nico.inventory import Record
    from bmcsim.edges.nico.registration import Status

log = logging.getLogger(__name__)

Command = TypeVar("Command", bound=Callable[..., Any])

_CHUNK = 250
_CLEAR_SECONDS, _CLEANUP_SECONDS = 3.0, 20.0


class NicoOptions(NamedTuple):
    """The options of `nico_options`, as they are given."""

    forge_root_ca_path: Path | None = None
    client_cert_path: Path | None = None
    client_key_path: Path | None = None
    strict_registration: bool = False


class Site(NamedTuple):
    """A NICo that is used. files: of mutual TLS, None for plain HTTP/2."""

    nico: NicoConfig
    files: Files | None
    strict: bool


def nico_options(command: Command) -> Command:
    """Adds the options; the command gets them as `nico`, NicoOptions."""
    path = click.Path(path_type=Path, dir_okay=False)

    @click.option(
        "--forge-root-ca-path", envvar="FORGE_ROOT_CA_PATH", type=path, help="Authorities of NICo's API, PEM."
    )
    @click.option("--client-cert-path", envvar="CLIENT_CERT_PATH", type=path, help="Our certificate there, PEM.")
    @click.option("--client-key-path", envvar="CLIENT_KEY_PATH", type=path, help="Its key, PEM.")
    @click.option(
        "--strict-registration",
        is_flag=True,
        help="End when NICo refuses a machine, or does not take one in 30 rounds.  [default: go on, and say so]",
    )
    @functools.wraps(command)
    def with_options(
        forge_root_ca_path: Path | None,
        client_cert_path: Path | None,
        client_key_path: Path | None,
        strict_registration: bool,
        **others: Any,
    ) -> Any:
        given = NicoOptions(forge_root_ca_path, client_cert_path, client_key_path, strict_registration)
        return command(**others, nico=given)

    return with_options  # type: ignore[return-value]


def site_of(config: FleetConfig, given: NicoOptions, home: Path) -> Site | None:
    """The NICo that a fleet uses, None for none. Raises NicoError, and UsageError for an option that does nothing."""
    nico = config.nico
    by_api = isinstance(config.dhcp, ApiConfig)
    if given.strict_registration and (nico is None or not nico.register):
        raise click.UsageError(
            "--strict-registration needs a fleet file with carbide_api_url, which registers its machines"
        )
    if nico is None:
        return None
    if not (by_api or nico.register or nico.proxy_host or nico.cleanup):
        return None
    if find_spec("grpc") is None or find_spec("google.protobuf") is None:
        raise NicoError(
            f"{config.source}: carbide_api_url: NICo's API needs gRPC; pip install 'bmcsim[nico]', or serve without "
            "NICo: --dhcp pool"
        )
    files = None
    if nico.tls:
        files = find(given.forge_root_ca_path, given.client_cert_path, given.client_key_path, home)
        read(files)
    return Site(nico, files, given.strict_registration)


class Nico:
    """NICo's API as one process uses it; to be made on the loop.

    dhcp: its addresses, None where the fleet has them from elsewhere; whoever takes it closes it. Raises NicoError.
    """

    def __init__(
        self,
        config: FleetConfig,
        site: Site,
        shard: Shard | None,
        port: int,
        heard: Callable[[int, Reply], bool],
    ) -> None:
        """port: of the Redfish listener. heard: takes what NICo answers to DHCP clients."""
        from bmcsim.edges.nico.channel import Api, Target
        from bmcsim.edges.nico.dhcp import NicoDhcp
        from bmcsim.edges.nico.metrics import NicoCollector
        from bmcsim.edges.nico.pace import Pace
        from bmcsim.edges.nico.registration import Registration

        self._config, self._site, self._shard, self._port = config, site, shard, port
        by_api = isinstance(config.dhcp, ApiConfig)
        limits = config.dhcp if isinstance(config.dhcp, ApiConfig) else ApiConfig()
        parts = 1 if shard is None else shard.count
        self._api = Api(Target(site.nico.address, site.files), Pace(limits.rate / parts, time.monotonic))
        self.dhcp: NicoDhcp | None = None
        if by_api:
            self.dhcp = NicoDhcp(self._api, heard, limits.concurrency)
        self._registration = Registration(self._api, random=random.random, say=_say, strict=site.strict)
        registers = self._registration if site.nico.register else None
        self.collector: Collector = NicoCollector(self._api, registers, self.dhcp)
        self._bmcs: Fleet | None = None
        self._added: Sequence[BmcPlan] = ()
        self._set_proxy = False
        self._tasks: set[asyncio.Task[None]] = set()

    def status(self) -> "Status":
        """How far registration is."""
        return self._registration.status()

    async def begin(self, bmcs: Fleet, added: Sequence[BmcPlan] = ()) -> None:
        """Do what there is to do from now on, once the fleet is complete. strict: return when it is registered.

        added: BMCs beyond the fleet file. Raises NotRegistered, if strict.
        """
        self._bmcs, self._added = bmcs, added
        nico = self._site.nico
        who = f" as {self._api.identity}" if self._api.identity else ""
        click.echo(f"NICo: {nico.url}{who}" + ("; registering the fleet" if nico.register else ""))
        if nico.tls and (why := doubt(self._api.identity)):
            _say(f"warning: {why}")
        self._spawn(self._watch())
        self._spawn(self._desire(bmcs))
        if nico.proxy_host is not None and (self._shard is None or self._shard.number == 1):
            self._spawn(self._redirect(nico.proxy_host))
        if nico.register and self._site.strict:
            await self._register(bmcs)
        elif nico.register:
            self._spawn(self._register(bmcs))

    async def stop(self) -> None:
        """Take back what was set, and what `cleanup_on_quit` says, as far as time allows."""
        from bmcsim.edges.nico.settings import clear_proxy

        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._set_proxy and (why := await clear_proxy(self._api, _CLEAR_SECONDS)):
            _say(f"warning: NICo still has bmc_proxy: {why}")
        if self._site.nico.cleanup and self._bmcs is not None:
            await self._clean_up(self._bmcs)
        await self._api.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what has to do with NICo ended", exc_info=error)

    async def _watch(self) -> None:
        await self._api.watch()

    async def _register(self, bmcs: Fleet) -> None:
        racks, devices = await self._declared(bmcs)
        await self._registration.run(racks, devices)

    def register_more(self, planned: Sequence[BmcPlan]) -> None:
        """Declare machines that were added."""
        if self._site.nico.register and self._bmcs is not None:
            self._spawn(self._register_more(planned, self._bmcs))

    async def _register_more(self, planned: Sequence[BmcPlan], bmcs: Fleet) -> None:
        from bmcsim.edges.nico.inventory import record_of

        devices = []
        for number, one in enumerate(planned):
            bmc = bmcs.by_id(one.id)
            if bmc is not None and (record := record_of(one, bmc.tree.head.accounts[0])) is not None:
                devices.append(record)
            if number % _CHUNK == 0:
                await asyncio.sleep(0)
        await self._registration.more(devices)

    async def _declared(self, bmcs: Fleet) -> "tuple[list[Record], list[Record]]":
        """The records of racks and of devices."""
        from bmcsim.edges.nico.inventory import rack_record, record_of

        racks: dict[str, Record] = {}
        devices = []
        start, stop = (0, None) if self._shard is None else (self._shard.start, self._shard.stop)
        for number, planned in enumerate(chain(islice(plan(self._config), start, stop), self._added)):
            place = planned.identity.place
            if place is not None and place.rack not in racks:
                racks[place.rack] = rack_record(place.rack, planned.group.rack_profile)
            bmc = bmcs.by_id(planned.id)
            if bmc is not None and (record := record_of(planned, bmc.tree.head.accounts[0])) is not None:
                devices.append(record)
            if number % _CHUNK == 0:
                await asyncio.sleep(0)
        return list(racks.values()), devices

    async def _desire(self, bmcs: Fleet) -> None:
        """Say that NICo answers; let updates reach what it wants, where the fleet file says nothing."""
        from bmcsim.edges.nico.calls import VERSION, CallFailed
        from bmcsim.edges.nico.settings import desired_firmware, persist
        from bmcsim.fleet.desired import fill

        try:
            build = await persist(self._api, VERSION, VERSION.request(), random.random)
            click.echo(f"NICo: answers, version {build.build_version or 'unknown'}")
            wanted = await desired_firmware(self._api, random.random)
        except CallFailed as error:
            _say(f"warning: NICo does not say which firmware it desires: {error}")
            return
        if added := fill(bmcs, wanted):
            log.info("%d versions of firmware are as NICo desires them", added)

    async def _redirect(self, host: str) -> None:
        """Let NICo's explorer reach all BMCs here."""
        from bmcsim.edges.nico.calls import SET_CONFIG, CallFailed
        from bmcsim.edges.nico.settings import persist, proxy_request

        address = f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"
        self._set_proxy = True
        try:
            await persist(self._api, SET_CONFIG, proxy_request(address), random.random)
        except CallFailed as error:
            self._set_proxy = False
            _say(f"warning: NICo refuses bmc_proxy = {address}: {error}")

    async def _clean_up(self, bmcs: Fleet) -> None:
        from bmcsim.edges.nico.inventory import system_mac
        from bmcsim.edges.nico.settings import Cleanup

        cleanup = Cleanup(self._api, [system_mac(bmc.identity) for bmc in bmcs if bmc.identity.kind is Kind.HOST])
        total = cleanup.left
        click.echo(f"NICo: deleting {total:,} machines, for up to {_CLEANUP_SECONDS:.0f} s")
        await cleanup.run(_CLEANUP_SECONDS)
        if cleanup.left:
            why = self._api.last_error or "no time"
            _say(f"warning: {cleanup.left:,} of {total:,} machines are left in NICo ({why})")


def _say(text: str) -> None:
    click.echo(text, err=text.startswith("warning"))
