"""A NICo API for tests: what bmcsim calls of it, over real gRPC, and as unfriendly as a test wants it."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.empty_pb2 import Empty

from bmcsim.edges.nico import calls
from bmcsim.edges.nico import common_pb2 as common
from bmcsim.edges.nico import forge_pb2 as forge
from bmcsim.edges.nico.calls import Method
from bmcsim.edges.nico.certificates import Files
from bmcsim.edges.nico.channel import Api, Target
from bmcsim.edges.nico.pace import Pace
from tests.certificates import Made, make

SPIFFE = "spiffe://nico.local/nico-system/sa/machine-a-tron"
METHODS: tuple[Method[Any, Any], ...] = (
    calls.VERSION, calls.DISCOVER_DHCP, calls.DESIRED_FIRMWARE, calls.SET_CONFIG, calls.ADD_MACHINE, calls.ADD_SWITCH,
    calls.ADD_SHELF, calls.ADD_RACK, calls.GET_RACK, calls.FORCE_DELETE,
)  # fmt: skip


class Segment(NamedTuple):
    """A network of the site. kind: BMC, UNDERLAY or HOST_INBAND."""

    kind: str
    prefix: IPv4Network


SEGMENTS = {
    "10.1.0.1": Segment("BMC", IPv4Network("10.1.0.0/16")),
    "10.2.0.1": Segment("UNDERLAY", IPv4Network("10.2.0.0/16")),
    "10.3.0.1": Segment("HOST_INBAND", IPv4Network("10.3.0.0/16")),
}
"""Address of a relay -> the segment behind it."""


class Refusal(Exception):
    """What a test makes a method answer with."""

    def __init__(self, code: grpc.StatusCode, details: str = "", pushback: str | None = None) -> None:
        super().__init__(details)
        self.code, self.details, self.pushback = code, details, pushback


Before = Callable[[str, Any], Awaitable[None]]
"""Runs before each call, with the method's name and its request; may wait and may raise Refusal."""


