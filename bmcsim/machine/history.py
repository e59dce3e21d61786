"""What is remembered of the requests to a BMC: who came, with which password, and what went wrong.

No password is ever part of it, nor a token: of a password only which one it was.
"""

from typing import Literal

import msgspec

from bmcsim.machine.credentials import Account

Generation = Literal["factory", "previous", "current", "pinned", "unknown"]
"""Which password was presented. previous: one that the account had before; pinned: the one that was given at the start
and is kept; unknown: none that the account has or had, or there is no such user."""

Outcome = Literal[
    "ok", "unauthorized", "forbidden", "missing", "client_error", "unavailable", "server_error", "dropped", "cut",
    "refused",
]  # fmt: skip
"""How a request ended. dropped: its connection closed without an answer; cut: within the answer; refused: the
connection was reset before any request."""

_BY_STATUS: dict[int, Outcome] = {401: "unauthorized", 403: "forbidden", 404: "missing", 503: "unavailable"}
LONGEST_PATH, LONGEST_USER = 512, 64


class Login(msgspec.Struct, frozen=True, gc=False):
    """A user name and a password that came together. wall: seconds since the epoch."""

    wall: float
    user: str
    generation: Generation


class Milestones(msgspec.Struct, gc=False):
    """How far clients are with a BMC since the process started, in seconds since the epoch, 0 for not yet.

    contact: the first request. login: the first one that was accepted. rotation, reset: when a password was changed and
    when the BMC was reset, both for the first time after the first contact, by whomever. probe: the last time that it
    was read without credentials, with which NICo begins each exploration.
    """

    contact: float
    login: float = 0.0
    rotation: float = 0.0
    reset: float = 0.0
    probe: float = 0.0


Milestone = Literal["login", "rotation", "reset"]


class Presented(msgspec.Struct, frozen=True, gc=False):
    """By what a request says who it is. kind: none, basic, session (a token) or login (a POST that asks for a session).
    user: '' where it says none, or a token that is not valid. generation: of the password, None without one."""

    kind: Literal["none", "basic", "session", "login"]
    user: str = ""
    generation: Generation | None = None


NOBODY = Presented("none")


class Incident(msgspec.Struct, frozen=True, gc=False):
    """A request that did not simply go well. status: of the answer, 0 where there was none. client: its address.
    faults: ids of the fault rules that acted on it. delay: seconds that its answer was held back."""

    wall: float
    method: str
    path: str
    status: int
    outcome: Outcome
    presented: Presented
    client: str = ""
    faults: tuple[str, ...] = ()
    delay: float = 0.0


def generation(account: Account, digest: bytes, *, pinned: bool) -> Generation:
    """Which password of an account has a digest. pinned: it is the one that was given at the start and is kept."""
    if digest == account.factory:
        return "factory"
    if digest == account.digest:
        return "pinned" if pinned else "current"
    if digest == account.previous or digest in account.history:
        return "previous"
    return "unknown"


def outcome_of(status: int, keep: int | None, *, after_head: bool) -> Outcome:
    """How a request ended. keep, after_head: of its Delivery: how much of the answer went out before the end."""
    if keep is not None:
        return "dropped" if keep == 0 and not after_head else "cut"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return "server_error"
    return "client_error" if status >= 400 else "ok"
