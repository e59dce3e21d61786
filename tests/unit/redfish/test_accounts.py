"""Accounts that come, change and go."""

from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.machine.actions import Action, DropSessions, Happened, Happening
from bmcsim.redfish.exchange import Head, Request, Response
from bmcsim.redfish.service import admit, handle
from bmcsim.tree.profile import Account
from tests.conftest import PASSWORD, Client, basic, header, message_ids
from tests.unit.redfish.conftest import (
    ACCOUNT_SERVICE,
    ACCOUNTS,
    FACTORY,
    OWN,
    PROTOCOL,
    SESSIONS,
    SYSTEM,
    as_edge,
    dpu_with,
    login,
)

NEW = {"UserName": "ann", "Password": "Secret-ann", "RoleId": "Operator"}


def add(client: Client, **facts: Any) -> str:
    """The URI of a new account: NEW with other facts."""
    response = client.request("POST", ACCOUNTS, {**NEW, **facts})
    assert response.status == 201, response.body
    location = header(response, "Location")
    assert location
    return location


def status(client: Client, user: str = "ann", password: str = "Secret-ann", path: str = SYSTEM) -> int:
    """The status of a GET with a user's password."""
    return client.request("GET", path, authorization=basic(user, password)).status


def actions_of(client: Client, method: str, path: str, body: Any) -> list[Action]:
    """What a request sets in motion; nothing of it is executed."""
    head = Head(client.authorization, content_type=b"application/json")
    response = handle(client.bmc, Request(method, path, client.clock.now(), head, "", orjson.dumps(body)))
    assert response.status < 300, response.body
    return list(response.actions)


# creation


@pytest.mark.parametrize("path", [ACCOUNTS, ACCOUNTS + "/", ACCOUNTS + "/Members"])
def test_a_new_account_is_answered_with_itself_and_can_log_in(dpu: Client, path: str) -> None:
    response = dpu.request("POST", path, NEW)
    assert response.status == 201
    assert header(response, "Location") == f"{ACCOUNTS}/ann"
    body = orjson.loads(response.body)
    assert body == dpu.get(f"{ACCOUNTS}/ann")
    assert header(response, "ETag") == body["@odata.etag"]
    expected = {
        "UserName": "ann",
        "RoleId": "Operator",
        "Enabled": True,
        "Locked": False,
        "Password": None,
        "PasswordChangeRequired": False,
        "PasswordExpiration": None,
        "AccountTypes": ["Redfish"],
        "Links": {"Role": {"@odata.id": f"{ACCOUNT_SERVICE}/Roles/Operator"}},
    }
    assert expected.items() <= body.items()
    assert [one["@odata.id"] for one in dpu.get(ACCOUNTS)["Members"]] == [OWN, f"{ACCOUNTS}/ann"]
    assert status(dpu) == 200
    assert login(dpu, "ann", "Secret-ann")


def test_every_fact_can_be_given() -> None:
    client = dpu_with(account_ids="number")
    given = {
        **NEW,
        "Enabled": False,
        "Locked": False,
        "PasswordChangeRequired": True,
        "PasswordExpiration": "2030-01-02T03:04:05Z",
        "AccountTypes": ["Redfish", "IPMI"],
        "@odata.type": "#ManagerAccount.v1_12_0.ManagerAccount",
    }
    response = client.request("POST", ACCOUNTS, given)
    assert (response.status, header(response, "Location")) == (201, f"{ACCOUNTS}/1")
    body = client.get(f"{ACCOUNTS}/1")
    assert (body["Enabled"], body["PasswordChangeRequired"], body["AccountTypes"]) == (False, True, ["Redfish", "IPMI"])
    assert body["PasswordExpiration"] == "2030-01-02T03:04:05+00:00"
    assert status(client) == 401


def test_numbers_are_used_again_and_names_are_names() -> None:
    client = dpu_with(account_ids="number")
    assert [add(client, UserName=user) for user in ("a", "b", "c")] == [f"{ACCOUNTS}/{number}" for number in (1, 2, 3)]
    assert client.request("DELETE", f"{ACCOUNTS}/2").status == 204
    assert add(client, UserName="d") == f"{ACCOUNTS}/2"


