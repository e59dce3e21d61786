"""`bmcsim completion`, and what is completed from a running process."""

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import Any

import click

from bmcsim.cli.remote import Remote, RemoteError, quick

_SECONDS = 0.5
_MOST = 200


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete bmcsim's commands, and the ids and groups of a running process.

    \b
    bash: eval "$(bmcsim completion bash)" in ~/.bashrc
    zsh:  eval "$(bmcsim completion zsh)" in ~/.zshrc
    fish: bmcsim completion fish > ~/.config/fish/completions/bmcsim.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "bmcsim", "_BMCSIM_COMPLETE").source())


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _from(ask: Callable[[Remote, str], Iterable[Any]]) -> Completer:
    """Completes with what a process says, and with nothing when it says nothing soon."""

    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        remote = quick(context, _SECONDS)
        if remote is None:
            return []
        with closing(remote), suppress(RemoteError, KeyError, TypeError):
            return [word for word in ask(remote, typed) if isinstance(word, str) and word.startswith(typed)]
        return []

    return complete


bmcs = _from(
    lambda remote, typed: [
        one["id"] for one in remote.get("bmcs", {"q": typed, "fields": "id", "limit": _MOST})["items"]
    ]
)
groups = _from(lambda remote, _typed: [one["name"] for one in remote.get("groups")["groups"]])
racks = _from(lambda remote, _typed: [one["id"] for one in remote.get("racks")["racks"]])
hardware = _from(lambda remote, _typed: sorted(remote.get("fleet")["by_hardware"]))
jobs = _from(lambda remote, _typed: [one["id"] for one in remote.get("jobs")["jobs"]])


def presets(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Completes names of fault presets."""
    from bmcsim.tree import fault_presets

    return [name for name in fault_presets.names() if name.startswith(typed)]
