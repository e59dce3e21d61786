"""The one client that writes to a BMC, and so knows what must be true of it.

An owner does one thing after the other: it explores, reads sensors, rotates its password, changes settings, logs in,
subscribes, listens to events, updates firmware, switches the machine off and on, resets the BMC and makes it
misbehave. Whatever an answer is, it is the one that it must be, or a reason is known for another: a BMC in reset, a
process that was killed, a disk that is full, a fault rule.
"""

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench import paths
from bench.client import Connection, Response, any_certificate, basic
from bench.ledger import Fact, Outcome, Things
from bench.server import PASSWORD, USER, BenchError, Fleet, Role

PASSWORDS = tuple(f"Soak-Passw0rd-{number}" for number in range(4))
"""Few, so that header blocks repeat, as those of a site's clients do."""

_ROOT = paths.ROOT
_SESSIONS = f"{_ROOT}/SessionService/Sessions"
_SUBSCRIPTIONS = f"{_ROOT}/EventService/Subscriptions"
_SUBMIT = f"{_ROOT}/EventService/Actions/EventService.SubmitTestEvent"
_UPDATE = f"{_ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate"
_INVENTORY = f"{_ROOT}/UpdateService/FirmwareInventory/"
_RULES = "/Injection/rules"
_FAULTED = f"{_ROOT}/Chassis"

_ANSWER_SECONDS = 30.0
_BACK_SECONDS = 60.0  # after a reset, a restart of the process, or an update
_RETRY_SECONDS = 0.1
_MOST_SUBSCRIPTIONS = 3
_GETS = 25

_RULE_ACTIONS: Mapping[str, object] = {
    "error": {"Status": 503},
    "late": {"Latency": {"mean": "50ms", "jitter": "20ms"}},
    "close": "Close",
    "cut": {"CloseAfter": {"bytes": 40}},
}


class Lost(Exception):
    """A connection ended before the answer, for a reason that is known."""


class Wrong(Exception):
    """A BMC did what it must not; the text says what."""


