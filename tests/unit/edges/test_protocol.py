"""The Redfish port byte by byte: both lanes, order, limits and refusals."""

import asyncio
import gzip
import socket

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bmcsim.fleet.registry import Fleet
from tests.unit.edges.conftest import CLOSE, FIRST, SECOND, SYSTEM, Server, get, send

SESSIONS = "/redfish/v1/SessionService/Sessions"


async def test_a_request_is_answered_with_the_headers_of_redfish(server: Server) -> None:
    (answer,) = await server.exchange(get(SYSTEM, CLOSE))
    assert answer.status == 200
    assert answer.fields["odata-version"] == "4.0"
    assert answer.fields["content-type"] == "application/json; charset=utf-8"
    assert answer.fields["connection"] == "close"
    assert "date" in answer.fields
    assert orjson.loads(answer.body)["@odata.id"] == SYSTEM


async def test_pipelined_requests_are_answered_in_order_over_both_lanes(server: Server) -> None:
    body = orjson.dumps({"Boot": {"BootSourceOverrideTarget": "Pxe"}})
    stream = (
        get(SYSTEM)
        + send("PATCH", SYSTEM, body, chunked=True)
        + get("/redfish/v1/Chassis")
        + send("PATCH", SYSTEM, body)
        + get("/redfish/v1/Nope", CLOSE)
    )
    answers = await server.exchange(stream)
    assert [answer.status for answer in answers] == [200, 204, 200, 204, 404]
    assert orjson.loads(answers[2].body)["@odata.id"] == "/redfish/v1/Chassis"


@pytest.mark.parametrize(
    "data",
    [
        send("PATCH", SYSTEM, b'{"Boot":{"BootSourceOverrideEnabled":"Once"}}', CLOSE),
        send("PATCH", SYSTEM, b'{"Nonsense":1}', CLOSE),
        send("PATCH", SYSTEM, b"[", CLOSE),
        send("POST", SYSTEM, b"{}", CLOSE),
        send("PATCH", "/redfish/v1/Nope", b"{}", CLOSE),
        send("GET", SYSTEM + "?$expand=.", b"{}", CLOSE),
        send("HEAD", SYSTEM, b"{}", CLOSE),
        send("GET", SYSTEM, b"{}", CLOSE, "If-None-Match: *"),
        send("GET", SYSTEM, b"{}", CLOSE, "Accept-Encoding: gzip"),
        send("HEAD", SYSTEM, b"{}", CLOSE, "Accept-Encoding: gzip"),
    ],
)
async def test_both_lanes_answer_byte_for_byte_alike(server: Server, data: bytes) -> None:
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    chunked = b"\r\n".join([*lines, b"Transfer-Encoding: chunked"]) + b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
        len(body),
        body,
    )
    replies = []
    for stream in (data, chunked):
        connection = await server.connect()
        connection.writer.write(stream)
        replies.append(await connection.reader.read())
        connection.writer.close()
    assert replies[0].startswith(b"HTTP/1.1 ")
    assert replies[0] == replies[1]


async def test_identity_never_sticks_to_a_connection(server: Server) -> None:
    connection = await server.connect()
    serials = []
    for host in (FIRST, SECOND, FIRST):
        connection.writer.write(get(SYSTEM, f"Forwarded: host={host}", host="proxy.example"))
        serials.append(orjson.loads((await connection.answer()).body)["SerialNumber"])
    connection.writer.close()
    assert serials[0] == serials[2] != serials[1]


async def test_credentials_never_stick_to_a_connection(server: Server) -> None:
    connection = await server.connect()
    connection.writer.write(get(SYSTEM) + get(SYSTEM, auth=False))
    statuses = [(await connection.answer()).status, (await connection.answer()).status]
    connection.writer.close()
    assert statuses == [200, 401]


async def test_head_has_the_head_of_get_and_no_content(server: Server) -> None:
    connection = await server.connect()
    connection.writer.write(get(SYSTEM) + get(SYSTEM, method="HEAD"))
    whole, head = await connection.answer(), await connection.answer("HEAD")
    connection.writer.write(get(SYSTEM, method="OPTIONS"))
    assert (await connection.answer()).status == 204
    connection.writer.close()
    assert head.head == whole.head


