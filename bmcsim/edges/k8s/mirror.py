"""What exists, kept up to date by a watch.

Rule 1: a list, in pages, is read at the beginning and when the server forgot the version that the watch was at (410).
Rule 2: what we write is known at once; what the watch says later of an older version is skipped.
Rule 3: a server that refuses the same watch again and again may be another one, whose versions mean nothing here (one
        that was restored from a backup): then the list is read too.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from bmcsim.edges.k8s.api import Api, ApiError
from bmcsim.edges.k8s.objects import Event, Named, Service, Status

log = logging.getLogger(__name__)

_WATCH_SECONDS = (240, 480)
_LEAST, _MOST, _LASTED = 0.5, 30.0, 5.0
_REFUSALS = 5
_GONE = 410


class Versioned(Protocol):
    """What is kept of a Service."""

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        ...


V = TypeVar("V", bound=Versioned)


class Mirror(Generic[V]):
    """The Services of a selector. items: name -> what is kept of it. synced: set once all are known.
    lists, watches: how often either was begun.
    error: of the last attempt, '' while all is well."""

    def __init__(self, api: Api, selector: str, keep: Callable[[Service], V]) -> None:
        self._api, self._selector, self._keep = api, selector, keep
        self.items: dict[str, V] = {}
        self.synced = asyncio.Event()
        self.lists = self.watches = 0
        self.error = ""
        self._version = ""
        self._noted: dict[str, V] | None = None

    async def run(self) -> None:
        """Follow, for ever."""
        time, wait, refusals = asyncio.get_running_loop().time, _LEAST, 0
        while True:
            began = time()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                refusals = 0
            except ApiError as error:
                self.error = str(error)
                refusals += error.status != 0
                if error.status == _GONE or refusals >= _REFUSALS:
                    self._version, refusals = "", 0
                log.warning("watching %s: %s", self._selector, error)
            if time() - began > _LASTED:
                wait = _LEAST
            await asyncio.sleep(wait * random.uniform(0.75, 1.25))
            wait = min(wait * 2, _MOST)

    def note(self, name: str, service: Service) -> None:
        """What the server answered to a write of ours."""
        kept = self._keep(service)
        self._put(name, kept)
        if self._noted is not None:
            self._noted[name] = kept

    def forget(self, name: str) -> None:
        """Of what is gone, or is not ours any more."""
        self.items.pop(name, None)

    def _put(self, name: str, kept: V) -> None:
        known = self.items.get(name)
        if known is None or not _older(kept.version, known.version):
            self.items[name] = kept

    async def _list(self) -> None:
        self.lists += 1
        found, more, self._noted = dict[str, V](), "", dict[str, V]()
        while True:
            page = await self._api.list_services(self._selector, more)
            for service in page.items or ():
                found[service.metadata.name] = self._keep(service)
            if not (more := page.metadata.continue_ or ""):
                break
        version = page.metadata.resource_version
        # What we wrote while the list was read may not be in it.
        found.update({name: kept for name, kept in self._noted.items() if _older(version, kept.version)})
        self.items, self._version, self.error, self._noted = found, version, "", None
        self.synced.set()

    async def _watch(self) -> None:
        """Until the server ends it, which it does now and then. Raises ApiError."""
        self.watches += 1
        async for event in self._api.watch_services(self._selector, self._version, random.randint(*_WATCH_SECONDS)):
            self.error = ""
            try:
                self._heard(event)
            except msgspec.DecodeError as error:
                # What it said is lost, so all is read again.
                raise ApiError(_GONE, "Unreadable", str(error)) from error

    def _heard(self, event: Event) -> None:
        if event.type == "ERROR":
            said = msgspec.json.decode(event.object, type=Status)
            raise ApiError(said.code, said.reason, said.message)
        if event.type == "BOOKMARK":
            self._version = msgspec.json.decode(event.object, type=Named).metadata.resource_version
            return
        service = msgspec.json.decode(event.object, type=Service)
        name, self._version = service.metadata.name, service.metadata.resource_version
        if event.type != "DELETED":
            self._put(name, self._keep(service))
        elif name in self.items and not _older(self._version, self.items[name].version):
            del self.items[name]


def _older(one: str, other: str) -> bool:
    """Whether a version is before another; versions that are no numbers have no order, and none is older."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
