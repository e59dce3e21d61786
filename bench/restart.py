"""Cold start and kill -9 while clients go on exploring: does a configured BMC ever look like one that is new or broken?

NICo resets a BMC whose answers make no sense to it, such as 403 for a password that was set, 404 for what was there, or
503. So all that a client may see of a process that dies and comes back is a closed connection.
"""

import asyncio
import random
import ssl
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import orjson
import uvloop

from bench import paths
from bench.client import Connection, any_certificate, connected, encode
from bench.ledger import Fact
from bench.lives import Lives
from bench.report import Bar, Measure
from bench.server import PASSWORD, BenchError, Fleet, Role, Settings

CLIENTS = 48
KILLS = 3

Claim = Literal["right", "open", "wrong"]
"""Of the password that a request has: it is the BMC's, it may be, it is not."""

_SYSTEM: dict[Role, str] = {"host": f"{paths.ROOT}/Systems/System.Embedded.1", "dpu": f"{paths.ROOT}/Systems/Bluefield"}
_READS = ("", "/Chassis", "/Managers", "/UpdateService/FirmwareInventory", "/Systems")
_ACCOUNT = f"{paths.ROOT}/AccountService/Accounts/root"
_ANSWER_SECONDS = 30.0
_CALM = 1.0  # seconds of exploration between two kills, at least
_CONTEXT: ssl.SSLContext = any_certificate()


def surprise(claim: Claim, status: int) -> bool:
    """Whether a client that sends such a password must not get this status."""
    if claim == "wrong":
        return status != 401
    return not (200 <= status < 300 or (claim == "open" and status == 401))


@dataclass(slots=True)
class Seen:
    """What the clients saw. gaps: seconds without any answer around each start.

    early: connections that a process took before it was ready.
    """

    answers: Counter[int] = field(default_factory=Counter)
    closed: int = 0
    early: int = 0
    rotations: int = 0
    wrong: list[str] = field(default_factory=list)
    last: float = field(default_factory=time.monotonic)
    gaps: list[float] = field(default_factory=list)
    longest: float = 0.0
    stopped: bool = False

    def answered(self, status: int) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self.last)
        self.last = now
        self.answers[status] += 1


class Target(NamedTuple):
    """How a request reaches a BMC: the address that is dialled, and the one in Forwarded where it is another."""

    address: str
    forwarded: str | None


def run(settings: Settings) -> list[Measure]:
    """Start with clients waiting already, kill and start again; then every BMC is asked once more."""
    lives = Lives(settings, [f"--state-dir={settings.work / 'state'}", "--credentials=persist"])
    seen = Seen()
    readiness: list[float] = []
    try:
        uvloop.run(_measured(settings, lives, seen, readiness))
        seen.wrong += lives.complaints()
    finally:
        lives.stop()
    for text in seen.wrong[:20]:
        print(f"wrong: {text}")
    answers = ", ".join(f"{count:,} x {status}" for status, count in sorted(seen.answers.items()))
    note = (
        f"{answers}; {seen.closed:,} connections closed or refused, {seen.early:,} made before all BMCs were ready; "
        f"{seen.rotations:,} passwords rotated"
    )
    void = "" if seen.early and seen.answers[200] else "no client came while the process started"
    return [
        Measure("answers that would make NICo reset a BMC", len(seen.wrong), "", Bar("<", 1), note=note, void=void),
        Measure(
            "start to all BMCs ready, with clients",
            max(readiness),
            "s",
            samples=readiness,
            note=f"the longest of one cold start and {KILLS} after kill -9; {settings.fleet.bmcs:,} BMCs",
        ),
        Measure(
            "longest time without an answer", max(seen.gaps), "s", samples=seen.gaps, note="of all clients together"
        ),
    ]


