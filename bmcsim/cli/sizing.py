"""`bmcsim sizing`: what a fleet needs of a site, and which limit it meets first."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from math import ceil
from pathlib import Path
from typing import Any

import click
import msgspec
import orjson
import yaml

from bmcsim.deploy import values
from bmcsim.deploy.networks import Network
from bmcsim.deploy.sizing import RACKS_PER_POD, Demand, Sizing, demand, size
from bmcsim.fleet.config import DEFAULT_RACK_TYPE, MAX_DPUS, MAX_HOSTS, MAX_RACKS, MachineGroup
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.identity import Kind
from bmcsim.tree import racks as rack_types


def _cidr(_context: click.Context, _option: click.Parameter, value: str) -> Network:
    try:
        return ip_network(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} must be a CIDR, such as 10.96.0.0/12") from None


@click.command("sizing")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[VALUES...]")
@click.option("--hosts", type=click.IntRange(1, MAX_HOSTS), help="Hosts, instead of files.")
@click.option("--dpus", type=click.IntRange(0, MAX_DPUS), help="DPUs of each host.  [default: 2]")
@click.option("--racks", type=click.IntRange(1, MAX_RACKS), help="Racks, instead of files and hosts.")
@click.option(
    "--rack-type",
    type=click.Choice(rack_types.names()),
    default=DEFAULT_RACK_TYPE,
    show_default=True,
    help="Of --racks.",
)
@click.option(
    "--pods",
    type=click.IntRange(1, 256),
    help=f"Pods of the simulator.  [default: those of VALUES; 1 for --hosts, one for {RACKS_PER_POD} racks]",
)
@click.option(
    "--service-cidr", default="10.96.0.0/12", show_default=True, callback=_cidr, metavar="CIDR", help="Of the cluster."
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def sizing(
    files: tuple[Path, ...],
    hosts: int | None,
    dpus: int | None,
    racks: int | None,
    rack_type: str,
    pods: int | None,
    service_cidr: Network,
    output: str,
) -> None:
    """Say what a fleet needs: networks, pools, Services, memory and CPU of pods; and which limit breaks first.

    The fleet is that of VALUES (values files of the simulator's chart, merged in order), or --hosts, or --racks.
    """
    if sum([bool(files), hosts is not None or dpus is not None, racks is not None]) != 1:
        raise click.UsageError("give VALUES, or --hosts and --dpus, or --racks")
    try:
        if files:
            deployment = values.read(files)
            unknown = [group.rack_type for group in deployment.groups if group.racks and not group.machines]
            if unknown:
                raise ConfigError(f"{deployment.values.name}: the rack type {unknown[0]!r} is not known")
            need = demand(deployment.machines, pods or len(deployment.pods) or 1, deployment.rack_count)
        elif racks is not None:
            need = demand(values.rack_machines(rack_type, racks), pods or ceil(racks / RACKS_PER_POD), racks)
        else:
            need = demand([_hosts(hosts or 4500, 2 if dpus is None else dpus)], pods or 1)
        if need.bmcs == 0:
            raise ConfigError(f"{', '.join(map(str, files))}: has no machines; add a group to pods.NAME.machines")
        result = size(need, service_cidr)
    except (ConfigError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(_FORMATS[output](result), nl=False)


def _hosts(count: int, dpus: int) -> MachineGroup:
    return MachineGroup(name="hosts", hw_type="", kind=Kind.HOST, host_count=count, dpus=dpus)


def _plain(result: Sizing) -> Any:
    return msgspec.to_builtins(result)


def _json(result: Sizing) -> str:
    return orjson.dumps(_plain(result), option=orjson.OPT_INDENT_2).decode() + "\n"


def _yaml(result: Sizing) -> str:
    return str(yaml.safe_dump(_plain(result), sort_keys=False))


def _table(result: Sizing) -> str:
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Sizing) -> Iterator[str]:
    need = result.demand
    yield _fleet(need)
    yield ""
    yield from _columns(
        ("NETWORK", "ADDRESSES", "PREFIX", "USABLE", "SHIPPED /18"),
        [(one.name, one.addresses, f"/{one.prefix}", one.usable, one.shipped) for one in result.networks],
    )
    yield ""
    yield from _columns(("POOL", "VALUES", "SHIPPED"), [(one.name, one.values, one.shipped) for one in result.pools])
    yield ""
    yield (
        f"Services: {result.services:,} ({need.bmcs:,} BMCs, {need.nvos:,} NVOS, {need.own_services} of the "
        f"simulator), a ClusterIP each: a /{result.service_prefix} or larger"
    )
    yield f"MACs: {need.macs:,}, and {need.ranges:,} ranges"
    yield ""
    yield from _columns(
        ("POD", "BMCS", "REQUEST", "LIMIT", "CPU", "AS OF"),
        [
            (one.simulator, one.bmcs, f"{one.request_mib}Mi", f"{one.limit_mib}Mi", f"{one.cores:g}", one.basis)
            for one in result.shares
        ],
    )
    yield ""
    yield from _columns(
        ("LIMIT", "OF", "IS", "NEEDED", "BREAKS ABOVE BMCS"),
        [(one.name, one.of, one.limit, one.needs, one.max_bmcs) for one in result.limits],
    )
    yield f"First: {result.first.name}, above {result.first.max_bmcs:,} BMCs"
    yield ""
    times = result.times
    yield (
        f"Times: Services {times.services_s} s at 100/s; addresses {times.dhcp_min[0]}-{times.dhcp_min[1]} min at "
        f"180-110/min; machines {times.creation_min[0]}-{times.creation_min[1]} min at 100-80/min; machine-a-tron "
        f"listens after {times.startup_s} s"
    )


def _fleet(need: Demand) -> str:
    parts = [("racks", need.racks), ("hosts", need.hosts), ("DPUs", need.dpus), ("switches", need.switches)]
    parts += [("power shelves", need.shelves), ("machines", need.machines)]
    made_of = ", ".join(f"{count:,} {name}" for name, count in parts if count)
    return f"{need.bmcs:,} BMCs in {need.pods} pod{'s' if need.pods > 1 else ''}: {made_of}"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str | int]]) -> Iterator[str]:
    """Lines of a table: texts to the left, numbers to the right."""
    cells = [list(head), *[[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    for line in cells:
        out = [
            cell.rjust(width) if rows and isinstance(rows[0][column], int) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(out).rstrip()


_FORMATS = {"table": _table, "json": _json, "yaml": _yaml}