def test_an_account_for_other_services_cannot_use_redfish(dpu: Client) -> None:
    add(dpu, AccountTypes=["IPMI"])
    assert status(dpu) == 401


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"UserName": ...}, ["PropertyMissing"]),
    ({"UserName": ..., "Password": ..., "RoleId": ...}, ["PropertyMissing"] * 3),
    ({"UserName": 5}, ["PropertyValueTypeError"]),
    ({"UserName": None}, ["PropertyValueTypeError"]),
    ({"UserName": ""}, ["PropertyValueFormatError"]),
    ({"UserName": "a b"}, ["PropertyValueFormatError"]),
    ({"UserName": "a:b"}, ["PropertyValueFormatError"]),
    ({"UserName": "a/b"}, ["PropertyValueFormatError"]),
    ({"UserName": "ä"}, ["PropertyValueFormatError"]),
    ({"UserName": ".."}, ["PropertyValueFormatError"]),
    ({"UserName": "-a"}, ["PropertyValueFormatError"]),
    ({"UserName": "a" * 33}, ["StringValueTooLong"]),
    ({"UserName": "root"}, ["ResourceAlreadyExists"]),
    ({"Password": 12345678}, ["PropertyValueTypeError"]),
    ({"Password": None}, ["PropertyValueTypeError"]),
    ({"Password": "x" * 41}, ["PasswordIncorrectLength"]),
    ({"RoleId": "Nope"}, ["PropertyValueNotInList"]),
    ({"RoleId": ["Operator"]}, ["PropertyValueTypeError"]),
    ({"Enabled": "yes"}, ["PropertyValueTypeError"]),
    ({"Locked": True}, ["PropertyValueNotInList"]),
    ({"PasswordChangeRequired": 1}, ["PropertyValueTypeError"]),
    ({"PasswordExpiration": "tomorrow"}, ["PropertyValueFormatError"]),
    ({"PasswordExpiration": "2030-01-02"}, ["PropertyValueFormatError"]),
    ({"PasswordExpiration": "2030-01-02T03:04:05"}, ["PropertyValueFormatError"]),
    ({"PasswordExpiration": "2030-13-02T03:04:05Z"}, ["PropertyValueFormatError"]),
    ({"PasswordExpiration": "0001-01-01T00:00:00+14:00"}, ["PropertyValueFormatError"]),
    ({"PasswordExpiration": "9999-12-31T23:59:59-12:00"}, ["PropertyValueFormatError"]),
    ({"PasswordExpiration": 5}, ["PropertyValueTypeError"]),
    ({"AccountTypes": []}, ["PropertyValueTypeError"]),
    ({"AccountTypes": "Redfish"}, ["PropertyValueTypeError"]),
    ({"AccountTypes": ["Redfish", "Nope"]}, ["PropertyValueNotInList"]),
    ({"AccountTypes": [["Redfish"]]}, ["PropertyValueNotInList"]),
    (
        {"UserName": "root", "RoleId": "Nope", "Nope": 1},
        ["PropertyUnknown", "ResourceAlreadyExists", "PropertyValueNotInList"],
    ),
]


@pytest.mark.parametrize(("facts", "keys"), REFUSED)
def test_an_account_that_cannot_be_is_not_created_and_its_password_not_repeated(
    dpu: Client, facts: dict[str, Any], keys: list[str]
) -> None:
    body = {name: value for name, value in {**NEW, **facts}.items() if value is not ...}
    response = dpu.request("POST", ACCOUNTS, body)
    assert (response.status, message_ids(response)) == (400, keys)
    assert str(body.get("Password", "Secret-ann")).encode() not in response.body
    assert dpu.get(ACCOUNTS)["Members@odata.count"] == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"{}", b'{"@odata.id": "x"}'])
def test_a_body_that_is_no_account_is_refused(dpu: Client, body: bytes) -> None:
    assert dpu.request("POST", ACCOUNTS, body, content_type=b"application/json").status == 400


def test_there_are_as_many_accounts_as_the_firmware_has_room_for() -> None:
    client = dpu_with(account_limit=3)
    add(client, UserName="a")
    add(client, UserName="b")
    response = client.request("POST", ACCOUNTS, NEW)
    assert (response.status, message_ids(response)) == (400, ["CreateLimitReachedForResource"])
    assert client.request("DELETE", f"{ACCOUNTS}/a").status == 204
    add(client)


def test_user_names_are_as_long_and_of_what_the_firmware_says() -> None:
    client = dpu_with(user_name_max=4, user_name_marks="!")
    assert [client.request("POST", ACCOUNTS, {**NEW, "UserName": user}).status for user in ("a!", "a.", "abcde")] == [
        201,
        400,
        400,
    ]


# changes


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"RoleId": "ReadOnly"}, {"RoleId": "ReadOnly"}),
        ({"Enabled": False}, {"Enabled": False}),
        ({"Locked": False}, {"Locked": False}),
        ({"PasswordChangeRequired": True}, {"PasswordChangeRequired": True}),
        ({"PasswordExpiration": "2030-01-02T03:04:05+01:00"}, {"PasswordExpiration": "2030-01-02T02:04:05+00:00"}),
        ({"PasswordExpiration": None}, {"PasswordExpiration": None}),
        ({"Password": "Other-1"}, {"Password": None}),
        ({"Password": "Other-1", "PasswordChangeRequired": True}, {"PasswordChangeRequired": True}),
    ],
)
def test_what_can_be_changed_is_shown_with_a_new_tag(
    dpu: Client, change: dict[str, Any], shown: dict[str, Any]
) -> None:
    uri = add(dpu)
    response = dpu.request("PATCH", uri, change)
    assert (response.status, response.body) == (204, b"")
    after = dpu.get(uri)
    assert shown.items() <= after.items()
    assert header(response, "ETag") == after["@odata.etag"]


