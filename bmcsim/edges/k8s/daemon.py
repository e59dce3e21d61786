"""Passes for ever, or one, by the controller that leads."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import Any

from bmcsim.edges.k8s.api import Api, ApiError
from bmcsim.edges.k8s.controller import Controller, NotLeading, Result
from bmcsim.edges.k8s.election import Election
from bmcsim.edges.k8s.listeners import Health
from bmcsim.edges.k8s.poller import Poller
from bmcsim.edges.k8s.sources import SourceList

log = logging.getLogger(__name__)


class Exit(IntEnum):
    """How --once ends."""

    SETTLED = 0
    FAILED = 1
    NOT_LEADING = 3


class Daemon:
    """election: None to work without one. passes: result -> count. seconds, ended: of the last pass; ended is in
    seconds since the epoch."""

    def __init__(
        self,
        api: Api,
        poller: Poller,
        sources: SourceList,
        controller: Controller,
        health: Health,
        election: Election | None,
    ) -> None:
        self.api, self.poller, self.sources, self.controller = api, poller, sources, controller
        self._health, self._election = health, election
        self.passes: Counter[str] = Counter()
        self.seconds = self.ended = 0.0

    @property
    def leading(self) -> bool:
        """Whether this one works."""
        return self._election is None or self._election.leading

    async def run(self, interval: float, stop: asyncio.Event) -> None:
        """A pass at once, and one every `interval` seconds, until `stop`."""
        async with self._followed() as tasks:
            while not stop.is_set():
                began = time.monotonic()
                one = asyncio.create_task(self._step())
                ending = asyncio.create_task(stop.wait())
                awaited: list[asyncio.Future[Any]] = [one, ending, *tasks]
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
                await _end(one)
                for task in tasks:
                    if task.done():
                        # It should never end: nothing would be up to date any more.
                        task.result()
                if not stop.is_set():
                    left = interval - (time.monotonic() - began)
                    await self._wait(max(0.0, left), stop)

    async def once(self, seconds: float) -> Exit:
        """One pass; how it ended. seconds: to wait for the leadership."""
        async with self._followed():
            if self._election is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._election.taken.wait(), seconds)
            if not self.leading:
                log.warning("another controller leads: %s", self._election.holder if self._election else "")
                return Exit.NOT_LEADING
            await self._step()
            last = self.controller.last
            if self.passes["failed"] or last is None:
                return Exit.FAILED
            return Exit.SETTLED if last.settled else Exit.FAILED

    @contextlib.asynccontextmanager
    async def _followed(self) -> AsyncIterator[list[asyncio.Future[None]]]:
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(one) for one in self.controller.mirrors()]
        if self._election is not None:
            tasks.append(asyncio.create_task(self._election.run()))
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._election is not None:
                await self._election.release()

    async def _wait(self, seconds: float, stop: asyncio.Event) -> None:
        """Until `stop`, or for so long, or until this one is the leader and was not before."""
        waiting = [asyncio.create_task(stop.wait())]
        if self._election is not None and not self.leading:
            # Set as of its last attempt, which may be a while ago.
            self._election.taken.clear()
            waiting.append(asyncio.create_task(self._election.taken.wait()))
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    async def _step(self) -> None:
        began, why, result = time.monotonic(), "", "standby"
        try:
            if self.leading:
                result = _word(await self.controller.one_pass())
            else:
                await self.controller.discover()
        except NotLeading:
            log.warning("the pass ended early: another controller leads now")
            result = "interrupted"
        except ApiError as error:
            log.warning("no pass: %s", error)
            why, result = str(error), "failed"
        except Exception:
            log.exception("the pass failed")
            why, result = "the pass failed; the log says where", "failed"
        self.passes[result] += 1
        self.seconds, self.ended = time.monotonic() - began, time.time()
        self._health.passed(why)


def _word(result: Result) -> str:
    return "settled" if result.settled else "unsettled"


async def _end(task: asyncio.Future[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
