"""Fault rules and their JSON form."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine.fault_effects import Duration, IgnorePowerOn, JsonMerge, JsonRemove, Replace
from bmcsim.machine.fault_rules import MAX_BYTES, Asked, FaultError, from_json, to_json
from bmcsim.machine.faults import Rules

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("ab/~\u00e9", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=6,
)
_objects = st.dictionaries(st.text("abc", max_size=2), _json, max_size=3)
_globs = st.sampled_from(["/redfish/v1", "/redfish/v1/Chassis/*", "**", "/a/**/b", "/a[!b]?"])
_methods = st.sampled_from(["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"])
_delays = st.integers(0, 3_600_000).map(lambda count: f"{count}ms")
_counts = st.integers(1, 10**6)
_paths = st.fixed_dictionaries(
    {"glob": _globs}, optional={"method": _methods, "slash": st.booleans(), "if_match": st.booleans()}
)
_plain_selectors = (
    st.builds(lambda glob: {"OdataId": glob}, _globs)
    | st.builds(lambda path: {"Path": path}, _paths)
    | st.builds(lambda glob: {"Member": glob}, _globs)
)
_selectors = st.recursive(
    _plain_selectors, lambda inner: st.lists(inner, max_size=3).map(lambda many: {"Any": many}), max_leaves=4
)
_pointers = st.lists(st.sampled_from(["/a", "/Links/ManagedBy", "/a~1b/~0", "/Members/0"]), max_size=2)
_actions = st.one_of(
    st.builds(lambda value: {"JsonMerge": value}, _objects),
    st.builds(lambda value: {"JsonRemove": value}, _pointers),
    st.builds(lambda value: {"Replace": value}, _json),
    st.builds(lambda code: {"Status": code}, st.integers(200, 599)),
    st.builds(lambda mean, jitter: {"Latency": {"mean": mean, "jitter": jitter}}, _delays, _delays),
    st.builds(
        lambda status, args: {"Error": {"status": status, "message": "X", **({"args": args} if args else {})}},
        st.integers(400, 599),
        st.lists(st.text("ab", max_size=3), max_size=2),
    ),
    st.just({"Unauthorized": {}}),
    st.sampled_from(["Close", "LostWrite"]),
    st.builds(lambda count: {"CloseAfter": {"bytes": count}}, st.integers(0, 10**6)),
    st.builds(lambda keep: {"Truncate": {"keep": keep}}, st.floats(0, 0.99)),
    st.builds(lambda rate: {"Drip": {"bytes_per_second": rate}}, _counts),
    st.just({"Headers": {"ETag": '""', "Location": None, "X-A": "W/{}"}}),
)
_behaviours = st.one_of(
    st.builds(lambda count: {"IgnorePowerOn": {"count": count}}, _counts),
    st.sampled_from(["IgnoreShutdown", "MediaFails"]),
    st.builds(lambda percent: {"UpdateFails": {"at_percent": percent}}, st.integers(0, 100)),
    st.builds(lambda delay: {"SlowLogin": {"delay": delay}}, _delays),
    st.builds(lambda delay: {"LateJobs": {"delay": delay}}, _delays),
)
_windows = st.fixed_dictionaries({}, optional={"after": _delays.filter(lambda text: text != "0ms"), "for": _delays})
_request_rules = st.fixed_dictionaries(
    {
        "id": st.text("abc/ \u00e9", min_size=1, max_size=5),
        "selector": _selectors,
        "action": _actions,
        "remaining": st.none() | _counts,
    },
    optional={
        "method": _methods,
        "probability": st.floats(0, 0.99),
        "every": st.integers(2, 9),
        "window": _windows,
    },
)
_machine_rules = st.fixed_dictionaries(
    {"id": st.text("abc", min_size=1, max_size=5), "action": _behaviours, "remaining": st.none()}
)
rule_forms = _request_rules | _machine_rules


def rule(action: Any = "Close", **more: Any) -> dict[str, Any]:
    """The JSON form of a rule."""
    return {"id": "r", "selector": {"OdataId": "/a"}, "action": action, **more}


@given(rule_forms)
def test_a_rule_is_shown_as_it_was_written(form: dict[str, Any]) -> None:
    shown = to_json(from_json(form))
    assert shown == form
    assert orjson.loads(orjson.dumps(shown)) == form


@given(st.lists(rule_forms, max_size=4, unique_by=lambda form: form["id"]), st.integers(0, 10**6), st.integers(0, 99))
def test_the_durable_form_keeps_what_was_counted(forms: list[dict[str, Any]], since: int, wall: int) -> None:
    rules = Rules.of(from_json(form, since / 8) for form in forms)
    for path in ("/redfish/v1", "/redfish/v1/Chassis/1", "/ax"):
        rules, verdict = rules.before("GET", path, since / 8 + wall, seed=1)
        rules, _ = rules.after(verdict, 200, 100, is_json=True)
    dumped = rules.dump()
    assert Rules.load(dumped) == rules
    assert Rules.load(orjson.loads(orjson.dumps(dumped))) == rules


def test_what_machine_a_tron_takes_is_taken() -> None:
    form = {
        "id": "slow",
        "selector": {
            "Any": [{"OdataId": "/redfish/v1/Chassis/*"}, {"Path": {"method": "get", "glob": "/redfish/v1/Systems/**"}}]
        },
        "action": {"Latency": {"mean": "1m 30s"}},
        "remaining": 3,
    }
    assert to_json(from_json(form)) == {
        "id": "slow",
        "selector": {
            "Any": [{"OdataId": "/redfish/v1/Chassis/*"}, {"Path": {"method": "GET", "glob": "/redfish/v1/Systems/**"}}]
        },
        "action": {"Latency": {"mean": "90000ms", "jitter": "0ms"}},
        "remaining": 3,
    }
    assert to_json(from_json(rule({"Status": 404})))["remaining"] is None
    assert from_json(rule({"Status": 404}, remaining=None)) == from_json(rule({"Status": 404}))


@pytest.mark.parametrize("action", [{"Close": {}}, {"Close": None}, "Close"])
def test_an_action_without_content_may_be_written_in_three_ways(action: Any) -> None:
    assert to_json(from_json(rule(action)))["action"] == "Close"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2s", 2),
        ("150ms", 0.15),
        ("1m 30s", 90),
        ("1m30s", 90),
        ("1 min 30 sec", 90),
        ("1.5s", 1.5),
        ("0s", 0),
        ("500us", 0),
        ("1500us", 0.002),
        ("1h", 3600),
        ("2 days 1h", 2 * 86400 + 3600),
        ("1w", 604800),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "2", "s", "2 s 3", "-1s", "2S", "2 fortnights", "1e3s", 2, None, "1s" * 40, "1s     " * 9 + "x"]
)
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(FaultError) as caught:
        from_json(rule({"Latency": {"mean": text}}))
    assert caught.value.where == ("action", "Latency", "mean")


@pytest.mark.parametrize(
    ("form", "where", "right"),
    [
        ([], "(rule)", "must be object"),
        ({}, "(rule)", "needs the key id"),
        ({"id": "a"}, "action", "{NAME: content}"),
        ({"id": "a", "action": "Close"}, "selector", "OdataId, Path, Member, Any"),
        (rule(id=""), "id", "length >= 1"),
        (rule(id="a" * 129), "id", "length <= 128"),
        (rule(id="a\n"), "id", "no line breaks"),
        (rule(id=1), "id", "must be str"),
        (rule(colour="red"), "colour", "there are id, selector, action"),
        (rule("Explode"), "action", "one of Status"),
        (rule({"Status": 404, "Close": {}}), "action", "{NAME: content}"),
        (rule([]), "action", "{NAME: content}"),
        (rule("Status"), "action", "needs its content"),
        (rule({"Status": 99}), "action.Status", ">= 200"),
        (rule({"Status": 65536}), "action.Status", "<= 599"),
        (rule({"Status": "404"}), "action.Status", "must be int"),
        (rule({"Close": {"now": True}}), "action.Close.now", "none here"),
        (rule({"Latency": {}}), "action.Latency", "needs the key mean"),
        (rule({"Latency": {"mean": "1s", "median": "1s"}}), "action.Latency.median", "mean, jitter"),
        (rule({"Latency": {"mean": "61m"}}), "action.Latency", "at most 1h"),
        (rule({"Latency": {"mean": "1s", "jitter": "2h"}}), "action.Latency", "at most 1h"),
        (rule({"JsonMerge": []}), "action.JsonMerge", "must be object"),
        (rule({"JsonRemove": ["Links"]}), "action.JsonRemove", "JSON pointer"),
        (rule({"JsonRemove": ["/a~2"]}), "action.JsonRemove", "JSON pointer"),
        (rule({"JsonRemove": ["/a", 1]}), "action.JsonRemove.1", "must be str"),
        (rule({"Error": {"status": 200, "message": "X"}}), "action.Error.status", ">= 400"),
        (rule({"Error": {"status": 503, "message": "X", "args": [30]}}), "action.Error.args.0", "must be str"),
        (rule({"Headers": {"A": "b\r\nC: d"}}), "action.Headers", "line breaks"),
        (rule({"Headers": {"A": "\u20ac"}}), "action.Headers", "Latin-1"),
        (rule({"Headers": {"A:": "b"}}), "action.Headers", "letters, digits"),
        (rule({"Headers": {"": "b"}}), "action.Headers", "letters, digits"),
        (rule({"Headers": {"content-length": "1"}}), "action.Headers", "Truncate"),
        (rule({"Truncate": {"keep": 1}}), "action.Truncate.keep", "< 1"),
        (rule({"CloseAfter": {"bytes": -1}}), "action.CloseAfter.bytes", ">= 0"),
        (rule({"Drip": {"bytes_per_second": 0}}), "action.Drip.bytes_per_second", ">= 1"),
        (rule(selector={"OdataId": "a"}), "selector.OdataId", "starts with /"),
        (rule(selector={"OdataId": 1}), "selector.OdataId", "must be a glob"),
        (rule(selector={"Path": {"glob": "/a**"}}), "selector.Path.glob", "segment of its own"),
        (rule(selector={"Path": {"method": "GET"}}), "selector.Path", "needs the key glob"),
        (rule(selector={"Path": {"glob": "/a", "method": "FETCH"}}), "selector.Path.method", "one of GET"),
        (rule(selector={"Path": {"glob": "/a", "query": "x"}}), "selector.Path.query", "glob, method"),
        (rule(selector={"Any": {}}), "selector.Any", "must be array"),
        (rule(selector={"Any": [{"OdataId": "/a"}, {"All": []}]}), "selector.Any.1", "OdataId, Path"),
        (rule(method="FETCH"), "method", "one of GET"),
        (rule(probability=1.1), "probability", "<= 1"),
        (rule(probability=-0.1), "probability", ">= 0"),
        (rule(probability=True), "probability", "must be float"),
        (rule(every=0), "every", ">= 1"),
        (rule(every=1.5), "every", "must be int"),
        (rule(remaining=0), "remaining", ">= 1"),
        (rule(window={"until": "1s"}), "window.until", "after, for"),
        (rule(window={"for": "soon"}), "window.for", "must be a duration"),
        (rule("MediaFails"), "selector", "leave out"),
        ({"id": "a", "action": "MediaFails", "every": 2}, "every", "leave out"),
        ({"id": "a", "action": {"IgnorePowerOn": {"count": 2}}, "remaining": 2}, "remaining", "has its count"),
        ({"id": "a", "action": {"IgnorePowerOn": {"count": 0}}}, "action.IgnorePowerOn.count", ">= 1"),
        ({"id": "a", "action": {"UpdateFails": {"at_percent": 101}}}, "action.UpdateFails.at_percent", "<= 100"),
        ({"id": "a", "action": {"SlowLogin": {"delay": "2h"}}}, "action.SlowLogin", "at most 1h"),
        ({"id": "a", "action": {"LateJobs": {"delay": "2h"}}}, "action.LateJobs", "at most 1h"),
        (rule({"Replace": {1}}), "(rule)", "must be JSON"),
        (rule({"Replace": "x" * MAX_BYTES}), "(rule)", "at most 64 KiB"),
        (rule({"Replace": orjson.loads("[" * 31 + "]" * 31)}), "(rule)", "32 levels"),
        (rule({"Replace": orjson.loads("[" * 900 + "]" * 900)}), "(rule)", "32 levels"),
    ],
)
def test_a_bad_rule_names_the_key_and_what_would_be_right(form: Any, where: str, right: str) -> None:
    with pytest.raises(FaultError) as caught:
        from_json(form)
    assert str(caught.value).startswith(f"{where}: ")
    assert right in caught.value.text
    assert where == (".".join(map(str, caught.value.where)) or "(rule)")


@given(_json | st.dictionaries(st.sampled_from(["id", "selector", "action", "window", "every"]), _json))
def test_whatever_is_no_rule_is_refused_as_such(value: Any) -> None:
    with pytest.raises(FaultError):
        from_json(value)


def test_a_machine_rule_has_neither_selector_nor_matches() -> None:
    stuck = from_json({"id": "a", "action": {"IgnorePowerOn": {"count": 3}}})
    assert stuck.effect == IgnorePowerOn(3)
    assert stuck.selector is None
    assert not stuck.concerns(Asked("GET", "/a"), 0)


@pytest.mark.parametrize(
    ("selector", "matching", "others"),
    [
        ({"OdataId": "/a"}, [Asked("GET", "/a"), Asked("PATCH", "/a", slash=True, member=True)], [Asked("GET", "/b")]),
        ({"Path": {"glob": "/a", "method": "post"}}, [Asked("POST", "/a")], [Asked("GET", "/a"), Asked("POST", "/b")]),
        ({"Path": {"glob": "/a", "slash": False}}, [Asked("GET", "/a")], [Asked("GET", "/a", slash=True)]),
        ({"Path": {"glob": "/a", "slash": True}}, [Asked("GET", "/a", slash=True)], [Asked("GET", "/a")]),
        ({"Path": {"glob": "/a", "if_match": True}}, [Asked("GET", "/a", if_match=True)], [Asked("GET", "/a")]),
        ({"Path": {"glob": "/a", "gzip": True}}, [Asked("GET", "/a", gzip=True)], [Asked("GET", "/a")]),
        ({"Member": "/a"}, [Asked("GET", "/a", member=True)], [Asked("GET", "/a"), Asked("GET", "/b", member=True)]),
        ({"Any": [{"OdataId": "/a"}, {"OdataId": "/b"}]}, [Asked("GET", "/a"), Asked("GET", "/b")], [Asked("GET", "")]),
        ({"Any": []}, [], [Asked("GET", "/a")]),
    ],
)
def test_selectors(selector: Any, matching: list[Asked], others: list[Asked]) -> None:
    parsed = from_json(rule(selector=selector))
    assert all(parsed.concerns(asked, 0) for asked in matching)
    assert not any(parsed.concerns(asked, 0) for asked in others)


def test_the_method_of_a_rule_is_one_more_condition() -> None:
    parsed = from_json(rule(method="patch"))
    assert parsed.concerns(Asked("PATCH", "/a"), 0)
    assert not parsed.concerns(Asked("GET", "/a"), 0)


@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [
        ({}, [0, 10**9], [-1]),
        ({"for": "60s"}, [0, 59.9], [-1, 60, 10**9]),
        ({"after": "60s"}, [60, 10**9], [0, 59.9]),
        ({"after": "60s", "for": "30s"}, [60, 89.9], [0, 59.9, 90]),
    ],
)
def test_a_window_counts_from_when_the_rule_was_set(window: Any, inside: list[float], outside: list[float]) -> None:
    parsed = from_json(rule(window=window), since=1000.0)
    assert all(parsed.concerns(Asked("GET", "/a"), 1000 + seconds) for seconds in inside)
    assert not any(parsed.concerns(Asked("GET", "/a"), 1000 + seconds) for seconds in outside)


def test_what_depends_on_the_number_of_matches() -> None:
    assert not from_json(rule()).counts
    assert not from_json(rule({"Latency": {"mean": "1s"}})).counts
    assert from_json(rule({"Latency": {"mean": "1s", "jitter": "1s"}})).counts
    assert from_json(rule(every=2)).counts
    assert from_json(rule(probability=0.5)).counts


# edits of JSON


def test_a_merge_goes_deep_and_null_is_a_value() -> None:
    body = {"a": {"b": 1, "c": 2}, "d": [1]}
    assert JsonMerge({"a": {"b": None}, "d": {}}).edit(body) == {"a": {"b": None, "c": 2}, "d": {}}
    assert body == {"a": {"b": 1, "c": 2}, "d": [1]}
    assert JsonMerge({"a": 1}).edit([1]) == [1]


@pytest.mark.parametrize(
    ("pointer", "left"),
    [
        ("/a", {"b/c": {"~": 1}, "d": [{"e": 1}, 2]}),
        ("/b~1c/~0", {"a": 1, "b/c": {}, "d": [{"e": 1}, 2]}),
        ("/d/0", {"a": 1, "b/c": {"~": 1}, "d": [2]}),
        ("/d/0/e", {"a": 1, "b/c": {"~": 1}, "d": [{}, 2]}),
        ("/d/2", None),
        ("/d/x", None),
        ("/x/y", None),
        ("/a/b", None),
        ("/", None),
    ],
)
def test_a_removal_takes_what_the_pointer_names_and_nothing_else(pointer: str, left: Any) -> None:
    body = {"a": 1, "b/c": {"~": 1}, "d": [{"e": 1}, 2]}
    before = orjson.dumps(body)
    assert JsonRemove((pointer,)).edit(body) == (body if left is None else left)
    assert orjson.dumps(body) == before


def test_a_replacement_is_the_whole_body() -> None:
    assert Replace([1]).edit({"a": 1}) == [1]


@pytest.mark.parametrize(
    "form",
    [
        {
            "action": {
                "Replace": "x" * (MAX_BYTES - len(b'{"id":"r","selector":{"OdataId":"/a"},"action":{"Replace":""}}'))
            }
        },
        {"action": "Close", "window": {"after": "999999999999w"}},
    ],
)
def test_a_rule_that_could_not_be_loaded_again_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(FaultError):
        from_json({"id": "r", "selector": {"OdataId": "/a"}, **form})


def test_a_header_field_cannot_be_made_to_double() -> None:
    with pytest.raises(FaultError, match="once"):
        from_json({"id": "r", "selector": {"OdataId": "/a"}, "action": {"Headers": {"ETag": "{}{}"}}})


def test_a_pointer_with_a_long_number_names_nothing() -> None:
    assert JsonRemove(("/a/" + "1" * 5000, "/a/٣", "/a/01")).edit({"a": [1, 2, 3, 4]}) == {"a": [1, 2, 3, 4]}
