"""A Kubernetes API for tests: Services with ClusterIPs, watches, pages and optimistic concurrency; Leases; and objects
of the group apps. As unfriendly as a test wants it. Beside it simulators, of which nothing but the status is there."""

import asyncio
import gzip
import itertools
import re
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

NAMESPACE = "nico-mat"
SERVICE_CIDR = ip_network("10.96.0.0/12")
_HISTORY = 100_000
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")

Json = dict[str, Any]


class Refusal(Exception):
    """What a test makes a call answer with."""

    def __init__(self, status: int, reason: str, message: str = "no", retry_after: str | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after


class Dropped(Exception):
    """The connection ends without an answer. done: whether the call was carried out."""

    def __init__(self, *, done: bool) -> None:
        super().__init__()
        self.done = done


Before = Callable[[str, str], Awaitable[None]]
"""Runs before each call with its verb and the name of its object ('' for none); may wait, and raise Refusal or
Dropped."""


class FakeKube:
    """services, leases, apps: name (of apps 'plural/name') -> object. asked: verb and kind -> count.
    writes: (verb, name) of what was carried out. before: see Before."""

    def __init__(self) -> None:
        self.services: dict[str, Json] = {}
        self.leases: dict[str, Json] = {}
        self.apps: dict[str, Json] = {}
        self.asked: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.writes: list[tuple[str, str]] = []
        self.times: list[float] = []
        self.before: Before | None = None
        self.taken: dict[str, str] = {}
        self._version = 1000
        self._floor = 0
        self._events: deque[tuple[int, str, Json, Json | None]] = deque(maxlen=_HISTORY)
        self._watchers: set[asyncio.Queue[Any]] = set()
        self._addresses = (str(ip) for ip in itertools.islice(SERVICE_CIDR.hosts(), 300_000, None))
        self._uids = itertools.count(1)
        self._pages: dict[str, list[Json]] = {}
        self._runner: web.AppRunner | None = None
        self.port = 0

    # running

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        base = f"/namespaces/{NAMESPACE}"
        for kind, path in (
            ("services", f"/api/v1{base}/services"),
            ("leases", f"/apis/coordination.k8s.io/v1{base}/leases"),
        ):
            app.router.add_get(path, self._handler(kind, "list"))
            app.router.add_post(path, self._handler(kind, "create"))
            for method, verb in (("GET", "get"), ("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete")):
                app.router.add_route(method, path + "/{name}", self._handler(kind, verb), expect_handler=None)
        app.router.add_get(f"/apis/apps/v1{base}/{{plural}}/{{name}}", self._handler("apps", "get"))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    def kubeconfig(self, directory: Path) -> Path:
        path = directory / "kubeconfig"
        path.write_text(
            f"current-context: here\ncontexts: [{{name: here, context: {{cluster: fake, user: me}}}}]\n"
            f"clusters: [{{name: fake, cluster: {{server: 'http://127.0.0.1:{self.port}'}}}}]\n"
            "users: [{name: me, user: {token: s3cret}}]\n"
        )
        return path

    # what tests do to it

    def put(self, name: str, body: Json) -> Json:
        """Create or replace a Service, as somebody else would."""
        old = self.services.get(name)
        body.setdefault("metadata", {})["name"] = name
        body["metadata"].setdefault("uid", f"uid-{next(self._uids)}")
        body.setdefault("spec", {}).setdefault("clusterIP", old["spec"]["clusterIP"] if old else next(self._addresses))
        return self._store(name, body, old)

    def edit(self, name: str, **labels: str | None) -> None:
        """Change labels of a Service, as somebody else would."""
        old = self.services[name]
        self._store(name, _merge(old, {"metadata": {"labels": labels}}), old)

    def drop(self, name: str) -> None:
        """Delete a Service, finalizers or not."""
        old = self.services.pop(name)
        self.taken.pop(old["spec"]["clusterIP"], None)
        self._version += 1
        gone = _merge(old, {"metadata": {"resourceVersion": str(self._version)}})
        self._tell("DELETED", gone, old)

    def forget_history(self) -> None:
        """Answer watches from older versions with 410, and lists that were begun too."""
        self._floor = self._version + 1
        self._version += 1
        self._events.clear()
        self._pages.clear()

    def end_watches(self) -> None:
        for queue in self._watchers:
            queue.put_nowait(None)

    def bookmark(self) -> None:
        for queue in self._watchers:
            queue.put_nowait("bookmark")

    def managed(self) -> dict[str, Json]:
        """The Services that the controller keeps."""
        return {
            name: one
            for name, one in self.services.items()
            if one["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "mat-k8s-controller"
        }

    def published(self) -> dict[str, list[str]]:
        """name -> externalIPs of those."""
        return {name: one["spec"].get("externalIPs", []) for name, one in self.managed().items()}

    def busiest_second(self) -> int:
        """The most writes of Services within one second, wherever it begins."""
        most, first = 0, 0
        for last, when in enumerate(self.times):
            while self.times[first] <= when - 1.0:
                first += 1
            most = max(most, last - first + 1)
        return most

    # the way of one call

    def _handler(self, kind: str, verb: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        do = getattr(self, f"_{verb}_{kind}" if kind != "services" else f"_{verb}")

        async def handle(request: web.Request) -> web.StreamResponse:
            name = request.match_info.get("name", "")
            watching = request.query.get("watch") == "true"
            self.asked[f"{'watch' if watching else verb} {kind}"] += 1
            self.tokens[request.headers.get("Authorization", "")] += 1
            data = await request.read()
            body = orjson.loads(data) if data else {}
            drop = False
            try:
                if self.before is not None:
                    try:
                        await self.before(
                            "watch" if watching else verb, name or body.get("metadata", {}).get("name", "")
                        )
                    except Dropped as dropped:
                        drop = True
                        if not dropped.done:
                            return _cut(request)
                if watching:
                    return await self._watch(request)
                answer = do(request, name, body)
            except Refusal as refusal:
                headers = {"Retry-After": refusal.retry_after} if refusal.retry_after else {}
                status = {"kind": "Status", "status": "Failure", "code": refusal.status}
                status |= {"reason": refusal.reason, "message": refusal.message}
                return _json(status, refusal.status, headers)
            return _cut(request) if drop else _json(answer, 201 if verb == "create" else 200)

        return handle

    # Services

    def _list(self, request: web.Request, _name: str, _body: Json) -> Json:
        token, limit = request.query.get("continue", ""), int(request.query.get("limit", "0"))
        if token:
            version, _, start = token.partition(":")
            if version not in self._pages:
                raise Refusal(410, "Expired", "the continue parameter is too old")
            items, first = self._pages[version], int(start)
        else:
            wanted = _selector(request)
            items, first = [one for one in self.services.values() if _matches(one, wanted)], 0
            version = str(self._version)
            if limit:
                self._pages = {version: items}
        page = items[first : first + limit] if limit else items
        more = f"{version}:{first + limit}" if limit and first + limit < len(items) else ""
        meta = {"resourceVersion": version, **({"continue": more} if more else {})}
        return {"kind": "ServiceList", "apiVersion": "v1", "metadata": meta, "items": page}

    def _get(self, _request: web.Request, name: str, _body: Json) -> Json:
        return self._find(self.services, name)

    def _create(self, _request: web.Request, _name: str, body: Json) -> Json:
        name = body["metadata"]["name"]
        if name in self.services:
            raise Refusal(409, "AlreadyExists", f'services "{name}" already exists')
        _validate(body)
        address = body["spec"].get("clusterIP") or next(self._addresses)
        if address in self.taken:
            raise Refusal(
                422, "Invalid", f'spec.clusterIPs: Invalid value: ["{address}"]: provided IP is already allocated'
            )
        if ip_address(address) not in SERVICE_CIDR:
            raise Refusal(422, "Invalid", f"spec.clusterIPs: {address} is not in the valid range")
        body["spec"]["clusterIP"] = address
        body["metadata"]["uid"] = f"uid-{next(self._uids)}"
        self._wrote("create", name)
        return self._store(name, body, None)

    def _patch(self, request: web.Request, name: str, patch: Json) -> Json:
        assert request.content_type == "application/merge-patch+json"
        old = self._find(self.services, name)
        version = patch.get("metadata", {}).get("resourceVersion")
        if version is not None and version != old["metadata"]["resourceVersion"]:
            raise Refusal(409, "Conflict", f'services "{name}": the object has been modified')
        new = _merge(old, patch)
        if not new["spec"].get("externalIPs", True):
            del new["spec"]["externalIPs"]
        _validate(new)
        if new["spec"]["clusterIP"] != old["spec"]["clusterIP"]:
            raise Refusal(422, "Invalid", "spec.clusterIPs[0]: field is immutable")
        if not new["metadata"].get("ownerReferences", True):
            del new["metadata"]["ownerReferences"]
        self._wrote("patch", name)
        return old if new == old else self._store(name, new, old)

    def _delete(self, _request: web.Request, name: str, body: Json) -> Json:
        old = self._find(self.services, name)
        version = body.get("preconditions", {}).get("resourceVersion")
        if version is not None and version != old["metadata"]["resourceVersion"]:
            raise Refusal(409, "Conflict", f'services "{name}": the ResourceVersion in the precondition is another')
        self._wrote("delete", name)
        if old["metadata"].get("finalizers"):
            return self._store(name, _merge(old, {"metadata": {"deletionTimestamp": "2026-11-30T00:00:00Z"}}), old)
        self.drop(name)
        return {"kind": "Status", "status": "Success"}

    def _update(self, _request: web.Request, _name: str, _body: Json) -> Json:
        raise Refusal(403, "Forbidden", "not needed")

    def _find(self, where: dict[str, Json], name: str) -> Json:
        if name not in where:
            raise Refusal(404, "NotFound", f'"{name}" not found')
        return where[name]

    def _store(self, name: str, body: Json, old: Json | None) -> Json:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        body["metadata"].setdefault("managedFields", [{"manager": "x", "fieldsV1": {"f:metadata": {}}}])
        self.services[name] = body
        self.taken[body["spec"]["clusterIP"]] = name
        self._tell("ADDED" if old is None else "MODIFIED", body, old)
        return body

    def _wrote(self, verb: str, name: str) -> None:
        self.writes.append((verb, name))
        self.times.append(time.monotonic())

    def _tell(self, type_: str, body: Json, old: Json | None) -> None:
        event = (self._version, type_, body, old)
        self._events.append(event)
        for queue in self._watchers:
            queue.put_nowait(event)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        wanted, since = _selector(request), int(request.query["resourceVersion"])
        if since < self._floor:
            raise Refusal(410, "Expired", f"too old resource version: {since}")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        queue: asyncio.Queue[Any] = asyncio.Queue()
        for event in self._events:
            if event[0] > since:
                queue.put_nowait(event)
        self._watchers.add(queue)
        try:
            await response.prepare(request)
            while (event := await queue.get()) is not None:
                if event == "bookmark":
                    line = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}}
                elif event == "expired":
                    line = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
                else:
                    line = _seen(event, wanted)
                if line:
                    await response.write(orjson.dumps(line) + b"\n")
        except ConnectionError:
            pass
        finally:
            self._watchers.discard(queue)
        return response

    def expire_watches(self) -> None:
        """Say 410 within open watches, and forget the history."""
        self.forget_history()
        for queue in self._watchers:
            queue.put_nowait("expired")

    # Leases and apps

    def _get_leases(self, _request: web.Request, name: str, _body: Json) -> Json:
        return self._find(self.leases, name)

    def _create_leases(self, _request: web.Request, _name: str, body: Json) -> Json:
        name = body["metadata"]["name"]
        if name in self.leases:
            raise Refusal(409, "AlreadyExists")
        return self._keep_lease(name, body)

    def _update_leases(self, _request: web.Request, name: str, body: Json) -> Json:
        old = self._find(self.leases, name)
        if body["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise Refusal(409, "Conflict")
        if body["spec"].get("holderIdentity") == "":
            raise Refusal(422, "Invalid", "spec.holderIdentity: must not be empty")
        return self._keep_lease(name, body)

    def _keep_lease(self, name: str, body: Json) -> Json:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.leases[name] = body
        return body

    def _list_leases(self, *_: Any) -> Json:
        raise Refusal(403, "Forbidden")

    _patch_leases = _delete_leases = _list_leases

    def _get_apps(self, request: web.Request, name: str, _body: Json) -> Json:
        return self._find(self.apps, f"{request.match_info['plural']}/{name}")


def _json(body: Any, status: int = 200, headers: Any = None) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, headers=headers, content_type="application/json")


def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def _selector(request: web.Request) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in request.query["labelSelector"].split(","))


