"""A BMC as far as it tells others what happens: its clock, its subscriptions, and the feed of its events."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.machine import clock
from bmcsim.machine.actions import Action, Emit, EndStreams, Happened
from bmcsim.machine.events import Event, EventType, Feed, Numbered, Stream, StreamWish, Subscription, filled
from bmcsim.machine.identity import Identity
from bmcsim.machine.resources import Resources, Shared, timestamp
from bmcsim.machine.state import LogRecord, State
from bmcsim.tree.compile import EVENT_SERVICE


class Telling(Resources):
    """The clock, the subscriptions and the feed of one BMC.

    feed: of events, since the last reset; None while nobody has needed it.
    """

    __slots__ = ("feed",)

    def __init__(self, identity: Identity, shared: Shared, initial: State) -> None:
        super().__init__(identity, shared, initial)
        self.feed: Feed | None = None

    def resource_type(self, uri: str) -> str:
        """The schema of a resource, such as Chassis; '' where there is none."""
        node = self.tree.nodes.get(uri) or self.tree.items.get(uri.rpartition("/")[0])
        return node.type.partition(".")[0] if node is not None else ""

    # events

    @property
    def listens(self) -> bool:
        """Whether anybody is told what happens."""
        return bool(self.state.subscriptions) or (self.feed is not None and self.feed.kept)

    @property
    def tells(self) -> bool:
        """Whether the event service is enabled."""
        return bool(self.setting(EVENT_SERVICE, "ServiceEnabled"))

    def event(
        self, type_: EventType, message_id: str, message: str, origin: str, moment: Moment, **more: Any
    ) -> list[Action]:
        """Tell an event, if anybody listens. message: %1, %2, ... stand for the texts of `args`. more: as in Event."""
        if not self.listens or not self.tells:
            return []
        message = filled(message, more.get("args", ()))
        return [Emit(Event(type_, message_id, message, self.wall(moment), origin, self.resource_type(origin), **more))]

    def tell(self, happened: Happened, moment: Moment) -> list[Action]:
        """What the event service says of something that happened."""
        told: list[Action] = []
        for kind in self.tree.events:
            if kind.on == happened.what:
                origin = happened.about or self.tree.head.roles.origin(kind.origin)
                args = tuple([origin if text == "<origin>" else text for text in kind.args])
                told += self.event(kind.type, kind.id, kind.message, origin, moment, args=args, severity=kind.severity)
        return told

    def tell_entries(self, uri: str, entries: Iterable[LogRecord], moment: Moment) -> list[Action]:
        """What is written into a log is told too."""
        told: list[Action] = []
        for entry in entries:
            told += self.event(
                "Alert",
                entry.message_id,
                entry.message,
                entry.origin,
                moment,
                severity=entry.severity,
                log_entry=f"{uri}/{entry.id}",
            )
        return told

    def subscription(self, id_: str) -> Subscription | None:
        """A durable subscription."""
        return next((one for one in self.state.subscriptions if one.id == id_), None)

    def replace_subscription(self, changed: Subscription, moment: Moment) -> None:
        """A subscription has changed."""
        every = tuple([changed if one.id == changed.id else one for one in self.state.subscriptions])
        self.become(moment, subscriptions=every)

    def suspend_subscription(self, id_: str, moment: Moment, *, suspended: bool) -> None:
        """Send nothing more to a destination, or send again. A stream, or none, is as it was."""
        if (own := self.subscription(id_)) is not None and own.suspended is not suspended:
            self.replace_subscription(msgspec.structs.replace(own, suspended=suspended), moment)

    def drop_subscription(self, id_: str, moment: Moment) -> None:
        """A subscription is over."""
        self.become(moment, subscriptions=tuple([one for one in self.state.subscriptions if one.id != id_]))

    def with_owner(self, account_id: str, new: str = "") -> tuple[Subscription, ...]:
        """The subscriptions once an account has another id, or is gone (''): a later one with the same id has no right
        to them."""
        owned = [one for one in self.state.subscriptions if one.owner == account_id]
        changed = {one.id: msgspec.structs.replace(one, owner=new) for one in owned}
        return tuple([changed.get(one.id, one) for one in self.state.subscriptions])

    def number(self, event: Event, moment: Moment) -> Numbered:
        """Put an event into the feed."""
        if self.feed is None:
            self.feed = Feed(moment.wall)
        return self.feed.add(event)

    def open_stream(self, wish: StreamWish, peer: str, moment: Moment) -> Stream:
        """A stream of events. peer: who reads it, host:port."""
        if self.feed is None:
            self.feed = Feed(moment.wall)
        return self.feed.open(wish, peer)

    def end_streams(self, which: EndStreams) -> None:
        """End streams; with all of them the feed is over."""
        feed = self.feed
        if feed is None:
            return
        if not which.stream:
            self.feed = None
        for stream in tuple(feed.streams.values()):
            if which.stream in ("", stream.id):
                stream.end()

    # clock

    def wall(self, moment: Moment) -> float:
        """What the BMC's own clock says, in seconds since the epoch."""
        drift = self.shared.behaviour.clock_drift
        if not (self.state.clock_ahead or drift) or self.follows_time_server:
            return moment.wall
        since = max(self.state.bmc_started, self.state.clock_set)
        return moment.wall + clock.ahead(self.state.clock_ahead, moment.wall, since, drift)

    def time(self, moment: Moment) -> str:
        """What the BMC's own clock says, as a client reads it: local time with its offset."""
        return timestamp(self.wall(moment), self.state.clock_offset)[1:-1].decode()

    def set_clock(self, ahead: float, moment: Moment) -> None:
        """Set the clock so many seconds ahead of real time."""
        self.become(moment, clock_ahead=ahead, clock_set=moment.wall)

    @property
    def follows_time_server(self) -> bool:
        """Whether a time server sets the clock."""
        ntp = self.network_service("NTP")
        return bool(ntp.get("ProtocolEnabled") and any(ntp.get("NTPServers", ())))

    def network_service(self, name: str) -> Mapping[str, Any]:
        """What the manager's ManagerNetworkProtocol says of one service, empty where it does not have that."""
        return self.setting(f"{self.tree.head.roles.manager}/NetworkProtocol", name) or {}