async def test_gzip_is_for_the_request_that_asks_for_it(server: Server) -> None:
    connection = await server.connect()
    asking, refusing = get(SYSTEM, "Accept-Encoding: gzip, deflate"), get(SYSTEM, "Accept-Encoding: gzip;q=0")
    duplicate = get(SYSTEM, "Accept-Encoding: br", "Accept-Encoding: gzip")
    answers = []
    for request in (get(SYSTEM), asking, refusing, duplicate, asking, get(SYSTEM), get(SYSTEM)):
        connection.writer.write(request)
        answers.append(await connection.answer())
    connection.writer.write(asking.replace(b"GET", b"HEAD", 1))
    head = await connection.answer("HEAD")
    connection.writer.close()
    assert [one.fields.get("content-encoding") for one in answers] == [None, "gzip", None, "gzip", "gzip", None, None]
    assert all(one.fields["vary"] == "Accept-Encoding" for one in answers)
    plain, compressed = orjson.loads(answers[0].body), orjson.loads(gzip.decompress(answers[1].body))
    assert {**compressed, "@odata.etag": plain["@odata.etag"]} == plain
    assert compressed["@odata.etag"] == answers[1].fields["etag"] != answers[0].fields["etag"]
    assert len({one.body for one in answers}) == 2
    assert head.head == answers[1].head


async def test_not_modified_and_no_content_have_no_length(server: Server) -> None:
    (first,) = await server.exchange(get(SYSTEM, CLOSE))
    (second,) = await server.exchange(get(SYSTEM, f"If-None-Match: {first.fields['etag']}", CLOSE))
    assert second.status == 304
    assert "content-length" not in second.fields
    assert second.fields["etag"] == first.fields["etag"]


async def test_absolute_form_names_the_bmc(server: Server) -> None:
    target = f"https://{SECOND}:1266{SYSTEM}"
    (answer,) = await server.exchange(get(target, CLOSE, host=FIRST))
    (direct,) = await server.exchange(get(SYSTEM, CLOSE, host=SECOND), SECOND)
    assert orjson.loads(answer.body)["SerialNumber"] == orjson.loads(direct.body)["SerialNumber"]


async def test_http_1_0_is_answered_and_closed(server: Server) -> None:
    (answer,) = await server.exchange(b"GET /redfish HTTP/1.0\r\n\r\n")
    assert (answer.status, answer.fields["connection"]) == (200, "close")


async def test_an_upgrade_request_is_answered_as_if_it_had_not_asked(server: Server) -> None:
    fields = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    answers = await server.exchange(get("/redfish", *fields) + get("/redfish", CLOSE))
    assert [answer.status for answer in answers] == [200, 200]


async def test_expect_continue_is_answered_before_the_body(server: Server) -> None:
    body = b'{"Boot":{"BootSourceOverrideTarget":"Pxe"}}'
    for chunked in (False, True):
        head, _, rest = send("PATCH", SYSTEM, body, "Expect: 100-continue", chunked=chunked).partition(b"\r\n\r\n")
        connection = await server.connect()
        connection.writer.write(head + b"\r\n\r\n")
        assert (await connection.answer()).status == 100
        connection.writer.write(rest)
        assert (await connection.answer()).status == 204
        connection.writer.close()


async def test_a_body_that_may_not_come_is_refused_before_it_is_sent(server: Server) -> None:
    head = get(SYSTEM, "Content-Length: 40", "Content-Type: application/json", "Expect: 100-continue", method="PATCH")
    unauthenticated = head.replace(b"Authorization: Basic", b"Authorization: Basic x")
    (answer,) = await server.exchange(unauthenticated)
    assert (answer.status, answer.fields["connection"]) == (401, "close")
    (answer,) = await server.exchange(head.replace(b"application/json", b"text/plain"))
    assert answer.status == 415


