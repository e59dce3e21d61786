"""What Services there should be, from what the simulators say of their BMCs. Names, labels, annotations and ports are
those of mat-k8s-controller, so that either controller takes over from the other.

Rule 1: no Service before the address of its BMC is known.
Rule 2: of two with one name the first counts, of two with one address the one whose name comes first.
Rule 3: what is ours of a Service is the labels and annotations named here, ports, selector, addresses and owner. All
        else is left as it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from ipaddress import ip_address
from typing import Literal, NamedTuple, TypeVar, cast

import msgspec

from bmcsim.edges.k8s.objects import Object, OwnerReference, Port, Service

Addressing = Literal["external-ips", "cluster-ip"]
T = TypeVar("T")

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "mat-k8s-controller"
SELECTED = f"{MANAGED_BY}={MANAGER}"
"""Label selector of the Services that we keep."""

_PREFIX = "nvidia-infra-controller/"
POD_NAME = f"{_PREFIX}pod-name"
MAT_ID = f"{_PREFIX}mat-id"
_MACHINE_ID, _TYPE, _PARENT = (f"{_PREFIX}{name}" for name in ("mat-machine-id", "mat-machine-type", "mat-parent-id"))
LABELS = (MANAGED_BY, POD_NAME, MAT_ID, _MACHINE_ID, _TYPE, _PARENT)

_BMC_IP, _NVOS_IP, _HARDWARE = (f"{_PREFIX}mat-{name}" for name in ("bmc-ip", "nvos-ip", "hardware-type"))
_REDFISH_PORT, _IPMI_PORT, _SSH_PORT = (f"{_PREFIX}mat-{name}-listen-port" for name in ("redfish", "ipmi", "ssh"))
ANNOTATIONS = (_BMC_IP, _NVOS_IP, _HARDWARE, _REDFISH_PORT, _IPMI_PORT, _SSH_PORT)
STATES = (f"{_PREFIX}mat-api-state", f"{_PREFIX}mat-power-state")
"""Annotations that change often: written apart from all else, and not all at once."""

NVOS_PORT = 9370
_SHORT = 12


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """reachable_port: of the Service. listen_port: of the pod."""

    reachable_port: int
    listen_port: int


class Endpoints(msgspec.Struct, frozen=True, gc=False):
    """Where a BMC is."""

    redfish: Endpoint
    ip: str | None = None
    ipmi: Endpoint | None = None
    ssh: Endpoint | None = None


class Device(msgspec.Struct, frozen=True):
    """A device of /machines/status; what is not needed here is skipped."""

    mat_id: str
    bmc: Endpoints
    device_kind: str = "machine"
    machine_id: str | None = None
    hardware_type: str | None = None
    api_state: str = ""
    power_state: str = ""
    nvos_ip: str | None = None
    dpus: list["Device"] = []


class MachinesStatus(msgspec.Struct, frozen=True):
    """/machines/status."""

    machines: list[Device]


class Source(NamedTuple):
    """What all Services of one simulator have in common. selector: of its pod. owner: '' for none, None for one that
    could not be asked for, which leaves the owners of its Services as they are."""

    selector: Mapping[str, str]
    owner: OwnerReference | Literal[""] | None = ""


class Settings(NamedTuple):
    """states: whether the states of a machine are annotations of its Service."""

    addressing: Addressing = "external-ips"
    states: bool = False


class Spec(msgspec.Struct, frozen=True):
    """A Service as it should be. owned: hash of all that is ours but states and owner. states: hash of the states.
    type: host, dpu or nvos. parent: mat_id of a DPU's host, '' for none."""

    name: str
    ip: str
    type: str
    parent: str
    owned: bytes
    states: bytes
    device: Device
    source: Source
    settings: Settings

    @property
    def labels(self) -> dict[str, str]:
        """Those that are ours."""
        return _labels(self.device, self.type, self.parent)

    @property
    def annotations(self) -> dict[str, str]:
        """Those that are ours, states aside."""
        return _annotations(self.device, self.type, self.ip)

    @property
    def state_annotations(self) -> dict[str, str]:
        """The states."""
        return _states(self.device, self.settings)

    @property
    def ports(self) -> list[Object]:
        """As they are sent."""
        return [
            {"name": one.name, "port": one.port, "protocol": one.protocol, "targetPort": one.target_port}
            for one in _ports(self.device, self.type)
        ]

    @property
    def external_ips(self) -> list[str]:
        """As they are sent."""
        return [self.ip] if self.settings.addressing == "external-ips" else []

    def owners(self) -> list[Object]:
        """ownerReferences as they are sent."""
        owner = self.source.owner
        if not owner:
            return []
        return [{"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}]


class Wanted(msgspec.Struct, frozen=True):
    """specs: name -> Service. held: names of those whose device is there and has no address now.
    problems: what was left out, and why."""

    specs: dict[str, Spec]
    held: frozenset[str]
    problems: list[str]


def service_name(prefix: str, mat_id: str) -> str:
    """('mat-bmc-host', '12345678-1234-1234-1234-123456789abc') -> 'mat-bmc-host-12345678-123-0cdd56f0'."""
    short = mat_id if len(mat_id) <= _SHORT else f"{mat_id[:_SHORT]}-{_fnv1a(mat_id.encode()):08x}"
    return f"{prefix}-{short}"


def _fnv1a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def candidates(machines: Iterable[Device], source: Source, settings: Settings) -> Iterator[Spec | str]:
    """The Services of one simulator; only the name of one whose device has no address yet. Raises ValueError for an
    address that is none."""
    for machine in machines:
        yield _bmc(machine, "host", "", source, settings)
        for dpu in machine.dpus:
            yield _bmc(dpu, "dpu", machine.mat_id, source, settings)
        if machine.device_kind == "switch":
            name = service_name("mat-nvos", machine.mat_id)
            yield _spec(name, machine.nvos_ip, machine, "nvos", "", source, settings) if machine.nvos_ip else name


def _bmc(device: Device, type_: str, parent: str, source: Source, settings: Settings) -> Spec | str:
    name = service_name(f"mat-bmc-{type_}", device.mat_id)
    return _spec(name, device.bmc.ip, device, type_, parent, source, settings) if device.bmc.ip else name


def _spec(name: str, ip: str, device: Device, type_: str, parent: str, source: Source, settings: Settings) -> Spec:
    try:
        ip_address(ip)
    except ValueError:
        raise ValueError(f"the address of {device.mat_id} must be an IP address, not {ip[:60]!r}") from None
    external = [ip] if settings.addressing == "external-ips" else []
    labels, annotations = _labels(device, type_, parent), _annotations(device, type_, ip)
    owned = _hash(labels, annotations, _ports(device, type_), source.selector, external)
    states = _states_hash(_states(device, settings))
    return Spec(name, ip, type_, parent, owned, states, device, source, settings)


def combine(found: Iterable[Spec | str]) -> Wanted:
    """Without duplicates."""
    specs, held = dict[str, Spec](), set[str]()
    for one in found:
        if isinstance(one, str):
            held.add(one)
        else:
            specs.setdefault(one.name, one)
    published, problems = dict[str, str](), list[str]()
    for name in sorted(specs):
        ip = specs[name].ip
        if (other := published.setdefault(ip, name)) != name:
            problems.append(f"{name}: {ip} is published by {other} already")
            del specs[name]
    return Wanted(specs, frozenset(held - specs.keys()), problems)


def _labels(device: Device, type_: str, parent: str) -> dict[str, str]:
    labels = {MANAGED_BY: MANAGER, MAT_ID: device.mat_id, _TYPE: type_}
    if device.machine_id and type_ != "nvos":
        labels[_MACHINE_ID] = device.machine_id
    if parent:
        labels[_PARENT] = parent
    return labels


def _annotations(device: Device, type_: str, ip: str) -> dict[str, str]:
    bmc = device.bmc
    annotations = {_REDFISH_PORT: str(bmc.redfish.listen_port), _NVOS_IP if type_ == "nvos" else _BMC_IP: ip}
    if device.hardware_type:
        annotations[_HARDWARE] = device.hardware_type
    if type_ != "nvos":
        if bmc.ipmi is not None:
            annotations[_IPMI_PORT] = str(bmc.ipmi.listen_port)
        if bmc.ssh is not None:
            annotations[_SSH_PORT] = str(bmc.ssh.listen_port)
    return annotations


def _states(device: Device, settings: Settings) -> dict[str, str]:
    return dict(zip(STATES, (device.api_state, device.power_state), strict=True)) if settings.states else {}


def _ports(device: Device, type_: str) -> list[Port]:
    bmc = device.bmc
    if type_ == "nvos":
        return [Port(NVOS_PORT, "nmxc", "TCP", bmc.redfish.listen_port)]
    found = [("redfish", "TCP", bmc.redfish), ("ipmi", "UDP", bmc.ipmi), ("ssh", "TCP", bmc.ssh)]
    return [
        Port(one.reachable_port, name, protocol, one.listen_port) for name, protocol, one in found if one is not None
    ]


# what there is


class Digest(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a Service that exists. version: resourceVersion. owned, states: as in Spec.
    owner: of all ownerReferences, '' for none. keys: of the selector. ip: that it publishes, '' for none.
    legacy: whether it publishes it as its ClusterIP. deleting: whether it waits for its finalizers."""

    version: str
    owned: bytes
    states: bytes
    owner: str
    keys: tuple[str, ...]
    cluster_ip: str
    ip: str
    legacy: bool = False
    deleting: bool = False


class Digester:
    """Makes digests; what thousands of them have in common is stored once."""

    def __init__(self) -> None:
        self._common: dict[object, object] = {}

    def __call__(self, service: Service) -> Digest:
        meta, spec = service.metadata, service.spec
        labels = {key: value for key, value in (meta.labels or {}).items() if key in LABELS}
        all_annotations = meta.annotations or {}
        annotations = {key: value for key, value in all_annotations.items() if key in ANNOTATIONS}
        external, selector = spec.external_ips or [], spec.selector or {}
        said = annotations.get(_NVOS_IP) or annotations.get(_BMC_IP) or ""
        # A headless Service has the word None here.
        legacy = not external and bool(said) and said == spec.cluster_ip
        owner, keys = owner_text(meta.owner_references or ()), tuple(sorted(selector))
        states = _states_hash({key: value for key, value in all_annotations.items() if key in STATES})
        return Digest(
            version=meta.resource_version,
            owned=_hash(labels, annotations, spec.ports or [], selector, external),
            states=self._once(states),
            owner=self._once(owner),
            keys=self._once(keys),
            cluster_ip=spec.cluster_ip,
            ip=external[0] if external else said if legacy else "",
            legacy=legacy,
            deleting=meta.deletion_timestamp is not None,
        )

    def _once(self, value: T) -> T:
        return cast(T, self._common.setdefault(value, value))


def owner_text(owners: Iterable[OwnerReference]) -> str:
    """Owners as Digest has them."""
    return " ".join([f"{one.api_version}/{one.kind}/{one.name}/{one.uid}" for one in owners])


def _hash(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    ports: Iterable[Port],
    selector: Mapping[str, str],
    external: Iterable[str],
) -> bytes:
    ports_ = [(one.name, one.port, one.protocol, one.target_port or one.port) for one in ports]
    parts = (sorted(labels.items()), sorted(annotations.items()), ports_, sorted(selector.items()), list(external))
    return blake2b(msgspec.msgpack.encode(parts), digest_size=12).digest()


def _states_hash(states: Mapping[str, str]) -> bytes:
    return blake2b(msgspec.msgpack.encode(sorted(states.items())), digest_size=12).digest() if states else b""


def is_ours(service: Service, spec: Spec) -> bool:
    """Whether a Service of the right name is ours, though it may have lost the label by which we know them."""
    labels = service.metadata.labels or {}
    return labels.get(MANAGED_BY) == MANAGER or labels.get(MAT_ID) == spec.device.mat_id


# what is sent


def created(spec: Spec, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    """A Service to create. labels, annotations: of others, from one that it replaces."""
    metadata: Object = {
        "name": spec.name,
        "namespace": namespace,
        "labels": {**foreign(labels, LABELS), **spec.labels},
        "annotations": {**foreign(annotations, ANNOTATIONS + STATES), **spec.annotations, **spec.state_annotations},
    }
    if owners := spec.owners():
        metadata["ownerReferences"] = owners
    body: Object = {"type": "ClusterIP", "selector": dict(spec.source.selector), "ports": spec.ports}
    if spec.settings.addressing == "external-ips":
        body["externalIPs"] = spec.external_ips
    else:
        body["clusterIP"] = spec.ip
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": body}


def foreign(found: Mapping[str, str], ours: tuple[str, ...]) -> dict[str, str]:
    """What is not ours of labels or annotations."""
    return {key: value for key, value in found.items() if key not in ours}


def patched(spec: Spec, digest: Digest) -> Object:
    """A JSON merge patch (RFC 7386) that makes a Service as it should be, if it is still the one of the digest."""
    metadata: Object = {
        "resourceVersion": digest.version,
        "labels": {**dict.fromkeys(LABELS), **spec.labels},
        "annotations": {**dict.fromkeys(ANNOTATIONS + STATES), **spec.annotations, **spec.state_annotations},
    }
    if spec.source.owner is not None:
        metadata["ownerReferences"] = spec.owners()
    selector = {**dict.fromkeys(digest.keys), **spec.source.selector}
    body = {"ports": spec.ports, "selector": selector, "externalIPs": spec.external_ips}
    return {"metadata": metadata, "spec": body}


def patched_states(spec: Spec, digest: Digest) -> Object:
    """A JSON merge patch that touches the states and nothing else."""
    annotations = {**dict.fromkeys(STATES), **spec.state_annotations}
    return {"metadata": {"resourceVersion": digest.version, "annotations": annotations}}
