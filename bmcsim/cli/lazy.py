"""Groups whose commands are imported when they are asked for, so that a command does not pay for all the others."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """places: name of a command -> module:attribute. hidden: those that no list shows."""

    def __init__(
        self, *arguments: Any, places: Mapping[str, str], hidden: Mapping[str, str] | None = None, **others: Any
    ) -> None:
        super().__init__(*arguments, **others)
        self._shown, self._places = places, {**places, **(hidden or {})}

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(self._shown)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = self._places.get(cmd_name)
        if where is None:
            return None
        module, _, name = where.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command
