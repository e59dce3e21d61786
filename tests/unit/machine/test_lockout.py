"""Account lockout, against the words of AccountService."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmcsim.machine.lockout import FailedLogins, Lockout

FOUR = Lockout(4, 20, 10)
SITE_POLICIES = [Lockout(0, 0, 0), Lockout(0, 60), Lockout(4, 20, 20), Lockout(4, 600)]


def run(rule: Lockout, *script: float | str) -> FailedLogins:
    """What is there after failures at some times, and 'login' in between."""
    failures = FailedLogins()
    for step in script:
        if isinstance(step, str):
            failures.forget("1")
        else:
            failures.add("1", rule, step)
    return failures


@pytest.mark.parametrize(
    ("rule", "script", "at", "locked"),
    [
        (FOUR, (), 0.0, False),
        (FOUR, (0.0, 1.0, 2.0), 2.0, False),
        (FOUR, (0.0, 1.0, 2.0, 3.0), 3.0, True),
        (FOUR, (0.0, 1.0, 2.0, 3.0), 22.9, True),
        (FOUR, (0.0, 1.0, 2.0, 3.0), 23.0, False),
        # Guessing on does not prolong it, and counting begins anew.
        (FOUR, (0.0, 1.0, 2.0, 3.0, 20.0, 22.0), 23.0, False),
        (FOUR, (0.0, 1.0, 2.0, 3.0, 23.0), 23.0, False),
        (FOUR, (0.0, 1.0, 2.0, 3.0, 23.0, 24.0, 25.0), 25.0, False),
        (FOUR, (0.0, 1.0, 2.0, 3.0, 23.0, 24.0, 25.0, 26.0), 26.0, True),
        # The counter resets with time since the last failure, and with a login.
        (FOUR, (0.0, 9.9, 19.8, 29.7), 29.7, True),
        (FOUR, (0.0, 1.0, 2.0, 12.0), 12.0, False),
        (FOUR, (0.0, 1.0, 2.0, "login", 3.0), 3.0, False),
        (FOUR, (0.0, 1.0, 2.0, 3.0, "login"), 3.0, False),
        (Lockout(1, 5, 5), (7.0,), 7.0, True),
        (Lockout(2, 600), (0.0, 1e6), 1e6, True),
        # Off.
        (Lockout(0, 60, 60), (0.0,) * 99, 0.0, False),
        (Lockout(3, 0, 0), (0.0,) * 99, 0.0, False),
        # Only a login or an administrator ends it.
        (Lockout(2, 20, 10, resets=False), (0.0, 1e6), 1e9, True),
        (Lockout(2, 0, 0, resets=False), (0.0, 1.0), 1e9, True),
        (Lockout(0, 0, 0, resets=False), (0.0, 1.0), 1.0, False),
    ],
)
def test_when_an_account_is_locked(rule: Lockout, script: tuple[float | str, ...], at: float, locked: bool) -> None:
    assert run(rule, *script).locked("1", rule, at) == locked


def test_only_the_failure_that_locks_says_so() -> None:
    failures = FailedLogins()
    assert [failures.add("1", FOUR, float(second)) for second in range(6)] == [False] * 3 + [True] + [False] * 2


def test_accounts_do_not_count_for_each_other() -> None:
    failures = run(FOUR, 0.0, 0.0, 0.0, 0.0)
    assert failures.locked("1", FOUR, 0.0)
    assert not failures.locked("2", FOUR, 0.0)
    assert not failures.add("2", FOUR, 0.0)


def test_a_lock_ends_when_the_service_locks_no_longer_and_everything_can_be_forgotten() -> None:
    failures = run(FOUR, 0.0, 0.0, 0.0, 0.0)
    assert not failures.locked("1", Lockout(0, 20, 10), 1.0)
    assert failures.locked("1", FOUR, 1.0)
    failures.forget()
    assert not failures.locked("1", FOUR, 1.0)


class Guessing(RuleBasedStateMachine):
    """Failures, logins and time against the words of the schema, told anew from the whole history."""

    def __init__(self) -> None:
        super().__init__()
        self.failures, self.now, self.lockout = FailedLogins(), 0.0, FOUR
        self.count, self.last, self.until = 0, 0.0, 0.0

    @rule(policy=st.sampled_from([*SITE_POLICIES, FOUR, Lockout(1, 1, 1)]))
    @precondition(lambda self: not self.count)
    def choose(self, policy: Lockout) -> None:
        if self.now >= self.until:
            self.lockout = policy

    @rule()
    def fail(self) -> None:
        locks = self.failures.add("1", self.lockout, self.now)
        if self.now < self.until or not self.lockout.threshold:
            assert not locks
            return
        if self.lockout.reset_after and self.now - self.last >= self.lockout.reset_after:
            self.count = 0
        self.count, self.last = self.count + 1, self.now
        assert locks == (self.count == self.lockout.threshold)
        if locks:
            self.count, self.until = 0, self.now + self.lockout.duration

    @rule()
    def log_in(self) -> None:
        if self.now >= self.until:
            self.failures.forget("1")
            self.count = 0

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 10.0, 20.0, 601.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def locked_while_the_duration_lasts(self) -> None:
        assert self.failures.locked("1", self.lockout, self.now) == (self.now < self.until)


TestGuessing = Guessing.TestCase
