"""By what a request says who it is, for the history of its BMC. Nothing is authenticated and nothing is counted."""

from typing import Literal

import orjson

from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Accounts
from bmcsim.machine.history import LONGEST_USER, NOBODY, Presented
from bmcsim.redfish.auth import SESSIONS, basic_credentials, is_open
from bmcsim.redfish.exchange import Request

_MOST_BODY = 64 * 1024


def presented(bmc: Bmc, request: Request, accounts: Accounts) -> Presented:
    """What a request presents. accounts: as they were when it came, before it changed anything."""
    head, method = request.head, request.method
    if method == "POST" and request.path.startswith(SESSIONS) and is_open(method, request.path.rstrip("/")):
        given = _from_body(request.body)
        return NOBODY if given is None else _with_password(bmc, accounts, "login", *given)
    if head.token:
        live = bmc.live_sessions(request.moment).values() if bmc.sessions is not None else ()
        user = next((one.user for one in live if one.token.encode() == head.token), "")
        if user or not head.authorization:
            return Presented("session", user[:LONGEST_USER])
    credentials = basic_credentials(head.authorization) if head.authorization else None
    return NOBODY if credentials is None else _with_password(bmc, accounts, "basic", *credentials)


def _with_password(
    bmc: Bmc, accounts: Accounts, kind: Literal["basic", "login"], user: str, password: str
) -> Presented:
    account = accounts.of_user(user)
    digest = bmc.shared.hasher.digest(password)
    which = bmc.generation(account, digest) if account is not None else "unknown"
    return Presented(kind, user[:LONGEST_USER], which)


def _from_body(body: bytes) -> tuple[str, str] | None:
    if len(body) > _MOST_BODY:
        return None
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(given, dict):
        return None
    user, password = given.get("UserName"), given.get("Password")
    return (user, password) if isinstance(user, str) and isinstance(password, str) else None
