"""Accounts as resources (DSP0266 13.2). No password is ever shown, not even a wrong one in a message."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.actions import Action, DropSessions, Happened, Happening
from bmcsim.machine.bmc import ACCOUNTS, Bmc
from bmcsim.machine.credentials import Account, as_shipped
from bmcsim.redfish.exchange import EMPTY_HEAD, Request, Response
from bmcsim.redfish.members import created, is_name
from bmcsim.redfish.messages import message
from bmcsim.redfish.patch import MAX_ITEMS, PatchRefused, json_object, problems_of, text_of, without_annotations
from bmcsim.tree.compile import Node

ACCOUNT_TYPES = (
    "Redfish", "SNMP", "OEM", "HostConsole", "ManagerConsole", "IPMI", "KVMIP", "VirtualMedia", "WebUI", "ControlPanel",
)  # fmt: skip

_REQUIRED = ("UserName", "Password", "RoleId")
_FACTS = {"UserName": "user", "RoleId": "role", "Enabled": "enabled", "PasswordChangeRequired": "change_required"}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)

Messages = Iterator[dict[str, Any]]


def create(bmc: Bmc, node: Node, request: Request) -> Response:
    """POST to the accounts."""
    properties, moment, behaviour = without_annotations(json_object(request.body)), request.moment, bmc.shared.behaviour
    problems = [message("PropertyMissing", name, related=name) for name in _REQUIRED if name not in properties]
    types = properties.pop("AccountTypes", ["Redfish"])
    problems += [*_type_problems(types), *_problems(bmc, None, properties)]
    if problems:
        raise PatchRefused(problems)
    if len(bmc.accounts.accounts) >= behaviour.account_limit:
        raise RedfishError(400, "CreateLimitReachedForResource")
    user, password, role = (properties[name] for name in _REQUIRED)
    id_ = user if behaviour.account_ids == "name" else bmc.accounts.free_id()
    digest, expiration = bmc.shared.hasher.digest(password), bmc.next_expiration(moment)
    new = Account(id_, user, role, digest, b"", expiration=expiration, types=tuple(dict.fromkeys(types)))
    # What is left of a deleted account of the same id must not become the new one's.
    account = bmc.unlocked(_with_facts(new, properties))
    bmc.drop_sessions(DropSessions(id_))
    bmc.become(moment, accounts=bmc.accounts.adding(account))
    response = created(bmc, node, account, moment)
    response.actions = _told(bmc, moment, Happened(Happening.ACCOUNT_CHANGED, f"{ACCOUNTS}/{id_}"))
    return response


def patch(bmc: Bmc, account: Account, properties: dict[str, Any], request: Request) -> list[Action]:
    """PATCH of an account."""
    problems = list(_problems(bmc, account, properties))
    if problems:
        raise PatchRefused(problems)
    changed = account
    if "Password" in properties:
        changed = bmc.with_password(account, properties["Password"], request.moment)
    changed = _with_facts(changed, properties)
    if "UserName" in properties and bmc.shared.behaviour.account_ids == "name":
        changed = msgspec.structs.replace(changed, id=changed.user)
    problems = list(_conflicts(bmc, account, changed, properties))
    if problems:
        raise PatchRefused(problems)
    if properties.get("Locked") is False or changed.id != account.id:
        changed = bmc.unlocked(changed)
    if changed.id != account.id:
        bmc.become(request.moment, subscriptions=bmc.with_owner(account.id, changed.id))
    if changed != account:
        bmc.become(request.moment, accounts=bmc.accounts.replacing(changed, account.id))
    if changed.digest != account.digest:
        bmc.reached("rotation", request.moment)
    return _told(bmc, request.moment, *_effects(bmc, account, changed, properties, request))


def to_factory(bmc: Bmc, account: Account, moment: Moment) -> list[Action]:
    """An account has its factory password again, which ends its sessions. No client can do that to one alone."""
    bmc.become(moment, accounts=bmc.accounts.replacing(as_shipped(account)))
    changed = Happened(Happening.PASSWORD_CHANGED, f"{ACCOUNTS}/{account.id}")
    return _told(bmc, moment, DropSessions(account.id), changed)


def delete(bmc: Bmc, account: Account, request: Request) -> Response:
    """DELETE of an account."""
    left = bmc.accounts.removing(account.id)
    if bmc.accounts.administered and not left.administered:
        raise RedfishError(403, "ResourceCannotBeDeleted")
    bmc.become(request.moment, accounts=left, subscriptions=bmc.with_owner(account.id))
    # The account itself is gone: a link to it in a log would lead nowhere.
    happened = Happened(Happening.ACCOUNT_CHANGED, ACCOUNTS)
    return Response(204, EMPTY_HEAD, b"", _told(bmc, request.moment, DropSessions(account.id), happened))


def _with_facts(account: Account, properties: dict[str, Any]) -> Account:
    """An account with everything that properties say but its password."""
    facts = {_FACTS[name]: value for name, value in properties.items() if name in _FACTS}
    if "PasswordExpiration" in properties:
        facts["expiration"] = _seconds(properties["PasswordExpiration"])
    return msgspec.structs.replace(account, **facts)


def _effects(
    bmc: Bmc, before: Account, after: Account, properties: dict[str, Any], request: Request
) -> Iterator[Action]:
    uri = f"{ACCOUNTS}/{after.id}"
    if not after.usable or after.id != before.id:
        yield DropSessions(before.id)
    if after.digest != before.digest:
        if bmc.shared.behaviour.password_change_ends_sessions:
            own = bmc.sessions.find(request.head.token.decode("latin-1")) if bmc.sessions is not None else None
            yield DropSessions(before.id, own.id if own is not None else "")
        yield Happened(Happening.PASSWORD_CHANGED, uri)
    if properties.keys() - {"Password"}:
        yield Happened(Happening.ACCOUNT_CHANGED, uri)


def _told(bmc: Bmc, moment: Moment, *actions: Action) -> list[Action]:
    """Actions, and what follows from them inside of the BMC."""
    more = [effect for one in actions if isinstance(one, Happened) for effect in bmc.react(one, moment)]
    return [*actions, *more]


# what is wrong


def _problems(bmc: Bmc, account: Account | None, properties: dict[str, Any]) -> Messages:
    """What is wrong with properties, each seen by itself. account: None for one that is not there yet."""
    others = {name: value for name, value in properties.items() if name != "Password"}
    yield from problems_of(bmc.tree.items[ACCOUNTS], others)
    if "Password" in properties:
        yield from _password_problems(bmc, account, properties["Password"])
    if isinstance(user := properties.get("UserName"), str):
        yield from _user_problems(bmc, account, user)
    if isinstance(role := properties.get("RoleId"), str) and role not in bmc.roles:
        yield message("PropertyValueNotInList", role[:64], "RoleId", related="RoleId")
    if properties.get("Locked") is True:
        yield message("PropertyValueNotInList", "true", "Locked", related="Locked")
    if isinstance(date := properties.get("PasswordExpiration"), str) and _seconds(date) is None:
        yield message("PropertyValueFormatError", date[:64], "PasswordExpiration", related="PasswordExpiration")


def _password_problems(bmc: Bmc, account: Account | None, password: Any) -> Messages:
    behaviour = bmc.shared.behaviour
    if not isinstance(password, str):
        yield message("PropertyValueTypeError", "(hidden)", "Password", related="Password")
    elif not behaviour.password_min <= len(password) <= behaviour.password_max:
        yield message("PasswordIncorrectLength", related="Password")
    elif account is not None and behaviour.password_history and account.had(bmc.shared.hasher.digest(password)):
        yield message("PasswordReuseTooRecent", related="Password")


def _user_problems(bmc: Bmc, account: Account | None, user: str) -> Messages:
    behaviour = bmc.shared.behaviour
    other = bmc.accounts.of_user(user)
    if len(user) > behaviour.user_name_max:
        yield message("StringValueTooLong", user[:64], str(behaviour.user_name_max), related="UserName")
    elif not is_name(user, behaviour.user_name_marks):
        yield message("PropertyValueFormatError", user, "UserName", related="UserName")
    elif other is not None and (account is None or other.id != account.id):
        yield message("ResourceAlreadyExists", "ManagerAccount", "UserName", user, related="UserName")


def _type_problems(types: Any) -> Messages:
    if not isinstance(types, list) or not 0 < len(types) <= MAX_ITEMS:
        yield message("PropertyValueTypeError", text_of(types), "AccountTypes", related="AccountTypes")
        return
    for one in types:
        if one not in ACCOUNT_TYPES:
            yield message("PropertyValueNotInList", text_of(one)[:64], "AccountTypes", related="AccountTypes")


def _conflicts(bmc: Bmc, before: Account, after: Account, properties: dict[str, Any]) -> Messages:
    """What is wrong with a change because of what else there is."""
    if properties.get("PasswordChangeRequired") is False and after.on_factory_password:
        yield message("PropertyValueConflict", "PasswordChangeRequired", "Password", related="PasswordChangeRequired")
    if bmc.accounts.administered and not bmc.accounts.replacing(after, before.id).administered:
        name = "Enabled" if not after.enabled else "RoleId"
        uri = f"{ACCOUNTS}/{before.id}"
        yield message("PropertyValueResourceConflict", name, text_of(properties[name]), uri, related=name)


def _seconds(date: str | None) -> float | None:
    """Seconds since the epoch of a DSP0266 9.4.4 date-time, None for one that is not right or not after 1970."""
    if date is None or not _DATE_TIME.fullmatch(date):
        return None
    try:
        seconds = datetime.fromisoformat(date).timestamp()
    except ValueError:
        return None
    return seconds if 0 <= seconds < _YEAR_9999 else None


_YEAR_9999 = datetime.fromisoformat("9999-01-01T00:00:00+00:00").timestamp()
