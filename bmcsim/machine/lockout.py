"""Account lockout: too many failed logins close an account to passwords for a while (AccountService.v1_5_0).

Rule 1: the counter of an account grows with each failed login, and begins anew after a login that succeeds, and when
        `reset_after` seconds have passed since the last failure; 0 means that time alone never resets it.
Rule 2: the failure that reaches the threshold locks the account for `duration` seconds; then counting begins anew.
Rule 3: failures while it is locked change nothing, so a client that goes on guessing does not prolong it.
Rule 4: without `resets` both times are ignored: only a login or an administrator resets the counter or the lock.
Rule 5: a threshold of 0 never locks, and neither does a duration of 0 (unless Rule 4 ignores it).
"""

from collections.abc import Collection
from math import inf

import msgspec


class Lockout(msgspec.Struct, frozen=True, gc=False):
    """What the account service says. threshold: failures; duration, reset_after: seconds.

    resets: AccountLockoutCounterResetEnabled.
    """

    threshold: int = 0
    duration: float = 0.0
    reset_after: float = 0.0
    resets: bool = True

    @property
    def locks(self) -> bool:
        """Whether it ever locks an account."""
        return self.threshold > 0 and (self.duration > 0 or not self.resets)


class _Failures(msgspec.Struct, gc=False):
    """Of one account. last: monotonic seconds of the last one. until: when the lock ends, None while there is none."""

    count: int = 0
    last: float = 0.0
    until: float | None = None


class FailedLogins:
    """The failed logins of one BMC, by `Account.lock_key`.

    total: of all users, known or not, since the process started.
    """

    __slots__ = ("_of", "total")

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[str, _Failures] = {}

    def add(self, account: str, rule: Lockout, now: float) -> bool:
        """A failed login of an account; whether it is the one that locks it. now: monotonic seconds."""
        if not rule.locks or self.locked(account, rule, now):
            return False
        failures = self._of.get(account)
        expired = failures is not None and rule.resets and 0 < rule.reset_after <= now - failures.last
        if failures is None or failures.until is not None or expired:
            failures = self._of[account] = _Failures()
        failures.count += 1
        failures.last = now
        if failures.count < rule.threshold:
            return False
        failures.until = now + rule.duration if rule.resets else inf
        return True

    def locked(self, account: str, rule: Lockout, now: float) -> bool:
        """Whether an account is locked. now: monotonic seconds."""
        failures = self._of.get(account)
        return failures is not None and failures.until is not None and rule.locks and now < failures.until

    def left(self, account: str, now: float) -> float:
        """Seconds until a lock ends, infinite for one that does not. now: monotonic seconds."""
        failures = self._of.get(account)
        return max(0.0, failures.until - now) if failures is not None and failures.until is not None else 0.0

    def forget(self, account: str = "") -> None:
        """Begin anew for an account, '' for all: after a login, or a reset."""
        if account:
            self._of.pop(account, None)
        else:
            self._of.clear()

    def keep(self, accounts: Collection[str]) -> None:
        """Forget what belongs to none of these accounts."""
        if len(self._of) > len(accounts):
            self._of = {account: failures for account, failures in self._of.items() if account in accounts}

    def __contains__(self, account: str) -> bool:
        return account in self._of
