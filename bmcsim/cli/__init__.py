"""The command line: one file per subcommand. This layer composes the edges."""

import click

from bmcsim import __version__
from bmcsim.cli.fault import fault_group
from bmcsim.cli.fleet import fleet_group
from bmcsim.cli.profile import profile_group
from bmcsim.cli.serve import serve


@click.group(context_settings={"auto_envvar_prefix": "BMCSIM", "help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bmcsim")
def main() -> None:
    """Thousands of Redfish BMCs in one process."""


main.add_command(serve)
main.add_command(fleet_group)
main.add_command(profile_group)
main.add_command(fault_group)
