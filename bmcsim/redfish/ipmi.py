"""POST /ipmi, machine-a-tron's interface for what NICo does over IPMI: three commands as JSON, each carried out as the
Redfish action that does the same. The answer is 200 whether or not that was possible, and its body says which.
"""

import msgspec
import orjson

from bmcsim.core.errors import RedfishError
from bmcsim.machine import power
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Account
from bmcsim.redfish import privileges
from bmcsim.redfish.exchange import EMPTY_HEAD, JSON_HEAD, Request, Response
from bmcsim.redfish.patch import json_object

PATH = "/ipmi"
_RESTARTS = frozenset({"chassis_power_reset", "dpu_legacy_boot"})
_COLD_RESET = "bmc_cold_reset"


class _Outcome(msgspec.Struct, omit_defaults=True):
    success: bool
    error: str | None = None


def serve(bmc: Bmc, account: Account, request: Request) -> Response:
    """Carry out a command. Raises RedfishError 400 for what is no JSON object, 403, and 405."""
    allow = b"Allow: POST\r\n"
    if request.method == "OPTIONS":
        return Response(204, EMPTY_HEAD + allow)
    if request.method != "POST":
        raise RedfishError(405, "OperationNotAllowed", headers=allow)
    request.head.require_json()
    action = json_object(request.body).get("action")
    if not isinstance(action, str):
        return _said(_Outcome(False, f"unknown action: {orjson.dumps(action).decode()[:64]}"))
    if action in _RESTARTS:
        privileges.require(bmc, account, "ConfigureComponents")
        try:
            actions = bmc.reset_system(power.Event.FORCE_RESTART, request.moment)
        except power.Refused as refused:
            return _said(_Outcome(False, f"power command failed: the system is {refused}"))
    elif action == _COLD_RESET:
        privileges.require(bmc, account, "ConfigureManager")
        actions = bmc.reset_bmc(request.moment)
    else:
        return _said(_Outcome(False, f"unknown action: {action[:64]}"))
    response = _said(_Outcome(True))
    response.actions = actions
    return response


def _said(outcome: _Outcome) -> Response:
    return Response(200, JSON_HEAD, msgspec.json.encode(outcome))
