"""`bmcsim fleet power`, `reset`, `factory-reset`, `timing` and `reading`: what is done to BMCs."""

import click

from bmcsim.cli.operating import Over, change_options
from bmcsim.cli.remote import option

# Short words, as those of bmcsim.testing, and the ResetTypes of the control API; a test compares these.
WORDS = {
    "on": "On",
    "off": "ForceOff",
    "shutdown": "GracefulShutdown",
    "restart": "ForceRestart",
    "cycle": "PowerCycle",
    "ac-cycle": "FullPowerCycle",
}
RESET_TYPES = (
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "GracefulRestart",
    "ForceRestart",
    "PowerCycle",
    "PushPowerButton",
    "Nmi",
    "FullPowerCycle",
)


@click.command("power")
@click.argument("command", type=click.Choice([*WORDS, *RESET_TYPES]), metavar="COMMAND")
@change_options
def power(over: Over, command: str) -> None:
    """Give the systems of BMCs a power command.

    COMMAND: on, off (ForceOff), shutdown (GracefulShutdown), restart (ForceRestart), cycle (PowerCycle), ac-cycle
    (FullPowerCycle: mains power of the system and its BMC), or a ResetType. What is there already is skipped.
    """
    over.run({"type": "power", "reset": WORDS.get(command, command)}, f"power {command}")


@click.command("reset")
@change_options
def reset(over: Over) -> None:
    """Restart the BMCs themselves; their systems run on."""
    over.run({"type": "bmc_reset"}, "reset")


@click.command("factory-reset")
@option(
    "--keep",
    type=click.Choice(["ResetAll", "PreserveNetwork", "PreserveNetworkAndUsers"]),
    default="ResetAll",
    show_default=True,
    help="What stays, as ResetType of Manager.ResetToDefaults.",
)
@change_options
def factory_reset(over: Over, keep: str) -> None:
    """Set BMCs back to their defaults, factory passwords included."""
    over.run({"type": "factory_reset", "keep": keep}, "factory-reset")


@click.command("timing")
@option("--factor", type=click.FloatRange(0, 1000), help="What all times are multiplied by: 0.1 for ten times as fast.")
@option("--set", "overrides", multiple=True, metavar="NAME=SECONDS", help="How long one thing takes, before --factor.")
@option("--default", is_flag=True, help="As the fleet file says.")
@change_options
def timing(over: Over, factor: float | None, overrides: tuple[str, ...], default: bool) -> None:
    """Change how long the hardware of BMCs takes, until the process ends. `bmcsim fleet show BMC` has the names."""
    if default is (factor is not None or bool(overrides)):
        raise click.UsageError("say --factor or --set, or --default alone")
    operation: dict[str, object] = {"type": "timing", "reset": default}
    if factor is not None:
        operation["acceleration_factor"] = factor
    if overrides:
        operation["overrides"] = dict(map(_override, overrides))
    over.run(operation, "change the timing of")


def _override(text: str) -> tuple[str, float]:
    name, _, seconds = text.partition("=")
    try:
        return name, float(seconds)
    except ValueError as error:
        raise click.UsageError(f"--set {text!r} must be NAME=SECONDS, such as bmc_reset=30") from error


@click.command("reading")
@option("--sensor", required=True, metavar="GLOB", help="URIs, such as '/redfish/v1/Chassis/*/Sensors/*Temp'.")
@option("--value", type=float, help="What they read.")
@option("--measured", is_flag=True, help="They read what they measure again.")
@change_options
def reading(over: Over, sensor: str, value: float | None, measured: bool) -> None:
    """Set what sensors of BMCs read."""
    if measured is (value is not None):
        raise click.UsageError("say --value or --measured")
    over.run({"type": "set_reading", "uri": sensor, "reading": value}, "set readings of")
