"""Which BMCs of a fleet are meant, and the facts by which they are told apart.

Rule 1: what a selection names it must all hold; of several values of one word, one.
Rule 2: a sample is taken of what is left after that. It depends on its seed and the BMCs' ids alone, so it is the same
in every process, and a BMC more or less changes nothing of the others' places.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from ipaddress import IPv4Network, ip_address
from itertools import islice
from socket import inet_aton
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bmcsim.fleet.devices import mat_id
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Account
from bmcsim.machine.identity import Kind

State = Literal["up", "resetting", "unpowered", "no_lease", "starting"]
PowerState = Literal["On", "Off", "PoweringOn", "PoweringOff"]
Credentials = Literal["factory", "current", "pinned"]

CHUNK = 500
"""BMCs that are looked at between two turns of others."""

_MAX_WORDS = 20_000
_SHOWN = 20
_DPU = "-dpu-"
_HEX = re.compile(r"[0-9a-f:]+")
_MAC = re.compile(r"[0-9A-Fa-f]{12}")

Word = Annotated[str, Meta(max_length=200)]
Words = Annotated[list[Word], Meta(max_length=_MAX_WORDS)]


class SelectionError(Exception):
    """A selection is wrong; the text says what would be right. missing: it names a BMC that is not there."""

    def __init__(self, text: str, *, missing: bool = False) -> None:
        super().__init__(text)
        self.missing = missing


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Some of the BMCs. share: how many of all, 0 to 1; or count: how many. seed: another one for others."""

    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    count: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    def of(self, total: int) -> int:
        """How many of so many."""
        if self.count is not None:
            return min(self.count, total)
        return round(total * (1.0 if self.share is None else self.share))


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What BMCs must be. ids: ids, addresses, MACs, serial numbers or mat_ids. address: addresses and IPv4 networks.
    q: a part of the id, address, MAC or serial number. sample: of all others that are so."""

    ids: Words = []
    group: Words = []
    rack: Words = []
    hardware: Words = []
    kind: list[Kind] = []
    state: list[State] = []
    power: list[PowerState] = []
    address: Words = []
    q: Word = ""
    sample: Sample | None = None

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return self == Selection()

    @property
    def brief(self) -> "Selection":
        """As it is kept to be shown: of each word the first 20 values. Millions of bytes may come with each request."""
        lists = {name: value for name, value in msgspec.structs.asdict(self).items() if isinstance(value, list)}
        return msgspec.structs.replace(self, **{name: values[:_SHOWN] for name, values in lists.items()})


# facts


def parent_of(bmc: Bmc) -> str | None:
    """Id of the host that a DPU is in, None for others."""
    return bmc.id.rpartition(_DPU)[0] if bmc.identity.kind is Kind.DPU else None


def state_of(bmc: Bmc, fleet: Fleet) -> State:
    """What the BMC itself is doing."""
    service = bmc.state.service
    if service is not Service.UP:
        return "resetting" if service is Service.RESETTING else "unpowered"
    if not fleet.ready:
        return "starting"
    return "up" if bmc.address else "no_lease"


def credentials_of(bmc: Bmc) -> Credentials:
    """Which password the first account of the BMC has."""
    account = bmc.accounts.get(bmc.tree.head.accounts[0].id)
    return "current" if account is None else generation_of(bmc, account)


def generation_of(bmc: Bmc, account: Account) -> Credentials:
    """Which password an account has: the factory's, the one that was given at the start and is kept, or another one."""
    if account.digest == account.factory:
        return "factory"
    first = bmc.shared.accounts.get(account.id)
    pinned = bmc.shared.policy == "pinned" and first is not None and first.digest == account.digest
    return "pinned" if pinned else "current"


class Racks:
    """Which rack each BMC is in. of_groups: name of a group -> the rack that the fleet file says all of it are in."""

    def __init__(self, fleet: Fleet, of_groups: dict[str, str]) -> None:
        self._fleet, self._of_groups = fleet, of_groups

    def of(self, bmc: Bmc) -> str | None:
        """The id of its rack, that of its host for a DPU; None where it stands free."""
        place = bmc.identity.place
        if place is None and (parent := parent_of(bmc)) is not None:
            host = self._fleet.by_id(parent)
            place = host.identity.place if host is not None else None
        return place.rack if place is not None else self._of_groups.get(bmc.shared.group)


# finding one


