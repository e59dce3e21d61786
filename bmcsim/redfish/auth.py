"""Who asks, and may they: Basic and session authentication, and the factory-password rule (DSP0266 13.3, 13.2.9)."""

import base64
import binascii
import hmac

import msgspec
import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Account
from bmcsim.machine.sessions import Session
from bmcsim.redfish.exchange import Request

CHALLENGE = b'WWW-Authenticate: Basic realm="Redfish"\r\n'
SESSIONS = "/redfish/v1/SessionService/Sessions"
ACCOUNT_SERVICE = "/redfish/v1/AccountService"
ACCOUNTS = ACCOUNT_SERVICE + "/Accounts"

_OPEN_READS = frozenset({"/redfish", "/redfish/v1", "/redfish/v1/odata", "/redfish/v1/$metadata"})
_OPEN_POSTS = frozenset({SESSIONS, SESSIONS + "/Members"})


class Caller(msgspec.Struct, frozen=True, gc=False):
    """An authenticated client: its account, and its session unless it used Basic."""

    account: Account
    session: Session | None = None


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no credentials."""
    if method == "POST":
        return path in _OPEN_POSTS
    return path in _OPEN_READS and method in ("GET", "HEAD", "OPTIONS")


def authenticate(bmc: Bmc, request: Request) -> Caller:
    """The caller of a request. A token that is not valid leaves the choice to Basic. Raises RedfishError 401."""
    if request.head.token and bmc.sessions is not None:
        session = bmc.sessions.use(request.head.token.decode("latin-1"), request.moment, bmc.session_timeout)
        if session is not None and (account := bmc.accounts.get(session.account)) is not None and account.enabled:
            return Caller(account, session)
    header = request.head.authorization
    if header:
        if bmc.basic_account is not None and hmac.compare_digest(header, bmc.basic_header):
            return Caller(bmc.basic_account)
        credentials = basic_credentials(header)
        if credentials is not None:
            user, password = credentials
            found = bmc.accounts.authenticate(user, bmc.shared.hasher.digest(password))
            if found is not None:
                if not found.password_change_required:
                    bmc.basic_header, bmc.basic_account = header, found
                return Caller(found)
    raise RedfishError(401, "AccessUnauthorized", headers=CHALLENGE)


def basic_credentials(header: bytes) -> tuple[str, str] | None:
    """User and password of an Authorization field, None when it is not well-formed Basic (RFC 7617)."""
    scheme, _, encoded = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if colon else None


def check_factory_password(bmc: Bmc, caller: Caller, request: Request, path: str) -> None:
    """Refuse what an account on its factory password may not do. Raises RedfishError 403.

    Allowed are the open URIs, login, the own session, reading the account service, and setting another password.
    With `factory_password_reads: own_account` reading is limited to the own account.
    """
    account = caller.account
    own = f"{ACCOUNTS}/{account.id}"
    method = request.method
    reading = method in ("GET", "HEAD", "OPTIONS")
    strict = bmc.tree.head.behaviour.factory_password_reads == "own_account"
    if reading and (
        path == own or (not strict and (path == ACCOUNT_SERVICE or path.startswith(ACCOUNT_SERVICE + "/")))
    ):
        return
    if (reading or method == "DELETE") and path.startswith(SESSIONS + "/"):
        session = bmc.live_sessions(request.moment).get(path.removeprefix(SESSIONS + "/"))
        if session is not None and session.account == account.id:
            return
    if method == "PATCH" and path == own and _changes_password(bmc, account, request.body):
        return
    raise RedfishError(403, "PasswordChangeRequired", own)


def _changes_password(bmc: Bmc, account: Account, body: bytes) -> bool:
    try:
        changes = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(changes, dict) or {key for key in changes if "@" not in key} != {"Password"}:
        return False
    password = changes["Password"]
    return isinstance(password, str) and not hmac.compare_digest(bmc.shared.hasher.digest(password), account.digest)
