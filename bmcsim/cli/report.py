"""`bmcsim report`: what became of a run."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from time import time

import click
import msgspec

from bmcsim.cli.remote import Remote
from bmcsim.deploy import database, ingestion
from bmcsim.deploy.ingestion import Curve, CurveError
from bmcsim.deploy.teardown import kubectl_flags
from bmcsim.edges.control.ingestion_api import Ingestion
from bmcsim.edges.postgres import Postgres, PostgresError, in_pod

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGO = re.compile(r"(\d{1,9})([smhd])")
_CURVE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_MILESTONES = ("contact", "login", "rotation", "reset", "exploration")


def _since(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    if match := _AGO.fullmatch(value):
        return time() - int(match[1]) * _UNITS[match[2]]
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        raise click.BadParameter(f"{value!r} must be a time like 2026-01-02T03:04:05Z, or 90m, 6h or 2d") from None


def _curves(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, query = one.partition("=")
        if not _CURVE_NAME.fullmatch(name) or not equals or not query.strip():
            raise click.BadParameter(f"{one!r} must be NAME=QUERY, such as endpoints='SELECT created FROM endpoints'")
        found[name] = query
    return found


@click.group("report")
def report_group() -> None:
    """Say what became of a run."""


@report_group.command("ingestion")
@click.option("--since", callback=_since, metavar="TIME", help="Without what was before: a time, or 90m, 6h, 2d ago.")
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write summary, tables and a plot there too.")  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print the table of minutes in place of the summary.")
@click.option("--from-emulator", "urls", multiple=True, metavar="URL",
              help="Ask admin listeners of bmcsim, and no database.")  # fmt: skip
@click.option("--psql", is_flag=True, help="Run psql here, with PGHOST, PGUSER, PGPASSWORD, ...; not in the pod.")
@click.option("--database", "name", envvar="NICO_DB", metavar="NAME",
              help=f"NICo's database.  [default: PGDATABASE with --psql, {database.DATABASE}]")  # fmt: skip
@click.option("--postgres-namespace", envvar="POSTGRES_NS", default=database.NAMESPACE, show_default=True,
              help="Of the database's pod.")  # fmt: skip
@click.option("--postgres-selector", default=database.PRIMARY, show_default=True, help="Labels of that pod.")
@click.option("--postgres-container", default=database.CONTAINER, show_default=True, help="Container of that pod.")
@click.option("--curve", "more", multiple=True, callback=_curves, metavar="NAME=QUERY",
              help="A further curve, or another query for one: its first column is a time.")  # fmt: skip
@click.option("--states", default=database.STATES, metavar="QUERY", help="Query for states and counts of machines.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Passed to kubectl.")
@click.option("--context", default="", metavar="NAME", help="Passed to kubectl.")
@click.option("--timeout", type=click.FloatRange(1, 3600), default=60.0, show_default=True, help="Of a question, s.")
def report_ingestion(
    since: float | None,
    folder: Path | None,
    as_csv: bool,
    urls: tuple[str, ...],
    psql: bool,
    name: str | None,
    postgres_namespace: str,
    postgres_selector: str,
    postgres_container: str,
    more: Mapping[str, str],
    states: str,
    kubeconfig: str,
    context: str,
    timeout: float,
) -> None:
    """Say how fast NICo took the machines in: when it made interfaces and machines, by the times in its database.

    The database is asked in its pod by `kubectl exec`, or with --psql from here. With --from-emulator the BMCs are
    asked: when each was contacted, logged in to, rotated and reset first, and explored last.
    """
    if urls and (psql or more):
        raise click.UsageError("--from-emulator asks no database: leave --psql and --curve away")
    try:
        if urls:
            found = [_asked(url, timeout) for url in urls]
            rows = [msgspec.to_builtins(item) for one in found for item in one.items]
            curves = [_milestone(name, rows, since) for name in _MILESTONES]
            said = ingestion.summary(curves, of="\n".join(map(_contacted, urls, found)))
        else:
            flags = kubectl_flags(kubeconfig, context)
            site = (
                Postgres(name=name or ("" if os.environ.get("PGDATABASE") else database.DATABASE), timeout=timeout)
                if psql
                else in_pod(
                    flags, postgres_namespace, postgres_selector, postgres_container, name or database.DATABASE, timeout
                )
            )
            rows = []
            curves = [_queried(site, name, query, since) for name, query in {**database.CURVES, **more}.items()]
            said = ingestion.summary(curves, _counted(site, states))
    except (PostgresError, CurveError) as error:
        raise click.ClickException(str(error)) from error
    table = ingestion.csv(curves)
    click.echo(table if as_csv else said, nl=False)
    if folder is not None:
        _write(folder, said, table, ingestion.table(rows) if urls else "", curves)


def _queried(site: Postgres, name: str, query: str, since: float | None) -> Curve:
    rows = site.rows(database.times(query, since))
    try:
        return ingestion.curve(name, [float(row[0]) for row in rows])
    except ValueError as error:
        raise CurveError(f"{name}: the query gives what is no time") from error


def _counted(site: Postgres, query: str) -> dict[str, int]:
    try:
        return {state: int(count) for state, count in site.rows(query)}
    except ValueError as error:
        raise CurveError("--states: the query must give a state and a count in each row") from error


def _asked(url: str, timeout: float) -> Ingestion:
    remote = Remote(url, None, timeout)
    try:
        return msgspec.convert(remote.get("ingestion"), Ingestion)
    except msgspec.ValidationError as error:
        raise CurveError(f"{url} answers with what this bmcsim does not know: {error}") from error
    finally:
        remote.close()


def _contacted(url: str, found: Ingestion) -> str:
    return f"{url}: {len(found.items)} of {found.bmcs} BMCs were contacted since its process started ({found.started})"


def _milestone(name: str, rows: Sequence[Mapping[str, str | None]], since: float | None) -> Curve:
    times = [datetime.fromisoformat(at).timestamp() for row in rows if (at := row[name]) is not None]
    return ingestion.curve(name, times, since)


def _write(folder: Path, said: str, minutes: str, bmcs: str, curves: Sequence[Curve]) -> None:
    files = {"summary.txt": said, "per-minute.csv": minutes} | ({"bmcs.csv": bmcs} if bmcs else {})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        _plot(folder / "ingestion.png", curves)
    except OSError as error:
        raise click.ClickException(f"cannot write to {folder}: {error.strerror}") from error


def _plot(file: Path, curves: Sequence[Curve]) -> None:
    shown = [one for one in curves if one.times]
    try:
        from matplotlib.figure import Figure
    except ImportError:
        click.echo(f"no {file.name}: matplotlib is not installed (pip install matplotlib)", err=True)
        return
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots()
    start = min((one.times[0] for one in shown), default=0.0)
    for one in shown:
        minutes = [(time - start) / ingestion.MINUTE for time in one.times]
        axes.step(minutes, range(1, len(minutes) + 1), where="post", label=one.name)
    axes.set_xlabel(f"minutes after {ingestion.stamp(start)}" if shown else "nothing happened")
    axes.set_ylabel("total")
    axes.grid(visible=True, alpha=0.3)
    if shown:
        axes.legend(loc="best")
    figure.savefig(file, dpi=100)
