"""`bmcsim fleet snapshot`: the state of a fleet as a file."""

import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

import click

from bmcsim.cli.operating import agreed, yes_option
from bmcsim.cli.remote import Remote, option, remote_options
from bmcsim.cli.selection import Chosen, selection_options
from bmcsim.cli.show import output_option, printed, structured


@click.group("snapshot")
def snapshot() -> None:
    """Save the state of a fleet and restore it, there or in another process. A snapshot is a secret."""


@snapshot.command("save")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@option("--force", is_flag=True, help="Replace FILE.")
@selection_options
@remote_options
def save(remote: Remote, chosen: Chosen, file: Path, force: bool) -> None:
    """Save the state of the fleet, or of some BMCs, in FILE, which only its owner may read; - is standard output."""
    queries = list(chosen.queries())
    if len(queries) > 1:
        raise click.UsageError("that many BMCs by name are too many for a snapshot; say --group or the like")
    if str(file) == "-":
        if sys.stdout.isatty():
            raise click.UsageError("a snapshot is no text for a terminal; say a file")
        _copy(remote.pieces(remote.open("GET", "snapshot", queries[0])), sys.stdout.buffer)
        return
    if file.exists() and not force:
        raise click.UsageError(f"{file} is there already; --force replaces it")
    answer = remote.open("GET", "snapshot", queries[0])
    try:
        # What is not whole must not look as if it were; mkstemp lets the owner alone read.
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        made = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as out:
                size = _copy(remote.pieces(answer), out)
            made.replace(file)
        finally:
            with suppress(FileNotFoundError):
                made.unlink()
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be written: {error.strerror}") from error
    click.echo(f"{file}: {size} bytes", err=True)


@snapshot.command("restore")
@click.argument("file", type=click.File("rb"))
@option("--partial", is_flag=True, help="Also where the snapshot has other BMCs than the fleet.")
@yes_option
@output_option("text", "json", "yaml", default="text")
@remote_options
def restore(remote: Remote, file: IO[bytes], partial: bool, yes: bool, output: str) -> None:
    """Put the BMCs back to the state that FILE has; - is standard input."""
    if not agreed(remote, Chosen({}, every=True), "restore", yes=yes, dry_run=False):
        return
    done = remote.upload("restore", {"partial": partial}, file)
    if output != "text":
        printed(structured(done, output))
        return
    counts = [f"{done['restored']} BMCs restored"]
    counts += [f"{done['untouched']} are not in it"] if done["untouched"] else []
    counts += [f"{done['missing']} of it are not in the fleet"] if done["missing"] else []
    click.echo(f"{', '.join(counts)}; digest {done['digest']}")


@snapshot.command("digest")
@remote_options
def digest(remote: Remote) -> None:
    """Print what is equal for fleets whose states are equal."""
    click.echo(remote.get("fleet/digest")["digest"])


def _copy(pieces: Iterable[bytes], out: IO[bytes]) -> int:
    return sum([out.write(piece) for piece in pieces])