@pytest.mark.parametrize(
    ("facts", "keys"),
    [(facts, keys) for facts, keys in REFUSED if ... not in facts.values() and "AccountTypes" not in facts],
)
def test_a_change_that_cannot_be_changes_nothing(dpu: Client, facts: dict[str, Any], keys: list[str]) -> None:
    uri = add(dpu)
    before = dpu.get(uri)
    response = dpu.request("PATCH", uri, {"RoleId": "ReadOnly", **facts})
    assert (response.status, message_ids(response)) == (400, keys)
    assert dpu.get(uri) == before


def test_the_account_types_are_for_life(dpu: Client) -> None:
    response = dpu.request("PATCH", OWN, {"AccountTypes": ["Redfish"]})
    assert (response.status, message_ids(response)) == (400, ["PropertyNotWritable"])


def test_a_renamed_account_logs_in_with_its_new_name_and_keeps_its_number() -> None:
    client = dpu_with(account_ids="number")
    uri = add(client)
    assert client.request("PATCH", uri, {"UserName": "bea"}).status == 204
    assert (client.get(uri)["UserName"], status(client, "bea"), status(client)) == ("bea", 200, 401)


def test_where_names_are_ids_a_renamed_account_moves(dpu: Client) -> None:
    uri = add(dpu)
    token, _ = login(dpu, "ann", "Secret-ann")
    response = dpu.request("PATCH", uri, {"UserName": "bea"})
    assert (response.status, header(response, "ETag")) == (204, None)
    assert dpu.request("GET", uri).status == 404
    assert dpu.get(f"{ACCOUNTS}/bea")["UserName"] == "bea"
    assert (status(dpu, "bea"), status(dpu)) == (200, 401)
    assert dpu.request("GET", SYSTEM, authorization=b"", token=token).status == 401


def test_only_a_new_name_moves_an_account_whose_id_is_another() -> None:
    client = dpu_with(accounts=[Account("2", "root", FACTORY)])
    assert client.request("PATCH", f"{ACCOUNTS}/2", {"Password": "New-1"}).status == 204
    client.authorization = basic("root", "New-1")
    assert client.get(f"{ACCOUNTS}/2")["UserName"] == "root"
    assert client.request("PATCH", f"{ACCOUNTS}/2", {"UserName": "boss"}).status == 204
    client.authorization = basic("boss", "New-1")
    assert client.get(f"{ACCOUNTS}/boss")["Id"] == "boss"


def test_an_account_may_keep_its_name(dpu: Client) -> None:
    assert dpu.request("PATCH", OWN, {"UserName": "root"}).status == 204


def test_a_factory_password_is_not_made_good_by_decree(dpu: Client) -> None:
    add(dpu, RoleId="Administrator")
    assert dpu.request("PATCH", OWN, {"Password": FACTORY}).status == 204
    dpu.authorization = basic("ann", "Secret-ann")
    refused = dpu.request("PATCH", OWN, {"PasswordChangeRequired": False})
    assert (refused.status, message_ids(refused)) == (400, ["PropertyValueConflict"])
    assert dpu.request("PATCH", OWN, {"PasswordChangeRequired": False, "Password": "Good-1"}).status == 204
    assert dpu.get(OWN)["PasswordChangeRequired"] is False


def test_of_changes_with_one_tag_exactly_one_is_done(dpu: Client) -> None:
    """SEC_ACCOUNTS_SUPPORT_ETAGS: a password is not shown, and still its change is a change of the account."""
    uri = add(dpu)
    etag = dpu.get(uri)["@odata.etag"].encode()
    statuses = [dpu.request("PATCH", uri, {"Password": f"Other-{number}"}, if_match=etag).status for number in range(4)]
    assert statuses == [204, 412, 412, 412]
    assert dpu.request("PATCH", uri, {"Password": "Again-1"}, if_match=b'"bad"').status == 412
    assert dpu.request("PATCH", uri, {"Password": "Again-1"}, if_match=b"*").status == 204


# the last administrator


def test_the_last_administrator_stays(dpu: Client) -> None:
    for change, name in (({"Enabled": False}, "Enabled"), ({"RoleId": "Operator"}, "RoleId")):
        response = dpu.request("PATCH", OWN, change)
        assert (response.status, message_ids(response)) == (400, ["PropertyValueResourceConflict"])
        (info,) = orjson.loads(response.body)["error"]["@Message.ExtendedInfo"]
        assert (info["MessageArgs"][0], info["MessageArgs"][2]) == (name, OWN)
    response = dpu.request("DELETE", OWN)
    assert (response.status, message_ids(response)) == (403, ["ResourceCannotBeDeleted"])
    assert dpu.request("GET", SYSTEM).status == 200


