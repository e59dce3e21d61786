"""Answers that wait for a commit or a delay, drip or stop halfway: order, refusals, and clients that go away."""

import asyncio
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.edges.http import delivery, protocol
from bmcsim.edges.http.delivery import Outgoing
from bmcsim.edges.http.protocol import Cycle, RedfishProtocol
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import service
from bmcsim.redfish.exchange import DROP, Delivery, Request, Response
from bmcsim.redfish.service import BodyPlan
from tests.unit.edges.conftest import CLOSE, FIRST, SECOND, SYSTEM, Connection, Server, get, send

CHASSIS = "/redfish/v1/Chassis"
BOOT = b'{"Boot":{"BootSourceOverrideTarget":"Pxe"}}'
Done = Callable[[BaseException | None], None]


class Deliveries:
    """What the service says of how answers are delivered; else it is the real one. Keys are paths."""

    def __init__(self) -> None:
        self.answers: dict[str, Delivery] = {}
        self.refusals: dict[str, Response] = {}


@pytest.fixture
def deliveries(monkeypatch: pytest.MonkeyPatch) -> Deliveries:
    """Put deliveries into the answers of the service."""
    made = Deliveries()
    handle, admit = service.handle, service.admit

    def scripted(bmc: Bmc, request: Request) -> Response:
        response = handle(bmc, request)
        if request.path in made.answers:
            response = msgspec.structs.replace(response, delivery=made.answers[request.path])
        return response

    def refusing(bmc: Bmc, request: Request, length: int | None) -> Response | BodyPlan:
        refusal = made.refusals.get(request.path)
        return refusal if refusal is not None else admit(bmc, request, length)

    monkeypatch.setattr(service, "handle", scripted)
    monkeypatch.setattr(protocol, "handle", scripted)
    monkeypatch.setattr(protocol, "plain_get", lambda *_: None)
    monkeypatch.setattr(service, "admit", refusing)
    return made


class Commits:
    """A store whose commits end when a test says so. executed: the BMCs whose actions were."""

    def __init__(self, server: Server) -> None:
        self.asked: list[tuple[Bmc, Any, Done]] = []
        self.executed: list[Bmc] = []
        execute = server.context.driver.execute

        def recorded(bmc: Bmc, actions: Any) -> None:
            self.executed.append(bmc)
            execute(bmc, actions)

        server.context.driver.execute = recorded  # type: ignore[method-assign]
        server.context.commit = self.commit

    def commit(self, bmc: Bmc, done: Done) -> None:
        self.asked.append((bmc, bmc.committed(), done))

    async def one(self) -> tuple[Bmc, Any, Done]:
        """The next commit that is asked for."""
        async with asyncio.timeout(5):
            while not self.asked:
                await asyncio.sleep(0.005)
        return self.asked.pop(0)

    async def succeed(self) -> None:
        (await self.one())[2](None)

    async def fail(self) -> None:
        """The store undoes the change before it tells."""
        bmc, before, done = await self.one()
        bmc.restore(before)
        done(OSError("disk full"))


def patch(path: str = SYSTEM, *fields: str, slow: bool = False) -> bytes:
    """A request that changes something."""
    return send("PATCH", path, BOOT, *fields, chunked=slow)


async def silent(connection: Connection, seconds: float = 0.05) -> bool:
    """Whether nothing comes for a while."""
    try:
        await asyncio.wait_for(connection.reader.readexactly(1), seconds)
    except TimeoutError:
        return True
    return False


# order


@pytest.mark.parametrize("slow", [False, True])
async def test_later_requests_wait_for_a_commit(server: Server, slow: bool) -> None:
    commits = Commits(server)
    connection = await server.connect()
    connection.writer.write(patch(slow=slow) + get(CHASSIS) + patch() + get(SYSTEM))
    commit = await commits.one()
    assert await silent(connection)
    assert commits.executed == []
    commit[2](None)
    assert (await connection.answer()).status == 204
    assert orjson.loads((await connection.answer()).body)["@odata.id"] == CHASSIS
    await commits.succeed()
    assert (await connection.answer()).status == 204
    assert orjson.loads((await connection.answer()).body)["Boot"]["BootSourceOverrideTarget"] == "Pxe"
    assert commits.executed == [commit[0]] * 2


@pytest.mark.parametrize("slow", [False, True])
async def test_later_requests_wait_for_a_delay(server: Server, deliveries: Deliveries, slow: bool) -> None:
    deliveries.answers[SYSTEM] = Delivery(delay=0.1)
    began = asyncio.get_running_loop().time()
    answers = await server.exchange(patch(slow=slow) + get(CHASSIS) + get(SYSTEM) + patch(CHASSIS, CLOSE, slow=slow))
    assert [answer.status for answer in answers] == [204, 200, 200, 405]
    assert asyncio.get_running_loop().time() - began >= 0.19


