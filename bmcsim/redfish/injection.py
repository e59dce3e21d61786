"""Fault injection: the rules' own resource, and what rules do to requests and answers.

/Injection/rules is machine-a-tron's interface. Rules never concern requests to it, so none can lock itself in.

    bmc.rules, verdict, response = apply_before(bmc.rules, request, seed)
    response = response or ...
    bmc.rules, response = apply_after(bmc.rules, verdict, response)
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import orjson

from bmcsim.core.clock import Moment
from bmcsim.core.errors import RedfishError
from bmcsim.machine.fault_effects import Close, Editing, Error, Headers, Status
from bmcsim.machine.fault_rules import FaultError, Rule, from_json, to_json
from bmcsim.machine.faults import AS_IT_IS, NO_RULES, NOTHING, Edits, Rules, Verdict
from bmcsim.redfish.auth import CHALLENGE
from bmcsim.redfish.exchange import DROP, EMPTY_HEAD, JSON_HEAD, Delivery, Request, Response, media_type
from bmcsim.redfish.messages import MESSAGES, error_response, errors_response, message
from bmcsim.tree import fault_presets

PATH = "/Injection/rules"
MAX_EDITED = 16 * 1024 * 1024
"""Bytes of the edited resources that one answer embeds. A large edit of each of thousands would fill the memory."""
_SECONDS = re.compile(r"[0-9]{1,9}")


def is_own(path: str) -> bool:
    """Whether a path belongs to this interface."""
    return f"{path}/".startswith(f"{PATH}/")


# rules


def rule_of(value: Any, since: float) -> Rule:
    """The rule of a JSON value, with its message checked too. since: wall seconds now. Raises FaultError."""
    rule = from_json(value, since)
    if isinstance(rule.effect, Error):
        if rule.effect.message not in MESSAGES:
            raise FaultError(("action", "Error", "message"), f"must be one of {', '.join(MESSAGES)}")
        count = _argument_count(rule.effect.message)
        if len(rule.effect.args) != count:
            raise FaultError(("action", "Error", "args"), f"{rule.effect.message} takes {count} of them")
    return rule


def rules_of(values: Iterable[Any], since: float) -> Rules:
    """The rules of a JSON array. Raises FaultError, whose place begins with the index."""
    rules = []
    for index, value in enumerate(values):
        try:
            rules.append(rule_of(value, since))
        except FaultError as error:
            raise FaultError((index, *error.where), error.text) from error
    return Rules.of(rules)


def preset_rules(name: str, since: float) -> Rules:
    """The rules of a preset. Raises ProfileError with file and line."""
    preset = fault_presets.read(name)
    try:
        return rules_of(preset.rules, since)
    except FaultError as error:
        raise preset.error(error.where, error.text) from error


def _argument_count(key: str) -> int:
    return len({index for index in range(1, 10) if f"%{index}" in MESSAGES[key][1]})


# the interface


def serve(rules: Rules, request: Request) -> tuple[Rules, Response]:
    """The rules from now on, and the answer to a request of which `is_own` is true. Raises RedfishError."""
    id_ = request.path.rstrip("/").removeprefix(PATH).removeprefix("/")
    allowed = ("DELETE",) if id_ else ("GET", "HEAD", "PUT", "POST", "DELETE")
    if request.method not in allowed:
        raise RedfishError(405, "OperationNotAllowed", headers=f"Allow: {', '.join(allowed)}\r\n".encode())
    if request.method in ("PUT", "POST"):
        try:
            rules = _written(rules, request)
        except FaultError as error:
            return rules, _refusal(error)
    elif request.method == "DELETE":
        try:
            rules = rules.remove(id_) if id_ else NO_RULES
        except KeyError:
            return rules, Response(404, EMPTY_HEAD)
    return rules, Response(200, JSON_HEAD, orjson.dumps([to_json(rule) for rule in rules.rules]))


def _written(rules: Rules, request: Request) -> Rules:
    request.head.require_json()
    what = "a JSON array of rules" if request.method == "PUT" else "one rule, a JSON object"
    try:
        value = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise FaultError((), f"the body must be {what}: {error}") from error
    if not isinstance(value, list if request.method == "PUT" else dict):
        raise FaultError((), f"the body must be {what}")
    since = request.moment.wall
    return rules_of(value, since) if request.method == "PUT" else rules.upsert(rule_of(value, since))


def _refusal(error: FaultError) -> Response:
    """400 with a message that says what would be right; GeneralError is the one that leaves that to the service."""
    return errors_response(400, [{**message("GeneralError"), "Message": str(error), "Resolution": "Correct the rule."}])


# requests and answers


def apply_before(rules: Rules, request: Request, seed: int) -> tuple[Rules, Verdict, Response | None]:
    """What rules want of a request, and the answer where they do not let it be handled. seed: the BMC's own number."""
    if not rules or is_own(request.path):
        return rules, NOTHING, None
    head = request.head
    rules, verdict = rules.before(
        request.method, request.path, request.moment.wall, seed, if_match=bool(head.if_match), gzip=head.gzip
    )
    return rules, verdict, None if verdict.answer is None else _answer(verdict)


