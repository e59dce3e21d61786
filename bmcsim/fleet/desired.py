"""Desired firmware that comes from outside, for what the fleet file says nothing about."""

from collections.abc import Iterable

import msgspec

from bmcsim.machine.bmc import Bmc
from bmcsim.machine.resources import Shared
from bmcsim.tree import software
from bmcsim.tree.compile import Tree


class Desired(msgspec.Struct, frozen=True):
    """Versions that somebody wants machines of a model to have. versions: component -> version."""

    vendor: str
    model: str
    versions: dict[str, str]


def fill(bmcs: Iterable[Bmc], wanted: Iterable[Desired]) -> int:
    """Make updates of BMCs reach what is wanted from now on; how many versions that adds.

    What the fleet file says stays, and so does what is there already. Components that a profile does not have, and
    texts that are no versions, are left out.
    """
    entries, added = list(wanted), 0
    for shared in {id(bmc.shared): bmc.shared for bmc in bmcs}.values():
        for entry in entries:
            if matches(shared.tree.head.title, entry):
                added += _add(shared, entry)
    return added


def _add(shared: Shared, entry: Desired) -> int:
    before = len(shared.desired)
    for name, version in entry.versions.items():
        if _takes(shared.tree, name) and software.VERSION.fullmatch(version):
            shared.desired.setdefault(software.owner(shared.tree.components, name), version)
    return len(shared.desired) - before


def _takes(tree: Tree, name: str) -> bool:
    return name in tree.components and not software.is_fixed(tree.components, name)


def matches(title: str, entry: Desired) -> bool:
    """Whether an entry is about the hardware of a title, such as 'Dell PowerEdge R750'.

    Case does not count, '-' is a space, and one model may be the beginning or a part of the other, word by word:
    'BlueField-3 SmartNIC Main Card' is NVIDIA's BlueField-3 DPU.
    """
    vendor, model, ours = (_words(text) for text in (entry.vendor, entry.model, title))
    if not vendor or not model or ours[: len(vendor)] != vendor:
        return False
    own = ours[len(vendor) :]
    if own and own[-1] == "dpu":
        own = own[:-1]
    return bool(own) and (_within(own, model) or _within(model, own))


def _words(text: str) -> list[str]:
    return text.lower().replace("-", " ").split()


def _within(part: list[str], whole: list[str]) -> bool:
    return any(whole[n : n + len(part)] == part for n in range(len(whole) - len(part) + 1))