async def test_a_known_get_is_delivered_like_any_other(server: Server, deliveries: Deliveries) -> None:
    connection = await server.connect()
    connection.writer.write(get(SYSTEM))
    plain = (await connection.answer()).body
    deliveries.answers[SYSTEM] = Delivery(delay=0.05)
    began = asyncio.get_running_loop().time()
    connection.writer.write(get(SYSTEM))
    await asyncio.sleep(0.01)
    connection.writer.write(get(CHASSIS))
    assert (await connection.answer()).body == plain
    assert asyncio.get_running_loop().time() - began >= 0.04
    assert orjson.loads((await connection.answer()).body)["@odata.id"] == CHASSIS
    deliveries.answers[SYSTEM] = DROP
    connection.writer.write(get(SYSTEM))
    assert await connection.closed()


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("how", [DROP, Delivery(delay=0.05, keep=0)])
async def test_a_drop_first_delivers_what_is_owed_to_others(
    server: Server, deliveries: Deliveries, slow: bool, how: Delivery
) -> None:
    commits = Commits(server)
    deliveries.answers[CHASSIS] = how
    connection = await server.connect()
    connection.writer.write(
        patch() + get(SYSTEM, host=SECOND) + send("POST", CHASSIS, b"{}", chunked=slow) + get(SYSTEM)
    )
    await commits.one()
    assert await silent(connection)
    server.context.commit = None
    # A second connection is not held up by the first.
    assert len(await server.exchange(get(SYSTEM, CLOSE))) == 1
    connection.writer.close()

    answers = await server.exchange(
        patch() + get(SYSTEM, host=SECOND) + send("POST", CHASSIS, b"{}", chunked=slow) + get(SYSTEM)
    )
    assert [answer.status for answer in answers] == [204, 200]
    assert server.context.metrics.dropped == 1


async def test_many_answers_at_once_do_not_run_deep(server: Server, deliveries: Deliveries) -> None:
    """Each is committed at once, while those before it are still being drained."""
    deliveries.answers[CHASSIS] = Delivery(delay=0.05)
    answers = await server.exchange(get(CHASSIS) + patch() * 200 + get(SYSTEM, CLOSE))
    assert [answer.status for answer in answers] == [200, *[204] * 200, 200]


async def test_a_body_is_asked_for_in_its_turn(server: Server, deliveries: Deliveries) -> None:
    """A client may wait for 100 without end, so it comes once the answers before it are out."""
    deliveries.answers[CHASSIS] = Delivery(delay=0.05)
    connection = await server.connect()
    head, _, body = patch(SYSTEM, "Expect: 100-continue").partition(b"\r\n\r\n")
    connection.writer.write(get(CHASSIS) + head + b"\r\n\r\n")
    assert [(await connection.answer()).status for _ in range(2)] == [200, 100]
    connection.writer.write(body)
    assert (await connection.answer()).status == 204


# commits


@pytest.mark.parametrize("slow", [False, True])
async def test_a_change_that_cannot_be_stored_is_507_and_undone(server: Server, slow: bool) -> None:
    commits = Commits(server)
    connection = await server.connect()
    connection.writer.write(get(SYSTEM))
    before = (await connection.answer()).body
    connection.writer.write(patch(slow=slow))
    await commits.fail()
    refused = await connection.answer()
    assert refused.status == 507
    assert orjson.loads(refused.body)["error"]["code"].endswith(".InsufficientStorage")
    connection.writer.write(get(SYSTEM))
    assert (await connection.answer()).body == before
    assert commits.executed == []


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("error", [None, OSError("disk full")])
async def test_a_commit_may_end_at_once(server: Server, slow: bool, error: OSError | None) -> None:
    def commit(bmc: Bmc, done: Done) -> None:
        bmc.committed()
        done(error)

    server.context.commit = commit
    answers = await server.exchange(patch(slow=slow) + get(SYSTEM, CLOSE))
    assert [answer.status for answer in answers] == [507 if error else 204, 200]


@pytest.mark.parametrize("slow", [False, True])
async def test_without_a_state_directory_nothing_stays_uncommitted(server: Server, slow: bool) -> None:
    await server.exchange(patch(SYSTEM, CLOSE, slow=slow))
    bmc = server.context.fleet.by_address(FIRST)
    assert bmc is not None
    assert bmc.uncommitted is None


