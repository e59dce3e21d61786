"""Accounts and the factory-password rule."""

from typing import Any

import msgspec
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


def with_password(of: Accounts, password: str, id_: str = "1") -> Accounts:
    """Accounts of which one has a new password."""
    return of.replacing(account(of, id_).with_password(HASHER.digest(password)))


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


@pytest.mark.parametrize(
    ("facts", "usable"),
    [({}, True), ({"enabled": False}, False), ({"types": ("IPMI",)}, False), ({"types": ("IPMI", "Redfish")}, True)],
)
def test_disabled_accounts_and_those_for_other_services_do_not_log_in(facts: dict[str, Any], usable: bool) -> None:
    digest = HASHER.digest("one")
    one = Account("1", "root", "Administrator", digest, b"", **facts)
    assert (Accounts((one,)).authenticate("root", digest) is not None) == usable


@pytest.mark.parametrize(
    ("exempt", "password", "required"),
    [(False, None, True), (True, None, False), (False, "new", False), (False, "one", True), (True, "new", False)],
)
def test_the_factory_password_has_to_be_changed_unless_the_hardware_does_not_mind(
    exempt: bool, password: str | None, required: bool
) -> None:
    assert account(accounts(exempt=exempt, password=password)).must_change(0.0) == required


def test_a_new_password_is_a_copy_that_leaves_the_others_and_the_original_alone() -> None:
    before = accounts()
    after = with_password(before, "new")
    assert after.ids() == before.ids()
    assert [after.authenticate("root", HASHER.digest(one)) is not None for one in ("one", "new")] == [False, True]
    assert [before.authenticate("root", HASHER.digest(one)) is not None for one in ("one", "new")] == [True, False]
    assert account(after, "2") == account(before, "2")
    assert not account(after).must_change(0.0)


def test_going_back_to_the_factory_password_arms_the_rule_again() -> None:
    there_and_back = with_password(with_password(accounts(), "new"), "one")
    assert account(there_and_back).must_change(0.0)


def test_an_account_that_is_not_there_is_not_put_there() -> None:
    stranger = Account("3", "other", "Administrator", b"", b"")
    assert accounts().replacing(stranger) == accounts()


@pytest.mark.parametrize("password", [None, "rotated"])
def test_accounts_return_to_the_passwords_that_they_started_with(password: str | None) -> None:
    initial = accounts(password=password)
    changed = with_password(with_password(initial, "new"), "newer", "2")
    assert changed.returned(initial) == initial
    assert initial.returned(initial) == initial


def test_what_is_no_password_stays_and_so_do_accounts_that_are_new() -> None:
    initial = accounts()
    first = msgspec.structs.replace(account(with_password(initial, "new")), user="renamed", enabled=False)
    new = Account("3", "other", "Operator", HASHER.digest("three"), b"")
    returned = Accounts((*initial.replacing(first).accounts, new)).returned(initial)
    assert returned.ids() == ["1", "2", "3"]
    assert account(returned, "3") == new
    assert account(returned) == msgspec.structs.replace(first, digest=HASHER.digest("one"), previous=b"")


def test_an_account_that_was_deleted_does_not_return() -> None:
    initial = accounts()
    assert Accounts(initial.accounts[1:]).returned(initial).ids() == ["2"]


# when a password has to be changed


@pytest.mark.parametrize(
    ("facts", "wall", "required"),
    [
        ({}, 1e12, False),
        ({"change_required": True}, 0.0, True),
        ({"expiration": 100.0}, 99.9, False),
        ({"expiration": 100.0}, 100.0, True),
        ({"expiration": 100.0, "exempt": True}, 100.0, True),
        ({"factory": HASHER.digest("one")}, 0.0, True),
        ({"factory": HASHER.digest("one"), "exempt": True}, 0.0, False),
    ],
)
def test_what_asks_for_another_password(facts: dict[str, Any], wall: float, required: bool) -> None:
    one = msgspec.structs.replace(Account("1", "root", "Administrator", HASHER.digest("one"), b""), **facts)
    assert one.must_change(wall) == required


def test_a_change_answers_whatever_asked_for_it_and_the_same_password_is_no_change() -> None:
    digest = HASHER.digest("one")
    one = Account("1", "root", "Administrator", digest, digest, change_required=True, expiration=5.0)
    assert one.with_password(digest, 99.0, 3) is one
    changed = one.with_password(HASHER.digest("new"), 99.0)
    assert not changed.must_change(10.0)
    assert (changed.expiration, changed.must_change(99.0)) == (99.0, True)


@pytest.mark.parametrize(("remember", "had"), [(0, "c"), (1, "bc"), (2, "abc"), (9, "abc")])
def test_former_passwords_are_remembered_as_long_as_the_firmware_does(remember: int, had: str) -> None:
    one = Account("1", "root", "Administrator", HASHER.digest("a"), b"")
    for password in "bc":
        one = one.with_password(HASHER.digest(password), remember=remember)
    assert "".join(password for password in "abcd" if one.had(HASHER.digest(password))) == had


def test_a_return_takes_back_everything_that_belongs_to_a_password() -> None:
    initial = accounts()
    changed = account(initial).with_password(HASHER.digest("new"), 5.0, 3)
    after = initial.replacing(msgspec.structs.replace(changed, change_required=True, enabled=False))
    returned = account(after.returned(initial))
    assert returned == msgspec.structs.replace(account(initial), enabled=False)
    assert initial.returned(initial) is initial


def test_factory_passwords_are_those_of_the_factory_however_a_bmc_began() -> None:
    rotated = accounts(password="rotated")
    assert rotated.on_factory_passwords() == accounts()
    assert accounts().on_factory_passwords() == accounts()


# accounts that come and go


def test_a_new_account_gets_the_lowest_number_that_is_free() -> None:
    some = accounts()
    assert some.free_id() == "3"
    assert some.removing("1").free_id() == "1"
    assert Accounts((msgspec.structs.replace(account(some), id="root"),)).free_id() == "1"
    assert Accounts(()).free_id() == "1"


def test_an_account_can_take_another_id_in_its_place() -> None:
    renamed = msgspec.structs.replace(account(accounts()), id="x", user="x")
    assert accounts().replacing(renamed, "1").ids() == ["x", "2"]


@pytest.mark.parametrize(
    ("change", "administered"),
    [({}, True), ({"enabled": False}, False), ({"role": "Operator"}, False), ({"types": ("IPMI",)}, False)],
)
def test_somebody_has_to_be_administrator(change: dict[str, Any], administered: bool) -> None:
    changed = accounts().replacing(msgspec.structs.replace(account(accounts()), **change))
    assert changed.administered == administered
    assert not accounts().removing("1").administered
