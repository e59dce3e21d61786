"""What fills the holes of a tree: every name that a profile may write as ${name}.

docs/profiles.md lists them. Identity never changes while a BMC lives, so it does not count for the entity tag; clocks
move by themselves and do not count either; state and readings do.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from bmcsim.core.clock import Moment
from bmcsim.machine import addressing, certificates, clock, firmware, power, sensors, staging
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.credentials import Account
from bmcsim.machine.event_view import Shown as ShownDestination
from bmcsim.machine.identity import Identity, Place, mac_colons, mac_hex
from bmcsim.machine.jobs import Job
from bmcsim.machine.resources import timestamp
from bmcsim.machine.roles import Role
from bmcsim.machine.sessions import Session
from bmcsim.machine.state import LogRecord
from bmcsim.machine.task_view import Shown as ShownTask
from bmcsim.tree.compile import EMBEDDED
from bmcsim.tree.profile import Behaviour
from bmcsim.tree.template import Binding, Hole, HoleFunction, Reading, TemplateError

_MAC_FILTERS: dict[str, Callable[[int], str]] = {
    "": mac_colons,
    "plain": mac_hex,
    "lower": lambda mac: mac_colons(mac).lower(),
    "plain_lower": lambda mac: mac_hex(mac).lower(),
    "image": lambda mac: re.sub(r"^(.{4})(.{2})(.{2})(.{4})$", r"\1:\g<2>00:00\3:\4", mac_hex(mac).lower()),
}

_MACS: dict[str, Callable[[Identity], int]] = {
    "bmc.mac": lambda identity: identity.bmc_mac,
    "host.mac": lambda identity: identity.host_mac,
    "oob.mac": lambda identity: identity.oob_mac,
}

_STATES: dict[str, Callable[[Bmc], Any]] = {
    "bmc.address": lambda bmc: bmc.address,
    "bmc.gateway": addressing.gateway,
    "bmc.gateway6": addressing.gateway6,
    "bmc.ipv4": addressing.ipv4,
    "bmc.ipv6": addressing.ipv6,
    "bmc.mtu": addressing.mtu,
    "bmc.name_servers": addressing.name_servers,
    "bmc.netmask": addressing.netmask,
    "bmc.slaac": lambda bmc: bmc.shared.network.slaac is not None,
    "power.state": lambda bmc: bmc.power.shown,
    "power.on": lambda bmc: not bmc.power.dead,
    "power.chassis": lambda bmc: "Off" if bmc.power.dead else "On",
    "power.status": lambda bmc: "Disabled" if bmc.power.dead else "Enabled",
    "time.offset": lambda bmc: clock.offset_text(bmc.state.clock_offset),
    "certificates": lambda bmc: [{"@odata.id": one.uri} for one in bmc.all_certificates()],
    "certificates.count": lambda bmc: len(bmc.all_certificates()),
}


def _null(_bmc: Bmc, _moment: Moment, _item: Any) -> bytes:
    return b"null"


def _links(origin: str) -> bytes:
    return orjson.dumps({"OriginOfCondition": {"@odata.id": origin}} if origin else {})


def _time(attribute: str, bmc: Bmc, item: Any) -> bytes:
    wall = getattr(item, attribute)
    return b"null" if wall is None else timestamp(wall, bmc.state.clock_offset)


def _local(attribute: str) -> HoleFunction:
    """A time as iDRAC writes those of its jobs: local, without offset."""
    return lambda bmc, _moment, item: re.sub(rb"[+-]\d\d:\d\d\"$", b'"', _time(attribute, bmc, item))


def _of_certificate(fact: str) -> HoleFunction:
    return lambda bmc, moment, item: orjson.dumps(getattr(certificates.shown(bmc.certificate_text(item, moment)), fact))


def _valid(fact: str) -> HoleFunction:
    return lambda bmc, moment, item: timestamp(getattr(certificates.shown(bmc.certificate_text(item, moment)), fact))


_ITEM_HOLES: dict[str, HoleFunction] = {
    **{fact: _of_certificate(fact) for fact in certificates.Shown.__struct_fields__},
    "valid_from": _valid("valid_from"),
    "valid_until": _valid("valid_until"),
    "certificate": lambda bmc, moment, item: orjson.dumps(bmc.certificate_text(item, moment)),
    "began": lambda bmc, _moment, item: _time("began", bmc, item),
    "created": lambda _bmc, _moment, item: timestamp(item.created),
    "created_local": _local("created"),
    "ended": lambda bmc, _moment, item: _time("ended", bmc, item),
    "ended_local": _local("ended"),
    "expiration": lambda _bmc, _moment, item: b"null" if item.expiration is None else timestamp(item.expiration),
    "finished": lambda bmc, _moment, item: b"" if item.finished is None else _time("finished", bmc, item),
    "links": lambda _bmc, _moment, item: _links(item.origin),
    "locked": lambda bmc, moment, item: orjson.dumps(bmc.locked(item.id, moment)),
    "message_id": lambda _bmc, _moment, item: orjson.dumps(item.message_id),
    "percent": lambda _bmc, _moment, item: b"%d" % item.percent,
    "standard_state": lambda _bmc, _moment, item: orjson.dumps(item.standard_state),
    "started": lambda bmc, _moment, item: _time("started", bmc, item),
    "started_local": _local("started"),
    "status": lambda _bmc, _moment, item: orjson.dumps(item.status),
    "password_change_required": lambda bmc, moment, item: orjson.dumps(item.must_change(bmc.wall(moment))),
}

_ITEM_FACTS = frozenset(
    {
        *Account.__struct_fields__,
        *Session.__struct_fields__,
        *LogRecord.__struct_fields__,
        *Job.__struct_fields__,
        *Role.__struct_fields__,
        *ShownTask.__struct_fields__,
        *ShownDestination.__struct_fields__,
        *_ITEM_HOLES,
    }
    - {"digest", "factory", "history", "previous", "token", "last_use"}
)
_BEHAVIOUR = "behaviour."
_FREE_SLOT, _FREE_TRAY = 24, 14


def bind(hole: Hole) -> Binding:
    """Give a hole its function. Raises TemplateError for an unknown name or filter."""
    name, filter_ = hole.name, hole.filter
    if hole.reading is not None:
        return _bind_reading(hole, hole.reading)
    if filter_ and not name.endswith((".mac",)) and not name.startswith("hw."):
        raise TemplateError(f"${{{name}}} takes no filter")
    if name in _STATES:
        return Binding(_encoded(_STATES[name]), volatile=True)
    if name in ("bmc.host_name", "bmc.fqdn"):
        return Binding(addressing.host_name if name == "bmc.host_name" else addressing.fqdn, volatile=True)
    if name == "bmc.last_reset":
        return Binding(lambda bmc, _moment, _item: timestamp(bmc.state.bmc_started), volatile=True)
    if name == "power.last_reset":
        return Binding(lambda bmc, _moment, _item: timestamp(bmc.state.system_started), volatile=True)
    if name == "power.boot_progress":
        return Binding(_boot_progress, volatile=True)
    if name == "time.now":
        return Binding(_now, volatile=True, counts=False)
    if name == "item.password":
        return Binding(_null, volatile=True, hidden=lambda _bmc, _moment, item: item.digest)
    if name.startswith("item."):
        if name.removeprefix("item.") not in _ITEM_FACTS:
            raise TemplateError(f"there is no hole ${{{name}}}")
        return Binding(_item(name.removeprefix("item.")), volatile=True, optional=name == "item.finished")
    if name.startswith("firmware."):
        return Binding(_firmware(name), volatile=True)
    if name.startswith(_BEHAVIOUR) and (fact := name.removeprefix(_BEHAVIOUR)) in Behaviour.__struct_fields__:
        return Binding(_encoded(lambda bmc: msgspec.to_builtins(getattr(bmc.shared.behaviour, fact))))
    if name == "rack.location":
        return Binding(_location, optional=True)
    if name.startswith("rack."):
        if (fact := name.removeprefix("rack.")) not in _RACK_FACTS:
            raise TemplateError(f"there is no hole ${{{name}}}; of a rack there are location, {', '.join(_RACK_FACTS)}")
        return Binding(_encoded(lambda bmc: _RACK_FACTS[fact](_place(bmc))))
    kind, _, uri = name.partition(":")
    if kind == "pending":
        return Binding(_pending(*uri.split("#")), volatile=True)
    if kind == "value":
        return Binding(_value(*uri.split("#")), volatile=True)
    if kind == "pending.reset":
        return Binding(_encoded(lambda bmc: staging.is_reset(bmc.state.staged, uri)), volatile=True)
    if kind == "members":
        return Binding(_members(uri), volatile=True)
    if kind == "count":
        return Binding(lambda bmc, moment, _: b"%d" % len(bmc.members(bmc.tree.nodes[uri], moment)), volatile=True)
    return Binding(_identity(_identity_text(name, filter_)))


_RACK_FACTS: dict[str, Callable[[Place], Any]] = {
    "domain": lambda place: place.domain,
    "id": lambda place: place.rack,
    "serial": lambda place: place.serial,
    "slot": lambda place: place.position,
    "tray": lambda place: place.index,
}


def _place(bmc: Bmc) -> Place:
    """Where a machine is; one that stands free is in a rack of its own."""
    return bmc.identity.place or Place(bmc.identity.serial, _FREE_SLOT, _FREE_TRAY)


def _location(bmc: Bmc, _moment: Moment, _item: Any) -> bytes:
    """Location (DSP0268) of what is in a rack."""
    place = bmc.identity.place
    if place is None:
        return b""
    units = {"Rack": place.rack, "RackOffset": place.position, "RackOffsetUnits": "EIA_310"}
    return orjson.dumps({"Placement": units})


def _firmware(name: str) -> HoleFunction:
    """firmware.COMPONENT.version, firmware.COMPONENT.id"""
    match name.split("."):
        case [_, component, "version"]:
            return _encoded(lambda bmc: bmc.version(component))
        case [_, component, "id"]:
            return _encoded(lambda bmc: firmware.item_id(bmc.tree.components, bmc.state.firmware, component))
    raise TemplateError(f"there is no hole ${{{name}}}")


def _identity_text(name: str, filter_: str) -> Callable[[Identity], str]:
    if name == "serial":
        return lambda identity: identity.serial
    if name.startswith("uuid."):
        purpose = name.removeprefix("uuid.")
        return lambda identity: identity.uuid(purpose)
    if filter_ not in _MAC_FILTERS:
        raise TemplateError(f"no filter {filter_!r}; there are {', '.join(sorted(_MAC_FILTERS)[1:])}")
    form = _MAC_FILTERS[filter_]
    if (match := re.fullmatch(r"hw\.mac(\d+)", name)) is not None:
        offset = int(match[1])
        return lambda identity: form(identity.hw_base + offset)
    if (match := re.fullmatch(r"dpu(\d+)\.(.+)", name)) is not None:
        index = int(match[1]) - 1
        if match[2] == "serial":
            return lambda identity: identity.dpus[index].serial
        if match[2] in _MACS:
            mac_of_dpu = _MACS[match[2]]
            return lambda identity: form(mac_of_dpu(identity.dpus[index]))
    if name in _MACS:
        mac = _MACS[name]
        return lambda identity: form(mac(identity))
    raise TemplateError(f"there is no hole ${{{name}}}")


def _identity(text: Callable[[Identity], str]) -> HoleFunction:
    return lambda bmc, _moment, _item: b'"%s"' % text(bmc.identity).encode()


def _encoded(value: Callable[[Bmc], Any]) -> HoleFunction:
    return lambda bmc, _moment, _item: orjson.dumps(value(bmc))


def _item(attribute: str) -> HoleFunction:
    special = _ITEM_HOLES.get(attribute)
    return special or (lambda _bmc, _moment, item: orjson.dumps(getattr(item, attribute)))


def _members(uri: str) -> HoleFunction:
    def members(bmc: Bmc, moment: Moment, _item: Any) -> bytes:
        things = bmc.members(bmc.tree.nodes[uri], moment)
        if bmc.tree.nodes[uri].items in EMBEDDED:
            body = bmc.body(bmc.tree.items[uri])
            return b"[%b]" % b",".join([body.render(bmc, moment, thing)[1] for thing in things.values()])
        return orjson.dumps([{"@odata.id": f"{uri}/{id_}"} for id_ in things])

    return members


def _pending(uri: str, path: str) -> HoleFunction:
    """What a property will be: of a table what waits of it, of anything else what it is where nothing waits."""

    def pending(bmc: Bmc, _moment: Moment, _item: Any) -> bytes:
        value = staging.pending(bmc.state.staged, uri, path)
        if value is None:
            present = _present(bmc, uri, path)
            value = {} if isinstance(present, dict) else present
        return orjson.dumps(value)

    return pending


def _value(uri: str, path: str) -> HoleFunction:
    return lambda bmc, _moment, _item: orjson.dumps(_present(bmc, uri, path))


def _present(bmc: Bmc, uri: str, path: str) -> Any:
    """What a property of a resource is. path: with dots."""
    value: Any = bmc.template(bmc.tree.nodes[uri])
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _boot_progress(bmc: Bmc, moment: Moment, _item: Any) -> bytes:
    progress = power.boot_progress(bmc.power, bmc.remaining(power.TIMER, moment), bmc.shared.timings)
    return b'"%b"' % progress.encode()


def _now(bmc: Bmc, moment: Moment, _item: Any) -> bytes:
    return timestamp(bmc.wall(moment), bmc.state.clock_offset)


def _bind_reading(hole: Hole, reading: Reading) -> Binding:
    form = sensors.FORMS.get((hole.name, hole.filter))
    if form is None:
        raise TemplateError(
            f"a reading has no form ${{{hole.name}|{hole.filter}}}; "
            "there are reading, |text, reading.state and reading.status"
        )
    return Binding(form(reading), volatile=True)
