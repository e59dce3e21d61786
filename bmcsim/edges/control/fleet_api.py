"""The fleet as a whole: what it has, its groups, racks and profiles, its clock, and who changed what."""

import asyncio
from collections import Counter
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bmcsim.core.clock import rfc3339
from bmcsim.edges.control.audit import KEPT, Change
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, ControlError, Endpoint
from bmcsim.fleet.converters import MAX_TIME_SCALE
from bmcsim.fleet.driver import TIMERS_AT_ONCE
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.selection import credentials_of, state_of
from bmcsim.machine.identity import Kind
from bmcsim.tree import profile as profiles
from bmcsim.tree.profile import Head

_LONGEST_STEP = 366 * 86400.0


class ClockView(msgspec.Struct, kw_only=True):
    """The clock. scale: how much faster hardware is than real time, 0 while its time stands. hardware: seconds since
    the start, as hardware counts them. wall: RFC 3339, what BMCs show as their time. timers: that are pending.
    next_timer: seconds of the hardware's time until the next one is due, null for none."""

    scale: float
    paused: bool
    hardware: float
    wall: str
    timers: int
    next_timer: float | None


class ClockChange(msgspec.Struct, forbid_unknown_fields=True):
    """One of the three. step: move the hardware's time forward by so many seconds. scale: its speed from now on.
    paused: let it stand, or run as before."""

    step: Annotated[float, Meta(ge=0, le=_LONGEST_STEP)] | None = None
    scale: Annotated[float, Meta(gt=0, le=MAX_TIME_SCALE)] | None = None
    paused: bool | None = None


class Clocked(ClockView, kw_only=True):
    """The clock after a change. fired: timers that became due by a step."""

    fired: int


class Requests(msgspec.Struct, kw_only=True):
    """Of the Redfish port since the start. by_class: 2xx and so on -> answered requests. dropped: without an answer.
    connections, streams: that are open."""

    by_class: dict[str, int]
    dropped: int
    connections: int
    streams: int


class Dhcp(msgspec.Struct, kw_only=True):
    """Interfaces with leases of their own. phases: phase of the client -> how many. bound: that have an address."""

    interfaces: int
    bound: int
    phases: dict[str, int]
    acquisitions: int
    renewals: int
    naks: int
    declines: int
    expirations: int
    timeouts: int


class Overview(msgspec.Struct, kw_only=True):
    """The fleet. ready: whether every BMC that is expected is there. uptime: seconds. By kind and so on: BMCs.
    registration: how far the registration with NICo is, null where there is none."""

    version: str
    started: str
    uptime: float
    ready: bool
    expected: int
    bmcs: int
    racks: int
    by_kind: dict[str, int]
    by_hardware: dict[str, int]
    by_group: dict[str, int]
    by_state: dict[str, int]
    by_power: dict[str, int]
    by_credentials: dict[str, int]
    faulty: int
    requests: Requests
    clock: ClockView
    dhcp: Dhcp | None
    registration: Any
    running_jobs: int


class Group(msgspec.Struct, kw_only=True):
    """A group of the fleet file. machines: that it is to have; bmcs: that are there. rack: that all are in, where the
    file says so. rack_type: of machines in simulated racks."""

    name: str
    kind: Kind
    hardware: str
    variant: str
    machines: int
    dpus_per_machine: int
    bmcs: int
    rack: str | None
    rack_type: str | None


class Groups(msgspec.Struct):
    """All groups, by name."""

    groups: list[Group]


class Rack(msgspec.Struct, kw_only=True):
    """A rack. live: whether its power shelves feed it; null where it has none. by_kind: BMCs."""

    id: str
    live: bool | None
    bmcs: int
    by_kind: dict[str, int]
    by_state: dict[str, int]


class Racks(msgspec.Struct):
    """All racks, in machine order."""

    racks: list[Rack]


class ProfileView(msgspec.Struct, kw_only=True):
    """A hardware profile. bmcs: of the fleet that have it."""

    name: str
    title: str
    kind: Kind
    variants: list[str]
    bmcs: int


class ProfileList(msgspec.Struct):
    """All profiles that come with bmcsim, and those of the fleet."""

    profiles: list[ProfileView]


class Latest(msgspec.Struct, forbid_unknown_fields=True):
    """limit: how many."""

    limit: Annotated[int, Meta(ge=1, le=KEPT)] = 100


