"""What a BMC is at the moment: its durable state, and its resources with what it changed in them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.machine import certificates, clock, firmware
from bmcsim.machine.certificates import Certificate
from bmcsim.machine.credentials import Account, Accounts, Hasher
from bmcsim.machine.dhcp.links import Link
from bmcsim.machine.faults import Rules
from bmcsim.machine.identity import Identity
from bmcsim.machine.power import Power
from bmcsim.machine.slaac import Slaac
from bmcsim.machine.state import Row, State, encode
from bmcsim.tree.compile import Node, Tree, Variation
from bmcsim.tree.profile import Behaviour, Timings
from bmcsim.tree.source import deep_merge
from bmcsim.tree.template import Body, literal

Policy = Literal["persist", "factory", "pinned"]
"""What becomes of changed passwords. persist: they stay. factory, pinned: the accounts that the BMC began with have
their passwords of then when the process starts, and after a reset of the BMC the factory's, or those of then."""


def timestamp(wall: float, offset: int = 0) -> bytes:
    """Seconds since the epoch -> JSON string "YYYY-MM-DDTHH:MM:SS+00:00", the form that NICo parses.

    offset: of the local time that it is written in, in minutes east of UTC.
    """
    return _timestamp(int(wall), offset)


@lru_cache(4096)
def _timestamp(second: int, offset: int) -> bytes:
    local = datetime.fromtimestamp(second + offset * 60, UTC)
    return f'"{local:%Y-%m-%dT%H:%M:%S}{clock.offset_text(offset)}"'.encode()


def _free(_address: str, _mac: int) -> bool:
    return False


class Network(msgspec.Struct, frozen=True):
    """The network that BMCs of a fleet are on; texts as EthernetInterface shows them.

    slaac: how they have IPv6 addresses, None where they have none. taken: (IPv4 address, MAC) -> whether somebody else
    than the BMC with that MAC has the address.
    """

    netmask: str = "255.255.255.0"
    gateway: str = "0.0.0.0"
    slaac: Slaac | None = None
    taken: Callable[[str, int], bool] = _free


class Shared(msgspec.Struct, frozen=True):
    """What all BMCs of one group have in common.

    accounts: as a BMC starts with them. settings: URI -> properties that a BMC starts with, and goes back to when it is
    set to its defaults. desired: component of firmware -> version, in the order in which images that
    do not say what they are bring a BMC there; `fleet.desired` may add to it. links: interfaces with leases; none where
    addresses are planned. group: its name in the fleet file. built: the timings that it began with, where they were
    changed since.
    """

    tree: Tree
    timings: Timings
    accounts: Accounts
    hasher: Hasher
    network: Network = Network()
    policy: Policy = "persist"
    behaviour: Behaviour = Behaviour()
    settings: dict[str, dict[str, Any]] = {}
    desired: dict[str, str] = {}
    links: tuple[Link, ...] = ()
    group: str = ""
    built: Timings | None = None


def started(state: State, shared: Shared) -> State:
    """A stored state as a BMC has it when the process starts: passwords as the policy says.

    That is no reset of the BMC: everything else goes on as it was. Only what was not stored is gone, and leases where
    addresses are planned.
    """
    if state.leases and not shared.links:
        state = msgspec.structs.replace(state, leases={})
    if shared.policy == "persist":
        return state
    return msgspec.structs.replace(state, accounts=state.accounts.returned(shared.accounts))


class Override:
    """What a BMC changed in one resource. variation: what that makes of it; made when it is first asked for."""

    __slots__ = ("changes", "variation")

    def __init__(self, changes: Mapping[str, Any]) -> None:
        self.changes = changes
        self.variation: Variation | None = None


def _overlay(changes: Mapping[str, Mapping[str, Any]], present: dict[str, Override]) -> dict[str, Override] | None:
    """What shows some changes, with what is there already of it."""
    return {
        uri: present[uri] if uri in present and present[uri].changes is changed else Override(changed)
        for uri, changed in changes.items()
    } or None


class _Served:
    """What a plain GET looks at. Slots of one class lie together, so that these are in as few places as can be."""

    __slots__ = ("basic_header", "contact", "overlay", "requests", "started", "steady", "tree")

    basic_header: bytes
    contact: float
    overlay: dict[str, Override] | None
    requests: int
    started: float
    steady: int | None
    tree: Tree


