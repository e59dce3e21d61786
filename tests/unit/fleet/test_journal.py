"""The journal: what is acknowledged stays, what is not saved is undone, and what a timer did is tried again."""

import asyncio
import logging
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import bmcsim
from bmcsim.fleet import journal as journal_module
from bmcsim.fleet.journal import Journal, NotSaved
from bmcsim.fleet.store import Store

SECRET = b"payload"


def disk_full() -> sqlite3.OperationalError:
    """What SQLite raises on a full disk."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


class Timer:
    """A call_later of the manual loop."""

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due, self.call, self.cancelled = due, call, False

    def cancel(self) -> None:
        self.cancelled = True


class ManualLoop:
    """As much of an event loop as the journal needs, and nothing happens by itself.

    flight: the write that a thread would be at.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.ready: deque[Callable[[], Any]] = deque()
        self.timers: list[Timer] = []
        self.flight: tuple[asyncio.Future[None], Callable[..., None], tuple[Any, ...]] | None = None

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[None]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def call_soon(self, call: Callable[..., Any], *args: Any, context: object = None) -> None:
        self.ready.append(lambda: call(*args))

    def call_later(self, delay: float, call: Callable[..., Any], *args: Any) -> Timer:
        self.timers.append(Timer(self.now + delay, lambda: call(*args)))
        return self.timers[-1]

    def run_in_executor(self, _: object, call: Callable[..., None], *args: Any) -> asyncio.Future[None]:
        assert self.flight is None, "two groups in flight"
        future = self.create_future()
        self.flight = future, call, args
        return future

    def turn(self) -> None:
        """One turn of the loop: what is ready now, not what becomes ready by it."""
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def settle(self) -> None:
        """Turns until nothing is ready."""
        while self.ready:
            self.turn()

    def land(self, error: BaseException | None = None) -> None:
        """The write in flight succeeds or fails; the journal hears of it in the next turn."""
        assert self.flight is not None
        (future, call, args), self.flight = self.flight, None
        if error is None:
            call(*args)
            future.set_result(None)
        else:
            future.set_exception(error)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        due = [timer for timer in self.timers if timer.due <= self.now]
        self.timers = [timer for timer in self.timers if timer.due > self.now and not timer.cancelled]
        self.ready.extend(timer.call for timer in due if not timer.cancelled)

    @property
    def pauses(self) -> list[float]:
        """In how many seconds timers are due."""
        return [timer.due - self.now for timer in self.timers if not timer.cancelled]


class Disk:
    """A store in memory. writes: the ids of each group."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes | None] = {}
        self.writes: list[list[str]] = []

    def write(self, rows: Mapping[str, bytes | None]) -> None:
        self.writes.append(list(rows))
        self.rows.update(rows)


class Thing:
    """A state value that is a number. undone: the values that were restored."""

    def __init__(self, id_: str) -> None:
        self.id, self.value, self.undone = id_, 0, []
        self.poison: Exception | None = None

    def encode(self) -> bytes:
        if self.poison is not None:
            raise self.poison
        return str(self.value).encode()

    def restore_committed(self, before: Any) -> None:
        self.value = before
        self.undone.append(before)


class Bench:
    """A journal on a manual loop. told: the outcome of each change that had a waiter, in order."""

    def __init__(self, limit: int = 500) -> None:
        self.loop, self.disk = ManualLoop(), Disk()
        self.journal = Journal(self.disk, self.loop, limit=limit)  # type: ignore[arg-type]
        self.told: list[tuple[str, int, str]] = []

    def change(self, thing: Thing, value: int, waits: bool = True) -> None:
        before, thing.value = thing.value, value

        def done(error: BaseException | None) -> None:
            assert error is None or isinstance(error, NotSaved)
            self.told.append((thing.id, value, "" if error is None else str(error)))

        self.journal.changed(thing, before, done if waits else None)

    def land(self, error: BaseException | None = None) -> None:
        self.loop.land(error)
        self.loop.settle()

    def close(self) -> None:
        """Close a journal that has nothing left to do."""
        with pytest.raises(StopIteration):
            self.journal.close().send(None)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A bench that is closed afterwards."""
    made = Bench()
    yield made
    made.journal._thread.shutdown()


