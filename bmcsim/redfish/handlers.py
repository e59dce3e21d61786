"""What runs a write that is more than a change of properties: by kind of member, and by the name that a profile gives.

A resource of a profile names handlers by method: `handlers: {PATCH: stage_settings}`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish import (
    accounts,
    bios,
    boot,
    certificates,
    clock,
    interfaces,
    media,
    replace,
    roles,
    sessions,
    subscriptions,
    tasks,
)
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.oem import dell
from bmcsim.redfish.outcome import NodeHandler
from bmcsim.tree.compile import Node


class ItemHandlers(NamedTuple):
    """Writes to a dynamic collection and its members. All raise RedfishError or PatchRefused.

    create: (bmc, collection, request) -> answer to POST. delete: (bmc, member, request) -> answer.
    patch: (bmc, member, properties, request) -> what it sets in motion.
    """

    create: Callable[[Bmc, Node, Request], Response] | None = None
    patch: Callable[[Bmc, Any, dict[str, Any], Request], Sequence[Action]] | None = None
    delete: Callable[[Bmc, Any, Request], Response] | None = None


NO_ITEM = ItemHandlers()
"""Of a resource that is no member of a dynamic collection."""

ITEMS: dict[str, ItemHandlers] = {
    "accounts": ItemHandlers(accounts.create, accounts.patch, accounts.delete),
    "jobs": ItemHandlers(delete=dell.delete_job),
    "roles": ItemHandlers(roles.create, roles.patch, roles.delete),
    "sessions": ItemHandlers(create=sessions.create, delete=sessions.delete),
    "subscriptions": ItemHandlers(subscriptions.create, subscriptions.patch, subscriptions.delete),
    "tasks": ItemHandlers(delete=tasks.delete),
}
"""What a dynamic collection holds -> its writes."""

NODES: dict[str, NodeHandler] = {
    **bios.NODES,
    **boot.NODES,
    **certificates.NODES,
    **clock.NODES,
    **interfaces.NODES,
    **media.NODES,
    **replace.NODES,
    **dell.NODES,
}
"""Name in a profile -> what runs the method. `profile check` refuses a name that is not here."""
