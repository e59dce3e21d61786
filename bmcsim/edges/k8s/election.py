"""Which of several controllers works: the one that holds a Lease (coordination.k8s.io/v1), by client-go's rules.

Rule 1: whoever holds it renews it every `retry` seconds, and stops working when it could not for `renew` seconds.
Rule 2: another one takes it when nobody holds it, or when it has not changed for `lease` seconds on that one's own
        clock. So clocks need not agree.
Rule 3: two that take it at once have the same version of it, and the API server takes one of them (409).
Rule 4: whoever ends gives it back.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from bmcsim.edges.k8s.api import Api, ApiError
from bmcsim.edges.k8s.objects import Lease, LeaseSpec

log = logging.getLogger(__name__)

NAME = "bmcsim-controller"


class Timings(NamedTuple):
    """Seconds; client-go's defaults."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


TIMINGS = Timings()


def stamp(wall: float) -> str:
    """MicroTime: '2026-11-30T12:00:00.000000Z'."""
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def claim(spec: LeaseSpec | None, identity: str, wall: float, timings: Timings) -> LeaseSpec:
    """The Lease as somebody holds it who takes or renews it. spec: as it is, None for none."""
    now, spec = stamp(wall), spec or LeaseSpec()
    same = spec.holder_identity == identity
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=round(timings.lease),
        acquire_time=spec.acquire_time if same else now,
        renew_time=now,
        lease_transitions=(spec.lease_transitions or 0) + (not same and bool(spec.holder_identity)),
    )


class Election:
    """One who wants to work. holder: who does, '' for nobody known. required: whether to wait where Leases may not be
    used; else it works without one there."""

    def __init__(
        self,
        api: Api,
        identity: str,
        mono: Callable[[], float],
        wall: Callable[[], float],
        *,
        timings: Timings = TIMINGS,
        required: bool = False,
        name: str = NAME,
    ) -> None:
        self._api, self._identity, self._mono, self._wall = api, identity, mono, wall
        self._timings, self._required, self._name = timings, required, name
        self._lease: Lease | None = None
        self._seen_version, self._changed = "", 0.0
        self._renewed: float | None = None
        self._without = False
        self.taken = asyncio.Event()
        self.holder = ""

    @property
    def leading(self) -> bool:
        """Whether this one may work now."""
        if self._without:
            return True
        return self._renewed is not None and self._mono() - self._renewed < self._timings.renew

    async def run(self) -> None:
        """Try, for ever."""
        while True:
            await self.step()
            await asyncio.sleep(self._timings.retry * (1.0 if self.leading else random.uniform(1.0, 1.2)))

    async def step(self) -> None:
        """One attempt to take or to renew it."""
        led, began = self.leading, self._mono()
        try:
            try:
                await self._attempt(began)
            except ApiError as error:
                # Whatever happened, it has to be read anew.
                self._lease = None
                if error.status != 409:
                    raise
                await self._attempt(began)
        except ApiError as error:
            self._lease = None
            if error.status == 403 and not self._required:
                if not self._without:
                    log.warning("no leader election, since leases may not be used: run one controller only (%s)", error)
                self._without = True
            elif error.status != 409:
                log.warning("lease %s: %s", self._name, error)
        if self.leading:
            self.taken.set()
        else:
            self.taken.clear()
        if self.leading != led:
            log.info("leading: %s; holder: %s", "yes" if self.leading else "no", self.holder or "nobody")

    async def _attempt(self, began: float) -> None:
        lease = self._lease
        if lease is None:
            try:
                lease = await self._api.get_lease(self._name)
            except ApiError as error:
                if error.status != 404:
                    raise
                self._held(await self._api.put_lease(self._name, self._claim(None), ""), began)
                return
        if lease.spec.holder_identity != self._identity and not self._free(lease):
            self._renewed = None
            return
        self._held(await self._api.put_lease(self._name, self._claim(lease), lease.metadata.resource_version), began)

    def _free(self, lease: Lease) -> bool:
        self.holder = lease.spec.holder_identity or ""
        if self._seen_version != lease.metadata.resource_version:
            self._seen_version, self._changed = lease.metadata.resource_version, self._mono()
        duration = lease.spec.lease_duration_seconds or self._timings.lease
        return not self.holder or self._mono() - self._changed >= duration

    def _held(self, lease: Lease, began: float) -> None:
        self._lease, self._renewed, self.holder, self._without = lease, began, self._identity, False

    def _claim(self, lease: Lease | None) -> LeaseSpec:
        return claim(lease.spec if lease is not None else None, self._identity, self._wall(), self._timings)

    async def release(self) -> None:
        """Give it back, if it is held."""
        lease, held = self._lease, self._renewed is not None
        self._renewed, self._without, self._lease = None, False, None
        if not held or lease is None:
            return
        now = stamp(self._wall())
        free = LeaseSpec(None, 1, now, now, lease.spec.lease_transitions)
        try:
            await self._api.put_lease(self._name, free, lease.metadata.resource_version)
        except ApiError as error:
            log.warning("lease %s could not be given back: %s", self._name, error)
