"""Settings of a system's firmware: they wait for the next boot (DSP0266 9.10), as do its passwords and its reset."""

import hmac
from collections.abc import Iterator
from typing import Any

import msgspec

from bmcsim.core.errors import RedfishError
from bmcsim.machine import jobs, staging
from bmcsim.machine.actions import Happening
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.state import Staged
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.messages import message
from bmcsim.redfish.outcome import Given, Handler, NodeHandler, done, with_job
from bmcsim.redfish.patch import (
    PatchRefused,
    attribute_problems,
    json_object,
    properties_of,
    some,
    text_of,
    vendor_refusal,
    written,
)
from bmcsim.tree.compile import Action, Node
from bmcsim.tree.profile import Settings
from bmcsim.tree.source import deep_merge

APPLY_TIME = "@Redfish.SettingsApplyTime"


def stage(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of a settings resource: its attributes wait for the next boot. Where firmware works with jobs, one carries
    them out if the client says when; else they wait until one is made for them."""
    facts = settings_of(node)
    refuse_committed(bmc, facts)
    body = json_object(request.body)
    apply_time = _apply_time(body, facts)
    attributes, passwords = _checked(bmc, node, properties_of(body))
    staged = held(bmc, node)
    staged = msgspec.structs.replace(
        staged,
        changes=deep_merge(staged.changes, {"Attributes": attributes} if attributes else {}),
        passwords={**staged.passwords, **passwords},
    )
    if facts.job and apply_time == "OnReset":
        return commit(bmc, facts, request, staged)
    bmc.become(request.moment, staged=staging.staging(bmc.state.staged, staged))
    if apply_time == "Immediate":
        bmc.carry_out(staged, request.moment)
    return written(bmc, node, request.moment)


def drop(bmc: Bmc, node: Node, request: Request) -> Response:
    """DELETE of a settings resource: nothing waits any more. What a job is to carry out goes with the job only."""
    facts = settings_of(node)
    refuse_committed(bmc, facts)
    left = tuple(
        [one for one in bmc.state.staged if one.settings != node.uri and not (one.revert and one.uri == facts.of)]
    )
    if left != bmc.state.staged:
        bmc.become(request.moment, staged=left)
    return done()


def settings_of(node: Node) -> Settings:
    """What a settings resource holds back. A profile that has none for the handler is a fault of the profile."""
    if node.settings is None:
        raise RedfishError(500, "InternalError")
    return node.settings


def refuse_committed(bmc: Bmc, facts: Settings) -> None:
    """Refuse to change what a job is about to carry out."""
    if facts.job and jobs.scheduled(bmc.state.jobs, facts.job) is not None:
        if facts.committed is not None:
            raise vendor_refusal(400, facts.committed)
        raise RedfishError(400, "ResourceInUse")


def held(bmc: Bmc, node: Node) -> Staged:
    """What a settings resource holds back, or the beginnings of it."""
    facts = settings_of(node)
    at = None if facts.job else Happening.SYSTEM_RESET
    return staging.held_by(bmc.state.staged, node.uri) or Staged(node.uri, at, facts.of, {}, node.uri)


def commit(bmc: Bmc, facts: Settings, request: Request, *staged: Staged) -> Response:
    """Make a job for what waits: the next reset of the system carries it out."""
    job, effects = create_job(bmc, facts.job, f"Configure: {facts.target}", request, target=staged[0].settings)
    waiting = bmc.state.staged
    for one in staged:
        committed = msgspec.structs.replace(one, at=Happening.SYSTEM_RESET, job=job.id)
        waiting = staging.staging(waiting, committed)
    bmc.become(request.moment, staged=waiting)
    return with_job(bmc.job_uri(job.id), effects)


def _apply_time(body: dict[str, Any], facts: Settings) -> str | None:
    """When a client wants its settings applied (DSP0266 9.10.1), None where it does not say."""
    if APPLY_TIME not in body:
        return None
    asked, related = body[APPLY_TIME], f"{APPLY_TIME}/ApplyTime"
    if not isinstance(asked, dict):
        raise RedfishError(400, "PropertyValueTypeError", text_of(asked), APPLY_TIME, related=APPLY_TIME)
    if "ApplyTime" not in asked:
        raise RedfishError(400, "PropertyMissing", "ApplyTime", related=related)
    wanted = asked["ApplyTime"]
    if not isinstance(wanted, str):
        raise RedfishError(400, "PropertyValueTypeError", text_of(wanted), "ApplyTime", related=related)
    if wanted not in facts.apply_times:
        raise RedfishError(400, "PropertyValueNotInList", wanted[:64], "ApplyTime", related=related)
    for name in asked:
        # Of a maintenance window a client speaks only with the times that need one.
        if "@" not in name and name != "ApplyTime":
            raise RedfishError(400, "PropertyUnknown", name, related=f"{APPLY_TIME}/{name}")
    return wanted


def _checked(bmc: Bmc, node: Node, properties: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Attributes as they will be, and digests of the passwords among them. Raises PatchRefused."""
    problems = some(
        message("PropertyNotWritable" if name in node.template else "PropertyUnknown", name, related=name)
        for name in properties
        if name != "Attributes"
    )
    attributes = properties.get("Attributes", {})
    if not isinstance(attributes, dict):
        raise PatchRefused([message("PropertyValueTypeError", "(not a table)", "Attributes", related="Attributes")])
    facts = settings_of(node)
    present = bmc.template(bmc.tree.nodes[facts.of])["Attributes"]
    problems += some(attribute_problems("Attributes", attributes, present, node.writable["Attributes"]))
    if not problems:
        problems += _password_problems(bmc, attributes, facts)
    if problems:
        raise PatchRefused(problems)
    by_patch = {name: one for name, one in facts.passwords.items() if one.current}
    digest = bmc.shared.hasher.digest
    passwords = {name: digest(attributes[name]) for name in by_patch if name in attributes}
    hidden = {*by_patch, *(one.current for one in by_patch.values())}
    return {name: value for name, value in attributes.items() if name not in hidden}, passwords


def _password_problems(bmc: Bmc, attributes: dict[str, Any], facts: Settings) -> Iterator[dict[str, Any]]:
    for name, one in facts.passwords.items():
        if not one.current or name not in attributes:
            continue
        if not knows(bmc, name, attributes.get(one.current, ""), one.factory):
            yield message("PropertyValueError", one.current, related=f"Attributes/{one.current}")
        if len(attributes[name]) > one.max_length:
            yield message("PropertyValueError", name, related=f"Attributes/{name}")


def knows(bmc: Bmc, name: str, current: str, factory: str = "") -> bool:
    """Whether somebody knows a password of the firmware. Compares in constant time."""
    digest = bmc.shared.hasher.digest
    return hmac.compare_digest(digest(current), bmc.state.passwords.get(name) or digest(factory))


def create_job(
    bmc: Bmc, type_: str, name: str, request: Request, *, target: str | None = None, seconds: float | None = None
) -> tuple[jobs.Job, list[Any]]:
    """A new job, and what that sets in motion. Raises RedfishError when the queue is full."""
    try:
        return bmc.create_job(type_, name, request.moment, target=target, seconds=seconds)
    except jobs.QueueFull as full:
        raise RedfishError(400, "CreateLimitReachedForResource") from full


def settings_for(bmc: Bmc, uri: str) -> Node:
    """The settings resource of a resource."""
    return next(bmc.tree.nodes[settings] for settings, facts in bmc.tree.settings.items() if facts.of == uri)


def _change_password(bmc: Bmc, action: Action, given: Given, request: Request) -> Response:
    """Bios.ChangePassword (DSP0268): it counts from the next boot on."""
    node = settings_for(bmc, action.uri)
    facts = settings_of(node)
    refuse_committed(bmc, facts)
    name = given["PasswordName"]
    password = facts.passwords.get(name)
    if password is None:
        raise RedfishError(
            400, "ActionParameterValueNotInList", name[:64], "PasswordName", action.name, related="PasswordName"
        )
    if not knows(bmc, name, given["OldPassword"], password.factory):
        if facts.wrong_password is not None:
            raise vendor_refusal(400, facts.wrong_password, "OldPassword")
        raise RedfishError(400, "ActionParameterValueError", "OldPassword", action.name, related="OldPassword")
    if len(given["NewPassword"]) > password.max_length:
        raise RedfishError(400, "ActionParameterValueError", "NewPassword", action.name, related="NewPassword")
    staged = held(bmc, node)
    passwords = {**staged.passwords, name: bmc.shared.hasher.digest(given["NewPassword"])}
    staged = msgspec.structs.replace(staged, passwords=passwords)
    bmc.become(request.moment, staged=staging.staging(bmc.state.staged, staged))
    return done()


def _reset_bios(bmc: Bmc, action: Action, _given: Given, request: Request) -> Response:
    """Bios.ResetBios (DSP0268): the next boot finds the attributes as they left the factory, whatever waited."""
    reset_attributes(bmc, action.uri, request)
    return done()


def reset_attributes(bmc: Bmc, uri: str, request: Request) -> None:
    """Have the next boot reset a Bios resource. Raises PatchRefused while a job is about to change it."""
    survivors = set(bmc.survivors(uri))
    kept = [one for one in bmc.state.staged if one.uri == uri and set(one.changes.get("Attributes", ())) & survivors]
    drop(bmc, settings_for(bmc, uri), request)
    waiting = staging.staging(bmc.state.staged, Staged(f"reset:{uri}", Happening.SYSTEM_RESET, uri, {}, revert=True))
    for one in kept:
        attributes = {name: value for name, value in one.changes["Attributes"].items() if name in survivors}
        changes = {"Attributes": attributes}
        waiting = staging.staging(waiting, msgspec.structs.replace(one, changes=changes, passwords={}))
    bmc.become(request.moment, staged=waiting)


ACTIONS: dict[str, Handler] = {
    "Bios.ChangePassword": _change_password,
    "Bios.ResetBios": _reset_bios,
}

NODES: dict[str, NodeHandler] = {
    "stage_settings": stage,
    "drop_settings": drop,
}
