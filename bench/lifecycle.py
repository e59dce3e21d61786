"""A fleet's hard day: every BMC's first login and rotation, a reset of all, and a crash in the middle of rotations.

It checks while it measures. One BMC whose password is not what it was told voids everything.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson
import uvloop

from bench.client import Connection, any_certificate, connected, encode
from bench.report import Bar, Measure
from bench.server import BenchError, Fleet, Role, Server, Settings, bmcsim

PARALLEL = 100
TIME_SCALE = 60
RESTORE_SECONDS = 3.0
_BACK_SECONDS = 120.0

_FACTORY: Mapping[Role, str] = {"host": "factory_password", "dpu": "0penBmc"}
_ACCOUNT = "/redfish/v1/AccountService/Accounts/root"
_SYSTEM: Mapping[Role, str] = {
    "host": "/redfish/v1/Systems/System.Embedded.1",
    "dpu": "/redfish/v1/Systems/Bluefield",
}
_RESET: Mapping[Role, str] = {
    "host": "/redfish/v1/Managers/iDRAC.Embedded.1/Actions/Manager.Reset",
    "dpu": "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset",
}


class Told(NamedTuple):
    """What a BMC was told about its second rotation. acknowledged: it said yes; asked: the request was sent."""

    asked: bool
    acknowledged: bool


@dataclass(slots=True)
class Day:
    """What was measured and what was wrong. seconds: of each phase. wrong: one text per BMC that disagrees."""

    seconds: dict[str, float] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def run(settings: Settings) -> list[Measure]:
    """Live the day with the fleet of the settings, in a state directory of its own."""
    fleet, day = settings.fleet, Day()
    options = [f"--state-dir={settings.work / 'state'}", f"--time-scale={TIME_SCALE}"]
    with bmcsim(settings, options=options, rotated=False) as started:
        uvloop.run(_before_the_crash(fleet, started.server, day))
    with bmcsim(settings, options=options, rotated=False) as again:
        restored = again.ready - again.listening
        uvloop.run(_after_the_crash(fleet, again.server, day))
    void = f"{len(day.wrong)} BMCs disagree, the first: {day.wrong[0]}" if day.wrong else ""
    acknowledged = sum(told.acknowledged for told in day.told.values())
    open_ = sum(told.asked and not told.acknowledged for told in day.told.values())
    logins = (
        f"{fleet.bmcs:,} BMCs x 4 requests, one of them a write; {fleet.bmcs / day.seconds['rotation']:,.0f} BMCs/s"
    )
    return [
        Measure("first login and rotation", day.seconds["rotation"], "s", note=logins, void=void),
        Measure(
            "reset of every BMC, until all are back", day.seconds["reset"], "s", note=f"at {TIME_SCALE}x", void=void
        ),
        Measure(
            "BMCs that disagree after a crash",
            len(day.wrong),
            "",
            Bar("<", 1),
            note=f"{acknowledged:,} acknowledged rotations, {open_:,} unanswered ones, {fleet.bmcs:,} BMCs",
        ),
        Measure("restore after the crash", restored, "s", Bar("<", RESTORE_SECONDS), note="from listening to ready"),
    ]


async def _before_the_crash(fleet: Fleet, server: Server, day: Day) -> None:
    began = time.perf_counter()
    await _each(fleet, lambda index: _first_login(fleet, server, index, day))
    day.seconds["rotation"] = time.perf_counter() - began
    began = time.perf_counter()
    await _each(fleet, lambda index: _reset(fleet, server, index, day))
    await _each(fleet, lambda index: _is_back(fleet, server, index, day))
    day.seconds["reset"] = time.perf_counter() - began
    if day.wrong:
        raise BenchError(f"{len(day.wrong)} BMCs are wrong before the crash already: {day.wrong[0]}")
    rotations = asyncio.ensure_future(_each(fleet, lambda index: _rotate_again(fleet, server, index, day)))
    while sum(told.acknowledged for told in day.told.values()) < fleet.bmcs // 2 and not rotations.done():
        await asyncio.sleep(0.001)
    server.kill()
    await rotations


async def _after_the_crash(fleet: Fleet, server: Server, day: Day) -> None:
    await _each(fleet, lambda index: _agrees(fleet, server, index, day))


async def _each(fleet: Fleet, one: Callable[[int], Awaitable[None]]) -> None:
    """Do something for every BMC, some in parallel."""
    indexes = iter(range(fleet.bmcs))

    async def worker(mine: Iterable[int]) -> None:
        for index in mine:
            await one(index)

    await asyncio.gather(*(worker(indexes) for _ in range(PARALLEL)))


class _Client:
    """Requests to one BMC over one connection."""

    def __init__(self, connection: Connection, authority: str) -> None:
        self._connection, self._authority = connection, authority

    async def get(self, path: str, password: str) -> int:
        """The status of a GET."""
        return (await self._connection.request(encode(self._authority, path, password=password))).status

    async def read(self, path: str, password: str) -> dict[str, object]:
        """The JSON of a GET."""
        response = await self._connection.request(encode(self._authority, path, password=password))
        value: dict[str, object] = orjson.loads(response.body)
        return value

    async def rotate(self, old: str, new: str) -> int:
        """The status of a change of the password."""
        body = orjson.dumps({"Password": new})
        return (await self._connection.request(encode(self._authority, _ACCOUNT, password=old, patch=body))).status

    async def post(self, path: str, password: str, body: bytes) -> int:
        """The status of a POST."""
        return (await self._connection.request(encode(self._authority, path, password=password, post=body))).status


@asynccontextmanager
async def _client(fleet: Fleet, server: Server, index: int) -> AsyncIterator[_Client]:
    address = fleet.address(index)
    async with connected(address, server.port, _CONTEXT) as connection:
        yield _Client(connection, f"{address}:{server.port}")


_CONTEXT = any_certificate()


def _first(index: int) -> str:
    return f"First-{index}"


def _second(index: int) -> str:
    return f"Second-{index}"


async def _first_login(fleet: Fleet, server: Server, index: int, day: Day) -> None:
    role = fleet.role(index)
    async with _client(fleet, server, index) as bmc:
        statuses = (
            await bmc.get(_SYSTEM[role], _FACTORY[role]),
            await bmc.rotate(_FACTORY[role], _first(index)),
            await bmc.get(_SYSTEM[role], _FACTORY[role]),
            await bmc.get(_SYSTEM[role], _first(index)),
        )
    if statuses != (403, 204, 401, 200):
        day.wrong.append(f"{fleet.address(index)}: first login and rotation gave {statuses}")


async def _reset(fleet: Fleet, server: Server, index: int, day: Day) -> None:
    async with _client(fleet, server, index) as bmc:
        status = await bmc.post(_RESET[fleet.role(index)], _first(index), b'{"ResetType": "GracefulRestart"}')
    if not 200 <= status < 300:
        day.wrong.append(f"{fleet.address(index)}: Manager.Reset gave {status}")


async def _is_back(fleet: Fleet, server: Server, index: int, day: Day) -> None:
    deadline = time.perf_counter() + _BACK_SECONDS
    while True:
        try:
            async with _client(fleet, server, index) as bmc:
                system = await bmc.read(_SYSTEM[fleet.role(index)], _first(index))
            break
        except OSError:
            if time.perf_counter() > deadline:
                day.wrong.append(f"{fleet.address(index)}: not back after {_BACK_SECONDS:.0f} s")
                return
            await asyncio.sleep(0.05)
    if system.get("PowerState") != "On":
        day.wrong.append(f"{fleet.address(index)}: a reset of the BMC touched its system: {system.get('PowerState')}")


async def _rotate_again(fleet: Fleet, server: Server, index: int, day: Day) -> None:
    try:
        async with _client(fleet, server, index) as bmc:
            day.told[index] = Told(asked=True, acknowledged=False)
            status = await bmc.rotate(_first(index), _second(index))
    except OSError:
        return
    day.told[index] = Told(asked=True, acknowledged=status == 204)


async def _agrees(fleet: Fleet, server: Server, index: int, day: Day) -> None:
    told = day.told.get(index, Told(asked=False, acknowledged=False))
    system = _SYSTEM[fleet.role(index)]
    async with _client(fleet, server, index) as bmc:
        first, second = await bmc.get(system, _first(index)), await bmc.get(system, _second(index))
    old_only, new_only = (first, second) == (200, 401), (first, second) == (401, 200)
    right = new_only if told.acknowledged else (old_only or new_only) if told.asked else old_only
    if not right:
        day.wrong.append(f"{fleet.address(index)}: {told}, and the passwords give {first} and {second}")
