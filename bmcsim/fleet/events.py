"""Brings the events of all BMCs to those who listen."""

from collections.abc import Callable

from bmcsim.core.clock import Clock
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import Event, Subscription, wants
from bmcsim.redfish.events import payload

Push = Callable[[Bmc, Subscription, bytes], None]
"""Send a payload to the destination of a subscription, some time."""


class Hub:
    """Numbers events, which wakes the streams that read them, and pushes them to subscriptions.

    push: None where nothing can be sent. emitted: how many events there were.
    """

    def __init__(self, clock: Clock, push: Push | None = None) -> None:
        self._clock, self.push = clock, push
        self.emitted = 0

    def emit(self, bmc: Bmc, event: Event) -> None:
        """A BMC tells something."""
        self.emitted += 1
        numbered = bmc.number(event, self._clock.now())
        if self.push is None:
            return
        for one in bmc.state.subscriptions:
            if not one.suspended and wants(one.wanted, event):
                self.push(bmc, one, payload(bmc, numbered, one.context))
