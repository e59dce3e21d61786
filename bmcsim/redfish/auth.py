"""Who asks: Basic and session authentication, and passwords that have to be changed first (DSP0266 13.3, 13.2.9)."""

import base64
import binascii
import hmac
from collections.abc import Sequence

import msgspec
import orjson

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import ACCOUNT_SERVICE, ACCOUNTS, Bmc
from bmcsim.machine.credentials import Account
from bmcsim.machine.history import Login
from bmcsim.machine.sessions import Session
from bmcsim.redfish import privileges
from bmcsim.redfish.exchange import Request

CHALLENGE = b'WWW-Authenticate: Basic realm="Redfish"\r\n'
SESSIONS = "/redfish/v1/SessionService/Sessions"

_OPEN_READS = frozenset(
    {"/redfish", "/redfish/v1", "/redfish/v1/odata", "/redfish/v1/$metadata", "/redfish/v1/openapi.yaml"}
)
_OPEN_POSTS = frozenset({SESSIONS, SESSIONS + "/Members"})


class Caller(msgspec.Struct, frozen=True, gc=False):
    """An authenticated client: its account, and its session unless it used Basic."""

    account: Account
    session: Session | None = None


class LoginRefused(RedfishError):
    """401 for a user name and a password. actions: what the failed login set in motion."""

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__(401, "AccessUnauthorized", headers=CHALLENGE)
        self.actions = actions


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no credentials."""
    if method == "POST":
        return path in _OPEN_POSTS
    return path in _OPEN_READS and method in ("GET", "HEAD", "OPTIONS")


def authenticate(bmc: Bmc, request: Request) -> Caller:
    """The caller of a request. A token that is not valid leaves the choice to Basic. Raises RedfishError 401."""
    if request.head.token and bmc.sessions is not None:
        session = bmc.sessions.use(request.head.token.decode("latin-1"), request.moment, bmc.session_timeout)
        if session is not None and (account := bmc.accounts.get(session.account)) is not None and account.usable:
            return Caller(account, session)
    header = request.head.authorization
    if header:
        if bmc.basic_account is not None and hmac.compare_digest(header, bmc.basic_header):
            return Caller(bmc.basic_account)
        credentials = basic_credentials(header)
        if credentials is not None:
            account = log_in(bmc, *credentials, request.moment)
            if _opens_every_resource(bmc, account, request.moment):
                bmc.basic_header, bmc.basic_account = header, account
            return Caller(account)
    raise RedfishError(401, "AccessUnauthorized", headers=CHALLENGE)


def log_in(bmc: Bmc, user: str, password: str, moment: Moment) -> Account:
    """The account of a user name and a password. Raises LoginRefused, in the same way whatever is wrong."""
    account = bmc.accounts.authenticate(user, bmc.shared.hasher.digest(password))
    if account is None or bmc.locked(account.id, moment):
        raise LoginRefused(bmc.login_failed(user, moment))
    bmc.login = Login(moment.wall, account.user, bmc.generation(account, account.digest))
    bmc.reached("login", moment)
    bmc.forget_failed_logins(account)
    return account


def _opens_every_resource(bmc: Bmc, account: Account, moment: Moment) -> bool:
    """Whether every GET of an account is answered plainly, now and until its BMC changes something."""
    lasting = account.expiration is None and not account.must_change(bmc.wall(moment))
    return lasting and bmc.plain and privileges.reads_everything(bmc, account)


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


def may_read_before_change(bmc: Bmc, account: Account, path: str) -> bool:
    """Whether an account may read a resource although its password has to be changed.

    The own account, and on the factory password the whole account service, where a client looks for that account;
    not with `factory_password_reads: own_account`.
    """
    if path == f"{ACCOUNTS}/{account.id}":
        return True
    lenient = account.on_factory_password and bmc.shared.behaviour.factory_password_reads == "account_service"
    return lenient and f"{path}/".startswith(f"{ACCOUNT_SERVICE}/")


def check_password_change(bmc: Bmc, caller: Caller, request: Request, path: str) -> None:
    """Refuse what an account may not do whose password has to be changed. Raises RedfishError 403.

    Allowed are the open URIs, login, the own session, reading the account, and setting another password.
    """
    account = caller.account
    own = f"{ACCOUNTS}/{account.id}"
    method = request.method
    reading = method in ("GET", "HEAD", "OPTIONS")
    if reading and may_read_before_change(bmc, account, path):
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
