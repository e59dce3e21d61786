"""`bmcsim top`: a fleet live in a terminal."""

import os
import queue
import select
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bmcsim.cli import completion
from bmcsim.cli.events import Follower
from bmcsim.cli.remote import Remote, option, remote_options
from bmcsim.cli.selection import Chosen, chosen_of
from bmcsim.cli.show import colourful
from bmcsim.cli.top_view import SORTS, Line, Seen, View, keys, lines, page_of, pressed

_STYLES = {"title": "1", "head": "7", "bad": "31", "warn": "33", "dim": "2"}
_FIRST_SECONDS = 5.0
_LOOK_SECONDS = 0.2
_PLAIN_SIZE = (80, 24)

Heard = queue.SimpleQueue[tuple[str, Any]]


@click.command("top")
@option("--group", multiple=True, shell_complete=completion.groups, metavar="NAME", help="BMCs of a group alone.")
@option("--filter", "text", default="", metavar="WORDS", help="BMCs with these words in what is known of them.")
@option("--sort", type=click.Choice(list(SORTS)), default="trouble", show_default=True, help="In which order.")
@option(
    "-n", "--frames", type=click.IntRange(1), metavar="N", help="End after N pictures.  [default: 1 without a terminal]"
)
@option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between pictures.",
)
@remote_options
def top(remote: Remote, group: tuple[str, ...], text: str, sort: str, frames: int | None, interval: float) -> None:
    """Show a fleet live: states, request rates and times, jobs, and the BMCs, those that fail now first.

    \b
    q quits, / filters (all words must be in what is known of a BMC), s and r change the order, arrows, j, k, PgUp,
    PgDn and space scroll, Esc ends a filter.
    """
    # Whether there is anybody is an error at once; later it is shown, and tried again.
    remote.get("clock")
    heard: Heard = queue.SimpleQueue()
    query = {"group": list(group), "topics": "fleet,rates,job"}
    chosen: Chosen = chosen_of({"group": list(group)})
    follower = Follower(remote.another(), query, chosen, lambda name, data: heard.put((name, data)))
    follower.start()
    view, seen = View(sort=sort, filter=text), Seen()
    try:
        if sys.stdout.isatty() and sys.stdin.isatty():
            _live(seen, view, heard, remote.url, interval, frames)
        else:
            _printed(seen, view, heard, remote.url, interval, frames or 1)
    except KeyboardInterrupt:
        pass
    finally:
        follower.stop()


def _take(seen: Seen, heard: Heard, seconds: float = 0.0) -> bool:
    """Take what was heard; wait for it if it is nothing yet. Whether it was anything."""
    found = False
    try:
        while True:
            name, data = heard.get(timeout=seconds) if seconds and not found else heard.get_nowait()
            seen.heard(name, data, time.monotonic())
            found = True
    except queue.Empty:
        return found


def _printed(seen: Seen, view: View, heard: Heard, url: str, interval: float, frames: int) -> None:
    ends = time.monotonic() + _FIRST_SECONDS
    # A picture has everything: the first rates come a second after the fleet.
    while not (seen.rows and seen.rates) and time.monotonic() < ends:
        _take(seen, heard, _LOOK_SECONDS)
    for number in range(frames):
        if number:
            time.sleep(interval)
            _take(seen, heard)
        seen.passed(time.monotonic())
        for line in lines(seen, view, url, time.strftime("%H:%M:%S"), *_PLAIN_SIZE):
            click.echo(line.text)


def _live(seen: Seen, view: View, heard: Heard, url: str, interval: float, frames: int | None) -> None:
    due, left = 0.0, frames
    with _screen():
        while left is None or left > 0:
            size = shutil.get_terminal_size(_PLAIN_SIZE)
            _take(seen, heard)
            now = time.monotonic()
            if now >= due:
                seen.passed(now)
                _draw(lines(seen, view, url, time.strftime("%H:%M:%S"), size.columns, size.lines))
                due, left = now + interval, None if left is None else left - 1
            wait = max(0.0, min(due - time.monotonic(), interval))
            if not select.select([sys.stdin], [], [], wait)[0]:
                continue
            for key in keys(os.read(sys.stdin.fileno(), 256)):
                after = pressed(view, key, page_of(seen, size.lines))
                if after is None:
                    return
                view, due = after, 0.0


def _draw(picture: list[Line]) -> None:
    coloured = colourful()
    painted = [
        f"\x1b[{_STYLES[one.style]}m{one.text}\x1b[0m" if coloured and one.style else one.text for one in picture
    ]
    sys.stdout.write("\x1b[H" + "\x1b[K\r\n".join(painted) + "\x1b[K\x1b[J")
    sys.stdout.flush()


@contextmanager
def _screen() -> Iterator[None]:
    """The terminal's other screen, without its cursor and the echo of keys, until the block ends."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        sys.stdout.write("\x1b[?1049h\x1b[?25l")
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
