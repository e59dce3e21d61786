"""Work on a whole fleet beside its requests: the loop is never kept for more than a few milliseconds."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SLICE = 50
_SWITCH_SECONDS = 0.0005


async def in_turns(things: Iterable[T], most: int = SLICE) -> AsyncIterator[list[T]]:
    """Things, a few at a time; others have turns in between."""
    every = iter(things)
    while some := list(islice(every, most)):
        yield some
        await asyncio.sleep(0)


@contextmanager
def interruptible() -> Iterator[None]:
    """Threads that compute inside let the loop have its turn soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def aside(work: Callable[[], T]) -> T:
    """Do something in a thread that computes."""
    with interruptible():
        return await asyncio.to_thread(work)


@contextmanager
def lasting() -> Iterator[None]:
    """What is made inside stays for long, and is much: the garbage collector looks at none of it, now or later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