@pytest.mark.parametrize("slow", [False, True])
async def test_a_change_takes_effect_although_its_client_is_gone(server: Server, slow: bool) -> None:
    commits = Commits(server)
    connection = await server.connect()
    connection.writer.write(patch(slow=slow) + get(SYSTEM))
    bmc, _, done = await commits.one()
    connection.writer.transport.abort()
    await nobody_is_connected(server)
    done(None)
    assert commits.executed == [bmc]
    await asyncio.sleep(0)
    assert not server.listener.server.server_state.tasks


@pytest.mark.parametrize("slow", [False, True])
async def test_a_delay_comes_after_the_commit_and_also_to_a_507(
    server: Server, deliveries: Deliveries, slow: bool
) -> None:
    commits = Commits(server)
    deliveries.answers[SYSTEM] = Delivery(delay=0.1)
    connection = await server.connect()
    connection.writer.write(patch(slow=slow))
    await commits.fail()
    assert await silent(connection)
    assert (await connection.answer()).status == 507


# clients that go away, servers that stop


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("slow", [False, True])
async def test_a_closed_connection_is_freed_at_once(
    server: Server, deliveries: Deliveries, slow: bool, stays: bool
) -> None:
    """Whatever it owed, and without a garbage collection: at 13,500 connections that takes half a second."""
    server.context.commit = lambda bmc, done: (bmc.committed(), done(None))
    deliveries.answers[SYSTEM] = Delivery(delay=0.05, rate=100_000)
    gc.collect()
    gc.disable()
    try:
        connection = await server.connect()
        connection.writer.write(patch(SYSTEM, CLOSE, slow=slow))
        await asyncio.sleep(0.02)
        if stays:
            assert [answer.status for answer in await connection.answers()] == [204]
        connection.writer.transport.abort()
        await nobody_is_connected(server)
        await asyncio.sleep(0.01)
        left = [thing for thing in gc.get_objects() if isinstance(thing, RedfishProtocol | Cycle | Outgoing)]
    finally:
        gc.enable()
    assert not left


async def nobody_is_connected(server: Server) -> None:
    async with asyncio.timeout(5):
        while server.listener.server.server_state.connections:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("how", [Delivery(delay=60), Delivery(delay=60, keep=0), Delivery(rate=1)])
async def test_a_client_that_goes_takes_its_timer_with_it(
    server: Server, deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch, slow: bool, how: Delivery
) -> None:
    cancelled: list[Outgoing] = []
    cancel = Outgoing.cancel
    monkeypatch.setattr(Outgoing, "cancel", lambda self: (cancelled.append(self), cancel(self)))
    deliveries.answers[SYSTEM] = how
    connection = await server.connect()
    connection.writer.write(send("GET", SYSTEM, b"{}", chunked=slow))
    await asyncio.sleep(0.03)
    connection.writer.transport.abort()
    await nobody_is_connected(server)
    assert {outgoing._timer for outgoing in cancelled} == {None}
    await asyncio.sleep(0)
    assert not server.listener.server.server_state.tasks


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("how", [Delivery(delay=60), Delivery(rate=1)])
async def test_a_server_that_stops_gives_up_delays_but_no_answer(
    server: Server, deliveries: Deliveries, slow: bool, how: Delivery
) -> None:
    deliveries.answers[SYSTEM] = how
    connection = await server.connect()
    connection.writer.write(send("GET", SYSTEM, b"{}", chunked=slow))
    await asyncio.sleep(0.03)
    (served,) = server.listener.server.server_state.connections
    served.shutdown()
    answers = await connection.answers()
    assert [answer.status for answer in answers] == [200]
    assert orjson.loads(answers[0].body)["@odata.id"] == SYSTEM


@pytest.mark.parametrize("slow", [False, True])
async def test_a_server_that_stops_waits_for_a_commit(server: Server, slow: bool) -> None:
    commits = Commits(server)
    connection = await server.connect()
    connection.writer.write(patch(slow=slow))
    commit = await commits.one()
    (served,) = server.listener.server.server_state.connections
    served.shutdown()
    assert await silent(connection)
    commit[2](None)
    assert [answer.status for answer in await connection.answers()] == [204]


# bytes


