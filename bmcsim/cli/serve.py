"""`bmcsim serve`: a fleet on one port."""

import asyncio
import logging
import ssl
import sys
import time
from pathlib import Path

import click
import uvloop

from bmcsim.core.clock import SystemClock
from bmcsim.edges.http import listen, tls
from bmcsim.edges.http.admin import admin_app
from bmcsim.edges.http.context import Context
from bmcsim.edges.http.metrics import FleetCollector, registry_of
from bmcsim.edges.http.server import (
    Housekeeper,
    admin_listener,
    fix_mmap_threshold,
    raise_file_limit,
    redfish_listener,
    run,
)
from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import ConfigError, FleetConfig
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.registry import DuplicateBmc, Fleet
from bmcsim.machine.bmc import Bmc, Shared
from bmcsim.tree import profile as profiles
from bmcsim.tree.source import ProfileError

DEFAULT_LISTEN = "127.0.0.0/8:{port}"
DEFAULT_ADMIN = "127.0.0.1:9090"


@click.command()
@click.argument("fleet", required=False, type=click.Path(path_type=Path), metavar="[FLEET.toml]")
@click.option("--hosts", type=click.IntRange(1, 1_000_000), help="Hosts to serve without a file.  [default: 4500]")
@click.option("--dpus", type=click.IntRange(0, 8), help="DPUs of each host.  [default: 2]")
@click.option("--profile", metavar="NAME", help="Hardware of the hosts.  [default: dell_poweredge_r750]")
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
    help=f"Health and metrics; 'off' for none.  [default: {DEFAULT_ADMIN}]",
)
@click.option("--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="Its key, PEM.")
@click.option("--no-tls", is_flag=True, help="Serve plain HTTP.")
@click.option(
    "--state-dir", type=click.Path(path_type=Path, file_okay=False), help="Directory that keeps the certificate."
)
@click.option(
    "--time-scale", type=click.FloatRange(min=0, min_open=True), help="How much faster hardware is.  [default: 1]"
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning", show_default=True
)
def serve(
    fleet: Path | None,
    hosts: int | None,
    dpus: int | None,
    profile: str | None,
    host_password: str | None,
    dpu_password: str | None,
    listen_on: str | None,
    admin_on: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    no_tls: bool,
    state_dir: Path | None,
    time_scale: float | None,
    log_level: str,
) -> None:
    """Serve a fleet of BMCs over Redfish.

    Without a file: 4,500 Dell R750 hosts with two BlueField-3 DPUs each, on 127.64.0.0/18 port 1266.
    """
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if fleet is not None and (hosts is not None or dpus is not None or profile is not None):
        raise click.UsageError(
            "--hosts, --dpus and --profile describe a fleet without a file; leave them out or the file"
        )
    if no_tls and (tls_cert or tls_key):
        raise click.UsageError("--no-tls and --tls-cert/--tls-key exclude each other")
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key go together")
    try:
        if fleet is not None:
            config = fleet_config.load(fleet).with_passwords(host_password, dpu_password)
        else:
            config = fleet_config.default(
                hosts or 4500,
                dpus,
                profile or "dell_poweredge_r750",
                host_password,
                dpu_password,
            )
        for group in config.groups:
            profiles.find(group.hw_type)
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
        _serve(
            config,
            listen.parse_listen(listen_on or config.listen or DEFAULT_LISTEN.format(port=config.port)),
            None
            if (admin_on or config.admin) == "off"
            else listen.parse_listen(admin_on or config.admin or DEFAULT_ADMIN),
            _tls_context(
                tls_cert, tls_key, no_tls, state_dir or (Path(config.state_dir) if config.state_dir else None)
            ),
            time_scale or config.time_scale,
        )
    except (ConfigError, ProfileError, DuplicateBmc, listen.ListenError, tls.TlsError) as error:
        raise click.ClickException(str(error)) from error


def _tls_context(cert: Path | None, key: Path | None, off: bool, state_dir: Path | None) -> ssl.SSLContext | None:
    if off:
        return None
    if cert is not None and key is not None:
        return tls.server_context(cert, key)
    if state_dir is not None:
        return tls.server_context(*tls.kept_certificate(state_dir))
    return tls.transient_context()


def _serve(
    config: FleetConfig,
    redfish: listen.Listen,
    admin: listen.Listen | None,
    context_of_tls: ssl.SSLContext | None,
    time_scale: float,
) -> None:
    started = time.monotonic()
    clock = SystemClock()
    bmcs = Fleet()
    bmcs.expected = config.bmc_count

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def wake(seconds: float) -> None:
            loop.call_later(seconds, driver.run_due)

        driver = Driver(clock, time_scale, wake)
        context = Context(bmcs, driver, clock, served=None if redfish.everything else redfish.network)
        sock, warning = listen.open_socket(redfish)
        if warning:
            click.echo(f"warning: {warning}", err=True)
        port = sock.getsockname()[1]
        redfish_server = redfish_listener(context, sock, context_of_tls)
        listeners = [redfish_server]
        if admin is not None:
            admin_sock, _ = listen.open_socket(admin)
            app = admin_app(bmcs, registry_of(FleetCollector(context.metrics, bmcs, driver.__len__)))
            listeners.append(admin_listener(app, admin_sock))

        async def build() -> None:
            for _ in Builder(config, clock).populate(bmcs):
                await asyncio.sleep(0)
            _announce(bmcs, redfish, port, context_of_tls is not None, time.monotonic() - started)

        await run(listeners, Housekeeper(context, redfish_server, clock), build)

    fix_mmap_threshold()
    raise_file_limit()
    uvloop.run(main())


def _announce(bmcs: Fleet, served: listen.Listen, port: int, with_tls: bool, seconds: float) -> None:
    everyone = list(bmcs)
    first, last = everyone[0], everyone[-1]
    scheme = "https" if with_tls else "http"
    click.echo(f"{len(bmcs)} BMCs ready after {seconds:.1f} s, {first.address} to {last.address}, port {port}")
    for line in _credentials(bmcs):
        click.echo(f"  {line}")
    insecure = "-k " if with_tls else ""
    if served.loopback and served.network.num_addresses > 1 and first.address.startswith("127."):
        click.echo(f"Try: curl {insecure}{scheme}://{first.address}:{port}/redfish/v1/")
    else:
        here = str(served.network.network_address) if served.network.num_addresses == 1 else "127.0.0.1"
        forwarded = f"-H 'Forwarded: host={first.address}'"
        click.echo(f"Try: curl {insecure}{forwarded} {scheme}://{here}:{port}/redfish/v1/")
    sys.stdout.flush()


def _credentials(bmcs: Fleet) -> list[str]:
    """One line per kind of hardware; a password that the user chose is not repeated."""
    examples: dict[int, Bmc] = {}
    for bmc in bmcs:
        examples.setdefault(id(bmc.shared), bmc)
    return list(dict.fromkeys(_credential(bmc.shared) for bmc in examples.values()))


def _credential(shared: Shared) -> str:
    head = shared.tree.head
    factory = head.accounts[0]
    account = shared.accounts.get(factory.id)
    if account is not None and account.digest == account.factory:
        change = "" if account.exempt else ", to be changed first"
        return f"{head.title}: {factory.user} / {factory.password} (factory password{change})"
    return f"{head.title}: {factory.user} / the password that you gave"
