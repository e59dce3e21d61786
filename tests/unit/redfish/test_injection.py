"""The interface for fault rules, and what they make of requests and answers."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.core.clock import ManualClock
from bmcsim.core.errors import RedfishError
from bmcsim.machine.fault_rules import FaultError
from bmcsim.machine.faults import NO_RULES, NOTHING, Rules
from bmcsim.redfish.exchange import DROP, EMPTY_HEAD, JSON_HEAD, XML_HEAD, Delivery, Head, Request, Response
from bmcsim.redfish.injection import (
    MAX_EDITED,
    PATH,
    ExpandedMembers,
    apply_after,
    apply_before,
    field,
    is_own,
    rule_of,
    rules_of,
    serve,
    with_field,
)
from bmcsim.redfish.messages import MESSAGES
from tests.conftest import header, message_ids

SEED = 1
NOW = ManualClock().now()
JSON = b"application/json"
ANSWER = Response(200, JSON_HEAD + b'ETag: "1"\r\n', b'{"a":{"b":1},"c":2}')


def rule(action: Any = "Close", id_: str = "r", glob: str = "/redfish/**", **more: Any) -> dict[str, Any]:
    """A rule as JSON."""
    return {"id": id_, "selector": {"OdataId": glob}, "action": action, **more}


def request(method: str, path: str = PATH, body: Any = b"", media: bytes = JSON, **fields: bytes) -> Request:
    """A request; body: bytes as they are, anything else as JSON."""
    body = body if isinstance(body, bytes) else orjson.dumps(body)
    return Request(method, path, NOW, Head(content_type=media, **fields), "", body)


def send(rules: Rules, *what: Any, **fields: Any) -> tuple[Rules, Response]:
    """A request to the interface."""
    return serve(rules, request(*what, **fields))


def ids(response: Response) -> list[str]:
    """The ids of the rules of an answer."""
    assert response.status == 200
    assert header(response, "Content-Type") == "application/json; charset=utf-8"
    return [one["id"] for one in orjson.loads(response.body)]


def exchange(rules: Any, sent: Request, response: Response = ANSWER) -> tuple[Rules, Response]:
    """What becomes of a request whose own answer is given."""
    left, verdict, instead = apply_before(rules if isinstance(rules, Rules) else rules_of(rules, 0), sent, SEED)
    return apply_after(left, verdict, instead or response)


def one(action: Any, response: Response = ANSWER, **fields: Any) -> Response:
    """The answer to a GET with one rule about everything."""
    return exchange([rule(action, **fields)], request("GET", "/redfish/v1/x"), response)[1]


# the interface


def test_rules_are_put_shown_added_replaced_and_removed() -> None:
    rules, response = send(NO_RULES, "GET")
    assert (response.status, response.body) == (200, b"[]")
    rules, response = send(rules, "PUT", PATH, [rule(id_="a"), rule(id_="b")])
    assert ids(response) == ["a", "b"]
    rules, response = send(rules, "POST", PATH, rule(id_="c"))
    assert ids(response) == ["a", "b", "c"]
    rules, response = send(rules, "POST", PATH, rule({"Status": 404}, id_="b"))
    assert ids(response) == ["a", "b", "c"]
    assert orjson.loads(response.body)[1]["action"] == {"Status": 404}
    rules, response = send(rules, "DELETE", PATH + "/a")
    assert ids(response) == ["b", "c"]
    assert ids(send(rules, "GET", PATH + "/")[1]) == ["b", "c"]
    assert ids(send(rules, "HEAD")[1]) == ["b", "c"]
    rules, response = send(rules, "PUT", PATH, [rule(id_="d")])
    assert ids(response) == ["d"]
    rules, response = send(rules, "DELETE")
    assert (rules, response.body) == (NO_RULES, b"[]")


def test_an_unknown_id_is_404_without_a_body_and_an_id_may_have_slashes() -> None:
    rules, _ = send(NO_RULES, "PUT", PATH, [rule(id_="a/b c")])
    left, response = send(rules, "DELETE", PATH + "/a")
    assert (left, response.status, response.body) == (rules, 404, b"")
    assert send(rules, "DELETE", PATH + "/a/b c")[0] == NO_RULES


def test_a_window_begins_when_the_rule_is_set() -> None:
    rules, _ = send(NO_RULES, "POST", PATH, rule(window={"for": "1s"}))
    assert rules.rules[0].since == NOW.wall


@pytest.mark.parametrize(("method", "path"), [("PATCH", PATH), ("GET", PATH + "/a"), ("POST", PATH + "/a")])
def test_other_methods_are_405_and_name_the_right_ones(method: str, path: str) -> None:
    with pytest.raises(RedfishError) as caught:
        send(NO_RULES, method, path, rule())
    assert caught.value.status == 405
    assert caught.value.headers.startswith(b"Allow: ")


@pytest.mark.parametrize(
    ("method", "body", "said"),
    [
        ("PUT", rule(), "must be a JSON array of rules"),
        ("POST", [rule()], "must be one rule, a JSON object"),
        ("POST", b"{", "must be one rule, a JSON object: "),
        ("PUT", b"", "must be a JSON array of rules: "),
        ("POST", rule(id=""), "id: must be str of length >= 1"),
        ("PUT", [rule(), rule({"Latency": {"mean": "soon"}}, "b")], "1.action.Latency.mean: 'soon' must be a duration"),
        ("PUT", [rule(), rule()], "1.id: 'r' is there twice"),
        ("PUT", [rule(id_=str(number)) for number in range(257)], "at most 256 rules"),
        ("POST", rule({"Error": {"status": 503, "message": "Nonsense"}}), "action.Error.message: must be one of Acc"),
        ("POST", rule({"Error": {"status": 404, "message": "ResourceNotFound"}}), "ResourceNotFound takes 2 of them"),
    ],
)
def test_a_bad_rule_is_400_and_says_what_would_be_right(method: str, body: Any, said: str) -> None:
    rules = rules_of([rule(id_="before")], 0)
    left, response = send(rules, method, PATH, body)
    assert (left, response.status) == (rules, 400)
    error = orjson.loads(response.body)["error"]
    assert said in error["message"]
    assert said in error["@Message.ExtendedInfo"][0]["Message"]
    assert message_ids(response) == ["GeneralError"]


def test_another_media_type_is_415() -> None:
    with pytest.raises(RedfishError) as caught:
        send(NO_RULES, "POST", PATH, rule(), media=b"text/plain")
    assert caught.value.status == 415
    assert send(NO_RULES, "POST", PATH, rule(), media=b"Application/JSON; charset=utf-8")[1].status == 200


@pytest.mark.parametrize(
    ("path", "own"), [(PATH, True), (PATH + "/", True), (PATH + "/a", True), (PATH + "x", False), ("/redfish", False)]
)
def test_which_paths_belong_to_the_interface(path: str, own: bool) -> None:
    assert is_own(path) is own


def test_no_rule_locks_the_interface() -> None:
    rules = rules_of([rule(glob="**")], 0)
    assert apply_before(rules, request("DELETE", PATH), SEED) == (rules, NOTHING, None)
    assert apply_before(rules, request("GET", "/redfish"), SEED)[2] is not None


@given(st.binary(max_size=40) | st.text('[]{}:,"ida selctorn0', max_size=40).map(str.encode))
def test_whatever_body_comes_the_interface_answers(body: bytes) -> None:
    for method in ("PUT", "POST"):
        assert send(NO_RULES, method, PATH, body)[1].status in (200, 400)


@pytest.mark.parametrize("key", MESSAGES)
def test_every_message_can_be_injected_with_its_arguments(key: str) -> None:
    for count in range(5):
        try:
            rules = rules_of([rule({"Error": {"status": 503, "message": key, "args": ["7"] * count}})], 0)
        except FaultError:
            continue
        _, response = exchange(rules, request("GET", "/redfish/v1"))
        assert (response.status, message_ids(response)) == (503, [key])
        return
    pytest.fail("no number of arguments is accepted")


# answers instead of the BMC's own


def test_nothing_happens_without_rules_or_where_none_matches() -> None:
    assert exchange(NO_RULES, request("GET", "/redfish/v1"))[1] is ANSWER
    assert exchange([rule(glob="/other")], request("GET", "/redfish/v1"))[1] is ANSWER
    assert exchange([rule({"CloseAfter": {"bytes": 999}})], request("GET", "/redfish/v1"))[1] is ANSWER


def test_a_status_has_neither_head_nor_body() -> None:
    assert one({"Status": 404}) == Response(404, b"", faults=("r",))


def test_a_redfish_error() -> None:
    response = one({"Error": {"status": 503, "message": "ServiceTemporarilyUnavailable", "args": ["30"]}})
    assert (response.status, header(response, "Retry-After")) == (503, "30")
    assert message_ids(response) == ["ServiceTemporarilyUnavailable"]
    assert b"in 30 seconds" in response.body


def test_a_stored_error_whose_message_is_gone_is_a_general_one() -> None:
    rules = rules_of([rule({"Error": {"status": 500, "message": "InternalError"}})], 0)
    dumped = rules.dump()
    dumped[0]["action"]["Error"]["message"] = "OfAnotherVersion"
    response = exchange(Rules.load(dumped), request("GET", "/redfish/v1"))[1]
    assert (response.status, message_ids(response)) == (500, ["GeneralError"])


def test_unauthorized_is_what_wrong_credentials_get() -> None:
    response = one({"Unauthorized": {}})
    assert (response.status, message_ids(response)) == (401, ["AccessUnauthorized"])
    assert header(response, "WWW-Authenticate") == 'Basic realm="Redfish"'


def test_a_closed_connection_may_be_a_late_one() -> None:
    assert one("Close").delivery == DROP
    rules = [rule({"Latency": {"mean": "2s"}}), rule("Close", "b")]
    assert exchange(rules, request("GET", "/redfish/v1"))[1].delivery == Delivery(delay=2.0, keep=0)


def test_a_lost_write_is_for_the_caller_to_lose() -> None:
    rules, verdict, response = apply_before(rules_of([rule("LostWrite")], 0), request("PATCH", "/redfish/v1"), SEED)
    assert (verdict.lost_write, response) == ("r", None)
    assert apply_after(rules, verdict, ANSWER)[1] == msgspec.structs.replace(ANSWER, faults=("r",))


def test_if_match_can_be_a_condition() -> None:
    rules = [{"id": "r", "selector": {"Path": {"glob": "**", "if_match": True}}, "action": {"Status": 412}}]
    assert exchange(rules, request("POST", "/redfish/v1/x"))[1] is ANSWER
    assert exchange(rules, request("POST", "/redfish/v1/x", if_match=b'"1"'))[1].status == 412


# changed answers


def test_edited_json_keeps_status_and_header_fields_but_the_entity_tag() -> None:
    response = one({"JsonMerge": {"a": {"x": None}, "c": [1]}})
    assert response == Response(200, JSON_HEAD, b'{"a":{"b":1,"x":null},"c":[1]}', faults=("r",))
    assert one({"JsonRemove": ["/a/b", "/c"]}) == Response(200, JSON_HEAD, b'{"a":{}}', faults=("r",))
    assert one({"Replace": []}) == Response(200, JSON_HEAD, b"[]", faults=("r",))
    assert ANSWER.body == b'{"a":{"b":1},"c":2}'


@pytest.mark.parametrize(
    "response",
    [
        Response(404, JSON_HEAD, b"{}"),
        Response(200, XML_HEAD, b"<a/>"),
        Response(204, EMPTY_HEAD),
        Response(304, JSON_HEAD),
    ],
)
def test_what_is_not_2xx_json_is_not_edited_and_uses_up_nothing(response: Response) -> None:
    rules = [rule({"JsonMerge": {"x": 1}}, remaining=1)]
    left, after = exchange(rules, request("GET", "/redfish/v1"), response)
    assert after is response
    assert left.rules[0].remaining == 1


@pytest.mark.parametrize("media", [b"application/json", b"APPLICATION/JSON;x=y", b"application/problem+json"])
def test_what_counts_as_json(media: bytes) -> None:
    response = one({"JsonMerge": {"x": 1}}, Response(201, b"content-type: " + media + b"\r\n", b"{}"))
    assert (response.status, response.body) == (201, b'{"x":1}')


def test_json_that_is_none_is_left_as_it_is() -> None:
    assert one({"JsonMerge": {"x": 1}}, Response(200, JSON_HEAD, b"oops")).body == b"oops"


def test_header_fields_are_set_replaced_removed_and_built_on() -> None:
    edits = {"ETag": "W/{}", "Location": "/x", "OData-Version": None, "content-type": "text/plain", "X-No": "a{}"}
    response = one({"Headers": edits})
    assert response.head == (b'Cache-Control: no-cache\r\nETag: W/"1"\r\nLocation: /x\r\ncontent-type: text/plain\r\n')
    assert response.body == ANSWER.body


def test_cut_off_json_is_valid_http() -> None:
    response = one({"Truncate": {"keep": 0.5}})
    assert (response.body, response.delivery) == (ANSWER.body[:9], None)
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(response.body)
    assert one({"Truncate": {"keep": 0}}).body == b""


def test_a_connection_may_close_in_mid_body() -> None:
    response = one({"CloseAfter": {"bytes": 5}})
    assert (response.body, response.delivery) == (ANSWER.body, Delivery(keep=5, after_head=True))


def test_slow_answers() -> None:
    assert one({"Drip": {"bytes_per_second": 10}}).delivery == Delivery(rate=10.0)
    assert one({"Latency": {"mean": "2s"}}).delivery == Delivery(delay=2.0)


def test_what_the_answer_had_of_its_own_is_kept() -> None:
    slow = Response(200, JSON_HEAD, b"{}", ("an action",), Delivery(delay=1.0, rate=5.0))  # type: ignore[arg-type]
    response = one({"Latency": {"mean": "2s"}}, slow)
    assert response.delivery == Delivery(delay=3.0, rate=5.0)
    assert response.actions == ("an action",)
    dropped = Response(200, JSON_HEAD, b"{} ", (), DROP)
    assert one({"CloseAfter": {"bytes": 1}}, dropped).delivery == DROP


def test_all_at_once() -> None:
    rules = [
        rule({"Latency": {"mean": "1s"}}, "a"),
        rule({"JsonMerge": {"x": 1}}, "b"),
        rule({"Headers": {"ETag": '""'}}, "c"),
        rule({"Truncate": {"keep": 0.5}}, "d"),
        rule({"CloseAfter": {"bytes": 3}}, "e"),
        rule({"Drip": {"bytes_per_second": 2}}, "f"),
    ]
    response = exchange(rules, request("GET", "/redfish/v1"))[1]
    whole = b'{"a":{"b":1},"c":2,"x":1}'
    assert response.body == whole[: len(whole) // 2]
    assert header(response, "ETag") == '""'
    assert response.delivery == Delivery(1.0, 3, 2.0, after_head=True)


# header fields


def test_reading_and_writing_header_fields() -> None:
    head = b"A: 1\r\nAB: 2\r\na:3\r\n"
    assert (field(head, b"a"), field(head, b"AB"), field(head, b"B"), field(b"", b"A")) == (b"1", b"2", None, None)
    assert with_field(head, b"A", b"4") == b"AB: 2\r\nA: 4\r\n"
    assert with_field(head, b"A", None) == b"AB: 2\r\n"
    assert with_field(b"", b"A", b"") == b"A: \r\n"


# embedded members


def test_embedded_members_are_edited_one_by_one() -> None:
    rules = rules_of(
        [
            rule({"JsonMerge": {"x": 1}}, "a", "/redfish/v1/Chassis/*", remaining=1),
            rule({"Status": 404}, "b", "/redfish/v1/Chassis/2"),
        ],
        0,
    )
    members = ExpandedMembers(rules, NOW, SEED)
    resource = {"Id": "1"}
    assert members.apply("/redfish/v1/Chassis/1", resource) == {"Id": "1", "x": 1}
    assert members.apply("/redfish/v1/Chassis/1", resource) == {"Id": "1"}
    assert members.apply("/redfish/v1/Chassis/2", resource) == {"@odata.id": "/redfish/v1/Chassis/2"}
    assert [left.id for left in members.rules.rules] == ["b"]
    assert resource == {"Id": "1"}


def test_an_embedded_member_that_became_something_else_is_only_a_link() -> None:
    rules = rules_of([rule({"Replace": [1]})], 0)
    assert ExpandedMembers(rules, NOW, SEED).apply("/redfish/v1/x", {"Id": "1"}) == {"@odata.id": "/redfish/v1/x"}


def test_rules_are_checked_where_they_come_from_json() -> None:
    with pytest.raises(FaultError):
        rule_of(rule({"Error": {"status": 503, "message": "Nonsense"}}), 0)


def test_edits_of_many_embedded_members_do_not_fill_the_memory() -> None:
    size = 60_000
    embedded = ExpandedMembers(rules_of([rule({"JsonMerge": {"text": "x" * size}})], 0), NOW, SEED)
    shown = [embedded.apply(f"/redfish/v1/{number}", {"@odata.id": f"/redfish/v1/{number}"}) for number in range(1000)]
    assert "text" in shown[0]
    assert sum("text" in one for one in shown) * size < MAX_EDITED
    assert shown[-1] == {"@odata.id": "/redfish/v1/999"}
