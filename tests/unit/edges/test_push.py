"""Deliveries: order, bounds, retries and policies with a false network, and the real one on loopback."""

import asyncio
import ipaddress
import logging
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bmcsim.edges import posting, push
from bmcsim.edges.http.tls import make_certificate
from bmcsim.edges.push import QUEUE, Networks, Pusher, Target, post_with_aiohttp
from bmcsim.fleet.config import LOOPBACK
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import Subscription
from tests.conftest import Client, make_client

SECRET = "s3cr3t-value"
SERVICE = "/redfish/v1/EventService"


class Network:
    """What a pusher sends, and what comes of it: a status, or an error that is raised."""

    def __init__(self, client: Client, allowed: Networks = LOOPBACK) -> None:
        self.client, self.sent, self.slept = client, list[tuple[Target, bytes]](), list[float]()
        self.outcomes: list[int | OSError] = []
        self.changed: list[Bmc] = []
        self.hold: asyncio.Event | None = None
        self.while_sleeping: Callable[[], None] = lambda: None
        self.pusher = Pusher(client.clock, allowed, self.changed.append, post=self._post, sleep=self._sleep)

    async def _post(self, target: Target, payload: bytes) -> int:
        self.sent.append((target, payload))
        if self.hold is not None:
            await self.hold.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else 200
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.while_sleeping()
        await asyncio.sleep(0)

    @property
    def bmc(self) -> Bmc:
        return self.client.bmc

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in self.sent]

    @property
    def counts(self) -> tuple[int, int, int]:
        counted = self.pusher.counted
        return counted.delivered, counted.failed, counted.dropped

    def subscribe(self, destination: str = "http://127.0.0.1/x", **facts: Any) -> Subscription:
        number = len(self.bmc.state.subscriptions) + 1
        new = Subscription(str(number), destination, **facts)
        self.bmc.become(self.client.clock.now(), subscriptions=(*self.bmc.state.subscriptions, new))
        return new

    def push(self, one: Subscription, *payloads: bytes) -> None:
        for payload in payloads:
            self.pusher.push(self.bmc, one, payload)

    async def idle(self) -> None:
        async with asyncio.timeout(10):
            while self.pusher._tasks:
                await asyncio.sleep(0)


@pytest.fixture
def network(dpu: Client) -> Network:
    dpu.bmc.address = "127.64.0.2"
    return Network(dpu)


async def test_payloads_are_sent_one_by_one_in_their_order(network: Network) -> None:
    one, other = network.subscribe(headers=(("X-A", "1"),), verify_certificate=True), network.subscribe("http://[::1]/")
    network.hold = asyncio.Event()
    network.push(one, b"1", b"2", b"3")
    network.push(other, b"4")
    while len(network.sent) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert network.payloads == [b"1", b"4"]
    network.hold.set()
    await network.idle()
    assert [p for p in network.payloads if p != b"4"] == [b"1", b"2", b"3"]
    first = network.sent[0][0]
    address = ipaddress.ip_address("127.0.0.1")
    assert first == Target("http://127.0.0.1/x", "127.0.0.1", address, "127.64.0.2", {"X-A": "1"}, True)
    assert network.sent[1][0].source is None
    assert network.counts == (4, 0, 0)
    assert not network.pusher._queues


async def test_a_full_queue_drops_the_oldest(network: Network) -> None:
    one = network.subscribe()
    network.hold = asyncio.Event()
    network.push(one, b"first")
    while not network.sent:
        await asyncio.sleep(0)
    network.push(one, *[b"%d" % n for n in range(QUEUE + 2)])
    network.hold.set()
    await network.idle()
    assert network.payloads == [b"first", *[b"%d" % n for n in range(2, QUEUE + 2)]]
    assert network.counts == (QUEUE + 1, 0, 2)


async def test_there_is_a_bound_for_all_queues_together(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "MOST", 3)
    every = [network.subscribe() for _ in range(5)]
    for one in every:
        network.push(one, b"x")
    await network.idle()
    assert network.counts == (3, 0, 2)
    network.push(every[0], b"x", b"y", b"z")
    await network.idle()
    assert network.counts == (6, 0, 2)


