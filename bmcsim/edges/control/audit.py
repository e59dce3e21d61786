"""Who changed what through the control plane: one line in the log of each change, and the latest ones to ask for."""

import logging
from collections import deque
from typing import Any

import msgspec
import orjson

from bmcsim.core.clock import Clock, rfc3339

log = logging.getLogger("bmcsim.audit")

KEPT = 1000


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change. time: RFC 3339. peer: address of who asked for it. what: in words. about: its facts, such as the
    selection, count of BMCs and id of the job; never a secret."""

    time: str
    peer: str
    method: str
    path: str
    what: str
    about: dict[str, Any] = {}


class Audit:
    """The latest changes. count: of all since the start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.count = 0
        self._changes: deque[Change] = deque(maxlen=KEPT)

    def record(self, peer: str, method: str, path: str, what: str, about: dict[str, Any]) -> None:
        """Take note of a change that was made or begun."""
        # As plain JSON, so that the log has it in a line, and nothing in it changes any more.
        text = msgspec.json.encode(about)
        self.count += 1
        self._changes.append(Change(rfc3339(self._clock.now().wall), peer, method, path, what, orjson.loads(text)))
        log.info("%s: %s %s: %s %s", peer, method, path, what, text.decode())

    def latest(self, limit: int) -> list[Change]:
        """The latest first."""
        return [change for change, _ in zip(reversed(self._changes), range(limit), strict=False)]
