"""How fast requests leave: a token bucket, and the pauses that the server asks for."""

import asyncio
from collections.abc import Awaitable, Callable

_SHARE_AT_ONCE = 0.05


class Pace:
    """Never lets more than `rate` requests, rounded up, go in any second; None for no limit. Who waits goes in turn.

    A bucket of a twentieth of the rate is for timers that are late; what it holds is taken off what flows in.
    """

    def __init__(
        self,
        rate: float | None,
        mono: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._mono, self._sleep = mono, sleep
        self._interval = self._slack = 0.0
        if rate is not None:
            spare = max(0, int(rate * _SHARE_AT_ONCE) - 1)
            self._interval = 1.0 / (rate - spare)
            self._slack = spare * self._interval
        self._next = 0.0
        self._paused_until = 0.0
        self._turn = asyncio.Lock()
        self.pauses = 0

    async def wait(self) -> None:
        """Return when the next request may leave."""
        async with self._turn:
            while (seconds := self._left()) > 0.0:
                await self._sleep(seconds)
            self._next = max(self._next, self._mono()) + self._interval

    def pause(self, seconds: float) -> None:
        """Let nothing go for so long."""
        self.pauses += 1
        self._paused_until = max(self._paused_until, self._mono() + seconds)

    def _left(self) -> float:
        return max(self._next - self._slack, self._paused_until) - self._mono()
