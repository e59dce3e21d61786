"""How BMCs behave where somebody chose: for a fleet ([bmcsim]), a group ([machines.NAME]) or one BMC ([bmcs.ID])."""

from typing import Any, Literal, get_args

import msgspec

from bmcsim.fleet.converters import shown
from bmcsim.fleet.tables import ConfigError
from bmcsim.machine.fault_rules import FaultError
from bmcsim.machine.faults import Rules
from bmcsim.machine.resources import Policy
from bmcsim.redfish.injection import rules_of
from bmcsim.tree import fault_presets, presets
from bmcsim.tree.profile import Behaviour, ResetMode
from bmcsim.tree.source import ProfileError

POLICIES: tuple[str, ...] = get_args(Policy)
RESET_MODES: tuple[str, ...] = get_args(ResetMode)

Discovery = Literal["absent", "disabled", "enabled"]
"""Whether BMCs have SSDP, and whether it is on when they leave the factory."""

DISCOVERIES: tuple[str, ...] = get_args(Discovery)


class Lockout(msgspec.Struct, frozen=True):
    """AccountService's lockout. threshold: failed logins; duration, reset_after: seconds."""

    threshold: int
    duration: int = 600
    reset_after: int = 60


class Conduct(msgspec.Struct, frozen=True):
    """What was chosen; None: whatever the next wider level says.

    preset: name of a time preset. credentials: what becomes of a changed password. while_resetting: what clients meet.
    faults: fault rules from the start; their windows count from there. lockout: of accounts. behaviour: facts of the
    profile's behaviour that are others here. ssdp: of the manager, where the profile has that parameter.
    """

    preset: str | None = None
    credentials: Policy | None = None
    while_resetting: ResetMode | None = None
    faults: Rules | None = None
    lockout: Lockout | None = None
    behaviour: dict[str, Any] | None = None
    ssdp: Discovery | None = None

    def within(self, wider: "Conduct") -> "Conduct":
        """This, with what it leaves open as the wider level has it. Fault rules and facts add up; of one id or name the
        own one counts.

        Raises ConfigError for too many.
        """
        own = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        if self.faults is not None and wider.faults is not None:
            by_id = {rule.id: rule for rule in (*wider.faults.rules, *self.faults.rules)}
            try:
                own["faults"] = Rules.of(by_id.values())
            except FaultError as error:
                raise ConfigError(f"faults: those of fleet, group and BMC together: {error.text}") from error
        if self.behaviour is not None and wider.behaviour is not None:
            own["behaviour"] = _merged(wider.behaviour, self.behaviour)
        return msgspec.structs.replace(wider, **own)


FACTS = tuple(
    name
    for name in Behaviour.__struct_fields__
    if name not in ("while_resetting", "lockdown") and not name.endswith("_message")
)
"""The facts of a profile's behaviour that a fleet file may change: those that name nothing else of the profile."""


def facts(value: Any) -> dict[str, Any]:
    """Some facts of a behaviour. Raises ValueError that names the one that is wrong."""
    if not isinstance(value, dict):
        raise ValueError("must be a table such as { session_limit = 8 }")
    for name, fact in value.items():
        if name not in FACTS:
            raise ValueError(f"{name} is not one of {', '.join(FACTS)}")
        if isinstance(fact, int | float) and not -_LARGEST <= fact <= _LARGEST:
            raise ValueError(f"{name} must be a number from -{_LARGEST} to {_LARGEST}")
    try:
        msgspec.convert(value, Behaviour)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    return dict(msgspec.to_builtins(value))


def changed(behaviour: Behaviour, others: dict[str, Any]) -> Behaviour:
    """A behaviour with other facts. A BMC that told the truth of what it understands still does, unless they say what
    it advertises."""
    present = msgspec.to_builtins(behaviour)
    if behaviour.advertise == behaviour.features():
        del present["advertise"]
    return msgspec.convert(_merged(present, others), Behaviour)


def _merged(wider: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = {**wider, **own}
    for group in ("query", "deep"):
        if group in wider and group in own:
            merged[group] = {**wider[group], **own[group]}
    return merged


DEFAULT = Conduct()


def implied(preset: str | None) -> Conduct:
    """What a time preset says about other things than times. Raises ProfileError."""
    if preset is None:
        return DEFAULT
    loaded = presets.load(preset)
    faults = fault_rules(loaded.faults) if loaded.faults else None
    return Conduct(while_resetting=loaded.while_resetting, faults=faults)


def preset_name(value: Any) -> str:
    """A preset's name. Raises ValueError that lists the known ones."""
    if not isinstance(value, str) or value not in presets.names():
        raise ValueError(f"must be one of {', '.join(presets.names())}, not {shown(value)}")
    return value


def one_of(*allowed: str) -> Any:
    """A converter for one of a few words."""

    def convert(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}, not {shown(value)}")
        return value

    return convert


def fault_rules(value: Any) -> Rules:
    """Fault rules from a list of preset names and rules. Raises ValueError that says which one is wrong and why."""
    if not isinstance(value, list):
        raise ValueError("must be a list of names of fault presets (bmcsim fault list) and of rules")
    objects: list[Any] = []
    for item in value:
        if isinstance(item, str):
            try:
                objects += fault_presets.load(item)
            except ProfileError as error:
                raise ValueError(str(error)) from error
        else:
            objects.append(item)
    try:
        return rules_of(objects, 0.0)
    except FaultError as error:
        raise ValueError(str(error)) from error


def lockout(value: Any) -> Lockout:
    """{threshold = 4, duration = 600, reset_after = 60}. Raises ValueError."""
    try:
        wanted = msgspec.convert(value, _LockoutTable)
    except msgspec.ValidationError as error:
        raise ValueError(f"must be like {{ threshold = 4, duration = 600, reset_after = 60 }}: {error}") from error
    numbers = (wanted.threshold, wanted.duration, wanted.reset_after)
    if min(numbers) < 0 or max(numbers) > _LARGEST:
        raise ValueError(f"its numbers must be from 0 to {_LARGEST}")
    if wanted.reset_after > wanted.duration:
        raise ValueError("reset_after must not be longer than duration (DSP2046, AccountService)")
    return Lockout(wanted.threshold, wanted.duration, wanted.reset_after)


_LARGEST = 2**31 - 1


class _LockoutTable(msgspec.Struct, forbid_unknown_fields=True):
    threshold: int
    duration: int = 600
    reset_after: int = 60