@pytest.mark.parametrize("facts", [{"Enabled": False}, {"RoleId": "Operator"}, {"AccountTypes": ["IPMI"]}])
def test_another_account_that_cannot_administrate_does_not_count(dpu: Client, facts: dict[str, Any]) -> None:
    add(dpu, **{"RoleId": "Administrator", **facts})
    assert dpu.request("DELETE", OWN).status == 403


@pytest.mark.parametrize("method", ["DELETE", "PATCH"])
def test_where_there_is_another_administrator_the_first_may_go(dpu: Client, method: str) -> None:
    add(dpu, RoleId="Administrator")
    assert dpu.request(method, OWN, {"Enabled": False} if method == "PATCH" else None).status == 204
    assert dpu.request("GET", SYSTEM).status == 401
    assert status(dpu) == 200


# what others are told, and what becomes of sessions


def test_what_is_told_of_a_change(dpu: Client) -> None:
    uri = f"{ACCOUNTS}/ann"
    changed, password = Happened(Happening.ACCOUNT_CHANGED, uri), Happened(Happening.PASSWORD_CHANGED, uri)
    assert actions_of(dpu, "POST", ACCOUNTS, NEW) == [changed]
    assert actions_of(dpu, "PATCH", uri, {"Password": "Other-1"}) == [password]
    assert actions_of(dpu, "PATCH", uri, {"Password": "Other-1"}) == []
    assert actions_of(dpu, "PATCH", uri, {"Password": "New-1", "RoleId": "ReadOnly"}) == [password, changed]
    assert actions_of(dpu, "PATCH", uri, {"Enabled": False}) == [DropSessions("ann"), changed]
    assert actions_of(dpu, "DELETE", uri, {}) == [DropSessions("ann"), Happened(Happening.ACCOUNT_CHANGED, ACCOUNTS)]


def test_a_change_that_changes_nothing_is_nothing_to_save(dpu: Client) -> None:
    dpu.bmc.committed()
    assert dpu.request("PATCH", OWN, {"Password": PASSWORD}).status == 204
    assert dpu.request("PATCH", OWN, {"Locked": False}).status == 204
    assert dpu.bmc.uncommitted is None


def test_a_change_of_a_password_is_written_down_and_the_password_is_not(host: Client) -> None:
    assert host.request("PATCH", OWN, {"Password": "Other-Secret-1"}).status == 204
    host.authorization = basic("root", "Other-Secret-1")
    entries = host.request("GET", "/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Lclog/Entries").body
    newest = orjson.loads(entries)["Members"][-1]
    assert newest["Links"]["OriginOfCondition"]["@odata.id"] == OWN
    assert b"Other-Secret-1" not in entries


def test_a_new_account_does_not_inherit_the_sessions_and_locks_of_one_of_the_same_id(dpu: Client) -> None:
    dpu.request("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 1, "AccountLockoutDuration": 60})
    uri = add(dpu)
    token, _ = login(dpu, "ann", "Secret-ann")
    assert status(dpu, password="wrong") == 401
    # The actions wait for the disk, so they are not executed here.
    actions_of(dpu, "DELETE", uri, {})
    actions_of(dpu, "POST", ACCOUNTS, {**NEW, "Password": "Later-1"})
    assert dpu.request("GET", SYSTEM, authorization=b"", token=token).status == 401
    assert status(dpu, password="Later-1") == 200


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"Enabled": False}), ("DELETE", {})])
def test_a_token_is_refused_before_its_session_is_ended(dpu: Client, method: str, body: Any) -> None:
    uri = add(dpu)
    token, _ = login(dpu, "ann", "Secret-ann")
    actions_of(dpu, method, uri, body)
    assert dpu.request("GET", SYSTEM, authorization=b"", token=token).status == 401


def test_an_account_that_takes_the_name_of_a_renamed_one_is_not_locked_with_it(guarded: Client) -> None:
    lock(guarded)
    assert guarded.request("PATCH", f"{ACCOUNTS}/ann", {"UserName": "bea"}).status == 204
    add(guarded)
    assert status(guarded) == 200


@pytest.mark.parametrize("ends", [False, True])
def test_a_new_password_ends_sessions_where_the_firmware_does_that(ends: bool) -> None:
    client = dpu_with(password_change_ends_sessions=ends)
    add(client)
    own, _ = login(client)
    other, _ = login(client)
    theirs, _ = login(client, "ann", "Secret-ann")
    assert client.request("PATCH", OWN, {"Password": "New-1"}, authorization=b"", token=own).status == 204

    def alive(token: bytes) -> bool:
        return client.request("GET", SYSTEM, authorization=b"", token=token).status == 200

    assert [alive(token) for token in (own, other, theirs)] == [True, not ends, True]
    client.authorization = basic("root", "New-1")
    assert client.request("PATCH", f"{ACCOUNTS}/ann", {"Password": "New-2"}).status == 204
    assert [alive(token) for token in (own, theirs)] == [True, not ends]


