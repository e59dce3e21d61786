"""One request to one BMC: methods, heads, documents, sessions, and what is let in."""

from typing import Any

import orjson
import pytest

from bmcsim.redfish import auth, patch, writes
from bmcsim.redfish.exchange import Head, Request, Response, head_of
from bmcsim.redfish.service import JSON_LIMIT, BodyPlan, admit
from bmcsim.tree.template import Body
from tests.conftest import PASSWORD, Client, header, make_client, message_ids
from tests.unit.redfish.conftest import (
    ACCOUNTS,
    FACTORY,
    MANAGER,
    OWN,
    PROTOCOL,
    ROLES,
    SESSION_SERVICE,
    SESSIONS,
    SYSTEM,
    as_edge,
    dpu_with,
    login,
)

CREDENTIALS = {"UserName": "root", "Password": PASSWORD}
WRITES = ("POST", "PUT", "PATCH", "DELETE")


# methods


ALLOWED = {
    "/redfish/v1/": "GET, HEAD",
    "/redfish/v1/Systems": "GET, HEAD",
    SYSTEM: "GET, HEAD, PATCH",
    SYSTEM + "/Bios": "GET, HEAD",
    SESSION_SERVICE: "GET, HEAD, PATCH",
    SESSIONS: "GET, HEAD, POST",
    SESSIONS + "/1": "GET, HEAD, DELETE",
    ACCOUNTS: "GET, HEAD, POST",
    OWN: "GET, HEAD, DELETE, PATCH",
    ROLES: "GET, HEAD, POST",
    ROLES + "/Operator": "GET, HEAD, DELETE, PATCH",
    "/redfish": "GET, HEAD",
    "/redfish/v1/odata": "GET, HEAD",
    "/redfish/v1/$metadata": "GET, HEAD",
    "/redfish/v1/openapi.yaml": "GET, HEAD",
}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((method, path) for path, allow in ALLOWED.items() for method in WRITES if method not in allow),
        ("POST", "/redfish/v1/Systems/Members"),
    ],
)
def test_a_method_that_a_resource_does_not_have_is_405_with_what_it_has(dpu: Client, method: str, path: str) -> None:
    login(dpu)
    response = dpu.request(method, path)
    assert (response.status, message_ids(response)) == (405, ["OperationNotAllowed"])
    assert header(response, "Allow") == ALLOWED[path.removesuffix("/Members")]


@pytest.mark.parametrize("method", ["FAKEMETHODFORTEST", "TRACE", "CONNECT", "get", "", "MKCOL"])
@pytest.mark.parametrize("authorized", [True, False])
def test_an_unknown_method_is_501(dpu: Client, method: str, authorized: bool) -> None:
    fields = {} if authorized else {"authorization": b""}
    for path in ("/redfish/v1/", SYSTEM, "/redfish/v1/Nope"):
        response = dpu.request(method, path, **fields)
        assert (response.status, message_ids(response)) == (501, ["OperationNotAllowed"])


@pytest.mark.parametrize("method", [*WRITES, "GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/redfish/v2",
        "/redfish/v1/Nope",
        "/redfish/v1//Systems",
        "/Redfish/v1/Systems",
        SYSTEM + "/Nope",
        SYSTEM.lower(),
        SYSTEM + "/Members",
        SESSIONS + "/99",
        SESSIONS + "/*",
        ACCOUNTS + "/nobody",
    ],
)
def test_what_is_not_there_is_404_for_every_method(dpu: Client, method: str, path: str) -> None:
    response = dpu.request(method, path)
    assert (response.status, message_ids(response)) == (404, ["ResourceMissingAtURI"])


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "OPTIONS"])
def test_the_members_of_a_collection_are_a_place_to_post_to_and_nothing_else(dpu: Client, method: str) -> None:
    assert dpu.request(method, SESSIONS + "/Members").status == 404


@pytest.mark.parametrize(("path", "allow"), ALLOWED.items())
def test_options_tells_the_methods(dpu: Client, path: str, allow: str) -> None:
    login(dpu)
    response = dpu.request("OPTIONS", path)
    assert (response.status, response.body, header(response, "Allow")) == (204, b"", allow)


def test_head_is_get_without_its_body(dpu: Client) -> None:
    """`handle` computes the same answer; the edge leaves the body out."""
    _, session = login(dpu)
    for path in (*dpu.bmc.tree.nodes, session, OWN, "/redfish", "/redfish/v1/odata", "/redfish/v1/$metadata", "/nope"):
        get, head = dpu.request("GET", path), dpu.request("HEAD", path)
        assert (head.status, head.head, head.body) == (get.status, get.head, get.body), path


