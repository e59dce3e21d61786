"""The calls to the Kubernetes API that are needed, over aiohttp.

Rule 1: all calls but those about leases and watches leave at one pace. A server that has too much to do (429, or 503
        with Retry-After) says for how long none leaves; such a call is repeated, no other is.
Rule 2: no answer is read beyond a limit, and no redirect is followed.
"""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import aiohttp
import msgspec
import yarl

from bmcsim.edges.k8s.access import Access, Token
from bmcsim.edges.k8s.limits import Bucket
from bmcsim.edges.k8s.objects import Event, Lease, LeaseSpec, Named, Object, Service, ServiceList, Status

PAGE = 500
"""Services of one page of a list: about 2 MiB."""

_ATTEMPTS = 10
_MAX_ANSWER, _MAX_LINE, _MAX_SHOWN = 64 * 1024 * 1024, 4 * 1024 * 1024, 300
_TIMEOUT, _CONNECT_TIMEOUT, _LEASE_TIMEOUT, _WATCH_GRACE = 60.0, 10.0, 5.0, 30.0
_PAUSE, _PAUSE_MOST = 1.0, 60.0
_MERGE_PATCH = "application/merge-patch+json"

T = TypeVar("T")


class ApiError(Exception):
    """A call failed. status: of HTTP, 0 when there was no answer. reason: as Kubernetes says it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason or status}: {message[:_MAX_SHOWN]}")
        self.status, self.reason = status, reason


class TooLarge(Exception):
    """An answer is larger than what is read of one."""


async def read_capped(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """A body, decoded. Raises TooLarge, ClientError and OSError."""
    pieces, size = list[bytes](), 0
    async for piece in response.content.iter_chunked(256 * 1024):
        size += len(piece)
        if size > limit:
            response.close()
            raise TooLarge(f"the answer is larger than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


class Api:
    """One namespace of an API server; to be made on the loop. calls: (verb, HTTP status or 'error') -> count."""

    def __init__(self, access: Access, namespace: str, bucket: Bucket) -> None:
        self._access, self._token, self.bucket = access, Token(access), bucket
        self.namespace = namespace
        self.calls: Counter[tuple[str, str]] = Counter()
        self._services = f"/api/v1/namespaces/{namespace}/services"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=100),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT, sock_connect=_CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "bmcsim-controller"},
        )

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    # Services

    async def list_services(self, selector: str, more: str = "") -> ServiceList:
        """A page. more: where the page before said to go on. Raises ApiError."""
        query = {"labelSelector": selector, "limit": str(PAGE), **({"continue": more} if more else {})}
        return _decode(await self._call("list", "GET", self._services, query=query), ServiceList)

    async def watch_services(self, selector: str, version: str, seconds: int) -> AsyncIterator[Event]:
        """What happens behind a version, for so long at the most. Raises ApiError."""
        query = {
            "labelSelector": selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        timeout = aiohttp.ClientTimeout(total=seconds + _WATCH_GRACE, sock_connect=_CONNECT_TIMEOUT)
        try:
            async with self._send("GET", self._services, query, None, "", timeout) as response:
                self.calls["watch", str(response.status)] += 1
                if response.status != 200:
                    raise _error(response.status, await read_capped(response, _MAX_ANSWER))
                rest = b""
                async for piece in response.content.iter_any():
                    *lines, rest = (rest + piece).split(b"\n")
                    if len(rest) > _MAX_LINE:
                        raise ApiError(0, "Unreadable", f"a line of a watch is longer than {_MAX_LINE} bytes")
                    for line in lines:
                        if line.strip():
                            yield _decode(line, Event)
        except (aiohttp.ClientError, OSError, TooLarge) as error:
            self.calls["watch", "error"] += 1
            raise _unreachable(error) from error

    async def get_service(self, name: str) -> Service:
        """Raises ApiError."""
        return _decode(await self._call("get", "GET", f"{self._services}/{name}"), Service)

    async def create_service(self, body: Object) -> Service:
        """Raises ApiError."""
        return _decode(await self._call("create", "POST", self._services, body), Service)

    async def patch_service(self, name: str, patch: Object) -> Service:
        """patch: a JSON merge patch. Raises ApiError."""
        answer = await self._call("patch", "PATCH", f"{self._services}/{name}", patch, media=_MERGE_PATCH)
        return _decode(answer, Service)

    async def delete_service(self, name: str, version: str) -> None:
        """Only if it is still of that version. Raises ApiError."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": version}}
        await self._call("delete", "DELETE", f"{self._services}/{name}", options)

    # others

    async def get_app(self, plural: str, name: str) -> Named:
        """An object of the group apps. Raises ApiError."""
        return _decode(
            await self._call("get", "GET", f"/apis/apps/v1/namespaces/{self.namespace}/{plural}/{name}"), Named
        )

    async def get_lease(self, name: str) -> Lease:
        """Raises ApiError."""
        return _decode(await self._call("get", "GET", f"{self._leases}/{name}", limited=False), Lease)

    async def put_lease(self, name: str, spec: LeaseSpec, version: str) -> Lease:
        """version: that it must still have; '' for one that must not be there yet. Raises ApiError."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": msgspec.to_builtins(spec),
        }
        if not version:
            return _decode(await self._call("create", "POST", self._leases, body, limited=False), Lease)
        body["metadata"]["resourceVersion"] = version
        return _decode(await self._call("update", "PUT", f"{self._leases}/{name}", body, limited=False), Lease)

    @property
    def _leases(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    # the way of one call

    async def _call(
        self,
        verb: str,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
        limited: bool = True,
    ) -> bytes:
        timeout = None if limited else aiohttp.ClientTimeout(total=_LEASE_TIMEOUT)
        for attempt in range(_ATTEMPTS):
            if limited:
                await self.bucket.take()
            try:
                async with self._send(method, path, query or {}, body, media, timeout) as response:
                    self.calls[verb, str(response.status)] += 1
                    data = await read_capped(response, _MAX_ANSWER)
            except (aiohttp.ClientError, OSError, TooLarge) as error:
                self.calls[verb, "error"] += 1
                raise _unreachable(error) from error
            if response.status < 300:
                return data
            pause = _pause(response)
            if pause is None or not limited or attempt + 1 == _ATTEMPTS:
                raise _error(response.status, data)
            self.bucket.pause(pause)
        raise AssertionError

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Object | None,
        media: str,
        timeout: aiohttp.ClientTimeout | None,
    ) -> "aiohttp.client._RequestContextManager":
        headers = {}
        if token := self._token.current():
            headers["Authorization"] = f"Bearer {token}"
        elif self._access.basic:
            headers["Authorization"] = f"Basic {self._access.basic}"
        if body is not None:
            headers["Content-Type"] = media
        return self._session.request(
            method,
            yarl.URL(self._access.server + path).with_query(query),
            data=None if body is None else msgspec.json.encode(body),
            headers=headers,
            ssl=self._access.trust.context(time.monotonic()),
            server_hostname=self._access.server_name or None,
            allow_redirects=False,
            timeout=timeout if timeout is not None else self._session.timeout,
        )


def _pause(response: aiohttp.ClientResponse) -> float | None:
    """Seconds to wait before the same call may be made again, None if it may not."""
    text = response.headers.get("Retry-After")
    if response.status != 429 and not (response.status == 503 and text is not None):
        return None
    return min(float(text), _PAUSE_MOST) if text is not None and text.isdecimal() else _PAUSE


def _unreachable(error: Exception) -> ApiError:
    return ApiError(0, "Unreachable", str(error) or type(error).__name__)


def _error(status: int, data: bytes) -> ApiError:
    try:
        said = msgspec.json.decode(data, type=Status)
    except msgspec.DecodeError:
        said = Status(json.dumps(data[:_MAX_SHOWN].decode("latin-1")))
    return ApiError(status, said.reason, said.message)


def _decode(data: bytes | msgspec.Raw, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.DecodeError as error:
        raise ApiError(0, "Unreadable", str(error)) from error
