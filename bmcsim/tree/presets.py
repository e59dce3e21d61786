"""Time presets: profiles/presets/NAME.yaml, how long hardware takes and how it behaves while it is busy."""

from typing import Literal

import msgspec

from bmcsim.tree import library
from bmcsim.tree.profile import ResetMode, Timings, convert

_FOLDER = "presets"


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One preset.

    timings: seconds that replace the profile's; no longer than the profile's own. factor: what the others are
    multiplied by. jitter: see Timings. while_resetting: see Behaviour, None for the profile's. faults: names of fault
    presets.
    """

    title: str
    timings: dict[
        Literal[
            "power_on",
            "reboot",
            "power_on_os_ready",
            "power_off_graceful",
            "power_off_force",
            "bmc_reset",
            "firmware_upgrade",
        ],
        float,
    ] = {}
    factor: float = 1.0
    jitter: float | None = None
    while_resetting: ResetMode | None = None
    faults: list[str] = []

    def applied(self, timings: Timings) -> Timings:
        """The timings of a profile under this preset."""
        values: dict[str, float] = msgspec.structs.asdict(timings)
        for name, seconds in values.items():
            values[name] = seconds * self.factor
        for name, limit in self.timings.items():
            values[name] = min(limit, values[name])
        values["jitter"] = timings.jitter if self.jitter is None else self.jitter
        return Timings(**values)


def names() -> list[str]:
    """The names of all presets, sorted."""
    return library.names(_FOLDER)


def load(name: str) -> Preset:
    """The preset of a name. Raises ProfileError when there is none and when its file is wrong."""
    source = library.read(_FOLDER, name, "preset")
    preset: Preset = convert(source.data, Preset, source, ())
    return preset
