"""Group commit: changes reach the disk together, off the event loop, and are undone if they do not."""

import asyncio
import logging
import sqlite3
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import count, islice
from typing import Any, NamedTuple, Protocol

from bmcsim.core.histogram import Histogram

_log = logging.getLogger(__name__)

GROUP_LIMIT = 500
"""How many things a group encodes at most: what keeps the event loop from being blocked for long."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

Done = Callable[[BaseException | None], None]
"""Called once on the event loop: None when the change is on disk, an error when it is undone."""


class NotSaved(Exception):
    """A change did not reach the disk; the text says why."""


class NotEncodable(NotSaved):
    """A change that no disk could take: a fault of this program."""


class Journalled(Protocol):
    """What the journal needs of a thing."""

    @property
    def id(self) -> str:
        """Names its row; never changes."""

    def encode(self) -> bytes | None:
        """The durable state as it is now; None: it needs no row."""

    def restore_committed(self, before: Any) -> None:
        """Go back to an earlier state value."""


class Writer(Protocol):
    """What the journal needs of a store."""

    def write(self, rows: Mapping[str, bytes | None]) -> None:
        """Write all rows or none. Called in a thread of the journal's own. Raises when none was written."""


class _Change(NamedTuple):
    """A change that somebody waits for. number: how many came before it."""

    number: int
    thing: Journalled
    before: Any
    done: Done


class _Dirty:
    """A thing with changes that are not on disk.

    changes: what is undone when saving fails, oldest first; a change without a waiter that came after one of them is
    undone with it and needs no entry. stays: whether a change without a waiter came before them, which is never undone.
    """

    __slots__ = ("changes", "stays", "thing")

    def __init__(self, thing: Journalled) -> None:
        self.thing = thing
        self.changes: list[_Change] = []
        self.stays = False

    def absorb(self, later: "_Dirty") -> None:
        """Add what happened to the same thing afterwards."""
        self.stays = self.stays or (later.stays and not self.changes)
        self.changes += later.changes


