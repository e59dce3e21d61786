"""Changes of many BMCs: asking back, the job, how far it is, and what came of it."""

import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import click

from bmcsim.cli.remote import Remote, option, part, remote_options
from bmcsim.cli.selection import Chosen, Listed, listed, must_choose, nobody, selection_options
from bmcsim.cli.show import output_option, plain, printed, structured

Command = TypeVar("Command", bound=Callable[..., Any])

_FIRST, _LONGEST = 0.02, 0.5
_EXAMPLES = 3

yes_option = option("-y", "--yes", is_flag=True, help="Do not ask back. Without a terminal nobody is asked.")
dry_run_option = option("--dry-run", is_flag=True, help="Tell which BMCs it would be, and change nothing.")


class Over(NamedTuple):
    """Which BMCs a change is over, and how it is made. wave: as the API's Wave."""

    remote: Remote
    chosen: Chosen
    wave: dict[str, float] | None
    yes: bool
    dry_run: bool
    wait: bool
    output: str

    def run(self, operation: dict[str, Any], what: str) -> None:
        """Do it. what: in words. Raises RemoteError; exits with 1 when it did not work for some."""
        if not agreed(self.remote, self.chosen, what, yes=self.yes, dry_run=self.dry_run):
            return
        order: dict[str, Any] = {"operation": operation, "selection": self.chosen.words, "all": self.chosen.every}
        if self.wave is not None:
            order["wave"] = self.wave
        job = self.remote.send("POST", "operations", order)
        if self.wait:
            job = followed(self.remote, job, what)
        tell(job, self.output)


def change_options(command: Command) -> Command:
    """Adds all options of a change; the command gets them as `over`."""

    @selection_options
    @option("--wave", type=click.IntRange(1), metavar="N", help="N at a time.")
    @option("--interval", type=click.FloatRange(0, 86400), metavar="SECONDS", help="Pause between waves.")
    @yes_option
    @dry_run_option
    @option("--no-wait", is_flag=True, help="Do not wait until the job is over.")
    @output_option("text", "json", "yaml", default="text")
    @remote_options
    @functools.wraps(command)
    def with_over(
        remote: Remote,
        chosen: Chosen,
        wave: int | None,
        interval: float | None,
        yes: bool,
        dry_run: bool,
        no_wait: bool,
        output: str,
        **others: Any,
    ) -> Any:
        if interval is not None and wave is None:
            raise click.UsageError("--interval is the pause between waves; --wave says how large they are")
        waves = {"size": wave, "interval": interval or 0.0} if wave is not None else None
        return command(**others, over=Over(remote, must_choose(chosen), waves, yes, dry_run, not no_wait, output))

    return with_over  # type: ignore[no-any-return]


# before


def agreed(remote: Remote, chosen: Chosen, what: str, *, yes: bool, dry_run: bool) -> bool:
    """Whether to go on: after a dry look not, and over several BMCs if whoever is at the terminal says so.

    Raises RemoteError where there is no such BMC, and Abort.
    """
    if dry_run:
        found = _found(remote, chosen, None)
        click.echo(f"would {what} {_bmcs(found.total)}:", err=True)
        for one in found.items:
            click.echo(one["id"])
        return False
    if yes or not at_terminal():
        return True
    found = _found(remote, chosen, _EXAMPLES)
    if found.total > 1:
        names = ", ".join([one["id"] for one in found.items])
        more = ", ..." if found.total > len(found.items) else ""
        click.confirm(f"{what} {_bmcs(found.total)} ({names}{more})?", abort=True, err=True)
    return True


def _found(remote: Remote, chosen: Chosen, limit: int | None) -> Listed:
    found = listed(remote, chosen, ["id"], limit=limit)
    if not found.total:
        raise nobody()
    return found


def at_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def _bmcs(count: int) -> str:
    return f"{count} BMC{'' if count == 1 else 's'}"


# meanwhile


def followed(remote: Remote, job: dict[str, Any], what: str) -> dict[str, Any]:
    """A job when it is over; on a terminal with a bar that shows how far it is. Raises RemoteError."""
    try:
        if not sys.stderr.isatty():
            for seen in _seen(remote, job):
                job = seen
            return job
        with click.progressbar(length=job["total"], label=what, file=sys.stderr) as bar:
            for seen in _seen(remote, job):
                bar.update(_through(seen) - bar.pos)
                job = seen
        return job
    except KeyboardInterrupt:
        click.echo(f"\njob {job['id']} goes on; `bmcsim fleet jobs {job['id']} --cancel` ends it", err=True)
        raise click.Abort from None


def _seen(remote: Remote, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pause = _FIRST
    while job["state"] == "running":
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST)
        job = remote.get(f"jobs/{part(job['id'])}")
        yield job


def _through(job: dict[str, Any]) -> int:
    return int(job["done"] + job["failed"] + job["skipped"])


# after


def tell(job: dict[str, Any], output: str) -> None:
    """Print what came of a job. Exits with 1 when it did not work for some."""
    printed(summed_up(job) if output == "text" else structured(job, output))
    if job["failed"] or job["state"] == "cancelled":
        raise click.exceptions.Exit(1)


def summed_up(job: dict[str, Any]) -> list[str]:
    """A job in lines."""
    counts = [f"{job['done']} done"] + [f"{job[name]} {name}" for name in ("skipped", "failed") if job[name]]
    lines = [f"job {job['id']} {job['state']}: {', '.join(counts)}, of {_bmcs(job['total'])}"]
    for one in job["reasons"]:
        others = f" and {one['count'] - 1} more" if one["count"] > 1 else ""
        lines.append(f"  {one['outcome']}: {plain(one['reason'])} ({one['example']}{others})")
    return lines
