"""What whole racks cost: the seconds until all of their BMCs answer, and memory once each was asked something."""

import statistics
from functools import cache

import uvloop

from bench.density import read_all
from bench.report import Bar, Measure
from bench.server import PASSWORD, Role, Settings, bmcsim
from bmcsim.fleet.config import default
from bmcsim.fleet.identities import BmcPlan, plan
from bmcsim.machine.identity import Kind
from bmcsim.tree.profile import Head, load

READY = Bar("<", 5.0)
MEMORY = Bar("<", 200.0)


class Racks:
    """The BMCs of so many racks (a Site). Their roles are kinds of hardware."""

    def __init__(self, racks: int) -> None:
        self.options = [f"--racks={racks}"]
        self._planned = list(plan(default(racks=racks)))

    @property
    def bmcs(self) -> int:
        return len(self._planned)

    def address(self, index: int) -> str:
        return self._planned[index].address

    def role(self, index: int) -> Role:
        one = self._planned[index]
        return f"DPU of {one.group.hw_type}" if _is_dpu(one) else one.group.hw_type

    def password(self, index: int) -> str:
        """The factory's where none can be given to start with."""
        one = self._planned[index]
        head = _head(one.group.hw_type, _is_dpu(one))
        return head.accounts[0].password if head.behaviour.ignores_pinned_password else PASSWORD


def run(settings: Settings) -> list[Measure]:
    """Start the racks `rounds` times, then read every BMC of the last start once."""
    racks = Racks(settings.racks)
    with bmcsim(settings, racks):
        pass  # The first start after a change compiles and reads from the disk; it is not timed.
    ready = []
    for number in range(settings.rounds):
        with bmcsim(settings, racks) as started:
            ready.append(started.ready)
            if number == settings.rounds - 1:
                fresh = started.server.rss()
                uvloop.run(read_all(racks, started.server))
                read = started.server.rss()
    note = f"{settings.racks} racks, {racks.bmcs:,} BMCs"
    return [
        Measure("racks: start to all ready", statistics.median(ready), "s", READY, ready, note),
        Measure("racks: memory when ready", fresh / 1024, "MiB"),
        Measure("racks: memory after reading", read / 1024, "MiB", MEMORY, note="after every BMC was read once"),
    ]


def _is_dpu(one: BmcPlan) -> bool:
    return one.identity.kind is Kind.DPU


@cache
def _head(hw_type: str, of_dpu: bool) -> Head:
    head = load(hw_type).head
    return load(head.dpu).head if of_dpu else head
