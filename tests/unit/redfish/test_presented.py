"""By what a request says who it is, as the history of its BMC keeps it."""

import orjson
import pytest

from bmcsim.machine.history import NOBODY, Presented
from bmcsim.redfish.exchange import Head, Request
from bmcsim.redfish.presented import presented
from tests.conftest import PASSWORD, Client, basic, make_client

SESSIONS = "/redfish/v1/SessionService/Sessions"


@pytest.fixture
def client() -> Client:
    """A BMC whose accounts had the factory password and one before the present one."""
    client = make_client("dell_poweredge_r750", password="Former-1")
    for account in client.bmc.accounts.accounts:
        client.bmc.set_password(account.id, PASSWORD, client.clock.now())
    client.bmc.committed()
    return client


def seen(
    client: Client, method: str = "GET", path: str = "/redfish/v1/Systems", body: object = b"", **fields: bytes
) -> Presented:
    """What a request presents."""
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    request = Request(method, path, client.clock.now(), Head(**fields), "", content)
    return presented(client.bmc, request, client.bmc.accounts)


@pytest.mark.parametrize(
    ("password", "which"), [("calvin", "factory"), ("Former-1", "previous"), (PASSWORD, "current"), ("x", "unknown")]
)
def test_basic_and_a_login_say_which_password(client: Client, password: str, which: str) -> None:
    user = client.bmc.accounts.accounts[0].user
    if which == "factory":
        password = client.bmc.tree.head.accounts[0].password
    assert seen(client, authorization=basic(user, password)) == Presented("basic", user, which)
    body = {"UserName": user, "Password": password}
    assert seen(client, "POST", SESSIONS, body) == Presented("login", user, which)
    assert seen(client, "POST", f"{SESSIONS}/Members/", body) == Presented("login", user, which)


def test_of_a_user_that_is_not_there_nothing_is_known(client: Client) -> None:
    assert seen(client, authorization=basic("nobody", PASSWORD)) == Presented("basic", "nobody", "unknown")


def test_what_is_no_login_presents_nothing(client: Client) -> None:
    assert seen(client) == NOBODY
    assert seen(client, authorization=b"Bearer x") == NOBODY
    assert seen(client, authorization=b"Basic no-base64!") == NOBODY
    for body in (b"", b"{", b"[]", {"UserName": "root"}, {"UserName": 1, "Password": "x"}, b"{" + b" " * 70_000):
        assert seen(client, "POST", SESSIONS, body) == NOBODY


def test_a_token_is_that_of_its_user(client: Client) -> None:
    account = client.bmc.accounts.accounts[0]
    session = client.bmc.open_session(account, client.clock.now())
    assert seen(client, token=session.token.encode()) == Presented("session", account.user)
    assert seen(client, token=b"no such token") == Presented("session", "")
    both = seen(client, token=b"no such token", authorization=basic(account.user, PASSWORD))
    assert both == Presented("basic", account.user, "current")


def test_the_last_accepted_login_is_kept(client: Client) -> None:
    assert client.bmc.login is None
    client.get("/redfish/v1/Systems")
    login = client.bmc.login
    assert login is not None and (login.user, login.generation) == (client.bmc.accounts.accounts[0].user, "current")
    client.request("GET", "/redfish/v1/Systems", authorization=basic("root", "wrong"))
    assert client.bmc.login is login
