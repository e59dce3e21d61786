"""Accounts of a BMC and the factory-password rule.

Passwords are kept as HMAC-SHA-256 under one key per process. A slow key derivation would cost minutes at 13,500 logins;
this is a simulator's choice, documented for users.
"""

import hmac
import secrets
from collections.abc import Iterable

import msgspec

from bmcsim.tree.profile import Account as FactoryAccount


class Account(msgspec.Struct, gc=False):
    """One account. digest: of the current password; factory: of the factory password, b'' if it never had one."""

    id: str
    user: str
    role: str
    digest: bytes
    factory: bytes
    exempt: bool = False
    enabled: bool = True
    locked: bool = False

    @property
    def password_change_required(self) -> bool:
        """Whether the account is still on the factory password and the hardware minds (DSP0266 13.2.9)."""
        return self.digest == self.factory and not self.exempt


class Hasher:
    """Turns passwords into digests under one key."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def digest(self, password: str) -> bytes:
        """32 bytes."""
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), "sha256")


class Accounts:
    """The accounts of one BMC: by id in the order of creation. BMCs share one until they change something."""

    __slots__ = ("_by_id",)

    def __init__(self, accounts: Iterable[Account]) -> None:
        self._by_id = {account.id: account for account in accounts}

    @classmethod
    def factory(
        cls, factory: Iterable[FactoryAccount], hasher: Hasher, exempt: bool, password: str | None = None
    ) -> "Accounts":
        """Accounts as they leave the factory, or as already rotated to a password."""
        accounts = []
        for account in factory:
            original = hasher.digest(account.password)
            current = original if password is None else hasher.digest(password)
            accounts.append(Account(account.id, account.user, account.role, current, original, exempt))
        return cls(accounts)

    def get(self, id_: str) -> Account | None:
        """The account with an id."""
        return self._by_id.get(id_)

    def ids(self) -> list[str]:
        """Ids in the order of creation."""
        return list(self._by_id)

    def authenticate(self, user: str, digest: bytes) -> Account | None:
        """The enabled account with this user name and password digest. Compares in constant time."""
        for account in self._by_id.values():
            if account.user == user and account.enabled and not account.locked:
                return account if hmac.compare_digest(account.digest, digest) else None
        return None

    def with_digest(self, id_: str, digest: bytes) -> "Accounts":
        """A copy in which one account has another password."""
        return Accounts(
            msgspec.structs.replace(account, digest=digest) if account.id == id_ else account
            for account in self._by_id.values()
        )
