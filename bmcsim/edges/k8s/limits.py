"""How fast requests to the API server leave."""

import asyncio
from collections.abc import Awaitable, Callable


class Bucket:
    """`rate` requests a second, and `burst` at once after a rest; rate 0 for no limit. throttled: seconds that requests
    waited here."""

    def __init__(
        self,
        rate: float,
        burst: int,
        mono: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._mono, self._sleep = mono, sleep
        self._interval = 1.0 / rate if rate > 0 else 0.0
        self._slack = max(1, burst) * self._interval
        self._due = 0.0
        self._paused_until = 0.0
        self.throttled = 0.0

    async def take(self) -> None:
        """Return when the next request may leave; whoever asks first is first."""
        now = self._mono()
        self._due = max(self._due, now) + self._interval
        may = self._due - self._slack
        while (left := max(may, self._paused_until) - self._mono()) > 0.0:
            self.throttled += left
            await self._sleep(left)

    def pause(self, seconds: float) -> None:
        """Let nothing go for so long."""
        self._paused_until = max(self._paused_until, self._mono() + seconds)
