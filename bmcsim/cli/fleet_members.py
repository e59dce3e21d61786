"""`bmcsim fleet add`, `remove` and `move`: which machines a running fleet has, and where."""

from typing import Any

import click
import orjson

from bmcsim.cli import completion
from bmcsim.cli.operating import agreed, dry_run_option, yes_option
from bmcsim.cli.remote import Remote, option, part, remote_options
from bmcsim.cli.selection import Chosen, must_choose, selection_options
from bmcsim.cli.show import output_option, printed, structured

result_option = output_option("text", "name", "json", "yaml", default="text")


@click.command("add")
@click.argument("group", shell_complete=completion.groups)
@click.argument("count", type=click.IntRange(1, 20_000))
@option("--hardware", metavar="PROFILE", help="Of a new group; `bmcsim profile list` has them.")
@option("--dpus", type=click.IntRange(0, 8), help="DPUs of each host of a new group.")
@option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="What else its table in a fleet file would have.")
@result_option
@remote_options
def add(
    remote: Remote,
    group: str,
    count: int,
    hardware: str | None,
    dpus: int | None,
    settings: tuple[str, ...],
    output: str,
) -> None:
    """Add COUNT machines to GROUP, which may be a new one."""
    wanted: dict[str, Any] = {"group": group, "count": count, "settings": dict(map(_setting, settings))}
    wanted |= {name: value for name, value in (("hw_type", hardware), ("dpus", dpus)) if value is not None}
    made = remote.send("POST", "machines", wanted)
    _tell(made, output, f"added {made['machines']} machines to {made['group']}, with {len(made['ids'])} BMCs")


@click.command("remove")
@selection_options
@yes_option
@dry_run_option
@result_option
@remote_options
def remove(remote: Remote, chosen: Chosen, yes: bool, dry_run: bool, output: str) -> None:
    """Remove machines. DPUs go with their hosts, and racks as a whole."""
    if must_choose(chosen).every:
        raise click.UsageError("not --all: a fleet does not lose all of its machines; say which")
    if agreed(remote, chosen, "remove", yes=yes, dry_run=dry_run):
        gone = remote.send("DELETE", "machines", {"selection": chosen.words})
        _tell(gone, output, f"removed {len(gone['ids'])} BMCs")


@click.command("move")
@click.argument("bmc", shell_complete=completion.bmcs)
@click.argument("address", required=False)
@option("--back", is_flag=True, help="To the address that the pool or DHCP gives it.")
@output_option("text", "json", "yaml", default="text")
@remote_options
def move(remote: Remote, bmc: str, address: str | None, back: bool, output: str) -> None:
    """Move a BMC to another IPv4 address, as if a client had set a static one."""
    if back is (address is not None):
        raise click.UsageError("say an address, or --back")
    moved = remote.send("POST", f"bmcs/{part(bmc)}/move", {"address": address})
    if output == "text":
        click.echo(f"{moved['id']} is at {moved['address'] or 'no address yet'}")
    else:
        printed(structured(moved, output))


def _setting(text: str) -> tuple[str, Any]:
    """KEY=VALUE; a value is JSON where it can be, else text."""
    key, mark, value = text.partition("=")
    if not (key and mark):
        raise click.UsageError(f"--set {text!r} must be KEY=VALUE, such as rack_id=row-7")
    try:
        return key, orjson.loads(value)
    except orjson.JSONDecodeError:
        return key, value


def _tell(done: dict[str, Any], output: str, text: str) -> None:
    lines = {"text": [text], "name": done["ids"]}
    printed(lines[output] if output in lines else structured(done, output))