class Resources(_Served):
    """The state of one BMC and what shows it.

    state: what is durable. uncommitted: the state before the first change since `committed`, None without a change.
    contact: when the last request came, seconds since the epoch, 0 for never. requests: how many came since the
    process started. overlay: URI -> what the BMC changed there. basic_header, basic_account: the last Basic
    credentials that were accepted and open every resource; empty while anything but the plain answer may be due.
    steady: while the system runs and no reading was set by hand, the seed of its readings; None otherwise. started: of
    a system that was off once, when it last started, in seconds since the epoch. Both are in `state`; to look for them
    there would be four more places in memory that are in no cache, which costs more than the reading itself.
    """

    __slots__ = ("basic_account", "identity", "shared", "state", "uncommitted")

    def __init__(self, identity: Identity, shared: Shared, initial: State) -> None:
        self.identity = identity
        self.shared = shared
        self.tree = firmware.tree_with(shared.tree, initial.firmware)
        self.state = initial
        self.uncommitted: State | None = None
        self.overlay = _overlay(initial.changes, {})
        self.contact = 0.0
        self.requests = 0
        self.basic_header = b""
        self.basic_account: Account | None = None
        self._note_load()

    # state

    @property
    def accounts(self) -> Accounts:
        """The accounts as they are."""
        return self.state.accounts

    @property
    def power(self) -> Power:
        """The power state of the system."""
        return self.state.power

    def become(self, moment: Moment, **changes: Any) -> None:
        """Change durable state."""
        if self.uncommitted is None:
            self.uncommitted = self.state
        self._show(msgspec.structs.replace(self.state, at=moment.hardware, **changes))

    def committed(self) -> State | None:
        """Forget that there was a change; the state before it."""
        before, self.uncommitted = self.uncommitted, None
        return before

    def count_faults(self, rules: Rules, moment: Moment) -> None:
        """Take over what fault rules have counted. Only a budget that was touched is worth a commit."""
        if rules is self.state.faults:
            return
        if rules.budgets == self.state.faults.budgets:
            self.state = msgspec.structs.replace(self.state, faults=rules)
        else:
            self.become(moment, faults=rules)

    def encode(self) -> bytes:
        """The durable state as a row of the store."""
        return encode(self.row())

    def row(self, state: State | None = None, hasher: Hasher | None = None) -> Row:
        """The row of its state, or of one that it had, with passwords under the key of then."""
        hasher = hasher or self.shared.hasher
        key = hasher.key if hasher.foreign else b""
        return Row(self.identity.bmc_mac, self.shared.tree.head.profile, state or self.state, key)

    def restore(self, restored: State) -> None:
        """Take a state that was stored, or go back to one that was before a change.

        Its timers are for the driver to sync.
        """
        self.uncommitted = None
        self._show(restored)

    def _note_load(self) -> None:
        state = self.state
        alone = state.power is Power.RUNNING and not state.readings
        self.steady = self.identity.seed if alone else None
        self.started = state.system_started if state.system_stopped else 0.0

    def _show(self, new: State) -> None:
        old, self.state = self.state, new
        self._note_load()
        if (
            new.accounts is not old.accounts
            or new.roles is not old.roles
            or new.service is not old.service
            or bool(new.faults) is not bool(old.faults)
        ):
            self._forget_header()
        if new.firmware is not old.firmware:
            self.tree = firmware.tree_with(self.shared.tree, new.firmware)
        if new.changes is not old.changes:
            self.overlay = _overlay(new.changes, self.overlay or {})

    # resources

    def body(self, node: Node) -> Body:
        """The body of a resource, with this BMC's changes."""
        if self.overlay is None or (override := self.overlay.get(node.uri)) is None:
            return node.body
        variation = override.variation or self._variation(node, override)
        if variation.body is None:
            variation.body = self.tree.body(variation.template, node.uri)
        return variation.body

    def template(self, node: Node) -> dict[str, Any]:
        """The template of a resource, with this BMC's changes. Not to be modified."""
        if self.overlay is None or (override := self.overlay.get(node.uri)) is None:
            return node.template
        return (override.variation or self._variation(node, override)).template

    def _variation(self, node: Node, override: Override) -> Variation:
        override.variation = self.tree.variation(node, override.changes)
        return override.variation

    def change(self, node: Node, changes: Mapping[str, Any], moment: Moment) -> None:
        """Merge something into a resource; what equals the profile again is forgotten."""
        merged = deep_merge(self.state.changes.get(node.uri, {}), changes)
        everything = {**self.state.changes, node.uri: merged}
        if deep_merge(node.template, literal(merged)) == node.template:
            del everything[node.uri]
        self.become(moment, changes=everything)

    def revert(self, node: Node, moment: Moment) -> None:
        """A resource is as it left the factory, except for attributes that survive that."""
        if node.uri not in self.state.changes:
            return
        written = self.state.changes[node.uri].get("Attributes", {})
        kept = {name: written[name] for name in self.survivors(node.uri) if name in written}
        self.become(moment, changes={uri: one for uri, one in self.state.changes.items() if uri != node.uri})
        if kept:
            self.change(node, {"Attributes": kept}, moment)

    def survivors(self, uri: str) -> tuple[str, ...]:
        """The attributes of a resource that stay when the others are reset."""
        return next((facts.survives for facts in self.tree.settings.values() if facts.of == uri), ())

    def setting(self, uri: str, name: str) -> Any:
        """The present value of a top-level property, None where there is none."""
        node = self.tree.nodes.get(uri)
        return self.template(node).get(name) if node is not None else None

    # certificates

    def certificates(self, collection: str) -> tuple[Certificate, ...]:
        """The certificates of a collection."""
        kept = self.state.certificates.get(collection)
        return certificates.first(collection, self.tree.certificates[collection].facts) if kept is None else kept

    def all_certificates(self) -> list[Certificate]:
        """Those of all collections."""
        return [one for collection in self.tree.certificates for one in self.certificates(collection)]

    def certificate_text(self, certificate: Certificate, moment: Moment) -> str:
        """PEM. A certificate that the hardware made for itself is made when it is asked for, and kept nowhere."""
        if certificate.text:
            return certificate.text
        described = self.tree.certificates[certificate.collection].described.render(self, moment)[1]
        return certificates.made(self._certificate_seed(certificate), described)

    def certificate_keys(self, certificate: Certificate) -> list[bytes]:
        """The private keys that the BMC knows of a certificate's place: of a signing request, and the present one."""
        pending = self.state.certificate_keys.get(certificate.collection, b"")
        own = certificate.key if certificate.text else certificates.made_key(self._certificate_seed(certificate))
        return [key for key in (pending, own) if key]

    def _certificate_seed(self, certificate: Certificate) -> bytes:
        return self.shared.hasher.digest(f"certificate {self.identity.bmc_mac:012X} {certificate.uri}")

    def _forget_header(self) -> None:
        self.basic_header, self.basic_account = b"", None
