"""What each client of NICo asks of a BMC, in its order, and what must be true of the answers.

A script is a generator: it yields steps and is sent the answer to each request. So it does no I/O, and tests need
neither a server nor locust. Statuses and identities are checked by whoever runs it (`known.fault_of`); a script
raises Wrong for what only it can know.
"""

import datetime
import heapq
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson

from bench.load.known import Answer, Ask, Known, Shape, Wrong
from bench.paths import ACCOUNTS, FIRST_DISCOVERY, FIRST_LEAK, ROOT, SENSOR_RANK, links, rank

T = TypeVar("T")

DRIFT = 300.0  # seconds that a BMC's clock may differ, as NICo has it
ALWAYS = 5  # health: turns from one look for new parts to the next
FAN_OUT = 4  # health: requests to one BMC at a time

_SERVICE = f"{ROOT}/AccountService"
_SESSIONS = f"{ROOT}/SessionService/Sessions"
_SYSTEMS, _MANAGERS, _CHASSIS = f"{ROOT}/Systems", f"{ROOT}/Managers", f"{ROOT}/Chassis"
_LOOKED_UP = ("dell", "hpe", "supermicro", "lenovo", "ami")
"""Vendors whose account NICo looks up by name; with the others it is named after the user."""

_POLICIES: Mapping[str, Mapping[str, object]] = {
    "dell": {},
    "nvidia": {"AccountLockoutThreshold": 4, "AccountLockoutDuration": 600},
}
_POLICY = {"AccountLockoutThreshold": 0, "AccountLockoutDuration": 0, "AccountLockoutCounterResetAfter": 0}
_SAFE = ("PxeDev1EnDis", "SriovGlobalEnable", "EmbeddedUefiShell", "QuietBoot")
"""BIOS attributes that may be toggled between Enabled and Disabled without harm, on real hardware too."""

_OK = (200, 201, 202, 204)
_INJECTION = "/Injection/rules"


class Pause(NamedTuple):
    """Wait so many seconds."""

    seconds: float


class Hangup(NamedTuple):
    """Close all connections; the next request makes a new one."""


Step = Ask | Pause | Hangup
Script = Generator[Step, Answer, T]


class Rules(NamedTuple):
    """How the clients behave in one run. password: of a BMC after its n-th rotation, with {index} and {round}."""

    password: str = "Load-{index:05d}-{round}"
    tick: float = 30.0  # seconds between two looks of NICo's state machines
    patience: float = 600.0  # seconds until a BMC must be back
    ntp: str = ""  # server that BMCs are told
    expand: bool = False  # ask with $expand where the service says that it can

    def next_password(self, bmc: Known) -> str:
        return self.password.format(index=bmc.number, round=bmc.rotations + 1)


def storm(bmc: Known, rules: Rules) -> Script[None]:
    """One exploration by the site explorer: an anonymous look at the root, then everything over a new connection."""
    yield Ask("root, anonymous", ROOT)
    yield Hangup()
    yield from _walk(bmc, FIRST_DISCOVERY, rules.expand)


def look(bmc: Known, rules: Rules) -> Script[None]:
    """Read all but the sensors, and remember what there is."""
    found, details = yield from _walk(bmc, SENSOR_RANK, rules.expand)
    ordered = sorted(found, key=lambda path: (found[path], path))
    bmc.has(
        Shape(
            exploration=tuple([path for path in ordered if found[path] < FIRST_DISCOVERY]),
            discovery=tuple([path for path in ordered if FIRST_DISCOVERY <= found[path] < FIRST_LEAK]),
            leaks=tuple([path for path in ordered if FIRST_LEAK <= found[path] < SENSOR_RANK]),
            sensors=tuple([path for path in ordered if found[path] == SENSOR_RANK]),
            **details,
        )
    )


def explore(bmc: Known, rules: Rules) -> Script[None]:
    """A later exploration: what it knows by an ETag is asked for on a condition, and all must still be there."""
    del rules
    yield Ask("root, anonymous", ROOT)
    yield Hangup()
    for path in bmc.shape.exploration:
        tag = bmc.etags.get(path)
        headers = (("If-None-Match", tag),) if tag else ()
        expect = (200, 304) if tag else (200,)
        answer = yield Ask("explore", path, password=bmc.password, headers=headers, expect=expect)
        bmc.remember(Ask("explore", path), answer)


def login(bmc: Known, rules: Rules) -> Script[None]:
    """The first login: the factory's password is replaced, then the old one must be refused and the new one good."""
    vendor = yield from _probe()
    yield Ask("root, anonymous", ROOT)
    yield from _rotate(bmc, rules, vendor)


