"""Requests for BMCs of another shard: two shards in one process, asked by one connection."""

import asyncio
import hashlib
import itertools
import os
import socket
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.edges.http import forwarding
from bmcsim.edges.http.forwarding import (
    CLOSE,
    DATA,
    MOST_DATA,
    ForwardingError,
    Peers,
    frame,
    frames,
    names_of,
    open_named,
    open_unnamed,
    request_head,
)
from bmcsim.edges.http.lanes import Desk
from bmcsim.fleet.events import Hub
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import Event
from bmcsim.redfish import service
from bmcsim.redfish.events import HEARTBEAT
from bmcsim.redfish.exchange import DROP, Delivery, Request
from tests.unit.edges.conftest import CLOSE as CLOSING
from tests.unit.edges.conftest import FIRST, SECOND, SYSTEM, Server, get, send, serving
from tests.unit.edges.test_delivery import Deliveries, deliveries
from tests.unit.edges.test_streaming import OPEN, chunk, head_of, messages, until
from tests.unit.edges.test_uploads import MIB, PUSH, Pushes, post, pushes

__all__ = ["deliveries", "pushes"]

BOOT = b'{"Boot":{"BootSourceOverrideTarget":"Pxe"}}'
TO_FAR = f"Forwarded: host={SECOND}"


class Pair:
    """Two shards: `near` has FIRST and is asked, `far` has SECOND."""

    def __init__(self, near: Server, far: Server, socks: list[socket.socket]) -> None:
        self.near, self.far = near, far
        names = names_of(socks)
        self.desks = []
        for number, (server, other) in enumerate(((near, SECOND), (far, FIRST)), 1):
            server.context.fleet.elsewhere = {other}
            numbers = {other: 3 - number}
            server.context.peers = Peers(numbers.get, names, number)
            self.desks.append(Desk(server.context, server.shared, socks[number - 1]))

    @property
    def bmc(self) -> Bmc:
        """The one of the far shard."""
        return cast(Bmc, self.far.context.fleet.by_address(SECOND))

    @property
    def lanes(self) -> list[Any]:
        """Connections of the far shard, which nobody has dialled."""
        return list(self.far.shared.connections)

    async def start(self) -> None:
        for desk, server in zip(self.desks, (self.near, self.far), strict=True):
            await desk.start()
            cast(Peers, server.context.peers).start()
        await until(lambda: all(desk.channels for desk in self.desks))

    async def stop(self) -> None:
        for desk, server in zip(self.desks, (self.near, self.far), strict=True):
            cast(Peers, server.context.peers).close()
            await desk.stop()
            desk.close()
        await asyncio.sleep(0)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    socks = open_unnamed(2)
    async with serving(None, [FIRST]) as near, serving(None, [SECOND]) as far:
        made = Pair(near, far, socks)
        await made.start()
        yield made
        await made.stop()
    for sock in socks:
        sock.close()


def serial(answer: Any) -> str:
    return cast(str, msgspec.json.decode(answer.body)["SerialNumber"])