# passwords


def test_the_account_service_shows_the_lengths_that_hold() -> None:
    body = dpu_with(password_min=12, password_max=20).get(ACCOUNT_SERVICE)
    assert (body["MinPasswordLength"], body["MaxPasswordLength"]) == (12, 20)


@pytest.mark.parametrize(
    ("history", "accepted"),
    [(0, [True] * 6), (1, [False, True, False, True, False, True]), (2, [False, True, False, True, False, False])],
)
def test_former_passwords_are_refused_as_long_as_the_firmware_remembers_them(
    history: int, accepted: list[bool]
) -> None:
    client = dpu_with(password_history=history)
    for password, taken in zip((PASSWORD, "New-1", PASSWORD, "New-2", "New-1", PASSWORD), accepted, strict=True):
        response = client.request("PATCH", OWN, {"Password": password})
        if taken:
            assert response.status == 204
            client.authorization = basic("root", password)
        else:
            assert (response.status, message_ids(response)) == (400, ["PasswordReuseTooRecent"])


def test_a_password_expires_by_the_clock_of_the_bmc_and_asks_for_another_one() -> None:
    client = dpu_with()
    uri = add(client, PasswordExpiration="2026-01-01T00:01:00Z")
    token, _ = login(client, "ann", "Secret-ann")
    mine: dict[str, Any] = {"authorization": basic("ann", "Secret-ann")}
    by_token: dict[str, Any] = {"authorization": b"", "token": token}
    for fields in (mine, mine, by_token):
        assert client.request("GET", SYSTEM, **fields).status == 200
    client.advance(61)
    for fields in (mine, by_token):
        refused = client.request("GET", SYSTEM, **fields)
        assert (refused.status, message_ids(refused)) == (403, ["PasswordChangeRequired"])
        assert client.get(uri, **fields)["PasswordChangeRequired"] is True
        assert client.request("GET", ACCOUNT_SERVICE, **fields).status == 403
        assert client.request("PATCH", uri, {"Password": "Secret-ann"}, **fields).status == 403
    assert client.request("PATCH", uri, {"Password": "New-1"}, **mine).status == 204
    after = client.get(uri)
    assert (after["PasswordChangeRequired"], after["PasswordExpiration"]) == (False, None)
    assert client.request("GET", SYSTEM, **by_token).status == 200


def test_no_way_through_shows_more_to_a_password_that_has_expired(dpu: Client) -> None:
    """Neither a header that was remembered while it was good, nor an expanded link."""
    uri = add(dpu, RoleId="Administrator", PasswordExpiration="2026-01-01T00:01:00Z")
    mine = basic("ann", "Secret-ann")
    assert [as_edge(dpu, "GET", SYSTEM, authorization=mine).status for _ in range(3)] == [200] * 3
    dpu.advance(61)
    assert as_edge(dpu, "GET", SYSTEM, authorization=mine).status == 403
    role = dpu.get(uri + "?$expand=*", authorization=mine)["Links"]["Role"]
    assert role == {"@odata.id": f"{ACCOUNT_SERVICE}/Roles/Administrator"}


def test_a_clock_that_is_ahead_expires_passwords_early() -> None:
    client = dpu_with()
    assert client.request("PATCH", PROTOCOL, {"NTP": {"ProtocolEnabled": False}}).status == 204
    add(client, PasswordExpiration="2026-01-02T00:00:00Z")
    assert status(client) == 200
    client.bmc.become(client.clock.now(), clock_ahead=86400.0)
    assert status(client) == 403


def test_new_passwords_expire_after_the_days_of_the_account_service() -> None:
    client = dpu_with()
    assert client.request("PATCH", ACCOUNT_SERVICE, {"PasswordExpirationDays": 30}).status == 204
    assert client.get(OWN)["PasswordExpiration"] is None
    assert client.get(add(client))["PasswordExpiration"] == "2026-01-31T00:00:00+00:00"
    assert client.get(add(client, UserName="bob", PasswordExpiration=None))["PasswordExpiration"] is None
    client.advance(86400)
    assert client.request("PATCH", OWN, {"Password": "New-1"}).status == 204
    client.authorization = basic("root", "New-1")
    assert client.get(OWN)["PasswordExpiration"] == "2026-02-01T00:00:00+00:00"
    body = {"Password": "New-2", "PasswordExpiration": "2027-01-01T00:00:00Z"}
    assert client.request("PATCH", OWN, body).status == 204
    client.authorization = basic("root", "New-2")
    assert client.get(OWN)["PasswordExpiration"] == "2027-01-01T00:00:00+00:00"
    assert client.request("PATCH", ACCOUNT_SERVICE, {"PasswordExpirationDays": None}).status == 204
    client.advance(400 * 86400)
    assert client.request("GET", SYSTEM).status == 403
    assert client.request("PATCH", OWN, {"Password": "New-3"}).status == 204
    client.authorization = basic("root", "New-3")
    assert (client.get(OWN)["PasswordExpiration"], client.request("GET", SYSTEM).status) == (None, 200)