@pytest.mark.parametrize("slashes", ["/", "//", "///"])
@pytest.mark.parametrize("path", ["/redfish", "/redfish/v1", "/redfish/v1/odata", "/redfish/v1/Systems", SYSTEM, OWN])
def test_trailing_slashes_make_no_difference(dpu: Client, path: str, slashes: str) -> None:
    assert dpu.request("GET", path + slashes) == dpu.request("GET", path)


def test_a_write_to_the_form_with_a_slash_is_the_same_write(dpu: Client) -> None:
    assert dpu.request("PATCH", PROTOCOL + "/", {"NTP": {"ProtocolEnabled": False}}).status == 204
    assert dpu.request("POST", SESSIONS + "/", CREDENTIALS).status == 201
    assert dpu.request("DELETE", SESSIONS + "/1/").status == 204
    assert dpu.get(PROTOCOL)["NTP"]["ProtocolEnabled"] is False


# the short way of a plain GET by a caller that is remembered


def test_the_short_way_answers_as_the_long_one(dpu: Client) -> None:
    login(dpu)
    dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": ["192.0.2.1"]}})
    assert dpu.bmc.basic_header == dpu.authorization
    others = (SESSIONS + "/1", "/redfish", "/redfish/v1/Nope", SYSTEM + "/", SYSTEM + "?$expand=.")
    for path in (*dpu.bmc.tree.nodes, *others):
        assert as_edge(dpu, "GET", path, authorization=dpu.authorization) == dpu.request("GET", path), path


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("accept", b"text/html", 406),
        ("odata_version", b"4.1", 412),
        ("if_none_match", b"*", 304),
        ("if_match", b'"x"', 412),
        ("x_auth_token", b"0" * 32, 200),
    ],
)
def test_a_field_that_could_change_the_answer_does(dpu: Client, name: str, value: bytes, status: int) -> None:
    assert as_edge(dpu, "GET", SYSTEM, authorization=dpu.authorization).status == 200
    assert as_edge(dpu, "GET", SYSTEM, authorization=dpu.authorization, **{name: value}).status == status


def test_a_token_does_not_borrow_the_remembered_credentials(dpu: Client) -> None:
    assert as_edge(dpu, "GET", SYSTEM, authorization=dpu.authorization).status == 200
    assert as_edge(dpu, "GET", SYSTEM, x_auth_token=b"0" * 32).status == 401
    assert as_edge(dpu, "GET", SYSTEM).status == 401


def test_the_fields_of_a_head() -> None:
    fields = {
        "authorization": b"a",
        "x-auth-token": b"b",
        "if-match": b"c",
        "if-none-match": b"d",
        "content-type": b"e",
        "accept": b"f",
        "odata-version": b"g",
    }
    assert head_of({name.encode(): value for name, value in fields.items()}) == Head(*fields.values(), plain=False)
    assert head_of({}) == Head(plain=True)
    assert head_of({b"accept": b"*/*", b"authorization": b"x", b"user-agent": b"y"}).plain


# negotiation


@pytest.mark.parametrize(
    ("accept", "json", "xml"),
    [
        (b"", 200, 200),
        (b"*/*", 200, 200),
        (b"application/json", 200, 406),
        (b"application/json;charset=utf-8", 200, 406),
        (b"APPLICATION/JSON", 200, 406),
        (b"application/*", 200, 200),
        (b"text/html, application/xhtml+xml, */*;q=0.8", 200, 200),
        (b"text/html,application/json;q=0.1", 200, 406),
        (b"application/xml", 406, 200),
        (b"text/html", 406, 406),
        (b"application/json;q=0", 406, 406),
        (b"application/json;q=0.000, text/html", 406, 406),
        (b"application/json;Q=0", 406, 406),
        (b"application/json; q=0.001", 200, 406),
        (b"*/*;q=0, application/json", 200, 406),
        (b"application/jsonx", 406, 406),
        (b"nonsense", 406, 406),
    ],
)
def test_accept(dpu: Client, accept: bytes, json: int, xml: int) -> None:
    paths = {
        "/redfish/v1/": json,
        SYSTEM: json,
        "/redfish": json,
        "/redfish/v1/odata": json,
        "/redfish/v1/$metadata": xml,
    }
    assert {path: dpu.request("GET", path, accept=accept).status for path in paths} == paths