# frames


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, CLOSE), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(0, 400), max_size=8),
)
def test_frames_come_as_they_were_sent_however_they_are_cut(
    sent: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    data = b"".join(frame(*one) for one in sent)
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    got, rest = [], b""
    for start, end in itertools.pairwise(bounds):
        found, rest = frames(rest + data[start:end])
        got += found
    assert (got, rest) == (sent, b"")


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    try:
        found, rest = frames(data)
    except ForwardingError:
        return
    assert b"".join(frame(*one) for one in found) + rest == data
    assert all(kind <= CLOSE for _, kind, _ in found)


def test_a_frame_has_its_limits() -> None:
    longest = frame(1, DATA, bytes(MOST_DATA))
    assert frames(longest + longest[:100]) == ([(1, DATA, bytes(MOST_DATA))], longest[:100])
    for bad in (frame(1, DATA, bytes(MOST_DATA + 1))[:9], frame(1, CLOSE + 1)):
        with pytest.raises(ForwardingError):
            frames(bad)


def test_a_request_head_leaves_out_what_is_about_the_connection() -> None:
    fields = {b"host": b"a", b"connection": b"upgrade", b"upgrade": b"h2c", b"x-auth-token": b"t"}
    assert request_head(b"GET", b"/x?y", fields, True) == b"GET /x?y HTTP/1.1\r\nhost: a\r\nx-auth-token: t\r\n\r\n"
    assert request_head(b"GET", b"/", {}, False) == b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n"


# requests


async def test_requests_for_both_shards_are_answered_in_their_order(pair: Pair) -> None:
    connection = await pair.near.connect()
    to_near = f"Forwarded: host={FIRST}"
    ways = [get(SYSTEM, host=FIRST), get(SYSTEM, host=SECOND), get(SYSTEM, TO_FAR), get(SYSTEM, to_near)]
    serials = []
    for way in ways * 3:
        connection.writer.write(way)
        serials.append(serial(await connection.answer()))
    first, second = serials[:2]
    assert first != second
    assert serials == [first, second, second, first] * 3
    connection.writer.write(b"".join(ways * 5))
    assert [serial(await connection.answer()) for _ in range(20)] == [first, second, second, first] * 5
    assert (pair.near.context.metrics.forwarded, pair.far.context.metrics.forwarded) == (16, 0)
    assert len(pair.lanes) == 1


@pytest.mark.parametrize(
    "request_",
    [
        get("/redfish/v1"),
        get("/redfish/v1/Nope"),
        get(SYSTEM, auth=False),
        get(SYSTEM, method="HEAD"),
        get(SYSTEM, method="OPTIONS"),
        get(SYSTEM + "?$select=Name"),
        get(SYSTEM, "Accept-Encoding: gzip"),
        get(SYSTEM, "If-None-Match: *"),
        get(SYSTEM, CLOSING),
        get(SYSTEM, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"),
        get(SYSTEM).replace(b"HTTP/1.1", b"HTTP/1.0"),
        get(f"http://{SECOND}:1{SYSTEM}"),
        get(f"http://{SECOND}:1"),
        get(SYSTEM, "Accept: text/html"),
        send("PATCH", SYSTEM, BOOT),
        send("PATCH", SYSTEM, BOOT, chunked=True),
        send("PATCH", SYSTEM, b"{nonsense"),
        send("PATCH", SYSTEM, b"{}", "Content-Type: text/plain"),
        send("POST", SYSTEM, b"x" * 70_000),
        send("PUT", SYSTEM, BOOT),
        get(SYSTEM, "Content-Length: 99999999", method="PATCH"),
        get(SYSTEM, "Transfer-Encoding: chunked", "Content-Type: application/json", method="PATCH") + b"zz\r\n",
    ],
)
async def test_an_answer_is_the_same_by_way_of_another_shard(pair: Pair, request_: bytes) -> None:
    if b"http://" not in request_:
        request_ = request_.replace(b"Host: " + FIRST.encode(), b"Host: " + SECOND.encode())
    asked = []
    for server, address in ((pair.far, SECOND), (pair.near, FIRST)):
        connection = await server.connect(address)
        connection.writer.write(request_)
        answer = await connection.answer("HEAD" if request_.startswith(b"HEAD") else "GET")
        closes = answer.fields.get("connection") == "close"
        asked.append((answer.head, answer.body, closes and await connection.closed()))
        if not closes:
            connection.writer.write(get(SYSTEM, host=SECOND))
            assert serial(await connection.answer())
    assert asked[0] == asked[1]
    assert not asked[0][0].startswith(b"HTTP/1.1 421")


async def test_a_change_is_made_where_the_bmc_is(pair: Pair) -> None:
    for chunked in (False, True):
        before = pair.bmc.state
        body = BOOT if chunked else BOOT.replace(b"Pxe", b"UefiHttp")
        request = send("PATCH", SYSTEM, body, TO_FAR, chunked=chunked)
        connection = await pair.near.connect()
        for byte in request:
            connection.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await connection.answer()).status == 204
        assert pair.bmc.state is not before


async def test_a_body_waits_to_be_asked_for(pair: Pair) -> None:
    connection = await pair.near.connect()
    request = send("PATCH", SYSTEM, BOOT, TO_FAR, "Expect: 100-continue")
    connection.writer.write(get(SYSTEM) + request[: -len(BOOT)])
    assert [(await connection.answer()).status for _ in range(2)] == [200, 100]
    connection.writer.write(BOOT)
    assert (await connection.answer()).status == 204


async def test_who_is_dialled_and_who_asks_are_known_there(pair: Pair) -> None:
    connection = await pair.near.connect()
    connection.writer.write(get(SYSTEM, TO_FAR))
    await connection.answer()
    (lane,) = pair.lanes
    own = connection.writer.get_extra_info("sockname")
    assert lane.dialled == FIRST
    assert tuple(lane.transport.get_extra_info("peername")) == tuple(own)
    assert lane.transport.get_extra_info("sslcontext") is None


async def test_a_lane_ends_with_its_client_and_rests_as_long(pair: Pair) -> None:
    connection = await pair.near.connect()
    connection.writer.write(get(SYSTEM, TO_FAR))
    await connection.answer()
    (lane,) = pair.lanes
    lane.sweep(lane.last_active + 10_000)
    assert not lane.transport.is_closing()
    connection.writer.transport.abort()
    await until(lambda: not pair.lanes)


async def test_what_another_shard_hands_over_by_mistake_is_421_and_goes_no_further(pair: Pair) -> None:
    """Each thinks that the other has the BMC."""
    pair.near.context.fleet.elsewhere = pair.far.context.fleet.elsewhere = {"127.64.0.9"}
    for server, number in ((pair.near, 2), (pair.far, 1)):
        cast(Peers, server.context.peers)._number_of = {"127.64.0.9": number}.get
    connection = await pair.near.connect()
    for _ in range(3):
        connection.writer.write(get(SYSTEM, "Forwarded: host=127.64.0.9"))
        assert (await connection.answer()).status == 421
    assert pair.far.context.metrics.forwarded == 0


# closed connections


@pytest.mark.parametrize("body", [False, True])
async def test_a_bmc_in_reset_closes_after_what_is_owed_to_others(pair: Pair, body: bool) -> None:
    asked = send("PATCH", SYSTEM, BOOT, TO_FAR) if body else get(SYSTEM, TO_FAR)
    connection = await pair.near.connect()
    connection.writer.write(get(SYSTEM, TO_FAR))
    assert (await connection.answer()).status == 200
    pair.bmc.reset_bmc(pair.far.clock.now())
    connection.writer.write(get(SYSTEM) + get(SYSTEM) + asked + get(SYSTEM))
    assert [answer.status for answer in await connection.answers()] == [200, 200]


async def test_a_dropped_answer_is_a_closed_connection(pair: Pair, deliveries: Deliveries) -> None:
    deliveries.answers[SYSTEM + "/Bios"] = DROP
    answers = await pair.near.exchange(get(SYSTEM) + get(SYSTEM, TO_FAR) + get(SYSTEM + "/Bios", TO_FAR) + get(SYSTEM))
    assert len(answers) == 2


async def test_a_delayed_answer_keeps_its_place(pair: Pair, deliveries: Deliveries) -> None:
    deliveries.answers[SYSTEM + "/Bios"] = Delivery(delay=0.05)
    connection = await pair.near.connect()
    connection.writer.write(get(SYSTEM + "/Bios", TO_FAR) + get(SYSTEM) + get(SYSTEM, TO_FAR))
    first, second, third = [await connection.answer() for _ in range(3)]
    assert b'/Bios"' in first.body
    assert len({serial(second), serial(third)}) == 2


async def test_without_the_other_shard_connections_close_until_it_is_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, deliveries: Deliveries
) -> None:
    monkeypatch.setattr(forwarding, "_AGAIN_SECONDS", 0.001)
    deliveries.answers[SYSTEM + "/Bios"] = Delivery(delay=60)
    waiting, resting = await pair.near.connect(), await pair.near.connect()
    resting.writer.write(get(SYSTEM, TO_FAR))
    await resting.answer()
    waiting.writer.write(get(SYSTEM + "/Bios", TO_FAR))
    await until(lambda: len(pair.lanes) == 2)
    desk = pair.desks[1]
    desk.stopping = True
    desk.close()
    assert await waiting.closed()
    assert not pair.lanes
    assert (await pair.near.exchange(get(SYSTEM, TO_FAR))) == []
    desk.stopping = False
    await until(lambda: bool(desk.channels))
    resting.writer.write(get(SYSTEM) + get(SYSTEM, TO_FAR))
    assert [(await resting.answer()).status for _ in range(2)] == [200, 200]