def test_an_administrator_can_ask_for_another_password(dpu: Client) -> None:
    uri = add(dpu)
    assert status(dpu) == 200
    assert dpu.request("PATCH", uri, {"PasswordChangeRequired": True}).status == 204
    assert (status(dpu), status(dpu, path=uri), status(dpu, path=ACCOUNT_SERVICE)) == (403, 200, 403)
    session = dpu.request("POST", SESSIONS, {"UserName": "ann", "Password": "Secret-ann"}, authorization=b"")
    assert session.status == 201
    assert b"PasswordChangeRequired" in session.body
    assert dpu.request("PATCH", uri, {"PasswordChangeRequired": False}).status == 204
    assert status(dpu) == 200


# the account service


def responses(client: Client, *bodies: dict[str, Any], **fields: Any) -> list[Response]:
    """PATCHes of the account service."""
    return [client.request("PATCH", ACCOUNT_SERVICE, body, **fields) for body in bodies]


@pytest.mark.parametrize(
    "policy",
    [
        {"AccountLockoutThreshold": 0, "AccountLockoutDuration": 0, "AccountLockoutCounterResetAfter": 0},
        {"AccountLockoutThreshold": 0, "AccountLockoutDuration": 60},
        {"AccountLockoutThreshold": 4, "AccountLockoutDuration": 20, "AccountLockoutCounterResetAfter": 20},
        {"AccountLockoutThreshold": 4, "AccountLockoutDuration": 600},
        {"AccountLockoutCounterResetEnabled": False},
    ],
)
@pytest.mark.parametrize("if_match", [b"", b"*"])
def test_the_policies_of_nico_sites_are_taken_and_shown(dpu: Client, policy: dict[str, Any], if_match: bytes) -> None:
    (response,) = responses(dpu, policy, if_match=if_match)
    assert (response.status, response.body) == (204, b"")
    body = dpu.get(ACCOUNT_SERVICE)
    assert policy.items() <= body.items()
    assert header(response, "ETag") == body["@odata.etag"]


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        ({"AccountLockoutDuration": 10, "AccountLockoutCounterResetAfter": 11}, ["PropertyValueConflict"]),
        ({"AccountLockoutCounterResetAfter": 1}, ["PropertyValueConflict"]),
        ({"AccountLockoutThreshold": -1}, ["PropertyValueOutOfRange"]),
        ({"AccountLockoutThreshold": None}, ["PropertyValueTypeError"]),
        ({"AccountLockoutDuration": "60", "AccountLockoutCounterResetAfter": 61}, ["PropertyValueTypeError"]),
        ({"PasswordExpirationDays": 0}, ["PropertyValueOutOfRange"]),
        ({"MinPasswordLength": 8}, ["PropertyNotWritable"]),
        ({"ServiceEnabled": False}, ["PropertyNotWritable"]),
    ],
)
def test_a_policy_that_cannot_be_is_refused(dpu: Client, policy: dict[str, Any], keys: list[str]) -> None:
    before = dpu.get(ACCOUNT_SERVICE)
    (response,) = responses(dpu, policy)
    assert (response.status, message_ids(response)) == (400, keys)
    assert dpu.get(ACCOUNT_SERVICE) == before


def test_the_two_times_are_compared_with_what_is_there(dpu: Client) -> None:
    long, short = {"AccountLockoutDuration": 60}, {"AccountLockoutDuration": 10}
    soon, late = {"AccountLockoutCounterResetAfter": 30}, {"AccountLockoutCounterResetAfter": 60}
    answers = responses(dpu, long, soon, short, late)
    assert [one.status for one in answers] == [204, 204, 400, 204]
    (info,) = orjson.loads(answers[2].body)["error"]["@Message.ExtendedInfo"]
    assert info["MessageArgs"] == ["AccountLockoutDuration", "AccountLockoutCounterResetAfter"]


# lockout


def lock(client: Client, user: str = "ann", by: str = "Basic", times: int = 3) -> list[int]:
    """Wrong passwords; the statuses."""
    if by == "Basic":
        return [status(client, user, "wrong") for _ in range(times)]
    body = {"UserName": user, "Password": "wrong"}
    return [client.request("POST", SESSIONS, body, authorization=b"").status for _ in range(times)]


