"""`bmcsim profile`: what profiles there are, what one serves, and whether it is right."""

import sys
from pathlib import Path

import click
import orjson

from bmcsim.core.clock import SystemClock
from bmcsim.fleet.build import example_bmc
from bmcsim.machine import holes
from bmcsim.machine.actions import Happening
from bmcsim.redfish.actions import HANDLERS
from bmcsim.redfish.handlers import NODES
from bmcsim.tree import check as checks
from bmcsim.tree import profile as profiles
from bmcsim.tree.compile import compile_tree
from bmcsim.tree.source import ProfileError


@click.group("profile")
def profile_group() -> None:
    """List, show and check hardware profiles."""


@profile_group.command("list")
def list_profiles() -> None:
    """The profiles that come with bmcsim."""
    for name in profiles.names():
        loaded = profiles.load(name)
        tree = compile_tree(loaded, holes.bind)
        facts = f"{loaded.head.kind:<12} {len(tree.nodes):>4} resources  {len(tree.readings):>4} sensors"
        click.echo(f"{name:<28} {facts}  {loaded.head.title}")


@profile_group.command("show")
@click.argument("name")
@click.argument("uri", required=False)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a parameter of the profile.")
def show(name: str, uri: str | None, settings: tuple[str, ...]) -> None:
    """Show the resources of a profile, or one of them as a BMC would serve it."""
    try:
        bmc = example_bmc(name, _parameters(settings))
    except ProfileError as error:
        raise click.ClickException(str(error)) from error
    tree = bmc.tree
    if uri is None:
        for node in tree.nodes.values():
            click.echo(f"{node.uri:<100} {node.type.rpartition('.')[0]:<32} {node.allow}")
        for target in tree.actions:
            click.echo(f"{target:<133} POST")
        return
    found = tree.nodes.get(uri.rstrip("/"))
    if found is None:
        raise click.ClickException(f"{name} has no resource {uri}; `bmcsim profile show {name}` lists them")
    _, body = bmc.body(found).render(bmc, SystemClock().now())
    click.echo(orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode())


@profile_group.command("check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check profiles: FILES, or all that come with bmcsim. Exit code 1 when something is wrong."""
    wrong = 0
    for name in [str(file) for file in files] or profiles.names():
        try:
            found = _check_one(name)
        except ProfileError as error:
            found = [str(error)]
        for problem in found:
            click.echo(problem, err=True)
        wrong += len(found)
        if not found:
            click.echo(f"{name}: ok")
    if wrong:
        click.echo(f"{wrong} problem{'s' if wrong > 1 else ''}", err=True)
        sys.exit(1)


def _check_one(name: str) -> list[str]:
    """A profile with a number of DPUs is checked without, with one and with several, and each of its variants."""
    loaded = profiles.load(name)
    parameters: list[dict[str, int | str]] = (
        [{"dpus": count} for count in (0, 1, 2, 4)] if "dpus" in loaded.parameters else [{}]
    )
    found: list[str] = []
    for chosen, variant in [*((one, "") for one in parameters), *(({}, one) for one in loaded.head.variants)]:
        profile = profiles.load(name, chosen, variant)
        found += checks.problems(
            profile, compile_tree(profile, holes.bind), checks.Known(HANDLERS, NODES, tuple(Happening))
        )
    return list(dict.fromkeys(found))


def _parameters(settings: tuple[str, ...]) -> dict[str, int | str]:
    parameters: dict[str, int | str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.ClickException(f"--set {setting!r} must be KEY=VALUE")
        parameters[key] = int(value) if value.isdecimal() else value
    return parameters
