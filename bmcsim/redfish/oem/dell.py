"""What Dell adds: the attributes of an iDRAC, its job queue, a boot order that a job sets, system configurations."""

import html
import re
from typing import Any

from bmcsim.core.errors import RedfishError
from bmcsim.machine import jobs, staging
from bmcsim.machine.actions import Happening
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.state import Staged
from bmcsim.redfish import bios, boot, clock
from bmcsim.redfish.exchange import JSON_HEAD, Request, Response
from bmcsim.redfish.outcome import Given, Handler, NodeHandler, done, with_job
from bmcsim.redfish.patch import apply, json_object, properties_of, vendor_refusal, write, written
from bmcsim.tree import job_messages
from bmcsim.tree.compile import Action, Node

LOCKDOWN = "Lockdown.1.SystemLockdown"
_ZONE = "Time.1.Timezone"
_NTP_SERVERS = ("NTPConfigGroup.1.NTP1", "NTPConfigGroup.1.NTP2", "NTPConfigGroup.1.NTP3")
_NTP_ENABLED = "NTPConfigGroup.1.NTPEnable"

_BIOS_ATTRIBUTE = re.compile(r'<Attribute\s+Name="(Old|New)SetupPassword"\s*>([^<]*)</Attribute>')
_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)
"""One that does not end takes all the rest; else each of many such would be searched to the end of the text."""


# boot order


