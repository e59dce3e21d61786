"""Which answers would make NICo reset a BMC."""

import pytest

from bench.restart import Claim, surprise


@pytest.mark.parametrize(
    ("claim", "status", "wrong"),
    [
        ("right", 200, False),
        ("right", 401, True),
        ("right", 403, True),
        ("right", 404, True),
        ("right", 503, True),
        ("open", 401, False),
        ("open", 503, True),
        ("wrong", 401, False),
        ("wrong", 200, True),
        ("wrong", 403, True),
    ],
)
def test_only_2xx_and_a_deserved_401_are_right(claim: Claim, status: int, wrong: bool) -> None:
    assert surprise(claim, status) is wrong
