"""The statements for NICo's database, against a PostgreSQL server with tables of its shape."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bmcsim.deploy import database, ingestion
from bmcsim.edges.postgres import Postgres, PostgresError

TABLES = """
CREATE TABLE machines (id int PRIMARY KEY, created timestamptz NOT NULL, controller_state jsonb);
CREATE TABLE machine_interfaces (id int PRIMARY KEY, machine int REFERENCES machines, created timestamptz NOT NULL);
CREATE TABLE machine_interface_addresses (interface int REFERENCES machine_interfaces);
CREATE TABLE explored_endpoints (address inet); CREATE TABLE explored_managed_hosts (id int);
CREATE TABLE expected_machines (mac macaddr); CREATE TABLE racks (id text);
CREATE TABLE rack_health_history (id int); CREATE TABLE network_segments (id int); CREATE TABLE more (id int);
CREATE TABLE machine_interfaces_deletion (
  id int PRIMARY KEY DEFAULT 1 CHECK (id = 1), last_deletion timestamptz NOT NULL DEFAULT now());
INSERT INTO machines SELECT n, '2026-01-01Z'::timestamptz + n * interval '7.5 s',
  CASE WHEN n < 3 THEN NULL WHEN n % 2 = 0 THEN '{"state": "ready"}'::jsonb ELSE '{"state": "hostinit"}' END
  FROM generate_series(0, 99) n;
INSERT INTO machine_interfaces SELECT id, id, created FROM machines;
INSERT INTO machine_interface_addresses SELECT id FROM machine_interfaces;
INSERT INTO racks VALUES ('r1'); INSERT INTO rack_health_history VALUES (1);
INSERT INTO network_segments VALUES (1); INSERT INTO more VALUES (1);
"""


def binaries() -> Path | None:
    """Where a PostgreSQL server is, None for nowhere."""
    found = [Path(one).parent for one in [shutil.which("initdb")] if one]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """A server that only a socket leads to."""
    where = binaries()
    if where is None or shutil.which("psql") is None:
        pytest.skip("there is no PostgreSQL (initdb and psql)")
    # It refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    with TemporaryDirectory(dir="/tmp") as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)

        def server(*arguments: str) -> None:
            subprocess.run(arguments, user=user, cwd="/", timeout=120, check=True, stdout=subprocess.DEVNULL)

        server(f"{where}/initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        server(f"{where}/pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-o", options, "start")
        patch.setenv("PGHOST", str(folder))
        try:
            yield
        finally:
            server(f"{where}/pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")


@pytest.fixture
def nico(server: None) -> Iterator[Postgres]:
    """A fresh database with a hundred machines."""
    for statement in ("DROP DATABASE IF EXISTS nico", "CREATE DATABASE nico"):
        change("postgres", statement)
    change("nico", TABLES)
    return Postgres(name="nico", user="postgres")


def change(name: str, *statements: str, together: bool = False) -> None:
    """Carry out statements."""
    asked = database.psql(name, statements, user="postgres", together=together)
    subprocess.run(asked, timeout=60, check=True, capture_output=True)


def count(nico: Postgres, table: str) -> int:
    """How many rows a table has."""
    return int(nico.rows(f"SELECT count(*) FROM {table}")[0][0])


def test_percentiles_are_what_the_server_says(nico: Postgres) -> None:
    rows = nico.rows(database.times(database.CURVES["machines"], None))
    curve = ingestion.curve("machines", [float(row[0]) for row in rows])
    for share in (0.5, 0.9, 0.99):
        asked = f"SELECT percentile_cont({share}) WITHIN GROUP (ORDER BY extract(epoch FROM created)) - min({{}})"
        said = nico.rows(asked.format("extract(epoch FROM created)") + " FROM machines")
        assert curve.after(share) == pytest.approx(float(said[0][0]), abs=1e-3)
    minutes = nico.rows("SELECT extract(epoch FROM date_trunc('minute', created)), count(*) FROM machines GROUP BY 1")
    assert {float(start): int(number) for start, number in minutes} == {one.start: one.count for one in curve.minutes()}
    later = nico.rows(database.times("SELECT created FROM machines;", curve.times[40]))
    assert len(later) == 60


def test_states_are_counted(nico: Postgres) -> None:
    assert sorted(nico.rows(database.STATES)) == [["?", "3"], ["hostinit", "49"], ["ready", "48"]]


def test_questions_change_nothing(nico: Postgres) -> None:
    with pytest.raises(PostgresError, match="read-only transaction"):
        nico.rows("DELETE FROM more")
    with pytest.raises(PostgresError, match='relation "nowhere" does not exist'):
        nico.rows("SELECT * FROM nowhere")


def test_a_reset_empties_what_belongs_to_machines(nico: Postgres) -> None:
    assert nico.rows(database.LEFT) == [["100", "0"]]
    change("nico", *database.truncation(), together=True)
    assert nico.rows(database.LEFT) == [["0", "1"]]
    for table in ("machine_interfaces", "machine_interface_addresses", "racks", "rack_health_history"):
        assert count(nico, table) == 0, table
    assert count(nico, "network_segments") == count(nico, "more") == 1
    before = nico.rows("SELECT last_deletion FROM machine_interfaces_deletion")
    change("nico", *database.truncation(["more"]), together=True)
    assert nico.rows("SELECT last_deletion FROM machine_interfaces_deletion") > before
    assert count(nico, "more") == 0 and nico.rows(database.LEFT) == [["0", "1"]]


def test_a_reset_is_whole_or_not_at_all(nico: Postgres) -> None:
    change("nico", "DROP TABLE machine_interfaces_deletion")
    with pytest.raises(subprocess.CalledProcessError):
        change("nico", *database.truncation(), together=True)
    assert count(nico, "machines") == 100
