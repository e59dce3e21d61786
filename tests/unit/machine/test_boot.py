"""Boot order."""

from hypothesis import given
from hypothesis import strategies as st

from bmcsim.machine.boot import completed, repeated

OPTIONS = ["Boot0000", "Boot0001", "Boot0002", "Boot0003"]


@given(st.permutations(OPTIONS), st.lists(st.sampled_from(OPTIONS), unique=True))
def test_what_is_named_goes_first_and_the_rest_keeps_its_order(present: list[str], wanted: list[str]) -> None:
    order = completed(wanted, present)
    assert order[: len(wanted)] == wanted
    assert sorted(order) == OPTIONS
    assert order[len(wanted) :] == [option for option in present if option not in wanted]


def test_an_option_is_named_once() -> None:
    assert repeated(OPTIONS) is None
    assert repeated(["a", "b", "c", "b", "a"]) == "b"
