"""One pass: ask all simulators, compare what there should be with what there is, and do what is missing.

Rule 1: a failed call ends nothing but its own Service's turn; the next pass tries again.
Rule 2: where no simulator is found nothing is touched. Where one could not be asked nothing is deleted.
Rule 3: every write is of the version that was looked at (deletions and patches), or of a name that was free. What
        changed meanwhile is read again and judged anew.
Rule 4: a phase of which so many calls in a row are refused that the rest would be too is given up for this pass.
Rule 5: whoever does not lead any more writes nothing any more.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

from bmcsim.edges.k8s.api import Api, ApiError
from bmcsim.edges.k8s.diff import Plan, judge, plan
from bmcsim.edges.k8s.mirror import Mirror
from bmcsim.edges.k8s.objects import OwnerReference, Service
from bmcsim.edges.k8s.poller import Answer, Poller, PollError
from bmcsim.edges.k8s.services import (
    MANAGED_BY,
    MANAGER,
    POD_NAME,
    SELECTED,
    Addressing,
    Digester,
    Settings,
    Source,
    Spec,
    Wanted,
    candidates,
    combine,
    created,
    is_ours,
    patched,
    patched_states,
)
from bmcsim.edges.k8s.sources import URL, Instance, SourceList, instance_of
from bmcsim.edges.k8s.sources import Source as Listed

log = logging.getLogger(__name__)

WORKERS = 50
"""Calls at once."""

_BREAK_AFTER = 100
_TRIES = 4
_LOGGED = 10
_OWNER_SECONDS = 300.0
_SYNC_SECONDS = 120.0

Item = TypeVar("Item")


class Options(NamedTuple):
    """url: of simulators, with {name}, {namespace} and {port}. discovery: label selector of their Services.
    target: labels of their pods; {} to select what the simulator's own Service selects. states_per_second: Services
    whose states are written, at the most. dry_run: takes each line instead of anything being written."""

    url: str = URL
    discovery: str = "nvidia-infra-controller/mat-service=true"
    target: Mapping[str, str] = {"app.kubernetes.io/name": "nico-machine-a-tron"}
    addressing: Addressing = "external-ips"
    states: bool = False
    states_per_second: float = 2.0
    dry_run: Callable[[str], None] | None = None


class NotLeading(Exception):
    """Another controller works now."""


class Result(NamedTuple):
    """A pass. done: action -> how many. errors: how many things went wrong. left: Services that are not as they should
    be yet. deferred: those of which only the states are not."""

    instances: int
    wanted: int
    done: Mapping[str, int]
    errors: int
    left: int
    deferred: int

    @property
    def settled(self) -> bool:
        """Whether all is as it should be."""
        return self.errors == 0 and self.left == 0


class Controller:
    """Keeps the Services of one namespace; to be made on the loop.

    leading: whether this one may write now. actions: (action, 'done' or 'failed') -> count. last: the last pass.
    """

    def __init__(
        self,
        api: Api,
        poller: Poller,
        sources: SourceList,
        options: Options,
        mono: Callable[[], float],
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api, self._poller, self._sources, self._options = api, poller, sources, options
        self._mono, self._leading = mono, leading
        self._settings = Settings(options.addressing, options.states)
        self._digester = Digester()
        self.instances = Mirror(api, options.discovery, instance_of)
        self.services = Mirror(api, SELECTED, self._digester)
        self.actions: Counter[tuple[str, str]] = Counter()
        self.last: Result | None = None
        self._owners: dict[str, tuple[float, OwnerReference | Literal[""]]] = {}
        self._built: dict[str, tuple[Answer, Source, list[Spec | str]]] = {}
        self._after = ""
        self._states_at: float | None = None
        # Labels and annotations of others, of Services that were deleted and could not be created again yet.
        self._kept: dict[str, Service] = {}
        self._errors = 0

    def mirrors(self) -> list[Awaitable[None]]:
        """What has to run for as long as passes are made."""
        return [self.instances.run(), self.services.run()]

    async def discover(self) -> list[Instance]:
        """The simulators, by name. Raises ApiError when they are not known yet."""
        await _synced(self.instances)
        found = sorted(self.instances.items.values(), key=lambda one: one.name)
        self._sources.observe([Listed(one.name, self._url(one), one.pod) for one in found], self._mono())
        return found

    async def one_pass(self) -> Result:
        """Raises ApiError when it is not known what there is, and NotLeading."""
        self._errors = 0
        found = await self.discover()
        if not found:
            log.warning("no Service with the label %s, so nothing is touched", self._options.discovery)
            return self._end(Result(0, 0, {}, 0, 0, 0))
        await _synced(self.services)
        wanted, partial = await self._wanted(found)
        todo = plan(
            self.services.items, wanted, partial=partial, states_budget=self._states_budget(), after=self._after
        )
        self._after = todo.after
        _say(todo)
        done: Counter[str] = Counter()
        if self._options.dry_run is not None:
            for line in lines(todo):
                self._options.dry_run(line)
        else:
            await self._apply(todo, wanted, done)
        for name in self._kept.keys() - wanted.specs.keys():
            del self._kept[name]
        left = todo.skipped + todo.waiting
        return self._end(Result(len(found), len(wanted.specs), done, self._errors, left, todo.deferred))

    def _end(self, result: Result) -> Result:
        self.last = result
        log.info(
            "pass: %d simulators, %d Services wanted, %s; %d errors, %d left, %d states for later",
            result.instances,
            result.wanted,
            ", ".join([f"{count} {action}" for action, count in result.done.items()]) or "nothing to do",
            result.errors,
            result.left,
            result.deferred,
        )
        return result

    def _fail(self, what: str) -> None:
        self._errors += 1
        if self._errors <= _LOGGED:
            log.warning("%s", what)

    # what there should be

    def _url(self, instance: Instance) -> str:
        return self._options.url.format(name=instance.name, namespace=self._api.namespace, port=instance.port)

    async def _wanted(self, found: list[Instance]) -> tuple[Wanted, bool]:
        """What is wanted, and whether somebody could not be asked."""
        owners = await asyncio.gather(*[self._owner(instance) for instance in found])
        answers = await self._poller.poll({one.name: self._url(one) for one in found})
        partial, every = False, list[list[Spec | str]]()
        for instance, owner in zip(found, owners, strict=True):
            answer = answers[instance.name]
            try:
                if isinstance(answer, PollError):
                    raise ValueError(str(answer))
                every.append(self._build(instance.name, answer, Source(self._selector(instance), owner)))
            except ValueError as error:
                partial = True
                self._fail(f"{instance.name}: its status cannot be had: {error}")
            await asyncio.sleep(0)
        for name in self._built.keys() - answers.keys():
            del self._built[name]
        wanted = combine(chain.from_iterable(every))
        for problem in wanted.problems:
            self._fail(problem)
        return wanted, partial

    def _build(self, name: str, answer: Answer, source: Source) -> list[Spec | str]:
        built = self._built.get(name)
        if built is None or built[0] is not answer or built[1] != source:
            built = (answer, source, list(candidates(answer.machines, source, self._settings)))
            self._built[name] = built
        return built[2]

    def _selector(self, instance: Instance) -> Mapping[str, str]:
        if not self._options.target:
            return instance.selector
        return {**self._options.target, **({POD_NAME: instance.pod} if instance.pod else {})}

    async def _owner(self, instance: Instance) -> OwnerReference | Literal[""] | None:
        """The Deployment or StatefulSet of a simulator, '' for none, None when that cannot be said."""
        known = self._owners.get(instance.name)
        if known is not None and self._mono() < known[0]:
            return known[1]
        stem, _, ordinal = instance.workload.rpartition("-")
        asked = [("deployments", "Deployment", instance.workload), ("statefulsets", "StatefulSet", instance.workload)]
        if ordinal.isdecimal():
            asked.append(("statefulsets", "StatefulSet", stem))
        owner: OwnerReference | Literal[""] = ""
        for plural, kind, name in asked:
            try:
                named = await self._api.get_app(plural, name)
            except ApiError as error:
                if error.status == 404 or (error.status == 403 and plural == "statefulsets"):
                    continue
                log.warning("%s: its %s cannot be read: %s", instance.name, kind, error)
                return known[1] if known is not None else None
            owner = OwnerReference("apps/v1", kind, named.metadata.name, named.metadata.uid)
            break
        else:
            log.warning(
                "%s: there is no Deployment %s, so its Services have no owner", instance.name, instance.workload
            )
        self._owners[instance.name] = (self._mono() + _OWNER_SECONDS, owner)
        return owner

    def _states_budget(self) -> int:
        now, before = self._mono(), self._states_at
        self._states_at = now
        rate = self._options.states_per_second
        return max(1, int(rate * (now - before if before is not None else 30.0))) if rate > 0 else 0

    # what is done

    async def _apply(self, todo: Plan, wanted: Wanted, done: Counter[str]) -> None:
        published = {spec.ip for spec in wanted.specs.values()}
        again = list[Spec]()

        async def create(spec: Spec) -> None:
            try:
                await self._create(spec, published)
            except ApiError as error:
                # Its address may be of one that is about to go.
                if error.status != 422 or not (todo.deletes or todo.recreates):
                    raise
                again.append(spec)

        async def recreate(spec: Spec) -> None:
            try:
                await self._reread(spec, published)
            except ApiError as error:
                if error.status != 422:
                    raise
                again.append(spec)

        await self._each("deleted", todo.deletes, self._delete, done)
        await self._each("recreated", todo.recreates, recreate, done)
        await self._each("created", todo.creates, create, done)
        await self._each("created", again, lambda spec: self._create(spec, published), done)
        await self._each("patched", todo.patches, lambda spec: self._patch(spec, published), done)
        await self._each("states", todo.states, lambda spec: self._patch_states(spec, published), done)

    async def _each(
        self, action: str, items: Iterable[Item], do: Callable[[Item], Awaitable[Any]], done: Counter[str]
    ) -> None:
        rest, refused, lost = iter(items), 0, False

        async def work() -> None:
            nonlocal refused, lost
            while refused < _BREAK_AFTER and (item := next(rest, None)) is not None:
                if not self._leading():
                    lost = True
                    return
                try:
                    await do(item)
                except ApiError as error:
                    refused += 1
                    self.actions[action, "failed"] += 1
                    name = item if isinstance(item, str) else getattr(item, "name", "")
                    self._fail(f"{name} was not {action}: {error}")
                else:
                    refused = 0
                    done[action] += 1
                    self.actions[action, "done"] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(work())
        if lost:
            raise NotLeading
        if refused >= _BREAK_AFTER:
            left = sum(1 for _ in rest)
            self._errors += left
            log.warning("%d refused one after the other: %d others are not %s in this pass", refused, left, action)

    async def _create(self, spec: Spec, published: set[str]) -> None:
        kept = self._kept.get(spec.name)
        labels, annotations = (kept.metadata.labels, kept.metadata.annotations) if kept is not None else (None, None)
        body = created(spec, self._api.namespace, labels or {}, annotations or {})
        try:
            service = await self._api.create_service(body)
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
            await self._settle(spec, await self._api.get_service(spec.name), published)
        else:
            self.services.note(spec.name, service)
        self._kept.pop(spec.name, None)

    async def _settle(self, spec: Spec, service: Service, published: set[str]) -> None:
        """Make a Service that is there as it should be."""
        if not is_ours(service, spec):
            raise ApiError(409, "Foreign", "somebody else's Service has this name")
        for _ in range(_TRIES):
            digest = self._digester(service)
            step = judge(spec, digest, published)
            if step == "wait":
                self.services.note(spec.name, service)
                raise ApiError(409, "Terminating", "it is still being deleted")
            if step == "recreate":
                await self._replace(spec, service)
                return
            if step == "":
                self.services.note(spec.name, service)
                return
            try:
                self.services.note(spec.name, await self._api.patch_service(spec.name, patched(spec, digest)))
                return
            except ApiError as error:
                if error.status != 409:
                    raise
                service = await self._get_ours(spec)
        raise ApiError(409, "Conflict", f"it was changed by others {_TRIES} times meanwhile")

    async def _get_ours(self, spec: Spec) -> Service:
        service = await self._api.get_service(spec.name)
        if not is_ours(service, spec):
            self.services.forget(spec.name)
            raise ApiError(409, "Foreign", "somebody else's Service has this name now")
        return service

    async def _patch(self, spec: Spec, published: set[str]) -> None:
        digest = self.services.items.get(spec.name)
        try:
            if digest is not None:
                self.services.note(spec.name, await self._api.patch_service(spec.name, patched(spec, digest)))
                return
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        await self._reread(spec, published)

    async def _patch_states(self, spec: Spec, published: set[str]) -> None:
        digest = self.services.items.get(spec.name)
        try:
            if digest is not None:
                patch = patched_states(spec, digest)
                self.services.note(spec.name, await self._api.patch_service(spec.name, patch))
                return
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        await self._reread(spec, published)

    async def _reread(self, spec: Spec, published: set[str]) -> None:
        """Look at a Service again, and make it as it should be."""
        try:
            service = await self._get_ours(spec)
        except ApiError as error:
            if error.status != 404:
                raise
            self.services.forget(spec.name)
            await self._create(spec, published)
            return
        await self._settle(spec, service, published)

    async def _replace(self, spec: Spec, service: Service) -> None:
        self._kept[spec.name] = service
        await self._api.delete_service(spec.name, service.metadata.resource_version)
        self.services.forget(spec.name)
        await self._create_again(spec)

    async def _create_again(self, spec: Spec) -> None:
        kept = self._kept[spec.name].metadata
        body = created(spec, self._api.namespace, kept.labels or {}, kept.annotations or {})
        self.services.note(spec.name, await self._api.create_service(body))
        del self._kept[spec.name]

    async def _delete(self, name: str) -> None:
        digest = self.services.items.get(name)
        version = digest.version if digest is not None else ""
        for _ in range(_TRIES):
            try:
                if version:
                    await self._api.delete_service(name, version)
                break
            except ApiError as error:
                if error.status == 404:
                    break
                if error.status != 409:
                    raise
            try:
                service = await self._api.get_service(name)
            except ApiError as error:
                if error.status == 404:
                    break
                raise
            if (service.metadata.labels or {}).get(MANAGED_BY) != MANAGER:
                break
            version = service.metadata.resource_version
        else:
            raise ApiError(409, "Conflict", f"it was changed by others {_TRIES} times meanwhile")
        self.services.forget(name)


def lines(todo: Plan) -> Iterable[str]:
    """What would be done, a line for each."""
    for name in todo.deletes:
        yield f"delete    {name}"
    for word, specs in (("recreate", todo.recreates), ("create", todo.creates), ("patch", todo.patches)):
        for spec in specs:
            yield f"{word:<9} {spec.name} {spec.ip}"
    for spec in todo.states:
        yield f"states    {spec.name} {' '.join(spec.state_annotations.values())}".rstrip()
    for count, text in (
        (todo.deferred, "with new states are written later"),
        (todo.skipped, "are not deleted or recreated, since not all simulators could be asked"),
        (todo.waiting, "are being deleted"),
    ):
        if count:
            yield f"{count} {text}"
    if todo.empty:
        yield "nothing to do"


def _say(todo: Plan) -> None:
    if todo.skipped:
        log.warning("%d Services are not deleted or recreated, since not all simulators could be asked", todo.skipped)
    if todo.collisions:
        log.warning(
            "%d Services have the address of a BMC as their ClusterIP: the BMC network must be outside the cluster's "
            "ServiceCIDR",
            todo.collisions,
        )


async def _synced(mirror: Mirror[Any]) -> None:
    try:
        await asyncio.wait_for(mirror.synced.wait(), _SYNC_SECONDS)
    except TimeoutError:
        raise ApiError(0, "Unreachable", mirror.error or "the Services cannot be listed") from None
