"""Public bug reports about events (kind K15): the right behaviour, named after the report's row."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from bmcsim.edges.http.metrics import FleetCollector, registry_of
from bmcsim.edges.push import Deliveries
from bmcsim.machine.actions import Emit
from bmcsim.tree.profile import names
from tests.conftest import Client, header, make_client
from tests.unit.edges.conftest import serving
from tests.unit.edges.test_streaming import Streams, stall, until

SUBSCRIPTIONS = "/redfish/v1/EventService/Subscriptions"
IDRAC = "/redfish/v1/Managers/iDRAC.Embedded.1"
LCLOG = f"{IDRAC}/LogServices/Lclog/Entries"
R750 = "/redfish/v1/Systems/System.Embedded.1"

every_profile = pytest.mark.parametrize("profile", names())


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    async with serving(None) as server:
        yield Streams(server)


def measured(streams: Streams) -> tuple[float | None, float | None]:
    """(streams, subscriptions) of the metrics."""
    context = streams.server.context
    registry = registry_of(FleetCollector(context.metrics, context.fleet, context.driver, None, Deliveries()))
    return registry.get_sample_value("bmcsim_event_streams"), registry.get_sample_value("bmcsim_event_subscriptions")


async def test_n71_clients_that_do_not_read_hold_no_slot_for_ever(streams: Streams) -> None:
    """All slots are taken by clients that stop reading; a minute later all are free. A client that reads stays."""
    limit = streams.bmc.shared.behaviour.stream_limit
    silent = [(await streams.begin())[0] for _ in range(limit - 1)]
    reading, _ = await streams.begin()
    _, refused = await streams.begin()
    assert refused.status == 503
    assert measured(streams) == (limit, 0)
    for one in silent:
        one.reader._transport.pause_reading()
    drained = asyncio.create_task(reading.reader.read())
    await stall(streams, silent[0])
    for _ in range(400):
        streams.tell("x" * 60_000)
        await asyncio.sleep(0)
    streams.pass_time(30)
    await asyncio.sleep(0.01)
    streams.pass_time(34)
    await until(lambda: streams.open == 1)
    assert measured(streams) == (1, 0)
    assert (await streams.begin())[1].status == 200
    drained.cancel()


async def test_n71_heartbeats_come_whatever_the_client_wants(streams: Streams) -> None:
    """No setting, and no wish of a client, is without them."""
    connection, _ = await streams.begin()
    streams.pass_time(32)
    async with asyncio.timeout(5):
        assert await connection.reader.readexactly(16) == b"3\r\n:\n\n\r\n" * 2


@pytest.mark.parametrize("row", ["as it is", "sequenced"])
def test_n73_the_record_that_an_event_links_to_is_there_or_as_late_as_a_rule_says(host: Client, row: str) -> None:
    """Without a rule it can be read at once; with one it is 404 once and then 200."""
    wish = {"Destination": "http://127.0.0.1/", "Protocol": "Redfish"}
    assert host.request("POST", SUBSCRIPTIONS, wish).status == 201
    if row == "sequenced":
        rule = {"id": "late", "selector": {"OdataId": f"{LCLOG}/*"}, "action": {"Status": 404}, "remaining": 1}
        assert host.request("POST", "/Injection/rules", rule).status == 200
    response = host.request("POST", f"{R750}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})
    (event,) = [one.event for one in response.actions if isinstance(one, Emit) and one.event.log_entry][:1]
    statuses = [host.request("GET", event.log_entry).status for _ in range(3)]
    assert statuses == ([404, 200, 200] if row == "sequenced" else [200, 200, 200])
    assert host.get(event.log_entry)["MessageId"] == event.message_id


@every_profile
@pytest.mark.parametrize("context", [{}, {"Context": ""}, {"Context": None}, {"Context": "mine"}])
def test_e41_a_subscription_needs_no_id_and_no_context(profile: str, context: dict[str, str]) -> None:
    client = make_client(profile)
    wish = {"Destination": "https://192.168.1.50/Destination1", "Protocol": "Redfish", **context}
    response = client.request("POST", SUBSCRIPTIONS, wish)
    assert response.status == 201
    where = header(response, "Location") or ""
    body = orjson.loads(response.body)
    assert (body["@odata.id"], body["Id"]) == (where, where.rpartition("/")[2])
    assert body["Context"] == (context.get("Context") or "")
    assert client.get(where) == body
