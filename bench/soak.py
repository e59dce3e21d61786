"""A long mixed load with chaos, by clients that know what must be true: nothing gets lost, nothing is made up,
and nothing grows.

Each BMC has one owner (`bench.owner`), which does all that clients of BMCs do, and remembers what was acknowledged.
Meanwhile the process is killed and started again, its disk is full, its time jumps, and bad clients come and go
(`bench.chaos`). At the end all is checked, the process is killed once more, and all is checked again.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import orjson
import uvloop

from bench import chaos, paths, plot
from bench.chaos import Blow, Pests
from bench.lives import Lives
from bench.owner import Owner, World, kinds_of
from bench.report import Bar, Measure
from bench.server import BenchError, Settings
from bench.trend import Allowance, Trend, judge
from bench.watch import Sample, Watch, ask_admin

HOSTS = 20
TIME_SCALE = 60
BLOCKED_SECONDS = 0.5
JUDGED_FROM = 0.5
"""The part of a run that is warm-up, in which caches, logs and queues fill up."""

ALLOWED: Mapping[str, Allowance] = {
    "rss": Allowance(12 * 1024, 0.08),
    "fds": Allowance(16, 0.10),
    "threads": Allowance(6),  # those of asyncio's pool are made when they are first needed
    "timers": Allowance(40, 0.25),
    "blocks": Allowance(20_000, 0.05),
}
_UNITS = {"rss": "KiB"}
_PACE = 0.5
_PATIENCE = 8.0
_LOOK_EVERY = 1.0
_QUIET_SECONDS = 15.0


@dataclass(slots=True)
class Run:
    """What a soak found. notes: what happened and when. leftover: connections and streams that nobody has any more."""

    samples: list[Sample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    events: int = 0
    leftover: float = 0.0
    calm_at: float = 0.0  # when the last life but the final check began


def run(settings: Settings) -> list[Measure]:
    """Soak for `minutes`. A failure prints the seed, with which owners and chaos decide the same again."""
    options = [f"--state-dir={settings.work / 'state'}", f"--time-scale={TIME_SCALE}", "--credentials=persist"]
    lives = Lives(settings, options)
    found = Run()
    world = World(settings.fleet, lives.port, 0, settings.seed, _PACE)
    began = time.monotonic()
    try:
        lives.start()
        uvloop.run(_soak(settings, lives, world, found))
        problems = [*world.wrong, *lives.complaints()]
        _write(settings, found, world, problems, lives.log())
    finally:
        lives.stop()
    for problem in problems[:20]:
        print(f"wrong: {problem}")
    measures = _measures(settings, found, world, problems, lives.count, time.monotonic() - began)
    if any(measure.verdict in ("MISS", "VOID") for measure in measures):
        print(f"seed {settings.seed}: python -m bench soak --seed {settings.seed} --minutes {settings.minutes:g}")
    return measures


def _measures(
    settings: Settings, found: Run, world: World, problems: Sequence[str], lives: int, seconds: float
) -> list[Measure]:
    counts = world.counts
    done = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(counts.items()))
    void = "" if counts.get("507") else "the disk was never full for a write"
    judged = [sample for sample in found.samples if sample.at >= found.calm_at]
    blocked, lags = [sample.blocked for sample in found.samples], [sample.lag for sample in found.samples]
    measures = [
        Measure(
            "wrong answers, lost and invented things",
            len(problems),
            "",
            Bar("<", 1),
            note=f"seed {settings.seed}; {done}",
            void=void,
        ),
        Measure("requests", counts.get("requests", 0), "", note=f"in {seconds:.0f} s, {lives} lives of the process"),
        Measure("connections left over", found.leftover, "", Bar("<", 1), note="after all clients went"),
        Measure(
            "event loop blocked at most",
            max(blocked, default=0.0),
            "s",
            Bar("<", BLOCKED_SECONDS),
            note=f"without waits for a processor; with them {max(lags, default=0.0):.2f} s",
        ),
    ]
    measures += [
        _flat(name, judge([sample.at for sample in judged], [getattr(sample, name) for sample in judged], allowance))
        for name, allowance in ALLOWED.items()
    ]
    return measures


def _flat(name: str, trend: Trend) -> Measure:
    note = f"median {trend.median:,.0f}; slope over the judged part of the run"
    # Growth that is exactly what is allowed is allowed.
    bar = Bar("<", trend.allowed + 1)
    return Measure(f"growth of {name}", trend.growth, _UNITS.get(name, ""), bar, note=note)


async def _soak(settings: Settings, lives: Lives, world: World, found: Run) -> None:
    seconds = settings.minutes * 60
    receiver = await asyncio.start_server(lambda reader, writer: _receive(found, reader, writer), "127.0.0.1", 0)
    world.events_port = receiver.sockets[0].getsockname()[1]
    kinds = await kinds_of(world, await paths.walk(settings.fleet, lives.server))
    owners = [Owner(world, index, kinds) for index in range(settings.fleet.bmcs)]
    pests = Pests(settings.fleet.address, settings.fleet.bmcs, lives.port, settings.seed, _PATIENCE)
    began = time.monotonic()
    found.calm_at = JUDGED_FROM * seconds
    watching = asyncio.create_task(_watch(lives, world, found, began))
    living = [asyncio.create_task(owner.live()) for owner in owners]
    pests.start()
    try:
        for blow in chaos.plan(settings.seed, seconds):
            await asyncio.sleep(max(0.0, began + blow.at - time.monotonic()))
            await _strike(blow, lives, world, found, began)
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        await _stop_watching(watching)
    finally:
        world.stopped = True
        _note(found, began, "all clients stop")
        results = await asyncio.gather(*living, return_exceptions=True)
        await pests.stop()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    world.wrong += pests.wrong
    world.counts |= pests.counts
    await _check(owners, world, found, began, "at the end")
    found.leftover = await _leftover(lives)
    await _crash(lives, world)
    await _check(owners, world, found, began, "after one more kill -9")
    receiver.close()


async def _strike(blow: Blow, lives: Lives, world: World, found: Run, began: float) -> None:
    _note(found, began, f"{blow.kind} {blow.amount:.0f}")
    world.count(blow.kind)
    match blow.kind:
        case "crash":
            await _crash(lives, world)
            _note(found, began, "every BMC is ready again")
        case "clock":
            status, body = await ask_admin(lives.admin_port, "POST", "/api/v1/clock", {"step": blow.amount})
            if status != 200:
                world.wrong.append(f"/api/v1/clock answers {status}: {body!r}")
        case "full disk":
            server = lives.server
            chaos.fill_disk(server.pid, server.log)
            end = time.monotonic() + blow.amount
            while time.monotonic() < end:
                world.disk_full_at = time.monotonic()
                await asyncio.sleep(0.05)
            chaos.empty_disk(server.pid)
            world.disk_full_at = time.monotonic()


async def _crash(lives: Lives, world: World) -> None:
    """Kill the process, start it again on the same directory, and return when it is ready."""
    world.alive = False
    world.life += 1
    await asyncio.to_thread(lives.kill)
    await asyncio.to_thread(lives.start)
    world.alive = True


async def _check(owners: Sequence[Owner], world: World, found: Run, began: float, when: str) -> None:
    before = len(world.wrong)
    for owner in owners:
        # What was cut short at the very end is tried again.
        for deed in (owner.finish, owner.verify):
            for _ in range(50):
                if await owner.attempt(deed) or len(world.wrong) > before:
                    break
        owner.leave()
    _note(found, began, f"{len(owners)} BMCs checked {when}: {len(world.wrong) - before} wrong")


async def _leftover(lives: Lives) -> float:
    """Connections and streams that the server still has after a while without clients."""
    watch = Watch(lives.server.pid, lives.admin_port, lives.count)
    began = time.monotonic()
    while True:
        sample = await watch.look(began)
        left = sample.connections + sample.streams
        if left == 0 or sample.at > _QUIET_SECONDS:
            return left
        await asyncio.sleep(0.2)


async def _watch(lives: Lives, world: World, found: Run, began: float) -> None:
    watch: Watch | None = None
    life = 0
    while True:
        with contextlib.suppress(OSError, KeyError):  # It is being killed or started.
            if world.alive and lives.running:
                if watch is None or life != lives.count:
                    life = lives.count
                    watch = Watch(lives.server.pid, lives.admin_port, life)
                    await watch.look(began)  # What came before, the start included, is not this life's.
                else:
                    found.samples.append(await watch.look(began))
        await asyncio.sleep(_LOOK_EVERY)


async def _stop_watching(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _receive(found: Run, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take posted events, as a subscriber does."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            await reader.readexactly(length)
            found.events += 1
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    except (OSError, EOFError, StopIteration):
        pass
    finally:
        writer.transport.abort()


def _note(found: Run, began: float, text: str) -> None:
    found.notes.append(f"{time.monotonic() - began:8.1f} s  {text}")


def _write(settings: Settings, found: Run, world: World, problems: Sequence[str], log: str) -> None:
    """The log, all samples as JSON, and plots where matplotlib is installed."""
    directory = settings.out / "soak"
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"seed {settings.seed}, {settings.minutes:g} minutes, {settings.fleet.bmcs} BMCs", *found.notes, ""]
    lines += [f"{name}: {count:,}" for name, count in sorted(world.counts.items())]
    lines += [f"events posted to subscribers: {found.events:,}", "", *(f"wrong: {one}" for one in problems), "", log]
    (directory / "soak.log").write_text("\n".join(lines))
    samples = [asdict(sample) for sample in found.samples]
    data = {"seed": settings.seed, "counts": world.counts, "notes": found.notes, "wrong": problems, "samples": samples}
    (directory / "soak.json").write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
    if not found.samples:
        raise BenchError("no samples: the run is too short")
    times = [sample.at for sample in found.samples]
    panels = {
        "RSS, MiB": [sample.rss / 1024 for sample in found.samples],
        "blocks of Python's heap": [sample.blocks for sample in found.samples],
        "file descriptors": [sample.fds for sample in found.samples],
        "timers": [sample.timers for sample in found.samples],
        "event loop late, ms": [1000 * sample.lag for sample in found.samples],
    }
    plot.panels(directory / "soak.png", "seconds", times, panels)
