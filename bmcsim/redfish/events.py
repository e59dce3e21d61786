"""Events on the wire: payloads, the stream of server-sent events, test events, and what writes of resources tell
(DSP0266 12.1 and 12.5)."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, get_args

import orjson

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action as Effect
from bmcsim.machine.actions import Emit, EndStreams
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.credentials import Account
from bmcsim.machine.events import Event, EventType, Numbered, StreamWish, prefix_of
from bmcsim.machine.resources import timestamp
from bmcsim.redfish import privileges, query, query_filter
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response, accepts
from bmcsim.redfish.messages import message
from bmcsim.redfish.outcome import Given, Handler, done
from bmcsim.redfish.patch import text_of
from bmcsim.tree.compile import EVENT_SERVICE, Action
from bmcsim.tree.profile import QuerySupport

HEARTBEAT = b":\n\n"
"""A comment, which readers skip (WHATWG HTML 9.2.6)."""

_STREAM_HEAD = b"Content-Type: text/event-stream; charset=utf-8\r\nOData-Version: 4.0\r\nCache-Control: no-cache\r\n"
_STREAM_ALLOW = b"Allow: GET\r\n"
_FILTERS = QuerySupport(expand=frozenset(), levels=0, select=False, top_skip=False, only=False, excerpt=False)
_RESOURCE_EVENTS = "ResourceEvent.1.4"
_MESSAGE_ID = re.compile(r"[A-Za-z0-9]+\.\d+\.\d+\.[A-Za-z0-9.]+", re.ASCII)


# payloads


def payload(bmc: Bmc, numbered: Numbered, context: str) -> bytes:
    """An Event (DSP0268) as JSON, for one subscriber."""
    event = numbered.event
    record: dict[str, Any] = {
        "MemberId": "0",
        "EventId": event.id or numbered.id,
        "EventType": event.type,
        "EventTimestamp": timestamp(event.created, bmc.state.clock_offset)[1:-1].decode(),
        "MessageId": event.message_id,
        "Message": event.message,
        "MessageArgs": event.args,
        "MessageSeverity": event.severity,
        "Severity": event.severity,
        "Resolution": event.resolution,
    }
    if event.group is not None:
        record["EventGroupId"] = event.group
    if event.origin:
        record["OriginOfCondition"] = {"@odata.id": event.origin}
    if event.log_entry:
        record["LogEntry"] = {"@odata.id": event.log_entry}
    body = {
        "@odata.type": "#Event.v1_9_0.Event",
        "Id": numbered.id,
        "Name": "Event",
        "Context": context,
        "Events": [record],
        "Events@odata.count": 1,
    }
    return orjson.dumps(body)


def sse(bmc: Bmc, events: Iterable[Numbered], context: str) -> bytes:
    """Events as a stream has them: id, data and a blank line each (WHATWG HTML 9.2.5)."""
    return b"".join([b"id: %b\ndata: %b\n\n" % (one.id.encode(), payload(bmc, one, context)) for one in events])


# the stream


def open_stream(bmc: Bmc, account: Account, request: Request) -> Response:
    """GET of ServerSentEventUri: 200 and a wish, which whoever has the connection opens if it is still admitted then.

    After a Last-Event-ID from which it cannot go on it begins with what is kept, and says that events may be missing:
    a reader that comes back by itself, as those of the WHATWG do, would not come back after an error.

    Raises RedfishError: 400 for a filter, 405, 406, and 503 when there are too many streams, or the service is
    disabled.
    """
    if request.method == "OPTIONS":
        return Response(204, EMPTY_HEAD + _STREAM_ALLOW)
    if request.method != "GET":
        raise RedfishError(405, "OperationNotAllowed", headers=_STREAM_ALLOW)
    if request.head.accept and not accepts(request.head.accept, b"text/event-stream"):
        raise RedfishError(406, "HeaderInvalid", "Accept")
    accepted, feed = _accepted(bmc, request.query), bmc.feed
    seen, notice = feed.number if feed is not None else 0, None
    if request.head.last_event_id:
        known = feed.known(request.head.last_event_id.decode("latin-1")) if feed is not None else None
        if known is None:
            known, notice = feed.first - 1 if feed is not None else 0, _events_lost(bmc, request.moment)
        seen = known
    if (refusal := _refusal(bmc)) is not None:
        raise refusal
    resets = bmc.state.resets

    def admitted() -> bool:
        # An account that is not the same any more may be another one with its id.
        same = (bmc.state.service, bmc.state.resets, bmc.accounts.get(account.id)) == (Service.UP, resets, account)
        return same and may_read(bmc, account.id) and _refusal(bmc) is None

    wish = StreamWish(accepted, seen, account.id, notice, admitted)
    return Response(200, _STREAM_HEAD + _STREAM_ALLOW, stream=wish)


def _refusal(bmc: Bmc) -> RedfishError | None:
    """Why there cannot be one more stream now, None where there can."""
    if not bmc.tells:
        return RedfishError(503, "ServiceDisabled", EVENT_SERVICE)
    if bmc.feed is not None and len(bmc.feed.streams) >= bmc.shared.behaviour.stream_limit:
        return RedfishError(503, "EventSubscriptionLimitExceeded")
    return None


def may_read(bmc: Bmc, account_id: str) -> bool:
    """Whether an account is there and may read events."""
    account = bmc.accounts.get(account_id)
    if account is None or not account.usable:
        return False
    return privileges.allows(bmc, account, "GET", bmc.tree.nodes[EVENT_SERVICE])


def ended_by_write(bmc: Bmc) -> list[Effect]:
    """The streams that a write took from their readers: whose account is gone, or may not read events any more."""
    streams = bmc.feed.streams.values() if bmc.feed is not None else ()
    return [EndStreams(one.id) for one in streams if not may_read(bmc, one.owner)]


def _events_lost(bmc: Bmc, moment: Moment) -> Event:
    said = message("EventBufferExceeded")
    text, severity, resolution = said["Message"], said["MessageSeverity"], said["Resolution"]
    return Event(
        "Other",
        said["MessageId"],
        text,
        bmc.wall(moment),
        EVENT_SERVICE,
        bmc.resource_type(EVENT_SERVICE),
        severity=severity,
        resolution=resolution,
    )


def _accepted(bmc: Bmc, text: str) -> Callable[[Event], bool]:
    condition = query.parse(text, _FILTERS).filter
    if condition is None:
        return lambda _event: True
    supported = bmc.setting(EVENT_SERVICE, "SSEFilterPropertiesSupported") or {}
    for name in query_filter.paths(condition):
        if supported.get(name) is not True:
            raise RedfishError(400, "QueryParameterValueFormatError", name[:64], "$filter")

    def accepted(event: Event) -> bool:
        facts = {
            "EventFormatType": "Event",
            "EventType": event.type,
            "MessageId": event.message_id,
            "OriginResource": event.origin,
            "RegistryPrefix": prefix_of(event.message_id),
            "ResourceType": event.resource_type,
        }
        return query_filter.holds(condition, facts)

    return accepted


# what writes tell


def told_by_write(bmc: Bmc, request: Request, path: str, response: Response) -> Sequence[Effect]:
    """What subscribers are told of a write that was done."""
    if not bmc.listens or response.status >= 300:
        return ()
    moment = request.moment
    match request.method:
        case "PATCH" | "PUT":
            return _resource_event(bmc, "ResourceUpdated", "ResourceChanged", path, moment)
        case "DELETE":
            return _resource_event(bmc, "ResourceRemoved", "ResourceRemoved", path, moment)
        case "POST" if response.status == 201 and (uri := _location(response)):
            return _resource_event(bmc, "ResourceAdded", "ResourceCreated", uri, moment)
    return ()


_RESOURCE_TEXTS = {
    "ResourceChanged": "Properties of a resource were changed.",
    "ResourceCreated": "A resource was created.",
    "ResourceRemoved": "A resource was removed.",
    "TestMessage": "This is a test.",
}


def _resource_event(bmc: Bmc, type_: EventType, key: str, uri: str, moment: Moment) -> list[Effect]:
    return bmc.event(type_, f"{_RESOURCE_EVENTS}.{key}", _RESOURCE_TEXTS[key], uri, moment)


def _location(response: Response) -> str:
    _, _, rest = response.head.partition(b"\r\nLocation: ")
    return rest.partition(b"\r\n")[0].decode("latin-1")


# actions


def _submit_test_event(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    """EventService.SubmitTestEvent (DSP0268): an event as the client describes it."""
    type_, severity = given.get("EventType", "Other"), given.get("MessageSeverity", given.get("Severity", "OK"))
    created, group = bmc.wall(request.moment), given.get("EventGroupId")
    message_id = given["MessageId"]
    for name, value, allowed in (("EventType", type_, get_args(EventType)), ("Severity", severity, _SEVERITIES)):
        if value not in allowed:
            raise _wrong("ActionParameterValueNotInList", name, value)
    if _MESSAGE_ID.fullmatch(message_id) is None:
        raise _wrong("ActionParameterValueFormatError", "MessageId", message_id)
    if "EventTimestamp" in given:
        created = _instant(given["EventTimestamp"])
    if not bmc.tells:
        raise RedfishError(503, "ServiceDisabled", EVENT_SERVICE)
    event = Event(
        type_,
        message_id,
        given.get("Message", _RESOURCE_TEXTS["TestMessage"]),
        created,
        given.get("OriginOfCondition", ""),
        bmc.resource_type(given.get("OriginOfCondition", "")),
        tuple(given.get("MessageArgs", ())),
        str(severity),
        id=given.get("EventId", ""),
        group=group,
    )
    return done([Emit(event)] if bmc.listens else ())


def _instant(text: str) -> float:
    """Seconds since the epoch of a time with its offset, in years that have one in every place of the world."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise _wrong("ActionParameterValueFormatError", "EventTimestamp", text) from error
    if time.tzinfo is None or not 1 < time.year < 9999:
        raise _wrong("ActionParameterValueFormatError", "EventTimestamp", text)
    return time.timestamp()


_SEVERITIES = ("OK", "Warning", "Critical")


def _wrong(key: str, name: str, value: Any) -> RedfishError:
    return RedfishError(400, key, text_of(value)[:64], name, "EventService.SubmitTestEvent", related=name)


def _set_suspended(suspended: bool) -> Handler:
    def handler(bmc: Bmc, action: Action, _given: Given, request: Request) -> Response:
        bmc.suspend_subscription(action.uri.rpartition("/")[2], request.moment, suspended=suspended)
        return done()

    return handler


ACTIONS: dict[str, Handler] = {
    "EventDestination.ResumeSubscription": _set_suspended(False),
    "EventDestination.SuspendSubscription": _set_suspended(True),
    "EventService.SubmitTestEvent": _submit_test_event,
}
