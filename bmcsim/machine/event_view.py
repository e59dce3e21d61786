"""Subscriptions and streams as resources: what an EventDestination shows of them (DSP0268)."""

from collections.abc import Iterable, Mapping

import msgspec

from bmcsim.machine.events import Stream, Subscription


class Shown(msgspec.Struct, frozen=True, gc=False):
    """An EventDestination as its holes show it. retry_policy: None for a stream, which is never sent again."""

    id: str
    kind: str
    destination: str
    context: str
    owner: str
    state: str = "Enabled"
    retry_policy: str | None = None
    event_types: tuple[str, ...] = ()
    registry_prefixes: tuple[str, ...] = ()
    exclude_registry_prefixes: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    exclude_message_ids: tuple[str, ...] = ()
    resource_types: tuple[str, ...] = ()
    origins: tuple[dict[str, str], ...] = ()
    origin_count: int = 0
    subordinate: bool = False
    severities: tuple[str, ...] = ()
    verify_certificate: bool = False


def shown(subscriptions: Iterable[Subscription], streams: Mapping[str, Stream]) -> dict[str, Shown]:
    """Id -> what its resource shows, the durable ones first."""
    return {
        **{one.id: _subscription(one) for one in subscriptions},
        **{one.id: Shown(one.id, "SSE", f"redfish-sse://{one.peer}", one.id, one.owner) for one in streams.values()},
    }


def _subscription(one: Subscription) -> Shown:
    wanted = {name: value for name, value in msgspec.structs.asdict(one.wanted).items() if name != "origins"}
    return Shown(
        one.id,
        "RedfishEvent",
        one.destination,
        one.context,
        one.owner,
        state="Disabled" if one.suspended else "Enabled",
        retry_policy=one.retry_policy,
        verify_certificate=one.verify_certificate,
        origins=tuple([{"@odata.id": uri} for uri in one.wanted.origins]),
        origin_count=len(one.wanted.origins),
        **wanted,
    )
