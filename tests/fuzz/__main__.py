"""Long runs by hand: `python -m tests.fuzz --cases 1000000 --handle`; `--seed N --cases 1` sees one case again."""

import argparse
import logging
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from tests.fuzz import datagrams, handling, lanes, wire
from tests.fuzz.handling import Broken, Figures

_EVERY = 10.0
_MOST_BROKEN = 20

Case = Callable[[int, Figures], Awaitable[None]]


async def _handle(seed: int, figures: Figures) -> None:
    handling.run(seed, figures)


async def _lanes(seed: int, figures: Figures) -> None:
    figures.statuses += await lanes.run(seed, 1)
    figures.cases = figures.statuses.total()


_KINDS: dict[str, Case] = {"handle": _handle, "raw": wire.attempt, "lanes": _lanes, "dhcp": datagrams.attempt}


async def _run(kind: str, seed: int, cases: int) -> int:
    figures, broken = Figures(), 0
    began = told = time.monotonic()
    while figures.cases < cases and broken < _MOST_BROKEN:
        try:
            await _KINDS[kind](seed, figures)
        except Broken as error:
            broken += 1
            print(f"seed {seed}: {error}\n", flush=True)
        seed += 1
        if (now := time.monotonic()) - told > _EVERY:
            told = now
            print(f"{figures.cases} cases, {figures.cases / (now - began):.0f}/s, next seed {seed}", flush=True)
    seconds = time.monotonic() - began
    print(f"{kind}: {figures.cases} cases in {seconds:.0f} s, {figures.cases / seconds:.0f}/s; {broken} broken")
    print("statuses:", ", ".join(f"{status or 'none'} {count}" for status, count in sorted(figures.statuses.items())))
    if figures.messages:
        print("messages:", ", ".join(f"{key} {count}" for key, count in figures.messages.most_common()))
        print(f"largest answer: {figures.largest} bytes; slowest: {figures.slowest[0]:.3f} s, {figures.slowest[1]}")
    return broken


def main() -> int:
    """Run what the command line asks for; 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--handle", dest="kind", action="store_const", const="handle", help="sequences of requests")
    kinds.add_argument("--raw", dest="kind", action="store_const", const="raw", help="bytes against the HTTP edge")
    kinds.add_argument("--lanes", dest="kind", action="store_const", const="lanes", help="one request by all ways")
    kinds.add_argument("--dhcp", dest="kind", action="store_const", const="dhcp", help="replies of a DHCP server")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run; each run has the next one")
    arguments = parser.parse_args()
    # uvicorn tells of tasks that end with their connection.
    logging.disable(logging.WARNING)
    return int(uvloop.run(_run(arguments.kind or "handle", arguments.seed, arguments.cases)) > 0)


if __name__ == "__main__":
    sys.exit(main())
