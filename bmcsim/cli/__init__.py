"""The command line: one file per subcommand. This layer composes the edges."""

import click

from bmcsim import __version__
from bmcsim.cli.lazy import LazyGroup

MACHINE_A_TRON = "/opt/machine-a-tron/bin/machine-a-tron"

_COMMANDS = {
    "completion": "bmcsim.cli.completion:completion",
    "controller": "bmcsim.cli.controller:controller",
    "fault": "bmcsim.cli.fault:fault_group",
    "fleet": "bmcsim.cli.fleet:fleet_group",
    "health": "bmcsim.cli.health:health",
    "mat": "bmcsim.cli.mat:mat",
    "preflight": "bmcsim.cli.preflight:preflight_group",
    "profile": "bmcsim.cli.profile:profile_group",
    "report": "bmcsim.cli.report:report_group",
    "reset": "bmcsim.cli.reset:reset_group",
    "serve": "bmcsim.cli.serve:serve",
    "sizing": "bmcsim.cli.sizing:sizing",
    "state": "bmcsim.cli.state:state_group",
    "top": "bmcsim.cli.top:top",
}
# An image whose entry point is bmcsim may be given machine-a-tron's path as an argument.
_HIDDEN = {MACHINE_A_TRON: _COMMANDS["mat"]}


@click.group(
    cls=LazyGroup,
    places=_COMMANDS,
    hidden=_HIDDEN,
    context_settings={"auto_envvar_prefix": "BMCSIM", "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="bmcsim")
def main() -> None:
    """Thousands of Redfish BMCs in one process."""
