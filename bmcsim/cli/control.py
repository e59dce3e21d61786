"""The control API on the admin listener of `bmcsim serve`."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from bmcsim import __version__
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.guard import Guard, new_token, read_token
from bmcsim.edges.http.context import Context
from bmcsim.edges.http.listen import Listen
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.journal import Journal
from bmcsim.fleet.keys import Keys
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.members import Members
from bmcsim.fleet.recordings import Recordings
from bmcsim.fleet.restoring import Snapshots

Command = TypeVar("Command", bound=Callable[..., Any])


class ControlOptions(NamedTuple):
    """The options of `control_options`, as they are given."""

    token_file: Path | None = None
    admin_hosts: tuple[str, ...] = ()
    insecure: bool = False


class Guards(NamedTuple):
    """Who may change something: over the admin listener, and on the Redfish port in machine-a-tron's way, where None is
    anybody."""

    admin: Guard
    redfish: Guard | None


def control_options(command: Command) -> Command:
    """Adds the options; the command gets them as `control`, ControlOptions."""

    @click.option(
        "--token-file",
        envvar="BMCSIM_SERVE_TOKEN_FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File with the token that changes over the control API need.  [default: none is needed on loopback;"
        " elsewhere one is made, and printed once]",
    )
    @click.option(
        "--admin-host",
        "admin_hosts",
        multiple=True,
        metavar="NAME",
        help="Host name by which the admin listener may be asked, beside its addresses and localhost; may be repeated.",
    )
    @click.option(
        "--insecure-compat-control",
        "insecure_compat_control",
        is_flag=True,
        help="Let anybody who reaches the Redfish port change fault rules at /machines/ID/bmc/injection/rules, as"
        " machine-a-tron does.  [default: anybody on loopback; elsewhere whoever has the token]",
    )
    @functools.wraps(command)
    def with_options(
        token_file: Path | None, admin_hosts: tuple[str, ...], insecure_compat_control: bool, **others: Any
    ) -> Any:
        return command(**others, control=ControlOptions(token_file, admin_hosts, insecure_compat_control))

    return with_options  # type: ignore[return-value]


def guards_of(options: ControlOptions, admin: Listen | None, redfish: Listen) -> Guards:
    """What requests to both listeners need. A token that has to be made is printed here, once.

    Raises UsageError for options about a listener that there is not, and TokenError.
    """
    open_redfish = options.insecure or redfish.loopback
    if admin is None and (options.admin_hosts or (options.token_file is not None and open_redfish)):
        raise click.UsageError("--token-file and --admin-host are about the admin listener, and there is none")
    token = read_token(options.token_file) if options.token_file is not None else None
    if token is None and not (open_redfish and (admin is None or admin.loopback)):
        token = new_token()
        click.echo(f"token for changes over the control API: {token}", err=True)
    of_admin = token if options.token_file is not None or (admin is not None and not admin.loopback) else None
    of_redfish = None if options.insecure else Guard() if redfish.loopback else Guard(token, None)
    return Guards(Guard(of_admin, options.admin_hosts), of_redfish)


def control_of(
    config: FleetConfig,
    context: Context,
    guard: Guard,
    leases: Leases | None = None,
    registration: Callable[[], object] | None = None,
) -> Control:
    """The control plane of what a Redfish listener serves."""

    def switch(active: Recordings | None) -> None:
        context.recorder = active

    return Control(
        fleet=context.fleet,
        clock=context.clock,
        driver=context.driver,
        config=config,
        change=context.change,
        counters=context.metrics,
        guard=guard,
        version=__version__,
        started=time.time(),
        leases=leases,
        history=context.history,
        recordings=Recordings(switch),
        registration=registration,
    )


def members_of(control: Control, journal: Journal | None, keys: Keys, *, alone: bool) -> Members:
    """Lets the machines of a fleet come and go, and its state be taken and restored. alone: whether one process serves
    it; else machines stay as they are."""
    members = Members(control.config, control.fleet, control.driver, journal=journal, leases=control.leases)
    members.told, members.gone = control.regroup, control.history.forget
    control.members = members if alone else None
    control.snapshots = Snapshots(
        members,
        control.fleet,
        control.clock,
        control.driver,
        keys,
        control.version,
        journal=journal,
        leases=control.leases,
    )
    return members
