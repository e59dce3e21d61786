"""Streams of bytes over real sockets, without and with TLS: both say the same, and every connection ends."""

import asyncio
import ssl
from random import Random

import uvloop

from bmcsim.edges.http import tls
from tests.fuzz import streams, wire
from tests.unit.edges.conftest import CLOSE, FIRST, Server, get, serving

STREAMS = 60
_QUIET = 0.02
_MANY = 16 * 1024 * 1024


async def ended(server: Server, pieces: list[bytes], secure: ssl.SSLContext | None) -> bytes:
    """What comes back until the connection closes: for the last request, or else by the sweeps."""
    bmc = server.context.fleet.by_address(FIRST)
    assert bmc is not None
    before = bmc.snapshot()
    host = FIRST if secure else None
    reader, writer = await asyncio.open_connection(FIRST, server.port, ssl=secure, server_hostname=host)
    for piece in [*pieces, get("/redfish", CLOSE)]:
        writer.write(piece)
        await asyncio.sleep(0)
    data = b""
    for seconds in (0.0, 11.0, 80.0, 700.0, 2000.0):
        for connection in list(server.listener.server.server_state.connections):
            connection.sweep(server.clock.now().mono + seconds)
        try:
            async with asyncio.timeout(_QUIET if seconds < 2000 else 5):
                while piece := await reader.read(_MANY):
                    data += piece
                break
        except TimeoutError:
            continue
        except ConnectionResetError:
            break
    else:
        raise wire.Broken(f"the connection stays: {pieces!r}")
    writer.close()
    bmc.forget(before)
    return data


def test_streams_over_sockets_with_and_without_tls() -> None:
    uvloop.run(_compare(STREAMS))


async def _compare(count: int) -> None:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with serving(None) as plain, serving(tls.Served(tls.transient_context())) as secure:
        for seed in range(count):
            random = Random(seed)
            sent = streams.stream(random)
            pieces = wire.cut(random, sent.data)
            first = await ended(plain, pieces, None)
            second = await ended(secure, pieces, trusting)
            wire.check(sent, first, closed=True)
            assert wire.same(first) == wire.same(second), (seed, sent.data)
