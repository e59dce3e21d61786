"""The relay's socket, with a server of the test on loopback."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from scapy.layers.dhcp import BOOTP, DHCP

from bmcsim.edges.dhcp import relay as relays
from bmcsim.edges.dhcp.metrics import RelayCollector
from bmcsim.edges.dhcp.relay import IGNORED, Relay, Relayed, RelayError
from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Port, Reply, Segment

ADVERTISE = "127.0.0.1"
INTERFACE = Interface("a", Port.BMC, 0x020000000001, Segment.BMC, "iDRAC", "192.0.2.1")
ASK = Ask(Kind.DISCOVER, 7)


def offer(xid: int = 7, giaddr: str = ADVERTISE) -> bytes:
    """An OFFER to the interface."""
    return bytes(
        BOOTP(op=2, xid=xid, yiaddr="192.0.2.5", giaddr=giaddr, chaddr=INTERFACE.mac.to_bytes(6))
        / DHCP(options=[("message-type", "offer"), ("server_id", "192.0.2.1"), "end"])
    )


def udp(address: str = "127.0.0.1") -> socket.socket:
    """A bound socket that waits a second at most."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, 0))
    sock.settimeout(1)
    return sock


class Side:
    """A relay and its server. got: what was heard; wanted: whether somebody waits for it."""

    def __init__(self, server: socket.socket, relay: Relay) -> None:
        self.server, self.relay = server, relay
        self.got: list[tuple[int, Reply]] = []
        self.wanted = True

    def heard(self, mac: int, reply: Reply) -> bool:
        self.got.append((mac, reply))
        return self.wanted

    def answer(self, data: bytes) -> None:
        self.server.sendto(data, self.relay.address)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                await asyncio.sleep(0)


@asynccontextmanager
async def relaying() -> AsyncIterator[Side]:
    with udp() as server:
        relay = Relay(server.getsockname(), ("127.0.0.1", 0), ADVERTISE)
        side = Side(server, relay)
        relay.start(side.heard)
        try:
            yield side
        finally:
            await relay.close()


async def test_a_question_goes_to_the_server_and_its_answer_comes_back() -> None:
    async with relaying() as side:
        side.relay.send(INTERFACE, ASK)
        data, source = side.server.recvfrom(4096)
        assert source == side.relay.address
        assert (BOOTP(data).giaddr, BOOTP(data).xid) == (ADVERTISE, 7)
        side.answer(offer())
        await side.until(lambda: side.got)
        assert [(mac, reply.kind, reply.xid) for mac, reply in side.got] == [(INTERFACE.mac, Kind.OFFER, 7)]
        counted = side.relay.counted
        assert (counted.sent, counted.lost, counted.heard, counted.ignored) == (1, 0, 1, {})


async def test_what_is_no_answer_of_the_server_is_ignored_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async with relaying() as side:
        ignored = side.relay.counted.ignored
        with udp() as stranger:
            stranger.sendto(offer(), side.relay.address)
        with udp("127.0.0.2") as stranger:
            stranger.sendto(offer(), side.relay.address)
        for data in (b"", offer()[:100], offer() + bytes(5000), offer(giaddr="127.0.0.9")):
            side.answer(data)
        await side.until(lambda: ignored.total() == 6)
        assert ignored == {"foreign": 2, "malformed": 3, "relay": 1}
        assert side.got == []
        side.wanted = False
        side.answer(offer())
        await side.until(lambda: ignored["unexpected"])
        assert side.relay.counted.heard == 0
        # One line for all of them.
        (record,) = caplog.records
        assert "it comes from 127.0.0.1:" in record.getMessage()


async def test_a_reply_that_nobody_can_take_in_keeps_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async with relaying() as side:
        taken = side.heard

        def heard(mac: int, reply: Reply) -> bool:
            if reply.xid == 1:
                raise KeyError(mac)
            return taken(mac, reply)

        side.relay.start(heard)
        for xid in (1, 1, 2):
            side.answer(offer(xid))
        await side.until(lambda: side.got)
        assert [reply.xid for _, reply in side.got] == [2]
        assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_many_replies_at_once_are_all_heard_and_others_have_their_turn() -> None:
    async with relaying() as side:
        turns: list[int] = []
        loop = asyncio.get_running_loop()

        def turn() -> None:
            turns.append(len(side.got))
            if len(side.got) < 200:
                loop.call_soon(turn)

        for xid in range(200):
            side.answer(offer(xid))
        turn()
        await side.until(lambda: len(side.got) == 200)
        assert [reply.xid for _, reply in side.got] == list(range(200))
        assert max(after - before for before, after in pairwise(turns)) <= 64


