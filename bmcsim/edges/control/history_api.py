"""What came to a BMC and why it failed: its latest requests, recordings of all of them, and findings."""

from collections import Counter
from math import isfinite
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bmcsim.core.clock import rfc3339
from bmcsim.edges.control.context import Control
from bmcsim.edges.control.endpoint import Call, ControlError, Endpoint
from bmcsim.fleet.recordings import MOST_RECORDINGS, Exchange, Recording, TooManyRecordings
from bmcsim.fleet.selection import Selection, State
from bmcsim.fleet.why import Facts, FaultFact, Finding, facts_of, findings
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.history import Generation, Incident, Outcome

MAX_KEPT = 1000


class RequestView(msgspec.Struct, kw_only=True):
    """A request. number: counts up in recordings, null outside of them. status: 0 where there was no answer.
    user: that it presented, '' for none. credential: which password, null without one. client: its address.
    faults: ids of the fault rules that acted on it. delay: seconds that the answer was held back. seconds: that it took
    to handle. body: of a write, without secrets; null for none or one that is not shown.
    Outside of recordings query, seconds, sizes and body are null."""

    number: int | None
    time: str
    method: str
    path: str
    query: str | None
    status: int
    outcome: Outcome
    user: str
    credential: Generation | None
    client: str
    faults: list[str]
    delay: float
    seconds: float | None
    request_bytes: int | None
    response_bytes: int | None
    body: Any


class Requests(msgspec.Struct):
    """Requests to a BMC, oldest first. recorded: whether these are all of them; else those alone that did not simply go
    well. last: number of the last one, to ask for what comes `after`."""

    recorded: bool
    last: int
    items: list[RequestView]