class Finder:
    """Finds BMCs by what they are called. To be used at once: it does not notice what is added to the fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._others: dict[str, Bmc] | None = None

    def find(self, name: str) -> Bmc:
        """The BMC with an id, an address, a MAC (with colons, dashes or neither), a serial number or a mat_id.

        Raises SelectionError.
        """
        fleet = self._fleet
        bmc = fleet.by_id(name) or fleet.by_address(name)
        if bmc is None and _MAC.fullmatch(digits := name.replace(":", "").replace("-", "")):
            bmc = fleet.by_mac(int(digits, 16))
        if bmc is None:
            if self._others is None:
                self._others = {one.identity.serial: one for one in fleet}
                self._others |= {mat_id(one.identity): one for one in fleet}
            bmc = self._others.get(name)
        if bmc is None:
            raise SelectionError(f"there is no BMC {name!r}; GET /api/v1/bmcs lists them", missing=True)
        return bmc


# selecting

Test = Callable[[Bmc], bool]


def tests(selection: Selection, fleet: Fleet, racks: Racks) -> list[Test]:
    """What a BMC has to pass for a selection, ids and sample aside; the cheapest come first. Raises SelectionError."""
    made: list[Test] = []
    if selection.group:
        groups = frozenset(selection.group)
        made.append(lambda bmc: bmc.shared.group in groups)
    if selection.kind:
        kinds = frozenset(selection.kind)
        made.append(lambda bmc: bmc.identity.kind in kinds)
    if selection.hardware:
        hardware = frozenset(selection.hardware)
        made.append(lambda bmc: bmc.tree.head.profile in hardware)
    if selection.power:
        powers = frozenset(selection.power)
        made.append(lambda bmc: bmc.power.shown in powers)
    if selection.state:
        states = frozenset(selection.state)
        made.append(lambda bmc: state_of(bmc, fleet) in states)
    if selection.rack:
        wanted = frozenset(selection.rack)
        made.append(lambda bmc: racks.of(bmc) in wanted)
    if selection.address:
        made.append(_at(selection.address, fleet))
    if selection.q:
        made.append(_containing(selection.q))
    return made


def _at(addresses: Sequence[str], fleet: Fleet) -> Test:
    exact: set[str] = set()
    networks: list[tuple[int, int]] = []
    for text in addresses:
        try:
            if "/" in text:
                network = IPv4Network(text, strict=False)
                networks.append((int(network.network_address), int(network.netmask)))
            else:
                address = ip_address(text)
                bmc = fleet.by_address(str(address))
                exact.add(bmc.id if bmc is not None else "")
        except ValueError as error:
            raise SelectionError(
                f"address: {text!r} is neither an address nor an IPv4 network such as 10.0.0.0/8"
            ) from error

    def test(bmc: Bmc) -> bool:
        if bmc.id in exact:
            return True
        if not networks or not bmc.address:
            return False
        number = int.from_bytes(inet_aton(bmc.address), "big")
        return any(number & mask == base for base, mask in networks)

    return test


def _containing(text: str) -> Test:
    """What has a text in its id, address, MAC or serial number; case does not matter."""
    wanted = text.lower()
    # The MAC and the serial number are digits that are made when they are asked for: only where they can match.
    digits = wanted.replace(":", "") if _HEX.fullmatch(wanted) else None
    serial = _HEX.fullmatch(wanted.removeprefix("mt").removeprefix("t")) is not None or wanted in ("m", "t", "mt")

    def test(bmc: Bmc) -> bool:
        if wanted in bmc.id.lower() or wanted in bmc.address:
            return True
        if digits is not None and _in_mac(bmc, wanted, digits):
            return True
        return serial and wanted in bmc.identity.serial.lower()

    return test


def _in_mac(bmc: Bmc, wanted: str, digits: str) -> bool:
    if ":" not in wanted:
        return digits in f"{bmc.identity.bmc_mac:012x}"
    return wanted in ":".join(re.findall("..", f"{bmc.identity.bmc_mac:012x}"))


def scan(selection: Selection, fleet: Fleet, racks: Racks) -> Iterator[list[Bmc]]:
    """The BMCs of a selection in machine order, in pieces between which others may have a turn; some may be empty.

    Raises SelectionError.
    """
    if selection.sample is not None:
        yield from _sampled(selection.sample, scan(msgspec.structs.replace(selection, sample=None), fleet, racks))
        return
    passed = tests(selection, fleet, racks)
    for piece in _pieces(_candidates(selection, fleet)):
        for test in passed:
            piece = [bmc for bmc in piece if test(bmc)]
        yield piece


def _candidates(selection: Selection, fleet: Fleet) -> list[Bmc]:
    if not selection.ids:
        return list(fleet)
    finder = Finder(fleet)
    named = {bmc.id: bmc for bmc in map(finder.find, selection.ids)}
    return [bmc for bmc in fleet if bmc.id in named] if len(named) > 1 else list(named.values())


def _pieces(bmcs: Sequence[Bmc]) -> Iterator[list[Bmc]]:
    every = iter(bmcs)
    while piece := list(islice(every, CHUNK)):
        yield piece


def _sampled(sample: Sample, pieces: Iterator[list[Bmc]]) -> Iterator[list[Bmc]]:
    key = sample.seed.to_bytes(8, "big")
    places: list[Bmc] = []
    drawn: list[tuple[bytes, int]] = []
    for piece in pieces:
        start = len(places)
        places += piece
        drawn += [
            (blake2b(bmc.id.encode(), digest_size=8, key=key).digest(), start + number)
            for number, bmc in enumerate(piece)
        ]
        # Little by little: sorting all at its end would keep others waiting.
        drawn.sort()
        yield []
    lucky = sorted([place for _, place in drawn[: sample.of(len(drawn))]])
    yield from _pieces([places[place] for place in lucky])
