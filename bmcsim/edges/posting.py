"""Posts over HTTP with aiohttp. Loaded at the first event that is posted: most fleets never need its 10 MiB."""

import socket

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from bmcsim.edges.push import Address, Target

_TIMEOUT, _CONNECT_TIMEOUT = 10.0, 5.0


async def post(target: Target, payload: bytes) -> int:
    """Post a payload over a connection of its own; the HTTP status. No redirect is followed, and nothing of the answer
    is read.

    Raises OSError (TimeoutError included) when there is no answer.
    """
    headers = {"Content-Type": "application/json", "OData-Version": "4.0", **target.headers}
    try:
        url = yarl.URL(target.url, encoded=True)
        if (url.raw_host or "").lower() != target.host:
            # What was resolved and allowed is not what would be dialled.
            raise OSError("the URI is ambiguous")
        async with (
            _session(target) as session,
            session.post(url, data=payload, headers=headers, allow_redirects=False) as response,
        ):
            return response.status
    except aiohttp.ClientOSError as error:
        raise OSError(error.errno, error.strerror) from error
    except (aiohttp.ClientError, ValueError) as error:
        raise OSError(type(error).__name__) from error


def _session(target: Target) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=1,
        resolver=_Pinned(target.address),
        local_addr=(target.source, 0) if target.source is not None else None,
        ssl=target.verify,
        force_close=True,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT, sock_connect=_CONNECT_TIMEOUT),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
    )


class _Pinned(AbstractResolver):
    """Resolves every name to the address that was allowed."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """That address, whatever is asked for."""
        del family
        own = socket.AF_INET6 if self._address.version == 6 else socket.AF_INET
        return [ResolveResult(hostname=host, host=str(self._address), port=port, family=own, proto=0, flags=0)]

    async def close(self) -> None:
        """There is nothing to close."""
