"""Event subscriptions as resources (DSP0266 12.1.2)."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec
import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action, EndStreams
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.events import EventType, RetryPolicy, Subscription, Wanted
from bmcsim.redfish import auth
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response
from bmcsim.redfish.members import created
from bmcsim.redfish.messages import message
from bmcsim.redfish.patch import MAX_ITEMS, PatchRefused, has_type, json_object, text_of, without_annotations
from bmcsim.tree.compile import Node

_LONGEST_TEXT = 1024
_LONGEST_HEADER = 8192
_LARGEST = 16 * 1024
"""Bytes of a subscription as it is stored. All of them are written with each change of their BMC."""
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_VALUE = re.compile(r"[ -~\t]*")
_URI = re.compile(r"[!-~]+")
# What the connection itself needs (RFC 9110 7.6.1), and what says how the body is framed.
_NOT_THEIRS = frozenset({"connection", "content-length", "content-type", "host", "te", "transfer-encoding", "upgrade"})

_REQUIRED = ("Destination", "Protocol")
_LISTS: dict[str, str] = {
    "EventTypes": "event_types",
    "ExcludeMessageIds": "exclude_message_ids",
    "ExcludeRegistryPrefixes": "exclude_registry_prefixes",
    "MessageIds": "message_ids",
    "RegistryPrefixes": "registry_prefixes",
    "ResourceTypes": "resource_types",
    "Severities": "severities",
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "DeliveryRetryPolicy": get_args(RetryPolicy),
    "EventFormatType": ("Event",),
    "EventTypes": get_args(EventType),
    "Protocol": ("Redfish",),
    "Severities": ("OK", "Warning", "Critical"),
    "SubscriptionType": ("RedfishEvent",),
}
_TYPES: dict[str, str] = {
    **dict.fromkeys(_LISTS, "strings"),
    **dict.fromkeys(("Context", "Destination", "DeliveryRetryPolicy", "Protocol"), "string"),
    **dict.fromkeys(("EventFormatType", "SubscriptionType"), "string"),
    **dict.fromkeys(("SubordinateResources", "VerifyCertificate"), "boolean"),
    "HttpHeaders": "headers",
    "OriginResources": "links",
}
"""What a client may give, and its type."""
_WRITABLE = frozenset({"Context", "DeliveryRetryPolicy", "HttpHeaders", "VerifyCertificate"})

Messages = Iterator[dict[str, Any]]


def create(bmc: Bmc, node: Node, request: Request) -> Response:
    """POST to the subscriptions: 201 with a subscription, which is for every event without any property that limits
    it."""
    given = {name: value for name, value in without_annotations(json_object(request.body)).items() if value is not None}
    problems = [message("PropertyMissing", name, related=name) for name in _REQUIRED if name not in given]
    problems += _problems(given)
    if problems:
        raise PatchRefused(problems)
    if len(bmc.state.subscriptions) >= bmc.shared.behaviour.subscription_limit:
        raise RedfishError(503, "EventSubscriptionLimitExceeded")
    number = bmc.state.subscriptions_made + 1
    origins = tuple([one["@odata.id"] for one in given.get("OriginResources", ())])
    lists = {field: tuple(given.get(name, ())) for name, field in _LISTS.items()}
    wanted = Wanted(**lists, origins=origins, subordinate=given.get("SubordinateResources", False))
    owner = auth.authenticate(bmc, request).account.id
    new = _with(Subscription(str(number), given["Destination"], owner=owner, wanted=wanted), given)
    _check_size(new, given)
    bmc.become(request.moment, subscriptions=(*bmc.state.subscriptions, new), subscriptions_made=number)
    return created(bmc, node, bmc.members(node, request.moment)[new.id], request.moment)


def patch(bmc: Bmc, item: Any, properties: dict[str, Any], request: Request) -> Sequence[Action]:
    """PATCH of a subscription, or of a stream, which has nothing to change."""
    own = bmc.subscription(item.id)
    fixed = [name for name in properties if name in _TYPES and (own is None or name not in _WRITABLE)]
    problems = [message("PropertyNotWritable", name, related=name) for name in fixed]
    problems += _problems({name: value for name, value in properties.items() if name not in fixed})
    if problems:
        raise PatchRefused(problems)
    if own is not None:
        changed = _with(own, properties)
        _check_size(changed, properties)
        bmc.replace_subscription(changed, request.moment)
    return ()


def delete(bmc: Bmc, item: Any, request: Request) -> Response:
    """DELETE of a subscription; a stream ends."""
    if bmc.subscription(item.id) is None:
        return Response(204, EMPTY_HEAD, actions=[EndStreams(item.id)])
    bmc.drop_subscription(item.id, request.moment)
    return Response(204, EMPTY_HEAD)


def _check_size(subscription: Subscription, given: dict[str, Any]) -> None:
    """Raises RedfishError 400 for a subscription that is too large; it names the largest property."""
    if len(msgspec.msgpack.encode(subscription)) > _LARGEST:
        name = max(given, key=lambda one: len(orjson.dumps(given[one])))
        raise RedfishError(400, "PropertyValueError", name, related=name)


def _with(subscription: Subscription, given: dict[str, Any]) -> Subscription:
    """A subscription with what a client may change of it."""
    facts: dict[str, Any] = {}
    if "Context" in given:
        facts["context"] = given["Context"]
    if "DeliveryRetryPolicy" in given:
        facts["retry_policy"] = given["DeliveryRetryPolicy"]
    if "VerifyCertificate" in given:
        facts["verify_certificate"] = given["VerifyCertificate"]
    if "HttpHeaders" in given:
        facts["headers"] = tuple([pair for one in given["HttpHeaders"] for pair in one.items()])
    return msgspec.structs.replace(subscription, **facts)


def _problems(given: dict[str, Any]) -> Messages:
    for name, value in given.items():
        type_ = _TYPES.get(name)
        if type_ is None:
            known = name in ("Id", "Name", "Description", "Status", "Actions")
            yield message("PropertyNotWritable" if known else "PropertyUnknown", name, related=name)
        elif type_ == "headers":
            yield from _header_problems(value)
        elif type_ == "links":
            yield from _origin_problems(value)
        elif not has_type(value, type_):
            yield message("PropertyValueTypeError", text_of(value), name, related=name)
        else:
            yield from _text_problems(name, value)
    destination = given.get("Destination")
    if isinstance(destination, str) and not _is_destination(destination):
        yield message("PropertyValueFormatError", _repeatable(destination), "Destination", related="Destination")


def _text_problems(name: str, value: Any) -> Messages:
    texts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    if len(texts) > MAX_ITEMS:
        yield message("PropertyValueError", name, related=name)
        return
    for text in texts:
        if len(text) > _LONGEST_TEXT:
            yield message("StringValueTooLong", _repeatable(text), str(_LONGEST_TEXT), related=name)
        elif name in _CHOICES and text not in _CHOICES[name]:
            yield message("PropertyValueNotInList", text[:64], name, related=name)


def _repeatable(text: str) -> str:
    """What a refusal repeats of a text: nothing of one that may hold user information (RFC 3986 3.2.1)."""
    return "(hidden)" if "@" in text else text[:64]


def _is_destination(text: str) -> bool:
    """Whether a text is an absolute http or https URI, without user information: HttpHeaders have what a listener
    wants to know, and are never shown."""
    if len(text) > _LONGEST_TEXT or _URI.fullmatch(text) is None:
        return False
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return usable and "@" not in parts.netloc
    except ValueError:
        return False


def _header_problems(value: Any) -> Messages:
    """HttpHeaders is a list of objects: name -> value. Nothing is repeated that may be a secret: no value, and no name
    that is none."""
    if not (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        yield message("PropertyValueTypeError", "(hidden)", "HttpHeaders", related="HttpHeaders")
        return
    pairs = [pair for one in value for pair in one.items()]
    if len(pairs) > MAX_ITEMS:
        yield message("PropertyValueError", "HttpHeaders", related="HttpHeaders")
        return
    for name, text in pairs:
        if not isinstance(text, str):
            yield message("PropertyValueTypeError", "(hidden)", "HttpHeaders", related="HttpHeaders")
        elif name.lower() in _NOT_THEIRS:
            yield message("PropertyValueFormatError", name, "HttpHeaders", related="HttpHeaders")
        elif _NAME.fullmatch(name) is None or len(text) > _LONGEST_HEADER or _VALUE.fullmatch(text) is None:
            yield message("PropertyValueFormatError", "(hidden)", "HttpHeaders", related="HttpHeaders")


def _origin_problems(value: Any) -> Messages:
    """OriginResources is a list of links."""
    if not (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        yield message("PropertyValueTypeError", text_of(value), "OriginResources", related="OriginResources")
        return
    uris = [one.get("@odata.id") for one in value]
    if len(uris) > MAX_ITEMS:
        yield message("PropertyValueError", "OriginResources", related="OriginResources")
    elif not all(isinstance(uri, str) and uri.startswith("/") and len(uri) <= _LONGEST_TEXT for uri in uris):
        yield message("PropertyValueFormatError", text_of(value)[:64], "OriginResources", related="OriginResources")
