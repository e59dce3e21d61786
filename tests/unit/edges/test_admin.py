"""The admin listener's application."""

from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from bmcsim.edges.http.admin import admin_app
from bmcsim.edges.http.context import Context
from bmcsim.fleet.journal import Done, NotSaved
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import Event, StreamWish
from tests.conftest import Client

SENSOR = "/redfish/v1/Chassis/Card1/Sensors/Temp_1"


class Skips(list[float]):
    """Takes note of how far the hardware's time was moved."""

    def __call__(self, seconds: float) -> int:
        self.append(seconds)
        return 7


async def call(app: Starlette, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Status and body of the answer to a request, without a socket. headers: with _ for -."""
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": fields, "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 9090),
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


async def test_the_time_of_the_hardware_is_moved() -> None:
    skips = Skips()
    app = admin_app(Fleet(), CollectorRegistry(), skips)
    status, body = await call(app, "POST", "/clock/step", b'{"seconds": 90}', content_type="application/json")
    assert (status, orjson.loads(body)) == (200, {"fired": 7})
    assert skips == [90]


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b'{"seconds": 1}', {"content_type": "text/plain"}, 415),
        (b'{"seconds": 1}', {}, 415),
        (b'{"seconds": 1}', {"origin": "http://evil.example", "content_type": "application/json"}, 403),
        (b'{"seconds": -1}', {"content_type": "application/json"}, 400),
        (b'{"seconds": 1e12}', {"content_type": "application/json"}, 400),
        (b'{"seconds": "1"}', {"content_type": "application/json"}, 400),
        (b'{"second": 1}', {"content_type": "application/json"}, 400),
        (b"{", {"content_type": "application/json"}, 400),
        (b" " * 2000, {"content_type": "application/json"}, 413),
    ],
)
async def test_what_is_not_a_step_moves_nothing(body: bytes, headers: dict[str, str], expected: int) -> None:
    skips = Skips()
    status, _ = await call(admin_app(Fleet(), CollectorRegistry(), skips), "POST", "/clock/step", body, **headers)
    assert status == expected
    assert skips == []


async def test_beyond_loopback_there_is_nothing_that_changes_something() -> None:
    app = admin_app(Fleet(), CollectorRegistry())
    for path in ("/clock/step", "/sensors/set"):
        assert (await call(app, "POST", path, b"{}", content_type="application/json"))[0] == 404
    assert await call(app, "GET", "/healthz") == (200, b"ok\n")
    assert (await call(app, "GET", "/readyz"))[0] == 503


class Bench:
    """A BMC with an open stream, a context for it, and what was asked to be stored and told. error: of the store."""

    def __init__(self, client: Client, error: NotSaved | None = None) -> None:
        self.client, self.error = client, error
        self.asked: list[Bmc] = []
        self.told: list[Event] = []
        fleet = Fleet()
        fleet.add(client.bmc)
        client.bmc.open_stream(StreamWish(lambda _event: True, 0, "root"), "", client.clock.now())
        client.bmc.committed()
        client.driver.emit = lambda _, event: self.told.append(event)
        context = Context(fleet, client.driver, client.clock)
        context.commit = self.commit
        self.app = admin_app(fleet, CollectorRegistry(), set_reading=context.set_reading)

    def commit(self, bmc: Bmc, done: Done) -> None:
        """Take note; a store that fails undoes the change first."""
        self.asked.append(bmc)
        before = bmc.committed()
        if self.error is not None:
            bmc.restore(before)
        done(self.error)

    async def set(self, reading: object, bmc: str = "bmc-0", uri: str = SENSOR) -> tuple[int, Any]:
        """Status and body of the answer."""
        body = orjson.dumps({"bmc": bmc, "uri": uri, "reading": reading})
        status, answer = await call(self.app, "POST", "/sensors/set", body, content_type="application/json")
        return status, orjson.loads(answer)


async def test_a_sensor_reads_what_was_set_until_it_is_let_go(dpu: Client) -> None:
    bench, measured = Bench(dpu), dpu.get(SENSOR)["Reading"]
    assert await bench.set(95.5) == (200, {"bmc": "bmc-0", "uri": SENSOR, "reading": 95.5})
    shown = dpu.get(SENSOR)
    assert (shown["Reading"], shown["Status"]["Health"]) == (95.5, "Critical")
    assert (await bench.set(None))[0] == 200
    assert dpu.get(SENSOR)["Reading"] == measured
    assert bench.asked == [dpu.bmc] * 2
    assert [event.message_id.rpartition(".")[2] for event in bench.told] == [
        "ReadingAboveUpperCriticalThreshold",
        "SensorReadingNormalRange",
    ]


async def test_a_reading_that_is_not_stored_is_neither_shown_nor_told(dpu: Client) -> None:
    bench, measured = Bench(dpu, NotSaved("the disk is full")), dpu.get(SENSOR)["Reading"]
    status, body = await bench.set(95.5)
    assert (status, "the disk is full" in body["error"]) == (507, True)
    assert (dpu.get(SENSOR)["Reading"], bench.told) == (measured, [])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"bmc": "bmc-1"}, 404),
        ({"uri": "/redfish/v1/Chassis/Card1"}, 404),
        ({"reading": "95"}, 400),
        ({"reading": 1e13}, 400),
        ({"reading": -1e13}, 400),
        ({"uri": "/" * 2000}, 413),
    ],
)
async def test_what_is_no_reading_sets_nothing(dpu: Client, facts: dict[str, Any], expected: int) -> None:
    bench = Bench(dpu)
    status, body = await bench.set(**{"reading": 95.5, **facts})
    assert (status, list(body)) == (expected, ["error"])
    assert (bench.asked, dpu.bmc.state.readings) == ([], {})


async def test_no_web_page_sets_a_reading(dpu: Client) -> None:
    bench = Bench(dpu)
    body = orjson.dumps({"bmc": "bmc-0", "uri": SENSOR, "reading": 95.5})
    for expected, headers in (
        (415, {"content_type": "text/plain"}),
        (403, {"content_type": "application/json", "origin": "http://evil.example"}),
    ):
        assert (await call(bench.app, "POST", "/sensors/set", body, **headers))[0] == expected
    assert bench.asked == []
