"""One request to one BMC: `handle` computes the answer, synchronously and atomically."""

from hmac import compare_digest
from typing import Any

import msgspec
import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import actions, auth, patch, query
from bmcsim.redfish.auth import ACCOUNTS, SESSIONS
from bmcsim.redfish.conditions import matches
from bmcsim.redfish.exchange import EMPTY_HEAD, JSON_HEAD, XML_HEAD, Request, Response
from bmcsim.redfish.messages import error_response, errors_response, message
from bmcsim.tree.compile import Node

JSON_LIMIT = 2 * 1024 * 1024
METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})

_METADATA = "/redfish/v1/$metadata"
_SERVICE_DOCUMENT = "/redfish/v1/odata"
_VERSIONS = b'{"v1":"/redfish/v1/"}'
_READ_ONLY = b"Allow: GET, HEAD\r\n"


class BodyPlan(msgspec.Struct, frozen=True):
    """The body may be read, up to `limit` bytes."""

    limit: int


def admit(bmc: Bmc, request: Request, length: int | None) -> Response | BodyPlan:
    """Decide from the head alone whether a body is worth reading: 401, 413 and 415 come before its first byte.

    length: Content-Length, None when the body is chunked.
    """
    if length is not None and length > JSON_LIMIT:
        return error_response(RedfishError(413, "PayloadTooLarge"))
    if request.method not in ("POST", "PATCH", "PUT") or length == 0:
        return BodyPlan(JSON_LIMIT)
    try:
        if not auth.is_open(request.method, normalised(request.path)):
            auth.authenticate(bmc, request)
        _check_media_type(request)
    except RedfishError as error:
        return error_response(error)
    return BodyPlan(JSON_LIMIT)


def handle(bmc: Bmc, request: Request) -> Response:
    """The answer of a BMC to a request. Never raises; what it sets in motion is in `Response.actions`.

    The first lines are the common case, a plain GET by the caller that the BMC remembers, in the order of `_handle`.
    """
    head = request.head
    if head.plain and request.method == "GET" and not request.query and bmc.basic_header:
        node = bmc.tree.nodes.get(request.path)
        if node is not None and compare_digest(head.authorization, bmc.basic_header):
            etag, body = bmc.body(node).render(bmc, request.moment)
            return Response(200, b"%bETag: %b\r\n" % (node.head, etag), body)
    try:
        return _handle(bmc, request)
    except RedfishError as error:
        return error_response(error)
    except patch.PatchRefused as refused:
        return errors_response(400, refused.messages)


def normalised(path: str) -> str:
    """A path without its trailing slashes: {uri} and {uri}/ are the same resource (DSP0266 6.1)."""
    return path.rstrip("/") if path.endswith("/") else path


def _handle(bmc: Bmc, request: Request) -> Response:
    method, path = request.method, normalised(request.path)
    if method not in METHODS:
        raise RedfishError(501, "OperationNotAllowed")
    if not auth.is_open(method, path) or (request.query and query.parse(request.query).expand):
        caller = auth.authenticate(bmc, request)
        if caller.account.password_change_required:
            auth.check_factory_password(bmc, caller, request, path)
    if request.head.odata_version and request.head.odata_version != b"4.0":
        raise RedfishError(412, "HeaderInvalid", "OData-Version")
    node = bmc.tree.nodes.get(path)
    if node is not None and (method == "GET" or method == "HEAD"):
        return _read(bmc, request, node, None)
    return _other(bmc, request, method, path, node)


def _read(bmc: Bmc, request: Request, node: Node, item: Any) -> Response:
    if request.head.accept and not _accepts(request.head.accept, b"application/json"):
        raise RedfishError(406, "HeaderInvalid", "Accept")
    etag, body = bmc.body(node).render(bmc, request.moment, item)
    head = node.head + b"ETag: " + etag + b"\r\n"
    if request.query:
        wanted = query.parse(request.query)
        if wanted.expand:
            return Response(200, node.head, query.Expander(bmc, request.moment, wanted).expand(body))
    if request.head.if_match and not matches(request.head.if_match, etag, strong=True):
        raise RedfishError(412, "PreconditionFailed")
    if request.head.if_none_match and matches(request.head.if_none_match, etag, strong=False):
        return Response(304, head)
    return Response(200, head, body)


def _other(bmc: Bmc, request: Request, method: str, path: str, node: Node | None) -> Response:
    if node is None and (document := _document(bmc, request, path)) is not None:
        return document
    if (action := bmc.tree.actions.get(path)) is not None:
        if method == "OPTIONS":
            return Response(204, EMPTY_HEAD + b"Allow: POST\r\n")
        if method != "POST":
            raise RedfishError(405, "OperationNotAllowed", headers=b"Allow: POST\r\n")
        _check_write(request)
        return actions.run(bmc, action, request)
    item = None
    if node is None and method == "POST" and path.endswith("/Members"):
        node = bmc.tree.nodes.get(path.removesuffix("/Members"))
        if node is not None and not node.collection:
            node = None
    if node is None:
        node, item = _item(bmc, request, path)
    if method in ("GET", "HEAD"):
        return _read(bmc, request, node, item)
    if method == "OPTIONS":
        return Response(204, EMPTY_HEAD + b"Allow: " + node.allow.encode() + b"\r\n")
    if method not in node.allow.split(", "):
        raise RedfishError(405, "OperationNotAllowed", headers=b"Allow: " + node.allow.encode() + b"\r\n")
    _check_write(request)
    if method == "POST":
        return _create_session(bmc, request)
    if request.head.if_match or request.head.if_none_match:
        etag = bmc.body(node).render(bmc, request.moment, item)[0]
        if request.head.if_match and not matches(request.head.if_match, etag, strong=True):
            raise RedfishError(412, "PreconditionFailed")
        if request.head.if_none_match and matches(request.head.if_none_match, etag, strong=False):
            raise RedfishError(412, "PreconditionFailed")
    if method == "DELETE":
        bmc.close_session(path.rpartition("/")[2])
        return Response(204, EMPTY_HEAD)
    properties = patch.properties_of(patch.json_object(request.body))
    if item is not None:
        _patch_account(bmc, item.id, properties)
        item = bmc.accounts.get(item.id)
    else:
        patch.apply(bmc, node, properties)
    return Response(204, EMPTY_HEAD + b"ETag: " + bmc.body(node).render(bmc, request.moment, item)[0] + b"\r\n")