@dataclass(slots=True)
class World:
    """What all owners and all chaos share. life: how often the process was started. disk_full_at: when it last was."""

    fleet: Fleet
    port: int
    events_port: int
    seed: int
    pause: float  # seconds between two things that an owner does, at most
    stopped: bool = False
    alive: bool = True
    life: int = 1
    disk_full_at: float = -1e9
    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    @property
    def disk_may_be_full(self) -> bool:
        return time.monotonic() - self.disk_full_at < 2.0


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of BMC is used: URIs, and its component that is updated.

    updates: name of an image of version N. version_of: the resource and property that show it, and how.
    """

    tree: paths.Tree
    manager: str
    manager_reset: str
    reset_type: str
    system: str
    system_reset: str
    stream: str
    clears: tuple[str, ...]
    has_asset_tag: bool
    image: str
    version: str
    version_of: tuple[str, str]


_IMAGES: Mapping[Role, tuple[str, str, str]] = {
    "host": ("BIOS-1.14.{}.bin", "1.14.{}", "BiosVersion"),
    "dpu": ("bmc-24.10-{}.bin", "BF-24.10-{}", "FirmwareVersion"),
}


async def kinds_of(world: World, trees: paths.Trees) -> dict[Role, Kind]:
    """Look at the first BMC of each role. Raises BenchError where something is not there."""
    return {role: await _kind_of(world, index, role, trees[role]) for index, role in enumerate(trees)}


async def _kind_of(world: World, index: int, role: Role, tree: paths.Tree) -> Kind:
    wire = Wire(world, world.fleet.address(index))

    async def read(path: str) -> Any:
        response = await wire.ask("GET", path, basic(PASSWORD))
        if response.status != 200:
            raise BenchError(f"GET {path} at {wire.address} answers {response.status}")
        return orjson.loads(response.body)

    try:
        manager = (await read(f"{_ROOT}/Managers"))["Members"][0]["@odata.id"]
        reset = (await read(manager))["Actions"]["#Manager.Reset"]
        system = await read(tree.system)
        clears = []
        for services in (f"{manager}/LogServices", f"{tree.system}/LogServices"):
            for member in (await read(services))["Members"]:
                actions = (await read(member["@odata.id"])).get("Actions", {})
                if "#LogService.ClearLog" in actions:
                    clears.append(actions["#LogService.ClearLog"]["target"])
        image, version, shown = _IMAGES[role]
        return Kind(
            tree=tree,
            manager=manager,
            manager_reset=reset["target"],
            reset_type="GracefulRestart",
            system=tree.system,
            system_reset=system["Actions"]["#ComputerSystem.Reset"]["target"],
            stream=(await read(f"{_ROOT}/EventService"))["ServerSentEventUri"],
            clears=tuple(clears),
            has_asset_tag="AssetTag" in system and role == "host",
            image=image,
            version=version,
            version_of=(tree.system if shown == "BiosVersion" else manager, shown),
        )
    finally:
        wire.close()


class Wire:
    """One connection to a BMC, made when it is needed."""

    def __init__(self, world: World, address: str) -> None:
        self.address = address
        self.authority = f"{address}:{world.port}"
        self._port = world.port
        self._connection: Connection | None = None

    async def ask(
        self, method: str, path: str, authorization: str = "", body: object = None, token: str = ""
    ) -> Response:
        """Raises OSError when the connection ends, ValueError for what is no response, TimeoutError."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.authority}", "User-Agent: soak", "Accept: */*"]
        if authorization:
            lines.append(f"Authorization: {authorization}")
        if token:
            lines.append(f"X-Auth-Token: {token}")
        content = b"" if body is None else orjson.dumps(body)
        if content:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        async with asyncio.timeout(_ANSWER_SECONDS):
            if self._connection is None or self._connection.transport.is_closing():
                _, self._connection = await asyncio.get_running_loop().create_connection(
                    Connection, self.address, self._port, ssl=_CONTEXT
                )
            return await self._connection.request("\r\n".join([*lines, "", ""]).encode() + content)

    def close(self) -> None:
        """The next request makes a new connection."""
        if self._connection is not None:
            self._connection.transport.abort()
            self._connection = None


_CONTEXT: ssl.SSLContext = any_certificate()


@dataclass(frozen=True, slots=True)
class Login:
    """A session, and until when it must be there."""

    token: str
    uri: str
    life: int
    resets: int
    rotations: int