def rotate(bmc: Known, rules: Rules) -> Script[None]:
    """A site-wide rotation, then a session of the kind that NICo hands to its monitoring."""
    vendor = yield from _probe()
    yield from _rotate(bmc, rules, vendor)
    credentials = {"UserName": bmc.endpoint.user, "Password": bmc.password}
    made = yield Ask("session", _SESSIONS, "POST", credentials, expect=(201,))
    token, location = made.headers.get("X-Auth-Token", ""), _path(made.headers.get("Location", ""))
    if not token or not location or not made.body:
        raise Wrong("a session was created without X-Auth-Token, Location or body")
    yield Ask("session", _SYSTEMS, token=token)
    yield Ask("session", location, "DELETE", token=token, expect=(200, 204))
    yield Ask("session, ended", _SYSTEMS, token=token, expect=(401,))


def reset(bmc: Known, rules: Rules) -> Script[None]:
    """Preingestion: the BMC restarts, is back with the same machine in the same state, and knows the time."""
    shape = bmc.shape
    if not shape.manager_reset:
        return
    before = yield from _client(bmc)
    yield Ask("Manager.Reset", shape.manager_reset, "POST", {"ResetType": "GracefulRestart"}, bmc.password, expect=_OK)
    waited = 0.0
    while True:
        yield Pause(rules.tick)
        waited += rules.tick
        # A configured BMC that answers anything else would be taken for a broken one and be reset again.
        answer = yield Ask("wait for the BMC", ROOT, password=bmc.password, expect=(0, 200))
        if answer.status == 200:
            break
        if waited > rules.patience:
            raise Wrong(f"not back {waited:.0f} s after Manager.Reset: {answer.error}")
    yield Hangup()
    after = yield from _client(bmc)
    if before.get("PowerState") != after.get("PowerState"):
        raise Wrong(f"PowerState was {before.get('PowerState')} before Manager.Reset and is {after.get('PowerState')}")
    if rules.ntp and shape.ntp:
        wanted = {"NTP": {"NTPServers": [rules.ntp], "ProtocolEnabled": True}}
        yield Ask("NTP", shape.ntp, "PATCH", wanted, bmc.password, expect=(200, 204))
        told = (yield Ask("NTP", shape.ntp, password=bmc.password)).json().get("NTP", {})
        if rules.ntp not in told.get("NTPServers", []):
            raise Wrong(f"the NTP server {rules.ntp} was accepted and is not there: {told}")
    answer = yield Ask("clock", shape.manager, password=bmc.password)
    shown = str(answer.json().get("DateTime", ""))
    drift = _drift(shown, answer.at)
    if drift > DRIFT:
        raise Wrong(f"the BMC's clock differs by {drift:.0f} s: {shown!r}")


def ingest(bmc: Known, rules: Rules) -> Script[None]:
    """Machine setup of a host: a BIOS setting, one boot from the network, a restart that makes them true."""
    shape = bmc.shape
    if not shape.bios_settings or not shape.system_reset:
        return
    yield from _client(bmc)
    attributes = (yield Ask("BIOS", shape.bios, password=bmc.password)).json().get("Attributes", {})
    name = next((name for name in _SAFE if attributes.get(name) in ("Enabled", "Disabled")), "")
    wanted = "Disabled" if attributes.get(name) == "Enabled" else "Enabled"
    job = ""
    if name:
        body = {"Attributes": {name: wanted}, "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}
        accepted = yield Ask("BIOS", shape.bios_settings, "PATCH", body, bmc.password, expect=_OK)
        job = _path(accepted.headers.get("Location", ""))
    once = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}
    yield Ask("boot once", shape.system, "PATCH", once, bmc.password, expect=(*_OK, 400))
    yield Ask(
        "ComputerSystem.Reset",
        shape.system_reset,
        "POST",
        {"ResetType": "ForceRestart"},
        bmc.password,
        expect=(*_OK, 409),
    )
    waited = 0.0
    while name and waited <= rules.patience:
        yield Pause(rules.tick)
        waited += rules.tick
        if job:
            yield Ask("job", job, password=bmc.password)
        shown = (yield Ask("BIOS", shape.bios, password=bmc.password)).json().get("Attributes", {})
        if shown.get(name) == wanted:
            return
    if name:
        raise Wrong(f"the BIOS attribute {name} is not {wanted} {waited:.0f} s after a restart")


