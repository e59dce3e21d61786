"""Events: what a BMC tells those who listen to it (DSP0266 12.1 and 12.5), as values.

Rule 1: where nobody listens nothing is made and nothing is kept.
Rule 2: the numbers of a feed rise by one. A reset of the BMC, and each start of the process, begins a new feed with new
        ids.
Rule 3: a stream is a place in the history of its feed. However slowly it is read, it costs no more than that; what was
        forgotten before it was read ends it.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

_PLACE = re.compile(r"%([1-9])")

HISTORY = 50
"""Events that a feed keeps for streams that come back or read slowly."""

EventType = Literal["Alert", "Other", "ResourceAdded", "ResourceRemoved", "ResourceUpdated", "StatusChange"]
RetryPolicy = Literal["TerminateAfterRetries", "SuspendRetries", "RetryForever", "RetryForeverWithBackoff"]


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that a BMC tells (EventRecord of DSP0268).

    created: seconds since the epoch, by the BMC's clock. origin: URI, '' for none; resource_type: of what is there.
    log_entry: URI of the entry of a log that says the same, '' for none. id, group: as whoever submitted it wants them.
    """

    type: EventType
    message_id: str
    message: str
    created: float
    origin: str = ""
    resource_type: str = ""
    args: tuple[str, ...] = ()
    severity: str = "OK"
    resolution: str = "None."
    log_entry: str = ""
    id: str = ""
    group: int | None = None


class Wanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which events a subscription is for, in the words of EventDestination; an empty list wants all.

    subordinate: also those of resources below the origins.
    """

    event_types: tuple[str, ...] = ()
    registry_prefixes: tuple[str, ...] = ()
    exclude_registry_prefixes: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    exclude_message_ids: tuple[str, ...] = ()
    resource_types: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    subordinate: bool = False
    severities: tuple[str, ...] = ()


class Subscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A destination to which events are posted (EventDestination of DSP0268).

    owner: id of the account that made it. headers: HttpHeaders, which are secret. suspended: nothing is sent until
    somebody resumes it.
    """

    id: str
    destination: str
    owner: str = ""
    context: str = ""
    wanted: Wanted = Wanted()
    headers: tuple[tuple[str, str], ...] = ()
    retry_policy: RetryPolicy = "SuspendRetries"
    verify_certificate: bool = False
    suspended: bool = False


def filled(message: str, args: Sequence[str]) -> str:
    """The text of a message, in which %1, %2, ... stand for its arguments."""
    return _PLACE.sub(lambda place: args[int(place[1]) - 1] if int(place[1]) <= len(args) else place[0], message)


def prefix_of(message_id: str) -> str:
    """Base.1.18.Success -> Base"""
    return message_id.partition(".")[0]


def without_version(message_id: str) -> str:
    """Base.1.18.Success -> Base.Success, the other form in which a subscription may name a message."""
    return f"{prefix_of(message_id)}.{message_id.rpartition('.')[2]}"


def wants(wanted: Wanted, event: Event) -> bool:
    """Whether a subscription is for an event."""
    prefix, ids = prefix_of(event.message_id), (event.message_id, without_version(event.message_id))
    return (
        (not wanted.event_types or event.type in wanted.event_types)
        and (not wanted.registry_prefixes or prefix in wanted.registry_prefixes)
        and prefix not in wanted.exclude_registry_prefixes
        and (not wanted.message_ids or any(id_ in wanted.message_ids for id_ in ids))
        and not any(id_ in wanted.exclude_message_ids for id_ in ids)
        and (not wanted.resource_types or event.resource_type in wanted.resource_types)
        and (not wanted.severities or event.severity in wanted.severities)
        and (not wanted.origins or _is_of(wanted, event.origin))
    )


def _is_of(wanted: Wanted, origin: str) -> bool:
    return origin in wanted.origins or (
        wanted.subordinate and any(origin.startswith(f"{one}/") for one in wanted.origins)
    )


