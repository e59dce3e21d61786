"""Who asks, and may they."""

import base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.redfish.auth import basic_credentials
from bmcsim.tree.profile import Account
from tests.conftest import PASSWORD, Client, basic, header, make_client, message_ids
from tests.unit.redfish.conftest import (
    ACCOUNT_SERVICE,
    ACCOUNTS,
    FACTORY,
    MANAGER,
    OWN,
    SESSION_SERVICE,
    SESSIONS,
    SYSTEM,
    as_edge,
    dpu_with,
    login,
)

Fields = dict[str, bytes]


def expired(client: Client) -> Fields:
    """A token that was not used for too long."""
    token, _ = login(client)
    client.advance(1801)
    return {"authorization": b"", "token": token}


def deleted(client: Client) -> Fields:
    """A token whose session was deleted."""
    token, uri = login(client)
    assert client.request("DELETE", uri).status == 204
    return {"authorization": b"", "token": token}


REFUSED: dict[str, Callable[[Client], Fields]] = {
    "none": lambda _: {"authorization": b""},
    "wrong password": lambda _: {"authorization": basic("root", "wrong")},
    "factory password after a change": lambda _: {"authorization": basic("root", FACTORY)},
    "unknown user": lambda _: {"authorization": basic("nobody", PASSWORD)},
    "case of the user": lambda _: {"authorization": basic("Root", PASSWORD)},
    "other scheme": lambda _: {"authorization": b"Bearer abc"},
    "no scheme": lambda _: {"authorization": b"root:" + PASSWORD.encode()},
    "not base64": lambda _: {"authorization": b"Basic !!!"},
    "no colon": lambda _: {"authorization": b"Basic " + base64.b64encode(b"root")},
    "not UTF-8": lambda _: {"authorization": b"Basic " + base64.b64encode(b"root:\xff")},
    "scheme only": lambda _: {"authorization": b"Basic"},
    "unknown token": lambda _: {"authorization": b"", "token": b"0" * 32},
    "token that is not ASCII": lambda _: {"authorization": b"", "token": b"\xff\x00"},
    "expired token": expired,
    "deleted token": deleted,
    "unknown token, wrong password": lambda _: {"authorization": basic("root", "x"), "token": b"0" * 32},
}

ACCEPTED: dict[str, Callable[[Client], Fields]] = {
    "rotated password": lambda _: {"authorization": basic("root", PASSWORD)},
    "scheme in capitals": lambda _: {"authorization": basic("root", PASSWORD).replace(b"Basic", b"BASIC")},
    "valid token": lambda client: {"authorization": b"", "token": login(client)[0]},
    "valid token, wrong password": lambda client: {"authorization": basic("root", "x"), "token": login(client)[0]},
    "valid token, malformed header": lambda client: {"authorization": b"Bearer x", "token": login(client)[0]},
    "unknown token, good password": lambda _: {"authorization": basic("root", PASSWORD), "token": b"0" * 32},
    "expired token, good password": lambda client: {**expired(client), "authorization": basic("root", PASSWORD)},
    "deleted token, good password": lambda client: {**deleted(client), "authorization": basic("root", PASSWORD)},
}

OPEN = [
    "/redfish",
    "/redfish/",
    "/redfish/v1",
    "/redfish/v1/",
    "/redfish/v1/odata",
    "/redfish/v1/$metadata",
    "/redfish/v1/openapi.yaml",
]

CLOSED = [
    ("GET", "/redfish/v1/Systems", 200),
    ("HEAD", SYSTEM, 200),
    ("GET", SYSTEM + "/", 200),
    ("OPTIONS", SYSTEM, 204),
    ("GET", SESSION_SERVICE, 200),
    ("GET", SESSIONS, 200),
    ("GET", ACCOUNT_SERVICE, 200),
    ("GET", OWN, 200),
    ("GET", "/redfish/v1/Nope", 404),
    ("GET", "/", 404),
    ("GET", SESSIONS + "/99", 404),
    ("POST", SYSTEM, 405),
    ("PUT", ACCOUNTS, 405),
    ("PATCH", "/redfish/v1", 405),
    ("DELETE", "/redfish/v1/", 405),
    ("POST", "/redfish", 405),
    ("PUT", SYSTEM, 405),
    ("POST", MANAGER + "/Actions/Manager.Reset", 204),
    ("GET", MANAGER + "/Actions/Manager.Reset", 405),
]


@pytest.mark.parametrize("credentials", [*REFUSED, *ACCEPTED])
@pytest.mark.parametrize("path", OPEN)
def test_the_open_resources_are_read_with_any_credentials_and_with_none(
    dpu: Client, path: str, credentials: str
) -> None:
    fields = {**REFUSED, **ACCEPTED}[credentials](dpu)
    assert [dpu.request(method, path, **fields).status for method in ("GET", "HEAD", "OPTIONS")] == [200, 200, 204]


