"""Roles as resources (DSP0266 13.2): the predefined ones are as they are, others come and go."""

from collections.abc import Sequence
from typing import Any

import msgspec

from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action
from bmcsim.machine.bmc import ROLES, Bmc
from bmcsim.machine.roles import Role
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response
from bmcsim.redfish.members import created, is_name
from bmcsim.redfish.messages import message
from bmcsim.redfish.patch import PatchRefused, json_object, problems_of, text_of, with_arrays, without_annotations
from bmcsim.tree.compile import Node

ROLE_LIMIT = 32
_ID_MARKS = "_-"
_ID_LENGTH = 64
_FACTS = {"AssignedPrivileges": "privileges", "OemPrivileges": "oem"}


def create(bmc: Bmc, node: Node, request: Request) -> Response:
    """POST to the roles."""
    properties = without_annotations(json_object(request.body))
    required = ("RoleId", "AssignedPrivileges")
    problems = [message("PropertyMissing", name, related=name) for name in required if name not in properties]
    id_ = properties.pop("RoleId", "x")
    if not isinstance(id_, str):
        problems.append(message("PropertyValueTypeError", text_of(id_), "RoleId", related="RoleId"))
    elif len(id_) > _ID_LENGTH or not is_name(id_, _ID_MARKS):
        problems.append(message("PropertyValueFormatError", id_[:64], "RoleId", related="RoleId"))
    elif id_ in bmc.roles:
        problems.append(message("ResourceAlreadyExists", "Role", "RoleId", id_, related="RoleId"))
    problems += problems_of(bmc.tree.items[node.uri], properties)
    if problems:
        raise PatchRefused(problems)
    properties = with_arrays(bmc.tree.items[node.uri], properties, {})
    if len(bmc.roles) >= ROLE_LIMIT:
        raise RedfishError(400, "CreateLimitReachedForResource")
    role = _with(Role(id_, ()), properties)
    bmc.become(request.moment, roles=(*bmc.state.roles, role))
    return created(bmc, node, role, request.moment)


def patch(bmc: Bmc, role: Role, properties: dict[str, Any], request: Request) -> Sequence[Action]:
    """PATCH of a role."""
    node = bmc.tree.items[ROLES]
    present = {name: list(getattr(role, fact)) for name, fact in _FACTS.items()}
    problems = list(problems_of(node, properties, present))
    if role.predefined and not problems:
        problems = [message("PropertyNotWritable", name, related=name) for name in properties]
    if problems:
        raise PatchRefused(problems)
    changed = _with(role, with_arrays(node, properties, present))
    roles = tuple([changed if one.id == role.id else one for one in bmc.state.roles])
    bmc.become(request.moment, roles=roles)
    return ()


def delete(bmc: Bmc, role: Role, request: Request) -> Response:
    """DELETE of a role."""
    if role.predefined:
        raise RedfishError(403, "ResourceCannotBeDeleted")
    if any(account.role == role.id for account in bmc.accounts.accounts):
        raise RedfishError(409, "ResourceInUse")
    bmc.become(request.moment, roles=tuple([one for one in bmc.state.roles if one.id != role.id]))
    return Response(204, EMPTY_HEAD)


def _with(role: Role, properties: dict[str, Any]) -> Role:
    """A role with privileges that were sent, each once."""
    facts = {_FACTS[name]: tuple(dict.fromkeys(value)) for name, value in properties.items()}
    return msgspec.structs.replace(role, **facts)
