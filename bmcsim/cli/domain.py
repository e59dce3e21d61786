"""--domain: by which names of hosts BMCs are known."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from bmcsim.fleet import converters

Command = TypeVar("Command", bound=Callable[..., Any])


def _domain(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else converters.domain(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error


def domain_option(command: Command) -> Command:
    """Adds the option; the command gets it as `domain`, None where it is not given."""
    return click.option(
        "--domain",
        callback=_domain,
        metavar="DOMAIN",
        help="BMCs are also called ID.DOMAIN.  [default: as the fleet file says]",
    )(command)