class Journal:
    """Saves changes in groups, one group at a time.

    A change that somebody waits for is undone when its group fails, together with all that were queued behind that
    group. What a timer changed stays and is tried again until it is saved.
    groups, committed: how many groups were saved, and rows in them. failures: how often saving failed. last_error: why,
    empty while saving works. writes: real seconds that groups took from the event loop to the disk and back.
    """

    def __init__(
        self, store: Writer, loop: asyncio.AbstractEventLoop | None = None, *, limit: int = GROUP_LIMIT
    ) -> None:
        self._store, self._limit = store, limit
        self._loop = loop or asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bmcsim-journal")
        self._thread.submit(int)  # a process that may have no more threads has to say so now
        self._numbers = count()
        self._pending: dict[str, _Dirty] = {}
        self._group: dict[str, _Dirty] = {}
        self._scheduled = self._closed = self._held = False
        self._retry: asyncio.TimerHandle | None = None
        self._pause = 0.0
        self._outage: float | None = None
        self._outage_failures = 0
        self._watchers: list[asyncio.Future[None]] = []
        self.groups = self.committed = self.failures = 0
        self.last_error = ""
        self.writes = Histogram(_BOUNDS)
        self._began = 0.0

    @property
    def unsaved(self) -> int:
        """How many things have changes that are not on disk, those that are being written included."""
        return len(self._pending.keys() | self._group.keys())

    def changed(self, thing: Journalled, before: Any, done: Done | None = None) -> None:
        """Save a change that was just made. before: the state value before it, which nobody modifies.

        done: who waits for it; None for what a timer changed. Raises RuntimeError after `close`.
        """
        if self._closed:
            raise RuntimeError("the journal is closed: a change would be lost")
        dirty = self._pending.get(thing.id)
        if dirty is None:
            dirty = self._pending[thing.id] = _Dirty(thing)
        if done is not None:
            dirty.changes.append(_Change(next(self._numbers), thing, before, done))
        elif not dirty.changes:
            dirty.stays = True
        if done is not None or self._retry is None:
            self._wake()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Begin no group inside the block, and enter it once the one in flight is over: what changes meanwhile waits.

        One block at a time.
        """
        self._held = True
        try:
            await self._landed()
            yield
        finally:
            self._held = False
            if self._pending:
                self._wake()

    async def write(self, rows: Mapping[str, bytes | None]) -> None:
        """Write rows at once, all or none; such as no group has, or inside of `held`. Raises NotSaved."""
        try:
            await self._loop.run_in_executor(self._thread, self._store.write, rows)
        except Exception as error:
            raise NotSaved(_reason(error)) from error

    def superseded(self, ids: Iterable[str]) -> None:
        """Rows that were just written have what came after all changes of these things: whoever waits for one is told
        that it is saved."""
        if self._pending:
            found = [dirty for id_ in ids if (dirty := self._pending.pop(id_, None)) is not None]
            _tell(_ordered(found), None)

    async def _landed(self) -> None:
        """Return when no group is in flight."""
        while self._group:
            watcher = self._loop.create_future()
            self._watchers.append(watcher)
            await watcher

    async def close(self) -> None:
        """Save everything and end the thread. Raises NotSaved when changes are left that cannot be saved."""
        try:
            while self.unsaved and not self._closed:
                committed = self.committed
                self._cancel_retry()
                self._start()
                await self._landed()
                if self.committed == committed and self._pending:
                    raise NotSaved(f"{len(self._pending)} BMCs have changes that were not saved: {self.last_error}")
        finally:
            self._closed = True
            self._cancel_retry()
            if any(dirty.changes for dirty in self._pending.values()):  # close was cancelled, or they came too late
                failed, self._pending = self._pending, {}
                self._fail(failed, "the journal was closed")
            self._thread.shutdown()

    # one group

    def _wake(self) -> None:
        """Start a group soon: what else changes in this turn of the loop joins it."""
        if not (self._scheduled or self._group or self._closed or self._held):
            self._scheduled = True
            self._loop.call_soon(self._wanted)

    def _wanted(self) -> None:
        self._scheduled = False
        if not (self._closed or self._held):
            self._start()

    def _start(self) -> None:
        """Start a group unless one is in flight. Until the next retry, what nobody waits for is left out."""
        if self._group:
            return
        everything = self._retry is None
        chosen = list(islice((one for one in self._pending.values() if everything or one.changes), self._limit))
        rows: dict[str, bytes | None] = {}
        broken: dict[str, _Dirty] = {}
        reason = ""
        for dirty in chosen:
            id_ = dirty.thing.id
            del self._pending[id_]
            try:
                rows[id_] = dirty.thing.encode()
                self._group[id_] = dirty
            except Exception as error:
                broken[id_] = dirty
                reason = f"BMC {id_} cannot be encoded: {_raised(error)}"
        if rows:
            self._began = time.monotonic()
            future = self._loop.run_in_executor(self._thread, self._store.write, rows)
            future.add_done_callback(self._written)
        if broken:  # only they fail: one that can never be encoded must not keep the others from the disk
            self._fail(broken, reason, NotEncodable)

    def _written(self, future: "asyncio.Future[None]") -> None:
        """The group in flight is on disk, or it failed."""
        self.writes.observe(time.monotonic() - self._began)
        error = future.exception()
        group, self._group = self._group, {}
        if error is None:
            self._commit(group)
        else:
            for id_, later in self._pending.items():
                if id_ in group:
                    group[id_].absorb(later)
                else:
                    group[id_] = later
            self._pending = {}
            self._fail(group, _reason(error))
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    def _commit(self, group: Mapping[str, _Dirty]) -> None:
        """A group is on disk."""
        self.groups += 1
        self.committed += len(group)
        if self._outage is not None and (self._retry is None or not self._pending):
            _log.info(
                "changes are saved again, after %.0f s and %d failures",
                self._loop.time() - self._outage,
                self.failures - self._outage_failures,
            )
            self._outage, self._pause, self.last_error = None, 0.0, ""
        self._cancel_retry()  # saving works: what waits for the retry need not
        if self._pending:
            self._wake()
        _tell(_ordered(group.values()), None)

    def _fail(self, failed: Mapping[str, _Dirty], reason: str, kind: type[NotSaved] = NotSaved) -> None:
        """Undo what is undone, keep the rest for the retry, and tell those who wait."""
        undone = _ordered(failed.values())
        for change in reversed(undone):
            try:
                change.thing.restore_committed(change.before)
            except Exception as error:
                _log.error("BMC %s: undoing a change failed: %s", change.thing.id, _raised(error))
        for id_, dirty in failed.items():
            if dirty.stays:
                dirty.changes = []
                self._pending[id_] = dirty
        self.failures += 1
        self.last_error = reason
        if self._outage is None:
            self._outage, self._outage_failures = self._loop.time(), self.failures - 1
            _log.warning(
                "changes cannot be saved (%s): %d are undone, their requests fail; %d BMCs have changes that are kept "
                "in memory and tried again",
                reason,
                len(undone),
                len(self._pending),
            )
        if self._pending and self._retry is None and not self._closed:
            self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._retry = self._loop.call_later(self._pause, self._try_again)
        _tell(undone, reason, kind)

    def _try_again(self) -> None:
        self._retry = None
        self._wake()

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None


def _ordered(things: Iterable[_Dirty]) -> list[_Change]:
    """The changes of things, oldest first."""
    return sorted((change for dirty in things for change in dirty.changes), key=lambda change: change.number)


def _tell(changes: Iterable[_Change], reason: str | None, kind: type[NotSaved] = NotSaved) -> None:
    """Tell all who wait; reason: why it failed, None when it did not."""
    for change in changes:
        try:
            # One error each: who raises it adds a traceback to it.
            change.done(None if reason is None else kind(reason))
        except Exception as error:
            _log.error("BMC %s: who waited for a change failed: %s", change.thing.id, _raised(error))


def _reason(error: BaseException) -> str:
    """What may be shown of an error of the store: the text of any other than these could quote a payload."""
    told_by_sqlite = isinstance(error, sqlite3.Error) and hasattr(error, "sqlite_errorcode")
    return str(error) if told_by_sqlite or isinstance(error, OSError) else _raised(error)


def _raised(error: BaseException) -> str:
    """Type and place of an error without its text, which could quote a payload."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
