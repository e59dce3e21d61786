"""NICo's database as the tools ask it: statements, and how psql is told them. Nothing here runs."""

import re
from collections.abc import Mapping, Sequence

DATABASE = "nico_system_nico"
NAMESPACE = "postgres"
PRIMARY = "application=spilo,spilo-role=master"
"""Labels of the pod that may be written to: Patroni's, as Zalando's operator sets them."""
CONTAINER = "postgres"

CURVES: Mapping[str, str] = {
    "machine_interfaces": "SELECT created FROM machine_interfaces",
    "machines": "SELECT created FROM machines",
}
"""Name of a curve -> a query whose first column is a time."""

STATES = "SELECT coalesce(controller_state->>'state', '?'), count(*) FROM machines GROUP BY 1"
"""A query for states and how many machines are in them."""

_READ_ONLY = "SET default_transaction_read_only = on; SET timezone = 'UTC'"
_GRAPH = ("machines", "machine_interfaces", "explored_endpoints", "explored_managed_hosts", "expected_machines")
# A NICo without racks does not have them.
_RACKS = (
    "racks",
    "switches",
    "power_shelves",
    "expected_racks",
    "expected_switches",
    "expected_power_shelves",
    "expected_rack_groups",
)
_HEALTH = "^(machines?|racks?|switch(es)?|power_shel(f|ves))_health_histor(y|ies)$"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def psql(database: str, statements: Sequence[str], *, user: str = "", together: bool = False) -> list[str]:
    """psql with its arguments: rows come as lines with tabs, and the first error ends it.

    database, user: '' for what the environment says. together: all statements or none.
    """
    command = ["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
    command += ["-U", user] if user else []
    command += ["-d", database] if database else []
    command += ["-1"] if together else []
    for statement in statements:
        command += ["-c", statement]
    return command


def reading(query: str) -> list[str]:
    """Statements that carry out a query and can change nothing."""
    return [_READ_ONLY, query]


def times(query: str, since: float | None) -> str:
    """A query for the first column of another one, a time, as seconds since the epoch."""
    inner = query.strip().rstrip(";")
    later = f" AND t.at >= to_timestamp({since:.6f})" if since is not None else ""
    return f"SELECT extract(epoch FROM t.at) FROM (\n{inner}\n) AS t(at) WHERE t.at IS NOT NULL{later}"


def truncation(more: Sequence[str] = ()) -> list[str]:
    """Statements that empty the tables of machines and racks, and of all that refers to them, as one transaction.

    more: names of further tables. Raises ValueError for what is no name.
    """
    for name in more:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a table")
    wanted = ", ".join([f"'{name}'" for name in (*_GRAPH, *_RACKS, *more)])
    return [
        "DO $$ DECLARE found text; BEGIN"
        " SELECT string_agg(format('%I', tablename), ', ') INTO found FROM pg_tables WHERE schemaname = 'public'"
        f" AND (tablename IN ({wanted}) OR tablename ~ '{_HEALTH}');"
        " EXECUTE 'TRUNCATE ' || found || ' RESTART IDENTITY CASCADE'; END $$",
        # The view of all leases joins this row: without it no BMC gets an address.
        "INSERT INTO machine_interfaces_deletion (id, last_deletion) VALUES (1, now())"
        " ON CONFLICT (id) DO UPDATE SET last_deletion = now()",
    ]


LEFT = "SELECT (SELECT count(*) FROM machines), (SELECT count(*) FROM machine_interfaces_deletion WHERE id = 1)"
"""A query for the number of machines and of control rows: 0 and 1 after a reset."""
