"""Sessions of a BMC (DSP0266 13.3.4): kept alive by use, ended by idle time, deletion or a BMC reset."""

import secrets

import msgspec

from bmcsim.core.clock import Moment


class Session(msgspec.Struct, gc=False):
    """One session. last_use: monotonic seconds. created: seconds since the epoch."""

    id: str
    user: str
    account: str
    token: str
    created: float
    last_use: float


class Sessions:
    """The sessions of one BMC. Expired ones are forgotten whenever somebody looks."""

    __slots__ = ("_by_id", "_by_token", "_number")

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        self._by_token: dict[str, Session] = {}
        self._number = 0

    def create(self, user: str, account: str, moment: Moment) -> Session:
        """A new session with a token of 128 random bits, as 32 hexadecimal digits."""
        self._number += 1
        session = Session(str(self._number), user, account, secrets.token_hex(16), moment.wall, moment.mono)
        self._by_id[session.id] = self._by_token[session.token] = session
        return session

    def use(self, token: str, moment: Moment, timeout: float) -> Session | None:
        """The live session of a token, kept alive by this use."""
        session = self._by_token.get(token)
        if session is None:
            return None
        if moment.mono - session.last_use > timeout:
            self.delete(session.id)
            return None
        session.last_use = moment.mono
        return session

    def copy(self) -> "Sessions":
        """The sessions as they are; the copy does not change with these."""
        same = Sessions()
        same._by_id, same._by_token, same._number = dict(self._by_id), dict(self._by_token), self._number
        return same

    def live(self, moment: Moment, timeout: float) -> dict[str, Session]:
        """Id -> session, in the order of creation, without expired ones."""
        for session in [one for one in self._by_id.values() if moment.mono - one.last_use > timeout]:
            self.delete(session.id)
        return self._by_id

    def find(self, token: str) -> Session | None:
        """The session of a token, which this does not keep alive."""
        return self._by_token.get(token)

    def of(self, account: str) -> list[Session]:
        """The sessions of one account."""
        return [session for session in self._by_id.values() if session.account == account]

    def accounts(self) -> set[str]:
        """Ids of the accounts that have one."""
        return {session.account for session in self._by_id.values()}

    def delete(self, id_: str) -> bool:
        """End a session; False when there is none."""
        session = self._by_id.pop(id_, None)
        if session is None:
            return False
        del self._by_token[session.token]
        return True

    def clear(self) -> None:
        """End all sessions; their ids are not used again."""
        self._by_id, self._by_token = {}, {}
