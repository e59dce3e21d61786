"""Accounts and the factory-password rule."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.machine.credentials import Account, Accounts, Hasher
from bmcsim.tree.profile import Account as FactoryAccount

HASHER = Hasher(b"k" * 32)
FACTORY = [FactoryAccount("1", "root", "one"), FactoryAccount("2", "admin", "two", "ReadOnly")]


def accounts(*, exempt: bool = False, password: str | None = None) -> Accounts:
    """Two accounts as they left the factory, or rotated to one password."""
    return Accounts.factory(FACTORY, HASHER, exempt, password)


def account(of: Accounts, id_: str = "1") -> Account:
    """An account that is there."""
    found = of.get(id_)
    assert found is not None
    return found


@settings(deadline=None)
@given(st.text(), st.text())
def test_digests_are_equal_exactly_when_the_passwords_are(one: str, other: str) -> None:
    assert (HASHER.digest(one) == HASHER.digest(other)) == (one == other)
    assert len(HASHER.digest(one)) == 32


def test_the_digest_is_an_hmac_under_the_key() -> None:
    assert HASHER.digest("x") == Hasher(b"k" * 32).digest("x")
    assert HASHER.digest("x") != Hasher(b"l" * 32).digest("x")
    assert Hasher().digest("x") != Hasher().digest("x")


def test_any_json_text_has_a_digest() -> None:
    assert HASHER.digest("\ud800") != HASHER.digest("\ud801")


def test_accounts_keep_the_order_of_the_factory_and_their_facts() -> None:
    assert accounts().ids() == ["1", "2"]
    assert [(one.user, one.role) for one in map(account, [accounts()] * 2, ["1", "2"])] == [
        ("root", "Administrator"),
        ("admin", "ReadOnly"),
    ]
    assert accounts().get("3") is None


@pytest.mark.parametrize(
    ("user", "password", "id_"),
    [
        ("root", "one", "1"),
        ("admin", "two", "2"),
        ("root", "two", None),
        ("admin", "one", None),
        ("Root", "one", None),
        ("root", "", None),
        ("", "", None),
        ("nobody", "one", None),
        ("1", "one", None),
    ],
)
def test_who_may_log_in(user: str, password: str, id_: str | None) -> None:
    found = accounts().authenticate(user, HASHER.digest(password))
    assert (found.id if found else None) == id_


@pytest.mark.parametrize("fact", ["enabled", "locked"])
def test_disabled_and_locked_accounts_do_not_log_in(fact: str) -> None:
    digest = HASHER.digest("one")
    one = Account("1", "root", "Administrator", digest, b"", enabled=fact != "enabled", locked=fact == "locked")
    assert Accounts([one]).authenticate("root", digest) is None


@pytest.mark.parametrize(
    ("exempt", "password", "required"),
    [(False, None, True), (True, None, False), (False, "new", False), (False, "one", True), (True, "new", False)],
)
def test_the_factory_password_has_to_be_changed_unless_the_hardware_does_not_mind(
    exempt: bool, password: str | None, required: bool
) -> None:
    assert account(accounts(exempt=exempt, password=password)).password_change_required == required


def test_a_new_password_is_a_copy_that_leaves_the_others_and_the_original_alone() -> None:
    before = accounts()
    after = before.with_digest("1", HASHER.digest("new"))
    assert after.ids() == before.ids()
    assert [after.authenticate("root", HASHER.digest(one)) is not None for one in ("one", "new")] == [False, True]
    assert [before.authenticate("root", HASHER.digest(one)) is not None for one in ("one", "new")] == [True, False]
    assert account(after, "2") == account(before, "2")
    assert not account(after).password_change_required


def test_going_back_to_the_factory_password_arms_the_rule_again() -> None:
    there_and_back = accounts().with_digest("1", HASHER.digest("new")).with_digest("1", HASHER.digest("one"))
    assert account(there_and_back).password_change_required
