"""Fixtures that all tests share: one BMC of each profile with a manual clock, called without any network."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.build import first_state
from bmcsim.fleet.conduct import changed, facts
from bmcsim.fleet.driver import Driver
from bmcsim.machine import holes
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Accounts, Hasher
from bmcsim.machine.faults import Rules
from bmcsim.machine.identity import Identity, Kind
from bmcsim.machine.resources import Shared
from bmcsim.redfish.exchange import Head, Request, Response, Upload
from bmcsim.redfish.injection import preset_rules
from bmcsim.redfish.service import handle
from bmcsim.tree.compile import Tree, compile_tree
from bmcsim.tree.profile import load, names

PASSWORD = "Rotated-1"

_trees: dict[str, Tree] = {}


def basic(user: str, password: str) -> bytes:
    """An Authorization field value."""
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


class Client:
    """A BMC, its driver and its clock, and requests to it by direct call of `handle`."""

    def __init__(self, bmc: Bmc, clock: ManualClock) -> None:
        self.bmc, self.clock = bmc, clock
        self.driver = Driver(clock)
        self.authorization = basic(bmc.tree.head.accounts[0].user, PASSWORD)

    def request(self, method: str, path: str, body: Any = None, **fields: Any) -> Response:
        """Send a request; body: bytes as they are, anything else as JSON. The response's actions are executed."""
        target, _, query = path.partition("?")
        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body)
        if body:
            fields.setdefault("content_type", b"application/json")
        fields.setdefault("authorization", self.authorization)
        request = Request(method, target, self.clock.now(), Head(**fields), query, body or b"")
        response = handle(self.bmc, request)
        self.driver.execute(self.bmc, response.actions)
        return response

    def push(
        self, path: str, file_name: str = "", parameters: Any = None, *, head: bytes = b"\x7f", size: int = 1000
    ) -> Response:
        """Push an image as the edge hands it on: as multipart where there are parameters, else raw."""
        kind = b"application/octet-stream" if parameters is None else b"multipart/form-data; boundary=x"
        text = b"" if parameters is None else parameters if isinstance(parameters, bytes) else orjson.dumps(parameters)
        upload = Upload(size, "00" * 32, file_name, text, head=head, has_file=True)
        fields = Head(authorization=self.authorization, content_type=kind)
        response = handle(self.bmc, Request("POST", path, self.clock.now(), fields, upload=upload))
        self.driver.execute(self.bmc, response.actions)
        return response

    def get(self, path: str, **fields: Any) -> Any:
        """The JSON of a GET that must succeed."""
        response = self.request("GET", path, **fields)
        assert response.status == 200, (path, response.status, response.body)
        return orjson.loads(response.body)

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire what is due in order."""
        end = self.clock.now().mono + seconds
        while (deadline := self.driver._heap.next_deadline()) is not None:
            now = self.clock.now()
            wait = now.real_seconds(deadline - now.hardware)
            if now.scale == 0 or now.mono + wait > end + 1e-9:
                break
            self.clock.advance(wait)
            self.driver.run_due()
        self.clock.advance(max(0.0, end - self.clock.now().mono))


def header(response: Response, name: str) -> str | None:
    """The value of a header field of a response, None when it is not there."""
    for line in response.head.decode("latin-1").split("\r\n"):
        key, _, value = line.partition(": ")
        if key.lower() == name.lower():
            return value
    return None


def message_ids(response: Response) -> list[str]:
    """The keys of the messages of an error response, without the registry prefix."""
    return [
        one["MessageId"].rpartition(".")[2] for one in orjson.loads(response.body)["error"]["@Message.ExtendedInfo"]
    ]


def tree_of(profile: str, variant: str = "") -> Tree:
    """The compiled tree of a profile, once per test process."""
    key = f"{profile}:{variant}"
    if key not in _trees:
        _trees[key] = compile_tree(load(profile, variant=variant), holes.bind)
    return _trees[key]


class Wire:
    """A transport that keeps what is written. dialled: its own address and port."""

    def __init__(self, dialled: tuple[str, int]) -> None:
        self.dialled, self.written = dialled, b""

    def get_extra_info(self, name: str) -> Any:
        return self.dialled if name == "sockname" else None

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False


def profiles_where(holds: Callable[[Tree], object]) -> list[str]:
    """The names of the profiles whose trees are so: what a test that needs something is run for."""
    return [name for name in names() if holds(tree_of(name))]


def make_client(
    profile: str, *, index: int = 0, password: str | None = PASSWORD, time_scale: float = 1.0, variant: str = ""
) -> Client:
    """A client of one BMC. password: what all accounts are rotated to, None for the factory password."""
    tree = tree_of(profile, variant)
    base = 0x020000000001 + index * 16
    if tree.head.kind == "dpu":
        identity = Identity(Kind.DPU, base, base + 1, base + 2)
    else:
        kind = Kind(tree.head.kind)
        dpus = tuple(Identity(Kind.DPU, base + 3 * n, base + 3 * n + 1, base + 3 * n + 2) for n in range(2))
        host_mac, oob_mac = (0, base + 7) if kind is Kind.SWITCH else (base + 7, 0)
        hw_base = 0x060000000100 + index * 256
        identity = Identity(kind, base + 6, host_mac, oob_mac, hw_base, dpus if kind is Kind.HOST else ())
    hasher = Hasher(b"k" * 32)
    accounts = Accounts.factory(tree.head.accounts, hasher, tree.head.behaviour.factory_password_everywhere, password)
    clock = ManualClock(scale=time_scale)
    timings = msgspec.structs.replace(tree.head.timings, jitter=0.0)
    shared = Shared(tree, timings, accounts, hasher, behaviour=tree.head.behaviour)
    bmc = Bmc(f"bmc-{index}", identity, f"192.0.2.{index + 1}", shared, first_state(shared, clock.now().wall))
    return Client(bmc, clock)


def with_faults(client: Client, *presets: str) -> Client:
    """The same BMC with fault presets."""
    moment = client.clock.now()
    rules = [rule for name in presets for rule in preset_rules(name, moment.wall).rules]
    client.bmc.become(moment, faults=Rules.of(rules))
    client.bmc.committed()
    return client


def with_facts(client: Client, **others: Any) -> Client:
    """The same BMC with other facts of its behaviour, as a fleet file gives them."""
    shared = client.bmc.shared
    client.bmc.shared = msgspec.structs.replace(shared, behaviour=changed(shared.behaviour, facts(others)))
    return client


@pytest.fixture
def dpu() -> Client:
    """A BlueField-3 whose password was rotated."""
    return make_client("bluefield3")


@pytest.fixture
def host() -> Client:
    """An R750 with two DPUs whose password was rotated."""
    return make_client("dell_poweredge_r750")


@pytest.fixture
def factory() -> Callable[..., Client]:
    """Makes clients; see make_client."""
    return make_client
