"""Sequences of requests to one BMC by direct call: `admit`, `handle`, its actions, and time that passes."""

import re
from collections import Counter
from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Any, Literal, get_args, get_origin
from urllib.parse import unquote

import msgspec
import orjson

from bmcsim.machine import state as states
from bmcsim.machine.bmc_reset import Service
from bmcsim.machine.faults import NO_RULES
from bmcsim.redfish.exchange import DROP, Request, Response, Upload, head_of
from bmcsim.redfish.messages import MESSAGES, REGISTRY
from bmcsim.redfish.service import BodyPlan, admit, handle
from bmcsim.tree.profile import Behaviour, DeepSupport
from tests.conftest import PASSWORD, basic, make_client
from tests.fuzz.asks import DOCUMENTS, RULES, Ask, Asker

PROFILES = ("bluefield3", "dell_poweredge_r750")
STATUSES = frozenset({200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 428, 501, 503})
"""Every status that a BMC without fault rules has for a request. 500 is none of them."""
MOST_BYTES = 32 * 1024 * 1024
"""Of one answer."""
PER_RUN = 40
"""Requests to one BMC before the next one begins."""

_ADMIN = basic("fuzzer", PASSWORD)
_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\t\x20-\x7e\x80-\xff]*")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9]*\.\d+\.\d+(?:\.\d+)?\.[A-Za-z0-9]+")
_MESSAGE_KEYS = {"@odata.type", "MessageId", "Message", "MessageArgs", "MessageSeverity", "Resolution"}
_ACCOUNTS = "/redfish/v1/AccountService/Accounts"
_FAILED = f'{{"error":{{"code":"{REGISTRY}.InternalError"'.encode()


class Broken(AssertionError):
    """A promise that an answer broke. Its text has all that is needed to see it again."""


