"""One request to one BMC: `handle` computes the answer, synchronously and atomically."""

import logging
import traceback
from hmac import compare_digest
from pathlib import PurePath
from typing import Any

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.history import Milestones
from bmcsim.redfish import (
    actions,
    auth,
    availability,
    coding,
    events,
    injection,
    ipmi,
    patch,
    privileges,
    query,
    query_answer,
    tasks,
    updates,
    writes,
)
from bmcsim.redfish.conditions import matches
from bmcsim.redfish.exchange import EMPTY_HEAD, JSON_HEAD, VARY, XML_HEAD, YAML_HEAD, Request, Response, accepts
from bmcsim.redfish.messages import error_response, errors_response
from bmcsim.redfish.query_expand import MayRead
from bmcsim.tree.compile import EVENT_SERVICE, Node
from bmcsim.tree.compile import Action as ActionFacts
from bmcsim.tree.profile import UploadKind

JSON_LIMIT = 2 * 1024 * 1024
METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})

_log = logging.getLogger(__name__)
_FRAMES = 8
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_METADATA = "/redfish/v1/$metadata"
_SERVICE_DOCUMENT = "/redfish/v1/odata"
_OPENAPI = "/redfish/v1/openapi.yaml"
_VERSIONS = b'{"v1":"/redfish/v1/"}'
_READ_ONLY = b"Allow: GET, HEAD\r\n"


class BodyPlan(msgspec.Struct, frozen=True):
    """The body may be read, up to `limit` bytes. upload: '' for a body that `handle` gets, else how to stream it away:
    'raw' or 'multipart'."""

    limit: int
    upload: str = ""


def admit(bmc: Bmc, request: Request, length: int | None) -> Response | BodyPlan:
    """Decide from the head alone whether a body is worth reading: 401, 413 and 415 come before its first byte.

    length: Content-Length, None when the body is chunked. Never raises, as `handle`.
    """
    if bmc.milestones is None:
        bmc.milestones = Milestones(request.moment.wall)
    try:
        if not bmc.plain and (closed := availability.gate(bmc, request)) is not None:
            return closed
        return _admitted(bmc, request, length)
    except auth.LoginRefused as refused:
        return _login_refused(refused)
    except RedfishError as error:
        return error_response(error)
    except Exception as error:
        return _failed(bmc, error)


def _admitted(bmc: Bmc, request: Request, length: int | None) -> BodyPlan:
    kind = bmc.tree.updates.uploads.get(normalised(request.path)) if request.method == "POST" else None
    if kind is not None:
        return _admit_upload(bmc, request, kind, length)
    if length is not None and length > JSON_LIMIT:
        raise RedfishError(413, "PayloadTooLarge")
    has_body = request.method in ("POST", "PATCH", "PUT") and length != 0
    # `handle` knows what a rule says that answers by itself, which comes before authentication.
    if has_body and not injection.may_answer(bmc.state.faults, request):
        if not auth.is_open(request.method, normalised(request.path)):
            auth.authenticate(bmc, request)
        if _takes_body(bmc, request, normalised(request.path)):
            request.head.require_json()
    return BodyPlan(JSON_LIMIT)


def _takes_body(bmc: Bmc, request: Request, path: str) -> bool:
    """Whether there is something that a body could be for; `handle` says 404 or 405 of all else, whatever its type."""
    method, tree = request.method, bmc.tree
    if method == "POST" and (path in tree.actions or _action_of_item(bmc, request, path) is not None):
        return True
    node = tree.nodes.get(path) or (tree.nodes.get(path.removesuffix("/Members")) if method == "POST" else None)
    node = node or tree.items.get(path.rpartition("/")[0])
    if path == ipmi.PATH:
        return method == "POST"
    return injection.is_own(path) or (node is not None and method in node.allow.split(", "))


def _admit_upload(bmc: Bmc, request: Request, kind: UploadKind, length: int | None) -> BodyPlan:
    if not injection.may_answer(bmc.state.faults, request):
        caller = _caller(bmc, request, normalised(request.path))
        privileges.check(bmc, caller.account, "POST", bmc.tree.nodes[bmc.tree.update_service])
    updates.check_media_type(kind, request)
    limit = updates.limit(bmc, kind)
    if length is not None and length > limit:
        raise RedfishError(413, "PayloadTooLarge")
    return BodyPlan(limit, kind)


def _caller(bmc: Bmc, request: Request, path: str) -> auth.Caller:
    """Who asks, if the password lets it. Raises RedfishError."""
    caller = auth.authenticate(bmc, request)
    if caller.account.must_change(bmc.wall(request.moment)):
        auth.check_password_change(bmc, caller, request, path)
    return caller


