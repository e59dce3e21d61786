"""Reads the live stream of the control API (server-sent events, WHATWG HTML 9.2), and asks again and again instead
where there is none."""

import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import orjson

from bmcsim.cli.remote import Remote, RemoteError
from bmcsim.cli.selection import Chosen, listed

MOST_POLLED = 500
PAUSE = 2.0
_LONGEST_LINE = 64 * 1024 * 1024

Tell = Callable[[str, Any], None]
"""Takes the name and the JSON of an event. Beside those of the stream: `polled`, with the keys `fleet` (the overview)
and `items` (summaries of BMCs), and `lost`, with what is wrong."""


class Event(NamedTuple):
    """An event. id: '' for none."""

    name: str
    data: bytes
    id: str


class Lines(Protocol):
    """What can be read line by line, as an answer."""

    def readline(self, limit: int = -1, /) -> bytes:
        """A line with its end, b'' after the last one."""


def events(source: Lines) -> Iterator[Event]:
    """The events of a stream, until it ends."""
    data: list[bytes] = []
    name = "message"
    id_ = ""
    while line := source.readline(_LONGEST_LINE):
        if not line.endswith(b"\n"):
            return
        line = line.rstrip(b"\r\n")
        if not line:
            if data:
                yield Event(name, b"\n".join(data), id_)
            name, data = "message", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data.append(value)
        elif field == b"id":
            id_ = value.decode("ascii", "replace")


class Follower:
    """Tells what happens in a fleet, from a thread of its own. remote: that nobody else uses. query: of the stream.
    chosen: the same BMCs, to ask for where there is no stream."""

    def __init__(self, remote: Remote, query: Mapping[str, Any], chosen: Chosen, tell: Tell) -> None:
        self._remote, self._query, self._chosen, self._tell = remote, query, chosen, tell
        self._over = threading.Event()
        self._last = ""

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def stop(self) -> None:
        """Tell nothing more."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self.stream()
            except RemoteError:
                self._remote.close()
                if not self._over.is_set():
                    self.poll()
            self._over.wait(PAUSE)
        self._remote.close()

    def stream(self) -> None:
        """Tell what the stream says. Raises RemoteError when there is none, or none any more."""
        head = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self._last} if self._last else {})
        answer = self._remote.open("GET", "events", self._query, fields=head)
        try:
            for event in events(answer):
                if self._over.is_set():
                    return
                self._last = event.id or self._last
                self._tell(event.name, orjson.loads(event.data))
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
            raise RemoteError(f"the stream of {self._remote.url} broke off: {error or type(error).__name__}") from error
        raise RemoteError(f"the stream of {self._remote.url} ended")

    def poll(self) -> None:
        """Ask for what the stream would say."""
        try:
            fleet = self._remote.get("fleet")
            fields = ("id", "kind", "group", "hardware", "address", "state", "power", "credentials", "faults", "errors")
            items = listed(self._remote, self._chosen, fields, sort="-errors", limit=MOST_POLLED).items
        except RemoteError as error:
            self._remote.close()
            self._tell("lost", error.format_message())
            return
        # What the stream told before is not what is known now.
        self._last = ""
        self._tell("polled", {"fleet": fleet, "items": items})