@pytest.mark.parametrize(
    "how",
    [
        Delivery(delay=0.01),
        Delivery(keep=0),
        Delivery(keep=1),
        Delivery(keep=100),
        Delivery(keep=0, after_head=True),
        Delivery(keep=7, after_head=True),
        Delivery(keep=10**9),
        Delivery(rate=50_000),
        Delivery(0.01, 300, 5_000),
    ],
)
async def test_both_lanes_deliver_byte_for_byte_alike(server: Server, deliveries: Deliveries, how: Delivery) -> None:
    """And what they deliver is the beginning of what they would have sent at once."""
    replies = []
    for delivered in (None, how):
        if delivered is not None:
            deliveries.answers[SYSTEM] = delivered
        for slow in (False, True):
            connection = await server.connect()
            connection.writer.write(send("GET", SYSTEM, b"{}", chunked=slow))
            if delivered is None or delivered.keep is None:
                await asyncio.sleep(0.03)
                connection.writer.write(get("/redfish/v1/Nope", CLOSE))
            replies.append(await asyncio.wait_for(connection.reader.read(), 5))
            connection.writer.close()
    assert replies[0] == replies[1]
    whole = replies[0][: replies[0].index(b"HTTP/1.1 404")]
    expected = replies[0]
    if how.keep is not None:
        head = whole.index(b"\r\n\r\n") + 4 if how.after_head else 0
        expected = whole[: head + how.keep]
    assert replies[2:] == [expected, expected]


# refusals before the body


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_refusal_before_the_body_is_delivered_as_it_wants(
    server: Server, deliveries: Deliveries, chunked: bool
) -> None:
    deliveries.refusals[SYSTEM] = Response(503, b"Retry-After: 3\r\n", b"{}", delivery=Delivery(delay=0.1))
    began = asyncio.get_running_loop().time()
    answers = await server.exchange(get(CHASSIS) + patch(slow=chunked) + get(CHASSIS))
    assert [answer.status for answer in answers] == [200, 503]
    assert answers[1].fields["retry-after"] == "3"
    assert answers[1].fields["connection"] == "close"
    assert asyncio.get_running_loop().time() - began >= 0.09


async def test_a_refusal_waits_behind_others_and_may_be_a_drop(server: Server, deliveries: Deliveries) -> None:
    commits = Commits(server)
    deliveries.refusals[CHASSIS] = Response(503, b"", delivery=DROP)
    connection = await server.connect()
    connection.writer.write(patch() + patch(CHASSIS) + get(SYSTEM))
    commit = await commits.one()
    assert await silent(connection)
    commit[2](None)
    assert [answer.status for answer in await connection.answers()] == [204]
    assert server.context.metrics.dropped == 1


# slow clients


async def test_a_body_that_stops_coming_is_408(server: Server) -> None:
    for slow in (False, True):
        connection = await server.connect()
        connection.writer.write(patch(slow=slow)[:-10])
        await asyncio.sleep(0.03)
        (served,) = server.listener.server.server_state.connections
        served.sweep(server.clock.now().mono + 59)
        assert await silent(connection)
        served.sweep(server.clock.now().mono + 61)
        answer = await connection.answer()
        assert (answer.status, answer.fields["connection"]) == (408, "close")
        connection.writer.close()
        await nobody_is_connected(server)


@pytest.mark.parametrize("slow", [False, True])
async def test_a_body_that_trickles_is_408_in_the_end(server: Server, slow: bool) -> None:
    connection = await server.connect()
    connection.writer.write(patch(slow=slow)[:-20])
    for piece in b"".join(b"%c" % byte for byte in patch(slow=slow)[-20:-5]):
        await asyncio.sleep(0.01)
        (served,) = server.listener.server.server_state.connections
        served.sweep(server.clock.now().mono)
        server.clock.advance(50)
        connection.writer.write(bytes([piece]))
    await asyncio.sleep(0.01)
    served.sweep(server.clock.now().mono)
    assert (await connection.answer()).status == 408


async def test_waiting_for_others_does_not_count_as_slowness(server: Server) -> None:
    commits = Commits(server)
    for slow in (False, True):
        connection = await server.connect()
        connection.writer.write(patch() + patch(slow=slow)[:-10])
        commit = await commits.one()
        (served,) = server.listener.server.server_state.connections
        server.clock.advance(1000)
        served.sweep(server.clock.now().mono)
        commit[2](None)
        assert (await connection.answer()).status == 204
        served.sweep(server.clock.now().mono)
        connection.writer.write(patch(slow=slow)[-10:])
        await commits.succeed()
        assert (await connection.answer()).status == 204
        connection.writer.close()
        await nobody_is_connected(server)


# one answer, on a loop whose time is set by hand


