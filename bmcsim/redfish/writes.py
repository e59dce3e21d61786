"""POST, PATCH, PUT and DELETE of resources (DSP0266 7.5 to 7.10): what is asked before, and who does it.

check_preconditions -> carry_out -> the handler that a profile names, or the facts of the resource
"""

from typing import Any

import msgspec
import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Account
from bmcsim.redfish import deep_patch, handlers, patch
from bmcsim.redfish.conditions import matches
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response
from bmcsim.redfish.patch import APPLY_TIME
from bmcsim.tree.compile import Node


def check_preconditions(bmc: Bmc, node: Node, item: Any, request: Request) -> None:
    """If-Match and If-None-Match of a write (DSP0266 6.5, RFC 9110 13.1); with an action they are about its resource,
    with a POST to a collection about the collection.

    Raises RedfishError 412 for one that does not hold, and 428 where this firmware demands one and there is none.
    """
    if_match, if_none_match = request.head.if_match, request.head.if_none_match
    behaviour = bmc.shared.behaviour
    if not (if_match or if_none_match):
        if request.method in behaviour.requires_precondition:
            raise RedfishError(428, "PreconditionRequired")
        return
    etag = bmc.body(node).render(bmc, request.moment, item)[0]
    if if_match and not matches(if_match, etag, strong=True, unquoted=behaviour.unquoted_if_match):
        raise RedfishError(412, "PreconditionFailed")
    unless = b"" if behaviour.writes_ignore_if_none_match else if_none_match
    if unless and matches(unless, etag, strong=False):
        raise RedfishError(412, "PreconditionFailed")


def carry_out(bmc: Bmc, account: Account | None, node: Node, item: Any, request: Request) -> Response:
    """Do what a request with a method that the resource has asks for. item: the member of a dynamic collection.

    account: of the caller, None for a login. Raises RedfishError or PatchRefused; then nothing has changed.
    """
    check_preconditions(bmc, node, item, request)
    _check_apply_time(bmc, node, request)
    if request.method == "PATCH" and account is not None:
        return _patch(bmc, account, node, item, request)
    return _run(bmc, node, item, request)


def _check_apply_time(bmc: Bmc, node: Node, request: Request) -> None:
    """Raises RedfishError 400 for an apply time (DSP0266 7.12) that the resource does not declare."""
    if APPLY_TIME.encode() not in request.body:
        return
    body = patch.json_object(request.body)
    if APPLY_TIME not in body:
        return
    support = bmc.template(node).get(f"{APPLY_TIME}Support")
    if support is None:
        raise RedfishError(400, "PropertyUnknown", APPLY_TIME, related=APPLY_TIME)
    wanted = body[APPLY_TIME]
    if not isinstance(wanted, str):
        raise RedfishError(400, "PropertyValueTypeError", patch.text_of(wanted), APPLY_TIME, related=APPLY_TIME)
    if wanted not in support["SupportedValues"]:
        raise RedfishError(400, "PropertyValueNotInList", wanted[:64], APPLY_TIME, related=APPLY_TIME)


def _patch(bmc: Bmc, account: Account, node: Node, item: Any, request: Request) -> Response:
    behaviour = bmc.shared.behaviour
    if node.ignores:
        body = patch.json_object(request.body)
        request = _with_body(request, {name: value for name, value in body.items() if name not in node.ignores})
    if behaviour.deep.patch:
        own, below = deep_patch.parts(bmc, account, node, item, request)
        if below:
            return _deep(bmc, node, item, request, own, below)
    return _mixed(bmc, node, item, request) if behaviour.mixed_patch == "apply" else _run(bmc, node, item, request)


def _mixed(bmc: Bmc, node: Node, item: Any, request: Request) -> Response:
    """A PATCH whose properties that can never be written are set aside: the others are written, and the answer says so
    at the ones that were not (DSP0266 7.6)."""
    body = patch.json_object(request.body)
    rest, refused = patch.never_writable(node, bmc.template(node), patch.without_annotations(body))
    if not (rest and refused):
        return _run(bmc, node, item, request)
    annotations = {name: value for name, value in body.items() if "@" in name}
    try:
        response = _run(bmc, node, item, _with_body(request, {**annotations, **rest}))
    except patch.PatchRefused as error:
        raise patch.PatchRefused([*refused, *error.messages][: patch.MAX_PROBLEMS], error.status) from error
    if item is not None and (item := bmc.members(node, request.moment).get(item.id)) is None:
        return response
    return patch.annotated(bmc, node, item, request.moment, response, refused[: patch.MAX_PROBLEMS])


def _deep(
    bmc: Bmc, node: Node, item: Any, request: Request, own: dict[str, Any], below: list[deep_patch.Part]
) -> Response:
    """A PATCH of several resources: all of them, or none."""
    saved = bmc.snapshot()
    effects: list[Action] = []
    try:
        if patch.without_annotations(own):
            effects += _run(bmc, node, item, _with_body(request, own)).actions
        for part in below:
            with deep_patch.at(part.path):
                effects += _run(bmc, part.node, part.item, _with_body(request, part.body)).actions
    except (RedfishError, patch.PatchRefused):
        bmc.forget(saved)
        raise
    if item is not None and (item := bmc.members(node, request.moment).get(item.id)) is None:
        return Response(204, EMPTY_HEAD, b"", effects)
    return patch.written(bmc, node, request.moment, item, effects)


def _with_body(request: Request, body: dict[str, Any]) -> Request:
    return msgspec.structs.replace(request, body=orjson.dumps(body))


def _run(bmc: Bmc, node: Node, item: Any, request: Request) -> Response:
    """The write itself."""
    method, kind = request.method, handlers.ITEMS.get(node.items, handlers.NO_ITEM)
    if method in node.handlers:
        return handlers.NODES[node.handlers[method]](bmc, node, request)
    if method == "POST" and kind.create is not None:
        return kind.create(bmc, node, request)
    if method == "DELETE" and kind.delete is not None:
        return kind.delete(bmc, item, request)
    properties = patch.properties_of(patch.json_object(request.body))
    if item is None or kind.patch is None:
        patch.apply(bmc, node, properties, request.moment)
        return patch.written(bmc, node, request.moment)
    effects = kind.patch(bmc, item, properties, request)
    item = bmc.members(node, request.moment).get(item.id)
    if item is None:
        return Response(204, EMPTY_HEAD, b"", effects)
    return patch.written(bmc, node, request.moment, item, effects)
