"""What fault rules do to requests and answers, and what is left of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine.fault_effects import (
    MAX_DELAY,
    Close,
    Headers,
    IgnorePowerOn,
    IgnoreShutdown,
    JsonMerge,
    JsonRemove,
    MediaFails,
    Replace,
    SlowLogin,
    Status,
)
from bmcsim.machine.fault_rules import FaultError, Rule, from_json
from bmcsim.machine.faults import AS_IT_IS, MAX_RULES, NO_RULES, NOTHING, Edits, Rules, Verdict

SEED = 0x02_00_00_00_00_01


def rule(action: Any = "Close", id_: str = "r", **more: Any) -> Rule:
    """A rule about /a, or about the machine."""
    form = {"id": id_, "selector": {"OdataId": "/a"}, "action": action, **more}
    return from_json({key: value for key, value in form.items() if value != "-"})


def rules(*actions: Any, **more: Any) -> Rules:
    """Rules r0, r1, ... about /a that differ only in their actions."""
    return Rules.of(rule(action, f"r{number}", **more) for number, action in enumerate(actions))


def asked(some: Rules, method: str = "GET", path: str = "/a", wall: float = 0.0) -> tuple[Rules, Verdict]:
    """The outcome of one request."""
    return some.before(method, path, wall, SEED)


def answered(
    some: Rules, method: str = "GET", status: int = 200, length: int = 100, *, is_json: bool = True
) -> tuple[Rules, Edits]:
    """The outcome of one request and its answer."""
    some, verdict = asked(some, method)
    return some.after(verdict, status, length, is_json=is_json)


MERGE = {"JsonMerge": {"x": 1}}


# the list


def test_no_rules_want_nothing_and_stay_the_same_object() -> None:
    assert not NO_RULES
    assert asked(NO_RULES) == (NO_RULES, NOTHING)
    assert asked(NO_RULES)[1] is NOTHING
    assert NO_RULES.after(NOTHING, 200, 1, is_json=True)[1] is AS_IT_IS
    assert NO_RULES.for_member("/a", 0, SEED) == (NO_RULES, ())
    assert NO_RULES.behaviour(MediaFails) is None


def test_rules_that_do_not_match_or_do_not_count_leave_the_same_object() -> None:
    some = rules({"Status": 404}, MERGE)
    assert asked(some, path="/b")[0] is some
    assert asked(some, path="/b")[1] is NOTHING
    assert asked(some)[0] is some
    assert answered(some)[0] is some


def test_a_new_rule_goes_to_the_end_and_a_known_one_keeps_its_place() -> None:
    some = rules("Close", {"Status": 404})
    more = some.upsert(rule({"Status": 410}, "r0")).upsert(rule(MERGE, "new"))
    assert [(one.id, type(one.effect)) for one in more.rules] == [("r0", Status), ("r1", Status), ("new", JsonMerge)]
    assert [one.id for one in some.rules] == ["r0", "r1"]


def test_removing_a_rule_leaves_the_others() -> None:
    some = rules("Close", {"Status": 404})
    assert [one.id for one in some.remove("r0").rules] == ["r1"]
    with pytest.raises(KeyError):
        some.remove("r2")


def test_a_bmc_has_a_limited_number_of_rules_with_different_ids() -> None:
    full = Rules.of(rule(id_=str(number)) for number in range(MAX_RULES))
    assert full.upsert(rule({"Status": 404}, "7")).rules[7].effect == Status(404)
    with pytest.raises(FaultError, match="at most 256 rules"):
        full.upsert(rule(id_="one more"))
    with pytest.raises(FaultError, match=r"1\.id: 'r' is there twice"):
        Rules.of([rule(), rule()])


@pytest.mark.parametrize(
    "dumped", [[{}], [{"since": 0.0}], [{"since": 0.0, "seen": 0}], [{"since": "x", "seen": 0, "id": "a"}]]
)
def test_a_damaged_durable_form_is_refused_with_its_place(dumped: Any) -> None:
    with pytest.raises(FaultError) as caught:
        Rules.load(dumped)
    assert caught.value.where[0] == 0


# before the request is handled


def test_all_delays_add_up_and_the_first_answer_wins() -> None:
    some = rules(
        {"Latency": {"mean": "1s"}}, {"Status": 404}, {"Latency": {"mean": "2s"}}, "Close", {"Unauthorized": {}}
    )
    _, verdict = asked(some)
    assert (verdict.delay, verdict.answer) == (3.0, Status(404))


def test_a_sum_of_delays_is_limited_too() -> None:
    assert asked(rules(*[{"Latency": {"mean": "1h"}}] * 3))[1].delay == MAX_DELAY


def test_jitter_is_different_each_time_and_less_than_asked_for() -> None:
    some = rules({"Latency": {"mean": "1s", "jitter": "2s"}})
    delays = []
    for _ in range(200):
        some, verdict = asked(some)
        delays.append(verdict.delay)
    assert len(set(delays)) == 200
    assert 1 <= min(delays) < 1.1
    assert 2.9 < max(delays) < 3


def test_an_answer_that_does_not_win_uses_up_nothing() -> None:
    some = rules({"Status": 404}, "Close", remaining=1)
    some, verdict = asked(some)
    assert verdict.answer == Status(404)
    some, verdict = asked(some)
    assert verdict.answer == Close()
    assert asked(some) == (NO_RULES, NOTHING)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_only_writes_are_lost(method: str) -> None:
    some = rules("LostWrite", remaining=1)
    assert asked(some, method) == (some, Verdict(seed=SEED))
    assert asked(some, "PATCH")[1].lost_write == "r0"


@pytest.mark.parametrize(("status", "left"), [(204, 0), (200, 0), (202, 0), (400, 1), (401, 1)])
def test_a_write_that_was_refused_was_not_lost(status: int, left: int) -> None:
    assert len(answered(rules("LostWrite", remaining=1), "PATCH", status)[0].rules) == left


def test_a_request_that_is_not_handled_loses_no_write() -> None:
    some, verdict = asked(rules("LostWrite", {"Status": 404}, every=2), "PATCH")
    some, verdict = asked(some, "PATCH")
    assert (verdict.answer, verdict.lost_write) == (Status(404), "")
    assert [one.seen for one in some.rules] == [1, 2]


def test_a_slash_at_the_end_of_the_path_does_not_count() -> None:
    assert asked(rules("Close"), path="/a/")[1].answer == Close()


def test_a_window_is_over_when_it_is_over() -> None:
    some = rules("Close", window={"for": "60s"})
    assert asked(some, wall=59.0)[1].answer == Close()
    assert asked(some, wall=60.0)[1].answer is None


# after it


@pytest.mark.parametrize("action", [MERGE, {"Replace": {}}, {"JsonRemove": ["/x"]}])
@pytest.mark.parametrize(("status", "is_json", "acts"), [(200, True, True), (404, True, False), (200, False, False)])
def test_json_is_edited_only_where_there_is_some_and_that_alone_uses_up_the_budget(
    action: Any, status: int, is_json: bool, acts: bool
) -> None:
    some, edits = answered(rules(action, remaining=1), status=status, is_json=is_json)
    assert bool(edits.body) is acts
    assert bool(some) is not acts


def test_the_first_replacement_comes_before_all_other_edits() -> None:
    some = rules(MERGE, {"Replace": {"a": 1}}, {"JsonRemove": ["/x"]}, {"Replace": {"a": 2}}, remaining=2)
    left, edits = answered(some)
    assert edits.body == (Replace({"a": 1}), JsonMerge({"x": 1}), JsonRemove(("/x",)))
    assert [one.remaining for one in left.rules] == [1, 1, 1, 2]


def test_headers_are_edited_whatever_the_answer() -> None:
    some = rules({"Headers": {"A": "1"}}, {"Headers": {"A": None}})
    for status, is_json in ((200, True), (404, True), (204, False)):
        _, edits = answered(some, status=status, is_json=is_json, length=0)
        assert edits.headers == (Headers({"A": "1"}), Headers({"A": None}))


def test_cuts_and_drips_need_a_body_that_is_long_enough() -> None:
    some = rules({"Truncate": {"keep": 0.5}}, {"CloseAfter": {"bytes": 50}}, {"Drip": {"bytes_per_second": 9}})
    assert answered(some, length=100)[1] == Edits((), (), 0.5, 50, 9.0, ("r0", "r1", "r2"))
    assert answered(some, length=50)[1] == Edits((), (), 0.5, None, 9.0, ("r0", "r2"))
    assert answered(some, length=0)[1] == Edits()
    assert answered(some, "HEAD")[1] == AS_IT_IS


def test_the_first_cut_and_the_first_drip_win() -> None:
    two = [{"Truncate": {"keep": 0.5}}, {"Truncate": {"keep": 0.1}}, {"Drip": {"bytes_per_second": 9}}] * 2
    left, edits = answered(rules(*two, remaining=1))
    assert (edits.truncate, edits.rate) == (0.5, 9.0)
    assert [one.id for one in left.rules] == ["r1", "r3", "r4", "r5"]


def test_head_has_no_body_to_edit_but_headers() -> None:
    left, edits = answered(rules(MERGE, {"Headers": {"A": "1"}}, remaining=1), "HEAD")
    assert (edits.body, edits.headers) == ((), (Headers({"A": "1"}),))
    assert [one.id for one in left.rules] == ["r0"]


def test_rules_that_changed_while_the_request_was_handled_are_respected() -> None:
    some, verdict = asked(rules(MERGE, MERGE))
    changed = some.remove("r0").upsert(rule(MERGE, "new"))
    assert len(changed.after(verdict, 200, 1, is_json=True)[1].body) == 1


# how often


@given(st.integers(1, 7), st.integers(1, 5), st.integers(1, 60))
def test_every_nth_match_acts_until_the_budget_is_used_up(every: int, remaining: int, requests: int) -> None:
    some = rules({"Status": 404}, every=every, remaining=remaining)
    acted = []
    for number in range(1, requests + 1):
        some, verdict = asked(some)
        if verdict.answer is not None:
            acted.append(number)
    assert acted == list(range(every, requests + 1, every))[:remaining]
    assert bool(some) is (len(acted) < remaining)


@given(st.integers(1, 5), st.lists(st.sampled_from([200, 204, 404]), max_size=30))
def test_answers_that_cannot_be_edited_do_not_count(every: int, statuses: list[int]) -> None:
    some = rules(MERGE, every=every)
    acted = 0
    for status in statuses:
        some, edits = answered(some, status=status, is_json=status == 200)
        acted += len(edits.body)
    assert acted == statuses.count(200) // every


def acting(seed: int, id_: str = "r", probability: float = 0.3, requests: int = 2000) -> list[bool]:
    """On which requests a rule acts."""
    some, outcomes = Rules.of([rule(id_=id_, probability=probability)]), []
    for _ in range(requests):
        some, verdict = some.before("GET", "/a", 0.0, seed)
        outcomes.append(verdict.answer is not None)
    return outcomes


def test_a_probability_is_a_share_and_the_same_for_the_same_bmc_and_rule() -> None:
    assert 500 < sum(acting(SEED)) < 700
    assert acting(SEED) == acting(SEED)
    assert acting(SEED) != acting(SEED + 3)
    assert acting(SEED) != acting(SEED, "other")
    assert sum(acting(SEED, probability=0.0, requests=50)) == 0
    assert sum(acting(SEED, probability=1.0, requests=50)) == 50


def test_chance_does_not_depend_on_the_process() -> None:
    assert "".join("x" if acts else "." for acts in acting(SEED, requests=40)) == GOLDEN


GOLDEN = ".....x..x..x.x..x......x..xx......x...xx"


def test_two_rules_with_the_same_probability_act_apart() -> None:
    some = Rules.of([rule({"Headers": {"A": "1"}}, "a", probability=0.5), rule(MERGE, "b", probability=0.5)])
    outcomes = set()
    for _ in range(50):
        some, edits = answered(some)
        outcomes.add((bool(edits.headers), bool(edits.body)))
    assert len(outcomes) == 4


# embedded members


def test_an_embedded_member_is_edited_or_reduced_to_its_link() -> None:
    assert rules(MERGE).for_member("/a/", 0, SEED)[1] == (JsonMerge({"x": 1}),)
    assert rules(MERGE).for_member("/b", 0, SEED)[1] == ()
    assert rules(MERGE, {"Replace": {}}).for_member("/a", 0, SEED)[1] == (Replace({}), JsonMerge({"x": 1}))
    for action in ({"Status": 404}, {"Unauthorized": {}}, {"Error": {"status": 500, "message": "X"}}):
        assert rules(MERGE, action).for_member("/a", 0, SEED)[1] is None
    assert rules({"Latency": {"mean": "1s"}}, "LostWrite").for_member("/a", 0, SEED)[1] == ()


def test_embedding_uses_up_the_budget_and_respects_the_window() -> None:
    once = rules(MERGE, remaining=1)
    assert once.for_member("/a", 0, SEED)[0] == NO_RULES
    early = rules(MERGE, window={"after": "60s"})
    assert early.for_member("/a", 0, SEED) == (early, ())
    assert early.for_member("/a", 60, SEED)[1] == (JsonMerge({"x": 1}),)


def test_a_rule_about_members_leaves_requests_alone() -> None:
    some = rules(MERGE, selector={"Member": "/a"})
    assert asked(some)[1] is NOTHING
    assert some.for_member("/a", 0, SEED)[1] == (JsonMerge({"x": 1}),)
    other = rules(MERGE, selector={"Path": {"glob": "/a", "method": "PATCH"}})
    assert other.for_member("/a", 0, SEED)[1] == ()


# stuck machines


def stuck(*actions: Any, **more: Any) -> Rules:
    """Rules about the machine."""
    return rules(*actions, selector="-", **more)


def test_ignored_commands_are_counted_down() -> None:
    some = stuck("MediaFails", {"IgnorePowerOn": {"count": 2}})
    assert some.behaviour(IgnorePowerOn) == IgnorePowerOn(2)
    some = some.spend(IgnorePowerOn)
    assert some.behaviour(IgnorePowerOn) == IgnorePowerOn(1)
    some = some.spend(IgnorePowerOn)
    assert some.behaviour(IgnorePowerOn) is None
    assert some.spend(IgnorePowerOn) is some
    assert some.behaviour(MediaFails) == MediaFails()


def test_other_behaviours_last_until_their_budget_is_used_up() -> None:
    once = stuck({"SlowLogin": {"delay": "12s"}}, remaining=1)
    found = once.behaviour(SlowLogin)
    assert found is not None
    assert found.delay == 12
    assert once.spend(SlowLogin) == NO_RULES
    always = stuck("IgnoreShutdown")
    assert always.spend(IgnoreShutdown) is always


def test_a_cure_takes_all_of_a_kind() -> None:
    some = stuck({"IgnorePowerOn": {"count": 2}}, {"IgnorePowerOn": {"count": 9}}, "MediaFails")
    assert [one.id for one in some.cure(IgnorePowerOn).rules] == ["r2"]
    assert some.cure(IgnoreShutdown) is some


def test_machine_rules_never_concern_requests() -> None:
    some = stuck("MediaFails", "IgnoreShutdown", {"SlowLogin": {"delay": "1s"}})
    assert asked(some, "POST") == (some, NOTHING)


@pytest.mark.parametrize(
    ("forms", "said"),
    [
        ([{"selector": {"OdataId": "/" + "*a" * 250}} for _ in range(20)], "wildcards"),
        ([{"selector": {"Any": [{"Member": "/" + "?" * 500} for _ in range(20)]}}], "wildcards"),
        ([{"action": {"Replace": "x" * 60_000}} for _ in range(20)], "KiB"),
    ],
)
def test_all_rules_of_a_bmc_together_have_a_limit(forms: list[dict[str, Any]], said: str) -> None:
    rules = [rule(**{"id_": f"r{number}", **form}) for number, form in enumerate(forms)]
    with pytest.raises(FaultError, match=said):
        Rules.of(rules)
    added = Rules()
    with pytest.raises(FaultError, match=said):
        for one in rules:
            added = added.upsert(one)
