"""Server-sent events on real connections, with a clock that is moved by hand."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from bmcsim.fleet.events import Hub
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import HISTORY, Event
from bmcsim.machine.faults import Rules
from bmcsim.redfish.injection import rule_of
from tests.conftest import basic
from tests.unit.edges.conftest import CLOSE, FIRST, SYSTEM, Answer, Connection, Server, get, send, serving

STREAM = "/redfish/v1/EventService/SSE"
SUBSCRIPTIONS = "/redfish/v1/EventService/Subscriptions"
LAST_CHUNK = b"0\r\n\r\n"
OPEN = get(STREAM)
OPEN_BY_SLOW_LANE = send("GET", STREAM, b"{}", chunked=True)
LARGE = "x" * 60_000

both_lanes = pytest.mark.parametrize("request_", [OPEN, OPEN_BY_SLOW_LANE], ids=["fast", "slow"])


class Streams:
    """A server whose BMCs tell events."""

    def __init__(self, server: Server) -> None:
        self.server, self.hub = server, Hub(server.context.clock)
        server.context.driver.emit = self.hub.emit

    @property
    def bmc(self) -> Bmc:
        bmc = self.server.context.fleet.by_address(FIRST)
        assert bmc is not None
        return bmc

    @property
    def open(self) -> int:
        """How many streams there are, as the metrics have it."""
        feed, counted = self.bmc.feed, self.server.context.metrics.streams
        assert counted == (len(feed.streams) if feed is not None else 0)
        return counted

    def tell(self, text: str = "hello") -> None:
        self.hub.emit(self.bmc, Event("Alert", "Base.1.22.Success", text, 0.0))

    def pass_time(self, seconds: float, step: float = 2.0) -> None:
        """Let time pass with a sweep every `step` seconds, as the housekeeper does it."""
        for _ in range(int(seconds / step)):
            self.server.clock.advance(step)
            for connection in list(self.server.listener.server.server_state.connections):
                connection.sweep(self.server.clock.now().mono)

    async def begin(self, request: bytes = OPEN) -> tuple[Connection, Answer]:
        """An open stream and the head of its answer."""
        connection = await self.server.connect()
        connection.writer.write(request)
        return connection, await head_of(connection)


async def head_of(connection: Connection) -> Answer:
    async with asyncio.timeout(5):
        head = await connection.reader.readuntil(b"\r\n\r\n")
    return Answer(int(head.split(b" ")[1]), head, b"")


async def chunk(connection: Connection) -> bytes:
    async with asyncio.timeout(5):
        size = int((await connection.reader.readline()).strip(), 16)
        return (await connection.reader.readexactly(size + 2))[:-2]


async def rest(connection: Connection) -> bytes:
    async with asyncio.timeout(5):
        return await connection.reader.read()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


def messages(data: bytes) -> list[str]:
    """The messages of the events in a piece of a stream."""
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n") if line.startswith(b"data: ")]
    return [orjson.loads(line)["Events"][0]["Message"] for line in lines]


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    async with serving(None) as server:
        yield Streams(server)


def rules(streams: Streams, action: Any) -> None:
    moment = streams.server.clock.now()
    rule = {"id": "x", "selector": {"OdataId": STREAM}, "action": action}
    streams.bmc.become(moment, faults=Rules.of([rule_of(rule, moment.wall)]))
    streams.bmc.committed()


@both_lanes
async def test_events_come_in_chunks_and_the_connection_goes_on_after_the_end(
    streams: Streams, request_: bytes
) -> None:
    connection, head = await streams.begin(request_)
    assert (head.status, head.fields["transfer-encoding"]) == (200, "chunked")
    assert head.fields["content-type"] == "text/event-stream; charset=utf-8"
    assert "content-length" not in head.fields
    assert streams.open == 1
    streams.tell("one")
    streams.tell("two")
    data = await chunk(connection) + await chunk(connection)
    assert messages(data) == ["one", "two"]
    assert data.endswith(b"\n\n")
    (deleted,) = await streams.server.exchange(get(f"{SUBSCRIPTIONS}/SSE1", CLOSE, method="DELETE"))
    assert deleted.status == 204
    async with asyncio.timeout(5):
        assert await connection.reader.readexactly(len(LAST_CHUNK)) == LAST_CHUNK
    assert streams.open == 0
    streams.tell("three")
    connection.writer.write(get(SYSTEM))
    assert (await connection.answer()).status == 200


@pytest.mark.parametrize(
    "request_",
    [get(STREAM, CLOSE), OPEN.replace(b"HTTP/1.1", b"HTTP/1.0"), send("GET", STREAM, b"{}", CLOSE, chunked=True)],
    ids=["close", "http 1.0", "slow"],
)
async def test_a_connection_for_one_request_ends_with_its_stream(streams: Streams, request_: bytes) -> None:
    connection, head = await streams.begin(request_)
    assert head.fields["connection"] == "close"
    assert "transfer-encoding" not in head.fields
    streams.tell("one")
    await until(lambda: streams.open == 1)
    await streams.server.exchange(get(f"{SUBSCRIPTIONS}/SSE1", CLOSE, method="DELETE"))
    data = await rest(connection)
    assert messages(data) == ["one"]
    assert data.startswith(b"id: ")
    assert data.endswith(b"\n\n")


@both_lanes
async def test_a_heartbeat_comes_every_fifteen_seconds(streams: Streams, request_: bytes) -> None:
    connection, _ = await streams.begin(request_)
    for _ in range(20):
        streams.pass_time(4)
        streams.tell("x")  # Events put no heartbeat off.
    data = b"".join([await chunk(connection) for _ in range(25)])
    assert data.count(b":\n\n") == 5
    assert len(messages(data)) == 20


async def test_an_open_stream_is_never_idle(streams: Streams) -> None:
    connection, _ = await streams.begin()
    streams.pass_time(1000)
    assert not connection.reader.at_eof()
    assert streams.open == 1


async def stall(streams: Streams, connection: Connection) -> int:
    """Tell events until the server has to stop writing; how many."""
    told = 0
    while not any(one._write_paused for one in streams.server.listener.server.server_state.connections):
        streams.tell(LARGE)
        told += 1
        assert told < 2000
        await asyncio.sleep(0)
    return told


async def test_a_reader_that_stalls_is_closed_after_sixty_seconds_and_its_slot_is_free(streams: Streams) -> None:
    connection, _ = await streams.begin()
    connection.reader._transport.pause_reading()
    await stall(streams, connection)
    streams.pass_time(60)
    assert streams.open == 1
    streams.pass_time(4)
    await until(lambda: streams.open == 0)
    assert not streams.server.listener.server.server_state.connections


async def test_the_system_is_told_how_long_a_client_may_take_nothing(streams: Streams) -> None:
    await streams.begin()
    (protocol,) = streams.server.listener.server.server_state.connections
    sock = protocol.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


async def test_a_reader_that_goes_on_gets_what_it_missed(streams: Streams) -> None:
    connection, _ = await streams.begin(get(STREAM, CLOSE))
    connection.reader._transport.pause_reading()
    told = await stall(streams, connection)
    for n in range(HISTORY):
        streams.tell(f"missed {n}")
    connection.reader._transport.resume_reading()
    data = b""
    async with asyncio.timeout(20):
        while b"missed 49" not in data:
            data += await connection.reader.read(1 << 20)
    heard = messages(data[: data.rindex(b"\n\n") + 1])
    assert len(heard) == told + HISTORY
    assert heard[-HISTORY:] == [f"missed {n}" for n in range(HISTORY)]


async def test_a_reader_that_missed_more_than_is_kept_is_ended_and_told_when_it_comes_back(streams: Streams) -> None:
    connection, _ = await streams.begin(get(STREAM, CLOSE))
    connection.reader._transport.pause_reading()
    await stall(streams, connection)
    for n in range(HISTORY + 1):
        streams.tell(f"missed {n}")
    connection.reader._transport.resume_reading()
    async with asyncio.timeout(20):
        data = await connection.reader.read()
    assert b"missed" not in data
    last = data[data.rindex(b"id: ") + 4 :].split(b"\n")[0].decode()
    await until(lambda: streams.open == 0)
    again, _ = await streams.begin(get(STREAM, f"Last-Event-ID: {last}"))
    block = await chunk(again)
    assert b"EventBufferExceeded" in block
    assert messages(block)[1:] == [f"missed {n}" for n in range(1, HISTORY + 1)]


async def test_last_event_id_goes_on_behind_it(streams: Streams) -> None:
    connection, _ = await streams.begin()
    for text in ("one", "two", "three"):
        streams.tell(text)
    first = (await chunk(connection)).split(b"\n")[0].removeprefix(b"id: ").decode()
    connection.writer.transport.abort()
    again, _ = await streams.begin(get(STREAM, f"Last-Event-ID: {first}"))
    assert messages(await chunk(again)) == ["two", "three"]


async def test_a_filter_is_for_one_stream(streams: Streams) -> None:
    all_, _ = await streams.begin()
    some, _ = await streams.begin(get(STREAM + "?$filter=RegistryPrefix%20eq%20'Task'"))
    streams.tell("base")
    streams.hub.emit(streams.bmc, Event("Alert", "Task.1.0.New", "task", 0.0))
    assert messages(await chunk(some)) == ["task"]
    assert messages(await chunk(all_)) == ["base"]


@both_lanes
async def test_the_destination_is_there_as_long_as_the_client(streams: Streams, request_: bytes) -> None:
    connection, _ = await streams.begin(request_)
    await until(lambda: streams.open == 1)
    (answer,) = await streams.server.exchange(get(f"{SUBSCRIPTIONS}/SSE1", CLOSE))
    body = orjson.loads(answer.body)
    host, port = connection.writer.get_extra_info("sockname")
    assert (body["SubscriptionType"], body["Destination"]) == ("SSE", f"redfish-sse://{host}:{port}")
    connection.writer.close()
    await until(lambda: streams.open == 0)
    (answer,) = await streams.server.exchange(get(f"{SUBSCRIPTIONS}/SSE1", CLOSE))
    assert answer.status == 404
    streams.tell()


async def test_requests_before_and_behind_a_stream_keep_their_order(streams: Streams) -> None:
    connection, first = await streams.begin(get(SYSTEM) + OPEN + get("/redfish/v1/Chassis"))
    size = int(first.fields["content-length"])
    async with asyncio.timeout(5):
        await connection.reader.readexactly(size)
    assert (await head_of(connection)).fields["transfer-encoding"] == "chunked"
    streams.tell("one")
    assert messages(await chunk(connection)) == ["one"]
    await streams.server.exchange(get(f"{SUBSCRIPTIONS}/SSE1", CLOSE, method="DELETE"))
    async with asyncio.timeout(5):
        assert await connection.reader.readexactly(len(LAST_CHUNK)) == LAST_CHUNK
    assert orjson.loads((await connection.answer()).body)["@odata.id"] == "/redfish/v1/Chassis"


@both_lanes
async def test_a_server_that_stops_ends_streams_in_order(streams: Streams, request_: bytes) -> None:
    connection, _ = await streams.begin(request_)
    await until(lambda: streams.open == 1)
    for served in list(streams.server.listener.server.server_state.connections):
        served.shutdown()
    assert await rest(connection) == LAST_CHUNK
    assert streams.open == 0


async def test_a_reset_of_the_bmc_ends_its_streams(streams: Streams) -> None:
    connection, _ = await streams.begin(get(STREAM, CLOSE))
    await until(lambda: streams.open == 1)
    reset = "/redfish/v1/Managers/Bluefield_BMC/Actions/Manager.Reset"
    (answer,) = await streams.server.exchange(send("POST", reset, b'{"ResetType":"GracefulRestart"}', CLOSE))
    assert answer.status < 300
    await rest(connection)
    assert (streams.open, streams.bmc.feed) == (0, None)


async def test_a_fault_delays_a_stream(streams: Streams) -> None:
    rules(streams, {"Latency": {"mean": "50ms"}})
    loop = asyncio.get_running_loop()
    began = loop.time()
    connection, _ = await streams.begin()
    assert loop.time() - began >= 0.049  # uvloop counts in milliseconds
    streams.tell("one")
    assert messages(await chunk(connection)) == ["one"]


async def test_a_fault_that_closes_leaves_no_stream(streams: Streams) -> None:
    rules(streams, "Close")
    connection = await streams.server.connect()
    connection.writer.write(OPEN)
    assert await rest(connection) == b""
    assert streams.open == 0


@pytest.mark.parametrize("action", [{"Truncate": {"keep": 0.5}}, {"CloseAfter": {"bytes": 0}}])
async def test_faults_of_bodies_leave_a_stream_alone_which_has_none(streams: Streams, action: Any) -> None:
    rules(streams, action)
    connection, _ = await streams.begin()
    streams.tell("one")
    assert messages(await chunk(connection)) == ["one"]


@both_lanes
async def test_delayed_answers_open_no_more_streams_than_there_may_be(streams: Streams, request_: bytes) -> None:
    rules(streams, {"Latency": {"mean": "250ms"}})
    limit = streams.bmc.shared.behaviour.stream_limit
    connections = [await streams.server.connect() for _ in range(limit + 5)]
    for connection in connections:
        connection.writer.write(request_)
    heads = [await head_of(connection) for connection in connections]
    assert {head.status for head in heads} == {200}
    await until(lambda: len(streams.server.listener.server.server_state.connections) == limit)
    assert streams.open == limit


@both_lanes
@pytest.mark.parametrize("way", ["reset", "disabled"])
async def test_a_stream_that_may_not_be_any_more_after_a_delay_is_not_opened(
    streams: Streams, request_: bytes, way: str
) -> None:
    """Its connection closes without the end of a stream."""
    rules(streams, {"Latency": {"mean": "100ms"}})
    connection = await streams.server.connect()
    connection.writer.write(request_)
    await until(lambda: any(one._active for one in streams.server.listener.server.server_state.connections))
    bmc, moment = streams.bmc, streams.server.clock.now()
    if way == "reset":
        streams.server.context.driver.execute(bmc, bmc.reset_bmc(moment))
    else:
        bmc.change(bmc.tree.nodes["/redfish/v1/EventService"], {"ServiceEnabled": False}, moment)
    bmc.committed()
    received = await rest(connection)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.endswith(b"\r\n\r\n")
    assert LAST_CHUNK not in received
    assert streams.open == 0


async def test_shutdown_during_a_delay_opens_no_stream(streams: Streams) -> None:
    rules(streams, {"Latency": {"mean": "60s"}})
    connection = await streams.server.connect()
    connection.writer.write(OPEN)
    await until(lambda: any(one._active for one in streams.server.listener.server.server_state.connections))
    for served in list(streams.server.listener.server.server_state.connections):
        served.shutdown()
    assert (await rest(connection)).startswith(b"HTTP/1.1 200")
    assert streams.open == 0


async def test_a_client_that_leaves_during_a_delay_opens_no_stream(streams: Streams) -> None:
    rules(streams, {"Latency": {"mean": "30ms"}})
    connection = await streams.server.connect()
    connection.writer.write(OPEN)
    await until(lambda: any(one._active for one in streams.server.listener.server.server_state.connections))
    connection.writer.transport.abort()
    await until(lambda: not streams.server.listener.server.server_state.connections)
    await asyncio.sleep(0.04)
    assert streams.open == 0


async def test_events_of_a_change_that_could_not_be_stored_are_not_told(streams: Streams) -> None:
    """They are told once it is stored, and not before."""
    asked: list[Any] = []
    streams.server.context.commit = lambda bmc, done: asked.append((bmc, bmc.committed(), done))
    connection, _ = await streams.begin()
    for error, told in ((OSError("full"), 0), (None, 1)):
        client = await streams.server.connect()
        client.writer.write(send("PATCH", "/redfish/v1/EventService", b'{"DeliveryRetryAttempts":7}', CLOSE))
        await until(lambda: bool(asked))
        assert streams.hub.emitted == 0
        bmc, before, done = asked.pop()
        if error is not None:
            bmc.restore(before)
        done(error)
        assert (await client.answer()).status == (507 if error is not None else 204)
        assert streams.hub.emitted == told
    assert b"ResourceChanged" in await chunk(connection)


async def test_a_stream_of_an_account_whose_creation_could_not_be_stored_ends(streams: Streams) -> None:
    asked: list[Any] = []
    streams.server.context.commit = lambda bmc, done: asked.append((bmc, bmc.committed(), done))
    new = b'{"UserName":"bob","Password":"Secret-bob","RoleId":"ReadOnly"}'
    client = await streams.server.connect()
    client.writer.write(send("POST", "/redfish/v1/AccountService/Accounts", new))
    await until(lambda: bool(asked))
    theirs = f"Authorization: {basic('bob', 'Secret-bob').decode()}"
    connection, head = await streams.begin(get(STREAM, theirs, auth=False))
    assert (head.status, streams.open) == (200, 1)
    bmc, before, done = asked.pop()
    bmc.restore(before)
    done(OSError("full"))
    assert (await client.answer()).status == 507
    assert streams.open == 0
    assert (await connection.reader.readexactly(len(LAST_CHUNK))) == LAST_CHUNK
