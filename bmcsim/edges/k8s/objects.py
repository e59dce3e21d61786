"""What is read of Kubernetes' objects; all else in them is skipped when they are decoded."""

from typing import Any

import msgspec


class OwnerReference(msgspec.Struct, rename="camel", frozen=True):
    """Who owns an object."""

    api_version: str
    kind: str
    name: str
    uid: str


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """metadata of any object. continue_: of a list that has more pages."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None
    continue_: str | None = msgspec.field(name="continue", default=None)


class Port(msgspec.Struct, rename="camel", frozen=True):
    """A port of a Service. What the API server fills in is filled in here too."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(msgspec.Struct, rename="camel", frozen=True):
    """spec of a Service."""

    ports: list[Port] | None = None
    selector: dict[str, str] | None = None
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    external_ips: list[str] | None = msgspec.field(name="externalIPs", default=None)


class Service(msgspec.Struct, frozen=True):
    """A Service (v1)."""

    metadata: Metadata
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ServiceList(msgspec.Struct, frozen=True):
    """A page of Services."""

    metadata: Metadata
    items: list[Service] | None = None


class Event(msgspec.Struct, frozen=True):
    """A line of a watch. type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


class Status(msgspec.Struct, frozen=True):
    """What the API server says instead of an object."""

    message: str = ""
    reason: str = ""
    code: int = 0


class Named(msgspec.Struct, frozen=True):
    """Any object of which only the metadata matters."""

    metadata: Metadata


class LeaseSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """spec of a Lease. Times are RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """A Lease (coordination.k8s.io/v1)."""

    metadata: Metadata
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


Object = dict[str, Any]
"""An object as it is sent."""
