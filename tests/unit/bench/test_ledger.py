"""What a BMC must remember, after any sequence of writes that it did or did not acknowledge."""

from hypothesis import given
from hypothesis import strategies as st

from bench.ledger import Fact, Outcome, Things

OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(["done", "refused", "open"])
WRITES = st.lists(st.tuples(st.integers(0, 5), OUTCOMES, st.booleans()), max_size=20)


def test_an_acknowledged_value_must_stay() -> None:
    fact = Fact("AssetTag", "a")
    fact.told("b", "done")
    assert "AssetTag is 'a'" in fact.seen("a")
    assert fact.seen("b") == ""


def test_a_refused_value_must_not_appear() -> None:
    fact = Fact("AssetTag", "a")
    fact.told("b", "refused")
    assert fact.seen("b") != ""
    assert fact.seen("a") == ""


def test_without_an_answer_either_may_be_until_one_was_seen() -> None:
    fact = Fact("AssetTag", "a")
    fact.told("b", "open")
    assert not fact.sure
    assert fact.seen("b") == ""
    assert fact.sure
    assert fact.seen("a") != ""


@given(writes=WRITES)
def test_a_bmc_that_does_what_it_says_is_never_found_wrong(writes: list[tuple[int, Outcome, bool]]) -> None:
    fact, value = Fact("X", -1), -1
    for new, outcome, happened in writes:
        value = new if outcome == "done" or (outcome == "open" and happened) else value
        fact.told(new, outcome)
        assert value in fact.may
    assert fact.seen(value) == ""


@given(writes=WRITES)
def test_things_of_a_bmc_that_does_what_it_says_are_never_found_wrong(writes: list[tuple[int, Outcome, bool]]) -> None:
    things, there = Things("subscriptions"), set[str]()
    for number, outcome, happened in writes:
        name = str(number)
        took = outcome == "done" or (outcome == "open" and happened)
        if name in things.there | things.maybe:
            things.deleted(name, outcome)
            there -= {name} if took else set()
        else:
            things.made(name, outcome)
            there |= {name} if took else set()
    assert things.seen(sorted(there)) == ""
    assert things.there == there


def test_lost_invented_and_doubled_things_are_found() -> None:
    things = Things("subscriptions")
    things.made("a", "done")
    things.made("b", "refused")
    assert "lost ['a']" in things.seen([])
    assert "invented ['b']" in things.seen(["a", "b"])
    assert "1 twice" in things.seen(["a", "a"])
    things.deleted("a", "done")
    assert "invented ['a']" in things.seen(["a"])


def test_a_refused_deletion_leaves_a_thing_and_an_open_one_may() -> None:
    things = Things("subscriptions")
    things.made("a", "done")
    things.deleted("a", "refused")
    assert "lost" in things.seen([])
    things.deleted("a", "open")
    assert things.seen(["a"]) == ""
    assert "lost" in things.seen([])