async def test_what_cannot_be_sent_is_lost_and_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Socket:
        error: OSError = BlockingIOError()

        def sendto(self, data: bytes, to: object) -> None:
            raise self.error

    async with relaying() as side:
        sock = Socket()
        with monkeypatch.context() as patch:
            patch.setattr(side.relay, "_socket", sock)
            side.relay.send(INTERFACE, ASK)
            assert side.relay.counted.lost == 1
            assert caplog.records == []
            sock.error = OSError(101, "Network is unreachable")
            side.relay.send(INTERFACE, ASK)
            side.relay.send(INTERFACE, ASK)
        side.relay.send(Interface("a", Port.BMC, 1, Segment.BMC, "x" * 256), ASK)
        assert (side.relay.counted.sent, side.relay.counted.lost) == (0, 4)
        (record,) = caplog.records
        assert "cannot ask 127.0.0.1:" in record.getMessage()
        assert "Network is unreachable" in record.getMessage()


async def test_a_server_that_says_nothing_is_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with relaying() as side:
        now = [100.0]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
        side.relay.send(INTERFACE, ASK)
        now[0] += 9
        side.relay.send(INTERFACE, ASK)
        side.answer(offer())
        await side.until(lambda: side.got)
        now[0] += 9
        side.relay.send(INTERFACE, ASK)
        assert caplog.records == []
        now[0] += 9
        side.relay.send(INTERFACE, ASK)
        assert caplog.records == []
        now[0] += 11
        side.relay.send(INTERFACE, ASK)
        side.relay.send(INTERFACE, ASK)
        (record,) = caplog.records
        assert "has answered nothing for 20 s; it answers to 127.0.0.1" in record.getMessage()


async def test_after_the_end_nothing_is_sent() -> None:
    with udp() as server:
        relay = Relay(server.getsockname(), ("127.0.0.1", 0), ADVERTISE, 7)
        relay.send(INTERFACE, ASK)
        relay.start(lambda mac, reply: True)
        await relay.close()
        await relay.close()
        relay.send(INTERFACE, ASK)
        assert (relay.window, relay.counted.sent, relay.counted.lost) == (7, 0, 2)


def test_a_socket_that_cannot_be_had_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with udp() as taken, pytest.raises(RelayError, match=r"listen_address 127\.0\.0\.1:\d+: UDP port \d+ is taken"):
        relays.open_socket(taken.getsockname())
    with pytest.raises(RelayError, match=r"192\.0\.2\.1 is no address of this machine"):
        relays.open_socket(("192.0.2.1", 6767))

    def refused(self: socket.socket, address: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(relays.socket, "socket", type("Socket", (socket.socket,), {"bind": refused}))
    with pytest.raises(RelayError, match="UDP port 67 needs root, CAP_NET_BIND_SERVICE or"):
        relays.open_socket(("127.0.0.1", 67))


def test_the_socket_has_room_for_a_window_of_replies() -> None:
    most = int(Path("/proc/sys/net/core/rmem_max").read_text())
    with relays.open_socket(("127.0.0.1", 0)) as sock:
        # Linux doubles what is asked for.
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 2 * min(most, 4 * 1024 * 1024)


def test_the_counters_are_metrics() -> None:
    counted = Relayed()
    counted.sent, counted.lost, counted.heard = 5, 2, 3
    counted.ignored["foreign"] += 1
    registry = CollectorRegistry()
    registry.register(RelayCollector(counted))

    def value(name: str, result: str) -> float | None:
        return registry.get_sample_value(f"bmcsim_dhcp_relay_{name}_total", {"result": result})

    assert [value("requests", result) for result in ("sent", "lost")] == [5, 2]
    assert [value("replies", result) for result in ("heard", *IGNORED)] == [3, 1, 0, 0, 0]
