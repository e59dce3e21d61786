"""`bmcsim fleet export`: a fleet for other tools."""

from pathlib import Path

import click

from bmcsim.cli.choice import Choice
from bmcsim.cli.domain import domain_option
from bmcsim.fleet.config import MAX_RACKS
from bmcsim.fleet.export import FORMATS, Options, rows
from bmcsim.fleet.tables import ConfigError
from bmcsim.tree.source import ProfileError


@click.command("export")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FLEET.toml]")
@click.option(
    "--format",
    "format_",
    envvar="BMCSIM_FLEET_EXPORT_FORMAT",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="For which tool.",
)
@click.option("--hosts", type=click.IntRange(1, 1_000_000), help="Hosts of the fleet without a file.  [default: 4500]")
@click.option("--dpus", type=click.IntRange(0, 8), help="DPUs of each host.  [default: 2]")
@click.option("--profile", metavar="NAME", help="Hardware of the hosts.  [default: dell_poweredge_r750]")
@click.option("--racks", type=click.IntRange(1, MAX_RACKS), help="Racks of the fleet without a file, instead of hosts.")
@click.option("--host-password", metavar="P", help="Host BMCs are served with P.")
@click.option("--dpu-password", metavar="P", help="DPU BMCs are served with P.")
@click.option("--dhcp", type=click.Choice(["pool"]), help="They are served with addresses from a pool, as of `serve`.")
@domain_option
@click.option("--port", type=click.IntRange(1, 65535), help="Where they are served.  [default: that of the fleet]")
@click.option("--no-tls", is_flag=True, help="They are served over plain HTTP.")
@click.option("--with-passwords", is_flag=True, help="Put the passwords in, in the clear.")
def export(
    file: Path | None,
    format_: str,
    hosts: int | None,
    dpus: int | None,
    profile: str | None,
    racks: int | None,
    host_password: str | None,
    dpu_password: str | None,
    dhcp: str | None,
    domain: str | None,
    port: int | None,
    no_tls: bool,
    with_passwords: bool,
) -> None:
    """Write the BMCs of FLEET.toml, or of the fleet without a file, in a format of other tools. No server is needed.

    hosts: lines for /etc/hosts. ansible: an inventory. prometheus-sd: targets for file_sd and http_sd. baremetalhost:
    manifests of Metal3. ironic: nodes for `openstack baremetal create`. csv: a table.
    """
    choice = Choice(file, hosts, dpus, profile, racks)
    choice.check()
    try:
        config = choice.load(host_password, dpu_password, pool=dhcp == "pool")
        if config.pool is None:
            raise ConfigError(
                f"{config.source}: dhcp.type: its addresses are leased at run time; --dhcp pool takes them from a pool"
            )
        options = Options(port or config.port, "http" if no_tls else "https", domain or config.domain, with_passwords)
        click.echo(FORMATS[format_](rows(config), options), nl=False)
    except (ConfigError, ProfileError) as error:
        raise click.ClickException(str(error)) from error
