"""Takes snapshots of a fleet that is being served, and restores them.

Rule 1: a snapshot is of one moment: states are values, so their references are taken at once and written later.
Rule 2: a file is read and checked to its end before anything changes.
Rule 3: all or nothing, also after kill -9: all rows go to disk in one transaction, and BMCs take their states after it.
What changed meanwhile counts as changed before the restore.
Rule 4: for a client it is as if the BMC had always been so, but for its sessions and streams, which are over.
"""

from collections.abc import AsyncIterable, Iterator, Mapping, Sequence

import msgspec

from bmcsim.core.clock import Clock
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.durability import fingerprint
from bmcsim.fleet.journal import Journal
from bmcsim.fleet.keys import Keys
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.members import Members
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.snapshots import FORMAT, Digest, Header, Reader, SnapshotError, moved, written
from bmcsim.fleet.turns import in_turns, interruptible, lasting
from bmcsim.machine import addressing
from bmcsim.machine import state as states
from bmcsim.machine.actions import DropSessions, EndStreams
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Accounts
from bmcsim.machine.identity import mac_colons
from bmcsim.machine.resources import Shared
from bmcsim.machine.state import Row, State

_NAMED = 5


class Misfit(SnapshotError):
    """A snapshot is of other BMCs than the fleet has; the text says what differs."""


class Restored(msgspec.Struct, frozen=True):
    """What a restore did. restored: BMCs. missing: rows of BMCs that the fleet does not have. untouched: BMCs without a
    row. digest: of all states that were restored, as the snapshot's trailer has it."""

    restored: int
    missing: int
    untouched: int
    digest: str


class _New(msgspec.Struct):
    """What a BMC becomes. row: as it goes to disk."""

    bmc: Bmc
    shared: Shared
    state: State
    row: bytes


