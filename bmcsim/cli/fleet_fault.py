"""`bmcsim fleet fault`: fault rules of BMCs, at run time."""

from typing import IO, Any

import click
import orjson

from bmcsim.cli import completion
from bmcsim.cli.operating import Over, change_options
from bmcsim.cli.remote import option

_MAX_FILE = 1024 * 1024


@click.group("fault")
def fault() -> None:
    """Add fault rules to BMCs, and remove them. `bmcsim fleet show BMC` has those that are there."""


@fault.command("add")
@option("--preset", "presets", multiple=True, shell_complete=completion.presets, metavar="NAME", help="A fault preset.")
@option("--rule", "files", multiple=True, type=click.File("rb"), metavar="FILE", help="JSON: a rule, or several.")
@option("--status", type=click.IntRange(300, 599), help="Answer with this status.")
@option("--delay", type=click.FloatRange(0, 3600), metavar="SECONDS", help="Answer so much later.")
@option("--uri", metavar="GLOB", help="For --status and --delay: what they concern.  [default: /redfish/v1/**]")
@option("--probability", type=click.FloatRange(0, 1), help="For these: on which share of the requests.")
@option("--remaining", type=click.IntRange(1), metavar="N", help="For these: only so often.")
@change_options
def add(
    over: Over,
    presets: tuple[str, ...],
    files: tuple[IO[bytes], ...],
    status: int | None,
    delay: float | None,
    uri: str | None,
    probability: float | None,
    remaining: int | None,
) -> None:
    """Add fault rules, from presets (`bmcsim fault list`), from files, or simple ones. A rule takes the place of
    another of its id; --status and --delay make rules with the ids `status` and `delay`."""
    conditions = {"probability": probability, "remaining": remaining}
    simple = status is not None or delay is not None
    if not simple and (uri is not None or probability is not None or remaining is not None):
        raise click.UsageError("--uri, --probability and --remaining are about --status and --delay")
    rules: list[Any] = [*presets, *[rule for file in files for rule in _rules(file)]]
    about: dict[str, Any] = {"selector": {"Path": {"glob": uri or "/redfish/v1/**"}}}
    about |= {name: value for name, value in conditions.items() if value is not None}
    if delay is not None:
        rules.append({"id": "delay", **about, "action": {"Latency": {"mean": f"{delay:g}s"}}})
    if status is not None:
        rules.append({"id": "status", **about, "action": {"Status": status}})
    if not rules:
        raise click.UsageError("say --preset, --rule, --status or --delay")
    over.run({"type": "faults", "add": rules}, "add fault rules to")


@fault.command("remove")
@option("--rule-id", "rule_ids", multiple=True, required=True, metavar="ID", help="Id of a rule; may be repeated.")
@change_options
def remove(over: Over, rule_ids: tuple[str, ...]) -> None:
    """Remove some fault rules."""
    over.run({"type": "faults", "remove": list(rule_ids)}, "remove fault rules of")


@fault.command("clear")
@change_options
def clear(over: Over) -> None:
    """Remove all fault rules."""
    over.run({"type": "faults", "clear": True}, "clear the faults of")


def _rules(file: IO[bytes]) -> list[Any]:
    data = file.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise click.UsageError(f"--rule {file.name} has more than {_MAX_FILE} bytes")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"--rule {file.name} is no JSON: {error}") from error
    rules = value if isinstance(value, list) else [value]
    if not all(isinstance(rule, dict) for rule in rules):
        raise click.UsageError(f"--rule {file.name} must have a fault rule, or an array of them")
    return rules
