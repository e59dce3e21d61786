"""What a state machine asks for. The only words between the pure layers and whoever executes them."""

import msgspec


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Arm the timer of one concern, replacing it if it is armed. seconds: simulated time."""

    timer: str
    seconds: float


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    """Disarm the timer of one concern."""

    timer: str


class BootCompleted(msgspec.Struct, frozen=True, gc=False):
    """The operating system runs: what waited for a boot takes effect."""


class PoweredOn(msgspec.Struct, frozen=True, gc=False):
    """The system left the off state or was restarted."""


class DropSessions(msgspec.Struct, frozen=True, gc=False):
    """Every session of the BMC ends."""


class BmcRestarted(msgspec.Struct, frozen=True, gc=False):
    """The BMC is in service again."""


Action = SetTimer | CancelTimer | BootCompleted | PoweredOn | DropSessions | BmcRestarted
