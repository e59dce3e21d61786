"""`bmcsim fleet ls`: the BMCs of a running process."""

import sys
import time

import click

from bmcsim.cli.remote import Remote, option, remote_options
from bmcsim.cli.selection import Chosen, listed, selection_options
from bmcsim.cli.show import FIELDS, TABLE, WIDE, output_option, structured, table, watch_option, watched

_SHOWN = {"table": TABLE, "wide": WIDE, "name": ("id",)}


@click.command("ls")
@selection_options
@output_option("table", "wide", "json", "yaml", "name", default="table")
@option(
    "--sort",
    default="id",
    type=click.Choice([*FIELDS, *[f"-{name}" for name in FIELDS]]),
    metavar="FIELD",
    show_default=True,
    help="In the order of a field of -o json; -FIELD: the largest first. id: as the fleet file has them.",
)
@option("--limit", type=click.IntRange(1), metavar="N", help="The first N.")
@watch_option
@remote_options
def ls(remote: Remote, chosen: Chosen, output: str, sort: str, limit: int | None, watch: float | None) -> None:
    """List the BMCs of a running process: all, or those that a name or an option says.

    BMC: an id, address, MAC, serial number or mat_id. Several options must all hold; of one that is repeated, one.
    """

    def draw() -> list[str]:
        names = _SHOWN.get(output, FIELDS)
        found = listed(remote, chosen, names, sort=sort, limit=limit)
        if len(found.items) < found.total and output in ("table", "wide") and sys.stderr.isatty():
            click.echo(f"{len(found.items)} of {found.total}", err=True)
        if output == "name":
            return [one["id"] for one in found.items]
        if output in _SHOWN:
            return list(table(found.items, names, time.time()))
        return structured(found.items, output)

    watched(watch, draw)
