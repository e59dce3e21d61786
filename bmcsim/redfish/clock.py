"""The clock of a manager as clients set it (DSP0268, Manager.DateTime)."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bmcsim.core.errors import RedfishError
from bmcsim.machine import clock
from bmcsim.machine.bmc import Bmc
from bmcsim.redfish.exchange import Request, Response
from bmcsim.redfish.outcome import NodeHandler
from bmcsim.redfish.patch import checked, json_object, properties_of, write, written
from bmcsim.tree.compile import Node

_DAY = 86400
_LAST = 2**32 - _DAY
_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def patch_manager(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of a manager: its clock, and whatever else the profile lets a client write."""
    properties = checked(bmc, node, properties_of(json_object(request.body)))
    set_clock(bmc, properties, request)
    own = {name: value for name, value in properties.items() if name not in ("DateTime", "DateTimeLocalOffset")}
    write(bmc, node, own, request.moment)
    return written(bmc, node, request.moment)


def set_clock(bmc: Bmc, properties: Mapping[str, Any], request: Request) -> None:
    """Set the clock as DateTime, DateTimeLocalOffset and TimeZoneName say, as far as they are there.

    A time server leaves no room for a DateTime. Raises RedfishError; then nothing is set.
    """
    given = properties.get("DateTime")
    wall = None if given is None else _wall(given)
    if wall is not None and bmc.follows_time_server:
        raise RedfishError(400, "PropertyValueConflict", "DateTime", "NTP", related="DateTime")
    offset = bmc.state.clock_offset
    if (name := properties.get("TimeZoneName")) is not None and (of_zone := clock.zone_offset(name)) is not None:
        offset = of_zone
    if (text := properties.get("DateTimeLocalOffset")) is not None:
        of_text = clock.offset_of(text)
        if of_text is None:
            raise RedfishError(400, "PropertyValueFormatError", text[:64], "DateTimeLocalOffset")
        offset = of_text
    if offset != bmc.state.clock_offset:
        bmc.become(request.moment, clock_offset=offset)
    if wall is not None:
        bmc.set_clock(wall - request.moment.wall, request.moment)


def _wall(text: str) -> float:
    """'2026-01-01T00:00:00+01:00' -> seconds since the epoch, as far as hardware clocks count them."""
    try:
        if _FORM.fullmatch(text) is None:
            raise ValueError
        wall = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise RedfishError(400, "PropertyValueFormatError", text[:64], "DateTime", related="DateTime") from error
    if not _DAY <= wall < _LAST:
        raise RedfishError(400, "PropertyValueOutOfRange", text[:64], "DateTime", related="DateTime")
    return wall


def patch_protocol(bmc: Bmc, node: Node, request: Request) -> Response:
    """PATCH of the network services: a clock that a time server has set stays right when the server is gone."""
    properties = checked(bmc, node, properties_of(json_object(request.body)))
    followed = bmc.follows_time_server
    write(bmc, node, properties, request.moment)
    settle(bmc, followed, request)
    return written(bmc, node, request.moment)


def settle(bmc: Bmc, followed: bool, request: Request) -> None:
    """After the time servers may have changed. followed: whether there was one before."""
    if followed and not bmc.follows_time_server:
        bmc.set_clock(0.0, request.moment)


NODES: dict[str, NodeHandler] = {"manager": patch_manager, "network_protocol": patch_protocol}
