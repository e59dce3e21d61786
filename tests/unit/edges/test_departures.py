"""Connections to an address that its BMC has left."""

import asyncio

from bmcsim.edges.http.protocol import RedfishProtocol
from bmcsim.edges.http.server import Departures
from tests.unit.edges.conftest import FIRST, SECOND, SYSTEM, Server, get

FREE = "127.64.0.99"


def watched(server: Server) -> None:
    """Have the server end connections to addresses that are left."""
    shared = next(
        one for one in server.listener.server.server_state.connections if isinstance(one, RedfishProtocol)
    ).listener
    server.context.fleet.vacated = Departures(shared, asyncio.get_running_loop().call_soon).left


async def test_an_open_connection_reaches_neither_the_bmc_that_left_nor_the_one_that_came(server: Server) -> None:
    connection, other = await server.connect(), await server.connect(SECOND)
    for each, address in ((connection, FIRST), (other, SECOND)):
        # Twice: the second one goes the way of header blocks that are known.
        for _ in range(2):
            each.writer.write(get(SYSTEM, host=address))
            assert (await each.answer()).status == 200
    watched(server)
    fleet = server.context.fleet
    first, second = fleet.by_address(FIRST), fleet.by_address(SECOND)
    assert first is not None
    assert second is not None
    fleet.bind(first, FREE)
    fleet.bind(second, FIRST)
    assert await connection.closed()
    assert await other.closed()
    (answer,) = await server.exchange(get(SYSTEM, "Connection: close", host=FIRST))
    assert answer.status == 200
    assert second.identity.serial.encode() in answer.body


async def test_a_request_by_a_connection_that_was_not_closed_in_time_is_dropped(server: Server) -> None:
    connection = await server.connect()
    for _ in range(2):
        connection.writer.write(get(SYSTEM))
        assert (await connection.answer()).status == 200
    first = server.context.fleet.by_address(FIRST)
    assert first is not None
    server.context.fleet.bind(first, FREE)
    connection.writer.write(get(SYSTEM))
    assert await connection.closed()


async def test_nobody_can_connect_to_an_address_that_was_left(server: Server) -> None:
    first = server.context.fleet.by_address(FIRST)
    assert first is not None
    server.context.fleet.bind(first, FREE)
    connection = await server.connect()
    assert await connection.closed()
    (answer,) = await server.exchange(get(SYSTEM, "Connection: close", host=FREE), FREE)
    assert answer.status == 200


async def test_what_is_sent_before_the_move_is_answered(server: Server) -> None:
    connection = await server.connect()
    connection.writer.write(get(SYSTEM))
    await connection.answer()
    watched(server)
    first = server.context.fleet.by_address(FIRST)
    assert first is not None
    connection.writer.write(get(SYSTEM) * 3)
    await connection.answer()
    server.context.fleet.bind(first, FREE)
    assert [answer.status for answer in await connection.answers()] == [200, 200]
