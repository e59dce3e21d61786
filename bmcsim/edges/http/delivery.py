"""Answers that are not simply written: they wait for a commit or a delay, they drip, or they stop halfway."""

import asyncio
from collections.abc import Callable

from bmcsim.redfish.exchange import Delivery

_TICK = 0.05
_AT_ONCE = Delivery()


class Outgoing:
    """One answer, from the moment that its connection owes it until it is out. Timers and callbacks, no task.

    Rule 1: `over` is called once, and never after `cancel`; a transport that closes by itself leads to `cancel`.
    Rule 2: after `cancel` nothing is written, however late the answer becomes known.
    Rule 3: `hurry` gives up delay and rate, not the answer: what is not known yet goes out as soon as it is.

    closes: whether the connection ends with this answer. sent: bytes that went out.
    """

    __slots__ = ("_began", "_data", "_hurried", "_over", "_rate", "_timer", "_transport", "closes", "sent")

    def __init__(self, transport: asyncio.Transport, closes: bool) -> None:
        self._transport: asyncio.Transport | None = transport
        self.closes = closes
        self._over: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._data = b""
        self.sent = 0
        self._rate = self._began = 0.0
        self._hurried = False

    def begin(self, encoded: bytes, delivery: Delivery | None, over: Callable[[], None]) -> None:
        """The answer is known: send it as `delivery` says."""
        if self._transport is None:
            return
        delivery = delivery or _AT_ONCE
        if delivery.keep is not None:
            head = encoded.index(b"\r\n\r\n") + 4 if delivery.after_head else 0
            encoded = encoded[: head + delivery.keep]
            self.closes = True
        self._data, self._rate, self._over = encoded, delivery.rate, over
        if delivery.delay > 0 and not self._hurried:
            self._timer = asyncio.get_running_loop().call_later(delivery.delay, self._start)
        else:
            self._start()

    @property
    def hurried(self) -> bool:
        """Whether the server stops with this answer."""
        return self._hurried

    def hurry(self) -> None:
        """The server stops: send the rest at once, and let the connection end with it."""
        self._hurried = self.closes = True
        if self._timer is not None:
            self._timer.cancel()
            self._start()

    def cancel(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport = self._timer = self._over = None
        self._data = b""

    def _start(self) -> None:
        self._timer = None
        if self._rate > 0 and not self._hurried:
            self._began = asyncio.get_running_loop().time()
            self._drip()
        else:
            self._write(len(self._data))

    def _drip(self) -> None:
        """Send what a tick is worth. The next is due by the sum so far, so late ticks do not add up."""
        self._timer = None
        self._write(min(len(self._data), self.sent + max(1, int(self._rate * _TICK))))
        if self._over is not None and self._transport is not None and not self._transport.is_closing():
            due = self._began + self.sent / self._rate
            self._timer = asyncio.get_running_loop().call_at(due, self._drip)

    def _write(self, end: int) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if end > self.sent:
            self._transport.write(self._data[self.sent : end])
            self.sent = end
        if end == len(self._data) and (over := self._over) is not None:
            self._over = None
            over()