@pytest.mark.parametrize("chunked", [False, True])
async def test_e34_an_oversized_body_is_refused_and_never_held(server: Server, chunked: bool) -> None:
    """E34: Content-Length above the limit is 413 before reading; a chunked body is counted while it is read."""
    if not chunked:
        head = get(SYSTEM, f"Content-Length: {2**31}", "Content-Type: application/json", method="PATCH")
        (answer,) = await server.exchange(head)
        assert answer.status == 413
        return
    connection = await server.connect()
    connection.writer.write(get(SYSTEM, "Transfer-Encoding: chunked", "Content-Type: application/json", method="PATCH"))
    block = b"%x\r\n%s\r\n" % (65536, b" " * 65536)
    for _ in range(128):
        connection.writer.write(block)
        await asyncio.wait_for(connection.writer.drain(), 5)
    answer = await connection.answer()
    assert (answer.status, answer.fields["connection"]) == (413, "close")
    (served,) = server.listener.server.server_state.connections
    assert len(served._cycle.body) < 1024 * 1024
    connection.writer.close()


async def test_a_long_target_is_414_and_a_long_head_431(server: Server) -> None:
    (answer,) = await server.exchange(get("/redfish/v1/" + "x" * 9000))
    assert answer.status == 414
    (answer,) = await server.exchange(get(SYSTEM, "X-Padding: " + "x" * 40_000))
    assert answer.status == 431
    connection = await server.connect()
    connection.writer.write(b"GET /redfish HTTP/1.1\r\nX-Endless: ")
    for _ in range(40):
        connection.writer.write(b"x" * 1000)
        await asyncio.sleep(0)
    assert (await connection.answer()).status == 431
    connection.writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"BREW /redfish HTTP/1.1\r\nHost: x\r\n\r\n",
        b"FAKEMETHODFORTEST /redfish/v1/ HTTP/1.1\r\nHost: x\r\n\r\n",
        get("/redfish/v1/", method="TRACE"),
        get("/redfish/v1/", method="PROPFIND"),
    ],
)
async def test_an_unknown_method_is_501_with_a_redfish_error(server: Server, data: bytes) -> None:
    answer = (await server.exchange(data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)))[0]
    assert answer.status == 501
    assert orjson.loads(answer.body)["error"]["code"].startswith("Base.")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 not http\r\n\r\n",
        b"GET /redfish HTTP/9.9\r\n\r\n",
        get(SYSTEM, "Content-Length: 4", "Transfer-Encoding: chunked", method="PATCH") + b"0\r\n\r\n",
        get(SYSTEM, "Content-Length: 4", "Content-Length: 5", method="PATCH") + b"abcd",
        get(SYSTEM, "Host: other"),
        get(SYSTEM, "Content-Length: -1", method="PATCH"),
        b"GET /redfish HTTP/1.1\r\n folded: x\r\n\r\n",
    ],
)
async def test_malformed_and_smuggled_requests_are_refused_and_closed(server: Server, data: bytes) -> None:
    answers = await server.exchange(data)
    assert len(answers) == 1
    assert answers[0].status == 400
    assert answers[0].fields["connection"] == "close"


CHUNKED = get(SYSTEM, "Transfer-Encoding: chunked", "Content-Type: application/json", method="PATCH")


@pytest.mark.parametrize("rest", [b"nonsense\r\n", b"-1\r\n", b"1\r\nxyz\r\n", b"0\r\nX : y\r\n\r\n", b"0\n"])
async def test_a_chunked_body_that_turns_into_nonsense_is_refused_and_closed(server: Server, rest: bytes) -> None:
    """What the slow lane has begun to read never gets an end, so that nothing else would ever answer."""
    for before in (b"", get("/redfish")):
        *_, answer = await server.exchange(before + CHUNKED + b"2\r\n{}\r\n" + rest)
        assert (answer.status, answer.fields["connection"]) == (400, "close")


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"2\r\n{}\r\n0\r\n", b"X-Trailer: " + b"x" * 1000 + b"\r\n"),
        (b"2\r\n{}\r\n0\r\nX-Endless: ", b"x" * 1000),
        (b"2;x=", b"x" * 1000),
        (b"", b"0" * 1000),
    ],
)
async def test_what_a_chunked_body_has_beside_its_data_has_an_end(server: Server, begin: bytes, more: bytes) -> None:
    """Trailers and chunk extensions: the parser would keep them, or read them for ever."""
    connection = await server.connect()
    connection.writer.write(CHUNKED + begin)
    for _ in range(80):
        connection.writer.write(more)
        await asyncio.sleep(0)
    answer = await connection.answer()
    assert answer.status in (400, 431)
    assert answer.fields["connection"] == "close"
    connection.writer.close()


