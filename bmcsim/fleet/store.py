"""What a fleet keeps on disk: a state directory of its own, and in it one SQLite file with a row for each BMC.

A row is an id and a payload that the store does not look into. Nothing here deletes or replaces what it cannot read.
"""

import errno
import fcntl
import logging
import os
import secrets
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

_log = logging.getLogger(__name__)

SCHEMA = 1
APPLICATION_ID = 0x424D4353
"""What the header of the file says about whose it is: "BMCS"."""

MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {}
"""Schema version -> what brings a database from it to the next one; runs inside a transaction."""

DATABASE, LOCK = "state.sqlite", "lock"
_OWN_PREFIXES = ("state.sqlite", "tls.", "lock", "lost+found")
_KEY_BYTES = 32
_BUSY_SECONDS = 5.0
_NAMED = 5

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB, crc INTEGER) WITHOUT ROWID",
    "CREATE TABLE bmc (id TEXT PRIMARY KEY, payload BLOB, crc INTEGER) WITHOUT ROWID",
    "CREATE TABLE quarantine (id TEXT, payload BLOB, crc INTEGER, at TEXT)",
)
_UPSERT = (
    "INSERT INTO bmc (id, payload, crc) VALUES (?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, crc = excluded.crc"
)
# CAST: the id of a damaged row need not be UTF-8.
_COPY_ASIDE = (
    "INSERT INTO quarantine SELECT id, payload, crc, strftime('%Y-%m-%dT%H:%M:%SZ', 'now') "
    "FROM bmc WHERE id = CAST(? AS TEXT)"
)
_DELETE_ASIDE = "DELETE FROM bmc WHERE id = CAST(? AS TEXT)"

_AFRESH = "put back a copy of it, or move it and its -wal file away to start the fleet afresh"
_HINTS = {
    sqlite3.SQLITE_BUSY: "close the program that has it open",
    sqlite3.SQLITE_FULL: "free some space on its file system",
    sqlite3.SQLITE_IOERR: "check its file system and the space on it",
    sqlite3.SQLITE_CANTOPEN: "it and its directory must be writable for this user",
    sqlite3.SQLITE_PERM: "it and its directory must be writable for this user",
    sqlite3.SQLITE_READONLY: "it and its directory must be writable for this user",
}


class StateError(Exception):
    """A state directory cannot be used; the text names the path, what is wrong and what would be right."""