@pytest.fixture
def guarded(dpu: Client) -> Client:
    """A BMC that locks accounts after three failures for 60 seconds, with the account ann."""
    policy = {"AccountLockoutThreshold": 3, "AccountLockoutDuration": 60, "AccountLockoutCounterResetAfter": 30}
    assert dpu.request("PATCH", ACCOUNT_SERVICE, policy).status == 204
    add(dpu)
    return dpu


@pytest.mark.parametrize("by", ["Basic", "session"])
def test_a_locked_account_is_refused_with_the_right_password_until_its_time_is_over(guarded: Client, by: str) -> None:
    uri = f"{ACCOUNTS}/ann"
    assert status(guarded) == 200
    assert lock(guarded, by=by) == [401] * 3
    assert guarded.get(uri)["Locked"] is True
    assert status(guarded) == 401
    assert guarded.request("POST", SESSIONS, {"UserName": "ann", "Password": "Secret-ann"}).status == 401
    assert guarded.request("GET", SYSTEM).status == 200
    guarded.advance(59)
    assert status(guarded) == 401
    guarded.advance(2)
    assert (status(guarded), guarded.get(uri)["Locked"]) == (200, False)


def test_a_remembered_header_is_forgotten_when_its_account_is_locked(guarded: Client) -> None:
    for _ in range(2):
        assert guarded.request("GET", SYSTEM).status == 200
    lock(guarded, "root")
    assert guarded.request("GET", SYSTEM).status == 401


def test_a_login_begins_the_count_anew_even_with_a_remembered_header(guarded: Client) -> None:
    for _ in range(3):
        assert guarded.request("GET", SYSTEM).status == 200
        lock(guarded, "root", times=2)
    assert guarded.request("GET", SYSTEM).status == 200


def test_an_administrator_unlocks_and_does_not_lock(guarded: Client) -> None:
    uri = f"{ACCOUNTS}/ann"
    lock(guarded)
    assert guarded.request("PATCH", uri, {"Locked": True}).status == 400
    assert guarded.request("PATCH", uri, {"Locked": False}).status == 204
    assert (status(guarded), guarded.get(uri)["Locked"]) == (200, False)


def test_a_token_outlives_a_lock_of_passwords(guarded: Client) -> None:
    token, _ = login(guarded, "ann", "Secret-ann")
    lock(guarded)
    assert guarded.request("GET", SYSTEM, authorization=b"", token=token).status == 200


def test_a_reset_of_the_bmc_ends_locks(guarded: Client) -> None:
    guarded.request("PATCH", ACCOUNT_SERVICE, {"AccountLockoutDuration": 100_000})
    lock(guarded)
    guarded.request("POST", "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset", {})
    guarded.advance(91)
    assert status(guarded) == 200


def test_by_default_nothing_locks_and_every_failure_is_counted(dpu: Client) -> None:
    assert dpu.bmc.failed_logins is None
    lock(dpu, "root", times=50)
    lock(dpu, "nobody", times=3)
    lock(dpu, "root", by="session")
    assert dpu.request("GET", SYSTEM).status == 200
    assert dpu.bmc.failed_logins is not None
    assert dpu.bmc.failed_logins.total == 56


@pytest.mark.parametrize(("method", "path"), [("PATCH", OWN), ("POST", SYSTEM + "/Actions/ComputerSystem.Reset")])
def test_a_failure_is_counted_once_where_its_body_is_not_even_read(guarded: Client, method: str, path: str) -> None:
    head = Head(basic("ann", "wrong"), content_type=b"application/json")
    told: list[Action] = []
    for number in (1, 2, 3):
        refused = admit(guarded.bmc, Request(method, path, guarded.clock.now(), head), 20)
        assert isinstance(refused, Response)
        assert refused.status == 401
        assert guarded.bmc.failed_logins is not None
        assert guarded.bmc.failed_logins.total == number
        told += refused.actions
    assert told == [Happened(Happening.ACCOUNT_LOCKED, f"{ACCOUNTS}/ann")]
    assert status(guarded) == 401


def test_a_refusal_does_not_tell_that_an_account_is_locked(guarded: Client) -> None:
    lock(guarded)
    locked = guarded.request("GET", SYSTEM, authorization=basic("ann", "Secret-ann"))
    unknown = guarded.request("GET", SYSTEM, authorization=basic("nobody", "x"))
    assert (locked.status, locked.head, locked.body) == (unknown.status, unknown.head, unknown.body)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_lock_is_told_and_written_down(host: Client, method: str) -> None:
    host.request("PATCH", ACCOUNT_SERVICE, {"AccountLockoutThreshold": 2, "AccountLockoutDuration": 60})
    path, fields = (SYSTEM, {"authorization": basic("root", "x")}) if method == "GET" else (SESSIONS, {})
    body = {"UserName": "root", "Password": "x"} if method == "POST" else None
    told = [host.request(method, path, body, **fields).actions for _ in range(3)]
    locked = Happened(Happening.ACCOUNT_LOCKED, OWN)
    assert [list(one) for one in told] == [[], [locked], []]
    log = host.bmc.log("/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Lclog/Entries")
    assert log[-1].message_id.endswith("USR0034")


