"""What is asked of the fleet: the paths that NICo reads, found by walking live BMCs, and their mix.

NICo reads a BMC in three ways. Exploration reads its identity, firmware and settings in one sequence; discovery
looks every few minutes for parts that have sensors; monitoring then reads every sensor once a minute, one GET
each, and every leak detector. In a steady fleet that makes nine requests out of ten a single sensor.
"""

import itertools
import random
import re
import ssl
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson

from bench.client import Connection, any_certificate, connected, encode
from bench.server import USER, BenchError, Role, Server, Site

ROOT = "/redfish/v1"
ACCOUNTS = f"{ROOT}/AccountService/Accounts"
SENSOR_SHARE = 0.90
LEAK_SHARE = 0.03
SEED = 2026

# Relative to ROOT, `*` is one segment; the order is the one in which NICo's site explorer reads them.
_EXPLORATION = (
    "",
    "Chassis",
    "Chassis/*",
    "Chassis/*/NetworkAdapters",
    "Chassis/*/NetworkAdapters/*",
    "Chassis/*/NetworkAdapters/*/NetworkDeviceFunctions",
    "Chassis/*/NetworkAdapters/*/NetworkDeviceFunctions/*",
    "UpdateService",
    "UpdateService/FirmwareInventory",
    "UpdateService/FirmwareInventory/*",
    "Systems",
    "Systems/*",
    "Managers",
    "Managers/*",
    "Systems/*/BootOptions",
    "Systems/*/BootOptions/*",
    "Systems/*/Bios",
    "Systems/*/EthernetInterfaces",
    "Systems/*/EthernetInterfaces/*",
    "Systems/*/Oem/Nvidia",
    "Systems/*/SecureBoot",
    "Managers/*/EthernetInterfaces",
    "Managers/*/EthernetInterfaces/*",
    "Managers/*/HostInterfaces",
    "Managers/*/HostInterfaces/*",
    "Managers/*/Oem/Dell/DellAttributes/*",
    "Managers/*/NetworkProtocol",
    "Chassis/*/PCIeDevices",
    "Chassis/*/PCIeDevices/*",
)
_DISCOVERY = (
    "Systems/*/Processors",
    "Systems/*/Processors/*",
    "Systems/*/Memory",
    "Systems/*/Memory/*",
    "Systems/*/Storage",
    "Systems/*/Storage/*",
    "Chassis/*/PowerSubsystem",
    "Chassis/*/PowerSubsystem/PowerSupplies",
    "Chassis/*/PowerSubsystem/PowerSupplies/*",
    "Chassis/*/ThermalSubsystem",
    "Chassis/*/Sensors",
)
_LEAKS = (
    "Chassis/*/ThermalSubsystem/LeakDetection",
    "Chassis/*/ThermalSubsystem/LeakDetection/LeakDetectors",
    "Chassis/*/ThermalSubsystem/LeakDetection/LeakDetectors/*",
)
_SENSOR = "Chassis/*/Sensors/*"
_SYSTEMS = f"{ROOT}/Systems/"

_LINK = re.compile(rb'"@odata\.id"\s*:\s*"([^"#]+)"')


def _pattern(template: str) -> re.Pattern[str]:
    suffix = f"/{template}" if template else ""
    return re.compile(re.escape(ROOT + suffix).replace(r"\*", "[^/]+"))


_RANKED = [_pattern(template) for template in (*_EXPLORATION, *_DISCOVERY, *_LEAKS, _SENSOR)]
FIRST_DISCOVERY = len(_EXPLORATION)
FIRST_LEAK = FIRST_DISCOVERY + len(_DISCOVERY)
SENSOR_RANK = len(_RANKED) - 1


@dataclass(frozen=True, slots=True)
class Tree:
    """What one kind of BMC has to read: paths in NICo's order, and the bytes of each path's body."""

    exploration: tuple[str, ...]
    discovery: tuple[str, ...]
    leaks: tuple[str, ...]
    sensors: tuple[str, ...]
    sizes: Mapping[str, int]
    account: str

    @property
    def system(self) -> str:
        """The computer system that NICo would look at; the chassis where there is none."""
        return next((path for path in self.exploration if path.startswith(_SYSTEMS)), f"{ROOT}/Chassis")

    def sequence(self, count: int) -> list[str]:
        """The first `count` GETs of a client that reads everything; starts over where there is not as much."""
        everything = [*self.exploration, *self.discovery, *self.leaks, *self.sensors]
        return [everything[position % len(everything)] for position in range(count)]


Trees = Mapping[Role, Tree]


@dataclass(frozen=True, slots=True)
class Request:
    """One GET of `path` at BMC `index`."""

    index: int
    path: str