class Store:
    """The rows of a fleet. Only one thread at a time may use it.

    quarantined: ids of the BMCs whose rows were set aside since it was opened.
    """

    def __init__(self, file: Path, db: sqlite3.Connection, key: bytes, quarantine: bool, opened: ExitStack) -> None:
        self._file, self._db, self._key, self._quarantine, self._opened = file, db, key, quarantine, opened
        self._inode = file.stat().st_ino
        self.quarantined: list[str] = []

    @classmethod
    def open(cls, directory: Path, fleet: str, *, full_sync: bool = False, quarantine: bool = False) -> "Store":
        """Open the state directory of a fleet, made if it is not there, and lock it until `close`. Raises StateError.

        fleet: fingerprint of the fleet; a directory serves only the one that it was made for. full_sync: every commit
        survives a power cut, not only a crash of this process. quarantine: set damaged rows aside, do not stop at them.
        """
        file = directory / DATABASE
        with ExitStack() as opened:
            try:
                _own_directory(directory)
                opened.callback(os.close, _lock(directory))
                _make_file(file)
            except OSError as error:
                what = f"{error.filename or directory}: {error.strerror}"
                raise StateError(
                    f"{directory}: cannot be used: {what}; name a directory where this user can make and write files"
                ) from error
            with _explained(file):
                db = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
                db.text_factory = bytes  # damaged text need not be UTF-8, and the error for that would quote it
                opened.callback(db.close)
                key = _prepare(db, file, fleet, full_sync)
            return cls(file, db, key, quarantine, opened.pop_all())

    @property
    def size(self) -> int:
        """Bytes of the database and of what is not merged into it yet."""
        found = 0
        for file in (self._file, self._file.with_name(f"{self._file.name}-wal")):
            with suppress(OSError):
                found += file.stat().st_size
        return found

    @property
    def key(self) -> bytes:
        """32 random bytes, made with the directory: the HMAC key of the passwords."""
        return self._key

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Id and payload of every BMC that has a row. All rows are checked before the first is given out.

        Raises StateError for a damaged row, unless it may be set aside, and for a damaged file.
        """
        # All at once: set_aside must not change the table under a cursor, and a cursor that finds its place again by
        # a damaged id would skip rows.
        with _explained(self._file):
            found = self._db.execute("SELECT id, payload, crc FROM bmc ORDER BY id").fetchall()
        whole = [(id_, payload) for id_, payload, crc in found if _is_whole(id_, payload, crc)]
        damaged = [id_ for id_, payload, crc in found if not _is_whole(id_, payload, crc)]
        names = {id_ for id_, _ in whole}
        if any(id_ >= following for (id_, _), (following, _) in pairwise(whole)) or not names.isdisjoint(damaged):
            # A page in the place of another, so that rows are gone; or a damaged id that is now that of another row.
            raise StateError(f"{self._file}: is damaged: its rows are not in order; {_AFRESH}")
        del found, names
        if damaged:
            self._set_aside(damaged, "is damaged (its checksum differs)")
        for id_, payload in whole:
            yield id_.decode(), payload

    def set_aside(self, id_: str, why: str) -> None:
        """Move a row that its reader cannot decode into quarantine. Raises StateError where that is not wanted.

        why: completes the sentence "the saved state of BMC x ...".
        """
        self._set_aside([id_.encode()], why)

    def write(self, rows: Mapping[str, bytes | None]) -> None:
        """Write rows in one transaction: id -> payload, None to delete it.

        Raises sqlite3.Error or OSError; then nothing of it was written, and the store can still be used.
        """
        self._check_in_place()
        with _transaction(self._db):
            self._db.executemany(
                _UPSERT,
                ((id_, payload, _crc(id_.encode(), payload)) for id_, payload in rows.items() if payload is not None),
            )
            self._db.executemany(
                "DELETE FROM bmc WHERE id = ?", ((id_,) for id_, payload in rows.items() if payload is None)
            )

    def close(self) -> None:
        """Close the database and give the directory free. Again: nothing happens."""
        self._opened.close()

    def _set_aside(self, ids: Sequence[bytes], why: str) -> None:
        """Move rows into table quarantine in one transaction; ids: as they are stored."""
        names = [id_.decode("utf-8", "backslashreplace") for id_ in ids]
        shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        if not self._quarantine:
            raise StateError(
                f"{self._file}: the saved state of BMC {shown} {why}; --quarantine sets it aside and lets the BMC "
                "start afresh"
            )
        with _explained(self._file), _transaction(self._db):
            for id_, name in zip(ids, names, strict=True):
                moved = [self._db.execute(statement, (id_,)).rowcount for statement in (_COPY_ASIDE, _DELETE_ASIDE)]
                if moved != [1, 1]:
                    raise StateError(f"{self._file}: the row of BMC {name} cannot be set aside; {_AFRESH}")
        self.quarantined += names
        _log.warning(
            "%s: the saved state of BMC %s %s; it was set aside in table quarantine", self._file, ", ".join(names), why
        )

    def _check_in_place(self) -> None:
        """Raise OSError when the file was moved or deleted: SQLite would go on writing into what nobody finds again."""
        try:
            there = self._file.stat().st_ino == self._inode
        except FileNotFoundError:
            there = False
        if not there:
            raise FileNotFoundError(errno.ENOENT, "was moved or deleted while in use; start again", str(self._file))


# the directory


def _own_directory(directory: Path) -> None:
    """Make the directory, or check it and close it to other users. Raises StateError, OSError."""
    me = os.geteuid()
    if directory.is_symlink():
        target = directory.resolve()
        if not target.exists():
            raise StateError(
                f"{directory}: is a symbolic link to {target}, which is not there; make it, or remove the link"
            )
        for path, owner, trusted in (
            (directory, directory.lstat().st_uid, {me, 0}),
            (target, target.stat().st_uid, {me}),
        ):
            if owner not in trusted:
                raise StateError(
                    f"{directory}: is a symbolic link to {target}, and {path} belongs to user {owner}, not to {me} "
                    "who runs this; name a directory of your own"
                )
    if directory.exists() and not directory.is_dir():
        raise StateError(f"{directory}: is not a directory; name one, or a path where one can be made")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = directory.stat()
    if not info.st_mode & 0o077:
        return
    # What is not ours alone keeps its mode: "--state-dir /tmp" as root must not lock everyone out of /tmp.
    shared = any(not entry.name.startswith(_OWN_PREFIXES) for entry in directory.iterdir())
    if info.st_uid == me and not info.st_mode & stat.S_ISVTX and not shared:
        directory.chmod(0o700)
        return
    _log.warning(
        "%s: is open to other users (mode %03o) and %s, so its mode was left; a directory for bmcsim alone is better",
        directory,
        stat.S_IMODE(info.st_mode),
        "has other files" if info.st_uid == me else f"belongs to user {info.st_uid}",
    )


def _lock(directory: Path) -> int:
    """The descriptor that holds the lock of a directory. Raises StateError when a process has it, OSError."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            raise StateError(
                f"{directory}: is in use by process {pid}; stop that one, or name another state directory"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _make_file(file: Path) -> None:
    """Make an empty database where there is none, so that SQLite cannot make it readable for others."""
    # Opened for nothing but this, and closed before SQLite opens it: a later close would drop SQLite's own locks.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))
    wal = _beside(file, "-wal")
    if file.stat().st_size == 0 and wal.exists() and wal.stat().st_size > 0:
        # SQLite would delete it.
        raise StateError(f"{wal}: has changes for a {file.name} that is empty or gone; {_AFRESH}")


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


