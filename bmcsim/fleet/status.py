"""The status of thousands of devices as one JSON document, kept encoded and made anew only where something changed.

A document is a head, pieces and a tail; a piece is some devices that are encoded, compressed and hashed together.
Rule 1: what changed is found by comparing states, which are immutable, by identity; nobody tells a board anything. So
        one that nobody reads costs nothing.
Rule 2: `refreshing` and `packing` are steps between which others may have a turn. A device and its DPUs are read in one
        step; different devices may be of different moments.
Rule 3: equal entity tags mean equal documents.
Rule 4: the compressed form is one gzip member (RFC 1952): pieces end on a byte and refer to nothing before them, so
        they can be joined; many clients read the first member only.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, pairwise
from operator import is_not

import msgspec

from bmcsim.fleet.devices import Describer, inventory_fact
from bmcsim.fleet.registry import Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.identity import Kind
from bmcsim.tree import racks as rack_types

PIECE = 50
"""Machines of one piece: at three BMCs each, a millisecond of work."""

_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_DEFLATE_END = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
_LEVEL = 1
_MAT_ID = slice(len('{"mat_id":"'), len('{"mat_id":"') + 36)

_encode = msgspec.json.Encoder().encode


class Member(msgspec.Struct, frozen=True):
    """A machine of a document. prefix: what its object begins with, without the closing brace; '{' for nothing more."""

    machine: Bmc
    prefix: bytes = b"{"


class Section(msgspec.Struct, frozen=True):
    """Machines that are encoded together. key: names them. head, tail: what stands around them."""

    members: Sequence[Member]
    key: str = ""
    head: bytes = b""
    tail: bytes = b""


Layout = Callable[[Fleet], Iterable[Section]]
"""What of a fleet is in a document, in order; an iterable that does not notice what is added meanwhile."""


class Document(msgspec.Struct, frozen=True):
    """A document as it was at one time. etag: strong (RFC 9110 8.8.3), with its quotes. packed: the pieces of its gzip
    form, None where nobody wanted that."""

    pieces: Sequence[bytes]
    length: int
    etag: bytes
    packed: Sequence[bytes] | None = None
    packed_length: int = 0


class _Piece:
    """A section as it was last encoded. before: the comma that parts it from the one before."""

    __slots__ = (
        "before", "bodies", "bounds", "deflated", "devices", "digest", "facts", "inventory", "raw", "section", "seen",
    )  # fmt: skip

    def __init__(self, section: Section, before: bytes) -> None:
        self.section, self.before = section, before
        roots = [(member.machine, *member.machine.dpus) for member in section.members]
        self.devices = list(chain.from_iterable(roots))
        ends = [0]
        for root in roots:
            ends.append(ends[-1] + len(root))
        self.bounds = list(pairwise(ends))
        self.seen: list[list[object]] | None = None
        self.bodies: list[bytes] = [b""] * len(roots)
        self.facts: list[int] = [0] * len(roots)
        self.raw, self.digest, self.inventory = b"", b"", 0
        self.deflated: bytes | None = None

    def like(self, section: Section, before: bytes) -> bool:
        """Whether it is what a new piece of a section would be."""
        own = self.section
        if (own.key, own.head, own.tail, self.before) != (section.key, section.head, section.tail, before):
            return False
        devices = [one for member in section.members for one in (member.machine, *member.machine.dpus)]
        same = len(devices) == len(self.devices) and not any(map(is_not, devices, self.devices))
        return same and [one.prefix for one in own.members] == [one.prefix for one in section.members]

    def refresh(self, describer: Describer) -> bool:
        """Encode what changed; whether anything did."""
        devices, ids = self.devices, describer.machine_ids
        now: list[list[object]] = [
            [device.state for device in devices],
            [device.address for device in devices],
            [ids.get(device.id) for device in devices] if ids else [],
        ]
        seen, self.seen = self.seen, now
        if seen is not None and len(seen[-1]) == len(now[-1]):
            changed = [any(map(is_not, old, new)) for old, new in zip(seen, now, strict=True)]
            if not any(changed):
                return False
            stale = [pair for pair, differs in zip(zip(seen, now, strict=True), changed, strict=True) if differs]
            numbers = [
                number
                for number, (start, stop) in enumerate(self.bounds)
                if any(any(map(is_not, old[start:stop], new[start:stop])) for old, new in stale)
            ]
        else:
            numbers = list(range(len(self.bounds)))
        dirty = seen is None
        for number in numbers:
            dirty |= self._encode(number, describer)
        if dirty:
            self.raw = b"".join((self.before, self.section.head, b",".join(self.bodies), self.section.tail))
            self.digest = blake2b(self.raw, digest_size=16).digest()
            self.inventory = sum(self.facts)
            self.deflated = None
        return dirty

    def _encode(self, number: int, describer: Describer) -> bool:
        member = self.section.members[number]
        status = describer.status(member.machine)
        body = member.prefix + _encode(status)[1:]
        if body == self.bodies[number]:
            return False
        self.bodies[number] = body
        fact = inventory_fact(status)
        self.facts[number] = 0 if fact is None else _hashed("\0".join(fact))
        return True

    def deflate(self) -> bytes:
        """Its compressed form."""
        if self.deflated is None:
            self.deflated = deflated(self.raw)
        return self.deflated


def deflated(data: bytes) -> bytes:
    """A piece of a deflate stream (RFC 1951) that can stand anywhere but at the end."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush(zlib.Z_FULL_FLUSH)


def _hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