@pytest.mark.parametrize(("version", "status"), [(b"4.0", 200), (b"", 200), (b"4.1", 412), (b"3.0", 412), (b"x", 412)])
def test_odata_version(dpu: Client, version: bytes, status: int) -> None:
    for path in ("/redfish", "/redfish/v1/", SYSTEM):
        response = dpu.request("GET", path, odata_version=version)
        assert response.status == status
        if status == 412:
            assert message_ids(response) == ["HeaderInvalid"]
    assert dpu.request("PATCH", PROTOCOL, {"NTP": {"NTPServers": []}}, odata_version=version).status == (
        204 if status == 200 else 412
    )


# documents


DOCUMENTS = ["/redfish", "/redfish/v1/", "/redfish/v1/odata", "/redfish/v1/$metadata", "/redfish/v1/openapi.yaml"]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_the_documents_need_no_credentials(dpu: Client, path: str) -> None:
    response = dpu.request("GET", path, authorization=b"")
    media = {"$metadata": "application/xml", "openapi.yaml": "application/yaml"}.get(path.rpartition("/")[2])
    media = media or "application/json"
    assert response.status == 200
    assert header(response, "Content-Type") == f"{media}; charset=utf-8"
    assert header(response, "OData-Version") == "4.0"
    assert header(response, "Cache-Control") == "no-cache"
    assert header(response, "Allow") == "GET, HEAD"


def test_the_versions_and_the_service_document(dpu: Client) -> None:
    assert dpu.get("/redfish") == {"v1": "/redfish/v1/"}
    assert dpu.get("/redfish/v1/odata")["@odata.context"] == "/redfish/v1/$metadata"
    assert b"EntityContainer" in dpu.request("GET", "/redfish/v1/$metadata").body


# sessions


@pytest.mark.parametrize("path", [SESSIONS, SESSIONS + "/", SESSIONS + "/Members"])
def test_a_session_is_created_at_either_uri(dpu: Client, path: str) -> None:
    response = dpu.request("POST", path, CREDENTIALS, authorization=b"")
    body = orjson.loads(response.body)
    assert response.status == 201
    assert header(response, "Location") == body["@odata.id"] == f"{SESSIONS}/1"
    assert header(response, "ETag") == body["@odata.etag"]
    assert (body["Id"], body["UserName"], body["@odata.type"]) == ("1", "root", "#Session.v1_7_2.Session")
    token = header(response, "X-Auth-Token")
    assert token is not None
    assert token not in response.body.decode()
    assert dpu.get(f"{SESSIONS}/1", authorization=b"", token=token.encode()) == body


def test_each_login_is_a_session_of_its_own(dpu: Client) -> None:
    assert [login(dpu)[1] for _ in range(3)] == [f"{SESSIONS}/{n}" for n in (1, 2, 3)]
    shown = dpu.get(SESSIONS)
    assert shown["Members"] == [{"@odata.id": f"{SESSIONS}/{n}"} for n in (1, 2, 3)]
    assert shown["Members@odata.count"] == 3


def test_ending_one_session_leaves_the_others(dpu: Client) -> None:
    (one, uri), (two, _) = login(dpu), login(dpu)
    assert dpu.request("DELETE", uri, authorization=b"", token=one).status == 204
    assert dpu.request("GET", SYSTEM, authorization=b"", token=one).status == 401
    assert dpu.request("GET", SYSTEM, authorization=b"", token=two).status == 200
    assert dpu.request("DELETE", uri).status == 404


def test_the_list_of_sessions_has_a_tag_that_follows_it(dpu: Client) -> None:
    tags = [dpu.get(SESSIONS)["@odata.etag"]]
    for _ in range(2):
        login(dpu)
        tags.append(dpu.get(SESSIONS)["@odata.etag"])
    dpu.request("DELETE", SESSIONS + "/2")
    assert len(set(tags)) == 3
    assert dpu.get(SESSIONS)["@odata.etag"] == tags[1]


@pytest.mark.parametrize(
    ("body", "status", "key"),
    [
        ({"UserName": "root"}, 400, "PropertyMissing"),
        ({"Password": PASSWORD}, 400, "PropertyMissing"),
        ({}, 400, "PropertyMissing"),
        ({"UserName": "root", "Password": 5}, 400, "PropertyValueTypeError"),
        ({"UserName": None, "Password": "x"}, 400, "PropertyValueTypeError"),
        ([], 400, "MalformedJSON"),
        (b"nonsense", 400, "MalformedJSON"),
        (b"", 400, "MalformedJSON"),
        ({"UserName": "root", "Password": "wrong"}, 401, "AccessUnauthorized"),
        ({"UserName": "nobody", "Password": PASSWORD}, 401, "AccessUnauthorized"),
        ({"UserName": "root", "Password": FACTORY}, 401, "AccessUnauthorized"),
    ],
)
def test_a_login_that_is_refused_opens_nothing(dpu: Client, body: Any, status: int, key: str) -> None:
    response = dpu.request("POST", SESSIONS, body, authorization=b"")
    assert (response.status, message_ids(response)) == (status, [key])
    assert header(response, "Location") is None
    assert header(response, "X-Auth-Token") is None
    assert (header(response, "WWW-Authenticate") is not None) == (status == 401)
    assert dpu.get(SESSIONS)["Members@odata.count"] == 0