@pytest.mark.parametrize("credentials", REFUSED)
@pytest.mark.parametrize(("method", "path", "_status"), CLOSED)
def test_everything_else_needs_credentials(dpu: Client, method: str, path: str, _status: int, credentials: str) -> None:
    response = dpu.request(method, path, **REFUSED[credentials](dpu))
    assert response.status == 401
    assert header(response, "WWW-Authenticate") == 'Basic realm="Redfish"'
    assert message_ids(response) == ["AccessUnauthorized"]


@pytest.mark.parametrize("credentials", ACCEPTED)
@pytest.mark.parametrize(("method", "path", "status"), CLOSED)
def test_valid_credentials_open_everything(dpu: Client, method: str, path: str, status: int, credentials: str) -> None:
    assert dpu.request(method, path, **ACCEPTED[credentials](dpu)).status == status


def test_a_refusal_is_the_same_for_an_unknown_user_and_a_wrong_password(dpu: Client) -> None:
    answers = {
        (response.status, response.head, response.body)
        for response in (
            dpu.request("GET", SYSTEM, authorization=basic(user, password))
            for user, password in (("root", "wrong"), ("nobody", "wrong"), ("nobody", PASSWORD))
        )
    }
    assert len(answers) == 1


def test_a_refusal_tells_no_secrets_and_comes_before_conditions(dpu: Client) -> None:
    etag = dpu.get(OWN)["@odata.etag"].encode()
    response = dpu.request("GET", OWN, authorization=basic("root", "S3cret"), if_none_match=etag)
    assert response.status == 401
    assert not any(secret in response.body + response.head for secret in (b"S3cret", b"root", etag))


# $expand must not show what a direct GET would not show


def embedded(body: bytes) -> list[str]:
    """The URIs of the resources that are embedded in a body."""

    def inside(value: Any, top: bool) -> list[str]:
        if isinstance(value, list):
            return [uri for item in value for uri in inside(item, False)]
        if not isinstance(value, dict):
            return []
        here = [] if top or "@odata.id" not in value or len(value) == 1 else [value["@odata.id"]]
        return here + [uri for item in value.values() for uri in inside(item, False)]

    return inside(orjson.loads(body), True)


@pytest.mark.parametrize("query", ["$expand=*", "$expand=.($levels=6)", "%24expand=~", "a=b&$expand=."])
def test_expanding_the_open_root_shows_nothing_without_credentials(dpu: Client, query: str) -> None:
    response = dpu.request("GET", f"/redfish/v1/?{query}", authorization=b"")
    assert response.status == 401 or embedded(response.body) == []


def test_expanding_shows_nothing_more_with_the_factory_password() -> None:
    client = make_client("bluefield3", password=None)
    for path in ("/redfish/v1/", ACCOUNT_SERVICE, OWN):
        response = client.request("GET", f"{path}?$expand=*($levels=6)", authorization=basic("root", FACTORY))
        if response.status != 403:
            assert all(uri.startswith(ACCOUNT_SERVICE) for uri in embedded(response.body))


def test_expanding_the_root_works_with_credentials(dpu: Client) -> None:
    assert "/redfish/v1/Systems" in embedded(dpu.request("GET", "/redfish/v1/?$expand=*").body)


# the factory password


FactoryCase = tuple[str, str, Any, int]

WITH_FACTORY_PASSWORD: list[FactoryCase] = [
    *(("GET", path, None, 200) for path in OPEN),
    ("GET", ACCOUNT_SERVICE, None, 200),
    ("HEAD", ACCOUNT_SERVICE + "/", None, 200),
    ("GET", ACCOUNTS, None, 200),
    ("GET", OWN, None, 200),
    ("OPTIONS", OWN, None, 204),
    ("GET", ACCOUNT_SERVICE + "/Roles/Administrator", None, 200),
    ("POST", SESSIONS, {"UserName": "root", "Password": FACTORY}, 201),
    ("POST", SESSIONS + "/Members", {"UserName": "root", "Password": FACTORY}, 201),
    ("PATCH", OWN, {"Password": "new"}, 204),
    ("PATCH", OWN + "/", {"Password": "new", "@odata.id": OWN}, 204),
    ("PATCH", OWN, {"Password": FACTORY}, 403),
    ("PATCH", OWN, {"Password": "new", "Enabled": False}, 403),
    ("PATCH", OWN, {"RoleId": "ReadOnly"}, 403),
    ("PATCH", OWN, {"Password": 5}, 403),
    ("PATCH", OWN, [{"Password": "new"}], 403),
    ("PATCH", OWN, b"{", 403),
    ("PATCH", OWN, None, 403),
    ("PUT", OWN, {"Password": "new"}, 403),
    ("DELETE", OWN, None, 403),
    ("PATCH", ACCOUNT_SERVICE, {"ServiceEnabled": False}, 403),
    ("POST", ACCOUNTS, {}, 403),
    ("PATCH", ACCOUNTS + "/nobody", {"Password": "new"}, 403),
    ("GET", ACCOUNT_SERVICE + "x", None, 403),
    ("GET", "/redfish/v1/Systems", None, 403),
    ("HEAD", SYSTEM, None, 403),
    ("OPTIONS", SYSTEM, None, 403),
    ("GET", SESSION_SERVICE, None, 403),
    ("GET", SESSIONS, None, 403),
    ("GET", SESSIONS + "/99", None, 403),
    ("GET", "/redfish/v1/Nope", None, 403),
    ("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Pxe"}}, 403),
    ("POST", MANAGER + "/Actions/Manager.Reset", None, 403),
    ("GET", MANAGER + "/Actions/Manager.Reset", None, 403),
]


