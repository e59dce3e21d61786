"""Why a client such as NICo fails at a BMC: facts about it -> findings, each with what NICo makes of it and what to do.

The codes are those of NICo's site explorer, NICO-SITEEXPLORER-<code>.
"""

from collections.abc import Callable, Sequence
from math import inf, isfinite

import msgspec

from bmcsim.core.clock import Moment
from bmcsim.fleet.history import History
from bmcsim.fleet.leases import Leases
from bmcsim.fleet.registry import Fleet
from bmcsim.fleet.selection import State, state_of
from bmcsim.machine.bmc import Bmc
from bmcsim.machine.bmc_reset import TIMER, Phase
from bmcsim.machine.fault_effects import Editing
from bmcsim.machine.history import Incident, Login

SILENCE = 240.0
"""Seconds without a request after which NICo is taken to have stopped: twice its interval of exploration."""
PATIENCE = 60.0
"""Seconds that NICo's clients wait for an answer; one of them waits 120."""
_HPE_TRIES = 5
_ROOTS = frozenset({"/redfish", "/redfish/v1"})
_REFUSED = frozenset({"unauthorized", "forbidden"})


class FaultFact(msgspec.Struct, frozen=True):
    """A fault rule that acted lately, or is there. last: when it acted, 0 for not lately. acted: how often, lately.
    there: whether it still is. edits: whether it changes the content of answers."""

    id: str
    what: str
    acted: int
    last: float
    there: bool
    edits: bool


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a BMC. Times in seconds since the epoch.

    since, until: of its reset, None where it is in none, or time stands. phase: what a request meets. lease: why it
    has no address, '' for nothing. contact: last request, 0 for none. incidents: oldest first. locked: user -> when
    that ends, infinite for never. must_change: users who have to change their password first. users: all there are.
    """

    now: float
    state: State = "up"
    since: float | None = None
    until: float | None = None
    phase: Phase = Phase.OPEN
    lease: str = ""
    contact: float = 0.0
    requests: int = 0
    errors: int = 0
    login: Login | None = None
    incidents: tuple[Incident, ...] = ()
    locked: dict[str, float] = {}
    must_change: tuple[str, ...] = ()
    users: frozenset[str] = frozenset()
    faults: tuple[FaultFact, ...] = ()
    vendor: str = ""

    @property
    def failed(self) -> Incident | None:
        """The last request that was refused because of who sent it."""
        return next((one for one in reversed(self.incidents) if one.outcome in _REFUSED), None)

    @property
    def failed_login(self) -> Incident | None:
        """The last one that was refused with a user name and a password."""
        refused = (one for one in reversed(self.incidents) if one.outcome in _REFUSED)
        return next((one for one in refused if one.presented.generation is not None), None)

    @property
    def over(self) -> bool:
        """Whether a login was accepted after that."""
        return self.failed is not None and self.login is not None and self.login.wall > self.failed.wall

    @property
    def broken(self) -> Incident | None:
        """The last answer that no client can use, refusals of a login aside."""
        kinds = ("missing", "client_error", "unavailable", "server_error", "cut")
        return next((one for one in reversed(self.incidents) if one.outcome in kinds), None)

    def last(self, *outcomes: str) -> Incident | None:
        """The last incident of some kinds."""
        return next((one for one in reversed(self.incidents) if one.outcome in outcomes), None)


class Finding(msgspec.Struct, frozen=True):
    """Something that explains a failure. code: NICo's, null where it has none. advice: what to do. standing: whether it
    is still so."""

    name: str
    code: int | None
    text: str
    advice: str
    standing: bool


Row = tuple[str, int | None, Callable[[Facts], str | None], Callable[[Facts], bool], str]
"""Name, code, the text where it holds (None elsewhere), whether it is still so, advice."""


def _always(_facts: Facts) -> bool:
    return True


def _unpowered(facts: Facts) -> str | None:
    return "The BMC has no power; connections to it are refused." if facts.state == "unpowered" else None


def _closed(facts: Facts) -> str | None:
    return f"The BMC is in reset{_back(facts)}; connections are refused or closed." if _meets(facts, "Closed") else None


def _hanging(facts: Facts) -> str | None:
    return f"The BMC is in reset{_back(facts)}; requests hang until then." if _meets(facts, "Hanging") else None


def _unavailable(facts: Facts) -> str | None:
    return f"The BMC is in reset{_back(facts)}; requests get 503." if _meets(facts, "Unavailable") else None


def _meets(facts: Facts, phase: str) -> bool:
    return facts.state == "resetting" and facts.phase == phase


def _back(facts: Facts) -> str:
    return "" if facts.until is None else f" for {facts.until - facts.now:.0f} s more"


def _no_lease(facts: Facts) -> str | None:
    if facts.state != "no_lease":
        return None
    return f"The BMC has no address{': ' + facts.lease if facts.lease else ''}; nobody can reach it."


def _starting(facts: Facts) -> str | None:
    return "The fleet is still being built; connections are closed." if facts.state == "starting" else None


def _locked(facts: Facts) -> str | None:
    if not facts.locked:
        return None
    each = [
        f"{user} {f'for {until - facts.now:.0f} s more' if isfinite(until) else 'until an administrator unlocks it'}"
        for user, until in sorted(facts.locked.items())
    ]
    return f"Too many failed logins locked {' and '.join(each)}; even the right password gets 401."


def _presented(which: str, text: str) -> Callable[[Facts], str | None]:
    """The last login that was refused presented such a password, and no fault did it."""

    def said(facts: Facts) -> str | None:
        one = facts.failed_login
        if one is None or one.faults or one.status != 401 or one.presented.generation != which:
            return None
        if which == "unknown" and (one.presented.user in facts.users) is (text == _NO_USER):
            return None
        return f"{one.method} {one.path} with user {one.presented.user!r}: {text}"

    return said


def _refused_all_the_same(facts: Facts) -> str | None:
    one = facts.failed_login
    if one is None or one.faults or one.status != 401 or one.presented.generation not in ("current", "pinned"):
        return None
    return (
        f"{one.method} {one.path} with user {one.presented.user!r} had the right password and got 401: "
        "the account was locked or disabled then, or the password changed since."
    )


def _outdated(one: Incident) -> bool:
    """Whether a request had a password that was changed since: what 403 said of it is of that time."""
    return one.presented.generation in ("factory", "previous")


def _must_change(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or one.status != 403 or one.faults or not (facts.must_change or _outdated(one)):
        return None
    who = ", ".join(facts.must_change) or f"{one.presented.user!r}, as it was then,"
    return f"{one.method} {one.path}: {who} must change the password before anything else."


def _forbidden(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or one.status != 403 or one.faults or _about_firmware(one):
        return None
    if facts.must_change or _outdated(one):
        return None
    return f"{one.method} {one.path} got 403: the role of {one.presented.user or 'the session'!r} does not allow it."


def _firmware_403(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or one.status != 403 or not _about_firmware(one):
        return None
    return f"{one.method} {one.path} got 403, which has a code of its own and no latch."


def _about_firmware(one: Incident) -> bool:
    return "FirmwareInventory" in one.path


def _without_credentials(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or one.faults or one.status != 401 or one.presented.kind not in ("none", "session"):
        return None
    what = "no credentials" if one.presented.kind == "none" else "a session token that is not valid"
    return f"{one.method} {one.path} came with {what} and got 401."


def _by_fault(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or not one.faults:
        return None
    return f"{one.method} {one.path} got {one.status} from fault {', '.join(one.faults)}, whatever the password was."


def _at_root(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or one.path.rstrip("/") not in _ROOTS:
        return None
    return f"The login at {one.path} failed, the first request of an exploration: that is an error without a latch."


def _hpe(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or one.status != 401 or not facts.vendor.upper().startswith("HP") or facts.over:
        return None
    count = 0
    for incident in reversed(facts.incidents):
        if incident.outcome != "unauthorized":
            break
        count += 1
    if count > _HPE_TRIES:
        return None
    return f"{count} refused logins in a row: of an HPE BMC up to {_HPE_TRIES} are taken as a passing fault."


def _latched(facts: Facts) -> str | None:
    one = facts.failed
    if one is None or facts.over or one.path.rstrip("/") in _ROOTS or (one.status == 403 and _about_firmware(one)):
        return None
    silent = facts.now - max(facts.contact, one.wall)
    if silent < SILENCE:
        return None
    return (
        f"No request for {silent:.0f} s after that: NICo avoids a lockout and sends no HTTP until the latch is cleared."
    )


def _no_login(facts: Facts) -> str | None:
    tried = any(one.presented.kind != "none" for one in facts.incidents)
    if not facts.requests or facts.login is not None or tried:
        return None
    return (
        f"{facts.requests} requests came, and none with credentials: "
        "NICo has none for this BMC, or only looked at the root."
    )


def _bad_answer(facts: Facts) -> str | None:
    one = facts.broken
    if one is None or _silent_reset(facts, one):
        return None
    how = "was cut short" if one.outcome == "cut" else f"got {one.status}"
    by = f" from fault {', '.join(one.faults)}" if one.faults else ""
    return f"{one.method} {one.path} {how}{by}."


def _silent_reset(facts: Facts, one: Incident) -> bool:
    return one.outcome == "unavailable" and facts.state == "resetting"


def _edited(facts: Facts) -> str | None:
    acted = [one.id for one in facts.faults if one.edits and one.acted]
    if not acted:
        return None
    return f"Fault {', '.join(acted)} changed the content of answers: what is required may be missing from them."


def _edits_stand(facts: Facts) -> bool:
    return any(one.edits and one.there and one.acted for one in facts.faults)


def _slow(facts: Facts) -> str | None:
    slow = [one for one in facts.incidents if one.delay >= PATIENCE]
    if not slow:
        return None
    last = slow[-1]
    return f"{last.method} {last.path} was held back for {last.delay:.0f} s; clients give up after {PATIENCE:.0f} s."


def _slow_stands(facts: Facts) -> bool:
    return max((one.wall for one in facts.incidents if one.delay >= PATIENCE), default=0.0) >= facts.contact


def _dropped(facts: Facts) -> str | None:
    one = facts.last("dropped")
    if one is None:
        return None
    by = f" by fault {', '.join(one.faults)}" if one.faults else ", as in a reset"
    return f"{one.method} {one.path} got no answer: its connection was closed{by}."


def _was_refused(facts: Facts) -> str | None:
    one = facts.last("refused")
    if one is None or facts.state in ("resetting", "unpowered"):
        return None
    return (
        f"A connection was refused {facts.now - one.wall:.0f} s ago: "
        "the BMC was in reset or had no power, or had as many connections as it takes."
    )


def _no_contact(facts: Facts) -> str | None:
    if facts.contact or facts.incidents or facts.state in ("no_lease", "starting"):
        return None
    return "No request has come since the process started: NICo does not know the address, or avoids the BMC (144)."


def _stands(facts: Facts) -> bool:
    return not facts.over


def _fault_there(facts: Facts) -> bool:
    one = facts.failed
    there = {fault.id for fault in facts.faults if fault.there}
    return one is not None and not there.isdisjoint(one.faults)


def _recent(*outcomes: str) -> Callable[[Facts], bool]:
    """Whether no request came after the last such incident."""

    def holds(facts: Facts) -> bool:
        one = facts.last(*outcomes)
        return one is not None and facts.contact <= one.wall

    return holds


_NO_USER = "there is no such user on this BMC."
_LATCH = "Then clear the error of the endpoint in NICo, or set its credentials again; until then it stays at 144."

TABLE: Sequence[Row] = (
    ("unpowered", 101, _unpowered, _always, "Give it power: switch on its power shelf, or the supply of its host."),
    ("resetting", 101, _closed, _always, "Wait until the reset is over."),
    ("resetting", 100, _hanging, _always, "Wait until the reset is over."),
    ("resetting", 130, _unavailable, _always, "Wait until the reset is over; NICo may answer a 503 with another one."),
    ("no_lease", None, _no_lease, _always, "See that the DHCP server answers for this MAC."),
    ("starting", 101, _starting, _always, "Wait until /readyz is 200."),
    ("locked", 140, _locked, _always, f"Wait, or unlock the account (PATCH Locked: false). {_LATCH}"),
    (
        "factory_password",
        140,
        _presented("factory", "it presented the factory password, which is not the current one any more."),
        _stands,
        f"Reset the credentials of the BMC to the factory's, or give NICo the current ones. {_LATCH}",
    ),
    (
        "previous_password",
        140,
        _presented("previous", "it presented the password that was valid before the last change."),
        _stands,
        f"Somebody changed the password since NICo stored it: give NICo the new one, or set the old one. {_LATCH}",
    ),
    (
        "unknown_password",
        140,
        _presented("unknown", "it presented a password that this account never had."),
        _stands,
        f"Compare the credentials in NICo with those of the fleet file. {_LATCH}",
    ),
    ("unknown_user", 140, _presented("unknown", _NO_USER), _stands, f"Correct the user name in NICo. {_LATCH}"),
    ("right_password", 140, _refused_all_the_same, _stands, f"Unlock or enable the account. {_LATCH}"),
    ("no_credentials", 140, _without_credentials, _stands, f"Log in with Basic, or ask for a new session. {_LATCH}"),
    ("must_change", 140, _must_change, _stands, f"Let the client set another password first. {_LATCH}"),
    ("forbidden", 140, _forbidden, _stands, f"Use an account with a role that allows it. {_LATCH}"),
    ("firmware_forbidden", 131, _firmware_403, _stands, "Use an account that may read the firmware inventory."),
    ("fault_refuses", 140, _by_fault, _fault_there, f"Remove the fault rule. {_LATCH}"),
    ("hpe_401", 145, _hpe, _stands, "Nothing yet; after one more refusal it is 140."),
    ("root_refused", 199, _at_root, _stands, "Correct the credentials; NICo tries again by itself."),
    (
        "avoids_lockout",
        144,
        _latched,
        _always,
        "Clear the error of the endpoint in NICo, or set its credentials again.",
    ),
    (
        "no_login",
        141,
        _no_login,
        _always,
        "See that NICo has an expected machine with a password for this MAC, or its credentials in the vault.",
    ),
    (
        "redfish_error",
        130,
        _bad_answer,
        _recent("missing", "client_error", "unavailable", "server_error", "cut"),
        "Look at its faults. Before a BMC belongs to a managed host NICo starts remediation at this code: "
        "it may switch the machine on, or reset the BMC.",
    ),
    ("edited", 199, _edited, _edits_stand, "Remove the fault rule. A wrong type, or no JSON at all, is 130 instead."),
    ("timeout", 100, _slow, _slow_stands, "Remove the delay, or make it shorter."),
    ("dropped", 102, _dropped, _recent("dropped"), "Look at its faults and resets."),
    ("refused", 101, _was_refused, _recent("refused"), "Nothing, if it was a reset."),
    ("no_contact", None, _no_contact, _always, "See that NICo knows the BMC, and that its address is routed here."),
)


def findings(facts: Facts) -> list[Finding]:
    """What explains failures, what is still so first, else in the order of the table."""
    made = [
        Finding(name, code, text, advice, standing(facts))
        for name, code, holds, standing, advice in TABLE
        if (text := holds(facts)) is not None
    ]
    return sorted(made, key=lambda one: not one.standing)


# facts


def facts_of(bmc: Bmc, fleet: Fleet, history: History, leases: Leases | None, moment: Moment) -> Facts:
    """What is known of a BMC now."""
    incidents, accounts = tuple(history.of(bmc)), bmc.accounts.accounts
    since, until = _reset(bmc, moment)
    return Facts(
        now=moment.wall,
        state=state_of(bmc, fleet),
        since=since,
        until=until,
        phase=bmc.phase(moment),
        lease=_lease_error(bmc, leases),
        contact=bmc.contact,
        requests=bmc.requests,
        errors=history.errors(bmc),
        login=bmc.login,
        incidents=incidents,
        locked=_locks(bmc, moment),
        must_change=tuple([one.user for one in accounts if one.usable and one.must_change(bmc.wall(moment))]),
        users=frozenset(one.user for one in accounts),
        faults=_faults(bmc, incidents),
        vendor=str(bmc.setting("/redfish/v1", "Vendor") or ""),
    )


def _reset(bmc: Bmc, moment: Moment) -> tuple[float | None, float | None]:
    """When the reset began that a BMC is in, and when it is over."""
    if TIMER not in bmc.state.timers or not moment.scale:
        return None, None
    left, whole = bmc.remaining(TIMER, moment), bmc.reset_seconds
    until = moment.wall + moment.real_seconds(left)
    return until - moment.real_seconds(whole), until


def _lease_error(bmc: Bmc, leases: Leases | None) -> str:
    for one in leases.seen(bmc) if leases is not None else ():
        if one.port == "bmc" and one.lease is None:
            return f"{one.error or one.phase}, after {one.tries} tries"
    return ""


def _locks(bmc: Bmc, moment: Moment) -> dict[str, float]:
    failed = bmc.failed_logins
    if failed is None:
        return {}
    locked = [one for one in bmc.accounts.accounts if bmc.locked(one.id, moment)]
    left = {one.user: failed.left(one.lock_key, moment.mono) for one in locked}
    return {user: moment.wall + seconds if isfinite(seconds) else inf for user, seconds in left.items()}


def _faults(bmc: Bmc, incidents: Sequence[Incident]) -> tuple[FaultFact, ...]:
    rules = {rule.id: rule for rule in bmc.state.faults.rules} if bmc.state.faults else {}
    acted: dict[str, list[float]] = {id_: [] for id_ in rules}
    for incident in incidents:
        for id_ in incident.faults:
            acted.setdefault(id_, []).append(incident.wall)
    return tuple(
        [
            FaultFact(
                id_,
                type(rules[id_].effect).__name__ if id_ in rules else "",
                len(times),
                max(times, default=0.0),
                id_ in rules,
                id_ in rules and isinstance(rules[id_].effect, Editing),
            )
            for id_, times in acted.items()
        ]
    )