def _item(bmc: Bmc, request: Request, path: str) -> tuple[Node, Any]:
    parent, _, id_ = path.rpartition("/")
    node = bmc.tree.items.get(parent)
    item = bmc.members(node.items, request.moment).get(id_) if node is not None else None
    if node is None or item is None:
        raise RedfishError(404, "ResourceMissingAtURI", path)
    return node, item


def _document(bmc: Bmc, request: Request, path: str) -> Response | None:
    if path == "/redfish":
        head, body = JSON_HEAD, _VERSIONS
    elif path == _METADATA:
        head, body = XML_HEAD, bmc.tree.metadata
    elif path == _SERVICE_DOCUMENT:
        head, body = JSON_HEAD, bmc.tree.service_document
    else:
        return None
    if request.method == "OPTIONS":
        return Response(204, EMPTY_HEAD + _READ_ONLY)
    if request.method not in ("GET", "HEAD"):
        raise RedfishError(405, "OperationNotAllowed", headers=_READ_ONLY)
    media = b"application/xml" if path == _METADATA else b"application/json"
    if request.head.accept and not _accepts(request.head.accept, media):
        raise RedfishError(406, "HeaderInvalid", "Accept")
    return Response(200, head + _READ_ONLY, body)


def _accepts(field: bytes, media: bytes) -> bool:
    """Whether an Accept field allows a media type (RFC 9110 12.5.1); the most specific range decides, q=0 refuses."""
    ranges: dict[bytes, bool] = {}
    for part in field.lower().split(b","):
        name, *parameters = part.split(b";")
        refused = any(one.strip().replace(b" ", b"").rstrip(b"0.") == b"q=" for one in parameters)
        ranges.setdefault(name.strip(), not refused)
    for name in (media, media.partition(b"/")[0] + b"/*", b"*/*"):
        if name in ranges:
            return ranges[name]
    return False


def _check_media_type(request: Request) -> None:
    media = request.head.content_type.partition(b";")[0].strip().lower()
    if media != b"application/json":
        raise RedfishError(415, "UnrecognizedRequestBody")


def _check_write(request: Request) -> None:
    if request.body and request.method != "DELETE":
        _check_media_type(request)
    if request.query:
        for name in request.query.split("&"):
            if name.startswith(("$", "%24")):
                raise RedfishError(400, "QueryNotSupportedOnOperation")


def _create_session(bmc: Bmc, request: Request) -> Response:
    """POST to the session collection (DSP0266 13.3.4.1): 201 with token, location and the session."""
    given = patch.json_object(request.body)
    values = []
    for name in ("UserName", "Password"):
        if name not in given:
            raise RedfishError(400, "PropertyMissing", name, related=name)
        if not isinstance(given[name], str):
            raise RedfishError(400, "PropertyValueTypeError", "(hidden)", name, related=name)
        values.append(given[name])
    account = bmc.accounts.authenticate(values[0], bmc.shared.hasher.digest(values[1]))
    if account is None:
        raise RedfishError(401, "AccessUnauthorized", headers=auth.CHALLENGE)
    if len(bmc.live_sessions(request.moment)) >= bmc.tree.head.behaviour.session_limit:
        raise RedfishError(503, "SessionLimitExceeded")
    session = bmc.open_session(account, request.moment)
    node = bmc.tree.items[SESSIONS]
    etag, body = bmc.body(node).render(bmc, request.moment, session)
    if account.password_change_required:
        hint = message("PasswordChangeRequired", f"{ACCOUNTS}/{account.id}")
        body = orjson.dumps({**orjson.loads(body), "@Message.ExtendedInfo": [hint]})
    location = f"Location: {SESSIONS}/{session.id}\r\nX-Auth-Token: {session.token}\r\n".encode()
    return Response(201, node.head + b"ETag: " + etag + b"\r\n" + location, body)


def _patch_account(bmc: Bmc, id_: str, properties: dict[str, Any]) -> None:
    """PATCH of an account: the password (DSP0266 13.2)."""
    problems = []
    for name in properties.keys() - {"Password"}:
        known = name in bmc.tree.items[ACCOUNTS].template
        problems.append(message("PropertyNotWritable" if known else "PropertyUnknown", name, related=name))
    password = properties.get("Password", "")
    behaviour = bmc.tree.head.behaviour
    if not isinstance(password, str):
        problems.append(message("PropertyValueTypeError", "(hidden)", "Password", related="Password"))
    elif "Password" in properties and not behaviour.password_min <= len(password) <= behaviour.password_max:
        problems.append(message("PasswordIncorrectLength", related="Password"))
    if problems:
        raise patch.PatchRefused(problems)
    bmc.set_password(id_, password)