class FakeApi:
    """asked: when each call came in, on time.monotonic, with its method. before: see Before.

    kinds: MAC -> kind of segment that it has to ask on; others may ask anywhere. twice: MAC -> whose address it gets.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self.peers: Counter[str] = Counter()
        self.before: Before | None = None
        self.kinds: dict[str, str] = {}
        self.twice: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        self.expected: dict[str, Any] = {}
        self.racks: dict[str, forge.ExpectedRack] = {}
        self.settings: dict[int, str] = {}
        self.deleted: list[forge.AdminForceDeleteMachineRequest] = []
        self.firmware: list[forge.DesiredFirmwareVersionEntry] = []
        self._given: Counter[str] = Counter()
        self._server: grpc.aio.Server | None = None
        self.port = 0

    def count(self, method: str) -> int:
        """How often a method was called."""
        return sum(name == method for _, name in self.asked)

    def busiest_second(self) -> int:
        """The most calls that came in within one second, wherever it begins."""
        times, most, first = sorted(when for when, _ in self.asked), 0, 0
        for last, when in enumerate(times):
            while times[first] <= when - 1.0:
                first += 1
            most = max(most, last - first + 1)
        return most

    async def start(self, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listen on 127.0.0.1."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers = {method.name: self._handler(method) for method in METHODS}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("forge.Forge", handlers),))
        at = f"127.0.0.1:{port}"
        self.port = server.add_secure_port(at, credentials) if credentials else server.add_insecure_port(at)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def _handler(self, method: Method[Any, Any]) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            self.asked.append((time.monotonic(), method.name))
            identity = context.auth_context().get("x509_subject_alternative_name", [b""])
            self.peers[identity[0].decode()] += 1
            try:
                if self.before is not None:
                    await self.before(method.name, request)
                return getattr(self, f"_{method.name}")(request)
            except Refusal as refusal:
                if refusal.pushback is not None:
                    context.set_trailing_metadata((("grpc-retry-pushback-ms", refusal.pushback),))
                await context.abort(refusal.code, refusal.details)

        return grpc.unary_unary_rpc_method_handler(handle, method.request.FromString, method.answer.SerializeToString)

    def _Version(self, request: forge.VersionRequest) -> forge.BuildInfo:
        return forge.BuildInfo(build_version="v2026.11-fake")

    def _DiscoverDhcp(self, request: forge.DhcpDiscovery) -> forge.DhcpRecord:
        segment, mac = SEGMENTS.get(request.relay_address), request.mac_address
        if segment is None:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"no segment has the relay {request.relay_address}")
        if self.kinds.get(mac, segment.kind) != segment.kind:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"{mac} may not be on a segment of type {segment.kind}")
        if mac not in self.addresses:
            self._given[segment.kind] += 1
            self.addresses[mac] = str(segment.prefix.network_address + 9 + self._given[segment.kind])
        return forge.DhcpRecord(
            machine_interface_id=common.MachineInterfaceId(value=f"00000000-0000-4000-8000-{mac.replace(':', '')}"),
            fqdn=f"h-{mac.replace(':', '').lower()}.example.org",
            mac_address=mac,
            address=self.addresses[self.twice.get(mac, mac)],
            mtu=9000,
            prefix=str(segment.prefix),
            gateway=request.relay_address,
            ntp_servers=["10.9.9.9"],
        )

    def _GetDesiredFirmwareVersions(self, request: Any) -> forge.GetDesiredFirmwareVersionsResponse:
        return forge.GetDesiredFirmwareVersionsResponse(entries=self.firmware)

    def _SetDynamicConfig(self, request: forge.SetDynamicConfigRequest) -> Empty:
        self.settings[request.setting] = request.value
        return Empty()

    def _expect(self, request: Any) -> Empty:
        if request.bmc_mac_address in self.expected:
            raise Refusal(grpc.StatusCode.ALREADY_EXISTS, f"{request.bmc_mac_address} is expected already")
        if (
            request.HasField("rack_id")
            and request.rack_id.id.startswith("rack")
            and request.rack_id.id not in self.racks
        ):
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"there is no rack {request.rack_id.id}")
        self.expected[request.bmc_mac_address] = request
        return Empty()

    _AddExpectedMachine = _AddExpectedSwitch = _AddExpectedPowerShelf = _expect

    def _AddExpectedRack(self, request: forge.ExpectedRack) -> Empty:
        if request.rack_id.id in self.racks:
            raise Refusal(grpc.StatusCode.ALREADY_EXISTS, f"{request.rack_id.id} is expected already")
        self.racks[request.rack_id.id] = request
        return Empty()

    def _GetExpectedRack(self, request: forge.ExpectedRackRequest) -> forge.ExpectedRack:
        if request.rack_id not in self.racks:
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"there is no rack {request.rack_id}")
        return self.racks[request.rack_id]

    def _AdminForceDeleteMachine(
        self, request: forge.AdminForceDeleteMachineRequest
    ) -> forge.AdminForceDeleteMachineResponse:
        self.deleted.append(request)
        return forge.AdminForceDeleteMachineResponse(all_done=True)


@contextlib.asynccontextmanager
async def running(
    api: FakeApi | None = None, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[FakeApi]:
    """A fake that listens while the block runs."""
    api = api or FakeApi()
    await api.start(credentials=credentials)
    try:
        yield api
    finally:
        await api.stop()


@contextlib.asynccontextmanager
async def api_at(fake: FakeApi, files: Files | None = None, rate: float | None = None) -> AsyncIterator[Api]:
    """A connection of bmcsim's to a fake, which looks at its files."""
    api = Api(Target(f"127.0.0.1:{fake.port}", files), Pace(rate, time.monotonic))
    watching = asyncio.create_task(api.watch())
    try:
        yield api
    finally:
        watching.cancel()
        await api.close()


class Authority:
    """A certificate authority of a test, and what it gives."""

    def __init__(self) -> None:
        self.made = make("test authority")

    def server(self) -> grpc.ServerCredentials:
        """Of a server at 127.0.0.1 that lets only its clients in."""
        own = make("nico-api", by=self.made, names=["127.0.0.1"])
        pair = (own.key_text.encode(), own.text.encode())
        return grpc.ssl_server_credentials([pair], self.made.text.encode(), require_client_auth=True)

    def client(self, identity: str = SPIFFE) -> Made:
        """A client's certificate."""
        return make("client", by=self.made, names=[identity])

    def write(self, directory: Path, identity: str = SPIFFE) -> Made:
        """ca.crt, tls.crt and tls.key, the key last as Kubernetes does not do it; the client's certificate."""
        client = self.client(identity)
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in (("ca.crt", self.made.text), ("tls.crt", client.text), ("tls.key", client.key_text)):
            (directory / name).write_text(text)
        return client


def is_in(address: str, relay: str) -> bool:
    """Whether an address is one of the segment behind a relay."""
    return IPv4Address(address) in SEGMENTS[relay].prefix


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something holds; fails after some time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
