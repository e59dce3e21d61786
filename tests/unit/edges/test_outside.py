"""What is served beside BMCs at the Redfish port: which requests it gets, and what they cost the others."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.unit.edges.conftest import CLOSE, SECOND, SYSTEM, Server, get, send
from tests.unit.edges.test_forwarding import TO_FAR, Pair, pair, serial

__all__ = ["pair"]

ASIDE = "/aside"


class Aside:
    """Serves one path, and says what it was asked. asked: the paths that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def at(self, path: str) -> ASGIApp | None:
        self.asked.append(path)
        return self._serve if path == ASIDE else None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        if request.query_params.get("fail"):
            raise RuntimeError("a secret")
        await PlainTextResponse(f"{request.method} {request.url.query} {body.decode()}")(scope, receive, send)


@pytest.fixture
def aside(server: Server) -> Aside:
    made = Aside()
    server.context.outside = made.at
    return made


async def test_its_path_wins_whatever_bmc_is_meant(server: Server, aside: Aside) -> None:
    for host in ("127.64.0.2", SECOND, "nobody.example"):
        (answer,) = await server.exchange(get(ASIDE + "?a=b", CLOSE, host=host, auth=False))
        assert (answer.status, answer.body) == (200, b"GET a=b ")
        assert "date" in answer.fields
        assert answer.fields["connection"] == "close"
    assert aside.asked == [ASIDE] * 3


async def test_it_gets_whole_bodies_of_any_framing(server: Server, aside: Aside) -> None:
    for chunked in (False, True):
        (answer,) = await server.exchange(send("POST", ASIDE, b"x" * 100_000, CLOSE, chunked=chunked))
        assert answer.body == b"POST  " + b"x" * 100_000
    answers = await server.exchange(send("POST", ASIDE, b"{}", CLOSE, "Expect: 100-continue"))
    assert [answer.status for answer in answers] == [100, 200]
    assert set(aside.asked) == {ASIDE}


async def test_a_body_that_is_too_large_is_refused(server: Server, aside: Aside) -> None:
    (answer,) = await server.exchange(send("POST", ASIDE, b"x" * (2 * 1024 * 1024 + 1), chunked=True))
    assert answer.status == 413
    assert aside.asked == [ASIDE]


async def test_requests_below_redfish_never_ask(server: Server, aside: Aside) -> None:
    await server.exchange(get(SYSTEM) + get("/redfish/v1/Nope") + send("PATCH", SYSTEM, b"{}", CLOSE))
    assert aside.asked == []
    (answer,) = await server.exchange(get("/elsewhere", CLOSE))
    assert (answer.status, aside.asked) == (404, ["/elsewhere"])


async def test_a_header_block_that_is_known_does_not_hide_it(server: Server, aside: Aside) -> None:
    connection = await server.connect()
    for path, status in ((SYSTEM, 200), (ASIDE, 200), (SYSTEM, 200), (ASIDE, 200)):
        connection.writer.write(get(path))
        assert (await connection.answer()).status == status
    assert aside.asked == [ASIDE, ASIDE]
    connection.writer.close()


async def test_a_failure_of_it_is_500_without_its_text(server: Server, aside: Aside) -> None:
    (answer,) = await server.exchange(get(ASIDE + "?fail=1"))
    assert (answer.status, b"secret" in answer.body) == (500, False)
    assert (await server.exchange(get(SYSTEM, CLOSE)))[0].status == 200


async def test_what_is_pipelined_stays_in_order(server: Server, aside: Aside) -> None:
    stream = get(ASIDE) + get(SYSTEM) + send("POST", ASIDE, b"{}") + get(SYSTEM) + get(ASIDE, CLOSE)
    answers = await server.exchange(stream)
    assert [answer.fields["content-type"].split(";")[0].rpartition("/")[2] for answer in answers] == [
        "plain", "json", "plain", "json", "plain",
    ]  # fmt: skip
    assert aside.asked == [ASIDE] * 3


async def test_a_client_that_goes_away_leaves_nothing(server: Server, aside: Aside) -> None:
    connection = await server.connect()
    connection.writer.write(send("POST", ASIDE, b"x" * 100_000)[:-50_000])
    async with asyncio.timeout(5):
        while not server.shared.tasks:
            await asyncio.sleep(0.001)
        connection.writer.transport.abort()
        while server.shared.tasks or server.shared.connections:
            await asyncio.sleep(0.001)
    assert aside.asked == [ASIDE]


async def test_the_shard_that_is_asked_serves_it_itself(pair: Pair) -> None:
    """Also where the header block is known to name a BMC of another shard."""
    near, far = Aside(), Aside()
    pair.near.context.outside, pair.far.context.outside = near.at, far.at
    connection = await pair.near.connect()
    serials = []
    for path in (SYSTEM, SYSTEM, ASIDE, SYSTEM, ASIDE):
        connection.writer.write(get(path, TO_FAR))
        answer = await connection.answer()
        assert answer.status == 200
        if path == SYSTEM:
            serials.append(serial(answer))
        else:
            assert answer.body == b"GET  "
    assert len(set(serials)) == 1
    assert (near.asked, far.asked) == ([ASIDE, ASIDE], [])
    connection.writer.close()