@pytest.fixture
def fresh() -> Client:
    """A BlueField-3 as it left the factory."""
    client = make_client("bluefield3", password=None)
    client.authorization = basic("root", FACTORY)
    return client


@pytest.mark.parametrize("by", ["Basic", "token"])
@pytest.mark.parametrize(("method", "path", "body", "status"), WITH_FACTORY_PASSWORD)
def test_what_the_factory_password_opens(
    fresh: Client, method: str, path: str, body: Any, status: int, by: str
) -> None:
    fields = {"authorization": b"", "token": login(fresh, password=FACTORY)[0]} if by == "token" else {}
    response = fresh.request(method, path, body, **fields)
    assert response.status == status
    if status == 403:
        error = orjson.loads(response.body)["error"]
        assert message_ids(response) == ["PasswordChangeRequired"]
        assert error["@Message.ExtendedInfo"][0]["MessageArgs"] == [OWN]
        assert error["code"].endswith(".PasswordChangeRequired")


def test_logging_in_with_the_factory_password_says_that_it_has_to_be_changed(fresh: Client) -> None:
    body = orjson.loads(fresh.request("POST", SESSIONS, {"UserName": "root", "Password": FACTORY}).body)
    (info,) = body["@Message.ExtendedInfo"]
    assert info["MessageId"].endswith(".PasswordChangeRequired")
    assert info["MessageArgs"] == [OWN]
    assert (body["Id"], body["UserName"], body["@odata.id"]) == ("1", "root", f"{SESSIONS}/1")


def test_logging_in_with_another_password_says_nothing(dpu: Client) -> None:
    assert "@Message.ExtendedInfo" not in orjson.loads(
        dpu.request("POST", SESSIONS, {"UserName": "root", "Password": PASSWORD}).body
    )


@pytest.mark.parametrize("by", ["Basic", "token"])
def test_the_own_session_is_read_and_ended_with_the_factory_password(fresh: Client, by: str) -> None:
    token, uri = login(fresh, password=FACTORY)
    fields = {"authorization": b"", "token": token} if by == "token" else {}
    assert fresh.request("GET", uri, **fields).status == 200
    assert fresh.request("PATCH", uri, {}, **fields).status == 403
    assert fresh.request("DELETE", uri, **fields).status == 204
    assert fresh.request("GET", uri, **fields).status == (401 if by == "token" else 403)


def test_another_s_session_and_account_are_closed_with_the_factory_password() -> None:
    accounts = [Account("root", "root", FACTORY), Account("2", "admin", "other")]
    client = dpu_with(password=None, accounts=accounts)
    _, theirs = login(client, "admin", "other")
    fields = {"authorization": basic("root", FACTORY)}
    for method in ("GET", "DELETE"):
        assert client.request(method, theirs, **fields).status == 403
    assert client.request("GET", f"{ACCOUNTS}/2", **fields).status == 200
    assert client.request("PATCH", f"{ACCOUNTS}/2", {"Password": "x"}, **fields).status == 403


def test_a_strict_bmc_lets_its_factory_password_read_nothing_but_the_own_account() -> None:
    client = dpu_with(password=None, factory_password_reads="own_account")
    fields = {"authorization": basic("root", FACTORY)}
    paths = [ACCOUNT_SERVICE, ACCOUNTS, ACCOUNT_SERVICE + "/Roles", OWN]
    assert [client.request("GET", path, **fields).status for path in paths] == [403, 403, 403, 200]
    assert client.request("PATCH", OWN, {"Password": "new"}, **fields).status == 204


def test_hardware_that_does_not_mind_opens_everything_with_its_factory_password() -> None:
    client = dpu_with(password=None, factory_password_everywhere=True)
    client.authorization = basic("root", FACTORY)
    assert client.get(OWN)["PasswordChangeRequired"] is False
    assert client.request("GET", SYSTEM).status == 200
    body = client.request("POST", SESSIONS, {"UserName": "root", "Password": FACTORY}).body
    assert "@Message.ExtendedInfo" not in orjson.loads(body)


