"""Sessions of a BMC."""

import pytest

from bmcsim.core.clock import ManualClock
from bmcsim.machine.sessions import Session, Sessions

TIMEOUT = 30.0


class Desk:
    """Sessions with a clock."""

    def __init__(self) -> None:
        self.sessions, self.clock = Sessions(), ManualClock(100.0, 2000.0)

    def open(self) -> Session:
        """A new session."""
        return self.sessions.create("root", "1", self.clock.now())

    def use(self, session: Session) -> bool:
        """Whether a session's token still opens the door."""
        return self.sessions.use(session.token, self.clock.now(), TIMEOUT) is session

    def live(self) -> list[str]:
        """The ids of the live sessions."""
        return list(self.sessions.live(self.clock.now(), TIMEOUT))


@pytest.fixture
def desk() -> Desk:
    """No session yet."""
    return Desk()


def test_a_session_remembers_whose_it_is_and_when_it_began(desk: Desk) -> None:
    session = desk.open()
    assert (session.id, session.user, session.account, session.created) == ("1", "root", "1", 2000.0)
    assert desk.use(session)


def test_tokens_are_128_bits_in_hexadecimal_and_never_alike(desk: Desk) -> None:
    tokens = [desk.open().token for _ in range(500)]
    assert len(set(tokens)) == 500
    assert all(len(token) == 32 and set(token) <= set("0123456789abcdef") for token in tokens)
    assert len({token[:4] for token in tokens}) > 400


def test_an_unknown_token_opens_nothing(desk: Desk) -> None:
    session = desk.open()
    for token in ("", session.token.upper() + "0", session.id):
        assert desk.sessions.use(token, desk.clock.now(), TIMEOUT) is None


@pytest.mark.parametrize(("idle", "alive"), [(0.0, True), (29.9, True), (30.0, True), (30.1, False)])
def test_a_session_ends_after_idle_time(desk: Desk, idle: float, alive: bool) -> None:
    session = desk.open()
    desk.clock.advance(idle)
    assert desk.use(session) == alive
    assert desk.live() == (["1"] if alive else [])


def test_use_keeps_a_session_alive(desk: Desk) -> None:
    used, unused = desk.open(), desk.open()
    for _ in range(10):
        desk.clock.advance(20)
        assert desk.use(used)
    assert not desk.use(unused)
    assert desk.live() == [used.id]


def test_looking_at_the_list_keeps_no_session_alive(desk: Desk) -> None:
    session = desk.open()
    for _ in range(3):
        desk.clock.advance(15)
        desk.live()
    assert not desk.use(session)


def test_the_list_forgets_expired_sessions_and_keeps_the_order(desk: Desk) -> None:
    first = desk.open()
    desk.clock.advance(20)
    second, third = desk.open(), desk.open()
    desk.clock.advance(20)
    assert desk.live() == [second.id, third.id]
    assert desk.sessions.use(first.token, desk.clock.now(), 1e9) is None


def test_a_deleted_session_is_gone_and_the_others_are_not(desk: Desk) -> None:
    first, second = desk.open(), desk.open()
    assert desk.sessions.delete(first.id)
    assert not desk.sessions.delete(first.id)
    assert not desk.use(first)
    assert desk.use(second)


def test_numbers_are_never_used_again(desk: Desk) -> None:
    numbers = []
    for _ in range(3):
        session = desk.open()
        numbers.append(session.id)
        desk.sessions.delete(session.id)
    expired = desk.open()
    desk.clock.advance(100)
    assert desk.live() == []
    assert [*numbers, expired.id, desk.open().id] == ["1", "2", "3", "4", "5"]


def test_the_sessions_of_an_account(desk: Desk) -> None:
    first, other, second = (
        desk.sessions.create(user, id_, desk.clock.now()) for user, id_ in (("root", "1"), ("x", "2"), ("root", "1"))
    )
    assert desk.sessions.of("1") == [first, second]
    assert desk.sessions.of("2") == [other]
    assert desk.sessions.of("3") == []


def test_ids_go_on_after_all_sessions_were_ended(desk: Desk) -> None:
    sessions = [desk.open() for _ in range(3)]
    desk.sessions.clear()
    assert desk.live() == []
    assert not any(desk.use(session) for session in sessions)
    assert desk.open().id == "4"


def test_looking_for_a_session_does_not_keep_it_alive(desk: Desk) -> None:
    session = desk.open()
    desk.clock.advance(TIMEOUT)
    assert desk.sessions.find(session.token) is session
    assert desk.sessions.find("x") is None
    desk.clock.advance(1)
    assert not desk.use(session)