async def test_data_of_a_chunked_body_is_not_counted_as_what_is_beside_it(server: Server) -> None:
    connection = await server.connect()
    connection.writer.write(CHUNKED)
    for _ in range(400):
        connection.writer.write(b"200\r\n%b\r\n" % (b" " * 512))
        await asyncio.sleep(0)
    connection.writer.write(b'29\r\n{"Boot":{"BootSourceOverrideTarget":"Pxe"\r\n2\r\n}}\r\n0\r\n\r\n')
    assert (await connection.answer()).status == 204
    connection.writer.close()


@pytest.mark.parametrize("one", [get("/redfish", "Connection: Upgrade", "Upgrade: h2c"), get("a:1", method="CONNECT")])
async def test_any_number_of_requests_that_ask_for_an_upgrade_may_come_at_once(server: Server, one: bytes) -> None:
    """Each has its own parser; Python's stack has room for a thousand calls."""
    connection = await server.connect()
    await asyncio.sleep(0.01)
    (served,) = server.listener.server.server_state.connections
    served.data_received(one * 1200 + get("/redfish", CLOSE))
    answers = await connection.answers()
    assert len(answers) == 1201
    assert answers[-1].status == 200


@pytest.mark.parametrize("kept", [1, 3, 20, 40])
async def test_a_long_body_before_it_makes_no_head_too_long(server: Server, kept: int) -> None:
    """The first segment ends in the first line of the second request."""
    body = orjson.dumps({"Nonsense": "x" * 50_000})
    following = get(SYSTEM, CLOSE)
    connection = await server.connect()
    connection.writer.write(send("PATCH", SYSTEM, body) + following[:kept])
    assert (await connection.answer()).status == 400
    connection.writer.write(following[kept:])
    assert (await connection.answer()).status == 200
    connection.writer.close()


