"""Redfish BMCs inside a test: no server, no sockets, and a clock that moves by hand. docs/testing.md shows how."""

from bmcsim.testing.bmc import Bmc, Headers, Response
from bmcsim.testing.fleet import Event, Fleet
from bmcsim.testing.wire import Seen

__all__ = ["Bmc", "Event", "Fleet", "Headers", "Response", "Seen"]