async def test_large_payloads_wait_only_as_far_as_their_bytes_go(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "QUEUE_BYTES", 10)
    one = network.subscribe()
    network.hold = asyncio.Event()
    network.push(one, b"first")
    while not network.sent:
        await asyncio.sleep(0)
    network.push(one, b"aaaa", b"bbbb", b"cc", b"dddddd", b"e" * 50)
    assert [waiting.payload for waiting in network.pusher._queues[network.bmc.id, one.id]] == [b"e" * 50]
    network.push(one, b"ffff", b"gggggg", b"h")
    network.hold.set()
    await network.idle()
    assert network.payloads == [b"first", b"gggggg", b"h"]
    assert network.counts == (3, 0, 6)
    assert (network.pusher._on_their_way, network.pusher._bytes) == (0, 0)


async def test_there_is_a_bound_for_the_bytes_of_all_queues_together(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MOST_BYTES", 10)
    every = [network.subscribe() for _ in range(3)]
    for one in every:
        network.push(one, b"xxxx")
    await network.idle()
    assert network.counts == (2, 0, 1)
    network.push(every[0], b"x" * 11)
    network.push(every[0], b"x" * 10)
    await network.idle()
    assert network.counts == (3, 0, 2)


async def test_what_is_given_up_gives_its_bytes_back(network: Network) -> None:
    network.hold = asyncio.Event()
    network.push(network.subscribe(), b"1", b"2")
    while not network.sent:
        await asyncio.sleep(0)
    await network.pusher.close()
    assert network.pusher._bytes == 0


@pytest.mark.parametrize("outcome", [500, 301, 404, OSError("x"), TimeoutError("x")])
async def test_what_does_not_arrive_is_sent_again(network: Network, outcome: int | OSError) -> None:
    one = network.subscribe()
    network.outcomes = [outcome, outcome, outcome, 204]
    network.push(one, b"1", b"2")
    await network.idle()
    assert network.payloads == [b"1", b"1", b"1", b"1", b"2"]
    assert network.slept == [30.0, 30.0, 30.0]
    assert network.counts == (2, 3, 0)


def settings(network: Network, attempts: int, interval: int) -> None:
    change = {"DeliveryRetryAttempts": attempts, "DeliveryRetryIntervalSeconds": interval}
    assert network.client.request("PATCH", SERVICE, change).status < 300


async def test_attempts_and_interval_are_those_of_the_service(network: Network) -> None:
    settings(network, 1, 7)
    network.outcomes = [500] * 2
    network.push(network.subscribe(), b"1", b"2")
    await network.idle()
    assert (network.payloads, network.slept) == ([b"1", b"1"], [7.0])
    assert network.counts == (0, 2, 2)


async def test_suspend_retries_suspends_and_resuming_goes_on_with_what_is_new(network: Network) -> None:
    settings(network, 0, 1)
    one = network.subscribe(retry_policy="SuspendRetries")
    network.outcomes = [500]
    network.push(one, b"1", b"2")
    await network.idle()
    assert network.bmc.state.subscriptions[0].suspended
    assert network.changed == [network.bmc]
    assert network.payloads == [b"1"]
    network.bmc.suspend_subscription("1", network.client.clock.now(), suspended=False)
    network.push(one, b"3")
    await network.idle()
    assert network.payloads == [b"1", b"3"]


async def test_terminate_after_retries_deletes(network: Network) -> None:
    settings(network, 0, 1)
    network.outcomes = [500]
    network.push(network.subscribe(retry_policy="TerminateAfterRetries"), b"1", b"2")
    await network.idle()
    assert network.bmc.state.subscriptions == ()
    assert network.changed == [network.bmc]
    assert network.payloads == [b"1"]


async def test_retry_forever_does(network: Network) -> None:
    settings(network, 1, 7)
    network.outcomes = [500] * 20
    network.push(network.subscribe(retry_policy="RetryForever"), b"1")
    await network.idle()
    assert network.slept == [7.0] * 20
    assert (network.counts, network.changed) == ((1, 20, 0), [])


@pytest.mark.parametrize(("interval", "longest"), [(7, 600.0), (1000, 1000.0)])
async def test_retry_forever_with_backoff_waits_longer_up_to_a_bound(
    network: Network, interval: int, longest: float
) -> None:
    settings(network, 1, interval)
    network.outcomes = [500] * 30
    network.push(network.subscribe(retry_policy="RetryForeverWithBackoff"), b"1")
    await network.idle()
    assert network.slept[0] == interval
    assert network.slept == sorted(network.slept)
    assert network.slept[1] == min(2.0 * interval, longest)
    assert network.slept[-1] == longest


@pytest.mark.parametrize("way", ["delete", "suspend", "reset", "quick reset"])
async def test_what_waits_is_given_up(network: Network, way: str) -> None:
    """When its subscription is deleted or suspended, and when the BMC resets, even if it is back before the retry."""
    network.outcomes = [500]
    one, moment = network.subscribe(), network.client.clock.now()

    def happens() -> None:
        if way == "delete":
            network.bmc.drop_subscription("1", moment)
        elif way == "suspend":
            network.bmc.suspend_subscription("1", moment, suspended=True)
        else:
            network.client.driver.execute(network.bmc, network.bmc.reset_bmc(moment))
            if way == "quick reset":
                network.client.advance(3600)

    network.while_sleeping = happens
    network.push(one, b"1", b"2")
    await network.idle()
    assert network.payloads == [b"1"]
    assert network.counts == (0, 1, 2)
    if way == "quick reset":
        network.push(one, b"3")
        await network.idle()
        assert network.payloads == [b"1", b"3"]


async def test_what_is_changed_meanwhile_counts_for_the_next_attempt(network: Network) -> None:
    network.outcomes = [500]
    network.subscribe()
    changed = Subscription("1", "http://127.0.0.1/x", headers=(("X", "2"),))
    network.while_sleeping = lambda: network.bmc.replace_subscription(changed, network.client.clock.now())
    network.push(network.bmc.state.subscriptions[0], b"1")
    await network.idle()
    assert [target.headers for target, _ in network.sent] == [{}, {"X": "2"}]


async def test_closing_gives_up_what_is_on_its_way(network: Network) -> None:
    network.hold = asyncio.Event()
    network.push(network.subscribe(), b"1", b"2")
    while not network.sent:
        await asyncio.sleep(0)
    await network.pusher.close()
    assert not network.pusher._tasks
    assert network.pusher._on_their_way == 0


# where it goes


def nets(*texts: str) -> Networks:
    return tuple([ipaddress.ip_network(text) for text in texts])


@pytest.mark.parametrize(
    ("destination", "allowed", "goes"),
    [
        ("http://127.0.0.1/", LOOPBACK, True),
        ("http://127.64.0.9:8080/", LOOPBACK, True),
        ("http://[::1]/", LOOPBACK, True),
        ("http://localhost/", LOOPBACK, True),
        ("http://[::ffff:127.0.0.1]/", LOOPBACK, True),
        ("https://192.168.1.50/Destination1", LOOPBACK, False),
        ("http://[::ffff:10.0.0.1]/", LOOPBACK, False),
        ("http://[::ffff:10.0.0.1]/", nets("::/0"), False),
        ("http://[::ffff:10.0.0.1]/", nets("10.0.0.0/8"), True),
        ("http://0.0.0.0/", LOOPBACK, False),
        ("http://[::]/", LOOPBACK, False),
        ("http://2130706433/", LOOPBACK, True),
        ("http://127.0.0.1@192.168.1.50/", LOOPBACK, False),
        ("http://192.168.1.50/", nets("192.168.1.50/32"), True),
        ("http://127.0.0.1/", (), False),
        ("http://" + "a" * 70 + ".example/", LOOPBACK, False),
    ],
)
async def test_nothing_outside_of_the_allowed_networks_is_dialled(
    dpu: Client, destination: str, allowed: Networks, goes: bool
) -> None:
    network = Network(dpu, allowed)
    settings(network, 0, 1)
    network.push(network.subscribe(destination), b"1")
    await network.idle()
    assert bool(network.sent) is goes
    assert network.bmc.state.subscriptions[0].suspended is not goes
    assert network.counts == ((1, 0, 0) if goes else (0, 1, 1))


async def test_of_a_name_with_several_addresses_an_allowed_one_is_dialled(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(host: str, port: int, **_others: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in ("192.168.1.50", "fe80::1%eth0", "127.0.0.7")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    network = Network(network.client, nets("127.0.0.0/8", "10.0.0.0/8"))
    network.push(network.subscribe("http://both.example/"), b"1")
    await network.idle()
    ((target, _),) = network.sent
    assert (target.host, str(target.address)) == ("both.example", "127.0.0.7")


@pytest.mark.parametrize(
    ("allowed", "host", "asks"),
    [
        (LOOPBACK, "name.example", False),
        (LOOPBACK, "localhost", True),
        (LOOPBACK, "LocalHost", True),
        (LOOPBACK, "127.0.0.1", False),
        ((), "name.example", False),
        (nets("127.0.0.0/8", "10.0.0.0/8"), "name.example", True),
        (nets("0.0.0.0/0"), "name.example", True),
    ],
)
async def test_names_are_looked_up_only_where_more_than_loopback_is_allowed(
    network: Network, monkeypatch: pytest.MonkeyPatch, allowed: Networks, host: str, asks: bool
) -> None:
    """The query itself would leave the machine, and say where to."""
    asked: list[bool] = []

    async def resolve(*_all: Any, flags: int = 0, **_others: Any) -> list[Any]:
        asked.append(not flags & socket.AI_NUMERICHOST)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    network = Network(network.client, allowed)
    settings(network, 0, 1)
    network.push(network.subscribe(f"http://{host}/"), b"1")
    await network.idle()
    assert asked == [asks]
    assert network.counts == (0, 1, 1)


async def test_a_name_that_is_not_resolved_in_time_is_a_failure(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(*_all: Any, **_others: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    monkeypatch.setattr(push, "_RESOLVE_TIMEOUT", 0.01)
    network = Network(network.client, nets("127.0.0.0/8", "10.0.0.0/8"))
    settings(network, 0, 1)
    network.push(network.subscribe("http://slow.example/"), b"1")
    await network.idle()
    assert network.counts == (0, 1, 1)


async def test_why_nothing_arrives_is_said_once_and_without_secrets(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    headers = (("Authorization", SECRET),)
    for path in ("a", "b"):
        destination = f"http://user:{SECRET}@192.168.1.50/{path}?token={SECRET}"
        network.push(network.subscribe(destination, headers=headers), SECRET.encode())
    with caplog.at_level(logging.DEBUG, "bmcsim"):
        await network.idle()
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "192.168.1.50" in record.getMessage()
    assert "--event-destination" in record.getMessage()
    assert SECRET not in caplog.text


async def test_without_the_bmcs_addresses_on_this_machine_any_source_will_do(network: Network) -> None:
    network.outcomes = [OSError(99, "Cannot assign requested address")]
    network.push(network.subscribe(), b"1", b"2")
    await network.idle()
    assert [(payload, target.source) for target, payload in network.sent] == [
        (b"1", "127.64.0.2"),
        (b"1", None),
        (b"2", None),
    ]
    assert network.counts == (2, 0, 0)


# the real network


class Receiver:
    """An HTTP server on loopback that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes, bytes]] = []
        self.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        self.silent = asyncio.Event()
        self.silent.set()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            body = await reader.readexactly(int(length.split(b":")[1]))
            self.got.append((writer.get_extra_info("peername")[0], head, body))
            await self.silent.wait()
            writer.write(self.answer)
            await writer.drain()
        finally:
            writer.close()


@pytest.fixture
async def receive() -> AsyncIterator[Callable[..., Awaitable[Receiver]]]:
    servers = []

    async def start(tls: ssl.SSLContext | None = None) -> Receiver:
        made = Receiver()
        servers.append(await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls))
        made.port = servers[-1].sockets[0].getsockname()[1]
        return made

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def https(tmp_path: Any) -> ssl.SSLContext:
    certificate, key = make_certificate()
    (tmp_path / "c.pem").write_bytes(certificate)
    (tmp_path / "k.pem").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c.pem", tmp_path / "k.pem")
    return context


def to(url: str, *, source: str | None = "127.64.0.2", verify: bool = False, **headers: str) -> Target:
    return Target(url, "localhost", ipaddress.ip_address("127.0.0.1"), source, headers, verify)


async def test_a_payload_arrives_from_the_bmcs_own_address(receive: Callable[..., Awaitable[Receiver]]) -> None:
    receiver = await receive()
    target = to(f"http://localhost:{receiver.port}/a%2Fb?x=1", Authorization=SECRET)
    assert await post_with_aiohttp(target, b'{"a":1}') == 204
    ((peer, head, body),) = receiver.got
    assert (peer, body) == ("127.64.0.2", b'{"a":1}')
    assert head.startswith(b"POST /a%2Fb?x=1 HTTP/1.1\r\n")
    for line in (b"Content-Type: application/json", b"OData-Version: 4.0", f"Authorization: {SECRET}".encode()):
        assert line in head.split(b"\r\n")
    assert f"Host: localhost:{receiver.port}".encode() in head


@pytest.mark.parametrize("host", ["LOCALHOST", "127.0.0.1", "[::FFFF:127.0.0.1]", "u:p@Localhost"])
async def test_every_way_to_write_an_address_leads_there(
    receive: Callable[..., Awaitable[Receiver]], network: Network, host: str
) -> None:
    receiver = await receive()
    network.pusher._post = post_with_aiohttp
    network.push(network.subscribe(f"HTTP://{host}:{receiver.port}/Path"), b"{}")
    await network.idle()
    assert receiver.got[0][1].startswith(b"POST /Path HTTP/1.1\r\n")


async def test_self_signed_certificates_are_taken_unless_they_are_to_be_verified(
    receive: Callable[..., Awaitable[Receiver]], https: ssl.SSLContext
) -> None:
    receiver = await receive(https)
    url = f"https://localhost:{receiver.port}/"
    assert await post_with_aiohttp(to(url), b"{}") == 204
    with pytest.raises(OSError):
        await post_with_aiohttp(to(url, verify=True), b"{}")
    assert len(receiver.got) == 1


async def test_a_redirect_is_not_followed(receive: Callable[..., Awaitable[Receiver]]) -> None:
    receiver, other = await receive(), await receive()
    receiver.answer = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%d/\r\n\r\n" % other.port
    assert await post_with_aiohttp(to(f"http://localhost:{receiver.port}/"), b"{}") == 307
    assert not other.got


async def test_a_receiver_that_does_not_answer_times_out(
    receive: Callable[..., Awaitable[Receiver]], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = await receive()
    receiver.silent.clear()
    monkeypatch.setattr(posting, "_TIMEOUT", 0.05)
    with pytest.raises(TimeoutError):
        await post_with_aiohttp(to(f"http://localhost:{receiver.port}/"), b"{}")
    receiver.silent.set()


async def test_nonsense_and_nobody_are_errors_of_the_system(receive: Callable[..., Awaitable[Receiver]]) -> None:
    receiver = await receive()
    receiver.answer = b"nonsense\r\n\r\n"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for port in (receiver.port, unused.getsockname()[1]):
            with pytest.raises(OSError):
                await post_with_aiohttp(to(f"http://localhost:{port}/"), b"{}")


async def test_only_the_host_that_was_allowed_is_dialled(receive: Callable[..., Awaitable[Receiver]]) -> None:
    receiver = await receive()
    with pytest.raises(OSError, match="ambiguous"):
        await post_with_aiohttp(to(f"http://127.0.0.1:{receiver.port}/"), b"{}")
    assert not receiver.got


async def test_an_address_that_is_not_this_machines_is_told_from_other_failures(
    receive: Callable[..., Awaitable[Receiver]], network: Network
) -> None:
    """The pusher then does without."""
    receiver = await receive()
    network.bmc.address = "127.64.0.2"
    network.pusher._post = post_with_aiohttp
    with pytest.raises(OSError) as caught:
        await post_with_aiohttp(to(f"http://localhost:{receiver.port}/", source="192.0.2.1"), b"{}")
    assert caught.value.errno == 99
    network.push(network.subscribe(f"http://127.0.0.1:{receiver.port}/"), b"{}")
    await network.idle()
    assert receiver.got[0][0] == "127.64.0.2"


def test_the_client_is_loaded_when_it_is_needed_and_not_on_the_loop() -> None:
    """In another process, since this one has it."""
    code = """
import asyncio, ipaddress, sys, threading
import bmcsim.cli.serve
from bmcsim.edges.push import Target, post_with_aiohttp
assert "aiohttp" not in sys.modules
where = []
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "aiohttp":
            where.append(threading.current_thread() is threading.main_thread())
sys.meta_path.insert(0, Finder())
target = Target("http://127.0.0.1:1/", "127.0.0.1", ipaddress.ip_address("127.0.0.1"), None, {}, False)
async def main():
    posts = [post_with_aiohttp(target, b"") for _ in range(3)]
    print(*[type(one).__name__ for one in await asyncio.gather(*posts, return_exceptions=True)])
asyncio.run(main())
assert where == [False], where
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "OSError" in done.stdout or "ConnectionRefusedError" in done.stdout


def test_two_bmcs_have_queues_of_their_own() -> None:
    """Their subscriptions have the same ids."""

    async def main() -> None:
        first, second = Network(make_client("bluefield3")), Network(make_client("bluefield3", index=1))
        second.pusher = first.pusher
        for network in (first, second):
            network.push(network.subscribe(), b"x")
        assert len(first.pusher._queues) == 2
        await first.idle()

    asyncio.run(main())
