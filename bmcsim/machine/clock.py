"""The clock of a BMC: how far it is from real time, and what offset it shows.

Rule 1: it is ahead by what a client set it to, and by its drift since then or since the BMC started.
Rule 2: a time server corrects all of that.
Rule 3: it runs with real time, however fast the hardware's time runs.
"""

import re

_DAY = 86400.0
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_ZONE = re.compile(r"(?:Etc/)?[A-Z]{3,4}(?:([+-]?)(\d{1,2})(?:[A-Z]{3,4})?)?")
_LARGEST = 14 * 60


def ahead(ahead_when_set: float, wall: float, since: float, drift: float) -> float:
    """Seconds by which a clock is ahead of real time. wall: now. since: when it was set or the BMC started, whichever
    was later; both in real seconds since the epoch. drift: seconds per day."""
    return ahead_when_set + drift * (wall - since) / _DAY


def offset_of(text: str) -> int | None:
    """'-05:00' -> -300, None for what is no offset (DSP0268, Manager.DateTimeLocalOffset)."""
    match = _OFFSET.fullmatch(text)
    if match is None or int(match[3]) > 59:
        return None
    minutes = int(match[2]) * 60 + int(match[3])
    if minutes > _LARGEST:
        return None
    return -minutes if match[1] == "-" else minutes


def offset_text(minutes: int) -> str:
    """-300 -> '-05:00'."""
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def zone_offset(name: str) -> int | None:
    """The offset of a time zone's standard time: of UTC, and of POSIX names such as CST6CDT, whose number counts hours
    west. None for any other name; there is no zone data base here, and no daylight saving time."""
    match = _ZONE.fullmatch(name)
    if match is None or int(match[2] or 0) > 12:
        return None
    if not match[2]:
        return 0 if name.removeprefix("Etc/") in ("UTC", "GMT", "UCT") else None
    hours = int(match[2])
    return (hours if match[1] == "-" else -hours) * 60
