"""`bmcsim fleet show` and `why`: one BMC in full, and what is wrong with it."""

import click

from bmcsim.cli import completion
from bmcsim.cli.remote import Remote, part, remote_options
from bmcsim.cli.show import output_option, plain, structured, watch_option, watched


@click.command("show")
@click.argument("bmcs", nargs=-1, shell_complete=completion.bmcs, metavar="[BMC]...")
@output_option("yaml", "json", default="yaml")
@watch_option
@remote_options
def show(remote: Remote, bmcs: tuple[str, ...], output: str, watch: float | None) -> None:
    """Show BMCs in full: accounts, sessions, faults, timers, firmware and more. Without a BMC: the fleet as a whole.

    BMC: an id, address, MAC, serial number or mat_id.
    """

    def draw() -> list[str]:
        if not bmcs:
            return structured(remote.get("fleet"), output)
        found = [remote.get(f"bmcs/{part(name)}") for name in bmcs]
        return structured(found[0] if len(found) == 1 else found, output)

    watched(watch, draw)


@click.command("why")
@click.argument("bmc", shell_complete=completion.bmcs)
@output_option("text", "json", "yaml", default="text")
@watch_option
@remote_options
def why(remote: Remote, bmc: str, output: str, watch: float | None) -> None:
    """Explain why clients fail at a BMC: its latest requests by outcome, whose password was presented, faults that
    acted, what NICo concludes, and what to do."""

    def draw() -> list[str]:
        said = remote.get(f"bmcs/{part(bmc)}/why")
        if output != "text":
            return structured(said, output)
        # The text is that of the process, which takes a while to import.
        import msgspec

        from bmcsim.edges.control.history_api import Why, lines

        return [plain(line) for line in lines(msgspec.convert(said, Why))]

    watched(watch, draw)
