"""BMCs as the control plane shows them: a summary for lists, and everything about one."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from bmcsim.core.clock import Moment, rfc3339
from bmcsim.edges.control.context import Control
from bmcsim.fleet.selection import Credentials, PowerState, State, credentials_of, generation_of, parent_of, state_of
from bmcsim.machine import addressing
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Account
from bmcsim.machine.fault_rules import Rule, to_json
from bmcsim.machine.identity import Kind, mac_colons


class Summary(msgspec.Struct, kw_only=True):
    """A BMC in a list. position: in its rack, from the bottom, counted from 1. parent: id of the host that a DPU is in.
    faults: how many fault rules it has. last_contact: when the last request came, RFC 3339."""

    id: str
    kind: Kind
    group: str
    rack: str | None
    position: int | None
    hardware: str
    address: str | None
    mac: str
    serial: str
    parent: str | None
    state: State
    power: PowerState
    credentials: Credentials
    faults: int
    last_contact: str | None
    requests: int
    errors: int


FIELDS: tuple[str, ...] = Summary.__struct_fields__


def summary(control: Control, bmc: Bmc) -> Summary:
    """A BMC in a list."""
    identity, contact = bmc.identity, control.contact(bmc)
    return Summary(
        id=bmc.id,
        kind=identity.kind,
        group=bmc.shared.group,
        rack=control.racks.of(bmc),
        position=identity.place.position if identity.place is not None else None,
        hardware=bmc.tree.head.profile,
        address=bmc.address or None,
        mac=mac_colons(identity.bmc_mac),
        serial=identity.serial,
        parent=parent_of(bmc),
        state=state_of(bmc, control.fleet),
        power=bmc.power.shown,  # type: ignore[arg-type]
        credentials=credentials_of(bmc),
        faults=len(bmc.state.faults.rules) if bmc.state.faults else 0,
        last_contact=rfc3339(contact.last) if contact.last is not None else None,
        requests=contact.requests,
        errors=contact.errors,
    )


def _packed(bmc: Bmc) -> int:
    """Its address as a number, -1 for none."""
    if not bmc.address:
        return -1
    number = 0
    for part in bmc.address.split("."):
        number = number << 8 | int(part)
    return number


def sort_keys(control: Control, field: str) -> Callable[[Bmc], Any]:
    """Of a BMC what a list is sorted by, of one type for all. field: of FIELDS but `id`, which is the order of the
    fleet itself. What a BMC does not have comes first."""
    contact, fleet, racks = control.contact, control.fleet, control.racks
    keys: Mapping[str, Callable[[Bmc], Any]] = {
        "kind": lambda bmc: bmc.identity.kind,
        "group": lambda bmc: bmc.shared.group,
        "rack": lambda bmc: racks.of(bmc) or "",
        "position": lambda bmc: bmc.identity.place.position if bmc.identity.place is not None else 0,
        "hardware": lambda bmc: bmc.tree.head.profile,
        "address": _packed,
        "mac": lambda bmc: bmc.identity.bmc_mac,
        "serial": lambda bmc: bmc.identity.serial,
        "parent": lambda bmc: parent_of(bmc) or "",
        "state": lambda bmc: state_of(bmc, fleet),
        "power": lambda bmc: bmc.power.shown,
        "credentials": credentials_of,
        "faults": lambda bmc: len(bmc.state.faults.rules) if bmc.state.faults else 0,
        "last_contact": lambda bmc: contact(bmc).last or 0.0,
        "requests": lambda bmc: contact(bmc).requests,
        "errors": lambda bmc: contact(bmc).errors,
    }
    return keys[field]


# one in full


class AccountView(msgspec.Struct, kw_only=True):
    """An account, without any secret. generation: which password it has; pinned: the one that was given at the start
    and is kept. expires: when the password does."""

    id: str
    user: str
    role: str
    enabled: bool
    generation: Credentials
    locked: bool
    change_required: bool
    expires: str | None


class SessionView(msgspec.Struct, kw_only=True):
    """A session. idle: seconds since its last use."""

    id: str
    user: str
    created: str
    idle: float


class FaultView(msgspec.Struct, kw_only=True):
    """A fault rule and what it did. rule: as it would be set. matched: requests that it looked at, where it counts them
    (with a probability, every or jitter). remaining: how often it still acts, null for ever. since: when it was set."""

    rule: dict[str, Any]
    matched: int
    remaining: int | None
    since: str


class TimerView(msgspec.Struct, kw_only=True):
    """What hardware is doing. seconds: of its own time until that is over."""

    name: str
    seconds: float


class LeaseView(msgspec.Struct, kw_only=True):
    """An interface with a lease of its own. seconds_left: until the lease ends, null for never or no lease."""

    port: str
    mac: str
    phase: str
    address: str | None
    server: str | None
    seconds_left: float | None
    error: str | None


class TaskView(msgspec.Struct, kw_only=True):
    """A task."""

    id: str
    name: str
    state: str
    percent: int


class JobView(msgspec.Struct, kw_only=True):
    """A job of the BMC's own queue."""

    id: str
    type: str
    name: str
    state: str


class SubscriptionView(msgspec.Struct, kw_only=True):
    """A subscription to events."""

    id: str
    destination: str
    context: str
    suspended: bool


class NetworkView(msgspec.Struct, kw_only=True):
    """The BMC's own interface. static: whether the address is a static one."""

    ipv4: str | None
    netmask: str
    gateway: str
    ipv6: list[str]
    static: bool


