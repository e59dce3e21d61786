"""Everything durable about one BMC, as one value.

A change makes a new value; the old one is what undo goes back to, and the new one is the row that is stored. BMCs that
have changed nothing share the value of their group.
"""

from typing import Any

import msgspec

from bmcsim.machine.actions import Happening
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.certificates import Certificate
from bmcsim.machine.credentials import Accounts
from bmcsim.machine.dhcp.messages import Lease
from bmcsim.machine.events import Subscription
from bmcsim.machine.fault_rules import FaultError
from bmcsim.machine.faults import NO_RULES, Rules
from bmcsim.machine.jobs import Jobs
from bmcsim.machine.power import Power
from bmcsim.machine.roles import Role
from bmcsim.machine.tasks import Task
from bmcsim.machine.tasks import shifted as shifted_tasks


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One entry of a log. created: seconds since the epoch. origin: URI, '' for none."""

    id: str
    created: float
    message: str
    message_id: str = ""
    severity: str = "OK"
    origin: str = ""


class Staged(msgspec.Struct, frozen=True):
    """A change of a resource that waits for something to happen.

    key: what it replaces when it is staged again. at: None where a job has to be made for it first.
    settings: URI of the settings resource that shows it, '' for none. job: id of the job that carries it out, '' for
    none. passwords: name -> digest that a password of the system's firmware gets. revert: everything that was written
    to the resource is gone first.
    """

    key: str
    at: Happening | None
    uri: str
    changes: dict[str, Any]
    settings: str = ""
    job: str = ""
    passwords: dict[str, bytes] = {}
    revert: bool = False


class State(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The durable state of a BMC.

    at: hardware time of the last change; deadlines are on that line, so what is left of a timer is deadline - at.
    changes: URI -> what was written to it, merged. timers: name -> deadline. bmc_started, system_started: seconds since
    the epoch. system_stopped: when it was last switched off, likewise; 0 for never. readings: URI of a sensor -> what
    it was set to by hand. clock_ahead: seconds by which the BMC's own clock was set ahead of real time. clock_set:
    when, in seconds since the epoch. clock_offset: of local time, minutes east of UTC. logs: URI of the collection of
    entries -> its entries, where they are not the profile's. logs_cleared: the same URI -> number of the last entry
    that was cleared away. faults: Rules; in a row their plain form. roles: custom ones. jobs: the queue, oldest first.
    job_number: of the last one. passwords: name -> digest of a password of the system's firmware, where it is not the
    factory's. firmware: component -> version, where it is not the profile's. staged_firmware: component -> version that
    waits for a reset. tasks: oldest first. tasks_made: how many there were. subscriptions,
    subscriptions_made: likewise. was_on: whether the system was on when mains power went.
    certificates: URI of a collection -> its certificates, where they are not those that the BMC began with.
    certificate_keys: the same URI -> private key (PKCS8, DER) of the last signing request.
    leases: Port -> what DHCP gave that interface.
    """

    accounts: Accounts
    at: float = 0.0
    power: Power = Power.RUNNING
    service: Service = Service.UP
    changes: dict[str, dict[str, Any]] = {}
    timers: dict[str, float] = {}
    bmc_started: float = 0.0
    system_started: float = 0.0
    system_stopped: float = 0.0
    readings: dict[str, float] = {}
    clock_ahead: float = 0.0
    clock_set: float = 0.0
    clock_offset: int = 0
    logs: dict[str, tuple[LogRecord, ...]] = {}
    logs_cleared: dict[str, int] = {}
    staged: tuple[Staged, ...] = ()
    resets: int = 0
    faults: Any = NO_RULES
    roles: tuple[Role, ...] = ()
    jobs: Jobs = ()
    job_number: int = 0
    passwords: dict[str, bytes] = {}
    firmware: dict[str, str] = {}
    staged_firmware: dict[str, str] = {}
    tasks: tuple[Task, ...] = ()
    tasks_made: int = 0
    subscriptions: tuple[Subscription, ...] = ()
    subscriptions_made: int = 0
    was_on: bool = False
    certificates: dict[str, tuple[Certificate, ...]] = {}
    certificate_keys: dict[str, bytes] = {}
    leases: dict[str, Lease] = {}


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A state as it is stored, with what tells whose it is. profile: name and variant of the hardware. key: that its
    passwords are under, b'' for the one of the store."""

    mac: int
    profile: str
    state: State
    key: bytes = b""


def _plain(value: Any) -> str:
    """What a client wrote may come back from a template, whose texts have a type of their own. Raises TypeError."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is no part of a state")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder = msgspec.msgpack.Decoder(Row)


def encode(row: Row) -> bytes:
    """A row as bytes."""
    if row.state.faults is not NO_RULES:
        faults = row.state.faults.dump() if row.state.faults else NO_RULES
        state = msgspec.structs.replace(row.state, faults=faults)
        row = msgspec.structs.replace(row, state=state)
    return _encoder.encode(row)


def decode(data: bytes) -> Row:
    """A row from bytes. Raises msgspec.DecodeError (ValidationError included) for what is not one."""
    row = _decoder.decode(data)
    if row.state.faults is NO_RULES:
        return row
    try:
        faults = Rules.load(row.state.faults)
    except (FaultError, TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"fault rules: {error}") from error
    return msgspec.structs.replace(row, state=msgspec.structs.replace(row.state, faults=faults))


def shifted(state: State, hardware: float) -> State:
    """A stored state whose deadlines are moved to a time line of hardware that now stands at `hardware`."""
    seconds = hardware - state.at
    timers = {name: deadline + seconds for name, deadline in state.timers.items()}
    tasks = shifted_tasks(state.tasks, seconds) if state.tasks else ()
    return msgspec.structs.replace(state, at=hardware, timers=timers, tasks=tasks)