class Owner:
    """Of BMC `index` of the fleet."""

    def __init__(self, world: World, index: int, kinds: Mapping[Role, Kind]) -> None:
        self.world, self.index = world, index
        self.address = world.fleet.address(index)
        self.role = world.fleet.role(index)
        self.kind = kinds[self.role]
        self.password = Fact("the password", PASSWORD)
        self.asset_tag: Fact[object] = Fact("AssetTag", None)
        self.timeout: Fact[object] = Fact("SessionTimeout", 1800)
        self.rules: Fact[tuple[str, ...]] = Fact("the fault rules", ())
        self.subscriptions = Things("subscriptions")
        self.serial = ""
        self._dice = random.Random(f"{world.seed}-{index}")
        self._wire = Wire(world, self.address)
        self._login: Login | None = None
        self._forgotten_logins = False
        self._resets = 0
        self._rotations = 0
        self._versions = 0
        self._names = 0
        self._reset_at = -1e9
        self._reset_in = 0
        self._back = True

    async def live(self) -> None:
        """Do one thing after the other until the world is stopped or something is wrong."""
        deeds: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._explore, 12),
            (self._read_sensors, 24),
            (self._rotate, 8),
            (self._change_settings, 10),
            (self._use_session, 8),
            (self._subscribe, 5),
            (self._listen, 4),
            (self._mistype, 3),
            (self._clear_logs, 3),
            (self._set_faults, 4),
            (self._update, 2),
            (self._switch, 2),
            (self._reset, 2),
            (self.verify, 8),
        ]
        choices, weights = [deed for deed, _ in deeds], [weight for _, weight in deeds]
        while not self.world.stopped:
            deed = self._dice.choices(choices, weights)[0]
            await self.attempt(deed)
            if self._dice.random() < 0.1:
                self._wire.close()
            await asyncio.sleep(self._dice.uniform(0.2, 1.0) * self.world.pause)
        self.leave()

    async def attempt(self, deed: Callable[[], Awaitable[None]]) -> bool:
        """Do something; whether it was done. A lost connection ends it, and what is wrong is noted."""
        name = deed.__name__.strip("_")
        try:
            await deed()
        except Lost:
            self.world.count("cut short")
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        except Wrong as wrong:
            self.world.wrong.append(f"{self.address} ({self.role}), {name}: {wrong}")
            self._wire.close()
            return False
        self.world.count(name)
        return True

    def leave(self) -> None:
        """Close the connection."""
        self._wire.close()

    async def finish(self) -> None:
        """Take the fault rules away."""
        await self._put_rules(())

    async def verify(self) -> None:
        """Read all that is known of the BMC."""
        system = await self._read(self.kind.system)
        self._is(self.serial in ("", system["SerialNumber"]), f"another machine answers: {system['SerialNumber']}")
        self.serial = system["SerialNumber"]
        if self.kind.has_asset_tag:
            self._agrees(self.asset_tag.seen(system["AssetTag"]))
        self._agrees(self.timeout.seen((await self._read(f"{_ROOT}/SessionService"))["SessionTimeout"]))
        rules = await self._read(_RULES)
        self._agrees(self.rules.seen(tuple(sorted(rule["id"] for rule in rules))))
        self._agrees(self.subscriptions.seen(await self._contexts()))
        await self._check_login()

    # what it does

    async def _explore(self) -> None:
        sequence = self.kind.tree.sequence(_GETS + self._dice.randrange(_GETS))
        for path in sequence:
            await self._get_one(path)

    async def _read_sensors(self) -> None:
        for path in self._dice.choices(self.kind.tree.sensors, k=20):
            await self._get_one(path)

    async def _rotate(self) -> None:
        await self._sure_of_password()
        new = self._dice.choice([one for one in (PASSWORD, *PASSWORDS) if one != self.password.latest])
        self._rotations += 1
        await self._change(self.password, new, "PATCH", self.kind.tree.account, {"Password": new})
        await self._sure_of_password()

    async def _change_settings(self) -> None:
        if self.kind.has_asset_tag and self._dice.random() < 0.5:
            tag: object = f"tag-{self._dice.randrange(1000)}"
            await self._change(self.asset_tag, tag, "PATCH", self.kind.system, {"AssetTag": tag})
        else:
            seconds: object = self._dice.randrange(600, 7200)
            service = f"{_ROOT}/SessionService"
            await self._change(self.timeout, seconds, "PATCH", service, {"SessionTimeout": seconds})

    async def _use_session(self) -> None:
        await self._check_login()
        if self._login is not None:
            response = await self._ask("DELETE", self._login.uri, await self._authorization())
            self._is(response.status in (200, 204, 404) or self._refused(response), self._text(response))
            self._forgotten_logins = self._forgotten_logins or response.status == 507
            self._login = None
            return
        if self._forgotten_logins:
            await self._forget_logins()
        self._forgotten_logins = True
        credentials = {"UserName": USER, "Password": await self._sure_of_password()}
        asked_in = self.world.life  # The answer may be read when the process has been killed already.
        response = await self._ask("POST", _SESSIONS, body=credentials)
        if self._refused(response):
            return
        self._is(response.status == 201, self._text(response))
        uri = field_of(response, "Location")
        self._login = Login(field_of(response, "X-Auth-Token"), uri, asked_in, self._resets, self._rotations)
        self._forgotten_logins = False
        await self._check_login()

    async def _subscribe(self) -> None:
        things = self.subscriptions
        if len(things.there) + len(things.maybe) < _MOST_SUBSCRIPTIONS:
            self._names += 1
            name = f"soak-{self._names}"
            body = {
                "Destination": f"http://127.0.0.1:{self.world.events_port}/{self.index}",
                "Protocol": "Redfish",
                "Context": name,
                "DeliveryRetryPolicy": "RetryForever",
            }
            await self._make(name, "POST", _SUBSCRIPTIONS, body)
        else:
            found = await self._subscribed()
            name = self._dice.choice(sorted(found))
            await self._make(name, "DELETE", found[name])

    async def _listen(self) -> None:
        """Open a stream, have an event told, and read it."""
        authorization = await self._authorization()
        before = self._resets
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection(self.address, self.world.port, ssl=_CONTEXT)
                try:
                    writer.write(
                        f"GET {self.kind.stream} HTTP/1.1\r\nHost: {self._wire.authority}\r\n"
                        f"Authorization: {authorization}\r\n\r\n".encode()
                    )
                    head = await reader.readuntil(b"\r\n\r\n")
                    self._is(b" 200 " in head[:13], f"no stream: {head[:120]!r}")
                    told = await self._ask(
                        "POST", _SUBMIT, authorization, {"MessageId": "ResourceEvent.1.4.TestMessage"}
                    )
                    if told.status == 204:
                        await reader.readuntil(b"TestMessage")
                    else:
                        self._is(self._refused(told), self._text(told))
                finally:
                    writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError) as error:
            self._gone(error, before)

    async def _mistype(self) -> None:
        response = await self._ask("GET", self.kind.system, basic("not-the-password"))
        self._is(response.status == 401 or self._refused(response), f"a wrong password: {self._text(response)}")

    async def _clear_logs(self) -> None:
        for target in self.kind.clears:
            response = await self._ask("POST", target, await self._authorization(), {})
            self._is(response.status in (200, 204) or self._refused(response), self._text(response))

    async def _set_faults(self) -> None:
        names = () if self.rules.latest else (self._dice.choice(sorted(_RULE_ACTIONS)),)
        await self._put_rules(names)

    async def _put_rules(self, names: tuple[str, ...]) -> None:
        selector = {"Path": {"glob": f"{_FAULTED}/**"}}
        rules = [{"id": name, "selector": selector, "action": _RULE_ACTIONS[name]} for name in names]
        await self._change(self.rules, names, "PUT", _RULES, rules)

    async def _update(self) -> None:
        """Update a component, wait for the task, have it applied, and see the version: nothing of it gets lost."""
        self._versions += 1
        image = f"http://images.invalid/{self.kind.image.format(self._versions)}"
        body = {"ImageURI": image, "TransferProtocol": "HTTP"}
        response = await self._ask("POST", _UPDATE, await self._authorization(), body)
        if self._refused(response) or response.status == 503:  # A BlueField takes one update at a time.
            return
        self._is(response.status == 202, self._text(response))
        task = orjson.loads(response.body)["@odata.id"]
        await self._until(task, "TaskState", ("Completed",))
        await self._insist(self._apply)
        wanted = self.kind.version.format(self._versions)
        await self._until(*self.kind.version_of, (wanted,))
        await self._insist(lambda: self._drop_task(task))

    async def _apply(self) -> bool:
        if self.role == "dpu":
            return await self._reset_bmc()
        return await self._reset_system("ForceRestart")

    async def _drop_task(self, task: str) -> bool:
        response = await self._ask("DELETE", task, await self._authorization())
        if self._refused(response):
            return False
        self._is(response.status in (200, 202, 204, 404), self._text(response))
        return True

    async def _switch(self) -> None:
        if self.role == "host":
            for kind, state in (("ForceOff", "Off"), ("On", "On")):
                await self._insist(lambda kind=kind: self._reset_system(kind))  # type: ignore[misc]
                await self._until(self.kind.system, "PowerState", (state,))

    async def _reset(self) -> None:
        await self._insist(self._reset_bmc)
        await self._until(self.kind.manager, "@odata.id", (self.kind.manager,))

    async def _reset_bmc(self) -> bool:
        body = {"ResetType": self.kind.reset_type}
        authorization = await self._authorization()
        self._resets += 1
        self._reset_at, self._reset_in = time.monotonic(), self.world.life
        self._back = False  # Also without an answer: it may have begun.
        response = await self._ask("POST", self.kind.manager_reset, authorization, body)
        if self._refused(response):
            return False
        self._is(response.status in (200, 202, 204), self._text(response))
        self._reset_at, self._back = time.monotonic(), False
        return True

    async def _reset_system(self, kind: str) -> bool:
        response = await self._ask("POST", self.kind.system_reset, await self._authorization(), {"ResetType": kind})
        if self._refused(response) or response.status == 409:  # Still on its way to where it was seen before a crash.
            return False
        self._is(response.status in (200, 202, 204), self._text(response))
        return True

    # what it asks

    async def _authorization(self) -> str:
        """The Authorization field with the password that works."""
        return basic(await self._sure_of_password())

    async def _sure_of_password(self) -> str:
        """Find out which password works where that is open: exactly one."""
        if not self.password.sure:
            works = []
            for password in self.password.may:
                response = await self._ask("GET", self.kind.system, basic(password))
                self._is(response.status in (200, 401), self._text(response))
                works += [password] if response.status == 200 else []
            self._is(len(works) == 1, f"{len(works)} of {len(self.password.may)} passwords work")
            self._agrees(self.password.seen(works[0]))
        return self.password.latest

    async def _get_one(self, path: str) -> None:
        faulted = path.startswith(_FAULTED) and self.rules.may != [()]
        authorization = await self._authorization()
        try:
            response = await self._ask("GET", path, authorization, faulted=faulted)
        except Lost:
            if faulted:
                return
            raise
        self.world.count("reads")
        if faulted and response.status == 503:
            return
        if self._versions and response.status == 404 and path.startswith(_INVENTORY):
            return  # Some vendors have the version in the id.
        self._is(response.status == 200, f"GET {path}: {self._text(response)}")
        found = orjson.loads(response.body)["@odata.id"]
        self._is(found.rstrip("/") == path, f"GET {path} answers with {found}")

    async def _read(self, path: str) -> Any:
        response = await self._ask("GET", path, await self._authorization())
        self._is(response.status == 200, f"GET {path}: {self._text(response)}")
        return orjson.loads(response.body)

    async def _subscribed(self) -> dict[str, str]:
        """Context and URI of all subscriptions. Streams, which are there too while they are open, are not."""
        found: dict[str, str] = {}
        for member in (await self._read(_SUBSCRIPTIONS))["Members"]:
            response = await self._ask("GET", member["@odata.id"], await self._authorization())
            if response.status == 404:
                continue  # A stream that has ended meanwhile; a subscription that is lost is missed by its name.
            self._is(response.status == 200, self._text(response))
            one = orjson.loads(response.body)
            if one.get("SubscriptionType") != "SSE":
                self._is(one["Context"] not in found, f"two subscriptions {one['Context']}")
                found[one["Context"]] = member["@odata.id"]
        return found

    async def _contexts(self) -> Collection[str]:
        return list(await self._subscribed())

    async def _check_login(self) -> None:
        """A session is there until the BMC or the process was restarted, and then it is not."""
        login = self._login
        if login is None:
            return
        asked_in = self.world.life
        response = await self._ask("GET", self.kind.system, token=login.token)
        if asked_in != self.world.life:
            return  # The answer came just before the process was killed.
        if (login.life, login.resets) != (asked_in, self._resets):
            self._is(response.status == 401, f"a session of before a restart: {self._text(response)}")
            self._login = None
        elif login.rotations != self._rotations:
            self._is(response.status in (200, 401), self._text(response))
            if response.status == 401:
                self._login = None
        elif response.status != 200:
            self._login = None
            raise Wrong(f"a session: {self._text(response)}")

    async def _forget_logins(self) -> None:
        for member in (await self._read(_SESSIONS))["Members"]:
            response = await self._ask("DELETE", member["@odata.id"], await self._authorization())
            self._is(response.status in (200, 204, 404) or self._refused(response), self._text(response))

    async def _change(self, fact: Fact[Any], new: object, method: str, path: str, body: object) -> None:
        """A write of one value."""
        authorization = await self._authorization()
        try:
            response = await self._ask(method, path, authorization, body)
        except Lost:
            fact.told(new, "open")
            raise
        fact.told(new, self._outcome(response))

    async def _make(self, name: str, method: str, path: str, body: object = None) -> None:
        tell = self.subscriptions.made if method == "POST" else self.subscriptions.deleted
        authorization = await self._authorization()
        try:
            response = await self._ask(method, path, authorization, body)
        except Lost:
            tell(name, "open")
            raise
        tell(name, self._outcome(response))

    async def _insist(self, deed: Callable[[], Awaitable[bool]]) -> None:
        """Repeat what is harmless to repeat until it was acknowledged."""
        deadline = time.monotonic() + _BACK_SECONDS
        while True:
            try:
                if await deed():
                    return
            except Lost:
                pass
            self._is(time.monotonic() < deadline, "not acknowledged in time")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _until(self, path: str, name: str, wanted: tuple[str, ...]) -> None:
        """Read a resource until a property has a value."""
        deadline = time.monotonic() + _BACK_SECONDS
        value = None
        while value not in wanted:
            with contextlib.suppress(Lost):
                value = (await self._read(path))[name]
            self._is(time.monotonic() < deadline, f"{name} of {path} is {value}, not {wanted} in time")
            await asyncio.sleep(_RETRY_SECONDS / 2)

    async def _ask(
        self,
        method: str,
        path: str,
        authorization: str = "",
        body: object = None,
        token: str = "",
        *,
        faulted: bool = False,
    ) -> Response:
        """Raises Lost when the connection ends for a known reason, Wrong for another one."""
        before = self._resets
        life = self.world.life if self.world.alive else 0
        try:
            response = await self._wire.ask(method, path, authorization, body, token)
        except TimeoutError as error:
            self._wire.close()
            raise Wrong(f"{method} {path}: no answer in {_ANSWER_SECONDS:.0f} s") from error
        except ValueError as error:
            self._wire.close()
            if faulted:
                raise Lost from error
            raise Wrong(f"{method} {path}: {error}") from error
        except OSError as error:
            self._wire.close()
            if faulted or life != self.world.life:
                raise Lost from error
            self._gone(error, before)
            raise
        self._back = True
        self.world.count("requests")
        return response

    def _gone(self, error: Exception, resets: int) -> None:
        """Raises Lost if a known thing ended a connection, Wrong otherwise."""
        since = time.monotonic() - self._reset_at
        if not self.world.alive or resets != self._resets:
            raise Lost from error
        # The end of a reset is told to nobody, so a crash may undo it: the next life goes on with the reset.
        if since < _BACK_SECONDS and (not self._back or self._reset_in != self.world.life):
            raise Lost from error
        raise Wrong(f"the connection ended for no reason: {error!r}") from error

    def _outcome(self, response: Response) -> Outcome:
        if 200 <= response.status < 300:
            return "done"
        self._is(self._refused(response), self._text(response))
        return "refused"

    def _refused(self, response: Response) -> bool:
        """Whether a change was refused because of the disk."""
        full = response.status == 507 and self.world.disk_may_be_full
        if full:
            self.world.count("507")
        return full

    def _is(self, right: bool, otherwise: str) -> None:
        if not right:
            raise Wrong(otherwise)

    def _agrees(self, problem: str) -> None:
        if problem:
            raise Wrong(problem)

    def _text(self, response: Response) -> str:
        return f"{response.status} {response.body[:200].decode(errors='replace')}"


def field_of(response: Response, name: str) -> str:
    """The value of a header field. Raises Wrong when it is not there."""
    for line in response.head.decode("latin-1").split("\r\n"):
        key, _, value = line.partition(":")
        if key.lower() == name.lower():
            return value.strip()
    raise Wrong(f"an answer of {response.status} without {name}")