class Detail(Summary, kw_only=True):
    """A BMC in full: its summary, and more.

    power_state: of the state machine, finer than `power`. boot, boot_progress: Boot and BootProgress of the system.
    rack_mates: ids of the other machines in the rack. firmware: component -> version. staged_firmware: what waits for a
    reset. timings: seconds, as they count now; timings_changed: whether an operation changed them. resets: of the BMC.
    failed_logins: since the process started. certificates: URIs. readings: URI of a sensor -> what it was set to.
    settings: URIs of resources that differ from the profile's.
    """

    title: str
    power_state: str
    clock: str
    bmc_started: str
    system_started: str
    children: list[str]
    rack_mates: list[str]
    accounts: list[AccountView]
    sessions: list[SessionView]
    firmware: dict[str, str]
    staged_firmware: dict[str, str]
    fault_rules: list[FaultView]
    timers: list[TimerView]
    leases: list[LeaseView]
    boot: dict[str, Any]
    boot_progress: str | None
    tasks: list[TaskView]
    jobs: list[JobView]
    subscriptions: list[SubscriptionView]
    streams: int
    certificates: list[str]
    network: NetworkView
    timings: dict[str, float]
    timings_changed: bool
    readings: dict[str, float]
    settings: list[str]
    resets: int
    failed_logins: int


def detail(control: Control, bmc: Bmc) -> Detail:
    """A BMC in full."""
    moment, state = control.clock.now(), bmc.state
    rack = bmc.rack
    system = _shown(bmc, bmc.tree.head.roles.system, moment)
    mates = (*rack.shelves, *rack.fed) if rack is not None else ()
    return Detail(
        **msgspec.structs.asdict(summary(control, bmc)),
        title=bmc.tree.head.title,
        power_state=str(state.power),
        clock=bmc.time(moment),
        bmc_started=rfc3339(state.bmc_started),
        system_started=rfc3339(state.system_started),
        children=[one.id for one in bmc.dpus],
        rack_mates=[one.id for one in mates if one is not bmc],
        accounts=[_account(bmc, one, moment) for one in bmc.accounts.accounts],
        sessions=[
            SessionView(id=one.id, user=one.user, created=rfc3339(one.created), idle=moment.mono - one.last_use)
            for one in bmc.live_sessions(moment).values()
        ],
        firmware={name: bmc.version(name) for name in bmc.tree.components},
        staged_firmware=state.staged_firmware,
        fault_rules=[_fault(rule) for rule in state.faults.rules],
        timers=[TimerView(name=name, seconds=round(bmc.remaining(name, moment), 3)) for name in sorted(state.timers)],
        leases=_leases(control, bmc, moment),
        boot=system.get("Boot") or {},
        boot_progress=(system.get("BootProgress") or {}).get("LastState"),
        tasks=[
            TaskView(id=shown.id, name=task.name, state=str(shown.state), percent=shown.percent)
            for task in state.tasks
            for shown in [bmc.shown_task(task, moment)]
        ],
        jobs=[JobView(id=one.id, type=one.type, name=one.name, state=str(one.state)) for one in bmc.queue(moment)],
        subscriptions=[
            SubscriptionView(id=one.id, destination=one.destination, context=one.context, suspended=one.suspended)
            for one in state.subscriptions
        ],
        streams=len(bmc.feed.streams) if bmc.feed is not None else 0,
        certificates=[one.uri for one in bmc.all_certificates()],
        network=NetworkView(
            ipv4=bmc.address or None,
            netmask=addressing.netmask(bmc),
            gateway=addressing.gateway(bmc),
            ipv6=[str(one["Address"]) for one in addressing.ipv6(bmc)],
            static=addressing.static(bmc) is not None,
        ),
        timings=msgspec.structs.asdict(bmc.shared.timings),
        timings_changed=bmc.shared.built is not None,
        readings=state.readings,
        settings=sorted(state.changes),
        resets=state.resets,
        failed_logins=bmc.failed_logins.total if bmc.failed_logins is not None else 0,
    )


def _account(bmc: Bmc, account: Account, moment: Moment) -> AccountView:
    return AccountView(
        id=account.id,
        user=account.user,
        role=account.role,
        enabled=account.enabled,
        generation=generation_of(bmc, account),
        locked=bmc.locked(account.id, moment),
        change_required=account.must_change(bmc.wall(moment)),
        expires=rfc3339(account.expiration) if account.expiration is not None else None,
    )


def _fault(rule: Rule) -> FaultView:
    return FaultView(rule=to_json(rule), matched=rule.seen, remaining=rule.remaining, since=rfc3339(rule.since))


def _leases(control: Control, bmc: Bmc, moment: Moment) -> list[LeaseView]:
    if control.leases is None:
        return []
    shown = []
    for one in control.leases.seen(bmc):
        left = one.lease.expires() - moment.wall if one.lease is not None else float("inf")
        shown.append(
            LeaseView(
                port=str(one.port),
                mac=mac_colons(one.mac),
                phase=one.phase,
                address=one.lease.address if one.lease is not None else None,
                server=one.lease.server or None if one.lease is not None else None,
                seconds_left=round(left, 3) if left != float("inf") else None,
                error=one.error or None,
            )
        )
    return shown


def _shown(bmc: Bmc, uri: str, moment: Moment) -> dict[str, Any]:
    """A resource as it shows itself, empty where there is none."""
    node = bmc.tree.nodes.get(uri)
    shown: dict[str, Any] = orjson.loads(bmc.body(node).render(bmc, moment)[1]) if node is not None else {}
    return shown
