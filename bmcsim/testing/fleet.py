"""A fleet inside a test."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from bmcsim.core.errors import RedfishError
from bmcsim.fleet.addressing import readdress
from bmcsim.fleet.conduct import fault_rules
from bmcsim.fleet.config import FleetConfig
from bmcsim.fleet.driver import Driver
from bmcsim.fleet.events import Hub
from bmcsim.fleet.registry import Fleet as Registry
from bmcsim.machine import power as power_machine
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc as Machine
from bmcsim.machine.credentials import Hasher
from bmcsim.machine.events import Subscription
from bmcsim.machine.faults import NO_RULES, Rules
from bmcsim.machine.identity import Kind
from bmcsim.redfish.exchange import Response
from bmcsim.redfish.outcome import reset
from bmcsim.redfish.patch import PatchRefused
from bmcsim.testing.bmc import Auth, Bmc
from bmcsim.testing.build import CachingBuilder, configured
from bmcsim.testing.clock import StepClock
from bmcsim.testing.wire import Answer, Closed, RecordingContext, Seen, Wire

if TYPE_CHECKING:
    import aiohttp
    import httpx
    import requests

    from bmcsim.testing.server import Server

T = TypeVar("T")

Fault = str | Mapping[str, Any]
"""The name of a fault preset, or a rule as docs/faults.md has it."""

Selection = Bmc | str | Iterable[Bmc | str] | None
"""One BMC or several, by themselves or by id; None for all."""

START = datetime(2026, 1, 1, tzinfo=UTC)
PASSWORD = "Password-1"

_WORDS = {
    "on": "On",
    "off": "ForceOff",
    "shutdown": "GracefulShutdown",
    "restart": "ForceRestart",
    "cycle": "PowerCycle",
}
_COMMANDS = [event.value for event in power_machine.Event if event is not power_machine.Event.TIMER]


class Event(msgspec.Struct, frozen=True):
    """An event for the destination of a subscription. Nothing is sent. bmc: its id. body: JSON."""

    bmc: str
    destination: str
    body: bytes


class Fleet:
    """Some BMCs, and a clock that moves by hand.

    Used as a context manager, or closed by `close`. requests, events: the latest ones, oldest first.
    """

    def __init__(
        self,
        config: FleetConfig | Path | str | None = None,
        *,
        hosts: int | None = None,
        dpus: int | None = None,
        profile: str | None = None,
        racks: int | None = None,
        rack_type: str | None = None,
        credentials: Literal["rotated", "factory"] | None = None,
        password: str = PASSWORD,
        preset: str | None = None,
        faults: Iterable[Fault] = (),
        seed: int | None = None,
        immediate: bool | None = None,
        timeouts: bool = False,
        start: datetime = START,
        keep: int = 10_000,
    ) -> None:
        """config: a fleet file: its path, its text or its value. hosts, dpus, profile, racks, rack_type: the fleet
        without one, by default one host with what DPUs its hardware has.

        credentials: whether the passwords were changed to `password` already; None: they were, or for a fleet file,
        what it says. seed: 0 to 255, another one for other MACs and serial numbers. immediate: hardware takes no time;
        None for what the file says. timeouts: clients that wait less than an answer is delayed get a timeout at once;
        else no answer is late, and only `delay` tells. start: what the clock shows. keep: how many requests and events
        are kept. Raises ConfigError, ProfileError and ValueError.
        """
        rotated = credentials == "rotated" or (credentials is None and config is None)
        settled = configured(
            config,
            hosts=hosts,
            dpus=dpus,
            profile=profile,
            racks=racks,
            rack_type=rack_type,
            password=password if rotated else None,
            preset=preset,
            faults=faults,
            seed=seed,
        )
        if credentials == "factory":
            settled = msgspec.structs.replace(settled, host_bmc_password=None, dpu_bmc_password=None)
        if immediate is None:
            immediate = settled.progression == "immediate"
        self.config, self._immediate = settled, immediate
        self._scale = settled.time_scale
        self._clock = StepClock(start.timestamp(), self._scale, together=not immediate)
        self._hasher = Hasher()
        self._driver = Driver(self._clock, immediate=immediate, emit=Hub(self._clock, self._push).emit)
        self._registry = Registry()
        self._driver.readdress = partial(readdress, self._registry)
        for _ in CachingBuilder(settled, self._hasher, self._clock.now().wall).populate(self._registry):
            pass
        for machine in self._registry:
            self._driver.execute(machine, ())
        self.requests: deque[Seen] = deque(maxlen=keep)
        self.events: deque[Event] = deque(maxlen=keep)
        self._context = RecordingContext(self._registry, self._driver, self._clock, self.requests)
        self._wire = Wire(self._context, timeouts=timeouts)
        self._bmcs = {machine.id: Bmc(self, machine) for machine in self._registry}
        self._passwords: dict[str, str] = {}
        self._lock = RLock()
        self._server: Server | None = None

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop what `serve` started; the rest is memory."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    # which BMCs

    @property
    def bmcs(self) -> list[Bmc]:
        """All of them, in machine order."""
        return list(self._bmcs.values())

    def __iter__(self) -> Iterator[Bmc]:
        return iter(self._bmcs.values())

    def __len__(self) -> int:
        return len(self._bmcs)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._bmcs

    def __getitem__(self, id_: str) -> Bmc:
        """The BMC with an id. Raises KeyError."""
        try:
            return self._bmcs[id_]
        except KeyError:
            known = list(self._bmcs)
            some = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
            raise KeyError(f"no BMC {id_!r}; there are {some}") from None

    def by_address(self, address: str) -> Bmc:
        """The BMC with an address. Raises KeyError."""
        machine = self._registry.by_address(address)
        if machine is None:
            raise KeyError(f"no BMC with the address {address}")
        return self._bmcs[machine.id]

    def by_serial(self, serial: str) -> Bmc:
        """The BMC with a serial number. Raises KeyError."""
        machine = self._registry.by_serial(serial)
        if machine is None:
            raise KeyError(f"no BMC with the serial number {serial}")
        return self._bmcs[machine.id]

    def has_host(self, host: str) -> bool:
        """Whether the host of a URL is the address or the id of a BMC."""
        return self._wire.address_of(host) is not None

    def _selected(self, selection: Selection) -> list[Bmc]:
        if selection is None:
            return self.bmcs
        if isinstance(selection, Bmc | str):
            selection = [selection]
        return [self[one] if isinstance(one, str) else one for one in selection]

    # time

    @property
    def now(self) -> datetime:
        """What the clock shows, UTC."""
        return datetime.fromtimestamp(self._clock.now().wall, UTC)

    def advance(self, seconds: float) -> int:
        """Let time pass: timers fire in order, each at its own instant; how many fired. ValueError for less than 0."""

        def pass_time() -> int:
            if not self._immediate:
                return self._driver.skip(seconds * self._scale)
            if seconds < 0:
                raise ValueError("time does not run backwards")
            self._clock.advance(seconds)
            return self._driver.run_due()

        return self.run(pass_time)

    def advance_until(self, holds: Callable[[], object], *, step: float = 1.0, limit: float = 3600.0) -> float:
        """Let time pass until something holds, looking each `step` seconds; how many seconds passed.

        Raises AssertionError when it does not hold after `limit` seconds.
        """
        passed = 0.0
        while not holds():
            if passed >= limit:
                raise AssertionError(f"does not hold after {limit:g} s of the fleet's time")
            self.advance(step)
            passed += step
        return passed

    # what happens to BMCs

    def run(self, call: Callable[[], T]) -> T:
        """Call something while no request is answered: in the thread of `serve`, where that serves."""
        server = self._server
        if server is not None:
            return server.call(call)
        with self._lock:
            return call()

    def power(self, selection: Selection, command: str) -> None:
        """Give systems a power command: on, off, shutdown, restart, cycle, or a ResetType such as GracefulRestart.

        As over Redfish: it takes its time, and one to go where the system is already changes nothing. Raises ValueError
        for a command that there is not, and that the power state does not allow.
        """
        word = _WORDS.get(command, command)
        if word not in _COMMANDS:
            raise ValueError(f"no power command {command!r}; there are {', '.join([*_WORDS, *_COMMANDS])}")
        event = power_machine.Event(word)

        def give(machine: Machine) -> Iterable[Action]:
            try:
                return reset(machine, event, self._clock.now()).actions
            except (RedfishError, PatchRefused) as refused:
                state = machine.power.shown
                raise ValueError(f"{machine.id}: {word} is refused while PowerState is {state}") from refused

        self._change(selection, give)

    def reset_bmc(self, selection: Selection) -> None:
        """Restart BMCs, as Manager.Reset."""
        self._change(selection, lambda machine: machine.reset_bmc(self._clock.now()))

    def set_password(self, selection: Selection, password: str) -> None:
        """Change the password of the first account."""

        def change(machine: Machine) -> Iterable[Action]:
            machine.set_password(machine.tree.head.accounts[0].id, password, self._clock.now())
            self._passwords[machine.id] = password
            return ()

        self._change(selection, change)

    def set_reading(self, selection: Selection, sensor: str, value: float | None) -> None:
        """Make a sensor read something; None: what it measures. sensor: its URI.

        Raises KeyError for a URI of no sensor, and ValueError for what is no number.
        """

        def change(machine: Machine) -> None:
            self._context.set_reading(machine, sensor, value, _stored)

        for bmc in self._selected(selection):
            self.run(lambda machine=bmc.machine: change(machine))  # type: ignore[misc]

    def fault(self, selection: Selection, *faults: Fault) -> None:
        """Add fault rules; one with the id of another takes its place. Their windows begin now.

        Raises ValueError that says what is wrong with a rule.
        """
        rules = fault_rules(list(faults))

        def change(machine: Machine) -> Iterable[Action]:
            merged = machine.state.faults
            for rule in rules.set_at(self._clock.now().wall).rules:
                merged = merged.upsert(rule)
            return self._take_faults(machine, merged)

        self._change(selection, change)

    def clear_faults(self, selection: Selection = None) -> None:
        """Take all fault rules away."""
        self._change(selection, lambda machine: self._take_faults(machine, NO_RULES))

    def _take_faults(self, machine: Machine, rules: Rules) -> Iterable[Action]:
        machine.become(self._clock.now(), faults=rules)
        return ()

    def _change(self, selection: Selection, change: Callable[[Machine], Iterable[Action]]) -> None:
        def do(machine: Machine) -> None:
            actions = tuple(change(machine))
            self._context.settle(machine, Response(204, b"", actions=actions), _answered)

        for bmc in self._selected(selection):
            self.run(lambda machine=bmc.machine: do(machine))  # type: ignore[misc]

    def _push(self, machine: Machine, subscription: Subscription, body: bytes) -> None:
        self.events.append(Event(machine.id, subscription.destination, body))

    def auth_of(self, machine: Machine) -> Auth:
        """User and password of the first account of a BMC: the last password that is known, if it has that now."""
        first = machine.tree.head.accounts[0]
        config, is_dpu = self.config, machine.identity.kind is Kind.DPU
        given = config.dpu_bmc_password if is_dpu else config.host_bmc_password
        account = machine.accounts.get(first.id)
        known = [one for one in (self._passwords.get(machine.id), given, first.password) if one is not None]
        if account is not None:
            for password in known:
                if self._hasher.digest(password) == account.digest:
                    return account.user, password
        return first.user, known[0]

    # requests

    def send(
        self,
        method: str,
        target: str,
        fields: Iterable[tuple[str, str]],
        body: bytes | Iterable[bytes] = b"",
        patience: float | None = None,
    ) -> Answer:
        """Send a request as bytes that no library touches. fields: with Host, and with the framing of the body.

        What transports stand on. Raises ConnectionError when the connection closes before the head of an answer, and
        TooLate where timeouts count and the client waits less than the answer is delayed.
        """
        lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        pieces = [body] if isinstance(body, bytes) else body
        try:
            return self.run(lambda: self._wire.send(method, target, lines, pieces, patience))
        except Closed as closed:
            kind = ConnectionRefusedError if closed.refused else ConnectionResetError
            raise kind(str(closed)) from None

    def requested(
        self,
        bmc: Bmc | str | None = None,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
    ) -> list[Seen]:
        """The requests so far that are so; None for any. path: with its query, or without for any query."""
        id_ = bmc.id if isinstance(bmc, Bmc) else bmc
        return [
            one
            for one in self.requests
            if id_ in (None, one.bmc)
            and method in (None, one.method)
            and path in (None, one.path, one.path.partition("?")[0])
            and status in (None, one.status)
        ]

    def assert_requested(
        self,
        bmc: Bmc | str | None = None,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        *,
        times: int | None = None,
    ) -> None:
        """AssertionError unless there were such requests. times: how many, None for at least one; 0 for none."""
        found = len(self.requested(bmc, method, path, status))
        if found == times or (times is None and found):
            return
        last = "".join([f"\n  {one.bmc} {one.method} {one.path} {one.status}" for one in list(self.requests)[-20:]])
        wanted = "at least 1" if times is None else str(times)
        raise AssertionError(
            f"{found} such requests instead of {wanted}; the latest of all:{last or ' there was none'}"
        )

    # for clients

    def requests_adapter(self) -> "requests.adapters.BaseAdapter":
        """A transport adapter of `requests` that answers without sockets."""
        from bmcsim.testing.requests_transport import Adapter

        return Adapter(self)

    def session(self) -> "requests.Session":
        """A `requests.Session` whose every request goes to the fleet."""
        from bmcsim.testing.requests_transport import session

        return session(self)

    def patch_requests(self) -> "contextlib.AbstractContextManager[None]":
        """While it lasts, requests of any `requests.Session` to the address or id of a BMC go to the fleet, whoever
        made the session; requests to other hosts go where they would."""
        from bmcsim.testing.requests_transport import patched

        return patched(self)

    def httpx_transport(self) -> "httpx.BaseTransport":
        """A transport for `httpx.Client`."""
        from bmcsim.testing.httpx_transport import Transport

        return Transport(self)

    def httpx_async_transport(self) -> "httpx.AsyncBaseTransport":
        """A transport for `httpx.AsyncClient`."""
        from bmcsim.testing.httpx_transport import AsyncTransport

        return AsyncTransport(self)

    def aiohttp_connector(self) -> "aiohttp.BaseConnector":
        """A connector for `aiohttp.ClientSession`. Needs a running loop."""
        from bmcsim.testing.aiohttp_transport import Connector

        return Connector(self)

    @contextlib.contextmanager
    def serve(self, *, tls: bool = True) -> "Iterator[Server]":
        """Listen on loopback, on a port that is free, in a thread of its own: for any client at all.

        Delays of answers are real then. One at a time: raises RuntimeError while the fleet is served already.
        """
        from bmcsim.testing.server import Server

        if self._server is not None:
            raise RuntimeError("the fleet is served already")
        server = Server(self._context, tls=tls)
        self._server = server
        try:
            yield server
        finally:
            self.close()


def _answered(_response: Response) -> None:
    """Nobody waits for the answer to a change by hand."""


def _stored(_error: BaseException | None) -> None:
    """Nothing is stored, so nothing can go wrong with that."""