def test_a_change_opens_the_bmc_for_the_new_password_and_for_the_session_that_made_it(fresh: Client) -> None:
    token, _ = login(fresh, password=FACTORY)
    fields = {"authorization": b"", "token": token}
    assert fresh.get(OWN, **fields)["PasswordChangeRequired"] is True
    assert fresh.request("PATCH", OWN, {"Password": "new"}, **fields).status == 204
    assert fresh.get(OWN, **fields)["PasswordChangeRequired"] is False
    for now in (fields, {"authorization": basic("root", "new")}):
        assert fresh.request("GET", SYSTEM, **now).status == 200
    assert fresh.request("GET", SYSTEM).status == 401


def test_going_back_to_the_factory_password_closes_the_bmc_again(dpu: Client) -> None:
    token, _ = login(dpu)
    assert dpu.request("PATCH", OWN, {"Password": FACTORY}).status == 204
    for fields in ({"authorization": basic("root", FACTORY)}, {"authorization": b"", "token": token}):
        assert dpu.request("GET", SYSTEM, **fields).status == 403


# a change of the password


@pytest.mark.parametrize("ask", [as_edge, Client.request], ids=["short way", "long way"])
def test_the_old_password_is_refused_on_the_very_next_request(dpu: Client, ask: Callable[..., Any]) -> None:
    old, new = basic("root", PASSWORD), basic("root", "new")
    assert ask(dpu, "GET", SYSTEM, authorization=old).status == 200
    assert ask(dpu, "GET", SYSTEM, authorization=old).status == 200
    assert dpu.request("PATCH", OWN, {"Password": "new"}, authorization=old).status == 204
    for _ in range(2):
        assert ask(dpu, "GET", SYSTEM, authorization=old).status == 401
        assert ask(dpu, "GET", SYSTEM, authorization=new).status == 200


def test_a_session_outlives_a_change_of_its_password(dpu: Client) -> None:
    token, _ = login(dpu)
    assert dpu.request("PATCH", OWN, {"Password": "new"}).status == 204
    assert dpu.request("GET", SYSTEM, authorization=b"", token=token).status == 200


def test_a_remembered_header_opens_only_its_own_bmc() -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1, password="other")
    fields = {"authorization": basic("root", PASSWORD)}
    assert [as_edge(client, "GET", SYSTEM, **fields).status for client in (one, other, one)] == [200, 401, 200]


def test_two_accounts_take_turns() -> None:
    client = dpu_with(password=None, accounts=[Account("1", "a", "x"), Account("2", "b", "y")])
    client.bmc.set_password("1", "one", client.clock.now())
    client.bmc.set_password("2", "two", client.clock.now())
    for user, password, status in [("a", "one", 200), ("b", "two", 200), ("a", "two", 401), ("a", "one", 200)]:
        assert as_edge(client, "GET", SYSTEM, authorization=basic(user, password)).status == status


def test_basic_credentials_open_no_session(dpu: Client) -> None:
    assert dpu.get(SESSIONS)["Members@odata.count"] == 0
    assert dpu.bmc.sessions is None


def test_a_token_is_kept_alive_by_use_and_the_password_never_expires(dpu: Client) -> None:
    token, _ = login(dpu)
    for _ in range(3):
        dpu.advance(1700)
        assert dpu.request("GET", SYSTEM, authorization=b"", token=token).status == 200
    dpu.advance(1801)
    assert dpu.request("GET", SYSTEM, authorization=b"", token=token).status == 401
    assert dpu.request("GET", SYSTEM).status == 200


# the header


@pytest.mark.parametrize(
    ("field", "credentials"),
    [
        (b"Basic " + base64.b64encode(b"a:b"), ("a", "b")),
        (b"basic  " + base64.b64encode(b"a:b") + b" ", ("a", "b")),
        (b"Basic " + base64.b64encode(b"a:b:c"), ("a", "b:c")),
        (b"Basic " + base64.b64encode(b":"), ("", "")),
        (b"Basic " + base64.b64encode("ä:€".encode()), ("ä", "€")),
        (b"Basic YTpi\xff", None),
        (b"Basic YTp", None),
        (b"Basic", None),
        (b"", None),
        (b"BasicYTpi", None),
        (b"Digest YTpi", None),
    ],
)
def test_basic_header_fields(field: bytes, credentials: tuple[str, str] | None) -> None:
    assert basic_credentials(field) == credentials


@settings(deadline=None)
@given(st.text().filter(lambda user: ":" not in user), st.text())
def test_any_user_and_password_survive_the_header(user: str, password: str) -> None:
    assert basic_credentials(basic(user, password)) == (user, password)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_header_field_raises(field: bytes) -> None:
    found = basic_credentials(field)
    assert found is None or len(found) == 2