class Board:
    """One document and what it is made of.

    frame: generation -> head and tail. document: as of the last refresh, None before the first. generation: 1, and one
    more with each refresh that finds another inventory than the one before.
    """

    def __init__(
        self, fleet: Fleet, describer: Describer, layout: Layout, frame: Callable[[int], tuple[bytes, bytes]]
    ) -> None:
        self._fleet, self._describer, self._layout, self._frame = fleet, describer, layout, frame
        self._pieces: list[_Piece] = []
        self._laid: tuple[int, int] | None = None
        self._inventory: int | None = None
        self.document: Document | None = None
        self.generation = 1

    def forget(self) -> None:
        """Keep nothing but the generation until the next refresh."""
        self._pieces, self._laid, self.document = [], None, None

    def refreshing(self) -> Iterator[None]:
        """Make `document` what the fleet is now, in steps."""
        dirty = False
        if self._laid is None or self._laid != self._stamp():
            yield from self._lay_out()
            dirty = True
        for piece in self._pieces:
            dirty |= piece.refresh(self._describer)
            yield
        if dirty or self.document is None:
            self._take_stock()
            yield from self._compose()

    def _stamp(self) -> tuple[int, int] | None:
        """What is the same as long as the fleet has the same members. While it is filled, nothing is."""
        return (self._fleet.version, len(self._fleet)) if self._fleet.ready else None

    def _lay_out(self) -> Iterator[None]:
        stamp, before, old, pieces = self._stamp(), b"", self._pieces, list[_Piece]()
        for section in self._layout(self._fleet):
            present = old[len(pieces)] if len(pieces) < len(old) else None
            pieces.append(present if present is not None and present.like(section, before) else _Piece(section, before))
            before = b","
            yield
        self._pieces, self._laid = pieces, stamp

    def _take_stock(self) -> None:
        inventory = sum([piece.inventory for piece in self._pieces])
        if self._inventory is not None and inventory != self._inventory:
            self.generation += 1
        self._inventory = inventory

    def _compose(self) -> Iterator[None]:
        head, tail = self._frame(self.generation)
        digest = blake2b(head, digest_size=16)
        length = len(head) + len(tail)
        for piece in self._pieces:
            digest.update(piece.digest)
            length += len(piece.raw)
        digest.update(tail)
        self.document = Document(
            (head, *[piece.raw for piece in self._pieces], tail), length, b'"%b"' % digest.hexdigest().encode()
        )
        yield

    def packing(self) -> Iterator[None]:
        """Add the gzip form to `document`, in steps. To be taken without a refresh in between."""
        document = self.document
        if document is None or document.packed is not None:
            return
        packed, checksum = [_GZIP_HEAD, deflated(document.pieces[0])], zlib.crc32(document.pieces[0])
        for piece in self._pieces:
            packed.append(piece.deflate())
            checksum = zlib.crc32(piece.raw, checksum)
            yield
        tail = document.pieces[-1]
        checksum = zlib.crc32(tail, checksum)
        packed += [deflated(tail), _DEFLATE_END, struct.pack("<II", checksum, document.length & 0xFFFFFFFF)]
        self.document = msgspec.structs.replace(
            document, packed=tuple(packed), packed_length=sum([len(one) for one in packed])
        )

    def page(self, limit: int, after: str) -> tuple[list[bytes], str]:
        """Up to so many machines as of the last refresh, behind the one with the mat_id `after` ('': from the first),
        and the mat_id to go on after, '' at the end. Raises KeyError where no machine has that mat_id."""
        found: list[bytes] = []
        skipping, wanted = bool(after), after.encode()
        for piece in self._pieces:
            for body in piece.bodies:
                if skipping:
                    skipping = body[_MAT_ID] != wanted
                elif len(found) == limit:
                    return found, found[-1][_MAT_ID].decode() if found else after
                else:
                    found.append(body)
        if skipping:
            raise KeyError(after)
        return found, ""

    def section(self, key: str) -> bytes | None:
        """The section of a key as of the last refresh."""
        return next((one.raw[len(one.before) :] for one in self._pieces if one.section.key == key), None)


# documents


def machines_board(fleet: Fleet, describer: Describer, inventory_id: str, epoch_id: str) -> Board:
    """All top-level devices. epoch_id: when the process started."""

    def frame(generation: int) -> tuple[bytes, bytes]:
        head = _encode({"inventory_id": inventory_id, "epoch_id": epoch_id, "generation": generation})
        return head[:-1] + b',"machines":[', b"]}"

    return Board(fleet, describer, machine_sections, frame)


def racks_board(fleet: Fleet, describer: Describer, types: Callable[[Bmc], str]) -> Board:
    """All racks, by id. types: the rack type of a machine in a rack."""
    return Board(fleet, describer, lambda one: rack_sections(one, types), lambda _: (b'{"racks":[', b"]}"))


def machine_sections(fleet: Fleet) -> Iterator[Section]:
    """The top-level devices in machine order."""
    machines = [bmc for bmc in fleet if bmc.identity.kind is not Kind.DPU]
    for start in range(0, len(machines), PIECE):
        yield Section([Member(machine) for machine in machines[start : start + PIECE]])


def rack_sections(fleet: Fleet, types: Callable[[Bmc], str]) -> Iterator[Section]:
    """The racks by id, each with its members from the bottom up."""
    racks: dict[str, list[tuple[int, Bmc]]] = {}
    for bmc in fleet:
        if (place := bmc.identity.place) is not None:
            racks.setdefault(place.rack, []).append((place.position, bmc))
    for id_, members in sorted(racks.items()):
        members.sort(key=lambda one: one[0])
        type_ = types(members[0][1])
        facts = {"rack_id": id_, "rack_type": type_, "version": rack_types.load(type_).version if type_ else 1}
        yield Section(
            [Member(bmc, b'{"position":%d,' % position) for position, bmc in members],
            id_,
            _encode(facts)[:-1] + b',"members":[',
            b"]}",
        )