def observe(bmc: Known, rules: Rules) -> Script[None]:
    """The power poll of every turn, and the check of boot interfaces of every other."""
    del rules
    system = yield from _client(bmc)
    if not system.get("PowerState"):
        raise Wrong("the system has no PowerState")
    bmc.turns += 1
    if bmc.turns % 2:
        for path in bmc.shape.exploration:
            if "/BootOptions" in path or "/EthernetInterfaces" in path:
                yield Ask("boot interfaces", path, password=bmc.password)


def health(bmc: Known, part: int) -> Script[None]:
    """One of the FAN_OUT streams by which a BMC's sensors are read, one GET each; part 0 has the rest too."""
    for path in bmc.shape.sensors[part::FAN_OUT]:
        yield Ask("sensor", path, password=bmc.password)
    if part:
        return
    for path in bmc.shape.leaks:
        yield Ask("leak detector", path, password=bmc.password)
    # Each BMC looks for new parts in another turn than its neighbour, as unsynchronised collectors do.
    if (bmc.turns + bmc.number) % ALWAYS == 0:
        for path in bmc.shape.discovery:
            yield Ask("health discovery", path, password=bmc.password)
    bmc.turns += 1


def faults(bmc: Known, rules: Rules) -> Script[None]:
    """What goes wrong for a client, made by itself and, where the BMC can be told to misbehave, by the BMC.

    Every fault must be the one that was asked for, must concern only what was said, and must be over afterwards.
    """
    del rules
    yield Ask("fault: wrong password", _SYSTEMS, password=f"{bmc.password}-not", expect=(401,))
    yield Ask("fault: no resource", f"{_SYSTEMS}/no-such-system", password=bmc.password, expect=(404,))
    yield Ask("fault: bad JSON", _SESSIONS, "POST", b'{"UserName": ', expect=(400,))
    can = yield Ask("fault: rules", _INJECTION, password=bmc.password, expect=(200, 401, 403, 404, 405), verify=False)
    if can.status == 200:
        for name, action, expect in _INJECTED:
            rule = {
                "id": "load",
                "selector": {"Path": {"method": "GET", "glob": _CHASSIS}},
                "action": action,
                "remaining": 1,
            }
            yield Ask("fault: set", _INJECTION, "POST", rule, bmc.password, expect=_OK)
            met = yield Ask(f"fault: {name}", _CHASSIS, password=bmc.password, expect=expect, verify=False)
            if name == "truncated" and not _broken(met.body):
                raise Wrong("a truncated answer is whole")
            yield Ask("fault: over", _CHASSIS, password=bmc.password)
        yield Ask("fault: clear", f"{_INJECTION}/load", "DELETE", password=bmc.password, expect=(*_OK, 404))
    yield from _client(bmc)


_INJECTED: Sequence[tuple[str, object, tuple[int, ...]]] = (
    ("401", {"Unauthorized": {}}, (401,)),
    ("503", {"Status": 503}, (503,)),
    ("slow", {"Latency": {"mean": "200ms"}}, (200,)),
    ("closed", "Close", (0, 200)),  # a GET may be sent again over a new connection, as libredfish does
    ("truncated", {"Truncate": {"keep": 0.5}}, (200,)),
)


def _walk(bmc: Known, below: int, expand: bool) -> Script[tuple[dict[str, int], dict[str, str]]]:
    """Read what the site explorer reads, in its order, and what links say follows; paths of rank `below` and more
    are found and not read. Returns the rank of each path, and the paths of the shape by its fields' names."""
    # Members of a collection are read in its order: a client may take the first for the one that matters.
    found, waiting = {ROOT: 0}, [(0, 0, ROOT)]
    details: dict[str, str] = {}
    embedded: set[str] = set()
    query = ""
    while waiting:
        _, _, path = heapq.heappop(waiting)
        if path in embedded:
            continue
        collection = path != ROOT and rank(f"{path}/x") is not None
        asked = path + query if collection else path
        answer = yield Ask("explore", asked, password=bmc.password)
        bmc.remember(Ask("explore", asked), answer)
        if path == ROOT and expand:
            query = _expansion(answer.json())
        for member in answer.json().get("Members", []) if query and collection else []:
            if len(member) > 1:
                embedded.add(inside := str(member.get("@odata.id")).rstrip("/"))
                _note(details, inside, Answer(200, orjson.dumps(member)))
        for link in links(answer.body):
            place = rank(link)
            if place is not None and link not in found:
                found[link] = place
                if place < below:
                    heapq.heappush(waiting, (place, len(found), link))
        _note(details, path, answer)
    if "system" not in details or "manager" not in details:
        raise Wrong(f"no system or no manager among {len(found)} resources")
    return found, details


