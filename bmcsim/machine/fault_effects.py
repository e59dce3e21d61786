"""What a fault rule does to a request, to its answer, or to the machine. The field names are those of the JSON form."""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bmcsim.tree.source import deep_merge

MAX_DELAY = 3600.0
_LONGEST = 3650 * 86400.0

_UNITS = (
    (1e-9, "ns nsec nanos"),
    (1e-6, "us usec micros"),
    (1e-3, "ms msec millis"),
    (1.0, "s sec secs second seconds"),
    (60.0, "m min mins minute minutes"),
    (3600.0, "h hr hrs hour hours"),
    (86400.0, "d day days"),
    (604800.0, "w wk week weeks"),
)
_SECONDS = {name: seconds for seconds, names in _UNITS for name in names.split()}
_PART = r"\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([a-z]+)"
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)+")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]*")
_FRAMING = ("content-length", "transfer-encoding", "connection", "date")


class Duration(float):
    """Seconds, in whole milliseconds."""

    @classmethod
    def parse(cls, text: Any) -> "Duration":
        """Raises ValueError for anything but numbers with units."""
        if not isinstance(text, str) or len(text) > 64 or not re.fullmatch(rf"(?:{_PART})+", text.rstrip()):
            raise ValueError(f"{text!r} must be a duration such as 150ms, 2s or 1m 30s")
        seconds = 0.0
        for number, unit in re.findall(_PART, text):
            if unit not in _SECONDS:
                raise ValueError(f"{text!r} has the unit {unit!r}; there are {', '.join(_SECONDS)}")
            seconds += float(number) * _SECONDS[unit]
        if seconds > _LONGEST:
            raise ValueError(f"{text!r} must be at most {round(_LONGEST / 86400)} days")
        return cls(round(seconds * 1000) / 1000)

    def __str__(self) -> str:
        return f"{round(self * 1000)}ms"


def _check_delay(*delays: Duration) -> None:
    if max(delays) > MAX_DELAY:
        raise ValueError(f"must be at most {round(MAX_DELAY / 3600)}h")


# effects on requests and answers


class JsonMerge(msgspec.Struct, frozen=True):
    """Merge into the JSON body; null becomes a value, it removes nothing."""

    value: dict[str, Any]

    def edit(self, body: Any) -> Any:
        """A body with the change; one that is no object stays as it is."""
        return deep_merge(body, self.value) if isinstance(body, dict) else body


class JsonRemove(msgspec.Struct, frozen=True):
    """Remove from the JSON body what JSON pointers (RFC 6901) name; what is not there is no error."""

    pointers: tuple[str, ...]

    def __post_init__(self) -> None:
        for pointer in self.pointers:
            if not _POINTER.fullmatch(pointer):
                raise ValueError(f"{pointer!r} must be a JSON pointer such as /Links/ManagedBy")

    def edit(self, body: Any) -> Any:
        """A body with the change."""
        for pointer in self.pointers:
            steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
            body = _without(body, steps)
        return body


def _without(body: Any, steps: list[str]) -> Any:
    step, *rest = steps
    if isinstance(body, dict) and step in body:
        changed = {key: value for key, value in body.items() if rest or key != step}
        if rest:
            changed[step] = _without(body[step], rest)
        return changed
    if isinstance(body, list) and _INDEX.fullmatch(step) and int(step) < len(body):
        at = int(step)
        return [*body[:at], *([_without(body[at], rest)] if rest else []), *body[at + 1 :]]
    return body


class Replace(msgspec.Struct, frozen=True):
    """Put another JSON body in the place of the answer's."""

    value: Any

    def edit(self, _body: Any) -> Any:
        """The other body."""
        return self.value


class Status(msgspec.Struct, frozen=True):
    """Answer with a status and no body."""

    code: Annotated[int, Meta(ge=200, le=599)]


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """Answer with a Redfish error. message: key in the Base registry. args: its arguments."""

    status: Annotated[int, Meta(ge=400, le=599)]
    message: str
    args: tuple[str, ...] = ()


class Unauthorized(msgspec.Struct, frozen=True):
    """Answer as if the credentials were wrong."""


class Close(msgspec.Struct, frozen=True):
    """Close the connection instead of answering."""


class Latency(msgspec.Struct, frozen=True):
    """Answer later, by mean and up to jitter more. In real time."""

    mean: Duration
    jitter: Duration = Duration(0)

    def __post_init__(self) -> None:
        _check_delay(self.mean, self.jitter)


class LostWrite(msgspec.Struct, frozen=True):
    """Answer a write as if it were done, and do not do it."""


class Headers(msgspec.Struct, frozen=True):
    """Set header fields of the answer, or remove them (null). {} in a value, once, stands for the value before."""

    fields: dict[str, str | None]

    def __post_init__(self) -> None:
        for name, value in self.fields.items():
            if not _FIELD.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a header field; letters, digits and - make one")
            if name.lower() in _FRAMING:
                raise ValueError(f"{name} cannot be set; CloseAfter, Truncate and Drip change how an answer is sent")
            if value is not None and not _FIELD_VALUE.fullmatch(value):
                raise ValueError(f"{name} must have a value of Latin-1 characters without line breaks")
            if value is not None and value.count("{}") > 1:
                # Rules that each double a value would make one of any length.
                raise ValueError(f"{name} may have {{}} once")


class CloseAfter(msgspec.Struct, frozen=True):
    """Close the connection after so many bytes of the body; Content-Length promises all of it."""

    bytes: Annotated[int, Meta(ge=0, le=2**31)]


class Truncate(msgspec.Struct, frozen=True):
    """Send only the first part of the body, as valid HTTP. keep: fraction of its bytes."""

    keep: Annotated[float, Meta(ge=0, lt=1)]


class Drip(msgspec.Struct, frozen=True):
    """Send the answer slowly."""

    bytes_per_second: Annotated[int, Meta(ge=1, le=2**31)]


# behaviours of a stuck machine


class IgnorePowerOn(msgspec.Struct, frozen=True):
    """Accept so many commands to power on and do nothing; an AC cycle cures it."""

    count: Annotated[int, Meta(ge=1, le=1_000_000)]


class IgnoreShutdown(msgspec.Struct, frozen=True):
    """A graceful shutdown never ends."""


class UpdateFails(msgspec.Struct, frozen=True):
    """Firmware updates end in failure at this progress."""

    at_percent: Annotated[int, Meta(ge=0, le=100)]


class SlowLogin(msgspec.Struct, frozen=True):
    """A login takes this long. In real time."""

    delay: Duration

    def __post_init__(self) -> None:
        _check_delay(self.delay)


class LateJobs(msgspec.Struct, frozen=True):
    """A job is not found for this long after its URI was handed out. In real time."""

    delay: Duration

    def __post_init__(self) -> None:
        _check_delay(self.delay)


class MediaFails(msgspec.Struct, frozen=True):
    """The source of virtual media cannot be reached."""


Answering = Status | Error | Unauthorized | Close
Editing = JsonMerge | JsonRemove | Replace
Behaviour = IgnorePowerOn | IgnoreShutdown | UpdateFails | SlowLogin | LateJobs | MediaFails
Effect = Answering | Editing | Latency | LostWrite | Headers | CloseAfter | Truncate | Drip | Behaviour