def _patch_system(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of the system or of its settings: a new boot order needs a job, everything else counts at once."""
    properties, order = boot.read(bmc, node, request)
    system = bmc.tree.head.roles.system
    if order is None or order == boot.order_of(bmc):
        write(bmc, bmc.tree.nodes[system], properties, request.moment)
        return written(bmc, node, request.moment) if order is None else Response(200, JSON_HEAD, b"{}")
    settings = bios.settings_for(bmc, system)
    facts = bios.settings_of(settings)
    bios.refuse_committed(bmc, facts)
    at = Happening.SYSTEM_RESET
    staged = [Staged("boot.order", at, system, {"Boot": {"BootOrder": order}}, settings.uri)]
    if bmc.shared.behaviour.boot_options_follow_order:
        staged.append(Staged("boot.options", at, f"{system}/BootOptions", boot.listed(bmc, order)))
    response = bios.commit(bmc, facts, request, *staged)
    if properties:
        write(bmc, bmc.tree.nodes[system], properties, request.moment)
    return response


# attributes


def _patch_attributes(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of the attributes, which count at once whatever apply time is asked for. Locked they only take the
    unlock."""
    properties = properties_of(json_object(request.body))
    attributes = properties.get("Attributes")
    given = attributes if isinstance(attributes, dict) else {}
    lock = bmc.shared.behaviour.lockdown
    if lock is not None and bmc.locked_down and given.get(LOCKDOWN) != "Disabled":
        raise vendor_refusal(403, lock.message)
    followed = bmc.follows_time_server
    apply(bmc, node, properties, request.moment)
    manager = bmc.tree.nodes[bmc.tree.head.roles.manager]
    if _ZONE in given:
        zone = {"TimeZoneName": given[_ZONE]}
        clock.set_clock(bmc, zone, request)
        bmc.change(manager, zone, request.moment)
    if given.keys() & {*_NTP_SERVERS, _NTP_ENABLED}:
        now = bmc.template(node)["Attributes"]
        servers = [now[name] for name in _NTP_SERVERS if now[name]]
        ntp = {"NTP": {"ProtocolEnabled": now[_NTP_ENABLED] == "Enabled", "NTPServers": servers}}
        bmc.change(_protocol(bmc), ntp, request.moment)
        clock.settle(bmc, followed, request)
    return written(bmc, node, request.moment)


def _patch_manager(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of the manager, whose time zone is an attribute too."""
    response = clock.patch_manager(bmc, node, request)
    zone = bmc.template(node)["TimeZoneName"]
    _set_attributes(bmc, {_ZONE: zone}, request)
    return response


def _patch_protocol(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of the network services, whose time servers are attributes too."""
    response = clock.patch_protocol(bmc, node, request)
    ntp = bmc.template(node)["NTP"]
    servers = dict(zip(_NTP_SERVERS, [*ntp["NTPServers"], "", "", ""], strict=False))
    enabled = "Enabled" if ntp["ProtocolEnabled"] else "Disabled"
    _set_attributes(bmc, {**servers, _NTP_ENABLED: enabled}, request)
    return response


def _set_attributes(bmc: Bmc, attributes: dict[str, Any], request: Request) -> None:
    for node in bmc.tree.nodes.values():
        if node.handlers.get("PATCH") == "dell_attributes":
            bmc.change(node, {"Attributes": attributes}, request.moment)


def _protocol(bmc: Bmc) -> Node:
    return bmc.tree.nodes[f"{bmc.tree.head.roles.manager}/NetworkProtocol"]


# jobs


def _create_job(bmc: Bmc, _node: Node, request: Request) -> Response:
    """POST to the job queue: a job for what waits in a settings resource."""
    body = json_object(request.body)
    target = body.get("TargetSettingsURI")
    if target is None:
        raise RedfishError(400, "PropertyMissing", "TargetSettingsURI", related="TargetSettingsURI")
    if not isinstance(target, str) or target.rstrip("/") not in bmc.tree.settings:
        related = "TargetSettingsURI"
        raise RedfishError(400, "PropertyValueError", "TargetSettingsURI", related=related)
    node = bmc.tree.nodes[target.rstrip("/")]
    facts = bios.settings_of(node)
    bios.refuse_committed(bmc, facts)
    staged = staging.held_by(bmc.state.staged, node.uri)
    if staged is None:
        raise vendor_refusal(400, job_messages.NOTHING_PENDING, "TargetSettingsURI")
    return bios.commit(bmc, facts, request, staged)


def delete_job(bmc: Bmc, job: Any, request: Request) -> Response:
    """DELETE of a job: what it would have carried out is dropped."""
    if job.state is jobs.JobState.RUNNING:
        raise vendor_refusal(400, job_messages.CANNOT_DELETE)
    return done(bmc.drop_jobs({job.id}, request.moment))


def _delete_queue(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    """DellJobService.DeleteJobQueue: one job, all that do not run, or really all."""
    wanted, moment = given["JobID"], request.moment
    queue = bmc.queue(moment)
    if wanted == "JID_CLEARALL_FORCE":
        return done(bmc.drop_jobs([job.id for job in queue], moment))
    if wanted == "JID_CLEARALL":
        return done(bmc.drop_jobs([job.id for job in queue if job.state is not jobs.JobState.RUNNING], moment))
    job = next((one for one in queue if one.id == wanted), None)
    if job is None:
        raise vendor_refusal(400, job_messages.NO_SUCH_JOB, "JobID")
    return delete_job(bmc, job, request)


def _clear_pending(bmc: Bmc, action: Action, _given: Given, request: Request) -> Response:
    """DellManager.ClearPending: what DELETE of the settings resource does elsewhere."""
    return bios.drop(bmc, bmc.tree.nodes[action.uri], request)


# system configurations


def _import(bmc: Bmc, _action: Action, given: Given, request: Request) -> Response:
    """ImportSystemConfiguration. The configuration is not interpreted but for one thing: a change of the setup password
    in XML, which clients use where Bios.ChangePassword fails. It waits for a reset of the system, as iDRAC's does."""
    text = _COMMENT.sub("", given.get("ImportBuffer", ""))
    passwords = {which: html.unescape(value) for which, value in _BIOS_ATTRIBUTE.findall(text)}
    name = "Import Configuration"
    if "New" not in passwords:
        job, effects = bios.create_job(bmc, "ImportConfiguration", name, request, seconds=bmc.shared.timings.job)
        return with_job(bmc.job_uri(job.id), effects, status=202)
    job, effects = bios.create_job(bmc, "ImportConfiguration", name, request)
    if bios.knows(bmc, "SetupPassword", passwords.get("Old", "")):
        digest = bmc.shared.hasher.digest(passwords["New"])
        change = Staged(
            f"import:{job.id}", Happening.SYSTEM_RESET, "", {}, job=job.id, passwords={"SetupPassword": digest}
        )
        bmc.become(request.moment, staged=staging.staging(bmc.state.staged, change))
    else:
        effects = [*effects, *bmc.end_job(job.id, request.moment, failed=True)]
    return with_job(bmc.job_uri(job.id), effects, status=202)


def _export(bmc: Bmc, _action: Action, _given: Given, request: Request) -> Response:
    """ExportSystemConfiguration: a job runs and completes; nothing is written anywhere."""
    job, effects = bios.create_job(
        bmc, "ExportConfiguration", "Export Configuration", request, seconds=bmc.shared.timings.job
    )
    return with_job(bmc.job_uri(job.id), effects, status=202)


ACTIONS: dict[str, Handler] = {
    "DellJobService.DeleteJobQueue": _delete_queue,
    "Oem.DellManager.ClearPending": _clear_pending,
    "Oem.EID_674_Manager.ExportSystemConfiguration": _export,
    "Oem.EID_674_Manager.ImportSystemConfiguration": _import,
}

NODES: dict[str, NodeHandler] = {
    "dell_attributes": _patch_attributes,
    "dell_job": _create_job,
    "dell_manager": _patch_manager,
    "dell_network_protocol": _patch_protocol,
    "dell_system": _patch_system,
}
