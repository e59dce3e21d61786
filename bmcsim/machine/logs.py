"""Logs of a BMC: which happenings the profile writes down, and where."""

from collections.abc import Mapping, Sequence

from bmcsim.machine.actions import Happened, Happening
from bmcsim.machine.state import LogRecord
from bmcsim.tree.profile import Log, LogKind


def first(log: Log, started: float) -> tuple[LogRecord, ...]:
    """What a log has before anything happened. started: when the BMC started, seconds since the epoch."""
    kinds = [kind for kind in log.records if kind.initially]
    return tuple([_record(number, kind.origin, started, kind) for number, kind in enumerate(kinds, 1)])


def concerned(every: Mapping[str, Log], happened: Happened) -> Mapping[str, Log]:
    """The logs that may write something down: all, but that one was cleared stands in that one alone."""
    if happened.what is not Happening.LOG_CLEARED:
        return every
    return {uri: log for uri, log in every.items() if service_of(uri) == happened.about}


def service_of(uri: str) -> str:
    """URI of the log service that a collection of entries belongs to."""
    return uri.rpartition("/")[0]


def recorded(
    log: Log, entries: Sequence[LogRecord], happened: Happened, wall: float, cleared: int = 0
) -> Sequence[LogRecord]:
    """The entries after something happened; a full log forgets its oldest ones. cleared: number of the last entry that
    was cleared away."""
    for kind in log.records:
        if kind.on == happened.what:
            new = _record(following(entries, cleared), happened.about or kind.origin, wall, kind)
            entries = (*entries, new)[-log.keep :]
    return entries


def following(entries: Sequence[LogRecord], cleared: int = 0) -> int:
    """The number of the next entry: what a client has seen by a number never changes."""
    return int(entries[-1].id) + 1 if entries else cleared + 1


def _record(number: int, origin: str, wall: float, kind: LogKind) -> LogRecord:
    return LogRecord(str(number), wall, kind.message, kind.id, kind.severity, origin)