@pytest.fixture
def one() -> Thing:
    return Thing("one")


@pytest.fixture
def two() -> Thing:
    return Thing("two")


# groups


def test_changes_of_one_turn_share_a_group(bench: Bench, one: Thing, two: Thing) -> None:
    bench.change(one, 1)
    bench.change(two, 1)
    bench.change(one, 2)
    assert bench.loop.flight is None
    bench.loop.turn()
    assert bench.told == []
    assert bench.journal.unsaved == 2
    bench.land()
    assert bench.disk.writes == [["one", "two"]]
    assert bench.disk.rows == {"one": b"2", "two": b"1"}
    assert bench.told == [("one", 1, ""), ("two", 1, ""), ("one", 2, "")]
    journal = bench.journal
    assert (journal.groups, journal.committed, journal.failures, journal.unsaved, journal.last_error) == (
        1,
        2,
        0,
        0,
        "",
    )


def test_changes_meanwhile_form_the_next_group(bench: Bench, one: Thing, two: Thing) -> None:
    bench.change(one, 1)
    bench.loop.settle()
    bench.change(one, 2)
    bench.change(two, 1)
    bench.loop.settle()
    assert bench.journal.unsaved == 2
    bench.land()
    assert bench.disk.rows == {"one": b"1"}
    assert bench.told == [("one", 1, "")]
    bench.change(two, 2)  # the group of the one before has started and was encoded
    bench.land()
    assert bench.disk.rows == {"one": b"2", "two": b"1"}
    bench.land()
    assert bench.disk.rows == {"one": b"2", "two": b"2"}
    assert bench.told == [("one", 1, ""), ("one", 2, ""), ("two", 1, ""), ("two", 2, "")]


def test_groups_are_timed_from_the_loop_to_the_disk_and_back(
    bench: Bench, one: Thing, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((100.0, 100.03, 200.0, 203.0))
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: next(times))
    for error in (None, disk_full()):
        bench.change(one, 1)
        bench.loop.settle()
        bench.land(error)
    writes = bench.journal.writes
    assert writes.sum == pytest.approx(3.03)
    assert [bound for bound, count in zip(writes.bounds, writes.buckets, strict=False) if count] == [0.05]
    assert writes.buckets[-1] == 1


def test_a_group_has_a_limit() -> None:
    bench = Bench(limit=2)
    things = [Thing(f"t{n}") for n in range(5)]
    for thing in things:
        bench.change(thing, 1)
    bench.change(things[0], 2)
    bench.loop.settle()
    for _ in range(3):
        bench.land()
    assert bench.disk.writes == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert bench.journal.unsaved == 0
    bench.close()


def test_a_timer_change_is_saved_too(bench: Bench, one: Thing) -> None:
    bench.change(one, 1, waits=False)
    bench.loop.settle()
    bench.land()
    assert bench.disk.rows == {"one": b"1"}
    assert bench.told == []


def test_a_thing_that_needs_no_row(bench: Bench, one: Thing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thing, "encode", lambda _: None)
    bench.change(one, 1)
    bench.loop.settle()
    bench.land()
    assert bench.disk.rows == {"one": None}


def test_a_waiter_that_raises(bench: Bench, one: Thing, caplog: pytest.LogCaptureFixture) -> None:
    def done(error: BaseException | None) -> None:
        raise ValueError(SECRET)

    for failure in (None, disk_full()):
        bench.told.clear()
        one.value = 0
        bench.journal.changed(one, 0, done)
        bench.change(one, 1)
        bench.loop.settle()
        bench.land(failure)
        assert bench.told == [("one", 1, str(failure or ""))]
    assert "BMC one: who waited for a change failed: ValueError at " in caplog.text
    assert SECRET.decode() not in caplog.text


