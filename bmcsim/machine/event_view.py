"""Subscriptions and streams as resources: what an EventDestination shows of them (DSP0268)."""

from collections.abc import Iterable, Mapping

import msgspec

from bmcsim.machine.events import Stream, Subscription, Wanted


class Shown(Wanted, frozen=True, gc=False, kw_only=True):
    """An EventDestination as its holes show it. origin_links: to the origins. retry_policy: None for a stream, which is
    never sent again."""

    id: str
    kind: str
    destination: str
    context: str
    owner: str
    state: str = "Enabled"
    retry_policy: str | None = None
    origin_links: tuple[dict[str, str], ...] = ()
    origin_count: int = 0
    verify_certificate: bool = False


def shown(subscriptions: Iterable[Subscription], streams: Mapping[str, Stream]) -> dict[str, Shown]:
    """Id -> what its resource shows, the durable ones first."""
    return {
        **{one.id: _subscription(one) for one in subscriptions},
        **{one.id: _stream(one) for one in streams.values()},
    }


def _stream(one: Stream) -> Shown:
    return Shown(id=one.id, kind="SSE", destination=f"redfish-sse://{one.peer}", context=one.id, owner=one.owner)


def _subscription(one: Subscription) -> Shown:
    return Shown(
        id=one.id,
        kind="RedfishEvent",
        destination=one.destination,
        context=one.context,
        owner=one.owner,
        state="Disabled" if one.suspended else "Enabled",
        retry_policy=one.retry_policy,
        origin_links=tuple([{"@odata.id": uri} for uri in one.wanted.origins]),
        origin_count=len(one.wanted.origins),
        verify_certificate=one.verify_certificate,
        **msgspec.structs.asdict(one.wanted),
    )
