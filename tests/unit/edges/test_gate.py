"""Connections that are reset before anything else: with and without TLS."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from ipaddress import ip_network

import msgspec
import orjson
import pytest

from bmcsim.edges.http import tls
from tests.unit.edges.conftest import CLOSE, FIRST, SECOND, SYSTEM, Connection, Server, get, serving


async def ending(address: str, port: int, data: bytes = b"") -> str:
    """How a new connection ends: 'reset' or 'closed', or 'answered' where something comes."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setblocking(False)
    try:
        async with asyncio.timeout(5):
            await loop.sock_connect(sock, (address, port))
            if data:
                await loop.sock_sendall(sock, data)
            return "answered" if await loop.sock_recv(sock, 1) else "closed"
    except (ConnectionResetError, BrokenPipeError):
        return "reset"
    finally:
        sock.close()


def reset_bmc(server: Server, address: str) -> None:
    bmc = server.context.fleet.by_address(address)
    assert bmc is not None
    bmc.reset_bmc(server.clock.now())
    assert bmc.refuses_connections


async def test_a_bmc_in_reset_refuses_connections_to_its_own_address_alone(server: Server) -> None:
    reset_bmc(server, SECOND)
    assert await ending(SECOND, server.port, get(SYSTEM)) == "reset"
    (answer,) = await server.exchange(get("/redfish", CLOSE))
    assert answer.status == 200


async def test_an_address_outside_the_served_network_is_refused(server: Server) -> None:
    server.context.served = ip_network("127.64.0.0/16")
    assert await ending("127.0.0.1", server.port) == "reset"
    (answer,) = await server.exchange(get("/redfish", CLOSE))
    assert answer.status == 200
    assert server.context.metrics.connections_refused == 1


async def test_an_address_that_is_not_known_any_more_is_refused(server: Server) -> None:
    assert server.context.refuses("?")
    assert not server.context.refuses(FIRST)


@pytest.fixture(scope="module")
def served_tls() -> tls.Served:
    return tls.Served(tls.transient_context())


@pytest.fixture
async def secure(served_tls: tls.Served) -> AsyncIterator[Server]:
    """A server with TLS."""
    async with serving(served_tls) as made:
        yield made


async def connect(server: Server, address: str = FIRST) -> Connection:
    """A TLS connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    server.opened.append(Connection(*await asyncio.open_connection(address, server.port, ssl=context)))
    return server.opened[-1]


async def test_a_refusal_comes_before_tls(secure: Server) -> None:
    reset_bmc(secure, SECOND)
    assert await ending(SECOND, secure.port) == "reset"
    with pytest.raises(ConnectionResetError):
        await connect(secure, SECOND)
    assert secure.context.metrics.connections_opened == 0
    connection = await connect(secure)
    connection.writer.write(get(SYSTEM))
    assert (await connection.answer()).status == 200


async def test_what_was_dialled_is_known_behind_tls(secure: Server) -> None:
    serials = set()
    for address in (FIRST, SECOND):
        connection = await connect(secure, address)
        connection.writer.write(get(SYSTEM, host="proxy.example"))
        serials.add(orjson.loads((await connection.answer()).body)["SerialNumber"])
    assert len(serials) == 2


async def test_many_connections_at_once_are_all_let_in(secure: Server) -> None:
    connections = await asyncio.gather(*[connect(secure) for _ in range(50)])
    for connection in connections:
        connection.writer.write(get(SYSTEM, CLOSE))
    answers = await asyncio.gather(*[connection.answer() for connection in connections])
    assert {answer.status for answer in answers} == {200}


async def test_what_is_not_tls_is_closed_and_leaves_nothing(secure: Server) -> None:
    for data in (get(SYSTEM), b"\x16\x03", b""):
        _, writer = await asyncio.open_connection(FIRST, secure.port)
        writer.write(data)
        await asyncio.sleep(0.01)
        writer.transport.abort()
    connection = await connect(secure)
    connection.writer.write(get(SYSTEM))
    assert (await connection.answer()).status == 200
    assert secure.context.metrics.connections_opened == 1
    assert len(secure.listener.server.server_state.connections) == 1


async def test_what_is_not_tls_is_not_reset(secure: Server) -> None:
    for data in (get(SYSTEM), b"\x16\x03\x01\x00\x05what?" * 100):
        assert await ending(FIRST, secure.port, data) != "reset"


async def test_a_client_that_does_not_answer_the_end_of_tls_keeps_nothing_waiting(secure: Server) -> None:
    """It is there and does nothing, as a process that is stopped or far away."""
    silent = socket.create_connection((FIRST, secure.port))
    try:
        context = ssl._create_unverified_context()
        handshake = asyncio.to_thread(context.wrap_socket, silent)
        silent = await handshake
        connections = secure.listener.server.server_state.connections
        (connection,) = connections
        began = asyncio.get_running_loop().time()
        connection.shutdown()
        async with asyncio.timeout(5):
            while connections:
                await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() - began < 3
    finally:
        silent.close()


def limit_connections(server: Server, address: str, most: int) -> None:
    bmc = server.context.fleet.by_address(address)
    assert bmc is not None
    behaviour = msgspec.structs.replace(bmc.shared.behaviour, connection_limit=most)
    bmc.shared = msgspec.structs.replace(bmc.shared, behaviour=behaviour)


async def until_gone(server: Server) -> None:
    """Until nothing is counted."""
    async with asyncio.timeout(5):
        while server.context._open:
            await asyncio.sleep(0.01)


async def test_e27_a_bmc_takes_so_many_connections_and_another_one_is_reset(server: Server) -> None:
    """E27: a real BMC stops at 100 or 200 connections; here each BMC counts its own, and nothing counts all."""
    limit_connections(server, SECOND, 5)
    kept = [await server.connect(SECOND) for _ in range(5)]
    assert [await ending(SECOND, server.port, get(SYSTEM)) for _ in range(3)] == ["reset"] * 3
    for _ in range(20):
        (answer,) = await server.exchange(get("/redfish", CLOSE))
        assert answer.status == 200
    for connection in kept:
        connection.writer.write(get(SYSTEM, CLOSE, host=SECOND))
        assert (await connection.answer()).status == 200
    await until_gone(server)
    (answer,) = await server.exchange(get(SYSTEM, CLOSE, host=SECOND), SECOND)
    assert answer.status == 200


async def test_e27_connections_count_from_before_their_tls_handshake_until_they_are_gone(secure: Server) -> None:
    """180 connections at once, most of which are still in their handshake; those that never come to TLS count too."""
    limit_connections(secure, SECOND, 20)
    tries = await asyncio.gather(*[connect(secure, SECOND) for _ in range(180)], return_exceptions=True)
    assert sum(isinstance(one, Connection) for one in tries) == 20
    for one in tries:
        if isinstance(one, Connection):
            one.writer.transport.abort()
    await until_gone(secure)
    for _ in range(3):
        _, writer = await asyncio.open_connection(SECOND, secure.port)
        writer.write(b"no TLS")
        await writer.drain()
        await until_gone(secure)
        writer.transport.abort()
    assert isinstance(await connect(secure, SECOND), Connection)


async def test_a_connection_to_a_bmc_of_another_process_is_reset(server: Server) -> None:
    """It can only come where that process is about to end; nobody else answers in its place."""
    server.context.fleet.elsewhere = {"127.64.0.9"}
    assert await ending("127.64.0.9", server.port, get(SYSTEM)) == "reset"
    (answer,) = await server.exchange(get("/redfish", CLOSE), "127.64.0.10")
    assert answer.status == 200