class Snapshots:
    """Snapshots of one fleet. journal: None where nothing is kept. leases: None where addresses are planned."""

    def __init__(
        self,
        members: Members,
        fleet: Fleet,
        clock: Clock,
        driver: Driver,
        keys: Keys,
        version: str,
        *,
        journal: Journal | None = None,
        leases: Leases | None = None,
    ) -> None:
        self._members, self._fleet, self._clock, self._driver, self._keys = members, fleet, clock, driver, keys
        self._version, self._journal, self._leases = version, journal, leases

    # taking

    def take(self, bmcs: Sequence[Bmc], taken: str) -> Iterator[bytes]:
        """The pieces of a snapshot of this moment. taken: RFC 3339. Raises SnapshotError."""
        moment = [(bmc, bmc.state, bmc.shared.hasher) for bmc in bmcs]
        header = Header(
            format=FORMAT,
            bmcsim=self._version,
            fingerprint=fingerprint(self._members.config),
            fleet=self._members.config.source,
            taken=taken,
            hardware=self._clock.now().hardware,
            rows=len(moment),
            whole=len(moment) == len(self._fleet),
            key=self._keys.own.key,
        )
        return written(header, ((bmc.id, bmc.row(state, hasher)) for bmc, state, hasher in moment))

    async def digest(self) -> str:
        """Of all states, as a snapshot of this moment would have it."""
        digest = Digest()
        async for some in in_turns([(bmc, bmc.state) for bmc in self._fleet]):
            for bmc, state in some:
                digest.add(bmc.id, bmc.row(state))
        return digest.text

    # restoring

    async def restore(self, pieces: AsyncIterable[bytes], *, partial: bool = False) -> Restored:
        """Restore a snapshot; return when that is on disk and in force.

        partial: also where the fleet lacks BMCs of it, or it lacks BMCs of the fleet. Raises SnapshotError (Misfit
        included), and NotSaved; then nothing changed.
        """
        payloads, header, digest = await self._read(pieces)
        async with self._members.lock:
            if not self._fleet.ready:
                raise Misfit("the fleet is not complete yet; try again")
            missing = self._missing(payloads, header, partial)
            with lasting():
                new = await self._prepared(payloads, header)
                restored = len(new)
                if self._journal is None:
                    await self._take_over(new)
                else:
                    async with self._journal.held():
                        with interruptible():
                            await self._journal.write({one.bmc.id: one.row for one in new})
                        await self._take_over(new)
            return Restored(restored, missing, len(self._fleet) - restored, digest)

    async def _read(self, pieces: AsyncIterable[bytes]) -> tuple[dict[str, bytes], Header, str]:
        """Rows by id, as they are in the file, and what that says of itself. All of it was checked."""
        reader, own, digest = Reader(), fingerprint(self._members.config), Digest()
        payloads: dict[str, bytes] = {}
        async for piece in pieces:
            async for some in in_turns(reader.feed(piece)):
                if reader.header is not None and reader.header.fingerprint != own:
                    raise Misfit(f"is of another fleet: it has {reader.header.fingerprint}, and this one {own}")
                for id_, payload, row in some:
                    digest.add(id_, row)
                    payloads[id_] = payload
        trailer = reader.close()
        assert reader.header is not None
        if digest.text != trailer.digest:
            raise SnapshotError("is damaged: its states are not those that were written")
        return payloads, reader.header, trailer.digest

    def _missing(self, payloads: Mapping[str, bytes], header: Header, partial: bool) -> int:
        """How many BMCs the fleet lacks. Raises Misfit."""
        missing = [id_ for id_ in payloads if self._fleet.by_id(id_) is None]
        if partial:
            return len(missing)
        if missing:
            raise Misfit(
                f"has BMCs that the fleet does not have: {_some(missing)}; add them first, or restore partially"
            )
        if header.whole and len(payloads) != len(self._fleet):
            left = [bmc.id for bmc in self._fleet if bmc.id not in payloads]
            raise Misfit(f"lacks BMCs that the fleet has: {_some(left)}; remove them first, or restore partially")
        return 0

    async def _prepared(self, payloads: Mapping[str, bytes], header: Header) -> list[_New]:
        """Raises Misfit."""
        hardware = self._clock.now().hardware
        accounts: dict[Accounts, Accounts] = {}
        new: list[_New] = []
        async for some in in_turns(payloads.items()):
            for id_, payload in some:
                if (bmc := self._fleet.by_id(id_)) is None:
                    continue
                row = _shared_parts(_checked(bmc, states.decode(payload)), bmc, accounts)
                key = row.key or header.key
                shared = self._keys.under(bmc.shared, b"" if key == self._keys.own.key else key)
                # Leases are what a server says, not the BMC.
                state = msgspec.structs.replace(moved(row, header, hardware), leases=bmc.state.leases)
                new.append(_New(bmc, shared, state, states.encode(bmc.row(state, shared.hasher))))
        return new

    async def _take_over(self, new: list[_New]) -> None:
        """BMCs take their states; nothing of that can fail. new: empty afterwards."""
        moved_away: list[Bmc] = []
        self._supersede([one.bmc.id for one in new])
        async for some in in_turns(_drained(new)):
            for one in some:
                static = addressing.static(one.bmc)
                self._become(one)
                if addressing.static(one.bmc) != static:
                    moved_away.append(one.bmc)
        # All of them leave before one arrives: two may have changed places.
        async for some_moved in in_turns(moved_away):
            for bmc in some_moved:
                if self._leases is None:
                    self._fleet.go_home(bmc)
                else:
                    self._fleet.unbind(bmc)
        async for some_moved in in_turns(moved_away):
            for bmc in some_moved:
                if self._driver.readdress is not None:
                    self._driver.readdress(bmc)
        self._driver.run_due()

    def _become(self, new: _New) -> None:
        bmc = new.bmc
        self._supersede((bmc.id,))
        bmc.drop_sessions(DropSessions())
        bmc.end_streams(EndStreams())
        bmc.forget_failed_logins()
        bmc.shared = new.shared
        # Leases may have changed since the row was made.
        bmc.restore(msgspec.structs.replace(new.state, leases=bmc.state.leases))
        self._driver.sync(bmc)
        if self._leases is not None:
            self._leases.follow(bmc)

    def _supersede(self, ids: Sequence[str]) -> None:
        """Who waits for a change of a BMC is told before that has its new state: what follows is of the old one."""
        if self._journal is not None:
            self._journal.superseded(ids)


def _checked(bmc: Bmc, row: Row) -> Row:
    """A row that is one of a BMC. Raises Misfit."""
    mine = (bmc.identity.bmc_mac, bmc.shared.tree.head.profile)
    if (row.mac, row.profile) != mine:
        raise Misfit(
            f"{bmc.id} is a {row.profile} with the MAC {mac_colons(row.mac)} there, and here a {mine[1]} with "
            f"{mac_colons(mine[0])}"
        )
    return row


def _shared_parts(row: Row, bmc: Bmc, accounts: dict[Accounts, Accounts]) -> Row:
    """A row that has in common with others what is alike: restored fleets are not larger than others."""
    state = row.state
    same = {"accounts": accounts.setdefault(state.accounts, state.accounts)}
    alike = state.changes == bmc.shared.settings
    changes = bmc.shared.settings if alike else state.changes
    return msgspec.structs.replace(row, state=msgspec.structs.replace(state, **same, changes=changes))


def _drained(new: list[_New]) -> Iterator[_New]:
    """All of a list, which is empty then: freeing it at once would take long."""
    while new:
        yield new.pop()


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
