"""One BMC: what can happen to it, and what follows."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.machine import addressing, bmc_reset, event_view, firmware, jobs, logs, staging, task_view, updates
from bmcsim.machine import power as power_machine
from bmcsim.machine.actions import (
    Action,
    CancelTimer,
    DropSessions,
    EndStreams,
    Happened,
    Happening,
    OfDependent,
    Readdress,
    SetTimer,
)
from bmcsim.machine.bmc_reset import Phase, Service
from bmcsim.machine.credentials import Account, Accounts
from bmcsim.machine.dhcp.links import felt
from bmcsim.machine.fault_effects import IgnorePowerOn, IgnoreShutdown, MediaFails, UpdateFails
from bmcsim.machine.faults import Rules
from bmcsim.machine.history import Generation, Login, Milestone, Milestones, generation
from bmcsim.machine.identity import Identity, Kind
from bmcsim.machine.jobs import Job
from bmcsim.machine.load import Load
from bmcsim.machine.lockout import FailedLogins, Lockout
from bmcsim.machine.power import Power
from bmcsim.machine.rack import Rack
from bmcsim.machine.resources import Shared
from bmcsim.machine.roles import PREDEFINED, Role
from bmcsim.machine.sessions import Session, Sessions
from bmcsim.machine.state import LogRecord, Staged, State
from bmcsim.machine.tasks import Task
from bmcsim.machine.telling import Telling
from bmcsim.tree.compile import Node
from bmcsim.tree.reactions import holds

SESSION_SERVICE = "/redfish/v1/SessionService"
ACCOUNT_SERVICE = "/redfish/v1/AccountService"
ACCOUNTS = f"{ACCOUNT_SERVICE}/Accounts"
ROLES = f"{ACCOUNT_SERVICE}/Roles"
_DAY = 86400
_DEFAULT_SESSION_TIMEOUT = 1800.0

Kept = Literal["ResetAll", "PreserveNetworkAndUsers", "PreserveNetwork"]
"""What a factory reset does, in the words of Manager.ResetToDefaults."""

_NETWORK = frozenset({"EthernetInterface", "ManagerNetworkProtocol"})
# Flash of the host, and what is installed: resetting the manager does not reach them.
_NOT_OF_THE_MANAGER = frozenset({"Bios", "BootOption", "SecureBoot", "SoftwareInventory"})


class Bmc(Telling):
    """One BMC.

    Everything that most BMCs have in common is in `shared`; an attribute that is None has not been needed yet.
    address: IPv4, dotted; '' while it has none.
    dpus: host: the BMCs of its DPUs. rack: that it is in, None where it stands free. failed_logins: since the process
    started. load: what it is busy with, None where that has no limit. login: the last one that was accepted, without
    those that repeat it unchanged. milestones: of its clients, None before the first contact.
    Methods that change something return what others have to be told; whoever owns time syncs the timers afterwards.
    """

    __slots__ = (
        "address",
        "dpus",
        "failed_logins",
        "id",
        "load",
        "login",
        "milestones",
        "rack",
        "sessions",
        "timers",
    )

    def __init__(self, id_: str, identity: Identity, address: str, shared: Shared, initial: State) -> None:
        super().__init__(identity, shared, initial)
        self.id = id_
        self.address = address
        self.dpus: tuple[Bmc, ...] = ()
        self.rack: Rack | None = None
        self.sessions: Sessions | None = None
        self.timers: dict[str, Any] | None = None
        self.failed_logins: FailedLogins | None = None
        self.login: Login | None = None
        self.milestones: Milestones | None = None
        self.load = Load.of(shared.behaviour.request_limit, shared.behaviour.request_rate)

    def reached(self, what: Milestone, moment: Moment) -> None:
        """Something happened to it; the first time after the first contact is remembered."""
        if self.milestones is not None and not getattr(self.milestones, what):
            setattr(self.milestones, what, moment.wall)

    def snapshot(self) -> list[tuple["Bmc", State, State | None, Sessions | None]]:
        """The states and sessions of this BMC and what depends on it, for `forget`."""
        return [
            (one, one.state, one.uncommitted, one.sessions.copy() if one.sessions is not None else None)
            for one in self.reach()
        ]

    @property
    def dependents(self) -> "tuple[Bmc, ...]":
        """What loses its power with this one: the DPUs of a host, the machines of a shelf's rack."""
        if self.rack is not None and self.identity.kind is Kind.POWER_SHELF:
            return self.rack.fed
        return self.dpus

    def reach(self) -> "Iterator[Bmc]":
        """This BMC and all that a command to it may change."""
        yield self
        for one in self.dependents:
            yield from one.reach()

    @staticmethod
    def forget(snapshot: Iterable[tuple["Bmc", State, State | None, Sessions | None]]) -> None:
        """Go back to a snapshot as if nothing had been asked."""
        for one, state, uncommitted, sessions in snapshot:
            one.restore(state)
            one.uncommitted, one.sessions = uncommitted, sessions

    # credentials and sessions

    def set_password(self, account_id: str, password: str, moment: Moment) -> None:
        """Change a password; the remembered Basic header is forgotten in the same step."""
        account = self.accounts.get(account_id)
        if account is not None:
            changed = self.with_password(account, password, moment)
            self.become(moment, accounts=self.accounts.replacing(changed))

    def with_password(self, account: Account, password: str, moment: Moment) -> Account:
        """An account after a change of its password, which expires when the account service says."""
        digest = self.shared.hasher.digest(password)
        return account.with_password(digest, self.next_expiration(moment), self.shared.behaviour.password_history)

    def generation(self, account: Account, digest: bytes) -> Generation:
        """Which password of an account has a digest. digest: as `Hasher.digest`."""
        first = self.shared.accounts.get(account.id) if self.shared.policy == "pinned" else None
        return generation(account, digest, pinned=first is not None and first.digest == digest)

    def next_expiration(self, moment: Moment) -> float | None:
        """When a password that is set now expires (AccountService.PasswordExpirationDays), None for never."""
        days = self.setting(ACCOUNT_SERVICE, "PasswordExpirationDays")
        return None if days is None else self.wall(moment) + days * _DAY

    @property
    def lockout(self) -> Lockout:
        """What the account service says about failed logins."""
        node = self.tree.nodes.get(ACCOUNT_SERVICE)
        facts = self.template(node) if node is not None else {}
        return Lockout(
            facts.get("AccountLockoutThreshold", 0),
            facts.get("AccountLockoutDuration", 0),
            facts.get("AccountLockoutCounterResetAfter", 0),
            facts.get("AccountLockoutCounterResetEnabled", True),
        )

    def locked(self, account_id: str, moment: Moment) -> bool:
        """Whether an account is locked after failed logins."""
        if self.failed_logins is None or (account := self.accounts.get(account_id)) is None:
            return False
        return self.failed_logins.locked(account.lock_key, self.lockout, moment.mono)

    def login_failed(self, user: str, moment: Moment) -> list[Action]:
        """Somebody tried a wrong password, or a user that is not there."""
        if self.failed_logins is None:
            self.failed_logins = FailedLogins()
        self.failed_logins.total += 1
        account = self.accounts.of_user(user)
        if account is None or not account.usable or not (rule := self.lockout).locks:
            return []
        if self.basic_account is account:
            # Its next login has to be seen, since it resets the counter.
            self._forget_header()
        locks = self.failed_logins.add(account.lock_key, rule, moment.mono)
        self.failed_logins.keep([one.lock_key for one in self.accounts.accounts])
        if not locks:
            return []
        return self._apply([Happened(Happening.ACCOUNT_LOCKED, f"{ACCOUNTS}/{account.id}")], moment)

    def forget_failed_logins(self, account: Account | None = None) -> None:
        """The failed logins of an account that logged in are over, or those of all. That is not undone."""
        if self.failed_logins is not None:
            self.failed_logins.forget(account.lock_key if account is not None else "")

    def unlocked(self, account: Account) -> Account:
        """An account for which no failed login has counted yet: an administrator says so, or it is new."""
        failed = self.failed_logins
        while failed is not None and account.lock_key in failed:
            account = msgspec.structs.replace(account, unlocks=account.unlocks + 1)
        return account

    @property
    def roles(self) -> Mapping[str, Role]:
        """Id -> role, the predefined ones first."""
        return {**PREDEFINED, **{role.id: role for role in self.state.roles}}

    def privileges(self, account: Account) -> tuple[str, ...]:
        """What the role of an account allows."""
        role = PREDEFINED.get(account.role) or self.roles.get(account.role)
        return role.privileges if role is not None else ()

    @property
    def session_timeout(self) -> float:
        """Idle seconds after which a session ends."""
        return float(self.setting(SESSION_SERVICE, "SessionTimeout") or _DEFAULT_SESSION_TIMEOUT)

    def live_sessions(self, moment: Moment) -> Mapping[str, Session]:
        """Id -> session."""
        return self.sessions.live(moment, self.session_timeout) if self.sessions is not None else {}

    def open_session(self, account: Account, moment: Moment) -> Session:
        """A new session of an account."""
        if self.sessions is None:
            self.sessions = Sessions()
        return self.sessions.create(account.user, account.id, moment)

    def close_session(self, id_: str) -> None:
        """End a session."""
        if self.sessions is not None:
            self.sessions.delete(id_)

    def drop_sessions(self, which: DropSessions) -> None:
        """End sessions."""
        if self.sessions is None:
            return
        if not which.account:
            self.sessions.clear()
            return
        for session in self.sessions.of(which.account):
            if session.id != which.keep:
                self.sessions.delete(session.id)

    def end_orphans(self) -> None:
        """Sessions and streams end whose account is not there, or not usable: the change that brought it was undone."""
        usable = {account.id for account in self.accounts.accounts if account.usable}
        if self.sessions is not None:
            for account_id in self.sessions.accounts() - usable:
                self.drop_sessions(DropSessions(account_id))
        for stream in tuple(self.feed.streams.values()) if self.feed is not None else ():
            if stream.owner not in usable:
                stream.end()

    def members(self, node: Node, moment: Moment) -> Mapping[str, Any]:
        """Id -> thing, for a dynamic collection or the template of its members."""
        match node.items:
            case "sessions":
                return self.live_sessions(moment)
            case "log":
                return {record.id: record for record in self.log(node.container)}
            case "certificates":
                return {one.id: one for one in self.certificates(node.container)}
            case "roles":
                return self.roles
            case "jobs":
                return {job.id: job for job in self.queue(moment)}
            case "firmware":
                return firmware.inventory(self.tree.components, self.state.firmware)
            case "tasks":
                return {task.id: self.shown_task(task, moment) for task in self.state.tasks}
            case "subscriptions":
                streams = self.feed.streams if self.feed is not None else {}
                return event_view.shown(self.state.subscriptions, streams)
        return {account.id: account for account in self.accounts.accounts}

    def log(self, uri: str) -> Sequence[LogRecord]:
        """The entries of a log, oldest first."""
        entries = self.state.logs.get(uri)
        return logs.first(self.tree.logs[uri], self.state.bmc_started) if entries is None else entries

    def clear_log(self, uri: str, moment: Moment) -> list[Action]:
        """LogService.ClearLog. uri: of the collection of entries, whose numbers go on afterwards."""
        last = logs.following(self.log(uri), self.state.logs_cleared.get(uri, 0)) - 1
        self.become(
            moment,
            logs={**self.state.logs, uri: ()},
            logs_cleared={**self.state.logs_cleared, uri: last},
        )
        return self._apply([Happened(Happening.LOG_CLEARED, logs.service_of(uri))], moment)

    # what happens

    def reset_system(self, event: power_machine.Event, moment: Moment) -> list[Action]:
        """ComputerSystem.Reset. Raises power_machine.Refused when the power state does not allow it."""
        before = self.power
        if self.state.faults and self._stuck(event, moment):
            return []
        live = self.rack is not None and self.rack.live
        new, actions = power_machine.step(before, event, self.shared.timings)
        if new is not before or actions:
            self.become(moment, power=new)
        done = self._apply(actions, moment)
        if self.dpus and (felt := power_machine.felt_by_dpus(event, before)) is not None:
            done += self._of_dependents([dpu.follow(felt, moment) for dpu in self.dpus])
        if self.rack is not None and self.rack.live is not live:
            change = Bmc.lose_mains if live else Bmc.regain_mains
            done += self._of_dependents([change(one, moment) for one in self.dependents])
        return done

    @staticmethod
    def _of_dependents(actions: Sequence[Sequence[Action]]) -> list[Action]:
        return [OfDependent(number, tuple(one)) for number, one in enumerate(actions) if one]

    def _stuck(self, event: power_machine.Event, moment: Moment) -> bool:
        """Whether a fault makes hardware accept a command and do nothing."""
        faults: Rules = self.state.faults
        if self.power is Power.OFF and event in power_machine.STARTING and faults.behaviour(IgnorePowerOn):
            self.become(moment, faults=faults.spend(IgnorePowerOn))
            return True
        asks_system = self.power is Power.RUNNING and event in power_machine.ASKING
        return asks_system and faults.behaviour(IgnoreShutdown) is not None

    def follow(self, event: power_machine.Event, moment: Moment) -> list[Action]:
        """What a power command to its host does to a DPU: the same, where the DPU's own state allows it."""
        with contextlib.suppress(power_machine.Refused):
            return self.reset_system(event, moment)
        return []

    def reset_bmc(self, moment: Moment) -> list[Action]:
        """Manager.Reset."""
        return self._service(bmc_reset.Event.RESET, moment)

    def cure(self, moment: Moment) -> None:
        """Hardware that ignores commands to power on does so no more: its power was taken away."""
        if self.state.faults.behaviour(IgnorePowerOn) is not None:
            self.become(moment, faults=self.state.faults.cure(IgnorePowerOn))

    def ac_cycle(self, moment: Moment) -> list[Action]:
        """Mains power goes and comes back: of the system, of the BMC itself, and of the DPUs in the slots."""
        self.cure(moment)
        policy = self.setting(self.tree.head.roles.system, "PowerRestorePolicy")
        event = power_machine.after_ac_loss(self.power, policy)
        done = self.reset_system(event, moment) if event is not None else []
        done += self.reset_bmc(moment)
        return done + self._of_dependents([dpu.ac_cycle(moment) for dpu in self.dpus])

    def lose_mains(self, moment: Moment) -> list[Action]:
        """Mains power goes: of the system, of the BMC itself, and of the DPUs in the slots."""
        if self.state.service is Service.UNPOWERED:
            return []
        was_on = not self.power.dead
        self.cure(moment)
        done = self.reset_system(power_machine.Event.FORCE_OFF, moment) if was_on else []
        self.become(moment, was_on=was_on)
        done += self._service(bmc_reset.Event.POWER_LOST, moment)
        return done + self._of_dependents([dpu.lose_mains(moment) for dpu in self.dpus])

    def regain_mains(self, moment: Moment) -> list[Action]:
        """Mains power is back: the BMC starts, and the system where its PowerRestorePolicy (DSP0268) says so."""
        if self.state.service is not Service.UNPOWERED:
            return []
        done = self._service(bmc_reset.Event.POWER_BACK, moment)
        done += self._of_dependents([dpu.regain_mains(moment) for dpu in self.dpus])
        policy = self.setting(self.tree.head.roles.system, "PowerRestorePolicy")
        if power_machine.comes_on(self.state.was_on, policy):
            done += self.reset_system(power_machine.Event.ON, moment)
        return done

    # jobs

    def create_job(
        self, type_: str, name: str, moment: Moment, *, target: str | None = None, seconds: float | None = None
    ) -> tuple[Job, list[Action]]:
        """A new job. seconds: how long it runs, from now on; None: it waits for a reset of the system and runs while
        that boots. target: URI of the settings that it applies. Raises jobs.QueueFull."""
        number, wall = self.state.job_number + 1, self.wall(moment)
        job = Job(jobs.id_of(number), type_, name, wall, target=target, at_reset=seconds is None)
        if seconds is not None:
            job = msgspec.structs.replace(job, state=jobs.JobState.RUNNING, started=wall)
        self.become(moment, jobs=jobs.added(self.state.jobs, job), job_number=number)
        return job, [] if seconds is None else self._apply([SetTimer(jobs.TIMER + job.id, seconds)], moment)

    def end_job(self, id_: str, moment: Moment, *, failed: bool = False) -> list[Action]:
        """A job is over."""
        before = self.state.jobs
        self.become(moment, jobs=jobs.ended(before, id_, self.wall(moment), failed=failed))
        return self._apply([CancelTimer(jobs.TIMER + id_), *self._jobs_over_since(before)], moment)

    def queue(self, moment: Moment) -> list[Job]:
        """All jobs that clients see, updates in the queue included."""
        return [*self.state.jobs, *self._updates_as_jobs(moment)]

    def drop_jobs(self, ids: Collection[str], moment: Moment) -> list[Action]:
        """Jobs are deleted, and with them what they would have carried out."""
        left, waiting = jobs.without(self.state.jobs, ids), staging.without_jobs(self.state.staged, ids)
        self.become(moment, jobs=left, staged=waiting)
        done = self._apply([CancelTimer(jobs.TIMER + id_) for id_ in ids], moment)
        for job in self._updates_as_jobs(moment):
            if job.id in ids:
                done += self.update(updates.forgotten(self.state, job.id, moment.hardware, self.wall(moment)), moment)
        return done

    def _updates_as_jobs(self, moment: Moment) -> list[Job]:
        """Updates stand in the queue of jobs where they wait in it."""
        if self.tree.updates.second != "queue":
            return []
        return [task_view.as_job(task, moment.hardware) for task in self.state.tasks]

    def _jobs_over_since(self, before: tuple[Job, ...]) -> list[Happened]:
        over = jobs.over_since(before, self.state.jobs)
        return [Happened(Happening.JOB_COMPLETED, self.job_uri(job.id)) for job in over]

    # firmware

    def version(self, component: str) -> str:
        """The version that a component shows."""
        return firmware.version(self.tree.components, self.state.firmware, component)

    def update(self, step: updates.Step, moment: Moment) -> list[Action]:
        """Take a step of the machine of updates."""
        new, actions = step
        if new is not self.state:
            self.become(moment, **{name: getattr(new, name) for name in updates.FIELDS})
        return self._apply(actions, moment)

    def update_fails_at(self, moment: Moment) -> float | None:
        """Percent at which the next update fails, None where nothing makes it fail. A fault may be used up by it."""
        faults: Rules = self.state.faults
        fault = faults.behaviour(UpdateFails)
        if fault is None:
            return None
        self.become(moment, faults=faults.spend(UpdateFails))
        return fault.at_percent

    def shown_task(self, task: Task, moment: Moment) -> task_view.Shown:
        """A task as its resource shows it now."""
        waits = any(self.state.staged_firmware.get(name) == version for name, version in task.changes.items())
        return task_view.shown(task, moment, waits=waits)

    def job_uri(self, id_: str) -> str:
        """Where a job is."""
        return f"{self.tree.job_queue}/{id_}"

    def factory_reset(self, kept: Kept, moment: Moment) -> list[Action]:
        """Manager.ResetToDefaults: settings are as they left the factory, then the BMC resets."""
        factory: dict[str, Any] = {"accounts": self.shared.accounts.on_factory_passwords(), "roles": ()}
        over: list[Action] = [CancelTimer(jobs.TIMER + job.id) for job in self.state.jobs]
        address = addressing.static(self)
        remaining = _NOT_OF_THE_MANAGER if kept == "ResetAll" else _NOT_OF_THE_MANAGER | _NETWORK
        self.become(
            moment,
            **(factory if kept != "PreserveNetworkAndUsers" else {}),
            changes={
                **self.shared.settings,
                **{uri: one for uri, one in self.state.changes.items() if self.resource_type(uri) in remaining},
            },
            logs=dict.fromkeys(self.tree.logs, ()),
            logs_cleared={},
            staged=(),
            jobs=(),
            subscriptions=(),
            clock_offset=0,
            certificates={},
            certificate_keys={},
        )
        if addressing.static(self) != address:
            over.append(Readdress())
        return [*self._apply([*over, Happened(Happening.FACTORY_RESET)], moment), *self.reset_bmc(moment)]

    def timer_fired(self, timer: str, moment: Moment) -> list[Action]:
        """The timer of one concern is due."""
        left = {name: deadline for name, deadline in self.state.timers.items() if name != timer}
        self.become(moment, timers=left)
        if timer == power_machine.TIMER:
            return self.reset_system(power_machine.Event.TIMER, moment)
        if timer.startswith(jobs.TIMER):
            return self.end_job(timer.removeprefix(jobs.TIMER), moment)
        if task := updates.task_of(timer):
            step = updates.timer(self.state, self.tree, task, moment.hardware, self.wall(moment))
            return self.update(step, moment)
        return self._service(bmc_reset.Event.TIMER, moment)

    def _service(self, event: bmc_reset.Event, moment: Moment) -> list[Action]:
        timings = msgspec.structs.replace(self.shared.timings, bmc_reset=self.reset_seconds)
        new, actions = bmc_reset.step(self.state.service, event, timings)
        self.become(moment, service=new)
        return self._apply(actions, moment)

    @property
    def reset_seconds(self) -> float:
        """How long the reset takes that runs, or else the next one."""
        timings = self.shared.timings
        return timings.bmc_reset * (1 + timings.jitter * self.identity.fraction(f"reset{self.state.resets}"))

    def phase(self, moment: Moment) -> Phase:
        """What a request meets now."""
        if self.state.service is not Service.RESETTING:
            return Phase.OPEN if self.state.service is Service.UP else Phase.CLOSED
        whole = self.reset_seconds
        part = 1 - self.remaining(bmc_reset.TIMER, moment) / whole if whole > 0 else 1.0
        return bmc_reset.phase(self.shared.behaviour.while_resetting, part)

    def remaining(self, timer: str, moment: Moment) -> float:
        """Seconds of the hardware's time until a timer is due; 0 when it is not armed."""
        deadline = self.state.timers.get(timer)
        return max(0.0, deadline - moment.hardware) if deadline is not None else 0.0

    @property
    def plain(self) -> bool:
        """Whether requests get their plain answers: no reset, no fault and no limit has a say."""
        return self.state.service is Service.UP and not self.state.faults and self.load is None

    @property
    def refuses_connections(self) -> bool:
        """Whether a new connection to the BMC's own address is reset."""
        closed = self.state.service is Service.RESETTING and self.shared.behaviour.while_resetting == "close"
        return closed or self.state.service is Service.UNPOWERED

    def _apply(self, actions: Iterable[Action], moment: Moment) -> list[Action]:
        """Do what concerns only this BMC's durable state; return all that others may want to know."""
        outward: list[Action] = []
        timers = dict(self.state.timers)
        happened: list[Happened] = []
        for action in actions:
            match action:
                case SetTimer(timer, seconds):
                    timers[timer] = moment.hardware + seconds
                case CancelTimer(timer):
                    timers.pop(timer, None)
                case Happened():
                    happened.append(action)
                    outward.append(action)
                case _:
                    outward.append(action)
        if timers != self.state.timers:
            self.become(moment, timers=timers)
        for one in happened:
            outward += self.react(one, moment)
        return outward

    def react(self, happened: Happened, moment: Moment) -> list[Action]:
        """What follows inside of the BMC from something that happened."""
        follows: list[Action] = []
        match happened.what:
            case Happening.BMC_RESETTING:
                self.reached("reset", moment)
                if self.feed is not None:
                    follows.append(EndStreams())
            case Happening.BMC_RESTARTED:
                self.forget_failed_logins()
                # The entries of an untouched log are dated by the start that is over now.
                began = {uri: tuple(self.log(uri)) for uri in self.tree.logs}
                resets = self.state.resets + 1
                accounts = self._accounts_after_reset()
                self.become(moment, bmc_started=moment.wall, accounts=accounts, logs=began, resets=resets)
            case Happening.SYSTEM_RESET:
                self.become(moment, system_started=moment.wall)
            case Happening.SYSTEM_POWERED_OFF:
                self.become(moment, system_stopped=moment.wall)
        for staged in staging.due(self.state.staged, happened.what):
            self.carry_out(staged, moment)
        for uri, log in logs.concerned(self.tree.logs, happened).items():
            entries, cleared = self.log(uri), self.state.logs_cleared.get(uri, 0)
            if (more := logs.recorded(log, entries, happened, self.wall(moment), cleared)) is not entries:
                self.become(moment, logs={**self.state.logs, uri: more})
                if log.events:
                    last = logs.following(entries, cleared) - 1
                    follows += self.tell_entries(uri, [one for one in more if int(one.id) > last], moment)
        follows += self.tell(happened, moment)
        for link in self.shared.links:
            if (action := felt(link.port, happened.what, self.state.service)) is not None:
                follows.append(action)
        follows += self._react_resources(happened.what, moment)
        step = updates.happened(self.state, self.tree, happened.what, moment.hardware, self.wall(moment))
        follows += self.update(step, moment)
        before = self.state.jobs
        if (now := jobs.after(before, happened.what, self.wall(moment))) is not before:
            self.become(moment, jobs=now)
            follows += self._apply(self._jobs_over_since(before), moment)
        return follows

    def carry_out(self, staged: Staged, moment: Moment) -> None:
        """What waited is done."""
        self.become(moment, staged=staging.without(self.state.staged, staged.key))
        if staged.passwords:
            self.become(moment, passwords={**self.state.passwords, **staged.passwords})
        if (node := self.tree.nodes.get(staged.uri)) is None:
            return
        if staged.revert:
            self.revert(node, moment)
        self.change(node, staged.changes, moment)
        if (staged.settings or staged.revert) and "@Redfish.Settings" in node.template:
            self.change(node, staging.report(self.time(moment)), moment)

    def _react_resources(self, what: Happening, moment: Moment) -> list[Action]:
        """What follows in resources, as the profile says."""
        follows: list[Action] = []
        for uri, reaction in self.tree.reactions.get(what, ()):
            node = self.tree.nodes.get(uri)
            if node is None or not holds(reaction.when, self.template(node)):
                continue
            if reaction.revert:
                self.revert(node, moment)
            if reaction.set:
                self.change(node, reaction.set, moment)
            if reaction.ac_cycle:
                follows += self.ac_cycle(moment)
        return follows

    @property
    def locked_down(self) -> bool:
        """Whether the configuration is locked."""
        lock = self.shared.behaviour.lockdown
        node = self.tree.nodes.get(lock.uri) if lock is not None else None
        if lock is None or node is None:
            return False
        place: Any = self.template(node)
        for step in lock.property:
            place = place.get(step) if isinstance(place, dict) else None
        return bool(place == lock.value)

    @property
    def media_fails(self) -> bool:
        """Whether images cannot be had, whatever their source."""
        return self.state.faults.behaviour(MediaFails) is not None

    def _accounts_after_reset(self) -> Accounts:
        match self.shared.policy:
            case "factory":
                return self.accounts.returned(self.shared.accounts.on_factory_passwords())
            case "pinned":
                return self.accounts.returned(self.shared.accounts)
        return self.accounts
