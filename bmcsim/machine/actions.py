"""What a state machine asks for and tells: the only words between the pure layers and whoever executes them."""

from enum import StrEnum

import msgspec

from bmcsim.machine.dhcp.messages import Port
from bmcsim.machine.events import Event


class Happening(StrEnum):
    """What became true of a BMC; logs, jobs, staged changes and event subscriptions react to it."""

    SYSTEM_POWERED_ON = "SystemPoweredOn"
    SYSTEM_POWERED_OFF = "SystemPoweredOff"
    SYSTEM_RESET = "SystemReset"
    BOOT_COMPLETED = "BootCompleted"
    BMC_RESETTING = "BmcResetting"
    BMC_RESTARTED = "BmcRestarted"
    FACTORY_RESET = "FactoryReset"
    LOG_CLEARED = "LogCleared"
    PASSWORD_CHANGED = "PasswordChanged"
    ACCOUNT_CHANGED = "AccountChanged"
    ACCOUNT_LOCKED = "AccountLocked"
    FIRMWARE_UPDATED = "FirmwareUpdated"
    UPDATE_FAILED = "UpdateFailed"
    JOB_COMPLETED = "JobCompleted"
    MEDIA_CHANGED = "MediaChanged"
    NMI = "Nmi"


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Arm the timer of one concern, replacing it if it is armed. seconds: of the hardware's time."""

    timer: str
    seconds: float


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    """Disarm the timer of one concern."""

    timer: str


class DropSessions(msgspec.Struct, frozen=True, gc=False):
    """Sessions of the BMC end. account: only those of one account, '' for all. keep: the id of one that stays."""

    account: str = ""
    keep: str = ""


class Happened(msgspec.Struct, frozen=True, gc=False):
    """Something became true. about: URI of the resource that it is about, '' for the obvious one."""

    what: Happening
    about: str = ""


class Emit(msgspec.Struct, frozen=True, gc=False):
    """Those who listen to the BMC are told an event."""

    event: Event


class EndStreams(msgspec.Struct, frozen=True, gc=False):
    """Streams of events end. stream: the id of one; '' for all, and the BMC forgets its feed."""

    stream: str = ""


class Readdress(msgspec.Struct, frozen=True, gc=False):
    """The BMC's own interface may have another address to be at: a client wrote one, or went back to DHCP."""


class RestartDhcp(msgspec.Struct, frozen=True, gc=False):
    """An interface asks for an address, as one that never had any."""

    port: Port


class StopDhcp(msgspec.Struct, frozen=True, gc=False):
    """An interface asks for nothing. keep: its address stays until it asks again, or its lease ends."""

    port: Port
    keep: bool = False


class OfDependent(msgspec.Struct, frozen=True):
    """What followed for a BMC that depends on this one. number: its place among `Bmc.dependents`."""

    number: int
    actions: "tuple[Action, ...]"


Action = (
    SetTimer
    | CancelTimer
    | DropSessions
    | Happened
    | Emit
    | EndStreams
    | Readdress
    | RestartDhcp
    | StopDhcp
    | OfDependent
)
