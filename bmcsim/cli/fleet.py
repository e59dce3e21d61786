"""`bmcsim fleet`: fleet files, and the fleet of a running process."""

import click

from bmcsim.cli.lazy import LazyGroup

_COMMANDS = {
    "add": "bmcsim.cli.fleet_members:add",
    "check": "bmcsim.cli.fleet_file:check",
    "clock": "bmcsim.cli.fleet_clock:clock",
    "credentials": "bmcsim.cli.fleet_credentials:credentials",
    "export": "bmcsim.cli.export:export",
    "factory-reset": "bmcsim.cli.fleet_change:factory_reset",
    "fault": "bmcsim.cli.fleet_fault:fault",
    "jobs": "bmcsim.cli.fleet_jobs:jobs",
    "ls": "bmcsim.cli.fleet_ls:ls",
    "move": "bmcsim.cli.fleet_members:move",
    "plan": "bmcsim.cli.fleet_file:planned",
    "power": "bmcsim.cli.fleet_change:power",
    "reading": "bmcsim.cli.fleet_change:reading",
    "remove": "bmcsim.cli.fleet_members:remove",
    "reset": "bmcsim.cli.fleet_change:reset",
    "show": "bmcsim.cli.fleet_show:show",
    "snapshot": "bmcsim.cli.fleet_snapshot:snapshot",
    "timing": "bmcsim.cli.fleet_change:timing",
    "top": "bmcsim.cli.top:top",
    "why": "bmcsim.cli.fleet_show:why",
}
# What `plan` was called before there was `ls`.
_HIDDEN = {"list": _COMMANDS["plan"]}


@click.group("fleet", cls=LazyGroup, places=_COMMANDS, hidden=_HIDDEN)
def fleet_group() -> None:
    """See and steer the fleet of a running `bmcsim serve`; check fleet files, and write them for other tools.

    check, export and plan are about files. All others ask the admin listener of a running process (--url).
    """