async def walk(site: Site, server: Server) -> Trees:
    """Read the first BMC of every role. Raises BenchError where a link is broken."""
    context = any_certificate()
    return {
        role: await _walk_one(site.address(index), server.port, context, site.password(index))
        for role, (index, *_) in members(site).items()
    }


def members(site: Site) -> dict[Role, list[int]]:
    """The BMCs of each role."""
    found: dict[Role, list[int]] = {}
    for index in range(site.bmcs):
        found.setdefault(site.role(index), []).append(index)
    return found


def mix(site: Site, trees: Trees, count: int) -> list[Request]:
    """`count` requests of a steady fleet in random order, over random BMCs; the same ones on every call."""
    dice = random.Random(SEED)
    bmcs = members(site)

    def pool(select: Callable[[Tree], Sequence[str]]) -> tuple[list[tuple[Role, str]], list[int]]:
        """All paths of a sort, and how many requests are up to each of them, those before it included."""
        pairs = [(role, path) for role in bmcs for path in select(trees[role])]
        return pairs, list(itertools.accumulate(len(bmcs[role]) for role, _ in pairs))

    sensors, leaks = pool(lambda tree: tree.sensors), pool(lambda tree: tree.leaks)
    others = pool(lambda tree: (*tree.exploration, *tree.discovery))
    if not sensors[0]:
        raise BenchError("no BMC has a sensor")

    def draw() -> Request:
        share = dice.random()
        rest = leaks if leaks[0] and share < SENSOR_SHARE + LEAK_SHARE else others
        pairs, weights = sensors if share < SENSOR_SHARE else rest
        ((role, path),) = dice.choices(pairs, cum_weights=weights)
        return Request(dice.choice(bmcs[role]), path)

    return [draw() for _ in range(count)]


def forwarded(site: Site, server: Server, requests: list[Request]) -> list[bytes]:
    """The requests as bytes for connections to one address; a Forwarded header says which BMC is meant."""
    authority = f"{server.address}:{server.port}"
    return [
        encode(authority, request.path, forwarded=site.address(request.index), password=site.password(request.index))
        for request in requests
    ]


def median_size(site: Site, trees: Trees, requests: list[Request]) -> int:
    """The median of the requests' body sizes in bytes."""
    return round(statistics.median(trees[site.role(request.index)].sizes[request.path] for request in requests))


async def _walk_one(address: str, port: int, context: ssl.SSLContext, password: str) -> Tree:
    found = {ROOT: 0}
    sizes: dict[str, int] = {}
    async with connected(address, port, context) as connection:
        waiting = [ROOT]
        while waiting:
            path = waiting.pop()
            body = await _get(connection, f"{address}:{port}", path, password)
            sizes[path] = len(body)
            for link in links(body):
                place = rank(link)
                if place is not None and link not in found:
                    found[link] = place
                    waiting.append(link)
        account = await _own_account(connection, f"{address}:{port}", password)
    ordered = sorted(found, key=lambda path: (found[path], path))
    tree = Tree(
        exploration=tuple(path for path in ordered if found[path] < FIRST_DISCOVERY),
        discovery=tuple(path for path in ordered if FIRST_DISCOVERY <= found[path] < FIRST_LEAK),
        leaks=tuple(path for path in ordered if FIRST_LEAK <= found[path] < SENSOR_RANK),
        sensors=tuple(path for path in ordered if found[path] == SENSOR_RANK),
        sizes=sizes,
        account=account,
    )
    if not tree.sensors and not any(path.startswith(_SYSTEMS) for path in tree.exploration):
        raise BenchError(f"the BMC at {address} has no sensors and no system: {len(ordered)} resources found")
    return tree


async def _own_account(connection: Connection, authority: str, password: str) -> str:
    """The account whose user name is USER, looked up by name because some vendors number their accounts."""
    for link in links(await _get(connection, authority, ACCOUNTS, password)):
        if link.startswith(f"{ACCOUNTS}/"):
            account = orjson.loads(await _get(connection, authority, link, password))
            if account.get("UserName") == USER:
                return link
    raise BenchError(f"the BMC at {authority} has no account named {USER}")


async def _get(connection: Connection, authority: str, path: str, password: str) -> bytes:
    response = await connection.request(encode(authority, path, password=password))
    if response.status != 200:
        raise BenchError(f"GET https://{authority}{path} answers {response.status}: {response.body[:300]!r}")
    return response.body


def links(body: bytes) -> Iterator[str]:
    """The paths that a resource links to, as they come, without a slash at the end."""
    for match in _LINK.finditer(body):
        yield match[1].decode().rstrip("/")


@lru_cache(maxsize=1 << 16)
def rank(path: str) -> int | None:
    """The place of a path in the order in which it is read; None for what NICo does not read."""
    return next((place for place, pattern in enumerate(_RANKED) if pattern.fullmatch(path)), None)