def remembers(bmc: Bmc, authorization: bytes) -> bool:
    """Whether these are the credentials that a BMC remembers, which `plain_get` is for."""
    remembered = bmc.basic_header
    return bool(remembered) and compare_digest(authorization, remembered)


def plain_get(bmc: Bmc, node: Node, moment: Moment) -> tuple[bytes, bytes] | None:
    """What the caller that a BMC remembers gets for a GET of a node of its tree, without a query: the entity tag and
    the body of a 200, whose other header lines are those of the node. None where only `handle` knows the answer.

    It is the common case of `handle`, in the order of `_handle`, for whoever asks nothing else of it: no object is made
    for the request or the response.
    """
    try:
        return (node.body if bmc.overlay is None else bmc.body(node)).render(bmc, moment)
    except Exception:
        return None  # It is `handle` that says so, and logs it.


def handle(bmc: Bmc, request: Request) -> Response:
    """The answer of a BMC to a request. Never raises; what it sets in motion is in `Response.actions`.

    An error that nobody foresaw is logged and answered with 500, and what the request changed until then is undone.
    """
    head, saved = request.head, None
    try:
        if head.plain and request.method == "GET" and not request.query:
            node = bmc.tree.nodes.get(request.path)
            known = node is not None and remembers(bmc, head.authorization)
            if node is not None and known and (found := plain_get(bmc, node, request.moment)) is not None:
                response = Response(200, b"%bETag: %b\r\n" % (node.head, found[0]), found[1])
                return coding.coded(request, response) if head.gzip else response
        if bmc.milestones is None:
            # No first contact takes the short way, which is for a header that was seen before.
            bmc.milestones = Milestones(request.moment.wall)
        if request.method not in _READING:
            saved = bmc.snapshot()
        response = _answered(bmc, request) if bmc.plain else _hampered(bmc, request)
        return coding.coded(request, response) if head.gzip else response
    except Exception as error:
        if saved is not None:
            bmc.forget(saved)
        return _failed(bmc, error)


def read(bmc: Bmc, request: Request) -> Response:
    """The answer to a GET of somebody who may read everything, whatever the BMC is doing.

    Nothing is changed and nothing is counted: no authentication, no limit, no fault and no reset has a say. Never
    raises.
    """
    path, item = normalised(request.path), None
    try:
        node = bmc.tree.nodes.get(path)
        if node is None:
            if (document := _document(bmc, request, path)) is not None:
                return document
            node, item = _item(bmc, request, path)
        return _read(bmc, None, request, node, item)
    except RedfishError as error:
        return error_response(error)
    except Exception as error:
        return _failed(bmc, error)