def test_a_waiter_that_changes_something(bench: Bench, one: Thing, two: Thing) -> None:
    bench.journal.changed(one, 0, lambda _: bench.change(two, 5))
    bench.loop.settle()
    bench.land()
    bench.land()
    assert bench.disk.rows == {"one": b"0", "two": b"5"}
    assert bench.told == [("two", 5, "")]


# failure


def test_a_failed_group_is_undone_with_all_behind_it(bench: Bench, one: Thing, two: Thing) -> None:
    bench.change(one, 1)
    bench.change(one, 2)
    bench.loop.settle()
    bench.change(two, 1)
    bench.change(one, 3)
    bench.change(two, 2)
    bench.land(disk_full())
    assert (one.value, two.value) == (0, 0)
    assert one.undone == [2, 1, 0]
    assert two.undone == [1, 0]
    full = "database or disk is full"
    assert bench.told == [("one", 1, full), ("one", 2, full), ("two", 1, full), ("one", 3, full), ("two", 2, full)]
    assert bench.journal.unsaved == 0
    assert (bench.journal.failures, bench.journal.last_error) == (1, full)
    assert bench.loop.pauses == []


def test_the_waiters_hear_of_it_after_everything_is_undone(bench: Bench, one: Thing, two: Thing) -> None:
    seen = []
    for thing in (one, two):
        thing.value = 1
        bench.journal.changed(thing, 0, lambda _: seen.append((one.value, two.value)))
    bench.loop.settle()
    bench.land(disk_full())
    assert seen == [(0, 0), (0, 0)]


def test_what_was_acknowledged_is_not_undone(bench: Bench, one: Thing) -> None:
    bench.change(one, 1)
    bench.loop.settle()
    bench.change(one, 2)
    bench.land()
    bench.land(disk_full())
    assert one.value == 1
    assert bench.told == [("one", 1, ""), ("one", 2, "database or disk is full")]


@pytest.mark.parametrize("in_flight", range(5))
@pytest.mark.parametrize(
    ("waits", "left"),
    [
        ((False, False), 2),
        ((False, True), 1),
        ((True, False), 0),
        ((False, True, False, True), 1),
        ((True, False, False), 0),
    ],
)
def test_timer_changes(bench: Bench, one: Thing, waits: tuple[bool, ...], left: int, in_flight: int) -> None:
    """They stay, except after a change that is undone. in_flight: how many of them the failing group has."""
    for number, waiter in enumerate(waits):
        if number == in_flight:
            bench.loop.settle()
        bench.change(one, number + 1, waiter)
    bench.loop.settle()
    bench.land(disk_full())
    assert one.value == left
    assert bench.journal.unsaved == (left > 0)
    assert len(bench.told) == sum(waits)
    bench.loop.advance(1)
    bench.loop.settle()
    if left:
        bench.land()
        assert bench.disk.rows == {"one": str(left).encode()}
    assert bench.loop.flight is None
    assert bench.journal.unsaved == 0


def test_the_retry_backs_off(bench: Bench, one: Thing, two: Thing, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench.change(one, 1, waits=False)
    bench.loop.settle()
    for pause in (1, 2, 4, 8, 16, 30, 30):
        bench.land(disk_full())
        assert bench.loop.pauses == [pause]
        bench.change(two, bench.journal.failures, waits=False)  # waits for the retry as well
        bench.loop.settle()
        assert bench.loop.flight is None
        assert bench.journal.unsaved == 2
        bench.loop.advance(pause)
        bench.loop.settle()
    bench.land()
    assert bench.disk.rows == {"one": b"1", "two": b"7"}
    assert (bench.journal.failures, bench.journal.unsaved, bench.journal.last_error) == (7, 0, "")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "changes cannot be saved (database or disk is full): 0 are undone, their requests fail; "
            "1 BMCs have changes that are kept in memory and tried again",
        ),
        ("INFO", "changes are saved again, after 91 s and 7 failures"),
    ]
    bench.change(one, 2, waits=False)
    bench.loop.settle()
    bench.land(disk_full())
    assert bench.loop.pauses == [1]