def _expansion(root: Mapping[str, Any]) -> str:
    """The query option that NICo's client chooses by what the root says."""
    can = root.get("ProtocolFeaturesSupported", {}).get("ExpandQuery", {})
    if can.get("NoLinks"):
        return "?$expand=."
    return "?$expand=*($levels=1)" if can.get("ExpandAll") else ""


def _note(details: dict[str, str], path: str, answer: Answer) -> None:
    """Keep what later phases need of this resource: the first system with a BIOS, or else the first; the first
    manager, its clock's server, the system's settings."""
    segments = path.split("/")
    if len(segments) == 5 and segments[3] == "Systems" and ("system" not in details or b'"Bios"' in answer.body):
        if details.get("bios"):
            return
        details["system"] = path
        details["bios"] = str(answer.json().get("Bios", {}).get("@odata.id", ""))
        details["system_reset"] = _target(answer, "#ComputerSystem.Reset")
    elif len(segments) == 5 and segments[3] == "Managers" and "manager" not in details:
        details["manager"] = path
        details["manager_reset"] = _target(answer, "#Manager.Reset")
    elif path == details.get("bios"):
        settings = answer.json().get("@Redfish.Settings", {}).get("SettingsObject", {})
        details["bios_settings"] = str(settings.get("@odata.id", ""))
    elif path == f"{details.get('manager')}/NetworkProtocol" and b'"NTP"' in answer.body:
        details["ntp"] = path


def _target(answer: Answer, action: str) -> str:
    return str(answer.json().get("Actions", {}).get(action, {}).get("target", ""))


def _probe() -> Script[str]:
    """The vendor, in lower case, by an anonymous look at the root."""
    root = (yield Ask("root, anonymous", ROOT)).json()
    return str(root.get("Vendor") or next(iter(root.get("Oem", {})), "")).lower()


def _client(bmc: Known) -> Script[dict[str, Any]]:
    """What libredfish asks whenever a client is made. Returns the system."""
    for path in (ROOT, _MANAGERS, _CHASSIS, _SYSTEMS):
        yield Ask("client", path, password=bmc.password)
    return (yield Ask("client", bmc.shape.system, password=bmc.password)).json()


def _rotate(bmc: Known, rules: Rules, vendor: str) -> Script[None]:
    account = f"{ACCOUNTS}/{bmc.endpoint.user}"
    if vendor.startswith(_LOOKED_UP):
        account = yield from _account(bmc)
    yield Ask("root", ROOT, password=bmc.password)
    old, new = bmc.password, rules.next_password(bmc)
    strict = vendor.startswith("ami")
    changed = yield Ask(
        "password",
        account,
        "PATCH",
        {"Password": new},
        old,
        headers=(("If-Match", "*"),) if strict else (),
        expect=(204,) if strict else (200, 204),
    )
    if changed.status not in (200, 204):
        return
    bmc.rotated(new)
    yield Ask("old password", _SYSTEMS, password=old, expect=(401,))
    systems = yield Ask("new password", _SYSTEMS, password=new)
    for path in (_MANAGERS, _CHASSIS):
        yield Ask("client", path, password=new)
    for member in systems.json().get("Members", [])[:1]:
        yield Ask("client", str(member["@odata.id"]), password=new)
    if policy := _POLICIES.get(vendor, _POLICY):
        yield Ask("policy", _SERVICE, "PATCH", policy, new, expect=(200, 204))


def _account(bmc: Known) -> Script[str]:
    """The account of the BMC's user, looked up by name."""
    listed = yield Ask("accounts", f"{ACCOUNTS}?$expand=.($levels=1)", password=bmc.password)
    for member in listed.json().get("Members", []):
        path = str(member.get("@odata.id"))
        if "UserName" not in member:
            member = (yield Ask("accounts", path, password=bmc.password)).json()
        if member.get("UserName") == bmc.endpoint.user:
            return path
    raise Wrong(f"no account of {bmc.endpoint.user}")


def _path(location: str) -> str:
    """The path of a Location, which may be a whole URI (RFC 9110 10.2.2)."""
    if location.startswith("http"):
        return "/" + location.split("/", 3)[3] if location.count("/") > 2 else ""
    return location


def _drift(text: str, at: float) -> float:
    """Seconds between a BMC's DateTime and the moment `at`. Raises Wrong when it is none."""
    try:
        shown = datetime.datetime.fromisoformat(text)
    except ValueError:
        shown = datetime.datetime.min
    if shown.tzinfo is None:
        raise Wrong(f"DateTime is {text!r}, no date and time with an offset")
    return abs(at - shown.timestamp())


def _broken(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return True
    return False
