"""Asks simulators for their status. One that has nothing new says so (304), and what it said before counts."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
import msgspec

from bmcsim.edges.k8s.access import Trust
from bmcsim.edges.k8s.api import TooLarge, read_capped
from bmcsim.edges.k8s.services import Device, MachinesStatus

MAX_BODY = 10 * 1024 * 1024
"""Bytes of a status, decoded; mat-k8s-controller has the same limit."""

PATH = "/machines/status"
_MAX_ERROR, _AT_ONCE = 1024, 32
_TIMEOUT, _CONNECT_TIMEOUT = 30.0, 10.0

_decode = msgspec.json.Decoder(MachinesStatus).decode


class Answer(NamedTuple):
    """What a simulator said. etag: '' for none."""

    machines: list[Device]
    etag: str


class PollError(Exception):
    """A simulator could not be asked; the text says why."""


class Poller:
    """All simulators; to be made on the loop. results: 'new', 'same', 'failed' -> count."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._known: dict[str, Answer] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self.results: Counter[str] = Counter()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_AT_ONCE),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT, sock_connect=_CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "bmcsim-controller"},
        )

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def poll(self, urls: Mapping[str, str]) -> dict[str, Answer | PollError]:
        """name -> base URL; name -> what it said. Whoever is not asked is forgotten."""
        for url in self._known.keys() - set(urls.values()):
            del self._known[url]
        answers = await asyncio.gather(*[self._ask(url) for url in urls.values()])
        return dict(zip(urls, answers, strict=True))

    async def _ask(self, url: str) -> Answer | PollError:
        async with self._turn:
            known = self._known.get(url)
            try:
                answer = await self._get(url, known)
            except PollError as error:
                self.results["failed"] += 1
                return error
            except (aiohttp.ClientError, OSError, ValueError) as error:
                self.results["failed"] += 1
                return PollError(str(error) or type(error).__name__)
            self.results["same" if answer is known else "new"] += 1
            self._known[url] = answer
            return answer

    async def _get(self, url: str, known: Answer | None) -> Answer:
        headers = {"If-None-Match": known.etag} if known is not None and known.etag else {}
        context = self._trust.context(time.monotonic())
        async with self._session.get(url + PATH, headers=headers, ssl=context, allow_redirects=False) as response:
            if response.status == 304 and known is not None:
                return known
            if response.status != 200:
                text = (await response.content.read(_MAX_ERROR)).decode("utf-8", "replace")
                raise PollError(f"it answered {response.status}: {text}")
            try:
                status = _decode(await read_capped(response, MAX_BODY))
            except TooLarge as error:
                raise PollError(str(error)) from error
            except msgspec.DecodeError as error:
                raise PollError(f"what it says is no status of machines: {error}") from error
            return Answer(status.machines, response.headers.get("ETag", ""))
