"""What has to be done so that the Services that exist become those that are wanted.

Rule 1: only what has our label is ever in `existing`, so nobody else's Service is deleted.
Rule 2: a Service whose device lost its address stays until another Service publishes that address; of several such
        Services with one address, the first by name stays.
Rule 3: a ClusterIP cannot be changed: such a Service is made anew. Others are patched.
Rule 4: what is being deleted is waited for.
Rule 5: while somebody could not be asked, nothing is deleted and nothing made anew.
Rule 6: of Services where only the states differ, `states_budget` are written, those behind `after` in the order of
        names first.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from bmcsim.edges.k8s.services import Digest, Spec, Wanted, owner_text


class Plan(NamedTuple):
    """What to do. after: where the states go on with the next plan. deferred: how many states are written later.
    skipped: deletions and recreations that are not done, by rule 5. waiting: how many are being deleted.
    collisions: how many are recreated since their ClusterIP is the address of a BMC."""

    deletes: list[str]
    recreates: list[Spec]
    creates: list[Spec]
    patches: list[Spec]
    states: list[Spec]
    after: str
    deferred: int = 0
    skipped: int = 0
    waiting: int = 0
    collisions: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do now."""
        return not (self.deletes or self.recreates or self.creates or self.patches or self.states)


def plan(
    existing: Mapping[str, Digest],
    wanted: Wanted,
    *,
    partial: bool = False,
    states_budget: int = 0,
    after: str = "",
) -> Plan:
    """partial: whether somebody could not be asked, so that more may be wanted than `wanted` says."""
    published = {spec.ip for spec in wanted.specs.values()}
    recreates, creates, patches, states = list[Spec](), list[Spec](), list[Spec](), list[Spec]()
    waiting = collisions = 0
    for name, spec in wanted.specs.items():
        digest = existing.get(name)
        if digest is None:
            creates.append(spec)
            continue
        step = judge(spec, digest, published)
        if step == "wait":
            waiting += 1
        elif step == "recreate":
            recreates.append(spec)
            collisions += spec.settings.addressing == "external-ips" and not digest.legacy
        elif step == "patch":
            patches.append(spec)
        elif step == "states":
            states.append(spec)
    deletes, kept = [], set[str]()
    for name, digest in sorted(existing.items()):
        if name in wanted.specs:
            continue
        if digest.deleting:
            waiting += 1
        elif name not in wanted.held or digest.ip in published or digest.ip in kept:
            deletes.append(name)
        elif digest.ip:
            kept.add(digest.ip)
    skipped = 0
    if partial:
        skipped = len(deletes) + len(recreates)
        deletes, recreates, collisions = [], [], 0
    chosen = _turn(states, states_budget, after)
    return Plan(
        deletes,
        recreates,
        creates,
        patches,
        chosen,
        chosen[-1].name if chosen else after,
        len(states) - len(chosen),
        skipped,
        waiting,
        collisions,
    )


def judge(spec: Spec, digest: Digest, published: set[str]) -> str:
    """What one Service needs: 'wait', 'recreate', 'patch', 'states', or '' for nothing. published: all addresses."""
    if digest.deleting:
        return "wait"
    if spec.settings.addressing == "cluster-ip":
        if digest.cluster_ip != spec.ip:
            return "recreate"
    elif digest.legacy or digest.cluster_ip in published:
        return "recreate"
    owner = spec.source.owner
    if digest.owned != spec.owned or (owner is not None and digest.owner != (owner_text([owner]) if owner else "")):
        return "patch"
    return "states" if digest.states != spec.states else ""


def _turn(states: list[Spec], budget: int, after: str) -> list[Spec]:
    if not states or budget <= 0:
        return []
    states.sort(key=lambda spec: spec.name)
    first = bisect_right(states, after, key=lambda spec: spec.name)
    return (states[first:] + states[:first])[:budget]
