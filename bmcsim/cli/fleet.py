"""`bmcsim fleet`: whether fleet files are right, and whether instances that run together share anything."""

import sys
from itertools import combinations
from pathlib import Path

import click

from bmcsim.fleet import config as fleet_config
from bmcsim.fleet.identities import overlap
from bmcsim.fleet.tables import ConfigError


@click.group("fleet")
def fleet_group() -> None:
    """Check fleet files."""


@fleet_group.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check FILES, and that no two of them share MACs or addresses. Exit code 1 when something is wrong."""
    configs = []
    wrong = False
    for file in files:
        try:
            config = fleet_config.load(file)
        except ConfigError as error:
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
