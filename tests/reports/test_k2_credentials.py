"""Public bug reports about credentials and sessions, each at every point where it could recur.

What a row asks of one plain BMC is in test_reports.py as far as it stood there before; here is the rest of it.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.machine.resources import started
from bmcsim.machine.state import decode, shifted
from bmcsim.redfish.exchange import Response
from bmcsim.tree.profile import names
from tests.conftest import PASSWORD, Client, basic, header, make_client, message_ids, profiles_where, tree_of

SERVICE = "/redfish/v1/AccountService"
ACCOUNTS = f"{SERVICE}/Accounts"
SESSIONS = "/redfish/v1/SessionService/Sessions"
CHASSIS = "/redfish/v1/Chassis"

every_profile = pytest.mark.parametrize("profile", names())
with_defaults = pytest.mark.parametrize(
    "profile",
    profiles_where(lambda tree: f"{tree.head.roles.manager}/Actions/Manager.ResetToDefaults" in tree.actions),
)
with_a_first_login = pytest.mark.parametrize(
    "profile", profiles_where(lambda tree: not tree.head.behaviour.factory_password_everywhere)
)


def factory_password(profile: str) -> str:
    """The password that the factory set."""
    return tree_of(profile).head.accounts[0].password


def fresh(profile: str, index: int = 0, **behaviour: Any) -> Client:
    """A BMC as it left the factory, asked with its factory password."""
    client = make_client(profile, index=index, password=None)
    client.authorization = basic("root", factory_password(profile))
    return behaving(client, **behaviour)


def behaving(client: Client, **behaviour: Any) -> Client:
    """The same BMC with other behaviour."""
    shared = client.bmc.shared
    client.bmc.shared = msgspec.structs.replace(
        shared, behaviour=msgspec.structs.replace(shared.behaviour, **behaviour)
    )
    return client


def under(policy: str, profile: str) -> Client:
    """A BMC that began with PASSWORD, with a policy for credentials."""
    client = make_client(profile)
    client.bmc.shared = msgspec.structs.replace(client.bmc.shared, policy=policy)
    return client


def opens(client: Client, password: str) -> int:
    """The status of a read with a password of root."""
    return client.request("GET", CHASSIS, authorization=basic("root", password)).status


def own(profile: str) -> str:
    """The URI of the factory account."""
    return f"{ACCOUNTS}/{tree_of(profile).head.accounts[0].id}"


def rotate(client: Client, password: str) -> None:
    """A controller sets a new password, and uses it from then on."""
    assert client.request("PATCH", own(client.bmc.tree.head.profile), {"Password": password}).status == 204
    client.authorization = basic("root", password)


def add(client: Client, **facts: Any) -> str:
    """The URI of a new account, user ann with the password Secret-1."""
    body = {"UserName": "ann", "Password": "Secret-1", "RoleId": "Administrator", **facts}
    response = client.request("POST", ACCOUNTS, body)
    assert response.status == 201, response.body
    return header(response, "Location") or ""


def log_in(client: Client, user: str = "root", password: str = PASSWORD) -> tuple[Response, bytes, str]:
    """(answer, token, URI) of a login."""
    response = client.request("POST", SESSIONS, {"UserName": user, "Password": password}, authorization=b"")
    return response, (header(response, "X-Auth-Token") or "").encode(), header(response, "Location") or ""


def by_token(client: Client, token: bytes, method: str = "GET", path: str = CHASSIS) -> int:
    """The status of a request with a token and nothing else."""
    return client.request(method, path, authorization=b"", token=token).status


def reset_bmc(client: Client) -> None:
    """The controller resets the BMC and waits."""
    manager = client.bmc.tree.head.roles.manager
    assert client.request("POST", f"{manager}/Actions/Manager.Reset", {}).status == 204
    client.advance(120)


def killed_and_started(client: Client) -> Client:
    """The process dies at once and starts again: what was on disk is all there is."""
    bmc, row = client.bmc, client.bmc.encode()
    again = make_client(bmc.tree.head.profile)
    again.bmc.shared = msgspec.structs.replace(bmc.shared)
    restored = started(shifted(decode(row).state, again.clock.now().hardware), again.bmc.shared)
    again.bmc.restore(restored)
    again.authorization = client.authorization
    return again


@every_profile
def test_n05_a_changed_password_survives_the_death_of_the_process(profile: str) -> None:
    """The new password works after an unclean stop and the old one is 401; sessions are gone; it was no BMC reset."""
    client = under("persist", profile)
    rotate(client, "Rotated-2")
    _, token, _ = log_in(client, password="Rotated-2")
    again = killed_and_started(client)
    assert (opens(again, "Rotated-2"), opens(again, PASSWORD)) == (200, 401)
    assert by_token(again, token) == 401
    assert again.bmc.state.bmc_started == client.bmc.state.bmc_started


@every_profile
@pytest.mark.parametrize("policy", ["factory", "pinned"])
def test_n05_only_a_policy_that_says_so_takes_it_back(profile: str, policy: str) -> None:
    """A fleet that wants its mocks as they were configured after each start says so, and gets that."""
    client = under(policy, profile)
    rotate(client, "Rotated-2")
    again = killed_and_started(client)
    assert (opens(again, "Rotated-2"), opens(again, PASSWORD)) == (401, 200)


@with_a_first_login
@pytest.mark.parametrize(
    ("policy", "expected"), [("persist", [200, 401, 401]), ("pinned", [401, 200, 401]), ("factory", [401, 401, 403])]
)
def test_n07_a_reset_of_the_bmc_keeps_the_password_unless_the_policy_says_otherwise(
    profile: str, policy: str, expected: list[int]
) -> None:
    """Rotated password, configured password, factory password after Manager.Reset."""
    client = under(policy, profile)
    rotate(client, "Rotated-2")
    reset_bmc(client)
    assert [opens(client, one) for one in ("Rotated-2", PASSWORD, factory_password(profile))] == expected


@with_defaults
@pytest.mark.parametrize(("policy", "expected"), [("persist", [401, 401, 403]), ("pinned", [401, 200, 401])])
def test_n07_only_a_reset_to_defaults_undoes_a_rotation(profile: str, policy: str, expected: list[int]) -> None:
    """ResetToDefaults ResetAll brings the factory password back; a pinned one is pinned even then."""
    client = under(policy, profile)
    rotate(client, "Rotated-2")
    action = f"{client.bmc.tree.head.roles.manager}/Actions/Manager.ResetToDefaults"
    assert client.request("POST", action, {"ResetType": "ResetAll"}).status == 204
    client.advance(120)
    assert [opens(client, one) for one in ("Rotated-2", PASSWORD, factory_password(profile))] == expected


@with_a_first_login
@pytest.mark.parametrize("by", ["Basic", "token"])
def test_n08_the_factory_password_opens_what_is_needed_to_change_it(profile: str, by: str) -> None:
    """Root without credentials; own account and its PATCH; everything else 403 until then, also with a token."""
    client = fresh(profile)
    fields: dict[str, Any] = {}
    if by == "token":
        fields = {"authorization": b"", "token": log_in(client, password=factory_password(profile))[1]}
    assert client.request("GET", "/redfish/v1/", authorization=b"").status == 200
    assert client.request("GET", own(profile), **fields).status == 200
    for path in client.bmc.tree.nodes:
        if path != "/redfish/v1" and not path.startswith(SERVICE):
            refused = client.request("GET", path, **fields)
            assert (refused.status, message_ids(refused)) == (403, ["PasswordChangeRequired"]), path
    assert client.request("PATCH", own(profile), {"Password": PASSWORD}, **fields).status == 204
    if by == "Basic":
        fields = {"authorization": basic("root", PASSWORD)}
    assert client.request("GET", CHASSIS, **fields).status == 200


@every_profile
def test_n09_the_same_password_again_answers_no_request_for_another_one(profile: str) -> None:
    """Whoever asked for a change, factory, administrator or calendar: only a password that differs ends it."""
    client = make_client(profile)
    uri = add(client)
    for asks in ({"PasswordChangeRequired": True}, {"PasswordExpiration": "2020-01-01T00:00:00Z"}):
        password = "Secret-1"
        assert client.request("PATCH", uri, {"Password": password}).status == 204
        assert client.request("PATCH", uri, asks).status == 204
        mine: dict[str, Any] = {"authorization": basic("ann", password)}
        same = client.request("PATCH", uri, {"Password": password}, **mine)
        assert (same.status, message_ids(same)) == (403, ["PasswordChangeRequired"])
        assert client.request("PATCH", uri, {"Password": password}).status == 204
        assert client.get(uri)["PasswordChangeRequired"] is True
        assert client.request("GET", CHASSIS, **mine).status == 403
        assert client.request("PATCH", uri, {"Password": "Secret-2"}, **mine).status == 204
        assert client.request("GET", CHASSIS, authorization=basic("ann", "Secret-2")).status == 200


@every_profile
def test_n10_failed_logins_are_counted_for_the_bmc_that_was_asked(profile: str) -> None:
    """The secret of the other kind is 401 and counted here; a neighbour neither counts it nor is it locked by it."""
    client, neighbour = make_client(profile), make_client(profile, index=1)
    for one in (client, neighbour):
        one.request("PATCH", SERVICE, {"AccountLockoutThreshold": 3, "AccountLockoutDuration": 600})
    for _ in range(5):
        refused = client.request("GET", CHASSIS, authorization=basic("root", "0penBmc-of-another-kind"))
        assert refused.status == 401
        assert (header(refused, "WWW-Authenticate") or "").startswith("Basic realm=")
    assert client.bmc.failed_logins is not None
    assert client.bmc.failed_logins.total == 5
    assert opens(client, PASSWORD) == 401
    assert neighbour.bmc.failed_logins is None
    assert opens(neighbour, PASSWORD) == 200


@every_profile
def test_n13_a_deleted_token_is_401_and_the_others_work(profile: str) -> None:
    """Five sessions of one user; the first is deleted, by its own token."""
    client = make_client(profile)
    sessions = [log_in(client)[1:] for _ in range(5)]
    assert by_token(client, sessions[0][0], "DELETE", sessions[0][1]) in (200, 204)
    assert [by_token(client, token) for token, _ in sessions] == [401, 200, 200, 200, 200]
    assert opens(client, PASSWORD) == 200


@every_profile
def test_e01_a_login_returns_token_location_and_the_whole_session(profile: str) -> None:
    """201 + Location + X-Auth-Token + body, whatever ids there were before; every login gets a session of its own."""
    client = make_client(profile)
    seen = set()
    for number in range(6):
        response, token, uri = log_in(client)
        assert response.status == 201
        body = orjson.loads(response.body)
        assert {"@odata.id", "@odata.type", "Id", "Name", "UserName"} <= body.keys()
        assert (body["@odata.id"], body["UserName"]) == (uri, "root")
        assert by_token(client, token, path=uri) == 200
        seen.add((uri, token))
        if number % 2:
            client.request("DELETE", uri)
    assert len(seen) == 6


ASKED: dict[str, dict[str, Any]] = {
    "expired": {"PasswordExpiration": "2020-01-01T00:00:00Z"},
    "to change": {"PasswordChangeRequired": True},
}


@every_profile
@pytest.mark.parametrize("state", ASKED)
def test_e04_a_password_that_has_to_be_changed_is_an_error_object_except_at_login(profile: str, state: str) -> None:
    """403 with an error everywhere; session creation 201 with @Message.ExtendedInfo, on the session itself."""
    client = make_client(profile)
    uri = add(client, **ASKED[state])
    response, token, session = log_in(client, "ann", "Secret-1")
    assert response.status == 201
    body = orjson.loads(response.body)
    assert "error" not in body
    (info,) = body["@Message.ExtendedInfo"]
    assert (info["MessageId"].rpartition(".")[2], info["MessageArgs"]) == ("PasswordChangeRequired", [uri])
    credentials: list[dict[str, Any]] = [
        {"authorization": basic("ann", "Secret-1")},
        {"authorization": b"", "token": token},
    ]
    for fields in credentials:
        for path in (client.bmc.tree.head.roles.manager, CHASSIS, SESSIONS, f"{SERVICE}/Roles", own(profile)):
            refused = client.request("GET", path, **fields)
            assert (refused.status, message_ids(refused)) == (403, ["PasswordChangeRequired"]), path
            assert list(orjson.loads(refused.body)) == ["error"]
        assert client.request("GET", uri, **fields).status == 200
    assert by_token(client, token, path=session) == 200
    assert client.request("PATCH", uri, {"Password": "Secret-2"}, **credentials[1]).status == 204
    assert by_token(client, token) == 200
    assert "@Message.ExtendedInfo" not in orjson.loads(log_in(client, "ann", "Secret-2")[0].body)


def test_c01_the_ninth_session_of_an_idrac_is_503_in_its_own_words() -> None:
    """Eight sessions, one more is 503 with RAC0218; the eight are unaffected; a DELETE and idle time free a place."""
    client = make_client("dell_poweredge_r750")
    sessions = [log_in(client)[1:] for _ in range(8)]
    response, token, _ = log_in(client)
    assert (response.status, token) == (503, b"")
    assert any(key.startswith("RAC0218") for key in message_ids(response))
    assert [by_token(client, one) for one, _ in sessions] == [200] * 8
    assert client.request("DELETE", sessions[3][1]).status == 204
    assert log_in(client)[0].status == 201
    assert log_in(client)[0].status == 503
    client.advance(1801)
    assert log_in(client)[0].status == 201


@pytest.mark.parametrize("limit", [1, 4])
def test_c01_the_limit_is_the_hardware_s_and_may_cost_the_oldest_instead(limit: int) -> None:
    """Another limit, and firmware that drops the oldest session."""
    client = behaving(make_client("bluefield3"), session_limit=limit)
    tokens = [log_in(client)[1] for _ in range(limit)]
    response = log_in(client)[0]
    assert (response.status, message_ids(response)) == (503, ["SessionLimitExceeded"])
    behaving(client, session_full="drop_oldest")
    assert log_in(client)[0].status == 201
    assert [by_token(client, token) for token in tokens] == [401] + [200] * (limit - 1)


@every_profile
def test_c02_sessions_that_nobody_ends_expire_and_basic_needs_none(profile: str) -> None:
    """The pool is full of sessions without logout; after SessionTimeout it is empty. Basic never takes a place."""
    client = make_client(profile)
    limit = client.bmc.shared.behaviour.session_limit
    for _ in range(limit):
        log_in(client)
    assert log_in(client)[0].status == 503
    for _ in range(100):
        assert opens(client, PASSWORD) == 200
    timeout = client.get("/redfish/v1/SessionService")["SessionTimeout"]
    client.advance(timeout + 1)
    assert client.get(SESSIONS)["Members"] == []
    for _ in range(limit):
        assert log_in(client)[0].status == 201


@every_profile
def test_c03_ending_a_session_that_has_expired_is_401_with_its_token_and_404_without(profile: str) -> None:
    """DELETE with the expired token: 401; with another good credential: 404; never 500, and again the same."""
    client = make_client(profile)
    _, token, uri = log_in(client)
    client.advance(1801)
    for _ in range(2):
        assert by_token(client, token, "DELETE", uri) == 401
        assert client.request("DELETE", uri).status == 404


def strictly(profile: str) -> Client:
    """A BMC whose factory password reads nothing but its own account."""
    return fresh(profile, factory_password_reads="own_account")


@with_a_first_login
@pytest.mark.parametrize("make", [strictly, fresh])
def test_c04_the_refusal_names_the_account_whose_password_has_to_be_changed(
    profile: str, make: Callable[[str], Client]
) -> None:
    """A tool that may not even list the accounts takes the URI from the 403, changes the password there, and is in."""
    client = make(profile)
    if make is strictly:
        for path in (SERVICE, ACCOUNTS, f"{SERVICE}/Roles"):
            refused = client.request("GET", path)
            assert (refused.status, message_ids(refused)) == (403, ["PasswordChangeRequired"])
    refused = client.request("GET", CHASSIS)
    (info,) = orjson.loads(refused.body)["error"]["@Message.ExtendedInfo"]
    (uri,) = info["MessageArgs"]
    assert uri in info["Message"]
    assert client.get(uri)["UserName"] == "root"
    assert client.request("PATCH", uri, {"Password": PASSWORD}).status == 204
    assert opens(client, PASSWORD) == 200