def test_failures_of_a_disabled_account_are_not_counted_for_it(guarded: Client) -> None:
    guarded.request("PATCH", f"{ACCOUNTS}/ann", {"Enabled": False})
    lock(guarded, times=9)
    guarded.request("PATCH", f"{ACCOUNTS}/ann", {"Enabled": True})
    assert status(guarded) == 200


# what a lock is after a change that was not made


LOST = {"id": "x", "selector": {"OdataId": f"{ACCOUNTS}/**"}, "action": "LostWrite"}


@pytest.mark.parametrize(
    ("method", "body"), [("PATCH", {"Locked": False}), ("PATCH", {"UserName": "bea"}), ("DELETE", None)]
)
def test_a_lost_write_unlocks_nobody(guarded: Client, method: str, body: Any) -> None:
    lock(guarded)
    assert guarded.request("POST", "/Injection/rules", LOST).status == 200
    assert guarded.request(method, f"{ACCOUNTS}/ann", body).status == 204
    assert guarded.get(f"{ACCOUNTS}/ann")["Locked"] is True
    assert status(guarded) == 401


@pytest.mark.parametrize(
    ("method", "body"),
    [("PATCH", {"Locked": False, "RoleId": "Operator"}), ("PATCH", {"Locked": False}), ("DELETE", {})],
)
def test_a_change_that_is_undone_unlocks_nobody(guarded: Client, method: str, body: Any) -> None:
    lock(guarded)
    guarded.bmc.committed()
    actions_of(guarded, method, f"{ACCOUNTS}/ann", body)
    before = guarded.bmc.committed()
    assert before is not None
    guarded.bmc.restore(before)
    assert guarded.get(f"{ACCOUNTS}/ann")["Locked"] is True
    assert status(guarded) == 401


def test_the_answer_to_unlocking_has_the_entity_tag_of_an_unlocked_account(guarded: Client) -> None:
    lock(guarded)
    response = guarded.request("PATCH", f"{ACCOUNTS}/ann", {"Locked": False})
    assert header(response, "ETag") == guarded.get(f"{ACCOUNTS}/ann")["@odata.etag"]


def test_an_account_is_locked_and_unlocked_again_and_again(guarded: Client) -> None:
    for _ in range(3):
        lock(guarded)
        assert status(guarded) == 401
        assert guarded.request("PATCH", f"{ACCOUNTS}/ann", {"Locked": False}).status == 204
        assert status(guarded) == 200


def test_failures_of_accounts_that_are_gone_are_not_kept(guarded: Client) -> None:
    for _ in range(9):
        lock(guarded, times=1)
        assert guarded.request("DELETE", f"{ACCOUNTS}/ann").status == 204
        add(guarded)
    lock(guarded, "root", times=1)
    failed = guarded.bmc.failed_logins
    assert failed is not None
    assert len(failed._of) <= len(guarded.bmc.accounts.accounts)


def test_a_renamed_account_keeps_its_subscriptions_and_they_do_not_stay_with_the_name(guarded: Client) -> None:
    wish = {"Destination": "http://127.0.0.1/", "Protocol": "Redfish"}
    ann = basic("ann", "Secret-ann")
    assert guarded.request("POST", "/redfish/v1/EventService/Subscriptions", wish).status == 201
    one = guarded.bmc.state.subscriptions[0]
    owned = (msgspec.structs.replace(one, owner="ann"), msgspec.structs.replace(one, id="2"))
    guarded.bmc.become(guarded.clock.now(), subscriptions=owned)
    assert guarded.request("PATCH", f"{ACCOUNTS}/ann", {"UserName": "bea"}).status == 204
    assert [one.owner for one in guarded.bmc.state.subscriptions] == ["bea", "root"]
    add(guarded)
    path = "/redfish/v1/EventService/Subscriptions/1"
    assert guarded.request("DELETE", path, authorization=ann).status == 403
    assert guarded.request("DELETE", path, authorization=basic("bea", "Secret-ann")).status == 204


def test_sessions_of_an_account_that_was_never_stored_end(dpu: Client) -> None:
    before = dpu.bmc.state
    add(dpu)
    login(dpu, "ann", "Secret-ann")
    own, _ = login(dpu)
    dpu.bmc.restore(before)
    dpu.bmc.end_orphans()
    assert [one.user for one in dpu.bmc.live_sessions(dpu.clock.now()).values()] == ["root"]
    assert dpu.request("GET", SYSTEM, authorization=b"", token=own).status == 200
