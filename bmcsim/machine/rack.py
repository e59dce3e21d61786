"""Racks: what the machines of one rack share beyond their settings, which is power."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bmcsim.machine.bmc import Bmc


class Rack:
    """One rack. shelves: its power shelves, which feed one busbar. fed: the machines on it; their DPUs hang on them.

    A rack whose shelves were never switched on is fed from elsewhere: what counts is that the last one goes off, and
    that one comes back.
    """

    __slots__ = ("fed", "shelves")

    def __init__(self, shelves: "tuple[Bmc, ...]", fed: "tuple[Bmc, ...]") -> None:
        self.shelves, self.fed = shelves, fed

    @property
    def live(self) -> bool:
        """Whether there is power on the busbar."""
        return any(not shelf.power.dead for shelf in self.shelves)
