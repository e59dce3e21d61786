"""Logs of a BMC: which happenings the profile writes down, and where."""

from collections.abc import Sequence

from bmcsim.machine.actions import Happened
from bmcsim.machine.state import LogRecord
from bmcsim.tree.profile import Log, LogKind


def first(log: Log, started: float) -> tuple[LogRecord, ...]:
    """What a log has before anything happened. started: when the BMC started, seconds since the epoch."""
    kinds = [kind for kind in log.records if kind.initially]
    return tuple([_record(number, kind.origin, started, kind) for number, kind in enumerate(kinds, 1)])


def recorded(log: Log, entries: Sequence[LogRecord], happened: Happened, wall: float) -> Sequence[LogRecord]:
    """The entries after something happened; a full log forgets its oldest ones."""
    for kind in log.records:
        if kind.on == happened.what:
            new = _record(following(entries), happened.about or kind.origin, wall, kind)
            entries = (*entries, new)[-log.keep :]
    return entries


def following(entries: Sequence[LogRecord]) -> int:
    """The number of the next entry."""
    return int(entries[-1].id) + 1 if entries else 1


def _record(number: int, origin: str, wall: float, kind: LogKind) -> LogRecord:
    return LogRecord(str(number), wall, kind.message, kind.id, kind.severity, origin)