def test_a_request_does_not_wait_for_the_retry(bench: Bench, one: Thing, two: Thing) -> None:
    bench.change(one, 1, waits=False)
    bench.loop.settle()
    bench.land(disk_full())
    bench.change(two, 1)
    bench.loop.settle()
    bench.land(disk_full())
    assert bench.told == [("two", 1, "database or disk is full")]
    assert bench.loop.pauses == [1]  # requests neither delay the retry nor hurry it
    bench.change(two, 2)
    bench.loop.settle()
    bench.land()
    assert bench.disk.rows == {"two": b"2"}  # what nobody waits for did not make its group larger
    bench.land()
    assert bench.disk.rows == {"two": b"2", "one": b"1"}
    assert bench.loop.pauses == []
    assert bench.journal.last_error == ""


def test_a_request_to_the_unsaved_one_ends_the_outage(bench: Bench, one: Thing) -> None:
    bench.change(one, 1, waits=False)
    bench.loop.settle()
    bench.land(disk_full())
    bench.change(one, 2)
    bench.loop.settle()
    bench.land()
    assert bench.disk.rows == {"one": b"2"}
    assert bench.journal.last_error == ""
    assert bench.loop.pauses == []


def test_one_that_cannot_be_encoded_does_not_keep_the_others(
    bench: Bench, one: Thing, two: Thing, caplog: pytest.LogCaptureFixture
) -> None:
    one.poison = ValueError(SECRET)
    bench.change(one, 1, waits=False)
    bench.change(one, 2)
    bench.change(two, 1)
    bench.loop.settle()
    bench.land()
    assert bench.disk.rows == {"two": b"1"}
    assert one.value == 1
    assert bench.told[1:] == [("two", 1, "")]
    assert bench.told[0][:2] == ("one", 2)
    assert bench.told[0][2].startswith("BMC one cannot be encoded: ValueError at ")
    assert bench.loop.flight is None
    assert bench.loop.pauses == [2]
    assert bench.journal.unsaved == 1
    one.poison = None
    bench.loop.advance(2)
    bench.loop.settle()
    bench.land()
    assert bench.disk.rows == {"two": b"1", "one": b"1"}
    assert bench.journal.last_error == ""
    assert SECRET.decode() not in caplog.text


