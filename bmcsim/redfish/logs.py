"""Logs: LogService.ClearLog (DSP0268)."""

from bmcsim.core.errors import RedfishError
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.conditions import matches
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.outcome import Given, Handler, done
from bmcsim.tree.compile import Action


def _clear(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    """LogEntriesETag is the entity tag of the entries as the client knows them; if more came since, none is lost."""
    entries = bmc.tree.nodes[bmc.tree.nodes[action.uri].template["Entries"]["@odata.id"]]
    if "LogEntriesETag" in given:
        etag = bmc.body(entries).render(bmc, request.moment)[0]
        if not matches(given["LogEntriesETag"].encode(), etag, strong=True):
            raise RedfishError(428, "PreconditionRequired", related="LogEntriesETag")
    return done(bmc.clear_log(entries.uri, request.moment))


ACTIONS: dict[str, Handler] = {"LogService.ClearLog": _clear}
