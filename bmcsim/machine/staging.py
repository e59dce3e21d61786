"""Changes that wait for something to happen: BIOS settings for a boot, a DPU's mode for a power cycle, firmware."""

from collections.abc import Collection
from typing import Any

from bmcsim.core.errors import BASE_REGISTRY
from bmcsim.machine.actions import Happening
from bmcsim.machine.state import Staged

Waiting = tuple[Staged, ...]


def staging(waiting: Waiting, new: Staged) -> Waiting:
    """With one more change; one with the same key is replaced."""
    return (*without(waiting, new.key), new)


def without(waiting: Waiting, key: str) -> Waiting:
    """Without the change of a key."""
    return tuple([one for one in waiting if one.key != key])


def due(waiting: Waiting, what: Happening) -> list[Staged]:
    """The changes that waited for this, oldest first."""
    return [one for one in waiting if one.at is what]


def held_by(waiting: Waiting, settings: str) -> Staged | None:
    """What a settings resource holds back, None for nothing."""
    return next((one for one in waiting if one.settings == settings), None)


def without_jobs(waiting: Waiting, jobs: Collection[str]) -> Waiting:
    """Without what some jobs would have carried out."""
    return tuple([one for one in waiting if one.job not in jobs])


def pending(waiting: Waiting, uri: str, path: str) -> Any:
    """What a property of a resource will be, None where nothing waits. path: with dots, such as Boot.BootOrder."""
    found = None
    for one in waiting:
        value: Any = one.changes if one.uri == uri else {}
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        found = found if value is None else value
    return found


def is_reset(waiting: Waiting, uri: str) -> bool:
    """Whether a resource will be as it left the factory."""
    return any(one.revert and one.uri == uri for one in waiting)


def report(time: str) -> dict[str, Any]:
    """What a resource shows of the last time that its settings were applied (DSP0266 9.10, Settings).

    sushy takes an update for failed whose message has no Severity, the deprecated name of MessageSeverity.
    """
    message = {
        "@odata.type": "#Message.v1_2_1.Message",
        "MessageId": f"{BASE_REGISTRY}.Success",
        "Message": "The settings are applied.",
        "MessageSeverity": "OK",
        "Severity": "OK",
        "Resolution": "None.",
    }
    return {"@Redfish.Settings": {"Time": time, "Messages": [message]}}
