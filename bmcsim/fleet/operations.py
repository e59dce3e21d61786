"""What can be done to many BMCs at once, as values; `prepared` makes of one what it does to a BMC."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
import orjson
from msgspec import Meta

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.fleet.build import scaled
from bmcsim.fleet.conduct import fault_rules
from bmcsim.fleet.selection import Word
from bmcsim.machine import addressing, sensors
from bmcsim.machine import power as power_machine
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import ACCOUNTS, Bmc, Kept
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Account
from bmcsim.machine.fault_globs import Glob, compiled
from bmcsim.machine.fault_rules import FaultError
from bmcsim.machine.faults import NO_RULES, Rules
from bmcsim.machine.identity import mac_colons
from bmcsim.machine.resources import Shared
from bmcsim.redfish import accounts, interfaces
from bmcsim.redfish.exchange import Head, Request
from bmcsim.redfish.patch import PatchRefused
from bmcsim.tree.profile import Timings

ResetType = Literal[
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "GracefulRestart",
    "ForceRestart",
    "PowerCycle",
    "PushPowerButton",
    "Nmi",
    "FullPowerCycle",
]

What = Callable[[Bmc, Moment], Sequence[Action]]
"""Changes a BMC; what others have to be told. Raises Skipped and Failed, and then nothing is to be kept."""

_MAX_FAULTS = 256
_LONGEST_SHOWN = 16 * 1024
_LARGEST_READING = 1e12
_LONGEST = 366 * 86400.0


class OperationError(Exception):
    """An operation makes no sense for any BMC; the text says what would be right."""


class Skipped(Exception):
    """There is nothing to do to a BMC; the text says why, and names no BMC."""


class Failed(Exception):
    """It cannot be done to a BMC; the text says why, and names no BMC."""


class _Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    pass


class Power(_Operation, frozen=True, tag="power"):
    """A power command to the system. FullPowerCycle takes mains power away from it and the BMC for a moment."""

    reset: ResetType


class BmcReset(_Operation, frozen=True, tag="bmc_reset"):
    """The BMC itself restarts."""


class FactoryReset(_Operation, frozen=True, tag="factory_reset"):
    """The BMC goes back to its defaults, then restarts."""

    keep: Kept = "ResetAll"


class SetPassword(_Operation, frozen=True, tag="set_password"):
    """An account gets a password, as if an administrator of the BMC had set it.

    account: its id or user name; '' for the first one. password: {id}, {mac} and {serial} in it stand for those of the
    BMC. factory: it gets its factory password instead.
    """

    account: Word = ""
    password: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    factory: bool = False


class Faults(_Operation, frozen=True, tag="faults"):
    """Fault rules. clear: all that are there go. remove: ids of those that go. add: rules, and names of presets; a rule
    with the id of another takes its place."""

    add: Annotated[list[Word | dict[str, Any]], Meta(max_length=_MAX_FAULTS)] = []
    remove: Annotated[list[Word], Meta(max_length=_MAX_FAULTS)] = []
    clear: bool = False


Seconds = Annotated[float, Meta(ge=0, le=_LONGEST)]


class Timing(_Operation, frozen=True, tag="timing"):
    """How long hardware takes, until this process ends: the state directory does not keep it, and timers that run
    already go on. Always counted from what the fleet file says.

    overrides: seconds, before the factor. acceleration_factor: what all times are multiplied by. reset: as the fleet
    file says.
    """

    acceleration_factor: Annotated[float, Meta(ge=0, le=1000)] | None = None
    overrides: dict[Word, Seconds] = {}
    reset: bool = False


class SetReading(_Operation, frozen=True, tag="set_reading"):
    """Sensors read something. uri: a glob. reading: null for what they measure."""

    uri: Annotated[str, Meta(max_length=512)]
    reading: Annotated[float, Meta(ge=-_LARGEST_READING, le=_LARGEST_READING)] | None


class Move(_Operation, frozen=True, tag="move"):
    """One BMC has a static IPv4 address, as if a client had set it; null: the one that the pool or DHCP gives it."""

    address: Annotated[str, Meta(max_length=15)] | None


Operation = Power | BmcReset | FactoryReset | SetPassword | Faults | Timing | SetReading | Move


def redacted(operation: Operation) -> Operation:
    """An operation as others may see it, and as it is kept for them: of rules that are long the ids alone."""
    match operation:
        case SetPassword(password=str()):
            return msgspec.structs.replace(operation, password="***")
        case Faults() if len(msgspec.json.encode(operation)) > _LONGEST_SHOWN:
            ids = [one if isinstance(one, str) else str(one["id"]) for one in operation.add]
            return msgspec.structs.replace(operation, add=ids)
    return operation


def prepared(operation: Operation) -> What:
    """What an operation does to a BMC. Raises OperationError."""
    return _PREPARED[type(operation)](operation)


# power and resets


def _power(operation: Power) -> What:
    if operation.reset == "FullPowerCycle":
        return lambda bmc, moment: _has_mains(bmc).ac_cycle(moment)
    event = power_machine.Event(operation.reset)

    def give(bmc: Bmc, moment: Moment) -> Sequence[Action]:
        try:
            return _has_mains(bmc).reset_system(event, moment)
        except power_machine.Refused as refused:
            leads_to = power_machine.LEADS_TO.get(refused.state, {})
            if event not in leads_to:
                raise Failed(f"refused while PowerState is {refused}") from refused
            instead = leads_to[event]
            if instead is None:
                raise Skipped(f"already {str(refused).lower()}") from refused
            return bmc.reset_system(instead, moment)

    return give


def _has_mains(bmc: Bmc) -> Bmc:
    """A BMC as it is. Raises Skipped for one that has no power."""
    if bmc.state.service is Service.UNPOWERED:
        raise Skipped("has no mains power")
    return bmc


def _is_up(bmc: Bmc) -> Bmc:
    """A BMC as it is. Raises Skipped for one that cannot hear."""
    if _has_mains(bmc).state.service is Service.RESETTING:
        raise Skipped("resets already")
    return bmc


def _bmc_reset(_operation: BmcReset) -> What:
    return lambda bmc, moment: _is_up(bmc).reset_bmc(moment)


def _factory_reset(operation: FactoryReset) -> What:
    return lambda bmc, moment: _is_up(bmc).factory_reset(operation.keep, moment)


# credentials


def _set_password(operation: SetPassword) -> What:
    if operation.factory is (operation.password is not None):
        raise OperationError("operation: set_password takes a password, or factory: true")

    def change(bmc: Bmc, moment: Moment) -> Sequence[Action]:
        account = _account(bmc, operation.account)
        if operation.password is None:
            if not account.factory:
                raise Failed("the account never had a factory password")
            if account.digest == account.factory:
                raise Skipped("already on the factory password")
            return accounts.to_factory(bmc, account, moment)
        request = Request("PATCH", f"{ACCOUNTS}/{account.id}", moment, Head())
        try:
            return accounts.patch(bmc, account, {"Password": _filled(operation.password, bmc)}, request)
        except PatchRefused as refused:
            raise Failed(_said(refused)) from None

    return change


def _account(bmc: Bmc, name: str) -> Account:
    name = name or bmc.tree.head.accounts[0].id
    found = bmc.accounts.get(name) or bmc.accounts.of_user(name)
    if found is None:
        raise Failed("has no such account")
    return found


_PLACES = re.compile(r"\{(id|mac|serial)\}")


def _filled(password: str, bmc: Bmc) -> str:
    facts = {"id": bmc.id, "mac": mac_colons(bmc.identity.bmc_mac), "serial": bmc.identity.serial}
    return _PLACES.sub(lambda place: facts[place[1]], password)


def _said(refused: PatchRefused) -> str:
    return "; ".join(str(one["Message"]) for one in refused.messages)


# faults


def _faults(operation: Faults) -> What:
    try:
        added = fault_rules(list(operation.add))
    except ValueError as error:
        raise OperationError(f"operation.add: {error}") from error
    if not (added or operation.remove or operation.clear):
        raise OperationError("operation: faults takes some of add, remove and clear")
    removed = frozenset(operation.remove)

    def change(bmc: Bmc, moment: Moment) -> Sequence[Action]:
        before: Rules = bmc.state.faults
        kept = NO_RULES if operation.clear else before
        try:
            if removed:
                kept = Rules.of(rule for rule in kept.rules if rule.id not in removed)
            new = {rule.id: rule for rule in added.set_at(moment.wall).rules}
            merged = [new.pop(rule.id, rule) for rule in kept.rules]
            after = Rules.of([*merged, *new.values()])
        except FaultError as error:
            raise Failed(str(error)) from error
        if after == before:
            raise Skipped("has no such fault rule" if before else "has no fault rules")
        bmc.become(moment, faults=after or NO_RULES)
        return ()

    return change


# times and sensors

TIMES = tuple(name for name in Timings.__struct_fields__ if name != "jitter")
"""What may be set of a BMC's timings."""


