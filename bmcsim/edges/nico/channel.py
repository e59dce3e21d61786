"""The connection to NICo's API: one channel for the whole fleet.

Rule 1: a call is tried once, with a deadline. Whoever calls decides whether it is tried again, and when.
Rule 2: all calls leave at one pace. A server at its limit (RESOURCE_EXHAUSTED) may say for how long none leaves.
Rule 3: a lost connection is made again by itself.
Rule 4: certificates that changed make a new channel; calls on the old one end there. A pair that cannot be used is
        refused, and the present channel stays.
"""

import asyncio
import logging
from collections import Counter
from typing import NamedTuple

import grpc
import grpc.aio

from bmcsim.edges.files import Seen, look
from bmcsim.edges.nico import certificates
from bmcsim.edges.nico.calls import Answer, CallFailed, Method, Request
from bmcsim.edges.nico.certificates import Files, NicoError
from bmcsim.edges.nico.pace import Pace

log = logging.getLogger(__name__)

DEADLINE = 20.0
"""Seconds for one call."""

_PUSHBACK = "grpc-retry-pushback-ms"
_PUSHBACK_LEAST, _PUSHBACK_MOST = 1.0, 30.0
_MAX_DETAILS = 300
_LOOK_EVERY = 1.0
_OPTIONS = [
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
]


class Target(NamedTuple):
    """host, port: as gRPC takes them. files: of TLS, None for plain HTTP/2."""

    address: str
    files: Files | None


class Api:
    """NICo's API, to be made and used on the loop.

    calls: (method, code) -> count. last_error: of any call, '' for none. identity: as whom it speaks, '' for nobody.
    Raises NicoError for files that cannot be used.
    """

    def __init__(self, target: Target, pace: Pace) -> None:
        self._target, self.pace = target, pace
        self._seen: Seen = ()
        self._closing: set[asyncio.Task[None]] = set()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.last_error = ""
        self.reloads = self.refusals = 0
        self.identity = ""
        self._channel = self._connect()

    def _connect(self) -> grpc.aio.Channel:
        files = self._target.files
        if files is None:
            return grpc.aio.insecure_channel(self._target.address, _OPTIONS)
        # Looked at first: what changes while it is read will be read again.
        self._seen = look(files)
        found = certificates.read(files)
        self.identity = found.identity
        credentials = grpc.ssl_channel_credentials(found.root, found.key, found.certificate)
        return grpc.aio.secure_channel(self._target.address, credentials, _OPTIONS)

    async def call(self, method: Method[Request, Answer], request: Request, deadline: float = DEADLINE) -> Answer:
        """The answer to a request. deadline: seconds, from when it leaves. Raises CallFailed."""
        await self.pace.wait()
        send = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        try:
            answer: Answer = await send(request, timeout=deadline)
        except grpc.aio.AioRpcError as error:
            failed = self._failed(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The channel was closed under it.
            failed = CallFailed("CANCELLED")
        else:
            self.calls[method.name, "OK"] += 1
            return answer
        self.calls[method.name, failed.code] += 1
        self.last_error = str(failed)
        raise failed

    def _failed(self, error: grpc.aio.AioRpcError) -> CallFailed:
        code, stop = error.code().name, False
        if code == "RESOURCE_EXHAUSTED":
            pushback = pushback_of(error.trailing_metadata())
            if pushback is not None and pushback >= 0:
                self.pace.pause(min(max(pushback, _PUSHBACK_LEAST), _PUSHBACK_MOST))
            stop = pushback is not None and pushback < 0
        return CallFailed(code, (error.details() or "")[:_MAX_DETAILS], stop=stop)

    def poll(self) -> None:
        """Read the certificates again if their files have changed since they were last read."""
        files = self._target.files
        if files is None or look(files) == self._seen:
            return
        try:
            channel = self._connect()
        except NicoError as error:
            self.refusals += 1
            log.warning("the changed certificate for NICo is refused, the one of before stays: %s", error)
            return
        old, self._channel = self._channel, channel
        self.reloads += 1
        log.info("new connection to NICo as %s", self.identity or "nobody")
        task = asyncio.get_running_loop().create_task(old.close(DEADLINE))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def watch(self) -> None:
        """Look at the files every second, for ever."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self.poll()

    async def close(self) -> None:
        """End all connections and calls."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._channel.close()


def pushback_of(metadata: grpc.aio.Metadata | None) -> float | None:
    """Seconds for which the server wants no other attempt; negative: none at all; None: it does not say.

    What is no whole number counts as negative, as gRPC has it (gRFC A6).
    """
    value = next((value for key, value in metadata or () if key == _PUSHBACK), None)
    if value is None:
        return None
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        return -1.0
    return int(text) / 1000
