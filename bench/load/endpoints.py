"""Which BMCs are loaded: those of a file, of a network, or of a fleet that the bench itself starts."""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench.server import BenchError, Fleet
from bmcsim.fleet.config import FleetConfig, default
from bmcsim.fleet.identities import plan
from bmcsim.machine.identity import Kind
from bmcsim.tree.profile import Head, load

MAX_BYTES = 64 << 20
MAX_ENDPOINTS = 1_000_000

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class Endpoint(NamedTuple):
    """One BMC. address: IPv4, IPv6 without brackets, or a name. password: the one that it has before the run."""

    address: str
    port: int
    user: str
    password: str

    @property
    def authority(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def forwarded(self) -> str:
        """The value of a Forwarded field that means this BMC (RFC 7239; IPv6 is bracketed and quoted)."""
        return f'host="[{self.address}]"' if ":" in self.address else f"host={self.address}"


def read(source: str, port: int, user: str, password: str) -> list[Endpoint]:
    """The endpoints of a file or, where `source` has a slash and is no file, of a network such as 10.0.0.0/24.

    A line of a file is ADDRESS[:PORT] [USER PASSWORD]; '#' begins a comment line. What a line leaves out is `port`,
    `user` and `password`. Raises BenchError, which names file and line.
    """
    path = Path(source)
    if path.is_file():
        if path.stat().st_size > MAX_BYTES:
            raise BenchError(f"{source} has more than {MAX_BYTES >> 20} MiB: an endpoint file has one BMC a line")
        try:
            text = path.read_text()
        except UnicodeDecodeError as error:
            raise BenchError(f"{source} is no UTF-8 text: {error}") from None
        return _checked(source, _of_lines(source, text.splitlines(), Endpoint("", port, user, password)))
    try:
        network = ipaddress.ip_network(source)
    except ValueError:
        raise BenchError(f"{source} is neither a file nor a network such as 10.0.0.0/24") from None
    if network.num_addresses > MAX_ENDPOINTS:
        raise BenchError(f"{source} has {network.num_addresses:,} addresses; at most {MAX_ENDPOINTS:,} can be loaded")
    return [Endpoint(str(address), port, user, password) for address in network.hosts()]


def of_fleet(fleet: Fleet, racks: int, port: int, rotated: str | None) -> list[Endpoint]:
    """The BMCs that a bmcsim with this fleet, or with so many racks, serves.

    rotated: the password that they were started with; None for the factory's.
    """
    config = default(racks=racks) if racks else default(fleet.hosts, fleet.dpus, fleet.profile)
    return list(_planned(config, port, rotated))


def _planned(config: FleetConfig, port: int, rotated: str | None) -> Iterator[Endpoint]:
    for one in plan(config):
        head = _head(one.group.hw_type, one.identity.kind is Kind.DPU)
        account = head.accounts[0]
        factory = rotated is None or head.behaviour.ignores_pinned_password
        yield Endpoint(one.address, port, account.user, account.password if factory else rotated or "")


@cache
def _head(hw_type: str, of_dpu: bool) -> Head:
    head = load(hw_type).head
    return load(head.dpu).head if of_dpu else head


def _of_lines(source: str, lines: Iterable[str], rest: Endpoint) -> Iterator[Endpoint]:
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in (1, 3):
            raise BenchError(f"{source}, line {number}: {len(words)} words; a line is ADDRESS[:PORT] [USER PASSWORD]")
        try:
            address, port = split(words[0], rest.port)
        except ValueError as error:
            raise BenchError(f"{source}, line {number}: {error}") from None
        user, password = words[1:] if len(words) == 3 else (rest.user, rest.password)
        yield Endpoint(address, port, user, password)


def split(text: str, port: int) -> tuple[str, int]:
    """Address and port of ADDRESS, ADDRESS:PORT or [IPV6]:PORT; `port` where there is none. Raises ValueError."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?", text)
    if bracketed:
        address, digits = str(ipaddress.IPv6Address(bracketed[1])), bracketed[2]
    elif text.count(":") > 1:
        address, digits = str(ipaddress.IPv6Address(text)), None
    else:
        address, _, digits = text.partition(":")
        if not _NAME.fullmatch(address):
            raise ValueError(f"{address!r} is no address or name")
    if digits is None or (digits == "" and not text.endswith(":")):
        return address, port
    if not digits.isdecimal() or not 0 < int(digits) < 65_536:
        raise ValueError(f"the port of {text!r} is not between 1 and 65535")
    return address, int(digits)


def _checked(source: str, found: Iterable[Endpoint]) -> list[Endpoint]:
    endpoints: dict[tuple[str, int], Endpoint] = {}
    for endpoint in found:
        key = endpoint.address, endpoint.port
        if key in endpoints:
            raise BenchError(f"{source}: {endpoint.authority} is there twice")
        endpoints[key] = endpoint
        if len(endpoints) > MAX_ENDPOINTS:
            raise BenchError(f"{source} has more than {MAX_ENDPOINTS:,} endpoints")
    if not endpoints:
        raise BenchError(f"{source} has no endpoint")
    return list(endpoints.values())
