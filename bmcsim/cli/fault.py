"""`bmcsim fault`: the fault presets, and what their rules are."""

import click
import orjson

from bmcsim.machine.fault_rules import to_json
from bmcsim.redfish.injection import preset_rules
from bmcsim.tree import fault_presets
from bmcsim.tree.source import ProfileError


@click.group("fault")
def fault_group() -> None:
    """List and show fault presets."""


@fault_group.command("list")
def list_presets() -> None:
    """The fault presets that come with bmcsim, with reports of BMCs that do this."""
    for name in fault_presets.names():
        try:
            preset = fault_presets.read(name)
        except ProfileError as error:
            raise click.ClickException(str(error)) from error
        click.echo(f"{name:<24} {preset.title} {preset.report}".rstrip())


@fault_group.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Show the rules of a fault preset as JSON, as PUT /Injection/rules takes them."""
    try:
        rules = preset_rules(name, since=0.0)
    except ProfileError as error:
        raise click.ClickException(str(error)) from error
    click.echo(orjson.dumps([to_json(rule) for rule in rules.rules], option=orjson.OPT_INDENT_2).decode())
