"""A fleet whose addresses a DHCP server leases, without a network: a manual clock, and a server that is called."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, cast

from bmcsim.core.clock import ManualClock
from bmcsim.core.errors import RedfishError
from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.build import Builder
from bmcsim.fleet.config import parse
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.leases import Leases, Seen
from bmcsim.fleet.registry import Absent, Fleet
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.dhcp.messages import Ask, Interface, Kind, Lease, Port, Reply
from bmcsim.machine.resources import started
from bmcsim.machine.state import State, shifted
from bmcsim.tree.compile import Tree
from bmcsim.tree.profile import Profile

BY_RELAY = (
    'dhcp = { type = "udp_relay", server_address = "10.0.0.1:67", listen_address = "10.0.0.2:67",'
    ' advertise_address = "10.0.0.2" }\n'
)
HOSTS = f"{BY_RELAY}[machines.a]\nhost_count = 3\ndpu_per_host_count = 1\n"


_profiles: dict[str, Profile] = {}
_trees: dict[tuple[Any, ...], Tree] = {}


class DhcpServer:
    """A server that answers when it is told to.

    name: its identifier. pool: what it has to give, in order. seconds: of its leases. silent: it answers nothing.
    asked: all that it ever heard.
    """

    def __init__(
        self, pool: Iterable[str], *, name: str = "10.0.0.1", seconds: float = 3600.0, window: int = 100
    ) -> None:
        self.window, self.name, self.seconds = window, name, seconds
        self.free, self.given = list(pool), dict[int, str]()
        self.silent = self.closed = False
        self.inbox: list[tuple[Interface, Ask]] = []
        self.asked: list[tuple[Interface, Ask]] = []

    def replace(self, pool: Iterable[str], name: str) -> None:
        """Another server takes its place: it has other addresses and another identifier, and no lease."""
        self.name, self.free = name, list(pool)
        self.given.clear()
        self.asked.clear()

    def send(self, interface: Interface, ask: Ask) -> None:
        self.asked.append((interface, ask))
        self.inbox.append((interface, ask))

    async def close(self) -> None:
        self.closed = True

    def answers(self) -> list[tuple[int, Reply]]:
        """What there is to say to all that was heard since the last time."""
        heard, self.inbox = self.inbox, []
        return [] if self.silent else [(one.mac, reply) for one, ask in heard if (reply := self._reply(one.mac, ask))]

    def _reply(self, mac: int, ask: Ask) -> Reply | None:
        mine = ask.server in ("", self.name)
        match ask.kind:
            case Kind.DISCOVER:
                if mac not in self.given and self.free:
                    self.given[mac] = self.free.pop(0)
                return self._lease(Kind.OFFER, mac, ask) if mac in self.given else None
            case Kind.REQUEST if mine:
                wanted = ask.requested or ask.client
                if self.given.get(mac) == wanted:
                    return self._lease(Kind.ACK, mac, ask)
                # It knows nothing of a client in INIT-REBOOT or REBINDING that has its address from somebody else.
                return Reply(Kind.NAK, ask.xid, server=self.name) if mac in self.given or ask.server else None
            case Kind.DECLINE if mine:
                self.given.pop(mac, None)
            case Kind.RELEASE if mine and mac in self.given:
                self.free.append(self.given.pop(mac))
        return None

    def _lease(self, kind: Kind, mac: int, ask: Ask) -> Reply:
        lease = Lease(self.given[mac], self.name, seconds=self.seconds, prefix=16, gateway="10.9.0.1")
        return Reply(kind, ask.xid, lease, server=self.name)


class _Alarm:
    def __init__(self, at: float, call: Callable[[], object]) -> None:
        self.at, self.call = at, call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Site:
    """A fleet with its leases. states: id of a BMC -> state that it had, as a state directory would have it."""

    def __init__(
        self,
        text: str,
        server: Any,
        *,
        clock: ManualClock | None = None,
        states: dict[str, State] | None = None,
        **more: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        self.server = server
        self.alarms: list[_Alarm] = []
        self.saved: list[str] = []
        self.fleet = Fleet()
        self._states = states or {}
        self.config = parse(text, "fleet.toml")
        builder = Builder(self.config, Hasher(b"k" * 32), self.clock.now().wall, self._restore)
        # What takes the time of a small fleet, and is the same for all.
        builder._profiles, builder._trees = _profiles, _trees
        for _ in builder.populate(self.fleet):
            pass
        self.leases = Leases(
            self.fleet, self.clock, cast(Any, self._later), changed=self._save, random=Random(7), **more
        )
        self.driver = Driver(self.clock, changed=self._save)
        if self.config.pool is None:
            self.driver.leases = self.leases
            self.leases.begin(server)
        self.driver.readdress = lambda bmc: readdress(self.fleet, bmc, self.driver.leases)

    def _restore(self, bmc: Bmc) -> State | None:
        state = self._states.get(bmc.id)
        return None if state is None else started(shifted(state, self.clock.now().hardware), bmc.shared)

    def _save(self, bmc: Bmc) -> None:
        bmc.committed()
        self.saved.append(bmc.id)

    def _later(self, seconds: float, call: Callable[[], object]) -> _Alarm:
        alarm = _Alarm(self.clock.now().mono + seconds, call)
        self.alarms.append(alarm)
        return alarm

    @property
    def states(self) -> dict[str, State]:
        """What a state directory has now."""
        return {bmc.id: bmc.state for bmc in self.fleet}

    def bmc(self, id_: str) -> Bmc:
        """A BMC that is there."""
        found = self.fleet.by_id(id_)
        assert found is not None
        return found

    def seen(self, id_: str, port: Port = Port.BMC) -> Seen:
        """An interface as status shows it."""
        return next(one for one in self.leases.seen(self.bmc(id_)) if one.port is port)

    def answer(self) -> None:
        """Let the server answer until all is said."""
        while said := self.server.answers():
            for mac, reply in said:
                self.leases.heard(mac, reply)

    def advance(self, seconds: float) -> None:
        """Let real time pass: timers fire when they are due, of leases and of hardware, and the server answers."""
        end = self.clock.now().mono + seconds
        self.answer()
        while True:
            self.alarms = [alarm for alarm in self.alarms if not alarm.cancelled]
            now = self.clock.now()
            hardware = self.driver._heap.next_deadline()
            times = [alarm.at for alarm in self.alarms]
            if hardware is not None:
                times.append(now.mono + now.real_seconds(hardware - now.hardware))
            if not times or min(times) > end:
                break
            self.clock.advance(max(0.0, min(times) - now.mono))
            for alarm in [alarm for alarm in self.alarms if alarm.at <= self.clock.now().mono + 1e-6]:
                self.alarms.remove(alarm)
                if not alarm.cancelled:
                    alarm.call()
            self.driver.run_due()
            self.answer()
        self.clock.advance(max(0.0, end - self.clock.now().mono))

    def reset(self, id_: str) -> None:
        """Manager.Reset."""
        bmc = self.bmc(id_)
        actions = bmc.reset_bmc(self.clock.now())
        bmc.committed()
        self.driver.execute(bmc, actions)

    def power(self, id_: str, event: Any) -> None:
        """ComputerSystem.Reset; what the power state refuses is left out."""
        bmc = self.bmc(id_)
        actions = bmc.follow(event, self.clock.now())
        for one in bmc.reach():
            one.committed()
        self.driver.execute(bmc, actions)

    def reached(self, address: str) -> str:
        """The id of the BMC that a request to an address reaches, '(404)' or '(absent)'."""
        try:
            return self.fleet.route(f"host={address}".encode(), b"", "").id
        except RedfishError as error:
            return f"({error.status})"
        except Absent:
            return "(absent)"

    @property
    def addresses(self) -> dict[str, str]:
        """Id -> address, of BMCs that have one."""
        return {bmc.id: bmc.address for bmc in self.fleet if bmc.address}
