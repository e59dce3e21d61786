"""Sessions as resources: created by a login, ended by DELETE (DSP0266 13.3.4)."""

from typing import Any

import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import ACCOUNTS, Bmc
from bmcsim.redfish import auth, privileges
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response
from bmcsim.redfish.members import created
from bmcsim.redfish.messages import errors_response, message, vendor_message
from bmcsim.redfish.patch import json_object
from bmcsim.tree.compile import Node


def create(bmc: Bmc, node: Node, request: Request) -> Response:
    """POST to the session collection (DSP0266 13.3.4.1): 201 with token, location and the session."""
    given = json_object(request.body)
    values = []
    for name in ("UserName", "Password"):
        if name not in given:
            raise RedfishError(400, "PropertyMissing", name, related=name)
        if not isinstance(given[name], str):
            raise RedfishError(400, "PropertyValueTypeError", "(hidden)", name, related=name)
        values.append(given[name])
    user, password = values
    account = auth.log_in(bmc, user, password, request.moment)
    privileges.check(bmc, account, "POST", node)
    if not _make_room(bmc, request):
        return _full(bmc)
    session = bmc.open_session(account, request.moment)
    response = created(bmc, node, session, request.moment)
    response.head += f"X-Auth-Token: {session.token}\r\n".encode()
    if account.must_change(bmc.wall(request.moment)):
        hint = message("PasswordChangeRequired", f"{ACCOUNTS}/{account.id}")
        response.body = orjson.dumps({**orjson.loads(response.body), "@Message.ExtendedInfo": [hint]})
    return response


def _make_room(bmc: Bmc, request: Request) -> bool:
    """Whether there may be one more session; where the oldest makes room, it ends."""
    behaviour = bmc.shared.behaviour
    live = list(bmc.live_sessions(request.moment))
    if len(live) < behaviour.session_limit:
        return True
    if behaviour.session_full == "drop_oldest":
        bmc.close_session(live[0])
        return True
    return False


def _full(bmc: Bmc) -> Response:
    vendor = bmc.shared.behaviour.session_full_message
    return errors_response(503, [message("SessionLimitExceeded"), *([vendor_message(vendor)] if vendor else [])])


def delete(bmc: Bmc, session: Any, _request: Request) -> Response:
    """DELETE of a session: logout."""
    bmc.close_session(session.id)
    return Response(204, EMPTY_HEAD)