class Loop:
    """Timers alone. They fire when `run` comes to them."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Callable[[], None], SimpleNamespace]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> SimpleNamespace:
        handle = SimpleNamespace()
        entry = (when, callback, handle)
        handle.cancel = lambda: self._timers.remove(entry) if entry in self._timers else None
        self._timers.append(entry)
        return handle

    def call_later(self, seconds: float, callback: Callable[[], None]) -> SimpleNamespace:
        return self.call_at(self.now + seconds, callback)

    def run(self, until: float) -> None:
        while due := [entry for entry in self._timers if entry[0] <= until]:
            entry = min(due, key=lambda one: one[0])
            self._timers.remove(entry)
            self.now = max(self.now, entry[0])
            entry[1]()
        self.now = until

    @property
    def idle(self) -> bool:
        return not self._timers


class Transport:
    """Keeps what is written, and when."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.written: list[tuple[float, bytes]] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append((self._loop.now, bytes(data)))

    def is_closing(self) -> bool:
        return self.closing

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.written)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(delivery, "asyncio", SimpleNamespace(get_running_loop=lambda: made))
    return made


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000


def begin(loop: Loop, how: Delivery | None) -> tuple[Outgoing, Transport, list[float]]:
    """An answer on its way, and the times at which it was over."""
    transport = Transport(loop)
    outgoing = Outgoing(transport, closes=False)  # type: ignore[arg-type]
    over: list[float] = []
    outgoing.begin(ANSWER, how, lambda: over.append(loop.now))
    return outgoing, transport, over


@pytest.mark.parametrize("rate", [1.0, 3.0, 19.0, 100.0, 12345.0])
def test_a_drip_keeps_its_rate(loop: Loop, rate: float) -> None:
    _, transport, over = begin(loop, Delivery(delay=2.0, rate=rate))
    loop.run(1.99)
    assert not transport.written
    loop.run(2.0 + len(ANSWER) / rate)
    assert transport.data == ANSWER
    tick = max(1, int(rate * 0.05))
    sent = 0
    for moment, data in transport.written:
        assert len(data) <= tick
        assert sent <= (moment - 2.0) * rate + 1e-6
        sent += len(data)
        assert sent >= min(len(ANSWER), (moment - 2.0) * rate - 1e-6)
    assert over == [transport.written[-1][0]]
    assert over[0] == pytest.approx(2.0 + len(ANSWER) / rate, abs=tick / rate + 1e-6)
    assert loop.idle


def test_a_drip_stops_when_the_transport_closes(loop: Loop) -> None:
    outgoing, transport, over = begin(loop, Delivery(rate=100))
    loop.run(1.0)
    before = len(transport.data)
    transport.closing = True
    loop.run(100.0)
    assert len(transport.data) == before > 0
    assert loop.idle
    outgoing.cancel()
    assert over == []


def test_a_cut_answer_ends_the_connection(loop: Loop) -> None:
    for how, length in ((Delivery(keep=20, rate=10), 20), (Delivery(keep=3, after_head=True), len(ANSWER) - 997)):
        outgoing, transport, over = begin(loop, how)
        loop.run(loop.now + 100)
        assert (transport.data, outgoing.sent, outgoing.closes) == (ANSWER[:length], length, True)
        assert len(over) == 1
    outgoing, transport, over = begin(loop, DROP)
    assert (transport.written, outgoing.closes, len(over)) == ([], True, 1)


def test_an_answer_that_becomes_known_too_late_goes_nowhere(loop: Loop) -> None:
    transport = Transport(loop)
    outgoing = Outgoing(transport, closes=False)  # type: ignore[arg-type]
    outgoing.cancel()
    outgoing.begin(ANSWER, None, lambda: pytest.fail("over"))
    assert not transport.written


@given(
    how=st.builds(
        Delivery,
        delay=st.floats(0, 10),
        keep=st.none() | st.integers(0, 2000),
        rate=st.just(0.0) | st.floats(1, 10_000),
        after_head=st.booleans(),
    ),
    at=st.floats(0, 20),
    what=st.sampled_from(["nothing", "hurry", "cancel", "both"]),
)
def test_however_it_goes_it_is_over_once_and_what_is_sent_is_a_beginning(how: Delivery, at: float, what: str) -> None:
    with pytest.MonkeyPatch.context() as patching:
        loop = Loop()
        patching.setattr(delivery, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
        outgoing, transport, over = begin(loop, how)
        loop.run(at)
        if what in ("hurry", "both"):
            outgoing.hurry()
            assert len(over) == 1
        if what in ("cancel", "both"):
            ended = len(over)
            outgoing.cancel()
            loop.run(10_000)
            assert len(over) == ended
        loop.run(10_000)
        assert loop.idle
        assert len(over) == 1 or what == "cancel"
        assert ANSWER.startswith(transport.data)
        if what != "cancel" and how.keep is None:
            assert transport.data == ANSWER
