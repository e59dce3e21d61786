"""`bmcsim state`: state directories."""

from pathlib import Path

import click

from bmcsim.fleet import config as fleet_config
from bmcsim.fleet import mat_import
from bmcsim.fleet.registry import DuplicateBmc
from bmcsim.fleet.store import StateError
from bmcsim.fleet.tables import ConfigError
from bmcsim.tree.source import ProfileError


@click.group("state")
def state_group() -> None:
    """Make state directories."""


@state_group.command("import-mat")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.argument("fleet", type=click.Path(path_type=Path), metavar="FLEET.toml")
@click.option(
    "--state-dir",
    envvar="BMCSIM_SERVE_STATE_DIR",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory to make; it must not be there yet.",
)
@click.option("--ignore-unknown", is_flag=True, help="Leave behind what this version does not know.")
def import_mat(directory: Path, fleet: Path, state_dir: Path, ignore_unknown: bool) -> None:
    """Take over what machine-a-tron kept in DIRECTORY, its persist_dir, which must not be running.

    FLEET.toml is the file that machine-a-tron ran with. Its machines keep MACs, serial numbers and, where they are
    kept, passwords. A machine that the file does not plan just so is named, and then nothing is written.
    """
    try:
        config = fleet_config.load(fleet)
        saved, unknown = mat_import.read(directory)
        matched = mat_import.match(config, saved, unknown, ignore_unknown=ignore_unknown)
        report = mat_import.take_over(config, matched, state_dir)
    except (ConfigError, ProfileError, DuplicateBmc, StateError) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(report.lines()))
    click.echo(f"Serve it with: bmcsim serve {fleet} --state-dir {state_dir}")