async def that_does_not_read(server: Server) -> socket.socket:
    """A client with a small buffer, from which nobody takes anything."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (FIRST, server.port))
    return sock


async def test_a_connection_that_closes_does_not_wait_for_ever_for_its_client_to_read(server: Server) -> None:
    loop, sock = asyncio.get_running_loop(), await that_does_not_read(server)
    await asyncio.sleep(0.01)
    (connection,) = server.listener.server.server_state.connections
    while not connection.transport.get_write_buffer_size():
        await loop.sock_sendall(sock, get("/redfish/v1/JsonSchemas"))
        await asyncio.sleep(0.001)
    await loop.sock_sendall(sock, get("/redfish", CLOSE))
    await asyncio.sleep(0.01)
    assert connection.transport.is_closing()
    connection.sweep(server.clock.now().mono + 76)
    await asyncio.sleep(0.01)
    assert not server.listener.server.server_state.connections
    sock.close()


@pytest.mark.parametrize("rest", [b"2\r\n{}\r\n0\r\n\r\n", b"nonsense\r\n"])
async def test_a_request_that_was_refused_for_its_head_does_not_reach_the_slow_lane(
    server: Server, rest: bytes
) -> None:
    head = get(SYSTEM, "Host: other", "Transfer-Encoding: chunked", "Content-Type: application/json", method="PATCH")
    connection = await server.connect()
    connection.writer.write(head)
    assert (await connection.answer()).status == 400
    assert not server.listener.server.server_state.tasks
    connection.writer.write(rest)
    assert await connection.closed()


async def test_a_bmc_in_reset_closes_after_delivering_what_it_owes_to_others(server: Server) -> None:
    fleet: Fleet = server.context.fleet
    fleet.route(b"", SECOND.encode(), "").reset_bmc(server.clock.now())
    answers = await server.exchange(
        get(SYSTEM)
        + send("PATCH", SYSTEM, b'{"Boot":{"BootSourceOverrideTarget":"Pxe"}}', chunked=True)
        + get(SYSTEM, host=SECOND)
        + get(SYSTEM)
    )
    assert [answer.status for answer in answers] == [200, 204]
    assert server.context.metrics.dropped == 1


async def test_while_the_fleet_is_built_an_unknown_bmc_closes_and_later_is_404(server: Server) -> None:
    server.context.fleet.ready = False
    assert await server.exchange(get("/redfish/v1/", "Forwarded: host=192.0.2.99")) == []
    server.context.fleet.ready = True
    (answer,) = await server.exchange(get("/redfish/v1/", "Forwarded: host=192.0.2.99", CLOSE))
    assert answer.status == 404
    assert "192.0.2.99" in orjson.loads(answer.body)["error"]["message"]


async def test_an_address_that_moved_reaches_its_new_owner_only_and_one_that_was_left_nobody(server: Server) -> None:
    fleet = server.context.fleet
    fleet.leased = True
    one, other = fleet.by_address(FIRST), fleet.by_address(SECOND)
    assert one is not None
    assert other is not None
    connection = await server.connect()

    async def serial() -> str:
        connection.writer.write(get(SYSTEM, f"Forwarded: host={FIRST}", host="proxy.example"))
        return str(orjson.loads((await connection.answer()).body)["SerialNumber"])

    before = [await serial() for _ in range(3)]
    fleet.unbind(one)
    fleet.bind(other, FIRST)
    after = [await serial() for _ in range(3)]
    assert len(set(before)) == len(set(after)) == len({before[0], after[0]}) - 1 == 1
    fleet.unbind(other)
    connection.writer.write(get(SYSTEM, f"Forwarded: host={FIRST}", host="proxy.example"))
    assert await connection.closed()
    fleet.bind(one, "127.0.0.77")
    fleet.bind(other, "127.0.0.78")
    # All have an address again: one that was left is still nobody's, and one that never was is 404.
    proxy = "127.0.0.1"
    assert await server.exchange(get(SYSTEM, f"Forwarded: host={SECOND}", CLOSE, host=proxy), proxy) == []
    (answer,) = await server.exchange(get(SYSTEM, "Forwarded: host=192.0.2.99", CLOSE, host=proxy), proxy)
    assert answer.status == 404


async def test_idle_connections_are_closed_and_slow_heads_are_408(server: Server) -> None:
    idle, slow, fresh = await server.connect(), await server.connect(), await server.connect()
    idle.writer.write(get(SYSTEM))
    await idle.answer()
    slow.writer.write(b"GET /redfish HTTP/1.1\r\nHost")
    await asyncio.sleep(0.05)
    connections = list(server.listener.server.server_state.connections)
    now = server.clock.now().mono
    for connection in connections:
        connection.sweep(now + 11)
    assert (await slow.answer()).status == 408
    fresh.writer.write(get(SYSTEM))
    assert (await fresh.answer()).status == 200
    for connection in connections:
        connection.sweep(now + 76)
    assert await idle.closed()
    for one in (idle, slow, fresh):
        one.writer.close()


async def test_a_client_that_does_not_read_is_not_served_without_end(server: Server) -> None:
    loop, sock = asyncio.get_running_loop(), await that_does_not_read(server)
    flood = get(SYSTEM) * 200
    try:
        async with asyncio.timeout(1):
            for _ in range(400):
                await loop.sock_sendall(sock, flood)
    except TimeoutError:
        pass
    (connection,) = server.listener.server.server_state.connections
    assert connection.transport.get_write_buffer_size() < 4 * 1024 * 1024
    connection.sweep(server.clock.now().mono + 76)
    await asyncio.sleep(0.01)
    assert not server.listener.server.server_state.connections
    sock.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), split=st.integers(1, 50))
async def test_arbitrary_bytes_never_break_the_server(server: Server, data: bytes, split: int) -> None:
    connection = await server.connect()
    for start in range(0, len(data), split):
        connection.writer.write(data[start : start + split])
    if connection.writer.can_write_eof():
        connection.writer.write_eof()
    await asyncio.wait_for(connection.reader.read(), 5)
    connection.writer.close()
    (answer,) = await server.exchange(get("/redfish", CLOSE))
    assert answer.status == 200