class AuditLog(msgspec.Struct):
    """Changes, the latest first."""

    changes: list[Change]


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoints."""
    running = control.clock.now().scale or control.config.time_scale
    # Each moves the time from where the one before it left it.
    steps = asyncio.Lock()

    async def fleet(_call: Call) -> Overview:
        return await _overview(control)

    async def groups(_call: Call) -> Groups:
        return await _groups(control)

    async def racks(_call: Call) -> Racks:
        return await _racks(control)

    async def all_profiles(_call: Call) -> ProfileList:
        return await _profiles(control)

    def clock(_call: Call) -> ClockView:
        return clock_view(control)

    async def change_clock(call: Call) -> Clocked:
        nonlocal running
        wanted: ClockChange = call.body
        given = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
        if len(given) != 1:
            raise ControlError(400, "say one of step, scale and paused")
        fired = 0
        if wanted.step is not None:
            async with steps:
                for now in control.driver.skipping(wanted.step, TIMERS_AT_ONCE):
                    fired += now
                    await asyncio.sleep(0)
        elif wanted.paused:
            control.driver.rescale(0.0)
        else:
            running = wanted.scale or running
            control.driver.rescale(running)
        call.noted = given
        return Clocked(**msgspec.structs.asdict(clock_view(control)), fired=fired)

    def audit(call: Call) -> AuditLog:
        return AuditLog(control.audit.latest(call.query.limit))

    def read(path: str, summary: str, handler: Any, answer: Any) -> Endpoint:
        return Endpoint(method="GET", path=path, summary=summary, handler=handler, answer=answer)

    return [
        read("/api/v1/fleet", "The fleet as a whole", fleet, Overview),
        read("/api/v1/groups", "The groups of the fleet", groups, Groups),
        read("/api/v1/racks", "The racks of the fleet", racks, Racks),
        read("/api/v1/profiles", "The hardware profiles", all_profiles, ProfileList),
        read("/api/v1/clock", "The clock", clock, ClockView),
        Endpoint(
            method="POST",
            path="/api/v1/clock",
            summary="Move, scale, pause or resume the hardware's time",
            handler=change_clock,
            body=ClockChange,
            answer=Clocked,
        ),
        Endpoint(
            method="GET",
            path="/api/v1/audit",
            summary="Who changed what",
            handler=audit,
            query=Latest,
            answer=AuditLog,
        ),
    ]


def clock_view(control: Control) -> ClockView:
    """The clock as it is."""
    moment, deadline = control.clock.now(), control.driver.next_deadline()
    return ClockView(
        scale=moment.scale,
        paused=moment.scale == 0,
        hardware=round(moment.hardware, 3),
        wall=rfc3339(moment.wall),
        timers=len(control.driver),
        next_timer=None if deadline is None else round(max(0.0, deadline - moment.hardware), 3),
    )


async def _overview(control: Control) -> Overview:
    fleet, counters, now = control.fleet, control.counters, control.clock.now()
    kinds, hardware, groups = Counter[str](), Counter[str](), Counter[str]()
    states, powers, passwords = Counter[str](), Counter[str](), Counter[str]()
    racks: set[str | None] = set()
    faulty = 0
    async for piece in control.pieces():
        kinds.update([str(bmc.identity.kind) for bmc in piece])
        hardware.update([bmc.tree.head.profile for bmc in piece])
        groups.update([bmc.shared.group for bmc in piece])
        states.update([state_of(bmc, fleet) for bmc in piece])
        powers.update([bmc.power.shown for bmc in piece])
        passwords.update([credentials_of(bmc) for bmc in piece])
        racks.update([control.racks.of(bmc) for bmc in piece])
        faulty += sum([bool(bmc.state.faults) for bmc in piece])
    return Overview(
        version=control.version,
        started=rfc3339(control.started),
        uptime=round(now.wall - control.started, 3),
        ready=fleet.ready,
        expected=fleet.expected,
        bmcs=len(fleet),
        racks=len(racks - {None}),
        by_kind=dict(kinds),
        by_hardware=dict(hardware),
        by_group=dict(groups),
        by_state=dict(states),
        by_power=dict(powers),
        by_credentials=dict(passwords),
        faulty=faulty,
        requests=Requests(
            by_class={f"{index}xx": counters.classes[index] for index in range(1, 6)},
            dropped=counters.dropped,
            connections=counters.connections_opened - counters.connections_closed,
            streams=counters.streams,
        ),
        clock=clock_view(control),
        dhcp=_dhcp(control.leases) if control.leases is not None else None,
        registration=control.registration() if control.registration is not None else None,
        running_jobs=sum([job.state == "running" for job in control.jobs.all()]),
    )


def _dhcp(leases: Leases) -> Dhcp:
    counted = leases.counted
    return Dhcp(
        interfaces=len(leases),
        bound=leases.bound,
        phases=leases.phases(),
        acquisitions=counted.acquisitions,
        renewals=counted.renewals,
        naks=counted.naks,
        declines=counted.declines,
        expirations=counted.expirations,
        timeouts=counted.timeouts,
    )


async def _groups(control: Control) -> Groups:
    present = Counter[str]()
    async for piece in control.pieces():
        present.update([bmc.shared.group for bmc in piece])
    return Groups(
        [
            Group(
                name=one.name,
                kind=one.kind,
                hardware=one.hw_type,
                variant=one.variant,
                machines=one.host_count,
                dpus_per_machine=one.dpus,
                bmcs=present[one.name],
                rack=one.rack_id,
                rack_type=one.rack_type or None,
            )
            for one in control.config.groups
        ]
    )


async def _racks(control: Control) -> Racks:
    racks: dict[str, Rack] = {}
    async for piece in control.pieces():
        for bmc in piece:
            id_ = control.racks.of(bmc)
            if id_ is None:
                continue
            rack = racks.get(id_)
            if rack is None:
                rack = racks[id_] = Rack(id=id_, live=None, bmcs=0, by_kind={}, by_state={})
            rack.bmcs += 1
            for counts, key in ((rack.by_kind, str(bmc.identity.kind)), (rack.by_state, state_of(bmc, control.fleet))):
                counts[key] = counts.get(key, 0) + 1
            if bmc.rack is not None and bmc.rack.shelves:
                rack.live = bmc.rack.live
    return Racks(list(racks.values()))


async def _profiles(control: Control) -> ProfileList:
    used = Counter[str]()
    heads: dict[str, Head] = {}
    async for piece in control.pieces():
        for bmc in piece:
            head = bmc.tree.head
            used[head.profile] += 1
            heads[head.profile] = head
    # Reading files takes a while the first time.
    heads = {**await asyncio.to_thread(_own_heads), **heads}
    return ProfileList(
        [
            ProfileView(
                name=name, title=head.title, kind=Kind(head.kind), variants=sorted(head.variants), bmcs=used[name]
            )
            for name, head in sorted(heads.items())
        ]
    )


@cache
def _own_heads() -> dict[str, Head]:
    return {name: profiles.load(name).head for name in profiles.names()}