def may_answer(rules: Rules, request: Request) -> bool:
    """Whether a rule may answer a request, so that it has to be asked before authentication. Nothing is counted."""
    if not rules or is_own(request.path):
        return False
    head = request.head
    return rules.may_answer(
        request.method, request.path, request.moment.wall, if_match=bool(head.if_match), gzip=head.gzip
    )


def _answer(verdict: Verdict) -> Response:
    answer = verdict.answer
    if isinstance(answer, Close):
        return Response(503, EMPTY_HEAD, delivery=DROP)
    if isinstance(answer, Status):
        return Response(answer.code, b"")
    if not isinstance(answer, Error):
        return error_response(RedfishError(401, "AccessUnauthorized", headers=CHALLENGE))
    if answer.message not in MESSAGES or len(answer.args) != _argument_count(answer.message):
        return error_response(RedfishError(answer.status, "GeneralError"))
    headers = b""
    if answer.message == "ServiceTemporarilyUnavailable" and _SECONDS.fullmatch(answer.args[0]):
        headers = b"Retry-After: %b\r\n" % answer.args[0].encode()
    return error_response(RedfishError(answer.status, answer.message, *answer.args, headers=headers))


def apply_after(rules: Rules, verdict: Verdict, response: Response) -> tuple[Rules, Response]:
    """An answer as the rules want it. rules: as they are now, which may be others than before the request."""
    if verdict is NOTHING:
        return rules, response
    media = media_type(field(response.head, b"Content-Type") or b"")
    is_json = media == b"application/json" or media.endswith(b"+json")
    rules, edits = rules.after(verdict, response.status, len(response.body), is_json=is_json)
    if edits == AS_IT_IS and not verdict.acted:
        return rules, response
    acted = (*response.faults, *verdict.acted, *edits.acted)
    head, body = response.head, response.body
    if edits.body and (changed := _edited_json(body, edits.body)) is not None:
        head, body = with_field(head, b"ETag", None), changed
    for edit in edits.headers:
        head = _edited_head(head, edit)
    if edits.truncate is not None:
        body = body[: int(len(body) * edits.truncate)]
    delivery = _delivery(response.delivery or Delivery(), verdict.delay, edits)
    return rules, msgspec.structs.replace(response, head=head, body=body, delivery=delivery, faults=acted)


def _edited_json(body: bytes, edits: Iterable[Editing]) -> bytes | None:
    """None when the body is not the JSON that its Content-Type promises."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return orjson.dumps(edited(value, edits))


def edited(value: Any, edits: Iterable[Editing]) -> Any:
    """A JSON value after edits; what went in stays as it was."""
    for edit in edits:
        value = edit.edit(value)
    return value


def _edited_head(head: bytes, edit: Headers) -> bytes:
    for name, value in edit.fields.items():
        key = name.encode()
        if value is not None and "{}" in value:
            before = field(head, key)
            if before is None:
                continue
            value = value.replace("{}", before.decode("latin-1"))
        head = with_field(head, key, value.encode("latin-1") if value is not None else None)
    return head


def _delivery(present: Delivery, delay: float, edits: Edits) -> Delivery | None:
    if edits.keep is not None and present.keep is None:
        present = msgspec.structs.replace(present, keep=edits.keep, after_head=True)
    delivery = msgspec.structs.replace(present, delay=present.delay + delay, rate=edits.rate or present.rate)
    return None if delivery == Delivery() else delivery


def field(head: bytes, name: bytes) -> bytes | None:
    """The value of a header field, None when it is not there."""
    start = name.lower() + b":"
    lines = (line for line in head.split(b"\r\n") if line[: len(start)].lower() == start)
    return next((line[len(start) :].strip() for line in lines), None)


def with_field(head: bytes, name: bytes, value: bytes | None) -> bytes:
    """Header lines with another value for a field, or without it."""
    start = name.lower() + b":"
    lines = [line for line in head.split(b"\r\n") if line and line[: len(start)].lower() != start]
    if value is not None:
        lines.append(b"%b: %b" % (name, value))
    return b"".join(line + b"\r\n" for line in lines)


class ExpandedMembers:
    """Applies rules to the resources that one expanded answer embeds. rules: what is left of them so far.
    acted: ids of those that did something."""

    def __init__(self, rules: Rules, moment: Moment, seed: int) -> None:
        self.rules = rules
        self._wall, self._seed = moment.wall, seed
        self._left = MAX_EDITED
        self.acted: list[str] = []

    def apply(self, uri: str, resource: dict[str, Any]) -> dict[str, Any]:
        """A resource as the rules want it; only its link where they refuse it, leave no JSON object of it, or have
        added too much to the answer."""
        self.rules, edits = self.rules.for_member(uri, self._wall, self._seed, self.acted)
        shown = None if edits is None else edited(resource, edits)
        if edits:
            self._left -= len(orjson.dumps(shown))
            shown = shown if self._left >= 0 else None
        return shown if isinstance(shown, dict) else {"@odata.id": uri}
