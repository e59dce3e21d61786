"""`bmcsim fleet clock`: the hardware's time."""

from typing import Any

import click

from bmcsim.cli.remote import Remote, option, remote_options
from bmcsim.cli.show import output_option, printed, structured


@click.command("clock")
@option("--step", type=click.FloatRange(0), metavar="SECONDS", help="Move it forward.")
@option("--scale", type=click.FloatRange(0, min_open=True), metavar="N", help="Run N times as fast as real time.")
@option("--pause", is_flag=True, help="Let it stand.")
@option("--resume", is_flag=True, help="Let it run as before.")
@output_option("text", "json", "yaml", default="text")
@remote_options
def clock(remote: Remote, step: float | None, scale: float | None, pause: bool, resume: bool, output: str) -> None:
    """Show the hardware's time, on which boots, resets and updates are, or change how it runs."""
    changes = {"step": step, "scale": scale, "paused": pause if pause or resume else None}
    change = {name: value for name, value in changes.items() if value is not None}
    if len(change) + (pause and resume) > 1:
        raise click.UsageError("say one of --step, --scale, --pause and --resume")
    now = remote.send("POST", "clock", change) if change else remote.get("clock")
    printed(_lines(now) if output == "text" else structured(now, output))


def _lines(now: dict[str, Any]) -> list[str]:
    runs = "stands" if now["paused"] else f"runs {now['scale']:g} times as fast as real time"
    due = f", the next one in {now['next_timer']:g} s" if now["next_timer"] is not None else ""
    lines = [f"{now['wall']}: the hardware's time is {now['hardware']:.3f} s and {runs}; {now['timers']} timers{due}"]
    if "fired" in now:
        lines.append(f"{now['fired']} timers became due")
    return lines
