"""Fault rules as values, and their JSON form.

{"id": text, "selector": SELECTOR, "action": ACTION, "remaining": count or null} is machine-a-tron's form. Ours has
further keys (method, probability, every, window), further selectors and further actions; a variant is written as
{"Name": content}, or as "Name" where it has no content. Durations are texts such as 150ms or 1m 30s.
Actions that concern the machine instead of a request take only `id` and `remaining` beside them.
"""

import re
from typing import Annotated, Any, TypeVar

import msgspec
import orjson
from msgspec import Meta

from bmcsim.machine.fault_effects import (
    Behaviour,
    Duration,
    Effect,
    Headers,
    IgnorePowerOn,
    JsonMerge,
    JsonRemove,
    Latency,
    Replace,
    Status,
    Unauthorized,
)
from bmcsim.machine.fault_globs import Glob, compiled

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32

Where = tuple[str | int, ...]
T = TypeVar("T")

_Count = Annotated[int, Meta(ge=1, le=2**53 - 1)]
_METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
_MSGSPEC_ERROR = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


class FaultError(Exception):
    """A fault rule is wrong.

    where: the keys and indexes that lead to what is wrong. text: what would be right.
    """

    def __init__(self, where: Where, text: str) -> None:
        super().__init__(f"{'.'.join(map(str, where)) or '(rule)'}: {text}")
        self.where, self.text = where, text


class Method(str):
    """An HTTP method in upper case."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: Any) -> "Method":
        """Raises ValueError for a method that Redfish does not have."""
        if not isinstance(text, str) or text.upper() not in _METHODS:
            raise ValueError(f"{text!r} must be one of {', '.join(_METHODS)}")
        return cls(text.upper())


# selectors


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What a selector sees of a request.

    path: without slashes at its end. slash: whether there were some. if_match: whether If-Match is there. gzip: whether
    Accept-Encoding asks for it. member: it is no request of its own but a resource that an expanded answer embeds.
    """

    method: str
    path: str
    slash: bool = False
    if_match: bool = False
    gzip: bool = False
    member: bool = False


class OdataId(msgspec.Struct, frozen=True):
    """A resource by its path, whether it is asked for or embedded in an expanded answer."""

    glob: Glob

    def matches(self, asked: Asked) -> bool:
        return self.glob.matches(asked.path)


class Path(msgspec.Struct, frozen=True, omit_defaults=True):
    """The same with more conditions: the method; whether a slash ends the path, If-Match is there, gzip is wanted."""

    glob: Glob
    method: Method | None = None
    slash: bool | None = None
    if_match: bool | None = None
    gzip: bool | None = None

    def matches(self, asked: Asked) -> bool:
        return (
            self.glob.matches(asked.path)
            and self.method in (None, asked.method)
            and self.slash in (None, asked.slash)
            and self.if_match in (None, asked.if_match)
            and self.gzip in (None, asked.gzip)
        )


class Member(msgspec.Struct, frozen=True):
    """A resource only where an expanded answer embeds it."""

    glob: Glob

    def matches(self, asked: Asked) -> bool:
        return asked.member and self.glob.matches(asked.path)


class AnyOf(msgspec.Struct, frozen=True):
    """What at least one of several selectors matches; nothing when there are none."""

    selectors: "tuple[Selector, ...]"

    def matches(self, asked: Asked) -> bool:
        return any(selector.matches(asked) for selector in self.selectors)


Selector = OdataId | Path | Member | AnyOf


_EFFECTS: dict[str, Any] = {type_.__name__: type_ for type_ in Effect.__args__}
_SELECTORS: dict[str, Any] = {"OdataId": OdataId, "Path": Path, "Member": Member, "Any": AnyOf}
_BARE = (OdataId, Member, JsonMerge, JsonRemove, Replace, Status, Headers)
"""Types whose JSON is the value of their only field."""


