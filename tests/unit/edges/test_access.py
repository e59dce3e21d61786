"""The access log: what of a request is in its line, what never is, and that it costs nothing while it is off."""

import logging
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.cli.logs import Json, Text
from bmcsim.edges.http.access import AccessLog, given_id, shown_target
from bmcsim.machine.history import LONGEST_PATH
from bmcsim.redfish.injection import preset_rules
from tests.unit.edges.conftest import FIRST, SYSTEM, Server, get, send

SESSIONS = "/redfish/v1/SessionService/Sessions"
SECRET = "Marker-8d1f"


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The access log as JSON."""
    return [orjson.loads(Json().format(one)) for one in caplog.records if one.name == "bmcsim.access"]


async def told(server: Server, *requests: bytes) -> list[Any]:
    """The answers to requests, each over the same connection after the one before it."""
    connection, answers = await server.connect(), []
    for request in requests:
        connection.writer.write(request)
        answers.append(await connection.answer())
    return answers


async def test_a_line_has_what_there_is_to_know(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.context.log_access(AccessLog(1.0))
    bmc = server.context.fleet.by_address(FIRST)
    assert bmc is not None
    await told(server, get(SYSTEM), get(SYSTEM), get(f"{SYSTEM}?$select=Id&password={SECRET}"), get("/redfish/v1/No"))
    found = lines(caplog)
    assert [one["path"] for one in found] == [
        SYSTEM, SYSTEM, f"{SYSTEM}?$select=Id&password=(hidden)", "/redfish/v1/No",
    ]  # fmt: skip
    assert [one["status"] for one in found] == [200, 200, 200, 404]
    for one in found:
        assert {**one, "path": "", "status": 0, "time": "", "request_id": "", "seconds": 0.0} == {
            "time": "", "level": "info", "logger": "bmcsim.access", "message": "request", "request_id": "",
            "bmc": bmc.id, "method": "GET", "path": "", "status": 0, "seconds": 0.0, "client": "127.0.0.1",
        }  # fmt: skip
        assert re.fullmatch(r"[0-9a-f]{16}", one["request_id"])
    assert len({one["request_id"] for one in found}) == 4


async def test_all_lanes_are_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.context.log_access(AccessLog(1.0))
    login = b'{"UserName":"root","Password":"%s"}' % SECRET.encode()
    await told(server, send("POST", SESSIONS, login))
    await told(server, send("POST", SESSIONS, login, chunked=True))
    await told(server, get(SYSTEM, f"Authorization: Bearer {SECRET}", auth=False))
    await told(server, get(SYSTEM, "Forwarded: host=192.0.2.77"))
    found = [(one["method"], one["status"], one["bmc"] != "") for one in lines(caplog)]
    assert found == [("POST", 401, True), ("POST", 401, True), ("GET", 401, True), ("GET", 404, False)]
    assert SECRET not in caplog.text


async def test_a_request_refused_before_its_body_is_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.context.log_access(AccessLog(1.0))
    head = f"PATCH {SYSTEM} HTTP/1.1\r\nHost: {FIRST}\r\nContent-Length: 5\r\nX-Request-Id: abc\r\n\r\n"
    (answer,) = await told(server, head.encode())
    assert answer.status == 401 and answer.fields["x-request-id"] == "abc"
    nobodys = send("PATCH", SYSTEM, b"{}", "Forwarded: host=192.0.2.77", chunked=True)
    assert (await told(server, nobodys))[0].status == 404
    assert [(one["status"], one["bmc"] != "") for one in lines(caplog)] == [(401, True), (404, False)]
    assert lines(caplog)[0]["request_id"] == "abc"


async def test_an_id_goes_back_with_the_answer_also_where_the_header_was_seen_before(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.context.log_access(AccessLog(1.0))
    asked = ["one", "one", "two"]
    answers = await told(server, *[get(SYSTEM, f"X-Request-Id: {id_}") for id_ in asked], get(SYSTEM), get(SYSTEM))
    assert [answer.fields.get("x-request-id") for answer in answers] == ["one", "one", "two", None, None]
    assert [one["request_id"] for one in lines(caplog)][:3] == asked
    login = b'{"UserName":"root","Password":"Rotated-1"}'
    for chunked in (False, True):
        (answer,) = await told(server, send("POST", SESSIONS, login, "X-Request-Id: three", chunked=chunked))
        assert answer.status == 201 and answer.fields["x-request-id"] == "three"


async def test_without_a_log_nothing_comes_back_and_nothing_is_logged(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    (answer,) = await told(server, get(SYSTEM, "X-Request-Id: one"))
    assert "x-request-id" not in answer.fields
    assert not lines(caplog) and not server.context.noting and server.context.known


async def test_only_a_sample_is_logged_and_known_requests_are_still_short(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = iter((0.49, 0.5, 0.9, 0.1))
    server.context.log_access(AccessLog(0.5, lambda: next(numbers)))
    await told(server, *[get(SYSTEM)] * 4)
    assert len(lines(caplog)) == 2
    assert len(server.context.known) == 1


async def test_recordings_and_the_log_do_not_disturb_each_other(server: Server) -> None:
    context = server.context
    recorder: Any = object()
    context.recorder = recorder
    assert context.noting and context.recorder is recorder
    context.recorder = None
    assert not context.noting
    context.log_access(AccessLog(1.0))
    context.recorder = recorder
    context.recorder = None
    assert context.noting


async def test_a_fault_that_drops_has_status_0(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.context.log_access(AccessLog(1.0))
    bmc = server.context.fleet.by_address(FIRST)
    assert bmc is not None
    bmc.become(server.clock.now(), faults=preset_rules("drops_connections", 0.0))
    bmc.committed()
    for _ in range(60):
        await server.exchange(get(SYSTEM, "Connection: close"))
    assert {one["status"] for one in lines(caplog)} == {0, 200}


@pytest.mark.parametrize(
    ("sent", "id_"),
    [
        (b"a", "a"),
        (b"4bf92f35-77b3_4da6.a3ce~929d/0e0e+47:36=", "4bf92f35-77b3_4da6.a3ce~929d/0e0e+47:36="),
        (b"x" * 64, "x" * 64),
        (b"x" * 65, ""),
        (b"", ""),
        (b"a b", ""),
        (b"a\nb", ""),
        (b'"', ""),
        (b"\xff", ""),
        (b"a\n", ""),
    ],
)
def test_which_ids_are_taken(sent: bytes, id_: str) -> None:
    assert given_id({b"x-request-id": sent}) == id_


@pytest.mark.parametrize(
    ("path", "query", "shown"),
    [
        ("/a", "", "/a"),
        ("/a", "$top=1", "/a?$top=1"),
        ("/a", f"Token={SECRET}&$top=1", "/a?Token=(hidden)&$top=1"),
        (f"/a?password={SECRET}", "", "/a?password=(hidden)"),
        (f"/a?password={SECRET}", f"x-auth-token={SECRET}", "/a?password=(hidden)"),
        ("/" + "a" * 9000, "", ("/" + "a" * 9000)[:LONGEST_PATH]),
    ],
)
def test_what_is_shown_of_a_target(path: str, query: str, shown: str) -> None:
    assert shown_target(path, query).startswith(shown)
    assert SECRET not in shown_target(path, query)


@given(st.text(), st.text())
def test_any_target_is_shown_in_one_line(path: str, query: str) -> None:
    record = logging.LogRecord("bmcsim.access", logging.INFO, "", 0, "request", (), None)
    record.path = shown_target(path, query)
    for formatter in (Text(), Json()):
        assert len(formatter.format(record).splitlines()) == 1


@given(
    name=st.sampled_from(("password", "Password", "X-Auth-Token", "token", "authorization", "api_key", "newPassword")),
    value=st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=8),
    before=st.sampled_from(("", "$top=1&", "&", "a=b&")),
    after=st.sampled_from(("", "&$skip=1", "&=")),
)
def test_no_secret_of_a_query_is_shown(name: str, value: str, before: str, after: str) -> None:
    query = f"{before}{name}={value}{after}"
    for shown in (shown_target("/redfish/v1", query), shown_target(f"/redfish/v1?{query}", "")):
        assert f"={value}" not in shown and "(hidden)" in shown