def test_an_undo_that_fails(bench: Bench, one: Thing, two: Thing, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(before: Any) -> None:
        raise ValueError(SECRET)

    one.restore_committed = refuse  # type: ignore[method-assign]
    bench.change(two, 1)
    bench.change(one, 1)
    bench.loop.settle()
    bench.land(disk_full())
    assert two.value == 0
    assert len(bench.told) == 2
    assert "BMC one: undoing a change failed: ValueError at " in caplog.text
    assert SECRET.decode() not in caplog.text


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (sqlite3.OperationalError(SECRET), "OperationalError"),  # of the Python module, not of SQLite
        (ValueError(SECRET), "ValueError"),
        (SystemExit(SECRET), "SystemExit"),
    ],
)
def test_errors_show_no_payload(
    bench: Bench, one: Thing, error: BaseException, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.change(one, 1)
    bench.loop.settle()
    bench.land(error)
    assert bench.told == [("one", 1, shown)]
    assert bench.journal.last_error == shown
    assert SECRET.decode() not in caplog.text


# any sequence


class AnySequence(RuleBasedStateMachine):
    """A model beside the journal.

    live: of each thing the values that are not on disk, with their waiters. told: of each change with a waiter, what
    it was told. expected: what it had to be told. landed: the outcome that the journal hears of in the next turn.
    """

    NAMES = ("a", "b", "c", "d", "e")

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(limit=3)
        self.loop = self.bench.loop
        self.things = {name: Modelled(name, self) for name in self.NAMES}
        self.saved = dict.fromkeys(self.NAMES, 0)
        self.acknowledged = dict.fromkeys(self.NAMES, 0)
        self.live: dict[str, list[tuple[int, bool]]] = {name: [] for name in self.NAMES}
        self.told: dict[int, list[bool]] = {}
        self.expected: dict[int, bool] = {}
        self.landed: Callable[[], None] | None = None
        self.last = 0

    def make_change(self, name: str, waits: bool, follow_up: bool = False) -> None:
        thing = self.things[name]
        self.last += 1
        value, before, thing.value = self.last, thing.value, self.last
        self.live[name].append((value, waits))

        def done(error: BaseException | None) -> None:
            self.told.setdefault(value, []).append(error is None)
            if error is None:
                self.acknowledged[name] = max(self.acknowledged[name], value)
            if follow_up:
                self.make_change(name, waits=value % 2 == 0)
            if value % 3 == 0:
                raise RuntimeError("of a waiter")

        self.bench.journal.changed(thing, before, done if waits else None)

    @initialize(changes=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans(), st.booleans()), min_size=2))
    def begin(self, changes: list[tuple[str, bool, bool]]) -> None:
        for change in changes:
            self.make_change(*change)

    @rule(name=st.sampled_from(NAMES), waits=st.booleans(), follow_up=st.booleans())
    def change(self, name: str, waits: bool, follow_up: bool) -> None:
        self.make_change(name, waits, follow_up)

    @rule()
    def turn(self) -> None:
        landed, self.landed = self.landed, None
        if landed is not None:
            landed()
        self.loop.turn()

    @precondition(lambda self: self.loop.flight is not None)
    @rule(fails=st.booleans())
    def land(self, fails: bool) -> None:
        assert self.loop.flight is not None
        rows = dict(self.loop.flight[2][0])
        assert 0 < len(rows) <= 3
        if fails:
            self.loop.land(disk_full())
            self.landed = lambda: self.fail(self.NAMES)
        else:
            self.loop.land()
            self.landed = lambda: self.commit(rows)

    @rule(outcomes=st.lists(st.booleans(), min_size=1, max_size=3))
    def groups(self, outcomes: list[bool]) -> None:
        """Groups to their end, if there are any."""
        for fails in outcomes:
            self.turn()
            if self.loop.flight is not None:
                self.land(fails)
                self.turn()

    @rule(seconds=st.sampled_from([0.5, 1, 4, 40]))
    def advance(self, seconds: float) -> None:
        self.loop.advance(seconds)

    @rule(name=st.sampled_from(NAMES))
    def poison(self, name: str) -> None:
        self.things[name].poisoned = not self.things[name].poisoned

    def commit(self, rows: Mapping[str, bytes]) -> None:
        for name, payload in rows.items():
            value = int(payload)
            for number, waits in self.live[name]:
                if waits and number <= value:
                    self.expected[number] = True
            self.live[name] = [entry for entry in self.live[name] if entry[0] > value]
            self.saved[name] = value

    def fail(self, names: tuple[str, ...]) -> None:
        for name in names:
            entries = self.live[name]
            stay = next((place for place, (_, waits) in enumerate(entries) if waits), len(entries))
            self.expected.update((number, False) for number, waits in entries[stay:] if waits)
            self.live[name] = entries[:stay]

    @invariant()
    def memory_is_what_is_saved_and_what_is_live(self) -> None:
        for name, thing in self.things.items():
            assert thing.value == (self.live[name][-1][0] if self.live[name] else self.saved[name])
            assert thing.value >= self.acknowledged[name]
            assert int(self.bench.disk.rows.get(name) or 0) >= self.acknowledged[name]

    @invariant()
    def everybody_is_told_once_and_the_truth(self) -> None:
        assert self.told == {number: [outcome] for number, outcome in self.expected.items()}

    @invariant()
    def unsaved_is_shown(self) -> None:
        assert self.bench.journal.unsaved == sum(map(bool, self.live.values()))

    @invariant()
    def nothing_is_forgotten(self) -> None:
        if self.bench.journal.unsaved:
            assert self.loop.flight or self.loop.ready or self.loop.pauses

    def teardown(self) -> None:
        for thing in self.things.values():
            thing.poisoned = False
        for _ in range(1000):
            if self.loop.flight is not None:
                self.land(fails=False)
            elif not self.loop.ready:
                self.loop.advance(30)
            if not (self.loop.ready or self.bench.journal.unsaved):
                break
            self.turn()
            self.everybody_is_told_once_and_the_truth()
        self.memory_is_what_is_saved_and_what_is_live()
        assert self.bench.journal.unsaved == 0
        assert {name: int(payload or 0) for name, payload in self.bench.disk.rows.items()} == {
            name: value for name, value in self.saved.items() if value
        }
        self.bench.close()