class Window(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a rule acts, in seconds since it was set."""

    after: Duration = Duration(0)
    length: Duration | None = msgspec.field(default=None, name="for")

    def __contains__(self, seconds: float) -> bool:
        return self.after <= seconds and (self.length is None or seconds < self.after + self.length)


class Rule(msgspec.Struct, frozen=True, gc=False):
    """One fault rule.

    selector: what it concerns; None exactly for a Behaviour. method: further condition, None for all.
    probability, every: of the n-th, 2n-th, ... match, the share on which it acts. remaining: how often it still acts,
    None without limit. since: wall seconds when it was set. seen: matches so far, where something depends on it.
    """

    id: str
    effect: Effect
    selector: Selector | None = None
    remaining: int | None = None
    method: Method | None = None
    probability: float = 1.0
    every: int = 1
    window: Window | None = None
    since: float = 0.0
    seen: int = 0

    @property
    def counts(self) -> bool:
        """Whether it matters how many matches there were."""
        effect = self.effect
        return self.every > 1 or self.probability < 1 or (isinstance(effect, Latency) and effect.jitter > 0)

    def concerns(self, asked: Asked, wall: float) -> bool:
        """Whether it matches a request at a wall time."""
        return (
            self.method in (None, asked.method)
            and (self.window is None or (wall - self.since) in self.window)
            and self.selector is not None
            and self.selector.matches(asked)
        )


class _Form(msgspec.Struct, frozen=True):
    """The keys of a rule."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]
    selector: Any = None
    action: Any = None
    remaining: _Count | None = None
    method: Method | None = None
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    every: _Count = 1
    window: Any = None


def from_json(value: Any, since: float = 0.0) -> Rule:
    """The rule of a JSON value. since: wall seconds now. Raises FaultError."""
    _check_size(value)
    rule = _rule_of(value, since)
    _check_size(to_json(rule))  # What is stored is this form, and it has to be taken when it is loaded.
    return rule


def _rule_of(value: Any, since: float) -> Rule:
    form = _convert(value, _Form, ())
    if not form.id.isprintable():
        raise FaultError(("id",), "must have no line breaks and other control characters")
    effect: Effect = _variant(form.action, _EFFECTS, ("action",), "an action")
    window = _convert(form.window, Window, ("window",)) if form.window is not None else None
    if isinstance(effect, Behaviour):
        for key in ("selector", "method", "probability", "every", "window"):
            if value.get(key) is not None:
                raise FaultError((key,), f"{type(effect).__name__} is about the machine, not about requests; leave out")
        if isinstance(effect, IgnorePowerOn) and form.remaining is not None:
            raise FaultError(("remaining",), "IgnorePowerOn has its count; leave out")
        return Rule(form.id, effect, None, form.remaining, since=since)
    selector = _selector(form.selector, ("selector",))
    return Rule(form.id, effect, selector, form.remaining, form.method, form.probability, form.every, window, since)


def to_json(rule: Rule) -> dict[str, Any]:
    """The JSON value of a rule, without what it has counted."""
    form: dict[str, Any] = {"id": rule.id}
    if rule.selector is not None:
        form["selector"] = _selector_form(rule.selector)
    form["action"] = _variant_form(rule.effect)
    form["remaining"] = rule.remaining
    if rule.method is not None:
        form["method"] = str(rule.method)
    if rule.probability != 1:
        form["probability"] = rule.probability
    if rule.every != 1:
        form["every"] = rule.every
    if rule.window is not None:
        form["window"] = _plain(rule.window)
    return form


def size_of(rule: Rule) -> int:
    """Bytes of its JSON."""
    return len(orjson.dumps(to_json(rule)))


def wildcards(selector: Selector | None) -> int:
    """How many wildcards its globs have."""
    if isinstance(selector, AnyOf):
        return sum(map(wildcards, selector.selectors))
    return selector.glob.wildcards if selector is not None else 0


def _check_size(value: Any) -> None:
    try:
        size = len(orjson.dumps(value))
    except TypeError as error:
        raise FaultError((), f"must be JSON, at most {MAX_DEPTH} levels deep: {error}") from error
    if size > MAX_BYTES:
        raise FaultError((), f"must be at most {MAX_BYTES // 1024} KiB of JSON")
    if _depth(value) > MAX_DEPTH:
        raise FaultError((), f"must be at most {MAX_DEPTH} levels deep")


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inside), default=0)


def _selector(value: Any, where: Where) -> Selector:
    if isinstance(value, dict) and list(value) == ["Any"]:
        inside = _convert(value["Any"], list[Any], (*where, "Any"))
        return AnyOf(tuple(_selector(one, (*where, "Any", index)) for index, one in enumerate(inside)))
    selector: Selector = _variant(value, _SELECTORS, where, "a selector")
    return selector


def _selector_form(selector: Selector) -> dict[str, Any]:
    if isinstance(selector, AnyOf):
        return {"Any": [_selector_form(one) for one in selector.selectors]}
    form: dict[str, Any] = _variant_form(selector)
    return form


def _variant(value: Any, variants: dict[str, Any], where: Where, what: str) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((name, content),) = value.items()
    else:
        name, content = value, None
    if not isinstance(name, str) or name not in variants:
        raise FaultError(where, f"must be {{NAME: content}} of {what}; NAME is one of {', '.join(variants)}")
    type_ = variants[name]
    if type_.__struct_fields__ and name is value:
        raise FaultError(where, f"{name} needs its content: {{{name!r}: content}}")
    if type_ in _BARE:
        (field,) = type_.__struct_fields__
        return _convert({field: content}, type_, (*where, name), bare=True)
    return _convert({} if content is None else content, type_, (*where, name))


def _variant_form(variant: Any) -> Any:
    name = type(variant).__name__
    form = _plain(variant)
    if isinstance(variant, _BARE):
        (form,) = form.values()
    return {name: form} if variant.__struct_fields__ or isinstance(variant, Unauthorized) else name


def _convert(value: Any, type_: type[T], where: Where, *, bare: bool = False) -> T:
    """msgspec.convert whose errors name the place and say what would be right."""
    fields = getattr(type_, "__struct_encode_fields__", None)
    if fields is not None and isinstance(value, dict):
        for key in value:
            if key not in fields:
                raise FaultError((*where, key), f"unknown key; there are {', '.join(fields) or 'none here'}")
    try:
        return msgspec.convert(value, type_, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        match = _MSGSPEC_ERROR.fullmatch(str(error))
        text, path = (match[1], match[2] or "") if match else (str(error), "")
        steps: Where = tuple(int(index) if index else key for key, index in _STEP.findall(path))
        text = text.replace("Expected ", "must be ").replace("Object missing required field", "needs the key")
        raise FaultError((*where, *(steps[1:] if bare else steps)), text.replace("`", "")) from error


def _decoded(type_: Any, value: Any) -> Any:
    if type_ is not Glob:
        return type_.parse(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} must be a glob such as /redfish/v1/Chassis/*")
    return compiled(value)


def _plain(value: Any) -> Any:
    """A struct as the JSON value that it stands for."""
    return msgspec.json.decode(
        msgspec.json.encode(value, enc_hook=lambda custom: custom.text if type(custom) is Glob else str(custom))
    )
