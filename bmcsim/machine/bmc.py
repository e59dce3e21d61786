"""One BMC: identity, states of its machines, and the sparse overlay of what it changed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.machine import bmc_reset, power
from bmcsim.machine.actions import (
    Action,
    BmcRestarted,
    BootCompleted,
    CancelTimer,
    DropSessions,
    PoweredOn,
    SetTimer,
)
from bmcsim.machine.credentials import Account, Accounts, Hasher
from bmcsim.machine.identity import Identity
from bmcsim.machine.sessions import Session, Sessions
from bmcsim.tree.compile import Node, Tree
from bmcsim.tree.profile import Timings
from bmcsim.tree.source import deep_merge
from bmcsim.tree.template import Body, literal

SESSION_SERVICE = "/redfish/v1/SessionService"
_DEFAULT_SESSION_TIMEOUT = 1800.0


def timestamp(wall: float) -> bytes:
    """Seconds since the epoch -> JSON string "YYYY-MM-DDTHH:MM:SS+00:00", the form that NICo parses."""
    return datetime.fromtimestamp(int(wall), UTC).strftime('"%Y-%m-%dT%H:%M:%S+00:00"').encode()


class Network(msgspec.Struct, frozen=True):
    """The network that BMCs of a fleet are on; texts as EthernetInterface shows them."""

    netmask: str = "255.255.255.0"
    gateway: str = "0.0.0.0"


class Shared(msgspec.Struct, frozen=True):
    """What all BMCs of one group have in common."""

    tree: Tree
    timings: Timings
    accounts: Accounts
    hasher: Hasher
    network: Network = Network()


class Override(msgspec.Struct, frozen=True):
    """What a BMC changed in one resource, and the resource's body with the change."""

    changes: dict[str, Any]
    template: dict[str, Any]
    body: Body


class Bmc:
    """One BMC.

    Everything that most BMCs have in common is in `shared`; an attribute that is None has not been needed yet.
    bmc_started, system_started: when they last started, as `timestamp` gives it.
    basic_header, basic_account: the last Basic credentials that were accepted and open every resource.
    Methods that change something return the actions that whoever owns time and network has to execute.
    """

    __slots__ = (
        "accounts",
        "address",
        "basic_account",
        "basic_header",
        "bmc_started",
        "id",
        "identity",
        "overlay",
        "power",
        "service",
        "sessions",
        "shared",
        "system_started",
        "timers",
        "tree",
    )

    def __init__(self, id_: str, identity: Identity, address: str, shared: Shared, started: bytes) -> None:
        self.id = id_
        self.identity = identity
        self.address = address
        self.shared = shared
        self.tree = shared.tree
        self.accounts = shared.accounts
        self.power = power.Power.RUNNING
        self.service = bmc_reset.Service.UP
        self.overlay: dict[str, Override] | None = None
        self.sessions: Sessions | None = None
        self.timers: dict[str, Any] | None = None
        self.basic_header = b""
        self.basic_account: Account | None = None
        self.bmc_started = self.system_started = started

    # resources

    def body(self, node: Node) -> Body:
        """The body of a resource, with this BMC's changes."""
        if self.overlay is not None and (override := self.overlay.get(node.uri)) is not None:
            return override.body
        return node.body

    def template(self, node: Node) -> dict[str, Any]:
        """The template of a resource, with this BMC's changes. Not to be modified."""
        if self.overlay is not None and (override := self.overlay.get(node.uri)) is not None:
            return override.template
        return node.template

    def change(self, node: Node, changes: Mapping[str, Any]) -> None:
        """Merge what a client wrote into a resource; what equals the profile again is forgotten."""
        old = self.overlay.get(node.uri) if self.overlay else None
        merged = deep_merge(old.changes if old else {}, literal(changes))
        template = deep_merge(node.template, merged)
        if self.overlay is None:
            self.overlay = {}
        if template == node.template:
            self.overlay.pop(node.uri, None)
        else:
            self.overlay[node.uri] = Override(merged, template, self.tree.body(template, node.uri))

    def setting(self, uri: str, name: str) -> Any:
        """The present value of a top-level property, None where there is none."""
        node = self.tree.nodes.get(uri)
        return self.template(node).get(name) if node is not None else None

    # credentials and sessions

    def set_password(self, account_id: str, password: str) -> None:
        """Change a password; the remembered Basic header is forgotten in the same step."""
        self.accounts = self.accounts.with_digest(account_id, self.shared.hasher.digest(password))
        self.basic_header, self.basic_account = b"", None

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

    def members(self, items: str, moment: Moment) -> Mapping[str, Any]:
        """Id -> thing, for a dynamic collection."""
        if items == "sessions":
            return self.live_sessions(moment)
        return {id_: self.accounts.get(id_) for id_ in self.accounts.ids()}

    # events

    def reset_system(self, event: power.Event, moment: Moment) -> list[Action]:
        """ComputerSystem.Reset. Raises power.Refused when the power state does not allow it."""
        self.power, actions = power.step(self.power, event, self.shared.timings)
        return self._apply(actions, moment)

    def reset_bmc(self, moment: Moment) -> list[Action]:
        """Manager.Reset."""
        self.service, actions = bmc_reset.step(self.service, bmc_reset.Event.RESET, self.shared.timings)
        return self._apply(actions, moment)

    def timer_fired(self, timer: str, moment: Moment) -> list[Action]:
        """The timer of one concern is due."""
        if timer == power.TIMER:
            return self.reset_system(power.Event.TIMER, moment)
        self.service, actions = bmc_reset.step(self.service, bmc_reset.Event.TIMER, self.shared.timings)
        return self._apply(actions, moment)

    @property
    def available(self) -> bool:
        """Whether the BMC answers at all."""
        return self.service is bmc_reset.Service.UP

    def _apply(self, actions: list[Action], moment: Moment) -> list[Action]:
        """Do what concerns only this BMC; return the rest."""
        outward: list[Action] = []
        for action in actions:
            match action:
                case DropSessions():
                    self.sessions = None
                case BmcRestarted():
                    self.bmc_started = timestamp(moment.wall)
                case PoweredOn():
                    self.system_started = timestamp(moment.wall)
                case BootCompleted():
                    self._consume_boot_override()
                case SetTimer() | CancelTimer():
                    outward.append(action)
        return outward

    def _consume_boot_override(self) -> None:
        """A boot override that was meant for one boot is over (DSP0266, ComputerSystem.Boot)."""
        node = self.tree.nodes.get(self.tree.head.roles.system)
        if node is None:
            return
        boot = self.template(node).get("Boot", {})
        if boot.get("BootSourceOverrideEnabled") == "Once":
            over = {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}
            for resource in [node, *(other for other in self.tree.nodes.values() if other.applies_to == node.uri)]:
                self.change(resource, {"Boot": over})
