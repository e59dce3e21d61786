"""`bmcsim fleet`: whether fleet files are right, what is in them, and whether instances share anything."""

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


@click.group("fleet")
def fleet_group() -> None:
    """Check and list fleet files."""


@fleet_group.command("check")
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


@fleet_group.command("list")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FLEET.toml]")
def list_bmcs(file: Path | None) -> None:
    """List the BMCs of FLEET.toml, or of the fleet without a file: id, kind, address, MAC and serial number."""
    try:
        config = fleet_config.load(file) if file is not None else fleet_config.default()
    except (ConfigError, ProfileError) as error:
        raise click.ClickException(str(error)) from error
    for bmc in plan(config):
        identity = bmc.identity
        click.echo(f"{bmc.id}\t{identity.kind}\t{bmc.address}\t{mac_colons(identity.bmc_mac)}\t{identity.serial}")