async def _measured(settings: Settings, lives: Lives, seen: Seen, readiness: list[float]) -> None:
    fleet = settings.fleet
    passwords = [Fact(f"the password of {fleet.address(index)}", PASSWORD) for index in range(fleet.bmcs)]
    clients = [
        asyncio.create_task(_explore(fleet, lives, seen, passwords, number, settings.seed))
        for number in range(min(CLIENTS, fleet.bmcs))
    ]
    try:
        for number in range(KILLS + 1):
            if number:
                await asyncio.to_thread(lives.kill)
            seen.longest = 0.0
            started = await asyncio.to_thread(lives.start)
            readiness.append(started.ready)
            await asyncio.sleep(max(_CALM, settings.seconds / 2))
            seen.gaps.append(seen.longest)
    finally:
        seen.stopped = True
        results = await asyncio.gather(*clients, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    await _ask_all(fleet, lives.port, seen, passwords)


async def _explore(
    fleet: Fleet, lives: Lives, seen: Seen, passwords: Sequence[Fact[str]], number: int, seed: int
) -> None:
    """Be one client: the only one that rotates passwords of its share of the BMCs."""
    dice = random.Random(f"{seed}-{number}")
    own = range(number, fleet.bmcs, CLIENTS)
    while not seen.stopped:
        index = dice.choice(own)
        address = fleet.address(index)
        target = Target(address, None) if dice.random() < 0.5 else Target(fleet.address(0), address)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), connected(target.address, lives.port, _CONTEXT) as connection:
                seen.early += not lives.running
                visit = Visit(connection, target, lives.port, seen, passwords[index])
                await visit.explore(_SYSTEM[fleet.role(index)], dice)
        except TimeoutError:
            seen.wrong.append(f"{address}: no answer in {_ANSWER_SECONDS:.0f} s")
        except OSError:
            seen.closed += 1
            await asyncio.sleep(0.01)
        except ValueError as error:
            seen.wrong.append(f"{address}: {error}")


class Visit:
    """One connection of a client to a BMC."""

    def __init__(self, connection: Connection, target: Target, port: int, seen: Seen, password: Fact[str]) -> None:
        self._connection, self._target, self._seen, self._password = connection, target, seen, password
        self._authority = f"{target.address}:{port}"

    async def explore(self, system: str, dice: random.Random) -> None:
        await self.settle(system)
        for read in _READS:
            await self._ask(f"{paths.ROOT}{read}", "right", self._password.latest)
        if dice.random() < 0.2:
            await self._ask(system, "wrong", "not-the-password")
        if dice.random() < 0.2:
            await self._rotate(f"Again-{dice.randrange(1000)}")

    async def settle(self, system: str) -> None:
        """Find the password that works, among those that may."""
        claim: Claim = "right" if self._password.sure else "open"
        works = [word for word in self._password.may if 200 <= await self._ask(system, claim, word) < 300]
        if len(works) == 1:
            self._password.seen(works[0])
        elif claim == "open":
            self._seen.wrong.append(f"{self._who}: {len(works)} of {len(self._password.may)} passwords work")

    @property
    def _who(self) -> str:
        return self._target.forwarded or self._target.address

    async def _rotate(self, new: str) -> None:
        body = orjson.dumps({"Password": new})
        old = self._password.latest
        data = encode(self._authority, _ACCOUNT, forwarded=self._target.forwarded, password=old, patch=body)
        if new == old:
            return
        try:
            status = (await self._connection.request(data)).status
        except BaseException:
            self._password.told(new, "open")
            raise
        self._seen.answered(status)
        if status in (200, 204):
            self._password.told(new, "done")
            self._seen.rotations += 1
        else:
            self._seen.wrong.append(f"{self._who}: a rotation is answered with {status}")

    async def _ask(self, path: str, claim: Claim, password: str) -> int:
        data = encode(self._authority, path, forwarded=self._target.forwarded, password=password)
        response = await self._connection.request(data)
        self._seen.answered(response.status)
        if surprise(claim, response.status):
            text = response.body[:150].decode(errors="replace")
            self._seen.wrong.append(f"{self._who}: GET {path}, {claim} password: {response.status} {text}")
        return response.status


async def _ask_all(fleet: Fleet, port: int, seen: Seen, passwords: Sequence[Fact[str]]) -> None:
    """Every BMC has the password that it acknowledged last. Raises BenchError when one is not there at all."""
    indexes = iter(range(fleet.bmcs))

    async def worker() -> None:
        for index in indexes:
            address = fleet.address(index)
            try:
                async with connected(address, port, _CONTEXT) as connection:
                    visit = Visit(connection, Target(address, None), port, seen, passwords[index])
                    await visit.settle(_SYSTEM[fleet.role(index)])
            except OSError as error:
                raise BenchError(f"{address} is not there after the last start: {error!r}") from error

    await asyncio.gather(*(worker() for _ in range(CLIENTS)))