def test_credentials_in_the_header_do_not_replace_those_in_the_body(dpu: Client) -> None:
    assert dpu.request("POST", SESSIONS, {"UserName": "root", "Password": "wrong"}).status == 401
    assert dpu.request("POST", SESSIONS, CREDENTIALS, authorization=b"Bearer nonsense").status == 201


@pytest.mark.parametrize("media", [b"text/plain", b""])
def test_a_login_of_another_media_type_is_not_read(dpu: Client, media: bytes) -> None:
    assert dpu.request("POST", SESSIONS, CREDENTIALS, content_type=media).status == 415


def test_one_session_more_than_the_limit_is_refused_until_one_ends() -> None:
    client = dpu_with(session_limit=2)
    token, uri = login(client)
    login(client)
    refused = client.request("POST", SESSIONS, CREDENTIALS, authorization=b"")
    assert (refused.status, message_ids(refused)) == (503, ["SessionLimitExceeded"])
    assert client.request("POST", SESSIONS, {**CREDENTIALS, "Password": "wrong"}).status == 401
    assert client.request("GET", SYSTEM, authorization=b"", token=token).status == 200
    assert client.request("GET", SYSTEM).status == 200
    client.request("DELETE", uri)
    login(client)
    client.advance(1801)
    login(client)


# what is let in before its body is read


def decision(client: Client, method: str, path: str, length: int | None, **fields: bytes) -> int:
    """The status of a refusal, or 0 for 'read it'."""
    fields.setdefault("authorization", client.authorization)
    fields.setdefault("content_type", b"application/json")
    found = admit(client.bmc, Request(method, path, client.clock.now(), Head(**fields)), length)
    if isinstance(found, BodyPlan):
        assert found.limit == JSON_LIMIT
        return 0
    assert isinstance(found, Response)
    return found.status


@pytest.mark.parametrize(
    ("method", "path", "length", "fields", "status"),
    [
        ("PATCH", SYSTEM, 10, {}, 0),
        ("PATCH", SYSTEM, None, {}, 0),
        ("PATCH", SYSTEM, JSON_LIMIT, {}, 0),
        ("PATCH", SYSTEM, JSON_LIMIT + 1, {}, 413),
        ("POST", SESSIONS, JSON_LIMIT + 1, {"authorization": b""}, 413),
        ("GET", SYSTEM, JSON_LIMIT + 1, {}, 413),
        ("PATCH", SYSTEM, 10, {"authorization": b""}, 401),
        ("PATCH", SYSTEM, None, {"authorization": b"Basic x"}, 401),
        ("PUT", "/nope", 10, {"authorization": b""}, 401),
        ("PATCH", SYSTEM, 10, {"content_type": b"text/plain"}, 415),
        ("PATCH", SYSTEM, 10, {"content_type": b""}, 415),
        ("PATCH", SYSTEM, 10, {"content_type": b"text/plain", "authorization": b""}, 401),
        ("PATCH", SYSTEM, 10, {"content_type": b"application/json; charset=utf-8"}, 0),
        ("POST", SESSIONS, 10, {"authorization": b""}, 0),
        ("POST", SESSIONS + "/", 10, {"authorization": b""}, 0),
        ("POST", SESSIONS, 10, {"authorization": b"", "content_type": b"text/plain"}, 415),
        ("GET", SYSTEM, 10, {"authorization": b"", "content_type": b""}, 0),
        ("POST", MANAGER + "/Actions/Manager.Reset", 0, {"content_type": b""}, 0),
    ],
)
def test_what_the_head_alone_decides(
    dpu: Client, method: str, path: str, length: int | None, fields: dict[str, bytes], status: int
) -> None:
    assert decision(dpu, method, path, length, **fields) == status


def test_a_valid_token_lets_a_body_in(dpu: Client) -> None:
    token, _ = login(dpu)
    assert decision(dpu, "PATCH", SYSTEM, 10, authorization=b"", token=token) == 0