def _timing(operation: Timing) -> What:
    if operation.reset is bool(operation.overrides or operation.acceleration_factor is not None):
        raise OperationError("operation: timing takes acceleration_factor and overrides, or reset: true")
    if unknown := [name for name in operation.overrides if name not in TIMES]:
        raise OperationError(f"operation.overrides: there is no time {unknown[0]!r}; there are {', '.join(TIMES)}")
    factor = 1.0 if operation.acceleration_factor is None else operation.acceleration_factor
    # What BMCs have in common they have in common afterwards too. The old ones are kept, so that ids stay theirs.
    made: dict[int, tuple[Shared, Shared]] = {}

    def change(bmc: Bmc, _moment: Moment) -> Sequence[Action]:
        old = bmc.shared
        if id(old) not in made:
            built = old.built or old.timings
            timings = built if operation.reset else scaled(built, operation.overrides, factor)
            same = timings == old.timings
            new = msgspec.structs.replace(old, timings=timings, built=None if timings == built else built)
            made[id(old)] = old, old if same else new
        new = made[id(old)][1]
        if new is old:
            raise Skipped("has these times already")
        bmc.shared = new
        return ()

    return change


def _set_reading(operation: SetReading) -> What:
    try:
        glob: Glob = compiled(operation.uri)
    except ValueError as error:
        raise OperationError(f"operation.uri: {error}") from error
    uris: dict[int, tuple[Any, list[str]]] = {}

    def change(bmc: Bmc, moment: Moment) -> Sequence[Action]:
        readings = bmc.tree.readings
        if id(readings) not in uris:
            uris[id(readings)] = readings, [uri for uri in readings if glob.matches(uri)]
        found = uris[id(readings)][1]
        if not found:
            raise Failed("has no such sensor")
        return [one for uri in found for one in sensors.set_reading(bmc, uri, operation.reading, moment)]

    return change