class Modelled(Thing):
    """A thing that tells the model when it could not be encoded."""

    def __init__(self, id_: str, machine: AnySequence) -> None:
        super().__init__(id_)
        self.machine, self.poisoned = machine, False

    def encode(self) -> bytes:
        if self.poisoned:
            self.machine.fail((self.id,))
            raise ValueError(SECRET)
        return super().encode()


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(derandomize=True, deadline=None, max_examples=100, stateful_step_count=40)


def test_long_sequences() -> None:
    """The same rules with dice: longer than what Hypothesis likes to draw, and with more at once."""
    counts = Counter[str]()
    for seed in range(150):
        dice = random.Random(seed)
        machine = AnySequence()
        name = lambda: dice.choice(machine.NAMES)  # noqa: B023, E731
        for _ in range(120):
            match dice.choices(("change", "turn", "land", "advance", "poison"), (5, 6, 4, 1, 0.3))[0]:
                case "change":
                    machine.change(name(), dice.random() < 0.6, dice.random() < 0.2)
                case "turn":
                    machine.turn()
                case "land" if machine.loop.flight is not None:
                    machine.land(dice.random() < 0.4)
                case "advance":
                    machine.advance(dice.choice([0.5, 1, 4, 40]))
                case "poison":
                    machine.poison(name())
            machine.memory_is_what_is_saved_and_what_is_live()
            machine.everybody_is_told_once_and_the_truth()
            machine.unsaved_is_shown()
            machine.nothing_is_forgotten()
        counts["told saved"] += sum(machine.expected.values())
        counts["told undone"] += len(machine.expected) - sum(machine.expected.values())
        counts["groups"] += machine.bench.journal.groups
        counts["failures"] += machine.bench.journal.failures
        counts["ended in an outage"] += machine.bench.journal.last_error != ""
        machine.teardown()
    assert min(counts.values()) > 50, counts


# a real loop


