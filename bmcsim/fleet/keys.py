"""Passwords under the key of another process: BMCs that were restored from its snapshot keep that key."""

import msgspec

from bmcsim.machine.credentials import Accounts, Hasher
from bmcsim.machine.identity import Kind
from bmcsim.machine.resources import Shared
from bmcsim.tree.compile import Tree
from bmcsim.tree.profile import Behaviour


class Passwords(msgspec.Struct, frozen=True):
    """As which passwords BMCs are rotated already when they start, None for the factory's."""

    host: str | None = None
    dpu: str | None = None

    def of(self, tree: Tree, behaviour: Behaviour) -> str | None:
        """The one of the BMCs with a tree, None for the factory's."""
        if behaviour.ignores_pinned_password:
            return None
        return self.dpu if Kind(tree.head.kind) is Kind.DPU else self.host

    def accounts(self, tree: Tree, behaviour: Behaviour, hasher: Hasher) -> Accounts:
        """The accounts that these BMCs start with."""
        exempt = behaviour.factory_password_everywhere
        return Accounts.factory(tree.head.accounts, hasher, exempt, self.of(tree, behaviour))


class Keys:
    """Makes of what BMCs have in common the same under another key, once for each."""

    def __init__(self, own: Hasher, passwords: Passwords) -> None:
        """own: that of the process or its state directory."""
        self.own, self._passwords = own, passwords
        self._hashers = {own.key: own}
        # The old ones are kept, so that ids stay theirs.
        self._made: dict[tuple[int, bytes], tuple[Shared, Shared]] = {}

    def under(self, shared: Shared, key: bytes) -> Shared:
        """The same under a key; b'' for the own one."""
        hasher = self.own if not key else self._hashers.get(key)
        if hasher is None:
            hasher = self._hashers[key] = Hasher(key, foreign=True)
        if shared.hasher is hasher:
            return shared
        known = (id(shared), hasher.key)
        if known not in self._made:
            accounts = self._passwords.accounts(shared.tree, shared.behaviour, hasher)
            self._made[known] = shared, msgspec.structs.replace(shared, hasher=hasher, accounts=accounts)
        return self._made[known][1]
