"""Machines that come, go and move, and snapshots, over lives of a process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bmcsim.core.clock import ManualClock
from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.config import FleetConfig, parse
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.durability import Keeper, Restorer, fingerprint
from bmcsim.fleet.journal import Journal, NotSaved
from bmcsim.fleet.keys import Keys, Passwords
from bmcsim.fleet.members import Members
from bmcsim.fleet.operations import Failed, Move, Power, SetPassword, Skipped, prepared
from bmcsim.fleet.registry import Absent, Fleet
from bmcsim.fleet.restoring import Misfit, Restored, Snapshots
from bmcsim.fleet.roster import NOBODY, Roster, RosterError, Wish, members
from bmcsim.fleet.snapshots import Reader, SnapshotError
from bmcsim.fleet.store import Store
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.dhcp.messages import Kind, Port
from bmcsim.machine.power import Event
from bmcsim.machine.power import Power as PowerState
from bmcsim.testing.build import CachingBuilder
from tests.leasing import HOSTS, DhcpServer, Site

FILE = """
[machines.a]
hw_type = "dell_poweredge_r750"
host_count = 3
dpu_per_host_count = 1
[machines.b]
hw_type = "dell_poweredge_r750"
host_count = 1
dpu_per_host_count = 0
"""
RACK = """
[racks.gamma]
type = "wiwynn_gb200_nvl72"
ids = ["r1", "r2"]
"""
SWITCH = "nvidia_switch_nd5200_ld"
T = TypeVar("T")


class Life:
    """One life of a process, with a state directory or without one. To be made on a loop."""

    def __init__(self, directory: Path | None = None, text: str = FILE, *, hardware: float = 0.0) -> None:
        self.config: FleetConfig = parse(text, "fleet.toml")
        self.clock = ManualClock(wall=1_800_000_000.0)
        self.clock.skip(hardware)
        self.store = Store.open(directory, fingerprint(self.config)) if directory is not None else None
        self.hasher = Hasher(self.store.key if self.store else None)
        self.keys = Keys(self.hasher, Passwords(self.config.host_bmc_password, self.config.dpu_bmc_password))
        restorer = Restorer(self.store, self.clock, self.keys) if self.store is not None else None
        roster = restorer.roster if restorer is not None else NOBODY
        self.fleet, self.driver = Fleet(), Driver(self.clock)
        self.driver.readdress = partial(readdress, self.fleet)
        builder = CachingBuilder(self.config, self.hasher, self.clock.now().wall, restorer)
        for _ in builder.populate(self.fleet, members(self.config, roster) if roster else None):
            pass
        for bmc in self.fleet:
            self.driver.execute(bmc, ())
        self.keeper = Keeper(Journal(self.store), self.driver) if self.store is not None else None
        journal = self.keeper.journal if self.keeper else None
        if self.keeper is not None:
            self.driver.changed = self.keeper.changed
        self.members = Members(self.config, self.fleet, self.driver, journal=journal)
        self.members.begin(builder, roster)
        self.snapshots = Snapshots(
            self.members, self.fleet, self.clock, self.driver, self.keys, "1.2.3", journal=journal
        )

    def kill(self) -> None:
        """As kill -9: what is not on disk is lost."""
        if self.store is not None and self.keeper is not None:
            # What its thread writes right now is on disk or not, as when a process dies.
            self.keeper.journal._thread.shutdown()
            self.store.close()

    def bmc(self, id_: str) -> Bmc:
        """A BMC by its id."""
        found = self.fleet.by_id(id_)
        assert found is not None, id_
        return found

    @property
    def ids(self) -> list[str]:
        return [bmc.id for bmc in self.fleet]

    async def change(self, id_: str, operation: Any) -> None:
        """Do something to a BMC, and wait until it is stored."""
        bmc = self.bmc(id_)
        actions = prepared(operation)(bmc, self.clock.now())
        stored = asyncio.get_running_loop().create_future()
        if self.keeper is None:
            for one in bmc.reach():
                one.committed()
        elif bmc.uncommitted is not None:
            self.keeper.commit(bmc, stored.set_result)
            assert await stored is None
        self.driver.execute(bmc, actions)
        # What is due is due at once, as where a loop calls the driver.
        self.driver.run_due()

    def take(self, ids: Iterable[str] | None = None) -> bytes:
        """A snapshot of all BMCs, or some."""
        chosen = list(self.fleet) if ids is None else [self.bmc(id_) for id_ in ids]
        return b"".join(self.snapshots.take(chosen, "2027-01-15T08:00:00Z"))

    async def restore(self, data: bytes, *, partial: bool = False, piece: int = 1000) -> Restored:
        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(data), piece):
                yield data[start : start + piece]

        return await self.snapshots.restore(pieces(), partial=partial)


def run(what: Callable[[], Awaitable[T]]) -> T:
    """Run something on a loop of its own."""

    async def main() -> T:
        return await what()

    return asyncio.run(main())


def check_indexes(fleet: Fleet) -> None:
    """The registry agrees with itself, and nobody shares an address or a MAC."""
    every = list(fleet)
    macs = [mac for bmc in every for mac in (bmc.identity.bmc_mac, bmc.identity.host_mac, bmc.identity.oob_mac) if mac]
    assert len(set(macs)) == len(macs)
    bases = [bmc.identity.hw_base for bmc in every if bmc.identity.hw_base]
    assert len(set(bases)) == len(bases)
    addresses = [bmc.address for bmc in every if bmc.address]
    assert len(set(addresses)) == len(addresses) == len(every) - fleet.homeless
    for bmc in every:
        assert fleet.by_id(bmc.id) is bmc
        assert fleet.by_mac(bmc.identity.bmc_mac) is bmc
        assert not bmc.address or fleet.by_address(bmc.address) is bmc
        assert fleet.route(b"", bmc.id.encode(), "192.0.2.1") is bmc
        assert [one.identity for one in bmc.dpus] == list(bmc.identity.dpus)
    assert fleet.expected == len(every)


# members


async def test_machines_are_added_behind_all_others(tmp_path: Path) -> None:
    life = Life(tmp_path)
    before = {bmc.id: (bmc.identity, bmc.address) for bmc in life.fleet}
    made = await life.members.add(Wish("a", 2))
    assert [bmc.id for bmc in made] == ["a-3", "a-3-dpu-0", "a-4", "a-4-dpu-0"]
    new = await life.members.add(Wish("c", 1, {"hw_type": "dell_poweredge_r750", "dpu_per_host_count": 2}))
    assert [bmc.id for bmc in new] == ["c-0", "c-0-dpu-0", "c-0-dpu-1"]
    assert {id_: (bmc.identity, bmc.address) for id_ in before for bmc in [life.bmc(id_)]} == before
    last = max(identity.bmc_mac for identity, _ in before.values())
    assert all(bmc.identity.bmc_mac > last for bmc in (*made, *new))
    check_indexes(life.fleet)
    known = {bmc.id: (bmc.identity, bmc.address) for bmc in life.fleet}
    life.kill()
    again = Life(tmp_path)
    assert {bmc.id: (bmc.identity, bmc.address) for bmc in again.fleet} == known
    check_indexes(again.fleet)
    groups = {group.name: group.host_count for group in again.members.present.groups}
    assert groups == {"a": 5, "b": 1, "c": 1}
    assert [bmc.id for bmc in await again.members.add(Wish("c", 1))] == ["c-1", "c-1-dpu-0", "c-1-dpu-1"]
    check_indexes(again.fleet)
    again.kill()


async def test_removed_machines_are_gone_and_are_never_given_again(tmp_path: Path) -> None:
    life = Life(tmp_path)
    await life.members.add(Wish("a", 1))
    await life.change("a-3", SetPassword(password="Rotated-123"))
    host, address = life.bmc("a-3"), life.bmc("a-3").address
    macs = {host.identity.bmc_mac, life.bmc("a-3-dpu-0").identity.bmc_mac}
    host.open_session(host.accounts.accounts[0], life.clock.now())
    await life.change("a-3", Power(reset="GracefulShutdown"))
    timers = len(life.driver)
    assert timers
    assert await life.members.remove([host, life.bmc("a-1")]) == ["a-3", "a-3-dpu-0", "a-1", "a-1-dpu-0"]
    assert life.ids == ["a-0", "a-0-dpu-0", "a-2", "a-2-dpu-0", "b-0"]
    assert len(life.driver) == 0
    assert not host.sessions
    with pytest.raises(Absent):
        life.fleet.route(b"", address.encode(), address)
    check_indexes(life.fleet)
    life.kill()
    again = Life(tmp_path)
    assert again.ids == life.ids
    new = await again.members.add(Wish("a", 1))
    assert [bmc.id for bmc in new] == ["a-4", "a-4-dpu-0"]
    assert macs.isdisjoint(bmc.identity.bmc_mac for bmc in new)
    assert address not in [bmc.address for bmc in again.fleet]
    again.kill()


async def test_removing_takes_machines_and_racks_as_a_whole() -> None:
    life = Life(text=FILE + RACK)
    with pytest.raises(RosterError, match=r"a-0-dpu-0: DPUs go with their hosts"):
        await life.members.remove([life.bmc("a-0-dpu-0")])
    rack = [bmc for bmc in life.fleet if bmc.identity.place is not None and bmc.identity.place.rack == "r1"]
    with pytest.raises(RosterError, match=r"rack r1: is removed as a whole"):
        await life.members.remove(rack[:3])
    trays = [one for bmc in rack for one in (bmc, *bmc.dpus)]
    assert sorted(await life.members.remove(rack)) == sorted(bmc.id for bmc in trays)
    assert {seat.place.rack for group in life.members.present.groups for seat in group.seats} == {"r2"}
    check_indexes(life.fleet)
    with pytest.raises(RosterError, match="all machines of the fleet"):
        await life.members.remove(list(life.fleet))
    assert len(life.fleet) > 0


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (Wish("c", 5000), r"dhcp.prefix: 127.64.0.0/24 has 246 addresses left, 5000 are needed"),
        (Wish("a", 1, {"dpu_per_host_count": 2}), r"group a is there already, and its dpu_per_host_count is 1"),
        (Wish("c", 1, {"hw_type": "abacus"}), r"hw_type: 'abacus' is not known"),
        (Wish("c", 1, {"hw_type": "/etc/passwd.yaml"}), r"a profile that is a file has to be one"),
        (Wish("c", 1, {"host_cout": 1}), r"machines.c.host_cout: unknown key"),
        (Wish("c", 1, {"hw_type": "dell_poweredge_r750", "dpu_per_host_count": 9}), r"must be a whole number from 0"),
        (Wish("x-0-dpu", 1), r"must not end like the id of a DPU"),
        (Wish("c", 15000), r"too many at once|addresses left"),
    ],
)
async def test_what_cannot_be_added_is_refused_and_changes_nothing(wish: Wish, says: str) -> None:
    life = Life(text='dhcp = { type = "pool", prefix = "127.64.0.0/24" }\n' + FILE)
    before = life.ids
    with pytest.raises(RosterError, match=says):
        await life.members.add(wish)
    assert life.ids == before
    assert life.members.roster is NOBODY
    assert not life.fleet.promised


async def test_a_pool_of_macs_is_exhausted() -> None:
    text = 'mac_address_pool = { base = "02:00:00:00:00:00", host_bits = 5 }\n' + FILE
    life = Life(text=text)
    assert len(await life.members.add(Wish("b", 9))) == 9
    with pytest.raises(RosterError, match=r"mac_address_pool: 0 are left, 2 needed"):
        await life.members.add(Wish("b", 1))
    check_indexes(life.fleet)


async def test_an_address_that_a_bmc_took_is_not_given() -> None:
    life = Life()
    taken = life.fleet.by_id("b-0")
    assert taken is not None
    await life.change("b-0", Move(address="127.64.0.9"))
    made = await life.members.add(Wish("b", 2))
    assert [bmc.address for bmc in made] == ["127.64.0.10", "127.64.0.11"]
    check_indexes(life.fleet)


async def test_nobody_takes_an_address_that_is_promised() -> None:
    life = Life()
    life.fleet.promised = frozenset(["127.64.0.9"])
    assert life.fleet.taken("127.64.0.9", 1)
    assert not life.fleet.taken("127.64.0.10", 1)
    with pytest.raises(Absent):
        life.fleet.route(b"", b"127.64.0.9", "127.64.0.9")


async def test_what_cannot_be_stored_is_not_added_nor_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(tmp_path)
    before = life.ids
    assert life.store is not None

    def full(_rows: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(life.store, "write", full)
    with pytest.raises(NotSaved, match="No space left"):
        await life.members.add(Wish("a", 1))
    with pytest.raises(NotSaved, match="No space left"):
        await life.members.remove([life.bmc("a-0")])
    with pytest.raises(NotSaved, match="No space left"):
        await life.restore(life.take())
    assert life.ids == before
    assert life.fleet.expected == len(before)
    monkeypatch.undo()
    await life.change("a-0", SetPassword(password="Rotated-123"))
    await life.members.add(Wish("a", 1))
    life.kill()


async def test_a_fleet_file_that_grew_into_what_was_added_is_refused(tmp_path: Path) -> None:
    life = Life(tmp_path)
    await life.members.add(Wish("a", 1))
    await life.members.add(Wish("c", 1, {"dpu_per_host_count": 0}))
    life.kill()
    with pytest.raises(RosterError, match=r"has grown, and 1 machines were added to a at run time"):
        members(parse(FILE.replace("host_count = 3", "host_count = 4"), "fleet.toml"), life.members.roster)
    with pytest.raises(RosterError, match=r"machines.c: a group of this name was added at run time"):
        grown = FILE.replace("[machines.b]", "[machines.c]")
        roster = Roster(life.members.roster.additions[1:])
        list(members(parse(grown, "fleet.toml"), roster))


# leases


def leased() -> tuple[Site, Members]:
    """Three hosts with a DPU each, whose addresses a server leased."""
    site = Site(HOSTS, DhcpServer([f"10.9.0.{n}" for n in range(2, 200)]))
    site.answer()
    members = Members(site.config, site.fleet, site.driver, leases=site.leases)
    members.begin(CachingBuilder(site.config, Hasher(b"k" * 32), site.clock.now().wall))
    return site, members


async def test_who_is_added_asks_for_addresses_and_who_goes_gives_them_back() -> None:
    site, everybody = leased()
    interfaces, bound = len(site.leases), site.leases.bound
    await everybody.add(Wish("a", 1))
    assert site.reached("10.9.0.50") == "(absent)"
    site.answer()
    new = site.bmc("a-3")
    assert new.address
    assert site.reached(new.address) == "a-3"
    assert (len(site.leases), site.leases.bound) == (interfaces + 3, bound + 3)
    check_indexes(site.fleet)
    address, given = new.address, len(site.server.given)
    assert await everybody.remove([new]) == ["a-3", "a-3-dpu-0"]
    site.answer()
    assert [ask.kind for _, ask in site.server.asked[-3:]] == [Kind.RELEASE] * 3
    assert len(site.server.given) == given - 3
    assert (len(site.leases), site.leases.bound) == (interfaces, bound)
    assert site.reached(address) == "(absent)"
    site.advance(10_000.0)
    assert len(site.server.given) == given - 3


async def test_restored_bmcs_keep_the_leases_of_now_and_their_links_follow() -> None:
    site, everybody = leased()
    keys = Keys(Hasher(b"k" * 32), Passwords())
    snapshots = Snapshots(everybody, site.fleet, site.clock, site.driver, keys, "1.2.3", leases=site.leases)
    dpu, address = site.bmc("a-0-dpu-0"), site.bmc("a-0").address
    on = b"".join(snapshots.take(list(site.fleet), "2027-01-15T08:00:00Z"))
    site.power("a-0", Event.FORCE_OFF)
    site.advance(60.0)
    assert Port.OOB not in dpu.state.leases

    async def once() -> AsyncIterator[bytes]:
        yield on

    await snapshots.restore(once())
    site.advance(60.0)
    assert site.bmc("a-0").address == address
    assert Port.OOB in dpu.state.leases
    check_indexes(site.fleet)


# snapshots


async def test_a_snapshot_is_restored_in_another_process_with_another_key(tmp_path: Path) -> None:
    life = Life(hardware=5000.0)
    await life.change("a-0", SetPassword(password="Rotated-123"))
    await life.change("a-1", Power(reset="GracefulShutdown"))
    life.clock.advance(2.0)
    life.driver.run_due()
    left = life.bmc("a-1").remaining("power", life.clock.now())
    assert left > 0
    digest, data = await life.snapshots.digest(), life.take()
    assert b"Rotated-123" not in data

    other = Life(tmp_path)
    assert await other.snapshots.digest() != digest
    session = other.bmc("a-0").open_session(other.bmc("a-0").accounts.accounts[0], other.clock.now())
    done = await other.restore(data)
    assert done == Restored(7, 0, 0, digest)
    assert await other.snapshots.digest() == digest
    host = other.bmc("a-0")
    assert session.id not in host.live_sessions(other.clock.now())
    user = host.accounts.accounts[0].user
    assert host.accounts.authenticate(user, host.shared.hasher.digest("Rotated-123")) is not None
    assert other.bmc("a-1").remaining("power", other.clock.now()) == pytest.approx(left)
    other.clock.advance(left + 0.1)
    other.driver.run_due()
    assert other.bmc("a-1").power is PowerState.OFF
    # What changes afterwards is under the key that came with it, also in the next process and in its snapshots.
    await other.change("a-2", SetPassword(password="Rotated-456"))
    digest = await other.snapshots.digest()
    data = other.take()
    other.kill()
    for third in (Life(tmp_path), Life()):
        if third.store is None:
            await third.restore(data)
        assert await third.snapshots.digest() == digest
        for id_, password in (("a-0", "Rotated-123"), ("a-2", "Rotated-456")):
            bmc = third.bmc(id_)
            assert bmc.accounts.authenticate(user, bmc.shared.hasher.digest(password)) is not None
        factory = third.bmc("b-0")
        first = factory.tree.head.accounts[0]
        assert factory.accounts.authenticate(first.user, factory.shared.hasher.digest(first.password)) is not None
        assert factory.accounts.accounts[0].on_factory_password
        third.kill()


async def test_some_bmcs_are_restored_alone() -> None:
    life = Life()
    await life.change("a-0", SetPassword(password="Rotated-123"))
    data = life.take(["a-0", "a-0-dpu-0"])
    other = Life()
    await other.change("a-1", SetPassword(password="Rotated-456"))
    kept = other.bmc("a-1").state
    assert (await other.restore(data)).untouched == 5
    assert other.bmc("a-1").state is kept
    user = kept.accounts.accounts[0].user
    for id_, password in (("a-0", "Rotated-123"), ("a-1", "Rotated-456")):
        bmc = other.bmc(id_)
        assert bmc.accounts.authenticate(user, bmc.shared.hasher.digest(password)) is not None


async def test_addresses_change_places() -> None:
    life = Life()
    first, second = life.bmc("a-0").address, life.bmc("b-0").address
    await life.change("b-0", Move(address="127.64.0.77"))
    data = life.take()
    await life.change("b-0", Move(address="127.64.0.78"))
    await life.change("a-0", Move(address="127.64.0.77"))
    check_indexes(life.fleet)
    await life.restore(data)
    assert (life.bmc("a-0").address, life.bmc("b-0").address) == (first, "127.64.0.77")
    other = Life()
    await other.change("a-0", Move(address="127.64.0.77"))
    await other.restore(data)
    assert (other.bmc("a-0").address, other.bmc("b-0").address) == (first, "127.64.0.77")
    await other.change("b-0", Move(address=None))
    assert other.bmc("b-0").address == second
    check_indexes(other.fleet)


async def test_another_fleet_is_refused_with_what_differs() -> None:
    data = Life().take()
    more = Life()
    await more.members.add(Wish("a", 1))
    bigger = more.take()
    before = more.ids
    for text, says in (
        ('mac_address_pool = { base = "02:07:00:00:00:00", host_bits = 24 }\n' + FILE, r"is of another fleet"),
        (FILE.replace("machines.a", "machines.z"), r"b-0 is a .* with the MAC|has BMCs that the fleet does not have"),
        (
            FILE.replace('750"\nhost_count = 1', 'X"\nhost_count = 1').replace("dell_poweredge_rX", SWITCH),
            r"b-0 is a dell",
        ),
    ):
        other = Life(text=text)
        digest = await other.snapshots.digest()
        with pytest.raises(Misfit, match=says):
            await other.restore(data)
        assert await other.snapshots.digest() == digest
    with pytest.raises(Misfit, match=r"lacks BMCs that the fleet has: a-3, a-3-dpu-0"):
        await more.restore(data)
    assert (await more.restore(data, partial=True)).untouched == 2
    assert more.ids == before
    smaller = Life()
    with pytest.raises(Misfit, match=r"has BMCs that the fleet does not have: a-3, a-3-dpu-0; add them first"):
        await smaller.restore(bigger)
    assert (await smaller.restore(bigger, partial=True)).missing == 2


async def test_who_waits_for_a_change_is_told_and_the_snapshot_counts(tmp_path: Path) -> None:
    life = Life(tmp_path)
    data, digest = life.take(), await life.snapshots.digest()
    assert life.keeper is not None
    told: list[BaseException | None] = []
    restoring = asyncio.ensure_future(life.restore(data))
    while not life.keeper.journal._held:
        await asyncio.sleep(0)
    for bmc in life.fleet:
        bmc.set_password(bmc.accounts.accounts[0].id, "Rotated-789", life.clock.now())
        life.keeper.commit(bmc, told.append)
    await restoring
    assert told == [None] * len(life.fleet)
    assert await life.snapshots.digest() == digest
    await life.keeper.journal.close()
    life.kill()
    again = Life(tmp_path)
    assert await again.snapshots.digest() == digest
    again.kill()


def damaged(data: bytes) -> Iterable[tuple[bytes, str]]:
    yield b"", "is cut off"
    yield b"PK\x03\x04" + data, "is no snapshot"
    yield data[:-1], "is cut off behind the row of b-0"
    yield data + b"x", "goes on behind its end"
    yield data + data, "goes on behind its end"
    yield data[:8] + (60_000).to_bytes(4) + b'{"format":1,"x":' + b"[" * 59_984, "is damaged"
    yield data.replace(b'"format":1', b'"format":9'), "has format 9, and this bmcsim knows only 1"
    yield data.replace(b'"rows":7', b'"rows":8', 1), "its header is not the one that was written"
    yield data[:-5] + b'00"}' + data[-1:], "is damaged"


async def test_damage_is_named_and_changes_nothing() -> None:
    life = Life()
    data, whole = life.take(), await life.snapshots.digest()
    await life.change("a-0", SetPassword(password="Rotated-123"))
    digest = await life.snapshots.digest()
    for broken, says in damaged(data):
        with pytest.raises(SnapshotError, match=says):
            await life.restore(broken)
    for place in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        with contextlib.suppress(SnapshotError):
            # A bit that only fills the last byte of a block says nothing, so nothing is damaged by it.
            assert (await life.restore(bytes(flipped))).digest == whole
            await life.change("a-0", SetPassword(password="Rotated-123"))
    assert await life.snapshots.digest() == digest


def test_a_bomb_is_refused() -> None:
    import zlib

    life = run(_life)
    data = life.take()
    head = data[: data.index(b"}") + 1]
    bomb = zlib.compress(bytes(64 * 1024 * 1024), 9)
    with pytest.raises(SnapshotError, match="larger than"):
        list(Reader().feed(head + len(bomb).to_bytes(4, "big") + bomb))
    with pytest.raises(SnapshotError, match="a part of 4294967295 bytes"):
        list(Reader().feed(head + b"\xff" * 4))


async def _life() -> Life:
    return Life()


@given(data=st.binary(max_size=300), at=st.integers(0, 2000))
@settings(max_examples=200, deadline=None)
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes, at: int) -> None:
    global _whole
    if not _whole:
        _whole = run(_life).take()
    mixed = _whole[:at] + data + _whole[at + len(data) :]
    reader = Reader()
    try:
        list(reader.feed(mixed))
        reader.close()
    except SnapshotError:
        pass


_whole = b""


# everything together

STEP = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(["a", "b", "c"]), st.integers(1, 3)),
    st.tuples(st.just("remove"), st.integers(0, 50), st.integers(1, 2)),
    st.tuples(st.just("move"), st.integers(0, 50), st.integers(2, 40)),
    st.tuples(st.just("home"), st.integers(0, 50), st.just(0)),
    st.tuples(st.just("password"), st.integers(0, 50), st.integers(0, 5)),
    st.tuples(st.just("power"), st.integers(0, 50), st.sampled_from(["On", "ForceOff", "GracefulShutdown"])),
    st.tuples(st.just("time"), st.just(0), st.integers(1, 400)),
    st.tuples(st.just("snapshot"), st.just(0), st.just(0)),
    st.tuples(st.just("restore"), st.just(0), st.just(0)),
    st.tuples(st.just("kill"), st.just(0), st.just(0)),
)


@given(steps=st.lists(STEP, max_size=25))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_whatever_happens_the_fleet_agrees_with_itself(steps: list[tuple[str, Any, Any]], tmp_path: Path) -> None:
    directory = tmp_path / str(len(list(tmp_path.iterdir())))

    async def walk() -> None:
        life = Life(directory)
        kept: bytes | None = None
        digest = ""
        everybody: set[str] = set(life.ids)
        for what, who, how in steps:
            every = list(life.fleet)
            bmc = every[who % len(every)] if isinstance(who, int) else every[0]
            try:
                match what:
                    case "add":
                        made = await life.members.add(Wish(who, how))
                        assert everybody.isdisjoint(one.id for one in made)
                        everybody |= {one.id for one in made}
                    case "remove":
                        await life.members.remove([one for one in every if one.id in (bmc.id, every[0].id)][:how])
                    case "move":
                        await life.change(bmc.id, Move(address=f"127.64.0.{how}"))
                    case "home":
                        await life.change(bmc.id, Move(address=None))
                    case "password":
                        await life.change(bmc.id, SetPassword(password=f"Rotated-12{how}"))
                    case "power":
                        await life.change(bmc.id, Power(reset=how))
                    case "time":
                        life.clock.advance(how)
                        life.driver.run_due()
                    case "snapshot":
                        kept, digest = life.take(), await life.snapshots.digest()
                    case "restore" if kept is not None:
                        done = await life.restore(kept, partial=True)
                        assert done.digest == digest
                        if not done.missing and not done.untouched:
                            assert await life.snapshots.digest() == digest
                    case "kill":
                        assert life.keeper is not None
                        await life.keeper.journal.close()
                        state = await life.snapshots.digest()
                        known = {one.id: (one.identity, one.address) for one in life.fleet}
                        life.kill()
                        life = Life(directory, hardware=float(len(steps)))
                        assert await life.snapshots.digest() == state
                        assert {one.id: (one.identity, one.address) for one in life.fleet} == known
            except (RosterError, Failed, Skipped):
                pass
            check_indexes(life.fleet)
        assert msgspec.msgpack.encode(life.members.roster)
        life.kill()

    asyncio.run(walk())