class GatedDisk(Disk):
    """A store whose writes wait for a gate, and fail while `error` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.error = threading.Event(), None
        self.threads: set[int] = set()

    def write(self, rows: Mapping[str, bytes | None]) -> None:
        self.threads.add(threading.get_ident())
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        super().write(rows)


async def saved(journal: Journal, thing: Thing, value: int) -> None:
    """Change a thing and wait until it is saved; raises what its waiter is told."""
    future = asyncio.get_running_loop().create_future()
    before, thing.value = thing.value, value
    journal.changed(
        thing, before, lambda error: future.set_result(None) if error is None else future.set_exception(error)
    )
    await future


async def test_writing_does_not_block_the_loop(one: Thing) -> None:
    disk = GatedDisk()
    journal = Journal(disk)
    task = asyncio.create_task(saved(journal, one, 1))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    disk.gate.set()
    await task
    await saved(journal, one, 2)
    await journal.close()
    assert len(disk.threads) == 1
    assert disk.threads.isdisjoint(thread.ident for thread in threading.enumerate())  # another one, and it has ended


async def test_close_saves_everything(two: Thing) -> None:
    disk = GatedDisk()
    journal = Journal(disk, limit=2)
    things = [Thing(f"t{n}") for n in range(7)]
    tasks = [asyncio.create_task(saved(journal, thing, 1)) for thing in things]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    journal.changed(two, 0)
    disk.gate.set()
    await journal.close()
    assert len(disk.rows) == 8
    assert journal.unsaved == 0
    await asyncio.gather(*tasks)
    await journal.close()
    with pytest.raises(RuntimeError, match="the journal is closed"):
        journal.changed(two, 0)


async def test_close_does_not_wait_for_the_retry(one: Thing) -> None:
    disk = GatedDisk()
    disk.gate.set()
    disk.error = disk_full()
    journal = Journal(disk)
    journal.changed(one, 0)
    while not journal.failures:
        await asyncio.sleep(0)
    disk.error = None
    await asyncio.wait_for(journal.close(), 0.5)
    assert disk.rows == {"one": b"0"}


async def test_close_says_what_it_could_not_save(one: Thing, two: Thing) -> None:
    disk = GatedDisk()
    disk.gate.set()
    disk.error = disk_full()
    journal = Journal(disk)
    one.value = 1
    journal.changed(one, 0)
    waiting = asyncio.create_task(saved(journal, two, 1))
    await asyncio.sleep(0)
    with pytest.raises(NotSaved, match=r"^1 BMCs have changes that were not saved: database or disk is full$"):
        await journal.close()
    with pytest.raises(NotSaved, match=r"^database or disk is full$"):
        await waiting
    assert (one.value, two.value) == (1, 0)


async def test_nothing_starts_after_close(one: Thing, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(Disk())
    one.poison = ValueError()
    journal.changed(one, 0)
    with pytest.raises(NotSaved, match="BMC one cannot be encoded"):
        await journal.close()
    one.poison = None
    await asyncio.sleep(0)
    assert [record.name for record in caplog.records] == ["bmcsim.fleet.journal"]


async def test_close_after_everything_was_undone(one: Thing) -> None:
    disk = GatedDisk()
    disk.gate.set()
    disk.error = disk_full()
    journal = Journal(disk)
    waiting = asyncio.create_task(saved(journal, one, 1))
    await asyncio.sleep(0)
    await journal.close()
    with pytest.raises(NotSaved):
        await waiting


async def test_a_close_that_is_cancelled_leaves_nobody_waiting(
    one: Thing, two: Thing, caplog: pytest.LogCaptureFixture
) -> None:
    disk = GatedDisk()
    journal = Journal(disk)
    first = asyncio.create_task(saved(journal, one, 1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    behind = [asyncio.create_task(saved(journal, thing, 2)) for thing in (one, two)]
    journal.changed(Thing("of a timer"), 0)
    closing_ = asyncio.create_task(journal.close())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    closing_.cancel()
    disk.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await closing_
    await first
    for task in behind:
        with pytest.raises(NotSaved, match="the journal was closed"):
            await task
    assert (one.value, two.value) == (1, 0)
    assert disk.rows == {"one": b"1"}
    assert journal.unsaved == 1
    assert [record.name for record in caplog.records] == ["bmcsim.fleet.journal"]  # nothing of asyncio


async def test_a_full_database_and_its_recovery(
    tmp_path: Path, one: Thing, two: Thing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(Thing, "encode", lambda thing: bytes(thing.value))
    with closing(Store.open(tmp_path / "state", "f")) as store:
        journal = Journal(store)
        await saved(journal, one, 100)
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 1}")
        journal.changed(two, 0)
        two.value = 50_000
        with pytest.raises(NotSaved, match=r"^database or disk is full$"):
            await saved(journal, one, 1)
        assert (one.value, two.value, journal.unsaved) == (100, 50_000, 1)
        await saved(journal, one, 2)
        while journal.failures < 3:
            await asyncio.sleep(0.005)
        assert journal.unsaved == 1
        while journal.unsaved:
            if not journal._group:  # the writer does not use the connection now
                store._db.execute("PRAGMA max_page_count = 1000000")
            await asyncio.sleep(0.005)
        await journal.close()
        assert dict(store.rows()) == {"one": bytes(2), "two": bytes(50_000)}


# a process that is killed

COUNTERS = 200
SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from bmcsim.fleet.journal import Journal
from bmcsim.fleet.store import Store


def say(sign, id_, value):
    os.write(1, f"{sign} {id_} {value}\\n".encode())


class Counter:
    def __init__(self, id_, value, journal):
        self.id, self.value, self.journal = id_, value, journal

    def encode(self):
        return self.value.to_bytes(8, "big") * 75

    def restore_committed(self, before):
        os.abort()

    def bump(self, waits):
        before, self.value = self.value, self.value + 1
        value = self.value
        say("+", self.id, value)
        self.journal.changed(self, before, (lambda error: self.bumped(error, value)) if waits else None)

    def bumped(self, error, value):
        if error is not None:
            os.abort()
        say("=", self.id, value)
        if value % 5 == 0:
            self.bump(False)
        self.bump(True)


async def main():
    say("o", "opening", 0)
    store = Store.open(Path(sys.argv[1]), "kill")
    known = {id_: int.from_bytes(payload[:8], "big") for id_, payload in store.rows()}
    journal = Journal(store, limit=150)
    for number in range(int(sys.argv[2])):
        id_ = f"bmc-{number}"
        Counter(id_, known.get(id_, 0), journal).bump(True)
    await asyncio.Event().wait()


asyncio.run(main())
"""


