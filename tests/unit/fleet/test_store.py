"""The state directory: what is refused, what is set aside, and that nothing in it is ever lost."""

import logging
import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmcsim.fleet import store as store_module
from bmcsim.fleet.store import DATABASE, StateError, Store

ROWS = {f"bmc-{n:03d}": bytes([n]) * 300 for n in range(100)}
PAGE = 4096


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A state directory that is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def filled(directory: Path) -> Path:
    """A state directory with ROWS that nobody has open."""
    with closing(Store.open(directory, "fleet-1")) as store:
        store.write(ROWS)
    return directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def sql(directory: Path, statement: str, *values: object) -> list[tuple]:
    """Do something to the database behind the store's back."""
    with closing(sqlite3.connect(directory / DATABASE, isolation_level=None)) as db:
        return db.execute(statement, values).fetchall()


def refusal(directory: Path, fleet: str = "fleet-1", **options: bool) -> str:
    """The text with which opening and reading a directory is refused."""
    with pytest.raises(StateError) as refused, closing(Store.open(directory, fleet, **options)) as store:
        list(store.rows())
    assert str(directory) in str(refused.value)
    return str(refused.value)


# rows


def test_what_was_written_is_there_after_reopening(filled: Path) -> None:
    with closing(Store.open(filled, "fleet-1")) as store:
        assert dict(store.rows()) == ROWS
        store.write({"bmc-000": b"", "bmc-001": None, "new \u00e9": b"x", "never there": None})
    with closing(Store.open(filled, "fleet-1")) as store:
        expected = {**ROWS, "bmc-000": b"", "new \u00e9": b"x"}
        del expected["bmc-001"]
        assert dict(store.rows()) == expected
        assert store.quarantined == []


def test_the_size_is_that_of_the_files(directory: Path) -> None:
    store = Store.open(directory, "fleet-1")
    before = store.size
    store.write({"a": b"x" * 100_000})
    assert store.size >= before + 100_000
    assert store.size == sum((directory / name).stat().st_size for name in ("state.sqlite", "state.sqlite-wal"))
    store.close()
    for name in ("state.sqlite", "state.sqlite-wal"):
        (directory / name).unlink(missing_ok=True)
    assert store.size == 0


def test_the_key_is_made_once(directory: Path, tmp_path: Path) -> None:
    with closing(Store.open(directory, "f")) as store:
        key = store.key
    assert len(key) == 32
    with closing(Store.open(directory, "f")) as store:
        assert store.key == key
    with closing(Store.open(tmp_path / "other", "f")) as other:
        assert other.key != key


def test_rows_can_be_changed_while_they_are_read(filled: Path) -> None:
    with closing(Store.open(filled, "fleet-1", quarantine=True)) as store:
        read = []
        for id_, _ in store.rows():
            read.append(id_)
            store.set_aside(id_, "is not wanted")
        assert read == store.quarantined == list(ROWS)
        assert dict(store.rows()) == {}


@pytest.mark.parametrize(("full", "level"), [(False, 1), (True, 2)])
def test_durability(directory: Path, full: bool, level: int) -> None:
    with closing(Store.open(directory, "f", full_sync=full)) as store:
        assert store._db.execute("PRAGMA synchronous").fetchone() == (level,)
        assert store._db.execute("PRAGMA journal_mode").fetchone() == (b"wal",)


def test_a_new_database_does_not_need_its_wal(directory: Path) -> None:
    with closing(Store.open(directory, "f")):
        assert (directory / DATABASE).read_bytes()[68:72] == b"BMCS"


def test_closing_twice_is_fine(directory: Path) -> None:
    store = Store.open(directory, "f")
    store.close()
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        store.write({"a": b"b"})


def test_a_write_that_breaks_off(filled: Path) -> None:
    with closing(Store.open(filled, "fleet-1")) as store:
        with pytest.raises(TypeError):
            store.write({"bmc-000": b"changed", "bmc-001": 7})  # type: ignore[dict-item]
        assert dict(store.rows()) == ROWS
        store._db.execute("BEGIN")  # as if the roll-back had failed
        store._db.execute("DELETE FROM bmc")
        store.write({"bmc-000": b"changed"})
        assert dict(store.rows()) == {**ROWS, "bmc-000": b"changed"}


