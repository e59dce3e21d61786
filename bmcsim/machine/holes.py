"""What fills the holes of a tree: every name that a profile may write as ${name}.

docs/profiles.md lists them. Identity never changes while a BMC lives, so it does not count for the entity tag; clocks
move by themselves and do not count either; state and readings do.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

from bmcsim.core.clock import Moment
from bmcsim.machine.bmc import Bmc, timestamp
from bmcsim.machine.credentials import Account
from bmcsim.machine.identity import Identity, mac_colons, mac_hex
from bmcsim.machine.power import Power
from bmcsim.machine.sessions import Session
from bmcsim.tree.compile import ITEMS
from bmcsim.tree.template import Binding, Hole, HoleFunction, Reading, TemplateError

_DEAD_STATES = frozenset({Power.OFF, Power.CYCLING})

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
    "bmc.gateway": lambda bmc: bmc.shared.network.gateway,
    "bmc.netmask": lambda bmc: bmc.shared.network.netmask,
    "power.state": lambda bmc: bmc.power.shown,
    "power.chassis": lambda bmc: "Off" if bmc.power in _DEAD_STATES else "On",
    "power.boot_progress": lambda bmc: bmc.power.boot_progress,
    "power.status": lambda bmc: "Disabled" if bmc.power in _DEAD_STATES else "Enabled",
}


_ITEM_FACTS = frozenset(
    {*Account.__struct_fields__, *Session.__struct_fields__, "password_change_required"}
    - {"digest", "factory", "token", "last_use"}
)


def bind(hole: Hole) -> Binding:
    """Give a hole its function. Raises TemplateError for an unknown name or filter."""
    name, filter_ = hole.name, hole.filter
    if hole.reading is not None:
        return _bind_reading(hole, hole.reading)
    if filter_ and not name.endswith((".mac",)) and not name.startswith("hw."):
        raise TemplateError(f"${{{name}}} takes no filter")
    if name in _STATES:
        return Binding(_encoded(_STATES[name]), volatile=True)
    if name == "bmc.last_reset":
        return Binding(lambda bmc, _moment, _item: bmc.bmc_started, volatile=True)
    if name == "power.last_reset":
        return Binding(lambda bmc, _moment, _item: bmc.system_started, volatile=True)
    if name == "time.now":
        return Binding(_now, volatile=True, counts=False)
    kind, _, rest = name.partition(".")
    if (kind == "item" and rest not in _ITEM_FACTS) or (kind in ("members", "count") and rest not in ITEMS):
        raise TemplateError(f"there is no hole ${{{name}}}")
    if name.startswith("item."):
        return Binding(_item(name.removeprefix("item.")), volatile=True)
    if name.startswith("members."):
        return Binding(_members(name.removeprefix("members.")), volatile=True)
    if name.startswith("count."):
        items = name.removeprefix("count.")
        return Binding(lambda bmc, moment, _: b"%d" % len(bmc.members(items, moment)), volatile=True)
    return Binding(_identity(_identity_text(name, filter_)))


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
    if attribute == "created":
        return lambda _bmc, _moment, item: timestamp(item.created)
    return lambda _bmc, _moment, item: orjson.dumps(getattr(item, attribute))


def _members(items: str) -> HoleFunction:
    def members(bmc: Bmc, moment: Moment, _item: Any) -> bytes:
        uri = bmc.tree.item_uris[items]
        return orjson.dumps([{"@odata.id": f"{uri}/{id_}"} for id_ in bmc.members(items, moment)])

    return members


class _Second:
    """The last formatted second: all BMCs that are read within it share the text."""

    def __init__(self) -> None:
        self.wall = -1
        self.text = b""


_second = _Second()


def _now(_bmc: Bmc, moment: Moment, _item: Any) -> bytes:
    wall = int(moment.wall)
    if wall != _second.wall:
        _second.text = timestamp(wall)
        _second.wall = wall
    return _second.text


@lru_cache
def _grid(minimum: float, maximum: float, step: float) -> tuple[bytes, ...]:
    """Every value that a reading can take, encoded; sensors of the same range share it."""
    steps = int((maximum - minimum) / step + 1e-9)
    decimals = max(len(f"{number:.6f}".rstrip("0").partition(".")[2]) for number in (minimum, step))
    return tuple([b"%.*f" % (decimals, minimum + number * step) for number in range(steps + 1)])


def _bind_reading(hole: Hole, reading: Reading) -> Binding:
    grid = _grid(reading.minimum, reading.maximum, reading.step)
    noise = len(grid) // 8
    levels, jitters = len(grid) - noise, noise + 1
    powered, index = reading.powered, reading.index

    def value(bmc: Bmc, moment: Moment, _item: Any) -> bytes:
        """A level of its own for each sensor, and a little noise that changes once a second.

        The hash of a tuple of integers is the same in every process, unlike that of a text.
        """
        if powered and bmc.power in _DEAD_STATES:
            return b"null"
        seed = bmc.identity.bmc_mac
        return grid[hash((seed, index)) % levels + hash((seed, index, int(moment.mono))) % jitters]

    def text(bmc: Bmc, moment: Moment, item: Any) -> bytes:
        shown = value(bmc, moment, item)
        return shown if shown == b"null" else b'"%s"' % shown

    def state(bmc: Bmc, _moment: Moment, _item: Any) -> bytes:
        return b'"UnavailableOffline"' if powered and bmc.power in _DEAD_STATES else b'"Enabled"'

    functions: dict[tuple[str, str], HoleFunction] = {
        ("reading", ""): value,
        ("reading", "text"): text,
        ("reading.state", ""): state,
    }
    function = functions.get((hole.name, hole.filter))
    if function is None:
        raise TemplateError(
            f"a reading has no form ${{{hole.name}|{hole.filter}}}; there are reading, |text and reading.state"
        )
    return Binding(function, volatile=True)
