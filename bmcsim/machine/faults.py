"""The fault rules of one BMC, as a value: what they do to a request, and what is left of them afterwards.

Rule 1: `before` is asked before a request is handled, `after` when there is an answer. Both return the rules as they
        are from then on.
Rule 2: a match counts, and uses up a budget, only where the effect can act: the first answer wins and the others do
        not count, what edits JSON does not count on an answer that is not 2xx JSON, a lost write that was refused
        anyway is not used up. A rule whose budget is used up is gone.
Rule 3: chance is a function of (seed, id of the rule, number of the match), BLAKE2b of the three. It is the same in
        every run and every process, and two BMCs with different seeds do not fail together.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from bmcsim.machine.fault_effects import (
    MAX_DELAY,
    Answering,
    Behaviour,
    CloseAfter,
    Drip,
    Editing,
    Headers,
    IgnorePowerOn,
    JsonMerge,
    JsonRemove,
    Latency,
    LostWrite,
    Replace,
    Truncate,
)
from bmcsim.machine.fault_rules import Asked, FaultError, Rule, from_json, size_of, to_json, wildcards

MAX_RULES = 256
MAX_TOTAL = 1024 * 1024
"""Bytes of all rules of a BMC as JSON: what a request looks through, and what is stored with each change."""
MAX_WILDCARDS = 4096
"""Signs * ? [ in the globs of all rules of a BMC. A request waits for their patterns, and all BMCs wait with it."""
WRITES = frozenset({"POST", "PATCH", "PUT", "DELETE"})

B = TypeVar("B", bound=Behaviour)


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What the rules want of a request.

    delay: real seconds before the answer. answer: what to answer instead of handling the request, if anything.
    lost_write: id of the rule that wants the write answered but not done, or ''. later: ids of the rules that want to
    change the answer. seed: what chance depends on. acted: ids of the rules that have acted so far.
    """

    delay: float = 0.0
    answer: Answering | None = None
    lost_write: str = ""
    later: tuple[str, ...] = ()
    seed: int = 0
    acted: tuple[str, ...] = ()


class Edits(msgspec.Struct, frozen=True, gc=False):
    """What the rules want of an answer, in this order.

    body: edits of its JSON. headers: edits of its header fields. truncate: fraction of the body that remains.
    keep: bytes of the body after which the connection closes. rate: bytes per second, 0 for all at once.
    acted: ids of the rules that have acted on the answer.
    """

    body: tuple[Editing, ...] = ()
    headers: tuple[Headers, ...] = ()
    truncate: float | None = None
    keep: int | None = None
    rate: float = 0.0
    acted: tuple[str, ...] = ()


NOTHING = Verdict()
AS_IT_IS = Edits()


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The rules in order. An empty value is false; BMCs may share one."""

    rules: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> "Rules":
        """Raises FaultError for too many rules and for an id that is there twice."""
        every = tuple(rules)
        if len(every) > MAX_RULES:
            raise FaultError((), f"a BMC has at most {MAX_RULES} rules")
        if sum(size_of(rule) for rule in every) > MAX_TOTAL:
            raise FaultError((), f"all rules of a BMC must be at most {MAX_TOTAL // 1024} KiB of JSON")
        if sum(wildcards(rule.selector) for rule in every) > MAX_WILDCARDS:
            raise FaultError((), f"all globs of a BMC have at most {MAX_WILDCARDS} wildcards")
        seen: set[str] = set()
        for index, rule in enumerate(every):
            if rule.id in seen:
                raise FaultError((index, "id"), f"{rule.id!r} is there twice; each rule needs an id of its own")
            seen.add(rule.id)
        return cls(every)

    def set_at(self, wall: float) -> "Rules":
        """As if the rules were set at another time. wall: seconds since the epoch."""
        return Rules(tuple([msgspec.structs.replace(rule, since=wall) for rule in self.rules]))

    @property
    def budgets(self) -> list[tuple[str, int | None]]:
        """Id and what is left of the budget of each rule."""
        return [(rule.id, rule.remaining) for rule in self.rules]

    def upsert(self, rule: Rule) -> "Rules":
        """With a rule in the place of the one of its id, or at the end. Raises FaultError."""
        if any(other.id == rule.id for other in self.rules):
            return Rules.of(rule if other.id == rule.id else other for other in self.rules)
        return Rules.of((*self.rules, rule))

    def remove(self, id_: str) -> "Rules":
        """Without a rule. Raises KeyError when it is not there."""
        left = tuple(rule for rule in self.rules if rule.id != id_)
        if len(left) == len(self.rules):
            raise KeyError(id_)
        return Rules(left)

    # the durable form

    def dump(self) -> list[dict[str, Any]]:
        """Plain values that `load` reads, with what the rules have counted."""
        return [{**to_json(rule), "since": rule.since, "seen": rule.seen} for rule in self.rules]

    @classmethod
    def load(cls, dumped: Iterable[dict[str, Any]]) -> "Rules":
        """Raises FaultError for what `dump` does not write."""
        rules = []
        for index, value in enumerate(dumped):
            form = dict(value)
            since, seen = form.pop("since", None), form.pop("seen", None)
            if not isinstance(since, float | int) or not isinstance(seen, int):
                raise FaultError((index,), "needs the numbers since and seen")
            try:
                rules.append(msgspec.structs.replace(from_json(form, float(since)), seen=seen))
            except FaultError as error:
                raise FaultError((index, *error.where), error.text) from error
        return cls.of(rules)

    # requests

    def before(
        self, method: str, path: str, wall: float, seed: int, *, if_match: bool = False, gzip: bool = False
    ) -> tuple["Rules", Verdict]:
        """What is wanted of a request. path: decoded, without query. wall: seconds now. seed: the BMC's own number."""
        if not self.rules:
            return self, NOTHING
        trimmed = path.rstrip("/")
        asked = Asked(method, trimmed, trimmed != path, if_match, gzip)
        matching = [rule for rule in self.rules if rule.concerns(asked, wall)]
        if not matching:
            return self, NOTHING
        tally = _Tally(seed)
        delay, answer, lost_write, later = 0.0, None, "", []
        for rule in matching:
            effect = rule.effect
            if isinstance(effect, Latency):
                if tally.acts(rule):
                    delay += effect.mean + effect.jitter * tally.chance(rule, b"jitter")
            elif isinstance(effect, Answering):
                if answer is None and tally.acts(rule):
                    answer = effect
            elif not isinstance(effect, LostWrite) and (method != "HEAD" or isinstance(effect, Headers)):
                later.append(rule.id)
        if answer is None and method in WRITES:
            losing = (rule for rule in matching if isinstance(rule.effect, LostWrite))
            lost_write = next((rule.id for rule in losing if tally.acts(rule, spend=False)), "")
        acted = tuple(tally.acted)
        return self._with(tally), Verdict(min(delay, MAX_DELAY), answer, lost_write, tuple(later), seed, acted)

    def may_answer(self, method: str, path: str, wall: float, *, if_match: bool = False, gzip: bool = False) -> bool:
        """Whether a rule may answer a request in the place of the BMC. Nothing is counted."""
        asked = Asked(method, path.rstrip("/"), path.endswith("/"), if_match, gzip)
        answering = (rule for rule in self.rules if isinstance(rule.effect, Answering))
        return any(rule.concerns(asked, wall) for rule in answering)

    def after(self, verdict: Verdict, status: int, length: int, *, is_json: bool) -> tuple["Rules", Edits]:
        """What is wanted of the answer to a request. status, length of the body in bytes, is_json: of that answer."""
        success = 200 <= status < 300
        if not verdict.later and not (verdict.lost_write and success):
            return self, AS_IT_IS
        tally = _Tally(verdict.seed)
        body: list[Editing] = []
        headers: list[Headers] = []
        replacement, truncate, keep, rate = None, None, None, 0.0
        for rule in self.rules:
            effect = rule.effect
            if rule.id == verdict.lost_write and success:
                tally.spend(rule)
            if rule.id not in verdict.later:
                continue
            if isinstance(effect, Headers):
                if tally.acts(rule):
                    headers.append(effect)
            elif isinstance(effect, Replace):
                if success and is_json and replacement is None and tally.acts(rule):
                    replacement = effect
            elif isinstance(effect, JsonMerge | JsonRemove):
                if success and is_json and tally.acts(rule):
                    body.append(effect)
            elif isinstance(effect, Truncate):
                if length and truncate is None and tally.acts(rule):
                    truncate = effect.keep
            elif isinstance(effect, CloseAfter):
                if effect.bytes < length and keep is None and tally.acts(rule):
                    keep = effect.bytes
            elif isinstance(effect, Drip) and length and not rate and tally.acts(rule):
                rate = float(effect.bytes_per_second)
        edits = (replacement, *body) if replacement is not None else tuple(body)
        return self._with(tally), Edits(edits, tuple(headers), truncate, keep, rate, tuple(tally.acted))

    def for_member(
        self, uri: str, wall: float, seed: int, acted: list[str] | None = None
    ) -> tuple["Rules", tuple[Editing, ...] | None]:
        """What is wanted of a resource that an expanded answer embeds: edits, or None to show only its link.

        acted: gets the ids of the rules that act.
        """
        if not self.rules:
            return self, ()
        asked = Asked("GET", uri.rstrip("/"), member=True)
        tally = _Tally(seed, acted)
        replacement: Replace | None = None
        edits: list[Editing] = []
        for rule in self.rules:
            effect = rule.effect
            if not isinstance(effect, Answering | Editing) or not rule.concerns(asked, wall):
                continue
            if isinstance(effect, Answering):
                if tally.acts(rule):
                    return self._with(tally), None
            elif isinstance(effect, Replace):
                if replacement is None and tally.acts(rule):
                    replacement = effect
            elif tally.acts(rule):
                edits.append(effect)
        return self._with(tally), (replacement, *edits) if replacement is not None else tuple(edits)

    def _with(self, tally: "_Tally") -> "Rules":
        changed = tally.changed
        if not changed:
            return self
        current = (changed.get(rule.id, rule) for rule in self.rules)
        return Rules(tuple(rule for rule in current if rule is not None))

    # behaviours of a stuck machine

    def behaviour(self, kind: type[B]) -> B | None:
        """The first behaviour of a kind."""
        return next((rule.effect for rule in self.rules if isinstance(rule.effect, kind)), None)

    def spend(self, kind: type[Behaviour]) -> "Rules":
        """After the first behaviour of a kind has acted once more."""
        tally = _Tally(0)
        for rule in self.rules:
            if isinstance(rule.effect, kind):
                tally.spend(rule)
                break
        return self._with(tally)

    def cure(self, kind: type[Behaviour]) -> "Rules":
        """Without the behaviours of a kind."""
        if self.behaviour(kind) is None:
            return self
        return Rules(tuple(rule for rule in self.rules if not isinstance(rule.effect, kind)))


NO_RULES = Rules()


class _Tally:
    """Counts matches and budgets. changed: id -> the rule as it is from now on, None when it is used up. acted: ids of
    those that acted."""

    def __init__(self, seed: int, acted: list[str] | None = None) -> None:
        self.seed = seed
        self.acted: list[str] = [] if acted is None else acted
        self.changed: dict[str, Rule | None] = {}

    def acts(self, rule: Rule, *, spend: bool = True) -> bool:
        """Count a match of a rule on which it can act; whether it does."""
        if rule.counts:
            rule = msgspec.structs.replace(rule, seen=rule.seen + 1)
            self.changed[rule.id] = rule
            if rule.seen % rule.every or (rule.probability < 1 and self.chance(rule, b"act") >= rule.probability):
                return False
        if spend:
            self.spend(rule)
        return True

    def spend(self, rule: Rule) -> None:
        """A rule acts: use up one of its budget."""
        self.acted.append(rule.id)
        effect = rule.effect
        if isinstance(effect, IgnorePowerOn):
            left = IgnorePowerOn(effect.count - 1) if effect.count > 1 else None
            self.changed[rule.id] = msgspec.structs.replace(rule, effect=left) if left else None
        elif rule.remaining is not None:
            left_over = rule.remaining - 1
            self.changed[rule.id] = msgspec.structs.replace(rule, remaining=left_over) if left_over else None

    def chance(self, rule: Rule, purpose: bytes) -> float:
        """A number in [0, 1) for the present match of a rule."""
        text = b"%d %d %b" % (self.seed, rule.seen, rule.id.encode())
        return int.from_bytes(blake2b(text, digest_size=8, person=purpose).digest(), "big") / 2**64
