"""What follows in a resource from something that happened, as data."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Reaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule.

    on: a happening (machine/actions.py). when: properties that the resource must have then. set: properties that it
    gets. revert: everything that was written to it is gone first. ac_cycle: the machine loses power altogether.
    """

    on: str
    when: dict[str, Any] = {}
    set: dict[str, Any] = {}
    revert: bool = False
    ac_cycle: bool = False


DEFAULTS: dict[str, tuple[Reaction, ...]] = {
    "ComputerSystem": (
        Reaction(
            "BootCompleted",
            {"Boot": {"BootSourceOverrideEnabled": "Once"}},
            {"Boot": {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}},
        ),
    ),
    "SecureBoot": (
        Reaction("SystemReset", {"SecureBootEnable": True}, {"SecureBootCurrentBoot": "Enabled"}),
        Reaction("SystemReset", {"SecureBootEnable": False}, {"SecureBootCurrentBoot": "Disabled"}),
    ),
    "VirtualMedia": (Reaction("BmcRestarted", revert=True),),
}
"""Schema -> what its resources always do: an override for one boot is over after it (DSP0268, ComputerSystem.Boot),
secure boot counts from the next boot on, and media is connected by the BMC and gone with it."""


def holds(when: Mapping[str, Any], properties: Mapping[str, Any]) -> bool:
    """Whether properties are as a condition says; a mapping asks for no more than its own keys."""
    for name, wanted in when.items():
        present = properties.get(name)
        if isinstance(wanted, Mapping):
            if not isinstance(present, Mapping) or not holds(wanted, present):
                return False
        elif present != wanted or isinstance(present, bool) is not isinstance(wanted, bool):
            return False
    return True