def run_and_kill(tmp_path: Path, directory: Path, sign: bytes, moment: float, at_once: bool = False) -> list[list[str]]:
    """Run the counters and kill them; what they said, in words.

    sign: what a line must start with. moment: seconds between the first such line and the kill. at_once: kill when
    the next such line after that moment comes.
    """
    script, said = tmp_path / "counters.py", tmp_path / "said"
    script.write_text(SCRIPT)
    root = str(Path(bmcsim.__file__).parent.parent.absolute())
    with said.open("wb") as out, said.open("rb") as heard:
        process = subprocess.Popen(
            [sys.executable, str(script), str(directory), str(COUNTERS)],
            stdout=out,
            env={**os.environ, "PYTHONPATH": root},
        )
        try:
            _wait_for(sign, heard, process)
            time.sleep(moment)
            if at_once:
                heard.seek(0, os.SEEK_END)
                _wait_for(sign, heard, process)
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
    return [line.split() for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _wait_for(sign: bytes, heard: BinaryIO, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while sign not in heard.read():
        assert process.poll() is None
        assert time.monotonic() < deadline


def counters(directory: Path) -> dict[str, int]:
    """What a state directory has, decoded in full."""
    found = {}
    with closing(Store.open(directory, "kill")) as store:
        for id_, payload in store.rows():
            assert len(payload) == 600
            assert payload == payload[:8] * 75
            found[id_] = int.from_bytes(payload[:8], "big")
    return found


def test_what_was_acknowledged_survives_kill(tmp_path: Path) -> None:
    dice = random.Random(20)
    directory = tmp_path / "state"
    acknowledged: dict[str, int] = {}
    submitted: dict[str, int] = {}
    for round_ in range(8):
        for sign, id_, value in run_and_kill(tmp_path, directory, b"=", dice.uniform(0, 0.2), at_once=round_ % 2 == 0):
            book = acknowledged if sign == "=" else submitted
            book[id_] = max(book.get(id_, 0), int(value))
        # A copy: the next round has to start from what the kill left.
        copy = tmp_path / f"copy-{round_}"
        shutil.copytree(directory, copy)
        found = counters(copy)
        assert acknowledged
        for id_, value in acknowledged.items():
            assert value <= found[id_] <= submitted[id_], id_
    assert len(acknowledged) == COUNTERS
    assert counters(directory) == found


def test_killed_while_the_directory_is_made(tmp_path: Path) -> None:
    for number in range(6):
        directory = tmp_path / f"state-{number}"
        run_and_kill(tmp_path, directory, b"o", number * 0.001)
        before = counters(directory)
        with closing(Store.open(directory, "kill")) as store:
            store.write({"new": (1).to_bytes(8, "big") * 75})
        assert counters(directory) == {**before, "new": 1}
