"""`bmcsim fleet check` and `plan`: whether fleet files are right, what is in them, and whether instances share
anything."""

import sys
from itertools import combinations
from pathlib import Path

import click

from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.build import Builder
from bmcsim.fleet.identities import overlap, plan
from bmcsim.fleet.registry import DuplicateBmc, Fleet
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.identity import mac_colons
from bmcsim.tree.source import ProfileError


@click.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check FILES, and that no two of them share MACs or addresses. Exit code 1 when something is wrong."""
    configs = []
    wrong = False
    for file in files:
        try:
            config = fleet_config.load(file)
            for _ in Builder(config, Hasher(), 0.0).populate(Fleet()):
                pass
        except (ConfigError, ProfileError, DuplicateBmc) as error:
            click.echo(str(error), err=True)
            wrong = True
            continue
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
        click.echo(f"{file}: {config.bmc_count} BMCs")
        configs.append(config)
    for one, other in combinations(configs, 2):
        shared = overlap(one, other)
        if shared is not None:
            click.echo(shared, err=True)
            wrong = True
    if wrong:
        sys.exit(1)


@click.command("plan")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FLEET.toml]")
def planned(file: Path | None) -> None:
    """List the BMCs that FLEET.toml plans, or the fleet without a file: id, kind, address, MAC and serial number.

    No server is needed; `bmcsim fleet ls` lists those of a running one.

    The address is - where it is leased at run time, or where the pool has none left.
    """
    try:
        config = fleet_config.load(file) if file is not None else fleet_config.default()
    except (ConfigError, ProfileError) as error:
        raise click.ClickException(str(error)) from error
    for bmc in plan(config):
        identity = bmc.identity
        address = bmc.address or "-"
        click.echo(f"{bmc.id}\t{identity.kind}\t{address}\t{mac_colons(identity.bmc_mac)}\t{identity.serial}")
