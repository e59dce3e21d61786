"""The access log of the Redfish port: a sample of the requests, one line each, without secrets.

Of a request nothing is shown but method, path and query, the latter without what sounds like a secret; never a header
field but X-Request-Id, and never a body.
"""

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from random import random

from bmcsim.fleet.redaction import redacted_query
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.history import LONGEST_PATH
from bmcsim.redfish.exchange import Request, Response

log = logging.getLogger("bmcsim.access")

FIELD = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._~+/=:-]{1,64}")
_LONGEST_METHOD = 32


class AccessLog:
    """rate: which part of the requests has a line, 0 to 1. random: gives numbers from 0 to 1, without 1."""

    def __init__(self, rate: float, random: Callable[[], float] = random) -> None:
        self._rate, self._random = rate, random
        # Whoever asks for the lines wants them, whatever else is too little to be logged.
        log.setLevel(logging.INFO)

    def takes(self) -> bool:
        """Whether the next request has a line."""
        return self._random() < self._rate

    def write(self, bmc: Bmc | None, request: Request, response: Response, client: str, seconds: float) -> None:
        """Log a request. client: its address. seconds: that it took to handle."""
        delivery = response.delivery
        dropped = delivery is not None and delivery.keep == 0 and not delivery.after_head
        log.info(
            "request",
            extra={
                "request_id": request.id or secrets.token_hex(8),
                "bmc": bmc.id if bmc is not None else "",
                "method": request.method[:_LONGEST_METHOD],
                "path": shown_target(request.path, request.query),
                "status": 0 if dropped else response.status,
                "seconds": round(seconds, 6),
                "client": client,
            },
        )


def given_id(fields: Mapping[bytes, bytes]) -> str:
    """The X-Request-Id of a request, '' without one, and for one that is long or has unusual characters."""
    value = fields.get(FIELD, b"")
    return value.decode() if _ID.fullmatch(value) else ""


def shown_target(path: str, query: str) -> str:
    """Path and query as they may be shown. A question mark that was encoded in the path begins a query too."""
    path, mark, rest = f"{path}?{query}".partition("?")
    shown = f"{path}?{redacted_query(rest)}" if mark and rest else path
    return shown[:LONGEST_PATH]
