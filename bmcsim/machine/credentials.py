"""Accounts of a BMC, and when a password has to be changed.

Passwords are kept as HMAC-SHA-256 under one key per process. A slow key derivation would cost minutes at 13,500 logins;
this is a simulator's choice, documented for users.
"""

import hmac
import secrets
from collections.abc import Iterable

import msgspec

from bmcsim.machine.roles import ADMINISTRATOR
from bmcsim.tree.profile import Account as FactoryAccount


class Account(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One account. digest: of the current password; factory: of the factory password, b'' if it never had one.

    exempt: the hardware does not mind the factory password. change_required: an administrator asks for another
    password. expiration: when the password expires by the BMC's own clock, in seconds since the epoch, None for never.
    history: digests of former passwords that may not be set again, latest first. types: AccountTypes. unlocks: failed
    logins count only for the number that the account has at that time, so unlocking it is a change that can be undone.
    previous: digest of the last former password, b'' for none; it says what a client presents that missed a change.
    """

    id: str
    user: str
    role: str
    digest: bytes
    factory: bytes
    exempt: bool = False
    enabled: bool = True
    change_required: bool = False
    expiration: float | None = None
    history: tuple[bytes, ...] = ()
    types: tuple[str, ...] = ("Redfish",)
    unlocks: int = 0
    previous: bytes = b""

    @property
    def lock_key(self) -> str:
        """What its failed logins are counted under."""
        return f"{self.unlocks}/{self.id}"

    @property
    def usable(self) -> bool:
        """Whether Redfish may be used with it at all."""
        return self.enabled and "Redfish" in self.types

    @property
    def on_factory_password(self) -> bool:
        """Whether it is still on the factory password and the hardware minds (DSP0266 13.2.9)."""
        return self.digest == self.factory and not self.exempt

    def must_change(self, wall: float) -> bool:
        """Whether the password has to be changed before anything else. wall: the BMC's own clock."""
        expired = self.expiration is not None and wall >= self.expiration
        return expired or self.change_required or self.on_factory_password

    def had(self, digest: bytes) -> bool:
        """Whether a password is the current one or one of the former ones that are remembered."""
        return digest == self.digest or digest in self.history

    def with_password(self, digest: bytes, expiration: float | None = None, remember: int = 0) -> "Account":
        """After a change of the password; the one that it has is no change. remember: how many former ones."""
        if digest == self.digest:
            return self
        history = (self.digest, *self.history)[:remember]
        return msgspec.structs.replace(
            self,
            digest=digest,
            change_required=False,
            expiration=expiration,
            history=history,
            previous=self.digest,
        )


class Hasher:
    """Turns passwords into digests under one key. foreign: the key of another process, which is kept with each row."""

    def __init__(self, key: bytes | None = None, *, foreign: bool = False) -> None:
        self.key = key or secrets.token_bytes(32)
        self.foreign = foreign

    def digest(self, password: str) -> bytes:
        """32 bytes."""
        return hmac.digest(self.key, password.encode("utf-8", "surrogatepass"), "sha256")


class Accounts(msgspec.Struct, frozen=True, gc=False):
    """The accounts of one BMC, in the order of creation. BMCs share one value until they change something."""

    accounts: tuple[Account, ...]

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
        return cls(tuple(accounts))

    def get(self, id_: str) -> Account | None:
        """The account with an id."""
        return next((account for account in self.accounts if account.id == id_), None)

    def of_user(self, user: str) -> Account | None:
        """The account with a user name."""
        return next((account for account in self.accounts if account.user == user), None)

    def ids(self) -> list[str]:
        """Ids in the order of creation."""
        return [account.id for account in self.accounts]

    def free_id(self) -> str:
        """The lowest number that is no account's id."""
        taken = set(self.ids())
        return next(id_ for id_ in map(str, range(1, len(taken) + 2)) if id_ not in taken)

    def authenticate(self, user: str, digest: bytes) -> Account | None:
        """The usable account with this user name and password digest. Compares in constant time."""
        account = self.of_user(user)
        if account is None or not account.usable or not hmac.compare_digest(account.digest, digest):
            return None
        return account

    @property
    def administered(self) -> bool:
        """Whether somebody can log in who may do everything."""
        return any(account.usable and account.role == ADMINISTRATOR for account in self.accounts)

    def adding(self, new: Account) -> "Accounts":
        """A copy with one more account."""
        return Accounts((*self.accounts, new))

    def removing(self, id_: str) -> "Accounts":
        """A copy without an account."""
        return Accounts(tuple([account for account in self.accounts if account.id != id_]))

    def replacing(self, changed: Account, id_: str = "") -> "Accounts":
        """A copy in which one account is another. id_: its former id, where that changes too."""
        old = id_ or changed.id
        return Accounts(tuple([changed if account.id == old else account for account in self.accounts]))

    def returned(self, initial: "Accounts") -> "Accounts":
        """The accounts, those of the beginning with their passwords of then: a copy only if one differs."""
        accounts = tuple([_returned(account, initial.get(account.id)) for account in self.accounts])
        return Accounts(accounts) if accounts != self.accounts else self

    def on_factory_passwords(self) -> "Accounts":
        """The accounts, each with its factory password: a copy only if one differs."""
        return self.returned(Accounts(tuple([as_shipped(account) for account in self.accounts])))


def as_shipped(account: Account) -> Account:
    """An account with its factory password, as it was then."""
    return msgspec.structs.replace(
        account, digest=account.factory, change_required=False, expiration=None, history=(), previous=b""
    )


def _returned(account: Account, first: Account | None) -> Account:
    """An account with the password of the first one, and everything that belongs to the password."""
    if first is None:
        return account
    return msgspec.structs.replace(
        account,
        digest=first.digest,
        change_required=first.change_required,
        expiration=first.expiration,
        history=first.history,
        previous=first.previous,
    )