def _matches(one: Json, wanted: dict[str, str]) -> bool:
    return wanted.items() <= one["metadata"].get("labels", {}).items()


def _seen(event: tuple[int, str, Json, Json | None], wanted: dict[str, str]) -> Json | None:
    """An event as a watcher of a selector sees it: an object that has lost the labels is gone for it."""
    version, type_, body, old = event
    now, before = type_ != "DELETED" and _matches(body, wanted), old is not None and _matches(old, wanted)
    if not now and not before:
        return None
    if not now:
        body = _merge(body if type_ == "DELETED" else old, {"metadata": {"resourceVersion": str(version)}})
    return {"type": "DELETED" if not now else "MODIFIED" if before else "ADDED", "object": body}


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _validate(body: Json) -> None:
    meta, spec = body["metadata"], body["spec"]
    if not _NAME.fullmatch(meta["name"]):
        raise Refusal(422, "Invalid", f"metadata.name: {meta['name']}")
    for key, value in meta.get("labels", {}).items():
        if not isinstance(value, str) or not _LABEL.fullmatch(value):
            raise Refusal(422, "Invalid", f"metadata.labels: {key}")
    if not all(isinstance(value, str) for value in meta.get("annotations", {}).values()):
        raise Refusal(400, "BadRequest", "metadata.annotations")
    ports = spec["ports"]
    if not ports or len({port["name"] for port in ports}) < len(ports) or not all(0 < p["port"] < 65536 for p in ports):
        raise Refusal(422, "Invalid", "spec.ports")
    for address in spec.get("externalIPs", []):
        ip_address(address)