async def test_while_the_other_shard_is_built_connections_close(pair: Pair) -> None:
    pair.far.context.fleet.ready = False
    pair.far.context.fleet._by_address.clear()
    assert await pair.near.exchange(get(SYSTEM, TO_FAR)) == []


async def test_bytes_that_are_no_frames_end_the_channel_and_nothing_else(pair: Pair) -> None:
    (channel,) = pair.desks[1].channels
    assert channel.transport is not None
    channel.transport.write(b"\xff" * 20)
    await until(lambda: channel not in pair.desks[1].channels)
    (answer,) = await pair.near.exchange(get(SYSTEM, CLOSING))
    assert answer.status == 200


# bodies and streams


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_upload_passes_through(pair: Pair, pushes: Pushes, chunked: bool) -> None:
    size, block = 12 * MIB, bytes(range(256)) * 256
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    connection = await pair.near.connect()
    tracemalloc.start()
    try:
        connection.writer.write(get(SYSTEM) + get(SYSTEM, TO_FAR) + post(PUSH, framing, TO_FAR))
        for _ in range(size // len(block)):
            connection.writer.write(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
            await asyncio.wait_for(connection.writer.drain(), 5)
        connection.writer.write((b"0\r\n\r\n" if chunked else b"") + get(SYSTEM))
        assert [(await connection.answer()).status for _ in range(4)] == [200, 200, 202, 200]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pushes.upload.digest == hashlib.sha256(block * (size // len(block))).hexdigest()
    assert peak < 8 * MIB


async def test_an_upload_that_is_not_read_is_held_back(
    pair: Pair, pushes: Pushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The far shard reads nothing of the body: but for what uvloop reads in a turn, 2 MiB, it stays with the client."""
    go_on = asyncio.Event()

    async def stalled(*_: Any) -> Any:
        await go_on.wait()

    monkeypatch.setattr(pair.far.shared, "app", stalled)
    connection = await pair.near.connect()
    connection.writer.write(post(PUSH, f"Content-Length: {20 * MIB}", TO_FAR))
    connection.writer.write(bytes(20 * MIB))
    (near,) = pair.near.shared.connections
    await until(lambda: near.flow.read_paused)
    await asyncio.sleep(0.05)
    (lane,) = pair.lanes
    assert len(lane._cycle.body) < 6 * MIB
    near.pause_writing()
    near.resume_writing()
    assert near.flow.read_paused
    connection.writer.transport.abort()
    go_on.set()
    await until(lambda: not pair.lanes)


async def test_an_upload_is_refused_before_its_body(pair: Pair, pushes: Pushes) -> None:
    answers = await pair.near.exchange(
        get(SYSTEM) + post(PUSH, "Content-Length: 99", TO_FAR, auth=False) + bytes(50) + get(SYSTEM)
    )
    assert [answer.status for answer in answers] == [200, 401]


async def test_a_body_that_breaks_off_is_refused_there_in_time(pair: Pair, pushes: Pushes) -> None:
    connection = await pair.near.connect()
    connection.writer.write(post(PUSH, "Content-Length: 99", TO_FAR) + b"half")
    await until(lambda: bool(pair.lanes) and pair.lanes[0]._cycle is not None)
    (lane,) = pair.lanes
    for connected in (*pair.near.shared.connections, lane):
        connected.sweep(lane.last_active + 61)
    assert [answer.status for answer in await connection.answers()] == [408]


async def test_events_are_streamed_until_the_bmc_or_the_client_ends_it(pair: Pair) -> None:
    hub = Hub(pair.far.context.clock)
    pair.far.context.driver.emit = hub.emit
    opening = OPEN.replace(b"\r\n", f"\r\n{TO_FAR}\r\n".encode(), 1)
    connection = await pair.near.connect()
    connection.writer.write(opening)
    assert (await head_of(connection)).status == 200
    await until(lambda: pair.far.context.metrics.streams == 1)
    for text in ("one", "two"):
        hub.emit(pair.bmc, Event("Alert", "Base.1.22.Success", text, 0.0))
        assert messages(await chunk(connection)) == [text]
    (near,) = pair.near.shared.connections
    near.sweep(near.last_active + 10_000)
    sock = near.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
    (lane,) = pair.lanes
    near.pause_writing()
    await until(lambda: lane._streaming.paused)
    near.resume_writing()
    await until(lambda: not lane._streaming.paused)
    pair.far.clock.advance(20)
    lane.sweep(pair.far.clock.now().mono)
    assert await chunk(connection) == HEARTBEAT
    near.shutdown()
    async with asyncio.timeout(5):
        await connection.reader.read()
    assert pair.far.context.metrics.streams == 0
    other = await pair.near.connect()
    other.writer.write(opening)
    await head_of(other)
    await until(lambda: pair.far.context.metrics.streams == 1)
    other.writer.transport.abort()
    await until(lambda: pair.far.context.metrics.streams == 0)


async def test_a_client_that_does_not_read_pauses_the_other_shard(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = service.handle

    def long(bmc: Bmc, request: Request) -> Any:
        return msgspec.structs.replace(handle(bmc, request), body=bytes(30 * MIB))

    monkeypatch.setattr(service, "handle", long)
    connection = await pair.near.connect()
    connection.writer.write(get(SYSTEM + "?x=1", TO_FAR))
    await until(lambda: bool(pair.near.shared.connections))
    (near,) = pair.near.shared.connections
    await until(lambda: near._write_paused and near._active is None)
    monkeypatch.undo()
    connection.writer.write(get(SYSTEM, TO_FAR) + get(SYSTEM))
    assert len((await connection.answer()).body) == 30 * MIB
    assert [(await connection.answer()).status for _ in range(2)] == [200, 200]
    (lane,) = pair.lanes
    assert not lane._write_paused


# sockets


def test_a_named_socket_is_for_its_user_alone_and_taken_once(tmp_path: Path) -> None:
    path = tmp_path / "peers" / "shard-1-of-2.sock"
    first = open_named(path)
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    with pytest.raises(ForwardingError, match="another process serves this shard"):
        open_named(path)
    first.close()
    open_named(path).close()
    with pytest.raises(ForwardingError, match="must be a directory that this user may write to"):
        open_named(path / "x.sock")
    with pytest.raises(ForwardingError, match="too long"):
        open_named(tmp_path / ("x" * 120))
    path.unlink()
    path.write_text("somebody's")
    with pytest.raises(ForwardingError, match="is no socket, and is not replaced"):
        open_named(path)
    assert path.read_text() == "somebody's"


async def test_another_user_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    (name,) = [desk._sock.getsockname() for desk in pair.desks[1:]]
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(name)
        stranger.setblocking(False)
        async with asyncio.timeout(5):
            assert await asyncio.get_running_loop().sock_recv(stranger, 1) == b""


@pytest.mark.parametrize("seed", range(12))
async def test_however_requests_are_mixed_and_cut_the_answers_are_in_order(
    pair: Pair, deliveries: Deliveries, seed: int
) -> None:
    """To both shards: what is known, what is parsed, with bodies in both framings, and answers that take their time."""
    random = Random(seed)
    deliveries.answers[SYSTEM + "/Bios"] = Delivery(delay=0.002)
    kinds = {
        "system": (get(SYSTEM, "{}"), b"SerialNumber"),
        "bios": (get(SYSTEM + "/Bios", "{}"), b'/Bios"'),
        "missing": (get("/redfish/v1/Nope", "{}"), b"ResourceMissing"),
        "change": (send("PATCH", SYSTEM, BOOT, "{}"), b""),
        "chunks": (send("PATCH", SYSTEM, BOOT, "{}", chunked=True), b""),
    }
    first = {}
    for host in (FIRST, SECOND):
        (answer,) = await pair.near.exchange(get(SYSTEM, f"Forwarded: host={host}", CLOSING))
        first[host] = serial(answer)
    asked = [(random.choice(list(kinds)), random.choice((FIRST, SECOND))) for _ in range(40)]
    data = b"".join(kinds[kind][0].replace(b"{}", f"Forwarded: host={host}".encode(), 1) for kind, host in asked)
    connection = await pair.near.connect()

    async def write() -> None:
        start = 0
        while start < len(data):
            end = start + random.choice((1, 7, 100, 1000, 5000))
            connection.writer.write(data[start:end])
            await asyncio.sleep(random.choice((0, 0, 0.001)))
            start = end

    writing = asyncio.create_task(write())
    for kind, host in asked:
        answer = await connection.answer()
        if kind == "system":
            assert serial(answer) == first[host]
        else:
            assert (answer.status, kinds[kind][1] in answer.body) == (
                {"bios": 200, "missing": 404}.get(kind, 204),
                True,
            )
    await writing
    assert pair.near.context.metrics.forwarded > 0