def _failed(bmc: Bmc, error: Exception) -> Response:
    """The answer to a request that this program cannot carry out. The log has the way to the place of the error, and
    not its text, which can repeat what a client sent."""
    frames = traceback.extract_tb(error.__traceback__, limit=-_FRAMES)
    way = " > ".join(f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    _log.error("%s: a request failed with %s at %s", bmc.id, type(error).__name__, way)
    return error_response(RedfishError(500, "InternalError"))


def _answered(bmc: Bmc, request: Request) -> Response:
    try:
        return _handle(bmc, request)
    except auth.LoginRefused as refused:
        return _login_refused(refused)
    except RedfishError as error:
        return error_response(error)
    except patch.PatchRefused as refused:
        return errors_response(refused.status, refused.messages)


def _hampered(bmc: Bmc, request: Request) -> Response:
    """The answer of a BMC that resets, has limits or fault rules: the reset counts first, then the limits, then the
    rules, then the rest."""
    if (closed := availability.gate(bmc, request)) is not None:
        return closed
    load = bmc.load
    if injection.is_own(request.path):
        load = None
    if load is not None and (refused := availability.overload(load, request)) is not None:
        return refused
    rules, verdict, response = injection.apply_before(bmc.state.faults, request, bmc.identity.seed)
    bmc.count_faults(rules, request.moment)
    if response is None:
        saved = bmc.snapshot() if verdict.lost_write else None
        response = _answered(bmc, request)
        if saved is not None and response.status < 300:
            bmc.forget(saved)
            response.actions = ()
        response = availability.slowed(bmc, request, response)
    rules, response = injection.apply_after(bmc.state.faults, verdict, response)
    bmc.count_faults(rules, request.moment)
    if load is not None:
        availability.occupy(load, request, response)
    return response


def _login_refused(refused: auth.LoginRefused) -> Response:
    response = error_response(refused)
    response.actions = refused.actions
    return response


def normalised(path: str) -> str:
    """A path without its trailing slashes: {uri} and {uri}/ are the same resource (DSP0266 6.1)."""
    return path.rstrip("/") if path.endswith("/") else path


def _handle(bmc: Bmc, request: Request) -> Response:
    method, path = request.method, normalised(request.path)
    if method not in METHODS:
        raise RedfishError(501, "OperationNotAllowed")
    caller = None
    reads = method == "GET" or method == "HEAD"
    if not auth.is_open(method, path) or (reads and request.query and _wanted(bmc, request).expand):
        caller = _caller(bmc, request, path)
    elif reads and bmc.milestones is not None and not (request.head.authorization or request.head.token):
        bmc.milestones.probe = request.moment.wall
    if request.head.odata_version and request.head.odata_version != b"4.0":
        raise RedfishError(412, "HeaderInvalid", "OData-Version")
    node = bmc.tree.nodes.get(path)
    if node is not None and reads:
        return _read(bmc, caller, request, node, None)
    response = _other(bmc, caller, request, method, path, node)
    if bmc.listens and not reads and not injection.is_own(path):
        # Streams end first: who may not read events any more is not told of that either.
        ended, told = events.ended_by_write(bmc), events.told_by_write(bmc, request, path, response)
        response.actions = (*ended, *response.actions, *told)
    return response


def _read(bmc: Bmc, caller: auth.Caller | None, request: Request, node: Node, item: Any) -> Response:
    if caller is not None:
        privileges.check(bmc, caller.account, request.method, node, item)
    if request.head.accept and not accepts(request.head.accept, b"application/json"):
        raise RedfishError(406, "HeaderInvalid", "Accept")
    etag, body = bmc.body(node).render(bmc, request.moment, item)
    head = node.head + b"ETag: " + etag + b"\r\n"
    if request.query:
        wanted = _wanted(bmc, request)
        if wanted != query.NOTHING:
            may_read = _readable(bmc, caller, request) if caller is not None else None
            return query_answer.answer(bmc, request, node, wanted, body, may_read)
    if request.head.if_match and not matches(request.head.if_match, etag, strong=True):
        raise RedfishError(412, "PreconditionFailed")
    if request.head.if_none_match and matches(request.head.if_none_match, etag, strong=False):
        return Response(304, head)
    return Response(200, head, body)


def _wanted(bmc: Bmc, request: Request) -> query.Query:
    return query.parse(request.query, bmc.shared.behaviour.query)


def _readable(bmc: Bmc, caller: auth.Caller, request: Request) -> MayRead | None:
    """What a caller could read with a GET of its own, None for everything."""
    account = caller.account
    must_change = account.must_change(bmc.wall(request.moment))
    if not must_change and privileges.reads_everything(bmc, account):
        return None

    def may_read(uri: str, node: Node, item: Any) -> bool:
        if must_change and not auth.may_read_before_change(bmc, account, uri):
            return False
        return privileges.allows(bmc, account, "GET", node, item)

    return may_read


def _other(
    bmc: Bmc, caller: auth.Caller | None, request: Request, method: str, path: str, node: Node | None
) -> Response:
    if injection.is_own(path):
        if caller is not None and method not in ("GET", "HEAD", "OPTIONS"):
            privileges.require(bmc, caller.account, "ConfigureManager")
        rules, response = injection.serve(bmc.state.faults, request)
        if rules is not bmc.state.faults:
            bmc.become(request.moment, faults=rules)
        return response
    if path == ipmi.PATH and caller is not None:
        return ipmi.serve(bmc, caller.account, request)
    if path and path == bmc.tree.event_stream and caller is not None:
        privileges.check(bmc, caller.account, "GET", bmc.tree.nodes[EVENT_SERVICE])
        return events.open_stream(bmc, caller.account, request)
    if node is None and (document := _document(bmc, request, path)) is not None:
        if caller is not None:
            privileges.require(bmc, caller.account, "Login")
        return document
    if (action := bmc.tree.actions.get(path)) is not None and (owner := bmc.tree.nodes.get(action.uri)) is not None:
        if (options := _options(method, b"POST")) is not None:
            return options
        _check_privileges(bmc, caller, request, owner, None)
        if action.lockdown:
            _check_lockdown(bmc)
        _check_write(request)
        writes.check_preconditions(bmc, owner, None, request)
        return actions.run(bmc, action, request)
    if node is None and (of_item := _action_of_item(bmc, request, path)) is not None:
        action, owner, item = of_item
        if (options := _options(method, b"POST")) is not None:
            return options
        _check_privileges(bmc, caller, request, owner, item)
        _check_write(request)
        writes.check_preconditions(bmc, owner, item, request)
        return actions.run(bmc, action, request)
    if (kind := bmc.tree.updates.uploads.get(path)) is not None and (node is None or method == "POST"):
        return _upload(bmc, caller, request, kind)
    if node is None and (task := tasks.monitored(bmc, path)) is not None:
        _check_privileges(bmc, caller, request, bmc.tree.items[tasks.TASKS], None)
        return tasks.monitor(bmc, task, request)
    item = None
    if node is None and method == "POST" and path.endswith("/Members"):
        node = bmc.tree.nodes.get(path.removesuffix("/Members"))
        if node is not None and not node.collection:
            node = None
    if node is None:
        node, item = _item(bmc, request, path)
    if method in ("GET", "HEAD"):
        return _read(bmc, caller, request, node, item)
    if method not in node.handlers and (options := _options(method, node.allow.encode())) is not None:
        return options
    _check_privileges(bmc, caller, request, node, item)
    if method in node.lockdown:
        _check_lockdown(bmc)
    _check_write(request)
    return writes.carry_out(bmc, caller.account if caller is not None else None, node, item, request)


def _options(method: str, allow: bytes) -> Response | None:
    """The answer to OPTIONS, None for a method of the list. allow: as in the Allow field. Raises RedfishError 405."""
    field = b"Allow: %b\r\n" % allow
    if method == "OPTIONS":
        return Response(204, EMPTY_HEAD + field)
    if method.encode() not in allow.split(b", "):
        raise RedfishError(405, "OperationNotAllowed", headers=field)
    return None


def _upload(bmc: Bmc, caller: auth.Caller | None, request: Request, kind: UploadKind) -> Response:
    if (options := _options(request.method, b"POST")) is not None:
        return options
    _check_privileges(bmc, caller, request, bmc.tree.nodes[bmc.tree.update_service], None)
    return updates.push(bmc, kind, request)


def _check_privileges(bmc: Bmc, caller: auth.Caller | None, request: Request, node: Node, item: Any) -> None:
    if caller is not None:
        privileges.check(bmc, caller.account, request.method, node, item, request.body)


def _item(bmc: Bmc, request: Request, path: str) -> tuple[Node, Any]:
    parent, _, id_ = path.rpartition("/")
    node = bmc.tree.items.get(parent)
    item = bmc.members(node, request.moment).get(id_) if node is not None else None
    if node is None or item is None or (node.items == "jobs" and availability.is_late(bmc, item, request.moment)):
        raise RedfishError(404, "ResourceMissingAtURI", path)
    return node, item


def _action_of_item(bmc: Bmc, request: Request, path: str) -> tuple[ActionFacts, Node, Any] | None:
    """The action of a member of a dynamic collection, with the member. Raises RedfishError 404 for no such member."""
    uri, separator, name = path.partition("/Actions/")
    action = bmc.tree.actions.get(f"{uri.rpartition('/')[0]}/*/Actions/{name}") if separator else None
    if action is None:
        return None
    node, item = _item(bmc, request, uri)
    return msgspec.structs.replace(action, uri=uri), node, item


def _document(bmc: Bmc, request: Request, path: str) -> Response | None:
    if path == "/redfish":
        media, head, body = b"application/json", JSON_HEAD, _VERSIONS
    elif path == _METADATA:
        media, head, body = b"application/xml", XML_HEAD, bmc.tree.metadata
    elif path == _SERVICE_DOCUMENT:
        media, head, body = b"application/json", JSON_HEAD, bmc.tree.service_document
    elif path == _OPENAPI:
        media, head, body = b"application/yaml", YAML_HEAD, bmc.tree.openapi
    elif (file := bmc.tree.files.get(path)) is not None:
        head = XML_HEAD if file.media == b"application/xml" else JSON_HEAD
        media, body = file.media, file.content
    else:
        return None
    if (options := _options(request.method, b"GET, HEAD")) is not None:
        return options
    if request.head.accept and not accepts(request.head.accept, media):
        raise RedfishError(406, "HeaderInvalid", "Accept")
    return Response(200, head + _READ_ONLY + VARY, body)


def _check_lockdown(bmc: Bmc) -> None:
    lock = bmc.shared.behaviour.lockdown
    if lock is not None and bmc.locked_down:
        raise patch.vendor_refusal(403, lock.message)


def _check_write(request: Request) -> None:
    if request.body and request.method != "DELETE":
        request.head.require_json()
    if request.query:
        for name in request.query.split("&"):
            if name.startswith(("$", "%24")):
                raise RedfishError(400, "QueryNotSupportedOnOperation")