class Figures:
    """What a run saw. slowest: (seconds, request) of the request that took longest."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.messages: Counter[str] = Counter()
        self.cases = 0
        self.largest = 0
        self.slowest = (0.0, "")


def _varied(behaviour: Behaviour, random: Random) -> Behaviour:
    """A behaviour with other choices: of those between words and between yes and no, some limits, and deep PATCH."""
    changed: dict[str, Any] = {}
    for field in msgspec.structs.fields(Behaviour):
        if get_origin(field.type) is Literal and random.random() < 0.3:
            changed[field.name] = random.choice(get_args(field.type))
        elif field.type is bool and random.random() < 0.2:
            changed[field.name] = not getattr(behaviour, field.name)
    return msgspec.structs.replace(
        behaviour,
        **changed,
        deep=random.choice((behaviour.deep, DeepSupport(patch=True, levels=3))),
        session_limit=random.choice((2, behaviour.session_limit)),
        password_history=random.choice((0, 2)),
        clock_drift=random.choice((0.0, 0.0, 1000.0)),
    )


class World:
    """A BMC in some condition, and everything that is asked of it."""

    def __init__(self, profile: str, random: Random, figures: Figures) -> None:
        self._random, self._figures = random, figures
        self.client = make_client(profile, time_scale=random.choice((1.0, 1.0, 60.0)))
        self.asker = Asker(self.client, random, _ADMIN)
        self._history: list[str] = []
        self._prepare()

    def _prepare(self) -> None:
        client, random = self.client, self._random
        if client.bmc.tree.head.kind == "host" and random.random() < 0.5:
            client.bmc.dpus = tuple(make_client("bluefield3", index=index).bmc for index in (1, 2))
        shared = client.bmc.shared
        client.bmc.shared = msgspec.structs.replace(shared, behaviour=_varied(shared.behaviour, random))
        self.make_account("fuzzer", "Administrator")
        for user, role in (("operator", "Operator"), ("reader", "ReadOnly"), ("locked", "Operator")):
            if random.random() < 0.6:
                self.make_account(user, role)
        if random.random() < 0.3:
            self.client.request("POST", RULES, {"id": "f", "selector": {"OdataId": "/redfish/v1/**"}, "action": "Close",
                                                "remaining": 2}, authorization=_ADMIN)  # fmt: skip
        if random.random() < 0.15:
            self.client.driver.execute(client.bmc, client.bmc.reset_bmc(client.clock.now()))
        client.bmc.committed()

    def make_account(self, user: str, role: str) -> None:
        """An account of a role, whose password is PASSWORD."""
        own = self.client.authorization
        body = {"UserName": user, "Password": PASSWORD, "RoleId": role}
        if self.client.request("POST", _ACCOUNTS, body, authorization=own).status == 405:
            # Some firmware has slots that are filled instead.
            for slot in range(3, 17):
                filled = self.client.request("PATCH", f"{_ACCOUNTS}/{slot}", {**body, "Enabled": True})
                if filled.status < 300:
                    break

    def step(self) -> None:
        """One request, or a moment in which nobody asks."""
        random = self._random
        if random.random() < (0.3 if self.client.bmc.state.service is Service.RESETTING else 0.1):
            self._wait(random.choice((0.1, 1.0, 15.0, 100.0, 1000.0, 4000.0)))
        before = self.client.bmc.state
        one = self.asker.ask()
        self._history.append(f"{one.method} {one.target} {one.fields} {one.body[:2000]!r}")
        try:
            self._send(one)
            if self.client.bmc.state is not before:
                self.check_state()
        except Broken as broken:
            raise Broken(f"{broken}\n  in {self._whole()}") from broken
        except Exception as error:
            raise Broken(f"raised {error!r}\n  in {self._whole()}") from error

    def finish(self) -> None:
        """Whatever was asked: once every reset is over, everything can be read by who may."""
        client = self.client
        self._wait(20_000.0)
        client.bmc.become(client.clock.now(), faults=NO_RULES)
        account = client.bmc.accounts.of_user("fuzzer")
        if account is None:
            return
        head = head_of({b"authorization": _ADMIN})
        for uri in client.bmc.tree.nodes:
            response = handle(client.bmc, Request("GET", uri, client.clock.now(), head))
            if response.status in (401, 403):
                return
            if response.status != 200:
                raise Broken(f"afterwards {uri} is {response.status} {response.body[:500]!r}\n  in {self._whole()}")

    def _whole(self) -> str:
        return "\n  ".join([self.client.bmc.tree.head.profile, *self._history[-PER_RUN:]])

    def _wait(self, seconds: float) -> None:
        self._history.append(f"wait {seconds}")
        self.client.advance(seconds)
        self.client.bmc.committed()

    # one request

    def _send(self, one: Ask) -> None:
        client = self.client
        bmc, faulty = client.bmc, bool(client.bmc.state.faults)
        request = self._request(one)
        if request.method in ("GET", "HEAD") and not faulty and not one.body:
            self._check_purity(request)
        began = perf_counter()
        if one.body:
            plan = admit(bmc, request, self._random.choice((len(one.body), None)))
            if isinstance(plan, Response):
                self._take(request, plan, faulty)
                return
            request = self._with_body(request, plan, one.body)
        resetting, before = bmc.state.service is Service.RESETTING, bmc.snapshot()
        response = handle(bmc, request)
        took = perf_counter() - began
        # A failed login counts, and so does a match of a fault rule.
        if response.status >= 400 and response.status != 401 and not faulty:
            for other, state, uncommitted, _ in before:
                if other.state is not state or other.uncommitted is not uncommitted:
                    raise Broken(f"a request that was refused with {response.status} changed {other.id}")
        if took > self._figures.slowest[0]:
            self._figures.slowest = (took, f"{request.method} {one.target[:300]}")
        self._take(request, response, faulty or bool(bmc.state.faults), resetting)

    def _with_body(self, request: Request, plan: BodyPlan, body: bytes) -> Request:
        if not plan.upload:
            return msgspec.structs.replace(request, body=body)
        parts = (body, b"") if plan.upload == "multipart" else (b"", b"")
        name = self._random.choice(("", "BIOS_X.EXE", "x" * 255, "../\u00e4.fwpkg"))
        size = self._random.choice((0, 1, 10**7, 2**40))
        upload = Upload(size, "00" * 32, name, *parts, head=body[:4096], has_file=size > 0)
        return msgspec.structs.replace(request, upload=upload)

    def _request(self, one: Ask) -> Request:
        path, _, query = one.target.partition("?")
        return Request(one.method, unquote(path), self.client.clock.now(), head_of(one.fields), query)

    def _check_purity(self, request: Request) -> None:
        """A read changes nothing, twice is the same as once, and HEAD is the head of GET."""
        bmc = self.client.bmc
        before = bmc.state
        first = handle(bmc, msgspec.structs.replace(request, method="GET"))
        if first.status in (401, 503):
            # A failed login counts; a BMC in reset tells how long it still takes.
            return
        second = handle(bmc, msgspec.structs.replace(request, method="GET"))
        head = handle(bmc, msgspec.structs.replace(request, method="HEAD"))
        if first != second or (head.status < 400 and first.status != 405 and first != head):
            raise Broken(f"three reads differ: {first} {second} {head}")
        if bmc.state is not before or bmc.uncommitted is not None or first.actions:
            raise Broken("a read changed the state")

    def _take(self, request: Request, response: Response, faulty: bool, resetting: bool = False) -> None:
        client, figures = self.client, self._figures
        if response.status == 500 and response.body.startswith(_FAILED):
            # Also where a fault rule hides most of what an answer promises. The log says where it failed.
            raise Broken("failed with an error that nobody foresaw")
        client.driver.execute(client.bmc, response.actions)
        client.bmc.committed()
        figures.statuses[response.status] += 1
        figures.largest = max(figures.largest, len(response.body))
        self._learn(response)
        if not all(_LINE.fullmatch(line) for line in response.head.split(b"\r\n")[:-1]) or (
            response.head and not response.head.endswith(b"\r\n")
        ):
            raise Broken(f"no header lines: {response.head!r}")
        if len(response.body) > MOST_BYTES:
            raise Broken(f"{len(response.body)} bytes")
        if faulty and not request.path.startswith(RULES):
            return
        if response.delivery == DROP or (response.delivery is not None and response.delivery.keep == 0):
            if not resetting and client.bmc.state.service is not Service.RESETTING:
                raise Broken("dropped by a BMC that is up")
            return
        for problem in problems(request, response):
            raise Broken(f"{problem}: {response.status} {response.head!r} {response.body[:1000]!r}")
        if response.status >= 400 and response.body and response.body[:1] == b"{":
            figures.messages.update(_keys(orjson.loads(response.body)))

    def _learn(self, response: Response) -> None:
        fields = _fields(response)
        if (token := fields.get(b"x-auth-token")) is not None:
            self.asker.tokens = [*self.asker.tokens[-7:], token]
        if (etag := fields.get(b"etag")) is not None:
            self.asker.etags = [*self.asker.etags[-7:], etag]
        if (location := fields.get(b"location")) is not None:
            self.asker.uris = [*self.asker.uris[-15:], location.decode()]

    def check_state(self) -> None:
        """The state can be stored, and is the same when it is read again."""
        state = self.client.bmc.state
        data = states.encode(states.Row(1, "x", state))
        again = states.decode(data).state
        if msgspec.structs.replace(again, faults=NO_RULES) != msgspec.structs.replace(state, faults=NO_RULES):
            raise Broken("the state changes when it is stored")
        if again.faults.dump() != state.faults.dump():
            raise Broken("the fault rules change when they are stored")
        if len(data) > 8 * 1024 * 1024:
            raise Broken(f"a state of {len(data)} bytes")


def problems(request: Request, response: Response) -> list[str]:
    """What is wrong with an answer that no fault rule touched."""
    found = []
    fields = _fields(response)
    status, body = response.status, response.body
    own = request.path.startswith(RULES)
    # A task monitor has the status of the operation that failed, which is 500 for one that a reset aborted.
    if status not in STATUSES and not (status == 500 and b'"TaskEvent.' in body):
        found.append("unknown status")
    if fields.get(b"odata-version") != b"4.0":
        found.append("no OData-Version")
    if (status in (204, 304)) and body:
        found.append("a body that may not be")
    if len(fields) != response.head.count(b"\r\n"):
        found.append("a header field twice")
    if status == 401 and b"www-authenticate" not in fields:
        found.append("no challenge")
    if status == 405 and b"allow" not in fields:
        found.append("no Allow")
    if status == 201 and b"location" not in fields:
        found.append("no Location")
    if b"content-encoding" in fields and not request.head.gzip:
        found.append("gzip for who did not ask")
    if b"content-encoding" not in fields and body:
        found += _wrong_body(request, response, fields, own)
    return found


def _wrong_body(request: Request, response: Response, fields: dict[bytes, bytes], own: bool) -> list[str]:
    media = fields.get(b"content-type", b"")
    if not media.startswith(b"application/json"):
        return [] if request.path.rstrip("/") in DOCUMENTS else ["no JSON"]
    value = orjson.loads(response.body)
    if response.status >= 400:
        return _wrong_error(value)
    if own:
        return [] if isinstance(value, list) else ["no list of rules"]
    if not isinstance(value, dict):
        return ["no object"]
    if "error" in value:
        return ["an error in an answer that is none"]
    etag = value.get("@odata.etag")
    if response.status == 200 and request.method == "GET" and not request.query and isinstance(etag, str):
        return [] if fields.get(b"etag") == etag.encode() else ["ETag is not @odata.etag"]
    return []


def _wrong_error(value: Any) -> list[str]:
    """What is wrong with an error object (DSP0266 8.6)."""
    if not isinstance(value, dict) or set(value) != {"error"}:
        return ["no error object"]
    error = value["error"]
    messages = error.get("@Message.ExtendedInfo")
    if not isinstance(messages, list) or not messages or not isinstance(error.get("message"), str):
        return ["an error without messages"]
    found = [] if _KEY.fullmatch(error.get("code", "")) else ["no code"]
    for one in messages:
        missing = _MESSAGE_KEYS - set(one)
        registry, _, key = one.get("MessageId", "").rpartition(".")
        if missing:
            found.append(f"a message without {missing}")
        elif not _KEY.fullmatch(one["MessageId"]) or (registry == REGISTRY and key not in MESSAGES):
            found.append("no message of a registry")
        elif registry == REGISTRY and len(one["MessageArgs"]) != _arguments(key):
            found.append(f"{key} has other arguments")
    return found


def _arguments(key: str) -> int:
    return len(set(re.findall(r"%\d", MESSAGES[key][1])))


def _keys(value: Any) -> list[str]:
    return [one["MessageId"].rpartition(".")[2] for one in value["error"]["@Message.ExtendedInfo"]]


def _fields(response: Response) -> dict[bytes, bytes]:
    lines = (line.partition(b": ") for line in response.head.split(b"\r\n") if line)
    return {name.lower(): value for name, _, value in lines}


def run(seed: int, figures: Figures, random: Random | None = None, length: int = PER_RUN) -> None:
    """A sequence of requests to a new BMC. Raises Broken."""
    random = random or Random(seed)
    world = World(random.choice(PROFILES), random, figures)
    for _ in range(length):
        figures.cases += 1
        world.step()
    world.finish()


Run = Callable[[int, Figures], None]
