"""Asks NICo's database through psql: here, or in the database's pod by `kubectl exec`."""

from collections.abc import Sequence

from bmcsim.deploy import database
from bmcsim.edges.programs import ProgramError, run


class PostgresError(Exception):
    """The database cannot be asked, or refused; the text is psql's or kubectl's."""


class Postgres:
    """A database. through: what comes before psql and its arguments. name, user: of the database, '' for what the
    environment says. timeout: of one question, seconds."""

    def __init__(self, through: Sequence[str] = (), name: str = "", user: str = "", timeout: float = 60.0) -> None:
        self._through, self._name, self._user, self._timeout = through, name, user, timeout

    def rows(self, query: str) -> list[list[str]]:
        """The rows of a query. Raises PostgresError."""
        asked = database.psql(self._name, database.reading(query), user=self._user)
        said = _said([*self._through, *asked], self._timeout)
        return [line.split("\t") for line in said.splitlines() if line]


def in_pod(flags: Sequence[str], namespace: str, selector: str, container: str, name: str, timeout: float) -> Postgres:
    """The database of a pod. flags: of kubectl. selector: labels of the pod. Raises PostgresError."""
    found = _said(
        [
            "kubectl", *flags, "get", "pods", "-n", namespace, "-l", selector,
            "--field-selector=status.phase=Running", "-o", "name",
        ],
        timeout,
    ).split()  # fmt: skip
    if not found:
        raise PostgresError(
            f"no pod that runs in namespace {namespace} has the labels {selector}: --postgres-selector names others,"
            " such as cnpg.io/instanceRole=primary for CloudNativePG"
        )
    through = ["kubectl", *flags, "exec", "-n", namespace, found[0], "-c", container, "--"]
    return Postgres(through, name, "postgres", timeout)


def _said(arguments: Sequence[str], timeout: float) -> str:
    try:
        done = run(arguments, timeout)
    except ProgramError as error:
        raise PostgresError(str(error)) from error
    if done.code != 0:
        raise PostgresError(done.err.strip()[-1000:] or f"{arguments[0]}: {done.why}")
    return done.out.decode(errors="replace")
