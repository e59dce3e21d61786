"""`bmcsim fleet jobs`: operations that run, and that ran lately."""

import time

import click

from bmcsim.cli import completion
from bmcsim.cli.operating import followed, summed_up, tell
from bmcsim.cli.remote import Remote, option, part, remote_options
from bmcsim.cli.show import output_option, structured, table, watch_option, watched

_NAMES = ("id", "state", "operation", "total", "done", "skipped", "failed", "progress", "created")


@click.command("jobs")
@click.argument("job", required=False, shell_complete=completion.jobs)
@option("--wait", is_flag=True, help="Wait until the job is over. Exit code 1 when it did not work for some BMCs.")
@option("--cancel", is_flag=True, help="Let the job begin with no further BMC.")
@output_option("table", "json", "yaml", default="table")
@watch_option
@remote_options
def jobs(remote: Remote, job: str | None, wait: bool, cancel: bool, output: str, watch: float | None) -> None:
    """List the latest jobs, or show one."""
    if job is None:
        if wait or cancel:
            raise click.UsageError("--wait and --cancel are about one job; say its id")
        watched(watch, lambda: _listed(remote, output))
        return
    path = f"jobs/{part(job)}"
    found = remote.send("DELETE", path) if cancel else remote.get(path)
    if wait:
        tell(followed(remote, found, f"job {job}"), "text" if output == "table" else output)
        return
    watched(watch, lambda: _one(remote, path, output))


def _one(remote: Remote, path: str, output: str) -> list[str]:
    found = remote.get(path)
    return summed_up(found) if output == "table" else structured(found, output)


def _listed(remote: Remote, output: str) -> list[str]:
    found = remote.get("jobs")["jobs"]
    if output != "table":
        return structured(found, output)
    rows = [
        {**one, "operation": one["operation"]["type"], "progress": f"{one['progress'] * 100:.0f}%"} for one in found
    ]
    return list(table(rows, _NAMES, time.time()))
