"""Sessions: how many, for how long, and whose."""

from typing import Any

import orjson
import pytest

from tests.conftest import PASSWORD, Client, basic, header, make_client, message_ids
from tests.unit.redfish.conftest import MANAGER, SESSION_SERVICE, SESSIONS, SYSTEM, dpu_with, login

CREDENTIALS = {"UserName": "root", "Password": PASSWORD}


def alive(client: Client, token: bytes) -> bool:
    """Whether a token opens the BMC."""
    return client.request("GET", SYSTEM, authorization=b"", token=token).status == 200


@pytest.mark.parametrize("path", [SESSIONS, SESSIONS + "/", SESSIONS + "/Members"])
def test_a_login_is_answered_with_token_location_and_the_session(dpu: Client, path: str) -> None:
    response = dpu.request("POST", path, CREDENTIALS, authorization=b"")
    assert (response.status, header(response, "Location")) == (201, SESSIONS + "/1")
    body = orjson.loads(response.body)
    assert body == dpu.get(SESSIONS + "/1")
    assert header(response, "ETag") == body["@odata.etag"]
    assert alive(dpu, (header(response, "X-Auth-Token") or "").encode())
    assert header(response, "Set-Cookie") is None


def test_one_session_more_than_there_may_be_is_refused_and_harms_none() -> None:
    client = dpu_with(session_limit=3)
    tokens = [login(client)[0] for _ in range(3)]
    refused = client.request("POST", SESSIONS, CREDENTIALS, authorization=b"")
    assert (refused.status, message_ids(refused)) == (503, ["SessionLimitExceeded"])
    assert header(refused, "X-Auth-Token") is None
    assert all(alive(client, token) for token in tokens)
    assert client.request("POST", SESSIONS, {**CREDENTIALS, "Password": "x"}, authorization=b"").status == 401


@pytest.mark.parametrize("freed", ["DELETE", "idle"])
def test_a_place_is_free_again_after_a_logout_and_after_idle_time(freed: str) -> None:
    client = dpu_with(session_limit=2)
    tokens = [login(client) for _ in range(2)]
    if freed == "DELETE":
        assert client.request("DELETE", tokens[0][1]).status == 204
    else:
        client.advance(1000)
        assert alive(client, tokens[1][0])
        client.advance(1000)
    assert client.request("POST", SESSIONS, CREDENTIALS, authorization=b"").status == 201
    assert (alive(client, tokens[0][0]), alive(client, tokens[1][0])) == (False, True)


def test_where_the_oldest_makes_room_it_does() -> None:
    client = dpu_with(session_limit=2, session_full="drop_oldest")
    tokens = [login(client)[0] for _ in range(4)]
    assert [alive(client, token) for token in tokens] == [False, False, True, True]


def test_an_idrac_has_eight_sessions_and_says_so_in_its_own_words() -> None:
    client = make_client("dell_poweredge_r750")
    for _ in range(8):
        login(client)
    refused = client.request("POST", SESSIONS, CREDENTIALS, authorization=b"")
    assert refused.status == 503
    own, vendor = orjson.loads(refused.body)["error"]["@Message.ExtendedInfo"]
    assert own["MessageId"].endswith(".SessionLimitExceeded")
    assert (vendor["MessageId"], vendor["MessageSeverity"]) == ("IDRAC.2.7.RAC0218", "Critical")
    assert vendor.keys() == own.keys()


def test_an_id_is_never_used_again_while_the_process_lives(dpu: Client) -> None:
    uris = [login(dpu)[1] for _ in range(2)]
    dpu.request("DELETE", uris[1])
    uris.append(login(dpu)[1])
    dpu.advance(1801)
    uris.append(login(dpu)[1])
    assert dpu.request("POST", MANAGER + "/Actions/Manager.Reset", {}).status == 204
    dpu.advance(91)
    uris.append(login(dpu)[1])
    assert uris == [f"{SESSIONS}/{number}" for number in range(1, 6)]


def test_a_reset_of_the_bmc_ends_every_session(dpu: Client) -> None:
    tokens = [login(dpu)[0] for _ in range(2)]
    dpu.request("POST", MANAGER + "/Actions/Manager.Reset", {})
    dpu.advance(91)
    assert [alive(dpu, token) for token in tokens] == [False, False]
    assert dpu.get(SESSIONS)["Members"] == []


def test_the_timeout_is_the_one_that_was_written(dpu: Client) -> None:
    assert dpu.request("PATCH", SESSION_SERVICE, {"SessionTimeout": 60}).status == 204
    token, _ = login(dpu)
    dpu.advance(59)
    assert alive(dpu, token)
    dpu.advance(61)
    assert not alive(dpu, token)


def test_a_change_of_clocks_ends_no_session(dpu: Client) -> None:
    """Idle time is measured on a line that nobody sets."""
    token, _ = login(dpu)
    dpu.bmc.become(dpu.clock.now(), clock_ahead=1e9)
    assert alive(dpu, token)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"authorization": b""}, 401),
        ({"authorization": basic("root", PASSWORD)}, 404),
        ({"authorization": basic("root", "x")}, 401),
    ],
)
def test_a_session_that_has_expired_cannot_be_ended(dpu: Client, fields: dict[str, Any], status: int) -> None:
    token, uri = login(dpu)
    dpu.advance(1801)
    assert dpu.request("DELETE", uri, token=token, **fields).status == status


@pytest.mark.parametrize("body", [{}, {"UserName": "root"}, {"UserName": "root", "Password": 5}, [], b"{"])
def test_a_login_without_credentials_is_refused_and_is_no_failed_login(dpu: Client, body: Any) -> None:
    assert dpu.request("POST", SESSIONS, body, content_type=b"application/json").status == 400
    assert dpu.bmc.failed_logins is None
