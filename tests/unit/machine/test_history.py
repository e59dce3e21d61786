"""Which password was presented, and how a request ended."""

import pytest

from bmcsim.machine.credentials import Account, Hasher
from bmcsim.machine.history import generation, outcome_of
from tests.conftest import make_client

HASHER = Hasher(b"k" * 32)


def account(*passwords: str, remember: int = 0) -> Account:
    """An account that had these passwords, the factory's first."""
    digest = HASHER.digest(passwords[0])
    made = Account("1", "root", "Administrator", digest, digest)
    for password in passwords[1:]:
        made = made.with_password(HASHER.digest(password), remember=remember)
    return made


@pytest.mark.parametrize(
    ("password", "which"),
    [("factory", "factory"), ("second", "previous"), ("third", "current"), ("guess", "unknown"), ("", "unknown")],
)
def test_a_password_is_known_by_its_digest(password: str, which: str) -> None:
    assert generation(account("factory", "second", "third"), HASHER.digest(password), pinned=False) == which


def test_older_passwords_are_known_as_far_as_the_account_remembers_them() -> None:
    older = HASHER.digest("second")
    assert generation(account("factory", "second", "third", "fourth"), older, pinned=False) == "unknown"
    assert generation(account("factory", "second", "third", "fourth", remember=3), older, pinned=False) == "previous"


def test_a_pinned_password_is_called_so() -> None:
    assert generation(account("factory", "second"), HASHER.digest("second"), pinned=True) == "pinned"
    assert generation(account("factory"), HASHER.digest("factory"), pinned=False) == "factory"


def test_a_factory_reset_forgets_the_previous_password() -> None:
    client = make_client("bluefield3", password="Second-1")
    before = client.bmc.accounts.accounts[0]
    client.bmc.set_password(before.id, "Third-1", client.clock.now())
    assert client.bmc.accounts.accounts[0].previous == before.digest
    client.bmc.factory_reset("ResetAll", client.clock.now())
    assert client.bmc.accounts.accounts[0].previous == b""


@pytest.mark.parametrize(
    ("status", "keep", "after_head", "outcome"),
    [
        (200, None, False, "ok"),
        (304, None, False, "ok"),
        (401, None, False, "unauthorized"),
        (403, None, False, "forbidden"),
        (404, None, False, "missing"),
        (412, None, False, "client_error"),
        (500, None, False, "server_error"),
        (503, None, False, "unavailable"),
        (503, 0, False, "dropped"),
        (200, 0, True, "cut"),
        (200, 10, False, "cut"),
    ],
)
def test_outcomes(status: int, keep: int | None, after_head: bool, outcome: str) -> None:
    assert outcome_of(status, keep, after_head=after_head) == outcome