def test_two_bmcs_of_a_profile_answer_for_themselves() -> None:
    one, other = make_client("bluefield3"), make_client("bluefield3", index=1)
    assert one.get(SYSTEM)["SerialNumber"] != other.get(SYSTEM)["SerialNumber"]
    one.request("POST", SYSTEM + "/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"})
    assert (one.get(SYSTEM)["PowerState"], other.get(SYSTEM)["PowerState"]) == ("Off", "On")
    token, _ = login(one)
    assert other.request("GET", SYSTEM, authorization=b"", token=token).status == 401


# fault rules


def test_a_rule_that_answers_comes_before_credentials_also_for_requests_with_a_body(dpu: Client) -> None:
    rules = [{"id": "r", "selector": {"Path": {"glob": SYSTEM, "method": "PATCH"}}, "action": {"Status": 503}}]
    assert dpu.request("PUT", "/Injection/rules", rules).status == 200
    head = Head(content_type=b"application/json")
    for path, expected in ((SYSTEM, BodyPlan(JSON_LIMIT)), (OWN, 401)):
        plan = admit(dpu.bmc, Request("PATCH", path, dpu.clock.now(), head), 2)
        assert expected == (plan.status if isinstance(plan, Response) else plan)
    assert dpu.request("PATCH", SYSTEM, {}, authorization=b"").status == 503


def test_a_lost_login_and_a_lost_logout_did_not_happen(dpu: Client) -> None:
    kept = dpu.request("POST", SESSIONS, CREDENTIALS)
    lost = [{"id": "r", "selector": {"OdataId": f"{SESSIONS}/**"}, "action": "LostWrite"}]
    assert dpu.request("PUT", "/Injection/rules", lost).status == 200
    logout = dpu.request("DELETE", header(kept, "Location") or "")
    login = dpu.request("POST", SESSIONS, CREDENTIALS)
    assert (logout.status, login.status) == (204, 201)
    for response, status in ((kept, 200), (login, 401)):
        token = (header(response, "X-Auth-Token") or "").encode()
        assert dpu.request("GET", SYSTEM, authorization=b"", token=token).status == status


# errors that nobody foresaw


def failing(text: str) -> Any:
    """A function that fails with words of the client's in its error, as many errors have them."""

    def fail(*_arguments: Any) -> Any:
        raise KeyError(text)

    return fail


@pytest.mark.parametrize("plain", [True, False])
def test_an_error_that_nobody_foresaw_is_500_and_its_place_is_logged_without_words_of_the_request(
    dpu: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, plain: bool
) -> None:
    if not plain:
        rule = {"id": "r", "selector": {"OdataId": "/redfish/v1/Nope"}, "action": "Close"}
        assert dpu.request("POST", "/Injection/rules", rule).status < 300
    assert dpu.bmc.plain == plain
    monkeypatch.setattr(writes, "carry_out", failing("s3cret"))
    response = dpu.request("PATCH", PROTOCOL, {"HostName": "s3cret"})
    assert (response.status, message_ids(response)) == (500, ["InternalError"])
    assert b"s3cret" not in response.body
    (record,) = caplog.records
    said = record.getMessage()
    assert dpu.bmc.id in said
    assert "KeyError" in said
    assert said.endswith(" fail")
    assert "test_service.py:" in said
    assert "s3cret" not in caplog.text
    assert PROTOCOL not in caplog.text


def test_an_error_undoes_what_the_request_changed_until_then(
    dpu: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    login(dpu)
    before, sessions = dpu.bmc.state, dpu.get(SESSIONS)["Members"]
    monkeypatch.setattr(patch, "written", failing("x"))
    change = {"Boot": {"BootSourceOverrideTarget": "Pxe"}}
    assert dpu.request("PATCH", SYSTEM, change).status == 500
    assert dpu.bmc.state == before
    assert dpu.bmc.uncommitted is None
    assert dpu.get(SESSIONS)["Members"] == sessions
    monkeypatch.undo()
    assert dpu.request("PATCH", SYSTEM, change).status < 300
    assert dpu.bmc.state != before


def test_an_error_in_the_short_way_or_before_a_body_is_500_too(
    dpu: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dpu.get(SYSTEM)
    assert as_edge(dpu, "GET", SYSTEM, authorization=dpu.authorization).status == 200
    monkeypatch.setattr(Body, "render", failing("x"))
    assert as_edge(dpu, "GET", SYSTEM, authorization=dpu.authorization).status == 500
    monkeypatch.setattr(auth, "authenticate", failing("x"))
    head = head_of({b"authorization": dpu.authorization, b"content-type": b"application/json"})
    refused = admit(dpu.bmc, Request("POST", SESSIONS + "x", dpu.clock.now(), head), 10)
    assert isinstance(refused, Response)
    assert refused.status == 500
    assert len(caplog.records) == 2
