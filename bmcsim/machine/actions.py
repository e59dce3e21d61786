"""What a state machine asks for and tells: the only words between the pure layers and whoever executes them."""

from enum import StrEnum

import msgspec


class Happening(StrEnum):
    """What became true of a BMC; logs, jobs, staged changes and (later) event subscriptions react to it."""

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


Action = SetTimer | CancelTimer | DropSessions | Happened