# the directory


def test_modes_whatever_the_umask(directory: Path) -> None:
    before = os.umask(0)
    try:
        with closing(Store.open(directory, "f")) as store:
            store.write(ROWS)
            assert mode(directory) == 0o700
            files = {path.name: mode(path) for path in directory.iterdir()}
    finally:
        os.umask(before)
    assert files == dict.fromkeys(("lock", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm"), 384)


def test_modes_are_put_right(filled: Path) -> None:
    filled.chmod(0o755)
    (filled / DATABASE).chmod(0o644)
    with closing(Store.open(filled, "fleet-1")) as store:
        store.write({"a": b"b"})
        assert mode(filled) == 0o700
        assert {mode(path) for path in filled.glob(f"{DATABASE}*")} == {0o600}


def test_a_directory_with_other_things_keeps_its_mode(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "something").touch()
    tmp_path.chmod(0o755)
    Store.open(tmp_path, "f").close()
    assert mode(tmp_path) == 0o755
    assert "is open to other users (mode 755) and has other files" in caplog.text


def test_a_closed_directory_may_have_other_things(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.mkdir(0o700)
    (directory / "something").touch()
    Store.open(directory, "f").close()
    assert caplog.text == ""


def test_the_lock_file_names_one_process(directory: Path) -> None:
    directory.mkdir(0o700)
    (directory / "lock").write_text("1" * 20)
    with closing(Store.open(directory, "f")):
        assert (directory / "lock").read_text() == f"{os.getpid()}\n"


def test_a_sticky_directory_keeps_its_mode(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o1777)
    Store.open(directory, "f").close()
    assert mode(directory) == 0o1777


def test_a_file_is_no_directory(directory: Path) -> None:
    directory.write_text("x")
    assert "is not a directory" in refusal(directory)
    assert directory.read_text() == "x"


def test_a_directory_in_a_file(directory: Path) -> None:
    directory.write_text("x")
    assert "Not a directory" in refusal(directory / "state")


def test_a_symbolic_link_of_ones_own(directory: Path, tmp_path: Path) -> None:
    directory.symlink_to(tmp_path / "real")
    assert "which is not there" in refusal(directory)
    (tmp_path / "real").mkdir()
    Store.open(directory, "f").close()
    assert mode(tmp_path / "real") == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
@pytest.mark.parametrize("given_away", ["link", "target"])
def test_a_symbolic_link_of_somebody_else(directory: Path, tmp_path: Path, given_away: str) -> None:
    target = tmp_path / "real"
    target.mkdir()
    directory.symlink_to(target)
    os.chown(directory if given_away == "link" else target, 65532, 65532, follow_symlinks=False)
    assert "belongs to user 65532, not to 0" in refusal(directory)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("name", ["lock", DATABASE])
def test_links_in_the_directory_are_not_followed(directory: Path, tmp_path: Path, name: str) -> None:
    directory.mkdir()
    (tmp_path / "victim").write_text("x")
    (directory / name).symlink_to(tmp_path / "victim")
    assert name in refusal(directory)
    assert (tmp_path / "victim").read_text() == "x"


def test_one_process_at_a_time(filled: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from bmcsim.fleet.store import Store\n"
        "store = Store.open(Path(sys.argv[1]), 'fleet-1'); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(filled)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        assert f"is in use by process {other.pid};" in refusal(filled)
        other.kill()
    with closing(Store.open(filled, "fleet-1")) as store:
        assert f"is in use by process {os.getpid()};" in refusal(filled)
        assert dict(store.rows()) == ROWS


def test_what_was_refused_is_not_locked(filled: Path) -> None:
    refusal(filled, "fleet-2")
    with closing(Store.open(filled, "fleet-1")) as store:
        assert dict(store.rows()) == ROWS


# whose it is


def test_another_fleet(filled: Path) -> None:
    text = refusal(filled, "fleet-2", quarantine=True)
    assert "belongs to another fleet (its fingerprint is fleet-1, this one's is fleet-2)" in text


def test_another_program(directory: Path) -> None:
    directory.mkdir()
    sql(directory, "CREATE TABLE theirs (x)")
    assert "belongs to another program (application_id 0x0, not 0x424d4353)" in refusal(directory)
    sql(directory, "PRAGMA application_id = -1")
    before = (directory / DATABASE).read_bytes()
    assert "application_id 0xffffffff" in refusal(directory)
    assert (directory / DATABASE).read_bytes() == before


def test_a_newer_version(filled: Path) -> None:
    sql(filled, "PRAGMA user_version = 2")
    before = (filled / DATABASE).read_bytes()
    assert "has schema version 2, and this bmcsim knows only versions up to 1" in refusal(filled)
    assert (filled / DATABASE).read_bytes() == before


def test_an_older_version_is_migrated(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SCHEMA", 3)
    assert "cannot bring to version 3" in refusal(filled)
    monkeypatch.setitem(store_module.MIGRATIONS, 1, lambda db: db.execute("ALTER TABLE bmc ADD COLUMN extra"))
    assert "cannot bring to version 3" in refusal(filled)

    def fails(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half (x)")
        raise ZeroDivisionError

    monkeypatch.setitem(store_module.MIGRATIONS, 2, fails)
    with pytest.raises(ZeroDivisionError):
        Store.open(filled, "fleet-1")
    assert sql(filled, "SELECT count(*) FROM pragma_table_info('bmc')") == [(3,)]
    assert sql(filled, "SELECT count(*) FROM sqlite_master WHERE name = 'half'") == [(0,)]
    assert sql(filled, "PRAGMA user_version") == [(1,)]

    monkeypatch.setitem(store_module.MIGRATIONS, 2, lambda db: db.execute("UPDATE bmc SET extra = 7"))
    for _ in range(2):  # the second time there is nothing to do
        with closing(Store.open(filled, "fleet-1")) as store:
            assert dict(store.rows()) == ROWS
    assert sql(filled, "SELECT DISTINCT extra FROM bmc") == [(7,)]
    assert sql(filled, "PRAGMA user_version") == [(3,)]


# damage


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE bmc SET payload = x'00' WHERE id = 'bmc-007'",
        "UPDATE bmc SET crc = crc + 1 WHERE id = 'bmc-007'",
        "UPDATE bmc SET payload = NULL WHERE id = 'bmc-007'",
        "UPDATE bmc SET payload = 'text' WHERE id = 'bmc-007'",
        "UPDATE bmc SET crc = 'text' WHERE id = 'bmc-007'",
    ],
)
def test_a_damaged_row(filled: Path, harm: str, caplog: pytest.LogCaptureFixture) -> None:
    sql(filled, harm)
    damaged = sql(filled, "SELECT id, payload, crc FROM bmc WHERE id = 'bmc-007'")
    text = refusal(filled)
    assert "the saved state of BMC bmc-007 is damaged" in text
    assert "--quarantine" in text
    with closing(Store.open(filled, "fleet-1", quarantine=True)) as store:
        rest = {id_: payload for id_, payload in ROWS.items() if id_ != "bmc-007"}
        assert dict(store.rows()) == rest
        assert store.quarantined == ["bmc-007"]
        store.write({"bmc-007": b"afresh"})
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "bmc-007" in record.getMessage()
    assert sql(filled, "SELECT id, payload, crc FROM quarantine") == damaged
    with closing(Store.open(filled, "fleet-1")) as store:
        assert dict(store.rows()) == {**rest, "bmc-007": b"afresh"}


def test_an_id_that_is_not_text_any_more(filled: Path) -> None:
    sql(filled, "UPDATE bmc SET id = CAST(x'ff07' AS TEXT) WHERE id = 'bmc-007'")
    assert "BMC \\xff\x07 is damaged" in refusal(filled)
    with closing(Store.open(filled, "fleet-1", quarantine=True)) as store:
        assert len(dict(store.rows())) == 99
        assert len(store.quarantined) == 1
    assert sql(filled, "SELECT CAST(id AS BLOB) FROM quarantine") == [(b"\xff\x07",)]


def test_many_damaged_rows(filled: Path) -> None:
    sql(filled, "UPDATE bmc SET crc = 0")
    assert "BMC bmc-000, bmc-001, bmc-002, bmc-003, bmc-004 and 95 more is damaged" in refusal(filled)
    with closing(Store.open(filled, "fleet-1", quarantine=True)) as store:
        assert dict(store.rows()) == {}
        assert store.quarantined == list(ROWS)


def test_a_row_that_its_reader_cannot_decode(filled: Path) -> None:
    with closing(Store.open(filled, "fleet-1")) as store:
        with pytest.raises(StateError, match="the saved state of BMC bmc-003 is not JSON; --quarantine"):
            store.set_aside("bmc-003", "is not JSON")
        assert dict(store.rows()) == ROWS
    with closing(Store.open(filled, "fleet-1", quarantine=True)) as store:
        store.set_aside("bmc-003", "is not JSON")
        assert "bmc-003" not in dict(store.rows())
        assert store.quarantined == ["bmc-003"]
        with pytest.raises(StateError, match="the row of BMC unknown cannot be set aside"):
            store.set_aside("unknown", "is not JSON")
    assert sql(filled, "SELECT id, payload FROM quarantine") == [("bmc-003", ROWS["bmc-003"])]


@pytest.mark.parametrize("entry", ["key", "fleet"])
@pytest.mark.parametrize("harm", ["DELETE FROM meta", "UPDATE meta SET value = value || x'00'"])
def test_damaged_entries_of_meta(filled: Path, entry: str, harm: str) -> None:
    sql(filled, f"{harm} WHERE key = '{entry}'")
    text = refusal(filled, quarantine=True)
    assert text.isascii()  # nothing of the key is shown
    assert f"entry '{entry}' of table meta is missing or wrong" in text


def test_a_missing_table(filled: Path) -> None:
    sql(filled, "DROP TABLE bmc")
    assert "no such table: bmc; put back a copy" in refusal(filled)


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough" * 9, b"SQLite format 3\0" + b"\xff" * 900]
)
def test_not_a_database(directory: Path, content: bytes) -> None:
    directory.mkdir()
    (directory / DATABASE).write_bytes(content)
    text = refusal(directory, quarantine=True)
    assert f"{directory / DATABASE}: is damaged or not a database of bmcsim" in text
    assert "put back a copy of it, or move it" in text
    assert (directory / DATABASE).read_bytes() == content


def test_changes_for_a_database_that_is_gone(directory: Path) -> None:
    """SQLite would delete them without a word."""
    directory.mkdir()
    wal = directory / f"{DATABASE}-wal"
    wal.write_bytes(b"changes")
    assert "has changes for a state.sqlite that is empty or gone" in refusal(directory)
    assert wal.read_bytes() == b"changes"


def test_a_damaged_id_that_is_now_that_of_another_row(directory: Path) -> None:
    """Setting it aside by its id would take the other one."""
    directory.mkdir()
    content = _pristine()
    assert content.count(b"bmc-084") == 1
    (directory / DATABASE).write_bytes(content.replace(b"bmc-084", b"bmc-080"))
    assert "is damaged: its rows are not in order" in refusal(directory, quarantine=True)


def test_a_page_in_the_place_of_another(directory: Path) -> None:
    """SQLite does not notice; rows would be gone without a word."""
    directory.mkdir()
    content = bytearray(_pristine())
    here, there = (content.index(id_) // PAGE * PAGE for id_ in (b"bmc-001", b"bmc-099"))
    assert here != there
    content[here : here + PAGE] = content[there : there + PAGE]
    (directory / DATABASE).write_bytes(content)
    assert "is damaged: its rows are not in order" in refusal(directory, quarantine=True)


def test_a_page_of_meta_in_the_place_of_rows(directory: Path) -> None:
    """Its entries do not pass for BMCs."""
    directory.mkdir()
    content = bytearray(_pristine())
    here, there = (content.index(text) // PAGE * PAGE for text in (b"bmc-001", b"fleet-1"))
    content[here : here + PAGE] = content[there : there + PAGE]
    (directory / DATABASE).write_bytes(content)
    assert "the saved state of BMC fleet, key is damaged" in refusal(directory)


def test_damaged_bytes_that_sqlite_would_quote(directory: Path) -> None:
    directory.mkdir()
    (directory / DATABASE).write_bytes(_pristine().replace(b"CREATE TABLE meta", b"CREATE TABL\xff meta"))
    assert f"{directory / DATABASE}: is damaged; put back a copy" in refusal(directory)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32), harm=st.sampled_from(["cut", "bytes", "header", "zeros"]), quarantine=st.booleans())
def test_a_damaged_file_never_gives_wrong_rows(seed: int, harm: str, quarantine: bool) -> None:
    """Whatever is wrong: a StateError, or right rows, and those that are not there were set aside."""
    dice = random.Random(seed)
    content = bytearray(_pristine())
    if harm == "cut":
        del content[dice.randrange(1, len(content)) :]
    elif harm == "zeros":
        page = dice.randrange(len(content) // PAGE) * PAGE
        content[page : page + PAGE] = bytes(PAGE)
    else:
        start = dice.randrange(len(content) // PAGE) * PAGE
        for _ in range(dice.randrange(1, 9)):
            place = start + dice.randrange(64) if harm == "header" else dice.randrange(len(content))
            content[place] = dice.randrange(256)
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / DATABASE).write_bytes(content)
        try:
            with closing(Store.open(directory, "fleet-1", quarantine=quarantine)) as store:
                rows = dict(store.rows())
                assert rows.items() <= ROWS.items()
                assert len(rows) + len(store.quarantined) == len(ROWS)
                assert quarantine or not store.quarantined
        except StateError as error:
            assert name in str(error)


@cache
def _pristine() -> bytes:
    """The bytes of a database with ROWS."""
    with TemporaryDirectory() as name:
        with closing(Store.open(Path(name), "fleet-1")) as store:
            store.write(ROWS)
        return (Path(name) / DATABASE).read_bytes()


# writes that fail


def test_a_full_database(filled: Path) -> None:
    with closing(Store.open(filled, "fleet-1")) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            store.write({"bmc-000": b"changed", "bmc-001": None, "big": bytes(100_000)})
        assert dict(store.rows()) == ROWS
        store.write({"bmc-000": b"small"})
        store._db.execute("PRAGMA max_page_count = 1000000")
        store.write({"big": bytes(100_000)})
    with closing(Store.open(filled, "fleet-1")) as store:
        assert dict(store.rows()) == {**ROWS, "bmc-000": b"small", "big": bytes(100_000)}


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount")
    yield mount
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


def test_a_full_disk(tiny_disk: Path) -> None:
    directory = tiny_disk / "state"
    with closing(Store.open(directory, "f")) as store:
        store.write(ROWS)
        ballast = tiny_disk / "ballast"
        with pytest.raises(OSError, match="No space"), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        written = 0
        with pytest.raises((sqlite3.Error, OSError)) as failed:
            while written < 1000:
                store.write({f"more-{written}": bytes(5000)})
                written += 1
        assert "x00" not in str(failed.value)
        assert dict(store.rows()) == {**ROWS, **{f"more-{n}": bytes(5000) for n in range(written)}}
        with pytest.raises((sqlite3.Error, OSError)):
            store.write({"bmc-000": bytes(50_000)})
        ballast.unlink()
        store.write({"bmc-000": b"after"})
    with closing(Store.open(directory, "f")) as store:
        assert dict(store.rows()) == {**ROWS, **{f"more-{n}": bytes(5000) for n in range(written)}, "bmc-000": b"after"}


def test_opening_on_a_full_disk(tiny_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"), (tiny_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    refusal(tiny_disk / "state")
    (tiny_disk / "ballast").unlink()
    Store.open(tiny_disk / "state", "f").close()


@pytest.mark.parametrize("harm", ["move", "delete"])
def test_a_directory_that_goes_away(filled: Path, harm: str) -> None:
    with closing(Store.open(filled, "fleet-1")) as store:
        if harm == "move":
            filled.rename(filled.with_name("elsewhere"))
        else:
            (filled / DATABASE).unlink()
        with pytest.raises(FileNotFoundError, match=r"was moved or deleted while in use.*state\.sqlite"):
            store.write({"bmc-000": b"lost"})