class Numbered(NamedTuple):
    """An event of a feed. number: its place in it. id: unique among all events of the BMC."""

    number: int
    id: str
    event: Event


class StreamWish(msgspec.Struct, frozen=True):
    """A stream that a client may open. seen: number of the last event that it knows. owner: id of its account.

    notice: what it is told before anything else, whatever it accepts. admitted: whether it may still be opened, which
    may be long after it was asked for.
    """

    accepts: Callable[[Event], bool]
    seen: int
    owner: str
    notice: Event | None = None
    admitted: Callable[[], bool] = lambda: True


class Forgotten(Exception):
    """Events that a stream has not read are gone."""


class Stream:
    """One open stream (DSP0266 12.5). id: of its EventDestination. peer: who reads it, host:port.

    woken: called when there is something to take. ended: called when the BMC ends it.
    """

    __slots__ = ("_accepts", "_feed", "_notice", "_seen", "ended", "id", "owner", "peer", "woken")

    def __init__(self, id_: str, feed: "Feed", wish: StreamWish, peer: str) -> None:
        self.id, self.owner, self.peer = id_, wish.owner, peer
        self._feed, self._accepts, self._seen, self._notice = feed, wish.accepts, wish.seen, wish.notice
        self.woken: Callable[[], None] = _nothing
        self.ended: Callable[[], None] = _nothing

    def take(self) -> list[Numbered]:
        """The events that came since the last call and that it is for. Raises Forgotten.

        A notice has the id of the event before the first that follows, which the reader does not know.
        """
        new = [one for one in self._feed.after(self._seen) if self._accepts(one.event)]
        if self._notice is not None:
            new.insert(0, self._feed.numbered(self._seen, self._notice))
            self._notice = None
        self._seen = self._feed.number
        return new

    def close(self) -> None:
        """The reader is gone."""
        self._feed.streams.pop(self.id, None)

    def end(self) -> None:
        """The BMC ends it."""
        self.close()
        self.ended()


def _nothing() -> None:
    """What a stream does that nobody has taken up yet."""


class Feed:
    """The numbered events of one BMC. generation: seconds since the epoch when it began, which make its ids unique.

    kept: whether there ever was a stream, whose reader may come back.
    """

    __slots__ = ("_generation", "_opened", "history", "kept", "number", "streams")

    def __init__(self, generation: float) -> None:
        self._generation = f"{int(generation * 1000):x}"
        self._opened = 0
        self.number = 0
        self.kept = False
        self.history: deque[Numbered] = deque(maxlen=HISTORY)
        self.streams: dict[str, Stream] = {}

    def add(self, event: Event) -> Numbered:
        """Number an event and wake the streams."""
        self.number += 1
        numbered = self.numbered(self.number, event)
        if self.kept:
            self.history.append(numbered)
            for stream in tuple(self.streams.values()):
                stream.woken()
        return numbered

    def numbered(self, number: int, event: Event) -> Numbered:
        """An event with its place and its id."""
        return Numbered(number, f"{self._generation}-{number}", event)

    def open(self, wish: StreamWish, peer: str) -> Stream:
        """A new stream."""
        self.kept = True
        self._opened += 1
        stream = Stream(f"SSE{self._opened}", self, wish, peer)
        self.streams[stream.id] = stream
        return stream

    def after(self, number: int) -> list[Numbered]:
        """The events after a number. Raises Forgotten when not all of them are there any more."""
        new = [one for one in self.history if one.number > number]
        if len(new) < self.number - number:
            raise Forgotten
        return new

    def known(self, id_: str) -> int | None:
        """The number of an event from which a reader can go on, None where it cannot."""
        generation, _, number = id_.rpartition("-")
        if generation != self._generation or not (number.isascii() and number.isdigit() and len(number) <= 18):
            return None
        return int(number) if self.first - 1 <= int(number) <= self.number else None

    @property
    def first(self) -> int:
        """The number of the oldest event that it keeps; of the next one where it keeps none."""
        return self.history[0].number if self.history else self.number + 1