# simulators


def device(number: int, ip: str | None, dpus: int = 0, **more: Any) -> Json:
    """A device of /machines/status. Its DPUs have the addresses behind its own."""
    mat_id = more.pop("mat_id", f"{number:08x}-0000-4000-8000-{number:012x}")
    address = ip_address(ip) if ip else None
    return {
        "mat_id": mat_id,
        "device_kind": "machine",
        "device_id": mat_id,
        "hardware_type": "dell_poweredge_r750",
        "mat_state": "MachineUp",
        "api_state": "Unknown",
        "power_state": "On",
        "bmc": {"ip": ip, "redfish": {"reachable_port": 443, "listen_port": 1266}},
        "dpus": [
            device(number + 1 + i, str(address + 1 + i) if address else None, device_kind="dpu") for i in range(dpus)
        ],
        **more,
    }


class FakePod:
    """A simulator. fails: status that it answers with, 0 for none; -1 to end the connection."""

    def __init__(self, kube: FakeKube, name: str, pod: str = "") -> None:
        self._kube, self.name, self.pod = kube, name, pod
        self.machines: list[Json] = []
        self.fails = 0
        self.raw: bytes | None = None
        self.asked: Counter[int] = Counter()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/machines/status", self._status)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self.register()
        self._kube.apps[f"deployments/{self.name}"] = {"metadata": {"name": self.name, "uid": f"uid-of-{self.name}"}}

    def register(self) -> None:
        """Make its Service."""
        labels = {"nvidia-infra-controller/mat-service": "true"}
        if self.pod:
            labels["nvidia-infra-controller/pod-name"] = self.pod
        ports = [
            {"name": "ssh", "port": 22, "protocol": "TCP"},
            {"name": "redfish", "port": self.port, "protocol": "TCP"},
        ]
        spec = {"ports": ports, "selector": {"statefulset.kubernetes.io/pod-name": self.name}}
        self._kube.put(f"{self.name}-bmc-mock", {"metadata": {"labels": labels}, "spec": spec})

    def unregister(self) -> None:
        self._kube.drop(f"{self.name}-bmc-mock")

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _status(self, request: web.Request) -> web.StreamResponse:
        if self.fails == -1:
            return _cut(request)
        if self.fails:
            return web.Response(status=self.fails, text="no status today")
        body = self.raw if self.raw is not None else orjson.dumps({"generation": 1, "machines": self.machines})
        etag = f'"{hash(body) & 0xFFFFFFFF:x}"'
        if request.headers.get("If-None-Match") == etag:
            self.asked[304] += 1
            return web.Response(status=304, headers={"ETag": etag})
        self.asked[200] += 1
        packed = gzip.compress(body, 1)
        headers = {"ETag": etag, "Content-Encoding": "gzip"}
        return web.Response(body=packed, headers=headers, content_type="application/json")


@asynccontextmanager
async def site(*pods: str):  # type: ignore[no-untyped-def]
    """A FakeKube with simulators: names of their pods."""
    kube = FakeKube()
    await kube.start()
    fakes = [FakePod(kube, f"nico-machine-a-tron-{pod}", pod) for pod in pods]
    try:
        for fake in fakes:
            await fake.start()
        yield kube, fakes
    finally:
        for fake in fakes:
            await fake.stop()
        await kube.stop()
