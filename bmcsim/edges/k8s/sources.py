"""The simulators of a namespace, and the list of them that containers of the same pod read.

The list has a generation. It grows when the set of (name, URL) changed, and only once a later look, at least `debounce`
seconds after the first, finds the same set; so a Service that is missing for one look restarts no gateway.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from bmcsim.edges.k8s.objects import Service
from bmcsim.edges.k8s.services import POD_NAME

URL = "https://{name}.{namespace}.svc.cluster.local:{port}"
"""Where a simulator is asked for its status, by its Service."""

_PORT_NAMES, _PORT = ("redfish", "bmc-mock"), 1266
_SUFFIX = "-bmc-mock"


class Instance(msgspec.Struct, frozen=True):
    """A simulator. name, selector: of its Service. pod: of the pod-name label, '' for none."""

    name: str
    pod: str
    port: int
    selector: Mapping[str, str]
    version: str

    @property
    def workload(self) -> str:
        """The name of its Deployment or StatefulSet, by convention."""
        return self.name.removesuffix(_SUFFIX)


def instance_of(service: Service) -> Instance:
    """A simulator from its Service: the port with a name of theirs, else the first one, else 1266."""
    ports = service.spec.ports or ()
    named = (one.port for one in ports if one.name in _PORT_NAMES)
    port = next(named, ports[0].port if ports else _PORT)
    meta = service.metadata
    return Instance(
        meta.name, (meta.labels or {}).get(POD_NAME, ""), port, service.spec.selector or {}, meta.resource_version
    )


class Source(NamedTuple):
    """An entry of the list."""

    name: str
    base_url: str
    pod: str


class SourceList:
    """The list as it is published. generation: 0 before the first look. ready: whether there was one."""

    def __init__(self, debounce: float) -> None:
        self._debounce = debounce
        self.generation, self.ready = 0, False
        self.published: list[Source] = []
        self._candidate: list[tuple[str, str]] | None = None
        self._since = 0.0

    def observe(self, found: Iterable[Source], now: float) -> None:
        """What a look found. now: monotonic seconds."""
        sources = sorted(found)
        names = _names(sources)
        if self.ready and names == _names(self.published):
            self.published, self._candidate = sources, None
            return
        if names != self._candidate:
            self._candidate, self._since = names, now
            if self.ready and self._debounce > 0:
                return
        if not self.ready or now - self._since >= self._debounce:
            self.published, self._candidate, self.ready = sources, None, True
            self.generation += 1

    def document(self) -> dict[str, Any]:
        """GET /v1/sources."""
        return {
            "generation": self.generation,
            "ready": self.ready,
            "sources": [source._asdict() for source in self.published],
        }


def _names(sources: Iterable[Source]) -> list[tuple[str, str]]:
    return [(source.name, source.base_url) for source in sources]
