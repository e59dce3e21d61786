"""Starting and stopping the Redfish port."""

import asyncio

import pytest

from tests.unit.edges.conftest import FIRST, SYSTEM, Server, get


async def test_a_listener_that_stops_closes_what_is_open_and_takes_no_more(server: Server) -> None:
    connection = await server.connect()
    connection.writer.write(get(SYSTEM))
    assert (await connection.answer()).status == 200
    await server.listener.stop()
    assert await connection.closed()
    assert not server.listener.server.server_state.connections
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(FIRST, server.port)