class Window(msgspec.Struct, forbid_unknown_fields=True):
    """limit: the latest ones. after: those with greater numbers alone."""

    limit: Annotated[int, Meta(ge=1, le=MAX_KEPT)] = 100
    after: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class RecordingOrder(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which BMCs to record. all: every one of them, for a selection that says nothing. limit: how many requests of each
    are kept."""

    selection: Selection = Selection()
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=MAX_KEPT)] = 200


class RecordingView(msgspec.Struct, kw_only=True):
    """A recording. bmcs: how many. requests: how many are kept of them."""

    id: str
    selection: Selection
    limit: int
    created: str
    bmcs: int
    requests: int


class RecordingList(msgspec.Struct):
    """The recordings. bytes: that they take, about. dropped: requests that had to make room."""

    recordings: list[RecordingView]
    bytes: int
    dropped: int


class LoginView(msgspec.Struct):
    """A login."""

    time: str
    user: str
    credential: Generation | None


class LockView(msgspec.Struct):
    """A locked account. until: null for one that only an administrator unlocks."""

    user: str
    until: str | None


class OutcomeView(msgspec.Struct):
    """The latest requests that ended alike. last: the last one of them."""

    outcome: Outcome
    count: int
    last: RequestView


class FaultActedView(msgspec.Struct):
    """A fault rule. what: its action, '' for one that is gone. acted: how often, among the latest requests."""

    id: str
    what: str
    acted: int
    last: str | None
    there: bool


class Why(msgspec.Struct, kw_only=True):
    """Why a client fails at a BMC. since, until: of its reset. no_lease: why it has no address. good_login: the last
    one that was accepted; one that a client repeats unchanged counts with its first. failed_login: the last one with a
    password that was refused. outcomes: of the latest requests that did not simply go well."""

    id: str
    time: str
    state: State
    since: str | None
    until: str | None
    no_lease: str | None
    last_contact: str | None
    requests: int
    errors: int
    good_login: LoginView | None
    failed_login: RequestView | None
    locked: list[LockView]
    outcomes: list[OutcomeView]
    faults: list[FaultActedView]
    findings: list[Finding]


def endpoints(control: Control) -> list[Endpoint]:
    """The endpoints."""
    recordings = control.recordings

    def requests(call: Call) -> Requests:
        return _requests(control, control.find(call.path["id"]), call.query)

    def why(call: Call) -> Why:
        bmc = control.find(call.path["id"])
        return explained(bmc.id, facts_of(bmc, control.fleet, control.history, control.leases, control.clock.now()))

    def listed(_call: Call) -> RecordingList:
        views = [_view(control, one) for one in recordings.all()]
        return RecordingList(views, recordings.bytes, recordings.dropped)

    async def start(call: Call) -> RecordingView:
        order: RecordingOrder = call.body
        if order.selection.empty is not order.all:
            raise ControlError(400, "say which BMCs: a selection, or all: true for every one of them, and not both")
        bmcs = await control.select(order.selection)
        if not bmcs:
            raise ControlError(404, "no BMC is as the selection says")
        try:
            made = recordings.start(order.selection, bmcs, order.limit, control.clock.now().wall)
        except TooManyRecordings as error:
            raise ControlError(429, f"{MOST_RECORDINGS} recordings run already; delete one") from error
        call.noted = {"recording": made.id, "selection": made.selection, "count": len(made.bmcs)}
        return _view(control, made)

    def stop(call: Call) -> None:
        call.noted = {"recording": call.path["id"]}
        try:
            recordings.stop(call.path["id"])
        except KeyError as error:
            raise ControlError(404, f"there is no recording {call.path['id']!r}") from error

    return [
        Endpoint(
            method="GET",
            path="/api/v1/bmcs/{id}/requests",
            summary="The latest requests to a BMC",
            handler=requests,
            query=Window,
            answer=Requests,
            refusals=(404,),
            secret=True,
        ),
        Endpoint(
            method="GET",
            path="/api/v1/bmcs/{id}/why",
            summary="Why clients fail at a BMC, and what NICo makes of it",
            handler=why,
            answer=Why,
            refusals=(404,),
        ),
        Endpoint(
            method="GET", path="/api/v1/recordings", summary="The recordings", handler=listed, answer=RecordingList
        ),
        Endpoint(
            method="POST",
            path="/api/v1/recordings",
            summary="Record all requests to some BMCs",
            handler=start,
            body=RecordingOrder,
            answer=RecordingView,
            status=201,
            refusals=(404, 429),
        ),
        Endpoint(
            method="DELETE",
            path="/api/v1/recordings/{id}",
            summary="End a recording and forget what it has",
            handler=stop,
            refusals=(404,),
        ),
    ]


def _view(control: Control, recording: Recording) -> RecordingView:
    return RecordingView(
        id=recording.id,
        selection=recording.selection,
        limit=recording.limit,
        created=rfc3339(recording.created),
        bmcs=len(recording.bmcs),
        requests=control.recordings.count(recording),
    )


def _requests(control: Control, bmc: Bmc, window: Window) -> Requests:
    if not control.recordings.limit(bmc):
        shown = [_incident(one) for one in control.history.of(bmc)]
        return Requests(False, 0, shown[-window.limit :])
    exchanges = [one for one in control.recordings.of(bmc) if one.number > window.after]
    last = exchanges[-1].number if exchanges else window.after
    # Who asks for what comes after something wants it without gaps.
    piece = exchanges[: window.limit] if window.after else exchanges[-window.limit :]
    return Requests(True, piece[-1].number if piece else last, [_exchange(one) for one in piece])


def _exchange(one: Exchange) -> RequestView:
    return msgspec.structs.replace(
        _incident(one.about),
        number=one.number,
        query=one.query,
        seconds=round(one.seconds, 6),
        request_bytes=one.request_bytes,
        response_bytes=one.response_bytes,
        body=msgspec.Raw(one.body) if one.body else None,
    )


def _incident(one: Incident) -> RequestView:
    return RequestView(
        number=None,
        time=rfc3339(one.wall),
        method=one.method,
        path=one.path,
        query=None,
        status=one.status,
        outcome=one.outcome,
        user=one.presented.user,
        credential=one.presented.generation,
        client=one.client,
        faults=list(one.faults),
        delay=one.delay,
        seconds=None,
        request_bytes=None,
        response_bytes=None,
        body=None,
    )


def explained(id_: str, facts: Facts) -> Why:
    """The answer about a BMC with these facts."""
    counts = Counter(one.outcome for one in facts.incidents)
    latest = {one.outcome: one for one in facts.incidents}
    login, failed = facts.login, facts.failed_login
    return Why(
        id=id_,
        time=rfc3339(facts.now),
        state=facts.state,
        since=_time(facts.since),
        until=_time(facts.until),
        no_lease=facts.lease or None,
        last_contact=_time(facts.contact or None),
        requests=facts.requests,
        errors=facts.errors,
        good_login=LoginView(rfc3339(login.wall), login.user, login.generation) if login is not None else None,
        failed_login=_incident(failed) if failed is not None else None,
        locked=[
            LockView(user, rfc3339(until) if isfinite(until) else None) for user, until in sorted(facts.locked.items())
        ],
        outcomes=[OutcomeView(outcome, count, _incident(latest[outcome])) for outcome, count in counts.most_common()],
        faults=[_fault(one) for one in facts.faults],
        findings=findings(facts),
    )


def _fault(one: FaultFact) -> FaultActedView:
    return FaultActedView(one.id, one.what, one.acted, _time(one.last or None), one.there)


def _time(wall: float | None) -> str | None:
    return rfc3339(wall) if wall is not None else None


def lines(why: Why) -> list[str]:
    """The answer as text for a terminal."""
    state = f"{why.id}: {why.state}"
    if why.until is not None:
        state += f", in reset since {why.since} until {why.until}"
    shown = [state]
    if why.no_lease is not None:
        shown.append(f"no address: {why.no_lease}")
    contact = why.last_contact or "never"
    shown.append(f"last contact: {contact}; {why.requests} requests, {why.errors} errors")
    if (good := why.good_login) is not None:
        shown.append(f"last login: {good.time} {good.user}, {good.credential} password")
    if (failed := why.failed_login) is not None:
        shown.append(f"last refused login: {failed.time} {failed.user}, {failed.credential} password, {_said(failed)}")
    shown += [f"locked: {one.user} until {one.until or 'an administrator unlocks it'}" for one in why.locked]
    shown += [f"{one.count} {one.outcome}, last {one.last.time} {_said(one.last)}" for one in why.outcomes]
    shown += [
        f"fault {one.id}{' ' + one.what if one.what else ''}: acted {one.acted} times lately"
        f"{', last ' + one.last if one.last else ''}, {'still there' if one.there else 'gone'}"
        for one in why.faults
    ]
    for finding in why.findings:
        code = f"NICO-SITEEXPLORER-{finding.code} " if finding.code is not None else ""
        shown += ["", f"{code}{finding.name}{'' if finding.standing else ' (over)'}"]
        shown += [f"  {finding.text}", f"  -> {finding.advice}"]
    if not why.findings:
        shown += ["", "Nothing went wrong lately."]
    return shown


def _said(one: RequestView) -> str:
    by = f" by fault {', '.join(one.faults)}" if one.faults else ""
    return f"{one.method} {one.path} {one.status or 'no answer'}{by}".strip()