# the database


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Turn an sqlite3.Error into a StateError about a database file."""
    try:
        yield
    except UnicodeDecodeError:  # raised in place of an sqlite3.Error whose text quotes damaged bytes
        raise StateError(f"{file}: is damaged; {_AFRESH}") from None
    except sqlite3.Error as error:
        hint = _HINTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if hint is None:
            raise StateError(f"{file}: is damaged or not a database of bmcsim: {error}; {_AFRESH}") from error
        raise StateError(f"{file}: cannot be used: {error}; {hint}") from error


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does, or nothing of it."""
    if db.in_transaction:  # an earlier roll-back failed
        db.execute("ROLLBACK")
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            if db.in_transaction:  # some errors have rolled it back already
                db.execute("ROLLBACK")
        raise


def _prepare(db: sqlite3.Connection, file: Path, fleet: str, full_sync: bool) -> bytes:
    """Make a connection and its database ready for a fleet; the fleet's key. Raises StateError, sqlite3.Error."""
    application, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    is_new = application == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    if not is_new:
        if application != APPLICATION_ID:
            raise StateError(
                f"{file}: belongs to another program (application_id {application & 0xFFFFFFFF:#x}, not "
                f"{APPLICATION_ID:#x}); name another state directory"
            )
        if version > SCHEMA:
            raise StateError(
                f"{file}: has schema version {version}, and this bmcsim knows only versions up to {SCHEMA}; "
                "use the bmcsim that wrote it"
            )
    for path in (file, _beside(file, "-wal"), _beside(file, "-shm")):
        if path.exists() and path.stat().st_mode & 0o077:
            path.chmod(0o600)
    db.execute("PRAGMA cell_size_check = ON")
    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != b"wal":
        raise StateError(f"{file}: its file system cannot do SQLite's WAL; name a directory on a local file system")
    db.execute(f"PRAGMA synchronous = {'FULL' if full_sync else 'NORMAL'}")
    if is_new:
        _create(db, fleet)
    elif version < SCHEMA:
        _migrate(db, file, version)
    if is_new or version < SCHEMA:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return _identity(db, file, fleet)


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _create(db: sqlite3.Connection, fleet: str) -> None:
    """Fill an empty database."""
    with _transaction(db):
        for statement in _TABLES:
            db.execute(statement)
        for name, value in (("fleet", fleet.encode()), ("key", secrets.token_bytes(_KEY_BYTES))):
            db.execute("INSERT INTO meta VALUES (?, ?, ?)", (name, value, _crc(_meta_id(name), value)))
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")


def _migrate(db: sqlite3.Connection, file: Path, version: int) -> None:
    """Bring an older database to the present schema, all steps or none."""
    step = version
    with _transaction(db):
        for step in range(version, SCHEMA):
            if step not in MIGRATIONS:
                raise StateError(
                    f"{file}: has schema version {version}, which this bmcsim cannot bring to version {SCHEMA}; "
                    "start it once with a bmcsim between the two"
                )
            MIGRATIONS[step](db)
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    _log.info("%s: brought from schema version %d to %d", file, version, SCHEMA)


def _identity(db: sqlite3.Connection, file: Path, fleet: str) -> bytes:
    """Check that a database is that of a fleet, and that it is sound; the fleet's key."""
    if (verdict := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != b"ok":
        raise StateError(f"{file}: is damaged: {verdict.decode()}; {_AFRESH}")
    values: dict[str, bytes] = {}
    for name in ("fleet", "key"):
        row = db.execute("SELECT value, crc FROM meta WHERE key = ?", (name,)).fetchone()
        if row is None or not _is_whole(_meta_id(name), *row):
            raise StateError(f"{file}: is damaged: entry '{name}' of table meta is missing or wrong; {_AFRESH}")
        values[name] = row[0]
    if values["fleet"] != fleet.encode():
        raise StateError(
            f"{file}: belongs to another fleet (its fingerprint is {values['fleet'].decode()}, this one's is {fleet}); "
            "name another state directory, or start with the configuration that it was made with"
        )
    return values["key"]


def _meta_id(name: str) -> bytes:
    """What the checksum of an entry of table meta is made of, so that it does not pass for a row of table bmc."""
    return f"meta {name}".encode()


def _crc(id_: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(id_))


def _is_whole(id_: object, payload: object, crc: object) -> bool:
    """Whether a row is what was written; damage can change the types of its columns too."""
    return isinstance(id_, bytes) and isinstance(payload, bytes) and _crc(id_, payload) == crc
