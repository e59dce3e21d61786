"""How much one BMC takes: requests at a time, and requests in a second. What is beyond is refused, not queued."""

import msgspec


class LoadLimits(msgspec.Struct, frozen=True, gc=False):
    """at_once: requests that the BMC is busy with at a time. rate: requests per second. None for any number."""

    at_once: int | None = None
    rate: float | None = None


class Load:
    """What one BMC is busy with.

    Rule 1: it is busy with a request until the answer is out, as far as the answer itself takes time: its delay, and
            its length where it drips. Connections that wait without a request do not count.
    Rule 2: the rate is a bucket that holds one second's worth, at least one request, and fills evenly.
    Rule 3: a refused request counts for neither, so that clients who keep asking do not shut each other out.

    All times are monotonic seconds.
    """

    __slots__ = ("_budget", "_filled", "_limits", "_until")

    def __init__(self, limits: LoadLimits) -> None:
        self._limits = limits
        self._until: list[float] = []
        self._budget, self._filled = self._most, 0.0

    @classmethod
    def of(cls, at_once: int | None, rate: float | None) -> "Load | None":
        """None where nothing is limited."""
        return None if at_once is None and rate is None else cls(LoadLimits(at_once, rate))

    @property
    def _most(self) -> float:
        return max(1.0, self._limits.rate or 1.0)

    def take(self, now: float) -> float:
        """Seconds after which a request would be taken; 0.0 takes this one."""
        limits, wait = self._limits, 0.0
        if limits.at_once is not None:
            self._until = [end for end in self._until if end > now]
            if len(self._until) >= limits.at_once:
                wait = sorted(self._until)[-limits.at_once] - now
        if limits.rate is not None:
            self._budget = min(self._most, self._budget + (now - self._filled) * limits.rate)
            self._filled = now
            if self._budget < 1.0:
                wait = max(wait, (1.0 - self._budget) / limits.rate)
            elif not wait:
                self._budget -= 1.0
        return wait

    def busy(self, until: float) -> None:
        """The answer to a request that was taken is out at a time to come."""
        if self._limits.at_once is not None:
            self._until.append(until)