# addresses


def _move(operation: Move) -> What:
    def change(bmc: Bmc, moment: Moment) -> Sequence[Action]:
        node = bmc.tree.nodes.get(bmc.tree.interface)
        if node is None:
            raise Failed("has no interface whose address could be set")
        if operation.address is None:
            if addressing.static(bmc) is None:
                raise Skipped("has no static address")
            wanted: dict[str, Any] = {"DHCPv4": {"DHCPEnabled": True}}
        elif operation.address == bmc.address:
            raise Skipped("is at this address already")
        else:
            static = {
                "Address": operation.address,
                "SubnetMask": addressing.netmask(bmc),
                "Gateway": addressing.gateway(bmc),
            }
            wanted = {"DHCPv4": {"DHCPEnabled": False}, "IPv4StaticAddresses": [static]}
        head = Head(content_type=b"application/json")
        request = Request("PATCH", node.uri, moment, head, body=orjson.dumps(wanted))
        try:
            return interfaces.patch_interface(bmc, node, request).actions
        except PatchRefused as refused:
            raise Failed(_said(refused)) from None
        except RedfishError as error:
            raise Failed(error.message) from None

    return change


_PREPARED: dict[type[_Operation], Callable[[Any], What]] = {
    Power: _power,
    BmcReset: _bmc_reset,
    FactoryReset: _factory_reset,
    SetPassword: _set_password,
    Faults: _faults,
    Timing: _timing,
    SetReading: _set_reading,
    Move: _move,
}
KINDS: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in get_args(Operation))
