"""Which BMCs a command is about: the words of the control API as options."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from bmcsim.cli import completion
from bmcsim.cli.remote import Remote, RemoteError, option

Command = TypeVar("Command", bound=Callable[..., Any])

# As in fleet/selection.py, which costs a tenth of a second to import; a test compares them.
KINDS = ("host", "dpu", "switch", "power_shelf")
STATES = ("up", "resetting", "unpowered", "no_lease", "starting")
POWERS = ("On", "Off", "PoweringOn", "PoweringOff")
IDS_AT_ONCE = 20
"""That a query of the API takes; a change takes more."""

_PAGE = 5000


class Chosen(NamedTuple):
    """words: as the API's Selection has them. every: whether all BMCs were asked for."""

    words: dict[str, Any]
    every: bool = False

    @property
    def ids(self) -> list[str]:
        """BMCs that were named."""
        named: list[str] = self.words.get("ids", [])
        return named

    def queries(self) -> Iterator[dict[str, Any]]:
        """Queries that ask for all of them. Raises UsageError."""
        words = {name: value for name, value in self.words.items() if name not in ("ids", "sample")}
        words |= self.words.get("sample", {})
        if len(self.ids) > IDS_AT_ONCE and "sample" in self.words:
            raise click.UsageError(f"--sample is taken of at most {IDS_AT_ONCE} BMCs that are named")
        for start in range(0, len(self.ids) or 1, IDS_AT_ONCE):
            yield {**words, "ids": self.ids[start : start + IDS_AT_ONCE]}


class Listed(NamedTuple):
    """BMCs of a selection. total: how many it has, of which there may be fewer here."""

    items: list[dict[str, Any]]
    total: int


def listed(
    remote: Remote, chosen: Chosen, fields: Sequence[str], *, sort: str = "id", limit: int | None = None
) -> Listed:
    """The BMCs of a selection. sort: a field, with a minus for the largest first. limit: how many, None for all.

    Raises RemoteError and UsageError.
    """
    if len(chosen.ids) > IDS_AT_ONCE and sort != "id":
        raise click.UsageError(f"--sort is for at most {IDS_AT_ONCE} BMCs that are named")
    order = {"sort": sort.removeprefix("-"), "descending": sort.startswith("-"), "fields": ",".join(fields)}
    items: list[dict[str, Any]] = []
    total = 0
    for query in chosen.queries():
        offset: int | None = 0
        while offset is not None and (limit is None or len(items) < limit):
            most = _PAGE if limit is None else min(_PAGE, limit - len(items))
            page = remote.get("bmcs", {**query, **order, "limit": most, "offset": offset})
            items += page["items"]
            total += page["total"] if offset == 0 else 0
            offset = page["next"]
    return Listed(items, total)


def sample_of(_context: click.Context, _parameter: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """'5%' or '0.05': a share; '100': so many. Raises BadParameter."""
    if text is None:
        return None
    try:
        if "%" not in text and "." not in text:
            if 0 <= int(text) < 2**31:
                return {"count": int(text)}
        elif 0 <= (share := float(text[:-1]) / 100 if text.endswith("%") else float(text)) <= 1:
            return {"share": share}
    except ValueError:
        pass
    raise click.BadParameter(f"{text!r} must be a share, such as 5% or 0.05, or a number of BMCs, such as 100.")


def selection_options(command: Command) -> Command:
    """Adds the options and the argument; the command gets them as `chosen`."""

    @click.argument("bmcs", nargs=-1, shell_complete=completion.bmcs, metavar="[BMC]...")
    @option("--id", "ids", multiple=True, shell_complete=completion.bmcs, metavar="BMC", help="One more BMC.")
    @option("--group", multiple=True, shell_complete=completion.groups, metavar="NAME", help="Those of a group.")
    @option("--rack", multiple=True, shell_complete=completion.racks, metavar="ID", help="Those in a rack.")
    @option("--hardware", multiple=True, shell_complete=completion.hardware, metavar="PROFILE", help="Of a profile.")
    @option("--kind", multiple=True, type=click.Choice(KINDS), help="What they belong to.")
    @option("--state", multiple=True, type=click.Choice(STATES), help="What the BMC itself is doing.")
    @option("--power", "powers", multiple=True, type=click.Choice(POWERS), help="PowerState of the system.")
    @option("--address", multiple=True, metavar="ADDRESS", help="At an address, or in a network such as 10.1.0.0/16.")
    @option("-q", "q", metavar="TEXT", help="With TEXT in the id, address, MAC or serial number.")
    @option("--sample", callback=sample_of, metavar="SHARE|N", help="Some of these: 5%, or 100 for so many.")
    @option("--seed", type=click.IntRange(0, 2**63 - 1), help="Another one makes another sample.")
    @option("--all", "every", is_flag=True, help="Every BMC.")
    @functools.wraps(command)
    def with_selection(
        bmcs: tuple[str, ...],
        ids: tuple[str, ...],
        powers: tuple[str, ...],
        q: str | None,
        sample: dict[str, Any] | None,
        seed: int | None,
        every: bool,
        **others: Any,
    ) -> Any:
        words: dict[str, Any] = {"ids": list(dict.fromkeys([*bmcs, *ids]))}
        words |= {name: list(others.pop(name)) for name in ("group", "rack", "hardware", "kind", "state", "address")}
        words |= {"power": list(powers), "q": q}
        if sample is not None:
            words["sample"] = sample if seed is None else {**sample, "seed": seed}
        elif seed is not None:
            raise click.UsageError("--seed is about --sample, and there is none")
        return command(**others, chosen=chosen_of(words, every=every))

    return with_selection  # type: ignore[return-value]


def chosen_of(words: dict[str, Any], *, every: bool = False) -> Chosen:
    """What was said. Raises UsageError."""
    said = {name: value for name, value in words.items() if value}
    if said and every:
        raise click.UsageError("--all is every BMC; leave it out, or what chooses some")
    return Chosen(said, every)


def must_choose(chosen: Chosen) -> Chosen:
    """For a change: one that says which BMCs. Raises UsageError."""
    if not chosen.words and not chosen.every:
        raise click.UsageError("say which BMCs: by name, with options such as --group, or --all for every one of them")
    return chosen


def nobody() -> RemoteError:
    """There is no BMC in a selection."""
    return RemoteError("no BMC is as the selection says; `bmcsim fleet ls` lists them", 404)
